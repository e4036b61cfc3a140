/* SPDX-License-Identifier: Apache-2.0 */

/* Preloaded into Node: makes one allocation of glovebox.node fail. The
 * environment variable FAIL_MALLOC names a file of two native ints: how many
 * allocations from now on succeed (-1: all), and how many have failed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);

static struct {
  _Atomic int left;
  _Atomic int failed;
} * control;
static uintptr_t first, last; /* where the addon lies */

__attribute__((constructor)) static void begin(void) {
  const char* path = getenv("FAIL_MALLOC");
  if (path == NULL) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  void* map =
      mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  (void)close(fd);
  if (map != MAP_FAILED) control = map;
}

static int find_addon(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  (void)data;
  const char* name = strrchr(info->dlpi_name, '/');
  if (name == NULL || strcmp(name, "/glovebox.node") != 0) return 0;
  first = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (at < first) first = at;
    if (at + info->dlpi_phdr[i].p_memsz > last)
      last = at + info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

static bool must_fail(void* caller) {
  if (control == NULL || control->left < 0) return false;
  if (last == 0) (void)dl_iterate_phdr(find_addon, NULL);
  if ((uintptr_t)caller < first || (uintptr_t)caller >= last) return false;
  if (control->left-- != 0) return false;
  control->failed++;
  errno = ENOMEM;
  return true;
}

void* malloc(size_t size) {
  if (must_fail(__builtin_return_address(0))) return NULL;
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  if (must_fail(__builtin_return_address(0))) return NULL;
  return __libc_calloc(count, size);
}

void* realloc(void* old, size_t size) {
  if (must_fail(__builtin_return_address(0))) return NULL;
  return __libc_realloc(old, size);
}

char* strdup(const char* text) {
  size_t size = strlen(text) + 1;
  if (must_fail(__builtin_return_address(0))) return NULL;
  char* copy = __libc_malloc(size);
  return copy == NULL ? NULL : memcpy(copy, text, size);
}

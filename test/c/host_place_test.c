/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/common/host_place.c src/common/fd.c libs: */

#include "common/host_place.h"

#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "tap.h"

/* Joined by "|". On the heap, for what looks beyond the end. */
static void test_layers(const char* given, const char* expected) {
  cleanup_free char* copy = strdup(given);
  char path[PATH_MAX], all[2 * PATH_MAX] = "";
  for (char* options = copy; gbx_next_layer(&options, path);) {
    if (all[0] != '\0') strcat(all, "|");
    strcat(all, path);
  }
  ok(strcmp(all, expected) == 0, "layers of %.60s: %.80s", given, all);
}

static void test_long_layers(void) {
  char options[3 * PATH_MAX] = "rw,lowerdir=/";
  memset(options + strlen(options), 'x', PATH_MAX);
  strcat(options, ":/b");
  test_layers(options, "/b"); /* nothing can be opened by such a path */
}

/* The mounts of this process are what a real kernel writes. */
static void test_mounts(void) {
  static struct gbx_mount_list list;
  struct gbx_mount_line line;
  int count = 0, result, known = 0;
  if (gbx_mount_list_open(&list) < 0) {
    skip("no /proc");
    return;
  }
  while ((result = gbx_mount_list_next(&list, &line)) == 1) {
    count++;
    known += strncmp(line.options, "ro", 2) == 0 ||
             strncmp(line.options, "rw", 2) == 0;
  }
  gbx_mount_list_close(&list);
  ok(result == 0 && count > 0 && known == count,
     "%d of %d mounts begin their options with ro or rw", known, count);
}

int main(void) {
  test_layers("rw", "");
  test_layers("", "");
  test_layers("rw,lowerdir=/a", "/a");
  test_layers("ro,relatime,lowerdir=/a:/b,upperdir=/u,workdir=/w,xino=off",
              "/a|/b|/u");
  test_layers("rw,lowerdir+=/a,lowerdir+=/b,datadir+=/d,nfs_export=on",
              "/a|/b|/d");
  test_layers("rw,lowerdir=/a::/data,upperdir=/u", "/a|/data|/u");
  test_layers("rw,lowerdir=/a\\134:b\\054c\\040d:/e", "/a:b,c d|/e");
  test_layers("rw,lowerdir=l/A:l/B", "l/A|l/B");
  test_layers("rw,lowerdir=", "");
  test_layers("rw,lowerdir=/a:", "/a");
  test_layers("rw,lowerdir=/a\\", "/a\\");
  test_layers("rw,notlowerdir=/a,xlowerdir=/b", "");
  test_long_layers();
  test_mounts();
  return done();
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/workspace.c src/engine/workspace_files.c
 * src/engine/workspace_list.c src/engine/workspace_paths.c
 * src/engine/tree_out.c src/engine/tree_in.c src/engine/swap.c
 * src/engine/changes.c src/engine/walk.c src/engine/beneath.c
 * src/common/remove_tree.c src/common/error.c src/common/fd.c
 * src/common/host_rules.c src/common/host_place.c libs: -lpthread */

/* WS-04: a box swaps what a path leads to for a symlink to a folder of the
 * host, at full speed, while the host works on that path. */

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>

#include "engine/changes.h"
#include "engine/tree.h"
#include "engine/workspace.h"
#include "scratch.h"

enum { rounds = 2000 };

static struct gbx__workspace ws;
static int canary_fd;
static atomic_bool race_over;
static atomic_uint swap_count;

struct swap {
  const char *a, *b;
};

static void* swap(void* data) {
  const struct swap* names = data;
  while (!race_over)
    if (renameat2(ws.fd, names->a, ws.fd, names->b, RENAME_EXCHANGE) == 0)
      swap_count++;
  return NULL;
}

static struct stat canary_before;

static void open_ws(void) {
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "%s/ws", scratch_path);
  MUST(gbx__workspace_prepare(path, NULL, &ws, NULL) == 0);
  canary_fd = make_dir(scratch_fd, "canary");
  put(canary_fd, "file", "canary");
  put(canary_fd, "only-here", "canary");
  MUST(symlinkat("../canary", ws.fd, "link") == 0);
  MUST(symlinkat("../canary/file", ws.fd, "file-link") == 0);
  MUST(fstat(canary_fd, &canary_before) == 0);
  race_over = false;
  swap_count = 0;
}

static void close_ws(void) {
  struct stat st;
  MUST(fstat(canary_fd, &st) == 0);
  EXPECT(holds(canary_fd, "file", "canary"));
  EXPECT(holds(canary_fd, "only-here", "canary"));
  EXPECT(count_names(canary_fd) == 2);
  EXPECT(st.st_mode == canary_before.st_mode);
  EXPECT(st.st_uid == canary_before.st_uid);
  EXPECT(st.st_mtim.tv_sec == canary_before.st_mtim.tv_sec &&
         st.st_mtim.tv_nsec == canary_before.st_mtim.tv_nsec);
  EXPECT(st.st_ctim.tv_sec == canary_before.st_ctim.tv_sec &&
         st.st_ctim.tv_nsec == canary_before.st_ctim.tv_nsec);
  gbx__workspace_done(&ws);
  MUST(gbx_remove_tree(scratch_fd, "ws", NULL) == 0);
  MUST(gbx_remove_tree(scratch_fd, "canary", NULL) == 0);
  MUST(close(canary_fd) == 0);
}

/* Whether the plain way, a look and then an open by path, meets the canary. */
static bool naive_read_hits(const char* path) {
  struct stat st;
  if (fstatat(ws.fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0) return false;
  int fd = openat(ws.fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  char bytes[16] = "";
  if (fd < 0) return false;
  bool hit = read(fd, bytes, 15) > 0 && strcmp(bytes, "canary") == 0;
  MUST(close(fd) == 0);
  return hit;
}

static void read_once(const char* path, unsigned* good) {
  uint8_t* bytes;
  size_t size;
  if (gbx__workspace_read(&ws, path, 100, &bytes, &size, NULL) < 0) return;
  EXPECT(size == 3 && memcmp(bytes, "box", 3) == 0);
  free(bytes);
  ++*good;
}

static void list_once(const char* path, unsigned* good) {
  struct gbx__file_list list;
  if (gbx__workspace_list(&ws, path, &list, NULL) < 0) return;
  for (size_t i = 0; i < list.count; i++)
    EXPECT(strstr(list.files[i].path, "only-here") == NULL);
  gbx__file_list_done(&list);
  ++*good;
}

static void write_once(const char* path, unsigned* good) {
  if (gbx__workspace_write(&ws, path, "box", 3, NULL) == 0) ++*good;
}

/* Everything else that takes a path. What it does to the names in `d` is
 * undone.
 */
static void change_once(unsigned* good) {
  struct gbx_file_entry entry;
  if (gbx__workspace_stat(&ws, "d/only-here", &entry, NULL) == 0)
    EXPECT(!"only the canary has it");
  if (gbx__workspace_mkdir(&ws, "d/made/below", NULL) == 0) ++*good;
  if (gbx__workspace_rename(&ws, "d/file", "d/moved", NULL) == 0) ++*good;
  if (gbx__workspace_rename(&ws, "d/moved", "d/file", NULL) == 0) ++*good;
  if (gbx__workspace_remove_entry(&ws, "d/made", true, NULL) == 0) ++*good;
  (void)gbx__workspace_remove_entry(&ws, "d/only-here", true, NULL);
}

/* A snapshot's walk. */
static void pack_once(unsigned* good) {
  static uint8_t bytes[64 << 10];
  const struct gbx__tree_out_options options = {.contents = true};
  struct gbx__tree_out* tree;
  size_t size;
  if (gbx__tree_out_new(&ws, "", &options, &tree, NULL) < 0) return;
  while (gbx__tree_out_read(tree, bytes, sizeof bytes, &size, NULL) == 0 &&
         size > 0) {
    EXPECT(memmem(bytes, size, "only-here", 9) == NULL);
    ++*good;
  }
  gbx__tree_out_free(tree);
}

static void scan_once(void) {
  struct gbx__index* index;
  struct gbx_changed_file* files;
  size_t count;
  struct gbx__index* empty;
  int fd = make_dir(scratch_fd, "empty");
  const struct gbx__workspace none = {.fd = fd};
  MUST(gbx__index_scan(&none, &empty, NULL) == 0);
  EXPECT(gbx__index_scan(&ws, &index, NULL) == 0);
  EXPECT(gbx__index_diff(empty, index, &files, &count, NULL) == 0);
  for (size_t i = 0; i < count; i++)
    EXPECT(strstr(files[i].path, "only-here") == NULL);
  free(files);
  gbx__index_free(index);
  gbx__index_free(empty);
  MUST(close(fd) == 0 && unlinkat(scratch_fd, "empty", AT_REMOVEDIR) == 0);
}

static void test_folder(void) {
  open_ws();
  MUST(mkdirat(ws.fd, "d", 0755) == 0);
  put(ws.fd, "d/file", "box");
  struct swap names = {"d", "link"};
  pthread_t thread;
  MUST(pthread_create(&thread, NULL, swap, &names) == 0);
  unsigned reads = 0, writes = 0, lists = 0, naive_hits = 0;
  for (int i = 0; i < rounds; i++) {
    char path[64];
    read_once("d/file", &reads);
    write_once("d/file", &writes);
    (void)snprintf(path, sizeof path, "d/new-%d/below/file", i % 10);
    write_once(path, &writes);
    list_once("d", &lists);
    list_once("", &lists);
    if (i % 10 == 0) {
      change_once(&writes);
      pack_once(&lists);
      scan_once();
    }
    if (naive_read_hits("d/file")) naive_hits++;
  }
  race_over = true;
  MUST(pthread_join(thread, NULL) == 0);
  printf(
      "# %u swaps; %u reads, %u writes, %u lists went well; a plain read "
      "met the canary %u times\n",
      swap_count, reads, writes, lists, naive_hits);
  EXPECT(swap_count > 0 && naive_hits > 0);
  close_ws();
}

static void test_file(void) {
  open_ws();
  put(ws.fd, "f", "box");
  struct swap names = {"f", "file-link"};
  pthread_t thread;
  MUST(pthread_create(&thread, NULL, swap, &names) == 0);
  unsigned reads = 0, writes = 0, lists = 0, naive_hits = 0;
  for (int i = 0; i < rounds; i++) {
    read_once("f", &reads);
    if (naive_read_hits("f")) naive_hits++;
    list_once("", &lists);
    write_once("f", &writes);
    /* A write may have replaced the symlink: back to one file and one link. */
    put(ws.fd, "t", "box");
    MUST(renameat(ws.fd, "t", ws.fd, "f") == 0);
    MUST(symlinkat("../canary/file", ws.fd, "t") == 0);
    MUST(renameat(ws.fd, "t", ws.fd, "file-link") == 0);
  }
  race_over = true;
  MUST(pthread_join(thread, NULL) == 0);
  printf(
      "# %u swaps; %u reads, %u writes, %u lists went well; a plain read "
      "met the canary %u times\n",
      swap_count, reads, writes, lists, naive_hits);
  EXPECT(swap_count > 0 && naive_hits > 0);
  close_ws();
}

static bool is_temporary(const char* name) {
  return strncmp(name, ".glovebox-", 10) == 0;
}

/* Puts a folder of root's in the place of whatever root makes. */
static void* swap_temporaries(void* unused) {
  (void)unused;
  DIR* dir = fdopendir(openat(ws.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  MUST(dir != NULL);
  while (!race_over) {
    rewinddir(dir);
    for (struct dirent* entry; (entry = readdir(dir)) != NULL;)
      if (is_temporary(entry->d_name) &&
          renameat2(ws.fd, entry->d_name, ws.fd, "roots", RENAME_EXCHANGE) == 0)
        swap_count++;
  }
  MUST(closedir(dir) == 0);
  return NULL;
}

/* Wherever the swaps left root's folder, it is "roots" again, and the others
 * are gone. */
static void restore_roots(ino_t roots) {
  DIR* dir = fdopendir(openat(ws.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  MUST(dir != NULL);
  for (struct dirent* entry; (entry = readdir(dir)) != NULL;) {
    const char* name = entry->d_name;
    struct stat st;
    if (strcmp(name, "new") != 0 && !is_temporary(name)) continue;
    if (fstatat(ws.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_ino == roots)
      (void)renameat2(ws.fd, name, ws.fd, "roots", RENAME_EXCHANGE);
    if (fstatat(ws.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_ino != roots && !is_temporary(name))
      (void)gbx_remove_tree(ws.fd, name, NULL);
    else
      (void)unlinkat(ws.fd, name, AT_REMOVEDIR); /* if it is empty */
  }
  MUST(closedir(dir) == 0);
}

static void test_given_folders(void) {
  if (geteuid() != 0) {
    test_skipped = "takes root";
    return;
  }
  open_ws();
  MUST(mkdirat(ws.fd, "roots", 0755) == 0);
  put(ws.fd, "roots/file", "root");
  int roots_fd = openat(ws.fd, "roots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat st;
  MUST(roots_fd >= 0 && fstat(roots_fd, &st) == 0);
  MUST(fchown(ws.fd, PLAIN_ID, PLAIN_ID) == 0);
  pthread_t thread;
  MUST(pthread_create(&thread, NULL, swap_temporaries, NULL) == 0);
  unsigned writes = 0, refusals = 0;
  for (int i = 0; i < rounds; i++) {
    struct gbx_err err = {0};
    if (gbx__workspace_write(&ws, "new/file", "box", 3, &err) == 0)
      writes++;
    else if (err.sys_errno == ESTALE)
      refusals++;
    restore_roots(st.st_ino);
  }
  race_over = true;
  MUST(pthread_join(thread, NULL) == 0);
  printf("# %u swaps, %u writes went well, %u times the folder was another\n",
         swap_count, writes, refusals);
  MUST(fstat(roots_fd, &st) == 0 && close(roots_fd) == 0);
  EXPECT(st.st_uid == 0 && swap_count > 0);
  close_ws();
}

/* Puts the symlink in the place of what a restore is about to fill. */
static void* swap_hidden(void* unused) {
  (void)unused;
  DIR* dir = fdopendir(openat(ws.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  MUST(dir != NULL);
  while (!race_over) {
    rewinddir(dir);
    for (struct dirent* entry; (entry = readdir(dir)) != NULL;) {
      char path[300];
      (void)snprintf(path, sizeof path, "%s/new/d", entry->d_name);
      if (is_temporary(entry->d_name) &&
          renameat2(ws.fd, path, ws.fd, "link", RENAME_EXCHANGE) == 0)
        swap_count++;
    }
  }
  MUST(closedir(dir) == 0);
  return NULL;
}

static size_t put_head(uint8_t* at, enum gbx_file_type type, const char* path,
                       uint64_t size) {
  struct gbx_tree_head head = {.type = type,
                               .mode = 0755,
                               .path_size = (uint32_t)strlen(path),
                               .size = size};
  memcpy(at, &head, sizeof head);
  memcpy(at + sizeof head, path, head.path_size);
  return sizeof head + head.path_size;
}

static void test_restore(void) {
  open_ws();
  put(ws.fd, "old", "old");
  pthread_t thread;
  MUST(pthread_create(&thread, NULL, swap_hidden, NULL) == 0);
  unsigned restored = 0, failed = 0;
  for (int i = 0; i < rounds / 10; i++) {
    uint8_t bytes[4096];
    struct gbx__tree_in* tree;
    MUST(gbx__tree_in_new(&ws, &tree, NULL) == 0);
    size_t size = put_head(bytes, GBX_FOLDER, "d", 0);
    bool good = gbx__tree_in_write(tree, bytes, size, NULL) == 0;
    for (int j = 0; good && j < 10; j++) {
      char path[64];
      (void)snprintf(path, sizeof path, "d/%d/file", j);
      size = put_head(bytes, GBX_FILE, path, 3);
      memcpy(bytes + size, "box", 3);
      good = gbx__tree_in_write(tree, bytes, size + 3, NULL) == 0;
    }
    good = gbx__tree_in_free(tree, good, NULL) == 0 && good;
    if (good)
      restored++;
    else
      failed++;
    (void)gbx_remove_tree(ws.fd, "link", NULL);
    (void)symlinkat("../canary", ws.fd, "link");
  }
  race_over = true;
  MUST(pthread_join(thread, NULL) == 0);
  printf("# %u swaps; %u restores went well, %u failed\n", swap_count, restored,
         failed);
  EXPECT(swap_count > 0);
  close_ws();
}

int main(void) {
  scratch_open();
  run_test(
      "WS-04 a folder swapped for a symlink leads neither reads, writes "
      "nor lists out",
      test_folder);
  run_test(
      "WS-04 a file swapped for a symlink leads neither reads nor writes "
      "out",
      test_file);
  run_test("WS-04 a folder put in the place of a new one is not given away",
           test_given_folders);
  run_test("WS-04 a restore is not led out of the folder that it fills",
           test_restore);
  scratch_close();
  return done();
}

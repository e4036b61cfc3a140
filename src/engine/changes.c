/* SPDX-License-Identifier: Apache-2.0 */

/* The two trees are compared folder by folder. The nodes of a folder are
 * sorted, so one pass over two folders pairs them; a pair of subfolders is
 * compared in its turn. Nothing is looked up by a name, so there is no name
 * that a box could choose to make it slow. */

#include "engine/changes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fd.h"
#include "engine/walk.h"
#include "engine/workspace.h"

#define MAX_PATH_BYTES (256u << 20)

int gbx__index_scan_with(const struct gbx__workspace* workspace,
                         const struct gbx__walk_visitor* visitor,
                         uint32_t most_entries, struct gbx__index** ret_index,
                         struct gbx_err* err) {
  struct gbx__index* index = malloc(sizeof *index);
  if (index == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "index");
  int result = gbx__walk_init_with(&index->walk, workspace->fd, visitor,
                                   most_entries, err);
  if (result < 0) {
    free(index);
    return result;
  }
  *ret_index = index;
  return 0;
}

int gbx__index_scan(const struct gbx__workspace* workspace,
                    struct gbx__index** ret_index, struct gbx_err* err) {
  return gbx__index_scan_with(workspace, NULL, 0, ret_index, err);
}

void gbx__index_free(struct gbx__index* index) {
  if (index == NULL) return;
  gbx__walk_done(&index->walk);
  free(index);
}

/* ---- Settling ------------------------------------------------------------ */

/* The clock that stamps files where they are stamped once a tick. */
static int64_t tick_clock_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME_COARSE, &now); /* cannot fail */
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t write_and_get_ctime(int fd) {
  struct stat st;
  if (pwrite(fd, "x", 1, 0) != 1 || fstat(fd, &st) < 0) return -1;
  return st.st_ctim.tv_sec * INT64_C(1000000000) + st.st_ctim.tv_nsec;
}

/* Whether the filesystem gives a file a new ctime at every change that follows
 * a look at it (Linux 6.13, most local filesystems). Tried, on a file without a
 * name. Remove once that is the floor. */
static bool has_fine_ctime(int dir_fd) {
  cleanup_fd int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  int64_t last = write_and_get_ctime(fd);
  for (int i = 0; i < 3; i++) {
    int64_t now = write_and_get_ctime(fd);
    if (now < 0 || now == last) return false;
    last = now;
  }
  return true;
}

#define LONGEST_WAIT_NS (20 * INT64_C(1000000)) /* two of the longest ticks */

bool gbx__index_is_old(const struct gbx__index* index) {
  int64_t newest_ns = index->walk.newest_ns;
  int64_t now_ns = tick_clock_ns();
  /* Later than our clock by more than a tick: another machine's clock. */
  return newest_ns < now_ns || newest_ns > now_ns + LONGEST_WAIT_NS;
}

bool gbx__index_is_settled(const struct gbx__workspace* workspace,
                           const struct gbx__index* index) {
  return gbx__index_is_old(index) || has_fine_ctime(workspace->fd);
}

void gbx__index_age(const struct gbx__index* index) {
  int64_t start_ns = tick_clock_ns();
  for (int64_t now_ns = start_ns;
       now_ns <= index->walk.newest_ns && now_ns < start_ns + LONGEST_WAIT_NS;
       now_ns = tick_clock_ns()) {
    struct timespec pause = {.tv_nsec = 500 * 1000};
    (void)nanosleep(&pause, NULL); /* cut short: the loop goes on */
  }
}

void gbx__index_settle(const struct gbx__workspace* workspace,
                       const struct gbx__index* index) {
  if (!gbx__index_is_settled(workspace, index)) gbx__index_age(index);
}

/* ---- Comparing ----------------------------------------------------------- */

/* What became of a folder of the index before. */
enum fate { GONE, PAIRED, UNKNOWN };

/* In place of the number of a folder's counterpart. */
#define NO_FOLDER      UINT32_MAX       /* the folder is new */
#define UNKNOWN_FOLDER (UINT32_MAX - 1) /* one of the two was not readable */

struct change {
  const struct gbx__walk* walk; /* that has the path */
  const struct gbx__walk_node* node;
  uint32_t folder;
  enum gbx_change kind;
};

struct diff {
  const struct gbx__walk *before, *after;
  uint8_t* fates;         /* enum fate, by folder of `before` */
  uint32_t* counterparts; /* folder of `before`, by folder of `after` */
  struct change* changes;
  size_t count, room;
  size_t path_bytes; /* of all changes, with NULs */
  bool out_of_memory;
};

static void add_change(struct diff* diff, const struct gbx__walk* walk,
                       uint32_t folder, const struct gbx__walk_node* node,
                       enum gbx_change kind) {
  if (diff->out_of_memory) return;
  if (diff->count == diff->room) {
    size_t room = diff->room == 0 ? 64 : diff->room * 2;
    struct change* grown = realloc(diff->changes, room * sizeof *grown);
    if (grown == NULL) {
      diff->out_of_memory = true;
      return;
    }
    diff->changes = grown;
    diff->room = room;
  }
  diff->changes[diff->count++] = (struct change){
      .walk = walk, .node = node, .folder = folder, .kind = kind};
  diff->path_bytes += gbx__walk_path_size(walk, folder, node) + 1;
}

static bool is_folder(const struct gbx__walk_node* node) {
  return node->folder != GBX__WALK_NO_FOLDER;
}

bool gbx__index_same_file(const struct gbx__walk_node* a,
                          const struct gbx__walk_node* b) {
  return a->inode == b->inode && a->size == b->size &&
         a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

static void see_created(struct diff* diff, uint32_t folder,
                        const struct gbx__walk_node* node) {
  if (is_folder(node))
    diff->counterparts[node->folder] = NO_FOLDER;
  else
    add_change(diff, diff->after, folder, node, GBX_CREATED);
}

/* A node that is in both. A name is never a folder's here and a file's there:
 * only one of the two would end in "/". */
static void see_pair(struct diff* diff, uint32_t folder,
                     const struct gbx__walk_node* before,
                     const struct gbx__walk_node* after) {
  if (is_folder(after)) {
    diff->counterparts[after->folder] = before->folder;
    diff->fates[before->folder] = PAIRED;
  } else if (!gbx__index_same_file(before, after)) {
    add_change(diff, diff->after, folder, after, GBX_MODIFIED);
  }
}

/* Folders that only `before` has are left with the fate GONE. */
static void see_deleted(struct diff* diff, uint32_t folder,
                        const struct gbx__walk_node* node) {
  if (!is_folder(node))
    add_change(diff, diff->before, folder, node, GBX_DELETED);
}

static void compare_folders(struct diff* diff, uint32_t before_folder,
                            uint32_t after_folder) {
  const struct gbx__walk_folder* before = &diff->before->folders[before_folder];
  const struct gbx__walk_folder* after = &diff->after->folders[after_folder];
  const struct gbx__walk_node* b = diff->before->nodes + before->first;
  const struct gbx__walk_node* a = diff->after->nodes + after->first;
  const struct gbx__walk_node* b_end = b + before->count;
  const struct gbx__walk_node* a_end = a + after->count;
  while (b < b_end || a < a_end) {
    int order = b == b_end   ? 1
                : a == a_end ? -1
                             : strcmp(gbx__walk_name(diff->before, b),
                                      gbx__walk_name(diff->after, a));
    if (order < 0)
      see_deleted(diff, before_folder, b++);
    else if (order > 0)
      see_created(diff, after_folder, a++);
    else
      see_pair(diff, after_folder, b++, a++);
  }
}

static void see_after_folder(struct diff* diff, uint32_t number) {
  const struct gbx__walk_folder* folder = &diff->after->folders[number];
  const struct gbx__walk_node* nodes = diff->after->nodes + folder->first;
  uint32_t counterpart = diff->counterparts[number];
  if (counterpart == NO_FOLDER) {
    for (uint32_t i = 0; i < folder->count; i++)
      see_created(diff, number, &nodes[i]);
    return;
  }
  if (counterpart != UNKNOWN_FOLDER) {
    if (!folder->unreadable && !diff->before->folders[counterpart].unreadable) {
      compare_folders(diff, counterpart, number);
      return;
    }
    diff->fates[counterpart] = UNKNOWN;
  }
  for (uint32_t i = 0; i < folder->count; i++)
    if (is_folder(&nodes[i]))
      diff->counterparts[nodes[i].folder] = UNKNOWN_FOLDER;
}

/* Parents come before their folders, so their fate is known. */
static void see_before_folder(struct diff* diff, uint32_t number) {
  const struct gbx__walk_folder* folder = &diff->before->folders[number];
  if (diff->fates[folder->parent] == UNKNOWN) diff->fates[number] = UNKNOWN;
  if (diff->fates[number] != GONE) return;
  for (uint32_t i = 0; i < folder->count; i++)
    see_deleted(diff, number, &diff->before->nodes[folder->first + i]);
}

static int compare_changed_files(const void* a, const void* b) {
  const struct gbx_changed_file* file_a = a;
  const struct gbx_changed_file* file_b = b;
  return strcmp(file_a->path, file_b->path);
}

/* Makes what the caller gets of the changes. */
static int take_files(const struct diff* diff,
                      struct gbx_changed_file** ret_files,
                      struct gbx_err* err) {
  if (diff->path_bytes > MAX_PATH_BYTES)
    return gbx_fail(err, GBX_E_TOO_LARGE, E2BIG, "changed files",
                    "%zu files with %zu bytes of paths", diff->count,
                    diff->path_bytes);
  struct gbx_changed_file* files =
      malloc(diff->count * sizeof *files + diff->path_bytes);
  if (files == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "changed files");
  char* path = (char*)(files + diff->count);
  for (size_t i = 0; i < diff->count; i++) {
    const struct change* change = &diff->changes[i];
    files[i] = (struct gbx_changed_file){
        .path = path,
        .size = change->kind == GBX_DELETED ? 0 : change->node->size,
        .change = change->kind};
    gbx__walk_path(change->walk, change->folder, change->node, path);
    path += strlen(path) + 1;
  }
  qsort(files, diff->count, sizeof *files, compare_changed_files);
  *ret_files = files;
  return 0;
}

int gbx__index_diff(const struct gbx__index* before,
                    const struct gbx__index* after,
                    struct gbx_changed_file** ret_files, size_t* ret_count,
                    struct gbx_err* err) {
  struct diff diff = {.before = &before->walk, .after = &after->walk};
  cleanup_free uint8_t* fates = calloc(diff.before->folder_count, 1);
  cleanup_free uint32_t* counterparts =
      calloc(diff.after->folder_count, sizeof *counterparts);
  if (fates == NULL || counterparts == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "changed files");
  diff.fates = fates;
  diff.counterparts = counterparts;

  fates[0] = PAIRED; /* the workspace is the workspace; counterparts[0] is 0 */
  for (uint32_t i = 0; i < diff.after->folder_count; i++)
    see_after_folder(&diff, i);
  for (uint32_t i = 0; i < diff.before->folder_count; i++)
    see_before_folder(&diff, i);

  cleanup_free struct change* changes = diff.changes;
  if (diff.out_of_memory)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "realloc", "changed files");
  struct gbx_changed_file* files = NULL;
  if (diff.count > 0) {
    int result = take_files(&diff, &files, err);
    if (result < 0) return result;
  }
  *ret_files = files;
  *ret_count = diff.count;
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_HOST_PLACE_H_
#define SRC_COMMON_HOST_PLACE_H_

/* Where an open file lies, so that two can be compared whatever mounts and
 * links lead to them. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deeper folders are not judged: -ELOOP. */
#define GBX_PLACE_DEPTH 1024

struct gbx_place_step {
  uint64_t dev, ino;
  const char* name; /* up to the next "/"; points into `path` */
};

struct gbx_place {
  char path[PATH_MAX]; /* absolute, as this process sees it; or "" */
  /* The file, the folder that it is in, and so on up to "/". */
  struct gbx_place_step steps[GBX_PLACE_DEPTH];
  size_t count;
  uint64_t mount;        /* the mount's id */
  unsigned major, minor; /* of the file system */
  char inside[PATH_MAX]; /* the path in that file system */
};

/* Returns 0, or a negative errno: -ESTALE if it was moved meanwhile or has no
 * name. What it will be compared with may be given as `beside`: on the same
 * mount no path is needed, and none is looked for. */
int gbx_place_find(int fd, const struct gbx_place* beside,
                   struct gbx_place* ret_place);

/* Whether `inner` is `outer` or lies in it. *ret_step, which may be NULL, is
 * then the step of `inner` that is `outer`, or inner->count where only the
 * file system's own paths tell. */
bool gbx_place_is_within(const struct gbx_place* inner,
                         const struct gbx_place* outer, size_t* ret_step);

/* The mounts of this process, one after the other. */
struct gbx_mount_list {
  int fd;
  size_t used, at;
  bool is_at_end;
  char text[48 * 1024]; /* more than the longest line */
};
struct gbx_mount_line {
  uint64_t id;
  unsigned major, minor;
  char root[PATH_MAX];   /* what of the file system is mounted */
  char target[PATH_MAX]; /* where */
  char* options;         /* the file system's own; for as long as the line */
};
int gbx_mount_list_open(struct gbx_mount_list* list);
/* Returns 1, 0 at the end, or a negative errno. */
int gbx_mount_list_next(struct gbx_mount_list* list,
                        struct gbx_mount_line* ret_line);
/* Goes on to the mount with the id. Returns 0 or a negative errno, -ESTALE if
 * there is none. */
int gbx_mount_list_find(struct gbx_mount_list* list, uint64_t id,
                        struct gbx_mount_line* ret_line);
void gbx_mount_list_close(struct gbx_mount_list* list);

/* Takes from the options of an overlay the next of the folders that it shows as
 * one. Returns false if there is none. */
bool gbx_next_layer(char** options, char ret_path[PATH_MAX]);

/* Whether the path `path` is `folder`, or below it. */
bool gbx_path_is_within(const char* path, const char* folder);

#endif  // SRC_COMMON_HOST_PLACE_H_

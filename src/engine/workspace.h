/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_WORKSPACE_H_
#define SRC_ENGINE_WORKSPACE_H_

/* A session's workspace, on the host's side. What is in it is a box's and
 * hostile, and changes while we look at it. So everything in it is reached by
 * descriptor, never by a path from "/"; no symlink is followed; nothing but
 * regular files is read; and what is opened never waits (fifos, leases).
 *
 *   gbx__workspace_prepare(path, temp_dir, &workspace, &err);
 *   ... write, read, list, from any number of threads ...
 *   gbx__workspace_done(&workspace);
 *   gbx__workspace_remove(&workspace, &err);   only where it is temporary
 *
 * Every function blocks: they run on worker threads. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct gbx__workspace {
  char path[4096]; /* absolute, without symlinks */
  int fd;          /* -1: not open */
  bool temporary;  /* made by us, and removed at the end */
  uint64_t dev, ino;
  uint32_t uid, gid; /* the owner when it was prepared */
};

/* ---- The folder --------------------------------------------------------- */

/* Makes a new folder `glovebox-XXXXXX` in `temp_dir`, or with a `path` takes
 * that folder, and makes it and its parents (0755, less the umask) if missing.
 * Both are absolute.
 *
 * GBX_E_WORKSPACE refuses, with the reason in its detail, what is no folder or
 * cannot be read, written and searched, and what host_rules.h refuses. Other
 * errors: GBX_E_UNSUPPORTED (no openat2). */
int gbx__workspace_prepare(const char* path, const char* temp_dir,
                           struct gbx__workspace* ret_workspace,
                           struct gbx_err* err);

/* Gives the owner's rights on the folder back, which the owner's code may have
 * taken away from itself and us. */
void gbx__workspace_regain(const struct gbx__workspace* workspace);

/* Closes the descriptor, and keeps the rest for gbx__workspace_remove. */
void gbx__workspace_done(struct gbx__workspace* workspace);

/* Removes a temporary workspace with its content. Its boxes have ended. If
 * another folder is in its place, that one stays. Errors: GBX_E_IO. */
int gbx__workspace_remove(const struct gbx__workspace* workspace,
                          struct gbx_err* err);

/* The same where it takes a moment: next to nothing is in it, or was. False: it
 * is for gbx__workspace_remove, which also says why; some of it may be gone. */
bool gbx__workspace_remove_little(const struct gbx__workspace* workspace);

/* ---- Files in it --------------------------------------------------------- */

/* Paths are bytes, relative, without ".."; see gbx__beneath_clean. Errors of
 * all: GBX_E_PATH, also for a symlink on the way; GBX_E_NOT_FOUND;
 * GBX_E_NOT_REGULAR; GBX_E_NO_MEMORY; GBX_E_UNSUPPORTED; GBX_E_IO. */

/* Puts the bytes into a temporary file beside the target and renames it over
 * that, so that a reader sees all of it or none; makes missing parents. A file
 * that was there keeps its mode (not setuid bits), a new one is 0644 less the
 * umask. Where root writes into somebody else's workspace, what it makes is
 * theirs. */
int gbx__workspace_write(const struct gbx__workspace* workspace,
                         const char* path, const void* bytes, size_t size,
                         struct gbx_err* err);

/* *ret_bytes is for free(), and never NULL. GBX_E_TOO_LARGE: more than
 * `max_bytes`, also of a file that grows meanwhile. GBX_E_BUSY: a box holds a
 * lease on it. */
int gbx__workspace_read(const struct gbx__workspace* workspace,
                        const char* path, uint64_t max_bytes,
                        uint8_t** ret_bytes, size_t* ret_size,
                        struct gbx_err* err);

/* Opens a file for reading as gbx__workspace_read does. Returns the
 * descriptor. */
int gbx__workspace_open(const struct gbx__workspace* workspace,
                        const char* path, uint64_t* ret_size,
                        struct gbx_err* err);

/* Opens (O_PATH) the folder `path`; "" is the workspace. GBX_E_NOT_FOUND also
 * for what is no folder. */
int gbx__workspace_open_folder(const struct gbx__workspace* workspace,
                               const char* path, struct gbx_err* err);

/* What `path` names, itself: a symlink is one. ret_entry->path is `path`. */
int gbx__workspace_stat(const struct gbx__workspace* workspace,
                        const char* path, struct gbx_file_entry* ret_entry,
                        struct gbx_err* err);

/* Makes the folder and its parents; one that is there is no error. GBX_E_EXISTS
 * for what is no folder. */
int gbx__workspace_mkdir(const struct gbx__workspace* workspace,
                         const char* path, struct gbx_err* err);

/* Makes missing parents of `to`; replaces a file there. GBX_E_EXISTS for a
 * folder. */
int gbx__workspace_rename(const struct gbx__workspace* workspace,
                          const char* from, const char* to,
                          struct gbx_err* err);

/* GBX_E_NOT_REGULAR for a folder, unless `recursive`. */
int gbx__workspace_remove_entry(const struct gbx__workspace* workspace,
                                const char* path, bool recursive,
                                struct gbx_err* err);

struct gbx__file_list {
  struct gbx_file_entry* files; /* one block with all paths in it; or NULL */
  size_t count;
};

/* The regular files below the folder `path` ("": all), with their paths from
 * the workspace, sorted by strcmp. Does not go through symlinks and into mounts
 * and folders that may not be read, and leaves out the top-level ".deps", our
 * own temporary files, and paths of 4096 bytes and more. GBX_E_TOO_LARGE: more
 * than walk.h's bounds allow. */
int gbx__workspace_list(const struct gbx__workspace* workspace,
                        const char* path, struct gbx__file_list* ret_list,
                        struct gbx_err* err);

/* The same with gbx_list_flags, in the order of a walk: a folder comes before
 * what is in it. */
int gbx__workspace_list_entries(const struct gbx__workspace* workspace,
                                const char* path, unsigned flags,
                                struct gbx__file_list* ret_list,
                                struct gbx_err* err);

/* Takes an empty list. */
void gbx__file_list_done(struct gbx__file_list* list);

#endif  // SRC_ENGINE_WORKSPACE_H_

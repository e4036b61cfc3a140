/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_WATCH_H_
#define SRC_ENGINE_WATCH_H_

/* What changes below a folder of a workspace, by inotify(7): one watch for each
 * folder, made on a descriptor that was opened beneath, so that no symlink
 * leads a watch elsewhere.
 *
 * Bounded: at most GBX__WATCH_MAX_FOLDERS folders, and what is not read waits
 * in the kernel's own queue, which says when it has dropped something. Of large
 * folders that appear one read tells some MiB, and that there was more. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/workspace.h"

#define GBX__WATCH_MAX_FOLDERS 8192u

struct gbx__watch;

/* GBX_E_PATH, GBX_E_NOT_FOUND, GBX_E_TOO_LARGE, GBX_E_IO (with op "inotify": a
 * limit of the kernel's). */
int gbx__watch_new(const struct gbx__workspace* workspace, const char* path,
                   struct gbx__watch** ret_watch, struct gbx_err* err);
/* Readable when there is something to read. Borrowed. */
int gbx__watch_fd(const struct gbx__watch* watch);
/* Does not wait. *ret_bytes is for free(); *ret_size is 0 if there was nothing
 * to tell. *ret_ended: the folder is gone or moved, no more will come. */
int gbx__watch_read(struct gbx__watch* watch, uint8_t** ret_bytes,
                    size_t* ret_size, bool* ret_ended, struct gbx_err* err);
/* Takes NULL. */
void gbx__watch_free(struct gbx__watch* watch);

#endif  // SRC_ENGINE_WATCH_H_

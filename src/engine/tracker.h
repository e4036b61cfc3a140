/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_TRACKER_H_
#define SRC_ENGINE_TRACKER_H_

/* What a call changed, found without a look at every file: the list of files is
 * kept from call to call, and inotify(7) says which names to look at again.
 *
 *   gbx__tracker_new(&budget);
 *   gbx__tracker_begin(tracker, &workspace, &err);
 *   ... the call ...
 *   gbx__tracker_end(tracker, &workspace, alone, &files, &count, &err);
 *   ... begin and end again; or begin again, if the call came to nothing ...
 *   gbx__tracker_free(tracker);
 *
 * The events say where to look, never what is there. Whenever they may not have
 * told all, the whole tree is walked instead: docs/decisions/0014. All of it
 * blocks, on the filesystem only; one thread at a time. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/changes.h"

struct gbx__tracker;

/* Of all trackers of an engine: what others of the same user need as well. {0}
 * is a new one. */
struct gbx__tracker_budget {
  atomic_uint instances, watches; /* that are taken */
};

/* Below this a walk costs next to nothing. */
#define GBX__TRACKER_LEAST_FILES 512u

/* Nothing is watched before the first begin. NULL without memory. */
struct gbx__tracker* gbx__tracker_new(struct gbx__tracker_budget* budget);

/* Brings the list up to date, and waits as gbx__index_settle does. Errors: as
 * gbx__index_scan. */
int gbx__tracker_begin(struct gbx__tracker* tracker,
                       const struct gbx__workspace* workspace,
                       struct gbx_err* err);

/* What has changed since, as gbx__index_diff tells it. `alone`: nothing of a
 * box but the call's has lived meanwhile, and nothing of that lives now. */
int gbx__tracker_end(struct gbx__tracker* tracker,
                     const struct gbx__workspace* workspace, bool alone,
                     struct gbx_changed_file** ret_files, size_t* ret_count,
                     struct gbx_err* err);

/* ---- For a box that lives on between calls ------------------------------- */

/* Before such a box begins, and while no other lives: from now on it counts
 * what is opened. A mapping is written to without an event; but who has opened
 * nothing has mapped nothing, and whatever else changes a workspace is told at
 * once. False: it has ended. */
void gbx__tracker_attend(struct gbx__tracker* tracker, bool lives_on);

/* Whether the workspace is as it was when it was last looked at, by begin or
 * end: without a look at it, so this blocks for nobody. Else it may or may not
 * be. */
bool gbx__tracker_is_still(struct gbx__tracker* tracker);

/* Whether it is, and begin would have nothing to wait for either. */
bool gbx__tracker_can_begin(struct gbx__tracker* tracker);

/* Grows by each time that something was told. For comparison with an earlier
 * one; the kernel may have more to tell. */
uint64_t gbx__tracker_stirs(const struct gbx__tracker* tracker);

/* Readable when the kernel has something to tell; -1: there are no watches.
 * Borrowed, until the next begin or end. */
int gbx__tracker_fd(const struct gbx__tracker* tracker);

/* Whether it may ever be quicker than a walk in this workspace. If not, what is
 * left to do is to free it. */
bool gbx__tracker_is_useful(const struct gbx__tracker* tracker);

/* How often the whole tree was walked: for tests. */
unsigned gbx__tracker_walks(const struct gbx__tracker* tracker);

/* Takes NULL. */
void gbx__tracker_free(struct gbx__tracker* tracker);

#endif  // SRC_ENGINE_TRACKER_H_

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_TREE_H_
#define SRC_ENGINE_TREE_H_

/* A whole tree as one stream of bytes, in the form of struct gbx_tree_head
 * (engine.h): out of a workspace for a snapshot or a list, into one for a
 * restore. The archive's own format is the caller's business.
 *
 * All of it blocks, on the filesystem only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/workspace.h"

/* ---- Out ---------------------------------------------------------------- */

/* More than this is refused with GBX_E_TOO_LARGE. */
#define GBX__TREE_MAX_ENTRIES    1000000u
#define GBX__TREE_MAX_NAME_BYTES (64u << 20)
#define GBX__TREE_MAX_STEPS      (8u << 20)

struct gbx__tree_out;

struct gbx__tree_out_options {
  bool contents;     /* files' bytes; what cannot be read is then an error */
  bool flat;         /* nothing below the folders in the first */
  bool without_deps; /* leaves out the workspace's own ".deps" */
};

/* Goes through the folder `path` ("": all) in the order of names; a folder
 * comes before what is in it. Does not follow symlinks, enter mounts, or show
 * our temporary files. GBX_E_PATH, GBX_E_NOT_FOUND. */
int gbx__tree_out_new(const struct gbx__workspace* workspace, const char* path,
                      const struct gbx__tree_out_options* options,
                      struct gbx__tree_out** ret_tree, struct gbx_err* err);

/* The least room that is enough for any head with its paths. */
#define GBX__TREE_LEAST_ROOM (16u << 10)

/* Fills `bytes` with what comes next: heads, which are never split, and pieces
 * of files. *ret_size is 0 at the end. GBX_E_BUSY (a lease; a file that shrank
 * meanwhile), GBX_E_IO, GBX_E_TOO_LARGE. */
int gbx__tree_out_read(struct gbx__tree_out* tree, uint8_t* bytes, size_t room,
                       size_t* ret_size, struct gbx_err* err);
/* Takes NULL. */
void gbx__tree_out_free(struct gbx__tree_out* tree);

/* ---- In ----------------------------------------------------------------- */

/* What comes in is made in a hidden folder of the workspace, and takes the
 * place of everything else there in the end. */
struct gbx__tree_in;

int gbx__tree_in_new(const struct gbx__workspace* workspace,
                     struct gbx__tree_in** ret_tree, struct gbx_err* err);
/* `bytes` must not end in the middle of a head. GBX_E_INVALID: it does, or is
 * nonsense; GBX_E_EXISTS: two things of one name; GBX_E_IO. */
int gbx__tree_in_write(struct gbx__tree_in* tree, const uint8_t* bytes,
                       size_t size, struct gbx_err* err);
/* With `keep` the old content goes and the new one is there, or an error leaves
 * the old one as it was. Without it the new one goes. Frees `tree` either way.
 */
int gbx__tree_in_free(struct gbx__tree_in* tree, bool keep,
                      struct gbx_err* err);

#endif  // SRC_ENGINE_TREE_H_

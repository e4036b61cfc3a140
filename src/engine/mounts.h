/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_MOUNTS_H_
#define SRC_ENGINE_MOUNTS_H_

/* The mounts of a session, on the host's side: what they are is settled when
 * the session is opened, and each launcher that it is attached to must find the
 * same. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

struct gbx__mount {
  char* source; /* as given; then its real path */
  char* target;
  bool writable;
  bool is_file;
  bool is_nested; /* its target is in another's */
  uint64_t dev, ino;
};

struct gbx__mounts {
  struct gbx__mount* list;
  size_t count;
};

/* Copies them. GBX_E_INVALID: what lib/ should have refused. */
int gbx__mounts_init(struct gbx__mounts* mounts, const struct gbx_mount* list,
                     size_t count, struct gbx_err* err);
void gbx__mounts_done(struct gbx__mounts* mounts);

/* Finds the sources and judges them. Blocks. GBX_E_MOUNT_REFUSED, GBX_E_MOUNT,
 * as gbx_session_open says. */
int gbx__mounts_prepare(struct gbx__mounts* mounts, const char* temp_dir,
                        struct gbx_err* err);

/* Adds a record for each place to those of a root, a block for realloc(). */
int gbx__mounts_add_places(const struct gbx__mounts* mounts, void** blob,
                           size_t* blob_size, struct gbx_err* err);

/* A sealed memfd of struct gbx_wire_mount, or a negative errno. */
int gbx__mounts_pack(const struct gbx__mounts* mounts);

#endif  // SRC_ENGINE_MOUNTS_H_

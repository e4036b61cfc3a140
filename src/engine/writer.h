/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_ENGINE_WRITER_H_
#define SRC_ENGINE_WRITER_H_

/* What everything that makes files in a workspace shares: whose they become,
 * the folders on the way, and files that get their name when they are whole. */

#include <stdbool.h>
#include <sys/types.h>

#include "engine/beneath.h"
#include "engine/workspace.h"

/* What is made below `root_fd` belongs to `uid` and `gid` if `gives` is set. */
struct gbx__writer {
  int root_fd; /* borrowed */
  bool gives;
  uid_t uid;
  gid_t gid;
};

/* Of the workspace's owner; `root_fd` is the workspace. GBX_E_IO. */
int gbx__writer_init(struct gbx__writer* writer,
                     const struct gbx__workspace* workspace,
                     struct gbx_err* err);

/* Opens (O_PATH) the folder `path`, which is clean, and makes what is missing
 * of it. Returns a descriptor or a negative errno. */
int gbx__writer_open_folder(const struct gbx__writer* writer, const char* path);

/* Opens the folder that `path` lies in, which is made if missing, and finds the
 * name in it. */
int gbx__writer_open_parent(const struct gbx__writer* writer, const char* path,
                            const char** ret_name, struct gbx_err* err);

/* A file that is written under a name of ours and then takes the place of what
 * was there, see gbx__workspace_write. */
struct gbx__temp_file {
  struct gbx__writer writer;
  int parent_fd, fd;
  int kept_mode; /* of the file that it replaces, or -1 */
  char temp_name[GBX__TEMP_NAME_SIZE];
  char name[256];
};

int gbx__temp_file_open(const struct gbx__workspace* workspace,
                        const char* path, struct gbx__temp_file* ret_file,
                        struct gbx_err* err);
int gbx__temp_file_write(struct gbx__temp_file* file, const void* bytes,
                         size_t size, struct gbx_err* err);
/* Without `keep` it leaves nothing behind. Closes both descriptors either way.
 */
int gbx__temp_file_close(struct gbx__temp_file* file, bool keep,
                         struct gbx_err* err);

#endif  // SRC_ENGINE_WRITER_H_

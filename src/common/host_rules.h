/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_HOST_RULES_H_
#define SRC_COMMON_HOST_RULES_H_

/* Which files and folders of the host no box gets, be it as a workspace or as
 * a mount: one table, asked by all who open one.
 *
 * What is judged is an open file. Files are the same if device and inode are,
 * or if they lie at the same path of the same file system: so no spelling, no
 * symlink and no other mount of it makes a folder another one. Refused is what
 * lies in such a place, what holds one, and what has either mounted below it.
 *
 * Blocks; for any thread. Nothing is allocated. */

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What it is wanted for: bits, of which one is given. */
enum gbx_host_use {
  GBX_USE_READ = 1,  /* a read-only mount */
  GBX_USE_WRITE = 2, /* a writable one */
  GBX_USE_WORKSPACE = 4,
};

/* Whose host it is. */
struct gbx_host_user {
  const char* home;     /* $HOME; NULL or not absolute: not known */
  const char* temp_dir; /* of temporary workspaces; NULL: not known */
};

struct gbx_host_refusal {
  const char* rule; /* a word: "home"; docs/threat-model.md has them all */
  char words[160];  /* "is $HOME, or holds it" */
};

/* Returns 0 if a box may have the file or folder `fd` (O_PATH will do), 1 with
 * *ret_refusal if not, and a negative errno if that cannot be found out: then
 * it may not have it either. */
int gbx_host_judge(int fd, enum gbx_host_use use,
                   const struct gbx_host_user* user,
                   struct gbx_host_refusal* ret_refusal);

/* The same of what is to be made under `name` in the folder `fd`: that folder
 * may hold what it likes. */
int gbx_host_judge_new(int fd, const char* name, enum gbx_host_use use,
                       const struct gbx_host_user* user,
                       struct gbx_host_refusal* ret_refusal);

#ifdef __cplusplus
}
#endif

#endif  // SRC_COMMON_HOST_RULES_H_

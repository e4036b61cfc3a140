/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/leaves.h"

#include <string.h>
#include <sys/resource.h>

#include "common/fd.h"
#include "launcher/cgroup_version.h"

/* What of all leaves is remembered: for a hundred calls at the same time. */
#define LEAVES_KEPT 128

/* Of one that is remembered: what the launcher gets, and one more. */
#define DESCRIPTORS_A_LEAF 10

struct leaf {
  uint32_t number; /* as the launcher calls it; 0: nobody's */
  uint32_t folder; /* the number in its name; 0: there is none */
  bool is_limited; /* `limits` are in force; else nobody knows which are */
  struct gbx_wire_limits limits;
  struct cgroup_leaf parts; /* open for the next box */
  int residue_fd;
};

static struct leaf leaves[LEAVES_KEPT];

/* A quarter of our descriptors at most. */
static int most_kept(void) {
  static int most = -1;
  struct rlimit files;
  if (most >= 0) return most;
  most = 0;
  if (getrlimit(RLIMIT_NOFILE, &files) < 0) return most;
  rlim_t room = files.rlim_cur / 4 / DESCRIPTORS_A_LEAF;
  most = room < LEAVES_KEPT ? (int)room : LEAVES_KEPT;
  return most;
}

/* The numbers are 0 for a place where there is none, and for a spare one. */
static struct leaf* find(uint32_t number, bool has_folder) {
  for (int i = 0; i < most_kept(); i++)
    if (leaves[i].number == number && (leaves[i].folder != 0) == has_folder)
      return &leaves[i];
  return NULL;
}

static bool has_limits(const struct leaf* leaf,
                       const struct gbx_wire_limits* limits) {
  return leaf->is_limited && memcmp(&leaf->limits, limits, sizeof *limits) == 0;
}

/* One that has the limits already, if there is one. */
static struct leaf* find_spare(const struct gbx_wire_limits* limits) {
  for (int i = 0; i < most_kept(); i++)
    if (leaves[i].number == 0 && leaves[i].folder != 0 &&
        has_limits(&leaves[i], limits))
      return &leaves[i];
  return find(0, true);
}

static void forget(struct leaf* leaf) {
  gbx_fds_close(&leaf->parts.fds);
  fd_close(&leaf->residue_fd);
  *leaf = (struct leaf){0};
}

/* One that somebody is still in goes when the keeper ends. */
static void remove_leaf(const struct cgroup* cgroup, struct leaf* leaf) {
  uint32_t folder = leaf->folder;
  forget(leaf);
  (void)cgroup_remove_leaf(cgroup, folder);
}

static int set_limits(const struct cgroup* cgroup, struct leaf* leaf,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err) {
  if (has_limits(leaf, limits)) return 0;
  leaf->is_limited = false;
  int result = cgroup_set_limits(cgroup, leaf->folder, limits, err);
  if (result < 0) return result;
  leaf->limits = *limits;
  leaf->is_limited = true;
  return 0;
}

int leaves_make(const struct cgroup* cgroup, uint32_t number,
                const struct gbx_wire_limits* limits,
                struct cgroup_leaf* ret_parts, struct gbx_err* err) {
  struct leaf* leaf;
  bool is_new = limits_are_small(limits);
  while (!is_new && (leaf = find_spare(limits)) != NULL) {
    struct gbx_err ignored = {0};
    /* Once more: somebody may have removed it meanwhile, as it was empty. */
    if (cgroup_renew_leaf(cgroup, &leaf->parts, leaf->residue_fd) &&
        set_limits(cgroup, leaf, limits, &ignored) == 0) {
      leaf->number = number;
      *ret_parts = leaf->parts;
      return 0;
    }
    remove_leaf(cgroup, leaf); /* a new one works, or says why not */
  }
  struct cgroup_leaf parts;
  int result = cgroup_make_leaf(cgroup, number, limits, &parts, err);
  if (result < 0) return result;
  *ret_parts = parts;
  leaf = find(0, false);
  int residue_fd = leaf == NULL ? -1 : cgroup_open_residue(cgroup, number);
  if (residue_fd >= 0)
    *leaf = (struct leaf){.number = number,
                          .folder = number,
                          .is_limited = true,
                          .limits = *limits,
                          .parts = parts,
                          .residue_fd = residue_fd};
  return 0;
}

void leaves_sent(uint32_t number, struct cgroup_leaf* parts) {
  if (find(number, true) == NULL) gbx_fds_close(&parts->fds);
}

int leaves_set_limits(const struct cgroup* cgroup, uint32_t number,
                      const struct gbx_wire_limits* limits,
                      struct gbx_err* err) {
  struct leaf* leaf = find(number, true);
  return leaf == NULL ? cgroup_set_limits(cgroup, number, limits, err)
                      : set_limits(cgroup, leaf, limits, err);
}

void leaves_drop(const struct cgroup* cgroup, uint32_t number) {
  struct leaf* leaf = find(number, true);
  if (leaf == NULL) {
    (void)cgroup_remove_leaf(cgroup, number); /* as above */
    return;
  }
  leaf->number = 0;
  if (!cgroup_renew_leaf(cgroup, &leaf->parts, leaf->residue_fd))
    remove_leaf(cgroup, leaf);
}

static int count_spare(void) {
  int count = 0;
  for (int i = 0; i < most_kept(); i++)
    if (leaves[i].folder != 0 && leaves[i].number == 0) count++;
  return count;
}

bool leaves_are_many(void) {
  return count_spare() > LEAVES_IDLE;
}

void leaves_trim(const struct cgroup* cgroup) {
  int count = count_spare();
  for (int i = 0; i < most_kept() && count > LEAVES_IDLE; i++) {
    if (leaves[i].folder == 0 || leaves[i].number != 0) continue;
    remove_leaf(cgroup, &leaves[i]);
    count--;
  }
}

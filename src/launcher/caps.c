/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/sys.h"

/* The version 3 interface carries 64 capabilities in two words. */
struct cap_words {
  struct __user_cap_data_struct word[2];
};

static int cap_get(struct cap_words* ret_caps) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  return (int)syscall(SYS_capget, &header, ret_caps->word);
}

static int cap_set(const struct cap_words* caps) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  return (int)syscall(SYS_capset, &header, caps->word);
}

bool caps_can_be_root(void) {
  struct cap_words caps;
  if (cap_get(&caps) < 0) return false;
  const uint32_t needed =
      1u << CAP_SYS_ADMIN | 1u << CAP_SETUID | 1u << CAP_SETGID;
  return (caps.word[0].effective & needed) == needed;
}

int caps_keep_over_exec(struct gbx_err* err) {
  struct cap_words caps;
  if (cap_get(&caps) < 0)
    return gbx_fail(err, GBX_E_START, errno, "capget", "launcher");
  for (int i = 0; i < 2; i++) {
    caps.word[i].effective = caps.word[i].permitted;
    caps.word[i].inheritable = caps.word[i].permitted;
  }
  if (cap_set(&caps) < 0)
    return gbx_fail(err, GBX_E_START, errno, "capset", "launcher");
  for (int cap = 0; cap < 64; cap++) {
    if ((caps.word[cap / 32].permitted >> (cap % 32) & 1u) == 0) continue;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
      return gbx_fail(err, GBX_E_START, errno, "ambient capability", "%d", cap);
  }
  return 0;
}

/* The bounding set goes first: dropping from it needs CAP_SETPCAP. A number
 * that the kernel does not know ends the loop. */
static int bound_to(uint64_t mask, struct gbx_err* err) {
  for (int cap = 0; cap < 64; cap++) {
    int held = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
    if (held < 0) break;
    if ((mask >> cap & 1u) == 0 && held == 1 &&
        prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
      return gbx_fail(err, GBX_E_SETUP, errno, "bounding set", "%d", cap);
  }
  return 0;
}

int caps_keep_only(uint64_t mask, struct gbx_err* err) {
  int result = bound_to(mask, err);
  if (result < 0) return result;
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "ambient set", "clear");
  struct cap_words caps;
  for (int i = 0; i < 2; i++) {
    uint32_t word = (uint32_t)(mask >> (32 * i));
    caps.word[i].effective = caps.word[i].permitted = word;
    caps.word[i].inheritable = word;
  }
  if (cap_set(&caps) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "capset", "keep some");
  for (int cap = 0; cap < 64; cap++)
    if ((mask >> cap & 1u) != 0 &&
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
      return gbx_fail(err, GBX_E_SETUP, errno, "ambient capability", "%d", cap);
  return 0;
}

/* Permitted and effective, and nothing that outlives an exec. */
static int hold(struct cap_words caps, struct gbx_err* err) {
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "ambient set", "clear");
  if (cap_set(&caps) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "capset", "give up");
  return 0;
}

int caps_hold(uint64_t mask, struct gbx_err* err) {
  int result = bound_to(0, err);
  if (result < 0) return result;
  struct cap_words caps = {0};
  for (int i = 0; i < 2; i++)
    caps.word[i].effective = caps.word[i].permitted =
        (uint32_t)(mask >> (32 * i));
  return hold(caps, err);
}

int caps_drop_all(struct gbx_err* err) {
  int result = bound_to(0, err);
  if (result < 0) return result;
  struct cap_words none = {0}, left;
  result = hold(none, err);
  if (result < 0) return result;
  if (cap_get(&left) < 0 || memcmp(&left, &none, sizeof none) != 0)
    return gbx_fail(err, GBX_E_SETUP, EPERM, "capget", "some were left");
  return 0;
}

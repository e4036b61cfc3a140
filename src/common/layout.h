/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_LAYOUT_H_
#define SRC_COMMON_LAYOUT_H_

/* What every box has of its own, whatever its root is made of: one set of
 * tables, from which the launcher makes it and the engine tells of it. */

#ifdef __cplusplus
extern "C" {
#endif

#define GBX_LAYOUT_DEVICES 5
#define GBX_LAYOUT_LINKS   5
#define GBX_LAYOUT_SCRATCH 3

/* Nodes of the host, bound: mknod is EPERM in a user namespace. */
extern const char* const gbx_layout_devices[GBX_LAYOUT_DEVICES];

struct gbx_layout_link {
  const char* target;
  const char* text;
};
extern const struct gbx_layout_link gbx_layout_links[GBX_LAYOUT_LINKS];

/* What a box may write to and loses: together as large as the memory limit,
 * which they count towards. */
struct gbx_layout_scratch {
  const char* path;
  unsigned mode;
  unsigned quarters; /* of the memory limit */
};
extern const struct gbx_layout_scratch gbx_layout_scratch[GBX_LAYOUT_SCRATCH];

/* Of /proc, each list with a NULL at its end: where a kernel has no such file,
 * there is nothing to hide. */
extern const char* const gbx_layout_hidden_files[];
extern const char* const gbx_layout_hidden_dirs[];
extern const char* const gbx_layout_read_only_dirs[];

#ifdef __cplusplus
}
#endif

#endif  // SRC_COMMON_LAYOUT_H_

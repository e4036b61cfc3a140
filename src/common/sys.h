/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_COMMON_SYS_H_
#define SRC_COMMON_SYS_H_

/* System calls that an older libc does not wrap, and the numbers of theirs
 * that older kernel headers do not have. <linux/mount.h> is left out on
 * purpose: it collides with <sys/mount.h> of glibc 2.36. */

#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef OPEN_TREE_CLOEXEC
#define OPEN_TREE_CLOEXEC 02000000
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x4
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif
#ifndef MOUNT_ATTR_RDONLY
#define MOUNT_ATTR_RDONLY 0x1
#define MOUNT_ATTR_NOSUID 0x2
#define MOUNT_ATTR_NODEV  0x4
#define MOUNT_ATTR_NOEXEC 0x8
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x100000
#endif
#ifndef MOVE_MOUNT_T_EMPTY_PATH
#define MOVE_MOUNT_T_EMPTY_PATH 0x40
#endif
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct sys_mount_attr {
  uint64_t attr_set;
  uint64_t attr_clr;
  uint64_t propagation;
  uint64_t userns_fd;
};

static inline int sys_open_tree(int dir_fd, const char* path, unsigned flags) {
  return (int)syscall(SYS_open_tree, dir_fd, path, flags);
}

/* Attaches the detached tree `tree_fd` at `to_path`. */
static inline int sys_move_mount(int tree_fd, int to_dir_fd,
                                 const char* to_path) {
  return (int)syscall(SYS_move_mount, tree_fd, "", to_dir_fd, to_path,
                      MOVE_MOUNT_F_EMPTY_PATH);
}

/* The same for a mount that lies at `path`, and the file `to_fd`. */
static inline int sys_move_mounted(const char* path, int to_fd) {
  return (int)syscall(SYS_move_mount, -100 /* AT_FDCWD */, path, to_fd, "",
                      MOVE_MOUNT_T_EMPTY_PATH);
}

/* Opens with O_PATH what is at `path`, through no symlink at all. */
static inline int sys_open_unlinked(const char* path) {
  struct open_how how = {
      .flags = 010000000 /* O_PATH */ | 02000000 /* O_CLOEXEC */,
      .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, -100 /* AT_FDCWD */, path, &how, sizeof how);
}

static inline int sys_mount_setattr(int dir_fd, const char* path,
                                    unsigned flags,
                                    struct sys_mount_attr* attr) {
  return (int)syscall(SYS_mount_setattr, dir_fd, path, flags, attr,
                      sizeof *attr);
}

static inline int sys_fsopen(const char* type) {
  return (int)syscall(SYS_fsopen, type, 1 /* FSOPEN_CLOEXEC */);
}

/* Makes what was opened and configured. */
static inline int sys_fsconfig_create(int fs_fd) {
  const unsigned create = 6; /* FSCONFIG_CMD_CREATE */
  return (int)syscall(SYS_fsconfig, fs_fd, create, NULL, NULL, 0);
}

/* A detached mount of it, with MOUNT_ATTR_ flags. */
static inline int sys_fsmount(int fs_fd, unsigned attributes) {
  return (int)syscall(SYS_fsmount, fs_fd, 1 /* FSMOUNT_CLOEXEC */, attributes);
}

static inline int sys_pivot_root(const char* new_root, const char* put_old) {
  return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline pid_t sys_clone3(struct clone_args* args) {
  return (pid_t)syscall(SYS_clone3, args, sizeof *args);
}

static inline int sys_pidfd_open(pid_t pid) {
  return (int)syscall(SYS_pidfd_open, pid, 0);
}

static inline int sys_pidfd_kill(int pidfd, int signal) {
  return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

/* To all of the process group that the process leads, as a terminal's Ctrl-C
 * goes. Where the kernel cannot do that (before Linux 6.9; remove once that is
 * the floor) or it leads none, to the process alone. */
static inline int sys_pidfd_kill_group(int pidfd, int signal) {
  const unsigned process_group = 1u << 2; /* PIDFD_SIGNAL_PROCESS_GROUP */
  if (syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, process_group) == 0)
    return 0;
  return sys_pidfd_kill(pidfd, signal);
}

static inline int sys_close_range(unsigned first, unsigned last,
                                  unsigned flags) {
  return (int)syscall(SYS_close_range, first, last, flags);
}

static inline int sys_execveat(int fd, char* const argv[], char* const envp[]) {
  return (int)syscall(SYS_execveat, fd, "", argv, envp, 0x1000);
}

#endif  // SRC_COMMON_SYS_H_

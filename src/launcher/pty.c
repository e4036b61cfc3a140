/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/pty.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/layout.h"
#include "common/sys.h"
#include "launcher/mount.h"
#include "launcher/root.h"

/* Room for a few symlinks and empty files. */
#define DEV_BYTES (64u << 10)

/* The kernel keeps 1024 terminals (kernel.pty.reserve) for the host's own
 * instance; of the rest, one box may have this many. */
#define DEVPTS_OPTIONS "newinstance,mode=0620,ptmxmode=0666,max=32"

int pty_take_tty(struct gbx_err* err) {
  return mount_clone_tree("/dev/tty", err);
}

static int put_device(int tree_fd, const char* path, struct gbx_err* err) {
  int result = root_attach(tree_fd, path, err);
  (void)close(tree_fd);
  if (result < 0) return result;
  return mount_add_flags(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, false,
                         err);
}

static int make_dir(const char* path, struct gbx_err* err) {
  if (mkdir(path, 0755) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mkdir", "%s", path);
  return 0;
}

static int make_link(const char* path, const char* text, struct gbx_err* err) {
  if (symlink(text, path) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "symlink", "%s", path);
  return 0;
}

int pty_mount_dev(int tty_fd, struct gbx_err* err) {
  int trees[GBX_LAYOUT_DEVICES];
  for (size_t i = 0; i < GBX_LAYOUT_DEVICES; i++) {
    trees[i] = mount_clone_tree(gbx_layout_devices[i], err);
    if (trees[i] < 0) return trees[i];
  }
  /* The root's own is shared by all its boxes and read-only: nothing can be
   * added there for one of them. */
  int result = mount_tmpfs("/dev", 0755, DEV_BYTES, err);
  for (size_t i = 0; i < GBX_LAYOUT_DEVICES && result == 0; i++)
    result = put_device(trees[i], gbx_layout_devices[i], err);
  if (result == 0) result = put_device(tty_fd, "/dev/tty", err);
  for (size_t i = 0; i < GBX_LAYOUT_LINKS && result == 0; i++) {
    const struct gbx_layout_link* one = &gbx_layout_links[i];
    if (strncmp(one->target, "/dev/", 5) == 0)
      result = make_link(one->target, one->text, err);
  }
  if (result == 0) result = make_dir("/dev/shm", err);
  if (result == 0) result = make_dir("/dev/pts", err);
  if (result == 0) result = make_link("/dev/ptmx", "pts/ptmx", err);
  if (result < 0) return result;
  if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
            DEVPTS_OPTIONS) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mount devpts", "/dev/pts");
  /* /dev/tty was a slave of the host's mounts. */
  if (mount(NULL, "/dev", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "mount private", "/dev");
  return mount_add_flags(
      "/dev", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, false,
      err);
}

int pty_open(uint16_t columns, uint16_t rows, int* ret_master_fd,
             int* ret_slave_fd, struct gbx_err* err) {
  cleanup_fd int master_fd =
      open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master_fd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "open", "/dev/pts/ptmx");
  const struct winsize size = {.ws_col = columns, .ws_row = rows};
  int locked = 0;
  if (ioctl(master_fd, TIOCSPTLCK, &locked) < 0 ||
      ioctl(master_fd, TIOCSWINSZ, &size) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "ioctl", "/dev/pts/ptmx");
  int slave_fd = ioctl(master_fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave_fd < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "TIOCGPTPEER", "/dev/pts/ptmx");
  *ret_master_fd = fd_steal(&master_fd);
  *ret_slave_fd = slave_fd;
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/* For doctor(), and for the text of an error once a start has failed: security
 * profiles go by the file that is executed, and a filter around us may kill who
 * makes a forbidden call. So this executable asks, and not Node.
 *
 * A line is begun before its question is put: where a filter kills, the last
 * line says for which call. */

#include "launcher/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>

#include "common/fd.h"
#include "common/sys.h"
#include "launcher/landlock.h"

#define NO_SUCH_FLAG 0x1000 /* for unshare(2) */

static void begin(const char* name) {
  (void)printf("%s ", name);
  (void)fflush(stdout);
}

static void end(long value) {
  (void)printf("%ld\n", value);
}

/* The errno of a call whose arguments are wrong on purpose: EPERM and ENOSYS
 * say that the call is not to be had, all others that it is. Not for those that
 * ask for capabilities first, as move_mount and pivot_root do. */
static void try_call(const char* name, long number, long first, long second) {
  begin(name);
  errno = 0;
  (void)syscall(number, first, second, 0L, 0L, 0L);
  end(errno);
}

static void print_file(const char* name, const char* path) {
  char text[256];
  begin(name);
  if (fd_read_file(AT_FDCWD, path, text, sizeof text) < 0) text[0] = '\0';
  (void)printf("%s\n", text);
}

static void print_status(const char* name, const char* key) {
  char line[256], value[64] = "";
  begin(name);
  FILE* file = fopen("/proc/self/status", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, key, strlen(key)) == 0)
      (void)sscanf(line + strlen(key), " %63s", value);
  if (file != NULL) (void)fclose(file);
  (void)printf("%s\n", value);
}

static void try_seccomp(void) {
  uint32_t action = SECCOMP_RET_KILL_PROCESS;
  begin("seccomp");
  errno = 0;
  (void)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
  end(errno);
  action = SECCOMP_RET_USER_NOTIF;
  begin("listener");
  errno = 0;
  (void)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
  end(errno);
}

int probe_main(void) {
  print_file("profile", "/proc/self/attr/current");
  print_status("filters", "Seccomp_filters:");
  print_status("capabilities", "CapEff:");
  try_call("pidfd_open", SYS_pidfd_open, -1, 0);
  try_call("openat2", SYS_openat2, -1, 0);
  try_call("close_range", SYS_close_range, 2, 1);
  try_call("mount", SYS_mount, -1, 0);
  try_call("umount2", SYS_umount2, -1, 0);
  try_call("unshare", SYS_unshare, NO_SUCH_FLAG, 0);
  try_call("setns", SYS_setns, -1, 0);
  try_call("open_tree", SYS_open_tree, -1, 0);
  try_call("mount_setattr", SYS_mount_setattr, -1, 0);
  try_call("clone3", SYS_clone3, 0, 0);
  try_seccomp();
  begin("landlock");
  end(landlock_version());
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/nameless.c src/engine/usage.c src/engine/beneath.c
 * src/common/remove_tree.c src/common/error.c src/common/fd.c libs: */

#include "engine/nameless.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "common/sys.h"
#include "scratch.h"

#define MIB (1u << 20)

static const atomic_bool go_on;
static char bytes[MIB];

/* A process in a pid namespace of its own, as a box has one. */
static struct {
  pid_t pid;
  int pidfd, ready_fd, go_fd;
} box;

static void box_main(int command_fd, int answer_fd) {
  int held[8], count = 0, pair[2];
  MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
  for (char command; read(command_fd, &command, 1) == 1;) {
    int fd = held[count > 0 ? count - 1 : 0];
    switch (command) {
      case 'h': /* hold one more */
        held[count] = openat(scratch_fd, ".", O_TMPFILE | O_RDWR, 0600);
        MUST(held[count] >= 0 && write(held[count], bytes, MIB) == MIB);
        count++;
        break;
      case 'n': { /* one with a name */
        int named_fd = openat(scratch_fd, "named", O_CREAT | O_RDWR, 0600);
        MUST(named_fd >= 0 && write(named_fd, bytes, MIB) == MIB);
        break;
      }
      case 'd':
        MUST(dup(fd) >= 0);
        break;
      case 'c': /* a child has copies */
        if (fork() == 0) (void)pause();
        break;
      case 's': { /* on its way */
        char control[CMSG_SPACE(sizeof fd)];
        struct iovec part = {.iov_base = control, .iov_len = 1};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        memset(control, 0, sizeof control);
        struct cmsghdr* rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(rights), &fd, sizeof fd);
        MUST(sendmsg(pair[0], &message, 0) == 1);
        break;
      }
      default:
        _exit(0);
    }
    MUST(write(answer_fd, &command, 1) == 1);
  }
  _exit(0);
}

static void tell(char command) {
  char answer;
  MUST(write(box.go_fd, &command, 1) == 1);
  MUST(read(box.ready_fd, &answer, 1) == 1);
}

static bool box_start(void) {
  int command[2], answer[2];
  MUST(pipe(command) == 0 && pipe(answer) == 0);
  (void)fflush(stdout);
  struct clone_args args = {.flags = CLONE_NEWPID | CLONE_PIDFD |
                                     (geteuid() == 0 ? 0 : CLONE_NEWUSER),
                            .pidfd = (uint64_t)(uintptr_t)&box.pidfd,
                            .exit_signal = SIGCHLD};
  box.pid = sys_clone3(&args);
  if (box.pid == 0) {
    MUST(close(command[1]) == 0); /* or our end would not be its end */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    box_main(command[0], answer[1]);
  }
  MUST(close(command[0]) == 0 && close(answer[1]) == 0);
  box.go_fd = command[1];
  box.ready_fd = answer[0];
  return box.pid > 0;
}

static void box_end(void) {
  MUST(kill(box.pid, SIGKILL) == 0 && waitpid(box.pid, NULL, 0) == box.pid);
  MUST(close(box.go_fd) == 0 && close(box.ready_fd) == 0);
}

static struct gbx__usage look(bool skip_first) {
  struct gbx__box found = {0};
  struct stat st;
  EXPECT(gbx__box_find(box.pidfd, &found));
  EXPECT(found.init == box.pid);
  if (!skip_first) found.init = 0;
  MUST(fstat(scratch_fd, &st) == 0);
  return gbx__nameless_count(&found, 1, st.st_dev, &go_on);
}

static void test_open(void) {
  if (!box_start()) {
    test_skipped = "no pid namespace is allowed here";
    return;
  }
  EXPECT(look(false).bytes == 0);
  tell('n');
  EXPECT(look(false).bytes == 0);
  tell('h');
  struct gbx__usage one = look(false);
  EXPECT(one.complete && one.bytes >= MIB && one.bytes < 2 * MIB);
  tell('d');
  tell('c');
  EXPECT(look(false).bytes == one.bytes);
  tell('h');
  struct gbx__usage two = look(false);
  EXPECT(two.complete && two.bytes >= 2 * MIB && two.bytes < 3 * MIB);
  /* The first process is init, which is ours; its child has the first file. */
  EXPECT(look(true).bytes == one.bytes);
  box_end();
}

static void test_on_its_way(void) {
  if (!box_start()) {
    test_skipped = "no pid namespace is allowed here";
    return;
  }
  tell('h');
  EXPECT(look(false).complete);
  tell('s');
  EXPECT(!look(false).complete);
  box_end();
}

static void test_gone(void) {
  if (!box_start()) {
    test_skipped = "no pid namespace is allowed here";
    return;
  }
  struct gbx__box found;
  EXPECT(gbx__box_find(box.pidfd, &found));
  box_end();
  EXPECT(!gbx__box_find(box.pidfd, &found));
  EXPECT(!gbx__box_find(-1, &found));
  EXPECT(!gbx__box_find(scratch_fd, &found));
  EXPECT(gbx__nameless_count(NULL, 0, 0, &go_on).complete);
  EXPECT(gbx__nameless_count(NULL, 0, 0, &go_on).bytes == 0);
}

int main(void) {
  scratch_open();
  run_test("what a box has open and has no name counts once", test_open);
  run_test("descriptors on their way through a socket are not complete",
           test_on_its_way);
  run_test("a box that has ended is not found", test_gone);
  scratch_close();
  return done();
}

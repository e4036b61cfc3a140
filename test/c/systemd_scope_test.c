/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/launcher/systemd_scope.c src/launcher/dbus.c src/common/fd.c
 * libs: */

/* A manager that does what it should, and others that do not. */

#include "launcher/systemd_scope.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launcher/dbus.h"
#include "tap.h"

#define TIMEOUT_MS 300

/* Messages without a body: of a header field's 3 bytes, padded. */
#define MESSAGE(kind)            \
  "l" kind                       \
  "\0\1\0\0\0\0\1\0\0\0\3\0\0\0" \
  "\5\1u\0\0\0\0\0"
#define RETURN MESSAGE("\2")
#define ERROR  MESSAGE("\3")
#define SIGNAL MESSAGE("\4")

static int64_t now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void say(int fd, const char* bytes, size_t size, bool in_pieces) {
  size_t step = in_pieces ? 1 : size;
  for (size_t at = 0; at < size; at += step)
    if (send(fd, bytes + at, step, MSG_NOSIGNAL) < 0) _exit(0);
}

/* Takes exactly one line that says who we are. */
static void hear_auth(int fd) {
  char digits[16], wanted[64] = "", heard[64] = {0};
  (void)snprintf(digits, sizeof digits, "%u", geteuid());
  size_t used = (size_t)sprintf(wanted, "%cAUTH EXTERNAL ", '\1');
  for (const char* digit = digits; *digit != '\0'; digit++)
    used += (size_t)sprintf(wanted + used, "%02x", *digit);
  used += (size_t)sprintf(wanted + used, "\r\n");
  wanted[0] = '\0';
  if (recv(fd, heard, used, MSG_WAITALL) != (ssize_t)used ||
      memcmp(heard, wanted, used) != 0)
    _exit(0);
}

/* Takes BEGIN and exactly one call. */
static void hear_call(int fd) {
  static uint8_t heard[7 + DBUS_CALL_MAX];
  size_t size = 0, length = 0;
  for (;;) {
    ssize_t count = recv(fd, heard + size, sizeof heard - size, 0);
    if (count <= 0) _exit(0);
    size += (size_t)count;
    if (size < 7) continue;
    if (memcmp(heard, "BEGIN\r\n", 7) != 0) _exit(0);
    if (dbus_read(heard + 7, size - 7, &length) == DBUS_OTHER) return;
  }
}

struct manager {
  const char* what;
  const char* auth;
  const char* answer;
  size_t answer_size;
  bool in_pieces, again; /* says its answer over and over */
  bool wanted;
};

static void be_manager(int fd, const struct manager* manager) {
  hear_auth(fd);
  if (manager->auth != NULL)
    say(fd, manager->auth, strlen(manager->auth), manager->in_pieces);
  if (manager->answer_size > 0) hear_call(fd);
  do
    say(fd, manager->answer, manager->answer_size, manager->in_pieces);
  while (manager->again);
  char byte;
  while (recv(fd, &byte, 1, 0) > 0)
    continue;
  _exit(0);
}

static void test_manager(const struct manager* manager) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) abort();
  pid_t pid = fork();
  if (pid == 0) {
    (void)close(pair[0]);
    be_manager(pair[1], manager);
  }
  (void)close(pair[1]);
  (void)fcntl(pair[0], F_SETFL, O_NONBLOCK);
  int64_t start = now_ms();
  bool taken =
      systemd_scope_request(pair[0], "glovebox-1-2.scope", "test", TIMEOUT_MS);
  int64_t took = now_ms() - start;
  (void)kill(pid, SIGKILL);
  (void)waitpid(pid, NULL, 0);
  (void)close(pair[0]);
  ok(taken == manager->wanted && took < TIMEOUT_MS + 5000,
     "%s: %s after %lld ms", manager->what, taken ? "taken" : "not taken",
     (long long)took);
}

#define ANSWER(bytes) .answer = bytes, .answer_size = sizeof(bytes) - 1
#define OK            .auth = "OK 0123456789abcdef0123456789abcdef\r\n"

int main(void) {
  static const struct manager managers[] = {
      {.what = "one that takes the job", OK, ANSWER(RETURN), .wanted = true},
      {.what = "one that says more, byte for byte",
       OK,
       ANSWER(SIGNAL SIGNAL RETURN),
       .in_pieces = true,
       .wanted = true},
      {.what = "one that refuses", OK, ANSWER(SIGNAL ERROR RETURN)},
      {.what = "one that says nothing"},
      {.what = "one that does not know us", .auth = "REJECTED EXTERNAL\r\n"},
      {.what = "one whose line does not end", .auth = "OK 0123456789"},
      {.what = "one that forgets the call", OK},
      {.what = "one that speaks something else",
       OK,
       ANSWER("HTTP/1.1 400 Bad")},
      {.what = "one that stops in the middle", OK, ANSWER("l\2\0\1\0\0\0\0\1")},
      {.what = "one that talks without end", OK, ANSWER(SIGNAL), .again = true},
      {.what = "one that talks without end, before it knows us",
       .auth = "",
       .again = true,
       ANSWER("?")},
  };
  for (size_t i = 0; i < sizeof managers / sizeof *managers; i++)
    test_manager(&managers[i]);
  return done();
}

/* SPDX-License-Identifier: Apache-2.0 */

/* A scope of our own from systemd. Its manager is asked over the socket that
 * systemctl uses, directly: there need not be a bus, and the socket is in a
 * folder that only this user, or root, can make anything in.
 *
 * Whatever goes wrong, the next rung of the limits ladder is taken, so nothing
 * here says why. */

#include "launcher/systemd_scope.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "common/fd.h"
#include "launcher/clock.h"
#include "launcher/dbus.h"

/* A manager answers within some milliseconds. One that takes this long is busy
 * with worse, and Node waits for us. */
#define DEADLINE_MS 3000
/* Between two looks whether we were moved, which nothing tells. */
#define LOOK_MS 2

bool systemd_is_manager(void) {
  return faccessat(AT_FDCWD, "/run/systemd/system", F_OK, AT_EACCESS) == 0;
}

/* A connection, and how long it may take. */
struct link {
  int fd;
  int64_t deadline_ms;
};

static bool await_link(const struct link* link, short events) {
  int64_t left = link->deadline_ms - now_ms();
  struct pollfd polled = {.fd = link->fd, .events = events};
  return left > 0 && RETRY(poll(&polled, 1, (int)left)) > 0;
}

static bool send_all(const struct link* link, const void* bytes, size_t size) {
  const char* next = bytes;
  while (size > 0) {
    ssize_t count = send(link->fd, next, size, MSG_NOSIGNAL);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (count < 0 && !await_link(link, POLLOUT)) return false;
    if (count > 0) {
      next += count;
      size -= (size_t)count;
    }
  }
  return true;
}

/* Waits for at least one byte. Returns 0 at the end, in time or of the
 * connection. */
static size_t receive(const struct link* link, void* bytes, size_t size) {
  for (;;) {
    if (!await_link(link, POLLIN)) return 0;
    ssize_t count = recv(link->fd, bytes, size, 0);
    if (count >= 0) return (size_t)count;
    if (errno != EAGAIN && errno != EINTR) return 0;
  }
}

static int connect_to_manager(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (geteuid() == 0)
    (void)snprintf(address.sun_path, sizeof address.sun_path,
                   "/run/systemd/private");
  else
    (void)snprintf(address.sun_path, sizeof address.sun_path,
                   "/run/user/%u/systemd/private", geteuid());
  cleanup_fd int fd =
      socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  /* Non-blocking: a queue that is full is a manager that does not answer. */
  if (fd < 0 ||
      connect(fd, (const struct sockaddr*)&address, sizeof address) < 0)
    return -1;
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ||
      peer.uid != geteuid())
    return -1;
  return fd_steal(&fd);
}

/* Who we are the manager sees by itself; the uid, in decimal digits of which
 * each is two hexadecimal ones, is a formality. */
static bool authenticate(const struct link* link) {
  char digits[16], line[64];
  (void)snprintf(digits, sizeof digits, "%u", geteuid());
  int used = snprintf(line, sizeof line, "%cAUTH EXTERNAL ", '\0');
  for (const char* digit = digits; *digit != '\0'; digit++)
    used += snprintf(line + used, sizeof line - (size_t)used, "%02x",
                     (unsigned)(unsigned char)*digit);
  used += snprintf(line + used, sizeof line - (size_t)used, "\r\n");
  if (!send_all(link, line, (size_t)used)) return false;

  char reply[256];
  size_t size = 0;
  while (size < sizeof reply) {
    size_t count = receive(link, reply + size, sizeof reply - size);
    if (count == 0) return false;
    size += count;
    if (size >= 2 && memcmp(reply + size - 2, "\r\n", 2) == 0)
      return memcmp(reply, "OK", 2) == 0 && send_all(link, "BEGIN\r\n", 7);
  }
  return false;
}

/* Reads until the answer, past what else the manager has to say. Returns its
 * size, 0 if it is no good one. */
static size_t await_return(const struct link* link,
                           uint8_t bytes[static DBUS_MESSAGE_MAX]) {
  size_t size = 0;
  for (;;) {
    size_t length = 0;
    switch (dbus_read(bytes, size, &length)) {
      case DBUS_RETURN:
        return length;
      case DBUS_OTHER:
        size -= length;
        memmove(bytes, bytes + length, size);
        break;
      case DBUS_UNFINISHED:
        length = receive(link, bytes + size, DBUS_MESSAGE_MAX - size);
        if (length == 0) return 0;
        size += length;
        break;
      case DBUS_ERROR:
      case DBUS_BROKEN:
        return 0;
    }
  }
}

static bool is_in(const char* unit) {
  char text[4096];
  if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", text, sizeof text) <= 0)
    return false;
  const char* path =
      strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
  if (path == NULL) return false;
  size_t length = strcspn(path + 1, "\n") + 1;
  size_t tail = strlen(unit);
  return length > tail && path[length - tail - 1] == '/' &&
         memcmp(path + length - tail, unit, tail) == 0;
}

static size_t ask(int fd, const uint8_t* call, size_t size, int timeout_ms,
                  uint8_t ret_bytes[static DBUS_MESSAGE_MAX]) {
  struct link link = {.fd = fd, .deadline_ms = now_ms() + timeout_ms};
  if (size == 0 || !authenticate(&link) || !send_all(&link, call, size))
    return 0;
  return await_return(&link, ret_bytes);
}

static uint8_t answer[DBUS_MESSAGE_MAX]; /* too large for a stack */

bool systemd_unit_is_delegated(const char* unit) {
  uint8_t call[DBUS_CALL_MAX];
  size_t size = dbus_write_delegate_call(unit, call);
  cleanup_fd int fd = connect_to_manager();
  if (fd < 0) return false;
  size_t length = ask(fd, call, size, DEADLINE_MS, answer);
  return length > 0 && dbus_says_true(answer, length);
}

bool systemd_scope_request(int fd, const char* unit, const char* description,
                           int timeout_ms) {
  uint8_t call[DBUS_CALL_MAX];
  size_t size = dbus_write_scope_call(unit, description, call);
  return ask(fd, call, size, timeout_ms, answer) > 0;
}

bool systemd_scope_enter(const char* unit, const char* description) {
  int64_t deadline_ms = now_ms() + DEADLINE_MS;
  cleanup_fd int fd = connect_to_manager();
  if (fd < 0 || !systemd_scope_request(fd, unit, description, DEADLINE_MS))
    return false;
  /* The answer says that the job was accepted. When it is done we are there,
   * and the controllers are. */
  while (!is_in(unit)) {
    if (now_ms() > deadline_ms) return false;
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
  }
  return true;
}

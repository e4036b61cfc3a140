/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/common/wire.c src/common/error.c libs: */
// clang-format on

/* gbx_msg_recv: any bytes with any number of descriptors. The input is a list
 * of messages: the number of descriptors (1 byte), the size (2 bytes, little
 * endian), the bytes; the last message may be cut short. */

#include <sys/socket.h>

#include "common/wire.h"
#include "fuzz.h"

/* More than a receiver takes. */
#define FDS_MOST (GBX_MSG_FDS + 3)

static int pair[2] = {-1, -1};

static void send_bytes(const uint8_t* data, size_t size, int fd_count) {
  int fds[FDS_MOST];
  for (int i = 0; i < fd_count; i++)
    fds[i] = pair[0];
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof fds)];
  } control = {0};
  struct iovec part = {.iov_base = (void*)data, .iov_len = size};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd_count > 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
    struct cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
    memcpy(CMSG_DATA(rights), fds, sizeof(int) * (size_t)fd_count);
  }
  CHECK(sendmsg(pair[0], &message, MSG_NOSIGNAL) == (ssize_t)size);
}

/* What wire.h promises, told once more. */
static int expected_result(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  struct gbx_msg_head head;
  if (size < sizeof head || size > GBX_MSG_MAX) return -EBADMSG;
  memcpy(&head, data, sizeof head);
  bool ours = head.magic == GBX_WIRE_MAGIC &&
              head.version == GBX_WIRE_VERSION && head.size == size;
  return ours ? 1 : -EBADMSG;
}

static void check_message(union gbx_msg* message, const uint8_t* data,
                          size_t size) {
  CHECK(memcmp(message->bytes, data, size) == 0);
  static const char zeroes[GBX_MSG_MAX];
  CHECK(memcmp(message->bytes + size, zeroes, GBX_MSG_MAX - size) == 0);
  struct gbx_err* err = &message->result.err;
  gbx_err_sanitize(err);
  CHECK(strlen(err->op) < sizeof err->op);
  CHECK(strlen(err->detail) < sizeof err->detail);
  CHECK(gbx_code_name(err->code) != NULL);
}

static void receive(const uint8_t* data, size_t size, int fd_count) {
  union gbx_msg message;
  struct gbx_fds fds;
  memset(&message, 0xa5, sizeof message);
  int result = gbx_msg_recv(pair[1], &message, &fds);
  CHECK(result == expected_result(data, size));
  int most = fd_count <= GBX_MSG_FDS ? fd_count : 0;
  CHECK(fds.count == (result == 1 ? most : 0));
  if (result == 1) check_message(&message, data, size);
  for (int i = 0; i < fds.count; i++)
    CHECK(fcntl(fds.fd[i], F_GETFD) == FD_CLOEXEC);
  int taken = gbx_fds_steal(&fds, 1);
  CHECK((taken >= 0) == (fds.count > 1));
  if (taken >= 0) CHECK(close(taken) == 0);
  CHECK(gbx_fds_steal(&fds, -1) == -1 && gbx_fds_steal(&fds, 99) == -1);
  gbx_fds_close(&fds);
}

/* The lowest free number. */
static int next_fd(void) {
  int fd = dup(pair[0]);
  CHECK(fd >= 0 && close(fd) == 0);
  return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (pair[0] < 0)
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
  int free_fd = next_fd();
  while (size >= 3) {
    int fd_count = data[0] % (FDS_MOST + 1);
    size_t length = (size_t)data[1] | (size_t)data[2] << 8;
    data += 3;
    size -= 3;
    if (length > size) length = size;
    send_bytes(data, length, fd_count);
    receive(data, length, fd_count);
    data += length;
    size -= length;
  }
  CHECK(next_fd() == free_fd);
  return 0;
}

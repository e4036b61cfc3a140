/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/common/wire.c src/common/error.c libs: */

/* What arrives of a peer that ends. test/fuzz/wire_fuzz.c has the content. */

#include "common/wire.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"

static int pair[2];

static void send_from(int fd, enum gbx_msg_type type) {
  struct gbx_msg_head head;
  gbx_msg_head_init(&head, type, sizeof head, 7);
  EXPECT(gbx_msg_send(fd, &head, NULL, 0) == 0);
}

static int receive(int fd, union gbx_msg* ret_message) {
  struct gbx_fds fds;
  int result = gbx_msg_recv(fd, ret_message, &fds);
  gbx_fds_close(&fds);
  return result;
}

/* A launcher that cannot start says why and ends, while the engine's first
 * message is still unread: the kernel then reports a reset before it hands out
 * what the launcher said. */
static void test_last_words(void) {
  union gbx_msg message;
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0);
  send_from(pair[0], GBX_M_CONFIG);
  send_from(pair[1], GBX_M_FAILED);
  (void)close(pair[1]);
  EXPECT(receive(pair[0], &message) == 1);
  EXPECT(message.head.type == GBX_M_FAILED && message.head.id == 7);
  EXPECT(receive(pair[0], &message) == 0);
  (void)close(pair[0]);
}

static void test_silent_end(void) {
  union gbx_msg message;
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0);
  EXPECT(receive(pair[0], &message) == -EAGAIN);
  send_from(pair[0], GBX_M_CONFIG);
  (void)close(pair[1]);
  EXPECT(receive(pair[0], &message) == 0);
  EXPECT(receive(pair[0], &message) == 0);
  (void)close(pair[0]);
}

int main(void) {
  run_test("the last words of a peer that read nothing arrive",
           test_last_words);
  run_test("a peer that says nothing ends as one that read all",
           test_silent_end);
  return done();
}

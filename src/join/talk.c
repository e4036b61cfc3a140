/* SPDX-License-Identifier: Apache-2.0 */
#include "join/talk.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "join/bare.h"

#undef errno /* it is libc's; its numbers are not */

union control {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(sizeof(int) * GBX_MSG_FDS)];
};

void talk_begin(struct gbx_msg_head* head, enum gbx_msg_type type,
                unsigned long size) {
  head->magic = GBX_WIRE_MAGIC;
  head->version = GBX_WIRE_VERSION;
  head->type = (uint16_t)type;
  head->size = (uint32_t)size;
  head->id = 0;
}

long talk_send(long socket_fd, const struct gbx_msg_head* head, int fd) {
  struct iovec part = {.iov_base = (void*)head, .iov_len = head->size};
  union control control = {.bytes = {0}};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof fd);
    struct cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    *(int*)(void*)CMSG_DATA(rights) = fd;
  }
  long sent;
  do {
    sent = call(__NR_sendmsg, socket_fd, (long)&message, MSG_NOSIGNAL, 0);
  } while (sent == -EINTR);
  return sent < 0 ? sent : 0;
}

unsigned long talk_put(char* to, unsigned long room, const char* from) {
  unsigned long size = 0;
  for (; size + 1 < room && from[size] != '\0'; size++)
    to[size] = from[size];
  return size;
}

long talk_fail(long socket_fd, long error, const char* step,
               const char* detail) {
  struct gbx_msg_result message = {
      .err = {.code = GBX_E_SETUP, .sys_errno = (int32_t)-error}};
  talk_begin(&message.head, GBX_M_FAILED, sizeof message);
  (void)talk_put(message.err.op, sizeof message.err.op, step);
  (void)talk_put(message.err.detail, sizeof message.err.detail, detail);
  (void)talk_send(socket_fd, &message.head, -1); /* or our end tells */
  return error;
}

long talk_receive(long socket_fd, enum gbx_msg_type type, unsigned long size,
                  struct gbx_msg_head* ret_message, struct gbx_fds* ret_fds) {
  struct iovec part = {.iov_base = ret_message, .iov_len = size};
  union control control;
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  long got;
  do {
    got = call(__NR_recvmsg, socket_fd, (long)&message, MSG_CMSG_CLOEXEC, 0);
  } while (got == -EINTR);
  if (got <= 0) return got;
  if ((unsigned long)got != size || ret_message->magic != GBX_WIRE_MAGIC ||
      ret_message->version != GBX_WIRE_VERSION || ret_message->type != type)
    return -EBADMSG;
  ret_fds->count = 0;
  const struct cmsghdr* rights = CMSG_FIRSTHDR(&message);
  if (rights == NULL || rights->cmsg_level != SOL_SOCKET ||
      rights->cmsg_type != SCM_RIGHTS || (message.msg_flags & MSG_CTRUNC) != 0)
    return -EMFILE;
  const int* fds = (const int*)(const void*)CMSG_DATA(rights);
  unsigned long count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (; (unsigned long)ret_fds->count < count; ret_fds->count++)
    ret_fds->fd[ret_fds->count] = fds[ret_fds->count];
  return 1;
}

static char own_name[16];

void talk_rename(const char* name) {
  if (own_name[0] == '\0')
    (void)call(__NR_prctl, PR_GET_NAME, (long)own_name, 0, 0);
  (void)call(__NR_prctl, PR_SET_NAME, (long)name, 0, 0);
}

void talk_rename_back(void) {
  (void)call(__NR_prctl, PR_SET_NAME, (long)own_name, 0, 0);
}

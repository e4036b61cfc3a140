/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/fd.h"

void gbx_fds_close(struct gbx_fds* fds) {
  for (int i = 0; i < fds->count; i++)
    fd_close(&fds->fd[i]);
  fds->count = 0;
}

int gbx_fds_steal(struct gbx_fds* fds, int index) {
  if (index < 0 || index >= fds->count) return -1;
  return fd_steal(&fds->fd[index]);
}

void gbx_msg_head_init(struct gbx_msg_head* head, enum gbx_msg_type type,
                       size_t size, uint32_t id) {
  head->magic = GBX_WIRE_MAGIC;
  head->version = GBX_WIRE_VERSION;
  head->type = (uint16_t)type;
  head->size = (uint32_t)size;
  head->id = id;
}

int gbx_msg_send(int socket_fd, const struct gbx_msg_head* head, const int* fds,
                 int count) {
  struct iovec part = {.iov_base = (void*)head, .iov_len = head->size};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * GBX_MSG_FDS)];
  } control;
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (count > GBX_MSG_FDS) return -EINVAL;
  if (count > 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
    struct cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    memcpy(CMSG_DATA(rights), fds, sizeof(int) * (size_t)count);
  }
  ssize_t sent = RETRY(sendmsg(socket_fd, &message, MSG_NOSIGNAL));
  if (sent < 0) return -errno;
  return (size_t)sent == head->size ? 0 : -EMSGSIZE;
}

static void take_descriptors(struct msghdr* message, struct gbx_fds* ret_fds) {
  for (struct cmsghdr* part = CMSG_FIRSTHDR(message); part != NULL;
       part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
      continue;
    int count = (int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(part) + (size_t)i * sizeof(int), sizeof fd);
      if (ret_fds->count < GBX_MSG_FDS)
        ret_fds->fd[ret_fds->count++] = fd;
      else
        (void)close(fd);
    }
  }
}

int gbx_msg_recv(int socket_fd, union gbx_msg* ret_message,
                 struct gbx_fds* ret_fds) {
  struct iovec part = {.iov_base = ret_message->bytes,
                       .iov_len = sizeof ret_message->bytes};
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * GBX_MSG_FDS)];
  } control;
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  ret_fds->count = 0;
  ssize_t size = RETRY(recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC));
  /* A peer that ends before it has read everything resets the connection, and
   * the kernel says so once, before it hands out what the peer had said: why a
   * launcher could not start, for one. */
  if (size < 0 && errno == ECONNRESET)
    size = RETRY(recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC));
  if (size < 0) return -errno;
  take_descriptors(&message, ret_fds);
  if (size == 0) {
    gbx_fds_close(ret_fds);
    return 0;
  }
  const struct gbx_msg_head* head = &ret_message->head;
  if ((message.msg_flags & MSG_TRUNC) != 0 || (size_t)size < sizeof *head ||
      head->magic != GBX_WIRE_MAGIC || head->version != GBX_WIRE_VERSION ||
      head->size != (size_t)size) {
    gbx_fds_close(ret_fds);
    return -EBADMSG;
  }
  /* This process has no room for all its descriptors. */
  if ((message.msg_flags & MSG_CTRUNC) != 0) gbx_fds_close(ret_fds);
  memset(ret_message->bytes + size, 0, GBX_MSG_MAX - (size_t)size);
  return 1;
}

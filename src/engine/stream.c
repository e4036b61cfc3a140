/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/internal.h"

/* Two pipes full, so that one wake-up empties a pipe. */
#define READ_SIZE  131072
#define FIRST_ROOM 4096

/* Room for the next read, at most `most` bytes and within the limit. It starts
 * small and doubles when it is used up: most boxes say a line, and there may be
 * a thousand at once. Out of memory is like a lower limit: the rest is read
 * away and the result says truncated. */
static size_t make_room(struct gbx__capture* capture, size_t most) {
  if (capture->size == capture->limit) return 0;
  if (capture->size == capture->room) {
    size_t room = capture->room < FIRST_ROOM ? FIRST_ROOM : capture->room * 2;
    if (room > capture->limit) room = capture->limit;
    uint8_t* data = realloc(capture->data, room);
    if (data == NULL) {
      capture->limit = capture->size;
      return 0;
    }
    capture->data = data;
    capture->room = room;
  }
  size_t left = capture->room - capture->size;
  return most < left ? most : left;
}

bool gbx__capture_read(struct gbx__capture* capture, size_t most) {
  while (most > 0) {
    size_t want = most < READ_SIZE ? most : READ_SIZE;
    size_t room = make_room(capture, want);
    uint8_t away[65536]; /* what a pipe holds: a loud box is soon done */
    ssize_t count =
        room > 0 ? RETRY(read(capture->fd, capture->data + capture->size, room))
                 : RETRY(read(capture->fd, away,
                              want < sizeof away ? want : sizeof away));
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    if (room > 0)
      capture->size += (size_t)count;
    else
      capture->truncated = true;
    most -= (size_t)count;
  }
  return true;
}

void gbx__capture_reset(struct gbx__capture* capture, size_t limit) {
  free(capture->data);
  capture->data = NULL;
  capture->size = capture->room = capture->taken = 0;
  capture->limit = limit;
  capture->truncated = false;
}

void gbx__capture_close(struct gbx__capture* capture) {
  gbx__poll_close(&capture->poll);
  fd_close(&capture->fd);
  gbx__capture_reset(capture, 0);
}

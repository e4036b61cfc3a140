/* SPDX-License-Identifier: Apache-2.0 */

/* Frames of docs/protocol.md. Everything read here was written by a process
 * that runs hostile code: lengths are checked before memory is taken. */

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/fd.h"
#include "engine/internal.h"

#define FRAME_MAX (64u << 20)
/* Bodies of results, per run or cell, and their number, as in lib/frames.js. */
#define RESULT_BUDGET (256u << 20)
#define RESULT_COUNT  1000
/* Of one body, and a hundred times what a driver's has. */
#define MARK_COUNT  4096
#define READ_COST   1024
#define AHEAD_BYTES 4096
/* What a frame is given up with. */
#define RESET_BYTE 0xff

static uint32_t little_endian(const uint8_t* bytes) {
  return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
         (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void put_little_endian(uint8_t* bytes, uint32_t value) {
  for (int i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(value >> (8 * i));
}

static size_t left_of(const struct gbx__control* control) {
  return control->again_size - control->again_taken;
}

/* A frame is given up in the middle: the process that wrote it has died, and
 * another answers in its place (docs/protocol.md). Where in the frame that is
 * nobody knows, so it fills a header or ends a body: no JSON has that byte. */
static void begin_reset(struct gbx__control* control, const uint8_t* rest,
                        size_t size) {
  size_t left = left_of(control);
  uint8_t* again = size > 0 ? malloc(size + left) : NULL;
  if (again != NULL) { /* without memory its answer is lost, and it times out */
    memcpy(again, rest, size);
    if (left > 0)
      memcpy(again + size, control->again + control->again_taken, left);
    free(control->again);
    control->again = again;
    control->again_size = control->again_room = size + left;
    control->again_taken = 0;
  }
  /* A DONE that is given up was none. */
  if (control->type == GBX_FRAME_DONE && control->body != NULL)
    control->done_came = false;
  gbx__control_next(control); /* only now: the rest may lie in its body */
  control->resetting = control->was_reset = true;
}

static bool has_room_ahead(struct gbx__control* control) {
  if (control->again_room >= AHEAD_BYTES) return true;
  uint8_t* grown = realloc(control->again, AHEAD_BYTES);
  if (grown == NULL) return false; /* it goes without */
  control->again = grown;
  control->again_room = AHEAD_BYTES;
  return true;
}

/* Small frames come several at a time, and each in two pieces. */
static ssize_t read_ahead(struct gbx__control* control) {
  control->again_size = control->again_taken = 0;
  ssize_t count = RETRY(read(control->fd, control->again, AHEAD_BYTES));
  if (count > 0) control->again_size = (size_t)count;
  return count;
}

static ssize_t read_bytes(struct gbx__control* control, uint8_t* into,
                          size_t want) {
  if (left_of(control) == 0 && want < AHEAD_BYTES && has_room_ahead(control)) {
    ssize_t count = read_ahead(control);
    if (count <= 0) return count;
  }
  size_t left = left_of(control);
  if (left == 0) return RETRY(read(control->fd, into, want));
  if (want > left) want = left;
  memcpy(into, control->again + control->again_taken, want);
  control->again_taken += want;
  return (ssize_t)want;
}

/* Whether JavaScript gets this frame. What goes beyond is read away: frames
 * wait in the host's memory until JavaScript takes them, so a flood of small
 * results or of DONEs would fill it. */
static bool is_wanted(struct gbx__control* control, size_t size) {
  if (control->type == GBX_FRAME_DONE) {
    bool first = !control->done_came;
    control->done_came = true;
    return first;
  }
  if (size > control->budget || control->results_left == 0) {
    control->dropped = true;
    return false;
  }
  control->budget -= size;
  control->results_left--;
  return true;
}

/* The header is complete. CONTROL_NOTHING: its body can be read. */
static enum gbx__control_event begin_body(struct gbx__control* control) {
  size_t size = little_endian(control->head);
  control->type = little_endian(control->head + 4);
  /* No frame of a driver has such a type: see begin_reset(). */
  if (control->head[7] == RESET_BYTE) {
    begin_reset(control, NULL, 0);
    return CONTROL_NOTHING;
  }
  if (size > FRAME_MAX ||
      (control->type != GBX_FRAME_RESULT && control->type != GBX_FRAME_DONE))
    return CONTROL_FAULT;
  control->body_size = size;
  control->body_have = 0;
  control->body = NULL;
  control->marks = 0;
  control->in_string = control->escaped = false;
  if (!is_wanted(control, size)) return CONTROL_NOTHING;
  /* One more: an empty body is no NULL, and text may be terminated. */
  control->body = malloc(size + 1);
  if (control->body != NULL) return CONTROL_NOTHING;
  control->dropped = true;
  /* A result can do without; what waits for a DONE cannot. */
  return control->type == GBX_FRAME_DONE ? CONTROL_NO_MEMORY : CONTROL_NOTHING;
}

/* Counts what gives the body its structure. JavaScript parses text at a few
 * nanoseconds a byte, but a list of lists at 200: 64 MiB of them would stop its
 * event loop for 12 s (KRN-04). */
static void count_marks(struct gbx__control* control, const uint8_t* bytes,
                        size_t size) {
  const uint8_t* end = bytes + size;
  for (const uint8_t* at = bytes; at < end; at++) {
    if (control->escaped) {
      control->escaped = false;
    } else if (control->in_string) {
      while (at < end && *at != '"' && *at != '\\')
        at++;
      if (at == end) return;
      control->escaped = *at == '\\';
      control->in_string = control->escaped;
    } else if (*at == '"') {
      control->in_string = true;
    } else if (*at == ',' || *at == ':' || *at == '[' || *at == '{') {
      control->marks++;
    }
  }
}

/* The body is complete. Returns whether JavaScript gets it. */
static bool is_parsable(struct gbx__control* control) {
  if (control->marks <= MARK_COUNT) return true;
  if (control->type == GBX_FRAME_DONE) {
    control->body_size = 0; /* so it is none that a driver sends */
    return true;
  }
  control->dropped = true;
  return false;
}

void gbx__control_begin(struct gbx__control* control) {
  control->budget = RESULT_BUDGET;
  control->results_left = RESULT_COUNT;
  control->done_came = false;
  control->dropped = false;
  control->was_reset = false;
}

/* A read of few bytes costs as much as one of many. */
static void spend(size_t* share, size_t count) {
  size_t cost = count < READ_COST ? READ_COST : count;
  *share -= cost < *share ? cost : *share;
}

enum gbx__control_event gbx__control_read(struct gbx__control* control,
                                          size_t* share) {
  /* To the end of what was read: nobody would be told that it is there. */
  while (*share > 0 || left_of(control) > 0) {
    uint8_t away[4096];
    uint8_t* into;
    size_t want;
    if (control->resetting) {
      into = away;
      want = 1;
    } else if (control->head_size < sizeof control->head) {
      into = control->head + control->head_size;
      want = sizeof control->head - control->head_size;
    } else {
      want = control->body_size - control->body_have;
      into = control->body != NULL ? control->body + control->body_have : away;
      if (control->body == NULL && want > sizeof away) want = sizeof away;
    }
    ssize_t count = want == 0 ? 0 : read_bytes(control, into, want);
    if (count < 0) return errno == EAGAIN ? CONTROL_NOTHING : CONTROL_END;
    if (count == 0 && want > 0) return CONTROL_END;
    spend(share, (size_t)count);
    if (control->resetting) {
      control->resetting = away[0] != '\0';
      continue;
    }
    if (control->head_size < sizeof control->head) {
      control->head_size += (size_t)count;
      if (control->head_size < sizeof control->head) continue;
      enum gbx__control_event event = begin_body(control);
      if (event != CONTROL_NOTHING) return event;
      if (control->body_size > 0) continue;
    } else {
      const uint8_t* reset =
          count > 0 ? memchr(into, RESET_BYTE, (size_t)count) : NULL;
      if (reset != NULL) {
        size_t rest = (size_t)(into + count - reset) - 1;
        begin_reset(control, reset + 1, rest);
        continue;
      }
      if (control->body != NULL) count_marks(control, into, (size_t)count);
      control->body_have += (size_t)count;
      if (control->body_have < control->body_size) continue;
    }
    if (control->body != NULL && is_parsable(control)) return CONTROL_FRAME;
    gbx__control_next(control); /* a dropped one */
  }
  return CONTROL_NOTHING;
}

void gbx__control_next(struct gbx__control* control) {
  free(control->body);
  control->body = NULL;
  control->head_size = control->body_size = control->body_have = 0;
}

int gbx__control_send(struct gbx__control* control, enum gbx_frame type,
                      struct gbx_bytes body, struct gbx_err* err) {
  if (body.size > FRAME_MAX)
    return gbx_fail(err, GBX_E_TOO_LARGE, 0, "cell",
                    "%zu bytes of code; at most %u", body.size, FRAME_MAX);
  free(control->out);
  control->out = malloc(body.size + 8);
  if (control->out == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "cell");
  put_little_endian(control->out, (uint32_t)body.size);
  put_little_endian(control->out + 4, (uint32_t)type);
  if (body.size > 0) memcpy(control->out + 8, body.data, body.size);
  control->out_size = body.size + 8;
  control->out_sent = 0;
  (void)gbx__control_flush(control); /* the caller polls for the rest */
  return 0;
}

bool gbx__control_flush(struct gbx__control* control) {
  while (control->out_sent < control->out_size) {
    ssize_t count = RETRY(send(
        control->cell_fd, control->out + control->out_sent,
        control->out_size - control->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (count < 0 && errno == EAGAIN) return true;
    if (count < 0) break; /* the driver is gone: its end will say so */
    control->out_sent += (size_t)count;
  }
  free(control->out);
  control->out = NULL;
  control->out_size = control->out_sent = 0;
  if (control->shut_when_sent) (void)shutdown(control->cell_fd, SHUT_WR);
  control->shut_when_sent = false;
  return false;
}

void gbx__control_close(struct gbx__control* control) {
  gbx__poll_close(&control->poll);
  gbx__poll_close(&control->cell_poll);
  fd_close(&control->fd);
  fd_close(&control->cell_fd);
  free(control->out);
  control->out = NULL;
  free(control->again);
  control->again = NULL;
  control->again_size = control->again_taken = control->again_room = 0;
  gbx__control_next(control);
}

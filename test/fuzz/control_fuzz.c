/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/engine/control.c src/common/error.c libs: */
// clang-format on

/* gbx__control_read: any bytes from a driver, in pieces of any size, against a
 * second decoder that sees the whole stream at once. The first byte of the
 * input holds options; then come pieces, each after a byte of its own. */

#include <sys/socket.h>

#include "engine/internal.h"
#include "fuzz.h"

#define FRAME_LARGEST ((size_t)64 << 20)

enum options {
  SMALL_BUDGET = 1, /* that inputs of this size can use up */
  MORE_CELLS = 2,   /* a DONE ends a cell and not the run */
};

enum piece {
  PIECE_SIZE = 0x3f,
  PIECE_LARGE = 0x40,       /* times 128: more than one read takes away */
  PIECE_SMALL_SHARE = 0x80, /* read it in many turns */
};

/* The reference: where it stands in the stream, and what it still takes. */
struct decoder {
  const uint8_t* stream;
  size_t size, at;
  int options;
  size_t budget;
  unsigned results_left;
  bool dropped, done_came;
};

struct frame {
  uint32_t type;
  const uint8_t* body;
  size_t size;
};

/* control.c closes its poll handle through it; there is none. */
void gbx__poll_close(uv_poll_t** poll) {
  CHECK(*poll == NULL);
}

static void begin(struct gbx__control* control, struct decoder* decoder) {
  gbx__control_begin(control);
  if ((decoder->options & SMALL_BUDGET) != 0) {
    control->budget = 64;
    control->results_left = 3;
  }
  decoder->budget = control->budget;
  decoder->results_left = control->results_left;
  decoder->dropped = decoder->done_came = false;
}

static bool takes(struct decoder* decoder, const struct frame* frame) {
  if (frame->type == GBX_FRAME_DONE) {
    if (decoder->done_came) return false;
    return decoder->done_came = true;
  }
  if (frame->size > decoder->budget || decoder->results_left == 0) {
    decoder->dropped = true;
    return false;
  }
  decoder->budget -= frame->size;
  decoder->results_left--;
  return true;
}

static uint32_t number_at(const uint8_t* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; i--)
    value = value << 8 | bytes[i];
  return value;
}

/* Behind the byte that ends a frame: up to the NUL that ends the reset. */
static bool reset(struct decoder* decoder, size_t at) {
  while (at < decoder->size && decoder->stream[at] != 0)
    at++;
  decoder->at = at + 1;
  return at < decoder->size;
}

static enum gbx__control_event decode(struct decoder* decoder,
                                      struct frame* ret_frame) {
  for (;;) {
    const uint8_t* next = decoder->stream + decoder->at;
    size_t left = decoder->size - decoder->at;
    if (left < 8) return CONTROL_END;
    if (next[7] == 0xff) {
      if (!reset(decoder, decoder->at + 8)) return CONTROL_END;
      continue;
    }
    *ret_frame = (struct frame){
        .type = number_at(next + 4), .body = next + 8, .size = number_at(next)};
    if (ret_frame->size > FRAME_LARGEST ||
        (ret_frame->type != GBX_FRAME_RESULT &&
         ret_frame->type != GBX_FRAME_DONE))
      return CONTROL_FAULT;
    bool wanted = takes(decoder, ret_frame);
    size_t there = ret_frame->size < left - 8 ? ret_frame->size : left - 8;
    const uint8_t* given_up = memchr(next + 8, 0xff, there);
    if (given_up != NULL) {
      if (wanted && ret_frame->type == GBX_FRAME_DONE)
        decoder->done_came = false;
      if (!reset(decoder, (size_t)(given_up - decoder->stream) + 1))
        return CONTROL_END;
      continue;
    }
    if (ret_frame->size > left - 8) return CONTROL_END;
    decoder->at += 8 + ret_frame->size;
    if (wanted) return CONTROL_FRAME;
  }
}

/* Takes the frames that are there. Returns false once no more can come. */
static bool read_frames(struct gbx__control* control, struct decoder* decoder,
                        size_t share_size) {
  for (;;) {
    size_t share = share_size;
    enum gbx__control_event event = gbx__control_read(control, &share);
    CHECK(share <= share_size);
    if (event == CONTROL_NOTHING) {
      if (share > 0) return true;
      continue;
    }
    struct frame frame = {0};
    CHECK(decode(decoder, &frame) == event);
    if (event != CONTROL_FRAME) return false;
    CHECK(control->type == frame.type && control->body_size == frame.size);
    CHECK(memcmp(control->body, frame.body, frame.size) == 0);
    control->body[frame.size] = 0; /* the room that it promises */
    bool is_done = frame.type == GBX_FRAME_DONE;
    gbx__control_next(control);
    if (is_done && (decoder->options & MORE_CELLS) != 0)
      begin(control, decoder);
  }
}

/* The length of the piece that begins at data[0], without that byte. */
static size_t piece_length(const uint8_t* data, size_t size) {
  size_t length = data[0] & PIECE_SIZE;
  if ((data[0] & PIECE_LARGE) != 0) length *= 128;
  return length < size - 1 ? length : size - 1;
}

static uint8_t* join_pieces(const uint8_t* data, size_t size,
                            size_t* ret_size) {
  uint8_t* stream = malloc(size + 1);
  CHECK(stream != NULL);
  size_t at = 0;
  while (size > 0) {
    size_t length = piece_length(data, size);
    memcpy(stream + at, data + 1, length);
    at += length;
    data += 1 + length;
    size -= 1 + length;
  }
  *ret_size = at;
  return stream;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  struct decoder decoder = {.options = data[0]};
  data++;
  size--;
  uint8_t* stream = join_pieces(data, size, &decoder.size);
  decoder.stream = stream;

  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) == 0);
  struct gbx__control control = {.fd = pair[0], .cell_fd = -1};
  begin(&control, &decoder);
  bool more = true;
  while (more && size > 0) {
    size_t length = piece_length(data, size);
    size_t share = (data[0] & PIECE_SMALL_SHARE) != 0 ? 1 : 1 << 20;
    if (length > 0)
      CHECK(send(pair[1], data + 1, length, MSG_NOSIGNAL) == (ssize_t)length);
    more = read_frames(&control, &decoder, share);
    data += 1 + length;
    size -= 1 + length;
  }
  CHECK(close(pair[1]) == 0);
  if (more) CHECK(!read_frames(&control, &decoder, 1 << 20));
  CHECK(control.dropped == decoder.dropped);
  CHECK(control.done_came == decoder.done_came);
  gbx__control_close(&control);
  free(stream);
  return 0;
}

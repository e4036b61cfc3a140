/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/fd.h"
#include "engine/internal.h"

/* What the terminal's driver takes for the end of input while nobody changed
 * its settings: Ctrl-D. */
#define END_OF_TRANSMISSION 4

struct gbx__chunk* gbx__chunk_new(const void* data, size_t size) {
  /* One more, for a terminal's end. */
  struct gbx__chunk* chunk = malloc(sizeof *chunk + size + 1);
  if (chunk == NULL) return NULL;
  *chunk = (struct gbx__chunk){.size = size};
  if (size > 0) memcpy(chunk->bytes, data, size);
  return chunk;
}

void gbx__input_init(struct gbx__input* input) {
  *input = (struct gbx__input){.fd = -1};
  input->last = &input->first;
}

void gbx__input_add(struct gbx__input* input, struct gbx__chunk* chunk,
                    bool ends) {
  if (ends) {
    input->ends = true;
    if (input->is_terminal) chunk->bytes[chunk->size++] = END_OF_TRANSMISSION;
  }
  *input->last = chunk;
  input->last = &chunk->next;
}

static void drop_first(struct gbx__input* input, int* written) {
  struct gbx__chunk* chunk = input->first;
  if (chunk->is_asked) (*written)++;
  input->first = chunk->next;
  if (input->first == NULL) input->last = &input->first;
  free(chunk);
}

enum gbx__input_state gbx__input_flush(struct gbx__input* input, int* written) {
  while (input->first != NULL) {
    struct gbx__chunk* chunk = input->first;
    if (chunk->sent < chunk->size) {
      /* SIGPIPE is blocked on this thread. */
      ssize_t count = RETRY(write(input->fd, chunk->bytes + chunk->sent,
                                  chunk->size - chunk->sent));
      if (count < 0 && errno == EAGAIN) return INPUT_WAITING;
      if (count < 0) {
        gbx__input_close(input);
        return INPUT_BROKEN;
      }
      chunk->sent += (size_t)count;
    }
    if (chunk->sent == chunk->size) drop_first(input, written);
  }
  /* A terminal stays: it is also where output comes from. */
  if (input->ends && !input->is_terminal) gbx__input_close(input);
  return INPUT_IDLE;
}

void gbx__input_close(struct gbx__input* input) {
  int ignored = 0;
  gbx__poll_close(&input->poll);
  fd_close(&input->fd);
  while (input->first != NULL)
    drop_first(input, &ignored);
}

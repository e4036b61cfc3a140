/* SPDX-License-Identifier: Apache-2.0 */

/* What a session's root is made of, as the launcher gets it: the records of
 * wire.h, in one block that can be compared with another session's. */

#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

static size_t record_size(const struct gbx_entry* entry) {
  return sizeof(struct gbx_wire_entry) + strlen(entry->target) + 1 +
         (entry->source == NULL ? 0 : strlen(entry->source)) + 1 + entry->size;
}

static uint8_t* put_record(uint8_t* at, const struct gbx_entry* entry) {
  const char* source = entry->source == NULL ? "" : entry->source;
  struct gbx_wire_entry record = {
      .kind = (uint32_t)entry->kind,
      .target_size = (uint32_t)strlen(entry->target) + 1,
      .source_size = (uint32_t)strlen(source) + 1,
      .data_size = (uint32_t)entry->size};
  memcpy(at, &record, sizeof record);
  at += sizeof record;
  memcpy(at, entry->target, record.target_size);
  at += record.target_size;
  memcpy(at, source, record.source_size);
  at += record.source_size;
  if (entry->size > 0) memcpy(at, entry->data, entry->size);
  return at + entry->size;
}

/* A standby as one of them. */
static int make_standby(const struct gbx_standby* standby,
                        struct gbx_entry* ret_entry) {
  static const char* const numbers[][2] = {
      {"0", "0!"}, {"1", "1!"}, {"2", "2!"}, {"3", "3!"}};
  struct gbx_bytes blob;
  int result =
      gbx__exec_blob_make("/workspace", standby->argv, standby->env, &blob);
  if (result < 0) return result;
  *ret_entry =
      (struct gbx_entry){.kind = GBX_ENTRY_STANDBY,
                         .target = standby->argv[0],
                         .source = numbers[standby->runtime][standby->required],
                         .data = blob.data,
                         .size = blob.size};
  return 0;
}

uint8_t* gbx__root_records_make(const struct gbx_session_options* options,
                                size_t* ret_size) {
  struct gbx_entry standbys[GBX_STANDBYS];
  size_t count = 0, size = 0;
  uint8_t* blob = NULL;
  for (size_t i = 0; i < options->entry_count; i++)
    size += record_size(&options->entries[i]);
  for (; count < options->standby_count; count++) {
    if (make_standby(&options->standbys[count], &standbys[count]) < 0)
      goto done;
    size += record_size(&standbys[count]);
  }
  blob = malloc(size + 1);
  if (blob == NULL) goto done;
  *ret_size = size;
  uint8_t* at = blob;
  for (size_t i = 0; i < options->entry_count; i++)
    at = put_record(at, &options->entries[i]);
  for (size_t i = 0; i < count; i++)
    at = put_record(at, &standbys[i]);
done:
  for (size_t i = 0; i < count; i++)
    free((void*)standbys[i].data);
  return blob;
}

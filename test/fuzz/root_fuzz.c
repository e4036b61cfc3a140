/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/launcher/mount.c src/common/layout.c src/common/wire.c src/common/error.c src/common/fd.c libs: */
// clang-format on

/* The launcher's reader of the records that describe a root. The input is the
 * memfd's content. Nothing is mounted: the reader is called alone, which is
 * why its file is included. */

#include "exact_map.h"
/* In this order: exact_map.h redefines what root.c calls. */
#include "launcher/root.c"

static bool lies_within(const struct plan* plan, const void* bytes,
                        size_t size) {
  const char* start = plan->map;
  const char* at = bytes;
  return at >= start && at <= start + plan->map_size &&
         size <= (size_t)(start + plan->map_size - at);
}

static void check_text(const struct plan* plan, const char* text) {
  CHECK(lies_within(plan, text, 1));
  size_t size = strlen(text) + 1;
  CHECK(lies_within(plan, text, size) && size <= PATH_MAX);
}

static void check_targets(const struct plan* plan,
                          bool (*is_wanted)(const struct entry* entry)) {
  struct gbx_err err = {0};
  char* targets = NULL;
  CHECK(list_targets(plan, is_wanted, &targets, &err) == 0);
  const char* list = targets;
  for (size_t i = 0; i < plan->count; i++) {
    const char* target = plan->entries[i].target;
    if (!is_wanted(&plan->entries[i])) continue;
    CHECK(list != NULL && strcmp(list, target) == 0);
    list += strlen(list) + 1;
  }
  CHECK(list == NULL || list[0] == '\0');
  free(targets);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct gbx_err err = {0};
  struct plan plan = {.device_fd = {-1, -1, -1, -1, -1}};
  struct root_image image = {.ns_fd = -1};
  for (int i = 0; i < GBX_STANDBYS; i++)
    image.standby_fd[i] = -1;
  int result = read_plan(input_fd(data, size), &plan, &image, &err);
  CHECK((result == 0) == (err.code == GBX_OK));
  for (size_t i = 0; i < plan.count; i++) {
    const struct entry* entry = &plan.entries[i];
    check_text(&plan, entry->target);
    check_text(&plan, entry->source);
    CHECK(entry->target[0] == '/' && entry->tree_fd == -1);
    CHECK(lies_within(&plan, entry->data, entry->size));
    touch(entry->data, entry->size);
  }
  if (result == 0) {
    CHECK(plan.map_size == size);
    check_targets(&plan, is_covered);
    check_targets(&plan, is_mount);
  }
  close_plan(&plan);
  root_image_done(&image);
  exact_unmap_all();
  return 0;
}

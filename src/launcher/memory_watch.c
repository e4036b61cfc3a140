/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/memory_watch.h"

#include "launcher/clock.h"
#include "launcher/state.h"
#include "launcher/watchdog.h"

static bool is_watched(const struct box* box) {
  return box->leaf == 0 && box->state == BOX_RUNNING && box->run != NULL &&
         !box->reaped && box->run->request.limits.memory_bytes != 0 &&
         (box->run->request.flags & GBX_RUN_NO_CGROUP) == 0;
}

static bool look_at_memory(void) {
  struct watchdog_box* list = NULL;
  for (struct box* box = launcher.boxes; box != NULL; box = box->next) {
    if (!is_watched(box)) continue;
    box->memory.limit_bytes = box->run->request.limits.memory_bytes;
    box->memory.is_over = false;
    box->memory.next = list;
    list = &box->memory;
  }
  bool is_complete = watchdog_look(list);
  for (struct box* box = launcher.boxes; box != NULL; box = box->next) {
    if (!is_watched(box) || !box->memory.is_over) continue;
    box->end.oom = 1;
    box_kill(box);
  }
  return is_complete;
}

int keep_watch(void) {
  const struct box* box = launcher.boxes;
  while (box != NULL && !is_watched(box))
    box = box->next;
  if (box == NULL) {
    launcher.next_look_ms = 0;
    return -1;
  }
  int64_t now = now_ms();
  if (launcher.next_look_ms == 0) {
    launcher.next_look_ms = now + WATCHDOG_MS;
  } else if (now >= launcher.next_look_ms) {
    bool is_complete = look_at_memory();
    int64_t took = now_ms() - now;
    /* The boxes of others wait while we look: half of the time is theirs. */
    launcher.next_look_ms =
        now + (is_complete && took < WATCHDOG_MS / 2 ? WATCHDOG_MS : 2 * took);
    now += took;
  }
  return (int)(launcher.next_look_ms - now);
}

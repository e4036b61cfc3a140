/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * Each folder of the workspace has a watch, which a walk makes before it reads
 * the folder. Between walks the kernel collects events; nobody is woken by
 * them. Read at the begin and at the end of a call they give the names that
 * something was done to, and those alone are looked at again.
 *
 * That is all of the truth only while no file has a name that is not watched.
 * So a walk takes the place of it when
 *   - the tree has a file with several names, a mount, or what we cannot read
 *     or leave out (walk.partial);
 *   - a folder came, went, moved or got another mode: there may have been names
 *     in it that we do not know;
 *   - a name that was new is gone again, or was replaced: it may have been a
 *     second name of a file that we know, written to through it;
 *   - the kernel lost events, or there are too many;
 *   - a box lives that is not the call's: a mapping is written to without any
 *     event, and said to have been only when the file is closed at last;
 *   - a box lives on between calls, and a file was opened since it began: the
 *     same. */

#include "engine/tracker.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

#include "common/fd.h"
#include "engine/beneath.h"
#include "engine/local.h"
#include "engine/workspace.h"

/* IN_OPEN: what was mapped was opened before. IN_ACCESS: a new time of access
 * alone is told as that. */
static const uint32_t touched =
    IN_OPEN | IN_ACCESS | IN_MODIFY | IN_CLOSE_WRITE;
static const uint32_t named =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO;
static const uint32_t itself = IN_DELETE_SELF | IN_MOVE_SELF;

/* One user has 128 instances and some 100,000 watches, for all its programs. */
#define MOST_INSTANCES    16u
#define SHARE_OF_WATCHES  4u
#define MOST_FOLDERS      (32u << 10)
#define MOST_FILES        (256u << 10)
#define MOST_EVENTS       (64u << 10)
#define MOST_READS        1024
#define FOLDERS_PER_DRAIN 256
/* On the engine's thread, which has more to do. */
#define MOST_QUICK_READS 4
/* Walks in a row that found what cannot be watched: the next will as well. */
#define MOST_VAIN_WALKS 3

struct watch {
  int number;
  uint32_t folder;
};

struct watches {
  struct watch* list; /* sorted by number when the walk is done */
  uint32_t count, room;
};

struct event {
  int watch;
  uint32_t folder; /* once it is known */
  uint32_t mask;
  uint32_t name; /* offset in `names`; "": the folder itself */
  uint32_t order;
};

/* A name that was looked at again. */
struct sight {
  uint32_t folder, name;
  bool is_new; /* so the events say, which end somewhere */
  bool is_file;
  struct gbx__walk_node file;
};

struct gbx__tracker {
  struct gbx__tracker_budget* budget;
  int fd;                   /* -1: not had yet, or given up */
  struct gbx__index* index; /* NULL: not known */
  struct watches watches;
  uint32_t taken; /* of the budget's watches */
  struct event* events;
  uint32_t event_count, event_room;
  char* names;
  uint32_t name_bytes, name_room;
  struct sight* sights;
  uint32_t sight_count;
  uint32_t walked_nodes, walked_name_bytes; /* as large as it was then */
  uint64_t stirs;
  bool unsure;   /* only a walk can tell */
  bool attended; /* a box lives on between calls */
  bool opened;   /* and may have mapped a file */
  bool is_local; /* the filesystem tells what happens in it */
  int vain_walks;
  unsigned walks;
};

struct gbx__tracker* gbx__tracker_new(struct gbx__tracker_budget* budget) {
  struct gbx__tracker* tracker = calloc(1, sizeof *tracker);
  if (tracker == NULL) return NULL;
  tracker->budget = budget;
  tracker->fd = -1;
  return tracker;
}

static void give_up(struct gbx__tracker* tracker) {
  tracker->vain_walks = MOST_VAIN_WALKS;
  if (tracker->fd >= 0) atomic_fetch_sub(&tracker->budget->instances, 1);
  fd_close(&tracker->fd);
  atomic_fetch_sub(&tracker->budget->watches, tracker->taken);
  tracker->taken = 0;
}

void gbx__tracker_free(struct gbx__tracker* tracker) {
  if (tracker == NULL) return;
  give_up(tracker);
  gbx__index_free(tracker->index);
  free(tracker->watches.list);
  free(tracker->events);
  free(tracker->names);
  free(tracker->sights);
  free(tracker);
}

bool gbx__tracker_is_useful(const struct gbx__tracker* tracker) {
  return tracker->vain_walks < MOST_VAIN_WALKS;
}

unsigned gbx__tracker_walks(const struct gbx__tracker* tracker) {
  return tracker->walks;
}

/* ---- Watches ------------------------------------------------------------- */

static uint32_t most_watches(void) {
  char text[32] = "";
  (void)fd_read_file(AT_FDCWD, "/proc/sys/fs/inotify/max_user_watches", text,
                     sizeof text);
  return (uint32_t)strtoul(text, NULL, 10) / SHARE_OF_WATCHES;
}

static void open_instance(struct gbx__tracker* tracker) {
  if (tracker->fd >= 0) return;
  if (atomic_fetch_add(&tracker->budget->instances, 1) < MOST_INSTANCES)
    tracker->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (tracker->fd < 0) atomic_fetch_sub(&tracker->budget->instances, 1);
}

static int compare_watches(const void* a, const void* b) {
  int number_a = ((const struct watch*)a)->number;
  int number_b = ((const struct watch*)b)->number;
  return (number_a > number_b) - (number_a < number_b);
}

static const struct watch* find_watch(const struct watches* watches,
                                      int number) {
  const struct watch wanted = {.number = number};
  return watches->count == 0 ? NULL
                             : bsearch(&wanted, watches->list, watches->count,
                                       sizeof wanted, compare_watches);
}

static bool add_watch(struct watches* watches, int number, uint32_t folder) {
  if (watches->count == watches->room) {
    uint32_t room = watches->room == 0 ? 64 : watches->room * 2;
    void* grown = realloc(watches->list, room * sizeof *watches->list);
    if (grown == NULL) return false;
    watches->list = grown;
    watches->room = room;
  }
  watches->list[watches->count++] =
      (struct watch){.number = number, .folder = folder};
  return true;
}

/* ---- Events -------------------------------------------------------------- */

static bool keep_event(struct gbx__tracker* tracker,
                       const struct inotify_event* event) {
  if (tracker->event_count == MOST_EVENTS) return false;
  if (tracker->event_count == tracker->event_room) {
    uint32_t room = tracker->event_room == 0 ? 64 : tracker->event_room * 2;
    void* grown = realloc(tracker->events, room * sizeof *tracker->events);
    if (grown == NULL) return false;
    tracker->events = grown;
    tracker->event_room = room;
  }
  const char* name = event->len == 0 ? "" : event->name;
  size_t size = strlen(name) + 1;
  if (tracker->name_bytes + size > tracker->name_room) {
    size_t room = (size_t)tracker->name_room * 2 + size + 1024;
    void* grown = realloc(tracker->names, room);
    if (grown == NULL) return false;
    tracker->names = grown;
    tracker->name_room = (uint32_t)room;
  }
  memcpy(tracker->names + tracker->name_bytes, name, size);
  tracker->events[tracker->event_count] =
      (struct event){.watch = event->wd,
                     .mask = event->mask,
                     .name = tracker->name_bytes,
                     .order = tracker->event_count};
  tracker->event_count++;
  tracker->name_bytes += (uint32_t)size;
  return true;
}

/* That somebody looks into a folder, as we do, or that one is written to, which
 * is told by the names in it. */
static bool is_noise(const struct inotify_event* event) {
  bool is_of_folder = event->len == 0 || (event->mask & IN_ISDIR) != 0;
  return is_of_folder && (event->mask & (named | itself | IN_ATTRIB |
                                         IN_IGNORED | IN_UNMOUNT)) == 0;
}

static void take_event(struct gbx__tracker* tracker,
                       const struct inotify_event* event) {
  bool has_lost = (event->mask & IN_Q_OVERFLOW) != 0;
  if (!has_lost && is_noise(event)) return;
  tracker->stirs++;
  if (has_lost || (event->mask & IN_OPEN) != 0)
    tracker->opened = tracker->attended;
  if (has_lost || !keep_event(tracker, event)) tracker->unsure = true;
}

enum { DRAINED, GOES_ON, FAILED };

/* Takes some of what the kernel has. */
static int drain_some(struct gbx__tracker* tracker, char* buffer, size_t room) {
  ssize_t size = RETRY(read(tracker->fd, buffer, room));
  if (size <= 0) return size < 0 && errno == EAGAIN ? DRAINED : FAILED;
  for (ssize_t at = 0; at < size;) {
    const struct inotify_event* event = (const void*)(buffer + at);
    at += (ssize_t)sizeof *event + event->len;
    take_event(tracker, event);
  }
  return GOES_ON;
}

/* Takes all of it. */
static void drain(struct gbx__tracker* tracker) {
  alignas(8) char buffer[32 * 1024];
  if (tracker->fd < 0) return;
  int state = GOES_ON;
  for (int reads = 0; state == GOES_ON && reads < MOST_READS; reads++)
    state = drain_some(tracker, buffer, sizeof buffer);
  if (state == DRAINED) return;
  /* There is no end of it. */
  tracker->unsure = true;
  tracker->opened = tracker->attended;
}

static void forget_events(struct gbx__tracker* tracker) {
  tracker->event_count = 0;
  tracker->name_bytes = 0;
}

/* ---- Walking ------------------------------------------------------------- */

struct visit {
  struct gbx__tracker* tracker;
  struct watches watches;
  uint32_t most; /* of all trackers */
  bool failed;
};

static void enter(void* data, uint32_t folder, int fd) {
  struct visit* visit = data;
  struct gbx__tracker* tracker = visit->tracker;
  if (visit->failed) return;
  if (visit->watches.count >= tracker->taken) { /* one more than it has */
    uint32_t others = atomic_fetch_add(&tracker->budget->watches, 1);
    tracker->taken++;
    if (others >= visit->most || tracker->taken > MOST_FOLDERS) {
      visit->failed = true;
      return;
    }
  }
  char link[32];
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  int number = inotify_add_watch(
      tracker->fd, link, touched | named | itself | IN_ATTRIB | IN_ONLYDIR);
  if (number < 0 || !add_watch(&visit->watches, number, folder))
    visit->failed = true;
  /* Our own looking makes events. */
  if (folder % FOLDERS_PER_DRAIN == FOLDERS_PER_DRAIN - 1) drain(tracker);
}

/* Whether each folder has a watch of its own. Sorts them. */
static bool are_distinct(struct watches* watches) {
  if (watches->count > 1)
    qsort(watches->list, watches->count, sizeof *watches->list,
          compare_watches);
  for (uint32_t i = 1; i < watches->count; i++)
    if (watches->list[i].number == watches->list[i - 1].number) return false;
  return true;
}

/* Those of the new walk take the place of the old. */
static void replace_watches(struct gbx__tracker* tracker,
                            struct watches* watches) {
  for (uint32_t i = 0; i < tracker->watches.count; i++) {
    int number = tracker->watches.list[i].number;
    if (find_watch(watches, number) == NULL)
      (void)inotify_rm_watch(tracker->fd, number); /* or it went by itself */
  }
  free(tracker->watches.list);
  tracker->watches = *watches;
  atomic_fetch_sub(&tracker->budget->watches, tracker->taken - watches->count);
  tracker->taken = watches->count;
}

/* Looks at all there is, and watches it from then on if it can be. */
static int walk(struct gbx__tracker* tracker,
                const struct gbx__workspace* workspace,
                struct gbx__index** ret_index, struct gbx_err* err) {
  tracker->walks++;
  if (tracker->walks == 1) tracker->is_local = gbx__is_local(workspace->fd);
  if (tracker->is_local && gbx__tracker_is_useful(tracker))
    open_instance(tracker);
  if (tracker->fd < 0) {
    give_up(tracker);
    return gbx__index_scan(workspace, ret_index, err);
  }
  drain(tracker); /* the walk will see what they tell */
  forget_events(tracker);
  tracker->unsure = false;
  struct visit visit = {.tracker = tracker, .most = most_watches()};
  const struct gbx__walk_visitor visitor = {.enter = enter, .data = &visit};
  struct gbx__index* index;
  int result = gbx__index_scan_with(workspace, &visitor, 0, &index, err);
  if (result < 0) {
    free(visit.watches.list);
    give_up(tracker);
    return result;
  }
  bool vain = !are_distinct(&visit.watches) || visit.failed ||
              index->walk.partial || index->walk.entries_seen > MOST_FILES ||
              visit.watches.count != index->walk.folder_count;
  replace_watches(tracker, &visit.watches);
  tracker->walked_nodes = index->walk.node_count;
  tracker->walked_name_bytes = index->walk.name_bytes;
  tracker->vain_walks = vain ? tracker->vain_walks + 1 : 0;
  if (vain) tracker->unsure = true;
  if (!gbx__tracker_is_useful(tracker)) give_up(tracker);
  *ret_index = index;
  return 0;
}

/* ---- A box that lives on ------------------------------------------------- */

void gbx__tracker_attend(struct gbx__tracker* tracker, bool lives_on) {
  tracker->attended = tracker->opened = false;
  if (!lives_on) return;
  drain(tracker); /* what was opened before is of others */
  tracker->attended = true;
}

bool gbx__tracker_can_begin(struct gbx__tracker* tracker) {
  return gbx__tracker_is_still(tracker) && gbx__index_is_old(tracker->index);
}

bool gbx__tracker_is_still(struct gbx__tracker* tracker) {
  alignas(8) char buffer[4 * 1024];
  if (tracker->fd < 0 || tracker->index == NULL || tracker->unsure ||
      tracker->opened)
    return false;
  int state = GOES_ON;
  for (int reads = 0; state == GOES_ON && tracker->event_count == 0 &&
                      reads < MOST_QUICK_READS;
       reads++)
    state = drain_some(tracker, buffer, sizeof buffer);
  return state == DRAINED && tracker->event_count == 0 && !tracker->unsure &&
         !tracker->opened;
}

uint64_t gbx__tracker_stirs(const struct gbx__tracker* tracker) {
  return tracker->stirs;
}

int gbx__tracker_fd(const struct gbx__tracker* tracker) {
  return tracker->fd;
}

/* ---- What the events tell ------------------------------------------------ */

static int compare_events(const void* a, const void* b, void* names) {
  const struct event* event_a = a;
  const struct event* event_b = b;
  if (event_a->folder != event_b->folder)
    return event_a->folder < event_b->folder ? -1 : 1;
  int order = strcmp((const char*)names + event_a->name,
                     (const char*)names + event_b->name);
  if (order != 0) return order;
  return event_a->order < event_b->order ? -1 : 1;
}

/* Gives the events their folders, and sorts them by name. False if they tell of
 * folders. */
static bool sort_events(struct gbx__tracker* tracker) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < tracker->event_count; i++) {
    struct event event = tracker->events[i];
    const struct watch* watch = find_watch(&tracker->watches, event.watch);
    if (watch == NULL) continue; /* of a folder that an earlier walk watched */
    if ((event.mask & IN_ISDIR) != 0 || tracker->names[event.name] == '\0')
      return false;
    event.folder = watch->folder;
    tracker->events[count++] = event;
  }
  tracker->event_count = count;
  if (count > 1)
    qsort_r(tracker->events, count, sizeof *tracker->events, compare_events,
            tracker->names);
  return true;
}

/* What is known of a name's file, from one event to the next. */
enum state {
  OLD,   /* it is what it was */
  EMPTY, /* that went, and had no other name */
  NEW,   /* another one is there, which may have been elsewhere as well */
  LEFT,  /* that went on to another name; or an exchange brought a third */
};

/* Whether an event leaves no doubt that every file has its name still, or had
 * only one. */
static bool follow(enum state* state, uint32_t mask) {
  if ((mask & named) == 0) return true;
  if (*state == LEFT) return false;
  if ((mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
    if (*state == NEW) return false;
    *state = NEW;
  } else if (*state == NEW) {
    if ((mask & IN_DELETE) != 0) return false;
    *state = LEFT;
  } else {
    if (*state == EMPTY) return false;
    *state = EMPTY;
  }
  return true;
}

static bool is_same_name(const struct gbx__tracker* tracker,
                         const struct event* a, const struct event* b) {
  return a->folder == b->folder &&
         strcmp(tracker->names + a->name, tracker->names + b->name) == 0;
}

/* The names to look at. False if the events do not tell all. */
static bool find_names(struct gbx__tracker* tracker) {
  if (tracker->unsure || !sort_events(tracker)) return false;
  free(tracker->sights);
  tracker->sight_count = 0;
  tracker->sights =
      malloc((tracker->event_count + 1) * sizeof *tracker->sights);
  if (tracker->sights == NULL) return false;
  enum state state = OLD;
  for (uint32_t i = 0; i < tracker->event_count; i++) {
    const struct event* event = &tracker->events[i];
    if (i == 0 || !is_same_name(tracker, event - 1, event)) {
      state = OLD;
      tracker->sights[tracker->sight_count++] =
          (struct sight){.folder = event->folder, .name = event->name};
    }
    if (!follow(&state, event->mask)) return false;
    tracker->sights[tracker->sight_count - 1].is_new = state == NEW;
  }
  return true;
}

static const char* name_of(const struct gbx__tracker* tracker,
                           const struct sight* sight) {
  return tracker->names + sight->name;
}

/* Looks at them. False if what is there is no plain file with one name. */
static bool look_again(struct gbx__tracker* tracker, int dir_fd) {
  const struct gbx__walk* files = &tracker->index->walk;
  cleanup_fd int fd = -1;
  for (uint32_t i = 0; i < tracker->sight_count; i++) {
    struct sight* sight = &tracker->sights[i];
    if (i == 0 || sight[-1].folder != sight->folder) {
      fd_close(&fd);
      fd = gbx__walk_open_folder(files, sight->folder, dir_fd);
      if (fd < 0) return false;
    }
    int found = gbx__walk_look(files, sight->folder, fd,
                               name_of(tracker, sight), &sight->file);
    if (found < 0 && (found != -ENOENT || sight->is_new)) return false;
    sight->is_file = found == 1;
  }
  return true;
}

/* The list has what was seen. Whatever fails there, a walk mends. */
static void accept_sights(struct gbx__tracker* tracker) {
  struct gbx__walk* files = &tracker->index->walk;
  for (uint32_t i = 0; i < tracker->sight_count; i++) {
    const struct sight* sight = &tracker->sights[i];
    const char* name = name_of(tracker, sight);
    if (!sight->is_file)
      gbx__walk_drop(files, sight->folder, name);
    else if (gbx__walk_put(files, sight->folder, name, &sight->file, NULL) < 0)
      tracker->unsure = true;
  }
  /* Places and names that are not used any more are in it as well. */
  if (files->node_count / 2 > tracker->walked_nodes + MOST_EVENTS ||
      files->name_bytes / 2 > tracker->walked_name_bytes + (1u << 20))
    tracker->unsure = true;
  forget_events(tracker);
  tracker->sight_count = 0;
}

/* ---- Around a call ------------------------------------------------------- */

int gbx__tracker_begin(struct gbx__tracker* tracker,
                       const struct gbx__workspace* workspace,
                       struct gbx_err* err) {
  drain(tracker);
  if (tracker->index != NULL && tracker->fd >= 0 && !tracker->opened &&
      find_names(tracker) && look_again(tracker, workspace->fd)) {
    accept_sights(tracker);
  } else {
    gbx__index_free(tracker->index);
    tracker->index = NULL;
    int result = walk(tracker, workspace, &tracker->index, err);
    if (result < 0) return result;
  }
  /* What the other tries in the workspace would be told as the box's. */
  if (tracker->attended && !tracker->opened)
    gbx__index_age(tracker->index);
  else
    gbx__index_settle(workspace, tracker->index);
  return 0;
}

struct change {
  const struct sight* sight;
  enum gbx_change kind;
};

/* Whether and how what was seen differs from the list. */
static bool is_changed(const struct gbx__tracker* tracker,
                       const struct sight* sight, enum gbx_change* ret_kind) {
  const struct gbx__walk_node* before = gbx__walk_find(
      &tracker->index->walk, sight->folder, name_of(tracker, sight));
  if (before == NULL && !sight->is_file) return false;
  *ret_kind = before == NULL   ? GBX_CREATED
              : sight->is_file ? GBX_MODIFIED
                               : GBX_DELETED;
  return *ret_kind != GBX_MODIFIED ||
         !gbx__index_same_file(before, &sight->file);
}

static int compare_files(const void* a, const void* b) {
  return strcmp(((const struct gbx_changed_file*)a)->path,
                ((const struct gbx_changed_file*)b)->path);
}

/* One block with the paths in it. */
static int take_files(const struct gbx__tracker* tracker,
                      const struct change* changes, size_t count,
                      struct gbx_changed_file** ret_files,
                      struct gbx_err* err) {
  const struct gbx__walk* files = &tracker->index->walk;
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    bytes += files->folders[changes[i].sight->folder].path_size +
             strlen(name_of(tracker, changes[i].sight)) + 1;
  struct gbx_changed_file* list = malloc(count * sizeof *list + bytes);
  if (list == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "changed files");
  char* path = (char*)(list + count);
  for (size_t i = 0; i < count; i++) {
    const struct sight* sight = changes[i].sight;
    list[i] = (struct gbx_changed_file){
        .path = path,
        .size = changes[i].kind == GBX_DELETED ? 0 : sight->file.size,
        .change = changes[i].kind};
    path += files->folders[sight->folder].path_size;
    gbx__walk_folder_path(files, sight->folder, path);
    strcpy(path, name_of(tracker, sight)); /* the room was counted */
    path += strlen(path) + 1;
  }
  qsort(list, count, sizeof *list, compare_files);
  *ret_files = list;
  return 0;
}

static int tell_changes(const struct gbx__tracker* tracker,
                        struct gbx_changed_file** ret_files, size_t* ret_count,
                        struct gbx_err* err) {
  cleanup_free struct change* changes =
      malloc((tracker->sight_count + 1) * sizeof *changes);
  if (changes == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "malloc", "changed files");
  size_t count = 0;
  for (uint32_t i = 0; i < tracker->sight_count; i++) {
    changes[count].sight = &tracker->sights[i];
    if (is_changed(tracker, &tracker->sights[i], &changes[count].kind)) count++;
  }
  *ret_count = count;
  *ret_files = NULL;
  return count == 0 ? 0 : take_files(tracker, changes, count, ret_files, err);
}

/* The long way. */
static int compare_all(struct gbx__tracker* tracker,
                       const struct gbx__workspace* workspace,
                       struct gbx_changed_file** ret_files, size_t* ret_count,
                       struct gbx_err* err) {
  struct gbx__index* before = tracker->index;
  tracker->index = NULL;
  int result = walk(tracker, workspace, &tracker->index, err);
  if (result == 0)
    result = gbx__index_diff(before, tracker->index, ret_files, ret_count, err);
  gbx__index_free(before);
  return result;
}

int gbx__tracker_end(struct gbx__tracker* tracker,
                     const struct gbx__workspace* workspace, bool alone,
                     struct gbx_changed_file** ret_files, size_t* ret_count,
                     struct gbx_err* err) {
  drain(tracker);
  if (!alone || tracker->fd < 0 || tracker->opened || !find_names(tracker) ||
      !look_again(tracker, workspace->fd))
    return compare_all(tracker, workspace, ret_files, ret_count, err);
  int result = tell_changes(tracker, ret_files, ret_count, err);
  accept_sights(tracker);
  return result;
}

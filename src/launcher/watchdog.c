/* SPDX-License-Identifier: Apache-2.0 */

/* Theory of operation
 * -------------------
 * The launcher is pid 1 of the pid namespace above all boxes, so its own /proc
 * has every process of theirs, and which box one belongs to is the pid
 * namespace that /proc/PID/ns/pid names. A look goes through /proc once for all
 * boxes, and adds up for each
 *   the resident memory of its processes,
 *   what is in its tmpfs mounts,
 *   memfds: its processes' descriptors that are on the kernel's own tmpfs,
 *   System V shared memory, as the box's own /proc lists it. (kernel.shmall,
 *     which would limit it, belongs to uid 0 of the namespace: boxes have
 * none.) That sum counts shared pages too often and never too rarely. Only a
 * box for which it is above the limit is looked at again, with what its pages
 * weigh when shared ones are shared out (PSS): slow, since the kernel walks the
 * page tables. In this second sum address spaces that two processes share
 * (vfork) count once, mapped files do not count: the kernel can take their
 * pages back, mapped shared memory and what is in tmpfs, memfds and segments
 * are mostly the same pages: the larger of the two counts.
 *
 * What it does not see: memory that nothing but a mapping holds which nobody
 * touched after a fork, memfds on their way through a socket, and page tables,
 * pipes and other memory of the kernel. docs/threat-model.md says so. */

#include "launcher/watchdog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "common/fd.h"
#include "common/sys.h"
#include "launcher/clock.h"

/* Bounds of one look at one box. A process can have 4096 descriptors: past so
 * many the rest waits for the next look, which begins at another process. */
#define FDS_MAX     16384
#define THREADS_MAX 4096
/* Distinct memfds; a power of two. Past half of them all count. */
#define MEMFDS_MAX 8192
/* Address spaces that one is compared with. */
#define SPACES_MAX 256
/* How long one box is weighed in one look. 255 processes that share 500 MiB
 * take more than a second, in which nobody else would be served: the next look
 * goes on with the rest. */
#define WEIGH_MS 10

struct process {
  pid_t id; /* of a thread that lives, if the first has ended */
  int next; /* of the same box; -1 */
  uint64_t resident;
  uint64_t anonymous; /* of `resident`, what is in no file */
  uint32_t threads;
};

/* Kept from look to look, so that one allocates nothing. */
static struct {
  struct process* processes;
  int count, capacity;
  uint64_t memfds[MEMFDS_MAX]; /* inodes; 0: free */
  int memfd_count;
  uint64_t page_size;
  unsigned dev_major, dev_minor; /* of memfds */
} dog;

/* ---- Small readers ------------------------------------------------------ */

/* Where memfds live is known by making one. */
static bool start(void) {
  if (dog.page_size != 0) return true;
  cleanup_fd int fd = memfd_create("gbx-watchdog", MFD_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) < 0) return false;
  dog.dev_major = major(info.st_dev);
  dog.dev_minor = minor(info.st_dev);
  dog.page_size = (uint64_t)sysconf(_SC_PAGESIZE);
  return true;
}

/* Calls `each` with the number that each entry of a folder of /proc is called,
 * until it returns false. */
typedef bool (*each_number)(int dir_fd, int number, void* data);
static void list_numbers(int dir_fd, each_number each, void* data) {
  _Alignas(struct dirent64) char buffer[8192];
  for (;;) {
    ssize_t size = getdents64(dir_fd, buffer, sizeof buffer);
    if (size <= 0) return;
    for (ssize_t at = 0; at < size;) {
      struct dirent64* entry = (struct dirent64*)(void*)(buffer + at);
      at += entry->d_reclen;
      char first = entry->d_name[0];
      if (first < '0' || first > '9') continue;
      if (!each(dir_fd, atoi(entry->d_name), data)) return;
    }
  }
}

static int open_proc(int dir_fd, pid_t id, const char* name) {
  char path[64];
  (void)snprintf(path, sizeof path, "%d/%s", id, name);
  return openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* Bytes that are resident; 0 of what has no memory (any more). */
static uint64_t read_resident(int dir_fd, pid_t id, uint64_t* ret_anonymous) {
  char text[128];
  cleanup_fd int fd = open_proc(dir_fd, id, "statm");
  ssize_t size = fd < 0 ? -1 : RETRY(read(fd, text, sizeof text - 1));
  if (size <= 0) return 0;
  text[size] = '\0';
  unsigned long long resident, in_files;
  if (sscanf(text, "%*s %llu %llu", &resident, &in_files) != 2) return 0;
  *ret_anonymous =
      resident > in_files ? (resident - in_files) * dog.page_size : 0;
  return resident * dog.page_size;
}

/* ---- Whose is which process --------------------------------------------- */

struct threads {
  int seen;
  pid_t id;
  uint64_t resident, anonymous;
};

static bool find_living_thread(int task_fd, int number, void* data) {
  struct threads* threads = data;
  threads->resident = read_resident(task_fd, number, &threads->anonymous);
  threads->id = number;
  return threads->resident == 0 && ++threads->seen < THREADS_MAX;
}

static bool add_process(int proc_fd, int number, void* data) {
  char path[64];
  (void)snprintf(path, sizeof path, "%d/ns/pid", number);
  struct stat info;
  if (fstatat(proc_fd, path, &info, 0) < 0) return true; /* it ended */
  struct watchdog_box* box = data;
  while (box != NULL && box->pid_namespace != info.st_ino)
    box = box->next;
  if (box == NULL) return true;

  if (dog.count == dog.capacity) {
    int capacity = dog.capacity == 0 ? 256 : dog.capacity * 2;
    struct process* more =
        realloc(dog.processes, (size_t)capacity * sizeof *more);
    if (more == NULL) return false;
    dog.processes = more;
    dog.capacity = capacity;
  }
  struct process* process = &dog.processes[dog.count];
  *process = (struct process){.id = number, .next = box->first};
  process->resident = read_resident(proc_fd, number, &process->anonymous);
  (void)snprintf(path, sizeof path, "%d/task", number);
  if (fstatat(proc_fd, path, &info, 0) == 0 && info.st_nlink > 2)
    process->threads = (uint32_t)info.st_nlink - 2;
  /* A first thread that has ended shows no memory while others have it. */
  if (process->resident == 0 && process->threads > 1) {
    struct threads threads = {0};
    cleanup_fd int task_fd =
        openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (task_fd >= 0) list_numbers(task_fd, find_living_thread, &threads);
    if (threads.resident != 0) {
      process->id = threads.id;
      process->resident = threads.resident;
      process->anonymous = threads.anonymous;
    }
  }
  box->first = dog.count++;
  return true;
}

static void find_processes(struct watchdog_box* boxes, int proc_fd) {
  dog.count = 0;
  for (struct watchdog_box* box = boxes; box != NULL; box = box->next) {
    box->first = -1;
    char path[64];
    (void)snprintf(path, sizeof path, "%d/ns/pid", box->init);
    struct stat info;
    if (box->pid_namespace == 0 && fstatat(proc_fd, path, &info, 0) == 0)
      box->pid_namespace = info.st_ino;
  }
  list_numbers(proc_fd, add_process, boxes);
}

/* ---- What is not in a process ------------------------------------------- */

static uint64_t tmpfs_bytes(int proc_fd, pid_t init) {
  /* As init.c has them. Nobody in a box can put anything else there: its root
   * is read-only and nothing in it may mount. */
  static const char* const mounts[] = {"tmp", "home/user", "dev/shm"};
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "%d/root/%s", init, mounts[i]);
    cleanup_fd int fd = openat(proc_fd, path, O_PATH | O_CLOEXEC);
    struct statfs info;
    if (fd >= 0 && fstatfs(fd, &info) == 0 && info.f_type == 0x01021994)
      sum += (uint64_t)(info.f_blocks - info.f_bfree) * (uint64_t)info.f_bsize;
  }
  return sum;
}

/* Lines of numbers, of which the second but last is what is resident. */
static uint64_t segment_bytes(int shm_fd) {
  uint64_t sum = 0;
  char text[4096 + 1];
  size_t kept = 0;
  off_t at = 0;
  for (bool is_heading = true;;) {
    ssize_t size =
        shm_fd < 0 ? 0 : RETRY(pread(shm_fd, text + kept, 4096 - kept, at));
    if (size <= 0) return sum;
    at += size;
    text[kept + (size_t)size] = '\0';
    char* line = text;
    for (char* end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
      *end = '\0';
      unsigned long long resident;
      if (!is_heading &&
          sscanf(line,
                 "%*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                 &resident) == 1)
        sum += resident;
      is_heading = false;
    }
    kept = strlen(line);
    if (kept == 4096) return sum; /* no line is as long */
    memmove(text, line, kept);
  }
}

/* Whether the memfd was not seen before in this look at this box. */
static bool is_new_memfd(uint64_t inode) {
  if (inode == 0 || dog.memfd_count == MEMFDS_MAX / 2) return true;
  size_t at = (size_t)(inode * 0x9e3779b97f4a7c15u >> 40) % MEMFDS_MAX;
  for (; dog.memfds[at] != 0; at = (at + 1) % MEMFDS_MAX)
    if (dog.memfds[at] == inode) return false;
  dog.memfds[at] = inode;
  dog.memfd_count++;
  return true;
}

struct memfds {
  pid_t leader;
  int fds_left;
  int threads_left;
  uint64_t bytes;
};

static bool add_descriptor(int dir_fd, int number, void* data) {
  struct memfds* memfds = data;
  if (memfds->fds_left-- <= 0) return false;
  char name[16];
  (void)snprintf(name, sizeof name, "%d", number);
  struct statx info;
  /* DONT_SYNC: a file system of the network must not keep us waiting. */
  if (statx(dir_fd, name, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
            STATX_INO | STATX_BLOCKS, &info) == 0 &&
      info.stx_dev_major == dog.dev_major &&
      info.stx_dev_minor == dog.dev_minor && is_new_memfd(info.stx_ino))
    memfds->bytes += info.stx_blocks * 512u;
  return true;
}

static void add_descriptors(int dir_fd, pid_t id, struct memfds* memfds) {
  cleanup_fd int fd = open_proc(dir_fd, id, "fd");
  if (fd >= 0) list_numbers(fd, add_descriptor, memfds);
}

static bool is_same(pid_t a, pid_t b, int what) {
  return syscall(SYS_kcmp, a, b, what, 0, 0) == 0;
}

/* A thread can have a table of descriptors of its own. */
static bool add_thread(int task_fd, int number, void* data) {
  struct memfds* memfds = data;
  if (memfds->threads_left-- <= 0 || memfds->fds_left <= 0) return false;
  if (number != memfds->leader && !is_same(memfds->leader, number, KCMP_FILES))
    add_descriptors(task_fd, number, memfds);
  return true;
}

static uint64_t memfd_bytes(struct watchdog_box* box, int proc_fd) {
  struct memfds memfds = {.fds_left = FDS_MAX, .threads_left = THREADS_MAX};
  if (dog.memfd_count != 0) memset(dog.memfds, 0, sizeof dog.memfds);
  dog.memfd_count = 0;
  int count = 0, all = 0;
  for (int i = box->first; i >= 0; i = dog.processes[i].next)
    all++;
  if (all == 0) return 0;
  uint32_t skipped = box->turn % (uint32_t)all;
  int at = box->first;
  for (uint32_t i = 0; i < skipped; i++)
    at = dog.processes[at].next;
  for (; count < all && memfds.fds_left > 0; count++) {
    const struct process* process = &dog.processes[at];
    memfds.leader = process->id;
    add_descriptors(proc_fd, process->id, &memfds);
    if (process->threads > 1) {
      cleanup_fd int task_fd = open_proc(proc_fd, process->id, "task");
      if (task_fd >= 0) list_numbers(task_fd, add_thread, &memfds);
    }
    at = process->next >= 0 ? process->next : box->first;
  }
  if (count < all) box->turn += (uint32_t)count;
  return memfds.bytes;
}

/* ---- The decision ------------------------------------------------------- */

struct weight {
  uint64_t anonymous, shared;
};

static uint64_t read_kib(const char* text, const char* key) {
  const char* at = strstr(text, key);
  return at == NULL ? 0 : strtoull(at + strlen(key), NULL, 10) * 1024u;
}

/* How much of page tables the kernel may walk through for one process: so much
 * for any, and twice what memory of the limit's size needs. */
#define TABLES_MIN             (4u << 20)
#define TABLES_OF(limit_bytes) ((limit_bytes) / 256)

/* A process that maps the same pages over and over makes the walk as long as it
 * likes, and we serve nobody meanwhile. Its numbers are to be had without: each
 * page as often as it is mapped, which is what it asked for. */
static bool has_too_many_tables(int proc_fd, const struct process* process,
                                uint64_t limit_bytes,
                                struct weight* ret_weight) {
  char text[4096];
  cleanup_fd int fd = open_proc(proc_fd, process->id, "status");
  ssize_t size = fd < 0 ? -1 : RETRY(read(fd, text, sizeof text - 1));
  if (size <= 0) return false; /* it ended, or smaps_rollup says why not */
  text[size] = '\0';
  uint64_t tables = read_kib(text, "\nVmPTE:");
  *ret_weight =
      (struct weight){.anonymous = read_kib(text, "\nRssAnon:") + tables,
                      .shared = read_kib(text, "\nRssShmem:")};
  return tables > TABLES_MIN + TABLES_OF(limit_bytes);
}

static struct weight weigh(int proc_fd, const struct process* process,
                           uint64_t limit_bytes) {
  struct weight unshared;
  if (has_too_many_tables(proc_fd, process, limit_bytes, &unshared))
    return unshared;
  char text[4096];
  cleanup_fd int fd = open_proc(proc_fd, process->id, "smaps_rollup");
  ssize_t size = fd < 0 ? -errno : RETRY(read(fd, text, sizeof text - 1));
  if (fd < 0 && size != -ENOENT && size != -ESRCH)
    return (struct weight){.anonymous = process->resident};
  if (size <= 0) return (struct weight){0}; /* it ended */
  text[size] = '\0';
  return (struct weight){.anonymous = read_kib(text, "\nPss_Anon:"),
                         .shared = read_kib(text, "\nPss_Shmem:")};
}

/* Compared with older processes only, right before it is weighed: a child of
 * vfork that executes something meanwhile must not make its parent's memory
 * count twice. */
static bool has_own_memory(int index) {
  int compared = 0;
  for (int i = dog.processes[index].next; i >= 0 && compared < SPACES_MAX;
       i = dog.processes[i].next, compared++)
    if (is_same(dog.processes[i].id, dog.processes[index].id, KCMP_VM))
      return false;
  return true;
}

static void weigh_anew(struct watchdog_box* box) {
  box->weighed = 0;
  box->anonymous = box->shared = 0;
}

static bool is_heavier(struct watchdog_box* box, int proc_fd, uint64_t files) {
  int64_t end = now_ms() + WEIGH_MS;
  for (int i = box->first; i >= 0; i = dog.processes[i].next) {
    const struct process* process = &dog.processes[i];
    if (process->resident == 0 ||
        (box->weighed != 0 && process->id >= box->weighed) ||
        !has_own_memory(i))
      continue;
    struct weight one = weigh(proc_fd, process, box->limit_bytes);
    box->anonymous += one.anonymous;
    box->shared += one.shared;
    uint64_t most = box->shared > files ? box->shared : files;
    if (box->anonymous + most > box->limit_bytes) return true;
    if (now_ms() < end) continue;
    box->weighed = process->id;
    return false;
  }
  weigh_anew(box);
  return false;
}

bool watchdog_look(struct watchdog_box* boxes) {
  cleanup_fd int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc_fd < 0 || !start()) return true; /* the next look may have room */
  find_processes(boxes, proc_fd);
  bool is_complete = true;
  for (struct watchdog_box* box = boxes; box != NULL; box = box->next) {
    uint64_t files = tmpfs_bytes(proc_fd, box->init) +
                     segment_bytes(box->shm_fd) + memfd_bytes(box, proc_fd);
    uint64_t most = 0, sum = files;
    for (int i = box->first; i >= 0; i = dog.processes[i].next) {
      sum += dog.processes[i].resident;
      if (dog.processes[i].anonymous > most) most = dog.processes[i].anonymous;
    }
    if (sum <= box->limit_bytes) {
      weigh_anew(box);
      box->is_suspect = false;
      continue;
    }
    /* What one process has is different pages: no need to weigh them all. */
    if (most + files > box->limit_bytes) {
      box->is_over = true;
      continue;
    }
    bool is_heavy = is_heavier(box, proc_fd, files);
    /* Processes that end while they are weighed leave their share to those that
     * are weighed after them: it takes two weighings to find a box too heavy.
     */
    box->is_over = is_heavy && box->is_suspect;
    if (is_heavy) weigh_anew(box);
    if (is_heavy || box->weighed == 0) box->is_suspect = is_heavy;
    if (!box->is_over && (is_heavy || box->weighed != 0)) is_complete = false;
  }
  return is_complete;
}

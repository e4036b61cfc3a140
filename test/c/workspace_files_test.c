/* SPDX-License-Identifier: Apache-2.0 */
/* sources: src/engine/workspace.c src/engine/workspace_files.c
 * src/engine/workspace_list.c src/engine/workspace_paths.c
 * src/engine/tree_out.c src/engine/tree_in.c src/engine/swap.c
 * src/engine/walk.c src/engine/beneath.c src/common/remove_tree.c
 * src/common/error.c src/common/fd.c src/common/host_rules.c
 * src/common/host_place.c libs: -lpthread */

/* Files in a workspace: how they are read, written and listed. */

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "engine/workspace.h"
#include "in_workspace.h"
#include "scratch.h"

static int64_t now_ms(void) {
  struct timespec now;
  MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Short ways to call what is tested; each returns a gbx_code -----------
 */

static int write_text(const char* path, const char* text) {
  struct gbx_err err = {0};
  int result = gbx__workspace_write(&ws, path, text, strlen(text), &err);
  EXPECT((result == 0) == (err.code == 0));
  return err.code;
}

static int read_text(const char* path, uint64_t max, const char* wanted) {
  uint8_t* bytes = (void*)1;
  size_t size = 7;
  struct gbx_err err = {0};
  int result = gbx__workspace_read(&ws, path, max, &bytes, &size, &err);
  EXPECT((result == 0) == (err.code == 0));
  if (result < 0) {
    EXPECT(bytes == (void*)1 && size == 7); /* untouched */
    return err.code;
  }
  EXPECT(bytes != NULL && size == strlen(wanted));
  EXPECT(size == strlen(wanted) && memcmp(bytes, wanted, size) == 0);
  free(bytes);
  return 0;
}

/* `wanted`: "path:size " of each file in turn. */
static int list_text(const char* path, const char* wanted) {
  struct gbx__file_list list = {.count = 7};
  struct gbx_err err = {0};
  int result = gbx__workspace_list(&ws, path, &list, &err);
  EXPECT((result == 0) == (err.code == 0));
  if (result < 0) {
    EXPECT(list.count == 7 && list.files == NULL);
    return err.code;
  }
  char text[8192] = "";
  size_t used = 0;
  for (size_t i = 0; i < list.count && used < sizeof text; i++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s:%llu ",
                             list.files[i].path,
                             (unsigned long long)list.files[i].size);
  EXPECT(strcmp(text, wanted) == 0);
  if (strcmp(text, wanted) != 0) printf("# got %s\n", text);
  gbx__file_list_done(&list);
  return 0;
}

/* ---- Files -----------------------------------------------------------------
 */

static void test_paths(void) {
  char longest[5001], name[300] = "";
  memset(longest, 'd', sizeof longest);
  for (size_t i = 100; i < 5000; i += 100)
    longest[i] = '/';
  longest[5000] = '\0';
  memset(name, 'n', 256);
  const char* bad[] = {"../x",  "a/../../x", "/etc/passwd", "a//../../../x",
                       ".",     "./",        "a/",          "..",
                       "a/..",  "//x",       "././",        "./.",
                       longest, name};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    EXPECT(write_text(bad[i], "x") == GBX_E_PATH);
    EXPECT(read_text(bad[i], 9, "") == GBX_E_PATH);
    EXPECT(list_text(bad[i], "") == GBX_E_PATH);
  }
  EXPECT(write_text("", "x") == GBX_E_PATH);
  EXPECT(read_text("", 9, "") == GBX_E_PATH);
  EXPECT(list_text("", "") == 0);
  longest[4096] = '\0';
  EXPECT(write_text(longest, "x") == GBX_E_PATH);
  longest[4095] = '\0';
  EXPECT(write_text(longest, "x") == 0 && read_text(longest, 9, "x") == 0);
}

static void test_path_spellings(void) {
  EXPECT(write_text("a//b/./c", "1") == 0 && holds(ws.fd, "a/b/c", "1"));
  EXPECT(read_text("./a/b//c", 9, "1") == 0);
  EXPECT(write_text("...", "2") == 0 && write_text("..x", "3") == 0);
  EXPECT(write_text("a/x..", "4") == 0 && holds(ws.fd, "a/x..", "4"));
  EXPECT(list_text(".//a", "a/b/c:1 a/x..:1 ") == 0);
}

static void test_round_trip(void) {
  const char bytes[] = {0, (char)255, (char)254, 10, 13, (char)128};
  char longest[256] = "";
  memset(longest, 'n', 255);
  const char* names[] = {"a b.txt",       "nl\nx.txt",   "日本語 😀.txt",
                         "-rf",           "q'\"$(id).x", "sub dir/é.bin",
                         "\xff\xfe/\x01", "con ",        "\xe2\x80\xaegnp.x",
                         "e\xcc\x81",     "\xc3\xa9",    longest};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    uint8_t* got = NULL;
    size_t size = 0;
    EXPECT(gbx__workspace_write(&ws, names[i], bytes, 6, NULL) == 0);
    EXPECT(gbx__workspace_read(&ws, names[i], 6, &got, &size, NULL) == 0);
    EXPECT(size == 6 && memcmp(got, bytes, 6) == 0);
    free(got);
  }
  struct gbx__file_list list;
  EXPECT(gbx__workspace_list(&ws, "", &list, NULL) == 0);
  EXPECT(list.count == sizeof names / sizeof names[0]);
  for (size_t i = 0; i < list.count; i++) {
    bool known = false;
    for (size_t j = 0; j < list.count; j++)
      known = known || strcmp(list.files[i].path, names[j]) == 0;
    EXPECT(known && list.files[i].size == 6);
    EXPECT(i == 0 || strcmp(list.files[i - 1].path, list.files[i].path) < 0);
  }
  gbx__file_list_done(&list);
}

static void test_modes(void) {
  mode_t mask = umask(027);
  EXPECT(write_text("d/new", "1") == 0);
  EXPECT(mode_of(ws.fd, "d/new") == 0640 && mode_of(ws.fd, "d") == 0750);
  const mode_t modes[] = {0600, 0755, 0444, 0666, 0};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    MUST(fchmodat(ws.fd, "d/new", modes[i], 0) == 0);
    EXPECT(write_text("d/new", "22") == 0);
    EXPECT(mode_of(ws.fd, "d/new") == modes[i]);
  }
  MUST(fchmodat(ws.fd, "d/new", 06755, 0) == 0);
  EXPECT(write_text("d/new", "3") == 0 && mode_of(ws.fd, "d/new") == 0755);
  (void)umask(mask);
}

static void test_replaces(void) {
  put(scratch_fd, "host", "host");
  MUST(linkat(scratch_fd, "host", ws.fd, "hard", 0) == 0);
  int fd = openat(ws.fd, "hard", O_RDONLY | O_CLOEXEC);
  EXPECT(write_text("hard", "new") == 0 && holds(ws.fd, "hard", "new"));
  EXPECT(holds(scratch_fd, "host", "host"));
  char byte;
  EXPECT(read(fd, &byte, 1) == 1 && byte == 'h'); /* the old one, to its end */
  MUST(close(fd) == 0);
  EXPECT(list_text("", "hard:3 ") == 0);
}

static void test_not_regular(void) {
  MUST(mkfifoat(ws.fd, "fifo", 0644) == 0);
  MUST(mkdirat(ws.fd, "dir", 0755) == 0);
  put(scratch_fd, "secret", "secret");
  MUST(symlinkat("../secret", ws.fd, "link") == 0);
  MUST(symlinkat("nowhere", ws.fd, "dangling") == 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/ws/socket",
                 scratch_path);
  int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  MUST(bind(socket_fd, (const void*)&address, sizeof address) == 0);
  const char* names[] = {"fifo", "dir", "link", "dangling", "socket"};
  int64_t start = now_ms();
  for (size_t i = 0; i < 5; i++) {
    mode_t mode = mode_of(ws.fd, names[i]);
    EXPECT(write_text(names[i], "x") == GBX_E_NOT_REGULAR);
    EXPECT(read_text(names[i], 99, "") == GBX_E_NOT_REGULAR);
    EXPECT(mode_of(ws.fd, names[i]) == mode);
    char below[32];
    (void)snprintf(below, sizeof below, "%s/x", names[i]);
    if (i == 1) continue;
    EXPECT(write_text(below, "x") != 0 && read_text(below, 99, "") != 0);
    EXPECT(list_text(names[i], "") != 0);
  }
  EXPECT(list_text("", "") == 0 && list_text("dir", "") == 0);
  EXPECT(now_ms() - start < 50 * 18); /* 50 ms each */
  EXPECT(holds(scratch_fd, "secret", "secret") && !has(ws.fd, "nowhere"));
  if (geteuid() == 0 && mknodat(ws.fd, "null", S_IFCHR | 0666, 0x103) == 0) {
    EXPECT(read_text("null", 99, "") == GBX_E_NOT_REGULAR);
    EXPECT(write_text("null", "x") == GBX_E_NOT_REGULAR);
  }
  MUST(close(socket_fd) == 0);
}

static void test_symlinked_folder(void) {
  int out_fd = make_dir(scratch_fd, "outside");
  put(out_fd, "hostname", "host");
  int d_fd = make_dir(ws.fd, "d");
  int in_fd = make_dir(ws.fd, "inside");
  put(in_fd, "hostname", "box");
  MUST(symlinkat(in_scratch("outside"), d_fd, "esc") == 0);
  MUST(symlinkat("../inside", d_fd, "in") == 0);
  MUST(symlinkat("/proc/self/cwd", d_fd, "magic") == 0);
  EXPECT(has(d_fd, "esc/hostname")); /* the kernel would follow it */
  const char* names[] = {"d/esc", "d/in", "d/magic"};
  for (size_t i = 0; i < 3; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "%s/hostname", names[i]);
    EXPECT(read_text(path, 99, "") == GBX_E_PATH);
    EXPECT(write_text(path, "x") == GBX_E_PATH);
    EXPECT(list_text(names[i], "") == GBX_E_PATH);
    (void)snprintf(path, sizeof path, "%s/new/x", names[i]);
    EXPECT(write_text(path, "x") == GBX_E_PATH);
    EXPECT(list_text(path, "") == GBX_E_PATH);
  }
  EXPECT(holds(out_fd, "hostname", "host") && !has(out_fd, "new"));
  EXPECT(holds(in_fd, "hostname", "box") && !has(in_fd, "new"));
  EXPECT(list_text("", "inside/hostname:3 ") == 0);
  MUST(close(out_fd) == 0 && close(d_fd) == 0 && close(in_fd) == 0);
}

static void test_missing(void) {
  put(ws.fd, "file", "x");
  EXPECT(read_text("missing", 9, "") == GBX_E_NOT_FOUND);
  EXPECT(read_text("no/such", 9, "") == GBX_E_NOT_FOUND);
  EXPECT(read_text("file/below", 9, "") == GBX_E_NOT_FOUND);
  EXPECT(list_text("missing", "") == GBX_E_NOT_FOUND);
  EXPECT(list_text("file", "") == GBX_E_NOT_FOUND);
  EXPECT(write_text("file/below", "x") == GBX_E_NOT_REGULAR);
  EXPECT(write_text("file/be/low", "x") == GBX_E_NOT_REGULAR);
  EXPECT(list_text("", "file:1 ") == 0);
}

static void test_sizes(void) {
  EXPECT(write_text("empty", "") == 0 && read_text("empty", 0, "") == 0);
  EXPECT(write_text("three", "abc") == 0);
  EXPECT(read_text("three", 3, "abc") == 0);
  EXPECT(read_text("three", UINT64_MAX, "abc") == 0);
  EXPECT(read_text("three", 2, "") == GBX_E_TOO_LARGE);
  EXPECT(read_text("three", 0, "") == GBX_E_TOO_LARGE);
  put(ws.fd, "sparse", "");
  int fd = openat(ws.fd, "sparse", O_WRONLY | O_CLOEXEC);
  MUST(ftruncate(fd, 1LL << 40) == 0 && close(fd) == 0);
  EXPECT(read_text("sparse", 64 << 20, "") == GBX_E_TOO_LARGE);
}

static volatile bool growing_over;

static void* grow(void* unused) {
  (void)unused;
  char block[4096] = "";
  int fd = openat(ws.fd, "growing", O_WRONLY | O_APPEND | O_CLOEXEC);
  while (!growing_over) {
    MUST(write(fd, block, sizeof block) == (ssize_t)sizeof block);
    struct stat st;
    MUST(fstat(fd, &st) == 0);
    if (st.st_size > 4 << 20) MUST(ftruncate(fd, 0) == 0);
  }
  MUST(close(fd) == 0);
  return NULL;
}

static void test_growing(void) {
  put(ws.fd, "growing", "");
  growing_over = false;
  pthread_t thread;
  MUST(pthread_create(&thread, NULL, grow, NULL) == 0);
  unsigned too_large = 0, fitting = 0;
  int64_t deadline = now_ms() + 5000;
  while ((too_large < 50 || fitting < 50) && now_ms() < deadline) {
    uint8_t* bytes;
    size_t size;
    struct gbx_err err = {0};
    if (gbx__workspace_read(&ws, "growing", 1 << 20, &bytes, &size, &err) ==
        0) {
      EXPECT(size <= 1 << 20);
      free(bytes);
      fitting++;
    } else {
      EXPECT(err.code == GBX_E_TOO_LARGE);
      too_large++;
    }
  }
  growing_over = true;
  MUST(pthread_join(thread, NULL) == 0);
  printf("# %u fit, %u were too large\n", fitting, too_large);
}

static void test_lease(void) {
  put(ws.fd, "leased", "old");
  int ready[2];
  MUST(pipe(ready) == 0);
  pid_t pid = fork();
  MUST(pid >= 0);
  if (pid == 0) {
    (void)signal(SIGIO, SIG_IGN);
    int fd = openat(ws.fd, "leased", O_RDWR | O_CLOEXEC);
    char got = fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? 'y' : 'n';
    MUST(write(ready[1], &got, 1) == 1);
    for (;;)
      (void)pause();
  }
  char got;
  MUST(read(ready[0], &got, 1) == 1);
  int64_t start = now_ms();
  if (got == 'y') {
    EXPECT(read_text("leased", 9, "") == GBX_E_BUSY);
    EXPECT(list_text("", "leased:3 ") == 0);
    EXPECT(write_text("leased", "new") == 0);
    EXPECT(read_text("leased", 9, "new") == 0); /* another file by now */
    EXPECT(now_ms() - start < 1000);
  } else {
    test_skipped = "no leases on this filesystem";
  }
  MUST(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
  MUST(close(ready[0]) == 0 && close(ready[1]) == 0);
}

static void test_locks(void) {
  put(ws.fd, "locked", "old");
  int fd = openat(ws.fd, "locked", O_RDWR | O_CLOEXEC);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  MUST(flock(fd, LOCK_EX) == 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0);
  EXPECT(read_text("locked", 9, "old") == 0);
  EXPECT(write_text("locked", "new") == 0);
  EXPECT(read_text("locked", 9, "new") == 0);
  MUST(close(fd) == 0);
}

static void test_failed_write(void) {
  EXPECT(write_text("file", "old") == 0);
  /* In place of a full disk. */
  struct rlimit old, small = {.rlim_cur = 100};
  MUST(getrlimit(RLIMIT_FSIZE, &old) == 0);
  small.rlim_max = old.rlim_max;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  MUST(setrlimit(RLIMIT_FSIZE, &small) == 0);
  char bytes[1000] = "";
  struct gbx_err err = {0};
  int result = gbx__workspace_write(&ws, "file", bytes, sizeof bytes, &err);
  int result_new = gbx__workspace_write(&ws, "new", bytes, sizeof bytes, NULL);
  MUST(setrlimit(RLIMIT_FSIZE, &old) == 0);
  (void)signal(SIGXFSZ, handler);
  EXPECT(result == -EFBIG && err.code == GBX_E_IO && err.sys_errno == EFBIG);
  EXPECT(result_new < 0 && !has(ws.fd, "new"));
  EXPECT(holds(ws.fd, "file", "old"));
  int count = 0;
  int fd = openat(ws.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* dir = fdopendir(fd);
  MUST(dir != NULL);
  while (readdir(dir) != NULL)
    count++;
  MUST(closedir(dir) == 0);
  EXPECT(count == 3); /* file, . and .. */
}

static void test_owner(void) {
  if (geteuid() != 0) {
    test_skipped = "takes root";
    return;
  }
  MUST(fchown(ws.fd, PLAIN_ID, PLAIN_ID) == 0);
  EXPECT(write_text("a/b/c", "1") == 0 && write_text("file", "2") == 0);
  const char* made[] = {"a", "a/b", "a/b/c", "file"};
  for (size_t i = 0; i < 4; i++)
    EXPECT(owner_of(ws.fd, made[i]) == PLAIN_ID);
  EXPECT(mode_of(ws.fd, "a/b") == 0755 && mode_of(ws.fd, "a/b/c") == 0644);
  /* What was there is given to nobody, what replaces it is. */
  MUST(mkdirat(ws.fd, "roots", 0755) == 0);
  put(ws.fd, "roots/file", "x");
  EXPECT(write_text("roots/file", "3") == 0);
  EXPECT(owner_of(ws.fd, "roots") == 0);
  EXPECT(owner_of(ws.fd, "roots/file") == PLAIN_ID);
  EXPECT(list_text("", "a/b/c:1 file:1 roots/file:1 ") == 0);
}

static void* write_beside(void* number) {
  char path[64];
  (void)snprintf(path, sizeof path, "new/folder/%d", *(int*)number);
  return (void*)(intptr_t)write_text(path, "x");
}

static void test_parallel_parents(void) {
  for (int round = 0; round < 50; round++) {
    if (geteuid() == 0 && round == 25)
      MUST(fchown(ws.fd, PLAIN_ID, PLAIN_ID) == 0);
    pthread_t threads[4];
    int numbers[4];
    for (int i = 0; i < 4; i++) {
      numbers[i] = i;
      MUST(pthread_create(&threads[i], NULL, write_beside, &numbers[i]) == 0);
    }
    for (int i = 0; i < 4; i++) {
      void* result;
      MUST(pthread_join(threads[i], &result) == 0);
      EXPECT(result == NULL);
    }
    EXPECT(list_text("",
                     "new/folder/0:1 new/folder/1:1 new/folder/2:1 "
                     "new/folder/3:1 ") == 0);
    EXPECT(owner_of(ws.fd, "new/folder") == owner_of(scratch_fd, "ws"));
    MUST(gbx_remove_tree(ws.fd, "new", NULL) == 0);
  }
}

/* ---- Lists -----------------------------------------------------------------
 */

static void test_list(void) {
  const char* paths[] = {"b",       "a/b",        "a.txt",     "a-b",
                         "a/a/z",   "a0",         ".deps/x",   "a/.deps/y",
                         ".hidden", ".depsx",     "z/z/z/z/z", "a/b.c",
                         "B",       ".glovebox-", "\xff"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
    EXPECT(write_text(paths[i], "x") == 0);
  MUST(mkdirat(ws.fd, "empty", 0755) == 0);
  put(ws.fd, ".glovebox-0123456789abcdef.tmp", "x");
  put(ws.fd, "a/.glovebox-0123456789abcdef.tmp", "x");
  put(ws.fd, ".glovebox-0123456789abcdeF.tmp", "x");
  EXPECT(list_text("",
                   ".depsx:1 .glovebox-:1 .glovebox-0123456789abcdeF.tmp:1 "
                   ".hidden:1 B:1 a-b:1 a.txt:1 a/.deps/y:1 a/a/z:1 "
                   "a/b:1 a/b.c:1 a0:1 b:1 z/z/z/z/z:1 \xff:1 ") == 0);
  EXPECT(list_text("a", "a/.deps/y:1 a/a/z:1 a/b:1 a/b.c:1 ") == 0);
  EXPECT(list_text("z/z", "z/z/z/z/z:1 ") == 0);
  EXPECT(list_text("empty", "") == 0);
  EXPECT(list_text(".deps", ".deps/x:1 ") == 0); /* asked for by name */
}

static void test_list_times(void) {
  put(ws.fd, "file", "x");
  struct timespec times[2] = {{.tv_sec = 1, .tv_nsec = 2},
                              {.tv_sec = 1234567890, .tv_nsec = 987654321}};
  MUST(utimensat(ws.fd, "file", times, 0) == 0);
  struct gbx__file_list list;
  EXPECT(gbx__workspace_list(&ws, "", &list, NULL) == 0);
  EXPECT(list.files[0].mtime_ns == INT64_C(1234567890987654321));
  gbx__file_list_done(&list);
  /* Before 1970, and past 2262, where an int64 of nanoseconds would end. */
  times[1] = (struct timespec){.tv_sec = -2208988800, .tv_nsec = 5};
  MUST(utimensat(ws.fd, "file", times, 0) == 0);
  EXPECT(list_text("", "file:1 ") == 0);
  times[1] = (struct timespec){.tv_sec = 15000000000, .tv_nsec = 5};
  MUST(utimensat(ws.fd, "file", times, 0) == 0);
  EXPECT(list_text("", "file:1 ") == 0);
}

static void test_list_deep(void) {
  char part[201] = "";
  memset(part, 'd', 200);
  int fd = make_dir(ws.fd, "deep");
  for (int i = 0; i < 300; i++) {
    put(fd, "file", "x");
    int next_fd = make_dir(fd, part);
    MUST(close(fd) == 0);
    fd = next_fd;
  }
  MUST(close(fd) == 0);
  struct gbx__file_list list;
  EXPECT(gbx__workspace_list(&ws, "", &list, NULL) == 0);
  /* "deep/", then n times 201 bytes and "file" are below 4096. */
  EXPECT(list.count == 21);
  for (size_t i = 0; i < list.count; i++)
    EXPECT(read_text(list.files[i].path, 9, "x") == 0);
  gbx__file_list_done(&list);
  /* From further down one does not see further either. */
  char path[4 + 1 + 201 + 1] = "deep/";
  strcat(path, part);
  EXPECT(gbx__workspace_list(&ws, path, &list, NULL) == 0 && list.count == 20);
  gbx__file_list_done(&list);
}

static void list_closed(void) {
  MUST(mkdirat(scratch_fd, "closed-ws", 0700) == 0);
  struct gbx_err err = {0};
  MUST(gbx__workspace_prepare(in_scratch("closed-ws"), NULL, &ws, &err) == 0);
  put(ws.fd, "file", "x");
  MUST(mkdirat(ws.fd, "closed", 0755) == 0);
  put(ws.fd, "closed/file", "x");
  MUST(mkdirat(ws.fd, "names-only", 0755) == 0);
  put(ws.fd, "names-only/file", "x");
  MUST(fchmodat(ws.fd, "closed", 0, 0) == 0);
  MUST(fchmodat(ws.fd, "names-only", 0444, 0) == 0);
  EXPECT(list_text("", "file:1 ") == 0);
  EXPECT(list_text("closed", "") == GBX_E_IO);
  EXPECT(read_text("closed/file", 9, "") == GBX_E_IO);
  EXPECT(write_text("closed/new", "x") == GBX_E_IO);
  MUST(fchmod(ws.fd, 0) == 0);
  EXPECT(list_text("", "") == GBX_E_IO && write_text("x", "x") == GBX_E_IO);
  gbx__workspace_done(&ws);
  EXPECT(gbx_remove_tree(scratch_fd, "closed-ws", NULL) == 0);
}

static void test_closed_lists(void) {
  run_as_plain_user(list_closed);
}

static void run_in_ws(const char* title, void (*test)(void)) {
  open_ws();
  run_test(title, test);
  close_ws();
}

int main(void) {
  scratch_open();
  run_in_ws("WS-01 paths that leave the workspace or name no file are refused",
            test_paths);
  run_in_ws("odd spellings of a path are taken", test_path_spellings);
  run_in_ws("WS-13 P23 names and bytes of any kind survive", test_round_trip);
  run_in_ws("a write keeps the mode, but not setuid bits", test_modes);
  run_in_ws("WS-10 WS-11 a write replaces the file in one step", test_replaces);
  run_in_ws("WS-05 what is no regular file is neither read nor replaced",
            test_not_regular);
  run_in_ws("WS-02 symlinked folders are not followed", test_symlinked_folder);
  run_in_ws("what is missing is not found", test_missing);
  run_in_ws("a file larger than maxBytes is not read", test_sizes);
  run_in_ws("a file that grows is read up to maxBytes", test_growing);
  run_in_ws("WS-07 a lease makes a read busy at once", test_lease);
  run_in_ws("WS-08 locks change nothing", test_locks);
  run_in_ws("a failed write leaves the old file and nothing else",
            test_failed_write);
  run_in_ws("P24 what root writes is the workspace owner's", test_owner);
  run_in_ws("writes at the same time make one parent", test_parallel_parents);

  run_in_ws("files are listed by path, without .deps and temporary files",
            test_list);
  run_in_ws("WS-23 lists have mtimes, and survive odd ones", test_list_times);
  run_in_ws("WS-14 a list has what a path can name", test_list_deep);
  run_test("WS-16 folders that are closed are left out or an error",
           test_closed_lists);
  scratch_close();
  return done();
}

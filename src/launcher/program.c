/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/fd.h"
#include "common/sys.h"
#include "common/wire.h"
#include "join/take.h"

/* Not by sigaction(3): it refuses 32 and 33, which the C library keeps for
 * itself and posix_spawn leaves ignored in the keeper, and so in all that comes
 * of it. */
void program_reset_signals(void) {
  static const uint64_t standard[4]; /* the kernel's struct: SIG_DFL, no more */
  for (int number = 1; number <= 64; number++)
    (void)syscall(SYS_rt_sigaction, number, standard, NULL,
                  sizeof(uint64_t)); /* KILL, STOP: EINVAL */
  sigset_t none;
  (void)sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int program_read(int blob_fd, struct program* ret_program,
                 struct gbx_err* err) {
  struct stat info;
  struct gbx_exec_head head;
  if (fstat(blob_fd, &info) < 0 || (size_t)info.st_size < sizeof head + 1)
    return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "exec blob", "too short");
  size_t size = (size_t)info.st_size;
  char* map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, blob_fd, 0);
  if (map == MAP_FAILED)
    return gbx_fail(err, GBX_E_NO_MEMORY, errno, "mmap", "exec blob");
  memcpy(&head, map, sizeof head);
  size_t count = (size_t)head.argc + head.envc;
  if (head.magic != GBX_WIRE_MAGIC || head.argc == 0 || count > size ||
      map[size - 1] != '\0')
    return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "exec blob", "malformed");
  char** table = mmap(NULL, (count + 2) * sizeof(char*), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (table == MAP_FAILED)
    return gbx_fail(err, GBX_E_NO_MEMORY, errno, "mmap", "argv");
  char* text = map + sizeof head;
  ret_program->cwd = text;
  ret_program->argv = table;
  ret_program->envp = table + head.argc + 1;
  for (size_t i = 0; i < count; i++) {
    text += strlen(text) + 1;
    if (text >= map + size)
      return gbx_fail(err, GBX_E_INTERNAL, EBADMSG, "exec blob", "cut off");
    table[i < head.argc ? i : i + 1] = text;
  }
  return 0;
}

static const char* get_path(char** envp) {
  for (; *envp != NULL; envp++)
    if (strncmp(*envp, "PATH=", 5) == 0) return *envp + 5;
  return "/usr/local/bin:/usr/bin:/bin";
}

int program_execute(const struct program* program) {
  const char* name = program->argv[0];
  if (strchr(name, '/') != NULL) {
    (void)execve(name, program->argv, program->envp);
    return errno;
  }
  if (name[0] == '\0') return ENOENT;
  int seen = ENOENT; /* a file that cannot be executed beats none at all */
  for (const char* dir = get_path(program->envp); dir != NULL;) {
    const char* end = strchrnul(dir, ':');
    char path[PATH_MAX];
    int length =
        snprintf(path, sizeof path, "%.*s/%s", (int)(end - dir), dir, name);
    if (length > 0 && length < (int)sizeof path) {
      (void)execve(path, program->argv, program->envp);
      if (errno != ENOENT && errno != ENOTDIR) {
        seen = errno;
        if (errno != EACCES) break;
      }
    }
    dir = *end == '\0' ? NULL : end + 1;
  }
  return seen;
}

/* Code that takes away its own rights on the folder would be the last of its
 * session: nothing would start that could give them back. Whose folder it is
 * may do that, with no more rights than the code has. */
static void regain_workspace(void) {
  struct stat st;
  if (stat("/workspace", &st) == 0)
    (void)chmod("/workspace", (st.st_mode & 07777) | 0700);
}

/* A folder that is not below the root shows as "(unreachable)"
 * (CVE-2024-21626). */
int program_enter_cwd(const struct program* program, struct gbx_err* err) {
  const char* cwd = program->cwd;
  char now[PATH_MAX];
  int result = chdir(cwd);
  if (result < 0 && errno == EACCES) {
    regain_workspace();
    result = chdir(cwd);
  }
  if (result < 0) return gbx_fail(err, GBX_E_SETUP, errno, "chdir", "%s", cwd);
  if (getcwd(now, sizeof now) == NULL || now[0] != '/')
    return gbx_fail(err, GBX_E_SETUP, EACCES, "chdir", "%s lies outside", cwd);
  return 0;
}

int program_stand_by(const struct program* program, struct gbx_err* err) {
  int pair[2];
  if (pipe2(pair, O_CLOEXEC) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "pipe2", "standby");
  /* Pipes, since programs look at what kind of file 0, 1 and 2 are when they
   * start, and a call will bring pipes. */
  if (dup2(pair[0], 0) < 0 || dup2(pair[1], 1) < 0 || dup2(pair[1], 2) < 0 ||
      dup2(1, GBX_TAKE_SOCKET + 1) < 0 ||
      fcntl(GBX_TAKE_SOCKET, F_SETFD, 0) < 0)
    return gbx_fail(err, GBX_E_SETUP, errno, "dup2", "standby");
  int result = program_enter_cwd(program, err);
  if (result < 0) return result;
  return gbx_fail(err, GBX_E_SETUP, program_execute(program), "execve",
                  "%.150s", program->argv[0]);
}

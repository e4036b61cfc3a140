/* SPDX-License-Identifier: Apache-2.0 */
#include "common/host_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "common/fd.h"
#include "common/host_place.h"

#define ANY_USE    (GBX_USE_READ | GBX_USE_WRITE | GBX_USE_WORKSPACE)
#define WRITE_USES (GBX_USE_WRITE | GBX_USE_WORKSPACE)

static const struct rule {
  const char* path;
  const char* rule;
  unsigned below;  /* uses for which what is in it is refused too */
  unsigned around; /* uses for which itself and what holds it is */
} rules[] = {
    {"/", "root", 0, ANY_USE},
    /* Settings and secrets of the system, and what it starts from. */
    {"/boot", "system", ANY_USE, ANY_USE},
    {"/etc", "system", ANY_USE, ANY_USE},
    {"/dev", "kernel", ANY_USE, ANY_USE},
    {"/proc", "kernel", ANY_USE, ANY_USE},
    {"/sys", "kernel", ANY_USE, ANY_USE},
    /* Sockets of the host's services, and secrets that are to be in memory. */
    {"/run", "run", ANY_USE, ANY_USE},
    /* Programs that the host runs: boxes read these anyway. */
    {"/bin", "system", WRITE_USES, WRITE_USES},
    {"/lib", "system", WRITE_USES, WRITE_USES},
    {"/lib32", "system", WRITE_USES, WRITE_USES},
    {"/lib64", "system", WRITE_USES, WRITE_USES},
    {"/libx32", "system", WRITE_USES, WRITE_USES},
    {"/sbin", "system", WRITE_USES, WRITE_USES},
    {"/usr", "system", WRITE_USES, WRITE_USES},
    /* Where everybody's things are. */
    {"/home", "home", 0, ANY_USE},
    {"/root", "home", 0, ANY_USE},
    {"/tmp", "temp", 0, ANY_USE},
    {"/var", "system", 0, ANY_USE},
    /* Copies of /etc/shadow; what is run as others. */
    {"/var/backups", "system", ANY_USE, ANY_USE},
    {"/var/spool/cron", "system", ANY_USE, ANY_USE},
    {"/var/lib/sss", "system", ANY_USE, ANY_USE},
    {"/var/lib/systemd", "system", ANY_USE, ANY_USE},
    /* File systems of other containers and machines, and their secrets. */
    {"/var/lib/containerd", "containers", ANY_USE, ANY_USE},
    {"/var/lib/containers", "containers", ANY_USE, ANY_USE},
    {"/var/lib/docker", "containers", ANY_USE, ANY_USE},
    {"/var/lib/incus", "containers", ANY_USE, ANY_USE},
    {"/var/lib/kubelet", "containers", ANY_USE, ANY_USE},
    {"/var/lib/libvirt", "containers", ANY_USE, ANY_USE},
    {"/var/lib/lxc", "containers", ANY_USE, ANY_USE},
    {"/var/lib/lxd", "containers", ANY_USE, ANY_USE},
    {"/var/lib/machines", "containers", ANY_USE, ANY_USE},
    {"/var/lib/rancher", "containers", ANY_USE, ANY_USE},
    {"/var/snap/lxd", "containers", ANY_USE, ANY_USE},
};

/* In anybody's home, whoever that is: a service's has no other rule. In a
 * person's all names that begin with a dot are refused, whatever they are; of
 * these also what they lead to by a symlink, and what holds that. */
static const char* const secrets[] = {
    ".aws",   ".azure",          ".config",          ".docker",
    ".gnupg", ".kube",           ".git-credentials", ".netrc",
    ".npmrc", ".password-store", ".pypirc",          ".ssh",
};

/* What the kernel makes up, where a write is a command, and hugetlbfs, which
 * takes none. */
static const uint32_t kernel_filesystems[] = {
    AAFS_MAGIC,
    BPF_FS_MAGIC,
    BINFMTFS_MAGIC,
    CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC,
    DEBUGFS_MAGIC,
    DEVPTS_SUPER_MAGIC,
    EFIVARFS_MAGIC,
    HUGETLBFS_MAGIC,
    NSFS_MAGIC,
    PROC_SUPER_MAGIC,
    PSTOREFS_MAGIC,
    RDTGROUP_SUPER_MAGIC,
    SECURITYFS_MAGIC,
    SELINUX_MAGIC,
    SMACK_MAGIC,
    SYSFS_MAGIC,
    TRACEFS_MAGIC,
    XENFS_SUPER_MAGIC,
    0x62656570 /* configfs; no header names these */,
    0x65735543 /* fusectl */,
    0x19800202 /* mqueue */,
    0x6e667364 /* nfsd */,
};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* A mount for each of more would make each judgement take too long. */
#define MAX_SUBMOUNTS 256

/* As deep as the kernel lets overlays lie on overlays. */
#define MAX_OVERLAYS 2

/* One question: may a box have this? */
struct question {
  int fd;
  enum gbx_host_use use;
  const struct gbx_host_user* user;
  const char* name; /* not NULL: of what is to be made in it */
  const struct gbx_place* place;
  int overlays; /* whose layer it is */
  struct gbx_host_refusal* refusal;
};

/* Answers: 0 may have it, 1 may not, or a negative errno. */
static int refuse(const struct question* question, const char* rule,
                  const char* format, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse(const struct question* question, const char* rule,
                  const char* format, ...) {
  va_list args;
  va_start(args, format);
  question->refusal->rule = rule;
  (void)vsnprintf(question->refusal->words, sizeof question->refusal->words,
                  format, args);
  va_end(args);
  return 1;
}

/* Finds what is at `path`, symlinks followed, to be compared with what is asked
 * for. Returns 1, 0 if there is nothing that we could open (nor then could a
 * box), or a negative errno. */
static int find(const struct question* question, const char* path,
                struct gbx_place* ret_place) {
  cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
  int result = gbx_place_find(fd, question->place, ret_place);
  return result < 0 ? result : 1;
}

/* `below`, `around`: whether it matters what lies in it, what holds it. */
static int check_against(const struct question* question,
                         const struct gbx_place* taken, const char* name,
                         const char* rule, bool below, bool around) {
  if (below && gbx_place_is_within(question->place, taken, NULL))
    return refuse(question, rule, "is %s, or lies in it", name);
  if (around && question->name == NULL &&
      gbx_place_is_within(taken, question->place, NULL))
    return refuse(question, rule, "is %s, or holds it", name);
  return 0;
}

/* ---- The rules ----------------------------------------------------------- */

static int check_kind(const struct question* question) {
  struct stat st;
  if (fstat(question->fd, &st) < 0) return -errno;
  switch (st.st_mode & S_IFMT) {
    case S_IFDIR:
      return 0;
    case S_IFREG:
      /* Its other name may lie where nothing may be had from. */
      if (st.st_nlink > 1)
        return refuse(question, "hard-link", "is a file with %lu names",
                      (unsigned long)st.st_nlink);
      return 0;
    case S_IFSOCK:
      return refuse(question, "special-file", "is a socket");
    case S_IFIFO:
      return refuse(question, "special-file", "is a named pipe");
    case S_IFCHR:
    case S_IFBLK:
      return refuse(question, "special-file", "is a device");
    default:
      return refuse(question, "special-file", "is no file and no folder");
  }
}

static int check_filesystem(const struct question* question) {
  struct statfs fs;
  if (fstatfs(question->fd, &fs) < 0) return -errno;
  for (size_t i = 0; i < COUNT(kernel_filesystems); i++)
    if ((uint32_t)fs.f_type == kernel_filesystems[i])
      return refuse(question, "kernel",
                    "is on a filesystem of the kernel's own");
  return 0;
}

static int check_table(const struct question* question) {
  /* What it lies in says more than what it holds. */
  const struct rule* held = NULL;
  for (size_t i = 0; i < COUNT(rules); i++) {
    const struct rule* rule = &rules[i];
    struct gbx_place place;
    if (((rule->below | rule->around) & question->use) == 0) continue;
    int result = find(question, rule->path, &place);
    if (result < 0) return result;
    if (result == 0) continue;
    result = check_against(question, &place, rule->path, rule->rule,
                           (rule->below & question->use) != 0, false);
    if (result != 0) return result;
    if (held == NULL && question->name == NULL &&
        (rule->around & question->use) != 0 &&
        gbx_place_is_within(&place, question->place, NULL))
      held = rule;
  }
  return held == NULL
             ? 0
             : refuse(question, held->rule, "is %s, or holds it", held->path);
}

/* The name of what in `outer` the place is or lies in, up to the next "/"; ""
 * if it is `outer` itself. `step` is from gbx_place_is_within(). */
static const char* name_below(const struct gbx_place* place,
                              const struct gbx_place* outer, size_t step) {
  if (step < place->count) return step > 0 ? place->steps[step - 1].name : "";
  /* Through another mount: by the paths in the file system. */
  const char* name = place->inside + strlen(outer->inside);
  return name + strspn(name, "/");
}

/* The first name below the home, if it is hidden. */
static int check_hidden(const struct question* question,
                        const struct gbx_place* home, const char* name) {
  const struct gbx_place* place = question->place;
  size_t step;
  if (!gbx_place_is_within(place, home, &step)) return 0;
  const char* first = name_below(place, home, step);
  if (first[0] == '\0' && question->name != NULL) first = question->name;
  if (first[0] != '.') return 0;
  return refuse(question, "hidden", "is %.*s of %s, or lies in it",
                (int)strcspn(first, "/"), first, name);
}

static int check_home(const struct question* question, const char* path,
                      const char* name, bool is_persons) {
  struct gbx_place home;
  if (path[0] != '/' || path[1] == '\0') return 0;
  int result = find(question, path, &home);
  if (result != 1) return result;
  result = 0;
  if (is_persons) {
    result = check_against(question, &home, name, "home", false, true);
    if (result == 0) result = check_hidden(question, &home, name);
  }
  for (size_t i = 0; result == 0 && i < COUNT(secrets); i++) {
    char secret[PATH_MAX], words[64];
    struct gbx_place place;
    if (snprintf(secret, sizeof secret, "%s/%s", path, secrets[i]) >=
        (int)sizeof secret)
      continue;
    result = find(question, secret, &place);
    if (result != 1) continue;
    (void)snprintf(words, sizeof words, "%s of %.40s", secrets[i], name);
    result = check_against(question, &place, words, "hidden", true, true);
  }
  return result;
}

/* A line of /etc/passwd. */
static int check_account(const struct question* question, char* line) {
  const char* field[7] = {0};
  for (int i = 0; i < 7 && line != NULL; i++)
    field[i] = strsep(&line, ":");
  if (field[5] == NULL) return 0;
  unsigned long uid = strtoul(field[2], NULL, 10);
  bool is_persons =
      uid == 0 || uid == geteuid() || (uid >= 1000 && uid < 65534);
  char name[64];
  (void)snprintf(name, sizeof name, "the home of %.40s", field[0]);
  return check_home(question, field[5], name, is_persons);
}

/* Users of other sources than this file are not found; whose home that is we
 * learn by $HOME. Nobody is asked over a network for a mount. */
static int check_accounts(const struct question* question) {
  cleanup_fd int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : -errno;
  char text[8192];
  size_t used = 0;
  for (;;) {
    ssize_t got = RETRY(read(fd, text + used, sizeof text - 1 - used));
    if (got < 0) return -errno;
    used += (size_t)got;
    if (got == 0 && used > 0) text[used++] = '\n'; /* the last line's end */
    char* start = text;
    char* end;
    while ((end = memchr(start, '\n', used - (size_t)(start - text))) != NULL) {
      *end = '\0';
      int result = check_account(question, start);
      if (result != 0) return result;
      start = end + 1;
    }
    used -= (size_t)(start - text);
    memmove(text, start, used);
    if (got == 0) return 0;
    if (used == sizeof text - 1) return -E2BIG;
  }
}

/* Our own: workspaces that other sessions delete. Where one gives its folder to
 * another as a workspace, they share it, which is allowed. */
static int check_temporary(const struct question* question) {
  struct gbx_place temp;
  const char* path = question->user->temp_dir;
  if (path == NULL || path[0] != '/') return 0;
  int result = find(question, path, &temp);
  if (result != 1) return result;
  const char* name = "the folder for temporary files";
  result = check_against(question, &temp, name, "temp", false, true);
  if (result != 0 || question->use == GBX_USE_WORKSPACE) return result;
  const struct gbx_place* place = question->place;
  size_t step;
  if (!gbx_place_is_within(place, &temp, &step)) return 0;
  const char* first = name_below(place, &temp, step);
  static const char own[] = "glovebox-XXXXXX"; /* as mkdtemp() names them */
  if (strncmp(first, own, 9) != 0 || strcspn(first, "/") != sizeof own - 1)
    return 0;
  return refuse(question, "own", "is a temporary workspace, or lies in one");
}

static int check(const struct question* question);

/* The same of what a file or folder is a part of, or shows: `words` say how. */
static int check_part(const struct question* whole, int fd, int overlays,
                      const char* words) {
  struct gbx_place place;
  int result = gbx_place_find(fd, NULL, &place);
  if (result < 0) return result;
  struct question part = *whole;
  part.fd = fd;
  part.place = &place;
  part.overlays = overlays;
  result = check(&part);
  if (result != 1) return result;
  char those[sizeof whole->refusal->words];
  (void)snprintf(those, sizeof those, "%s", whole->refusal->words);
  return refuse(whole, whole->refusal->rule, "%s %.120s", words, those);
}

/* ---- What an overlay shows ----------------------------------------------- */

static int check_layer(const struct question* question, const char* layer) {
  if (layer[0] != '/') return 0; /* from where its mounter was: who knows */
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s%s", layer, question->place->inside) >=
      (int)sizeof path)
    return -ENAMETOOLONG;
  cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) /* as in find() */
    return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
  return check_part(question, fd, question->overlays + 1,
                    "is an overlay of what");
}

/* An overlay gives the files of other folders as its own. Not looked at is what
 * "/" is made of: in a container that is its image, and another name of nothing
 * that lies there. */
static int check_layers(const struct question* question) {
  const struct gbx_place* place = question->place;
  struct statfs fs;
  struct stat root;
  if (fstatfs(question->fd, &fs) < 0 || stat("/", &root) < 0) return -errno;
  if ((uint32_t)fs.f_type != OVERLAYFS_SUPER_MAGIC ||
      question->overlays == MAX_OVERLAYS ||
      makedev(place->major, place->minor) == root.st_dev)
    return 0;
  struct gbx_mount_list list;
  struct gbx_mount_line line;
  int result = gbx_mount_list_open(&list);
  if (result < 0) return result;
  result = gbx_mount_list_find(&list, place->mount, &line);
  char layer[PATH_MAX];
  while (result == 0 && gbx_next_layer(&line.options, layer))
    result = check_layer(question, layer);
  gbx_mount_list_close(&list);
  return result;
}

/* ---- All of it ----------------------------------------------------------- */

static int check(const struct question* question) {
  int result = check_table(question);
  if (result == 0) result = check_filesystem(question);
  const char* home = question->user->home;
  if (result == 0 && home != NULL)
    result = check_home(question, home, "$HOME", true);
  if (result == 0) result = check_accounts(question);
  if (result == 0) result = check_temporary(question);
  if (result == 0) result = check_layers(question);
  return result;
}

/* ---- What is mounted below it -------------------------------------------- */

static int check_submount(const struct question* whole, const char* path) {
  cleanup_fd int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  /* Another mount lies over its place: it cannot be seen here, nor in a box. */
  if (fd < 0) return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
  return check_part(whole, fd, 0, "holds a mount that");
}

/* They come along with what they are mounted on. */
static int check_submounts(const struct question* question) {
  struct gbx_mount_list list;
  struct gbx_mount_line line;
  int result = gbx_mount_list_open(&list);
  if (result < 0) return result;
  const char* path = question->place->path;
  for (int count = 0; result == 0;) {
    int more = gbx_mount_list_next(&list, &line);
    if (more <= 0) {
      result = more;
      break;
    }
    if (!gbx_path_is_within(line.target, path) ||
        strcmp(line.target, path) == 0)
      continue;
    result = count++ == MAX_SUBMOUNTS
                 ? refuse(question, "submounts", "holds more than %d mounts",
                          MAX_SUBMOUNTS)
                 : check_submount(question, line.target);
  }
  gbx_mount_list_close(&list);
  return result;
}

/* ---- Public -------------------------------------------------------------- */

int gbx_host_judge(int fd, enum gbx_host_use use,
                   const struct gbx_host_user* user,
                   struct gbx_host_refusal* ret_refusal) {
  struct gbx_place place;
  struct question question = {.fd = fd,
                              .use = use,
                              .user = user,
                              .place = &place,
                              .refusal = ret_refusal};
  int result = check_kind(&question);
  if (result == 0) result = gbx_place_find(fd, NULL, &place);
  if (result == 0) result = check(&question);
  if (result == 0) result = check_submounts(&question);
  return result;
}

int gbx_host_judge_new(int fd, const char* name, enum gbx_host_use use,
                       const struct gbx_host_user* user,
                       struct gbx_host_refusal* ret_refusal) {
  struct gbx_place place;
  struct question question = {.fd = fd,
                              .use = use,
                              .user = user,
                              .name = name,
                              .place = &place,
                              .refusal = ret_refusal};
  int result = gbx_place_find(fd, NULL, &place);
  return result == 0 ? check(&question) : result;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/cgroup_place.h"

#include <stdlib.h>
#include <string.h>

/* Whether the comma-separated `list` has `word`; an empty one has "". */
static bool list_has(const char* list, const char* word) {
  size_t length = strlen(word);
  for (;;) {
    size_t size = strcspn(list, ",");
    if (size == length && memcmp(list, word, length) == 0) return true;
    if (list[size] == '\0') return false;
    list += size + 1;
  }
}

/* From lines "4:memory:/path", of v2 "0::/path". */
static bool read_path(FILE* cgroups, const char* controller,
                      char ret_path[static PATH_MAX]) {
  char line[PATH_MAX + 64];
  while (fgets(line, sizeof line, cgroups) != NULL) {
    char* list = strchr(line, ':');
    char* path = list == NULL ? NULL : strchr(++list, ':');
    if (path == NULL) continue;
    *path++ = '\0';
    if (!list_has(list, controller)) continue;
    path[strcspn(path, "\n")] = '\0';
    return snprintf(ret_path, PATH_MAX, "%s", path) < PATH_MAX;
  }
  return false;
}

/* Whether a line of mountinfo is of the hierarchy. */
static bool is_of(const char* line, const char* controller) {
  if (strcmp(controller, CGROUP_UNIFIED) == 0)
    return strstr(line, " - cgroup2 ") != NULL;
  const char* tail = strstr(line, " - cgroup ");
  char options[PATH_MAX];
  return tail != NULL && sscanf(tail, " - cgroup %*s %4095s", options) == 1 &&
         list_has(options, controller);
}

/* The rest of `path` below `root`, "" for the root itself; NULL if it is not
 * there. In a container the mount's root is the container's own cgroup. */
static const char* below(const char* path, const char* root) {
  size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
  if (strncmp(path, root, skip) != 0) return NULL;
  path += skip;
  return strcmp(path, "/") == 0          ? ""
         : *path == '/' || *path == '\0' ? path
                                         : NULL;
}

bool cgroup_read_place(FILE* cgroups, FILE* mounts, const char* controller,
                       struct cgroup_place* ret_place) {
  char path[PATH_MAX];
  if (!read_path(cgroups, controller, path)) return false;
  char* line = NULL;
  size_t room = 0;
  bool found = false;
  while (!found && getline(&line, &room, mounts) >= 0) {
    char root[PATH_MAX];
    if (!is_of(line, controller) ||
        sscanf(line, "%*s %*s %*s %4095s %4095s", root, ret_place->top) != 2)
      continue;
    const char* rest = below(path, root);
    found = rest != NULL && snprintf(ret_place->own, PATH_MAX, "%s%s",
                                     ret_place->top, rest) < PATH_MAX;
  }
  free(line);
  return found;
}

bool cgroup_find_place(const char* controller, struct cgroup_place* ret_place) {
  FILE* cgroups = fopen("/proc/self/cgroup", "re");
  FILE* mounts = fopen("/proc/self/mountinfo", "re");
  bool found = cgroups != NULL && mounts != NULL &&
               cgroup_read_place(cgroups, mounts, controller, ret_place);
  if (cgroups != NULL) (void)fclose(cgroups);
  if (mounts != NULL) (void)fclose(mounts);
  return found;
}

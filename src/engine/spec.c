/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fd.h"

/* Deep enough for any spec; cJSON goes as deep as its input, on the stack. */
#define MAX_DEPTH 32

/* Each is compared with those before it. */
#define MAX_VARIABLES 4096

#define MAX_MOUNTS 64

/* Zeroes behind the text: versions of cJSON that are in use look a byte too far
 * where the text ends after a comma. */
#define PADDING 16

/* ---- cJSON --------------------------------------------------------------- */

/* Loaded when a spec is read, which few programs ever do: no distribution has
 * it as a static library, and without it all the rest must still load. */
struct json_library {
  void* handle;
  cJSON* (*parse)(const char* text, size_t size, const char** ret_end,
                  cJSON_bool needs_nul);
  void (*free)(cJSON* item);
};

static int load_library(struct json_library* library, struct gbx_err* err) {
  library->handle = dlopen("libcjson.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library->handle == NULL)
    return gbx_fail(err, GBX_E_UNSUPPORTED, ENOENT, "dlopen", "%s",
                    "libcjson.so.1");
  *(void**)&library->parse =
      dlsym(library->handle, "cJSON_ParseWithLengthOpts");
  *(void**)&library->free = dlsym(library->handle, "cJSON_Delete");
  if (library->parse != NULL && library->free != NULL) return 0;
  (void)dlclose(library->handle);
  return gbx_fail(err, GBX_E_UNSUPPORTED, ENOSYS, "dlopen",
                  "libcjson.so.1 is older than 1.7.13");
}

struct document {
  struct json_library library;
  cJSON* root;
};

static void free_document(struct document* document) {
  if (document == NULL) return;
  document->library.free(document->root);
  /* Not closed again: the next spec would read it from disk anew. */
  free(document);
}

/* ---- The text, before anybody parses it ---------------------------------- */

static int refuse(struct gbx_err* err, const char* place,
                  const char* expected) {
  return gbx_fail(err, GBX_E_INVALID, EINVAL, "spec", "%s: expected %s", place,
                  expected);
}

/* The length of the UTF-8 character at `text`; 0 if there is none. */
static size_t character_size(const uint8_t* text, size_t left) {
  static const struct {
    uint8_t mask, lead;
    uint32_t least;
  } forms[] = {{0x80, 0x00, 0},
               {0xe0, 0xc0, 0x80},
               {0xf0, 0xe0, 0x800},
               {0xf8, 0xf0, 0x10000}};
  for (size_t size = 1; size <= 4; size++) {
    if ((text[0] & forms[size - 1].mask) != forms[size - 1].lead) continue;
    if (size > left) return 0;
    uint32_t value = text[0] & (uint8_t)~forms[size - 1].mask;
    for (size_t i = 1; i < size; i++) {
      if ((text[i] & 0xc0) != 0x80) return 0;
      value = value << 6 | (text[i] & 0x3f);
    }
    bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
    return value < forms[size - 1].least || value > 0x10ffff || is_surrogate
               ? 0
               : size;
  }
  return 0;
}

/* What cJSON would take and C strings or the stack would not: a NUL, which
 * cuts a string short; bytes that are no text; any depth. */
static int check_text(const uint8_t* text, size_t size, struct gbx_err* err) {
  bool in_string = false;
  int depth = 0;
  for (size_t i = 0; i < size;) {
    char place[32];
    (void)snprintf(place, sizeof place, "byte %zu", i);
    size_t step = character_size(text + i, size - i);
    if (step == 0) return refuse(err, place, "UTF-8");
    if (text[i] == '\0') return refuse(err, place, "text without NUL");
    if (in_string && text[i] == '\\') {
      if (size - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)
        return refuse(err, place, "text without NUL");
      step = i + 1 < size && text[i + 1] < 0x80 ? 2 : 1;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string && (text[i] == '{' || text[i] == '[')) {
      if (++depth > MAX_DEPTH)
        return refuse(err, place, "at most 32 levels of objects and arrays");
    } else if (!in_string && (text[i] == '}' || text[i] == ']')) {
      depth--;
    }
    i += step;
  }
  return 0;
}

/* ---- Reading ------------------------------------------------------------- */

struct reader {
  char place[96]; /* "spec.limits.memoryMb" */
  struct gbx_err* err;
  bool failed;
};

static const char* describe(const cJSON* item, char* text, size_t size) {
  switch (item == NULL ? cJSON_Invalid : item->type & 0xff) {
    case cJSON_False:
      return "false";
    case cJSON_True:
      return "true";
    case cJSON_NULL:
      return "null";
    case cJSON_Number:
      (void)snprintf(text, size, "%.15g", item->valuedouble);
      return text;
    case cJSON_String:
      return item->valuestring[0] == '\0' ? "an empty string" : "a string";
    case cJSON_Array:
      return "an array";
    case cJSON_Object:
      return "an object";
    default:
      return "nothing";
  }
}

static void fail(struct reader* reader, const char* expected,
                 const cJSON* item) {
  char number[32];
  if (reader->failed) return;
  reader->failed = true;
  (void)gbx_fail(reader->err, GBX_E_INVALID, EINVAL, "spec",
                 "%s: expected %s, received %s", reader->place, expected,
                 describe(item, number, sizeof number));
}

static bool has_type(const cJSON* item, int type) {
  return item != NULL && (item->type & 0xff) == type;
}

/* Makes the place of a part, and returns the length to go back to. */
static size_t enter(struct reader* reader, const char* separator,
                    const char* name) {
  size_t length = strlen(reader->place);
  if (length == 0) separator = "";
  (void)snprintf(reader->place + length, sizeof reader->place - length,
                 "%s%.40s", separator, name); /* cut is fine */
  return length;
}

static size_t enter_item(struct reader* reader, size_t index) {
  char name[32];
  (void)snprintf(name, sizeof name, "[%zu]", index);
  return enter(reader, "", name);
}

static void leave(struct reader* reader, size_t length) {
  if (!reader->failed) reader->place[length] = '\0';
}

/* An object with some of `names`, each once. False if it is none. */
static bool check_object(struct reader* reader, const cJSON* object,
                         const char* const* names) {
  if (!has_type(object, cJSON_Object)) {
    fail(reader, "an object", object);
    return false;
  }
  /* To the first that is wrong: so no more are compared with each other than
   * there are names. */
  for (const cJSON* item = object->child; item != NULL && !reader->failed;
       item = item->next) {
    size_t length = enter(reader, ".", item->string);
    const char* const* name = names;
    while (*name != NULL && strcmp(*name, item->string) != 0)
      name++;
    if (*name == NULL) fail(reader, "no such key", item);
    const cJSON* other = object->child;
    while (strcmp(other->string, item->string) != 0)
      other = other->next;
    if (other != item) fail(reader, "the key once", item);
    leave(reader, length);
  }
  return !reader->failed;
}

static const cJSON* find(const cJSON* object, const char* name) {
  const cJSON* item = has_type(object, cJSON_Object) ? object->child : NULL;
  while (item != NULL && strcmp(item->string, name) != 0)
    item = item->next;
  return item;
}

static bool read_bool(struct reader* reader, const cJSON* object,
                      const char* name) {
  const cJSON* item = find(object, name);
  size_t length = enter(reader, ".", name);
  bool value = has_type(item, cJSON_True);
  if (!value && !has_type(item, cJSON_False))
    fail(reader, "true or false", item);
  leave(reader, length);
  return value;
}

struct number_kind {
  const char* expected;
  double least, most;
  bool whole;
  bool liftable; /* by null */
};

static double read_number(struct reader* reader, const cJSON* object,
                          const char* name, const struct number_kind* kind) {
  const cJSON* item = find(object, name);
  size_t length = enter(reader, ".", name);
  double value = has_type(item, cJSON_Number) ? item->valuedouble : NAN;
  bool lifted = kind->liftable && has_type(item, cJSON_NULL);
  if (!lifted && (!(value >= kind->least && value <= kind->most) ||
                  (kind->whole && value != floor(value))))
    fail(reader, kind->expected, item);
  leave(reader, length);
  return lifted || reader->failed ? 0 : value;
}

enum text_rule { ANY_TEXT, SOME_TEXT, ABSOLUTE_PATH, BOX_PATH };

static bool has_dots(const char* path) {
  for (const char* at = path; at != NULL; at = strchr(at, '/')) {
    at += *at == '/';
    size_t size = strcspn(at, "/");
    if ((size == 1 && at[0] == '.') || (size == 2 && strncmp(at, "..", 2) == 0))
      return true;
  }
  return false;
}

static const char* check_string(struct reader* reader, const cJSON* item,
                                enum text_rule rule) {
  static const char* const expected[] = {
      "a string", "a string that is not empty", "an absolute path",
      "an absolute path without \".\" and \"..\""};
  const char* text = has_type(item, cJSON_String) ? item->valuestring : NULL;
  if (text == NULL || (rule != ANY_TEXT && text[0] == '\0') ||
      (rule >= ABSOLUTE_PATH && (text[0] != '/' || strlen(text) >= PATH_MAX)) ||
      (rule == BOX_PATH && (has_dots(text) || text[1] == '\0')))
    fail(reader, expected[rule], item);
  return reader->failed ? NULL : text;
}

static const char* read_string(struct reader* reader, const cJSON* object,
                               const char* name, enum text_rule rule) {
  size_t length = enter(reader, ".", name);
  const char* text = check_string(reader, find(object, name), rule);
  leave(reader, length);
  return text;
}

static const char* read_path_or_null(struct reader* reader, const cJSON* object,
                                     const char* name) {
  const cJSON* item = find(object, name);
  if (has_type(item, cJSON_NULL)) return NULL;
  return read_string(reader, object, name, ABSOLUTE_PATH);
}

/* ---- A spec's parts ------------------------------------------------------ */

static void read_entry(struct reader* reader, const cJSON* item,
                       struct gbx_entry* entry) {
  static const struct {
    const char* name;
    enum gbx_entry_kind kind;
    const char* const keys[4];
  } kinds[] = {
      {"dir", GBX_ENTRY_DIR, {"kind", "target"}},
      {"bind", GBX_ENTRY_BIND, {"kind", "target", "source"}},
      {"symlink", GBX_ENTRY_SYMLINK, {"kind", "target", "source"}},
      {"file", GBX_ENTRY_FILE, {"kind", "target", "data"}},
  };
  if (!has_type(item, cJSON_Object)) {
    fail(reader, "an object", item);
    return;
  }
  const char* name = read_string(reader, item, "kind", SOME_TEXT);
  if (name == NULL) return;
  size_t i = 0;
  while (i < sizeof kinds / sizeof kinds[0] && strcmp(kinds[i].name, name) != 0)
    i++;
  if (i == sizeof kinds / sizeof kinds[0]) {
    (void)enter(reader, ".", "kind");
    fail(reader, "\"dir\", \"bind\", \"symlink\" or \"file\"",
         find(item, "kind"));
    return;
  }
  if (!check_object(reader, item, kinds[i].keys)) return;
  entry->kind = kinds[i].kind;
  entry->target = read_string(reader, item, "target", BOX_PATH);
  if (entry->kind == GBX_ENTRY_BIND)
    entry->source = read_string(reader, item, "source", ABSOLUTE_PATH);
  if (entry->kind == GBX_ENTRY_SYMLINK)
    entry->source = read_string(reader, item, "source", SOME_TEXT);
  if (entry->kind == GBX_ENTRY_FILE) {
    const char* data = read_string(reader, item, "data", ANY_TEXT);
    entry->data = data;
    entry->size = data == NULL ? 0 : strlen(data);
  }
}

static size_t count_items(const cJSON* list) {
  size_t count = 0;
  for (const cJSON* item = list->child; item != NULL; item = item->next)
    count++;
  return count;
}

static bool has_memory(struct reader* reader, const void* memory) {
  if (memory != NULL) return true;
  reader->failed = true;
  (void)gbx_fail(reader->err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "spec");
  return false;
}

static void read_entries(struct reader* reader, const cJSON* list,
                         struct gbx_spec* spec) {
  size_t length = enter(reader, ".", "entries");
  if (!has_type(list, cJSON_Array) || list->child == NULL) {
    fail(reader, "an array that is not empty", list);
    return;
  }
  spec->entry_count = count_items(list);
  spec->entries = calloc(spec->entry_count, sizeof *spec->entries);
  if (!has_memory(reader, spec->entries)) return;
  size_t index = 0;
  for (const cJSON* item = list->child; item != NULL && !reader->failed;
       item = item->next, index++) {
    size_t before = enter_item(reader, index);
    read_entry(reader, item, &spec->entries[index]);
    leave(reader, before);
  }
  leave(reader, length);
}

static void read_env(struct reader* reader, const cJSON* object,
                     struct gbx_spec* spec) {
  size_t length = enter(reader, ".", "env");
  if (!has_type(object, cJSON_Object)) {
    fail(reader, "an object of strings", object);
    return;
  }
  spec->env_count = count_items(object);
  if (spec->env_count > MAX_VARIABLES) {
    fail(reader, "at most 4096 variables", object);
    return;
  }
  spec->env = calloc(spec->env_count + 1, sizeof *spec->env);
  if (!has_memory(reader, spec->env)) return;
  size_t index = 0;
  for (const cJSON* item = object->child; item != NULL && !reader->failed;
       item = item->next, index++) {
    size_t before = enter(reader, ".", item->string);
    if (item->string[0] == '\0' || strchr(item->string, '=') != NULL)
      fail(reader, "a name that is not empty and has no \"=\"", item);
    if (find(object, item->string) != item) fail(reader, "the key once", item);
    spec->env[index].name = item->string;
    spec->env[index].value = check_string(reader, item, ANY_TEXT);
    leave(reader, before);
  }
  leave(reader, length);
}

/* "SOURCE": ["TARGET", "ro"]. lib/ checks targets as it does an option's. */
static void read_mount(struct reader* reader, const cJSON* item,
                       struct gbx_mount* mount) {
  if (item->string[0] != '/' || strlen(item->string) >= PATH_MAX)
    fail(reader, "an absolute path as the key", item);
  if (!has_type(item, cJSON_Array) || count_items(item) != 2) {
    fail(reader, "an array of a target and \"ro\" or \"rw\"", item);
    return;
  }
  mount->source = item->string;
  mount->target = check_string(reader, item->child, BOX_PATH);
  const char* access = check_string(reader, item->child->next, SOME_TEXT);
  if (access == NULL) return;
  mount->writable = strcmp(access, "rw") == 0;
  if (!mount->writable && strcmp(access, "ro") != 0)
    fail(reader, "\"ro\" or \"rw\"", item->child->next);
}

static void read_mounts(struct reader* reader, const cJSON* object,
                        struct gbx_spec* spec) {
  size_t length = enter(reader, ".", "mounts");
  if (!has_type(object, cJSON_Object)) {
    fail(reader, "an object of mounts", object);
    return;
  }
  spec->mount_count = count_items(object);
  if (spec->mount_count > MAX_MOUNTS) {
    fail(reader, "at most 64 mounts", object);
    return;
  }
  spec->mounts = calloc(spec->mount_count + 1, sizeof *spec->mounts);
  if (!has_memory(reader, spec->mounts)) return;
  size_t index = 0;
  for (const cJSON* item = object->child; item != NULL && !reader->failed;
       item = item->next, index++) {
    size_t before = enter(reader, ".", item->string);
    if (find(object, item->string) != item) fail(reader, "the key once", item);
    read_mount(reader, item, &spec->mounts[index]);
    leave(reader, before);
  }
  leave(reader, length);
}

static void read_preload(struct reader* reader, const cJSON* list,
                         struct gbx_spec* spec) {
  size_t length = enter(reader, ".", "preload");
  if (!has_type(list, cJSON_Array)) {
    fail(reader, "an array of strings", list);
    return;
  }
  spec->preload_count = count_items(list);
  spec->preload = calloc(spec->preload_count + 1, sizeof *spec->preload);
  if (!has_memory(reader, spec->preload)) return;
  size_t index = 0;
  for (const cJSON* item = list->child; item != NULL && !reader->failed;
       item = item->next, index++) {
    size_t before = enter_item(reader, index);
    spec->preload[index] = check_string(reader, item, SOME_TEXT);
    leave(reader, before);
  }
  leave(reader, length);
}

static void read_limits(struct reader* reader, const cJSON* object,
                        struct gbx_spec* spec) {
  static const char* const keys[] = {"memoryMb", "pids", "cpus", "diskMb",
                                     NULL};
  static const struct number_kind mebibytes = {
      "a whole number 1 to 2147483648, or null", 1, 2147483648.0, true, true};
  static const struct number_kind pids = {
      "a whole number 1 to 4194304, or null", 1, 4194304, true, true};
  static const struct number_kind cpus = {"a number 0.01 to 1024, or null",
                                          0.01, 1024, false, true};
  size_t length = enter(reader, ".", "limits");
  if (check_object(reader, object, keys)) {
    spec->memory_mb = read_number(reader, object, "memoryMb", &mebibytes);
    spec->pids = read_number(reader, object, "pids", &pids);
    spec->cpus = read_number(reader, object, "cpus", &cpus);
    spec->disk_mb = read_number(reader, object, "diskMb", &mebibytes);
  }
  leave(reader, length);
}

static void read_runtimes(struct reader* reader, const cJSON* object,
                          struct gbx_spec* spec) {
  static const char* const keys[] = {"python", "bash", "node", NULL};
  size_t length = enter(reader, ".", "runtimes");
  if (check_object(reader, object, keys)) {
    spec->python = read_path_or_null(reader, object, "python");
    spec->bash = read_path_or_null(reader, object, "bash");
    spec->node = read_path_or_null(reader, object, "node");
  }
  leave(reader, length);
}

static void read_spec(struct reader* reader, const cJSON* object,
                      struct gbx_spec* spec) {
  static const char* const keys[] = {
      "entries",    "runtimes", "workspace",      "mounts",
      "cwd",        "env",      "limits",         "network",
      "preload",    "warm",     "enforceLimits",  "requireLimits",
      "trackFiles", "timeoutS", "maxOutputBytes", NULL};
  static const struct number_kind seconds = {"a number 0.001 to 31536000",
                                             0.001, 31536000, false, false};
  static const struct number_kind bytes = {"a whole number 0 to 536870888", 0,
                                           536870888, true, false};
  size_t length = enter(reader, ".", "spec");
  if (check_object(reader, object, keys)) {
    read_entries(reader, find(object, "entries"), spec);
    read_runtimes(reader, find(object, "runtimes"), spec);
    spec->workspace = read_path_or_null(reader, object, "workspace");
    read_mounts(reader, find(object, "mounts"), spec);
    spec->cwd = read_string(reader, object, "cwd", ABSOLUTE_PATH);
    read_env(reader, find(object, "env"), spec);
    read_limits(reader, find(object, "limits"), spec);
    spec->enforce_limits = read_bool(reader, object, "enforceLimits");
    spec->require_limits = read_bool(reader, object, "requireLimits");
    spec->track_files = read_bool(reader, object, "trackFiles");
    spec->warm = read_bool(reader, object, "warm");
    spec->network = read_bool(reader, object, "network");
    read_preload(reader, find(object, "preload"), spec);
    spec->timeout_s = read_number(reader, object, "timeoutS", &seconds);
    spec->max_output_bytes =
        read_number(reader, object, "maxOutputBytes", &bytes);
  }
  leave(reader, length);
}

/* `box` says what came of it, and is not looked at. */
static void read_file(struct reader* reader, const cJSON* root,
                      struct gbx_spec* spec) {
  static const char* const keys[] = {"version", "glovebox", "spec", "box",
                                     NULL};
  static const struct number_kind version = {"2, the version of the format",
                                             GBX_SPEC_VERSION, GBX_SPEC_VERSION,
                                             true, false};
  if (!has_type(root, cJSON_Object)) {
    (void)enter(reader, "", "the file");
    fail(reader, "an object", root);
    return;
  }
  /* First, since another version may have other keys. */
  (void)read_number(reader, root, "version", &version);
  if (reader->failed || !check_object(reader, root, keys)) return;
  if (find(root, "glovebox") != NULL)
    (void)read_string(reader, root, "glovebox", ANY_TEXT);
  read_spec(reader, find(root, "spec"), spec);
}

/* ---- Public -------------------------------------------------------------- */

static int parse(const void* json, size_t size, struct document* document,
                 struct gbx_err* err) {
  cleanup_free char* text = calloc(1, size + PADDING);
  if (text == NULL)
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "spec");
  if (size > 0) memcpy(text, json, size);
  const char* end = text;
  document->root = document->library.parse(text, size + 1, &end, 0);
  char place[32];
  (void)snprintf(place, sizeof place, "byte %zu", (size_t)(end - text));
  if (document->root == NULL) return refuse(err, place, "JSON");
  if (end[strspn(end, " \t\r\n")] != '\0')
    return refuse(err, place, "the end of the file");
  return 0;
}

int gbx_spec_read(const void* json, size_t size, struct gbx_spec** ret_spec,
                  struct gbx_err* err) {
  if (size > GBX_SPEC_MAX_SIZE) return refuse(err, "the file", "at most 1 MiB");
  int result = check_text(json, size, err);
  if (result < 0) return result;
  struct gbx_spec* spec = calloc(1, sizeof *spec);
  struct document* document = calloc(1, sizeof *document);
  if (spec == NULL || document == NULL) {
    free(spec);
    free(document);
    return gbx_fail(err, GBX_E_NO_MEMORY, ENOMEM, "calloc", "spec");
  }
  result = load_library(&document->library, err);
  if (result < 0) {
    free(spec);
    free(document);
    return result;
  }
  spec->document = document;
  result = parse(json, size, document, err);
  struct reader reader = {.err = err};
  if (result == 0) read_file(&reader, document->root, spec);
  if (result < 0 || reader.failed) {
    gbx_spec_free(spec);
    return result < 0 ? result : -EINVAL;
  }
  *ret_spec = spec;
  return 0;
}

void gbx_spec_free(struct gbx_spec* spec) {
  if (spec == NULL) return;
  free_document(spec->document);
  free(spec->entries);
  free(spec->env);
  free(spec->mounts);
  free(spec->preload);
  free(spec);
}

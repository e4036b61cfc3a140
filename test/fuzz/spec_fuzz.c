/* SPDX-License-Identifier: Apache-2.0 */
// clang-format off
/* sources: src/engine/spec.c src/common/error.c src/common/fd.c libs: -ldl -lm */
// clang-format on

/* The engine's reader of spec files. The input is the file. */

#include <limits.h>
#include <math.h>

#include "engine/engine.h"
#include "fuzz.h"

static void check_path(const char* path) {
  CHECK(path != NULL && path[0] == '/' && strlen(path) < PATH_MAX);
}

static void check_entry(const struct gbx_entry* entry) {
  check_path(entry->target);
  CHECK(entry->target[1] != '\0' && strstr(entry->target, "/../") == NULL);
  switch (entry->kind) {
    case GBX_ENTRY_DIR:
      CHECK(entry->source == NULL && entry->data == NULL);
      break;
    case GBX_ENTRY_BIND:
      check_path(entry->source);
      break;
    case GBX_ENTRY_SYMLINK:
      CHECK(entry->source != NULL && entry->source[0] != '\0');
      break;
    case GBX_ENTRY_FILE:
      CHECK(entry->data != NULL);
      touch(entry->data, entry->size + 1);
      break;
    default:
      CHECK(false);
  }
}

static void check_number(double value, double least, double most, bool whole) {
  CHECK(value >= least && value <= most && (!whole || value == floor(value)));
}

static void check_limit(double value, double least, double most, bool whole) {
  if (value != 0) check_number(value, least, most, whole);
}

static void check_spec(const struct gbx_spec* spec) {
  CHECK(spec->entry_count > 0);
  for (size_t i = 0; i < spec->entry_count; i++)
    check_entry(&spec->entries[i]);
  for (size_t i = 0; i < spec->env_count; i++) {
    const struct gbx_spec_variable* variable = &spec->env[i];
    CHECK(variable->name[0] != '\0' && strchr(variable->name, '=') == NULL);
    touch(variable->value, strlen(variable->value) + 1);
  }
  CHECK(spec->mount_count <= 64);
  for (size_t i = 0; i < spec->mount_count; i++) {
    check_path(spec->mounts[i].source);
    check_path(spec->mounts[i].target);
    CHECK(strstr(spec->mounts[i].target, "/../") == NULL);
  }
  for (size_t i = 0; i < spec->preload_count; i++)
    CHECK(spec->preload[i][0] != '\0');
  check_path(spec->cwd);
  const char* optional[] = {spec->workspace, spec->python, spec->bash,
                            spec->node};
  for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++)
    if (optional[i] != NULL) check_path(optional[i]);
  check_limit(spec->memory_mb, 1, 2147483648.0, true);
  check_limit(spec->disk_mb, 1, 2147483648.0, true);
  check_limit(spec->pids, 1, 4194304, true);
  check_limit(spec->cpus, 0.01, 1024, false);
  check_number(spec->timeout_s, 0.001, 31536000, false);
  check_number(spec->max_output_bytes, 0, 536870888, true);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct gbx_err err = {0};
  struct gbx_spec* spec = NULL;
  int result = gbx_spec_read(data, size, &spec, &err);
  CHECK((result == 0) == (err.code == GBX_OK));
  CHECK((result == 0) == (spec != NULL));
  if (result == 0) {
    check_spec(spec);
  } else {
    /* Not GBX_E_UNSUPPORTED: without libcjson this would test nothing. */
    CHECK(err.code == GBX_E_INVALID);
    CHECK(strstr(err.detail, ": expected ") != NULL);
  }
  gbx_spec_free(spec);
  return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/spec_reader.h"

#include <cmath>
#include <cstring>

#include "binding/convert.h"

namespace gbx {

static constexpr double kMaxInteger = 9007199254740992.0; /* 2^53 */
/* No list of ours has that many items; a sparse array may say it has. */
static constexpr uint32_t kMaxItems = 1u << 20;
static constexpr uint64_t kSpecVersion = 1;

SpecReader::SpecReader(Napi::Env env, const char* op) : env_(env), op_(op) {
}

void SpecReader::Fail(const char* name, const char* expected) {
  if (failed_) return;
  failed_ = true;
  (void)gbx_fail(&err_, GBX_E_INVALID, 0, op_, "%s: expected %s", name,
                 expected); /* the caller asks Finish() */
  /* What a getter threw says no more than that the field cannot be read. */
  napi_value exception = nullptr;
  (void)napi_get_and_clear_last_exception(env_, &exception);
}

napi_value SpecReader::Field(napi_value object, const char* name) {
  if (failed_) return nullptr;
  napi_valuetype type = napi_undefined;
  napi_value value = nullptr;
  if (object == nullptr || napi_typeof(env_, object, &type) != napi_ok ||
      type != napi_object) {
    Fail(name, "an object that has it");
  } else if (napi_get_named_property(env_, object, name, &value) != napi_ok) {
    Fail(name, "a readable property");
  }
  return value;
}

napi_value SpecReader::Item(napi_value array, uint32_t index,
                            const char* name) {
  napi_value value = nullptr;
  if (!failed_ && napi_get_element(env_, array, index, &value) != napi_ok) {
    Fail(name, "readable items");
  }
  return value;
}

uint32_t SpecReader::Length(napi_value array, const char* name) {
  if (failed_) return 0;
  bool is_array = false;
  uint32_t length = 0;
  if (array == nullptr || napi_is_array(env_, array, &is_array) != napi_ok ||
      !is_array || napi_get_array_length(env_, array, &length) != napi_ok ||
      length > kMaxItems) {
    Fail(name, "an array of at most 2^20 items");
    return 0;
  }
  return length;
}

bool SpecReader::IsNull(napi_value value) {
  napi_valuetype type = napi_undefined;
  return value == nullptr || napi_typeof(env_, value, &type) != napi_ok ||
         type == napi_undefined || type == napi_null;
}

bool SpecReader::Bool(napi_value value, const char* name) {
  bool result = false;
  if (!failed_ && (value == nullptr ||
                   napi_get_value_bool(env_, value, &result) != napi_ok)) {
    Fail(name, "a boolean");
  }
  return result;
}

uint64_t SpecReader::Number(napi_value value, const char* name) {
  if (failed_) return 0;
  double number = -1;
  if (value == nullptr ||
      napi_get_value_double(env_, value, &number) != napi_ok ||
      !std::isfinite(number) || number < 0 || number > kMaxInteger ||
      number != std::floor(number)) {
    Fail(name, "a whole number from 0 to 2^53");
    return 0;
  }
  return static_cast<uint64_t>(number);
}

/* Most are short: one call is enough for those. */
bool SpecReader::ReadText(napi_value value, std::string* text) {
  char start[256];
  size_t length = 0;
  if (value == nullptr ||
      napi_get_value_string_utf8(env_, value, start, sizeof start, &length) !=
          napi_ok) {
    return false;
  }
  /* It is cut at a character's end: the longest has four bytes. */
  if (length + 4 < sizeof start) {
    text->assign(start, length);
    return true;
  }
  if (napi_get_value_string_utf8(env_, value, nullptr, 0, &length) != napi_ok) {
    return false;
  }
  text->resize(length + 1);
  if (napi_get_value_string_utf8(env_, value, &(*text)[0], length + 1,
                                 &length) != napi_ok) {
    return false;
  }
  text->resize(length);
  return true;
}

const char* SpecReader::String(napi_value value, const char* name) {
  if (failed_) return "";
  std::string& text = strings_.emplace_back();
  if (!ReadText(value, &text)) {
    Fail(name, "a string");
    return "";
  }
  if (text.find('\0') != std::string::npos) Fail(name, "no NUL in it");
  return text.c_str();
}

const char* const* SpecReader::StringList(napi_value value, const char* name) {
  uint32_t length = Length(value, name);
  std::vector<const char*>& list = lists_.emplace_back();
  for (uint32_t i = 0; i < length && !failed_; i++) {
    Napi::HandleScope scope(env_);
    list.push_back(String(Item(value, i, name), name));
  }
  list.push_back(nullptr);
  return list.data();
}

const char* SpecReader::Path(napi_value value, const char* name) {
  if (failed_) return "";
  bool is_buffer = false;
  void* data = nullptr;
  size_t size = 0;
  if (value == nullptr || napi_is_buffer(env_, value, &is_buffer) != napi_ok ||
      !is_buffer ||
      napi_get_buffer_info(env_, value, &data, &size) != napi_ok) {
    Fail(name, "a Buffer");
    return "";
  }
  std::string& path = strings_.emplace_back();
  if (size > 0) path.assign(static_cast<const char*>(data), size);
  if (path.find('\0') != std::string::npos) Fail(name, "no NUL in it");
  return path.c_str();
}

void SpecReader::Data(napi_value value, const char* name, const void** ret_data,
                      size_t* ret_size) {
  if (!failed_) pending_.push_back({value, name, ret_data, ret_size});
}

void SpecReader::OptionalData(napi_value value, const char* name,
                              const void** ret_data, size_t* ret_size) {
  if (!IsNull(value)) Data(value, name, ret_data, ret_size);
}

bool SpecReader::BoolField(napi_value object, const char* name) {
  return Bool(Field(object, name), name);
}

uint64_t SpecReader::NumberField(napi_value object, const char* name) {
  return Number(Field(object, name), name);
}

const char* SpecReader::StringField(napi_value object, const char* name) {
  return String(Field(object, name), name);
}

const char* SpecReader::OptionalStringField(napi_value object,
                                            const char* name) {
  napi_value value = Field(object, name);
  return IsNull(value) ? nullptr : String(value, name);
}

int SpecReader::Finish(struct gbx_err* err) {
  for (const PendingData& pending : pending_) {
    if (failed_) break;
    napi_valuetype type = napi_undefined;
    bool is_buffer = false;
    void* data = nullptr;
    size_t size = 0;
    if (pending.value != nullptr &&
        napi_typeof(env_, pending.value, &type) == napi_ok &&
        type == napi_string) {
      std::string& text = strings_.emplace_back();
      if (!ReadText(pending.value, &text)) {
        Fail(pending.name, "a string that can be read");
        break;
      }
      *pending.data = text.data();
      *pending.size = text.size();
      continue;
    }
    if (pending.value == nullptr ||
        napi_is_buffer(env_, pending.value, &is_buffer) != napi_ok ||
        !is_buffer ||
        napi_get_buffer_info(env_, pending.value, &data, &size) != napi_ok) {
      Fail(pending.name, "a Buffer or a string");
      break;
    }
    /* An empty one is not an absent one. */
    *pending.data = data == nullptr ? "" : data;
    *pending.size = size;
  }
  if (!failed_) return 0;
  *err = err_;
  return -1;
}

bool SpecReader::FinishOrThrow() {
  struct gbx_err err = {};
  if (Finish(&err) == 0) return true;
  ThrowError(env_, err);
  return false;
}

/* ---- Specs --------------------------------------------------------------- */

static void ReadVersion(SpecReader* reader, napi_value value) {
  if (reader->NumberField(value, "version") != kSpecVersion) {
    reader->Fail("version", "1 (lib/ and the addon are of different builds)");
  }
}

static void ReadLimits(SpecReader* reader, napi_value value,
                       struct gbx_limits* limits) {
  limits->memory_bytes = reader->NumberField(value, "memoryBytes");
  limits->pids = reader->NumberField(value, "pids");
  limits->cpu_millis = reader->NumberField(value, "cpuMillis");
}

static void ReadEntry(SpecReader* reader, napi_value value,
                      struct gbx_entry* entry) {
  static constexpr struct {
    const char* name;
    enum gbx_entry_kind kind;
  } kKinds[] = {{"dir", GBX_ENTRY_DIR},
                {"bind", GBX_ENTRY_BIND},
                {"symlink", GBX_ENTRY_SYMLINK},
                {"file", GBX_ENTRY_FILE}};
  const char* name = reader->StringField(value, "kind");
  bool known = false;
  for (const auto& kind : kKinds) {
    if (strcmp(kind.name, name) != 0) continue;
    entry->kind = kind.kind;
    known = true;
  }
  if (!known)
    reader->Fail("kind", "\"dir\", \"bind\", \"symlink\" or \"file\"");
  entry->target = reader->StringField(value, "target");
  entry->source =
      entry->kind == GBX_ENTRY_BIND || entry->kind == GBX_ENTRY_SYMLINK
          ? reader->StringField(value, "source")
          : nullptr;
  if (entry->kind == GBX_ENTRY_FILE) {
    reader->Data(reader->Field(value, "data"), "data", &entry->data,
                 &entry->size);
  }
}

/* The name of a runtime, or null for none. */
static enum gbx_standby_runtime ReadRuntime(SpecReader* reader,
                                            napi_value value,
                                            const char* name) {
  if (reader->IsNull(value)) return GBX_STANDBY_NONE;
  const char* text = reader->String(value, name);
  if (strcmp(text, "python") == 0) return GBX_STANDBY_PYTHON;
  if (strcmp(text, "node") == 0) return GBX_STANDBY_NODE;
  if (strcmp(text, "zygote") == 0) return GBX_STANDBY_ZYGOTE;
  reader->Fail(name, "\"python\", \"node\", \"zygote\" or null");
  return GBX_STANDBY_NONE;
}

static void ReadStandby(SpecReader* reader, napi_value value,
                        struct gbx_standby* standby) {
  standby->runtime =
      ReadRuntime(reader, reader->Field(value, "runtime"), "runtime");
  standby->required = reader->BoolField(value, "required");
  standby->argv = reader->StringList(reader->Field(value, "argv"), "argv");
  standby->env = reader->StringList(reader->Field(value, "env"), "env");
  if (standby->argv[0] == nullptr) reader->Fail("argv", "at least one string");
}

void ReadEntries(SpecReader* reader, napi_value value,
                 std::vector<struct gbx_entry>* entries) {
  uint32_t length = reader->Length(value, "entries");
  entries->resize(length); /* once: Finish() fills in the data later */
  for (uint32_t i = 0; i < length; i++) {
    ReadEntry(reader, reader->Item(value, i, "entries"), &(*entries)[i]);
  }
}

void ReadStandbys(SpecReader* reader, napi_value value,
                  std::vector<struct gbx_standby>* standbys) {
  uint32_t length = reader->Length(value, "standbys");
  standbys->resize(length);
  for (uint32_t i = 0; i < length; i++) {
    ReadStandby(reader, reader->Item(value, i, "standbys"), &(*standbys)[i]);
  }
}

void ReadSessionSpec(SpecReader* reader, napi_value value, SessionSpec* spec) {
  ReadVersion(reader, value);
  struct gbx_session_options* options = &spec->options;
  options->workspace = reader->OptionalStringField(value, "workspace");
  options->temp_dir = reader->StringField(value, "tempDir");
  napi_value mounts = reader->Field(value, "mounts");
  uint32_t count = reader->Length(mounts, "mounts");
  for (uint32_t i = 0; i < count; i++) {
    napi_value mount = reader->Item(mounts, i, "mounts");
    spec->mounts.push_back({reader->StringField(mount, "source"),
                            reader->StringField(mount, "target"),
                            reader->BoolField(mount, "writable")});
  }
  options->mounts = spec->mounts.data();
  options->mount_count = count;
  ReadLimits(reader, value, &options->limits);
  options->disk_bytes = reader->NumberField(value, "diskBytes");
  options->enforce_limits = reader->BoolField(value, "enforceLimits");
  options->shares_network = reader->BoolField(value, "network");
}

void ReadWantOutput(SpecReader* reader, napi_value value, bool want[2]) {
  if (reader->Length(value, "wantOutput") != 2) {
    reader->Fail("wantOutput", "two booleans");
  }
  for (uint32_t i = 0; i < 2; i++) {
    want[i] = reader->Bool(reader->Item(value, i, "wantOutput"), "wantOutput");
  }
}

static uint16_t ReadCells(SpecReader* reader, napi_value value,
                          const char* name) {
  uint64_t cells = reader->Number(value, name);
  if (cells < 1 || cells > UINT16_MAX) {
    reader->Fail(name, "a whole number from 1 to 65535");
    return 0;
  }
  return static_cast<uint16_t>(cells);
}

void ReadSize(SpecReader* reader, napi_value columns, napi_value rows,
              uint16_t* ret_columns, uint16_t* ret_rows) {
  *ret_columns = ReadCells(reader, columns, "cols");
  *ret_rows = ReadCells(reader, rows, "rows");
}

void ReadRunSpec(SpecReader* reader, napi_value value, RunSpec* spec) {
  ReadVersion(reader, value);
  struct gbx_run_options* options = &spec->options;
  options->env = reader->StringList(reader->Field(value, "env"), "env");
  options->cwd = reader->OptionalStringField(value, "cwd");
  options->timeout_ms = reader->NumberField(value, "timeoutMs");
  options->max_output_bytes = reader->NumberField(value, "maxOutputBytes");
  ReadLimits(reader, value, &options->limits);
  options->control = reader->BoolField(value, "control");
  options->kernel = reader->BoolField(value, "kernel");
  options->standby =
      ReadRuntime(reader, reader->Field(value, "standby"), "standby");
  options->cold = !reader->BoolField(value, "warm");
  options->track_files = reader->BoolField(value, "trackFiles");
  options->trace = reader->BoolField(value, "trace");
  options->input = reader->BoolField(value, "input");
  options->input_ends = reader->BoolField(value, "inputEnds");
  options->stream = reader->BoolField(value, "stream");
  napi_value pty = reader->Field(value, "pty");
  if (!reader->IsNull(pty)) {
    ReadSize(reader, reader->Field(pty, "cols"), reader->Field(pty, "rows"),
             &options->pty_columns, &options->pty_rows);
  }
  ReadWantOutput(reader, reader->Field(value, "wantOutput"), spec->want_output);
  spec->handle = reader->BoolField(value, "handle");
}

void ReadCommand(SpecReader* reader, napi_value argv, napi_value code,
                 napi_value first_input, RunSpec* spec) {
  struct gbx_run_options* options = &spec->options;
  options->argv = reader->StringList(argv, "argv");
  if (options->argv[0] == nullptr) reader->Fail("argv", "at least one item");
  struct gbx_bytes* bytes =
      options->control ? &options->cell : &options->script;
  reader->OptionalData(code, "code", &bytes->data, &bytes->size);
  reader->OptionalData(first_input, "firstInput", &options->first_input.data,
                       &options->first_input.size);
}

}  // namespace gbx

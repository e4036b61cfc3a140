/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/convert.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gbx {

/* Up to this size a copy is cheaper than an external buffer, which costs a
 * finalizer and a second allocation. */
static constexpr size_t kCopySize = 16 * 1024;

/* Whether it is UTF-8 in its one right form: no surrogates, nothing longer than
 * it has to be. */
static bool IsUtf8(const void* data, size_t size) {
  const auto* at = static_cast<const unsigned char*>(data);
  const unsigned char* end = at + size;
  while (at < end) {
    unsigned char first = *at++;
    if (first < 0x80) continue;
    int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4 || end - at < more) return false;
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (*at < low || *at > high) return false;
    for (at++; more > 1; more--, at++) {
      if ((*at & 0xc0) != 0x80) return false;
    }
  }
  return true;
}

/* ---- Bytes --------------------------------------------------------------- */

Bytes::Bytes(Bytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {
}

Bytes& Bytes::operator=(Bytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Bytes::~Bytes() {
  free(data_);
}

Bytes Bytes::Adopt(void* data, size_t size) {
  Bytes bytes;
  bytes.data_ = data;
  bytes.size_ = data == nullptr ? 0 : size;
  return bytes;
}

bool Bytes::Copy(const void* data, size_t size, Bytes* ret_bytes) {
  if (size == 0) {
    *ret_bytes = Bytes();
    return true;
  }
  void* copy = malloc(size);
  if (copy == nullptr) return false;
  memcpy(copy, data, size);
  *ret_bytes = Adopt(copy, size);
  return true;
}

static void FreeData(napi_env /* env */, void* data, void* /* hint */) {
  free(data);
}

Napi::Value Bytes::ToBuffer(Napi::Env env) {
  Bytes taken(std::move(*this)); /* freed at the end, unless it was handed on */
  napi_value value = nullptr;
  if (taken.size_ > kCopySize) {
    napi_status status = napi_create_external_buffer(
        env, taken.size_, taken.data_, FreeData, nullptr, &value);
    if (status == napi_ok || status == napi_generic_failure) {
      /* After this failure Node still calls the finalizer; after all others
       * (a runtime without external buffers; a worker that ends) it had not
       * yet looked at the memory. */
      taken.data_ = nullptr;
      return Napi::Value(env, value);
    }
  }
  napi_status status =
      taken.size_ == 0 ? napi_create_buffer(env, 0, nullptr, &value)
                       : napi_create_buffer_copy(env, taken.size_, taken.data_,
                                                 nullptr, &value);
  return status == napi_ok ? Napi::Value(env, value) : env.Null();
}

Napi::Value Bytes::ToText(Napi::Env env) {
  if (size_ > kCopySize || !IsUtf8(data_, size_)) return ToBuffer(env);
  return Bytes(std::move(*this)).ToJson(env);
}

Napi::Value Bytes::ToJson(Napi::Env env) const {
  napi_value value = nullptr;
  napi_status status = napi_create_string_utf8(
      env, size_ == 0 ? "" : static_cast<const char*>(data_), size_, &value);
  return status == napi_ok ? Napi::Value(env, value) : env.Null();
}

/* ---- Copies of results --------------------------------------------------- */

static bool CopyOutput(const struct gbx_output output[2], OutputCopy copy[2]) {
  for (int i = 0; i < 2; i++) {
    copy[i].truncated = output[i].truncated;
    if (!Bytes::Copy(output[i].data, output[i].size, &copy[i].data)) {
      return false;
    }
  }
  return true;
}

static void CopyFiles(const struct gbx_changed_file* files, size_t count,
                      std::vector<FileCopy>* copy) {
  copy->reserve(count);
  for (size_t i = 0; i < count; i++) {
    copy->push_back(
        {files[i].path, files[i].size, files[i].change, 0, GBX_FILE, 0});
  }
}

static BlockedCopy CopyBlocked(const struct gbx_blocked& blocked) {
  BlockedCopy copy;
  copy.traced = blocked.calls != nullptr;
  copy.calls.assign(blocked.calls, blocked.calls + blocked.count);
  return copy;
}

/* What a run and a cell have in common. */
template <typename ResultCopy, typename Result>
static bool CopyCommon(const Result* result, ResultCopy* copy) {
  copy->exit_code = result->exit_code;
  copy->signal = result->signal;
  copy->fault = result->fault;
  copy->fault_syscall = result->fault_syscall;
  copy->frames_truncated = result->frames_truncated;
  copy->files_truncated = result->files_truncated;
  copy->duration_us = result->duration_us;
  copy->usage = result->usage;
  copy->blocked = CopyBlocked(result->blocked);
  CopyFiles(result->files, result->file_count, &copy->files);
  return CopyOutput(result->output, copy->output);
}

bool RunResultCopy::Copy(const struct gbx_run_result* result) {
  exec = result->exec;
  return CopyCommon(result, this);
}

bool CellResultCopy::Copy(const struct gbx_cell_result* result) {
  interrupted = result->interrupted;
  timed_out = result->timed_out;
  has_exit = result->has_exit;
  has_done = result->done.data != nullptr;
  return Bytes::Copy(result->done.data, result->done.size, &done) &&
         CopyCommon(result, this);
}

/* ---- To JavaScript ------------------------------------------------------- */

static Napi::Value NumberToJs(Napi::Env env, uint64_t number) {
  return Napi::Number::New(env, static_cast<double>(number));
}

/* A string, or the bytes of what is none. A list may have a hundred thousand,
 * and Buffers cost many times as much. */
static Napi::Value PathToJs(Napi::Env env, const std::string& path) {
  if (IsUtf8(path.data(), path.size())) return Napi::String::New(env, path);
  return Napi::Buffer<char>::Copy(env, path.data(), path.size());
}

static Napi::Value FaultToJs(Napi::Env env, enum gbx_fault fault) {
  switch (fault) {
    case GBX_FAULT_NONE:
      break;
    case GBX_FAULT_TIMEOUT:
      return Napi::String::New(env, "timeout");
    case GBX_FAULT_OOM:
      return Napi::String::New(env, "oom");
    case GBX_FAULT_ESCAPE:
      return Napi::String::New(env, "escape_blocked");
    case GBX_FAULT_KILLED:
      return Napi::String::New(env, "killed");
    case GBX_FAULT_DISK:
      return Napi::String::New(env, "disk");
  }
  return env.Null();
}

static Napi::Value ChangeToJs(Napi::Env env, enum gbx_change change) {
  switch (change) {
    case GBX_CREATED:
      return Napi::String::New(env, "created");
    case GBX_MODIFIED:
      return Napi::String::New(env, "modified");
    case GBX_DELETED:
      return Napi::String::New(env, "deleted");
  }
  return env.Null();
}

static Napi::Value EnforcementToJs(Napi::Env env, enum gbx_enforcement value) {
  switch (value) {
    case GBX_ENFORCED_NONE:
      return Napi::String::New(env, "none");
    case GBX_ENFORCED_KERNEL:
      return Napi::String::New(env, "kernel");
    case GBX_ENFORCED_WATCHDOG:
      return Napi::String::New(env, "watchdog");
  }
  return env.Null();
}

Napi::Value ErrorToJs(Napi::Env env, const struct gbx_err& err) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("code", Napi::String::New(env, gbx_code_name(err.code)));
  object.Set("errno", Napi::Number::New(env, err.sys_errno));
  object.Set("op",
             Napi::String::New(env, err.op, strnlen(err.op, sizeof err.op)));
  object.Set("detail",
             Napi::String::New(env, err.detail,
                               strnlen(err.detail, sizeof err.detail)));
  return object;
}

struct gbx_err NoMemoryError(const char* op) {
  struct gbx_err err = {};
  (void)gbx_fail(&err, GBX_E_NO_MEMORY, ENOMEM, op, "copying the result");
  return err;
}

void ThrowError(Napi::Env env, const struct gbx_err& err) {
  napi_value pending = nullptr;
  (void)napi_get_and_clear_last_exception(env, &pending);
  /* Fails only in a worker that ends, where no JavaScript waits for it. */
  (void)napi_throw(env, ErrorToJs(env, err));
}

static Napi::Value ChangedFilesToJs(Napi::Env env,
                                    const std::vector<FileCopy>& files) {
  Napi::Array array = Napi::Array::New(env, files.size());
  for (size_t i = 0; i < files.size(); i++) {
    Napi::HandleScope scope(env);
    Napi::Object object = Napi::Object::New(env);
    object.Set("path", PathToJs(env, files[i].path));
    object.Set("size", NumberToJs(env, files[i].size));
    object.Set("change", ChangeToJs(env, files[i].change));
    array.Set(static_cast<uint32_t>(i), object);
  }
  return array;
}

/* Added up as in node:fs, for who compares: as one number, nanoseconds since
 * 1970 have more digits than a double. */
static double MillisecondsOf(int64_t ns) {
  const int64_t second = 1000000000;
  int64_t seconds = ns / second, rest = ns % second;
  if (rest < 0) {
    rest += second;
    seconds--;
  }
  return static_cast<double>(seconds) * 1e3 + static_cast<double>(rest) / 1e6;
}

Napi::Value FileListToJs(Napi::Env env, const std::vector<FileCopy>& files) {
  Napi::Array array = Napi::Array::New(env, files.size());
  for (size_t i = 0; i < files.size(); i++) {
    Napi::HandleScope scope(env);
    Napi::Object object = Napi::Object::New(env);
    object.Set("path", PathToJs(env, files[i].path));
    object.Set("size", NumberToJs(env, files[i].size));
    object.Set("mtimeMs",
               Napi::Number::New(env, MillisecondsOf(files[i].mtime_ns)));
    object.Set("type", Napi::Number::New(env, files[i].type));
    object.Set("mode", Napi::Number::New(env, files[i].mode));
    array.Set(static_cast<uint32_t>(i), object);
  }
  return array;
}

/* Null if nothing was traced. */
static Napi::Value BlockedToJs(Napi::Env env, const BlockedCopy& blocked) {
  if (!blocked.traced) return env.Null();
  Napi::Array array = Napi::Array::New(env, blocked.calls.size());
  for (size_t i = 0; i < blocked.calls.size(); i++) {
    Napi::HandleScope scope(env);
    const struct gbx_blocked_call& call = blocked.calls[i];
    Napi::Object object = Napi::Object::New(env);
    object.Set("syscall", Napi::String::New(env, call.syscall));
    object.Set("errno", Napi::Number::New(env, call.sys_errno));
    object.Set("count", NumberToJs(env, call.count));
    array.Set(static_cast<uint32_t>(i), object);
  }
  return array;
}

/* An object of a result is made by a function of lib/: twenty properties that
 * are set from here, by name, take ten times as long. Its arguments are in the
 * order of the parameters there. */
class Arguments {
 public:
  explicit Arguments(Napi::Env env) : env_(env) {
  }

  void Add(Napi::Value value) {
    values_[count_++] = value;
  }
  void Add(bool flag) {
    Add(Napi::Boolean::New(env_, flag));
  }
  void Add(uint64_t number) {
    Add(NumberToJs(env_, number));
  }
  void Add(int number) {
    Add(Napi::Number::New(env_, number));
  }
  /* Null: this host does not tell. */
  template <typename Number>
  void AddIf(bool known, Number number) {
    if (known)
      Add(number);
    else
      Add(env_.Null());
  }

  /* Fails only in a worker that ends. */
  Napi::Value Call(Napi::Function function) {
    napi_value result = nullptr;
    napi_status status = napi_call_function(env_, env_.Global(), function,
                                            count_, values_, &result);
    return status == napi_ok ? Napi::Value(env_, result) : env_.Null();
  }

 private:
  Napi::Env env_;
  size_t count_ = 0;
  napi_value values_[24];
};

/* The fields that a run and a cell have in common: the last. */
template <typename Result>
static void AddCommon(Napi::Env env, Result* result, Arguments* arguments) {
  arguments->Add(result->output[GBX_STDOUT].data.ToText(env));
  arguments->Add(result->output[GBX_STDERR].data.ToText(env));
  arguments->Add(result->output[GBX_STDOUT].truncated);
  arguments->Add(result->output[GBX_STDERR].truncated);
  arguments->Add(FaultToJs(env, result->fault));
  arguments->Add(Napi::String::New(env, result->fault_syscall));
  arguments->Add(BlockedToJs(env, result->blocked));
  arguments->Add(result->frames_truncated);
  arguments->Add(result->files_truncated);
  arguments->Add(result->duration_us);
  const struct gbx_usage& usage = result->usage;
  arguments->AddIf(usage.has_cpu, usage.cpu_us);
  arguments->AddIf(usage.has_cpu_split, usage.cpu_user_us);
  arguments->AddIf(usage.has_cpu_split, usage.cpu_system_us);
  arguments->AddIf(usage.has_io, usage.read_bytes);
  arguments->AddIf(usage.has_io, usage.written_bytes);
  arguments->AddIf(usage.max_memory_bytes != 0, usage.max_memory_bytes);
  arguments->AddIf(usage.max_pids != 0, usage.max_pids);
  arguments->Add(ChangedFilesToJs(env, result->files));
}

Napi::Value RunResultToJs(Napi::Env env, Napi::Function make,
                          RunResultCopy* result) {
  Arguments arguments(env);
  arguments.Add(result->exit_code);
  arguments.Add(result->signal);
  arguments.Add(result->exec.code == GBX_OK ? env.Null()
                                            : ErrorToJs(env, result->exec));
  AddCommon(env, result, &arguments);
  return arguments.Call(make);
}

Napi::Value CellResultToJs(Napi::Env env, Napi::Function make,
                           CellResultCopy* result) {
  Arguments arguments(env);
  arguments.Add(result->has_done ? result->done.ToJson(env) : env.Null());
  arguments.Add(result->interrupted);
  arguments.Add(result->timed_out);
  arguments.AddIf(result->has_exit, result->exit_code);
  arguments.AddIf(result->has_exit, result->signal);
  AddCommon(env, result, &arguments);
  return arguments.Call(make);
}

Napi::Value SessionInfoToJs(Napi::Env env, const std::string& workspace,
                            enum gbx_enforcement memory,
                            enum gbx_enforcement pids,
                            enum gbx_enforcement cpus,
                            enum gbx_enforcement disk, bool cgroups,
                            bool scoped) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("workspace", Napi::String::New(env, workspace));
  object.Set("memory", EnforcementToJs(env, memory));
  object.Set("pids", EnforcementToJs(env, pids));
  object.Set("cpus", EnforcementToJs(env, cpus));
  object.Set("disk", EnforcementToJs(env, disk));
  object.Set("cgroups", Napi::Boolean::New(env, cgroups));
  object.Set("scoped", Napi::Boolean::New(env, scoped));
  return object;
}

}  // namespace gbx

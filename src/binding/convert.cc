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

bool RunResultCopy::Copy(const struct gbx_run_result* result) {
  exit_code = result->exit_code;
  signal = result->signal;
  fault = result->fault;
  fault_syscall = result->fault_syscall;
  exec = result->exec;
  frames_truncated = result->frames_truncated;
  files_truncated = result->files_truncated;
  duration_us = result->duration_us;
  usage = result->usage;
  blocked = CopyBlocked(result->blocked);
  CopyFiles(result->files, result->file_count, &files);
  return CopyOutput(result->output, output);
}

bool CellResultCopy::Copy(const struct gbx_cell_result* result) {
  interrupted = result->interrupted;
  timed_out = result->timed_out;
  has_exit = result->has_exit;
  exit_code = result->exit_code;
  signal = result->signal;
  fault = result->fault;
  fault_syscall = result->fault_syscall;
  frames_truncated = result->frames_truncated;
  files_truncated = result->files_truncated;
  duration_us = result->duration_us;
  blocked = CopyBlocked(result->blocked);
  has_done = result->done.data != nullptr;
  CopyFiles(result->files, result->file_count, &files);
  return Bytes::Copy(result->done.data, result->done.size, &done) &&
         CopyOutput(result->output, output);
}

/* ---- To JavaScript ------------------------------------------------------- */

static Napi::Value NumberToJs(Napi::Env env, uint64_t number) {
  return Napi::Number::New(env, static_cast<double>(number));
}

/* Whether it is UTF-8 in its one right form: no surrogates, nothing longer than
 * it has to be. */
static bool IsUtf8(const std::string& text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* end = at + text.size();
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

/* A string, or the bytes of what is none. A list may have a hundred thousand,
 * and Buffers cost many times as much. */
static Napi::Value PathToJs(Napi::Env env, const std::string& path) {
  if (IsUtf8(path)) return Napi::String::New(env, path);
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

Napi::Value FileListToJs(Napi::Env env, const std::vector<FileCopy>& files) {
  Napi::Array array = Napi::Array::New(env, files.size());
  for (size_t i = 0; i < files.size(); i++) {
    Napi::HandleScope scope(env);
    Napi::Object object = Napi::Object::New(env);
    double mtime_ms = static_cast<double>(files[i].mtime_ns) / 1e6;
    object.Set("path", PathToJs(env, files[i].path));
    object.Set("size", NumberToJs(env, files[i].size));
    object.Set("mtimeMs", Napi::Number::New(env, mtime_ms));
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

/* The fields that a run and a cell have in common. */
template <typename Result>
static Napi::Object ResultToJs(Napi::Env env, Result* result) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("stdout", result->output[GBX_STDOUT].data.ToBuffer(env));
  object.Set("stderr", result->output[GBX_STDERR].data.ToBuffer(env));
  object.Set("stdoutTruncated",
             Napi::Boolean::New(env, result->output[GBX_STDOUT].truncated));
  object.Set("stderrTruncated",
             Napi::Boolean::New(env, result->output[GBX_STDERR].truncated));
  object.Set("fault", FaultToJs(env, result->fault));
  object.Set("faultSyscall", Napi::String::New(env, result->fault_syscall));
  object.Set("blocked", BlockedToJs(env, result->blocked));
  object.Set("framesTruncated",
             Napi::Boolean::New(env, result->frames_truncated));
  object.Set("filesTruncated",
             Napi::Boolean::New(env, result->files_truncated));
  object.Set("durationUs", NumberToJs(env, result->duration_us));
  object.Set("files", ChangedFilesToJs(env, result->files));
  return object;
}

/* 0, or a false flag, is what this host does not tell: null. */
static Napi::Value UsageToJs(Napi::Env env, const struct gbx_usage& usage) {
  Napi::Object object = Napi::Object::New(env);
  auto set = [&](const char* name, uint64_t number, bool known) {
    object.Set(name, known ? NumberToJs(env, number) : env.Null());
  };
  set("cpuUs", usage.cpu_us, usage.cpu_us != 0);
  set("cpuUserUs", usage.cpu_user_us, usage.has_cpu_split);
  set("cpuSystemUs", usage.cpu_system_us, usage.has_cpu_split);
  set("readBytes", usage.read_bytes, usage.has_io);
  set("writtenBytes", usage.written_bytes, usage.has_io);
  set("maxMemoryBytes", usage.max_memory_bytes, usage.max_memory_bytes != 0);
  set("maxPids", usage.max_pids, usage.max_pids != 0);
  return object;
}

Napi::Value RunResultToJs(Napi::Env env, RunResultCopy* result) {
  Napi::Object object = ResultToJs(env, result);
  object.Set("exitCode", Napi::Number::New(env, result->exit_code));
  object.Set("signal", Napi::Number::New(env, result->signal));
  object.Set("exec", result->exec.code == GBX_OK
                         ? env.Null()
                         : ErrorToJs(env, result->exec));
  object.Set("usage", UsageToJs(env, result->usage));
  return object;
}

Napi::Value CellResultToJs(Napi::Env env, CellResultCopy* result) {
  Napi::Object object = ResultToJs(env, result);
  object.Set("done",
             result->has_done ? result->done.ToBuffer(env) : env.Null());
  object.Set("interrupted", Napi::Boolean::New(env, result->interrupted));
  object.Set("timedOut", Napi::Boolean::New(env, result->timed_out));
  object.Set("exitCode", result->has_exit
                             ? Napi::Number::New(env, result->exit_code)
                             : env.Null());
  object.Set("signal", result->has_exit ? Napi::Number::New(env, result->signal)
                                        : env.Null());
  return object;
}

Napi::Value SessionInfoToJs(Napi::Env env, const std::string& workspace,
                            enum gbx_enforcement memory,
                            enum gbx_enforcement pids,
                            enum gbx_enforcement cpus,
                            enum gbx_enforcement disk, bool scoped) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("workspace", Napi::String::New(env, workspace));
  object.Set("memory", EnforcementToJs(env, memory));
  object.Set("pids", EnforcementToJs(env, pids));
  object.Set("cpus", EnforcementToJs(env, cpus));
  object.Set("disk", EnforcementToJs(env, disk));
  object.Set("scoped", Napi::Boolean::New(env, scoped));
  return object;
}

}  // namespace gbx

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_CONVERT_H_
#define SRC_BINDING_CONVERT_H_

/* The engine's results to JavaScript values (spec_reader.h has the other way).
 * They end with the engine's callback, so the engine's thread copies them (the
 * structs named `...Copy`) and the JavaScript thread makes objects of the
 * copies (the functions named `...ToJs`). */

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "binding/node_addon.h"
#include "engine/engine.h"

namespace gbx {

/* ---- Bytes --------------------------------------------------------------- */

/* Owns one malloc'ed piece of memory, which may be a guest's whole output. */
class Bytes {
 public:
  Bytes() = default;
  Bytes(Bytes&& other) noexcept;
  Bytes& operator=(Bytes&& other) noexcept;
  ~Bytes();

  /* Takes what malloc gave; NULL is an empty one. */
  static Bytes Adopt(void* data, size_t size);
  /* False: no memory; *ret_bytes is untouched then. */
  static bool Copy(const void* data, size_t size, Bytes* ret_bytes);

  size_t size() const {
    return size_;
  }

  /* JavaScript thread: hands the memory itself over where the runtime allows
   * it, so that 64 MiB are not copied on the main thread. Empty afterwards. */
  Napi::Value ToBuffer(Napi::Env env);
  /* A string, which is made sooner and is what most callers want, if it is
   * UTF-8 and short; else a Buffer. Empty afterwards. */
  Napi::Value ToText(Napi::Env env);
  /* A string whatever it is, for what is JSON or worth nothing. */
  Napi::Value ToJson(Napi::Env env) const;

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

/* ---- Results ------------------------------------------------------------- */

struct FileCopy {
  std::string path;
  uint64_t size;
  enum gbx_change change; /* of changed files */
  int64_t mtime_ns;       /* of listed files; so are these */
  enum gbx_file_type type;
  uint32_t mode;
};

struct BlockedCopy {
  bool traced = false;
  std::vector<struct gbx_blocked_call> calls;
};

/* A stream's captured bytes. */
struct OutputCopy {
  Bytes data;
  bool truncated = false;
};

struct RunResultCopy {
  OutputCopy output[2];
  int exit_code = 0;
  int signal = 0;
  enum gbx_fault fault = GBX_FAULT_NONE;
  std::string fault_syscall;
  struct gbx_err exec = {};
  bool frames_truncated = false;
  bool files_truncated = false;
  uint64_t duration_us = 0;
  struct gbx_usage usage = {};
  BlockedCopy blocked;
  std::vector<FileCopy> files;

  /* False: no memory. */
  bool Copy(const struct gbx_run_result* result);
};

struct CellResultCopy {
  OutputCopy output[2];
  bool interrupted = false;
  bool timed_out = false;
  bool has_exit = false;
  int exit_code = 0;
  int signal = 0;
  bool has_done = false;
  Bytes done;
  enum gbx_fault fault = GBX_FAULT_NONE;
  std::string fault_syscall;
  BlockedCopy blocked;
  bool frames_truncated = false;
  bool files_truncated = false;
  uint64_t duration_us = 0;
  struct gbx_usage usage = {};
  std::vector<FileCopy> files;

  bool Copy(const struct gbx_cell_result* result);
};

Napi::Value ErrorToJs(Napi::Env env, const struct gbx_err& err);
/* These two empty the buffers of what they are given. `make` is the function of
 * lib/native-result.js that makes the object; null if that failed. */
Napi::Value RunResultToJs(Napi::Env env, Napi::Function make,
                          RunResultCopy* result);
Napi::Value CellResultToJs(Napi::Env env, Napi::Function make,
                           CellResultCopy* result);
Napi::Value FileListToJs(Napi::Env env, const std::vector<FileCopy>& files);
Napi::Value SessionInfoToJs(Napi::Env env, const std::string& workspace,
                            enum gbx_enforcement memory,
                            enum gbx_enforcement pids,
                            enum gbx_enforcement cpus,
                            enum gbx_enforcement disk, bool cgroups,
                            bool scoped);

/* A result that there was no memory to copy; `op` names what was called. */
struct gbx_err NoMemoryError(const char* op);

/* Throws the plain object, in place of what may be pending. */
void ThrowError(Napi::Env env, const struct gbx_err& err);

}  // namespace gbx

#endif  // SRC_BINDING_CONVERT_H_

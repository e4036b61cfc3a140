/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_FILE_WRAP_H_
#define SRC_BINDING_FILE_WRAP_H_

/* native's File objects: open files of a workspace, whole trees of it, and
 * watches. */

#include <cstdint>

#include "binding/addon.h"
#include "binding/node_addon.h"
#include "binding/spec_reader.h"
#include "engine/engine.h"

namespace gbx {

class FileWrap : public Wrap<FileWrap> {
 public:
  static constexpr uint64_t kClassTag = 0x7c3a91e5d2046bf8;
  struct Init {
    struct gbx_file* file; /* set to NULL by who takes it over */
    uint64_t size;
  };

  static Napi::Function Define(Napi::Env env);
  explicit FileWrap(const Napi::CallbackInfo& info);
  ~FileWrap();

  /* session.openFile(use, path): the promise of a File. NULL: it is closed. */
  static Napi::Value Open(Addon* addon, const Napi::CallbackInfo& info,
                          struct gbx_session* const* session);

 private:
  Napi::Value Read(const Napi::CallbackInfo& info);
  Napi::Value Write(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  bool IsReady(SpecReader* reader, struct gbx_err* err);

  struct gbx_file* file_ = nullptr; /* NULL as soon as it is closing */
};

}  // namespace gbx

#endif  // SRC_BINDING_FILE_WRAP_H_

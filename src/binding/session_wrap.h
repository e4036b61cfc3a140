/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_SESSION_WRAP_H_
#define SRC_BINDING_SESSION_WRAP_H_

/* native's Engine and Session objects: everything that answers a promise. */

#include <memory>
#include <string>
#include <vector>

#include "binding/addon.h"
#include "binding/node_addon.h"
#include "binding/spec_reader.h"
#include "engine/engine.h"

namespace gbx {

class EngineWrap : public Wrap<EngineWrap> {
 public:
  static constexpr uint64_t kClassTag = 0x9d1c5f0a6b3e4c21;
  struct Init {};

  static Napi::Function Define(Napi::Env env);
  explicit EngineWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value PrepareRoot(const Napi::CallbackInfo& info);
  Napi::Value OpenSession(const Napi::CallbackInfo& info);
  Napi::Value RunOnce(const Napi::CallbackInfo& info);
};

class SessionWrap : public Wrap<SessionWrap> {
 public:
  static constexpr uint64_t kClassTag = 0x4be07a92d85f1136;
  struct Init {
    struct gbx_session* session; /* set to NULL by who takes it over */
    std::string workspace;
    enum gbx_enforcement memory, pids, cpus, disk;
    bool cgroups, scoped;
  };

  static Napi::Function Define(Napi::Env env);
  explicit SessionWrap(const Napi::CallbackInfo& info);
  ~SessionWrap();

 private:
  /* A spec that was read for the runs to come. */
  struct Prepared {
    explicit Prepared(Napi::Env env) : reader(env, "prepare") {
    }
    SpecReader reader; /* keeps what `spec` points to */
    RunSpec spec;
  };

  Napi::Value GivenUp(const Napi::CallbackInfo& info);
  Napi::Value Prepare(const Napi::CallbackInfo& info);
  Napi::Value Run(const Napi::CallbackInfo& info);
  Napi::Value WriteFile(const Napi::CallbackInfo& info);
  Napi::Value ReadFile(const Napi::CallbackInfo& info);
  Napi::Value ListFiles(const Napi::CallbackInfo& info);
  Napi::Value Stat(const Napi::CallbackInfo& info);
  Napi::Value ChangePath(const Napi::CallbackInfo& info);
  Napi::Value OpenFile(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  /* Call it last before the engine: whether all that was read is usable and
   * the session is open. */
  bool IsReady(SpecReader* reader, struct gbx_err* err);

  /* False: `value` is not a number, so it is a spec. */
  bool FindPrepared(SpecReader* reader, Napi::Value value, RunSpec* spec);

  struct gbx_session* session_ = nullptr; /* NULL as soon as it is closing */
  uint32_t given_up_ = 0;                 /* as it was then */
  Napi::ObjectReference closing_;         /* the promise of the first close */
  std::vector<std::unique_ptr<Prepared>> prepared_; /* by their numbers */
};

}  // namespace gbx

#endif  // SRC_BINDING_SESSION_WRAP_H_

/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/addon.h"

#include <utility>

#include "binding/convert.h"
#include "binding/file_wrap.h"
#include "binding/plan.h"
#include "binding/root_wrap.h"
#include "binding/run_wrap.h"
#include "binding/session_wrap.h"
#include "binding/spec_reader.h"

/* From package.json, by binding.gyp: tells lib/ of a stale build. */
#ifndef GBX_VERSION
#define GBX_VERSION ""
#endif

namespace gbx {

/* Node's instance data. A type of its own, as wrappers that are finalized
 * after it still need the Addon. */
struct Instance {
  std::shared_ptr<Addon> addon{new Addon()};

  /* Does nothing after the hook; without it (a runtime that has none, a
   * failed start) nothing else would end the engine. */
  ~Instance() {
    addon->Shutdown();
  }
};

static void OnCleanup(void* data) {
  std::unique_ptr<std::shared_ptr<Addon>> addon(
      static_cast<std::shared_ptr<Addon>*>(data));
  (*addon)->Shutdown();
}

Addon* Addon::Of(napi_env env) {
  return Napi::Env(env).GetInstanceData<Instance>()->addon.get();
}

Napi::Object Addon::Init(Napi::Env env, Napi::Object exports) {
  auto* instance = new Instance();
  env.SetInstanceData(instance);
  auto* classes = &instance->addon->classes_;
  (*classes)[EngineWrap::kClassTag] = Napi::Persistent(EngineWrap::Define(env));
  (*classes)[SessionWrap::kClassTag] =
      Napi::Persistent(SessionWrap::Define(env));
  (*classes)[RootWrap::kClassTag] = Napi::Persistent(RootWrap::Define(env));
  (*classes)[FileWrap::kClassTag] = Napi::Persistent(FileWrap::Define(env));
  (*classes)[RunWrap::kClassTag] = Napi::Persistent(RunWrap::Define(env));
  exports.Set("createEngine", Napi::Function::New(env, CreateEngine));
  exports.Set("describeBox", Napi::Function::New(env, DescribeBox));
  exports.Set("readSpec", Napi::Function::New(env, ReadSpec));
  exports.Set("version", Napi::String::New(env, GBX_VERSION));
  return exports;
}

Napi::FunctionReference* Addon::ClassOf(uint64_t class_tag) {
  return &classes_.at(class_tag);
}

/* The address makes it the tag of this environment and this copy of the
 * module: another version's Session may be laid out in another way. */
napi_type_tag Addon::TagOf(uint64_t class_tag) {
  return {class_tag, reinterpret_cast<uintptr_t>(this)};
}

void* Addon::TakeInit() {
  return std::exchange(init_, nullptr);
}

void Addon::Adopt(std::shared_ptr<Pending> pending) {
  Pending* key = pending.get();
  pending_.emplace(key, std::move(pending));
}

void Addon::Disown(Pending* pending) {
  pending->ReleaseJs();
  pending_.erase(pending);
}

bool Addon::Start(Napi::Env env, const struct gbx_engine_options* options,
                  struct gbx_err* err) {
  if (!hooked_) {
    /* Hooks run in reverse order. The queue's threadsafe function has one
     * that closes it; ours, added later, has closed the queue by then. */
    auto* self = new std::shared_ptr<Addon>(shared_from_this());
    if (!queue_.Open(env)) {
      delete self;
      (void)gbx_fail(err, GBX_E_INTERNAL, 0, "createEngine",
                     "no threadsafe function");
      return false;
    }
    (void)napi_add_env_cleanup_hook(env, OnCleanup, self); /* cannot fail */
    hooked_ = true;
  }
  if (gbx_engine_new(options, &engine_, err) < 0) return false;
  launcher_path_ = options->launcher_path;
  return true;
}

/* There is one engine an environment, so asking again gives the same one. */
Napi::Value Addon::CreateEngine(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Addon* addon = Of(env);
  struct gbx_err err = {};
  SpecReader reader(env, "createEngine");
  struct gbx_engine_options options = {};
  options.launcher_path = reader.StringField(info[0], "launcherPath");
  options.profile_path = reader.OptionalStringField(info[0], "profilePath");
  Napi::Value make_run_result(env, reader.Field(info[0], "makeRunResult"));
  Napi::Value make_cell_result(env, reader.Field(info[0], "makeCellResult"));
  if (!make_run_result.IsFunction() || !make_cell_result.IsFunction())
    reader.Fail("makeRunResult, makeCellResult", "functions");
  if (addon->engine_ != nullptr &&
      addon->launcher_path_ != options.launcher_path) {
    reader.Fail("launcherPath", "the one that the engine runs with");
  }
  if (reader.Finish(&err) < 0 ||
      (addon->engine_ == nullptr && !addon->Start(env, &options, &err))) {
    ThrowError(env, err);
    return Napi::Value();
  }
  if (addon->engine_object_.IsEmpty()) {
    EngineWrap::Init init;
    Napi::Object object = addon->Construct<EngineWrap>(&init);
    if (object.IsEmpty()) return Napi::Value();
    addon->make_run_result_ =
        Napi::Persistent(make_run_result.As<Napi::Function>());
    addon->make_cell_result_ =
        Napi::Persistent(make_cell_result.As<Napi::Function>());
    addon->engine_object_ = Napi::Persistent(object);
  }
  return addon->engine_object_.Value();
}

void Addon::Shutdown() {
  queue_.Close();
  gbx_engine_free(std::exchange(engine_, nullptr));
  for (auto& pending : pending_) {
    pending.second->ReleaseJs();
  }
  pending_.clear();
  engine_object_.Reset();
  make_run_result_.Reset();
  make_cell_result_.Reset();
  classes_.clear();
}

static Napi::Object InitModule(Napi::Env env, Napi::Object exports) {
  return Addon::Init(env, exports);
}

}  // namespace gbx

using gbx::InitModule;
NODE_API_MODULE(glovebox, InitModule)

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_ADDON_H_
#define SRC_BINDING_ADDON_H_

/* What one copy of the addon holds in one JavaScript environment (the main
 * thread or a worker). Nothing here is static: several environments, and
 * several copies of the module in one, live in a process side by side.
 *
 * Who keeps what alive
 * --------------------
 * The engine belongs to the environment. What the engine's thread holds a
 * pointer to is a Pending, owned by Addon until its last event was delivered.
 * At the end of the environment a cleanup hook closes the queue (from then on
 * nobody calls into Node), ends the engine (from then on nobody holds such a
 * pointer), and only then destroys what was pending. Node runs the finalizers
 * of wrappers after the hooks, so a wrapper shares the ownership of Addon and
 * asks engine() before it touches the engine's objects.
 *
 * All members but `queue()` are for the JavaScript thread. */

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "binding/event_queue.h"
#include "binding/node_addon.h"
#include "engine/engine.h"

namespace gbx {

/* Something that the engine will call back about. */
class Pending {
 public:
  Pending() = default;
  virtual ~Pending() = default; /* any time after ReleaseJs() */
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  /* Lets go of everything that is JavaScript's. Once, by Addon. */
  virtual void ReleaseJs() = 0;
};

class Addon : public std::enable_shared_from_this<Addon> {
 public:
  static Addon* Of(napi_env env);
  static Napi::Object Init(Napi::Env env, Napi::Object exports);

  Addon() = default;
  Addon(const Addon&) = delete;
  Addon& operator=(const Addon&) = delete;

  EventQueue* queue() {
    return &queue_;
  }

  /* NULL before createEngine() and after the environment's end. */
  struct gbx_engine* engine() {
    return engine_;
  }

  /* Of lib/: what makes the object of a result. */
  Napi::Function make_run_result() {
    return make_run_result_.Value();
  }
  Napi::Function make_cell_result() {
    return make_cell_result_.Value();
  }

  /* To read output into, before it is known how much there is. */
  std::vector<uint8_t>* scratch() {
    return &scratch_;
  }

  /* Keeps `pending` until Disown(), which releases its JavaScript side; it is
   * destroyed then unless someone else shares it. */
  void Adopt(std::shared_ptr<Pending> pending);
  void Disown(Pending* pending);

  /* Makes the wrapper around `init`; an empty object if that failed. Wrapper
   * classes cannot be instantiated in any other way. */
  template <typename T>
  Napi::Object Construct(typename T::Init* init);

  /* For Wrap<T> only. */
  napi_type_tag TagOf(uint64_t class_tag);
  void* TakeInit();

  /* Ends the engine and everything with it. Blocks; idempotent. */
  void Shutdown();

 private:
  static Napi::Value CreateEngine(const Napi::CallbackInfo& info);
  bool Start(Napi::Env env, const struct gbx_engine_options* options,
             struct gbx_err* err);
  Napi::FunctionReference* ClassOf(uint64_t class_tag);

  EventQueue queue_;
  std::vector<uint8_t> scratch_;
  struct gbx_engine* engine_ = nullptr;
  std::string launcher_path_;           /* of engine_ */
  Napi::ObjectReference engine_object_; /* the Engine of engine_ */
  Napi::FunctionReference make_run_result_, make_cell_result_;
  std::unordered_map<uint64_t, Napi::FunctionReference> classes_; /* by tag */
  std::unordered_map<Pending*, std::shared_ptr<Pending>> pending_;
  bool hooked_ = false;  /* queue open and cleanup hook in place */
  void* init_ = nullptr; /* handed from Construct() to the constructor */
};

/* Base of the wrapper classes. T has `struct Init`, `kClassTag` and a
 * constructor that takes the CallbackInfo and calls TakeInit(). */
template <typename T>
class Wrap : public Napi::ObjectWrap<T> {
 public:
  /* Hides ObjectWrap's, for it trusts `this` blindly: a method that was taken
   * off its object and called on another one is a TypeError here. */
  static T* Unwrap(Napi::Object object);

  /* NULL for what is none. */
  static T* Find(napi_env env, napi_value value);

 protected:
  explicit Wrap(const Napi::CallbackInfo& info);

  /* The T::Init. NULL: JavaScript called the constructor (an exception is
   * pending), or the worker is ending. */
  void* TakeInit(const Napi::CallbackInfo& info);

  Addon* addon() {
    return addon_.get();
  }

 private:
  std::shared_ptr<Addon> addon_;
};

template <typename T>
T* Wrap<T>::Find(napi_env env, napi_value value) {
  napi_type_tag tag = Addon::Of(env)->TagOf(T::kClassTag);
  bool is_ours = false;
  void* instance = nullptr;
  return value != nullptr &&
                 napi_check_object_type_tag(env, value, &tag, &is_ours) ==
                     napi_ok &&
                 is_ours && napi_unwrap(env, value, &instance) == napi_ok
             ? static_cast<T*>(instance)
             : nullptr;
}

template <typename T>
T* Wrap<T>::Unwrap(Napi::Object object) {
  T* instance = Find(object.Env(), object);
  /* Fails only where an exception is pending or none can be thrown. */
  if (instance == nullptr)
    (void)napi_throw_type_error(object.Env(), nullptr, "Illegal invocation");
  return instance;
}

template <typename T>
Wrap<T>::Wrap(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<T>(info),
      addon_(Addon::Of(info.Env())->shared_from_this()) {
}

template <typename T>
void* Wrap<T>::TakeInit(const Napi::CallbackInfo& info) {
  void* init = addon_->TakeInit();
  if (init == nullptr) {
    (void)napi_throw_type_error(info.Env(), nullptr, "Illegal constructor");
    return nullptr;
  }
  napi_type_tag tag = addon_->TagOf(T::kClassTag);
  return napi_type_tag_object(info.Env(), info.This(), &tag) == napi_ok
             ? init
             : nullptr;
}

template <typename T>
Napi::Object Addon::Construct(typename T::Init* init) {
  init_ = init;
  Napi::Object object = ClassOf(T::kClassTag)->New({});
  init_ = nullptr;
  return object;
}

}  // namespace gbx

#endif  // SRC_BINDING_ADDON_H_

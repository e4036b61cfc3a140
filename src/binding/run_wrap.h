/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_RUN_WRAP_H_
#define SRC_BINDING_RUN_WRAP_H_

/* A run, as the two threads share it.
 *
 * RunState is the engine's callback data. It lives from gbx_run_start until
 * its "end" was delivered, and keeps the Run object, if there is one, its
 * Session and onEvent from being collected for that long. The Run object shares
 * it, so that run.abort() after the end finds something to do nothing with.
 *
 * Order of a run's bytes
 * ----------------------
 * Output is taken by the JavaScript thread when it has time, so that it
 * coalesces. At the end of a run or a cell the engine's thread takes what is
 * left and queues it before the "end" or "cell". Both take under `mutex_`.
 * What the JavaScript thread takes it delivers at once, hence before all that
 * was queued later. But an output event from before a cell's end, when it is
 * drained after it, would deliver the next cell's bytes ahead of the rest
 * that is still queued: it carries the number of the cell it was pushed in,
 * and is ignored in a later one. */

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>

#include "binding/addon.h"
#include "binding/convert.h"
#include "binding/node_addon.h"
#include "binding/spec_reader.h"
#include "engine/engine.h"

namespace gbx {

class EndEvent;

class RunState : public Pending, public std::enable_shared_from_this<RunState> {
 public:
  /* ---- JavaScript thread; none of these needs the run to be alive. */

  /* The Run object, or undefined where none is needed; an empty value with an
   * exception pending. `session_object` is that of the Session. */
  static Napi::Value Start(Addon* addon, struct gbx_session* session,
                           const RunSpec& spec,
                           Napi::Reference<Napi::Object>* session_object,
                           Napi::Function on_event);

  /* The same with a session of its own; `engine_object` is the Engine. Its
   * events are "opened", unless it could not be, and "end" when the session is
   * gone. */
  static Napi::Value StartOnce(Addon* addon, const SessionSpec& session,
                               const RunSpec& spec,
                               Napi::Reference<Napi::Object>* engine_object,
                               Napi::Function on_event);

  RunState(Addon* addon, const RunSpec& spec);
  ~RunState() override;

  Addon* addon() {
    return addon_;
  }

  /* Throws if the run has ended or is no kernel. */
  void Cell(Napi::Env env, uint64_t id, const struct gbx_cell_options& options);
  void SetWantOutput(const bool want[2]);
  /* A kernel, too, keeps the process alive from here to its end: who aborts
   * waits for it. */
  void Abort();
  /* Calls `act` with the run if it lives, and throws if that failed. Returns
   * whether it was called and did not fail. */
  template <typename Act>
  bool WithRun(Napi::Env env, Act act);
  /* A Buffer, an empty one at the stream's end; null if nothing is there, after
   * which an "output" event comes. */
  Napi::Value Read(Napi::Env env, enum gbx_stream stream);
  /* Whether it keeps the process alive. */
  void SetAwaited(bool awaited);

  void DeliverOutput(Napi::Env env, uint64_t cell_number);
  void DeliverCell(Napi::Env env, std::initializer_list<napi_value> arguments);
  void DeliverEnd(Napi::Env env, std::initializer_list<napi_value> arguments);
  /* Calls onEvent; may leave an exception pending. */
  void Emit(Napi::Env env, std::initializer_list<napi_value> arguments);

  void ReleaseJs() override;

 private:
  /* Everything of it belongs to JavaScript. */
  struct Js {
    Js(Napi::Reference<Napi::Object>* parent, Napi::Function on_event);
    ~Js();
    Js(const Js&) = delete;
    Js& operator=(const Js&) = delete;
    Napi::ObjectReference run;
    Napi::Reference<Napi::Object>* parent;
    Napi::FunctionReference on_event;
  };

  static const struct gbx_run_events kEvents;

  /* `start` calls the engine. */
  template <typename Starter>
  static Napi::Value StartWith(Addon* addon, const RunSpec& spec,
                               Napi::Reference<Napi::Object>* parent,
                               Napi::Function on_event, Starter start);

  /* ---- Engine's thread. */
  static void OnOutput(void* data);
  static void OnFrame(void* data, enum gbx_frame type, const uint8_t* body,
                      size_t size);
  static void OnCell(void* data, void* cell_data, const struct gbx_err* err,
                     const struct gbx_cell_result* result);
  static void OnEnd(void* data, const struct gbx_err* err,
                    const struct gbx_run_result* result);
  static void OnStart(void* data, int pid);
  static void OnInput(void* data, bool is_open);
  static void OnOpen(void* data, const struct gbx_session_info* info);
  static void OnClose(void* data, const struct gbx_err* err);

  /* Either thread, with `mutex_` held; false: no memory. */
  void PushOutput();
  bool TakeOutput(enum gbx_stream stream, Bytes* ret_bytes);
  bool PushWanted();
  bool PushRest();

  Addon* addon_;
  bool kernel_;
  bool stream_; /* what was not taken at its end is JavaScript's all the same */

  /* JavaScript thread only. */
  std::unique_ptr<Js> js_;
  size_t open_cells_ = 0; /* whose "cell" event was not delivered */
  bool awaited_;          /* keeps the process alive until its "end" */

  bool frame_lost_ = false;       /* engine's thread only: no memory for one */
  bool once_ = false;             /* "end" waits for the end of the session */
  std::unique_ptr<EndEvent> end_; /* engine's thread only: that waits */

  /* Held by the JavaScript thread for calls of the engine alone, never while
   * JavaScript may run. Before EventQueue's. */
  std::mutex mutex_;
  struct gbx_run* run_ = nullptr; /* NULL: not started, or on_end came */
  bool want_[2];
  uint64_t cell_number_ = 0; /* of ended cells */
};

class RunWrap : public Wrap<RunWrap> {
 public:
  static constexpr uint64_t kClassTag = 0xc27f3b6e91a804d5;
  struct Init {
    std::shared_ptr<RunState> run;
  };

  static Napi::Function Define(Napi::Env env);
  explicit RunWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Cell(const Napi::CallbackInfo& info);
  Napi::Value Interrupt(const Napi::CallbackInfo& info);
  Napi::Value SetWantOutput(const Napi::CallbackInfo& info);
  Napi::Value Abort(const Napi::CallbackInfo& info);
  Napi::Value Write(const Napi::CallbackInfo& info);
  Napi::Value Signal(const Napi::CallbackInfo& info);
  Napi::Value Resize(const Napi::CallbackInfo& info);
  Napi::Value CloseOutput(const Napi::CallbackInfo& info);
  Napi::Value Read(const Napi::CallbackInfo& info);
  Napi::Value SetAwaited(const Napi::CallbackInfo& info);

  std::shared_ptr<RunState> run_;
};

}  // namespace gbx

#endif  // SRC_BINDING_RUN_WRAP_H_

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_RUN_WRAP_H_
#define SRC_BINDING_RUN_WRAP_H_

/* A run, as the two threads share it.
 *
 * RunState is the engine's callback data. It lives from gbx_run_start until
 * its "end" was delivered, and keeps the Run object, its Session and onEvent
 * from being collected for that long. The Run object shares it, so that
 * run.abort() after the end finds something to do nothing with.
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

class RunState : public Pending, public std::enable_shared_from_this<RunState> {
 public:
  /* ---- JavaScript thread; none of these needs the run to be alive. */

  /* The Run object, or an empty value with an exception pending. */
  static Napi::Value Start(Addon* addon, struct gbx_session* session,
                           const RunSpec& spec, Napi::Object session_object,
                           Napi::Function on_event);

  RunState(Addon* addon, const RunSpec& spec);

  /* Throws if the run has ended or is no kernel. */
  void Cell(Napi::Env env, uint64_t id, struct gbx_bytes body,
            uint64_t timeout_ms, uint64_t max_output_bytes, bool track_files);
  void SetWantOutput(const bool want[2]);
  /* A kernel, too, keeps the process alive from here to its end: who aborts
   * waits for it. */
  void Abort();

  void DeliverOutput(Napi::Env env, uint64_t cell_number);
  void DeliverCell(Napi::Env env, std::initializer_list<napi_value> arguments);
  void DeliverEnd(Napi::Env env, std::initializer_list<napi_value> arguments);
  /* Calls onEvent; may leave an exception pending. */
  void Emit(Napi::Env env, std::initializer_list<napi_value> arguments);

  void ReleaseJs() override;

 private:
  /* Everything of it belongs to JavaScript. */
  struct Js {
    Js(Napi::Object run, Napi::Object session, Napi::Function on_event);
    Napi::ObjectReference run;
    Napi::ObjectReference session;
    Napi::FunctionReference on_event;
  };

  static const struct gbx_run_events kEvents;

  /* ---- Engine's thread. */
  static void OnOutput(void* data);
  static void OnFrame(void* data, enum gbx_frame type, const uint8_t* body,
                      size_t size);
  static void OnCell(void* data, void* cell_data, const struct gbx_err* err,
                     const struct gbx_cell_result* result);
  static void OnEnd(void* data, const struct gbx_err* err,
                    const struct gbx_run_result* result);

  /* Either thread, with `mutex_` held; false: no memory. */
  void PushOutput();
  bool TakeOutput(enum gbx_stream stream, Bytes* ret_bytes);
  bool PushRest();

  Addon* addon_;
  bool kernel_;

  /* JavaScript thread only. */
  std::unique_ptr<Js> js_;
  size_t open_cells_ = 0; /* whose "cell" event was not delivered */
  bool awaited_;          /* keeps the process alive until its "end" */

  bool frame_lost_ = false; /* engine's thread only: no memory for one */

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
  Napi::Value SetWantOutput(const Napi::CallbackInfo& info);
  Napi::Value Abort(const Napi::CallbackInfo& info);

  std::shared_ptr<RunState> run_;
};

}  // namespace gbx

#endif  // SRC_BINDING_RUN_WRAP_H_

/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/run_wrap.h"

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "binding/convert.h"
#include "binding/event_queue.h"

namespace gbx {

static_assert(sizeof(void*) >= sizeof(uint64_t),
              "a cell's id travels as the engine's cell_data");

/* What is read of a stream at once: all that its pipe holds. */
static constexpr size_t kReadSize = 256 * 1024;

static const char* const kStreamNames[2] = {"stdout", "stderr"};

/* ---- Events -------------------------------------------------------------- */

/* There is output to take. */
class OutputEvent : public Event {
 public:
  OutputEvent(RunState* run, uint64_t cell_number)
      : run_(run), cell_number_(cell_number) {
  }
  void Deliver(Napi::Env env) override {
    run_->DeliverOutput(env, cell_number_);
  }

 private:
  RunState* run_;
  uint64_t cell_number_;
};

/* Output that was taken on the engine's thread. */
class ChunkEvent : public Event {
 public:
  ChunkEvent(RunState* run, int stream, Bytes bytes)
      : run_(run), stream_(stream), bytes_(std::move(bytes)) {
  }
  void Deliver(Napi::Env env) override {
    run_->Emit(env, {Napi::String::New(env, kStreamNames[stream_]),
                     bytes_.ToBuffer(env)});
  }

 private:
  RunState* run_;
  int stream_;
  Bytes bytes_;
};

class FrameEvent : public Event {
 public:
  FrameEvent(RunState* run, enum gbx_frame type, Bytes body)
      : run_(run), type_(type), body_(std::move(body)) {
  }
  void Deliver(Napi::Env env) override {
    run_->Emit(env, {Napi::String::New(env, "frame"),
                     Napi::Number::New(env, type_), body_.ToJson(env)});
  }

 private:
  RunState* run_;
  enum gbx_frame type_;
  Bytes body_;
};

/* The payload started, or its stdin took what was written. */
class NoticeEvent : public Event {
 public:
  NoticeEvent(RunState* run, const char* kind, int value)
      : run_(run), kind_(kind), value_(value) {
  }
  void Deliver(Napi::Env env) override {
    run_->Emit(env,
               {Napi::String::New(env, kind_), Napi::Number::New(env, value_)});
  }

 private:
  RunState* run_;
  const char* kind_;
  int value_;
};

class OpenedEvent : public Event {
 public:
  OpenedEvent(RunState* run, const struct gbx_session_info* info)
      : run_(run), workspace_(info->workspace), info_(*info) {
  }
  void Deliver(Napi::Env env) override {
    run_->Emit(env, {Napi::String::New(env, "opened"),
                     SessionInfoToJs(env, workspace_, info_.memory, info_.pids,
                                     info_.cpus, info_.disk, info_.cgroups,
                                     info_.scoped)});
  }

 private:
  RunState* run_;
  std::string workspace_; /* info_'s is the engine's */
  struct gbx_session_info info_;
};

/* What ends a run or a cell: an error or a result. */
template <typename ResultCopy>
class ResultEvent : public Event {
 public:
  explicit ResultEvent(RunState* run) : run_(run) {
  }

  template <typename Result>
  void Copy(const struct gbx_err* err, const Result* result) {
    if (err != nullptr) {
      err_ = *err;
    } else if (result == nullptr) {
      (void)gbx_fail(&err_, GBX_E_INTERNAL, 0, "run", "no result, no error");
    } else if (!result_.Copy(result)) {
      err_ = NoMemoryError("run");
    }
  }
  void Fail(const struct gbx_err& err) {
    if (err_.code == GBX_OK) err_ = err;
  }
  void SetFramesTruncated() {
    result_.frames_truncated = true;
  }

 protected:
  RunState* run() {
    return run_;
  }
  bool failed() {
    return err_.code != GBX_OK;
  }
  Napi::Value Error(Napi::Env env) {
    return failed() ? ErrorToJs(env, err_) : env.Null();
  }
  ResultCopy* result() {
    return &result_;
  }

 private:
  RunState* run_;
  struct gbx_err err_ = {};
  ResultCopy result_;
};

class CellEvent : public ResultEvent<CellResultCopy> {
 public:
  CellEvent(RunState* run, uint64_t id) : ResultEvent(run), id_(id) {
  }
  void Deliver(Napi::Env env) override {
    run()->DeliverCell(
        env, {Napi::String::New(env, "cell"),
              Napi::Number::New(env, static_cast<double>(id_)), Error(env),
              failed() ? env.Null()
                       : CellResultToJs(env, run()->addon()->make_cell_result(),
                                        result())});
  }

 private:
  uint64_t id_;
};

class EndEvent : public ResultEvent<RunResultCopy> {
 public:
  using ResultEvent::ResultEvent;
  /* What went wrong when the session of a run of its own was closed. */
  void SetCloseError(const struct gbx_err& err) {
    close_err_ = err;
  }
  void Deliver(Napi::Env env) override {
    run()->DeliverEnd(
        env,
        {Napi::String::New(env, "end"), Error(env),
         failed()
             ? env.Null()
             : RunResultToJs(env, run()->addon()->make_run_result(), result()),
         close_err_.code == GBX_OK ? env.Null() : ErrorToJs(env, close_err_)});
  }

 private:
  struct gbx_err close_err_ = {};
};

/* ---- JavaScript thread --------------------------------------------------- */

RunState::Js::Js(Napi::Reference<Napi::Object>* parent_object,
                 Napi::Function on_event_function)
    : parent(parent_object), on_event(Napi::Persistent(on_event_function)) {
  parent->Ref();
}

RunState::Js::~Js() {
  parent->Unref();
}

RunState::RunState(Addon* addon, const RunSpec& spec)
    : addon_(addon),
      kernel_(spec.options.kernel),
      stream_(spec.options.stream),
      awaited_(!spec.options.kernel),
      want_{spec.want_output[0], spec.want_output[1]} {
}

RunState::~RunState() = default;

template <typename Starter>
Napi::Value RunState::StartWith(Addon* addon, const RunSpec& spec,
                                Napi::Reference<Napi::Object>* parent,
                                Napi::Function on_event, Starter start) {
  Napi::Env env = parent->Env();
  auto run = std::make_shared<RunState>(addon, spec);
  Napi::Object object;
  if (spec.handle) {
    RunWrap::Init init = {run};
    object = addon->Construct<RunWrap>(&init);
    if (object.IsEmpty()) return Napi::Value();
  }

  struct gbx_err err = {};
  int result = 0;
  {
    /* A callback may come before the engine's function returned; it waits here
     * until run_ is known. */
    std::lock_guard<std::mutex> lock(run->mutex_);
    result = start(run.get(), &err);
  }
  if (result < 0) {
    ThrowError(env, err);
    return Napi::Value();
  }
  run->js_ = std::make_unique<Js>(parent, on_event);
  if (spec.handle) run->js_->run = Napi::Persistent(object);
  addon->Adopt(run);
  if (run->awaited_) addon->queue()->Retain();
  return spec.handle ? object : env.Undefined();
}

Napi::Value RunState::Start(Addon* addon, struct gbx_session* session,
                            const RunSpec& spec,
                            Napi::Reference<Napi::Object>* session_object,
                            Napi::Function on_event) {
  return StartWith(addon, spec, session_object, on_event,
                   [&](RunState* run, struct gbx_err* err) {
                     return gbx_run_start(session, &spec.options, &kEvents, run,
                                          &run->run_, err);
                   });
}

Napi::Value RunState::StartOnce(Addon* addon, const SessionSpec& session,
                                const RunSpec& spec,
                                Napi::Reference<Napi::Object>* engine_object,
                                Napi::Function on_event) {
  return StartWith(addon, spec, engine_object, on_event,
                   [&](RunState* run, struct gbx_err* err) {
                     run->once_ = true;
                     return gbx_run_once(addon->engine(), &session.options,
                                         &spec.options, &kEvents, run,
                                         &run->run_, err);
                   });
}

void RunState::Cell(Napi::Env env, uint64_t id,
                    const struct gbx_cell_options& options) {
  struct gbx_err err = {};
  int result = -1;
  if (!kernel_) {
    (void)gbx_fail(&err, GBX_E_INVALID, 0, "cell", "the run is no kernel");
  } else {
    std::lock_guard<std::mutex> lock(mutex_);
    if (run_ == nullptr) {
      (void)gbx_fail(&err, GBX_E_KERNEL_DEAD, 0, "cell", "the run has ended");
    } else {
      result = gbx_run_cell(run_, &options, reinterpret_cast<void*>(id), &err);
    }
  }
  if (result < 0) {
    ThrowError(env, err);
    return;
  }
  open_cells_++;
  addon_->queue()->Retain();
}

void RunState::SetWantOutput(const bool want[2]) {
  std::lock_guard<std::mutex> lock(mutex_);
  want_[0] = want[0];
  want_[1] = want[1];
  /* The engine may have told us already, when nobody wanted it, and does not
   * do so twice. */
  PushOutput();
}

void RunState::Abort() {
  if (js_ != nullptr && !awaited_) {
    awaited_ = true;
    addon_->queue()->Retain();
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (run_ != nullptr) gbx_run_abort(run_);
}

template <typename Act>
bool RunState::WithRun(Napi::Env env, Act act) {
  struct gbx_err err = {};
  int result = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (run_ == nullptr) return false;
    result = act(run_, &err);
  }
  if (result < 0) ThrowError(env, err);
  return result >= 0;
}

Napi::Value RunState::Read(Napi::Env env, enum gbx_stream stream) {
  std::vector<uint8_t>* scratch = addon_->scratch();
  scratch->resize(kReadSize);
  long size = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (run_ == nullptr) return env.Null();
    size = gbx_run_read_output(run_, stream, scratch->data(), scratch->size());
  }
  if (size == 0) return env.Null();
  if (size == -ENOMEM) {
    ThrowError(env, NoMemoryError("read"));
    return env.Undefined();
  }
  return Napi::Buffer<uint8_t>::Copy(env, scratch->data(),
                                     size < 0 ? 0 : static_cast<size_t>(size));
}

void RunState::SetAwaited(bool awaited) {
  if (js_ == nullptr || awaited == awaited_) return;
  awaited_ = awaited;
  if (awaited)
    addon_->queue()->Retain();
  else
    addon_->queue()->Release();
}

void RunState::DeliverOutput(Napi::Env env, uint64_t cell_number) {
  if (stream_) {
    Emit(env, {Napi::String::New(env, "output")});
    return;
  }
  Bytes taken[2];
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (run_ == nullptr || cell_number != cell_number_) return;
    for (int i = 0; i < 2; i++) {
      /* Without memory now, the bytes stay where they are for the next take. */
      if (want_[i]) (void)TakeOutput(static_cast<gbx_stream>(i), &taken[i]);
    }
  }
  std::shared_ptr<RunState> pin = shared_from_this();
  for (int i = 0; i < 2; i++) {
    if (taken[i].size() == 0) continue;
    Emit(env,
         {Napi::String::New(env, kStreamNames[i]), taken[i].ToBuffer(env)});
  }
}

void RunState::DeliverCell(Napi::Env env,
                           std::initializer_list<napi_value> arguments) {
  std::shared_ptr<RunState> pin = shared_from_this();
  Emit(env, arguments);
  /* After the call, which often queues the next cell. */
  open_cells_--;
  addon_->queue()->Release();
}

void RunState::DeliverEnd(Napi::Env env,
                          std::initializer_list<napi_value> arguments) {
  std::shared_ptr<RunState> pin = shared_from_this();
  Emit(env, arguments);
  if (awaited_) addon_->queue()->Release();
  for (; open_cells_ > 0; open_cells_--) {
    addon_->queue()->Release();
  }
  addon_->Disown(this);
}

void RunState::Emit(Napi::Env env,
                    std::initializer_list<napi_value> arguments) {
  if (js_ == nullptr) return;
  /* Fails if onEvent threw, which the queue reports, or if the worker ends. */
  (void)napi_call_function(env, env.Global(), js_->on_event.Value(),
                           arguments.size(), arguments.begin(), nullptr);
}

void RunState::ReleaseJs() {
  js_.reset();
}

/* ---- Engine's thread ----------------------------------------------------- */

const struct gbx_run_events RunState::kEvents = {
    OnOutput, OnFrame, OnCell, OnEnd, OnStart, OnInput, OnOpen, OnClose,
};

void RunState::OnOutput(void* data) {
  RunState* run = static_cast<RunState*>(data);
  std::lock_guard<std::mutex> lock(run->mutex_);
  run->PushOutput();
}

void RunState::OnFrame(void* data, enum gbx_frame type, const uint8_t* body,
                       size_t size) {
  RunState* run = static_cast<RunState*>(data);
  EventQueue* queue = run->addon_->queue();
  Bytes copy;
  if (queue->IsClosed()) return;
  if (!Bytes::Copy(body, size, &copy)) {
    run->frame_lost_ = true;
    return;
  }
  if (type == GBX_FRAME_RESULT && !run->stream_) {
    /* Now: an OutputEvent that waits takes nothing once the cell has ended.
     * What there is no memory for comes later. */
    std::lock_guard<std::mutex> lock(run->mutex_);
    (void)run->PushWanted();
  }
  queue->Push(std::make_unique<FrameEvent>(run, type, std::move(copy)));
}

void RunState::OnCell(void* data, void* cell_data, const struct gbx_err* err,
                      const struct gbx_cell_result* result) {
  RunState* run = static_cast<RunState*>(data);
  EventQueue* queue = run->addon_->queue();
  if (queue->IsClosed()) return;
  auto event =
      std::make_unique<CellEvent>(run, reinterpret_cast<uintptr_t>(cell_data));
  event->Copy(err, result);
  if (std::exchange(run->frame_lost_, false)) event->SetFramesTruncated();
  std::lock_guard<std::mutex> lock(run->mutex_);
  run->cell_number_++;
  if (!run->PushRest()) event->Fail(NoMemoryError("cell"));
  queue->Push(std::move(event));
}

void RunState::OnEnd(void* data, const struct gbx_err* err,
                     const struct gbx_run_result* result) {
  RunState* run = static_cast<RunState*>(data);
  EventQueue* queue = run->addon_->queue();
  auto event = std::make_unique<EndEvent>(run);
  bool closed = queue->IsClosed();
  if (!closed) event->Copy(err, result);
  if (run->frame_lost_) event->SetFramesTruncated();
  {
    std::lock_guard<std::mutex> lock(run->mutex_);
    if (!closed && !run->PushRest()) event->Fail(NoMemoryError("run"));
    run->run_ = nullptr;
  }
  if (run->once_) {
    run->end_ = std::move(event);
    return;
  }
  /* Last, and without the lock: who is given it may destroy the run, lock and
   * all, before Push() returns. */
  queue->Push(std::move(event));
}

void RunState::OnStart(void* data, int pid) {
  RunState* run = static_cast<RunState*>(data);
  run->addon_->queue()->Push(std::make_unique<NoticeEvent>(run, "start", pid));
}

void RunState::OnInput(void* data, bool is_open) {
  RunState* run = static_cast<RunState*>(data);
  run->addon_->queue()->Push(
      std::make_unique<NoticeEvent>(run, "input", is_open ? 1 : 0));
}

void RunState::OnOpen(void* data, const struct gbx_session_info* info) {
  RunState* run = static_cast<RunState*>(data);
  run->addon_->queue()->Push(std::make_unique<OpenedEvent>(run, info));
}

/* The last callback of a run with a session of its own, as OnEnd is of others.
 */
void RunState::OnClose(void* data, const struct gbx_err* err) {
  RunState* run = static_cast<RunState*>(data);
  std::unique_ptr<EndEvent> event = std::move(run->end_);
  if (err != nullptr) event->SetCloseError(*err);
  run->addon_->queue()->Push(std::move(event));
}

/* ---- Both, with the lock ------------------------------------------------- */

void RunState::PushOutput() {
  if (run_ == nullptr || (!stream_ && !want_[0] && !want_[1])) return;
  addon_->queue()->Push(std::make_unique<OutputEvent>(this, cell_number_));
}

bool RunState::TakeOutput(enum gbx_stream stream, Bytes* ret_bytes) {
  uint8_t* data = nullptr;
  long size = gbx_run_take_output(run_, stream, &data);
  if (size < 0) return false;
  *ret_bytes = Bytes::Adopt(data, static_cast<size_t>(size));
  return true;
}

bool RunState::PushWanted() {
  bool complete = true;
  for (int i = 0; i < 2; i++) {
    Bytes taken;
    if (!want_[i] && !stream_) continue;
    if (!TakeOutput(static_cast<gbx_stream>(i), &taken)) complete = false;
    if (taken.size() == 0) continue;
    addon_->queue()->Push(
        std::make_unique<ChunkEvent>(this, i, std::move(taken)));
  }
  return complete;
}

bool RunState::PushRest() {
  for (int i = 0; i < 2; i++) {
    if (want_[i] || stream_) continue;
    /* Nobody's now: else the next cell's caller could get it, who asks while
     * the engine still holds it. */
    (void)gbx_run_take_output(run_, static_cast<gbx_stream>(i), nullptr);
  }
  return PushWanted();
}

/* ---- Run ----------------------------------------------------------------- */

Napi::Function RunWrap::Define(Napi::Env env) {
  return DefineClass(env, "Run",
                     {InstanceMethod("cell", &RunWrap::Cell),
                      InstanceMethod("interrupt", &RunWrap::Interrupt),
                      InstanceMethod("setWantOutput", &RunWrap::SetWantOutput),
                      InstanceMethod("abort", &RunWrap::Abort),
                      InstanceMethod("write", &RunWrap::Write),
                      InstanceMethod("signal", &RunWrap::Signal),
                      InstanceMethod("resize", &RunWrap::Resize),
                      InstanceMethod("read", &RunWrap::Read),
                      InstanceMethod("closeOutput", &RunWrap::CloseOutput),
                      InstanceMethod("setAwaited", &RunWrap::SetAwaited)});
}

RunWrap::RunWrap(const Napi::CallbackInfo& info) : Wrap<RunWrap>(info) {
  Init* init = static_cast<Init*>(TakeInit(info));
  if (init != nullptr) run_ = init->run;
}

Napi::Value RunWrap::Cell(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "cell");
  struct gbx_cell_options options = {};
  uint64_t id = reader.Number(info[0], "cellId");
  reader.Data(info[1], "body", &options.body.data, &options.body.size);
  options.timeout_ms = reader.Number(info[2], "timeoutMs");
  options.max_output_bytes = reader.Number(info[3], "maxOutputBytes");
  options.track_files = reader.Bool(info[4], "trackFiles");
  options.supervised = reader.Bool(info[5], "supervised");
  options.type =
      reader.Bool(info[6], "isCommand") ? GBX_FRAME_COMMAND : GBX_FRAME_CELL;
  if (reader.FinishOrThrow()) run_->Cell(info.Env(), id, options);
  return info.Env().Undefined();
}

Napi::Value RunWrap::Interrupt(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "interrupt");
  bool insist = reader.Bool(info[0], "insist");
  if (reader.FinishOrThrow()) {
    run_->WithRun(info.Env(), [&](struct gbx_run* run, struct gbx_err* err) {
      return gbx_run_interrupt(run, insist, err);
    });
  }
  return info.Env().Undefined();
}

Napi::Value RunWrap::SetWantOutput(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "setWantOutput");
  bool want[2] = {false, false};
  ReadWantOutput(&reader, info[0], want);
  if (reader.FinishOrThrow()) run_->SetWantOutput(want);
  return info.Env().Undefined();
}

Napi::Value RunWrap::Abort(const Napi::CallbackInfo& info) {
  run_->Abort();
  return info.Env().Undefined();
}

/* Of a run with `stream`, as what follows. Here and in Signal() false: it has
 * ended. */
Napi::Value RunWrap::Write(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "write");
  struct gbx_bytes data = {};
  reader.Data(info[0], "data", &data.data, &data.size);
  bool ends = reader.Bool(info[1], "ends");
  if (!reader.FinishOrThrow()) return info.Env().Undefined();
  bool written =
      run_->WithRun(info.Env(), [&](struct gbx_run* run, struct gbx_err* err) {
        return gbx_run_write(run, data.data, data.size, ends, err);
      });
  return Napi::Boolean::New(info.Env(), written);
}

Napi::Value RunWrap::Signal(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "signal");
  uint64_t signal = reader.Number(info[0], "signal");
  if (signal < 1 || signal > 64) reader.Fail("signal", "a number from 1 to 64");
  if (!reader.FinishOrThrow()) return info.Env().Undefined();
  bool sent =
      run_->WithRun(info.Env(), [&](struct gbx_run* run, struct gbx_err* err) {
        return gbx_run_signal(run, static_cast<int>(signal), err);
      });
  return Napi::Boolean::New(info.Env(), sent);
}

Napi::Value RunWrap::Resize(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "resize");
  uint16_t columns = 0, rows = 0;
  ReadSize(&reader, info[0], info[1], &columns, &rows);
  if (reader.FinishOrThrow()) {
    run_->WithRun(info.Env(), [&](struct gbx_run* run, struct gbx_err* err) {
      return gbx_run_resize(run, columns, rows, err);
    });
  }
  return info.Env().Undefined();
}

static enum gbx_stream ReadStream(SpecReader* reader, Napi::Value value) {
  uint64_t stream = reader->Number(value, "stream");
  if (stream > GBX_STDERR) reader->Fail("stream", "0 or 1");
  return stream == GBX_STDERR ? GBX_STDERR : GBX_STDOUT;
}

Napi::Value RunWrap::CloseOutput(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "closeOutput");
  enum gbx_stream stream = ReadStream(&reader, info[0]);
  if (reader.FinishOrThrow()) {
    run_->WithRun(info.Env(), [&](struct gbx_run* run, struct gbx_err* err) {
      return gbx_run_close_output(run, stream, err);
    });
  }
  return info.Env().Undefined();
}

Napi::Value RunWrap::Read(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "read");
  enum gbx_stream stream = ReadStream(&reader, info[0]);
  if (!reader.FinishOrThrow()) return info.Env().Undefined();
  return run_->Read(info.Env(), stream);
}

Napi::Value RunWrap::SetAwaited(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "setAwaited");
  bool awaited = reader.Bool(info[0], "awaited");
  if (reader.FinishOrThrow()) run_->SetAwaited(awaited);
  return info.Env().Undefined();
}

}  // namespace gbx

/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/session_wrap.h"

#include <utility>
#include <vector>

#include "binding/convert.h"
#include "binding/file_wrap.h"
#include "binding/request.h"
#include "binding/root_wrap.h"
#include "binding/run_wrap.h"

namespace gbx {

static void IgnoreClosed(void* /* data */, const struct gbx_err* /* err */) {
}

class OpenRequest : public Request {
 public:
  using Request::Request;

  /* Engine's thread. */
  static void OnOpen(void* data, const struct gbx_err* err,
                     struct gbx_session* session,
                     const struct gbx_session_info* info) {
    OpenRequest* request = static_cast<OpenRequest*>(data);
    if (session != nullptr) {
      request->init_ = {session,       info->workspace, info->memory,
                        info->pids,    info->cpus,      info->disk,
                        info->cgroups, info->scoped};
      err = nullptr;
    }
    request->Done(err);
  }

 protected:
  Napi::Value Result(Napi::Env /* env */) override {
    Napi::Object object = addon()->Construct<SessionWrap>(&init_);
    /* Not taken over: the worker is ending, but the engine lives on for a
     * moment. */
    if (init_.session != nullptr) {
      gbx_session_close(init_.session, IgnoreClosed, nullptr);
    }
    return object;
  }

 private:
  SessionWrap::Init init_ = {};
};

/* ---- Engine -------------------------------------------------------------- */

Napi::Function EngineWrap::Define(Napi::Env env) {
  return DefineClass(env, "Engine",
                     {InstanceMethod("prepareRoot", &EngineWrap::PrepareRoot),
                      InstanceMethod("openSession", &EngineWrap::OpenSession),
                      InstanceMethod("runOnce", &EngineWrap::RunOnce)});
}

EngineWrap::EngineWrap(const Napi::CallbackInfo& info)
    : Wrap<EngineWrap>(info) {
  (void)TakeInit(info); /* for its checks and the tag */
}

/* Its arguments: entries and standbys. */
Napi::Value EngineWrap::PrepareRoot(const Napi::CallbackInfo& info) {
  RootWrap::Init init = {info[0], info[1]};
  return addon()->Construct<RootWrap>(&init);
}

/* The root is alive as long as `value`, whose property it is. */
static void ReadSession(SpecReader* reader, Napi::Value value,
                        SessionSpec* spec) {
  ReadSessionSpec(reader, value, spec);
  RootWrap* wrap = RootWrap::Find(value.Env(), reader->Field(value, "root"));
  if (wrap == nullptr)
    reader->Fail("root", "what prepareRoot() gave");
  else
    wrap->Fill(&spec->options);
}

Napi::Value EngineWrap::OpenSession(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "openSession");
  SessionSpec spec;
  ReadSession(&reader, info[0], &spec);

  return StartRequest<OpenRequest>(
      addon(), info, [&](OpenRequest* request, struct gbx_err* err) {
        return reader.Finish(err) == 0 &&
               gbx_session_open(addon()->engine(), &spec.options,
                                OpenRequest::OnOpen, request, err) == 0;
      });
}

/* Its arguments: the spec of a session, then what a session's run() takes; a
 * spec that prepare() has read is another session's. */
Napi::Value EngineWrap::RunOnce(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "runOnce");
  SessionSpec session;
  ReadSession(&reader, info[0], &session);
  RunSpec spec;
  ReadRunSpec(&reader, info[1], &spec);
  ReadCommand(&reader, info[2], info[3], info[4], &spec);
  if (!info[5].IsFunction()) reader.Fail("onEvent", "a function");

  if (!reader.FinishOrThrow()) return Napi::Value();
  return RunState::StartOnce(addon(), session, spec, this,
                             info[5].As<Napi::Function>());
}

/* ---- Session ------------------------------------------------------------- */

Napi::Function SessionWrap::Define(Napi::Env env) {
  return DefineClass(env, "Session",
                     {InstanceMethod("givenUp", &SessionWrap::GivenUp),
                      InstanceMethod("prepare", &SessionWrap::Prepare),
                      InstanceMethod("run", &SessionWrap::Run),
                      InstanceMethod("writeFile", &SessionWrap::WriteFile),
                      InstanceMethod("readFile", &SessionWrap::ReadFile),
                      InstanceMethod("listFiles", &SessionWrap::ListFiles),
                      InstanceMethod("stat", &SessionWrap::Stat),
                      InstanceMethod("changePath", &SessionWrap::ChangePath),
                      InstanceMethod("openFile", &SessionWrap::OpenFile),
                      InstanceMethod("close", &SessionWrap::Close)});
}

SessionWrap::SessionWrap(const Napi::CallbackInfo& info)
    : Wrap<SessionWrap>(info) {
  Init* init = static_cast<Init*>(TakeInit(info));
  if (init == nullptr) return;
  session_ = std::exchange(init->session, nullptr);
  info.This().As<Napi::Object>().DefineProperty(Napi::PropertyDescriptor::Value(
      "info",
      SessionInfoToJs(info.Env(), init->workspace, init->memory, init->pids,
                      init->cpus, init->disk, init->cgroups, init->scoped),
      napi_enumerable));
}

/* A forgotten session. Nothing of it runs any more: runs and requests keep
 * their session's wrapper alive. */
SessionWrap::~SessionWrap() {
  if (session_ != nullptr && addon()->engine() != nullptr) {
    gbx_session_close(session_, IgnoreClosed, nullptr);
  }
}

bool SessionWrap::IsReady(SpecReader* reader, struct gbx_err* err) {
  if (reader->Finish(err) < 0) return false;
  if (session_ != nullptr) return true;
  (void)gbx_fail(err, GBX_E_CLOSED, 0, reader->op(), "the session is closed");
  return false;
}

/* The interpreters that cannot wait, as far as is known now. */
Napi::Value SessionWrap::GivenUp(const Napi::CallbackInfo& info) {
  static constexpr std::pair<enum gbx_standby_runtime, const char*> kNames[] = {
      {GBX_STANDBY_PYTHON, "python"},
      {GBX_STANDBY_NODE, "node"},
      {GBX_STANDBY_ZYGOTE, "zygote"}};
  if (session_ != nullptr) given_up_ = gbx_session_given_up(session_);
  Napi::Array names = Napi::Array::New(info.Env());
  for (const auto& [runtime, name] : kNames) {
    if ((given_up_ & 1u << runtime) != 0) {
      names.Set(names.Length(), Napi::String::New(info.Env(), name));
    }
  }
  return names;
}

Napi::Value SessionWrap::Prepare(const Napi::CallbackInfo& info) {
  auto prepared = std::make_unique<Prepared>(info.Env());
  ReadRunSpec(&prepared->reader, info[0], &prepared->spec);
  struct gbx_err err = {};
  if (!IsReady(&prepared->reader, &err)) {
    ThrowError(info.Env(), err);
    return Napi::Value();
  }
  prepared_.push_back(std::move(prepared));
  return Napi::Number::New(info.Env(),
                           static_cast<double>(prepared_.size() - 1));
}

bool SessionWrap::FindPrepared(SpecReader* reader, Napi::Value value,
                               RunSpec* spec) {
  if (!value.IsNumber()) return false;
  uint64_t number = reader->Number(value, "spec");
  if (number < prepared_.size())
    *spec = prepared_[number]->spec;
  else
    reader->Fail("spec", "what prepare() gave");
  return true;
}

/* Its arguments: a spec or what prepare() gave for one, argv, code, first
 * input, onEvent. Gives a Run if the spec has `handle`. */
Napi::Value SessionWrap::Run(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "run");
  RunSpec spec;
  if (!FindPrepared(&reader, info[0], &spec))
    ReadRunSpec(&reader, info[0], &spec);
  ReadCommand(&reader, info[1], info[2], info[3], &spec);
  if (!info[4].IsFunction()) reader.Fail("onEvent", "a function");

  struct gbx_err err = {};
  if (!IsReady(&reader, &err)) {
    ThrowError(info.Env(), err);
    return Napi::Value();
  }
  return RunState::Start(addon(), session_, spec, this,
                         info[4].As<Napi::Function>());
}

Napi::Value SessionWrap::WriteFile(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "writeFile");
  const char* path = reader.Path(info[0], "path");
  struct gbx_bytes data = {};
  reader.Data(info[1], "data", &data.data, &data.size);

  return StartRequest<DoneRequest>(
      addon(), info, [&](DoneRequest* request, struct gbx_err* err) {
        return IsReady(&reader, err) &&
               gbx_session_write_file(session_, path, data.data, data.size,
                                      DoneRequest::OnDone, request, err) == 0;
      });
}

Napi::Value SessionWrap::ReadFile(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "readFile");
  const char* path = reader.Path(info[0], "path");
  uint64_t max_bytes = reader.Number(info[1], "maxBytes");

  return StartRequest<ReadRequest>(
      addon(), info, [&](ReadRequest* request, struct gbx_err* err) {
        return IsReady(&reader, err) &&
               gbx_session_read_file(session_, path, max_bytes,
                                     ReadRequest::OnRead, request, err) == 0;
      });
}

Napi::Value SessionWrap::ListFiles(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "listFiles");
  const char* path = reader.Path(info[0], "path");
  auto flags = static_cast<unsigned>(reader.Number(info[1], "flags"));

  return StartRequest<ListRequest>(
      addon(), info, [&](ListRequest* request, struct gbx_err* err) {
        return IsReady(&reader, err) &&
               gbx_session_list_files(session_, path, flags,
                                      ListRequest::OnList, request, err) == 0;
      });
}

Napi::Value SessionWrap::Stat(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "stat");
  const char* path = reader.Path(info[0], "path");

  return StartRequest<ListRequest>(
      addon(), info, [&](ListRequest* request, struct gbx_err* err) {
        return IsReady(&reader, err) &&
               gbx_session_stat(session_, path, ListRequest::OnList, request,
                                err) == 0;
      });
}

Napi::Value SessionWrap::ChangePath(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "changePath");
  auto change =
      static_cast<enum gbx_path_change>(reader.Number(info[0], "change"));
  const char* path = reader.Path(info[1], "path");
  const char* to = reader.Path(info[2], "to");

  return StartRequest<DoneRequest>(
      addon(), info, [&](DoneRequest* request, struct gbx_err* err) {
        return IsReady(&reader, err) &&
               gbx_session_change_path(session_, change, path, to,
                                       DoneRequest::OnDone, request, err) == 0;
      });
}

Napi::Value SessionWrap::OpenFile(const Napi::CallbackInfo& info) {
  return FileWrap::Open(addon(), info, &session_);
}

/* The engine takes one close a session, so a second call gets the promise of
 * the first. */
Napi::Value SessionWrap::Close(const Napi::CallbackInfo& info) {
  if (session_ == nullptr) return closing_.Value();
  struct gbx_session* session = std::exchange(session_, nullptr);
  given_up_ = gbx_session_given_up(session);
  Napi::Value promise = StartRequest<DoneRequest>(
      addon(), info, [&](DoneRequest* request, struct gbx_err* /* err */) {
        gbx_session_close(session, DoneRequest::OnDone, request);
        return true;
      });
  /* Without one it ends with the engine. */
  if (!promise.IsEmpty())
    closing_ = Napi::Persistent(promise.As<Napi::Object>());
  return promise;
}

}  // namespace gbx

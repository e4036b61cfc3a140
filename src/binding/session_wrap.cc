/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/session_wrap.h"

#include <memory>
#include <utility>
#include <vector>

#include "binding/convert.h"
#include "binding/run_wrap.h"

namespace gbx {

/* ---- Requests ------------------------------------------------------------ */

/* A promise that the engine will settle with one callback. The callback fills
 * in the request on the engine's thread and pushes a RequestEvent; pushing is
 * what hands the request over to the JavaScript thread. */
class Request : public Pending {
 public:
  /* `target`: the wrapper that was called; it is kept alive meanwhile. */
  Request(Addon* addon, Napi::Object target, napi_deferred deferred)
      : addon_(addon), deferred_(deferred), target_(Napi::Persistent(target)) {
  }

  /* JavaScript thread: the engine refused, there will be no callback. */
  void Refuse(Napi::Env env, const struct gbx_err& err) {
    err_ = err;
    Settle(env);
  }

  /* Engine's thread, last of all: err is NULL on success. */
  void Done(const struct gbx_err* err);

  /* JavaScript thread; `this` may be gone afterwards. */
  void Settle(Napi::Env env) {
    /* Both fail only in a worker that is ending. */
    if (err_.code == GBX_OK) {
      (void)napi_resolve_deferred(env, deferred_, Result(env));
    } else {
      (void)napi_reject_deferred(env, deferred_, ErrorToJs(env, err_));
    }
    addon_->queue()->Release();
    addon_->Disown(this);
  }

  /* A deferred that was not settled stays behind, 8 bytes in a worker that was
   * terminated: N-API has nothing to drop one with. */
  void ReleaseJs() override {
    target_.Reset();
  }

 protected:
  virtual Napi::Value Result(Napi::Env env) = 0;

  Addon* addon() {
    return addon_;
  }

 private:
  Addon* addon_;
  napi_deferred deferred_;
  Napi::ObjectReference target_;
  struct gbx_err err_ = {};
};

class RequestEvent : public Event {
 public:
  explicit RequestEvent(Request* request) : request_(request) {
  }
  void Deliver(Napi::Env env) override {
    request_->Settle(env);
  }

 private:
  Request* request_;
};

void Request::Done(const struct gbx_err* err) {
  if (err != nullptr) err_ = *err;
  addon_->queue()->Push(std::make_unique<RequestEvent>(this));
}

/* JavaScript thread: a request for `info.This()`, to be given to the engine as
 * callback data. Addon owns it. NULL: no promise can be made, as the worker is
 * ending; node-addon-api's Deferred would then hold what it found in memory. */
template <typename T>
static T* BeginRequest(Addon* addon, const Napi::CallbackInfo& info,
                       Napi::Value* ret_promise) {
  napi_deferred deferred = nullptr;
  napi_value promise = nullptr;
  if (napi_create_promise(info.Env(), &deferred, &promise) != napi_ok) {
    return nullptr;
  }
  *ret_promise = Napi::Value(info.Env(), promise);
  T* request = new T(addon, info.This().As<Napi::Object>(), deferred);
  addon->Adopt(std::shared_ptr<Pending>(request));
  addon->queue()->Retain();
  return request;
}

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
      request->init_ = {session,    info->workspace, info->memory,
                        info->pids, info->cpus,      info->disk};
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

class DoneRequest : public Request {
 public:
  using Request::Request;

  /* Engine's thread. */
  static void OnDone(void* data, const struct gbx_err* err) {
    static_cast<DoneRequest*>(data)->Done(err);
  }

 protected:
  Napi::Value Result(Napi::Env env) override {
    return env.Undefined();
  }
};

class ReadRequest : public Request {
 public:
  using Request::Request;

  /* Engine's thread. */
  static void OnRead(void* data, const struct gbx_err* err,
                     const uint8_t* bytes, size_t size) {
    ReadRequest* request = static_cast<ReadRequest*>(data);
    struct gbx_err no_memory = NoMemoryError("readFile");
    if (err == nullptr && !request->addon()->queue()->IsClosed() &&
        !Bytes::Copy(bytes, size, &request->bytes_)) {
      err = &no_memory;
    }
    request->Done(err);
  }

 protected:
  Napi::Value Result(Napi::Env env) override {
    return bytes_.ToBuffer(env);
  }

 private:
  Bytes bytes_;
};

class ListRequest : public Request {
 public:
  using Request::Request;

  /* Engine's thread. */
  static void OnList(void* data, const struct gbx_err* err,
                     const struct gbx_file_entry* files, size_t count) {
    ListRequest* request = static_cast<ListRequest*>(data);
    if (err == nullptr) {
      request->files_.reserve(count);
      for (size_t i = 0; i < count; i++) {
        request->files_.push_back(
            {files[i].path, files[i].size, GBX_MODIFIED, files[i].mtime_ns});
      }
    }
    request->Done(err);
  }

 protected:
  Napi::Value Result(Napi::Env env) override {
    return FileListToJs(env, files_);
  }

 private:
  std::vector<FileCopy> files_;
};

/* ---- Engine -------------------------------------------------------------- */

Napi::Function EngineWrap::Define(Napi::Env env) {
  return DefineClass(env, "Engine",
                     {InstanceMethod("openSession", &EngineWrap::OpenSession)});
}

EngineWrap::EngineWrap(const Napi::CallbackInfo& info)
    : Wrap<EngineWrap>(info) {
  (void)TakeInit(info); /* for its checks and the tag */
}

/* Here and below the promise comes first and the checks after it, because
 * making it can run JavaScript (async_hooks), which might close what is
 * checked. */
Napi::Value EngineWrap::OpenSession(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "openSession");
  SessionSpec spec;
  ReadSessionSpec(&reader, info[0], &spec);

  Napi::Value promise;
  auto* request = BeginRequest<OpenRequest>(addon(), info, &promise);
  if (request == nullptr) return promise;
  struct gbx_err err = {};
  if (reader.Finish(&err) < 0 ||
      gbx_session_open(addon()->engine(), &spec.options, OpenRequest::OnOpen,
                       request, &err) < 0) {
    request->Refuse(info.Env(), err);
  }
  return promise;
}

/* ---- Session ------------------------------------------------------------- */

Napi::Function SessionWrap::Define(Napi::Env env) {
  return DefineClass(env, "Session",
                     {InstanceMethod("run", &SessionWrap::Run),
                      InstanceMethod("writeFile", &SessionWrap::WriteFile),
                      InstanceMethod("readFile", &SessionWrap::ReadFile),
                      InstanceMethod("listFiles", &SessionWrap::ListFiles),
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
                      init->cpus, init->disk),
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

Napi::Value SessionWrap::Run(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "run");
  RunSpec spec;
  ReadRunSpec(&reader, info[0], &spec);
  if (!info[1].IsFunction()) reader.Fail("onEvent", "a function");

  struct gbx_err err = {};
  if (!IsReady(&reader, &err)) {
    ThrowError(info.Env(), err);
    return Napi::Value();
  }
  return RunState::Start(addon(), session_, spec,
                         info.This().As<Napi::Object>(),
                         info[1].As<Napi::Function>());
}

Napi::Value SessionWrap::WriteFile(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "writeFile");
  const char* path = reader.Path(info[0], "path");
  struct gbx_bytes data = {};
  reader.Data(info[1], "data", &data.data, &data.size);

  Napi::Value promise;
  auto* request = BeginRequest<DoneRequest>(addon(), info, &promise);
  if (request == nullptr) return promise;
  struct gbx_err err = {};
  if (!IsReady(&reader, &err) ||
      gbx_session_write_file(session_, path, data.data, data.size,
                             DoneRequest::OnDone, request, &err) < 0) {
    request->Refuse(info.Env(), err);
  }
  return promise;
}

Napi::Value SessionWrap::ReadFile(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "readFile");
  const char* path = reader.Path(info[0], "path");
  uint64_t max_bytes = reader.Number(info[1], "maxBytes");

  Napi::Value promise;
  auto* request = BeginRequest<ReadRequest>(addon(), info, &promise);
  if (request == nullptr) return promise;
  struct gbx_err err = {};
  if (!IsReady(&reader, &err) ||
      gbx_session_read_file(session_, path, max_bytes, ReadRequest::OnRead,
                            request, &err) < 0) {
    request->Refuse(info.Env(), err);
  }
  return promise;
}

Napi::Value SessionWrap::ListFiles(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "listFiles");
  const char* path = reader.Path(info[0], "path");

  Napi::Value promise;
  auto* request = BeginRequest<ListRequest>(addon(), info, &promise);
  if (request == nullptr) return promise;
  struct gbx_err err = {};
  if (!IsReady(&reader, &err) ||
      gbx_session_list_files(session_, path, ListRequest::OnList, request,
                             &err) < 0) {
    request->Refuse(info.Env(), err);
  }
  return promise;
}

/* The engine takes one close a session, so a second call gets the promise of
 * the first. */
Napi::Value SessionWrap::Close(const Napi::CallbackInfo& info) {
  if (session_ == nullptr) return closing_.Value();
  struct gbx_session* session = std::exchange(session_, nullptr);
  Napi::Value promise;
  auto* request = BeginRequest<DoneRequest>(addon(), info, &promise);
  if (request == nullptr) return promise; /* it ends with the engine */
  closing_ = Napi::Persistent(promise.As<Napi::Object>());
  gbx_session_close(session, DoneRequest::OnDone, request);
  return promise;
}

}  // namespace gbx

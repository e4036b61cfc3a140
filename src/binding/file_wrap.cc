/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/file_wrap.h"

#include <utility>

#include "binding/convert.h"
#include "binding/request.h"

namespace gbx {

static void IgnoreClosed(void* /* data */, const struct gbx_err* /* err */) {
}

class OpenFileRequest : public Request {
 public:
  using Request::Request;

  /* Engine's thread. */
  static void OnOpen(void* data, const struct gbx_err* err,
                     struct gbx_file* file, uint64_t size) {
    OpenFileRequest* request = static_cast<OpenFileRequest*>(data);
    request->init_ = {file, size};
    request->Done(err);
  }

 protected:
  Napi::Value Result(Napi::Env /* env */) override {
    Napi::Object object = addon()->Construct<FileWrap>(&init_);
    /* Not taken over: the worker is ending, but the engine lives on for a
     * moment. */
    if (init_.file != nullptr) {
      gbx_file_close(init_.file, false, IgnoreClosed, nullptr);
    }
    return object;
  }

 private:
  FileWrap::Init init_ = {};
};

Napi::Function FileWrap::Define(Napi::Env env) {
  return DefineClass(env, "File",
                     {InstanceMethod("read", &FileWrap::Read),
                      InstanceMethod("write", &FileWrap::Write),
                      InstanceMethod("close", &FileWrap::Close)});
}

FileWrap::FileWrap(const Napi::CallbackInfo& info) : Wrap<FileWrap>(info) {
  Init* init = static_cast<Init*>(TakeInit(info));
  if (init == nullptr) return;
  file_ = std::exchange(init->file, nullptr);
  info.This().As<Napi::Object>().DefineProperty(Napi::PropertyDescriptor::Value(
      "size", Napi::Number::New(info.Env(), static_cast<double>(init->size)),
      napi_enumerable));
}

/* A forgotten file. No call on it is pending: requests keep their file's
 * wrapper alive. */
FileWrap::~FileWrap() {
  if (file_ != nullptr && addon()->engine() != nullptr) {
    gbx_file_close(file_, false, IgnoreClosed, nullptr);
  }
}

bool FileWrap::IsReady(SpecReader* reader, struct gbx_err* err) {
  if (reader->Finish(err) < 0) return false;
  if (file_ != nullptr) return true;
  (void)gbx_fail(err, GBX_E_CLOSED, 0, reader->op(), "the file is closed");
  return false;
}

Napi::Value FileWrap::Open(Addon* addon, const Napi::CallbackInfo& info,
                           struct gbx_session* session) {
  SpecReader reader(info.Env(), "openFile");
  auto use = static_cast<enum gbx_file_use>(reader.Number(info[0], "use"));
  const char* path = reader.Path(info[1], "path");

  Napi::Value promise;
  auto* request = BeginRequest<OpenFileRequest>(addon, info, &promise);
  if (request == nullptr) return promise;
  struct gbx_err err = {};
  if (reader.Finish(&err) < 0) {
    request->Refuse(info.Env(), err);
  } else if (session == nullptr) {
    (void)gbx_fail(&err, GBX_E_CLOSED, 0, "openFile", "the session is closed");
    request->Refuse(info.Env(), err);
  } else if (gbx_session_open_file(session, use, path, OpenFileRequest::OnOpen,
                                   request, &err) < 0) {
    request->Refuse(info.Env(), err);
  }
  return promise;
}

Napi::Value FileWrap::Read(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "read");
  uint64_t offset = reader.Number(info[0], "offset");
  uint64_t max = reader.Number(info[1], "max");

  Napi::Value promise;
  auto* request = BeginRequest<ReadRequest>(addon(), info, &promise);
  if (request == nullptr) return promise;
  struct gbx_err err = {};
  if (!IsReady(&reader, &err) ||
      gbx_file_read(file_, offset, static_cast<size_t>(max),
                    ReadRequest::OnRead, request, &err) < 0) {
    request->Refuse(info.Env(), err);
  }
  return promise;
}

Napi::Value FileWrap::Write(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "write");
  struct gbx_bytes data = {};
  reader.Data(info[0], "data", &data.data, &data.size);

  Napi::Value promise;
  auto* request = BeginRequest<DoneRequest>(addon(), info, &promise);
  if (request == nullptr) return promise;
  struct gbx_err err = {};
  if (!IsReady(&reader, &err) ||
      gbx_file_write(file_, data.data, data.size, DoneRequest::OnDone, request,
                     &err) < 0) {
    request->Refuse(info.Env(), err);
  }
  return promise;
}

Napi::Value FileWrap::Close(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "close");
  bool keep = reader.Bool(info[0], "keep");

  Napi::Value promise;
  auto* request = BeginRequest<DoneRequest>(addon(), info, &promise);
  if (request == nullptr) return promise; /* it ends with the engine */
  struct gbx_err err = {};
  if (!IsReady(&reader, &err)) {
    request->Refuse(info.Env(), err);
  } else {
    gbx_file_close(std::exchange(file_, nullptr), keep, DoneRequest::OnDone,
                   request);
  }
  return promise;
}

}  // namespace gbx

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
                           struct gbx_session* const* session) {
  SpecReader reader(info.Env(), "openFile");
  auto use = static_cast<enum gbx_file_use>(reader.Number(info[0], "use"));
  const char* path = reader.Path(info[1], "path");

  return StartRequest<OpenFileRequest>(
      addon, info, [&](OpenFileRequest* request, struct gbx_err* err) {
        if (reader.Finish(err) < 0) return false;
        if (*session != nullptr)
          return gbx_session_open_file(*session, use, path,
                                       OpenFileRequest::OnOpen, request,
                                       err) == 0;
        (void)gbx_fail(err, GBX_E_CLOSED, 0, reader.op(),
                       "the session is closed");
        return false;
      });
}

Napi::Value FileWrap::Read(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "read");
  uint64_t offset = reader.Number(info[0], "offset");
  uint64_t max = reader.Number(info[1], "max");

  return StartRequest<ReadRequest>(
      addon(), info, [&](ReadRequest* request, struct gbx_err* err) {
        return IsReady(&reader, err) &&
               gbx_file_read(file_, offset, static_cast<size_t>(max),
                             ReadRequest::OnRead, request, err) == 0;
      });
}

Napi::Value FileWrap::Write(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "write");
  struct gbx_bytes data = {};
  reader.Data(info[0], "data", &data.data, &data.size);

  return StartRequest<DoneRequest>(
      addon(), info, [&](DoneRequest* request, struct gbx_err* err) {
        return IsReady(&reader, err) &&
               gbx_file_write(file_, data.data, data.size, DoneRequest::OnDone,
                              request, err) == 0;
      });
}

Napi::Value FileWrap::Close(const Napi::CallbackInfo& info) {
  SpecReader reader(info.Env(), "close");
  bool keep = reader.Bool(info[0], "keep");

  return StartRequest<DoneRequest>(
      addon(), info, [&](DoneRequest* request, struct gbx_err* err) {
        if (!IsReady(&reader, err)) return false;
        gbx_file_close(std::exchange(file_, nullptr), keep, DoneRequest::OnDone,
                       request);
        return true;
      });
}

}  // namespace gbx

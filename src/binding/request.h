/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_REQUEST_H_
#define SRC_BINDING_REQUEST_H_

#include <memory>
#include <vector>

#include "binding/addon.h"
#include "binding/convert.h"
#include "binding/node_addon.h"
#include "engine/engine.h"

namespace gbx {

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

/* JavaScript thread: gives the promise of a request for `info.This()`. `start`
 * hands it to the engine as callback data, and returns whether that took it; if
 * not, it was refused with `err`. Addon owns it. An empty value: no promise can
 * be made, as the worker is ending; node-addon-api's Deferred would then hold
 * what it found in memory.
 *
 * What can change is for `start` to look at, since the making of a promise can
 * run JavaScript (async_hooks), which might close what was checked before. */
template <typename T, typename Start>
Napi::Value StartRequest(Addon* addon, const Napi::CallbackInfo& info,
                         Start start) {
  napi_deferred deferred = nullptr;
  napi_value promise = nullptr;
  if (napi_create_promise(info.Env(), &deferred, &promise) != napi_ok) {
    return Napi::Value();
  }
  T* request = new T(addon, info.This().As<Napi::Object>(), deferred);
  addon->Adopt(std::shared_ptr<Pending>(request));
  addon->queue()->Retain();
  struct gbx_err err = {};
  if (!start(request, &err)) request->Refuse(info.Env(), err);
  return Napi::Value(info.Env(), promise);
}

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
        request->files_.push_back({files[i].path, files[i].size, GBX_MODIFIED,
                                   files[i].mtime_ns, files[i].type,
                                   files[i].mode});
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

}  // namespace gbx

#endif  // SRC_BINDING_REQUEST_H_

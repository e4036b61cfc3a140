/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/request.h"

#include <utility>

namespace gbx {

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

}  // namespace gbx

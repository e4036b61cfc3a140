/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/event_queue.h"

#include <utility>

namespace gbx {

/* The contract is that JavaScript's handlers do not throw. If one does, it is
 * as if a listener of an emitter had: 'uncaughtException', not our business. */
static void ReportException(napi_env env) {
  bool pending = false;
  napi_value exception = nullptr;
  if (napi_is_exception_pending(env, &pending) != napi_ok || !pending) return;
  if (napi_get_and_clear_last_exception(env, &exception) != napi_ok) return;
  /* Fails only in an environment that ends, where nobody listens. */
  (void)napi_fatal_exception(env, exception);
}

EventQueue::~EventQueue() {
  Close();
}

bool EventQueue::Open(napi_env env) {
  napi_value name = nullptr;
  napi_threadsafe_function wake = nullptr;
  if (napi_create_string_latin1(env, "glovebox", NAPI_AUTO_LENGTH, &name) !=
          napi_ok ||
      napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1,
                                      nullptr, nullptr, this, OnWake,
                                      &wake) != napi_ok) {
    return false;
  }
  (void)napi_unref_threadsafe_function(env, wake); /* never fails: fresh */
  env_ = env;
  std::lock_guard<std::mutex> lock(mutex_);
  wake_ = wake;
  return true;
}

void EventQueue::Push(std::unique_ptr<Event> event) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (wake_ == nullptr) return;
  Event* added = event.release();
  if (tail_ == nullptr) {
    head_ = added;
  } else {
    tail_->next_ = added;
  }
  tail_ = added;
  size_++;
  if (woken_) return;
  /* Under the lock, so that Close() cannot release the function meanwhile. */
  napi_status status =
      napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
  woken_ = status == napi_ok;
  /* Node closed it before Close() was called; this answer has also taken our
   * claim to it away, so it must not be touched again. */
  if (status == napi_closing) wake_ = nullptr;
}

bool EventQueue::IsClosed() {
  std::lock_guard<std::mutex> lock(mutex_);
  return wake_ == nullptr;
}

void EventQueue::Retain() {
  if (retained_++ != 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (wake_ != nullptr) (void)napi_ref_threadsafe_function(env_, wake_);
}

void EventQueue::Release() {
  if (--retained_ != 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (wake_ != nullptr) (void)napi_unref_threadsafe_function(env_, wake_);
}

void EventQueue::Close() {
  Event* dropped = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    napi_threadsafe_function wake = wake_;
    wake_ = nullptr;
    std::swap(dropped, head_);
    tail_ = nullptr;
    size_ = 0;
    if (wake != nullptr) {
      (void)napi_release_threadsafe_function(wake, napi_tsfn_abort);
    }
  }
  while (dropped != nullptr) {
    std::unique_ptr<Event> event(dropped);
    dropped = event->next_;
  }
}

std::unique_ptr<Event> EventQueue::Pop() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Event> event(head_);
  if (event == nullptr) return event;
  head_ = event->next_;
  if (head_ == nullptr) tail_ = nullptr;
  size_--;
  return event;
}

/* A null env: Node empties a function that is being torn down, and `context`
 * may be gone by then. */
void EventQueue::OnWake(napi_env env, napi_value /* function */, void* context,
                        void* /* data */) {
  if (env == nullptr) return;
  static_cast<EventQueue*>(context)->Drain(Napi::Env(env));
}

/* Delivers what waits now, no more: what comes meanwhile rings again, so that
 * a run that never stops writing cannot keep the event loop from turning.
 *
 * Node opened the callback scope around us: promises and nextTick run when it
 * closes. One event is taken at a time, so that a handler that turns the loop
 * itself (as some debuggers do) still sees them in order. */
void EventQueue::Drain(Napi::Env env) {
  size_t waiting = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    woken_ = false;
    waiting = size_;
  }
  for (; waiting > 0; waiting--) {
    std::unique_ptr<Event> event = Pop();
    if (event == nullptr) return;
    Napi::HandleScope scope(env);
    event->Deliver(env);
    ReportException(env);
  }
}

}  // namespace gbx

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_EVENT_QUEUE_H_
#define SRC_BINDING_EVENT_QUEUE_H_

/* The one way from the engine's thread to JavaScript.
 *
 * The engine's thread pushes events; a threadsafe function, used as a bell
 * only, wakes the JavaScript thread, which delivers them in the order of the
 * pushes. The events wait in a list of ours and not in the threadsafe
 * function's, because ours can be closed at a known moment: after Close()
 * returned, no thread calls into Node any more.
 *
 * Small allocations here and in all of the binding are C++'s: without memory
 * for them the process ends, as it does in V8. What grows with a guest's
 * output is malloc'ed and checked (Bytes in convert.h). */

#include <cstddef>
#include <memory>
#include <mutex>

#include "binding/node_addon.h"

namespace gbx {

/* Something that happened on the engine's thread, as a copy of its own.
 *
 * It may be destroyed on either thread, so nothing of N-API is in it. What it
 * points to is kept by Addon until the engine's thread is gone. */
class Event {
 public:
  Event() = default;
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /* JavaScript thread, inside a handle scope and a callback scope. It may
   * leave an exception pending: the queue reports it. */
  virtual void Deliver(Napi::Env env) = 0;

 private:
  friend class EventQueue;
  Event* next_ = nullptr; /* the queue's; raw, as a list may be long */
};

class EventQueue {
 public:
  EventQueue() = default;
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;

  /* JavaScript thread, once. False: Node refused. The queue does not keep the
   * process alive before Retain(). */
  bool Open(napi_env env);

  /* Any thread. Drops the event if the queue is closed. */
  void Push(std::unique_ptr<Event> event);

  /* Any thread: whether it is still worth copying something for an event. */
  bool IsClosed();

  /* JavaScript thread, in pairs: the process stays alive in between. */
  void Retain();
  void Release();

  /* JavaScript thread: drops what waits and all that comes; idempotent. */
  void Close();

 private:
  static void OnWake(napi_env env, napi_value function, void* context,
                     void* data);
  void Drain(Napi::Env env);
  std::unique_ptr<Event> Pop();

  /* JavaScript thread only. */
  napi_env env_ = nullptr;
  size_t retained_ = 0;

  std::mutex mutex_; /* the innermost lock; guards what follows */
  napi_threadsafe_function wake_ = nullptr; /* NULL: never opened, or closed */
  Event* head_ = nullptr;
  Event* tail_ = nullptr;
  size_t size_ = 0;
  bool woken_ = false; /* the bell rang and Drain has not begun */
};

}  // namespace gbx

#endif  // SRC_BINDING_EVENT_QUEUE_H_

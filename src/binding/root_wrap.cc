/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/root_wrap.h"

#include <utility>

namespace gbx {

bool Root::Read(Napi::Value entries, Napi::Value standbys,
                struct gbx_err* err) {
  ReadEntries(&reader_, entries, &entries_);
  ReadStandbys(&reader_, standbys, &standbys_);
  if (reader_.Finish(err) < 0) return false;
  for (struct gbx_entry& entry : entries_) {
    if (entry.data == nullptr) continue;
    /* It may be a Buffer's memory. */
    entry.data =
        files_.emplace_back(static_cast<const char*>(entry.data), entry.size)
            .data();
  }
  return true;
}

void Root::Fill(struct gbx_session_options* options) const {
  options->entries = entries_.data();
  options->entry_count = entries_.size();
  options->standbys = standbys_.data();
  options->standby_count = standbys_.size();
}

Napi::Function RootWrap::Define(Napi::Env env) {
  return DefineClass(env, "Root", {});
}

RootWrap::RootWrap(const Napi::CallbackInfo& info) : Wrap<RootWrap>(info) {
  Init* init = static_cast<Init*>(TakeInit(info));
  if (init != nullptr) root_ = std::move(init->root);
}

}  // namespace gbx

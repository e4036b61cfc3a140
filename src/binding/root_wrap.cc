/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/root_wrap.h"

namespace gbx {

Napi::Function RootWrap::Define(Napi::Env env) {
  return DefineClass(env, "Root", {});
}

RootWrap::RootWrap(const Napi::CallbackInfo& info)
    : Wrap<RootWrap>(info), reader_(info.Env(), "prepareRoot") {
  const Init* init = static_cast<Init*>(TakeInit(info));
  if (init == nullptr) return;
  ReadEntries(&reader_, init->entries, &entries_);
  ReadStandbys(&reader_, init->standbys, &standbys_);
  if (!reader_.FinishOrThrow()) return;
  for (struct gbx_entry& entry : entries_) {
    if (entry.data == nullptr) continue;
    /* It may be a Buffer's memory. */
    entry.data =
        files_.emplace_back(static_cast<const char*>(entry.data), entry.size)
            .data();
  }
}

void RootWrap::Fill(struct gbx_session_options* options) const {
  options->entries = entries_.data();
  options->entry_count = entries_.size();
  options->standbys = standbys_.data();
  options->standby_count = standbys_.size();
}

}  // namespace gbx

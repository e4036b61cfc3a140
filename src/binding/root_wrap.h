/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_ROOT_WRAP_H_
#define SRC_BINDING_ROOT_WRAP_H_

/* What the root of a session is made of, read once for all sessions that have
 * the same: it is most of what a session is described with. */

#include <list>
#include <string>
#include <vector>

#include "binding/addon.h"
#include "binding/node_addon.h"
#include "binding/spec_reader.h"
#include "engine/engine.h"

namespace gbx {

class RootWrap : public Wrap<RootWrap> {
 public:
  static constexpr uint64_t kClassTag = 0x71f2c93be05d48a6;
  struct Init {
    Napi::Value entries, standbys;
  };

  static Napi::Function Define(Napi::Env env);
  /* Throws if the lists are not what they have to be. */
  explicit RootWrap(const Napi::CallbackInfo& info);

  /* Puts the lists into the options, which must not outlive them. */
  void Fill(struct gbx_session_options* options) const;

 private:
  SpecReader reader_; /* keeps what the lists point to */
  std::vector<struct gbx_entry> entries_;
  std::vector<struct gbx_standby> standbys_;
  std::list<std::string> files_; /* the bytes of entries */
};

}  // namespace gbx

#endif  // SRC_BINDING_ROOT_WRAP_H_

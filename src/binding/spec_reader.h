/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SRC_BINDING_SPEC_READER_H_
#define SRC_BINDING_SPEC_READER_H_

/* JavaScript values to the engine's option structs (convert.h has the other
 * way). lib/ has checked them for meaning; here they are checked for safety. A
 * SpecReader reads fields, keeps what they point to for as long as it lives,
 * and remembers the first one that was not what it has to be. */

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "binding/node_addon.h"
#include "engine/engine.h"

namespace gbx {

/* What it returns points into the reader or, for bytes, into JavaScript's own
 * memory: good until the reader ends or JavaScript runs again. */
class SpecReader {
 public:
  /* `op` names the call in the error: "run". */
  SpecReader(Napi::Env env, const char* op);
  SpecReader(const SpecReader&) = delete;
  SpecReader& operator=(const SpecReader&) = delete;

  /* After the first failure all of these return zeros and do nothing. `name`
   * says in the error which value it was. */
  napi_value Field(napi_value object, const char* name);
  napi_value Item(napi_value array, uint32_t index, const char* name);
  uint32_t Length(napi_value array, const char* name);
  bool IsNull(napi_value value); /* null or undefined */

  bool Bool(napi_value value, const char* name);
  uint64_t Number(napi_value value, const char* name);
  const char* String(napi_value value, const char* name);
  const char* const* StringList(napi_value value, const char* name);
  const char* Path(napi_value value, const char* name); /* from a Buffer */
  /* Of a Buffer, or of a string as UTF-8. The two are filled by Finish(): a
   * getter that runs in between could take the memory away again. */
  void Data(napi_value value, const char* name, const void** ret_data,
            size_t* ret_size);
  void OptionalData(napi_value value, const char* name, const void** ret_data,
                    size_t* ret_size);

  bool BoolField(napi_value object, const char* name);
  uint64_t NumberField(napi_value object, const char* name);
  const char* StringField(napi_value object, const char* name);
  const char* OptionalStringField(napi_value object, const char* name);

  const char* op() {
    return op_;
  }

  void Fail(const char* name, const char* expected);

  /* Call one of them last. 0, or negative with GBX_E_INVALID in `err`. */
  int Finish(struct gbx_err* err);
  /* False: the error was thrown. */
  bool FinishOrThrow();

 private:
  struct PendingData {
    napi_value value;
    const char* name;
    const void** data;
    size_t* size;
  };

  /* False: it is none. */
  bool ReadText(napi_value value, std::string* text);

  Napi::Env env_;
  const char* op_;
  bool failed_ = false;
  struct gbx_err err_ = {};
  std::list<std::string> strings_; /* lists: addresses must not change */
  std::list<std::vector<const char*>> lists_;
  std::vector<PendingData> pending_;
};

struct SessionSpec {
  std::vector<struct gbx_mount> mounts;
  struct gbx_session_options options = {};
};

struct RunSpec {
  struct gbx_run_options options = {};
  bool want_output[2] = {false, false};
  bool handle = false; /* somebody needs a Run object */
};

/* The two lists that a root is made of. Finish() fills in more. */
void ReadEntries(SpecReader* reader, napi_value value,
                 std::vector<struct gbx_entry>* entries);
void ReadStandbys(SpecReader* reader, napi_value value,
                  std::vector<struct gbx_standby>* standbys);

/* Here and below: they fill in a struct that must stay where it is until the
 * call with it. This one all but the root. */
void ReadSessionSpec(SpecReader* reader, napi_value value, SessionSpec* spec);
/* All but the command. */
void ReadRunSpec(SpecReader* reader, napi_value value, RunSpec* spec);
/* `code` is the cell of a run with a control socket, the script of another;
 * that and `first_input` may be null. */
void ReadCommand(SpecReader* reader, napi_value argv, napi_value code,
                 napi_value first_input, RunSpec* spec);
/* Of a terminal, in characters. */
void ReadSize(SpecReader* reader, napi_value columns, napi_value rows,
              uint16_t* ret_columns, uint16_t* ret_rows);
void ReadWantOutput(SpecReader* reader, napi_value value, bool want[2]);

}  // namespace gbx

#endif  // SRC_BINDING_SPEC_READER_H_

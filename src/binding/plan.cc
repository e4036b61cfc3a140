/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/plan.h"

#include <memory>

#include "binding/convert.h"
#include "binding/spec_reader.h"
#include "engine/engine.h"

namespace gbx {

/* ---- What a box is made of ----------------------------------------------- */

static Napi::Array ListToJs(Napi::Env env, const char* const* list,
                            size_t count) {
  Napi::Array array = Napi::Array::New(env);
  for (uint32_t i = 0; i < count && list[i] != nullptr; i++) {
    array.Set(i, Napi::String::New(env, list[i]));
  }
  return array;
}

static Napi::Array ScratchToJs(Napi::Env env) {
  Napi::Array array = Napi::Array::New(env);
  for (uint32_t i = 0; i < GBX_LAYOUT_SCRATCH; i++) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("path", gbx_layout_scratch[i].path);
    object.Set("quarters", gbx_layout_scratch[i].quarters);
    array.Set(i, object);
  }
  return array;
}

static void AddVerdict(void* data, const char* verdict, const char* calls) {
  Napi::Array* list = static_cast<Napi::Array*>(data);
  Napi::Array pair = Napi::Array::New(list->Env());
  pair.Set(0u, Napi::String::New(list->Env(), verdict));
  pair.Set(1u, Napi::String::New(list->Env(), calls));
  list->Set(list->Length(), pair);
}

Napi::Value DescribeBox(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  uint8_t* program = nullptr;
  size_t size = 0;
  struct gbx_err err = {};
  if (gbx_filter_program(&program, &size, &err) < 0) {
    ThrowError(env, err);
    return Napi::Value();
  }
  Bytes bytes = Bytes::Adopt(program, size);
  constexpr size_t kToTheEnd = SIZE_MAX;
  Napi::Array verdicts = Napi::Array::New(env);
  gbx_filter_list(AddVerdict, &verdicts);
  Napi::Object object = Napi::Object::New(env);
  object.Set("devices", ListToJs(env, gbx_layout_devices, GBX_LAYOUT_DEVICES));
  object.Set("scratch", ScratchToJs(env));
  object.Set("hiddenFiles", ListToJs(env, gbx_layout_hidden_files, kToTheEnd));
  object.Set("hiddenDirs", ListToJs(env, gbx_layout_hidden_dirs, kToTheEnd));
  object.Set("readOnlyDirs",
             ListToJs(env, gbx_layout_read_only_dirs, kToTheEnd));
  object.Set("verdicts", verdicts);
  object.Set("program", bytes.ToBuffer(env));
  return object;
}

/* ---- Specs ----------------------------------------------------------------
 */

static Napi::Value TextToJs(Napi::Env env, const char* text) {
  return text == nullptr ? env.Null() : Napi::String::New(env, text);
}

static Napi::Value LimitToJs(Napi::Env env, double limit) {
  return limit == 0 ? env.Null() : Napi::Number::New(env, limit);
}

static const char* KindName(enum gbx_entry_kind kind) {
  switch (kind) {
    case GBX_ENTRY_DIR:
      return "dir";
    case GBX_ENTRY_BIND:
      return "bind";
    case GBX_ENTRY_SYMLINK:
      return "symlink";
    case GBX_ENTRY_FILE:
      break;
  }
  return "file";
}

static Napi::Array EntriesToJs(Napi::Env env, const struct gbx_spec* spec) {
  Napi::Array array = Napi::Array::New(env, spec->entry_count);
  for (uint32_t i = 0; i < spec->entry_count; i++) {
    Napi::HandleScope scope(env);
    const struct gbx_entry* entry = &spec->entries[i];
    Napi::Object object = Napi::Object::New(env);
    object.Set("kind", KindName(entry->kind));
    object.Set("target", entry->target);
    if (entry->source != nullptr) object.Set("source", entry->source);
    if (entry->data != nullptr) {
      object.Set("data",
                 Napi::Buffer<char>::Copy(
                     env, static_cast<const char*>(entry->data), entry->size));
    }
    array.Set(i, object);
  }
  return array;
}

/* Pairs: as an object "__proto__" would be no name like any other. */
static Napi::Array VariablesToJs(Napi::Env env, const struct gbx_spec* spec) {
  Napi::Array array = Napi::Array::New(env, spec->env_count);
  for (uint32_t i = 0; i < spec->env_count; i++) {
    Napi::HandleScope scope(env);
    Napi::Array pair = Napi::Array::New(env, 2);
    pair.Set(0u, Napi::String::New(env, spec->env[i].name));
    pair.Set(1u, Napi::String::New(env, spec->env[i].value));
    array.Set(i, pair);
  }
  return array;
}

/* As the option: no two have one source, and each is an absolute path. */
static Napi::Object MountsToJs(Napi::Env env, const struct gbx_spec* spec) {
  Napi::Object object = Napi::Object::New(env);
  for (size_t i = 0; i < spec->mount_count; i++) {
    Napi::HandleScope scope(env);
    const struct gbx_mount* mount = &spec->mounts[i];
    Napi::Array value = Napi::Array::New(env, 2);
    value.Set(0u, Napi::String::New(env, mount->target));
    value.Set(1u, Napi::String::New(env, mount->writable ? "rw" : "ro"));
    object.Set(mount->source, value);
  }
  return object;
}

static Napi::Array NamesToJs(Napi::Env env, const char* const* names,
                             size_t count) {
  Napi::Array array = Napi::Array::New(env, count);
  for (uint32_t i = 0; i < count; i++) {
    Napi::HandleScope scope(env);
    array.Set(i, Napi::String::New(env, names[i]));
  }
  return array;
}

static Napi::Object SpecToJs(Napi::Env env, const struct gbx_spec* spec) {
  Napi::Object runtimes = Napi::Object::New(env);
  runtimes.Set("python", TextToJs(env, spec->python));
  runtimes.Set("bash", TextToJs(env, spec->bash));
  runtimes.Set("node", TextToJs(env, spec->node));
  Napi::Object options = Napi::Object::New(env);
  options.Set("workspace", TextToJs(env, spec->workspace));
  options.Set("mounts", MountsToJs(env, spec));
  options.Set("memoryMb", LimitToJs(env, spec->memory_mb));
  options.Set("pids", LimitToJs(env, spec->pids));
  options.Set("cpus", LimitToJs(env, spec->cpus));
  options.Set("diskMb", LimitToJs(env, spec->disk_mb));
  options.Set("timeoutS", Napi::Number::New(env, spec->timeout_s));
  options.Set("maxOutputBytes", Napi::Number::New(env, spec->max_output_bytes));
  options.Set("enforceLimits", Napi::Boolean::New(env, spec->enforce_limits));
  options.Set("requireLimits", Napi::Boolean::New(env, spec->require_limits));
  options.Set("trackFiles", Napi::Boolean::New(env, spec->track_files));
  options.Set("warm", Napi::Boolean::New(env, spec->warm));
  options.Set("network", Napi::Boolean::New(env, spec->network));
  options.Set("preload", NamesToJs(env, spec->preload, spec->preload_count));
  Napi::Object object = Napi::Object::New(env);
  object.Set("entries", EntriesToJs(env, spec));
  object.Set("runtimes", runtimes);
  object.Set("env", VariablesToJs(env, spec));
  object.Set("cwd", TextToJs(env, spec->cwd));
  object.Set("options", options);
  return object;
}

Napi::Value ReadSpec(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  SpecReader reader(env, "readSpec");
  const void* json = nullptr;
  size_t size = 0;
  reader.Data(info[0], "json", &json, &size);
  struct gbx_err err = {};
  struct gbx_spec* spec = nullptr;
  if (reader.Finish(&err) < 0 || gbx_spec_read(json, size, &spec, &err) < 0) {
    ThrowError(env, err);
    return Napi::Value();
  }
  std::unique_ptr<struct gbx_spec, decltype(&gbx_spec_free)> owner(
      spec, gbx_spec_free);
  return SpecToJs(env, spec);
}

}  // namespace gbx

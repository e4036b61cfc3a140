/* SPDX-License-Identifier: Apache-2.0 */

/* The library as Node loads it: an addon with two functions. take() returns the
 * call's working folder and its variables, each with a NUL behind it, or null
 * if there will be no call. leave(code) ends the process and does nothing else;
 * it returns where a library was loaded since take(), which may have to do
 * something at the end: in any thread, and however it was loaded.
 */

#include <link.h>
#include <node_api.h>
#include <stddef.h>

#include "common/wire.h"
#include "join/bare.h"
#include "join/take.h"

/* Weak: other interpreters load the library too, and have none of these. */
#define WEAK(name) extern __typeof__(name) name __attribute__((weak))
WEAK(napi_create_function);
WEAK(napi_create_string_utf8);
WEAK(napi_get_cb_info);
WEAK(napi_get_null);
WEAK(napi_get_value_int32);
WEAK(napi_set_named_property);
WEAK(napi_throw_error);
WEAK(dl_iterate_phdr);

/* Libraries that were ever loaded, as of take(). */
static unsigned long long loaded_before;

static int read_loaded(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  *(unsigned long long*)data = info->dlpi_adds;
  return 1; /* each says the same */
}

static unsigned long long count_loaded(void) {
  unsigned long long count = 0;
  /* Without it nothing can be loaded. */
  if (dl_iterate_phdr != NULL) (void)dl_iterate_phdr(read_loaded, &count);
  return count;
}

/* The exec blob without argv: the folder, then env. */
static napi_status tell(napi_env env, const struct gbx_take* taken,
                        napi_value* ret_value) {
  const struct gbx_exec_head* head =
      (const struct gbx_exec_head*)taken->ret_blob;
  char* text = (char*)(taken->ret_blob + sizeof *head);
  const char* end = (const char*)(taken->ret_blob + taken->ret_size);
  char* from = text; /* behind the folder */
  while (*from++ != '\0')
    continue;
  char* next = from;
  for (uint32_t i = 0; i < head->argc && next < end; next++)
    if (*next == '\0') i++;
  for (; next < end; from++, next++)
    *from = *next;
  return napi_create_string_utf8(env, text, (size_t)(from - text), ret_value);
}

/* Where a step fails init has been told, and the process is to end: so there is
 * no more to say than that. */
static napi_value take(napi_env env, napi_callback_info info) {
  (void)info;
  struct gbx_take taken;
  napi_value result = NULL;
  loaded_before = count_loaded();
  if (gbx_take(&taken) < 0) {
    (void)napi_throw_error(env, NULL, "the call could not be taken");
  } else if (taken.ret_size == 0) {
    (void)napi_get_null(env, &result);
  } else {
    (void)tell(env, &taken, &result);
  }
  return result;
}

static napi_value leave(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value argument = NULL;
  int32_t code = 0; /* as of what is no number */
  if (napi_get_cb_info(env, info, &count, &argument, NULL, NULL) == napi_ok)
    (void)napi_get_value_int32(env, argument, &code);
  if (count_loaded() == loaded_before)
    (void)call(__NR_exit_group, code, 0, 0, 0);
  return NULL;
}

static void export(napi_env env, napi_value exports, const char* name,
                   napi_callback callback) {
  napi_value function = NULL;
  if (napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, NULL,
                           &function) == napi_ok)
    (void)napi_set_named_property(env, exports, name, function);
}

__attribute__((visibility("default"))) napi_value napi_register_module_v1(
    napi_env env, napi_value exports);
napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  export(env, exports, "take", take);
  export(env, exports, "leave", leave);
  return exports;
}

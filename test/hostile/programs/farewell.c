/* SPDX-License-Identifier: Apache-2.0 */

/* An addon of Node's that has something to do when the process ends. */

#include <unistd.h>

void* napi_register_module_v1(void* env, void* exports);
void* napi_register_module_v1(void* env, void* exports) {
  (void)env;
  return exports;
}

__attribute__((destructor)) static void say(void) {
  if (write(1, "farewell\n", 9) != 9) return;
}

/* SPDX-License-Identifier: Apache-2.0 */

/* Gives the kept inputs to a target, without libFuzzer: `replay FILE...`. */

#include "fuzz.h"

static void replay(const char* path) {
  FILE* file = fopen(path, "rb");
  CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
  long size = ftell(file);
  CHECK(size >= 0 && fseek(file, 0, SEEK_SET) == 0);
  /* Of the very size, so that a read beyond the end is seen. */
  uint8_t* data = malloc((size_t)size);
  CHECK(size == 0 || data != NULL);
  CHECK(fread(data, 1, (size_t)size, file) == (size_t)size);
  (void)fclose(file); /* it was only read */
  (void)LLVMFuzzerTestOneInput(data, (size_t)size);
  free(data);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    /* On a crash, the last line names the input. */
    printf("%s\n", argv[i]);
    (void)fflush(stdout);
    replay(argv[i]);
  }
  return 0;
}

/* Which initializers are masks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#ifdef RONDE_HAVE_ONNX

#include "onnx/import.h"

#define GOLDEN RONDE_SOURCE_DIR "/tests/golden/onnx/"

/* All but `mask` (NULL: none) are not. */
static void check_file(const char *path, const char *mask) {
  ronde__onnx *file;
  assert_int_equal(ronde__onnx_open(path, &file), RONDE_OK);
  for (int i = 0; i < file->n_names; i++) {
    bool expected = mask && !strcmp(file->names[i], mask);
    if (file->is_mask[i] != expected) fail_msg("%s: %s: %d", path, file->names[i], file->is_mask[i]);
  }
  ronde__onnx_close(file);
}

/* One triangle, of which layers compare, add and cast parts; and files whose initializers are weights, tables and buffers. */
static void masks_are_told_from_weights(void **state) {
  check_file(GOLDEN "torch-open-masks.onnx", "mask");
  check_file(GOLDEN "torch-open-gpt.onnx", NULL);
  check_file(GOLDEN "torch-attention.onnx", NULL);
  check_file(GOLDEN "torch-buffers.onnx", NULL);
  check_file(GOLDEN "triangles.onnx", NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(masks_are_told_from_weights)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) {
  printf("SKIP: this build has no ONNX (no libprotobuf-c)\n");
  return 0;
}

#endif

/* Which form of the fully connected layer is taken when. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel/bf16.h"
#include "ops/op.h"

#include <string.h>

static const ronde__bf16 with_tiles = {.is_tiles = true}, without = {.is_tiles = false};

typedef struct choice {
  const char *form;
  int64_t n;
  const ronde__bf16 *bf16;
} choice;

static const char *chosen(const choice *c, int64_t pixels) {
  const ronde__op *linear = ronde__ops[RONDE__OP_LINEAR];
  ronde__shape in = {1, {64 * pixels * pixels}}, out = {1, {128}};
  ronde__op_desc desc = {.attr = {.out_channels = 128},
                         .n_inputs = 1,
                         .n_params = 1,
                         .in = {ronde__phys_make(RONDE__BLOCKS, c->n, 64, pixels, pixels)},
                         .need_dinput = {true},
                         .compute = {.kernels = ronde__kernels_available(0), .bf16 = c->bf16},
                         .threads = 1};
  linear->layouts(&desc, &in, &out);
  assert_int_equal(ronde__form_choose(linear, &desc), RONDE_OK);
  return desc.form->name;
}

/* Without tiles bfloat16 pays for some rows, in f32 the form for many rows. */
static void test_the_choice(void **state) {
  static const choice choices[] = {{"f32", 127, NULL},     {"rows", 128, NULL},     {"f32", 23, &without},
                                   {"bf16", 24, &without}, {"bf16", 128, &without}, {"bf16", 1, &with_tiles}};
  for (size_t i = 0; i < RONDE__COUNT(choices); i++)
    if (strcmp(chosen(&choices[i], 1), choices[i].form))
      fail_msg("choice %zu: %s instead of %s", i, chosen(&choices[i], 1), choices[i].form);
  assert_string_equal(chosen(&choices[1], 3), "f32"); /* of several pixels */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_choice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What the harness of the ops does not ask of batch normalisation and dropout: running statistics, and what they do outside training. */
#include "ops_testing.h"

static const op_case norm = NORM(7, 67, 3, 2, .act = RONDE__ACT_NONE),
                     norm_add_relu = NORM_ADD(7, 67, 3, 2, .act = RELU);
static const op_case dropout = PLAIN_OP(DROPOUT, 64, 100, 1, 1, true, .probability = 0.25f);

static variant variant_of(const op_case *c, const ronde__kernels *kernels) {
  return (variant){.op = ronde__ops[c->kind], .kernels = kernels, .offered = RONDE__BLOCKS, .need = 1};
}

/* Statistics of x [N][C][pixels], by the definition, in f64. */
static void statistics(const op_case *c, const float *x, double *mean, double *unbiased) {
  int64_t pixels = c->h * c->w, m = c->n * pixels;
  for (int64_t k = 0; k < c->c; k++) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < m; i++) sum += x[(i / pixels * c->c + k) * pixels + i % pixels];
    mean[k] = sum / (double)m;
    for (int64_t i = 0; i < m; i++) squares += pow(x[(i / pixels * c->c + k) * pixels + i % pixels] - mean[k], 2);
    unbiased[k] = squares / (double)(m - 1);
  }
}

static void running_statistics_follow(void **unused) {
  reference ref = reference_make(&norm);
  double mean[67], unbiased[67];
  statistics(&norm, ref.in[0], mean, unbiased);
  for (int i = 0; ronde__kernels_available(i); i++) {
    variant v = variant_of(&norm, ronde__kernels_available(i));
    op_run run;
    assert_true(op_run_open(&run, &norm, &ref, &v, NULL));
    op_run_forward(&run); /* the buffers start at start_value */
    for (int64_t k = 0; k < norm.c; k++) {
      double start = (double)start_value(k);
      int64_t at = weight_place(&run.desc.buffer, k);
      assert_true(fabs(run.state_of[0].at[at] - (0.9 * start + 0.1 * mean[k])) < 1e-6);
      assert_true(fabs(run.state_of[1].at[at] - (0.9 * start + 0.1 * unbiased[k])) < 1e-6);
    }
    for (int64_t j = norm.c; j < run.state_of[0].n; j++) /* padding */
      assert_true(run.state_of[0].at[j] == 0 && run.state_of[1].at[j] == 0);
    op_run_close(&run);
  }
  reference_free(&ref);
}

static void check_evaluation(const op_case *c) {
  reference ref = reference_make(c);
  variant v = variant_of(c, ronde__kernels_available(0));
  op_run run;
  assert_true(op_run_open(&run, c, &ref, &v, NULL));
  op_run_bind(&run, false);
  for (int64_t k = 0; k < c->c; k++) {
    int64_t at = weight_place(&run.desc.buffer, k);
    run.state_of[0].at[at] = 0.01f * (float)k;
    run.state_of[1].at[at] = 0.5f + 0.02f * (float)k;
  }
  run.call.training = false;
  call_forward(&run);
  for (int64_t i = 0; i < ref.out[0].n; i++) {
    int64_t k = i / (c->h * c->w) % c->c;
    double exact = ((double)ref.in[0][i] - 0.01 * (double)k) / sqrt(0.5 + 0.02 * (double)k + 1e-5) * ref.param[0][k] +
                   ref.param[1][k];
    if (c->residual) exact += (double)ref.in[1][i];
    if (c->attr.act) exact = fmax(exact, 0);
    assert_true(fabs(run.out[0].at[place_of(&run.desc.out[0], i)] - exact) < 2e-6);
  }
  assert_true(run.state_of[0].at[weight_place(&run.desc.buffer, 3)] == 0.03f); /* not moved */
  assert_true(padding_holds(&run, "output", &run.desc.out[0], run.out[0].at));
  op_run_close(&run);
  reference_free(&ref);
}

static void evaluation_uses_them(void **unused) {
  check_evaluation(&norm);
  check_evaluation(&norm_add_relu);
}

static int64_t zeros(const buffer *b) {
  int64_t n = 0;
  for (int64_t i = 0; i < b->n; i++) n += b->at[i] == 0;
  return n;
}

static void dropout_is_new_in_every_step_and_off_in_evaluation(void **unused) {
  reference ref = reference_make(&dropout);
  variant v = variant_of(&dropout, ronde__kernels_available(0));
  v.offered = RONDE__ROWS;
  op_run run;
  assert_true(op_run_open(&run, &dropout, &ref, &v, NULL));
  op_run_forward(&run);
  int64_t dropped = zeros(&run.out[0]); /* 1600 expected of 6400, deviation 35 */
  assert_in_range(dropped, 1600 - 175, 1600 + 175);
  float *before = malloc((size_t)run.out[0].n * sizeof *before);
  memcpy(before, run.out[0].at, (size_t)run.out[0].n * sizeof *before);
  uint64_t *const keys[] = {&run.call.step, &run.call.seed, (uint64_t *)&run.call.first_example};
  for (size_t i = 0; i < RONDE__COUNT(keys); i++) {
    op_run_bind(&run, false);
    ++*keys[i];
    call_forward(&run);
    assert_memory_not_equal(before, run.out[0].at, (size_t)run.out[0].n * sizeof *before);
    assert_in_range(zeros(&run.out[0]), 1600 - 175, 1600 + 175);
  }
  op_run_bind(&run, false);
  run.call.training = false;
  call_forward(&run);
  assert_memory_equal(run.out[0].at, ref.in[0], (size_t)run.out[0].n * sizeof(float));
  free(before);
  op_run_close(&run);
  reference_free(&ref);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(running_statistics_follow),
      cmocka_unit_test(evaluation_uses_them),
      cmocka_unit_test(dropout_is_new_in_every_step_and_off_in_evaluation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* NaN, infinities and large values: they must show where they belong and nowhere else. */
#include "ops_testing.h"
#include "sanitized.h"

/* Forward of a case with its inputs as they are in ref; the logical output. */
static float *forward_of(const op_case *c, const reference *ref, const variant *v) {
  ronde__phys rows = ronde__phys_make(RONDE__ROWS, c->n, c->c, c->h, c->w);
  op_run run;
  assert_true(op_run_open(&run, c, ref, v, c->kind == RONDE__OP_REORDER ? &rows : NULL));
  op_run_forward(&run);
  assert_true(all_guards_hold(&run));
  float *out = malloc((size_t)ref->out[0].n * sizeof *out);
  for (int64_t i = 0; i < ref->out[0].n; i++) out[i] = run.out[0].at[place_of(&run.desc.out[0], i)];
  op_run_close(&run);
  return out;
}

static void nan_stays_in_its_example(void **unused) {
  int n_checked = 0;
  for (size_t i = 0; i < RONDE__COUNT(op_cases); i++) {
    const op_case *c = &op_cases[i];
    if (c->n == 1 || ronde__ops[c->kind]->is_loss || input_elems(c) > (SMALL_CASES_ONLY ? 5000 : 50000)) continue;
    if (c->kind == RONDE__OP_BATCH_NORM2D) continue; /* its statistics are of the whole batch */
    if (ronde__ops[c->kind]->tokens) continue;       /* no token is NaN */
    if (c->kind == RONDE__OP_PARAMETER) continue;    /* of its input it takes the number of examples alone */
    reference ref = reference_make(c);
    variant v = {
        .op = ronde__ops[c->kind], .kernels = ronde__kernels_available(0), .gemm = RONDE__GEMM_XSMM, .need = 1};
    for (v.offered = RONDE__ROWS; v.offered <= RONDE__BLOCKS; v.offered++) {
      if (is_offered_in_vain(c, &ref, &v)) continue;
      float *clean = forward_of(c, &ref, &v);
      float *example = ref.in[0] + example_elems(c), *kept = malloc((size_t)example_elems(c) * sizeof *kept);
      memcpy(kept, example, (size_t)example_elems(c) * sizeof *kept);
      for (int64_t e = 0; e < example_elems(c); e++) example[e] = NAN;
      float *broken = forward_of(c, &ref, &v);
      memcpy(example, kept, (size_t)example_elems(c) * sizeof *kept);
      int64_t n_out = ref.out[0].n / c->n, n_nan = 0;
      for (int64_t e = 0; e < ref.out[0].n; e++) {
        if (e / n_out == 1) n_nan += isnan(broken[e]);
        else assert_memory_equal(&clean[e], &broken[e], sizeof(float));
      }
      if (n_nan == 0) fail_msg("%s: its NaN is lost", ronde__ops[c->kind]->name);
      free(clean), free(broken), free(kept);
      n_checked++;
    }
    reference_free(&ref);
  }
  assert_true(n_checked > (SMALL_CASES_ONLY ? 50 : 100));
}

/* The first NaN of a window is its maximum and gets the gradient; without one, the first of equal values. */
static void max_pooling_prefers_the_first(void **unused) {
  static const op_case cases[] = {POOL(MAX, 7, 67, 5, 5, 3, 3, 2, 2, 1, 1), POOL(MAX, 20, 3, 6, 6, 2, 2, 1, 1, 0, 0)};
  for (size_t i = 0; i < RONDE__COUNT(cases); i++)
    for (int with_nan = 0; with_nan < 2; with_nan++) {
      const op_case *c = &cases[i];
      reference ref = reference_make(c);
      ronde__ref_conv p = window_of(c);
      for (int64_t e = 0; e < input_elems(c); e++) {
        ref.in[0][e] = random_float() < 0 ? 0 : -1;
        if (with_nan && random_float() < -0.7f) ref.in[0][e] = NAN;
        if (with_nan && random_float() < -0.9f) ref.in[0][e] = INFINITY;
      }
      ronde__ref_max_pool_forward(&p, ref.in[0], ref.out[0].exact);
      ronde__ref_max_pool_backward(&p, ref.in[0], ref.dout[0], ref.din[0].exact);
      for (int64_t e = 0; e < input_elems(c); e++) ref.din[0].magnitude[e] = 4;
      for (ronde__layout offered = RONDE__ROWS; offered <= RONDE__BLOCKS; offered++) {
        variant v = {.op = ronde__ops[c->kind], .kernels = ronde__kernels_available(0), .offered = offered, .need = 1};
        op_run run;
        assert_true(op_run_open(&run, c, &ref, &v, NULL));
        op_run_forward(&run);
        for (int64_t e = 0; e < ref.out[0].n; e++) {
          float y = run.out[0].at[place_of(&run.desc.out[0], e)];
          assert_true(y == ref.out[0].exact[e] || (isnan(y) && isnan(ref.out[0].exact[e])));
        }
        op_run_backward(&run);
        *finding = 0;
        backward_holds(&run);
        assert_string_equal(finding, "");
        op_run_close(&run);
      }
      reference_free(&ref);
    }
}

static double cross_entropy_of(const float logits[3], int64_t label, float gradient_out[3]) {
  const op_case c = PLAIN_OP(CROSS_ENTROPY, 1, 3, 1, 1, true, 0);
  reference ref = reference_make(&c);
  memcpy(ref.in[0], logits, 3 * sizeof(float));
  ref.labels[0] = label;
  variant v = {.op = ronde__ops[c.kind], .kernels = ronde__kernels_available(0), .need = 1};
  op_run run;
  assert_true(op_run_open(&run, &c, &ref, &v, NULL));
  op_run_forward(&run);
  double loss = run.loss_sum;
  op_run_backward(&run);
  memcpy(gradient_out, run.din[0].at, 3 * sizeof(float));
  op_run_close(&run);
  reference_free(&ref);
  return loss;
}

static void cross_entropy_of_large_logits(void **unused) {
  float gradient[3];
  assert_true(fabs(cross_entropy_of((float[]){3e38f, 0, -3e38f}, 0, gradient)) < 1e-12);
  assert_true(gradient[0] == 0 && gradient[1] == 0 && gradient[2] == 0);
  assert_true(fabs(cross_entropy_of((float[]){1000, 900, 0}, 1, gradient) - 100) < 1e-4);
  assert_true(fabsf(gradient[0] - 1) < 1e-6f && fabsf(gradient[1] + 1) < 1e-6f);
  assert_true(fabs(cross_entropy_of((float[]){-1e30f, -1e30f, -1e30f}, 2, gradient) - log(3)) < 1e-6);
  assert_true(isinf(cross_entropy_of((float[]){0, -INFINITY, 0}, 1, gradient)));
  for (int at = 0; at < 3; at++) {
    float logits[3] = {1, 2, 3};
    logits[at] = NAN;
    assert_true(isnan(cross_entropy_of(logits, 0, gradient)));
    logits[at] = INFINITY;
    assert_true(isnan(cross_entropy_of(logits, 0, gradient)));
  }
}

/* Steps behind the end of all examples are not computed: what x holds there does no harm, not even to the gradients of the
 * weights, which are sums over rows by the chunk. */
static void nan_behind_all_examples_is_not_read(void **unused) {
  enum {
    STEPS = 40,
    FEATURES = 5,
    EXAMPLES = 3,
    READ = 22
  }; /* of the longest example's nine steps of three rows there is one chunk of 64 rows */
  static const op_case cases[] = {LSTM(EXAMPLES, STEPS, FEATURES, 8, false, true, false, 0),
                                  LSTM(EXAMPLES, STEPS, FEATURES, 8, false, true, true, 0),
                                  GRU(EXAMPLES, STEPS, FEATURES, 8, false, true, false, 0),
                                  GRU(EXAMPLES, STEPS, FEATURES, 8, false, true, true, 0)};
  for (size_t i = 0; i < RONDE__COUNT(cases); i++)
    for (int accumulates = 0; accumulates < 2; accumulates++) {
      reference ref = reference_make(&cases[i]);
      variant v = {.op = ronde__ops[cases[i].kind], .kernels = ronde__kernels_available(0), .need = 1};
      v.gemm = RONDE__GEMM_XSMM, v.accumulate = accumulates;
      op_run runs[2];
      memcpy(ref.in[1], (float[]){9, 4, 2}, EXAMPLES * sizeof(float));
      for (int broken = 0; broken < 2; broken++) {
        for (int64_t e = 0; e < input_elems(&cases[i]) && broken; e++)
          if (e / FEATURES % STEPS >= READ) ref.in[0][e] = NAN;
        assert_true(op_run_open(&runs[broken], &cases[i], &ref, &v, NULL));
        op_run_forward(&runs[broken]);
        op_run_backward(&runs[broken]);
        assert_true(all_guards_hold(&runs[broken]));
      }
      assert_memory_equal(runs[0].din[0].at, runs[1].din[0].at, (size_t)runs[0].din[0].n * sizeof(float));
      for (int p = 0; p < runs[0].desc.n_params; p++)
        assert_memory_equal(runs[0].dparam[p].at, runs[1].dparam[p].at, (size_t)runs[0].dparam[p].n * sizeof(float));
      for (int64_t e = 0; e < runs[1].dparam[0].n; e++) assert_true(isfinite(runs[1].dparam[0].at[e]));
      op_run_close(&runs[0]), op_run_close(&runs[1]);
      reference_free(&ref);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nan_stays_in_its_example),
      cmocka_unit_test(max_pooling_prefers_the_first),
      cmocka_unit_test(cross_entropy_of_large_logits),
      cmocka_unit_test(nan_behind_all_examples_is_not_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

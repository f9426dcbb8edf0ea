/* Golden files from PyTorch (tests/golden/make_golden.py): every model's loss, gradients and ten steps of two
 * optimizers. The error of each tensor against f64 may be at most BOUND times PyTorch's own in f32, with a floor of
 * some ulps of its norm. */
#include "golden_testing.h"

#include "optim/optim.h"

#define STEPS 10

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_gradients(void **state) {
  golden g = {.name = *state};
  golden_open(&g);
  const json_t *stage = field(g.json, "gradient");
  int failures = 0;
  for (int i = 0; ronde__kernels_available(i); i++) {
    for (int impl = RONDE__GEMM_TILE; impl <= RONDE__GEMM_XSMM; impl++) {
      machine m = {ronde__kernels_available(i), (ronde__gemm_impl)impl, THREADS_ONLY ? 2 : 1, NULL};
      if (i > 0 && impl == RONDE__GEMM_XSMM) continue; /* libxsmm looks at the CPU itself */
      if (THREADS_ONLY && (i > 0 || impl == RONDE__GEMM_TILE)) continue;
      subject s = subject_create(&g, &m);
      double loss = gradients(&g, &s, 0, g.batch), wanted = number(stage, "loss_f64");
      assert_int_equal(ronde_graph_parameters(s.graph), whole(g.json, "parameters"));
      failures +=
          !within(s.text, "loss", fabs(loss - wanted), fabs(number(stage, "loss_f32") - wanted), fabs(wanted), false);
      failures += net_failures(stage, &s, true, false);
      subject_destroy(&s);
    }
  }
  golden_close(&g);
  assert_int_equal(failures, 0);
}

/* Consecutive batches in file order, the short last one kept. */
static int ten_steps(const golden *g, const char *optimizer, const ronde__optim_options *options, const machine *m) {
  subject s = subject_create(g, m);
  ronde__optim *optim;
  double losses[STEPS];
  int64_t begin = 0;
  assert_int_equal(ronde__optim_create(options, m->kernels, ronde__net_n_trained(s.net), &optim), RONDE_OK);
  for (int k = 0; k < STEPS; k++) {
    int64_t end = ronde__min(begin + g->batch, g->examples);
    losses[k] = gradients(g, &s, begin, end);
    ronde__optim_begin(optim, options->lr);
    ronde__optim_range_on(optim, s.pool, ronde__net_values(s.net), ronde__net_gradients(s.net), 0,
                          ronde__optim_elems(optim));
    begin = end < g->examples ? end : 0;
  }
  const json_t *stage = field(g->json, optimizer);
  strncat(s.text, ", ", sizeof s.text - strlen(s.text) - 1);
  strncat(s.text, optimizer, sizeof s.text - strlen(s.text) - 1);
  int failures = loss_failures(stage, s.text, losses, STEPS, false) + net_failures(stage, &s, false, false);
  ronde__optim_destroy(optim);
  subject_destroy(&s);
  return failures;
}

static void test_steps(void **state) {
  static const ronde__optim_options sgd = {.kind = RONDE__OPTIM_SGD, .lr = 0.05, .momentum = 0.9};
  static const ronde__optim_options adam = {
      .kind = RONDE__OPTIM_ADAM, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  golden g = {.name = *state};
  leave_out_if(SANITIZED, "ten steps of golden files: the first does what the others do");
  golden_open(&g);
  const ronde__kernels *best = ronde__kernels_available(0);
  const machine machines[] = {{best, RONDE__GEMM_XSMM, 1, NULL}, {best, RONDE__GEMM_TILE, 2, NULL}};
  int failures = 0;
  for (size_t i = 0; i < RONDE__COUNT(machines); i++) {
    failures += ten_steps(&g, "sgd", &sgd, &machines[i]);
    failures += ten_steps(&g, "adam", &adam, &machines[i]);
  }
  golden_close(&g);
  assert_int_equal(failures, 0);
}

/* One element among 48,000 off by a thousandth of the tensor's norm, two rows swapped, a NaN: each must be seen. */
static void test_planted_bugs(void **state) {
  golden g = {.name = *state};
  golden_open(&g);
  machine m = {ronde__kernels_available(0), RONDE__GEMM_TILE, 1, NULL};
  subject s = subject_create(&g, &m);
  gradients(&g, &s, 0, g.batch);
  const json_t *stage = field(g.json, "gradient");
  int n_params, fc1 = find_param(s.net, "fc1.weight");
  const ronde__net_param *params = ronde__net_params(s.net, &n_params);
  size_t elems = (size_t)ronde__shape_elems(&params[fc1].shape), row = (size_t)params[fc1].shape.dim[1];
  float *good = malloc(elems * sizeof *good), *bad = malloc(elems * sizeof *bad);
  ronde__net_get_gradient(s.net, fc1, good);
  double norm = number(field(field(stage, "tensors"), "fc1.weight"), "norm");
  assert_int_equal(tensor_failures(stage, s.text, "fc1.weight", good, elems, true), 0);

  memcpy(bad, good, elems * sizeof *bad);
  bad[elems / 3] += (float)(1e-3 * norm);
  assert_int_equal(tensor_failures(stage, s.text, "fc1.weight", bad, elems, true), 1);

  memcpy(bad, good, elems * sizeof *bad);
  memcpy(bad, good + row, row * sizeof *bad);
  memcpy(bad + row, good, row * sizeof *bad);
  assert_int_equal(tensor_failures(stage, s.text, "fc1.weight", bad, elems, true), 1);

  memcpy(bad, good, elems * sizeof *bad);
  bad[7] = NAN;
  assert_int_equal(tensor_failures(stage, s.text, "fc1.weight", bad, elems, true), 1);
  free(good);
  free(bad);
  subject_destroy(&s);
  golden_close(&g);
}

int main(void) {
  static const char *const cases[] = {
      "lenet5-3x32x32-b7",    "lenet5-3x32x32-b42",      "lenet5-1x28x28-b7",     "mnist-small-same-b7",
      "mnist-small-valid-b7", "mnist-large-same-b7",     "mnist-large-valid-b7",  "gpt-tiny-t24-b3",
      "recurrent-t9-b5",      "transformer-tiny-t11-b4", "bert-tiny-t24-b5",      "deepspeech2-tiny-t20-b4",
      "gnmt-tiny-t11-b4",     "tacotron2-tiny-t20-b6",   "tacotron2-tiny-t20-b4", "tacotron2-tiny-t14-b6"};
  struct CMUnitTest tests[2 * RONDE__COUNT(cases) + 1];
  char names[2 * RONDE__COUNT(cases)][64];
  size_t n = 0;
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    for (int steps = 0; steps < 2; steps++, n++) {
      snprintf(names[n], sizeof names[n], "%s: %s", cases[i], steps ? "ten steps" : "gradients");
      tests[n] =
          (struct CMUnitTest){names[n], steps ? test_steps : test_gradients, NULL, NULL, (void *)(uintptr_t)cases[i]};
    }
  }
  tests[n] = (struct CMUnitTest){"planted bugs are seen", test_planted_bugs, NULL, NULL, (void *)(uintptr_t)cases[0]};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every network, of sequences the tiny ones, with operands of bfloat16, against PyTorch in f64: the errors of its gradients may be at
 * most 1.2 times those of PyTorch in bfloat16 (tests/golden/make_golden_bf16.py: mixed precision, and where a run may be lucky
 * rounded operands too) in the mean over all tensors; that of one tensor, which for a vector of a normalisation is a matter of
 * luck, 2.5 times; that of the loss 1.5 times; and that of the losses of ten steps, where rounding changes the way, 4 times. */
#include "golden_testing.h"
#include "kernel/bf16.h"
#include "optim/optim.h"

#define STEPS 10
#define LOSS_BOUND 1.5
#define TENSOR_BOUND 2.5
#define MEAN_BOUND 1.2
/* A scalar's rounding is a matter of luck; this is an eighth of the last place of bfloat16. */
#define LOSS_FLOOR (1.0 / (1 << 12))

static json_t *errors; /* bf16.json */

static const json_t *errors_of(const golden *g) { return field(field(errors, "cases"), g->name); }

static bool holds(const char *where, const char *what, double error, double bound) {
  if (error <= bound) return true; /* false for NaN */
  print_error("%s: %s: error %.3g, bound %.3g\n", where, what, error, bound);
  return false;
}

static double exact_loss(const json_t *stage) {
  const json_t *f64 = json_object_get(stage, "loss_f64");
  return f64 ? json_number_value(f64) : number(stage, "loss");
}

/* The golden file's stage with those errors of bfloat16, times a factor, in the place of those of f32. */
static json_t *stage_of(const golden *g, double factor) {
  json_t *stage = json_deep_copy(field(g->json, "gradient")), *tensor;
  const char *name;
  json_object_foreach(json_object_get(stage, "tensors"), name, tensor) {
    double error = number(field(errors_of(g), "tensors"), name);
    json_object_set_new(tensor, "error", json_real(error * factor));
  }
  return stage;
}

static int gradient_failures(const golden *g, const subject *s) {
  json_t *each = stage_of(g, TENSOR_BOUND / BOUND), *all = stage_of(g, 1);
  double mean = net_mean_error(all, s);
  int failures = net_failures(each, s, true, false) + !holds(s->text, "mean error of gradients", mean, MEAN_BOUND);
  json_decref(each);
  json_decref(all);
  return failures;
}

static int first_batch_failures(const golden *g, const machine *m) {
  subject s = subject_create(g, m);
  double loss = gradients(g, &s, 0, g->batch), wanted = exact_loss(field(g->json, "gradient"));
  double bound = LOSS_BOUND * number(errors_of(g), "loss_error") + LOSS_FLOOR * fabs(wanted);
  int failures = !holds(s.text, "loss", fabs(loss - wanted), bound) + gradient_failures(g, &s);
  subject_destroy(&s);
  return failures;
}

static int ten_step_failures(const golden *g, const machine *m) {
  static const ronde__optim_options sgd = {.kind = RONDE__OPTIM_SGD, .lr = 0.05, .momentum = 0.9};
  const json_t *f64 = field(field(g->json, "sgd"), "losses_f64");
  subject s = subject_create(g, m);
  ronde__optim *optim;
  int64_t begin = 0;
  int failures = 0;
  assert_int_equal(ronde__optim_create(&sgd, m->kernels, ronde__net_n_trained(s.net), &optim), RONDE_OK);
  for (size_t k = 0; k < STEPS; k++) {
    int64_t end = ronde__min(begin + g->batch, g->examples);
    double loss = gradients(g, &s, begin, end), wanted = json_number_value(json_array_get(f64, k));
    double bound = BOUND * number(errors_of(g), "losses_error") + LOSS_FLOOR * fabs(wanted);
    ronde__optim_begin(optim, sgd.lr);
    ronde__optim_range_on(optim, s.pool, ronde__net_values(s.net), ronde__net_gradients(s.net), 0,
                          ronde__optim_elems(optim));
    failures += !holds(s.text, "a loss of ten steps", fabs(loss - wanted), bound);
    begin = end < g->examples ? end : 0;
  }
  ronde__optim_destroy(optim);
  subject_destroy(&s);
  return failures;
}

static void test_network(void **state) {
  golden g = {.name = *state};
  leave_out_if(!ronde__bf16_available(0), "this CPU has no bfloat16");
  leave_out_if(SANITIZED && strcmp(g.name, "lenet5-3x32x32-b42"), "golden files in bfloat16: one network runs");
  golden_open(&g);
  int failures = 0;
  for (int i = 0; ronde__bf16_available(i); i++) {
    machine m = {ronde__kernels_available(0), RONDE__GEMM_TILE, 1, ronde__bf16_available(i)};
    failures += first_batch_failures(&g, &m);
    if (json_object_get(errors_of(&g), "losses_error")) failures += ten_step_failures(&g, &m);
  }
  golden_close(&g);
  assert_int_equal(failures, 0);
}

/* A gradient off by a fiftieth of its norm is seen. */
static void test_planted_bug(void **state) {
  golden g = {.name = "mnist-small-same-b7"};
  if (!ronde__bf16_available(0)) skip();
  golden_open(&g);
  machine m = {ronde__kernels_available(0), RONDE__GEMM_TILE, 1, ronde__bf16_available(0)};
  subject s = subject_create(&g, &m);
  gradients(&g, &s, 0, g.batch);
  int n_params, fc1 = find_param(s.net, "fc1.weight");
  const ronde__net_param *param = &ronde__net_params(s.net, &n_params)[fc1];
  double norm = number(field(field(field(g.json, "gradient"), "tensors"), "fc1.weight"), "norm");
  assert_int_equal(gradient_failures(&g, &s), 0);
  ronde__net_gradients(s.net)[param->offset + 7] += (float)(0.02 * norm);
  assert_int_not_equal(gradient_failures(&g, &s), 0);
  subject_destroy(&s);
  golden_close(&g);
}

#define CASE(name) cmocka_unit_test_prestate(test_network, name)

int main(void) {
  json_error_t error;
  errors = json_load_file(RONDE_SOURCE_DIR "/tests/golden/bf16.json", 0, &error);
  if (!errors) {
    fprintf(stderr, "bf16.json:%d: %s\n", error.line, error.text);
    return 1;
  }
  const struct CMUnitTest tests[] = {
      CASE("lenet5-3x32x32-b42"),    CASE("mnist-small-same-b7"),
      CASE("mnist-large-same-b7"),   CASE("alexnet-3x64x64-b42"),
      CASE("resnet18-3x32x32-b42"),  CASE("resnet18-cifar-3x32x32-b42"),
      CASE("resnet50-3x32x32-b42"),  CASE("gpt-tiny-t24-b3"),
      CASE("bert-tiny-t24-b5"),      CASE("transformer-tiny-t11-b4"),
      CASE("gnmt-tiny-t11-b4"),      CASE("deepspeech2-tiny-t20-b4"),
      CASE("tacotron2-tiny-t20-b6"), cmocka_unit_test(test_planted_bug),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  json_decref(errors);
  return failed;
}

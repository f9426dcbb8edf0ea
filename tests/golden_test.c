/* Golden files from PyTorch (tests/golden/make_golden.py): every model's loss, gradients and ten steps of two
 * optimizers. The error of each tensor against f64 may be at most BOUND times PyTorch's own in f32, with a floor of
 * some ulps of its norm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "graph/graph.h"
#include "models/models.h"
#include "optim/optim.h"

#define BOUND 4.0
#define FLOOR (4.0 / (1 << 24))
#define STEPS 10

/* Under the thread sanitizer, arithmetic is slow and only threads are of interest. */
#ifdef __SANITIZE_THREAD__
#define THREADS_ONLY true
#else
#define THREADS_ONLY false
#endif

/* ---- numbers by hash: tests/golden/models.py has the same functions ---------------------------------------------- */

enum { INPUT_STREAM = 1000, LABEL_STREAM = 1001, SKETCH_STREAM = 2000, SKETCH = 64 };

static uint32_t hash32(uint32_t stream, uint32_t i) {
  uint32_t h = i * 2654435761u + stream * 2246822519u + 374761393u;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return h ^ h >> 16;
}

static void fill_values(uint32_t stream, size_t n, double scale, float *x) {
  for (size_t i = 0; i < n; i++)
    x[i] = (float)((int32_t)(hash32(stream, (uint32_t)i) >> 8) - (1 << 23)) * (float)(scale / (1 << 23));
}

/* All of a tensor up to SKETCH elements, else SKETCH signed sums that hold every element; the norm of a difference of
 * sketches measures the norm of the difference of the tensors. */
static size_t sketch(const float *x, size_t n, double out[SKETCH]) {
  if (n <= SKETCH) {
    for (size_t i = 0; i < n; i++) out[i] = x[i];
    return n;
  }
  memset(out, 0, SKETCH * sizeof *out);
  for (size_t i = 0; i < n; i++) {
    uint32_t h = hash32(SKETCH_STREAM, (uint32_t)i);
    out[h % SKETCH] += h >> 31 ? -(double)x[i] : (double)x[i];
  }
  return SKETCH;
}

/* ---- one golden file --------------------------------------------------------------------------------------------- */

typedef struct golden {
  const char *name;
  json_t *json;
  int64_t shape[3], classes, batch, examples, example_elems;
  float *x;
  int64_t *labels;
} golden;

static const json_t *field(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  if (!value) fail_msg("the golden file has no %s", name);
  return value;
}
static double number(const json_t *object, const char *name) { return json_number_value(field(object, name)); }
static int64_t whole(const json_t *object, const char *name) { return json_integer_value(field(object, name)); }

static void golden_open(golden *g) {
  char path[1024];
  json_error_t error;
  snprintf(path, sizeof path, "%s/tests/golden/%s.json", RONDE_SOURCE_DIR, g->name);
  g->json = json_load_file(path, 0, &error);
  if (!g->json) fail_msg("%s:%d: %s", path, error.line, error.text);
  g->example_elems = 1;
  for (int d = 0; d < 3; d++) {
    g->shape[d] = json_integer_value(json_array_get(field(g->json, "shape"), (size_t)d));
    g->example_elems *= g->shape[d];
  }
  g->classes = whole(g->json, "classes");
  g->batch = whole(g->json, "batch");
  g->examples = whole(g->json, "examples");
  size_t elems = (size_t)(g->examples * g->example_elems);
  g->x = malloc(elems * sizeof *g->x);
  g->labels = malloc((size_t)g->examples * sizeof *g->labels);
  assert_true(g->x && g->labels);
  fill_values(INPUT_STREAM, elems, 1, g->x);
  for (int64_t i = 0; i < g->examples; i++) g->labels[i] = hash32(LABEL_STREAM, (uint32_t)i) % (uint32_t)g->classes;
}

static void golden_close(golden *g) {
  json_decref(g->json);
  free(g->x);
  free(g->labels);
}

/* ---- the network under test -------------------------------------------------------------------------------------- */

typedef struct machine {
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  int threads;
} machine;

typedef struct subject {
  ronde_graph *graph;
  ronde__pool *pool;
  ronde__net *net;
  char text[256]; /* case and machine, for messages */
} subject;

static ronde_graph *make_graph(const golden *g) {
  ronde_graph *graph;
  const char *name = json_string_value(field(g->json, "model"));
  const ronde__model *model = ronde__model_find(name);
  if (!model) fail_msg("no model %s", name);
  ronde__model_options options = {.padding_same = !strcmp(json_string_value(field(g->json, "padding")), "same")};
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *x = ronde_input(graph, "x", 3, g->shape);
  ronde_graph_set_output(graph, model->build(graph, x, g->classes, &options));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  return graph;
}

static subject subject_create(const golden *g, const machine *m) {
  subject s = {.graph = make_graph(g)};
  snprintf(s.text, sizeof s.text, "%s, %s, %s, %d threads", g->name, m->kernels->isa,
           m->gemm == RONDE__GEMM_XSMM ? "xsmm" : "tile", m->threads);
  assert_int_equal(ronde__pool_create(m->threads, &s.pool), RONDE_OK);
  ronde__net_options options = {.kernels = m->kernels, .gemm = m->gemm, .pool = s.pool, .training = true};
  assert_int_equal(ronde__net_create(s.graph, &options, &s.net), RONDE_OK);

  int n_params;
  const ronde__net_param *params = ronde__net_params(s.net, &n_params);
  const json_t *wanted = field(g->json, "params");
  assert_int_equal(n_params, json_array_size(wanted));
  for (int p = 0; p < n_params; p++) {
    const json_t *param = json_array_get(wanted, (size_t)p);
    size_t elems = (size_t)ronde__shape_elems(&params[p].shape);
    assert_string_equal(params[p].name, json_string_value(field(param, "name")));
    assert_int_equal(elems, whole(param, "elems"));
    float *values = malloc(elems * sizeof *values);
    fill_values((uint32_t)p, elems, number(param, "scale"), values);
    ronde__net_set(s.net, p, values);
    free(values);
  }
  return s;
}

static void subject_destroy(subject *s) {
  ronde__net_destroy(s->net);
  ronde__pool_destroy(s->pool);
  ronde_graph_destroy(s->graph);
}

/* Forward and backward of examples [begin, end); returns the mean loss. */
static double gradients(const golden *g, subject *s, int64_t begin, int64_t end) {
  ronde__net_batch batch = {.n = end - begin, .x = g->x + begin * g->example_elems, .labels = g->labels + begin};
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(s->net, &batch, 1.0f / (float)batch.n, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(s->net, false, NULL), RONDE_OK);
  return result.loss_sum / (double)batch.n;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static bool within(const char *where, const char *what, double error, double peer_error, double norm, bool quiet) {
  double bound = BOUND * peer_error + FLOOR * norm;
  if (error <= bound) return true; /* false for NaN */
  if (!quiet)
    print_error("%s: %s: error %.3g, bound %.3g (PyTorch f32: %.3g, norm %.3g)\n", where, what, error, bound,
                peer_error, norm);
  return false;
}

static int tensor_failures(const json_t *stage, const char *where, const char *name, const float *x, size_t n,
                           bool quiet) {
  const json_t *tensor = field(field(stage, "tensors"), name), *wanted = field(tensor, "sketch");
  double mine[SKETCH], error = 0;
  size_t length = sketch(x, n, mine);
  assert_int_equal(length, json_array_size(wanted));
  for (size_t i = 0; i < length; i++) error += pow(mine[i] - json_number_value(json_array_get(wanted, i)), 2);
  return !within(where, name, sqrt(error), number(tensor, "error"), number(tensor, "norm"), quiet);
}

/* How many tensors (weights, or gradients) miss their bound. */
static int net_failures(const json_t *stage, const subject *s, bool gradient) {
  int n_params, failures = 0;
  const ronde__net_param *params = ronde__net_params(s->net, &n_params);
  for (int p = 0; p < n_params; p++) {
    size_t elems = (size_t)ronde__shape_elems(&params[p].shape);
    float *values = malloc(elems * sizeof *values);
    (gradient ? ronde__net_get_gradient : ronde__net_get)(s->net, p, values);
    failures += tensor_failures(stage, s->text, params[p].name, values, elems, false);
    free(values);
  }
  return failures;
}

/* A scalar's rounding is a matter of luck: the ten losses share PyTorch's largest error. */
static int loss_failures(const json_t *stage, const char *where, const double *losses) {
  const json_t *f64 = field(stage, "losses_f64"), *f32 = field(stage, "losses_f32");
  double peer_error = 0;
  int failures = 0;
  for (size_t k = 0; k < STEPS; k++)
    peer_error =
        fmax(peer_error, fabs(json_number_value(json_array_get(f32, k)) - json_number_value(json_array_get(f64, k))));
  for (size_t k = 0; k < STEPS; k++) {
    char what[32];
    double wanted = json_number_value(json_array_get(f64, k));
    snprintf(what, sizeof what, "loss of step %zu", k + 1);
    failures += !within(where, what, fabs(losses[k] - wanted), peer_error, fabs(wanted), false);
  }
  return failures;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_gradients(void **state) {
  golden g = {.name = *state};
  golden_open(&g);
  const json_t *stage = field(g.json, "gradient");
  int failures = 0;
  for (int i = 0; ronde__kernels_available(i); i++) {
    for (int impl = RONDE__GEMM_TILE; impl <= RONDE__GEMM_XSMM; impl++) {
      machine m = {ronde__kernels_available(i), (ronde__gemm_impl)impl, THREADS_ONLY ? 2 : 1};
      if (i > 0 && (THREADS_ONLY || impl == RONDE__GEMM_XSMM)) continue; /* libxsmm looks at the CPU itself */
      subject s = subject_create(&g, &m);
      double loss = gradients(&g, &s, 0, g.batch), wanted = number(stage, "loss_f64");
      assert_int_equal(ronde_graph_parameters(s.graph), whole(g.json, "parameters"));
      failures +=
          !within(s.text, "loss", fabs(loss - wanted), fabs(number(stage, "loss_f32") - wanted), fabs(wanted), false);
      failures += net_failures(stage, &s, true);
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
  assert_int_equal(ronde__optim_create(options, m->kernels, ronde__net_n_elems(s.net), &optim), RONDE_OK);
  for (int k = 0; k < STEPS; k++) {
    int64_t end = ronde__min(begin + g->batch, g->examples);
    losses[k] = gradients(g, &s, begin, end);
    ronde__optim_step(optim, s.pool, options->lr, ronde__net_values(s.net), ronde__net_gradients(s.net));
    begin = end < g->examples ? end : 0;
  }
  const json_t *stage = field(g->json, optimizer);
  strncat(s.text, ", ", sizeof s.text - strlen(s.text) - 1);
  strncat(s.text, optimizer, sizeof s.text - strlen(s.text) - 1);
  int failures = loss_failures(stage, s.text, losses) + net_failures(stage, &s, false);
  ronde__optim_destroy(optim);
  subject_destroy(&s);
  return failures;
}

static void test_steps(void **state) {
  static const ronde__optim_options sgd = {.kind = RONDE__OPTIM_SGD, .lr = 0.05, .momentum = 0.9};
  static const ronde__optim_options adam = {
      .kind = RONDE__OPTIM_ADAM, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  golden g = {.name = *state};
  if (THREADS_ONLY && strstr(g.name, "large")) {
    print_message("SKIP: %s: ten steps take minutes under the thread sanitizer\n", g.name);
    skip();
  }
  golden_open(&g);
  const ronde__kernels *best = ronde__kernels_available(0);
  const machine machines[] = {{best, RONDE__GEMM_XSMM, 1}, {best, RONDE__GEMM_TILE, 2}};
  int failures = 0;
  for (size_t i = THREADS_ONLY ? 1 : 0; i < RONDE__COUNT(machines); i++) {
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
  machine m = {ronde__kernels_available(0), RONDE__GEMM_TILE, 1};
  subject s = subject_create(&g, &m);
  gradients(&g, &s, 0, g.batch);
  const json_t *stage = field(g.json, "gradient");
  int n_params, fc1 = -1;
  const ronde__net_param *params = ronde__net_params(s.net, &n_params);
  for (int p = 0; p < n_params; p++)
    if (!strcmp(params[p].name, "fc1.weight")) fc1 = p;
  assert_true(fc1 >= 0);
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
  static const char *const cases[] = {"lenet5-3x32x32-b7",   "lenet5-3x32x32-b42",   "lenet5-1x28x28-b7",
                                      "mnist-small-same-b7", "mnist-small-valid-b7", "mnist-large-same-b7",
                                      "mnist-large-valid-b7"};
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

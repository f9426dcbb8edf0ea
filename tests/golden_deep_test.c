/* Golden files of the deep networks from PyTorch (tests/golden/make_golden_deep.py): gradients, running statistics and
 * the evaluation after one step; where f32 can follow f64 over steps, ten of them. */
#include "golden_testing.h"

#include "optim/optim.h"

static const ronde__optim_options sgd = {.kind = RONDE__OPTIM_SGD, .lr = 0.01, .momentum = 0.9};

static int buffer_failures(const json_t *stage, const subject *s, int64_t steps, bool quiet) {
  int n_buffers, failures = 0, compared = 0;
  const ronde__net_buffer *buffers = ronde__net_buffers(s->net, &n_buffers);
  for (int b = 0; b < n_buffers; b++) {
    if (buffers[b].is_counter) {
      assert_int_equal(buffers[b].count, steps);
      continue;
    }
    size_t elems = (size_t)ronde__shape_elems(&buffers[b].shape);
    float *values = malloc(elems * sizeof *values);
    ronde__net_get_buffer(s->net, b, values);
    failures += tensor_failures(stage, s->text, buffers[b].name, values, elems, quiet);
    compared++;
    free(values);
  }
  assert_int_equal(compared, json_object_size(field(stage, "tensors")));
  return failures;
}

static bool loss_within(const json_t *stage, const subject *s, const char *what, double loss, bool quiet) {
  double wanted = number(stage, "loss");
  return within(s->text, what, fabs(loss - wanted), number(stage, "loss_error"), fabs(wanted), quiet);
}

/* Loss and output of the second batch by running statistics, which stay as they are. */
static int evaluation_failures(const golden *g, subject *s, bool quiet) {
  const json_t *stage = field(g->json, "evaluation");
  ronde__net_batch batch = {.n = g->batch, .x = g->x + g->batch * g->example_elems, .labels = g->labels + g->batch};
  ronde__net_result result;
  size_t elems = (size_t)(g->batch * g->classes);
  float *output = malloc(elems * sizeof *output);
  assert_int_equal(ronde__net_forward(s->net, &batch, 1, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_predict(s->net, batch.n, batch.x, output), RONDE_OK);
  int failures = !loss_within(stage, s, "loss of the evaluation", result.loss_sum / (double)batch.n, quiet);
  failures += tensor_failures(stage, s->text, "output", output, elems, quiet);
  free(output);
  return failures + buffer_failures(field(g->json, "buffers"), s, 1, quiet);
}

static ronde__optim *optim_of(subject *s, const ronde__kernels *kernels) {
  ronde__optim *optim;
  assert_int_equal(ronde__optim_create(&sgd, kernels, ronde__net_n_elems(s->net), &optim), RONDE_OK);
  return optim;
}

static void update(subject *s, ronde__optim *optim) {
  ronde__optim_begin(optim, sgd.lr);
  ronde__optim_range_on(optim, s->pool, ronde__net_values(s->net), ronde__net_gradients(s->net), 0,
                        ronde__optim_elems(optim));
}

/* Quiet: whether there are any, so the rest is left out once one is found; here and below. */
static int step_failures(const golden *g, subject *s, const machine *m, bool quiet) {
  const json_t *stage = field(g->json, "gradient");
  int failures = !loss_within(stage, s, "loss", gradients(g, s, 0, g->batch), quiet);
  failures += buffer_failures(field(g->json, "buffers"), s, 1, quiet);
  if (quiet && failures) return failures;
  failures += net_failures(stage, s, true, quiet);
  ronde__optim *optim = optim_of(s, m->kernels);
  update(s, optim);
  ronde__optim_destroy(optim);
  return failures + evaluation_failures(g, s, quiet);
}

static int steps_failures(const golden *g, subject *s, const machine *m, bool quiet) {
  const json_t *stage = field(g->json, "sgd"), *losses = field(stage, "losses");
  ronde__optim *optim = optim_of(s, m->kernels);
  int64_t n_steps = (int64_t)json_array_size(losses);
  int failures = 0;
  assert_int_equal(n_steps * g->batch, g->examples);
  for (int64_t k = 0; k < n_steps && !(quiet && failures); k++) {
    double loss = gradients(g, s, k * g->batch, (k + 1) * g->batch);
    double wanted = json_number_value(json_array_get(losses, (size_t)k));
    char what[32];
    snprintf(what, sizeof what, "loss of step %d", (int)k + 1);
    failures += !within(s->text, what, fabs(loss - wanted), number(stage, "loss_error"), fabs(wanted), quiet);
    update(s, optim);
  }
  ronde__optim_destroy(optim);
  if (quiet && failures) return failures;
  failures += net_failures(stage, s, false, quiet);
  return failures + buffer_failures(field(g->json, "sgd_buffers"), s, n_steps, quiet);
}

/* Networks whose code is not that of another, at batch 4. */
static bool is_of_its_own(const char *name) {
  static const char *const names[] = {"alexnet-3x64x64-b4", "resnet18-1x28x28-b12", "resnet50-3x48x48-b4",
                                      "inception-v3-tiny-3x107x107-b4", "blocks-3x16x16-b5"};
  for (size_t i = 0; i < RONDE__COUNT(names); i++)
    if (!strcmp(names[i], name)) return true;
  return false;
}

static void test_case(void **state) {
  golden g = {.name = *state};
  leave_out_if(SANITIZED && !is_of_its_own(g.name), "golden files of deep networks: one of each kind runs");
  golden_open(&g);
  const ronde__kernels *best = ronde__kernels_available(0);
  const machine machines[] = {{best, RONDE__GEMM_XSMM, 1, NULL}, {best, RONDE__GEMM_TILE, 2, NULL}};
  int failures = 0;
  for (size_t i = 0; i < (SANITIZED ? 1 : RONDE__COUNT(machines)); i++) {
    subject s = subject_create(&g, &machines[i]);
    assert_int_equal(ronde_graph_parameters(s.graph), whole(g.json, "parameters"));
    failures += step_failures(&g, &s, &machines[i], false);
    subject_destroy(&s);
    if (i > 0 || !json_object_get(g.json, "sgd")) continue;
    s = subject_create(&g, &machines[i]);
    failures += steps_failures(&g, &s, &machines[i], false);
    subject_destroy(&s);
  }
  golden_close(&g);
  assert_int_equal(failures, 0);
}

/* ---- planted bugs: each must be seen ----------------------------------------------------------------------------- */

static void set_momentum(ronde__op_attr *attr) { attr->momentum = 0.101f; }
static void set_eps(ronde__op_attr *attr) { attr->eps = 2e-5f; }

static ronde_graph *changed_graph(const golden *g, void (*change)(ronde__op_attr *)) {
  ronde_graph *graph = make_graph(g);
  int changed = 0;
  for (int i = 0; i < graph->n_nodes; i++) {
    if (graph->nodes[i].kind != RONDE__OP_BATCH_NORM2D) continue;
    change(&graph->nodes[i].attr);
    changed++;
  }
  assert_in_range(changed, 1, graph->n_nodes);
  return graph;
}

static void zero_param(subject *s, const char *name) {
  int n_params, p = find_param(s->net, name);
  const ronde__net_param *params = ronde__net_params(s->net, &n_params);
  float *zeros = calloc((size_t)ronde__shape_elems(&params[p].shape), sizeof *zeros);
  ronde__net_set(s->net, p, zeros);
  free(zeros);
}

/* Examples 0 and 1, without their labels. */
static void swap_examples(golden *g) {
  for (int64_t i = 0; i < g->example_elems; i++) {
    float first = g->x[i];
    g->x[i] = g->x[g->example_elems + i];
    g->x[g->example_elems + i] = first;
  }
}

/* What the last normalisation's running variance would be without Bessel's correction. */
static int biased_variance_failures(const golden *g, const subject *s) {
  int i = s->graph->n_nodes - 1, n_buffers;
  while (s->graph->nodes[i].kind != RONDE__OP_BATCH_NORM2D) i--;
  const ronde__node *node = &s->graph->nodes[i];
  const ronde__net_buffer *buffer = &ronde__net_buffers(s->net, &n_buffers)[node->buffer[1]];
  const ronde__shape *shape = &s->graph->tensors[node->in[0]]->shape;
  double m = (double)(g->batch * shape->dim[1] * shape->dim[2]);
  size_t elems = (size_t)ronde__shape_elems(&buffer->shape);
  float *values = malloc(elems * sizeof *values);
  ronde__net_get_buffer(s->net, node->buffer[1], values);
  for (size_t c = 0; c < elems; c++) values[c] = (float)(0.9 + (values[c] - 0.9) * (m - 1) / m);
  int failures = tensor_failures(field(g->json, "buffers"), s->text, buffer->name, values, elems, true);
  free(values);
  return failures;
}

/* A bug of one class of cases is looked for by what that class compares: one step with its evaluation, or all steps. */
typedef struct planted {
  const char *name;
  int (*failures)(const golden *g, subject *s, const machine *m, bool quiet);
  bool normalised;
  const char *biases[4];
} planted;

static const planted plants[] = {
    {"resnet18-1x28x28-b12",
     step_failures,
     true,
     {"bn1.bias", "layer3.0.bn2.bias", "layer2.0.downsample.1.bias", "fc.bias"}},
    {"resnet18-cifar-3x32x32-b42", step_failures, true, {"layer4.1.bn2.bias"}},
    {"resnet50-3x32x32-b42", step_failures, true, {"layer3.0.bn3.bias"}},
    {"alexnet-3x64x64-b42", step_failures, false, {"features.3.bias", "classifier.6.bias"}},
    {"resnet18-scaled-3x64x64-b4", steps_failures, true, {"layer2.0.bn1.bias", "fc.bias"}},
    {"resnet18-cifar-scaled-3x32x32-b4", steps_failures, true, {"bn1.bias"}},
    {"resnet50-scaled-3x64x64-b4", steps_failures, true, {"layer4.2.bn2.bias"}},
    {"alexnet-3x64x64-b4", steps_failures, false, {"classifier.1.bias"}},
    {"vgg16-tiny-3x32x32-b4", steps_failures, false, {"features.14.bias"}},
    {"inception-v3-tiny-3x107x107-b4", step_failures, true, {"Mixed_6b.branch7x7dbl_3.bn.bias"}},
};

static void require_seen(const planted *plant, const golden *g, const machine *m, subject s, const char *bug) {
  if (!plant->failures(g, &s, m, true)) fail_msg("%s: %s was not seen", g->name, bug);
  subject_destroy(&s);
}

static void require_norm_bugs_seen(const planted *plant, const golden *g, const machine *m) {
  static const struct {
    const char *name;
    void (*change)(ronde__op_attr *);
  } changes[] = {{"a wrong momentum", set_momentum}, {"a wrong eps", set_eps}};
  for (size_t i = 0; i < RONDE__COUNT(changes); i++)
    require_seen(plant, g, m, subject_create_of(g, m, changed_graph(g, changes[i].change)), changes[i].name);

  subject s = subject_create(g, m);
  gradients(g, &s, 0, g->batch);
  assert_int_equal(biased_variance_failures(g, &s), 1);
  subject_destroy(&s);
}

static void test_planted_bugs(void **state) {
  const planted *plant = *state;
  golden g = {.name = plant->name};
  leave_out_if(SANITIZED && plant != plants, "planted bugs in golden files of deep networks: one class of them runs");
  golden_open(&g);
  machine m = {ronde__kernels_available(0), RONDE__GEMM_TILE, 1, NULL};
  if (plant->normalised) require_norm_bugs_seen(plant, &g, &m);
  for (size_t i = 0; i < RONDE__COUNT(plant->biases) && plant->biases[i]; i++) {
    subject s = subject_create(&g, &m);
    zero_param(&s, plant->biases[i]);
    require_seen(plant, &g, &m, s, plant->biases[i]);
  }
  swap_examples(&g);
  require_seen(plant, &g, &m, subject_create(&g, &m), "another order of the batch");
  golden_close(&g);
}

/* Two branches change places; the bias of a convolution in groups is forgotten. */
static void test_planted_bugs_in_blocks(void **state) {
  golden g = {.name = *state};
  golden_open(&g);
  machine m = {ronde__kernels_available(0), RONDE__GEMM_TILE, 1, NULL};
  ronde_graph *graph = make_graph(&g);
  int concat = 0;
  while (graph->nodes[concat].kind != RONDE__OP_CONCAT) concat++;
  int *in = graph->nodes[concat].in, first = in[0];
  in[0] = in[2], in[2] = first;
  subject s = subject_create_of(&g, &m, graph);
  assert_int_not_equal(step_failures(&g, &s, &m, true), 0);
  subject_destroy(&s);

  s = subject_create(&g, &m);
  zero_param(&s, "grouped.bias");
  assert_int_not_equal(step_failures(&g, &s, &m, true), 0);
  subject_destroy(&s);
  golden_close(&g);
}

int main(void) {
  static const char *const cases[] = {
      "alexnet-3x64x64-b4",
      "alexnet-3x64x64-b42",
      "resnet18-3x32x32-b4",
      "resnet18-3x32x32-b42",
      "resnet18-3x48x48-c100-b4",
      "resnet18-1x28x28-b12",
      "resnet18-scaled-3x64x64-b4",
      "resnet18-cifar-3x32x32-b4",
      "resnet18-cifar-3x32x32-b42",
      "resnet18-cifar-1x28x28-c100-b4",
      "resnet18-cifar-scaled-3x32x32-b4",
      "resnet50-3x64x64-b4",
      "resnet50-3x32x32-b42",
      "resnet50-3x48x48-b4",
      "resnet50-scaled-3x64x64-b4",
      "vgg16-tiny-3x32x32-b4",
      "inception-v3-tiny-3x107x107-b4",
      "blocks-3x16x16-b5",
  };
  struct CMUnitTest tests[RONDE__COUNT(cases) + RONDE__COUNT(plants) + 1];
  char names[RONDE__COUNT(plants)][80];
  for (size_t i = 0; i < RONDE__COUNT(cases); i++)
    tests[i] = (struct CMUnitTest){cases[i], test_case, NULL, NULL, (void *)(uintptr_t)cases[i]};
  for (size_t i = 0; i < RONDE__COUNT(plants); i++) {
    snprintf(names[i], sizeof names[i], "planted bugs are seen: %s", plants[i].name);
    tests[RONDE__COUNT(cases) + i] =
        (struct CMUnitTest){names[i], test_planted_bugs, NULL, NULL, (void *)(uintptr_t)&plants[i]};
  }
  tests[RONDE__COUNT(tests) - 1] = (struct CMUnitTest){"planted bugs are seen: blocks", test_planted_bugs_in_blocks,
                                                       NULL, NULL, (void *)(uintptr_t) "blocks-3x16x16-b5"};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

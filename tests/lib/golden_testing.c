/* Golden files, the network under test, and comparing with the bound. */
#include "golden_testing.h"

static uint32_t hash32(uint32_t stream, uint32_t i) {
  uint32_t h = i * 2654435761u + stream * 2246822519u + 374761393u;
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return h ^ h >> 16;
}

void fill_values(uint32_t stream, size_t n, double scale, float *x) {
  for (size_t i = 0; i < n; i++)
    x[i] = (float)((int32_t)(hash32(stream, (uint32_t)i) >> 8) - (1 << 23)) * (float)(scale / (1 << 23));
}

/* All of a tensor up to `sums` elements, a power of two, else as many signed sums that hold every element; the norm of a difference of
 * sketches measures the norm of the difference of the tensors. */
static size_t sketch(const float *x, size_t n, uint32_t sums, double *out) {
  if (n <= sums) {
    for (size_t i = 0; i < n; i++) out[i] = x[i];
    return n;
  }
  memset(out, 0, sums * sizeof *out);
  for (size_t i = 0; i < n; i++) {
    uint32_t h = hash32(SKETCH_STREAM, (uint32_t)i);
    out[h & (sums - 1)] += h >> 31 ? -(double)x[i] : (double)x[i];
  }
  return sums;
}

const json_t *field(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  if (!value) fail_msg("the golden file has no %s", name);
  return value;
}

double number(const json_t *object, const char *name) { return json_number_value(field(object, name)); }

int64_t whole(const json_t *object, const char *name) { return json_integer_value(field(object, name)); }

/* Tokens, and labels up to the length of each example; where it is padded, behind that token 0, and there alone. */
static void make_sequences(golden *g) {
  int64_t steps = g->shape[0];
  bool padded = json_object_get(g->json, "padded");
  for (int64_t i = 0; i < g->examples * steps; i++) {
    int32_t token = padded + (int32_t)(hash32(INPUT_STREAM, (uint32_t)i) % (uint32_t)(g->vocabulary - padded));
    int64_t length = i / steps == 1 ? 1 : 1 + hash32(LENGTH_STREAM, (uint32_t)(i / steps)) % (uint32_t)steps;
    if (padded && i % steps >= length) token = 0;
    memcpy(&g->x[i], &token, sizeof token);
    if (i % steps >= length) g->labels[i] = RONDE_IGNORED;
  }
}

/* Sources up to a length of each example, token 0 behind it; targets, and labels, which have lengths of their own. */
static void make_translations(golden *g) {
  int64_t steps = g->shape[0];
  for (int64_t i = 0; i < g->examples; i++) {
    int64_t length = i == 2 ? 1 : 1 + hash32(SOURCE_STREAM, (uint32_t)i) % (uint32_t)steps;
    for (int64_t t = 0; t < 2 * steps; t++) {
      bool behind = t >= length && t < steps;
      uint32_t hash = hash32(INPUT_STREAM, (uint32_t)(2 * steps * i + t));
      int32_t token = behind ? 0 : 1 + (int32_t)(hash % (uint32_t)(g->vocabulary - 1));
      memcpy(&g->x[2 * steps * i + t], &token, sizeof token);
    }
  }
}

/* Features up to a length of each example, zeros behind it, and the length; the third is too short for its labels. Those have
 * lengths of their own. */
static void make_recordings(golden *g) {
  int64_t frames = g->shape[2], bands = g->shape[1];
  for (int64_t i = 0; i < g->examples; i++) {
    float *row = g->x + i * g->example_elems;
    int64_t length = i == 2 ? 1 : frames - hash32(SOURCE_STREAM, (uint32_t)i) % (uint32_t)(frames / 2);
    int64_t n = i == 2 ? g->label_elems : hash32(LENGTH_STREAM, (uint32_t)i) % (uint32_t)(g->label_elems + 1);
    for (int64_t b = 0; b < bands; b++)
      for (int64_t t = length; t < frames; t++) row[b * frames + t] = 0;
    row[bands * frames] = (float)length;
    for (int64_t s = 0; s < g->label_elems; s++) {
      int64_t *label = &g->labels[i * g->label_elems + s];
      uint32_t hash = hash32(LABEL_STREAM, (uint32_t)(i * g->label_elems + s));
      *label = s < n ? 1 + (int64_t)(hash % (uint32_t)(g->classes - 1)) : RONDE_IGNORED;
    }
  }
}

/* Characters behind the features of a recording and their length: of the second one, 0 behind each one's end. */
static void make_texts(golden *g) {
  int64_t most = g->label_elems;
  for (int64_t i = 0; i < g->examples; i++) {
    int64_t n = i == 1 ? 1 : 1 + hash32(LENGTH_STREAM, (uint32_t)i) % (uint32_t)most;
    for (int64_t s = 0; s < most; s++) {
      uint32_t hash = hash32(LABEL_STREAM, (uint32_t)(i * most + s));
      int32_t token = s < n ? 1 + (int32_t)(hash % (uint32_t)(g->classes - 1)) : 0;
      memcpy(&g->x[(i + 1) * g->example_elems - most + s], &token, sizeof token);
    }
  }
}

void golden_open(golden *g) {
  char path[1024];
  json_error_t error;
  snprintf(path, sizeof path, "%s/tests/golden/%s.json", RONDE_SOURCE_DIR, g->name);
  g->json = json_load_file(path, 0, &error);
  if (!g->json) fail_msg("%s:%d: %s", path, error.line, error.text);
  g->example_elems = 1;
  const json_t *vocabulary = json_object_get(g->json, "vocabulary");
  g->vocabulary = vocabulary ? json_integer_value(vocabulary) : 0;
  g->rank = (int)json_array_size(field(g->json, "shape"));
  for (int d = 0; d < g->rank; d++) {
    g->shape[d] = json_integer_value(json_array_get(field(g->json, "shape"), (size_t)d));
    g->example_elems *= g->shape[d];
  }
  g->classes = whole(g->json, "classes");
  g->batch = whole(g->json, "batch");
  g->examples = whole(g->json, "examples");
  g->decoder = json_object_get(g->json, "decoder");
  if (g->decoder) g->example_elems *= 2;
  g->lengths = json_object_get(g->json, "lengths");
  if (g->lengths) g->example_elems += 1;
  g->text = json_object_get(g->json, "text");
  if (g->text) g->example_elems += whole(g->json, "labels");
  size_t elems = (size_t)(g->examples * g->example_elems);
  g->x = malloc(elems * sizeof *g->x);
  g->label_elems = g->vocabulary ? g->shape[0] : g->lengths ? whole(g->json, "labels") : 1;
  g->labels = malloc((size_t)(g->examples * g->label_elems) * sizeof *g->labels);
  assert_true(g->x && g->labels);
  const json_t *stream = json_object_get(g->json, "input_stream");
  fill_values(stream ? (uint32_t)json_integer_value(stream) : INPUT_STREAM, elems, 1, g->x);
  for (int64_t i = 0; i < g->examples * g->label_elems; i++)
    g->labels[i] = hash32(LABEL_STREAM, (uint32_t)i) % (uint32_t)g->classes;
  if (g->vocabulary) make_sequences(g);
  if (g->decoder) make_translations(g);
  if (g->lengths) make_recordings(g);
  if (g->text) make_texts(g);
}

/* For one tensor at a time. Kept until golden_close(), because fresh pages take longer than what is computed in them. */
static float *place;
static size_t place_elems;

static float *place_for(size_t elems) {
  if (elems <= place_elems) return place;
  free(place);
  place = malloc(elems * sizeof *place);
  assert_non_null(place);
  place_elems = elems;
  return place;
}

void golden_close(golden *g) {
  free(place);
  place = NULL, place_elems = 0;
  json_decref(g->json);
  free(g->x);
  free(g->labels);
}

/* Blocks of tests/golden/models.py, in public calls. */
static ronde_tensor *build_blocks(const ronde_tensor *x, int64_t classes) {
  ronde_conv2d_options three = {.out_channels = 16, .kernel = {3, 3}, .padding = {1, 1}};
  ronde_conv2d_options one = {.out_channels = 24, .kernel = {1, 1}, .no_bias = true};
  x = ronde_tanh(ronde_conv2d(x, "conv1", &three));
  ronde_pool2d_options pool = {.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}};
  const ronde_tensor *branches[4] = {ronde_conv2d(x, "branch1", &one), NULL, x, NULL};
  three.out_channels = 40, three.no_bias = true, one.out_channels = 12;
  branches[1] = ronde_conv2d(x, "branch2", &three);
  branches[3] = ronde_conv2d(ronde_avg_pool2d(x, &pool), "branch3", &one);
  x = ronde_relu(ronde_batch_norm2d(ronde_concat(branches, 4), "bn1", NULL));
  three.out_channels = three.groups = 92, three.stride[0] = three.stride[1] = 2;
  x = ronde_relu(ronde_batch_norm2d(ronde_conv2d(x, "depthwise", &three), "bn2", NULL));
  one.out_channels = 64, one.no_bias = false;
  x = ronde_conv2d(x, "pointwise", &one);
  three = (ronde_conv2d_options){.out_channels = 48, .kernel = {3, 3}, .padding = {1, 1}, .groups = 4};
  x = ronde_relu(ronde_conv2d(x, "grouped", &three));
  return ronde_linear(ronde_flatten(ronde_adaptive_avg_pool2d(x, 1, 1)), "fc", classes, true);
}

/* Recurrent of tests/golden/models.py. */
static ronde_tensor *build_recurrent(ronde_graph *graph, const ronde_tensor *x, int64_t classes) {
  static const int64_t of_lstm[] = {4, 10}, of_gru[] = {4, 7};
  const int64_t row[] = {1, classes};
  ronde_tensor *h, *c;
  ronde_recurrent_options lstm = {.hidden = 10, .layers = 2, .both_directions = true, .lengths = ronde_lengths(x, 0)};
  ronde_recurrent_options gru = lstm;
  lstm.hidden_0 = ronde_parameter(graph, "hidden_0", 2, of_lstm, NULL, false);
  lstm.cell_0 = ronde_parameter(graph, "cell_0", 2, of_lstm, NULL, false);
  gru.hidden = 7, gru.hidden_0 = ronde_parameter(graph, "gru_0", 2, of_gru, NULL, false);
  ronde_tensor *y = ronde_lstm(ronde_embedding(x, "embedding", 12, 0), "lstm", &lstm, NULL, &c);
  y = ronde_gru(y, "gru", &gru, &h);
  ronde_tensor *ends = ronde_add(ronde_linear(ronde_flatten(c), "of_cells", classes, true),
                                 ronde_linear(ronde_flatten(h), "of_states", classes, true));
  return ronde_add(ronde_linear(y, "fc", classes, true), ronde_reshape(ends, 2, row));
}

static ronde_tensor *build_network(ronde_graph *graph, ronde_tensor *x, const char *name, const golden *g) {
  const ronde__model *model = ronde__model_find(name);
  ronde__model_options options = {.padding_same = !strcmp(json_string_value(field(g->json, "padding")), "same"),
                                  .labels = g->label_elems};
  if (!strcmp(name, "blocks")) return build_blocks(x, g->classes);
  if (!strcmp(name, "recurrent")) return build_recurrent(graph, x, g->classes);
  if (!model) fail_msg("no model %s", name);
  return model->build(graph, x, g->classes, &options);
}

ronde_graph *make_graph(const golden *g) {
  ronde_graph *graph;
  const char *name = json_string_value(field(g->json, "model"));
  assert_int_equal(ronde_graph_create(&graph), RONDE_OK);
  ronde_tensor *x = g->vocabulary ? ronde_input_tokens(graph, "x", g->rank, g->shape, g->vocabulary)
                                  : ronde_input(graph, "x", g->rank, g->shape);
  if (g->lengths) ronde_input(graph, RONDE__LENGTHS_INPUT, 1, (int64_t[]){1});
  if (g->text) ronde_input_tokens(graph, RONDE__TEXT_INPUT, 1, &g->label_elems, g->classes);
  if (g->decoder) ronde_input_tokens(graph, RONDE__DECODER_INPUT, g->rank, g->shape, g->vocabulary);
  ronde_graph_set_output(graph, build_network(graph, x, name, g));
  assert_int_equal(ronde__graph_finish(graph), RONDE_OK);
  return graph;
}

int find_param(const ronde__net *net, const char *name) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  for (int p = 0; p < n_params; p++)
    if (!strcmp(params[p].name, name)) return p;
  fail_msg("no parameter %s", name);
  return -1;
}

subject subject_create_of(const golden *g, const machine *m, ronde_graph *graph) {
  subject s = {.graph = graph};
  snprintf(s.text, sizeof s.text, "%s, %s, %s, %d threads", g->name, m->kernels->isa,
           m->bf16                       ? ronde__bf16_name(m->bf16)
           : m->gemm == RONDE__GEMM_XSMM ? "xsmm"
                                         : "tile",
           m->threads);
  assert_int_equal(ronde__pool_create(m->threads, &s.pool), RONDE_OK);
  ronde__net_options options = {.compute = {m->kernels, m->gemm, m->bf16}, .pool = s.pool, .training = true};
  assert_int_equal(ronde__net_create(s.graph, &options, &s.net), RONDE_OK);

  int n_params;
  const ronde__net_param *params = ronde__net_params(s.net, &n_params);
  const json_t *wanted = field(g->json, "params");
  int n_wanted = n_params;
  for (int p = 0; p < n_params; p++) {
    const ronde__param *param = &graph->params[params[p].index];
    if (param->fixed) ronde__net_set(s.net, p, param->values);
    n_wanted -= param->fixed;
  }
  assert_int_equal(n_wanted, json_array_size(wanted));
  for (int stream = 0; stream < n_wanted; stream++) {
    const json_t *param = json_array_get(wanted, (size_t)stream), *offset = json_object_get(param, "offset");
    int p = find_param(s.net, json_string_value(field(param, "name")));
    size_t elems = (size_t)ronde__shape_elems(&params[p].shape);
    assert_int_equal(elems, whole(param, "elems"));
    float *values = place_for(elems), more = offset ? (float)json_number_value(offset) : 0;
    fill_values((uint32_t)stream, elems, number(param, "scale"), values);
    for (size_t i = 0; offset && i < elems; i++) values[i] += more;
    ronde__net_set(s.net, p, values);
  }
  return s;
}

subject subject_create(const golden *g, const machine *m) { return subject_create_of(g, m, make_graph(g)); }

void subject_destroy(subject *s) {
  ronde__net_destroy(s->net);
  ronde__pool_destroy(s->pool);
  ronde_graph_destroy(s->graph);
}

double gradients(const golden *g, subject *s, int64_t begin, int64_t end) {
  ronde__net_batch batch = {.n = end - begin,
                            .x = g->x + begin * g->example_elems,
                            .labels = g->labels + begin * g->label_elems,
                            .training = true};
  int64_t counted = 0;
  for (int64_t i = 0; i < batch.n * g->label_elems; i++) counted += batch.labels[i] >= 0;
  batch.label_weight = (float)((double)batch.n / (double)counted);
  ronde__net_result result;
  assert_int_equal(ronde__net_forward(s->net, &batch, 1.0f / (float)batch.n, NULL, &result), RONDE_OK);
  assert_int_equal(ronde__net_backward(s->net, false, NULL), RONDE_OK);
  return result.loss_sum / (double)batch.n;
}

bool within(const char *where, const char *what, double error, double peer_error, double norm, bool quiet) {
  bool is_noise = norm < 1e-3 * peer_error; /* zero but for rounding, such as the gradient of a bias of keys */
  double bound = BOUND * (is_noise ? 2 : 1) * peer_error + FLOOR * norm;
  if (error <= bound) return true; /* false for NaN */
  if (!quiet)
    print_error("%s: %s: error %.3g, bound %.3g (PyTorch f32: %.3g, norm %.3g)\n", where, what, error, bound,
                peer_error, norm);
  return false;
}

static double tensor_error(const json_t *tensor, const float *x, size_t n) {
  const json_t *wanted = field(tensor, "sketch");
  double mine[SKETCH], error = 0;
  size_t sums = json_array_size(wanted);
  assert_in_range(sums, 1, SKETCH);
  assert_true(sums == n || (sums & (sums - 1)) == 0);
  size_t length = sketch(x, n, (uint32_t)sums, mine);
  assert_int_equal(length, sums);
  for (size_t i = 0; i < length; i++) error += pow(mine[i] - json_number_value(json_array_get(wanted, i)), 2);
  return sqrt(error);
}

int tensor_failures(const json_t *stage, const char *where, const char *name, const float *x, size_t n, bool quiet) {
  const json_t *tensor = field(field(stage, "tensors"), name);
  return !within(where, name, tensor_error(tensor, x, n), number(tensor, "error"), number(tensor, "norm"), quiet);
}

int net_failures(const json_t *stage, const subject *s, bool gradient, bool quiet) {
  int n_params, failures = 0;
  const ronde__net_param *params = ronde__net_params(s->net, &n_params);
  for (int p = 0; p < n_params && !(quiet && failures); p++) {
    if (s->graph->params[params[p].index].fixed) continue;
    size_t elems = (size_t)ronde__shape_elems(&params[p].shape);
    float *values = place_for(elems);
    (gradient ? ronde__net_get_gradient : ronde__net_get)(s->net, p, values);
    failures += tensor_failures(stage, s->text, params[p].name, values, elems, quiet);
  }
  return failures;
}

double net_mean_error(const json_t *stage, const subject *s) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(s->net, &n_params);
  double sum = 0;
  int n = 0;
  for (int p = 0; p < n_params; p++) {
    if (s->graph->params[params[p].index].fixed) continue;
    const json_t *tensor = field(field(stage, "tensors"), params[p].name);
    size_t elems = (size_t)ronde__shape_elems(&params[p].shape);
    float *values = place_for(elems);
    ronde__net_get_gradient(s->net, p, values);
    sum += tensor_error(tensor, values, elems) / number(tensor, "error");
    n++;
  }
  return sum / n;
}

int loss_failures(const json_t *stage, const char *where, const double *losses, size_t n, bool quiet) {
  const json_t *f64 = field(stage, "losses_f64"), *f32 = field(stage, "losses_f32");
  double peer_error = 0;
  int failures = 0;
  for (size_t k = 0; k < n; k++)
    peer_error =
        fmax(peer_error, fabs(json_number_value(json_array_get(f32, k)) - json_number_value(json_array_get(f64, k))));
  for (size_t k = 0; k < n; k++) {
    char what[40];
    double wanted = json_number_value(json_array_get(f64, k));
    snprintf(what, sizeof what, "loss of step %zu", k + 1);
    failures += !within(where, what, fabs(losses[k] - wanted), peer_error, fabs(wanted), quiet);
  }
  return failures;
}

/* Trainings within a test's process, and what they leave behind. */
#include "train_testing.h"

#include "base/rng.h"

#include "lib/folder.h"

void (*observe_also)(ronde__run *run);
ronde_status (*observe_on)(int n_ranks, ronde__transport **transports_out) = ronde__transport_threads;
const ronde__strategy *real;

float small_noise(int64_t id, int64_t i) {
  uint32_t bits = (uint32_t)(id * 2654435761u) ^ (uint32_t)(i * 40503u + 12345u);
  bits = (bits ^ bits >> 15) * 2246822519u;
  bits = (bits ^ bits >> 13) * 3266489917u;
  return (float)((bits ^ bits >> 16) & 0xffff) / 65536.f - .5f;
}

ronde_status small_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                        float *targets) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t id = ids[i] + (split == RONDE_SPLIT_TEST ? 1000000 : 0), label = id % SMALL_CLASSES;
    float *image = x + i * SMALL_PIXELS;
    for (int p = 0; p < SMALL_PIXELS; ++p) image[p] = small_noise(id, p) + (p / SMALL_SIDE == label ? 1.f : 0.f);
    if (labels) labels[i] = label;
    for (int k = 0; targets && k < SMALL_VALUES; ++k)
      targets[i * SMALL_VALUES + k] = image[k] + 2 * image[k + SMALL_SIDE];
  }
  return RONDE_OK;
}

ronde_source small_source(int64_t n_train, int64_t n_test) {
  return (ronde_source){.name = "small",
                        .rank = 3,
                        .dims = {1, SMALL_SIDE, SMALL_SIDE},
                        .classes = SMALL_CLASSES,
                        .n_examples = {n_train, n_test},
                        .read = small_read};
}

ronde_source small_values(int64_t n_train, int64_t n_test) {
  ronde_source source = small_source(n_train, n_test);
  source.classes = 0;
  source.target_elems = SMALL_VALUES;
  return source;
}

ronde_tensor *small_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 5, .kernel = {3, 3}, .padding = {1, 1}});
  x = ronde_max_pool2d(ronde_relu(x), &(ronde_pool2d_options){.kernel = {2, 2}});
  x = ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 11, true));
  return ronde_linear(x, "fc2", classes, true);
}

ronde_tensor *dead_taps_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  ronde_conv2d_options conv = {.out_channels = 40, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  x = ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {2, 2}});
  x = ronde_tanh(ronde_conv2d(ronde_tanh(ronde_conv2d(x, "conv1", &conv)), "conv2", &conv));
  x = ronde_tanh(ronde_conv2d(ronde_tanh(ronde_conv2d(x, "conv3", &conv)), "conv4", &conv));
  return ronde_linear(ronde_flatten(x), "fc1", classes, true);
}

ronde_tensor *small_regression(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_linear(ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 7, true)), "fc2", SMALL_VALUES, true);
  ronde_graph_set_loss(graph, ronde_mse_loss(x, ronde_target(graph)));
  return x;
}

ronde_config *config_make(const char *verb, const char *options) {
  ronde_config *config;
  assert_int_equal(ronde_config_create(verb, &config), RONDE_OK);
  char *copy = strdup(options), *rest = copy, *word;
  while ((word = strsep(&rest, " "))) {
    char *value = strchr(word, '=');
    if (!value) continue;
    *value++ = '\0';
    assert_int_equal(ronde_config_set(config, word, value), RONDE_OK);
  }
  free(copy);
  return config;
}

json_t *json_of(char *text) {
  assert_non_null(text);
  json_error_t error;
  json_t *json = json_loads(text, 0, &error);
  if (!json) fail_msg("no JSON, line %d: %s", error.line, error.text);
  free(text);
  return json;
}

ronde_status job_try(const char *verb, const char *options, const ronde_hooks *hooks, char **json_out) {
  ronde_config *config = config_make(verb, options);
  ronde_status status = RONDE_E_INTERNAL;
  *json_out = NULL;
  if (!strcmp(verb, "train")) status = ronde_train(config, hooks, json_out);
  if (!strcmp(verb, "eval")) status = ronde_eval(config, hooks, json_out);
  if (!strcmp(verb, "predict")) status = ronde_predict(config, hooks, json_out);
  if (!strcmp(verb, "init")) status = ronde_init(config, hooks, json_out);
  ronde_config_destroy(config);
  return status;
}

json_t *job_run(const char *verb, const char *options, const ronde_hooks *hooks) {
  char *text;
  ronde_status status = job_try(verb, options, hooks, &text);
  if (status != RONDE_OK) fail_msg("%s %s: status %d", verb, options, status);
  return json_of(text);
}

json_t *small_job(ronde_model_fn model, const char *format, ...) {
  char options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(options, sizeof options, format, args);
  va_end(args);
  ronde_source source = small_source(40, 8);
  return job_run("train", options, &(ronde_hooks){.model = model, .source = &source});
}

json_t *json_at(json_t *json, const char *path) {
  char *copy = strdup(path), *rest = copy, *word;
  while (json && (word = strsep(&rest, ".")))
    json = json_is_array(json) ? json_array_get(json, (size_t)atoi(word)) : json_object_get(json, word);
  free(copy);
  return json;
}

double real_at(json_t *json, const char *path) {
  json_t *value = json_at(json, path);
  if (!json_is_number(value)) fail_msg("%s is no number", path);
  return json_number_value(value);
}

const char *text_at(json_t *json, const char *path) {
  json_t *value = json_at(json, path);
  if (!json_is_string(value)) fail_msg("%s is no text", path);
  return json_string_value(value);
}

json_t *json_file(const char *folder, const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  json_error_t error;
  json_t *json = json_load_file(path, 0, &error);
  if (!json) fail_msg("%s: line %d: %s", path, error.line, error.text);
  free(path);
  return json;
}

bool file_exists(const char *folder, const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  bool exists = access(path, F_OK) == 0;
  free(path);
  return exists;
}

json_t *steps_file(const char *folder) {
  char *path = ronde__format("%s/steps.jsonl", folder), *line = NULL;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t capacity = 0;
  json_t *steps = json_array();
  while (getline(&line, &capacity, file) > 0) {
    json_t *step = json_loads(line, 0, NULL);
    if (!step) fail_msg("%s: no JSON: %s", path, line);
    json_array_append_new(steps, step);
  }
  free(line);
  fclose(file);
  free(path);
  return steps;
}

static void observe_progress(void *user, const ronde_progress *progress) {
  observed *o = user;
  if (progress->epoch_end) {
    o->n_epochs = progress->epoch;
    o->train_loss = progress->loss;
    o->test_loss = progress->test_loss;
    return;
  }
  assert_true(o->n_steps < OBSERVED_STEPS);
  o->loss[o->n_steps] = progress->loss;
  o->lr[o->n_steps++] = progress->lr;
}

/* Of a net, or of a stage of one: its tensors in their places among the graph's. */
static void observe_net(ronde__net *net, const ronde_graph *graph, observed *o) {
  int n_params, n_buffers;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  const ronde__net_buffer *buffers = ronde__net_buffers(net, &n_buffers);
  float *next = o->weights;
  for (int i = 0, own = 0; i < graph->n_params; next += ronde__shape_elems(&graph->params[i++].shape))
    if (own < n_params && params[own].index == i) ronde__net_get(net, own++, next);
  for (int i = 0, own = 0; i < graph->n_buffers; ++i) {
    bool has = own < n_buffers && buffers[own].index == i;
    if (has && !graph->buffers[i].is_counter) ronde__net_get_buffer(net, own, next);
    own += has;
    if (!graph->buffers[i].is_counter) next += ronde__shape_elems(&graph->buffers[i].shape);
  }
}

static void observe_weights(ronde__run *run, observed *o) {
  const ronde_graph *graph = run->ranks[0].graph;
  int n_stages = run->job->n_stages;
  for (int i = 0; i < graph->n_params; ++i) o->n_weights += (size_t)ronde__shape_elems(&graph->params[i].shape);
  for (int i = 0; i < graph->n_buffers; ++i)
    if (!graph->buffers[i].is_counter) o->n_buffers += (size_t)ronde__shape_elems(&graph->buffers[i].shape);
  o->weights = malloc((o->n_weights + o->n_buffers) * sizeof *o->weights);
  o->buffers = o->weights + o->n_weights;
  for (int s = 0; s < n_stages; ++s) observe_net(run->ranks[s].net, graph, o);
  for (int r = 0; r < o->world; ++r)
    if (n_stages > 1) memcpy(o->sha256[r], run->weights_sha256, sizeof o->sha256[r]);
    else assert_int_equal(ronde__weights_sha256(run->ranks[r].net, NULL, o->sha256[r]), RONDE_OK);
}

observed observe(const char *options, const ronde_source *source, ronde_model_fn model,
                 void (*tamper)(ronde__job *job)) {
  observed o = {0};
  ronde_hooks hooks = {.model = model, .source = source, .progress = observe_progress, .user = &o};
  ronde_config *config = config_make("train", options);
  ronde__run run = {.begin_ns = ronde__now_ns()};
  ronde__record_begin(&run.record);
  if (ronde__job_create(config, &hooks, &run.job)) fail_msg("no job: %s", options);
  ronde_config_destroy(config);
  if (tamper) tamper(run.job);
  int world = o.world = run.job->roles.n_workers;
  ronde__transport *transports[OBSERVED_RANKS];
  ronde__rank ranks[OBSERVED_RANKS] = {{0}};
  ronde__record_worker workers[OBSERVED_RANKS] = {{0}};
  int n_ranks = run.job->roles.n_ranks;
  assert_true(n_ranks <= OBSERVED_RANKS && run.job->roles.n_members <= OBSERVED_RANKS);
  run.transports = transports;
  run.ranks = ranks;
  run.n_ranks = n_ranks;
  run.workers = workers;
  bool self = ronde__roles_alone(&run.job->roles) && run.job->options->transport != RONDE__TRANSPORT_THREADS;
  assert_int_equal(self ? ronde__transport_self(transports) : observe_on(n_ranks, transports), RONDE_OK);
  ronde__guard_init(&run.guard);
  o.status = ronde__run_ranks(&run);
  if (o.status == RONDE_OK) observe_weights(&run, &o);
  if (o.status == RONDE_OK && observe_also) observe_also(&run);
  for (int r = 0; r < world; ++r) o.examples += workers[r].examples;
  for (int r = 0; r < n_ranks; ++r) ronde__rank_tear_down(&ranks[r]);
  for (int r = 0; r < n_ranks; ++r) ronde__transport_destroy(transports[r]);
  ronde__log_group_clear(&run.errors);
  ronde__record_end(&run.record);
  ronde__job_destroy(run.job);
  ronde__guard_destroy(&run.guard);
  return o;
}

ronde__strategy *plant_strategy(ronde__job *job,
                                ronde_status (*create)(ronde__worker *worker, const ronde__strategy_settings *settings,
                                                       void **state_out),
                                ronde_status (*step)(void *state, const ronde__step *step,
                                                     ronde__step_result *result_out)) {
  static ronde__strategy planted;
  planted = *(real = job->strategy);
  if (create) planted.create = create;
  if (step) planted.step = step;
  job->strategy = &planted;
  return &planted;
}

bool replicas_equal(const observed *o) {
  for (int r = 1; r < o->world; ++r)
    if (strcmp(o->sha256[0], o->sha256[r])) return false;
  return true;
}

bool bits_equal(const observed *a, const observed *b) {
  return a->n_steps == b->n_steps && !memcmp(a->loss, b->loss, sizeof a->loss) && !strcmp(a->sha256[0], b->sha256[0]);
}

double update_difference(const observed *a, const observed *b, const observed *fresh) {
  double difference = 0, update = 0;
  assert_int_equal(a->n_weights, b->n_weights);
  for (size_t i = 0; i < a->n_weights; ++i) {
    difference = fmax(difference, fabs((double)a->weights[i] - b->weights[i]));
    update = fmax(update, fabs((double)b->weights[i] - fresh->weights[i]));
  }
  assert_true(update > 0);
  return difference / update;
}

ronde_status small_nan_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                            float *targets) {
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n; i++)
    if (ids[i] == 13 && split == RONDE_SPLIT_TRAIN) x[i * SMALL_PIXELS] = NAN;
  return RONDE_OK;
}

ronde_status small_huge_read(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                             float *targets) {
  RONDE_TRY(small_read(NULL, split, ids, n, x, labels, targets));
  for (int64_t i = 0; i < n && split == RONDE_SPLIT_TRAIN; ++i)
    if (ids[i] == 7) x[i * SMALL_PIXELS] = INFINITY;
  return RONDE_OK;
}

ronde_tensor *saturating_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  return ronde_linear(ronde_tanh(ronde_linear(ronde_flatten(x), "fc1", 4, false)), "fc2", classes, false);
}

ronde_status train_on(const char *options, ronde_source source, ronde_model_fn model, json_t **run_out) {
  ronde_hooks hooks = {.model = model, .source = &source};
  ronde_config *config = config_make("train", options);
  char *text = NULL;
  test_log_start(&lines);
  ronde_status status = ronde_train(config, &hooks, &text);
  ronde_config_destroy(config);
  *run_out = text ? json_of(text) : NULL;
  return status;
}

/* ---- small problems ---- */

ronde__sim_options virtual_links = {.within = {10e-6, 1e-9}, .seed = 3};

ronde_status make_virtual(int n_ranks, ronde__transport **transports_out) {
  virtual_links.n = n_ranks;
  return ronde__transport_sim(&virtual_links, transports_out);
}

void set_up_virtual_losses(ronde__job *job, int on_loss) {
  static ronde__sim_net net;
  job->config->options.on_loss = on_loss;
  job->sim = &net;
  assert_int_equal(ronde__set_up_losses(job), RONDE_OK);
  job->sim = NULL;
}

ronde__link_class links_by_lot(const void *user, int from, int to) {
  uint32_t lot[4];
  ronde__philox(*(const uint64_t *)user, RONDE__STREAM_VIRTUAL, (uint64_t)(from * OBSERVED_RANKS + to), lot);
  return (ronde__link_class){1e-9 * (lot[0] % 100000), 1e-9 * (lot[1] % 64) / 8};
}

observed observe_small(const small_problem *p, const char *format, ...) {
  char more[256], options[512];
  va_list args;
  va_start(args, format);
  vsnprintf(more, sizeof more, format, args);
  va_end(args);
  snprintf(options, sizeof options, "%s threads=1 %s", p->options, more);
  ronde_source source = p->values ? small_values(p->n_train, p->n_test) : small_source(p->n_train, p->n_test);
  observed o = observe(options, p->model ? &source : NULL, p->model, NULL);
  if (o.status != RONDE_OK) fail_msg("%s %s: status %d", p->name, options, o.status);
  return o;
}

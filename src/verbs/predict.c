/* ronde_predict: the most probable classes of images or rows, or the values that the network tells, one by one; a text is
 * continued (text.h), a recording is transcribed (transcribe.h). */
#include "base/json.h"
#include "data/columns.h"
#include "job/normalize.h"
#include "setup/setup.h"
#include "state/weights.h"
#include "verbs/inputs.h"
#include "verbs/text.h"
#include "verbs/transcribe.h"
#include "verbs/translate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PREDICT_CHUNK = 64 };

/* A prediction under way. */
typedef struct prediction {
  ronde__job *job;
  ronde__columns *columns; /* of the weights' table; NULL: it has no names */
  ronde__inputs *inputs;
  ronde_graph *graph;
  ronde__pool *pool;
  ronde__net *net;
  int64_t n_outputs, n_told;
  int top;
  float *y; /* [PREDICT_CHUNK][n_outputs] */
  int64_t *classes;
  double *probabilities;
  const char **names; /* [top], and so are the two above */
  json_t *examples;   /* NULL: nobody wants the whole as JSON */
} prediction;

/* ---- set-up ---- */

static ronde_status take_columns(prediction *p) {
  const ronde__job *job = p->job;
  ronde__columns_options options = {.known = ronde__safetensors_meta(job->init, RONDE__META_COLUMNS),
                                    .source = job->init_path};
  return options.known ? ronde__columns_create(&options, &p->columns) : RONDE_OK;
}

static ronde_status open_inputs(prediction *p) {
  const ronde__job *job = p->job;
  const ronde__options *o = job->options;
  RONDE_TRY(take_columns(p));
  const ronde__inputs_options options = {.spec = o->input ? o->input : "",
                                         .channels = job->shape.rank == 3 ? job->shape.dim[0] : 1,
                                         .resize = {job->resize[0], job->resize[1]},
                                         .layout = (ronde__image_layout)o->layout,
                                         .columns = p->columns,
                                         .skip_bad = o->skip_bad_images,
                                         .chunk = PREDICT_CHUNK};
  RONDE_TRY(ronde__inputs_open(&options, &p->inputs));
  if (job->shape.rank == 1 && !job->file && ronde__inputs_have_pictures(p->inputs))
    return ronde__fail(RONDE_E_USAGE, "%s is for rows of a table: %snpy files (N, F) are needed, not images",
                       job->init_path, p->columns ? "csv or " : "");
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_CLASSES, job->targets == 0));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_ARRAYS, ronde__inputs_have_arrays(p->inputs)));
  return ronde__config_settle(job->config, RONDE__NEED_IMAGE_FILES, ronde__inputs_have_pictures(p->inputs));
}

static ronde_status make_net(prediction *p) {
  ronde__job *job = p->job;
  RONDE_TRY(ronde__job_graph(job, &p->graph));
  RONDE_TRY(ronde__weights_check(p->graph, job->init, job->init_path, NULL));
  RONDE_TRY(ronde__class_names_read(job->init, job->init_path, &job->class_names));
  RONDE_TRY(ronde__pool_create(job->threads, &p->pool));
  ronde__net_options options = ronde__job_net_options(job, p->pool, NULL, false);
  RONDE_TRY(ronde__net_create(p->graph, &options, &p->net));
  ronde__weights_load(p->net, job->init, false);
  return RONDE_OK;
}

static ronde_status predict_make_room(prediction *p) {
  p->n_outputs = ronde__shape_elems(&p->graph->tensors[p->graph->output]->shape);
  p->top = (int)ronde__min(p->job->options->top, p->n_outputs);
  RONDE__ALLOC(p->y, (size_t)(PREDICT_CHUNK * p->n_outputs) * sizeof *p->y, "prediction");
  RONDE__ALLOC(p->classes, (size_t)p->top * sizeof *p->classes, "prediction");
  RONDE__ALLOC(p->probabilities, (size_t)p->top * sizeof *p->probabilities, "prediction");
  RONDE__ALLOC(p->names, (size_t)p->top * sizeof *p->names, "prediction");
  return RONDE_OK;
}

static ronde_status set_up(prediction *p) {
  RONDE_TRY(open_inputs(p));
  RONDE_TRY(ronde__inputs_shape(p->inputs, &p->job->shape));
  if (p->job->file) ronde__onnx_fit(p->job->file, &p->job->shape);
  RONDE_TRY(ronde__check_input(p->job));
  ronde__normalization by;
  RONDE_TRY(ronde__normalize_input(p->job, &by));
  ronde__inputs_normalize(p->inputs, &by);
  RONDE_TRY(make_net(p));
  return predict_make_room(p);
}

static void tear_down(prediction *p) {
  ronde__net_destroy(p->net);
  ronde__pool_destroy(p->pool);
  ronde_graph_destroy(p->graph);
  ronde__inputs_close(p->inputs);
  ronde__columns_destroy(p->columns);
  ronde__free(p->y);
  ronde__free(p->classes);
  ronde__free(p->probabilities);
  ronde__free(p->names);
  json_decref(p->examples);
}

/* ---- examples ---- */

static void softmax(float *y, int64_t n) {
  float max = y[0];
  double sum = 0;
  for (int64_t k = 1; k < n; k++) max = y[k] > max ? y[k] : max;
  for (int64_t k = 0; k < n; k++) sum += y[k] = expf(y[k] - max);
  for (int64_t k = 0; k < n; k++) y[k] = (float)(y[k] / sum);
}

/* The likeliest first; y is used up. */
static void find_top(prediction *p, float *y) {
  const ronde__class_names *names = &p->job->class_names;
  for (int i = 0; i < p->top; i++) {
    int64_t best = 0;
    for (int64_t k = 1; k < p->n_outputs; k++)
      if (y[k] > y[best]) best = k;
    p->classes[i] = best;
    p->probabilities[i] = (double)y[best];
    p->names[i] = best < names->n ? names->name[best] : NULL;
    y[best] = -1;
  }
}

static void add_json(prediction *p, const ronde_prediction *told) {
  json_t *classes = json_array();
  for (int i = 0; i < told->n; i++) {
    json_t *row = json_pack("{s:I, s:f}", "class", (json_int_t)told->classes[i], "probability", told->probabilities[i]);
    if (told->names[i]) json_object_set_new(row, "name", ronde__json_text(told->names[i]));
    json_array_append_new(classes, row);
  }
  json_t *values = json_array();
  for (int i = 0; i < told->n_values; i++) json_array_append_new(values, json_real((double)told->values[i]));
  json_t *example = json_pack("{s:o, s:I}", "file", ronde__json_text(told->file), "index", (json_int_t)told->index);
  json_object_set(example, told->n_values ? "values" : "classes", told->n_values ? values : classes);
  json_array_append_new(p->examples, example);
  json_decref(values);
  json_decref(classes);
}

static bool are_finite(const float *y, int64_t n) {
  for (int64_t k = 0; k < n; k++)
    if (!isfinite(y[k])) return false;
  return true;
}

/* As they are, or of several labels the probability of each; y is used up. */
static void find_values(prediction *p, float *y, ronde_prediction *told) {
  bool are_labels = p->job->options->loss == RONDE__LOSS_BCE;
  for (int64_t k = 0; k < p->n_outputs && are_labels; k++) y[k] = 1 / (1 + expf(-y[k]));
  told->n_values = (int)p->n_outputs;
  told->values = y;
  if (p->columns && p->columns->n_targets == p->n_outputs) told->value_names = (const char *const *)p->columns->target;
}

/* The likeliest classes; y is used up. */
static void find_classes(prediction *p, float *y, ronde_prediction *told) {
  softmax(y, p->n_outputs);
  find_top(p, y);
  told->n = p->top;
  told->classes = p->classes;
  told->probabilities = p->probabilities;
  told->names = p->names;
}

static ronde_status tell_example(prediction *p, const char *file, int64_t index, float *y) {
  const ronde_hooks *hooks = &p->job->hooks;
  ronde_prediction told = {.file = file, .index = index};
  if (!are_finite(y, p->n_outputs))
    return ronde__fail(RONDE_E_NUMERIC, "%s: the network's output for example %lld is NaN or Inf", file,
                       (long long)index);
  if (p->job->targets > 0) find_values(p, y, &told);
  else find_classes(p, y, &told);
  if (hooks->prediction) hooks->prediction(hooks->user, &told);
  if (p->examples) add_json(p, &told);
  p->n_told++;
  return RONDE_OK;
}

static ronde_status predict_all(prediction *p) {
  const ronde_hooks *hooks = &p->job->hooks;
  for (ronde__inputs_chunk chunk;;) {
    if (hooks->cancel && hooks->cancel(hooks->user)) return RONDE_E_CANCELLED;
    RONDE_TRY(ronde__inputs_next(p->inputs, p->pool, &chunk));
    if (chunk.n == 0) return RONDE_OK;
    RONDE_TRY(ronde__net_predict(p->net, chunk.n, chunk.x, p->y));
    for (int64_t i = 0; i < chunk.n; i++)
      RONDE_TRY(tell_example(p, chunk.file[i], chunk.index[i], p->y + i * p->n_outputs));
  }
}

static ronde_status predict_examples(ronde__job *job, char **json_out) {
  prediction p = {.job = job, .examples = json_out ? json_array() : NULL};
  ronde_status status = set_up(&p);
  if (status == RONDE_OK) status = predict_all(&p);
  if (status == RONDE_OK && json_out)
    status = ronde__json_give(
        json_pack("{s:o, s:O}", "input", ronde__json_text(p.job->options->input), "examples", p.examples), "result",
        json_out);
  tear_down(&p);
  return status;
}

static ronde_status predict_job(ronde__job *job, char **json_out) {
  if (!job->init) return ronde__fail(RONDE_E_USAGE, "the weights to predict with are needed: --init FILE");
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_TOKENS, job->vocabulary > 0));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_TRANSLATION, job->vocabulary > 0 && job->more.n > 0));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_BEAM, job->options->beam > 1));
  if (job->vocabulary) return job->more.n ? ronde__text_translate(job, json_out) : ronde__text_continue(job, json_out);
  if (ronde__transcribes(job)) return ronde__transcribe(job, json_out);
  if (job->more.n)
    return ronde__fail(RONDE_E_USAGE, "%s: a network of several inputs is asked through a predictor of the library",
                       job->init_path);
  return predict_examples(job, json_out);
}

ronde_status ronde_predict(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde__job *job;
  RONDE_TRY(ronde__job_create(config, hooks, &job));
  ronde_status status = predict_job(job, json_out);
  ronde__job_destroy(job);
  return status;
}

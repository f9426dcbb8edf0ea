/* Sets up one rank without data or strategy, and times its steps; writes what peers need to do the same work. */
#include "bench/stepper.h"

#include "base/rng.h"
#include "base/machine.h"
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

/* What the batch is called in the file for the peers, beside the parameters. */
#define INPUT_NAME RONDE__RESERVED "x"
#define LABELS_NAME RONDE__RESERVED "labels"

/* ---- set-up ---- */

/* An input of an example: normally distributed, or tokens other than 0, which is padding: sequences are as long as they can
 * be. */
static void draw_input(ronde__rng *rng, const ronde__shape *shape, int64_t vocabulary, float *x) {
  for (int64_t i = 0; i < ronde__shape_elems(shape); i++) {
    if (vocabulary == 0) {
      x[i] = ronde__rng_normal(rng);
      continue;
    }
    int32_t token = vocabulary > 1 ? 1 + (int32_t)ronde__rng_below(rng, (uint64_t)vocabulary - 1) : 0;
    memcpy(&x[i], &token, sizeof token);
  }
}

/* Classes are drawn evenly. Of what is said in a recording there is a label for every third step, as in speech, and none is the
 * blank. */
static int64_t draw_label(const ronde_stepper *s, ronde__rng *rng, int64_t i) {
  const ronde__job *job = s->job;
  if (!job->model || !job->model->lengths) return (int64_t)ronde__rng_below(rng, (uint64_t)job->classes);
  if (i % s->n_labels > s->n_labels / 3) return RONDE_IGNORED;
  return 1 + (int64_t)ronde__rng_below(rng, (uint64_t)job->classes - 1);
}

/* Examples by the seed; recordings are as long as they can be. */
static ronde_status draw_batch(ronde_stepper *s) {
  const ronde__job *job = s->job;
  s->elems = ronde__graph_input_elems(s->graph), s->n_labels = ronde__loss_labels(s->graph);
  RONDE__ALLOC(s->x, (size_t)(job->batch * s->elems) * sizeof *s->x, "bench: the batch");
  RONDE__ALLOC(s->labels, (size_t)(job->batch * s->n_labels) * sizeof *s->labels, "bench: the labels");
  ronde__rng rng = ronde__rng_make((uint64_t)job->options->seed, RONDE__STREAM_SYNTHETIC);
  for (int64_t n = 0; n < job->batch; n++) {
    float *x = s->x + n * s->elems;
    draw_input(&rng, &job->shape, job->vocabulary, x);
    x += ronde__shape_elems(&job->shape);
    for (int i = 0; i < job->more.n; x += ronde__shape_elems(&job->more.at[i].shape), i++)
      if (strcmp(job->more.at[i].name, RONDE__LENGTHS_INPUT) == 0) x[0] = (float)job->shape.dim[job->shape.rank - 1];
      else draw_input(&rng, &job->more.at[i].shape, job->more.at[i].vocabulary, x);
  }
  for (int64_t i = 0; i < job->batch * s->n_labels; i++) s->labels[i] = draw_label(s, &rng, i);
  return RONDE_OK;
}

static ronde_status make_net(ronde_stepper *s, bool rows_by_layer) {
  const ronde__job *job = s->job;
  ronde__worker *w = &s->worker;
  ronde__net_options options = ronde__job_net_options(job, w->pool, w->prof, true);
  options.transient_gradients = job->fused_update;
  options.taker_name = ronde_config_get(job->config, "optimizer");
  options.taker_bytes = 2 * (sizeof(float) + ronde__optim_state_bytes(&job->optim, 1)); /* read and written */
  options.rows_by_layer = rows_by_layer;
  if (!options.taker_name) return RONDE_E_MEMORY;
  w->update_slot = ronde__prof_op_slot(w->prof, options.taker_name, RONDE__PHASE_UPDATE, job->compute.kernels->isa);
  RONDE_TRY(ronde__net_create(s->graph, &options, &w->net));
  RONDE_TRY(ronde__net_prepare(w->net, job->batch));
  return ronde__net_init(w->net, (uint64_t)job->options->seed);
}

static ronde_status set_up_stepper(ronde_stepper *s, bool rows_by_layer) {
  const ronde__job *job = s->job;
  ronde__worker *w = &s->worker;
  *w = (ronde__worker){.kernels = job->compute.kernels, .fused_update = job->fused_update, .batch = job->batch};
  RONDE_TRY(ronde__job_graph(job, &s->graph));
  RONDE_TRY(ronde__transport_self(&w->transport));
  RONDE_TRY(ronde__pool_create(job->threads, &w->pool));
  if (rows_by_layer) RONDE_TRY(ronde__prof_create(0, NULL, false, &w->prof));
  RONDE_TRY(make_net(s, rows_by_layer));
  RONDE_TRY(ronde__job_optim(job, w->net, &w->optim));
  return draw_batch(s);
}

ronde_status ronde__stepper_create(const ronde_config *config, bool rows_by_layer, ronde_stepper **stepper_out) {
  ronde_stepper *s;
  RONDE__ALLOC(s, sizeof *s, "bench");
  ronde_status status = ronde__job_create(config, NULL, &s->job);
  if (status == RONDE_OK) status = set_up_stepper(s, rows_by_layer);
  if (status != RONDE_OK) ronde_stepper_destroy(s);
  else *stepper_out = s;
  return status;
}

ronde_status ronde_stepper_create(const ronde_config *config, ronde_stepper **stepper_out) {
  return ronde__stepper_create(config, false, stepper_out);
}

void ronde_stepper_destroy(ronde_stepper *s) {
  if (!s) return;
  ronde__optim_destroy(s->worker.optim);
  ronde__net_destroy(s->worker.net);
  ronde__prof_destroy(s->worker.prof);
  ronde__pool_destroy(s->worker.pool);
  ronde__transport_destroy(s->worker.transport);
  ronde_graph_destroy(s->graph);
  ronde__job_destroy(s->job);
  ronde__free(s->x);
  ronde__free(s->labels);
  ronde__free(s);
}

/* ---- steps ---- */

ronde_status ronde__stepper_step(ronde_stepper *s, double *loss_out) {
  const ronde__job *job = s->job;
  ronde__net_batch batch = {.n = job->batch,
                            .x = s->x,
                            .labels = s->labels,
                            .label_weight = 1.0f / (float)s->n_labels,
                            .training = true,
                            .seed = (uint64_t)job->options->seed,
                            .step = (uint64_t)++s->n_steps};
  ronde__step_result result;
  RONDE_TRY(ronde__worker_step_on(&s->worker, &batch, job->optim.lr, &result));
  if (result.broken_rank >= 0)
    return ronde__fail(RONDE_E_NUMERIC, "bench: step %lld has produced NaN or Inf", (long long)s->n_steps);
  *loss_out = result.loss_sum / (double)job->batch;
  return RONDE_OK;
}

ronde_status ronde_stepper_run(ronde_stepper *s, int64_t n, double *seconds_out, double *loss_out) {
  for (int64_t i = 0; i < n; i++) {
    uint64_t begin = ronde__now_ns();
    RONDE_TRY(ronde__stepper_step(s, loss_out));
    seconds_out[i] = (double)(ronde__now_ns() - begin) * 1e-9;
  }
  return RONDE_OK;
}

ronde_status ronde_stepper_describe(const ronde_stepper *s, char **json_out) {
  const ronde__job *job = s->job;
  json_t *shape = json_array();
  for (int i = 0; i < job->shape.rank; i++) json_array_append_new(shape, json_integer(job->shape.dim[i]));
  json_t *json =
      json_pack("{s:s, s:s, s:o, s:I, s:s, s:I, s:I, s:I, s:s, s:s, s:f, s:f, s:i, s:o}", "system", "ronde", "model",
                job->model_name, "shape", shape, "classes", (json_int_t)job->classes, "padding",
                job->options->padding == RONDE__PADDING_SAME ? "same" : "valid", "batch", (json_int_t)job->batch,
                "parameters", (json_int_t)ronde_graph_parameters(s->graph), "forward_flops_per_example",
                (json_int_t)ronde_graph_forward_flops(s->graph), "dtype", job->compute.bf16 ? "bf16" : "f32",
                "optimizer", ronde_config_get(job->config, "optimizer"), "momentum", job->options->momentum, "lr",
                job->optim.lr, "threads", job->threads, "machine", ronde__machine_json(job->compute.kernels->isa));
  char *text = json ? json_dumps(json, JSON_REAL_PRECISION(15)) : NULL;
  json_decref(json);
  if (!text) return ronde__fail(RONDE_E_MEMORY, "bench: no memory for the description");
  *json_out = text;
  return RONDE_OK;
}

/* ---- the file for the peers ---- */

typedef struct fetching {
  const ronde_stepper *stepper;
  float *logical;  /* of the parameter that was asked for last */
  int64_t *tokens; /* of the batch; NULL: it is values */
} fetching;

/* Parameters by their index, then inputs and labels; each as a whole. */
static ronde_status fetch_tensor(void *user, int i, int64_t first, const void **data_out, int64_t *n_out) {
  fetching *f = user;
  const ronde_stepper *s = f->stepper;
  int n_params;
  const ronde__net_param *params = ronde__net_params(s->worker.net, &n_params);
  if (i < n_params) {
    ronde__net_get(s->worker.net, i, f->logical);
    *data_out = f->logical;
    *n_out = ronde__shape_elems(&params[i].shape);
  } else if (i == n_params) {
    *data_out = f->tokens ? (const void *)f->tokens : s->x;
    *n_out = s->job->batch * s->elems;
  } else {
    *data_out = s->labels;
    *n_out = s->job->batch * s->n_labels;
  }
  return RONDE_OK;
}

/* Of a batch of tokens: their numbers as the file has them. */
static ronde_status list_tokens(const ronde_stepper *s, int64_t **tokens_out) {
  int64_t n = s->job->batch * s->elems, *tokens = NULL;
  if (s->job->vocabulary) RONDE__ALLOC(tokens, (size_t)n * sizeof *tokens, "bench: the file of weights");
  for (int64_t i = 0; tokens && i < n; i++) {
    int32_t token;
    memcpy(&token, &s->x[i], sizeof token);
    tokens[i] = token;
  }
  *tokens_out = tokens;
  return RONDE_OK;
}

/* Of tokens, and of several inputs, a row for each example. */
static ronde__file_tensor describe_input(const ronde_stepper *s) {
  const ronde__shape *shape = &s->job->shape;
  ronde__file_tensor x = {.name = INPUT_NAME, .dtype = RONDE__FILE_F32, .shape = {shape->rank + 1, {s->job->batch}}};
  for (int i = 0; i < shape->rank; i++) x.shape.dim[i + 1] = shape->dim[i];
  if (s->job->vocabulary) x.dtype = RONDE__FILE_I64;
  if (s->job->vocabulary || s->job->more.n) x.shape = (ronde__shape){2, {s->job->batch, s->elems}};
  return x;
}

static ronde__file_tensor describe_labels(const ronde_stepper *s) {
  int rank = s->n_labels > 1 ? 2 : 1;
  return (ronde__file_tensor){
      .name = LABELS_NAME, .dtype = RONDE__FILE_I64, .shape = {rank, {s->job->batch, s->n_labels}}};
}

static ronde_status save_tensors(const ronde_stepper *s, const char *path, fetching *f, ronde__file_tensor *tensors) {
  int n;
  const ronde__net_param *params = ronde__net_params(s->worker.net, &n);
  int64_t longest = 0;
  for (int i = 0; i < n; i++) {
    tensors[i] = (ronde__file_tensor){.name = params[i].name, .dtype = RONDE__FILE_F32, .shape = params[i].shape};
    longest = ronde__max(longest, ronde__shape_elems(&params[i].shape));
  }
  tensors[n] = describe_input(s);
  tensors[n + 1] = describe_labels(s);
  RONDE__ALLOC(f->logical, (size_t)longest * sizeof *f->logical, "bench: the file of weights");
  RONDE_TRY(list_tokens(s, &f->tokens));
  return ronde__safetensors_write_pieces(path, tensors, n + 2, NULL, 0, fetch_tensor, f);
}

ronde_status ronde_stepper_save(const ronde_stepper *s, const char *path) {
  int n;
  ronde__file_tensor *tensors;
  fetching f = {.stepper = s};
  ronde__net_params(s->worker.net, &n);
  RONDE__ALLOC(tensors, (size_t)(n + 2) * sizeof *tensors, "bench: the file of weights");
  ronde_status status = save_tensors(s, path, &f, tensors);
  ronde__free(f.logical);
  ronde__free(f.tokens);
  ronde__free(tensors);
  return status;
}

/* Sets up one rank without data or strategy, and times its steps; writes what peers need to do the same work. */
#include "bench/stepper.h"

#include "base/rng.h"
#include "base/machine.h"
#include "setup/setup.h"

#include <stdlib.h>

/* What the batch is called in the file for the peers, beside the parameters. */
#define INPUT_NAME RONDE__RESERVED "x"
#define LABELS_NAME RONDE__RESERVED "labels"

/* ---- set-up ---- */

/* Examples by the seed: normally distributed inputs, classes drawn evenly. */
static ronde_status draw_batch(ronde_stepper *s) {
  const ronde__job *job = s->job;
  if (job->vocabulary)
    return ronde__fail(RONDE_E_USAGE, "%s: networks of tokens are not among those that are measured by themselves",
                       job->model_name);
  if (job->more.n)
    return ronde__fail(RONDE_E_USAGE,
                       "%s: networks of several inputs are not among those that are measured by themselves",
                       job->model_name);
  int64_t elems = job->batch * ronde__shape_elems(&job->shape);
  RONDE__ALLOC(s->x, (size_t)elems * sizeof *s->x, "bench: the batch");
  RONDE__ALLOC(s->labels, (size_t)job->batch * sizeof *s->labels, "bench: the labels");
  ronde__rng rng = ronde__rng_make((uint64_t)job->options->seed, RONDE__STREAM_SYNTHETIC);
  for (int64_t i = 0; i < elems; i++) s->x[i] = ronde__rng_normal(&rng);
  for (int64_t i = 0; i < job->batch; i++) s->labels[i] = (int64_t)ronde__rng_below(&rng, (uint64_t)job->classes);
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
  float *logical; /* of the parameter that was asked for last */
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
    *data_out = s->x;
    *n_out = s->job->batch * ronde__shape_elems(&s->job->shape);
  } else {
    *data_out = s->labels;
    *n_out = s->job->batch;
  }
  return RONDE_OK;
}

ronde_status ronde_stepper_save(const ronde_stepper *s, const char *path) {
  int n;
  const ronde__net_param *params = ronde__net_params(s->worker.net, &n);
  ronde__file_tensor *tensors;
  fetching f = {.stepper = s};
  int64_t longest = 0;
  RONDE__ALLOC(tensors, (size_t)(n + 2) * sizeof *tensors, "bench: the file of weights");
  for (int i = 0; i < n; i++) {
    tensors[i] = (ronde__file_tensor){.name = params[i].name, .dtype = RONDE__FILE_F32, .shape = params[i].shape};
    longest = ronde__max(longest, ronde__shape_elems(&params[i].shape));
  }
  ronde__shape x = {s->job->shape.rank + 1, {s->job->batch}};
  for (int i = 0; i < s->job->shape.rank; i++) x.dim[i + 1] = s->job->shape.dim[i];
  tensors[n] = (ronde__file_tensor){.name = INPUT_NAME, .dtype = RONDE__FILE_F32, .shape = x};
  tensors[n + 1] = (ronde__file_tensor){.name = LABELS_NAME, .dtype = RONDE__FILE_I64, .shape = {1, {s->job->batch}}};
  f.logical = ronde__alloc((size_t)longest * sizeof *f.logical);
  ronde_status status =
      f.logical ? ronde__safetensors_write_pieces(path, tensors, n + 2, NULL, 0, fetch_tensor, &f)
                : ronde__fail(RONDE_E_MEMORY, "bench: no memory for a tensor of %lld elements", (long long)longest);
  ronde__free(f.logical);
  ronde__free(tensors);
  return status;
}

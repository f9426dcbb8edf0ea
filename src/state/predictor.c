/* Predictors: one net holds the parameters, and each call that runs takes a worker, a net of its own working memory that
 * shares them, from a list of those that are free; the list grows to as many as ever ran at once. */
#include "state/predictor.h"

#include "data/normalization.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct worker {
  ronde__net *net;
  ronde__pool *pool;
  float *x; /* [room], normalised */
  int64_t room;
  struct worker *next;
} worker;

struct ronde_predictor {
  ronde__job *job; /* of the network alone */
  ronde_graph *graph;
  ronde__net *net; /* holds the parameters; no call runs on it */
  int threads;
  ronde__shape shape; /* of the first input */
  int64_t row;        /* elements of all inputs of an example */
  int64_t outputs;
  ronde__scaling scaling;
  char **class_names; /* [n_class_names] */
  int64_t n_class_names;
  pthread_rwlock_t values; /* calls read the parameters, ronde_predictor_set writes them */
  pthread_mutex_t mutex;   /* of free */
  worker *free;
};

/* ---- made and ended ---- */

static void worker_destroy(worker *w) {
  if (!w) return;
  ronde__net_destroy(w->net);
  ronde__pool_destroy(w->pool);
  ronde__free(w->x);
  ronde__free(w);
}

static ronde_status worker_create(const ronde_predictor *p, worker **worker_out) {
  worker *w;
  RONDE__ALLOC(w, sizeof *w, "predictor");
  ronde_status status = p->threads > 1 ? ronde__pool_create(p->threads, &w->pool) : RONDE_OK;
  ronde__net_options options = ronde__job_net_options(p->job, w->pool, NULL, false);
  options.shares = p->net;
  if (status == RONDE_OK) status = ronde__net_create(p->graph, &options, &w->net);
  if (status != RONDE_OK) worker_destroy(w);
  else *worker_out = w;
  return status;
}

void ronde_predictor_destroy(ronde_predictor *p) {
  if (!p) return;
  while (p->free) {
    worker *w = p->free;
    p->free = w->next;
    worker_destroy(w);
  }
  ronde__net_destroy(p->net);
  ronde_graph_destroy(p->graph);
  ronde__job_destroy_network(p->job);
  for (int64_t k = 0; k < p->n_class_names; k++) free(p->class_names[k]);
  ronde__free(p->class_names);
  pthread_rwlock_destroy(&p->values);
  pthread_mutex_destroy(&p->mutex);
  ronde__free(p);
}

/* Of the weights, else of the data that were trained on. */
static const char *class_name(const ronde__job *job, int64_t k) {
  if (k < job->class_names.n) return job->class_names.name[k];
  return job->data ? ronde__data_class_name(job->data, k) : NULL;
}

static ronde_status copy_class_names(const ronde__job *job, ronde_predictor *p) {
  int64_t n = 0;
  while (n < p->outputs && class_name(job, n)) n++;
  RONDE__ALLOC(p->class_names, (size_t)ronde__max(n, 1) * sizeof *p->class_names, "predictor");
  for (; p->n_class_names < n; p->n_class_names++)
    if (!(p->class_names[p->n_class_names] = ronde__strdup(class_name(job, p->n_class_names))))
      return ronde__fail(RONDE_E_MEMORY, "predictor: no memory for the names of its classes");
  return RONDE_OK;
}

static ronde_status fetch_whole(ronde__parts *parts, ronde__part part, const ronde__shape *shape, float *logical_out) {
  for (int64_t at = 0, n, all = ronde__shape_elems(shape); at < all; at += n) {
    const void *data;
    RONDE_TRY(ronde__parts_fetch(parts, part, at, &data, &n));
    memcpy(logical_out + at, data, (size_t)n * sizeof *logical_out);
  }
  return RONDE_OK;
}

static ronde_status take_param(ronde__net *to, const ronde__net *from, ronde__parts *parts, int i, float *logical) {
  int n;
  if (!parts) ronde__net_get(from, i, logical);
  else
    RONDE_TRY(fetch_whole(parts, (ronde__part){RONDE__PART_PARAM, i, 0}, &ronde__net_params(to, &n)[i].shape, logical));
  ronde__net_set(to, i, logical);
  return RONDE_OK;
}

static ronde_status take_buffer(ronde__net *to, const ronde__net *from, ronde__parts *parts, int i, float *logical) {
  int n;
  const ronde__net_buffer *buffer = &ronde__net_buffers(to, &n)[i];
  if (buffer->is_counter) return RONDE_OK;
  if (!parts) ronde__net_get_buffer(from, i, logical);
  else RONDE_TRY(fetch_whole(parts, (ronde__part){RONDE__PART_BUFFER, i, 0}, &buffer->shape, logical));
  ronde__net_set_buffer(to, i, logical);
  return RONDE_OK;
}

/* Layouts of the two nets may differ: through logical order. */
static ronde_status copy_values(ronde__net *to, const ronde__net *from, ronde__parts *parts) {
  int n_params, n_buffers;
  const ronde__net_param *params = ronde__net_params(to, &n_params);
  const ronde__net_buffer *buffers = ronde__net_buffers(to, &n_buffers);
  int64_t most = 1;
  for (int i = 0; i < n_params; i++) most = ronde__max(most, ronde__shape_elems(&params[i].shape));
  for (int i = 0; i < n_buffers; i++) most = ronde__max(most, ronde__shape_elems(&buffers[i].shape));
  float *logical;
  RONDE__ALLOC(logical, (size_t)most * sizeof *logical, "predictor");
  ronde_status status = RONDE_OK;
  for (int i = 0; i < n_params && status == RONDE_OK; i++) status = take_param(to, from, parts, i, logical);
  for (int i = 0; i < n_buffers && status == RONDE_OK; i++) status = take_buffer(to, from, parts, i, logical);
  ronde__free(logical);
  return status;
}

static ronde_status fill(const ronde__job *job, const ronde__net *trained, ronde__parts *parts, ronde_predictor *p) {
  RONDE_TRY(ronde__job_copy_network(job, &p->job));
  ronde__net_options options = ronde__job_net_options(p->job, NULL, NULL, false);
  RONDE_TRY(ronde__job_graph(job, &p->graph));
  if (!trained) RONDE_TRY(ronde__weights_check(p->graph, job->init, job->init_path, NULL));
  RONDE_TRY(ronde__net_create(p->graph, &options, &p->net));
  p->row = ronde__graph_input_elems(p->graph);
  p->outputs = ronde__shape_elems(&p->graph->tensors[p->graph->output]->shape);
  RONDE_TRY(copy_class_names(job, p));
  if (trained) return copy_values(p->net, trained, parts);
  ronde__weights_load(p->net, job->init, false);
  return RONDE_OK;
}

ronde_status ronde__predictor_create(const ronde__job *job, const ronde__net *trained, ronde__parts *parts,
                                     const ronde__normalization *normalization, ronde_predictor **predictor_out) {
  ronde_predictor *p;
  RONDE__ALLOC(p, sizeof *p, "predictor");
  *p = (ronde_predictor){
      .threads = (int)job->options->threads, .shape = job->shape, .scaling = ronde__scaling_of(normalization, 1)};
  pthread_rwlock_init(&p->values, NULL);
  pthread_mutex_init(&p->mutex, NULL);
  ronde_status status = fill(job, trained, parts, p);
  if (status != RONDE_OK) ronde_predictor_destroy(p);
  else *predictor_out = p;
  return status;
}

/* ---- a call ---- */

static ronde_status take_worker(ronde_predictor *p, worker **worker_out) {
  pthread_mutex_lock(&p->mutex);
  worker *w = p->free;
  if (w) p->free = w->next;
  pthread_mutex_unlock(&p->mutex);
  *worker_out = w;
  return w ? RONDE_OK : worker_create(p, worker_out);
}

static void give_worker(ronde_predictor *p, worker *w) {
  pthread_mutex_lock(&p->mutex);
  w->next = p->free;
  p->free = w;
  pthread_mutex_unlock(&p->mutex);
}

/* Numbers of tokens as int32, in the place of floats. at: of the first one in x. */
static ronde_status take_tokens(int64_t vocabulary, int64_t at, int64_t n, const float *x, float *to) {
  for (int64_t i = at; i < at + n; i++) {
    if (!(x[i] >= 0 && x[i] < (float)vocabulary && x[i] == truncf(x[i])))
      return ronde__fail(RONDE_E_INPUT, "predictor: element %lld is %g, not the number of a token, 0 to %lld",
                         (long long)i, (double)x[i], (long long)vocabulary - 1);
    int32_t token = (int32_t)x[i];
    memcpy(to + i, &token, sizeof token);
  }
  return RONDE_OK;
}

/* A row of all inputs, which begins at `at`. Those beside the first are as they are, or tokens. */
static ronde_status convert_row(const ronde_predictor *p, int64_t at, const float *x, float *to) {
  const ronde__more_inputs *more = &p->job->more;
  int64_t n = ronde__shape_elems(&p->shape);
  if (p->job->vocabulary) RONDE_TRY(take_tokens(p->job->vocabulary, at, n, x, to));
  else ronde__scaling_f32(&p->scaling, n, x + at, to + at);
  for (int i = 0; i < more->n; i++) {
    at += n;
    n = ronde__shape_elems(&more->at[i].shape);
    if (more->at[i].vocabulary) RONDE_TRY(take_tokens(more->at[i].vocabulary, at, n, x, to));
    else memcpy(to + at, x + at, (size_t)n * sizeof *to);
  }
  return RONDE_OK;
}

/* Whether the network reads what the caller has. */
static bool converts(const ronde_predictor *p) {
  bool tokens = p->job->vocabulary > 0;
  for (int i = 0; i < p->job->more.n; i++) tokens |= p->job->more.at[i].vocabulary > 0;
  return tokens || p->scaling.changes;
}

/* x as the network reads it, in memory of the worker's where it changes. */
static ronde_status convert(const ronde_predictor *p, int64_t n, const float **x, worker *w) {
  int64_t elems = n * p->row;
  if (!converts(p)) return RONDE_OK;
  if (elems > w->room) {
    ronde__free(w->x);
    w->room = 0;
    RONDE__ALLOC(w->x, (size_t)elems * sizeof *w->x, "predictor");
    w->room = elems;
  }
  for (int64_t i = 0; i < n; i++) RONDE_TRY(convert_row(p, i * p->row, *x, w->x));
  *x = w->x;
  return RONDE_OK;
}

ronde_status ronde_predictor_run(ronde_predictor *p, int64_t n, const float *x, float *y_out) {
  worker *w;
  if (n < 1) return ronde__fail(RONDE_E_USAGE, "predictor: %lld examples: there must be one or more", (long long)n);
  RONDE_TRY(take_worker(p, &w));
  ronde_status status = convert(p, n, &x, w);
  pthread_rwlock_rdlock(&p->values);
  if (status == RONDE_OK) status = ronde__net_predict(w->net, n, x, y_out);
  pthread_rwlock_unlock(&p->values);
  give_worker(p, w);
  return status;
}

/* ---- what it is ---- */

int ronde_predictor_shape(const ronde_predictor *p, int64_t dims_out[RONDE_MAX_RANK]) {
  memcpy(dims_out, p->shape.dim, (size_t)p->shape.rank * sizeof *dims_out);
  return p->shape.rank;
}

const char *ronde_predictor_input(const ronde_predictor *p, int i, int *rank_out, int64_t dims_out[RONDE_MAX_RANK]) {
  if (i < 0 || i >= p->graph->n_inputs) return NULL;
  const ronde_tensor *x = p->graph->tensors[p->graph->inputs[i]];
  if (rank_out) *rank_out = x->shape.rank;
  if (dims_out) memcpy(dims_out, x->shape.dim, (size_t)x->shape.rank * sizeof *dims_out);
  return x->label;
}

int64_t ronde_predictor_outputs(const ronde_predictor *p) { return p->outputs; }

const char *ronde_predictor_class(const ronde_predictor *p, int64_t k) {
  return k >= 0 && k < p->n_class_names ? p->class_names[k] : NULL;
}

/* A parameter, or a buffer behind them; counters mean nothing to a prediction, and are left out. */
typedef struct tensor {
  const char *name;
  const ronde__shape *shape;
  int param, buffer; /* one is -1 */
} tensor;

static bool tensor_at(const ronde_predictor *p, int i, tensor *tensor_out) {
  int n_params, n_buffers;
  const ronde__net_param *params = ronde__net_params(p->net, &n_params);
  const ronde__net_buffer *buffers = ronde__net_buffers(p->net, &n_buffers);
  if (i >= 0 && i < n_params) {
    *tensor_out = (tensor){params[i].name, &params[i].shape, i, -1};
    return true;
  }
  for (int b = 0, at = n_params; b < n_buffers && i >= n_params; b++) {
    if (buffers[b].is_counter || at++ < i) continue;
    *tensor_out = (tensor){buffers[b].name, &buffers[b].shape, -1, b};
    return true;
  }
  return false;
}

const char *ronde_predictor_tensor(const ronde_predictor *p, int i, int *rank_out, int64_t dims_out[RONDE_MAX_RANK]) {
  tensor t;
  if (!tensor_at(p, i, &t)) return NULL;
  if (rank_out) *rank_out = t.shape->rank;
  if (dims_out) memcpy(dims_out, t.shape->dim, (size_t)t.shape->rank * sizeof *dims_out);
  return t.name;
}

static ronde_status find_tensor(const ronde_predictor *p, const char *name, int64_t n, tensor *t) {
  int i = 0;
  while (tensor_at(p, i, t) && strcmp(t->name, name) != 0) i++;
  if (!tensor_at(p, i, t)) return ronde__fail(RONDE_E_USAGE, "predictor: there is no tensor %s", RONDE__SHOWN(name));
  int64_t elems = ronde__shape_elems(t->shape);
  if (n == elems) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "predictor: %s has %lld values, not %lld", name, (long long)elems, (long long)n);
}

ronde_status ronde_predictor_get(ronde_predictor *p, const char *name, float *values_out, int64_t n) {
  tensor t;
  RONDE_TRY(find_tensor(p, name, n, &t));
  pthread_rwlock_rdlock(&p->values);
  if (t.buffer < 0) ronde__net_get(p->net, t.param, values_out);
  else ronde__net_get_buffer(p->net, t.buffer, values_out);
  pthread_rwlock_unlock(&p->values);
  return RONDE_OK;
}

ronde_status ronde_predictor_set(ronde_predictor *p, const char *name, const float *values, int64_t n) {
  tensor t;
  RONDE_TRY(find_tensor(p, name, n, &t));
  pthread_rwlock_wrlock(&p->values);
  if (t.buffer < 0) ronde__net_set(p->net, t.param, values);
  else ronde__net_set_buffer(p->net, t.buffer, values);
  pthread_rwlock_unlock(&p->values);
  return RONDE_OK;
}

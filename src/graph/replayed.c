/* Passes that take the time of recorded ones and compute nothing: parameters are asked for, and gradients told, at the
 * moments at which they were. What a rank waits for in between comes on top. */
#include "graph/executor.h"

#include <stdlib.h>

typedef struct moment {
  int param;
  uint64_t at_ns; /* of the recorded batch */
} moment;

typedef struct execution {
  ronde__net *net;
  ronde__replay replay;
  int n_params;
  moment *needed, *ready; /* [n_params] each, ascending in time */
} execution;

typedef struct replayed_pass {
  const execution *shared;
  int64_t n; /* examples of the present batch */
} replayed_pass;

static int by_time(const void *a, const void *b) {
  const moment *x = a, *y = b;
  return x->at_ns != y->at_ns ? (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns) : x->param - y->param;
}

/* At the same time the last layer's is ready first. */
static int by_time_from_last(const void *a, const void *b) {
  const moment *x = a, *y = b;
  return x->at_ns != y->at_ns ? by_time(a, b) : y->param - x->param;
}

static void destroy(void *opaque) {
  execution *e = opaque;
  if (!e) return;
  ronde__free(e->needed);
  ronde__free(e->ready);
  ronde__free(e);
}

static ronde_status make_moments(execution *e) {
  const ronde__spans *spans = e->replay.spans;
  size_t n = (size_t)e->n_params;
  RONDE__ALLOC(e->needed, n * sizeof *e->needed, "replay");
  RONDE__ALLOC(e->ready, n * sizeof *e->ready, "replay");
  for (int i = 0; i < e->n_params; i++) {
    e->needed[i] = (moment){i, spans->params ? spans->params[i].needed_ns : 0};
    e->ready[i] = (moment){i, spans->params ? spans->params[i].ready_ns : 0};
  }
  qsort(e->needed, n, sizeof *e->needed, by_time);
  qsort(e->ready, n, sizeof *e->ready, by_time_from_last);
  return RONDE_OK;
}

static ronde_status create(ronde__net *net, const ronde__net_options *options, void **execution_out) {
  execution *e;
  RONDE__ALLOC(e, sizeof *e, "replay");
  *e = (execution){.net = net, .replay = *options->replay};
  ronde__net_params(net, &e->n_params);
  ronde_status status = make_moments(e);
  if (status != RONDE_OK) destroy(e);
  else *execution_out = e;
  return status;
}

/* From one moment of the recorded batch to another. */
static void pass_time(const replayed_pass *p, uint64_t *from_ns, uint64_t to_ns) {
  const ronde__replay *r = &p->shared->replay;
  if (to_ns <= *from_ns) return;
  uint64_t begin = ronde__spans_scale(r->spans, *from_ns, p->n, r->slowness),
           end = ronde__spans_scale(r->spans, to_ns, p->n, r->slowness);
  if (end > begin) ronde__time_sleep(r->time, end - begin);
  *from_ns = to_ns;
}

static ronde_status pass_create(void *opaque, void **pass_out) {
  replayed_pass *p;
  RONDE__ALLOC(p, sizeof *p, "replay");
  p->shared = opaque;
  *pass_out = p;
  return RONDE_OK;
}

static void pass_destroy(void *pass) { ronde__free(pass); }

static ronde_status prepare(void *pass, int64_t n, int64_t n_all) { return RONDE_OK; }

static ronde_status forward(void *pass, const ronde__net_batch *batch, float loss_scale, const ronde__net_hooks *hooks,
                            ronde__net_result *result_out) {
  replayed_pass *p = pass;
  const execution *e = p->shared;
  uint64_t at_ns = 0;
  p->n = batch->n;
  *result_out = (ronde__net_result){0};
  for (int i = 0; i < e->n_params && hooks && hooks->param_needed; i++) {
    pass_time(p, &at_ns, e->needed[i].at_ns);
    RONDE_TRY(hooks->param_needed(hooks->user, e->needed[i].param));
  }
  pass_time(p, &at_ns, e->replay.spans->forward_ns);
  return RONDE_OK;
}

static ronde_status backward(void *pass, bool accumulate, const ronde__net_hooks *hooks, bool *touched) {
  replayed_pass *p = pass;
  const execution *e = p->shared;
  int n_params;
  const ronde__net_param *params = ronde__net_params(e->net, &n_params);
  uint64_t at_ns = 0;
  for (int i = 0; i < n_params; i++) {
    int param = e->ready[i].param;
    if (params[param].frozen) continue;
    pass_time(p, &at_ns, e->ready[i].at_ns);
    touched[param] = true;
    ronde__net_tell_gradient(e->net, param, hooks);
  }
  pass_time(p, &at_ns, e->replay.spans->backward_ns);
  return RONDE_OK;
}

static ronde_status predict(void *pass, int64_t n, const float *x, float *y_out) {
  return ronde__fail(RONDE_E_INTERNAL, "a replayed network has no output");
}

static double executed_flops(const void *opaque, int64_t n) { return 0; }

static ronde_status pass_empty(void *pass, bool backward, const ronde__net_hooks *hooks) { return RONDE_OK; }

static size_t arena_bytes(const void *opaque) { return 0; }

const ronde__executor ronde__executor_replayed = {.create = create,
                                                  .destroy = destroy,
                                                  .pass_create = pass_create,
                                                  .pass_destroy = pass_destroy,
                                                  .prepare = prepare,
                                                  .forward = forward,
                                                  .predict = predict,
                                                  .executed_flops = executed_flops,
                                                  .backward = backward,
                                                  .pass_empty = pass_empty,
                                                  .arena_bytes = arena_bytes};

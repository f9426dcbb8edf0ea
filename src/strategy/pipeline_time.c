/* What nodes take, by a model or as recorded of one worker; and what a step of stages takes: each runs its forward and
 * backward passes in the order of 1F1B, and begins one when the stage beside it has sent what it needs. */
#include "strategy/pipeline.h"

#include <math.h>
#include <stdlib.h>

/* Of a core of today, and of a message between processes of a host. */
#define FLOPS_PER_S 50e9
#define BYTES_PER_S 10e9
#define WIRE_BYTES_PER_S 5e9

/* ---- nodes ---- */

static double seconds_of(double flops, double bytes) { return fmax(flops / FLOPS_PER_S, bytes / BYTES_PER_S); }

/* Source of what an all-reduce sends: Patarasuk & Yuan, 2009. */
static double exchange_bytes(double elems, int n_replicas) {
  return 2 * elems * sizeof(float) * (n_replicas - 1) / n_replicas;
}

void ronde__pipeline_model(const ronde__node_cost *costs, int n_nodes, int n_states, int n_replicas,
                           ronde__node_time *times_out) {
  double update_bytes = (3 + 2 * n_states) * sizeof(float); /* weight and state read and written, gradient read */
  for (int i = 0; i < n_nodes; i++) {
    const ronde__node_cost *cost = &costs[i];
    times_out[i] = (ronde__node_time){.may_begin = cost->may_begin,
                                      .is_layer = cost->is_layer,
                                      .forward_s = seconds_of(cost->flops[0], cost->bytes[0]),
                                      .backward_s = seconds_of(cost->flops[1], cost->bytes[1]),
                                      .wire_s = cost->crossing_bytes / WIRE_BYTES_PER_S,
                                      .update_s = cost->trained * update_bytes / BYTES_PER_S +
                                                  exchange_bytes(cost->trained, n_replicas) / WIRE_BYTES_PER_S};
  }
}

typedef struct moment {
  uint64_t at_ns;
  int node;
} moment;

static int by_time(const void *a, const void *b) {
  const moment *x = a, *y = b;
  return x->at_ns != y->at_ns ? (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns) : x->node - y->node;
}

static double scaled(const ronde__spans *spans, uint64_t ns, int64_t n) {
  return 1e-9 * (double)ronde__spans_scale(spans, ns, n, 1);
}

/* A layer is at work from when it needs its parameters until the next one does. */
static void measure_forward(const ronde__spans *spans, moment *moments, int n_moments, int64_t n,
                            ronde__node_time *times) {
  qsort(moments, (size_t)n_moments, sizeof *moments, by_time);
  for (int i = 0; i < n_moments; i++) {
    uint64_t begin = i ? moments[i].at_ns : 0, end = i + 1 < n_moments ? moments[i + 1].at_ns : spans->forward_ns;
    if (end > begin) times[moments[i].node].forward_s += scaled(spans, end - begin, n);
  }
}

/* In backward from when the layer behind has ended; what comes behind the last of them is the first layer's. */
static void measure_backward(const ronde__spans *spans, moment *moments, int n_moments, int64_t n,
                             ronde__node_time *times) {
  qsort(moments, (size_t)n_moments, sizeof *moments, by_time);
  for (int i = 0; i < n_moments; i++) {
    uint64_t begin = i ? moments[i - 1].at_ns : 0, end = moments[i].at_ns;
    if (i + 1 == n_moments && end < spans->backward_ns) end = spans->backward_ns;
    if (end > begin) times[moments[i].node].backward_s += scaled(spans, end - begin, n);
  }
}

ronde_status ronde__pipeline_measured(const ronde__spans *spans, const int *node_of, int64_t n,
                                      const ronde__node_cost *costs, int n_nodes, ronde__node_time *times) {
  double element_s = spans->updated_elems ? 1e-9 * (double)spans->update_ns / (double)spans->updated_elems : 0;
  int n_moments = 0;
  moment *needed, *done;
  RONDE__ALLOC(needed, 2 * (size_t)spans->n_params * sizeof *needed, "stages");
  done = needed + spans->n_params;
  for (int i = 0; i < spans->n_params; i++) {
    if (node_of[i] < 0) continue;
    needed[n_moments] = (moment){spans->params[i].needed_ns, node_of[i]};
    done[n_moments++] = (moment){spans->params[i].done_ns, node_of[i]};
  }
  for (int i = 0; i < n_nodes; i++) {
    times[i].forward_s = times[i].backward_s = 0;
    times[i].update_s = costs[i].trained * element_s;
  }
  measure_forward(spans, needed, n_moments, n, times);
  measure_backward(spans, done, n_moments, n, times);
  ronde__free(needed);
  return RONDE_OK;
}

/* ---- a step ---- */

typedef struct stage {
  double forward_s, backward_s, update_s; /* with what is received for them */
  int64_t n_passes, n_begun, n_ended;     /* micro-batches: under way at most, forward, backward */
  double free_s;                          /* when it has done what it has begun */
  double busy_s;
} stage;

/* What it does next in a step: backward as soon as as many are under way as may be. */
static bool is_backward(const stage *s, int64_t n_micro) {
  return s->n_begun == n_micro || s->n_begun - s->n_ended == s->n_passes;
}

/* done [2][stages][micro-batches]: when forward and backward passes have ended; NAN: they have not. Runs what stage i can
 * run now; whether it was anything. */
static bool run_one(stage *stages, int i, int n_stages, int64_t n_micro, double *done) {
  stage *s = &stages[i];
  double *forward = done, *backward = done + n_stages * n_micro;
  if (s->n_ended == n_micro) return false;
  bool back = is_backward(s, n_micro);
  int64_t at = back ? s->n_ended : s->n_begun;
  double came = 0;
  if (back && i + 1 < n_stages) came = backward[(i + 1) * n_micro + at];
  if (!back && i > 0) came = forward[(i - 1) * n_micro + at];
  if (isnan(came)) return false;
  s->free_s = fmax(s->free_s, came) + (back ? s->backward_s : s->forward_s);
  (back ? backward : forward)[i * n_micro + at] = s->free_s;
  if (back) s->n_ended++;
  else s->n_begun++;
  return true;
}

/* All have computed the step's gradients; then they update, each for itself. Returns when they met. */
static double run_step(stage *stages, int n_stages, int64_t n_micro, double *done) {
  double met = 0;
  for (int64_t i = 0; i < 2 * n_stages * n_micro; i++) done[i] = NAN;
  for (bool any = true; any;) {
    any = false;
    for (int i = 0; i < n_stages; i++)
      while (run_one(stages, i, n_stages, n_micro, done)) any = true;
  }
  for (int i = 0; i < n_stages; i++) met = fmax(met, stages[i].free_s);
  for (int i = 0; i < n_stages; i++) {
    stages[i].free_s = met + stages[i].update_s;
    stages[i].n_begun = stages[i].n_ended = 0;
  }
  return met;
}

ronde_status ronde__pipeline_step(const ronde__cut_problem *problem, const int *cuts, double *step_s_out,
                                  double *bubble_s_out) {
  int n = problem->n_stages;
  int64_t n_micro = problem->n_micro;
  stage *stages;
  double *done = ronde__alloc(2 * (size_t)n * (size_t)n_micro * sizeof *done), busy = 0;
  if (!done) return ronde__fail(RONDE_E_MEMORY, "stages: no memory for %lld micro-batches", (long long)n_micro);
  if (!(stages = ronde__alloc((size_t)n * sizeof *stages))) {
    ronde__free(done);
    return ronde__fail(RONDE_E_MEMORY, "stages: no memory for %d of them", n);
  }
  for (int s = 0; s < n; s++) {
    const ronde__node_time *times = problem->times;
    stages[s] = (stage){.forward_s = times[cuts[s]].wire_s / 2, .n_passes = ronde__min(n - s, n_micro)};
    if (cuts[s + 1] < problem->n_nodes) stages[s].backward_s = times[cuts[s + 1]].wire_s / 2;
    for (int i = cuts[s]; i < cuts[s + 1]; i++) {
      stages[s].forward_s += times[i].forward_s;
      stages[s].backward_s += times[i].backward_s;
      stages[s].update_s += times[i].update_s;
    }
    busy += stages[s].update_s + (double)n_micro * (stages[s].forward_s + stages[s].backward_s);
  }
  double first = run_step(stages, n, n_micro, done);
  *step_s_out = run_step(stages, n, n_micro, done) - first;
  *bubble_s_out = fmax(0, *step_s_out - busy / n);
  ronde__free(stages);
  ronde__free(done);
  return RONDE_OK;
}

/* In which turns the examples go through split layers: what a step waits by each scheme, by a model of the link and of a
 * core. The steps are those of plan_turns.c: a turn's exchange begins when the turn has been computed, the link sends one
 * after the other, and a layer begins a turn when that has come. Source of the schemes: Krizhevsky, "One weird trick for
 * parallelizing convolutional neural networks", 2014, section 4. */
#include "strategy/hybrid.h"

#include <math.h>
#include <string.h>

/* The core of pipeline_time.c; and what of a weight's way through it products do not hide, 6 + 2.5 of 43 ms for 67 MB of
 * weights that are read and updated, and transposed (docs/notebook/linear.md). */
#define FLOPS_PER_S 50e9
#define BYTES_PER_S 10e9
#define UNHIDDEN_BYTES_PER_S 22e9

/* An exchange, or a layer: in the order of a forward pass. */
typedef struct item {
  bool is_layer, returns; /* returns: to each rank's own examples */
  bool trains;            /* the value, or the layer's input, has a gradient */
  double exchange_s[3];   /* of a turn, by scheme */
  double elems;           /* of the rank's part of the weights */
} item;

typedef struct walk {
  const ronde_graph *graph;
  const ronde__ranks *ranks;
  int64_t n_all;
  bool *split, *trains; /* [tensors] */
  item *items;
  int n_items;
} walk;

/* ---- what there is ---- */

static void add_exchange(walk *w, int tensor, bool returns) {
  int64_t n = w->ranks->n, features = ronde__shape_elems(&w->graph->tensors[tensor]->shape);
  int64_t own = ronde__ceil_div(w->n_all, n), part = ronde__ceil_div(own, n),
          own_features = ronde__ceil_div(features, n);
  int64_t floats[3]; /* that a rank sends each other in a turn; by B only one rank sends, or gets, but as long */
  item *at = &w->items[w->n_items++];
  *at = (item){.returns = returns, .trains = w->trains[tensor]};
  if (!w->split[tensor]) memcpy(floats, (int64_t[3]){own * features, own * features, part * features}, sizeof floats);
  else if (returns)
    memcpy(floats, (int64_t[3]){own * own_features, own * own_features, part * own_features}, sizeof floats);
  else memcpy(floats, (int64_t[3]){w->n_all * own_features, own * own_features, own * own_features}, sizeof floats);
  for (int s = 0; s < 3; s++) at->exchange_s[s] = ronde__hybrid_exchange_s(w->ranks, floats[s]);
}

static void walk_node(walk *w, int i, bool is_split) {
  const ronde__node *node = &w->graph->nodes[i];
  bool split = is_split, trains = false;
  double elems = 0;
  for (int j = 0; j < node->n_params; j++) {
    const ronde__param *param = &w->graph->params[node->param[j]];
    elems += (double)ronde__shape_elems(&param->shape);
    trains |= !param->frozen;
  }
  for (int j = 0; j < node->n_inputs; j++) {
    int in = node->in[j];
    bool keeps = !is_split && ronde__node_keeps_features(node);
    trains |= w->trains[in];
    if (is_split) add_exchange(w, in, false);
    else if (w->split[in] && !keeps) add_exchange(w, in, true);
    split |= w->split[in] && keeps;
  }
  if (is_split)
    w->items[w->n_items++] = (item){.is_layer = true, .trains = w->trains[node->in[0]], .elems = elems / w->ranks->n};
  for (int j = 0; j < node->n_outputs; j++) {
    w->split[node->out[j]] = split;
    w->trains[node->out[j]] = trains;
  }
}

/* ---- what it takes ---- */

typedef struct run {
  const walk *walk;
  ronde__turn_scheme scheme;
  int n_turns;
  double *ready; /* [turns]: when a turn's value is there */
  double now, link, computed;
} run;

static void compute(run *r, double flops, double bytes) {
  double s = fmax(flops / FLOPS_PER_S, bytes / BYTES_PER_S) + bytes / UNHIDDEN_BYTES_PER_S;
  r->now += s;
  r->computed += s;
}

static void exchange(run *r, const item *at) {
  for (int t = 0; t < r->n_turns; t++) r->ready[t] = r->link = fmax(r->link, r->ready[t]) + at->exchange_s[r->scheme];
}

/* The rest of the step needs all of it. */
static void meet(run *r) {
  for (int t = 0; t < r->n_turns; t++) r->now = fmax(r->now, r->ready[t]);
  for (int t = 0; t < r->n_turns; t++) r->ready[t] = r->now;
}

/* A turn reads the weights once; for the input's gradient it turns them over, too. */
static void layer(run *r, const item *at, double passes, double reads) {
  double rows = ceil((double)r->walk->n_all / r->n_turns);
  for (int t = 0; t < r->n_turns; t++) {
    r->now = fmax(r->now, r->ready[t]);
    compute(r, passes * 2 * rows * at->elems, reads * 4 * at->elems);
    r->ready[t] = r->now;
  }
}

static void backward_layer(run *r, const item *at) {
  double weights_flops = 2 * (double)r->walk->n_all * at->elems;
  if (r->n_turns == 1) {
    layer(r, at, 1 + at->trains, 2 + at->trains);
    return;
  }
  if (at->trains) layer(r, at, 1, 2);
  else meet(r);
  compute(r, weights_flops, 2 * 4 * at->elems); /* read and written */
}

static void run_step(run *r) {
  const walk *w = r->walk;
  for (int i = 0; i < w->n_items; i++) {
    const item *at = &w->items[i];
    if (at->is_layer) layer(r, at, 1, 1);
    else exchange(r, at);
    if (at->returns) meet(r);
  }
  meet(r);
  for (int i = w->n_items - 1; i >= 0; i--) {
    const item *at = &w->items[i];
    if (at->is_layer) backward_layer(r, at);
    else if (at->trains) exchange(r, at);
    if (i == 0 || w->items[i - 1].returns) meet(r);
  }
}

static ronde_status take(const walk *w, ronde__turn_scheme scheme, ronde__turns_cost *cost_out) {
  run r = {.walk = w, .scheme = scheme, .n_turns = scheme == RONDE__TURNS_A ? 1 : w->ranks->n};
  RONDE__ALLOC(r.ready, (size_t)r.n_turns * sizeof *r.ready, "hybrid");
  run_step(&r);
  ronde__free(r.ready);
  *cost_out = (ronde__turns_cost){.step_s = r.now, .wait_s = r.now - r.computed};
  return RONDE_OK;
}

ronde_status ronde__hybrid_turns_cost(const ronde_graph *graph, const ronde__ranks *ranks, int64_t n_all,
                                      const bool *is_split, ronde__turns_cost costs_out[3]) {
  size_t n = (size_t)graph->n_tensors;
  walk w = {.graph = graph, .ranks = ranks, .n_all = n_all};
  ronde_status status = RONDE_OK;
  RONDE__ALLOC(w.split, 2 * n * sizeof *w.split, "hybrid");
  w.trains = w.split + n;
  w.items = ronde__alloc((size_t)graph->n_nodes * (1 + RONDE__OP_MAX_INPUTS) * sizeof *w.items);
  if (!w.items) status = ronde__fail(RONDE_E_MEMORY, "hybrid: no memory for %d nodes", graph->n_nodes);
  for (int i = 0; i < graph->n_nodes && status == RONDE_OK; i++) walk_node(&w, i, is_split[i]);
  for (int s = 0; s < 3 && status == RONDE_OK; s++) status = take(&w, (ronde__turn_scheme)s, &costs_out[s]);
  ronde__free(w.items);
  ronde__free(w.split);
  return status;
}

/* Within a host it is the cores that copy messages, so nothing is gained by turns. */
ronde__turn_scheme ronde__hybrid_turns(const ronde__ranks *ranks, const ronde__turns_cost costs[3]) {
  ronde__turn_scheme best = RONDE__TURNS_A;
  for (int s = RONDE__TURNS_B; s <= RONDE__TURNS_C && ronde__ranks_hosts(ranks) > 1; s++)
    if (costs[s].step_s < costs[best].step_s) best = (ronde__turn_scheme)s;
  return best;
}

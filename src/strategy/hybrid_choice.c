/* The choice of the layers that are split, by what their exchanges cost. Each layer is tried with and without, beginning
 * with none and with all, until no change of one of them is cheaper: a run of layers may pay where a single one does not,
 * because only features travel within it. */
#include "strategy/hybrid.h"

#include <stdio.h>
#include <string.h>

/* As in choose.c: the model is no finer. */
#define MARGIN 1.25

typedef struct walk {
  const ronde_graph *graph;
  const ronde__ranks *ranks;
  int64_t n_all;
  bool *split, *trains; /* [tensors]: a rank's features of all examples; it depends on a parameter that trains */
} walk;

typedef struct shifted {
  int n, by;
} shifted;

static int peer_of(const void *arg, int rank) {
  const shifted *s = arg;
  return (rank + s->by) % s->n;
}

double ronde__hybrid_exchange_s(const ronde__ranks *ranks, int64_t floats) {
  double seconds = 0;
  for (int by = 1; by < ranks->n; by++)
    seconds += ronde__round_s(ranks, peer_of, &(shifted){ranks->n, by}, (double)floats * sizeof(float));
  return seconds;
}

static int64_t features_of(const walk *w, int tensor) { return ronde__shape_elems(&w->graph->tensors[tensor]->shape); }

/* Forward, and its gradient back. */
static double around_s(const walk *w, int tensor, int64_t floats) {
  return ronde__hybrid_exchange_s(w->ranks, floats) * (1 + w->trains[tensor]);
}

static double gather_s(const walk *w, int tensor) {
  int64_t features = features_of(w, tensor);
  return around_s(w, tensor,
                  w->split[tensor] ? w->n_all * ronde__ceil_div(features, w->ranks->n)
                                   : ronde__ceil_div(w->n_all, w->ranks->n) * features);
}

/* Back to each rank's own examples. */
static double own_examples_s(const walk *w, int tensor) {
  return around_s(w, tensor,
                  ronde__ceil_div(w->n_all, w->ranks->n) * ronde__ceil_div(features_of(w, tensor), w->ranks->n));
}

static size_t trained_elems(const ronde_graph *graph, const ronde__node *node) {
  size_t n = 0;
  for (int j = 0; j < node->n_params; j++)
    if (!graph->params[node->param[j]].frozen) n += (size_t)ronde__shape_elems(&graph->params[node->param[j]].shape);
  return n;
}

static double allreduce_s(const walk *w, const ronde__node *node) {
  size_t n = trained_elems(w->graph, node);
  return n ? ronde__allreduce_auto(w->ranks, n)->seconds(w->ranks, n) : 0;
}

static double node_s(walk *w, int i, bool is_split) {
  const ronde__node *node = &w->graph->nodes[i];
  bool keeps = ronde__node_keeps_features(node), trains = trained_elems(w->graph, node) > 0, split = is_split;
  double seconds = !is_split && ronde__graph_can_split(w->graph, i) ? allreduce_s(w, node) : 0;
  for (int j = 0; j < node->n_inputs; j++) {
    int in = node->in[j];
    trains |= w->trains[in];
    if (is_split) seconds += gather_s(w, in);
    else if (w->split[in] && keeps) split = true;
    else if (w->split[in]) seconds += own_examples_s(w, in);
  }
  for (int j = 0; j < node->n_outputs; j++) {
    w->split[node->out[j]] = split;
    w->trains[node->out[j]] = trains;
  }
  return seconds;
}

ronde_status ronde__hybrid_seconds(const ronde_graph *graph, const ronde__ranks *ranks, int64_t n_all,
                                   const bool *is_split, double *seconds_out) {
  size_t n = (size_t)graph->n_tensors;
  walk w = {.graph = graph, .ranks = ranks, .n_all = n_all};
  RONDE__ALLOC(w.split, 2 * n * sizeof *w.split, "hybrid");
  w.trains = w.split + n;
  *seconds_out = 0;
  for (int i = 0; i < graph->n_nodes; i++) *seconds_out += node_s(&w, i, is_split[i]);
  ronde__free(w.split);
  return RONDE_OK;
}

/* A layer with fewer blocks of outputs than there are ranks would leave some of them idle. */
static bool is_candidate(const ronde_graph *graph, const ronde__ranks *ranks, int node) {
  if (!ronde__graph_can_split(graph, node)) return false;
  int64_t outputs = graph->nodes[node].attr.out_channels;
  return ronde__ceil_div(outputs, ronde__channel_block(outputs)) >= ranks->n;
}

static ronde_status descend(const ronde_graph *graph, const ronde__ranks *ranks, int64_t n_all, bool *split,
                            double *seconds) {
  RONDE_TRY(ronde__hybrid_seconds(graph, ranks, n_all, split, seconds));
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < graph->n_nodes; i++) {
      double other;
      if (!is_candidate(graph, ranks, i)) continue;
      split[i] = !split[i];
      RONDE_TRY(ronde__hybrid_seconds(graph, ranks, n_all, split, &other));
      if (other < *seconds) *seconds = other, changed = true;
      else split[i] = !split[i];
    }
  }
  return RONDE_OK;
}

ronde_status ronde__hybrid_choose(const ronde_graph *graph, const ronde__ranks *ranks, int64_t n_all, bool *split) {
  size_t n = (size_t)graph->n_nodes;
  bool *all;
  double none_s, some_s, all_s;
  memset(split, 0, n * sizeof *split);
  RONDE_TRY(ronde__hybrid_seconds(graph, ranks, n_all, split, &none_s));
  RONDE__ALLOC(all, n * sizeof *all, "hybrid");
  for (int i = 0; i < graph->n_nodes; i++) all[i] = is_candidate(graph, ranks, i);
  ronde_status status = descend(graph, ranks, n_all, split, &some_s);
  if (status == RONDE_OK) status = descend(graph, ranks, n_all, all, &all_s);
  if (status == RONDE_OK && all_s < some_s) {
    memcpy(split, all, n * sizeof *split);
    some_s = all_s;
  }
  if (status == RONDE_OK && some_s * MARGIN >= none_s) memset(split, 0, n * sizeof *split);
  ronde__free(all);
  return status;
}

/* ---- by name ---- */

static int find_layer(const ronde_graph *graph, const char *name, size_t n) {
  for (int i = 0; i < graph->n_nodes; i++)
    if (strlen(graph->nodes[i].label) == n && !strncmp(graph->nodes[i].label, name, n)) return i;
  return -1;
}

static ronde_status name_one(const ronde_graph *graph, const char *name, size_t n, bool *split) {
  int node = find_layer(graph, name, n);
  char text[256];
  snprintf(text, sizeof text, "%.*s", (int)n, name);
  if (node < 0) return ronde__fail(RONDE_E_USAGE, "--hybrid-layers: the network has no layer %s", RONDE__SHOWN(text));
  if (graph->nodes[node].kind != RONDE__OP_LINEAR)
    return ronde__fail(RONDE_E_USAGE, "--hybrid-layers: %s is no linear layer, and only these are split", text);
  if (graph->tensors[graph->nodes[node].in[0]]->shape.rank > 1)
    return ronde__fail(RONDE_E_USAGE, "--hybrid-layers: %s reads a sequence, and only layers over vectors are split",
                       text);
  if (!ronde__graph_can_split(graph, node))
    return ronde__fail(RONDE_E_USAGE, "--hybrid-layers: %s shares its weight with another layer, and cannot be split",
                       text);
  split[node] = true;
  return RONDE_OK;
}

ronde_status ronde__hybrid_name(const ronde_graph *graph, const char *names, bool *split) {
  memset(split, 0, (size_t)graph->n_nodes * sizeof *split);
  for (const char *text = names; text;) {
    size_t n = strcspn(text, ",");
    RONDE_TRY(name_one(graph, text, n, split));
    text = text[n] ? text + n + 1 : NULL;
  }
  return RONDE_OK;
}

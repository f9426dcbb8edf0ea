/* The cut that makes the slowest stage as fast as possible, by dynamic programming over where stages may begin. What a
 * node takes is what a model says, not a clock, so that the same command has the same stages everywhere.
 * Source: Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019, section 3.1,
 * without replicated stages. */
#include "strategy/pipeline.h"

#include <math.h>

/* Of a core of today, and of a message between processes of a host: only their ratios count. */
#define FLOPS_PER_S 50e9
#define BYTES_PER_S 10e9
#define WIRE_BYTES_PER_S 5e9

/* Where a stage may begin, or the end of the graph; the sums are of all nodes in front of it. */
typedef struct place {
  int node, layers;
  double seconds, wire; /* wire: of what crosses it */
} place;

typedef struct choice {
  double slowest;
  int from; /* the place where the last stage begins */
} choice;

static double seconds_of(const ronde__node_cost *cost) {
  return fmax(cost->flops / FLOPS_PER_S, cost->bytes / BYTES_PER_S);
}

double ronde__pipeline_seconds(const ronde__node_cost *costs, int n_nodes, int begin, int end) {
  double s = costs[begin].crossing_bytes + (end < n_nodes ? costs[end].crossing_bytes : 0);
  s /= WIRE_BYTES_PER_S;
  for (int i = begin; i < end; i++) s += seconds_of(&costs[i]);
  return s;
}

static int find_places(const ronde__node_cost *costs, int n_nodes, place *places) {
  place at = {0};
  int n = 0;
  for (; at.node <= n_nodes; at.node++) {
    bool is_end = at.node == n_nodes;
    at.wire = is_end ? 0 : costs[at.node].crossing_bytes / WIRE_BYTES_PER_S;
    if (at.node == 0 || is_end || costs[at.node].may_begin) places[n++] = at;
    if (is_end) break;
    at.seconds += seconds_of(&costs[at.node]);
    at.layers += costs[at.node].is_layer;
  }
  return n;
}

/* A stage ends as soon as it has a layer. */
static int most_stages(const place *places, int n) {
  int n_stages = 0, layers = 0;
  for (int i = 1; i < n; i++) {
    if (places[i].layers == layers) continue;
    layers = places[i].layers;
    n_stages++;
  }
  return n_stages;
}

/* best [n_stages][n]: of the first i places into s + 1 stages. */
static void find_best(const place *places, int n, int n_stages, choice *best) {
  for (int s = 0; s < n_stages; s++)
    for (int end = 0; end < n; end++) {
      choice *found = &best[s * n + end];
      *found = (choice){INFINITY, -1};
      for (int from = 0; from < end; from++) {
        double before = s ? best[(s - 1) * n + from].slowest : from ? INFINITY : 0;
        double own = places[end].seconds - places[from].seconds + places[from].wire + places[end].wire;
        double slowest = fmax(before, own);
        if (places[end].layers > places[from].layers && slowest < found->slowest) *found = (choice){slowest, from};
      }
    }
}

ronde_status ronde__pipeline_cut(const ronde__node_cost *costs, int n_nodes, int n_stages, int *cuts_out) {
  place *places;
  choice *best;
  RONDE__ALLOC(places, (size_t)(n_nodes + 1) * sizeof *places, "stages");
  int n = find_places(costs, n_nodes, places), most = most_stages(places, n);
  if (most < n_stages) {
    ronde__free(places);
    return ronde__fail(RONDE_E_USAGE,
                       "%d stages: the network has fewer layers, and can be cut into %d at most (layers that share a "
                       "parameter stay together)",
                       n_stages, most);
  }
  best = ronde__alloc((size_t)n_stages * (size_t)n * sizeof *best);
  if (best) {
    find_best(places, n, n_stages, best);
    for (int s = n_stages, end = n - 1; s >= 0; s--) {
      cuts_out[s] = places[end].node;
      if (s > 0) end = best[(s - 1) * n + end].from;
    }
  }
  ronde__free(places);
  if (!best) return ronde__fail(RONDE_E_MEMORY, "stages: no memory for %d nodes", n_nodes);
  ronde__free(best);
  return RONDE_OK;
}

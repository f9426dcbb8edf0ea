/* The cut that makes the slowest stage as fast as possible, by dynamic programming over where stages may begin. What a
 * node takes is what a model or a record says, not a clock of now, so that the same command has the same stages.
 * Source: Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019, section 3.1,
 * without replicated stages. */
#include "strategy/pipeline.h"

#include <math.h>

/* Where a stage may begin, or the end of the graph; the sums are of all nodes in front of it, in a step. */
typedef struct place {
  int node, layers;
  double seconds, wire; /* wire: of what crosses it */
} place;

typedef struct choice {
  double slowest;
  int from; /* the place where the last stage begins */
} choice;

static double seconds_of(const ronde__cut_problem *problem, int node) {
  const ronde__node_time *time = &problem->times[node];
  return (double)problem->n_micro * (time->forward_s + time->backward_s) + time->update_s;
}

static double wire_of(const ronde__cut_problem *problem, int node) {
  return node < problem->n_nodes ? (double)problem->n_micro * problem->times[node].wire_s : 0;
}

double ronde__pipeline_seconds(const ronde__cut_problem *problem, int begin, int end) {
  double s = wire_of(problem, begin) + wire_of(problem, end);
  for (int i = begin; i < end; i++) s += seconds_of(problem, i);
  return s;
}

static int find_places(const ronde__cut_problem *problem, place *places) {
  place at = {0};
  int n = 0;
  for (; at.node <= problem->n_nodes; at.node++) {
    bool is_end = at.node == problem->n_nodes;
    at.wire = wire_of(problem, at.node);
    if (at.node == 0 || is_end || problem->times[at.node].may_begin) places[n++] = at;
    if (is_end) break;
    at.seconds += seconds_of(problem, at.node);
    at.layers += problem->times[at.node].is_layer;
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

/* The first place from which stage s may begin to reach `end`, where it fits. */
static int first_that_fits(const ronde__cut_problem *problem, const place *places, int s, int end) {
  int low = 0, high = end;
  while (low < high) {
    int middle = (low + high) / 2;
    bool is_stage = places[end].layers > places[middle].layers;
    if (!is_stage || problem->fits(problem->user, s, places[middle].node, places[end].node)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/* best [n_stages][n]: of the first i places into s + 1 stages. */
static void find_best(const ronde__cut_problem *problem, const place *places, int n, choice *best) {
  for (int s = 0; s < problem->n_stages; s++)
    for (int end = 0; end < n; end++) {
      choice *found = &best[s * n + end];
      *found = (choice){INFINITY, -1};
      bool is_last = s + 1 == problem->n_stages;
      if (is_last != (end == n - 1)) continue; /* only the last stage reaches the end, and no other place */
      for (int from = problem->fits ? first_that_fits(problem, places, s, end) : 0; from < end; from++) {
        double before = s ? best[(s - 1) * n + from].slowest : from ? INFINITY : 0;
        double own = places[end].seconds - places[from].seconds + places[from].wire + places[end].wire;
        double slowest = fmax(before, own);
        if (places[end].layers > places[from].layers && slowest < found->slowest) *found = (choice){slowest, from};
      }
    }
}

/* false: there is no such cut. */
static bool cut(const ronde__cut_problem *problem, const place *places, int n, choice *best, int *cuts_out) {
  int n_stages = problem->n_stages;
  find_best(problem, places, n, best);
  if (best[n_stages * n - 1].from < 0) return false;
  for (int s = n_stages, end = n - 1; s >= 0; s--) {
    cuts_out[s] = places[end].node;
    if (s > 0) end = best[(s - 1) * n + end].from;
  }
  return true;
}

ronde_status ronde__pipeline_cut(const ronde__cut_problem *problem, int *cuts_out, bool *fits_out) {
  int n_stages = problem->n_stages;
  place *places;
  RONDE__ALLOC(places, (size_t)(problem->n_nodes + 1) * sizeof *places, "stages");
  int n = find_places(problem, places), most = most_stages(places, n);
  if (most < n_stages) {
    ronde__free(places);
    return ronde__fail(RONDE_E_USAGE,
                       "%d stages: the network has fewer layers, and can be cut into %d at most (layers that share a "
                       "parameter stay together)",
                       n_stages, most);
  }
  choice *best = ronde__alloc((size_t)n_stages * (size_t)n * sizeof *best);
  if (best) {
    ronde__cut_problem any = *problem;
    any.fits = NULL;
    *fits_out = cut(problem, places, n, best, cuts_out);
    if (!*fits_out) cut(&any, places, n, best, cuts_out);
  }
  ronde__free(places);
  if (!best) return ronde__fail(RONDE_E_MEMORY, "stages: no memory for %d nodes", problem->n_nodes);
  ronde__free(best);
  return RONDE_OK;
}

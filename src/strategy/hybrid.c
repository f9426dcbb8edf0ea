/* Data parallelism for most of a network, and model parallelism for its big linear layers: these are split over the ranks
 * by output feature, so that their gradients, which are most of what an all-reduce moves, never travel. In their place go
 * the activations around them, and the gradients of these (src/graph/plan_split.c); the rest is `allreduce`, whose step
 * this is.
 * Every rank has the arrays of the whole network, but between two meetings only its part of a split layer is up to date;
 * whoever looks at the whole (tests, checkpoints, the sentinel) settles first, and then each rank has it.
 * Source: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014. */
#include "strategy/hybrid.h"

#include <stdio.h>
#include <string.h>

#include "strategy/allreduce.h"

typedef struct state {
  ronde__worker *worker;
  const ronde__strategy_settings *settings;
  void *allreduce;
  bool is_stale; /* of split layers this rank's part alone is up to date */
  int64_t n_steps;
  ronde__request *requests; /* of a meeting: [2 * split parameters * ranks] */
} state;

enum { PHASE_VALUES = 2, PHASE_STATE };

/* ---- whole parameters ---- */

/* This rank's part of each split parameter goes to all, by tag: of a flat array. */
static ronde_status gather(state *s, float *flat) {
  ronde__transport *t = s->worker->transport;
  uint32_t tag = RONDE__WIRE_TAG(RONDE__TAG_SPLIT, PHASE_VALUES);
  int n_params, n = 0;
  const ronde__net_param *params = ronde__net_params(s->worker->net, &n_params);
  ronde_status status = RONDE_OK;
  for (int i = 0; i < n_params; i++)
    for (int r = 0; r < t->size && params[i].split && status == RONDE_OK; r++) {
      ronde__range own = ronde__net_part(&params[i], t->rank, t->size),
                   theirs = ronde__net_part(&params[i], r, t->size);
      if (r == t->rank) continue;
      if (theirs.n) status = t->ops->irecv(t, r, tag, flat + theirs.begin, theirs.n * sizeof *flat, &s->requests[n++]);
      if (own.n && status == RONDE_OK)
        status = t->ops->isend(t, r, tag, flat + own.begin, own.n * sizeof *flat, &s->requests[n++]);
    }
  if (status == RONDE_OK) return t->ops->wait(t, s->requests, n, t->timeout_ns);
  t->ops->cancel(t, s->requests, n);
  return status;
}

static ronde_status settle(void *opaque) {
  state *s = opaque;
  RONDE_TRY(ronde__strategy_allreduce.settle(s->allreduce));
  if (!s->is_stale) return RONDE_OK;
  s->is_stale = false;
  return gather(s, ronde__net_values(s->worker->net));
}

/* Parts of an array of the optimizer's state, to rank 0. */
static ronde_status gather_array(const state *s, float *flat) {
  ronde__transport *t = s->worker->transport;
  uint32_t tag = RONDE__WIRE_TAG(RONDE__TAG_SPLIT, PHASE_STATE);
  int n_params;
  const ronde__net_param *params = ronde__net_params(s->worker->net, &n_params);
  for (int i = 0; i < n_params; i++) {
    if (!params[i].split) continue;
    for (int r = 1; r < t->size; r++) {
      ronde__range part = ronde__net_part(&params[i], r, t->size);
      if (part.n == 0) continue;
      if (t->rank == r) RONDE_TRY(ronde__transport_send(t, 0, tag, flat + part.begin, part.n * sizeof *flat));
      if (t->rank == 0) RONDE_TRY(ronde__transport_receive(t, r, tag, flat + part.begin, part.n * sizeof *flat));
    }
  }
  return RONDE_OK;
}

static ronde_status gather_state(void *opaque) {
  state *s = opaque;
  const char *name;
  for (int a = 0; a < ronde__optim_n_states(s->worker->optim) && s->worker->peers; a++)
    RONDE_TRY(gather_array(s, ronde__optim_state(s->worker->optim, a, &name)));
  return RONDE_OK;
}

/* ---- a step ---- */

static ronde_status hybrid_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  s->is_stale = s->worker->peers != NULL;
  s->n_steps++;
  return ronde__strategy_allreduce.step(s->allreduce, step, result_out);
}

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__strategy_allreduce.destroy(s->allreduce);
  ronde__free(s->requests);
  ronde__free(s);
}

static ronde_status set_up(state *s, const ronde__strategy_settings *settings) {
  int n_params, n_split = 0;
  const ronde__net_param *params = ronde__net_params(s->worker->net, &n_params);
  for (int i = 0; i < n_params; i++) n_split += params[i].split;
  size_t n = 2 * (size_t)n_split * (size_t)s->worker->transport->size;
  RONDE__ALLOC(s->requests, n * sizeof *s->requests, "hybrid");
  return ronde__strategy_allreduce.create(s->worker, settings, &s->allreduce);
}

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "hybrid");
  *s = (state){.worker = worker, .settings = settings};
  ronde_status status = set_up(s, settings);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

/* ---- what is asked before there are ranks ---- */

static const char *const scheme_names[] = {[RONDE__TURNS_A] = "a", [RONDE__TURNS_B] = "b", [RONDE__TURNS_C] = "c"};

static void say(const ronde_graph *graph, const ronde__ranks *ranks, const bool *is_split, ronde__turn_scheme turns,
                const ronde__turns_cost costs[3]) {
  char names[512] = "";
  size_t used = 0, bytes = 0;
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    if (!is_split[i]) continue;
    if (used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", node->label);
    for (int j = 0; j < node->n_params; j++)
      bytes += (size_t)ronde__shape_elems(&graph->params[node->param[j]].shape) * sizeof(float);
  }
  if (!used)
    ronde__log(
        RONDE_LOG_WARNING,
        "--strategy hybrid changes nothing: by the model of the links no layer of this network costs less when it "
        "is split over %d ranks than its gradient's all-reduce; the run is allreduce",
        ranks->n);
  else
    ronde__log(
        RONDE_LOG_INFO,
        "hybrid: split over %d ranks by output feature: %s (%.3g MB of gradients stay at home); scheme %s (by the "
        "model they take %.3g ms by a, %.3g by b, %.3g by c)",
        ranks->n, names, (double)bytes * 1e-6, scheme_names[turns], costs[0].step_s * 1e3, costs[1].step_s * 1e3,
        costs[2].step_s * 1e3);
}

static ronde_status split(const ronde__strategy_settings *settings, const ronde_graph *graph, const ronde__ranks *ranks,
                          int64_t batch, bool *split_out, ronde__turn_scheme *turns_out) {
  static const ronde__turn_scheme named[] = {[RONDE__HYBRID_SCHEME_A] = RONDE__TURNS_A,
                                             [RONDE__HYBRID_SCHEME_B] = RONDE__TURNS_B,
                                             [RONDE__HYBRID_SCHEME_C] = RONDE__TURNS_C};
  const char *names = settings->options->hybrid_layers;
  int scheme = settings->options->hybrid_scheme;
  ronde__turns_cost costs[3];
  RONDE_TRY(names ? ronde__hybrid_name(graph, names, split_out) : ronde__hybrid_choose(graph, ranks, batch, split_out));
  RONDE_TRY(ronde__hybrid_turns_cost(graph, ranks, batch, split_out, costs));
  *turns_out = scheme == RONDE__HYBRID_SCHEME_AUTO ? ronde__hybrid_turns(ranks, costs) : named[scheme];
  say(graph, ranks, split_out, *turns_out, costs);
  return RONDE_OK;
}

static ronde_status check(const ronde__strategy_settings *settings, int n_workers) {
  const ronde__options *o = settings->options;
  if (o->exec == RONDE__EXEC_EAGER)
    return ronde__fail(RONDE_E_USAGE, "--strategy hybrid needs --exec graph: layers of eager passes cannot be split");
  if (o->record_spans)
    return ronde__fail(RONDE_E_USAGE,
                       "--record-spans: with --strategy hybrid a rank computes no whole network; record "
                       "the spans of one worker");
  if (o->sim_spans)
    return ronde__fail(RONDE_E_USAGE,
                       "--sim-spans %s: recorded passes exchange nothing, and with --strategy hybrid they must: leave "
                       "--sim-spans out",
                       RONDE__SHOWN(o->sim_spans));
  if (n_workers == 1 && o->hybrid_layers)
    return ronde__fail(RONDE_E_USAGE, "--hybrid-layers can have no effect: one worker has nobody to share layers with");
  return RONDE_OK;
}

/* ---- the record ---- */

typedef struct hybrid_facts {
  ronde__bus bus;
  uint64_t bytes[2], steps;
} hybrid_facts;

static void facts(const void *opaque, const ronde__service *services, void *facts_out) {
  const state *s = opaque;
  hybrid_facts f = {.steps = (uint64_t)s->n_steps};
  ronde__strategy_allreduce.facts(s->allreduce, services, &f.bus);
  if (s->worker->peers) memcpy(f.bytes, s->worker->peers->bytes, sizeof f.bytes);
  *(hybrid_facts *)facts_out = f;
}

static json_t *split_layers(const ronde__worker *worker) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(worker->net, &n_params);
  json_t *names = json_array();
  for (int i = 0; i < n_params; i++)
    if (params[i].split) json_array_append_new(names, json_string(params[i].name));
  return names;
}

static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  const state *s = opaque;
  const hybrid_facts *of_rank = facts;
  ronde__bus all = {0};
  double bytes[2] = {0}, steps = 0;
  if (s->worker->transport->size == 1) return;
  for (int i = 0; i < n_ranks; i++) {
    all.ns += of_rank[i].bus.ns;
    all.bytes += of_rank[i].bus.bytes;
    for (int b = 0; b < 2; b++) bytes[b] += (double)of_rank[i].bytes[b];
    steps += (double)of_rank[i].steps;
  }
  ronde__bus_record(&all, s->settings, communication);
  json_object_set_new(communication, "split_parameters", split_layers(s->worker));
  if (s->worker->peers)
    json_object_set_new(communication, "split_scheme", json_string(scheme_names[s->worker->peers->exchanges.scheme]));
  if (steps == 0) return;
  json_object_set_new(communication, "gathered_bytes_per_step", json_real(bytes[0] / steps));
  json_object_set_new(communication, "scattered_bytes_per_step", json_real(bytes[1] / steps));
}

static const char *const options[] = {
    "skip-bad-steps", "clip",       "sentinel", RONDE__OPTIONS_OF_BUCKETS, "hybrid-layers",
    "hybrid-scheme",  "collective", "wire",     "sparse-gradients",        NULL};

const ronde__strategy ronde__strategy_hybrid = {
    .name = "hybrid",
    .options = options,
    .check = check,
    .min_workers = 1,
    .fuses_alone = true,
    .all_reduces = true,
    .waits_for_all = true,
    .equals_one = true,
    .meets_to_save = "--strategy hybrid",
    .agrees_to_save = true,
    .split = split,
    .create = create,
    .step = hybrid_step,
    .destroy = destroy,
    .settle = settle,
    .gather_state = gather_state,
    .facts_bytes = sizeof(hybrid_facts),
    .facts = facts,
    .records = (const char *const[]){"collective", "busbw_bytes_per_s", "split_parameters", "split_scheme",
                                     "gathered_bytes_per_step", "scattered_bytes_per_step", NULL},
    .record = record,
};

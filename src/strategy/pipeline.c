/* Pipeline: the network is cut into stages, one for each rank of a replica, and a batch goes through them in
 * micro-batches, so that all stages compute at once. A stage runs the backward of its oldest micro-batch before the
 * forward of a new one as soon as as many are under way as stages lie behind it, itself included: no more activations
 * are alive. Gradients are summed over the micro-batches, then, in buckets while the last one is in backward, over the
 * replicas of the stage; all update at the step's end, so weights are never stale.
 * Each element of a gradient is the sum of its micro-batches in their order, as --accumulate sums batches; what is
 * computed of a micro-batch does not depend on the cuts. So one worker with as many smaller batches has the same bits.
 * Sources: Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism", NeurIPS 2019;
 * Narayanan et al., "Memory-efficient pipeline-parallel DNN training" (PipeDream-flush), ICML 2021. */
#include "strategy/pipeline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "strategy/replicas.h"

/* Tags below are the neighbours': one for each value that crosses a cut. */
enum { MAX_MESSAGES = 1 << 16, TAG_RESULTS = RONDE__TAG_STRATEGY + MAX_MESSAGES, TAG_NORM, TAG_BUCKETS };

typedef struct state {
  ronde__worker *worker;
  int64_t n_micro, n_batches, n_replicas;         /* micro-batches of a batch, batches of a step; */
  int64_t input_elems, output_elems, label_elems; /* of an example */
  ronde__pass **passes; /* [n_passes]: as many are under way at most; the first is the net's own */
  int n_passes;
  ronde__replicas *replicas;           /* NULL: there is one */
  ronde__local_result found, *results; /* [ranks] */
  double *sum_squares;                 /* [ranks]: of the gradients */
} state;

/* Where a step stands among its micro-batches. */
typedef struct feed {
  const ronde__step *step;
  int n_loaded;             /* batches */
  ronde__batch batch;       /* the last of them, */
  int64_t part, n_parts;    /* and its next micro-batch */
  int64_t n_begun, n_ended; /* forward, backward; */
  int64_t n_expected;       /* those whose inputs are coming, or have come */
} feed;

/* ---- micro-batches ---- */

static ronde_status load(state *s, feed *f) {
  ronde__worker *worker = s->worker;
  ronde__prof_switch(worker->prof, RONDE__PHASE_LOAD);
  RONDE_TRY(ronde__loader_next(worker->loader, &f->batch));
  f->n_loaded++;
  f->part = 0;
  f->n_parts = ronde__min(s->n_micro, f->batch.n);
  return worker->before_forward ? worker->before_forward(worker->before_forward_arg) : RONDE_OK;
}

static ronde__pass *pass_of(const state *s, int64_t micro_batch) { return s->passes[micro_batch % s->n_passes]; }

static int64_t part_begin(const feed *f, int64_t part) { return ronde__shard_begin(f->batch.n, part, f->n_parts); }

/* Receives are posted before they are needed, for the forward passes of this batch up to the next one of each pass, so that
 * the stage in front never waits for this one to ask. */
static ronde_status expect(const state *s, feed *f) {
  int64_t end = f->n_begun + ronde__min(s->n_passes, f->n_parts - f->part);
  bool any = true;
  for (f->n_expected = ronde__max(f->n_expected, f->n_begun); f->n_expected < end && any; f->n_expected += any) {
    int64_t part = f->part + f->n_expected - f->n_begun;
    RONDE_TRY(ronde__pass_expect(pass_of(s, f->n_expected), part_begin(f, part + 1) - part_begin(f, part), &any));
  }
  return RONDE_OK;
}

/* any_out false: the step has no more. */
static ronde_status next_micro_batch(state *s, feed *f, ronde__net_batch *batch_out, bool *any_out) {
  const ronde__worker *worker = s->worker;
  const ronde__batch *b = &f->batch;
  while (f->part == f->n_parts && f->n_loaded < f->step->n_batches) RONDE_TRY(load(s, f));
  *any_out = f->part < f->n_parts;
  if (!*any_out) return RONDE_OK;
  RONDE_TRY(expect(s, f));
  int64_t begin = part_begin(f, f->part), end = part_begin(f, f->part + 1);
  int64_t of_batch = ronde__shard_begin(b->global_n, worker->transport->rank / worker->n_stages, s->n_replicas);
  f->part++;
  *batch_out = (ronde__net_batch){.n = end - begin,
                                  .label_weight = f->step->label_weight,
                                  .training = true,
                                  .seed = worker->seed,
                                  .step = (uint64_t)f->step->step,
                                  .first_example = (f->n_loaded - 1) * worker->batch + of_batch + begin};
  if (b->x) batch_out->x = b->x + begin * s->input_elems;
  if (b->labels) batch_out->labels = b->labels + begin * s->label_elems;
  if (b->targets) batch_out->targets = b->targets + begin * s->output_elems;
  return RONDE_OK;
}

static ronde_status run_forward(state *s, feed *f, const ronde__net_batch *batch) {
  ronde__net_result result;
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_FORWARD);
  RONDE_TRY(
      ronde__pass_forward(pass_of(s, f->n_begun++), batch, (float)(1 / (double)f->step->examples), NULL, &result));
  s->found.loss_sum += result.loss_sum;
  s->found.n_correct += result.n_correct;
  if (!isfinite(result.loss_sum)) s->found.broken = 1;
  return RONDE_OK;
}

static void gradient_final(void *user, const ronde__gradient *gradient) {
  state *s = user;
  ronde__worker_look(s->worker, gradient, &s->found);
  if (s->replicas) ronde__replicas_final(s->replicas, gradient);
}

/* Of the oldest that is under way. The gradients of the step's last one are looked at. */
static ronde_status run_backward(state *s, feed *f, bool is_last) {
  ronde__net_hooks hooks = {.gradient = gradient_final, .user = s};
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_BACKWARD);
  RONDE_TRY(ronde__pass_backward(pass_of(s, f->n_ended), f->n_ended > 0, is_last ? &hooks : NULL));
  f->n_ended++;
  return RONDE_OK;
}

/* A replica without an example in this step. */
static void set_no_gradients(state *s) {
  size_t n = ronde__net_n_trained(s->worker->net);
  if (n) memset(ronde__net_gradients(s->worker->net), 0, n * sizeof(float));
}

static ronde_status compute(state *s, const ronde__step *step) {
  feed f = {.step = step};
  ronde__net_batch batch;
  for (bool any = true; any;) {
    RONDE_TRY(next_micro_batch(s, &f, &batch, &any));
    if (!any) break;
    if (f.n_begun - f.n_ended == s->n_passes) RONDE_TRY(run_backward(s, &f, false));
    RONDE_TRY(run_forward(s, &f, &batch));
  }
  while (f.n_ended < f.n_begun) RONDE_TRY(run_backward(s, &f, f.n_ended + 1 == f.n_begun));
  if (f.n_begun == 0) set_no_gradients(s);
  return RONDE_OK;
}

/* ---- the step ---- */

/* What broke first: a loss, else the gradient of the last stage that has a broken one, as NaN goes on from there. */
static void find_cause(const state *s, ronde__step_result *result) {
  int n_stages = s->worker->n_stages, cause = -1;
  for (int r = 0; r < s->worker->transport->size; r++) {
    int broken = s->results[r].broken, than = cause < 0 ? 0 : s->results[cause].broken;
    if (!broken || than == 1) continue;
    if (cause < 0 || broken == 1 || r % n_stages > cause % n_stages) cause = r;
  }
  result->broken_rank = cause;
  result->broken_param = cause < 0 ? -1 : s->results[cause].broken - 2;
}

/* The others know a parameter by its place in the graph. */
static void name_broken(state *s) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(s->worker->net, &n_params);
  if (s->found.broken > 1) s->found.broken = 2 + params[s->found.broken - 2].index;
}

/* Of the whole network, of one replica. */
static ronde_status gather_norm(state *s, double *sum_squares_out) {
  ronde__worker *worker = s->worker;
  int64_t n = (int64_t)ronde__net_n_trained(worker->net);
  *sum_squares_out = 0;
  if (worker->clip == 0) return RONDE_OK;
  s->sum_squares[worker->transport->rank] = n ? worker->kernels->sum_squares(ronde__net_gradients(worker->net), n) : 0;
  RONDE_TRY(ronde__allgather(worker->transport, TAG_NORM, s->sum_squares, sizeof *s->sum_squares));
  for (int stage = 0; stage < worker->n_stages; stage++) *sum_squares_out += s->sum_squares[stage];
  return RONDE_OK;
}

/* All stages end the step together: behind it, each knows what any of them found. Meanwhile gradients are still summed;
 * where there is no thread for that they are summed in front of it, as long as stages in front are in backward. */
static ronde_status meet(state *s, ronde__step_result *result_out) {
  ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  name_broken(s);
  ronde__worker_ready(worker, &s->found);
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  if (s->replicas) RONDE_TRY(ronde__replicas_all_final(s->replicas));
  s->results[transport->rank] = s->found;
  RONDE_TRY(ronde__allgather(transport, TAG_RESULTS, s->results, sizeof *s->results));
  uint64_t met = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__worker_met(worker, s->results, begin, met);
  *result_out = ronde__local_results_join(s->results, transport->size);
  find_cause(s, result_out);
  return RONDE_OK;
}

/* Each bucket while the next ones travel, where not the norm of all of it counts. */
static ronde_status update(state *s, double lr, bool broken) {
  ronde__worker *worker = s->worker;
  bool by_bucket = s->replicas && !broken && worker->clip == 0;
  double sum_squares;
  if (by_bucket) ronde__optim_begin(worker->optim, lr);
  if (s->replicas) RONDE_TRY(ronde__replicas_end(s->replicas, by_bucket));
  if (by_bucket || broken) return RONDE_OK;
  RONDE_TRY(gather_norm(s, &sum_squares));
  ronde__worker_update_part(worker, lr, sum_squares);
  return RONDE_OK;
}

static ronde_status pipeline_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  s->found = (ronde__local_result){.cancel = step->cancel, .save = step->save};
  RONDE_TRY(compute(s, step));
  RONDE_TRY(meet(s, result_out));
  RONDE_TRY(update(s, step->lr, result_out->broken_rank >= 0));
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

/* ---- creation ---- */

static void pipeline_destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  for (int i = 1; i < s->n_passes; i++) ronde__pass_destroy(s->passes[i]);
  ronde__free(s->passes);
  ronde__replicas_destroy(s->replicas);
  ronde__free(s->results);
  ronde__free(s->sum_squares);
  ronde__free(s);
}

static ronde_status make_passes(state *s) {
  int n = ronde__stage_passes(s->worker->n_stages, s->worker->stage, s->n_micro, s->n_batches);
  RONDE__ALLOC(s->passes, (size_t)n * sizeof *s->passes, "pipeline");
  s->passes[0] = ronde__net_pass(s->worker->net);
  for (s->n_passes = 1; s->n_passes < n; s->n_passes++)
    RONDE_TRY(ronde__pass_create(s->worker->net, &s->passes[s->n_passes]));
  return RONDE_OK;
}

/* Of a whole batch; those of a short last one are made when it comes. */
static ronde_status prepare_passes(const state *s) {
  int64_t n = ronde__ceil_div(ronde__ceil_div(s->worker->batch, s->n_replicas), s->n_micro);
  for (int i = 0; i < s->n_passes; i++) RONDE_TRY(ronde__pass_prepare(s->passes[i], n));
  return RONDE_OK;
}

static ronde_status set_up(state *s, const ronde__strategy_settings *settings) {
  ronde__worker *worker = s->worker;
  const ronde_graph *graph = ronde__net_graph(worker->net);
  s->n_micro = settings->options->micro_batches;
  s->n_batches = settings->options->accumulate;
  s->n_replicas = worker->replicas->size;
  s->input_elems = ronde__graph_input_elems(graph);
  s->output_elems = ronde__loss_elems(graph);
  s->label_elems = ronde__loss_labels(graph);
  RONDE__ALLOC(s->results, (size_t)worker->transport->size * sizeof *s->results, "pipeline");
  RONDE__ALLOC(s->sum_squares, (size_t)worker->transport->size * sizeof *s->sum_squares, "pipeline");
  if (s->n_replicas > 1) RONDE_TRY(ronde__replicas_create(worker, settings, TAG_BUCKETS, &s->replicas));
  RONDE_TRY(make_passes(s));
  return prepare_passes(s);
}

static ronde_status pipeline_create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "pipeline");
  *s = (state){.worker = worker};
  ronde_status status = set_up(s, settings);
  if (status != RONDE_OK) pipeline_destroy(s);
  else *state_out = s;
  return status;
}

/* A pass that begins anew has waited for what it sent. */
static ronde_status finish(void *opaque) { return prepare_passes(opaque); }

/* ---- what is asked before there are ranks ---- */

static ronde_status n_stages(const ronde__strategy_settings *settings, int n_workers, int *n_out) {
  int64_t n = settings->options->stages;
  if (n > 0 && n_workers % n != 0)
    return ronde__fail(RONDE_E_USAGE,
                       "--stages %lld: %d workers cannot be replicas of %lld stages each: give a multiple as --workers",
                       (long long)n, n_workers, (long long)n);
  *n_out = n > 0 ? (int)n : n_workers;
  return RONDE_OK;
}

static int usual_workers(const ronde__strategy_settings *settings) {
  return (int)ronde__max(1, settings->options->stages);
}

/* Four for each stage leave a fifth of the time, or less, to stages that wait. */
static ronde_status n_micro(const ronde__strategy_settings *settings, int stages, int64_t n, int64_t *n_out) {
  int64_t asked = settings->options->micro_batches;
  if (asked > n)
    return ronde__fail(RONDE_E_USAGE, "--micro-batches %lld: a replica has only %lld examples of a batch",
                       (long long)asked, (long long)n);
  *n_out = asked > 0 ? asked : ronde__max(1, ronde__min(4 * stages, n));
  return RONDE_OK;
}

static ronde_status find_times(const ronde__cut_request *request, ronde__node_time *times) {
  const ronde_graph *graph = request->graph;
  int *node_of;
  ronde__node_cost *costs;
  RONDE__ALLOC(node_of, (size_t)graph->n_params * sizeof *node_of, "stages");
  if (!(costs = ronde__alloc((size_t)graph->n_nodes * sizeof *costs))) {
    ronde__free(node_of);
    return ronde__fail(RONDE_E_MEMORY, "stages: no memory for %d nodes", graph->n_nodes);
  }
  ronde_status status = ronde__graph_costs(graph, request->options, request->n, costs, node_of);
  if (status == RONDE_OK) ronde__pipeline_model(costs, graph->n_nodes, request->n_states, request->n_replicas, times);
  if (status == RONDE_OK && request->spans)
    status = ronde__pipeline_measured(request->spans, node_of, request->n, costs, graph->n_nodes, times);
  ronde__free(costs);
  ronde__free(node_of);
  return status;
}

static ronde_status cut(const ronde__cut_request *request, ronde__cut *cut_out) {
  int n_nodes = request->graph->n_nodes;
  ronde__node_time *times;
  RONDE__ALLOC(times, (size_t)n_nodes * sizeof *times, "stages");
  ronde__cut_problem problem = {.times = times,
                                .n_nodes = n_nodes,
                                .n_stages = request->n_stages,
                                .n_micro = request->n_micro,
                                .fits = request->fits,
                                .user = request->user};
  ronde_status status = find_times(request, times);
  if (status == RONDE_OK) status = ronde__pipeline_cut(&problem, cut_out->nodes, &cut_out->fits);
  for (int s = 0; s < request->n_stages && status == RONDE_OK; s++)
    cut_out->seconds[s] = ronde__pipeline_seconds(&problem, cut_out->nodes[s], cut_out->nodes[s + 1]);
  if (status == RONDE_OK) status = ronde__pipeline_step(&problem, cut_out->nodes, &cut_out->step_s, &cut_out->bubble_s);
  ronde__free(times);
  return status;
}

static size_t stage_bytes(const ronde__strategy_settings *settings, int n_replicas, size_t trained) {
  return n_replicas > 1 ? ronde__replicas_bytes(settings->options, trained) : 0;
}

static ronde_status check(const ronde__strategy_settings *settings, int n_workers) {
  const ronde__options *o = settings->options;
  if (o->exec == RONDE__EXEC_EAGER)
    return ronde__fail(RONDE_E_USAGE, "--strategy pipeline needs --exec graph: eager passes cannot be cut into stages");
  if (o->record_spans)
    return ronde__fail(RONDE_E_USAGE, "--record-spans: a stage's spans are not a network's; record them of one worker");
  if (o->sim_spans)
    return ronde__fail(RONDE_E_USAGE,
                       "--sim-spans %s: recorded times are of a whole network, and cannot be replayed by its stages: "
                       "leave --sim-spans out",
                       RONDE__SHOWN(o->sim_spans));
  return RONDE_OK;
}

/* ---- the record ---- */

static void facts(const void *opaque, const ronde__service *services, void *facts_out) {
  uint64_t ns[RONDE__N_PHASES];
  ronde__prof_totals(((const state *)opaque)->worker->prof, ns);
  *(uint64_t *)facts_out = ns[RONDE__PHASE_WAIT];
}

/* The bubble: what a stage waits for the ones beside it, and at the end of a step for those that are not done. */
static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  const uint64_t *waited_ns = facts;
  const state *s = opaque;
  double sum = 0;
  for (int i = 0; i < n_ranks; i++) sum += (double)waited_ns[i] * 1e-9;
  if (n_ranks) json_object_set_new(communication, "bubble_s", json_real(sum / n_ranks));
  if (s->replicas)
    json_object_set_new(communication, "collective", json_string(ronde__replicas_collective(s->replicas)->name));
}

static const char *const options[] = {"stages",   "micro-batches",           "stage-costs", "skip-bad-steps", "clip",
                                      "sentinel", RONDE__OPTIONS_OF_BUCKETS, NULL};

const ronde__strategy ronde__strategy_pipeline = {
    .name = "pipeline",
    .options = options,
    .min_workers = 1,
    .check = check,
    .n_stages = n_stages,
    .n_micro = n_micro,
    .cut = cut,
    .stage_bytes = stage_bytes,
    .usual_workers = usual_workers,
    .equals_one = true,
    .meets_to_save = "--strategy pipeline",
    .agrees_to_save = true,
    .create = pipeline_create,
    .step = pipeline_step,
    .destroy = pipeline_destroy,
    .finish = finish,
    .facts_bytes = sizeof(uint64_t),
    .facts = facts,
    .records = (const char *const[]){"bubble_s", "collective", "predicted_step_s", "predicted_bubble_s",
                                     "predicted_from", "step_s", NULL},
    .record = record,
};

/* One master and its replicas, as PyTorch's nn.DataParallel has it. Every batch the master, rank 0, loads whole and
 * scatters; it sends the model to all (replicate), gathers the outputs of all, computes their loss and its gradient, and
 * scatters that; the gradients of all are summed at the master (reduce), which updates. Each replica normalises by its
 * own part of the batch; the running statistics are the master's. Gradients of batches that accumulate are reduced
 * once. A worker without an example gets the model and no more.
 * p workers, the master among them. Cost of a step of one batch, in bytes that leave or reach the master: (p-1)/p of the
 * batch, of its outputs and of their gradient, p-1 times all gradients; the model goes down a tree, to p-1 replicas.
 * Source: PyTorch 1.2, torch/nn/parallel: data_parallel.py, scatter_gather.py, replicate.py, _functions.py. */
#include <math.h>

#include "strategy/strategy.h"

/* What moves in a step, X(name, text): rows of the ledger, within phase exchange. */
#define MOVES(X)        \
  X(SCATTER, "scatter") \
  X(REPLICATE, "replicate") X(GATHER, "gather") X(SCATTER_GRADIENT, "scatter_gradient") X(REDUCE, "reduce")

typedef enum move_kind {
#define RONDE_X(name, text) MOVE_##name,
  MOVES(RONDE_X)
#undef RONDE_X
      N_MOVES
} move_kind;

static const char *const move_names[] = {
#define RONDE_X(name, text) text,
    MOVES(RONDE_X)
#undef RONDE_X
};

/* On the master; bytes are those of all replicas. */
typedef struct move {
  int slot; /* of the ledger */
  uint64_t ns, bytes;
} move;

typedef struct state {
  ronde__worker *worker;
  ronde__master master; /* the worker's */
  const ronde__step *step;
  move moves[N_MOVES];
  ronde__batch batch;                             /* the master's, whole */
  int64_t input_elems, output_elems, label_elems; /* of an example */
  float *x;                                       /* replica: its part of the batch */
  float *outputs;                                 /* of the batch, or of the part: then their gradient */
  size_t gathered_bytes, reduced_bytes;           /* on the master, for memory figures */
  float *reduced;                                 /* master: a replica's gradients, [trained] */
  ronde__loss *loss;                              /* master */
  ronde__local_result found, *results;            /* [workers] */
  ronde__net_result *judged;                      /* master: of each worker's examples in this step, [workers] */
  int64_t *examples;                              /* master: how many that were, [workers] */
  int64_t *words;                                 /* [workers]: of heads */
  ronde__request *requests;                       /* [n_requests], under way */
  int n_requests;
  ronde_status posted; /* whether all of them could begin */
  int64_t ended;       /* the last step that has */
} state;

enum {
  TAG_HEAD = RONDE__TAG_STRATEGY, /* from the master: examples of the batch; its part follows */
  TAG_X,
  TAG_WEIGHTS,
  TAG_BUFFERS,
  TAG_DONE, /* to the master: forward has ended; the outputs follow */
  TAG_OUTPUTS,
  TAG_JUDGED, /* from the master: so has the loss; its gradient follows */
  TAG_OUTPUT_GRADIENTS,
  TAG_RESULT,
  TAG_GRADIENTS,
  TAG_RESULTS
};

static ronde__transport *transport_of(const state *s) { return s->worker->transport; }
static bool is_master(const state *s) { return transport_of(s)->rank == 0; }

/* Where a worker's part of the batch begins. The first ranks have the larger parts: the master always has an example. */
static int64_t part_begin(const state *s, int rank) {
  return ronde__shard_begin(s->batch.global_n, rank, transport_of(s)->size);
}
static int64_t part_n(const state *s, int rank) { return part_begin(s, rank + 1) - part_begin(s, rank); }
static size_t outputs_bytes(const state *s, int64_t n) { return (size_t)(n * s->output_elems) * sizeof(float); }
static float *outputs_of(const state *s, int rank) { return s->outputs + part_begin(s, rank) * s->output_elems; }

/* ---- messages, several at a time ---- */

static void post(state *s, bool sends, int peer, uint32_t tag, void *data, size_t bytes) {
  ronde__transport *t = transport_of(s);
  ronde__request *request = &s->requests[s->n_requests];
  if (s->posted != RONDE_OK) return;
  s->posted = sends ? t->ops->isend(t, peer, RONDE__WIRE_TAG(tag, 0), data, bytes, request)
                    : t->ops->irecv(t, peer, RONDE__WIRE_TAG(tag, 0), data, bytes, request);
  s->n_requests += s->posted == RONDE_OK;
}

static void post_send(state *s, int peer, uint32_t tag, const void *data, size_t bytes) {
  post(s, true, peer, tag, (void *)data, bytes);
}
static void post_receive(state *s, int peer, uint32_t tag, void *data, size_t bytes) {
  post(s, false, peer, tag, data, bytes);
}

static ronde_status all_done(state *s) {
  ronde__transport *t = transport_of(s);
  ronde_status status = s->posted;
  if (status == RONDE_OK) status = t->ops->wait(t, s->requests, s->n_requests, t->timeout_ns);
  else t->ops->cancel(t, s->requests, s->n_requests);
  s->n_requests = 0;
  s->posted = RONDE_OK;
  return status;
}

/* ---- the ledger: waiting for heads, then moves ---- */

static void begin_wait(state *s) { ronde__prof_switch(s->worker->prof, RONDE__PHASE_WAIT); }
static uint64_t begin_move(state *s) { return ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE); }

static void add_move(state *s, move_kind kind, uint64_t begin_ns, uint64_t end_ns, size_t bytes) {
  move *m = &s->moves[kind];
  ronde__prof_op_add(s->worker->prof, m->slot, begin_ns, end_ns, 0);
  m->ns += end_ns - begin_ns;
  m->bytes += bytes;
}

static ronde_status end_move(state *s, move_kind kind, uint64_t begin_ns, size_t bytes) {
  RONDE_TRY(all_done(s));
  add_move(s, kind, begin_ns, begin_move(s), bytes);
  return RONDE_OK;
}

/* ---- the batch and the model ---- */

static ronde_status replicate(state *s) {
  ronde__net *net = s->worker->net;
  size_t n_buffer_elems, bytes = ronde__net_n_elems(net) * sizeof(float);
  float *buffers = ronde__net_buffer_values(net, &n_buffer_elems);
  uint64_t begin = begin_move(s);
  RONDE_TRY(ronde__broadcast_tree(transport_of(s), TAG_WEIGHTS, 0, ronde__net_values(net), bytes));
  RONDE_TRY(ronde__broadcast_tree(transport_of(s), TAG_BUFFERS, 0, buffers, n_buffer_elems * sizeof *buffers));
  bytes += n_buffer_elems * sizeof *buffers;
  return end_move(s, MOVE_REPLICATE, begin, bytes * (size_t)(transport_of(s)->size - 1));
}

static ronde_status scatter(state *s) {
  size_t all = 0;
  uint64_t begin = begin_move(s);
  for (int r = 1; r < transport_of(s)->size; r++) {
    size_t bytes = (size_t)(part_n(s, r) * s->input_elems) * sizeof(float);
    post_send(s, r, TAG_HEAD, &s->batch.global_n, sizeof s->batch.global_n);
    if (bytes) post_send(s, r, TAG_X, s->batch.x + part_begin(s, r) * s->input_elems, bytes);
    s->examples[r] += part_n(s, r);
    all += bytes;
  }
  return end_move(s, MOVE_SCATTER, begin, all);
}

static ronde_status receive_part(state *s) {
  begin_wait(s);
  post_receive(s, 0, TAG_HEAD, &s->words[0], sizeof *s->words);
  RONDE_TRY(all_done(s));
  s->batch = (ronde__batch){.global_n = s->words[0], .x = s->x};
  uint64_t begin = begin_move(s);
  size_t bytes = (size_t)(part_n(s, transport_of(s)->rank) * s->input_elems) * sizeof(float);
  if (bytes) post_receive(s, 0, TAG_X, s->x, bytes);
  return end_move(s, MOVE_SCATTER, begin, bytes);
}

/* The master's part begins where the batch does. */
static ronde_status next_batch(void *user, ronde__batch *batch_out) {
  state *s = user;
  if (is_master(s)) RONDE_TRY(ronde__loader_next(s->worker->loader, &s->batch));
  RONDE_TRY(is_master(s) ? scatter(s) : receive_part(s));
  RONDE_TRY(replicate(s));
  *batch_out = s->batch;
  batch_out->n = part_n(s, transport_of(s)->rank);
  return RONDE_OK;
}

/* ---- the outputs and their loss ---- */

/* Outputs to the master, or their gradient from there: each behind a head. */
static ronde_status exchange_outputs(state *s, bool sends, uint32_t head, uint32_t tag, move_kind kind) {
  size_t all = 0;
  if (!sends) begin_wait(s);
  uint64_t begin = sends ? begin_move(s) : 0;
  for (int r = 1; r < transport_of(s)->size; r++)
    if (part_n(s, r)) post(s, sends, r, head, &s->words[r], sizeof *s->words);
  if (!sends) {
    RONDE_TRY(all_done(s));
    begin = begin_move(s);
  }
  for (int r = 1; r < transport_of(s)->size; r++) {
    if (part_n(s, r)) post(s, sends, r, tag, outputs_of(s, r), outputs_bytes(s, part_n(s, r)));
    all += outputs_bytes(s, part_n(s, r));
  }
  return end_move(s, kind, begin, all);
}

/* Part by part, so that a loss that is not finite has a rank. */
static ronde_status judge(state *s, ronde__net_result *own_out) {
  *own_out = (ronde__net_result){0};
  for (int r = 0; r < transport_of(s)->size; r++) {
    ronde__net_batch part = {.n = part_n(s, r), .label_weight = s->step->label_weight};
    ronde__net_result result;
    if (part.n == 0) break;
    if (s->batch.labels) part.labels = s->batch.labels + part_begin(s, r) * s->label_elems;
    if (s->batch.targets) part.targets = s->batch.targets + part_begin(s, r) * s->output_elems;
    ronde__prof_switch(s->worker->prof, RONDE__PHASE_FORWARD);
    RONDE_TRY(ronde__loss_run(s->loss, &part, (float)(1.0 / (double)s->step->examples), outputs_of(s, r), &result));
    s->judged[r].loss_sum += result.loss_sum;
    s->judged[r].n_correct += result.n_correct;
    if (r == 0) *own_out = result;
  }
  return RONDE_OK;
}

static ronde_status judge_all(state *s, ronde__net_result *own_out) {
  RONDE_TRY(exchange_outputs(s, false, TAG_DONE, TAG_OUTPUTS, MOVE_GATHER));
  RONDE_TRY(judge(s, own_out));
  return exchange_outputs(s, true, TAG_JUDGED, TAG_OUTPUT_GRADIENTS, MOVE_SCATTER_GRADIENT);
}

/* A replica cannot tell the master's gathering from its other work: until the master has judged, it waits. */
static ronde_status be_judged(state *s, int64_t n) {
  size_t bytes = outputs_bytes(s, n);
  uint64_t begin = begin_move(s);
  post_send(s, 0, TAG_DONE, &s->words[0], sizeof *s->words);
  post_send(s, 0, TAG_OUTPUTS, s->outputs, bytes);
  post_receive(s, 0, TAG_JUDGED, &s->words[1], sizeof *s->words);
  add_move(s, MOVE_GATHER, begin, begin_move(s), bytes);
  begin_wait(s);
  RONDE_TRY(all_done(s));
  begin = begin_move(s);
  post_receive(s, 0, TAG_OUTPUT_GRADIENTS, s->outputs, bytes);
  return end_move(s, MOVE_SCATTER_GRADIENT, begin, bytes);
}

static ronde_status loss(void *user, int64_t n, ronde__net_result *result_out) {
  state *s = user;
  if (is_master(s)) return judge_all(s, result_out);
  *result_out = (ronde__net_result){0};
  return be_judged(s, n);
}

/* ---- the gradients ---- */

/* What the workers found is theirs, but for the loss. */
static void add_judged(state *s) {
  for (int r = 0; r < transport_of(s)->size; r++) {
    s->results[r].loss_sum = s->judged[r].loss_sum;
    s->results[r].n_correct = s->judged[r].n_correct;
    if (!isfinite(s->judged[r].loss_sum)) s->results[r].broken = 1;
  }
}

/* In the order of ranks. */
static ronde_status sum_gradients(state *s) {
  const ronde__worker *worker = s->worker;
  float *gradients = ronde__net_gradients(worker->net);
  size_t n = ronde__net_n_trained(worker->net);
  for (int r = 1; r < transport_of(s)->size; r++) post_receive(s, r, TAG_RESULT, &s->results[r], sizeof *s->results);
  RONDE_TRY(all_done(s));
  for (int r = 1; r < transport_of(s)->size; r++) {
    if (s->examples[r] == 0) continue;
    post_receive(s, r, TAG_GRADIENTS, s->reduced, n * sizeof *s->reduced);
    RONDE_TRY(all_done(s));
    worker->kernels->add(gradients, s->reduced, gradients, (int64_t)n);
    s->moves[MOVE_REDUCE].bytes += n * sizeof *s->reduced;
  }
  s->results[0] = s->found;
  add_judged(s);
  return RONDE_OK;
}

static ronde_status send_gradients(state *s) {
  size_t bytes = ronde__net_n_trained(s->worker->net) * sizeof(float);
  post_send(s, 0, TAG_RESULT, &s->found, sizeof s->found);
  if (s->step->own_examples) post_send(s, 0, TAG_GRADIENTS, ronde__net_gradients(s->worker->net), bytes);
  return all_done(s);
}

/* What was before the last one was ready is waiting. Who was late is told by what each has done, as all have waited for
 * each other at the loss. */
static void account(state *s, uint64_t begin_ns, uint64_t met_ns) {
  ronde__worker *worker = s->worker;
  int n = transport_of(s)->size;
  uint64_t latest = 0;
  ronde__local_results_waited(s->results, n, worker->prof, worker->met_ns, begin_ns, met_ns);
  for (int r = 0; r < n; r++) {
    ronde__local_result *result = &s->results[r];
    latest = (uint64_t)ronde__max((int64_t)latest, (int64_t)(worker->met_ns + result->ready_ns));
    result->ready_ns = 0;
    for (int c = 0; c < RONDE__N_STRAGGLER_CAUSES; c++) result->ready_ns += result->spent_ns[c];
  }
  if (latest < begin_ns) latest = begin_ns;
  add_move(s, MOVE_REDUCE, latest < met_ns ? latest : met_ns, met_ns, 0);
  ronde__worker_met(worker, s->results, met_ns, met_ns);
}

static ronde_status reduce(state *s) {
  uint64_t begin = begin_move(s);
  RONDE_TRY(is_master(s) ? sum_gradients(s) : send_gradients(s));
  size_t bytes = (size_t)transport_of(s)->size * sizeof *s->results;
  RONDE_TRY(ronde__broadcast_tree(transport_of(s), TAG_RESULTS, 0, s->results, bytes));
  account(s, begin, begin_move(s));
  return RONDE_OK;
}

static ronde_status step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  int n = transport_of(s)->size;
  if (n == 1) return ronde__worker_step(worker, step, result_out);
  s->step = step;
  for (int r = 0; r < n && is_master(s); r++) {
    s->judged[r] = (ronde__net_result){0};
    s->examples[r] = 0;
  }
  RONDE_TRY(ronde__worker_gradients(worker, step, (ronde__gradient_listener){0}, &s->found));
  RONDE_TRY(reduce(s));
  *result_out = ronde__local_results_join(s->results, n);
  if (is_master(s) && result_out->broken_rank < 0) ronde__worker_update(worker, step->lr);
  s->ended = step->step;
  ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

/* The master alone has the optimizer's state, and its update waits for nobody. */
static int64_t recover(void *opaque) {
  const state *s = opaque;
  return is_master(s) ? s->ended : -1;
}

static ronde_status refresh(void *opaque) {
  state *s = opaque;
  return transport_of(s)->size > 1 ? replicate(s) : RONDE_OK;
}

/* ---- creation ---- */

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__loss_destroy(s->loss);
  ronde__free(s->x);
  ronde__free(s->outputs);
  ronde__free(s->reduced);
  ronde__free(s->results);
  ronde__free(s->judged);
  ronde__free(s->examples);
  ronde__free(s->words);
  ronde__free(s->requests);
  ronde__free(s);
}

static ronde_status make_master(state *s) {
  const ronde__worker *worker = s->worker;
  size_t n = (size_t)transport_of(s)->size;
  s->gathered_bytes = outputs_bytes(s, worker->batch);
  s->reduced_bytes = ronde__net_n_trained(worker->net) * sizeof *s->reduced;
  RONDE__ALLOC(s->outputs, s->gathered_bytes, "gathered outputs");
  RONDE__ALLOC(s->reduced, s->reduced_bytes, "gradients of a replica");
  RONDE__ALLOC(s->judged, n * sizeof *s->judged, "data parallel");
  RONDE__ALLOC(s->examples, n * sizeof *s->examples, "data parallel");
  return ronde__loss_create(ronde__net_graph(worker->net), worker->kernels, worker->prof, &s->loss);
}

static ronde_status make_replica(state *s) {
  int64_t most = ronde__ceil_div(s->worker->batch, transport_of(s)->size);
  RONDE__ALLOC(s->x, (size_t)(most * s->input_elems) * sizeof *s->x, "part of a batch");
  RONDE__ALLOC(s->outputs, outputs_bytes(s, most), "outputs");
  return RONDE_OK;
}

static ronde_status set_up(state *s) {
  ronde__worker *worker = s->worker;
  const ronde_graph *graph = ronde__net_graph(worker->net);
  size_t n = (size_t)transport_of(s)->size;
  if (n == 1) return RONDE_OK;
  s->input_elems = ronde__graph_input_elems(graph);
  s->output_elems = ronde__loss_elems(graph);
  s->label_elems = ronde__loss_labels(graph);
  for (int i = 0; i < N_MOVES; i++)
    s->moves[i].slot = ronde__prof_op_slot(worker->prof, move_names[i], RONDE__PHASE_EXCHANGE, "dataparallel");
  RONDE__ALLOC(s->results, n * sizeof *s->results, "data parallel");
  RONDE__ALLOC(s->words, n * sizeof *s->words, "data parallel");
  RONDE__ALLOC(s->requests, 2 * n * sizeof *s->requests, "data parallel");
  RONDE_TRY(is_master(s) ? make_master(s) : make_replica(s));
  s->master = (ronde__master){next_batch, loss, s->outputs, s};
  worker->master = &s->master;
  return RONDE_OK;
}

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "data parallel");
  *s = (state){.worker = worker};
  ronde_status status = set_up(s);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

/* ---- the report ---- */

/* Without those that are read ahead, which loaders have with every strategy. */
static size_t batch_bytes(const state *s) {
  return transport_of(s)->size == 1 ? 0 : (size_t)(s->worker->batch * s->input_elems) * sizeof(float);
}

static size_t master_bytes(const void *opaque) {
  const state *s = opaque;
  return batch_bytes(s) + s->gathered_bytes + s->reduced_bytes;
}

/* The master has the optimizer's state, once. */
static size_t more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  return optimizer;
}

static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  const state *s = opaque;
  if (transport_of(s)->size == 1) return;
  json_t *moves = json_object();
  for (int i = 0; i < N_MOVES; i++)
    json_object_set_new(
        moves, move_names[i],
        json_pack("{s:f, s:I}", "seconds", (double)s->moves[i].ns * 1e-9, "bytes", (json_int_t)s->moves[i].bytes));
  json_object_set_new(moves, "master_bytes",
                      json_pack("{s:I, s:I, s:I}", "batch", (json_int_t)batch_bytes(s), "outputs",
                                (json_int_t)s->gathered_bytes, "gradients", (json_int_t)s->reduced_bytes));
  json_object_set_new(communication, "dataparallel", moves);
}

static const char *const options[] = {"skip-bad-steps", "clip", NULL};

const ronde__strategy ronde__strategy_dataparallel = {
    .name = "dataparallel",
    .options = options,
    .min_workers = 1,
    .fuses_alone = true,
    .waits_for_all = true,
    .equals_one = true,
    .needs_values = true,
    .rank_0_loads = true,
    .more_bytes = more_bytes,
    .master_bytes = master_bytes,
    .create = create,
    .step = step,
    .destroy = destroy,
    .recover = recover,
    .refresh = refresh,
    .records = (const char *const[]){"dataparallel", NULL},
    .record = record,
};

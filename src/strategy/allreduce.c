/* Synchronous data parallelism (of `hybrid` all but the layers that are split): every rank computes the gradient of its part of the batch; the parts are summed by an
 * all-reduce, in buckets from the last layer to the first, while backward still runs; every rank makes the same update,
 * of a bucket while the next ones are under way. Once all gradients are there, first layers' overtake, so that the next
 * forward pass can begin. Sources: Li et al., "PyTorch distributed: experiences on accelerating data parallel
 * training", VLDB 2020; Jayarajan et al., "Priority-based parameter propagation for distributed DNN training", MLSys
 * 2019. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "strategy/allreduce.h"
#include "strategy/lbfgs_steps.h"
#include "strategy/met_rows.h"
#include "strategy/undo.h"

typedef struct state {
  ronde__worker *worker;
  const ronde__strategy_settings *settings;
  ronde__comm_thread *thread;
  ronde__buckets cut;
  ronde__met_rows *met; /* NULL: every row of a table is exchanged */
  /* Buckets go out in the same order on every rank: as backward has them, up to `turn`, then as forward needs them. */
  _Atomic int turn;
  int n_sent, n_begun, n_updated; /* in this order; n_begun: of jobs alone */
  uint64_t n_before;              /* jobs of the thread before this step's */
  float *scratch;
  float *residual;                     /* [trained] of a bfloat16 wire; NULL: the wire is f32 */
  ronde__local_result found, *results; /* [ranks] */
  ronde_status status;                 /* of what was done inside a hook */
  int64_t step;                        /* the last that has ended; its update may be under way */
  ronde__undo *undo;                   /* of the buckets that are updated while others are exchanged; NULL: none */
  int n_kept;                          /* of them, in the order of updates */
  ronde__bus bus;
} state;

enum { TAG_RESULTS = RONDE__TAG_STRATEGY, TAG_WEIGHTS, TAG_NORMS, TAG_BUCKETS };

/* The next part of a split parameter that is this rank's: its gradient is of the whole batch, and nobody else needs it.
 * From *param on, 0 at first. */
static bool next_part(const ronde__worker *worker, int *param, ronde__range *part_out) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(worker->net, &n_params);
  while (*param < n_params) {
    const ronde__net_param *p = &params[(*param)++];
    if (!p->split) continue;
    *part_out = ronde__net_part(p, worker->transport->rank, worker->transport->size);
    if (part_out->n) return true;
  }
  return false;
}

static void update_parts(const state *s) {
  ronde__range part;
  for (int i = 0; !s->worker->fuses_split && next_part(s->worker, &i, &part);)
    ronde__worker_update_range(s->worker, part);
}

/* The i-th that goes out; and the other way round, it is its own inverse. */
static int bucket_at(const state *s, int i) {
  int turn = atomic_load_explicit(&s->turn, memory_order_relaxed);
  return i < turn ? i : s->cut.n - 1 - (i - turn);
}

static ronde_status reduce(const state *s, int b) {
  ronde__worker *worker = s->worker;
  const ronde__bucket *cut = &s->cut.at[b];
  float *gradients = ronde__net_gradients(worker->net), *x = gradients + cut->begin;
  uint32_t tag = (uint32_t)(TAG_BUCKETS + b);
  if (s->met) RONDE_TRY(ronde__met_rows_share(s->met, tag, b));
  ronde__bucket_pack(cut, gradients);
  if (cut->n_live == 0) return RONDE_OK; /* of tables alone, of which nobody has met a row */
  if (s->residual)
    RONDE_TRY(ronde__allreduce_bf16(worker->transport, worker->kernels, tag, x, cut->n_live, s->residual + cut->begin,
                                    s->scratch));
  else RONDE_TRY(s->settings->collective->run(worker->transport, worker->kernels, tag, x, cut->n_live, s->scratch));
  ronde__bucket_unpack(cut, gradients);
  return RONDE_OK;
}

/* A job: the next bucket. Behind the turn nobody is waited for any more. */
static ronde_status exchange(void *arg) {
  state *s = arg;
  ronde__transport *transport = s->worker->transport;
  int i = s->n_begun++, b = bucket_at(s, i);
  uint64_t begin = ronde__time_now(transport->time);
  RONDE_TRY(reduce(s, b));
  if (i < atomic_load_explicit(&s->turn, memory_order_relaxed)) return RONDE_OK;
  size_t bytes = s->cut.at[b].n_live * (s->residual ? sizeof(uint16_t) : sizeof(float));
  ronde__bus_add(&s->bus, ronde__time_now(transport->time) - begin, bytes, transport->size);
  return RONDE_OK;
}

static void send_ready(state *s, int n) {
  while (s->n_sent < n && ronde__bucket_is_ready(&s->cut.at[s->n_sent]) && s->status == RONDE_OK) {
    s->status = ronde__comm_thread_submit(s->thread, exchange, s);
    s->n_sent++;
  }
}

static void allreduce_gradient_final(void *user, const ronde__gradient *gradient) {
  state *s = user;
  ronde__buckets_final(&s->cut, gradient);
  if (s->settings->overlap) send_ready(s, s->cut.n - 1);
}

/* A rank that has all its gradients tells what it found, and learns it of the others; the last bucket goes out behind
 * that, when nobody is waited for any more. The order turns behind what some rank has begun, and one bucket more, lest
 * the link stand still meanwhile. */
static ronde_status allreduce_meet(state *s) {
  ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  int turn = 0;
  send_ready(s, s->cut.n - 1);
  RONDE_TRY(s->status);
  uint64_t begun = ronde__comm_thread_hold(s->thread, 1) - s->n_before;
  s->found.n_begun = (int32_t)ronde__min((int64_t)begun, s->cut.n - 1);
  s->results[transport->rank] = s->found;
  RONDE_TRY(ronde__allgather(transport, TAG_RESULTS, s->results, sizeof *s->results));
  for (int r = 0; r < transport->size; r++) turn = (int)ronde__max(turn, s->results[r].n_begun);
  atomic_store_explicit(&s->turn, turn, memory_order_relaxed);
  ronde__comm_thread_go_on(s->thread);
  send_ready(s, s->cut.n);
  RONDE_TRY(s->status);
  uint64_t met = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__worker_met(worker, s->results, begin, met);
  return RONDE_OK;
}

/* All buckets are back: the next step may send. */
static void rest(state *s) {
  ronde__buckets_begin(&s->cut);
  if (s->met) ronde__met_rows_begin(s->met);
  atomic_store_explicit(&s->turn, s->cut.n, memory_order_relaxed);
  s->n_sent = s->n_begun = 0;
  s->n_updated = s->cut.n;
  s->n_before = ronde__comm_thread_submitted(s->thread);
}

/* Once all sums are here the update can be ended whoever is lost; up to there it may have to be undone. */
static void keep(state *s, const ronde__bucket *cut) {
  if (!s->undo || s->n_kept < s->n_updated) return;
  if (ronde__comm_thread_done(s->thread) >= s->n_before + (uint64_t)s->cut.n) return;
  ronde__undo_keep(s->undo, cut->begin, cut->end);
  s->n_kept++;
}

/* Each bucket is updated while the next is under way; the ledger is in phase exchange, before and after. */
static ronde_status update_up_to(state *s, int n) {
  for (; s->n_updated < n; s->n_updated++) {
    const ronde__bucket *cut = &s->cut.at[bucket_at(s, s->n_updated)];
    RONDE_TRY(ronde__comm_thread_reach(s->thread, s->n_before + (uint64_t)s->n_updated + 1));
    keep(s, cut);
    ronde__worker_update_range(s->worker, (ronde__range){cut->begin, cut->end - cut->begin});
  }
  if (n == s->cut.n) rest(s);
  return RONDE_OK;
}

static ronde_status allreduce_settle(void *opaque) {
  state *s = opaque;
  RONDE_TRY(s->status);
  return s->n_updated < s->cut.n ? update_up_to(s, s->cut.n) : RONDE_OK;
}

/* An update that is in the middle is ended where all sums have come, else undone. A bucket is not kept where they had. */
static int64_t allreduce_recover(void *opaque) {
  state *s = opaque;
  if (s->n_updated == s->cut.n && s->thread && s->settings->options->on_loss == RONDE__ON_LOSS_CONTINUE)
    ronde__comm_thread_halt(s->thread); /* some of the next step's may be under way */
  if (s->n_updated == s->cut.n) return s->step;
  if (s->status == RONDE_OK && ronde__comm_thread_drain(s->thread) == RONDE_OK)
    return update_up_to(s, s->cut.n) == RONDE_OK ? s->step : -1;
  if (!s->undo || s->n_kept < s->n_updated) return -1;
  for (int i = 0; i < s->n_updated; i++) {
    const ronde__bucket *cut = &s->cut.at[bucket_at(s, i)];
    ronde__undo_restore(s->undo, cut->begin, cut->end);
  }
  if (s->n_updated == 0) ronde__undo_restore(s->undo, 0, 0);
  return s->step - 1;
}

static ronde_status allreduce_param_needed(void *user, int param) {
  state *s = user;
  ronde__bucket_span span = s->cut.of_param[param];
  int n = 0;
  if (s->n_updated == s->cut.n || s->status != RONDE_OK) return s->status;
  for (int b = span.first; b <= span.last; b++) n = (int)ronde__max(n, bucket_at(s, b) + 1);
  if (n <= s->n_updated) return RONDE_OK;
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  s->status = update_up_to(s, n);
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_FORWARD);
  return s->status;
}

/* Of what is exchanged, which all have, and of the parts of all. */
static ronde_status norm(const state *s, double *sum_out) {
  const ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  const float *gradients = ronde__net_gradients(worker->net);
  double *parts, sum = 0;
  RONDE__ALLOC(parts, (size_t)transport->size * sizeof *parts, "all-reduce");
  ronde__range part;
  for (int i = 0; next_part(worker, &i, &part);)
    parts[transport->rank] += worker->kernels->sum_squares(gradients + part.begin, (int64_t)part.n);
  ronde_status status = ronde__allgather(transport, TAG_NORMS, parts, sizeof *parts);
  for (int b = 0; b < s->cut.n; b++)
    sum +=
        worker->kernels->sum_squares(gradients + s->cut.at[b].begin, (int64_t)(s->cut.at[b].end - s->cut.at[b].begin));
  for (int r = 0; r < transport->size; r++) sum += parts[r];
  ronde__free(parts);
  *sum_out = sum;
  return status;
}

/* Everything is there. */
static ronde_status update_clipped(state *s, double lr) {
  ronde__worker *worker = s->worker;
  float *gradients = ronde__net_gradients(worker->net);
  double sum = 0;
  ronde__range part;
  if (!worker->peers) return ronde__worker_update(worker, lr), RONDE_OK;
  RONDE_TRY(norm(s, &sum));
  float factor = ronde__clip_factor(sum, worker->clip);
  ronde__optim_begin(worker->optim, lr);
  for (int b = 0; b < s->cut.n; b++) {
    part = (ronde__range){s->cut.at[b].begin, s->cut.at[b].end - s->cut.at[b].begin};
    if (factor != 1) worker->kernels->scale(gradients + part.begin, factor, (int64_t)part.n);
    ronde__worker_update_range(worker, part);
  }
  for (int i = 0; factor != 1 && next_part(worker, &i, &part);)
    worker->kernels->scale(gradients + part.begin, factor, (int64_t)part.n);
  update_parts(s);
  return RONDE_OK;
}

/* At once, where the step is broken or the norm of all of it counts; else while the next one's forward pass runs. All have
 * the step's result by now, so it has ended on all ranks alike: an exchange that fails ends what follows it. */
static ronde_status update(state *s, const ronde__step *step, bool broken) {
  ronde__worker *worker = s->worker;
  if (s->undo) ronde__undo_begin(s->undo);
  if (broken || worker->clip > 0) {
    s->step = step->step;
    s->status = ronde__comm_thread_drain(s->thread);
    if (s->status != RONDE_OK) {
      s->n_updated = s->n_kept = 0;
      return RONDE_OK;
    }
    if (!broken) RONDE_TRY(update_clipped(s, step->lr));
    rest(s);
    return RONDE_OK;
  }
  if (!worker->fuses_split) ronde__optim_begin(worker->optim, step->lr);
  s->n_updated = s->n_kept = 0;
  s->step = step->step;
  update_parts(s);
  if (!s->settings->overlap) s->status = update_up_to(s, s->cut.n);
  return RONDE_OK;
}

/* Where layers are split, NaN goes on from the rank where it began to all others: a loss was first, else the gradient of
 * the last layer. */
static void find_cause(const state *s, ronde__step_result *result) {
  int cause = -1;
  for (int r = 0; r < s->worker->transport->size; r++) {
    int broken = s->results[r].broken, than = cause < 0 ? 0 : s->results[cause].broken;
    if (broken && than != 1 && (broken == 1 || broken > than)) cause = r;
  }
  result->broken_rank = cause;
  result->broken_param = cause < 0 ? -1 : s->results[cause].broken - 2;
}

/* Behind it the last buckets are under way. */
static ronde_status begin_exchange(state *s, const ronde__step *step, ronde__step_result *result_out) {
  RONDE_TRY(
      ronde__worker_gradients(s->worker, step, (ronde__gradient_listener){allreduce_gradient_final, s}, &s->found));
  RONDE_TRY(allreduce_meet(s));
  *result_out = ronde__local_results_join(s->results, s->worker->transport->size);
  if (s->worker->peers) find_cause(s, result_out);
  return RONDE_OK;
}

ronde_status ronde__allreduce_gradients(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  if (s->worker->transport->size == 1) return ronde__worker_evaluate(s->worker, step, result_out);
  RONDE_TRY(begin_exchange(s, step, result_out));
  RONDE_TRY(ronde__comm_thread_drain(s->thread));
  rest(s);
  return RONDE_OK;
}

static ronde_status allreduce_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  if (worker->transport->size == 1) return ronde__worker_step(worker, step, result_out);
  RONDE_TRY(begin_exchange(s, step, result_out));
  ronde_status status = update(s, step, result_out->broken_rank >= 0);
  ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER);
  return status;
}

static void allreduce_destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__comm_thread_destroy(s->thread);
  ronde__met_rows_destroy(s->met);
  ronde__buckets_free(&s->cut);
  ronde__undo_destroy(s->undo);
  ronde__free(s->scratch);
  ronde__free(s->residual);
  ronde__free(s->results);
  ronde__free(s);
}

static ronde_status make_buckets(state *s) {
  RONDE_TRY(ronde__buckets_make(s->worker->net, s->settings->bucket_bytes, &s->cut));
  size_t longest = ronde__buckets_longest(&s->cut);
  size_t scratch = s->settings->collective->scratch(s->worker->transport, longest);
  if (s->settings->wire_bf16) {
    scratch = ronde__allreduce_bf16_scratch(longest, s->worker->transport->size);
    RONDE__ALLOC_FLOATS(s->residual, s->worker->kernels, ronde__net_n_trained(s->worker->net),
                        "residual of --wire bf16");
  }
  RONDE__ALLOC_FLOATS(s->scratch, s->worker->kernels, scratch, "buckets");
  return RONDE_OK;
}

static bool undoes(const ronde__strategy_settings *settings, int n_workers) {
  int on_loss = settings->options->on_loss;
  return n_workers > 1 && (on_loss == RONDE__ON_LOSS_RESTART || on_loss == RONDE__ON_LOSS_CONTINUE);
}

static size_t recovery_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  return undoes(settings, settings->roles->n_workers) ? ronde__undo_bytes(gradients, optimizer, 0) : 0;
}

/* L-BFGS takes the gradients for a vector like any other, and what the bfloat16 wire has lost belongs to a place in a
 * bucket. */
static bool tracks_rows(const state *s) {
  const ronde__strategy_settings *settings = s->settings;
  return settings->options->sparse_gradients && !settings->wire_bf16 && !ronde__lbfgs_is_meant(settings);
}

static ronde_status set_up(state *s) {
  ronde__transport *transport = s->worker->transport;
  if (transport->size == 1) return tracks_rows(s) ? ronde__net_track_rows(s->worker->net) : RONDE_OK;
  RONDE__ALLOC(s->results, (size_t)transport->size * sizeof *s->results, "all-reduce");
  RONDE_TRY(make_buckets(s));
  if (tracks_rows(s)) RONDE_TRY(ronde__met_rows_create(s->worker, &s->cut, &s->met));
  int rank = s->settings->group->rank;
  RONDE_TRY(ronde__comm_thread_create(transport->time, rank, !s->settings->overlap, &s->thread));
  rest(s);
  if (undoes(s->settings, transport->size) && !s->worker->peers) RONDE_TRY(ronde__undo_create(s->worker, 0, &s->undo));
  s->worker->param_needed = allreduce_param_needed;
  s->worker->needed_user = s;
  size_t bytes = ronde__net_n_elems(s->worker->net) * sizeof(float);
  return ronde__broadcast_tree(transport, TAG_WEIGHTS, 0, ronde__net_values(s->worker->net), bytes);
}

static ronde_status allreduce_create(ronde__worker *worker, const ronde__strategy_settings *settings,
                                     void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "all-reduce");
  *s = (state){.worker = worker, .settings = settings};
  ronde_status status = set_up(s);
  if (status != RONDE_OK) allreduce_destroy(s);
  else *state_out = s;
  return status;
}

void ronde__bus_add(ronde__bus *bus, uint64_t ns, size_t bytes, int n_ranks) {
  bus->ns += ns;
  bus->bytes += 2 * bytes * (uint64_t)(n_ranks - 1) / (uint64_t)n_ranks;
}

void ronde__bus_record(const ronde__bus *all, const ronde__strategy_settings *settings, json_t *communication) {
  json_object_set_new(communication, "collective", json_string(settings->collective->name));
  if (all->ns)
    json_object_set_new(communication, "busbw_bytes_per_s", json_real((double)all->bytes / (double)all->ns * 1e9));
}

static void facts(const void *opaque, const ronde__service *services, void *facts_out) {
  *(ronde__bus *)facts_out = ((const state *)opaque)->bus;
}

static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  const state *s = opaque;
  const ronde__bus *of_rank = facts;
  ronde__bus all = {0};
  if (s->worker->transport->size == 1) return;
  for (int i = 0; i < n_ranks; i++) {
    all.ns += of_rank[i].ns;
    all.bytes += of_rank[i].bytes;
  }
  ronde__bus_record(&all, s->settings, communication);
  if (s->met && !isnan(ronde__met_rows_part(s->met)))
    json_object_set_new(communication, "table_rows_exchanged", json_real(ronde__met_rows_part(s->met)));
}

#define OPTIONS RONDE__OPTIONS_OF_STEPS, RONDE__OPTIONS_OF_BUCKETS, RONDE__OPTIONS_OF_LBFGS, "collective", "wire"

const char *const ronde__allreduce_options[] = {OPTIONS, NULL};
static const char *const options[] = {OPTIONS, "sparse-gradients", NULL};

const ronde__strategy ronde__strategy_allreduce = {
    .name = "allreduce",
    .options = options,
    .min_workers = 1,
    .fuses_alone = true,
    .all_reduces = true,
    .regroups = true,
    .waits_for_all = true,
    .equals_one = true,
    .create = allreduce_create,
    .step = allreduce_step,
    .destroy = allreduce_destroy,
    .settle = allreduce_settle,
    .recover = allreduce_recover,
    .recovery_bytes = recovery_bytes,
    .facts_bytes = sizeof(ronde__bus),
    .facts = facts,
    .records = (const char *const[]){"collective", "busbw_bytes_per_s", "table_rows_exchanged", NULL},
    .record = record,
};

/* Synchronous data parallelism with the update and the optimizer's state cut into shards, ZeRO stage 1: a
 * reduce-scatter leaves each rank the sum of its chunk of every bucket, of which it alone holds the optimizer's state
 * and which it alone updates; an all-gather gives the new weights to all. The bytes are those of an all-reduce.
 *
 * Gradients travel in buckets from the last layer to the first while backward runs; weights from the first layer to the
 * last while the next forward pass runs, which waits for a parameter when it needs it. Without overlap, within a host,
 * nothing is copied for the exchange: each rank adds the others' gradients to its own where they lie, and updates from
 * the sum while that is in cache.
 * Sources: Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models", SC 2020 (the
 * shards); Li et al., "PyTorch distributed", VLDB 2020 (the buckets).
 * p ranks; b a bucket, from the last layer to the first. */
#include <stdatomic.h>
#include <string.h>

#include "strategy/mirror.h"
#include "strategy/shard.h"
#include "strategy/strategy.h"

typedef struct state {
  ronde__worker *worker;
  const ronde__strategy_settings *settings;
  int n_ranks; /* when it was created: the worker may have another transport once one is lost */
  ronde__buckets cut;
  ronde__shard *shards;      /* [ranks]; where ranks are on several hosts all but the own one are empty */
  const ronde__shard *own;   /* of them, this rank's */
  ronde__pieces *of;         /* [ranks]: of the bucket at hand */
  ronde__request *requests;  /* pairwise: of all buckets, */
  int *first_request;        /* [buckets + 1] */
  bool pairwise;             /* all ranks are on one host; else rings go round */
  bool moves_dead, is_stale; /* dead weights change; those of other ranks' shards are older than the last update */
  float *scratch, *zeros;    /* zeros: a piece of gradients, for what is dead */
  ronde__local_result found, *results; /* [ranks] */
  double *norms;                       /* [ranks]: squared, of their shards */
  float factor;                        /* of clipping */
  uint64_t update_ns;                  /* of the present step, where the rank itself updates */
  int n_left;                          /* buckets 0 to n_left - 1 are not up to date yet */
  ronde_status status;                 /* of what was done inside a hook, or behind the step's result */
  int64_t step;                        /* the last that has ended; its update may be under way, */
  bool is_left_out;                    /* or there is none: it was broken */
  ronde__mirror *mirror;               /* where the others go on without a rank that is lost; else NULL */
  /* A thread that exchanges; NULL: this rank does it all by itself, behind backward. Its jobs are alike: the first
   * `turn` reduce a bucket each, in backward's order; then each bucket is finished, in forward's, those that are not
   * reduced yet too. */
  ronde__comm_thread *thread;
  _Atomic int turn;
  atomic_bool skips; /* the step is broken: nothing is finished */
  int n_sent, n_begun;
  uint64_t n_before; /* jobs of the thread before this step's */
} state;

enum { TAG_RESULTS = RONDE__TAG_STRATEGY, TAG_WEIGHTS, TAG_NORMS, TAG_DEAD, TAG_STATES, TAG_MIRROR, TAG_BUCKETS };

static uint32_t tag_of(int b) { return (uint32_t)(TAG_BUCKETS + b); }
static float *values_of(const state *s) { return ronde__net_values(s->worker->net); }
static float *gradients_of(const state *s) { return ronde__net_gradients(s->worker->net); }

/* ---- a bucket ------------------------------------------------------------------------------------------------------- */

static const ronde__pieces *pieces_of(state *s, int b) {
  for (int r = 0; r < s->worker->transport->size; r++) s->of[r] = ronde__shard_of(&s->shards[r], b);
  return s->of;
}

static ronde__request *spread_requests(state *s, int b) {
  return s->requests + s->first_request[b] + ronde__pairwise_others(s->worker->transport, pieces_of(s, b));
}

static ronde_status wait_bucket(state *s, int b) {
  ronde__transport *transport = s->worker->transport;
  return transport->ops->wait(transport, s->requests + s->first_request[b],
                              s->first_request[b + 1] - s->first_request[b], transport->timeout_ns);
}

static ronde_status offer(state *s, int b) {
  return ronde__pairwise_offer(s->worker->transport, tag_of(b), gradients_of(s), pieces_of(s, b),
                               s->requests + s->first_request[b]);
}

typedef struct taking {
  state *s;
  int first; /* the first piece of the bucket */
} taking;

static void keep_sum(void *arg, int piece, const float *sum) {
  const taking *t = arg;
  ronde__range place = t->s->own->pieces[t->first + piece];
  memcpy(gradients_of(t->s) + place.begin, sum, place.n * sizeof *sum);
}

/* Piece i of the shard. */
static void update_piece(state *s, int i, const float *gradient) {
  ronde__worker *worker = s->worker;
  ronde__range place = s->own->pieces[i];
  if (s->settings->overlap) { /* on the thread that exchanges, beside the pool */
    ronde__optim_range(worker->optim, values_of(s) + place.begin, gradient, s->own->at[i], place.n);
    return;
  }
  uint64_t begin = ronde__time_now(worker->transport->time);
  ronde__optim_range_on(worker->optim, worker->pool, values_of(s) + place.begin, gradient, s->own->at[i], place.n);
  s->update_ns += ronde__time_now(worker->transport->time) - begin;
}

static void update_from_sum(void *arg, int piece, const float *sum) {
  const taking *t = arg;
  update_piece(t->s, t->first + piece, sum);
}

/* take NULL: the sums are nobody's. */
static ronde_status sum_offered(state *s, int b, ronde__take take) {
  taking t = {s, s->own->first[b]};
  return ronde__pairwise_sum(s->worker->transport, s->worker->kernels, tag_of(b), gradients_of(s),
                             ronde__shard_of(s->own, b), take, &t, s->scratch);
}

/* The bucket's place in the gradients, where a ring has left its sums packed. */
static float *packed_of(const state *s, int b) { return gradients_of(s) + s->cut.at[b].begin; }

static float *packed_chunk(const state *s, int b) {
  const ronde__transport *transport = s->worker->transport;
  return packed_of(s, b) + ronde__shard_begin((int64_t)s->cut.at[b].n_live, transport->rank, transport->size);
}

/* Where the sum of piece i is kept. */
static float *kept_sum(const state *s, int b, int i) {
  if (s->pairwise) return gradients_of(s) + s->own->pieces[i].begin;
  return packed_chunk(s, b) + (s->own->at[i] - s->own->at[s->own->first[b]]);
}

static ronde_status reduce(state *s, int b) {
  ronde__worker *worker = s->worker;
  if (s->pairwise) {
    RONDE_TRY(offer(s, b));
    RONDE_TRY(sum_offered(s, b, keep_sum));
    return wait_bucket(s, b);
  }
  ronde__bucket_pack(&s->cut.at[b], gradients_of(s));
  return ronde__reduce_scatter_ring(worker->transport, worker->kernels, tag_of(b), packed_of(s, b), s->cut.at[b].n_live,
                                    s->scratch);
}

static void update_bucket(state *s, int b) {
  for (int i = s->own->first[b]; i < s->own->first[b + 1]; i++) {
    float *sum = kept_sum(s, b, i);
    if (s->factor != 1) s->worker->kernels->scale(sum, s->factor, (int64_t)s->own->pieces[i].n);
    update_piece(s, i, sum);
  }
}

/* By a ring: where something is dead, by way of the gradients' place, which is as it was afterwards. */
static ronde_status gather_round(state *s, int b) {
  ronde__transport *transport = s->worker->transport;
  const ronde__bucket *cut = &s->cut.at[b];
  if (cut->n_dead == 0)
    return ronde__allgather_chunks_ring(transport, tag_of(b), values_of(s) + cut->begin, cut->n_live);
  ronde__pieces own = ronde__shard_of(s->own, b);
  float *at = packed_chunk(s, b);
  for (int i = 0; i < own.n; at += own.at[i++].n) memcpy(at, values_of(s) + own.at[i].begin, own.at[i].n * sizeof *at);
  RONDE_TRY(ronde__allgather_chunks_ring(transport, tag_of(b), packed_of(s, b), cut->n_live));
  ronde__bucket_scatter(cut, packed_of(s, b), values_of(s));
  ronde__bucket_clear_dead(cut, gradients_of(s));
  return RONDE_OK;
}

static ronde_status spread(state *s, int b) {
  ronde__request *requests = spread_requests(s, b);
  return ronde__pairwise_spread(s->worker->transport, tag_of(b), values_of(s), s->of, requests);
}

static ronde_status gather(state *s, int b) {
  if (!s->pairwise) return gather_round(s, b);
  RONDE_TRY(spread(s, b));
  return wait_bucket(s, b);
}

/* ---- jobs ----------------------------------------------------------------------------------------------------------- */

static ronde_status exchange(void *arg) {
  state *s = arg;
  int i = s->n_begun++, turn = atomic_load(&s->turn), b = s->cut.n - 1 - (i - turn);
  if (i < turn) return reduce(s, i);
  if (atomic_load(&s->skips)) return RONDE_OK;
  if (b >= turn) RONDE_TRY(reduce(s, b));
  update_bucket(s, b);
  return gather(s, b);
}

/* A job too, behind those of an update. */
static ronde_status mirror_update(void *arg) {
  const state *s = arg;
  return ronde__mirror_exchange(s->mirror, TAG_MIRROR);
}

static ronde_status submit_up_to(state *s, int n) {
  for (; s->n_sent < n; s->n_sent++) RONDE_TRY(ronde__comm_thread_submit(s->thread, exchange, s));
  return RONDE_OK;
}

static void gradient_final(void *user, const ronde__gradient *gradient) {
  state *s = user;
  ronde__buckets_final(&s->cut, gradient);
  if (!s->settings->overlap) return;
  while (s->n_sent < s->cut.n - 1 && ronde__bucket_is_ready(&s->cut.at[s->n_sent]) && s->status == RONDE_OK)
    s->status = submit_up_to(s, s->n_sent + 1);
}

/* The weights are up to date, or the step was broken: the next one may send. */
static void rest(state *s) {
  ronde__buckets_begin(&s->cut);
  atomic_store(&s->turn, s->cut.n);
  atomic_store(&s->skips, false);
  s->n_sent = s->n_begun = s->n_left = 0;
  s->factor = 1;
  if (s->thread) s->n_before = ronde__comm_thread_submitted(s->thread);
}

/* Bucket b is up to date, and those that forward needs before. */
static ronde_status reach(state *s, int b) {
  if (s->thread)
    RONDE_TRY(ronde__comm_thread_reach(s->thread, s->n_before + (uint64_t)(atomic_load(&s->turn) + s->cut.n - b)));
  for (; s->n_left > b; s->n_left--)
    if (!s->thread) RONDE_TRY(wait_bucket(s, s->n_left - 1));
  if (s->n_left == 0) rest(s);
  return RONDE_OK;
}

static ronde_status param_needed(void *user, int param) {
  state *s = user;
  ronde__bucket_span span = s->cut.of_param[param];
  if (span.last < span.first || span.first >= s->n_left || s->status != RONDE_OK) return s->status;
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  s->status = reach(s, span.first);
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_FORWARD);
  return s->status;
}

/* ---- a step --------------------------------------------------------------------------------------------------------- */

/* A rank that has all its gradients tells what it found, and learns it of the others. What is offered before is there
 * for all behind it, so that every rank adds by itself. */
static ronde_status meet(state *s, uint64_t begin_ns) {
  ronde__transport *transport = s->worker->transport;
  /* Behind it each rank may update: all others must have the update before that. */
  if (s->thread && s->mirror) RONDE_TRY(ronde__comm_thread_reach(s->thread, s->n_before));
  if (s->thread) {
    RONDE_TRY(submit_up_to(s, s->cut.n - 1));
    uint64_t begun = ronde__comm_thread_hold(s->thread, 1) - s->n_before;
    s->found.n_begun = (int32_t)ronde__min((int64_t)begun, s->cut.n - 1);
  }
  for (int b = s->cut.n - 1; b >= 0 && !s->thread; b--) RONDE_TRY(offer(s, b));
  s->results[transport->rank] = s->found;
  RONDE_TRY(ronde__allgather(transport, TAG_RESULTS, s->results, sizeof *s->results));
  uint64_t met = ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__worker_met(s->worker, s->results, begin_ns, met);
  return RONDE_OK;
}

/* What is dead of the shard changes at once: no pass reads it, and nobody is sent it before somebody looks. */
static void begin_update(state *s, double lr) {
  int dead = s->cut.n;
  if (s->mirror) ronde__mirror_begin(s->mirror, s->step);
  ronde__optim_begin(s->worker->optim, lr);
  s->n_left = s->cut.n;
  for (int i = s->own->first[dead]; i < s->own->first[dead + 1]; i++) update_piece(s, i, s->zeros);
  s->is_stale = s->moves_dead;
}

/* The norm of the whole gradient: the shards' in the order of ranks. */
static ronde_status find_factor(state *s) {
  ronde__worker *worker = s->worker;
  const ronde__transport *transport = worker->transport;
  double own = 0, all = 0;
  for (int b = 0; b < s->cut.n; b++)
    for (int i = s->own->first[b]; i < s->own->first[b + 1]; i++)
      own += worker->kernels->sum_squares(kept_sum(s, b, i), (int64_t)s->own->pieces[i].n);
  s->norms[transport->rank] = own;
  RONDE_TRY(ronde__allgather(worker->transport, TAG_NORMS, s->norms, sizeof *s->norms));
  for (int r = 0; r < transport->size; r++) all += s->norms[r];
  s->factor = ronde__clip_factor(all, worker->clip);
  return RONDE_OK;
}

/* Nobody updates; what was begun is ended. */
static ronde_status give_up(state *s, int n_reduced) {
  if (s->thread) RONDE_TRY(ronde__comm_thread_drain(s->thread));
  for (int b = 0; b < n_reduced && !s->pairwise; b++) ronde__bucket_clear_dead(&s->cut.at[b], gradients_of(s));
  for (int b = s->cut.n - 1; b >= 0 && !s->thread; b--) RONDE_TRY(sum_offered(s, b, NULL));
  for (int b = 0; b < s->cut.n && !s->thread; b++) RONDE_TRY(wait_bucket(s, b));
  rest(s);
  return RONDE_OK;
}

/* By the thread. The order turns behind what some rank has begun, and one bucket more, lest the link stand still
 * meanwhile; a norm needs all buckets first. */
static ronde_status finish_by_thread(state *s, double lr, bool broken) {
  bool clips = s->worker->clip > 0 && !broken;
  int turn = clips ? s->cut.n : 0;
  for (int r = 0; r < s->worker->transport->size && !clips; r++) turn = (int)ronde__max(turn, s->results[r].n_begun);
  atomic_store(&s->turn, turn);
  atomic_store(&s->skips, broken);
  if (!broken && !clips) begin_update(s, lr);
  ronde__comm_thread_go_on(s->thread);
  if (broken) return give_up(s, turn);
  if (clips) {
    RONDE_TRY(submit_up_to(s, s->cut.n));
    RONDE_TRY(ronde__comm_thread_drain(s->thread));
    RONDE_TRY(find_factor(s));
    begin_update(s, lr);
  }
  RONDE_TRY(submit_up_to(s, turn + s->cut.n));
  if (s->mirror) RONDE_TRY(ronde__comm_thread_submit(s->thread, mirror_update, s));
  return s->settings->overlap ? RONDE_OK : reach(s, 0);
}

/* By the rank itself. First layers come first, so that their weights have arrived when the next forward pass needs
 * them. */
static ronde_status finish_here(state *s, double lr, bool broken) {
  bool clips = s->worker->clip > 0;
  if (broken) return give_up(s, 0);
  for (int b = s->cut.n - 1; b >= 0 && clips; b--) RONDE_TRY(sum_offered(s, b, keep_sum));
  if (clips) RONDE_TRY(find_factor(s));
  begin_update(s, lr);
  for (int b = s->cut.n - 1; b >= 0; b--) {
    if (clips) update_bucket(s, b);
    else RONDE_TRY(sum_offered(s, b, update_from_sum));
    RONDE_TRY(spread(s, b));
  }
  return s->mirror ? mirror_update(s) : RONDE_OK;
}

/* Of an exchange that has just been closed, what the rank itself spent in updates. */
static void note_updates(state *s, uint64_t begin_ns) {
  ronde__worker *worker = s->worker;
  if (s->update_ns == 0) return;
  ronde__prof_move(worker->prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_UPDATE, s->update_ns);
  ronde__prof_op_add(worker->prof, worker->update_slot, begin_ns, begin_ns + s->update_ns, 0);
  s->update_ns = 0;
}

/* All have the step's result once they have met, so it has ended on all ranks alike: what fails behind that ends what
 * follows. */
static ronde_status step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  if (transport->size == 1) return ronde__worker_step(worker, step, result_out);
  RONDE_TRY(ronde__worker_gradients(worker, step, (ronde__gradient_listener){gradient_final, s}, &s->found));
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(s->status);
  RONDE_TRY(meet(s, begin));
  *result_out = ronde__local_results_join(s->results, transport->size);
  bool broken = result_out->broken_rank >= 0;
  s->step = step->step;
  s->is_left_out = broken;
  begin = ronde__prof_now(worker->prof);
  s->status = s->thread ? finish_by_thread(s, step->lr, broken) : finish_here(s, step->lr, broken);
  ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER);
  note_updates(s, begin);
  return RONDE_OK;
}

/* Everybody's dead weights to all: packed, each rank's chunk of them lies where a ring has it. */
static ronde_status gather_dead(state *s) {
  ronde__worker *worker = s->worker;
  size_t n = ronde__dead_elems(worker->net);
  float *packed;
  RONDE__ALLOC(packed, n * sizeof *packed, "sharded");
  ronde__dead_gather(worker->net, values_of(s), packed);
  ronde_status status = ronde__allgather_chunks_ring(worker->transport, TAG_DEAD, packed, n);
  if (status == RONDE_OK) ronde__dead_scatter(worker->net, packed, values_of(s));
  ronde__free(packed);
  s->is_stale = false;
  return status;
}

static ronde_status settle(void *opaque) {
  state *s = opaque;
  RONDE_TRY(s->status);
  if (s->n_left > 0) RONDE_TRY(reach(s, 0));
  if (s->thread && s->mirror) RONDE_TRY(ronde__comm_thread_reach(s->thread, s->n_before));
  return s->is_stale ? gather_dead(s) : RONDE_OK;
}

/* ---- after a loss --------------------------------------------------------------------------------------------------- */

/* Jobs end in their order, so the update's last is the mirror's. */
static bool is_whole(const state *s) {
  return s->is_left_out || (ronde__mirror_has(s->mirror, s->step) && (s->thread || s->n_left == 0));
}

/* What was offered, or is awaited, in place must be given up before anything there is changed. */
static int64_t recover(void *opaque) {
  state *s = opaque;
  ronde__transport *transport = s->worker->transport;
  if (!s->mirror) return -1;
  if (s->thread) ronde__comm_thread_halt(s->thread);
  transport->ops->cancel(transport, s->requests, s->first_request[s->cut.n]);
  if (is_whole(s)) return s->step;
  ronde__mirror_go_back(s->mirror, s->step - 1);
  return s->step - 1;
}

static void go_back(void *opaque, int64_t step) { ronde__mirror_go_back(((state *)opaque)->mirror, step); }

static ronde_status hand_over(void *opaque, ronde__transport *world, const int *members) {
  const state *s = opaque;
  return ronde__mirror_hand_over(s->mirror, world, members, s->worker->optim_arrays);
}

static bool mirrors(const ronde__strategy_settings *settings, int n_workers) {
  return n_workers > 1 && settings->options->on_loss == RONDE__ON_LOSS_CONTINUE;
}

static size_t recovery_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  int n = settings->roles->n_workers;
  return mirrors(settings, n) ? ronde__mirror_bytes(gradients, optimizer, n) : 0;
}

/* ---- the optimizer's state ------------------------------------------------------------------------------------------ */

static ronde_status send_states(const state *s) {
  ronde__worker *worker = s->worker;
  const char *name;
  for (int a = 0; a < ronde__optim_n_states(worker->optim); a++) {
    const float *values = ronde__optim_state(worker->optim, a, &name);
    for (int i = 0; i < s->own->n; i++)
      RONDE_TRY(ronde__transport_send(worker->transport, 0, RONDE__WIRE_TAG(TAG_STATES, 0), values + s->own->at[i],
                                      s->own->pieces[i].n * sizeof *values));
  }
  return RONDE_OK;
}

/* Of another rank, into the whole arrays. */
static ronde_status take_states(const state *s, int rank) {
  ronde__worker *worker = s->worker;
  ronde__shard shard;
  ronde_status status = ronde__shard_make(&s->cut, worker->net, s->moves_dead, rank, worker->transport->size, &shard);
  RONDE_TRY(status);
  for (int a = 0; a < ronde__optim_n_states(worker->optim); a++)
    for (int i = 0; i < shard.n && status == RONDE_OK; i++)
      status = ronde__transport_receive(worker->transport, rank, RONDE__WIRE_TAG(TAG_STATES, 0),
                                        worker->optim_arrays[a].values + shard.pieces[i].begin,
                                        shard.pieces[i].n * sizeof(float));
  ronde__shard_free(&shard);
  return status;
}

static void take_own_states(const state *s) {
  ronde__worker *worker = s->worker;
  const char *name;
  for (int a = 0; a < ronde__optim_n_states(worker->optim); a++) {
    const float *values = ronde__optim_state(worker->optim, a, &name);
    for (int i = 0; i < s->own->n; i++)
      memcpy(worker->optim_arrays[a].values + s->own->pieces[i].begin, values + s->own->at[i],
             s->own->pieces[i].n * sizeof *values);
  }
}

static ronde_status gather_state(void *opaque) {
  state *s = opaque;
  const ronde__transport *transport = s->worker->transport;
  if (transport->size == 1) return RONDE_OK;
  if (transport->rank != 0) return send_states(s);
  take_own_states(s);
  for (int r = 1; r < transport->size; r++) RONDE_TRY(take_states(s, r));
  return RONDE_OK;
}

/* The optimizer once, whatever the number of workers. */
static size_t more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  return optimizer;
}

/* ---- set-up --------------------------------------------------------------------------------------------------------- */

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__transport *transport = s->worker->transport;
  ronde__comm_thread_destroy(s->thread);
  if (s->requests) transport->ops->cancel(transport, s->requests, s->first_request[s->cut.n]);
  ronde__mirror_destroy(s->mirror);
  for (int r = 0; r < s->n_ranks && s->shards; r++) ronde__shard_free(&s->shards[r]);
  ronde__buckets_free(&s->cut);
  ronde__free(s->shards);
  ronde__free(s->of);
  ronde__free(s->requests);
  ronde__free(s->first_request);
  ronde__free(s->scratch);
  ronde__free(s->zeros);
  ronde__free(s->results);
  ronde__free(s->norms);
  ronde__free(s);
}

static ronde_status make_shards(state *s) {
  ronde__worker *worker = s->worker;
  int rank = worker->transport->rank, size = worker->transport->size;
  RONDE__ALLOC(s->shards, (size_t)size * sizeof *s->shards, "sharded");
  for (int r = 0; r < size; r++)
    if (s->pairwise || r == rank)
      RONDE_TRY(ronde__shard_make(&s->cut, worker->net, s->moves_dead, r, size, &s->shards[r]));
  s->own = &s->shards[rank];
  return RONDE_OK;
}

/* Behind all messages: whoever has not come so far still has the whole. */
static ronde_status keep_shard(state *s) {
  ronde__worker *worker = s->worker;
  if (mirrors(s->settings, s->n_ranks))
    RONDE_TRY(ronde__mirror_create(worker, &s->cut, s->moves_dead, s->own, &s->mirror));
  return ronde__optim_keep(worker->optim, s->own->pieces, s->own->n);
}

static ronde_status make_requests(state *s) {
  ronde__transport *transport = s->worker->transport;
  RONDE__ALLOC(s->of, (size_t)transport->size * sizeof *s->of, "sharded");
  RONDE__ALLOC(s->first_request, (size_t)(s->cut.n + 1) * sizeof *s->first_request, "sharded");
  for (int b = 0; b < s->cut.n && s->pairwise; b++)
    s->first_request[b + 1] = s->first_request[b] + 2 * ronde__pairwise_others(transport, pieces_of(s, b)) +
                              (transport->size - 1) * ronde__shard_of(s->own, b).n;
  RONDE__ALLOC(s->requests, (size_t)s->first_request[s->cut.n] * sizeof *s->requests, "sharded");
  return RONDE_OK;
}

static ronde_status make_scratch(state *s) {
  ronde__transport *transport = s->worker->transport;
  size_t scratch =
      s->pairwise ? 2 * RONDE__PAIRWISE_ELEMS : ronde__ring_scratch(ronde__buckets_longest(&s->cut), transport->size);
  RONDE__ALLOC(s->scratch, scratch * sizeof *s->scratch, "sharded");
  if (s->moves_dead) RONDE__ALLOC(s->zeros, RONDE__PAIRWISE_ELEMS * sizeof *s->zeros, "sharded");
  RONDE__ALLOC(s->results, (size_t)transport->size * sizeof *s->results, "sharded");
  RONDE__ALLOC(s->norms, (size_t)transport->size * sizeof *s->norms, "sharded");
  return RONDE_OK;
}

static ronde_status set_up(state *s) {
  ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  ronde__ranks ranks = ronde__ranks_of(transport);
  if (transport->size == 1) return RONDE_OK;
  s->pairwise = ronde__ranks_hosts(&ranks) == 1;
  s->moves_dead = ronde__dead_elems(worker->net) > 0 && ronde__optim_moves_dead(worker->optim);
  RONDE_TRY(ronde__buckets_make(worker->net, s->settings->bucket_bytes, &s->cut));
  RONDE_TRY(make_shards(s));
  RONDE_TRY(make_requests(s));
  RONDE_TRY(make_scratch(s));
  if (s->settings->overlap || !s->pairwise)
    RONDE_TRY(ronde__comm_thread_create(transport->time, transport->rank, !s->settings->overlap, &s->thread));
  rest(s);
  worker->param_needed = param_needed;
  worker->needed_user = s;
  RONDE_TRY(
      ronde__broadcast_tree(transport, TAG_WEIGHTS, 0, values_of(s), ronde__net_n_elems(worker->net) * sizeof(float)));
  return keep_shard(s);
}

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "sharded");
  *s = (state){.worker = worker, .settings = settings, .n_ranks = worker->transport->size};
  ronde_status status = set_up(s);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  const state *s = opaque;
  if (s->worker->transport->size > 1)
    json_object_set_new(communication, "collective", json_string(s->pairwise ? "pairwise" : "ring"));
}

static const char *const options[] = {RONDE__OPTIONS_OF_STEPS, RONDE__OPTIONS_OF_BUCKETS, NULL};

const ronde__strategy ronde__strategy_sharded = {
    .name = "sharded",
    .options = options,
    .min_workers = 1,
    .fuses_alone = true,
    .regroups = true,
    .waits_for_all = true,
    .equals_one = true,
    .meets_to_save = "--strategy sharded",
    .agrees_to_save = true,
    .shards_optimizer = true,
    .more_bytes = more_bytes,
    .create = create,
    .step = step,
    .destroy = destroy,
    .settle = settle,
    .recover = recover,
    .go_back = go_back,
    .hand_over = hand_over,
    .recovery_bytes = recovery_bytes,
    .gather_state = gather_state,
    .records = (const char *const[]){"collective", "busbw_bytes_per_s", NULL},
    .record = record,
};

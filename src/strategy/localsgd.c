/* Local SGD: every worker makes steps of its own, on its part of each batch, and every --sync-every steps all of them take the
 * average of their weights. Sources: Stich, "Local SGD converges fast and communicates little", ICLR 2019; Lin et al.,
 * "Don't use large mini-batches, use local SGD", ICLR 2020 (--local-after: post-local); Douillard et al., "DiLoCo:
 * distributed low-communication training of language models", 2023 (--outer-lr, --outer-momentum: Nesterov); Shen et
 * al., "Faster distributed deep net training: computation and communication decoupled SGD", IJCAI 2019 (--sync-overlap).
 *
 * w a worker's weights, x the global ones, equal on all workers; n workers. A synchronisation sums the outer gradients
 * x - w, x makes an update of SGD by their mean, and w = x: with a rate of 1 and no momentum, that is the mean of all w.
 * Overlapped, the sum is under way while the next steps are made, and comes in at the next synchronisation: w = x + (w -
 * what it was when the sum began).
 * With a bfloat16 wire, what a worker gives is x - w rounded; overlapped, w becomes x less that, so that begun need not be kept.
 *
 * Workers meet at the end of an epoch and for a checkpoint. They then synchronise, and average the optimizer's state and
 * the buffers too: what is behind a meeting is one state of all of them. */
#include <inttypes.h>
#include <string.h>

#include "strategy/allreduce.h"
#include "strategy/buckets.h"
#include "strategy/strategy.h"
#include "strategy/undo.h"

/* What a rank has done for synchronisations: n of them; sums of buckets, in which nobody is waited for, their time and
 * the bytes that the algorithm must move; and how much of their time other steps have hidden. */
typedef struct tally {
  int64_t n;
  ronde__bus bus;
  uint64_t hidden_ns;
} tally;

typedef struct state {
  ronde__worker *worker;
  const ronde__strategy_settings *settings;
  ronde__comm_thread *thread;
  ronde__buckets cut;
  ronde__sgd_args outer;
  float *global; /* [trained] x; NULL: one worker alone without an outer optimizer, whose steps are all there is */
  float *outer_momentum; /* [trained], the worker's; NULL: none */
  float *begun;          /* [trained] overlapped: w when the sum began; NULL: sums are waited for */
  float *sum;            /* [trained] outer gradients; overlapped its own, else where the net's gradients are; */
  /* [trained] in place of sum and begun, of a bfloat16 wire: outer gradients, and their sums; overlapped two arrays */
  uint16_t *given, *came;
  float *summed;     /* what the jobs sum: sum, or what is averaged at a meeting; */
  int n_summed;      /* buckets of it so far */
  uint64_t n_before; /* jobs of the thread before these */
  float *scratch;
  size_t n_packed;              /* floats at its beginning, for a bucket's live numbers of bfloat16 */
  ronde__local_result own;      /* since the last synchronisation */
  ronde__local_result *results; /* [ranks] of those of all when a synchronisation begins */
  uint64_t met_ns, summed_ns;   /* when all had come to the one under way, and when its last bucket was summed */
  int64_t n_local;              /* steps since the last began */
  bool averages; /* the last step was before --local-after: a synchronisation is the average, whatever is outer */
  bool overlaps;
  bool under_way;
  bool begins_next;       /* overlapped: the update of the one that ends also writes the outer gradients of the next */
  bool cancelled, broken; /* as all have learnt */
  int64_t step, equal_step; /* the last one; and that behind which all workers were equal last, */
  ronde__undo *equal;       /* whose state this is; NULL: it is not kept */
  tally tally;
} state;

enum { TAG_RESULTS = RONDE__TAG_STRATEGY, TAG_WEIGHTS, TAG_BUFFERS, TAG_BUCKETS, CHUNK = 4096, ROUNDED_CHUNK = 1024 };

/* ---- jobs of the communication thread ----------------------------------------------------------------------------- */

static ronde_status gather_results(void *arg) {
  state *s = arg;
  ronde__transport *transport = s->worker->transport;
  RONDE_TRY(ronde__allgather(transport, TAG_RESULTS, s->results, sizeof *s->results));
  s->met_ns = ronde__time_now(transport->time);
  return RONDE_OK;
}

static ronde_status all_reduce(const state *s, uint32_t tag, float *x, size_t n) {
  ronde__transport *transport = s->worker->transport;
  return transport->size == 1 ? RONDE_OK
                              : s->settings->collective->run(transport, s->worker->kernels, tag, x, n, s->scratch);
}

/* Outer gradients alone are rounded for the wire: the others are states as such, not how far they have moved. */
static bool is_rounded(const state *s) { return s->given && s->summed == s->sum; }

/* Of an even number: packed, there is room for one behind the last. */
static ronde_status sum_rounded(const state *s, int b) {
  const ronde__bucket *cut = &s->cut.at[b];
  const ronde__worker *worker = s->worker;
  const uint16_t *given = s->given + cut->begin;
  uint16_t *came = s->came + cut->begin, *packed = cut->n_dead ? (uint16_t *)s->scratch : came;
  float *scratch = s->scratch + (cut->n_dead ? s->n_packed : 0);
  size_t n = (cut->n_live + 1) & ~(size_t)1;
  if (cut->n_dead) ronde__bucket_gather_halves(cut, s->given, packed);
  RONDE_TRY(ronde__allreduce_halves(worker->transport, worker->kernels, (uint32_t)(TAG_BUCKETS + b),
                                    cut->n_dead ? packed : given, packed, n, scratch));
  if (cut->n_dead) ronde__bucket_scatter_halves(cut, packed, s->came);
  return RONDE_OK;
}

static ronde_status sum_whole(const state *s, int b) {
  const ronde__bucket *cut = &s->cut.at[b];
  ronde__bucket_pack(cut, s->summed);
  RONDE_TRY(all_reduce(s, (uint32_t)(TAG_BUCKETS + b), s->summed + cut->begin, cut->n_live));
  ronde__bucket_unpack(cut, s->summed);
  return RONDE_OK;
}

static ronde_status sum_next(void *arg) {
  state *s = arg;
  ronde__transport *transport = s->worker->transport;
  int b = s->n_summed++;
  size_t bytes = s->cut.at[b].n_live * (is_rounded(s) ? sizeof(uint16_t) : sizeof(float));
  uint64_t begin = ronde__time_now(transport->time);
  RONDE_TRY(is_rounded(s) ? sum_rounded(s, b) : sum_whole(s, b));
  s->summed_ns = ronde__time_now(transport->time);
  ronde__bus_add(&s->tally.bus, s->summed_ns - begin, bytes, transport->size);
  return RONDE_OK;
}

static ronde_status submit_sums(state *s, float *values) {
  s->summed = values;
  s->n_summed = 0;
  s->n_before = ronde__comm_thread_submitted(s->thread);
  for (int b = 0; b < s->cut.n; b++) RONDE_TRY(ronde__comm_thread_submit(s->thread, sum_next, s));
  return RONDE_OK;
}

/* ---- a synchronisation -------------------------------------------------------------------------------------------- */

typedef struct stretch {
  const state *s;
  size_t begin, end;
} stretch;

/* A thread's part; no bit depends on how it is cut. */
static ronde__range part_of(const stretch *stretch, int thread, int n_threads) {
  int64_t n = (int64_t)(stretch->end - stretch->begin), n_chunks = ronde__ceil_div(n, CHUNK);
  int64_t begin = ronde__min(ronde__shard_begin(n_chunks, thread, n_threads) * CHUNK, n);
  int64_t end = ronde__min(ronde__shard_begin(n_chunks, thread + 1, n_threads) * CHUNK, n);
  return (ronde__range){stretch->begin + (size_t)begin, (size_t)(end - begin)};
}

static const ronde__sgd_args average = {.lr = 1}; /* by the mean of x - w */

/* out = a - b, of which a may be out. */
static void subtract(const state *s, const float *a, const float *b, float *out, size_t n) {
  if (out != a) memcpy(out, a, n * sizeof *out);
  s->worker->kernels->sgd(&average, out, b, NULL, (int64_t)n);
}

static void give_rounded(const state *s, size_t begin, size_t length) {
  const ronde__kernels *kernels = s->worker->kernels;
  float *w = ronde__net_values(s->worker->net) + begin, wide[ROUNDED_CHUNK];
  const float *x = s->global + begin;
  subtract(s, x, w, wide, length);
  kernels->bf16_pack(wide, NULL, NULL, s->given + begin, (int64_t)length);
  if (!s->overlaps) return;
  kernels->bf16_unpack(s->given + begin, wide, (int64_t)length);
  subtract(s, x, wide, w, length);
}

static void write_outer_gradient(const state *s, size_t begin, size_t n) {
  const float *w = ronde__net_values(s->worker->net) + begin, *x = s->global + begin;
  float *sum = s->sum + begin;
  for (size_t i = 0; i < n; i++) sum[i] = x[i] - w[i];
  if (s->begun) memcpy(s->begun + begin, w, n * sizeof *w);
}

static size_t chunk_of(const state *s, size_t n_left) {
  size_t most = s->given ? ROUNDED_CHUNK : CHUNK;
  return n_left < most ? n_left : most;
}

/* Chunk by chunk, so that memory is gone through once. */
static void by_chunk(const stretch *of, int thread, int n_threads, void (*chunk)(const state *, size_t, size_t)) {
  ronde__range r = part_of(of, thread, n_threads);
  for (size_t at = 0, n; at < r.n; at += n) chunk(of->s, r.begin + at, n = chunk_of(of->s, r.n - at));
}

static void write_outer_gradients(void *arg, int thread, int n_threads) {
  const stretch *of = arg;
  by_chunk(of, thread, n_threads, of->s->given ? give_rounded : write_outer_gradient);
}

static void update_by(const state *s, float *x, float *sum, float *momentum, int64_t n) {
  const ronde__kernels *kernels = s->worker->kernels;
  kernels->scale(sum, 1 / (float)s->worker->transport->size, n);
  kernels->sgd(s->averages ? &average : &s->outer, x, sum, s->averages ? NULL : momentum, n);
}

static float *momentum_at(const state *s, size_t begin) { return s->outer_momentum ? s->outer_momentum + begin : NULL; }

static void update_chunk(const state *s, size_t begin, size_t length) {
  float *w = ronde__net_values(s->worker->net) + begin, *x = s->global + begin;
  const float *begun = s->begun ? s->begun + begin : w;
  for (size_t i = 0; i < length; i++) w[i] -= begun[i]; /* what it has come since */
  update_by(s, x, s->sum + begin, momentum_at(s, begin), (int64_t)length);
  s->worker->kernels->add(w, x, w, (int64_t)length);
  if (s->begins_next) write_outer_gradient(s, begin, length);
}

static void update_rounded_chunk(const state *s, size_t begin, size_t length) {
  const ronde__kernels *kernels = s->worker->kernels;
  float *w = ronde__net_values(s->worker->net) + begin, *x = s->global + begin, wide[ROUNDED_CHUNK];
  if (s->overlaps) {
    float begun[ROUNDED_CHUNK];
    kernels->bf16_unpack(s->given + begin, wide, (int64_t)length);
    subtract(s, x, wide, begun, length);
    subtract(s, w, begun, w, length);
  }
  kernels->bf16_unpack(s->came + begin, wide, (int64_t)length);
  update_by(s, x, wide, momentum_at(s, begin), (int64_t)length);
  if (s->overlaps) kernels->add(w, x, w, (int64_t)length);
  else memcpy(w, x, length * sizeof *w);
  if (s->begins_next) give_rounded(s, begin, length);
}

static void update_global(void *arg, int thread, int n_threads) {
  const stretch *of = arg;
  by_chunk(of, thread, n_threads, of->s->given ? update_rounded_chunk : update_chunk);
}

/* The ledger is in phase exchange, before and after. */
static void compute(const state *s, ronde__pool_fn part, size_t begin, size_t end) {
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_UPDATE);
  ronde__pool_run(s->worker->pool, part, &(stretch){s, begin, end});
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
}

static ronde_status begin_sync(state *s) {
  ronde__worker *worker = s->worker;
  if (!s->begins_next) compute(s, write_outer_gradients, 0, ronde__net_n_trained(worker->net));
  s->begins_next = false;
  s->own.ready_ns = ronde__time_now(worker->transport->time) - worker->met_ns;
  s->results[worker->transport->rank] = s->own;
  s->n_local = 0;
  s->under_way = true;
  RONDE_TRY(ronde__comm_thread_submit(s->thread, gather_results, s));
  return submit_sums(s, s->sum);
}

/* What others see of a worker that is broken is no weights: then nobody updates. */
static ronde_status update_all(state *s) {
  for (int b = 0; b < s->cut.n; b++) {
    const ronde__bucket *cut = &s->cut.at[b];
    RONDE_TRY(ronde__comm_thread_reach(s->thread, s->n_before + (uint64_t)b + 1));
    if (!s->broken) compute(s, update_global, cut->begin, cut->end);
  }
  return RONDE_OK;
}

/* Where the net's gradients have held the sum, those that are always zero are so again. */
static void clear_dead(const state *s) {
  int n_dead;
  const ronde__range *dead = ronde__net_dead(s->worker->net, &n_dead);
  for (int i = 0; i < n_dead && s->sum && !s->overlaps; i++)
    memset(s->sum + dead[i].begin, 0, dead[i].n * sizeof *s->sum);
}

/* Weights are equal; the optimizer's state is this worker's own, unless workers have met. */
static void keep_equal(state *s) {
  if (!s->equal) return;
  ronde__undo_begin(s->equal);
  ronde__undo_keep(s->equal, 0, ronde__net_n_trained(s->worker->net));
  s->equal_step = s->step;
}

/* overlaps: the next one begins at once, if all can go on. */
static ronde_status end_sync(state *s, bool overlaps) {
  ronde__worker *worker = s->worker;
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(ronde__comm_thread_reach(s->thread, s->n_before));
  ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__worker_met(worker, s->results, begin, s->met_ns);
  ronde__step_result all = ronde__local_results_join(s->results, worker->transport->size);
  s->cancelled |= all.cancelled;
  s->broken |= all.broken_rank >= 0;
  s->begins_next = overlaps && !s->broken && !s->cancelled;
  RONDE_TRY(update_all(s));
  clear_dead(s);
  uint64_t hidden_until = s->summed_ns < begin ? s->summed_ns : begin;
  if (hidden_until > s->met_ns) s->tally.hidden_ns += hidden_until - s->met_ns;
  s->tally.n++;
  s->under_way = false;
  if (!s->broken) keep_equal(s);
  return RONDE_OK;
}

/* Overlapped, after a local step: what the last one began comes in, and the next one begins. */
static ronde_status synchronise(state *s, bool overlapped) {
  if (s->under_way) RONDE_TRY(end_sync(s, overlapped));
  if (s->broken || (overlapped && s->cancelled)) return RONDE_OK;
  RONDE_TRY(begin_sync(s));
  return overlapped ? RONDE_OK : end_sync(s, false);
}

/* ---- steps -------------------------------------------------------------------------------------------------------- */

/* A worker whose numbers break has ended, and says so where all meet next: it takes part in the synchronisation that the
 * others come to, without steps up to there. */
static ronde_status settle(void *opaque) {
  state *s = opaque;
  if (!s->global || s->broken) return RONDE_OK;
  return s->n_local > 0 ? synchronise(s, false) : s->under_way ? end_sync(s, false) : RONDE_OK;
}

static ronde_status sync_if_due(state *s) {
  const ronde__options *o = s->settings->options;
  if (!s->averages && s->n_local < o->sync_every) return RONDE_OK;
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(synchronise(s, !s->averages && s->overlaps));
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

/* Gradients are n times its part of the step's: their mean over the workers is the whole batch's, also where parts differ. */
static ronde_status step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  ronde__step own = *step;
  ronde__local_result found;
  if (!s->global) return ronde__worker_step(worker, step, result_out);
  s->averages = step->step < s->settings->options->local_after;
  own.n_averaged = worker->transport->size;
  RONDE_TRY(ronde__worker_gradients(worker, &own, (ronde__gradient_listener){0}, &found));
  found.cancel |= s->own.cancel;
  s->own = found;
  s->n_local++;
  *result_out = ronde__local_results_join(&found, 1);
  if (found.broken) {
    result_out->broken_rank = worker->transport->rank;
    return RONDE_OK;
  }
  ronde__worker_update(worker, step->lr);
  s->step = step->step;
  RONDE_TRY(sync_if_due(s));
  result_out->cancelled = s->cancelled || s->broken;
  result_out->passing = s->equal_step != s->step;
  return RONDE_OK;
}

/* ---- meetings ----------------------------------------------------------------------------------------------------- */

static ronde_status average_states(state *s) {
  ronde__worker *worker = s->worker;
  size_t n = ronde__net_n_trained(worker->net);
  for (int i = 0; i < ronde__optim_n_states(worker->optim); i++) {
    const char *name;
    float *values = ronde__optim_state(worker->optim, i, &name);
    RONDE_TRY(submit_sums(s, values));
    RONDE_TRY(ronde__comm_thread_drain(s->thread));
    worker->kernels->scale(values, 1 / (float)worker->transport->size, (int64_t)n);
  }
  return RONDE_OK;
}

static ronde_status average_buffers(const state *s) {
  size_t n;
  float *values = ronde__net_buffer_values(s->worker->net, &n);
  if (n == 0) return RONDE_OK;
  RONDE_TRY(all_reduce(s, TAG_BUFFERS, values, n));
  s->worker->kernels->scale(values, 1 / (float)s->worker->transport->size, (int64_t)n);
  return RONDE_OK;
}

/* Behind settle. */
static ronde_status refresh(void *opaque) {
  state *s = opaque;
  if (s->broken || s->worker->transport->size == 1) return RONDE_OK;
  RONDE_TRY(average_states(s));
  RONDE_TRY(average_buffers(s));
  keep_equal(s);
  return RONDE_OK;
}

static int64_t recover(void *opaque) {
  const state *s = opaque;
  if (!s->equal || s->equal_step == 0) return -1;
  ronde__undo_restore(s->equal, 0, ronde__net_n_trained(s->worker->net));
  return s->equal_step;
}

/* ---- set-up ------------------------------------------------------------------------------------------------------- */

static bool has_outer(const ronde__options *o) { return o->outer_lr != 1 || o->outer_momentum > 0; }

/* Overlapped, no two workers have the same weights between two meetings. */
static bool keeps_equal(const ronde__strategy_settings *settings, int n_workers) {
  const ronde__options *o = settings->options;
  return n_workers > 1 && o->on_loss == RONDE__ON_LOSS_RESTART && !o->sync_overlap;
}

static int n_outer_arrays(const ronde__options *o) { return o->outer_momentum > 0; }

static size_t recovery_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  if (!keeps_equal(settings, settings->roles->n_workers)) return 0;
  return ronde__undo_bytes(gradients, optimizer, n_outer_arrays(settings->options));
}

/* [trained] of so many bytes each; NULL: there is no memory, which it says. */
static void *map(const state *s, size_t bytes) {
  void *values = ronde__pages_map(bytes *= ronde__net_n_trained(s->worker->net));
  if (!values) ronde__fail(RONDE_E_MEMORY, "local SGD: no memory for %zu bytes", bytes);
  return values;
}

static void unmap(const state *s, void *values, size_t bytes) {
  if (values) ronde__pages_unmap(values, ronde__net_n_trained(s->worker->net) * bytes);
}

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__comm_thread_destroy(s->thread);
  ronde__buckets_free(&s->cut);
  ronde__undo_destroy(s->equal);
  if (s->overlaps) unmap(s, s->sum, sizeof *s->sum);
  if (s->overlaps) unmap(s, s->came, sizeof *s->came);
  unmap(s, s->given, sizeof *s->given);
  unmap(s, s->begun, sizeof *s->begun);
  unmap(s, s->global, sizeof *s->global);
  ronde__free(s->scratch);
  ronde__free(s->results);
  ronde__free(s);
}

/* Weights that have no gradient are sent where each worker's own updates might move them. */
static ronde_status make_buckets(state *s) {
  ronde__worker *worker = s->worker;
  size_t n_buffers;
  RONDE_TRY(ronde__buckets_make(worker->net, s->settings->bucket_bytes, &s->cut));
  if (ronde__optim_moves_dead(worker->optim)) ronde__buckets_take_dead(&s->cut);
  ronde__net_buffer_values(worker->net, &n_buffers);
  size_t longest = (size_t)ronde__max(ronde__buckets_longest(&s->cut), n_buffers);
  size_t scratch = s->settings->collective->scratch(worker->transport, longest);
  if (s->settings->wire_bf16) {
    s->n_packed = longest / 2 + 1;
    scratch = (size_t)ronde__max((int64_t)scratch, (int64_t)(s->n_packed + ronde__allreduce_halves_scratch(
                                                                               longest + 1, worker->transport->size)));
  }
  RONDE__ALLOC(s->scratch, scratch * sizeof *s->scratch, "local SGD");
  return RONDE_OK;
}

static bool make_sums(state *s) {
  if (s->settings->wire_bf16 && s->worker->transport->size > 1) {
    s->given = map(s, sizeof *s->given);
    s->came = s->overlaps ? map(s, sizeof *s->came) : s->given;
    return s->given && s->came;
  }
  s->sum = s->overlaps ? map(s, sizeof *s->sum) : ronde__net_gradients(s->worker->net);
  if (s->overlaps) s->begun = map(s, sizeof *s->begun);
  return s->sum && (s->begun || !s->overlaps);
}

static ronde_status make_arrays(state *s) {
  ronde__net *net = s->worker->net;
  s->global = map(s, sizeof *s->global);
  if (!s->global || !make_sums(s)) return RONDE_E_MEMORY;
  memcpy(s->global, ronde__net_values(net), ronde__net_n_trained(net) * sizeof *s->global);
  return RONDE_OK;
}

static ronde_status set_up(state *s) {
  const ronde__options *o = s->settings->options;
  ronde__transport *transport = s->worker->transport;
  if (transport->size == 1 && !has_outer(o)) return RONDE_OK;
  s->outer = (ronde__sgd_args){(float)o->outer_lr, (float)o->outer_momentum, 0, o->outer_momentum > 0};
  if (o->outer_momentum > 0) s->outer_momentum = s->worker->arrays[0].values;
  RONDE__ALLOC(s->results, (size_t)transport->size * sizeof *s->results, "local SGD");
  RONDE_TRY(make_buckets(s));
  RONDE_TRY(ronde__comm_thread_create(transport->time, transport->rank, !o->sync_overlap, &s->thread));
  if (keeps_equal(s->settings, transport->size)) RONDE_TRY(ronde__undo_create(s->worker, n_outer_arrays(o), &s->equal));
  size_t bytes = ronde__net_n_elems(s->worker->net) * sizeof(float);
  RONDE_TRY(ronde__broadcast_tree(transport, TAG_WEIGHTS, 0, ronde__net_values(s->worker->net), bytes));
  return make_arrays(s);
}

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "local SGD");
  *s = (state){.worker = worker, .settings = settings, .overlaps = settings->options->sync_overlap};
  ronde_status status = set_up(s);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

static ronde_status check(const ronde__strategy_settings *settings, int n_workers) {
  const ronde__options *o = settings->options;
  if (o->local_after > 1 && o->sync_every == 1 && !has_outer(o) && !o->sync_overlap)
    return ronde__fail(RONDE_E_USAGE,
                       "--local-after %" PRId64
                       " can have no effect: with --sync-every 1 every step is synchronised anyway",
                       o->local_after);
  return RONDE_OK;
}

/* ---- the record --------------------------------------------------------------------------------------------------- */

static int64_t period(const ronde__strategy_settings *settings) {
  const ronde__options *o = settings->options;
  return o->local_after > 1 ? 0 : o->sync_every;
}

static size_t more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  const ronde__options *o = settings->options;
  size_t n_workers = (size_t)settings->roles->n_workers, n_halves = 2 * (size_t)n_outer_arrays(o);
  bool is_rounded = o->wire == RONDE__WIRE_BF16 && n_workers > 1;
  if (n_workers > 1 || has_outer(o)) n_halves += o->sync_overlap ? (is_rounded ? 4 : 6) : is_rounded ? 3 : 2;
  return n_workers * (optimizer + n_halves * (gradients / 2));
}

static void facts(const void *opaque, const ronde__service *services, void *facts_out) {
  *(tally *)facts_out = ((const state *)opaque)->tally;
}

static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  const state *s = opaque;
  const tally *of_rank = facts;
  tally all = {0};
  for (int i = 0; i < n_ranks; i++) {
    all.bus.ns += of_rank[i].bus.ns;
    all.bus.bytes += of_rank[i].bus.bytes;
    all.hidden_ns += of_rank[i].hidden_ns;
  }
  if (s->worker->transport->size > 1) ronde__bus_record(&all.bus, s->settings, communication);
  double each = n_ranks ? 1e-9 / n_ranks : 0;
  json_object_set_new(communication, "synchronisations",
                      json_pack("{s:I, s:f, s:f}", "count", (json_int_t)s->tally.n, "exchange_s",
                                each * (double)all.bus.ns, "hidden_s", each * (double)all.hidden_ns));
}

/* ---- the rows ----------------------------------------------------------------------------------------------------- */

static const char *const options[] = {"clip",        "bucket-mb", "collective",     "wire",         "sync-every",
                                      "local-after", "outer-lr",  "outer-momentum", "sync-overlap", NULL};
static const char *const outer_arrays[] = {"outer_momentum", NULL};

static bool has_outer_momentum(const ronde__strategy_settings *settings) {
  return settings->options && settings->options->outer_momentum > 0;
}

#define LOCALSGD                                                                                                       \
  .name = "localsgd", .options = options, .check = check, .min_workers = 1, .all_reduces = true, .asynchronous = true, \
  .meets_to_save = "--strategy localsgd", .period = period, .more_bytes = more_bytes, .create = create, .step = step,  \
  .destroy = destroy, .settle = settle, .recover = recover, .recovery_bytes = recovery_bytes, .refresh = refresh,      \
  .facts_bytes = sizeof(tally), .facts = facts,                                                                        \
  .records = (const char *const[]){"collective", "busbw_bytes_per_s", "synchronisations", NULL}, .record = record

const ronde__strategy ronde__strategy_localsgd_momentum = {LOCALSGD, .is_meant = has_outer_momentum,
                                                           .arrays = outer_arrays};
const ronde__strategy ronde__strategy_localsgd = {LOCALSGD};

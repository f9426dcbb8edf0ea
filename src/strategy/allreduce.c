/* Synchronous data parallelism: every rank computes the gradient of its part of the batch; the parts are summed by an
 * all-reduce, in buckets from the last layer to the first, while backward still runs; every rank makes the same update,
 * of a bucket while the next ones are under way. Source: Li et al., "PyTorch distributed: experiences on accelerating
 * data parallel training", VLDB 2020. */
#include "strategy/buckets.h"
#include "strategy/strategy.h"

/* Buckets go out in their order on every rank. */
typedef struct bucket {
  struct state *state;
  const ronde__bucket *cut;
  int n_ready;
  uint32_t tag;
  bool last;
} bucket;

typedef struct state {
  ronde__worker *worker;
  ronde__comm_thread *thread;
  bucket *buckets;
  ronde__buckets cut;
  int n_sent;
  float *scratch;
  float *residual; /* [trained] of a bfloat16 wire; NULL: the wire is f32 */
  ronde__part part, *parts; /* [ranks] */
  ronde_status status;      /* of submitting, inside a hook */
} state;

enum { TAG_PARTS = 0, TAG_WEIGHTS = 1, TAG_BUCKETS = 2 };

static ronde_status reduce(const bucket *b) {
  state *s = b->state;
  ronde__worker *worker = s->worker;
  float *gradients = ronde__net_gradients(worker->net), *x = gradients + b->cut->begin;
  size_t n = b->cut->n_live;
  ronde__bucket_pack(b->cut, gradients);
  if (s->residual)
    RONDE_TRY(ronde__allreduce_bf16(worker->transport, worker->kernels, b->tag, x, n, s->residual + b->cut->begin,
                                    s->scratch));
  else RONDE_TRY(worker->collective->run(worker->transport, worker->kernels, b->tag, x, n, s->scratch));
  ronde__bucket_unpack(b->cut, gradients);
  return RONDE_OK;
}

static ronde_status exchange(void *arg) {
  bucket *b = arg;
  state *s = b->state;
  ronde__transport *transport = s->worker->transport;
  if (!b->last) return reduce(b);
  uint64_t begin = transport->ops->now_ns(transport); /* nobody is waited for any more */
  RONDE_TRY(reduce(b));
  s->worker->bus_ns += transport->ops->now_ns(transport) - begin;
  size_t bytes = b->cut->n_live * (s->residual ? sizeof(uint16_t) : sizeof(float));
  s->worker->bus_bytes += 2 * bytes * (uint64_t)(transport->size - 1) / (uint64_t)transport->size;
  return RONDE_OK;
}

static void send_ready(state *s, int n) {
  while (s->n_sent < n && s->buckets[s->n_sent].n_ready == s->cut.at[s->n_sent].n_params && s->status == RONDE_OK) {
    s->status = ronde__comm_thread_submit(s->thread, exchange, &s->buckets[s->n_sent]);
    s->n_sent++;
  }
}

static void gradient_ready(void *user, int param) {
  state *s = user;
  s->buckets[s->cut.of_param[param]].n_ready++;
  if (s->worker->overlap) send_ready(s, s->cut.n - 1);
}

/* A rank that has all its gradients tells what it found, and learns it of the others; the last bucket goes out behind that,
 * when nobody is waited for any more. */
static ronde_status meet(state *s) {
  ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  send_ready(s, s->cut.n - 1);
  s->parts[transport->rank] = s->part;
  RONDE_TRY(ronde__allgather_ring(transport, TAG_PARTS, s->parts, sizeof *s->parts));
  send_ready(s, s->cut.n);
  RONDE_TRY(s->status);
  uint64_t met = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__worker_met(worker, s->parts, begin, met);
  return RONDE_OK;
}

/* n_before: jobs of the communication thread before this step's. */
static ronde_status update(state *s, uint64_t n_before, double lr) {
  ronde__worker *worker = s->worker;
  if (worker->clip > 0) {
    RONDE_TRY(ronde__comm_thread_drain(s->thread));
    ronde__worker_update(worker, lr);
    return RONDE_OK;
  }
  ronde__optim_begin(worker->optim, lr);
  for (int b = 0; b < s->cut.n; b++) {
    const ronde__bucket *cut = &s->cut.at[b];
    RONDE_TRY(ronde__comm_thread_reach(s->thread, n_before + (uint64_t)b + 1));
    ronde__worker_update_range(worker, (ronde__stretch){cut->begin, cut->end - cut->begin});
  }
  return RONDE_OK;
}

static ronde_status step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  if (transport->size == 1) return ronde__worker_step(worker, step, result_out);
  for (int i = 0; i < s->cut.n; i++) s->buckets[i].n_ready = 0;
  s->n_sent = 0;
  s->status = RONDE_OK;
  uint64_t n_before = ronde__comm_thread_submitted(s->thread);
  RONDE_TRY(ronde__worker_gradients(worker, step, gradient_ready, s, &s->part));
  RONDE_TRY(meet(s));
  *result_out = ronde__parts_join(s->parts, transport->size);
  ronde_status status =
      result_out->broken_rank < 0 ? update(s, n_before, step->lr) : ronde__comm_thread_drain(s->thread);
  ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER);
  return status;
}

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__comm_thread_destroy(s->thread);
  ronde__free(s->buckets);
  ronde__buckets_free(&s->cut);
  ronde__free(s->scratch);
  ronde__free(s->residual);
  ronde__free(s->parts);
  ronde__free(s);
}

static ronde_status make_buckets(state *s) {
  RONDE_TRY(ronde__buckets_make(s->worker->net, s->worker->bucket_bytes, &s->cut));
  RONDE__ALLOC(s->buckets, (size_t)s->cut.n * sizeof *s->buckets, "buckets");
  size_t longest = 0;
  for (int b = 0; b < s->cut.n; b++) {
    const ronde__bucket *cut = &s->cut.at[b];
    s->buckets[b] = (bucket){.state = s, .cut = cut, .tag = (uint32_t)(TAG_BUCKETS + b), .last = b == s->cut.n - 1};
    if (cut->n_live > longest) longest = cut->n_live;
  }
  size_t scratch = s->worker->collective->scratch(s->worker->transport, longest);
  if (s->worker->wire_bf16) {
    scratch = ronde__allreduce_bf16_scratch(longest, s->worker->transport->size);
    RONDE__ALLOC(s->residual, ronde__net_n_trained(s->worker->net) * sizeof *s->residual, "residual of --wire bf16");
  }
  RONDE__ALLOC(s->scratch, scratch * sizeof(float), "buckets");
  return RONDE_OK;
}

static ronde_status set_up(state *s) {
  ronde__transport *transport = s->worker->transport;
  if (transport->size == 1) return RONDE_OK;
  RONDE__ALLOC(s->parts, (size_t)transport->size * sizeof *s->parts, "all-reduce");
  RONDE_TRY(make_buckets(s));
  RONDE_TRY(ronde__comm_thread_create(transport->rank, &s->thread));
  size_t bytes = ronde__net_n_elems(s->worker->net) * sizeof(float);
  return ronde__broadcast_tree(transport, TAG_WEIGHTS, 0, ronde__net_values(s->worker->net), bytes);
}

static ronde_status create(ronde__worker *worker, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "all-reduce");
  *s = (state){.worker = worker};
  ronde_status status = set_up(s);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

const ronde__strategy ronde__strategy_allreduce = {
    .name = "allreduce", .create = create, .step = step, .destroy = destroy, .min_ranks = 1, .fuses_alone = true};

/* Synchronous data parallelism: every rank computes the gradient of its part of the batch; the parts are summed by an
 * all-reduce, in buckets from the last layer to the first, while backward still runs; then every rank makes the same
 * update. Source: Li et al., "PyTorch distributed: experiences on accelerating data parallel training", VLDB 2020. */
#include "strategy/strategy.h"

/* A stretch of the flat gradients: neighbouring parameters. Buckets go out in their order on every rank. */
typedef struct bucket {
  struct state *state;
  size_t begin, end;
  int n_params, n_ready;
  uint32_t tag;
  bool last;
} bucket;

typedef struct state {
  ronde__worker *worker;
  ronde__comm_thread *thread;
  bucket *buckets;
  int *bucket_of; /* [params] */
  int n_buckets, n_sent;
  float *scratch;
  ronde__part part, *parts; /* [ranks] */
  ronde_status status;      /* of submitting, inside a hook */
} state;

enum { TAG_PARTS = 0, TAG_WEIGHTS = 1, TAG_BUCKETS = 2 };

static ronde_status exchange(void *arg) {
  bucket *b = arg;
  state *s = b->state;
  ronde__transport *transport = s->worker->transport;
  float *gradients = ronde__net_gradients(s->worker->net) + b->begin;
  size_t n = b->end - b->begin;
  const ronde__allreduce *collective = s->worker->collective;
  if (!b->last) return collective->run(transport, s->worker->kernels, b->tag, gradients, n, s->scratch);
  /* The last one goes out when a rank has all its gradients: what the ranks found travels just before it, and once it
   * has arrived from everywhere, nobody is waited for any more. */
  s->parts[transport->rank] = s->part;
  RONDE_TRY(ronde__allgather_ring(transport, TAG_PARTS, s->parts, sizeof *s->parts));
  uint64_t begin = transport->ops->now_ns(transport);
  RONDE_TRY(collective->run(transport, s->worker->kernels, b->tag, gradients, n, s->scratch));
  s->worker->bus_ns += transport->ops->now_ns(transport) - begin;
  s->worker->bus_bytes += 2 * n * sizeof(float) * (uint64_t)(transport->size - 1) / (uint64_t)transport->size;
  return RONDE_OK;
}

static void send_ready(state *s) {
  while (s->n_sent < s->n_buckets && s->buckets[s->n_sent].n_ready == s->buckets[s->n_sent].n_params &&
         s->status == RONDE_OK) {
    s->status = ronde__comm_thread_submit(s->thread, exchange, &s->buckets[s->n_sent]);
    s->n_sent++;
  }
}

static void gradient_ready(void *user, int param) {
  state *s = user;
  s->buckets[s->bucket_of[param]].n_ready++;
  if (s->worker->overlap) send_ready(s);
}

static ronde_status step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  ronde__worker *worker = s->worker;
  ronde__transport *transport = worker->transport;
  if (transport->size == 1) return ronde__worker_step(worker, step, result_out);
  for (int i = 0; i < s->n_buckets; i++) s->buckets[i].n_ready = 0;
  s->n_sent = 0;
  s->status = RONDE_OK;
  RONDE_TRY(ronde__worker_gradients(worker, step, gradient_ready, s, &s->part));
  uint64_t begin = ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  send_ready(s);
  RONDE_TRY(s->status);
  RONDE_TRY(ronde__comm_thread_drain(s->thread));
  uint64_t end = ronde__prof_switch(worker->prof, RONDE__PHASE_OTHER), latest = 0;
  for (int r = 0; r < transport->size; r++)
    if (s->parts[r].ready_ns > latest) latest = s->parts[r].ready_ns;
  if (latest > begin)
    ronde__prof_move(worker->prof, RONDE__PHASE_EXCHANGE, RONDE__PHASE_WAIT, (latest < end ? latest : end) - begin);
  *result_out = ronde__parts_join(s->parts, transport->size);
  if (result_out->broken_rank < 0) ronde__worker_update(worker, step->lr);
  return RONDE_OK;
}

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  ronde__comm_thread_destroy(s->thread);
  ronde__free(s->buckets);
  ronde__free(s->bucket_of);
  ronde__free(s->scratch);
  ronde__free(s->parts);
  ronde__free(s);
}

/* From the last parameter that trains to the first; a bucket is full once it has bucket_bytes. */
static ronde_status make_buckets(state *s) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(s->worker->net, &n_params);
  RONDE__ALLOC(s->buckets, (size_t)n_params * sizeof *s->buckets, "buckets");
  RONDE__ALLOC(s->bucket_of, (size_t)n_params * sizeof *s->bucket_of, "buckets");
  size_t longest = 0;
  for (int i = n_params - 1; i >= 0; i--) {
    if (params[i].frozen) continue;
    bucket *b = &s->buckets[ronde__max(0, s->n_buckets - 1)];
    bool full = s->n_buckets == 0 || (int64_t)((b->end - b->begin) * sizeof(float)) >= s->worker->bucket_bytes;
    if (full) {
      b = &s->buckets[s->n_buckets];
      *b = (bucket){
          .state = s, .end = params[i].offset + params[i].n_elems, .tag = (uint32_t)(TAG_BUCKETS + s->n_buckets)};
      s->n_buckets++;
    }
    b->begin = params[i].offset;
    b->n_params++;
    s->bucket_of[i] = s->n_buckets - 1;
    if (b->end - b->begin > longest) longest = b->end - b->begin;
  }
  s->buckets[s->n_buckets - 1].last = true;
  size_t scratch = s->worker->collective->scratch(s->worker->transport, longest);
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

const ronde__strategy ronde__strategy_allreduce = {"allreduce", NULL, create, step, destroy, 1, 0, true};

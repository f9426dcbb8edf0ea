/* The exchange of `allreduce` for a network in stages: a stage whose last micro-batch is in backward hands its buckets to
 * the communication thread, so that they travel while it computes the ones in front of them, and the stages in front their
 * own. It has no turn of the order: nobody waits for first layers, as the step ends behind the last bucket. */
#include "strategy/replicas.h"

#include "strategy/buckets.h"

struct ronde__replicas {
  ronde__worker *worker;
  const ronde__allreduce *collective;
  ronde__comm_thread *thread;
  ronde__buckets cut;
  float *scratch;
  bool overlap;
  uint32_t tag;
  uint64_t n_before; /* jobs of the thread before this step's */
  int n_sent, n_begun;
  ronde_status status; /* of what was done within backward */
};

/* A job: the next bucket. */
static ronde_status reduce(void *arg) {
  ronde__replicas *r = arg;
  int b = r->n_begun++;
  const ronde__bucket *cut = &r->cut.at[b];
  float *gradients = ronde__net_gradients(r->worker->net);
  ronde__bucket_pack(cut, gradients);
  RONDE_TRY(r->collective->run(r->worker->replicas, r->worker->kernels, r->tag + (uint32_t)b, gradients + cut->begin,
                               cut->n_live, r->scratch));
  ronde__bucket_unpack(cut, gradients);
  return RONDE_OK;
}

static void send_ready(ronde__replicas *r) {
  while (r->n_sent < r->cut.n && ronde__bucket_is_ready(&r->cut.at[r->n_sent]) && r->status == RONDE_OK) {
    r->status = ronde__comm_thread_submit(r->thread, reduce, r);
    r->n_sent++;
  }
}

void ronde__replicas_final(ronde__replicas *r, const ronde__gradient *gradient) {
  ronde__buckets_final(&r->cut, gradient);
  if (r->overlap) send_ready(r);
}

ronde_status ronde__replicas_all_final(ronde__replicas *r) {
  ronde__buckets_all_final(&r->cut);
  send_ready(r);
  RONDE_TRY(r->status);
  return r->overlap ? RONDE_OK : ronde__comm_thread_drain(r->thread);
}

ronde_status ronde__replicas_end(ronde__replicas *r, bool update) {
  for (int b = 0; b < r->cut.n; b++) {
    const ronde__bucket *cut = &r->cut.at[b];
    RONDE_TRY(ronde__comm_thread_reach(r->thread, r->n_before + (uint64_t)b + 1));
    if (update) ronde__worker_update_range(r->worker, (ronde__range){cut->begin, cut->end - cut->begin});
  }
  ronde__buckets_begin(&r->cut);
  r->n_before = ronde__comm_thread_submitted(r->thread);
  r->n_sent = r->n_begun = 0;
  return RONDE_OK;
}

const ronde__allreduce *ronde__replicas_collective(const ronde__replicas *r) { return r->collective; }

/* A bucket is full at that size, and then may have one more parameter. */
size_t ronde__replicas_bytes(const ronde__options *options, size_t trained) {
  size_t bytes = trained * sizeof(float), most = (size_t)(2e6 * options->bucket_mb);
  return bytes < most ? bytes : most;
}

void ronde__replicas_destroy(ronde__replicas *r) {
  if (!r) return;
  ronde__comm_thread_destroy(r->thread);
  ronde__buckets_free(&r->cut);
  ronde__free(r->scratch);
  ronde__free(r);
}

static ronde_status set_up(ronde__replicas *r, const ronde__strategy_settings *settings) {
  ronde__worker *worker = r->worker;
  ronde__transport *replicas = worker->replicas;
  ronde__ranks ranks = ronde__ranks_of(replicas);
  RONDE_TRY(ronde__buckets_make(worker->net, settings->bucket_bytes, &r->cut));
  size_t longest = ronde__buckets_longest(&r->cut);
  r->collective = ronde__allreduce_auto(&ranks, longest);
  RONDE__ALLOC_FLOATS(r->scratch, worker->kernels, r->collective->scratch(replicas, longest), "replicas");
  RONDE_TRY(ronde__comm_thread_create(replicas->time, worker->transport->rank, !r->overlap, &r->thread));
  ronde__buckets_begin(&r->cut);
  return ronde__broadcast_tree(replicas, r->tag, 0, ronde__net_values(worker->net),
                               ronde__net_n_elems(worker->net) * sizeof(float));
}

ronde_status ronde__replicas_create(ronde__worker *worker, const ronde__strategy_settings *settings, uint32_t tag,
                                    ronde__replicas **replicas_out) {
  ronde__replicas *r;
  RONDE__ALLOC(r, sizeof *r, "replicas");
  *r = (ronde__replicas){.worker = worker, .tag = tag, .overlap = settings->overlap};
  ronde_status status = set_up(r, settings);
  if (status != RONDE_OK) ronde__replicas_destroy(r);
  else *replicas_out = r;
  return status;
}

/* The links between hosts are the slow ones: each carries the sum of a host's ranks, not what each of them has.
 * Where all hosts have the same number of ranks, each rank of a host exchanges its chunk of the vector with the rank of
 * the same number on each other host; else the first rank of each host exchanges the whole.
 * Source: Mikami et al., "Massively distributed SGD: ImageNet/ResNet-50 training in a flash", 2018 (chunks); Jia et al.,
 * "Highly scalable deep learning training system with mixed-precision", 2018 (first ranks). */
#include "comm/collective.h"

/* The steps follow each other on every rank, so their messages may have one tag. */
typedef struct host_groups {
  ronde__view local, across; /* the ranks of this host; those of other hosts that this one works with */
  int *ranks;                /* memory of both */
  int n_local, n_across;     /* n_across 0: this rank exchanges nothing with other hosts */
  bool even;
} host_groups;

/* The number of a rank among those of its host. */
static int local_rank(const ronde__ranks *ranks, int rank) {
  int local = 0;
  for (int r = 0; r < rank; r++) local += ronde__host_of(ranks, r) == ronde__host_of(ranks, rank);
  return local;
}

static int ranks_on_host(const ronde__ranks *ranks, int host) {
  int n = 0;
  for (int r = 0; r < ranks->n; r++) n += ronde__host_of(ranks, r) == host;
  return n;
}

/* Whether all hosts have as many ranks. most_out: ranks of the fullest host. */
static bool is_even(const ronde__ranks *ranks, int *most_out) {
  int least = ranks->n;
  *most_out = 0;
  for (int host = 0, n_hosts = ronde__ranks_hosts(ranks); host < n_hosts; host++) {
    int n = ranks_on_host(ranks, host);
    least = (int)ronde__min(least, n);
    *most_out = (int)ronde__max(*most_out, n);
  }
  return least == *most_out;
}

static ronde_status find_host_groups(ronde__transport *transport, host_groups *h) {
  ronde__ranks ranks = ronde__ranks_of(transport);
  int rank = transport->rank, own = local_rank(&ranks, rank), most;
  RONDE__ALLOC(h->ranks, 2 * (size_t)transport->size * sizeof *h->ranks, "hierarchical all-reduce");
  int *local = h->ranks, *across = h->ranks + transport->size;
  h->even = is_even(&ranks, &most);
  int wanted = h->even ? own : 0;
  for (int r = 0; r < transport->size; r++) {
    if (ronde__host_of(&ranks, r) == ronde__host_of(&ranks, rank)) local[h->n_local++] = r;
    if (local_rank(&ranks, r) == wanted) across[h->n_across++] = r;
  }
  if (own != wanted) h->n_across = 0;
  ronde__view_make(&h->local, transport, local, h->n_local);
  if (h->n_across) ronde__view_make(&h->across, transport, across, h->n_across);
  return RONDE_OK;
}

static size_t hierarchical_scratch(const ronde__transport *transport, size_t n) {
  return transport->size == 1 ? 0 : ronde__exchange_scratch((int64_t)n);
}

static ronde_status hierarchical_chunks(const host_groups *h, const ronde__kernels *kernels, uint32_t tag, float *x,
                                        size_t n, float *scratch) {
  ronde__transport *local = (ronde__transport *)&h->local.head, *across = (ronde__transport *)&h->across.head;
  RONDE_TRY(ronde__reduce_scatter_ring(local, kernels, tag, x, n, scratch));
  int64_t begin = ronde__shard_begin((int64_t)n, local->rank, local->size);
  int64_t end = ronde__shard_begin((int64_t)n, local->rank + 1, local->size);
  RONDE_TRY(ronde__allreduce_ring.run(across, kernels, tag, x + begin, (size_t)(end - begin), scratch));
  return ronde__allgather_chunks_ring(local, tag, x, n);
}

static ronde_status hierarchical_leaders(const host_groups *h, const ronde__kernels *kernels, uint32_t tag, float *x,
                                         size_t n, float *scratch) {
  ronde__transport *local = (ronde__transport *)&h->local.head, *across = (ronde__transport *)&h->across.head;
  RONDE_TRY(ronde__reduce_tree(local, kernels, tag, 0, x, n, scratch));
  if (h->n_across) RONDE_TRY(ronde__allreduce_ring.run(across, kernels, tag, x, n, scratch));
  return ronde__broadcast_tree(local, tag, 0, x, n * sizeof *x);
}

static ronde_status hierarchical_allreduce(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                           float *x, size_t n, float *scratch) {
  host_groups h = {0};
  RONDE_TRY(find_host_groups(transport, &h));
  ronde_status status = h.even ? hierarchical_chunks(&h, kernels, tag, x, n, scratch)
                               : hierarchical_leaders(&h, kernels, tag, x, n, scratch);
  ronde__free(h.ranks);
  return status;
}

static double hierarchical_seconds(const ronde__ranks *ranks, size_t n) {
  int most, n_hosts = ronde__ranks_hosts(ranks);
  bool even = is_even(ranks, &most);
  ronde__ranks local = {.n = most};
  double chunk_bytes = (double)(n * sizeof(float)) / n_hosts;
  return (even ? ronde__allreduce_ring : ronde__allreduce_tree).seconds(&local, n) +
         2 * (n_hosts - 1) * (ronde__between_hosts.alpha_s + chunk_bytes * ronde__between_hosts.beta_s);
}

const ronde__allreduce ronde__allreduce_hierarchical = {"hierarchical", hierarchical_scratch, hierarchical_allreduce,
                                                        NULL, hierarchical_seconds};

/* Collectives over any transport; one file per algorithm. Every rank calls with equal n and tag; results are equal on
 * all ranks to the last bit, and from run to run. All block; they wait only through the transport, each wait at most
 * its timeout_ns.
 * p ranks; alpha: latency of a message, beta: seconds per byte.
 * Tags: a collective's tag is below 2^23 and names one under way: concurrent ones of a group need distinct tags; one
 * after the other may have the same. On the wire it becomes RONDE__WIRE_TAG(tag, phase), with phases 0 to 255 for the
 * algorithm's own use; who sends messages beside collectives takes its tags from the same space.
 * Errors: RONDE_E_LOST. After an error no buffer is in use any more, its contents are undefined, and the group should
 * be aborted. */
#ifndef RONDE_COLLECTIVE_H
#define RONDE_COLLECTIVE_H

#include "comm/tags.h"
#include "comm/transport.h"
#include "kernel/kernel.h"

/* ---- all-reduce: x [n] f32 becomes the sum over the ranks, in place -------------------------------------------- */

/* Where the ranks of a group are. */
typedef struct ronde__ranks {
  int n;
  const int *host_of; /* [n], from 0; NULL: all on one */
} ronde__ranks;
static inline ronde__ranks ronde__ranks_of(const ronde__transport *transport) {
  return (ronde__ranks){transport->size, transport->host_of};
}
static inline int ronde__host_of(const ronde__ranks *ranks, int rank) {
  return ranks->host_of ? ranks->host_of[rank] : 0;
}
int ronde__ranks_hosts(const ronde__ranks *ranks);

typedef struct ronde__allreduce {
  const char *name; /* of --collective */
  /* Floats of scratch that run needs for n and for less; 0: it may be NULL. */
  size_t (*scratch)(const ronde__transport *transport, size_t n);
  ronde_status (*run)(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x, size_t n,
                      float *scratch);
  /* Why it cannot run over this transport; NULL if it can. A NULL function: it always can. */
  const char *(*refuses)(const ronde__transport *transport);
  /* Its time according to the cost model. NULL: not modelled. */
  double (*seconds)(const ronde__ranks *ranks, size_t n);
} ronde__allreduce;

/* collectives.inc lists them:
 * - ring: 2(p-1) alpha + 2(p-1)/p n 4 beta. Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
 * - halving-doubling: 2 log2(p) alpha + 2(p-1)/p n 4 beta where p is a power of two, else 2 (alpha + n 4 beta) more;
 *   short messages by recursive doubling, log2(p) (alpha + n 4 beta). Thakur, Rabenseifner & Gropp, "Optimization of
 *   collective communication operations in MPICH", IJHPCA 2005.
 * - tree: 2 (d alpha + ceil(log2(p)) n 4 beta), d <= log2(p) the most ones in a rank's number: a binomial tree up, then
 *   down.
 * - hierarchical: a ring inside each host, rings between hosts, a ring inside each host: of the slow links between h
 *   hosts each carries 2(h-1)/h n 4 beta once, however many ranks a host has. Where hosts have different numbers of
 *   ranks: trees inside, a ring of the hosts' first ranks between.
 * - mpi: MPI_Iallreduce, on that transport only. */
#define RONDE_ALLREDUCE(symbol) extern const ronde__allreduce ronde__allreduce_##symbol;
#include "comm/collectives.inc"
#undef RONDE_ALLREDUCE
const ronde__allreduce *ronde__allreduce_find(const char *name); /* NULL: unknown */
const ronde__allreduce *ronde__allreduce_at(int i);              /* NULL past the end */
/* What --collective auto chooses for a vector of n: hierarchical where several hosts have several ranks each, else
 * ring, unless the model has another one clearly faster. A function of its arguments alone, so that it is the same
 * on all ranks and in every run, over threads as over processes. */
const ronde__allreduce *ronde__allreduce_auto(const ronde__ranks *ranks, size_t n);

/* The model. alpha and beta as above. */
typedef struct ronde__link_class {
  double alpha_s, beta_s;
} ronde__link_class;
extern const ronde__link_class ronde__within_host, ronde__between_hosts;
/* The seconds of a round in which each rank sends so many bytes to its peer (-1: none), all at once. The ranks of a
 * host share its link to the others. */
double ronde__round_s(const ronde__ranks *ranks, int (*peer_of)(const void *arg, int rank), const void *arg,
                      double bytes);

/* x [n] f32 becomes the sum over the ranks, rounded to bfloat16 on its way round a ring: half the bytes of the ring
 * in f32. residual [n]: what this rank's roundings have lost so far, zeros at first, the same range in each call; it
 * goes into the next one. scratch [ronde__allreduce_bf16_scratch(n, p)], also enough for less. Cost: 2(p-1) alpha +
 * 2(p-1)/p n 2 beta. */
ronde_status ronde__allreduce_bf16(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x,
                                   size_t n, float *residual, float *scratch);
size_t ronde__allreduce_bf16_scratch(size_t n, int p);
/* sum [n] becomes the sum over the ranks of x [n], numbers of bfloat16, n even, by f32 sums that are rounded on their way
 * round a ring; sum may be x, which otherwise stays as it is. What rounding loses is lost. With one rank sum is not
 * written. scratch [ronde__allreduce_halves_scratch(n, p)], also enough for less. Cost: as ronde__allreduce_bf16. */
ronde_status ronde__allreduce_halves(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                     const uint16_t *x, uint16_t *sum, size_t n, float *scratch);
size_t ronde__allreduce_halves_scratch(size_t n, int p);

/* ---- the others: a vector of n is cut into p chunks, chunk r beginning at ronde__shard_begin(n, r, p) -------- */

/* x [n] f32: on return its chunk `rank` is the sum over the ranks, the rest undefined. scratch
 * [ronde__ring_scratch(n, p)]. Cost: (p-1) alpha + (p-1)/p n 4 beta. */
ronde_status ronde__reduce_scatter_ring(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                        float *x, size_t n, float *scratch);
size_t ronde__ring_scratch(size_t n, int p);
/* x [n] f32: each rank has its chunk on entry, all of them on return. Cost: (p-1) alpha + (p-1)/p n 4 beta. */
ronde_status ronde__allgather_chunks_ring(ronde__transport *transport, uint32_t tag, float *x, size_t n);
/* x [n] f32: on return of root the sum over the ranks, elsewhere undefined. scratch [ronde__reduce_tree_scratch(n)].
 * Cost: ceil(log2 p)(alpha + n 4 beta): a binomial tree. */
ronde_status ronde__reduce_tree(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, int root,
                                float *x, size_t n, float *scratch);
size_t ronde__reduce_tree_scratch(size_t n);
/* data [p][bytes]: item r is rank r's on entry of that rank; all items on return. With bytes > 0 no rank returns
 * before all have called. Cost: ceil(log2 p) alpha + (p-1) bytes beta, by doubling. */
ronde_status ronde__allgather(ronde__transport *transport, uint32_t tag, void *data, size_t bytes);
/* data [bytes] of root goes to all. Cost: ceil(log2 p)(alpha + bytes beta): a binomial tree. */
ronde_status ronde__broadcast_tree(ronde__transport *transport, uint32_t tag, int root, void *data, size_t bytes);

/* ---- pairwise: by pieces of x, each of which one rank owns ---------------------------------------------------------
 * Every rank hands every other what is that one's, so no partial sum travels, and nobody waits for a sum but its owner.
 * Between ranks of one host what was offered is read straight from where it lies. Each rank sends and receives
 * (p-1)/p n floats, in each direction: p-1 messages for each piece.
 * None of it but sum blocks. requests_out is under way on return, also after an error: wait for them, or cancel.
 * Source: Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 2005
 * (reduce-scatter of long messages). */

/* Those of one rank, of at most RONDE__PAIRWISE_ELEMS each: a sum of that length stays in the second-level cache beside
 * what it is made of and what is computed from it. */
enum { RONDE__PAIRWISE_ELEMS = 32 << 10 };
typedef struct ronde__pieces {
  const ronde__range *at; /* [n] */
  int n;
} ronde__pieces;

/* Offers to each rank its pieces, of [ranks]: x must stay as it is until the requests [ronde__pairwise_others] are done. */
ronde_status ronde__pairwise_offer(ronde__transport *transport, uint32_t tag, const float *x, const ronde__pieces *of,
                                   ronde__request *requests_out);
int ronde__pairwise_others(const ronde__transport *transport, const ronde__pieces *of);
/* Sums the rank's own pieces, which all others have offered or will: x's, then those of the ranks behind this one, round
 * to the one before it. Hands each sum over: `piece` of own is in sum, which lies in scratch
 * [2 * RONDE__PAIRWISE_ELEMS]. x stays as it is. take NULL: only ends what was offered. */
typedef void (*ronde__take)(void *arg, int piece, const float *sum);
ronde_status ronde__pairwise_sum(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                 const float *x, ronde__pieces own, ronde__take take, void *arg, float *scratch);
/* A whole reduce-scatter: as ronde__reduce_scatter_ring, but pairwise, and the rest of x is as it was. Blocks. scratch
 * [2 * RONDE__PAIRWISE_ELEMS]. */
ronde_status ronde__reduce_scatter_pairwise(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag,
                                            float *x, size_t n, float *scratch);
/* Everybody's pieces go to all. requests_out: [ronde__pairwise_others + (p-1) times the own ones]. */
ronde_status ronde__pairwise_spread(ronde__transport *transport, uint32_t tag, float *x, const ronde__pieces *of,
                                    ronde__request *requests_out);

/* ---- for those who write collectives --------------------------------------------------------------------------- */

/* Sends out [n_out] to rank `to` and receives in [n_in] from rank `from` (either -1: nobody), in pieces, so that one
 * is summed while the next is coming: in = (what came) + in where scratch is given, else it is overwritten. scratch
 * [ronde__exchange_scratch(n_in)], for transports that cannot add by themselves. Every rank posts the receive of a
 * piece before it waits for anything of that piece, so there is no cycle of waits. */
typedef struct ronde__exchange {
  ronde__transport *transport;
  const ronde__kernels *kernels; /* NULL where nothing is summed */
  uint32_t wire_tag;
  int to, from;
  const float *out;
  float *in, *scratch;
  int64_t n_out, n_in;
} ronde__exchange;
ronde_status ronde__exchange_run(const ronde__exchange *exchange);
size_t ronde__exchange_scratch(int64_t n_in);

/* Some ranks of a transport as a transport of their own: `ranks` [n] are theirs in the inner one, ascending or not, the
 * caller's among them. Traffic is counted in the inner one; its time limit is taken over. It needs no destroy. */
typedef struct ronde__view {
  ronde__transport head;
  ronde__transport_ops ops;
  ronde__transport *inner;
  const int *ranks;
  int world; /* 0: messages have their own tags */
} ronde__view;
ronde__transport *ronde__view_make(ronde__view *view, ronde__transport *inner, const int *ranks, int n);
/* The same, as one of the worlds of ranks that follow each other when some are lost, from 1 up to RONDE__MAX_WORLDS: no message of an
 * older one is taken for one of it. host_of [n]: memory for where the ranks are. Phases of collectives are below 16 in it. */
ronde__transport *ronde__view_make_world(ronde__view *view, ronde__transport *inner, const int *ranks, int n, int world,
                                         int *host_of);

/* ---- the communication thread of a rank -------------------------------------------------------------------------
 * Runs jobs in the order given, one at a time. After a job has failed the others are skipped. One thread submits and
 * drains, and `rank` names it in error lines; alone: there is no other, and jobs run when that one waits for them. */
typedef struct ronde__comm_thread ronde__comm_thread;
typedef ronde_status (*ronde__comm_job)(void *arg);
ronde_status ronde__comm_thread_create(ronde__time *time, int rank, bool alone, ronde__comm_thread **thread_out);
/* Waits for the job under way (abort the transport first where it may hang); skips those not begun. */
void ronde__comm_thread_destroy(ronde__comm_thread *thread);
/* Queues a job. Returns the error of an earlier job if one has failed; then this one will not run. */
ronde_status ronde__comm_thread_submit(ronde__comm_thread *thread, ronde__comm_job job, void *arg);
/* Holds the queue: only n_more further jobs are begun. Returns how many of all jobs will have been begun by then; the
 * arguments of the others may be changed until ronde__comm_thread_go_on, which must follow, because
 * ronde__comm_thread_reach waits for held jobs too. */
uint64_t ronde__comm_thread_hold(ronde__comm_thread *thread, uint64_t n_more);
void ronde__comm_thread_go_on(ronde__comm_thread *thread);
/* No job is begun any more. Waits for the one under way, whose messages must be given up: where the transport is halted. */
void ronde__comm_thread_halt(ronde__comm_thread *thread);
/* Jobs submitted so far. */
uint64_t ronde__comm_thread_submitted(ronde__comm_thread *thread);
/* Jobs that are done so far; 0 once one has failed. */
uint64_t ronde__comm_thread_done(ronde__comm_thread *thread);
/* Blocks until the first n_jobs of all that were submitted are done; the first error of all jobs so far. The caller
 * runs jobs itself while the thread runs none: that saves the hand-over. */
ronde_status ronde__comm_thread_reach(ronde__comm_thread *thread, uint64_t n_jobs);
/* The same for every job. */
ronde_status ronde__comm_thread_drain(ronde__comm_thread *thread);

#endif

/* Collectives over any transport; one file per algorithm. Every rank calls with equal n and tag; results are equal on all ranks to
 * the last bit. A tag names one collective under way: concurrent ones of a group need distinct tags. All block.
 * p ranks; alpha: latency of a message, beta: seconds per byte.
 * Errors: RONDE_E_LOST. */
#ifndef RONDE_COLLECTIVE_H
#define RONDE_COLLECTIVE_H

#include "comm/transport.h"
#include "kernel/kernel.h"

/* x [n] f32: the sum over the ranks, in place. scratch [ronde__allreduce_scratch(n, p)].
 * Cost: 2(p-1) alpha + 2(p-1)/p n 4 beta. Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009. */
ronde_status ronde__allreduce_ring(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x, size_t n, float *scratch);
size_t ronde__allreduce_ring_scratch(size_t n, int p);
/* data [p][bytes]: part r is rank r's on entry of that rank; all parts on return. Cost: (p-1)(alpha + bytes beta), a ring. */
ronde_status ronde__allgather_ring(ronde__transport *transport, uint32_t tag, void *data, size_t bytes);
/* data [bytes] of root goes to all. Cost: ceil(log2 p)(alpha + bytes beta): a binomial tree. */
ronde_status ronde__broadcast_tree(ronde__transport *transport, uint32_t tag, int root, void *data, size_t bytes);

/* ---- the communication thread of a rank -------------------------------------------------------------------------
 * Runs jobs in the order given, one at a time. */
typedef struct ronde__comm_thread ronde__comm_thread;
typedef ronde_status (*ronde__comm_job)(void *arg);
ronde_status ronde__comm_thread_create(int rank, ronde__comm_thread **thread_out);
void ronde__comm_thread_destroy(ronde__comm_thread *thread); /* after the jobs under way */
ronde_status ronde__comm_thread_submit(ronde__comm_thread *thread, ronde__comm_job job, void *arg);
/* Blocks until every job is done; the first error among them. */
ronde_status ronde__comm_thread_drain(ronde__comm_thread *thread);

#endif

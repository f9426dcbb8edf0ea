/* Collectives over any transport; one file per algorithm. Every rank calls with equal n and tag; results are equal on
 * all ranks to the last bit, and from run to run. All block; they wait only through the transport, each wait at most
 * its timeout_ns.
 * p ranks; alpha: latency of a message, beta: seconds per byte.
 * Tags: a collective's tag is below 2^24 and names one under way: concurrent ones of a group need distinct tags; one
 * after the other may have the same. On the wire it becomes RONDE__WIRE_TAG(tag, part), with parts 0 to 255 for the
 * algorithm's own use; who sends messages beside collectives takes its tags from the same space.
 * Errors: RONDE_E_LOST. After an error no buffer is in use any more, its contents are undefined, and the group should
 * be aborted. */
#ifndef RONDE_COLLECTIVE_H
#define RONDE_COLLECTIVE_H

#include "comm/transport.h"
#include "kernel/kernel.h"

#define RONDE__WIRE_TAG(tag, part) ((uint32_t)(tag) << 8 | (uint32_t)(part))

/* x [n] f32: the sum over the ranks, in place. scratch [ronde__allreduce_ring_scratch(n, p)] f32, may be NULL where
 * that is 0.
 * Cost: 2(p-1) alpha + 2(p-1)/p n 4 beta. Source: Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms", JPDC
 * 2009. */
ronde_status ronde__allreduce_ring(ronde__transport *transport, const ronde__kernels *kernels, uint32_t tag, float *x,
                                   size_t n, float *scratch);
size_t ronde__allreduce_ring_scratch(size_t n, int p);
/* data [p][bytes]: part r is rank r's on entry of that rank; all parts on return. With bytes > 0 no rank returns
 * before all have called. Cost: (p-1)(alpha + bytes beta), a ring. */
ronde_status ronde__allgather_ring(ronde__transport *transport, uint32_t tag, void *data, size_t bytes);
/* data [bytes] of root goes to all. Cost: ceil(log2 p)(alpha + bytes beta): a binomial tree. */
ronde_status ronde__broadcast_tree(ronde__transport *transport, uint32_t tag, int root, void *data, size_t bytes);

/* ---- the communication thread of a rank -------------------------------------------------------------------------
 * Runs jobs in the order given, one at a time. After a job has failed the others are skipped. One thread submits and
 * drains. */
typedef struct ronde__comm_thread ronde__comm_thread;
typedef ronde_status (*ronde__comm_job)(void *arg);
ronde_status ronde__comm_thread_create(int rank, ronde__comm_thread **thread_out);
/* Waits for the job under way (abort the transport first where it may hang); skips those not begun. */
void ronde__comm_thread_destroy(ronde__comm_thread *thread);
/* The error of a failed job, if there was one: then this one will not run. */
ronde_status ronde__comm_thread_submit(ronde__comm_thread *thread, ronde__comm_job job, void *arg);
/* Blocks until every job is done; the first error of all jobs so far. The caller runs jobs itself while the thread
 * runs none: that saves the hand-over. */
ronde_status ronde__comm_thread_drain(ronde__comm_thread *thread);

#endif

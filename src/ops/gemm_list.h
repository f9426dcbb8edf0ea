/* What convolution and linear layers share: pairs of GEMM kernels and lists of operand offsets, made when a plan is
 * made. */
#ifndef RONDE_GEMM_LIST_H
#define RONDE_GEMM_LIST_H

#include "ops/op.h"

/* One shape, overwriting and accumulating. */
typedef struct ronde__gemm_pair {
  ronde__gemm set, add;
} ronde__gemm_pair;

ronde__gemm_pair ronde__gemm_pair_resolve(const ronde__op_desc *desc, ronde__gemm_shape shape);
ronde__gemm_pair ronde__gemm_pair_tile(const ronde__op_desc *desc, ronde__gemm_shape shape);

/* The operand pairs of one sum, as byte offsets. */
typedef struct ronde__gemm_list {
  uint64_t *a, *b;
  int64_t count;
} ronde__gemm_list;

ronde_status ronde__gemm_list_create(int64_t count, ronde__gemm_list *list_out);
void ronde__gemm_list_destroy(ronde__gemm_list *list);

/* Of `count` operands, how many are added up in one piece: all, or half as many as one call should. */
static inline int64_t ronde__gemm_piece(const ronde__gemm_pair *pair, int64_t count) {
  int64_t most = pair->set.most, k = pair->set.shape.k;
  return count * k <= most ? ronde__max(1, count) : ronde__max(1, most / 2 / k);
}

/* c (+)= the sum over the first `count` pairs of the list, in pieces, so that the operands of a piece stay in cache while
 * all of c is passed over. */
void ronde__gemm_sum(const ronde__gemm_pair *pair, const ronde__gemm_list *list, int64_t count, const void *a,
                     const void *b, float *c, bool accumulate);
/* The same in pieces of `step` pairs; ahead: what is wanted next, or NULL. */
void ronde__gemm_sum_by(const ronde__gemm_pair *pair, const ronde__gemm_list *list, int64_t count, int64_t step,
                        const void *a, const void *b, float *c, bool accumulate, ronde__ahead *ahead);

/* Brings n floats from memory into cache in their own order, which the processor's prefetching follows; the orders in
 * which kernels read a block of weights it follows less well, and prefetch instructions gain little. */
static inline void ronde__weight_touch(const float *x, int64_t n) {
  enum { LINE = 64 / sizeof(float) };
  for (int64_t i = 0; i < n; i += LINE) (void)*(const volatile float *)(x + i);
}

/* The transposed blocks of a BLOCKED weight [Ob][T][Ib][bi][bo]: [Ib][T][Ob][bo][bi], by items of one block. */
void ronde__weight_transpose_blocks(const ronde__op_desc *desc, const ronde__weight_layout *layout, const float *packed,
                                    float *transposed, ronde__pool *pool);
/* The same of the live taps, [T]; the others are left as they are. */
void ronde__weight_transpose_taps(const ronde__op_desc *desc, const ronde__weight_layout *layout, const bool *live,
                                  const float *packed, float *transposed, ronde__pool *pool);
/* The same of the weight of an op, param[0], from where the call keeps it, or there, or in scratch where it keeps nothing. */
const float *ronde__weight_turned(const ronde__op_desc *desc, const bool *live, const ronde__op_call *call,
                                  float *scratch);

/* The calling thread's items [*begin_out, *end_out) of n. */
static inline void ronde__thread_chunk(int64_t n, int thread, int n_threads, int64_t *begin_out, int64_t *end_out) {
  *begin_out = ronde__shard_begin(n, thread, n_threads);
  *end_out = ronde__shard_begin(n, thread + 1, n_threads);
}

#endif

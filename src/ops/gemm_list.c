/* Sums of products by lists of operand offsets, in pieces that stay in cache; weights transposed block by block.
 * Legend: Ob, Ib blocks of output and input channels, bo and bi channels in one; T taps. */
#include "ops/gemm_list.h"

typedef ronde__gemm resolve_fn(const ronde__compute *compute, const ronde__gemm_shape *shape);

static ronde__gemm_pair resolve_pair(const ronde__op_desc *desc, ronde__gemm_shape shape, resolve_fn *resolve) {
  ronde__gemm_pair pair;
  shape.accumulate = false;
  pair.set = resolve(&desc->compute, &shape);
  shape.accumulate = true;
  pair.add = resolve(&desc->compute, &shape);
  return pair;
}

ronde__gemm_pair ronde__gemm_pair_resolve(const ronde__op_desc *desc, ronde__gemm_shape shape) {
  return resolve_pair(desc, shape, ronde__gemm_resolve);
}

ronde__gemm_pair ronde__gemm_pair_tile(const ronde__op_desc *desc, ronde__gemm_shape shape) {
  return resolve_pair(desc, shape, ronde__gemm_resolve_tile);
}

ronde_status ronde__gemm_list_create(int64_t count, ronde__gemm_list *list_out) {
  uint64_t *offsets;
  RONDE__ALLOC(offsets, (size_t)ronde__max(1, count) * 2 * sizeof *offsets, "operand list");
  *list_out = (ronde__gemm_list){offsets, offsets + count, count};
  return RONDE_OK;
}

void ronde__gemm_list_destroy(ronde__gemm_list *list) {
  ronde__free(list->a);
  *list = (ronde__gemm_list){0};
}

void ronde__gemm_sum(const ronde__gemm_pair *pair, const ronde__gemm_list *list, int64_t count, const void *a,
                     const void *b, float *c, bool accumulate) {
  ronde__gemm_sum_by(pair, list, count, ronde__gemm_piece(pair, count), a, b, c, accumulate, NULL);
}

void ronde__gemm_sum_by(const ronde__gemm_pair *pair, const ronde__gemm_list *list, int64_t count, int64_t step,
                        const void *a, const void *b, float *c, bool accumulate, ronde__ahead *ahead) {
  int64_t done = 0;
  do {
    int64_t n = ronde__min(step, count - done);
    const ronde__gemm *gemm = accumulate || done ? &pair->add : &pair->set;
    if (n > 0 || !accumulate) ronde__gemm_run_ahead(gemm, a, list->a + done, b, list->b + done, n, c, ahead);
    done += n;
  } while (done < count);
}

typedef struct transpose_job {
  const ronde__op_desc *desc;
  const ronde__weight_layout *layout;
  const bool *live; /* NULL: all */
  const float *packed;
  float *transposed;
} transpose_job;

static void transpose_part(void *arg, int thread, int n_threads) {
  const transpose_job *job = arg;
  const ronde__weight_layout *l = job->layout;
  int64_t blocks_o = ronde__ceil_div(l->o, l->block_o), blocks_i = ronde__ceil_div(l->i, l->block_i);
  int64_t block = l->block_o * l->block_i, begin, end;
  ronde__thread_chunk(blocks_i * l->t * blocks_o, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item % blocks_o, t = item / blocks_o % l->t, ib = item / blocks_o / l->t;
    if (job->live && !job->live[t]) continue;
    const float *from = job->packed + ((ob * l->t + t) * blocks_i + ib) * block;
    ronde__weight_touch(from, block);
    job->desc->compute.kernels->transpose(from, l->block_o, l->block_i, l->block_o, job->transposed + item * block,
                                          l->block_i);
  }
}

void ronde__weight_transpose_blocks(const ronde__op_desc *desc, const ronde__weight_layout *layout, const float *packed,
                                    float *transposed, ronde__pool *pool) {
  ronde__weight_transpose_taps(desc, layout, NULL, packed, transposed, pool);
}

void ronde__weight_transpose_taps(const ronde__op_desc *desc, const ronde__weight_layout *layout, const bool *live,
                                  const float *packed, float *transposed, ronde__pool *pool) {
  transpose_job job = {desc, layout, live, packed, transposed};
  ronde__pool_run(pool, transpose_part, &job);
}

const float *ronde__weight_turned(const ronde__op_desc *desc, const bool *live, const ronde__op_call *call,
                                  float *scratch) {
  float *to = call->turned ? call->turned : scratch;
  if (!call->turned || !call->is_turned)
    ronde__weight_transpose_taps(desc, &desc->param[0], live, call->param[0], to, call->pool);
  return to;
}

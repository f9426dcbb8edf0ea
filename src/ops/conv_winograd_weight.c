/* The weight gradient by the transpose of F(4x4, 3x3): for each of the 36 places, transformed inputs times transformed
 * output gradients, summed over the rows; the sums are then mapped to the nine taps. */
#include "ops/conv_winograd.h"

enum { IN = RONDE__WINOGRAD_IN, TAPS = RONDE__WINOGRAD_TAPS, PLACES = RONDE__WINOGRAD_PLACES };

ronde_status ronde__winograd_weight_create(const ronde__op_desc *desc, ronde__winograd_weight *p) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out;
  p->rows = ronde__winograd_rows_of(out);
  p->x = ronde__winograd_operand_of(in, RONDE__WINOGRAD_INPUT, -desc->attr.padding[0], -desc->attr.padding[1],
                                    &p->rows);
  p->dy = ronde__winograd_operand_of(out, RONDE__WINOGRAD_OUTPUT_GRADIENT, 0, 0, &p->rows);
  p->group = ronde__winograd_group(&p->rows, p->x.chunk + p->dy.chunk);
  p->product = in->block * out->block + RONDE__WINOGRAD_GAP;
  p->dy_at = p->group * p->x.chunk;
  p->products_at = p->dy_at + p->group * p->dy.chunk;
  p->elems = p->products_at + p->x.blocks * p->dy.blocks * PLACES * p->product;
  ronde__gemm_shape shape = {.m = (int)in->block,
                             .n = (int)out->block,
                             .k = (int)p->rows.chunk,
                             .lda = in->block,
                             .ldb = out->block,
                             .ldc = out->block,
                             .trans_a = true};
  p->gemm = ronde__gemm_pair_resolve(desc, shape);
  RONDE_TRY(ronde__gemm_list_create(p->group, &p->list));
  for (int64_t i = 0; i < p->group; i++) {
    p->list.a[i] = (uint64_t)(i * p->x.chunk) * sizeof(float);
    p->list.b[i] = (uint64_t)(i * p->dy.chunk) * sizeof(float);
  }
  return RONDE_OK;
}

void ronde__winograd_weight_release(ronde__winograd_weight *weight) { ronde__gemm_list_destroy(&weight->list); }

typedef struct job {
  const ronde__op_desc *desc;
  const ronde__winograd_weight *pass;
  const ronde__op_call *call;
  int64_t first_chunk, n_chunks; /* of the group */
} job;

static void transform_part(void *arg, int thread, int n_threads) {
  const job *j = arg;
  const ronde__winograd_weight *p = j->pass;
  int64_t begin, end, blocks = p->x.blocks + p->dy.blocks;
  ronde__thread_share(j->n_chunks * blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t chunk = item / blocks, block = item % blocks;
    bool is_x = block < p->x.blocks;
    const ronde__winograd_operand *o = is_x ? &p->x : &p->dy;
    if (!is_x) block -= p->x.blocks;
    float *to = j->call->work + (is_x ? 0 : p->dy_at) + chunk * o->chunk + block * o->block_stride;
    ronde__winograd_transform(j->desc->kernels, &p->rows, o, is_x ? j->call->in[0] : j->call->dout,
                              j->first_chunk + chunk, block, to);
  }
}

static void multiply_part(void *arg, int thread, int n_threads) {
  const job *j = arg;
  const ronde__winograd_weight *p = j->pass;
  const float *x = j->call->work, *dy = x + p->dy_at;
  int64_t begin, end;
  ronde__thread_share(p->x.blocks * p->dy.blocks * PLACES, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t place = item % PLACES, ob = item / PLACES % p->dy.blocks, ib = item / PLACES / p->dy.blocks;
    const float *a = x + ib * p->x.block_stride + place * p->x.place;
    const float *b = dy + ob * p->dy.block_stride + place * p->dy.place;
    ronde__gemm_sum(&p->gemm, &p->list, j->n_chunks, a, b, j->call->work + p->products_at + item * p->product,
                    j->first_chunk > 0);
  }
}

static void finish_part(void *arg, int thread, int n_threads) {
  const job *j = arg;
  const ronde__winograd_weight *p = j->pass;
  int64_t elems = p->x.phys.block * p->dy.phys.block, tap = p->x.blocks * elems, quanta = elems / RONDE__QUANTUM;
  int64_t begin, end;
  ronde__thread_share(p->x.blocks * p->dy.blocks * quanta, thread, n_threads, &begin, &end);
  while (begin < end) {
    int64_t pair = begin / quanta, first = begin % quanta, count = ronde__min(quanta - first, end - begin);
    int64_t ob = pair % p->dy.blocks, ib = pair / p->dy.blocks, at = first * RONDE__QUANTUM;
    const float *products = j->call->work + p->products_at + pair * PLACES * p->product;
    float *dw = j->call->dparam[0] + ob * TAPS * TAPS * tap + ib * elems;
    ronde__winograd_tile in = ronde__winograd_whole_tile(products + at, p->product, IN);
    ronde__winograd_tile out = ronde__winograd_whole_tile(dw + at, tap, TAPS);
    j->desc->kernels->winograd(RONDE__WINOGRAD_WEIGHT_GRADIENT, &in, &out, count * RONDE__QUANTUM,
                               j->call->accumulate_dparam);
    begin += count;
  }
}

void ronde__winograd_weight_gradient(const ronde__op_desc *desc, const ronde__winograd_weight *weight,
                                     const ronde__op_call *call) {
  job j = {.desc = desc, .pass = weight, .call = call};
  for (; j.first_chunk < weight->rows.n_chunks; j.first_chunk += weight->group) {
    j.n_chunks = ronde__min(weight->group, weight->rows.n_chunks - j.first_chunk);
    ronde__pool_run(call->pool, transform_part, &j);
    ronde__pool_run(call->pool, multiply_part, &j);
  }
  ronde__pool_run(call->pool, finish_part, &j);
}

/* The weight gradient by the transpose of F(4x4, 3x3): for each of the 36 places, transformed inputs times transformed
 * output gradients, summed over the rows; the sums are then mapped to the nine taps. */
#include "ops/conv_winograd.h"

enum { IN = RONDE__WINOGRAD_IN, TAPS = RONDE__WINOGRAD_TAPS, PLACES = RONDE__WINOGRAD_PLACES };

void ronde__winograd_weight_create(const ronde__op_desc *desc, ronde__winograd_weight *p) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  p->rows = ronde__winograd_rows_of(in, out, true);
  p->x =
      ronde__winograd_operand_of(in, RONDE__WINOGRAD_INPUT, -desc->attr.padding[0], -desc->attr.padding[1], &p->rows);
  p->dy = ronde__winograd_operand_of(out, RONDE__WINOGRAD_OUTPUT_GRADIENT, 0, 0, &p->rows);
  p->group = ronde__min(p->rows.n_chunks, desc->threads);
  int64_t pairs = p->x.blocks * p->dy.blocks;
  p->pair_by_pair = p->rows.n_chunks == 1 && pairs >= 2 * desc->threads;
  p->product = in->block * out->block + RONDE__WINOGRAD_GAP;
  p->dy_at = p->group * p->x.chunk;
  p->products_at = p->dy_at + p->group * p->dy.chunk;
  p->elems = p->products_at + (p->pair_by_pair ? desc->threads : pairs) * PLACES * p->product;
  ronde__gemm_shape shape = {.m = (int)in->block,
                             .n = (int)out->block,
                             .k = (int)p->rows.chunk,
                             .lda = in->block,
                             .ldb = out->block,
                             .ldc = out->block,
                             .trans_a = true};
  p->gemm = ronde__gemm_pair_tile(desc, shape);
}

typedef struct conv_winograd_weight_job {
  const ronde__op_desc *desc;
  const ronde__winograd_weight *pass;
  const ronde__op_call *call;
  int64_t first_chunk, n_chunks; /* of the group */
} conv_winograd_weight_job;

static void conv_winograd_weight_transform_part(void *arg, int thread, int n_threads) {
  const conv_winograd_weight_job *j = arg;
  const ronde__winograd_weight *p = j->pass;
  int64_t begin, end, blocks = p->x.blocks + p->dy.blocks;
  ronde__thread_chunk(j->n_chunks * blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t chunk = item / blocks, block = item % blocks;
    bool is_x = block < p->x.blocks;
    const ronde__winograd_operand *o = is_x ? &p->x : &p->dy;
    if (!is_x) block -= p->x.blocks;
    float *to = j->call->work + (is_x ? 0 : p->dy_at) + chunk * o->chunk + block * o->block_stride;
    ronde__winograd_transform(j->desc->compute.kernels, &p->rows, o, is_x ? j->call->in[0] : j->call->dout[0],
                              j->first_chunk + chunk, block, to);
  }
}

/* One place of one pair of blocks, chunk by chunk. */
static void multiply(const conv_winograd_weight_job *j, int64_t ib, int64_t ob, int64_t place, float *product) {
  const ronde__winograd_weight *p = j->pass;
  const float *x = j->call->work + ib * p->x.block_stride + place * p->x.place;
  const float *dy = j->call->work + p->dy_at + ob * p->dy.block_stride + place * p->dy.place;
  const uint64_t none = 0;
  for (int64_t i = 0; i < j->n_chunks; i++)
    ronde__gemm_run(j->first_chunk + i ? &p->gemm.add : &p->gemm.set, x + i * p->x.chunk, &none, dy + i * p->dy.chunk,
                    &none, 1, product);
}

/* From a pair's products to its taps, elements [at, at + n) of its block. */
static void conv_winograd_weight_finish(const conv_winograd_weight_job *j, int64_t ib, int64_t ob,
                                        const float *products, int64_t at, int64_t n) {
  const ronde__winograd_weight *p = j->pass;
  int64_t elems = p->x.phys.block * p->dy.phys.block, tap = p->x.blocks * elems;
  float *dw = j->call->dparam[0] + ob * TAPS * TAPS * tap + ib * elems;
  ronde__winograd_tile in = ronde__winograd_whole_tile(products + at, p->product, IN);
  ronde__winograd_tile out = ronde__winograd_whole_tile(dw + at, tap, TAPS);
  j->desc->compute.kernels->winograd(RONDE__WINOGRAD_WEIGHT_GRADIENT, &in, &out, n, j->call->accumulate_dparam[0]);
}

static void pair_part(void *arg, int thread, int n_threads) {
  const conv_winograd_weight_job *j = arg;
  const ronde__winograd_weight *p = j->pass;
  float *products = j->call->work + p->products_at + thread * PLACES * p->product;
  int64_t begin, end;
  ronde__thread_chunk(p->x.blocks * p->dy.blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item % p->dy.blocks, ib = item / p->dy.blocks;
    for (int64_t place = 0; place < PLACES; place++) multiply(j, ib, ob, place, products + place * p->product);
    conv_winograd_weight_finish(j, ib, ob, products, 0, p->x.phys.block * p->dy.phys.block);
  }
}

/* All pairs of a place before the next one, so that its transforms stay in cache. */
static void conv_winograd_weight_multiply_part(void *arg, int thread, int n_threads) {
  const conv_winograd_weight_job *j = arg;
  const ronde__winograd_weight *p = j->pass;
  int64_t begin, end, pairs = p->x.blocks * p->dy.blocks;
  ronde__thread_chunk(pairs * PLACES, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t place = item / pairs, pair = item % pairs;
    multiply(j, pair / p->dy.blocks, pair % p->dy.blocks, place,
             j->call->work + p->products_at + (pair * PLACES + place) * p->product);
  }
}

static void conv_winograd_weight_finish_part(void *arg, int thread, int n_threads) {
  const conv_winograd_weight_job *j = arg;
  const ronde__winograd_weight *p = j->pass;
  int64_t begin, end, quanta = p->x.phys.block * p->dy.phys.block / RONDE__QUANTUM;
  ronde__thread_chunk(p->x.blocks * p->dy.blocks * quanta, thread, n_threads, &begin, &end);
  while (begin < end) {
    int64_t pair = begin / quanta, first = begin % quanta, count = ronde__min(quanta - first, end - begin);
    conv_winograd_weight_finish(j, pair / p->dy.blocks, pair % p->dy.blocks,
                                j->call->work + p->products_at + pair * PLACES * p->product, first * RONDE__QUANTUM,
                                count * RONDE__QUANTUM);
    begin += count;
  }
}

void ronde__winograd_weight_gradient(const ronde__op_desc *desc, const ronde__winograd_weight *weight,
                                     const ronde__op_call *call) {
  conv_winograd_weight_job j = {.desc = desc, .pass = weight, .call = call};
  for (; j.first_chunk < weight->rows.n_chunks; j.first_chunk += weight->group) {
    j.n_chunks = ronde__min(weight->group, weight->rows.n_chunks - j.first_chunk);
    ronde__pool_run(call->pool, conv_winograd_weight_transform_part, &j);
    ronde__pool_run(call->pool, weight->pair_by_pair ? pair_part : conv_winograd_weight_multiply_part, &j);
  }
  if (!weight->pair_by_pair) ronde__pool_run(call->pool, conv_winograd_weight_finish_part, &j);
}

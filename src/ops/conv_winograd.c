/* Convolution between BLOCKS by Winograd's F(4x4, 3x3): 36 multiplications where the taps take 144. A tile's pixels are
 * [N][b] each, so that the transforms run along the batch and the channels without a shuffle, and the 36 matrices of
 * rows are what the batch-reduce GEMM multiplies. The weights are transformed once a call. The sums over channels are
 * taken by block: one chain over 512 channels misses the golden files' bounds by a factor of two.
 * Source: Lavin & Gray, "Fast algorithms for convolutional neural networks", 2016. */
#include "ops/conv_winograd.h"

enum {
  OUT = RONDE__WINOGRAD_OUT,
  IN = RONDE__WINOGRAD_IN,
  TAPS = RONDE__WINOGRAD_TAPS,
  PLACES = RONDE__WINOGRAD_PLACES
};

#define MIN_SAVING 1.6

enum { MIN_ROWS = 16 };

/* Forward or data gradient. Scratch: transformed weights [Ob][place][Ib][bi][bo], the operand's transform, products of
 * each thread [place][row of the chunk][bo]. */
typedef struct pass {
  ronde__winograd_rows rows;
  ronde__winograd_operand from;
  ronde__phys to;
  int64_t to_blocks, group;
  int64_t weight_block, weight_place, product; /* strides */
  int64_t operand_at, products_at, elems;
  bool block_by_block; /* a thread transforms a block of weights just before it is used, for each chunk again */
  ronde__gemm_pair gemm;
} pass;

typedef struct conv_winograd_state {
  pass forward, data;
  ronde__winograd_weight weight;
  bool data_by_taps, weight_by_taps;
  void *taps; /* of the BLOCKS form, where it makes a gradient */
} conv_winograd_state;

static void conv_winograd_release(const ronde__op_desc *desc, void *opaque) {
  conv_winograd_state *s = opaque;
  if (!s) return;
  ronde__conv_blocks.release(desc, s->taps);
  ronde__free(s);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* How many times fewer multiplications there are than with taps. */
static double saving(const ronde__op_desc *desc, const ronde__phys *to) {
  double tiles = (double)(ronde__ceil_div(to->h, OUT) * ronde__ceil_div(to->w, OUT));
  double products = 2 * PLACES * tiles * (double)(desc->in[0].n * desc->in[0].c * desc->out[0].c);
  return ronde__conv_taps_flops(desc) / products;
}

static bool conv_winograd_takes(const ronde__op_desc *desc) {
  const ronde__op_attr *a = &desc->attr;
  if (!ronde__conv_is_between(desc, RONDE__BLOCKS, RONDE__BLOCKS)) return false;
  if (a->kernel[0] != TAPS || a->kernel[1] != TAPS || !ronde__window_is_plain(a)) return false;
  if (a->padding[0] >= TAPS || a->padding[1] >= TAPS) return false;
  bool many = ronde__winograd_rows_of(&desc->in[0], &desc->out[0], false).count >= MIN_ROWS;
  return desc->in[0].c >= 32 && desc->out[0].c >= 32 && many && saving(desc, &desc->out[0]) > MIN_SAVING;
}

/* A gradient that is a sum of few products is often exactly zero, and rounding noise in place of a zero is what Adam
 * makes a whole step of. */
static bool sums_are_short(const ronde__op_desc *desc) {
  return ronde__winograd_rows_of(&desc->in[0], &desc->out[0], false).count < 32;
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static pass pass_make(const ronde__op_desc *desc, const ronde__phys *from, const ronde__phys *to, int top, int left) {
  pass p = {.to = *to, .to_blocks = ronde__phys_blocks(to), .rows = ronde__winograd_rows_of(from, to, false)};
  p.from = ronde__winograd_operand_of(from, RONDE__WINOGRAD_INPUT, top, left, &p.rows);
  p.block_by_block = (p.rows.n_chunks == 1 || p.rows.many_channels) && p.to_blocks >= 2 * desc->threads;
  p.group = p.block_by_block ? 1 : ronde__min(p.rows.n_chunks, desc->threads);
  p.weight_block = from->block * to->block;
  p.weight_place = (p.block_by_block ? 1 : p.from.blocks) * p.weight_block + RONDE__WINOGRAD_GAP;
  p.product = p.rows.chunk * to->block + RONDE__WINOGRAD_GAP;
  p.operand_at = p.to_blocks * PLACES * p.weight_place;
  if (p.block_by_block) p.operand_at = desc->threads * PLACES * p.weight_place;
  p.products_at = p.operand_at + p.group * p.from.chunk;
  p.elems = p.products_at + desc->threads * PLACES * p.product;
  ronde__gemm_shape shape = {.m = (int)p.rows.chunk,
                             .n = (int)to->block,
                             .k = (int)from->block,
                             .lda = from->block,
                             .ldb = to->block,
                             .ldc = to->block};
  p.gemm = ronde__gemm_pair_resolve(desc, shape);
  return p;
}

static ronde_status conv_winograd_prepare(const ronde__op_desc *desc, void **state_out) {
  int top = desc->attr.padding[0], left = desc->attr.padding[1];
  conv_winograd_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_winograd_state){.forward = pass_make(desc, &desc->in[0], &desc->out[0], -top, -left)};
  s->data_by_taps = saving(desc, &desc->in[0]) <= MIN_SAVING;
  s->weight_by_taps = sums_are_short(desc);
  if (desc->need_dinput[0] && !s->data_by_taps)
    s->data = pass_make(desc, &desc->out[0], &desc->in[0], top - TAPS + 1, left - TAPS + 1);
  if (!desc->frozen[0] && !s->weight_by_taps) ronde__winograd_weight_create(desc, &s->weight);
  ronde_status status = RONDE_OK;
  if (s->data_by_taps || s->weight_by_taps) status = ronde__conv_blocks.prepare(desc, &s->taps);
  if (status != RONDE_OK) conv_winograd_release(desc, s);
  else *state_out = s;
  return status;
}

/* The data gradient's transposed weights lie behind its scratch. */
static size_t conv_winograd_work_elems(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const conv_winograd_state *s = opaque;
  if (!backward) return (size_t)s->forward.elems;
  int64_t data = desc->need_dinput[0] ? s->data.elems + ronde__weight_elems(&desc->param[0]) : 0;
  return (size_t)ronde__max(s->weight.elems, data);
}

/* ---- one pass ---------------------------------------------------------------------------------------------------- */

typedef struct conv_winograd_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  const pass *pass;
  const float *from, *weights;
  float *to;
  bool is_data, accumulate;
  int64_t first_chunk, n_chunks; /* of the group */
} conv_winograd_job;

/* One pair of blocks. For the data gradient the taps are read from the last to the first. */
static void transform_weights(const conv_winograd_job *j, int64_t ob, int64_t ib, float *to) {
  const pass *p = j->pass;
  int64_t tap = p->from.blocks * p->weight_block;
  const float *from = j->weights + ob * TAPS * TAPS * tap + ib * p->weight_block;
  ronde__winograd_tile in = ronde__winograd_whole_tile(from, tap, TAPS);
  ronde__winograd_tile out = ronde__winograd_whole_tile(to, p->weight_place, IN);
  if (j->is_data) in.at += (TAPS * TAPS - 1) * tap, in.row = -in.row, in.column = -in.column;
  j->desc->compute.kernels->winograd(RONDE__WINOGRAD_WEIGHT, &in, &out, p->weight_block, false);
}

static void conv_winograd_weights_part(void *arg, int thread, int n_threads) {
  const conv_winograd_job *j = arg;
  const pass *p = j->pass;
  int64_t begin, end, blocks = p->from.blocks;
  ronde__thread_chunk(p->to_blocks * blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item / blocks, ib = item % blocks;
    transform_weights(j, ob, ib, j->call->work + ob * PLACES * p->weight_place + ib * p->weight_block);
  }
}

static void conv_winograd_transform_part(void *arg, int thread, int n_threads) {
  const conv_winograd_job *j = arg;
  const pass *p = j->pass;
  int64_t begin, end, blocks = p->from.blocks;
  float *operand = j->call->work + p->operand_at;
  ronde__thread_chunk(j->n_chunks * blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++)
    ronde__winograd_transform(j->desc->compute.kernels, &p->rows, &p->from, j->from, j->first_chunk + item / blocks,
                              item % blocks, operand + item * p->from.block_stride);
}

/* From a chunk's products to the output's pixels, with what is fused behind them. */
static void finish_chunk(const conv_winograd_job *j, int64_t chunk, int64_t ob, const float *products) {
  const pass *p = j->pass;
  const ronde__phys *to = &p->to;
  float *block = j->to + ob * to->h * to->w * to->n * to->block;
  ronde__winograd_segment s = {0};
  while (ronde__winograd_next(&p->rows, chunk, &s)) {
    ronde__winograd_tile in = ronde__winograd_whole_tile(products + s.row * to->block, p->product, IN);
    ronde__winograd_tile out = ronde__winograd_tile_at(to, block, s.tile_h * OUT, s.tile_w * OUT, OUT);
    out.at += s.example * to->block;
    j->desc->compute.kernels->winograd(RONDE__WINOGRAD_OUTPUT, &in, &out, s.count * to->block, j->accumulate);
    for (int r = 0; r < out.row1 && !j->is_data; r++)
      for (int c = 0; c < out.column1; c++)
        ronde__fused_bias_act(j->desc, j->call, ob, out.at + r * out.row + c * out.column, s.count);
  }
}

/* All places: products (+)= blocks of a chunk's transform times transformed weights. */
static void multiply(const pass *p, const float *operand, const float *weights, int64_t blocks, bool accumulate,
                     float *products) {
  const uint64_t none = 0;
  for (int64_t i = 0; i < PLACES * blocks; i++) {
    int64_t place = i / blocks, ib = i % blocks;
    ronde__gemm_run(accumulate || ib ? &p->gemm.add : &p->gemm.set,
                    operand + ib * p->from.block_stride + place * p->from.place, &none,
                    weights + place * p->weight_place + ib * p->weight_block, &none, 1, products + place * p->product);
  }
}

static void conv_winograd_multiply_part(void *arg, int thread, int n_threads) {
  const conv_winograd_job *j = arg;
  const pass *p = j->pass;
  const float *weights = j->call->work, *operand = weights + p->operand_at;
  float *products = j->call->work + p->products_at + thread * PLACES * p->product;
  int64_t begin, end;
  ronde__thread_chunk(p->to_blocks * j->n_chunks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t chunk = item / p->to_blocks, ob = item % p->to_blocks;
    multiply(p, operand + chunk * p->from.chunk, weights + ob * PLACES * p->weight_place, p->from.blocks, false,
             products);
    finish_chunk(j, j->first_chunk + chunk, ob, products);
  }
}

static void block_part(void *arg, int thread, int n_threads) {
  const conv_winograd_job *j = arg;
  const pass *p = j->pass;
  float *weights = j->call->work + thread * PLACES * p->weight_place;
  float *products = j->call->work + p->products_at + thread * PLACES * p->product;
  int64_t begin, end;
  ronde__thread_chunk(p->to_blocks, thread, n_threads, &begin, &end);
  for (int64_t ob = begin; ob < end; ob++) {
    for (int64_t ib = 0; ib < p->from.blocks; ib++) {
      transform_weights(j, ob, ib, weights);
      multiply(p, j->call->work + p->operand_at + ib * p->from.block_stride, weights, 1, ib > 0, products);
    }
    finish_chunk(j, j->first_chunk, ob, products);
  }
}

static void conv_winograd_run_pass(conv_winograd_job j) {
  const pass *p = j.pass;
  if (!p->block_by_block) ronde__pool_run(j.call->pool, conv_winograd_weights_part, &j);
  for (; j.first_chunk < p->rows.n_chunks; j.first_chunk += p->group) {
    j.n_chunks = ronde__min(p->group, p->rows.n_chunks - j.first_chunk);
    ronde__pool_run(j.call->pool, conv_winograd_transform_part, &j);
    ronde__pool_run(j.call->pool, p->block_by_block ? block_part : conv_winograd_multiply_part, &j);
  }
}

static ronde_status conv_winograd_forward(const ronde__op_desc *desc, const void *opaque, const ronde__op_call *call) {
  const conv_winograd_state *s = opaque;
  conv_winograd_run_pass((conv_winograd_job){.desc = desc,
                                             .call = call,
                                             .pass = &s->forward,
                                             .from = call->in[0],
                                             .weights = call->param[0],
                                             .to = call->out[0]});
  return RONDE_OK;
}

static void weight_gradient(const ronde__op_desc *desc, const conv_winograd_state *s, const ronde__op_call *call) {
  if (s->weight_by_taps) ronde__conv_blocks_weight_gradient(desc, s->taps, call);
  else ronde__winograd_weight_gradient(desc, &s->weight, call);
}

static void data_gradient(const ronde__op_desc *desc, const conv_winograd_state *s, const ronde__op_call *call) {
  if (s->data_by_taps) {
    ronde__conv_blocks_data_gradient(desc, s->taps, call);
    return;
  }
  const float *transposed = ronde__weight_turned(desc, NULL, call, call->work + s->data.elems);
  conv_winograd_run_pass((conv_winograd_job){.desc = desc,
                                             .call = call,
                                             .pass = &s->data,
                                             .from = call->dout[0],
                                             .weights = transposed,
                                             .to = call->din[0],
                                             .is_data = true,
                                             .accumulate = call->accumulate_dinput[0]});
}

static ronde_status conv_winograd_backward(const ronde__op_desc *desc, const void *opaque, const ronde__op_call *call) {
  const conv_winograd_state *s = opaque;
  ronde__fused_backward(desc, call);
  if (call->dparam[0]) weight_gradient(desc, s, call);
  ronde__op_gradients_final(desc, call);
  if (call->din[0]) data_gradient(desc, s, call);
  return RONDE_OK;
}

/* ---- for the per-op table ---------------------------------------------------------------------------------------- */

static const char *conv_winograd_implementation(const ronde__op_desc *desc, const void *opaque) {
  const conv_winograd_state *s = opaque;
  return s->forward.gemm.set.implementation;
}

static double conv_winograd_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const conv_winograd_state *s = opaque;
  double taps = ronde__conv_taps_flops(desc), forward = taps / saving(desc, &desc->out[0]);
  if (!backward) return forward;
  double data = s->data_by_taps ? taps : taps / saving(desc, &desc->in[0]);
  double weight = s->weight_by_taps ? taps : forward;
  return (desc->frozen[0] ? 0 : weight) + (desc->need_dinput[0] ? data : 0);
}

const ronde__form ronde__conv_winograd = {
    .name = "winograd f(4,3)",
    .takes = conv_winograd_takes,
    .prepare = conv_winograd_prepare,
    .release = conv_winograd_release,
    .work_elems = conv_winograd_work_elems,
    .forward = conv_winograd_forward,
    .backward = conv_winograd_backward,
    .turns_weight = true,
    .implementation = conv_winograd_implementation,
    .executed_flops = conv_winograd_executed_flops,
};

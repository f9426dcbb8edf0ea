/* Convolution between BLOCKS, 3x3 at stride 1 and padding 1, on maps of 2x2 pixels: nine products of transformed
 * pixels, weights and gradients where the taps take sixteen (kernel/simd_toeplitz.c). Weights are transformed for a few
 * pairs of blocks at a time, just before they are multiplied, so that they stay in the second cache. */
#include "ops/conv.h"

enum { SIZE = 2, TAPS = 3, PLACES = 9, GAP = RONDE__QUANTUM };

enum { MIN_CHANNELS = 32, MIN_EXAMPLES = 32 };

/* Floats of transformed weights, about, of one output block. */
enum { GROUP_ELEMS = 80 << 10 };

/* Forward or data gradient. Operands lie [place][block][N][b], transformed weights [to][place][from][b][b], products
 * [to][place][N][b]. */
typedef struct pass {
  int64_t from_blocks, to_blocks, from_group, to_group;
  int64_t weight_place, product_place; /* strides */
  ronde__gemm_pair gemm;
  ronde__gemm_list list; /* a group's operands and weights */
} pass;

typedef struct conv_toeplitz_state {
  pass forward, data;
  ronde__gemm weight;
  int64_t in_pixel, out_pixel, weight_block, in_blocks, out_blocks;
  int64_t in_place, out_place, tap_place; /* strides of transformed input, output gradient, weights of a pair */
} conv_toeplitz_state;

static bool conv_toeplitz_takes(const ronde__op_desc *desc) {
  const ronde__op_attr *a = &desc->attr;
  const ronde__phys *in = &desc->in[0];
  if (!ronde__conv_is_between(desc, RONDE__BLOCKS, RONDE__BLOCKS)) return false;
  for (int d = 0; d < 2; d++)
    if (a->kernel[d] != TAPS || a->padding[d] != 1) return false;
  if (!ronde__window_is_plain(a) || in->h != SIZE || in->w != SIZE) return false;
  return in->c >= MIN_CHANNELS && desc->out[0].c >= MIN_CHANNELS && in->n >= MIN_EXAMPLES;
}

/* ---- preparation ------------------------------------------------------------------------------------------------- */

static void conv_toeplitz_release(const ronde__op_desc *desc, void *opaque) {
  conv_toeplitz_state *s = opaque;
  if (!s) return;
  ronde__gemm_list_destroy(&s->forward.list);
  ronde__gemm_list_destroy(&s->data.list);
  ronde__free(s);
}

static ronde_status pass_create(const ronde__op_desc *desc, const ronde__phys *from, const ronde__phys *to, pass *p) {
  int64_t pair = from->block * to->block, operand = from->n * from->block;
  p->from_blocks = ronde__phys_blocks(from), p->to_blocks = ronde__phys_blocks(to);
  p->from_group = ronde__min(p->from_blocks, ronde__max(1, GROUP_ELEMS / (PLACES * pair)));
  p->to_group = ronde__min(p->to_blocks, desc->threads);
  p->weight_place = p->from_group * pair + GAP;
  p->product_place = to->n * to->block + GAP;
  RONDE_TRY(ronde__gemm_list_create(p->from_group, &p->list));
  for (int64_t i = 0; i < p->from_group; i++) {
    p->list.a[i] = (uint64_t)(i * operand) * sizeof(float);
    p->list.b[i] = (uint64_t)(i * pair) * sizeof(float);
  }
  ronde__gemm_shape shape = {.m = (int)from->n,
                             .n = (int)to->block,
                             .k = (int)from->block,
                             .lda = from->block,
                             .ldb = to->block,
                             .ldc = to->block};
  p->gemm = ronde__gemm_pair_resolve(desc, shape);
  return RONDE_OK;
}

static ronde_status conv_toeplitz_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  conv_toeplitz_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_toeplitz_state){.in_pixel = in->n * in->block, .out_pixel = out->n * out->block};
  s->in_blocks = ronde__phys_blocks(in), s->out_blocks = ronde__phys_blocks(out);
  s->weight_block = in->block * out->block;
  s->in_place = s->in_blocks * s->in_pixel + GAP;
  s->out_place = s->out_blocks * s->out_pixel + GAP;
  s->tap_place = s->weight_block + GAP;
  ronde__gemm_shape weight = {(int)in->block, (int)out->block, (int)in->n, in->block, out->block, out->block,
                              true,           false,           false};
  s->weight = ronde__gemm_resolve(&desc->compute, &weight);
  ronde_status status = pass_create(desc, in, out, &s->forward);
  if (status == RONDE_OK) status = pass_create(desc, out, in, &s->data);
  if (status != RONDE_OK) conv_toeplitz_release(desc, s);
  else *state_out = s;
  return status;
}

static int64_t weights_elems(const pass *p) { return p->to_group * PLACES * p->weight_place; }
static int64_t products_elems(const pass *p) { return p->to_group * PLACES * p->product_place; }

/* Scratch: transformed input (of backward the output's gradient first), a pass's weights and products; a pair's weights
 * for each thread. */
static size_t conv_toeplitz_work_elems(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const conv_toeplitz_state *s = opaque;
  int64_t elems = PLACES * s->in_place;
  if (!backward) return (size_t)(elems + weights_elems(&s->forward) + products_elems(&s->forward));
  elems += PLACES * (s->out_place + desc->threads * s->tap_place);
  if (desc->need_dinput[0]) elems += weights_elems(&s->data) + products_elems(&s->data);
  return (size_t)elems;
}

/* ---- the work ---------------------------------------------------------------------------------------------------- */

typedef struct conv_toeplitz_job {
  const ronde__op_desc *desc;
  const conv_toeplitz_state *s;
  const ronde__op_call *call;
  const pass *pass;
  bool is_data;
  float *operand, *weights, *products, *pairs;
  int64_t to0, n_to, from0, n_from; /* blocks of the present group */
} conv_toeplitz_job;

static ronde__grid grid(float *at, int64_t column, int size) { return (ronde__grid){at, size * column, column}; }

static ronde__grid mirrored(ronde__grid g, int size) {
  return (ronde__grid){g.at + (size - 1) * (g.row + g.column), -g.row, -g.column};
}

static void transform_input_part(void *arg, int thread, int n_threads) {
  const conv_toeplitz_job *j = arg;
  const conv_toeplitz_state *s = j->s;
  int64_t begin, end;
  ronde__thread_chunk(s->in_blocks, thread, n_threads, &begin, &end);
  for (int64_t b = begin; b < end; b++)
    j->desc->compute.kernels->toeplitz(RONDE__TOEPLITZ_OPERAND,
                                       grid((float *)j->call->in[0] + b * SIZE * SIZE * s->in_pixel, s->in_pixel, SIZE),
                                       grid(j->operand + b * s->in_pixel, s->in_place, TAPS), s->in_pixel, false);
}

/* In the order that both gradients need. */
static void transform_dout_part(void *arg, int thread, int n_threads) {
  const conv_toeplitz_job *j = arg;
  const conv_toeplitz_state *s = j->s;
  int64_t begin, end;
  ronde__thread_chunk(s->out_blocks, thread, n_threads, &begin, &end);
  for (int64_t b = begin; b < end; b++) {
    ronde__grid dout = grid(j->call->dout[0] + b * SIZE * SIZE * s->out_pixel, s->out_pixel, SIZE);
    j->desc->compute.kernels->toeplitz(RONDE__TOEPLITZ_OPERAND, mirrored(dout, SIZE),
                                       grid(j->operand + b * s->out_pixel, s->out_place, TAPS), s->out_pixel, false);
  }
}

/* All taps of a pair of blocks, in an array of weights or of their gradients. */
static ronde__grid taps_of(const conv_toeplitz_state *s, const float *weights, int64_t ob, int64_t ib) {
  int64_t tap = s->in_blocks * s->weight_block;
  return grid((float *)weights + ob * PLACES * tap + ib * s->weight_block, tap, TAPS);
}

static void conv_toeplitz_weights_part(void *arg, int thread, int n_threads) {
  const conv_toeplitz_job *j = arg;
  const conv_toeplitz_state *s = j->s;
  const pass *p = j->pass;
  int64_t bi = j->desc->in[0].block, bo = j->desc->out[0].block, begin, end;
  float *pair = j->is_data ? j->pairs + thread * PLACES * s->tap_place : NULL;
  ronde__thread_chunk(j->n_to * j->n_from, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t to = item / j->n_from, from = item % j->n_from;
    int64_t ob = j->is_data ? j->from0 + from : j->to0 + to, ib = j->is_data ? j->to0 + to : j->from0 + from;
    float *at = j->weights + to * PLACES * p->weight_place + from * s->weight_block;
    j->desc->compute.kernels->toeplitz(RONDE__TOEPLITZ_WEIGHT, taps_of(s, j->call->param[0], ob, ib),
                                       j->is_data ? grid(pair, s->tap_place, TAPS) : grid(at, p->weight_place, TAPS),
                                       s->weight_block, false);
    for (int i = 0; i < PLACES && j->is_data; i++)
      j->desc->compute.kernels->transpose(pair + i * s->tap_place, bo, bi, bo, at + i * p->weight_place, bi);
  }
}

static void conv_toeplitz_multiply_part(void *arg, int thread, int n_threads) {
  const conv_toeplitz_job *j = arg;
  const conv_toeplitz_state *s = j->s;
  const pass *p = j->pass;
  int64_t pixel = j->is_data ? s->out_pixel : s->in_pixel, place = j->is_data ? s->out_place : s->in_place, begin, end;
  ronde__thread_chunk(j->n_to * PLACES, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++)
    ronde__gemm_run(j->from0 ? &p->gemm.add : &p->gemm.set, j->operand + item % PLACES * place + j->from0 * pixel,
                    p->list.a, j->weights + item * p->weight_place, p->list.b, j->n_from,
                    j->products + item * p->product_place);
}

static void conv_toeplitz_finish_part(void *arg, int thread, int n_threads) {
  const conv_toeplitz_job *j = arg;
  const conv_toeplitz_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t pixel = j->is_data ? s->in_pixel : s->out_pixel, begin, end;
  ronde__thread_chunk(j->n_to, thread, n_threads, &begin, &end);
  for (int64_t to = begin; to < end; to++) {
    int64_t block = j->to0 + to;
    float *at = (j->is_data ? call->din[0] : call->out[0]) + block * SIZE * SIZE * pixel;
    ronde__grid from = grid(j->products + to * PLACES * j->pass->product_place, j->pass->product_place, TAPS);
    ronde__grid pixels = grid(at, pixel, SIZE);
    j->desc->compute.kernels->toeplitz(RONDE__TOEPLITZ_OUTPUT, from, j->is_data ? mirrored(pixels, SIZE) : pixels,
                                       pixel, j->is_data && call->accumulate_dinput[0]);
    if (!j->is_data) ronde__fused_bias_act(j->desc, call, block, at, SIZE * SIZE * j->desc->out[0].n);
  }
}

static void conv_toeplitz_run_pass(conv_toeplitz_job j) {
  const pass *p = j.pass;
  for (; j.to0 < p->to_blocks; j.to0 += p->to_group) {
    j.n_to = ronde__min(p->to_group, p->to_blocks - j.to0);
    for (j.from0 = 0; j.from0 < p->from_blocks; j.from0 += p->from_group) {
      j.n_from = ronde__min(p->from_group, p->from_blocks - j.from0);
      ronde__pool_run(j.call->pool, conv_toeplitz_weights_part, &j);
      ronde__pool_run(j.call->pool, conv_toeplitz_multiply_part, &j);
    }
    ronde__pool_run(j.call->pool, conv_toeplitz_finish_part, &j);
  }
}

static ronde_status conv_toeplitz_forward(const ronde__op_desc *desc, const void *opaque, const ronde__op_call *call) {
  const conv_toeplitz_state *s = opaque;
  conv_toeplitz_job j = {.desc = desc, .s = s, .call = call, .pass = &s->forward, .operand = call->work};
  j.weights = j.operand + PLACES * s->in_place;
  j.products = j.weights + weights_elems(&s->forward);
  ronde__pool_run(call->pool, transform_input_part, &j);
  conv_toeplitz_run_pass(j);
  return RONDE_OK;
}

typedef struct weight_job {
  const conv_toeplitz_job *job;
  const float *dout; /* transformed */
} weight_job;

static void conv_toeplitz_weight_part(void *arg, int thread, int n_threads) {
  const weight_job *w = arg;
  const conv_toeplitz_job *j = w->job;
  const conv_toeplitz_state *s = j->s;
  const uint64_t none = 0;
  float *products = j->pairs + thread * PLACES * s->tap_place;
  int64_t begin, end;
  ronde__thread_chunk(s->out_blocks * s->in_blocks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item / s->in_blocks, ib = item % s->in_blocks;
    for (int i = 0; i < PLACES; i++)
      ronde__gemm_run(&s->weight, j->operand + i * s->in_place + ib * s->in_pixel, &none,
                      w->dout + i * s->out_place + ob * s->out_pixel, &none, 1, products + i * s->tap_place);
    j->desc->compute.kernels->toeplitz(RONDE__TOEPLITZ_WEIGHT_GRADIENT, grid(products, s->tap_place, TAPS),
                                       taps_of(s, j->call->dparam[0], ob, ib), s->weight_block,
                                       j->call->accumulate_dparam[0]);
  }
}

static ronde_status conv_toeplitz_backward(const ronde__op_desc *desc, const void *opaque, const ronde__op_call *call) {
  const conv_toeplitz_state *s = opaque;
  conv_toeplitz_job data = {
      .desc = desc, .s = s, .call = call, .pass = &s->data, .is_data = true, .operand = call->work};
  conv_toeplitz_job weight = {.desc = desc, .s = s, .call = call, .operand = data.operand + PLACES * s->out_place};
  data.pairs = weight.pairs = weight.operand + PLACES * s->in_place;
  data.weights = data.pairs + desc->threads * PLACES * s->tap_place;
  data.products = data.weights + weights_elems(&s->data);
  ronde__fused_backward(desc, call);
  ronde__pool_run(call->pool, transform_dout_part, &data);
  if (call->dparam[0]) {
    ronde__pool_run(call->pool, transform_input_part, &weight);
    ronde__pool_run(call->pool, conv_toeplitz_weight_part, &(weight_job){&weight, data.operand});
  }
  ronde__op_gradients_final(desc, call);
  if (call->din[0]) conv_toeplitz_run_pass(data);
  return RONDE_OK;
}

/* ---- for the per-op table ---------------------------------------------------------------------------------------- */

static const char *conv_toeplitz_implementation(const ronde__op_desc *desc, const void *opaque) {
  const conv_toeplitz_state *s = opaque;
  return s->forward.gemm.set.implementation;
}

static double conv_toeplitz_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  double once = 2.0 * PLACES * (double)(desc->in[0].n * desc->in[0].c * desc->out[0].c);
  return backward ? once * (desc->need_dinput[0] + !desc->frozen[0]) : once;
}

const ronde__form ronde__conv_toeplitz = {
    .name = "toeplitz",
    .takes = conv_toeplitz_takes,
    .prepare = conv_toeplitz_prepare,
    .release = conv_toeplitz_release,
    .work_elems = conv_toeplitz_work_elems,
    .forward = conv_toeplitz_forward,
    .backward = conv_toeplitz_backward,
    .implementation = conv_toeplitz_implementation,
    .executed_flops = conv_toeplitz_executed_flops,
};

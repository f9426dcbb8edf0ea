/* First convolution in bfloat16, LANES -> BLOCKS, for tiles: `conv_first.c` in another format. Few channels and taps make
 * one reduction of K terms, for chunks of neighbouring outputs of a row. Of each term a chunk has a row, the inputs that
 * its tap meets: the weight gradient multiplies these rows by the outputs' gradient, forward the same rows transposed by
 * the weights. So im2col is made in cache, a chunk at a time. A call rounds the input once, by phases: the places of a
 * phase are the pixels a stride apart, those of the padding too, so that what a tap meets lies together.
 * Legend: K terms, in the order [C][KH][KW] of the weight's rows; Kp the same in whole steps; a chunk has `pixels` pixels of
 * N examples, `columns` of them in whole steps. */
#include "kernel/bf16.h"
#include "ops/conv.h"
#include "ops/widen.h"

#include <string.h>

enum { TILE = 16, CHUNK = 512 }; /* terms of a part of the weight gradient; columns of a chunk, about */

typedef struct conv_first_bf16_state {
  ronde__axis h, w;
  int64_t terms, padded;           /* K, Kp */
  int64_t pixels, columns;         /* of a chunk */
  int64_t chunks;                  /* of a row of outputs */
  int64_t n_phases, places, phase; /* of a row of the input; phase in elements */
  int64_t out_blocks;
  ronde__gemm_pair forward;
  ronde__gemm_pair weight, last; /* of TILE terms, and of those left */
} conv_first_bf16_state;

static const uint64_t origin = 0;

static ronde_status conv_first_bf16_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  conv_first_bf16_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_first_bf16_state){.h = ronde__conv_axis_h(desc), .w = ronde__conv_axis_w(desc)};
  int64_t extent = ronde__axis_extent(&s->w), bo = out->block;
  s->terms = in->c * s->h.kernel * s->w.kernel;
  s->padded = ronde__round_up(s->terms, RONDE__BF16_STEP);
  s->pixels = ronde__min(out->w, ronde__max(1, CHUNK / in->n));
  s->chunks = ronde__ceil_div(out->w, s->pixels);
  s->columns = ronde__round_up(s->pixels * in->n, RONDE__BF16_STEP);
  s->n_phases = ronde__min(s->w.stride, extent);
  s->places = out->w + (extent - 1) / s->w.stride;
  s->phase = s->places * in->n;
  s->out_blocks = ronde__phys_blocks(out);
  ronde__gemm_shape forward = {.m = (int)s->columns,
                               .n = (int)bo,
                               .k = (int)s->padded,
                               .lda = s->padded,
                               .ldb = s->padded,
                               .ldc = bo,
                               .operands = RONDE__OF_BF16_TILES};
  ronde__gemm_shape weight = {.m = TILE,
                              .n = (int)bo,
                              .k = (int)s->columns,
                              .lda = s->columns,
                              .ldb = s->columns,
                              .ldc = bo,
                              .operands = RONDE__OF_BF16};
  s->forward = ronde__gemm_pair_resolve(desc, forward);
  s->weight = ronde__gemm_pair_resolve(desc, weight);
  if ((weight.m = (int)(s->terms % TILE))) s->last = ronde__gemm_pair_resolve(desc, weight);
  *state_out = s;
  return RONDE_OK;
}

static void conv_first_bf16_release(const ronde__op_desc *desc, void *state) { ronde__free(state); }

/* ---- scratch ---- */

/* What a call has of its own, in elements of bfloat16, and of each thread; each begins at a whole line of cache. */
typedef struct room {
  int64_t input, weights; /* of all threads */
  int64_t row;            /* of the input, before it is split into phases */
  int64_t rows, operand;  /* of a chunk: [K][columns]; forward [columns][Kp], backward [columns][bo] */
  int64_t sums;           /* floats, [columns][bo] */
  int64_t thread;         /* all that a thread has */
} room;

static room room_of(const ronde__op_desc *desc, const conv_first_bf16_state *s, bool backward) {
  const int64_t line = 64 / sizeof(uint16_t), bo = desc->out[0].block;
  const ronde__phys *in = &desc->in[0];
  room r = {.input = ronde__round_up(in->c * in->h * s->n_phases * s->phase, line),
            .weights = backward ? 0 : s->out_blocks * s->padded * bo,
            .row = ronde__round_up(in->w * in->n, line),
            .rows = (backward ? TILE : s->terms) * s->columns,
            .operand = s->columns * (backward ? bo : s->padded),
            .sums = backward ? 0 : s->columns * bo};
  r.thread = r.row + r.rows + r.operand + 2 * r.sums;
  return r;
}

static size_t conv_first_bf16_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  room r = room_of(desc, state, backward);
  return (size_t)ronde__ceil_div(r.input + r.weights + desc->threads * r.thread, 2);
}

typedef struct conv_first_bf16_job {
  const ronde__op_desc *desc;
  const conv_first_bf16_state *s;
  const ronde__op_call *call;
  const ronde__bf16 *bf16;
  room room;
  uint16_t *input;   /* [C][H][phase][place][N] */
  uint16_t *weights; /* panels [Ob] */
  uint16_t *threads;
} conv_first_bf16_job;

static conv_first_bf16_job job_of(const ronde__op_desc *desc, const void *state, const ronde__op_call *call,
                                  bool backward) {
  room r = room_of(desc, state, backward);
  uint16_t *at = (uint16_t *)call->work;
  return (conv_first_bf16_job){.desc = desc,
                               .s = state,
                               .call = call,
                               .bf16 = desc->compute.bf16,
                               .room = r,
                               .input = at,
                               .weights = at + r.input,
                               .threads = at + r.input + r.weights};
}

/* ---- operands ---- */

/* Row `item` of the input by phases: place i of a phase is pixel i * stride + phase - padding. */
static void round_input_row(const conv_first_bf16_job *j, int64_t item, uint16_t *row) {
  const conv_first_bf16_state *s = j->s;
  const ronde__axis *w = &s->w;
  int64_t n = j->desc->in[0].n;
  uint16_t *to = j->input + item * s->n_phases * s->phase;
  j->bf16->pack(j->call->in[0] + item * w->in * n, w->in * n, row);
  for (int64_t phase = 0; phase < s->n_phases; phase++, to += s->phase) {
    int64_t first = ronde__min(s->places, ronde__ceil_div(ronde__max(0, w->padding - phase), w->stride));
    int64_t end = ronde__min(s->places, ronde__ceil_div(ronde__max(0, w->in + w->padding - phase), w->stride));
    const uint16_t *from = row + (phase - w->padding) * n;
    end = ronde__max(first, end);
    memset(to, 0, (size_t)(first * n) * sizeof *to);
    memset(to + end * n, 0, (size_t)((s->places - end) * n) * sizeof *to);
    if (w->stride == 1) memcpy(to + first * n, from + first * n, (size_t)((end - first) * n) * sizeof *to);
    else
      for (int64_t i = first; i < end; i++) memcpy(to + i * n, from + i * w->stride * n, (size_t)n * sizeof *to);
  }
}

static void round_input_part(void *arg, int thread, int n_threads) {
  const conv_first_bf16_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->desc->in[0].c * j->desc->in[0].h, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) round_input_row(j, item, j->threads + thread * j->room.thread);
}

static void pack_weights_part(void *arg, int thread, int n_threads) {
  const conv_first_bf16_job *j = arg;
  const conv_first_bf16_state *s = j->s;
  int64_t begin, end, bo = j->desc->out[0].block;
  ronde__thread_chunk(s->out_blocks, thread, n_threads, &begin, &end);
  for (int64_t ob = begin; ob < end; ob++)
    j->bf16->pack_panels(j->call->param[0] + ob * s->terms * bo, bo, s->terms, bo, s->padded,
                         j->weights + ob * s->padded * bo, s->padded);
}

/* Outputs [first, first + pixels) of a row. */
typedef struct chunk {
  int64_t oh, first, pixels;
} chunk;

static chunk chunk_of(const conv_first_bf16_state *s, int64_t item) {
  int64_t first = item % s->chunks * s->pixels;
  return (chunk){item / s->chunks, first, ronde__min(s->pixels, s->w.out - first)};
}

/* Rows of the terms [begin, end) in a chunk, beyond its pixels zero. */
static void make_rows(const conv_first_bf16_job *j, const chunk *c, int64_t begin, int64_t end, uint16_t *rows) {
  const conv_first_bf16_state *s = j->s;
  int64_t n = j->desc->in[0].n, used = c->pixels * n;
  for (int64_t k = begin; k < end; k++, rows += s->columns) {
    int64_t channel = k / (s->h.kernel * s->w.kernel), kh = k / s->w.kernel % s->h.kernel;
    int64_t column = k % s->w.kernel * s->w.dilation, ih = c->oh * s->h.stride + kh * s->h.dilation - s->h.padding;
    bool inside = ih >= 0 && ih < s->h.in;
    const uint16_t *from = j->input + ((channel * s->h.in + ih) * s->n_phases + column % s->w.stride) * s->phase +
                           (c->first + column / s->w.stride) * n;
    if (inside) memcpy(rows, from, (size_t)used * sizeof *rows);
    memset(rows + inside * used, 0, (size_t)(s->columns - inside * used) * sizeof *rows);
  }
}

/* ---- forward ---- */

static void forward_part(void *arg, int thread, int n_threads) {
  const conv_first_bf16_job *j = arg;
  const conv_first_bf16_state *s = j->s;
  const ronde__phys *out = &j->desc->out[0];
  int64_t begin, end, pixel = out->n * out->block, block = out->h * out->w * pixel;
  uint16_t *rows = j->threads + thread * j->room.thread + j->room.row, *turned = rows + j->room.rows;
  float *sums = (float *)(turned + j->room.operand);
  ronde__thread_chunk(s->h.out * s->chunks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    chunk c = chunk_of(s, item);
    make_rows(j, &c, 0, s->terms, rows);
    j->bf16->transposed(rows, s->columns, s->terms, s->columns, turned, s->padded);
    for (int64_t ob = 0; ob < s->out_blocks; ob++) {
      int64_t at = ob * block + (c.oh * out->w + c.first) * pixel, elems = c.pixels * pixel;
      ronde__narrow_soon(out, j->call->out[0], at, elems);
      ronde__gemm_run(&s->forward.set, turned, &origin, j->weights + ob * s->padded * out->block, &origin, 1, sums);
      ronde__fused_bias_act(j->desc, j->call, ob, sums, c.pixels * out->n);
      if (out->bf16) ronde__narrow(j->desc, out, sums, elems, j->call->out[0], at);
      else memcpy(j->call->out[0] + at, sums, (size_t)elems * sizeof *sums);
    }
  }
}

static ronde_status conv_first_bf16_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_first_bf16_job j = job_of(desc, state, call, false);
  ronde__pool_run(call->pool, round_input_part, &j);
  ronde__pool_run(call->pool, pack_weights_part, &j);
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

/* The terms from TILE * part0 up to TILE * part1 of one output block. */
static void weight_parts(const conv_first_bf16_job *j, int64_t ob, int64_t part0, int64_t part1, uint16_t *rows,
                         uint16_t *panels) {
  const conv_first_bf16_state *s = j->s;
  const ronde__phys *out = &j->desc->out[0];
  int64_t pixel = out->n * out->block;
  for (int64_t item = 0; item < s->h.out * s->chunks; item++) {
    chunk c = chunk_of(s, item);
    int64_t at = ((ob * out->h + c.oh) * out->w + c.first) * pixel;
    ronde__operand_panels(j->desc, out, j->call->dout[0], at, out->block, c.pixels * out->n, out->block, s->columns,
                          panels, s->columns);
    for (int64_t part = part0; part < part1; part++) {
      int64_t first = part * TILE, end = ronde__min(s->terms, first + TILE);
      const ronde__gemm_pair *pair = end - first == TILE ? &s->weight : &s->last;
      make_rows(j, &c, first, end, rows);
      ronde__gemm_run(item || j->call->accumulate_dparam[0] ? &pair->add : &pair->set, rows, &origin, panels, &origin,
                      1, j->call->dparam[0] + (ob * s->terms + first) * out->block);
    }
  }
}

static void weight_part(void *arg, int thread, int n_threads) {
  const conv_first_bf16_job *j = arg;
  int64_t parts = ronde__ceil_div(j->s->terms, TILE), begin, end;
  uint16_t *rows = j->threads + thread * j->room.thread + j->room.row;
  ronde__thread_chunk(j->s->out_blocks * parts, thread, n_threads, &begin, &end);
  while (begin < end) {
    int64_t first = begin % parts, n = ronde__min(parts - first, end - begin);
    weight_parts(j, begin / parts, first, first + n, rows, rows + j->room.rows);
    begin += n;
  }
}

static ronde_status conv_first_bf16_backward(const ronde__op_desc *desc, const void *state,
                                             const ronde__op_call *call) {
  conv_first_bf16_job j = job_of(desc, state, call, true);
  ronde__fused_backward(desc, call);
  if (!call->dparam[0]) return RONDE_OK;
  ronde__pool_run(call->pool, round_input_part, &j);
  ronde__pool_run(call->pool, weight_part, &j);
  return RONDE_OK;
}

static const char *conv_first_bf16_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.bf16->name;
}

/* Where a pooling is joined, conv_first.c never stores the map in front of it. */
static bool conv_first_bf16_takes(const ronde__op_desc *desc) {
  const ronde__bf16 *bf16 = desc->compute.bf16;
  return bf16 && bf16->is_tiles && !desc->attr.pool.kernel[0] &&
         ronde__conv_is_between(desc, RONDE__LANES, RONDE__BLOCKS);
}

const ronde__form ronde__conv_first_bf16 = {
    .name = "first bf16",
    .takes = conv_first_bf16_takes,
    .prepare = conv_first_bf16_prepare,
    .release = conv_first_bf16_release,
    .work_elems = conv_first_bf16_work_elems,
    .forward = conv_first_bf16_forward,
    .backward = conv_first_bf16_backward,
    .implementation = conv_first_bf16_implementation,
    .bf16 = {.out = 1},
    .multiplies_bf16 = true,
    .executed_flops = ronde__conv_executed_flops,
};

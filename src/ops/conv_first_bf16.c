/* First convolution in bfloat16, LANES -> BLOCKS, for tiles: `conv_first.c` in another format. Few channels and taps make
 * one reduction of K terms, for chunks of neighbouring outputs of a row. Of each term a chunk has a row, the inputs that
 * its tap meets: the weight gradient multiplies these rows by the outputs' gradient, forward the same rows transposed by
 * the weights. So im2col is made in cache, a chunk at a time. A call rounds the input once, by phases: the places of a
 * phase are the pixels a stride apart, those of the padding too, so that what a tap meets lies together.
 * With a max pooling behind it (attr.pool) only the pooled map is stored, as in conv_first.c: a chunk is a row of windows.
 * Legend: K terms, in the order [C][KH][KW] of the weight's rows; Kp the same in whole steps; a window of the pooling has PH
 * rows of PW outputs, 1 and 1 without one; a chunk has `windows` windows: PH rows of `windows` PW pixels of N examples, which
 * are `columns` in whole steps. */
#include "kernel/bf16.h"
#include "ops/conv.h"
#include "ops/pool2d.h"

#include <string.h>

enum { TILE = 16, CHUNK = 512 }; /* terms of a part of the weight gradient; columns of a chunk, about */

typedef struct conv_first_bf16_state {
  ronde__axis h, w;
  int64_t terms, padded;           /* K, Kp */
  int ph, pw;                      /* PH, PW */
  int64_t windows, columns;        /* of a chunk */
  int64_t chunks;                  /* of a row of windows */
  int64_t n_phases, places, phase; /* of a row of the input; phase in elements */
  int64_t out_blocks;
  int64_t *places_of; /* [PH*PW]: of a window's pixels in a chunk, in elements */
  ronde__gemm_pair forward;
  ronde__gemm_pair weight, last; /* of TILE terms, and of those left */
} conv_first_bf16_state;

static const uint64_t origin = 0;

static void conv_first_bf16_release(const ronde__op_desc *desc, void *opaque) {
  conv_first_bf16_state *s = opaque;
  if (s) ronde__free(s->places_of);
  ronde__free(s);
}

static ronde_status find_places(const ronde__op_desc *desc, conv_first_bf16_state *s) {
  int64_t bo = desc->out[0].block;
  RONDE__ALLOC(s->places_of, (size_t)(s->ph * s->pw) * sizeof *s->places_of, "convolution plan");
  for (int i = 0; i < s->ph * s->pw; i++) s->places_of[i] = (i / s->pw * s->columns + i % s->pw * desc->out[0].n) * bo;
  return RONDE_OK;
}

static ronde_status conv_first_bf16_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  conv_first_bf16_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_first_bf16_state){.h = ronde__conv_axis_h(desc), .w = ronde__conv_axis_w(desc)};
  int64_t extent = ronde__axis_extent(&s->w), bo = out->block;
  s->terms = in->c * s->h.kernel * s->w.kernel;
  s->padded = ronde__round_up(s->terms, RONDE__BF16_STEP);
  s->ph = ronde__max(1, desc->attr.pool.kernel[0]), s->pw = ronde__max(1, desc->attr.pool.kernel[1]);
  s->windows = ronde__min(out->w, ronde__max(1, CHUNK / (in->n * s->pw)));
  s->chunks = ronde__ceil_div(out->w, s->windows);
  s->columns = ronde__round_up(s->windows * s->pw * in->n, RONDE__BF16_STEP);
  s->n_phases = ronde__min(s->w.stride, extent);
  s->places = s->w.out + (extent - 1) / s->w.stride;
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
  ronde_status status = find_places(desc, s);
  if (status != RONDE_OK) conv_first_bf16_release(desc, s);
  else *state_out = s;
  return status;
}

static bool is_pooled(const ronde__op_desc *desc) { return desc->attr.pool.kernel[0] > 0; }

/* The pooling adds the bias to what it reads. */
static bool pool_adds_bias(const ronde__op_desc *desc) {
  return is_pooled(desc) && desc->attr.bias && desc->attr.act == RONDE__ACT_NONE;
}

/* ---- scratch ---- */

/* What a call has of its own, in elements of bfloat16, and of each thread; each begins at a whole line of cache. */
typedef struct room {
  int64_t input, weights; /* of all threads */
  int64_t row;            /* of the input, before it is split into phases */
  int64_t rows;           /* of a row of a chunk: [K][columns], backward of TILE terms */
  int64_t operand;        /* forward [PH][columns][Kp], backward [columns][bo] */
  int64_t sums;   /* floats: forward [PH][columns][bo]; backward the gradient of a row, where there is a pooling */
  int64_t pooled; /* floats, [windows][N][bo], where there is a pooling */
  int64_t thread; /* all that a thread has */
} room;

static room room_of(const ronde__op_desc *desc, const conv_first_bf16_state *s, bool backward) {
  const int64_t line = 64 / sizeof(uint16_t), bo = desc->out[0].block;
  const ronde__phys *in = &desc->in[0];
  room r = {.input = ronde__round_up(in->c * in->h * s->n_phases * s->phase, line),
            .weights = backward ? 0 : s->out_blocks * s->padded * bo,
            .row = ronde__round_up(in->w * in->n, line),
            .rows = (backward ? TILE : s->terms) * s->columns,
            .operand = s->columns * (backward ? bo : s->ph * s->padded),
            .sums = backward ? is_pooled(desc) * s->columns * bo : s->ph * s->columns * bo,
            .pooled = is_pooled(desc) * s->windows * in->n * bo};
  r.thread = r.row + r.rows + r.operand + 2 * (r.sums + r.pooled);
  return r;
}

static size_t conv_first_bf16_saved_elems(const ronde__op_desc *desc, const void *state) {
  return is_pooled(desc) ? ronde__pool2d_indices_elems(&desc->out[0]) : 0;
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

/* Windows [first, first + windows) of row `row`, as they are stored; `pixels` of a row of the convolution. */
typedef struct chunk {
  int64_t row, first, windows, pixels;
} chunk;

static chunk chunk_of(const ronde__op_desc *desc, const conv_first_bf16_state *s, int64_t item) {
  int64_t first = item % s->chunks * s->windows, windows = ronde__min(s->windows, desc->out[0].w - first);
  return (chunk){item / s->chunks, first, windows, windows * s->pw};
}

/* The first stored element of a chunk in block ob, or how many elements one has. */
static int64_t stored_at(const ronde__op_desc *desc, const chunk *c, int64_t ob) {
  const ronde__phys *out = &desc->out[0];
  return ((ob * out->h + c->row) * out->w + c->first) * out->n * out->block;
}

static int64_t stored_elems(const ronde__op_desc *desc, const chunk *c) {
  return c->windows * desc->out[0].n * desc->out[0].block;
}

/* Rows of the terms [begin, end) in row p of a chunk, beyond its pixels zero. */
static void make_rows(const conv_first_bf16_job *j, const chunk *c, int p, int64_t begin, int64_t end, uint16_t *rows) {
  const conv_first_bf16_state *s = j->s;
  int64_t n = j->desc->in[0].n, used = c->pixels * n, oh = c->row * s->ph + p;
  for (int64_t k = begin; k < end; k++, rows += s->columns) {
    int64_t channel = k / (s->h.kernel * s->w.kernel), kh = k / s->w.kernel % s->h.kernel;
    int64_t column = k % s->w.kernel * s->w.dilation, ih = oh * s->h.stride + kh * s->h.dilation - s->h.padding;
    bool inside = ih >= 0 && ih < s->h.in;
    const uint16_t *from = j->input + ((channel * s->h.in + ih) * s->n_phases + column % s->w.stride) * s->phase +
                           (c->first * s->pw + column / s->w.stride) * n;
    if (inside) memcpy(rows, from, (size_t)used * sizeof *rows);
    memset(rows + inside * used, 0, (size_t)(s->columns - inside * used) * sizeof *rows);
  }
}

/* ---- forward ---- */

/* A chunk's sums, pooled. */
static void pool(const conv_first_bf16_job *j, const chunk *c, int64_t ob, const float *sums, float *y) {
  const ronde__op_desc *desc = j->desc;
  const int64_t bo = desc->out[0].block, pixel = desc->out[0].n * bo;
  const float *bias = pool_adds_bias(desc) ? j->call->param[1] + ob * bo : NULL;
  uint8_t *which = (uint8_t *)j->call->saved + stored_at(desc, c, ob);
  for (int64_t i = 0; i < c->windows; i++)
    desc->compute.kernels->max_window(sums + i * j->s->pw * pixel, j->s->places_of, j->s->ph * j->s->pw, pixel, bias,
                                      bo, desc->attr.pool.relu, y + i * pixel, which + i * pixel);
}

static void forward_part(void *arg, int thread, int n_threads) {
  const conv_first_bf16_job *j = arg;
  const conv_first_bf16_state *s = j->s;
  const ronde__phys *out = &j->desc->out[0];
  int64_t begin, end, turned_row = s->columns * s->padded, sums_row = s->columns * out->block;
  uint16_t *rows = j->threads + thread * j->room.thread + j->room.row, *turned = rows + j->room.rows;
  float *sums = (float *)(turned + j->room.operand), *pooled = sums + j->room.sums;
  ronde__thread_chunk(out->h * s->chunks, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    chunk c = chunk_of(j->desc, s, item);
    for (int p = 0; p < s->ph; p++) {
      make_rows(j, &c, p, 0, s->terms, rows);
      j->bf16->transposed(rows, s->columns, s->terms, s->columns, turned + p * turned_row, s->padded);
    }
    for (int64_t ob = 0; ob < s->out_blocks; ob++) {
      int64_t at = stored_at(j->desc, &c, ob), elems = stored_elems(j->desc, &c);
      ronde__narrow_soon(out, j->call->out[0], at, elems);
      for (int p = 0; p < s->ph; p++) {
        ronde__gemm_run(&s->forward.set, turned + p * turned_row, &origin, j->weights + ob * s->padded * out->block,
                        &origin, 1, sums + p * sums_row);
        if (!pool_adds_bias(j->desc))
          ronde__fused_bias_act(j->desc, j->call, ob, sums + p * sums_row, c.pixels * out->n);
      }
      if (is_pooled(j->desc)) pool(j, &c, ob, sums, pooled);
      const float *y = is_pooled(j->desc) ? pooled : sums;
      if (out->bf16) ronde__narrow(j->desc, out, y, elems, j->call->out[0], at);
      else memcpy(j->call->out[0] + at, y, (size_t)elems * sizeof *y);
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

/* The gradient of row p of a chunk, zeros but for the maxima, of that of the pooled map. */
static void expand(const conv_first_bf16_job *j, const chunk *c, int64_t ob, int p, const float *pooled, float *dy) {
  const int64_t pixel = j->desc->out[0].n * j->desc->out[0].block;
  const uint8_t *which = (const uint8_t *)j->call->saved + stored_at(j->desc, c, ob);
  for (int64_t i = 0; i < c->pixels; i++) {
    int64_t from = i / j->s->pw * pixel;
    j->desc->compute.kernels->max_place_backward(pooled + from, which + from, (int)(p * j->s->pw + i % j->s->pw), pixel,
                                                 dy + i * pixel);
  }
}

/* Of one output block. */
typedef struct weight_job {
  int64_t ob, part0, part1; /* the terms from TILE * part0 up to TILE * part1 */
  float *dw, *db;           /* of the block; NULL: frozen, or somebody else's */
  uint16_t *rows, *panels;
  float *sums, *pooled;
} weight_job;

/* Row p of a chunk; the first of all sets. */
static void add_weights(const conv_first_bf16_job *j, const weight_job *w, const chunk *c, int p, bool is_first) {
  const conv_first_bf16_state *s = j->s;
  const ronde__phys *out = &j->desc->out[0];
  const int64_t n = c->pixels * out->n, bo = out->block, at = stored_at(j->desc, c, w->ob);
  if (is_pooled(j->desc)) {
    const float *pooled = ronde__widen(j->desc, out, j->call->dout[0], at, stored_elems(j->desc, c), w->pooled);
    expand(j, c, w->ob, p, pooled, w->sums);
    if (w->db) j->desc->compute.kernels->column_sums(w->sums, bo, n, bo, w->db);
    j->bf16->pack_panels(w->sums, bo, n, bo, s->columns, w->panels, s->columns);
  } else if (out->bf16) {
    j->bf16->panels(ronde__operand_at(out, j->call->dout[0], at), bo, n, bo, s->columns, w->panels, s->columns);
  } else {
    j->bf16->pack_panels(j->call->dout[0] + at, bo, n, bo, s->columns, w->panels, s->columns);
  }
  for (int64_t part = w->part0; part < w->part1 && w->dw; part++) {
    int64_t first = part * TILE, end = ronde__min(s->terms, first + TILE);
    const ronde__gemm_pair *pair = end - first == TILE ? &s->weight : &s->last;
    make_rows(j, c, p, first, end, w->rows);
    ronde__gemm_run(is_first && !j->call->accumulate_dparam[0] ? &pair->set : &pair->add, w->rows, &origin, w->panels,
                    &origin, 1, w->dw + first * bo);
  }
}

static void weight_part(void *arg, int thread, int n_threads) {
  const conv_first_bf16_job *j = arg;
  const conv_first_bf16_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t parts = ronde__ceil_div(s->terms, TILE), begin, end, bo = j->desc->out[0].block;
  uint16_t *rows = j->threads + thread * j->room.thread + j->room.row, *panels = rows + j->room.rows;
  float *sums = (float *)(panels + j->room.operand);
  ronde__thread_chunk(s->out_blocks * parts, thread, n_threads, &begin, &end);
  for (int64_t n; begin < end; begin += n) {
    int64_t ob = begin / parts, first = begin % parts;
    n = ronde__min(parts - first, end - begin);
    weight_job w = {.ob = ob,
                    .part0 = first,
                    .part1 = first + n,
                    .dw = call->dparam[0] ? call->dparam[0] + ob * s->terms * bo : NULL,
                    .db = is_pooled(j->desc) && first == 0 && call->dparam[1] ? call->dparam[1] + ob * bo : NULL,
                    .rows = rows,
                    .panels = panels,
                    .sums = sums,
                    .pooled = sums + j->room.sums};
    if (w.db && !call->accumulate_dparam[1]) memset(w.db, 0, (size_t)bo * sizeof *w.db);
    for (int64_t item = 0; item < j->desc->out[0].h * s->chunks; item++) {
      chunk c = chunk_of(j->desc, s, item);
      for (int p = 0; p < s->ph; p++) add_weights(j, &w, &c, p, item == 0 && p == 0);
    }
  }
}

/* With a pooling the bias gets what the outputs get of which its windows are made. */
static ronde_status conv_first_bf16_backward(const ronde__op_desc *desc, const void *state,
                                             const ronde__op_call *call) {
  conv_first_bf16_job j = job_of(desc, state, call, true);
  ronde__fused_act_backward(desc, call);
  if (desc->attr.bias && !is_pooled(desc)) ronde__bias_gradient(desc, call);
  if (!call->dparam[0] && !(is_pooled(desc) && call->dparam[1])) return RONDE_OK;
  ronde__pool_run(call->pool, round_input_part, &j);
  ronde__pool_run(call->pool, weight_part, &j);
  return RONDE_OK;
}

static const char *conv_first_bf16_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.bf16->name;
}

static bool conv_first_bf16_takes(const ronde__op_desc *desc) {
  const ronde__bf16 *bf16 = desc->compute.bf16;
  return bf16 && bf16->is_tiles && ronde__conv_is_between(desc, RONDE__LANES, RONDE__BLOCKS);
}

const ronde__form ronde__conv_first_bf16 = {
    .name = "first bf16",
    .takes = conv_first_bf16_takes,
    .prepare = conv_first_bf16_prepare,
    .release = conv_first_bf16_release,
    .work_elems = conv_first_bf16_work_elems,
    .saved_elems = conv_first_bf16_saved_elems,
    .forward = conv_first_bf16_forward,
    .backward = conv_first_bf16_backward,
    .implementation = conv_first_bf16_implementation,
    .bf16 = {.out = 1},
    .multiplies_bf16 = true,
    .executed_flops = ronde__conv_executed_flops,
};

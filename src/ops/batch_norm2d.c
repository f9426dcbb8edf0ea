/* Batch normalisation over batch and pixels, per channel: y = (x - mean) / sqrt(var + eps) * weight + bias; where a sum
 * follows, its other operand is in[1] and added here, and so is a ReLU behind that. A function that follows (pointwise.c)
 * may be executed here too; its input is never stored, but computed again in backward. Source: Ioffe & Szegedy, 2015;
 * running statistics as PyTorch's. BLOCKS only. Legend: M = N*H*W values a channel; the rows [M][block] of a channel
 * block are cut into chunks, whose statistics are joined in f64 in a fixed order, so that the result does not depend on
 * the threads. */
#include "ops/elementwise.h"
#include "ops/fused.h"
#include "ops/gemm_list.h"
#include "ops/widen.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 64, MAX_BLOCK = 64, CACHE_BYTES = 512 << 10 }; /* rows, channels: a chunk stays in the first cache */
enum {
  FEW = 8
}; /* rows between which normalisation and a function take turns, so that memory and arithmetic overlap */

static ronde_status batch_norm2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                       const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: batch normalisation takes CxHxW, but %s gives %s", label, in_labels[0],
                       text);
  *out = in[0];
  return RONDE_OK;
}

static int batch_norm2d_params(const ronde__op_attr *attr, const ronde__shape *in,
                               ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  specs[0] = (ronde__param_spec){"weight", {1, {in[0].dim[0]}}, 1, RONDE_INIT_CONSTANT};
  specs[1] = (ronde__param_spec){"bias", {1, {in[0].dim[0]}}, 0, RONDE_INIT_CONSTANT};
  return 2;
}

static int batch_norm2d_buffers(const ronde__op_attr *attr, const ronde__shape *in,
                                ronde__buffer_spec specs[RONDE__OP_MAX_BUFFERS]) {
  specs[0] = (ronde__buffer_spec){"running_mean", {1, {in[0].dim[0]}}, 0, false};
  specs[1] = (ronde__buffer_spec){"running_var", {1, {in[0].dim[0]}}, 1, false};
  specs[2] = (ronde__buffer_spec){"num_batches_tracked", {0}, 0, true};
  return 3;
}

static void batch_norm2d_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__phys *x = &desc->in[0];
  if (x->layout != RONDE__BLOCKS) *x = ronde__phys_make(RONDE__BLOCKS, x->n, x->c, x->h, x->w);
  desc->in[1] = desc->out[0] = *x;
  desc->buffer = desc->param[0] = desc->param[1] = ronde__weight_layout_make(RONDE__PANELS, x->c, 1, 1, x->block, 1);
}

/* A function of which 0 is 0, so that padded channels stay so. */
static bool batch_norm2d_join(ronde__op_desc *desc, ronde__op_kind kind, const ronde__op_attr *attr,
                              const ronde__shape *out) {
  float zero = 0;
  if (kind != RONDE__OP_POINTWISE || desc->n_inputs > 1 || desc->attr.act) return false;
  desc->compute.kernels->pointwise_forward(&attr->pointwise, &zero, &zero, 1);
  if (zero != 0) return false;
  desc->attr.pointwise = attr->pointwise;
  return desc->attr.pointwise_behind = true;
}

static int64_t rows_of(const ronde__phys *x) { return x->n * x->h * x->w; }
static int64_t chunks_of(const ronde__phys *x) { return ronde__ceil_div(rows_of(x), CHUNK); }
static int64_t padded_channels(const ronde__phys *x) { return ronde__phys_blocks(x) * x->block; }

/* Kept for backward: mean and 1 / sqrt(var + eps), [2][channels]. */
static size_t batch_norm2d_saved_elems(const ronde__op_desc *desc, const void *state) {
  return (size_t)(2 * padded_channels(&desc->in[0]));
}

/* Two sums of each chunk, [blocks][chunks][2][block]; then what each channel is transformed with, [4][channels]. */
static size_t batch_norm2d_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  return (size_t)(padded_channels(&desc->in[0]) * (2 * chunks_of(&desc->in[0]) + 4));
}

typedef struct batch_norm2d_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  bool as_they_lie; /* the kernels take the operands so; else a few rows at a time as f32 */
  const ronde__norm_kernels *norm;
  float *partial, *a, *b, *c, *shift, *mean, *factor;
} batch_norm2d_job;

/* Operands that are all f32, or all bfloat16; a function behind takes f32. */
static bool takes_operands(const ronde__op_desc *desc) {
  if (!ronde__is_narrow(desc)) return true;
  for (int i = 0; i < desc->n_inputs; i++)
    if (!desc->in[i].bf16) return false;
  return desc->out[0].bf16 && !desc->attr.pointwise_behind;
}

static const ronde__norm_kernels *norm_of(const ronde__op_desc *desc, bool narrow) {
  return narrow ? desc->compute.bf16->norm : desc->compute.kernels->norm;
}

static batch_norm2d_job job_of(const ronde__op_desc *desc, const ronde__op_call *call) {
  int64_t channels = padded_channels(&desc->in[0]);
  bool as_they_lie = takes_operands(desc);
  float *a = call->work;
  return (batch_norm2d_job){.desc = desc,
                            .call = call,
                            .as_they_lie = as_they_lie,
                            .norm = norm_of(desc, as_they_lie && desc->in[0].bf16),
                            .partial = a + 4 * channels,
                            .a = a,
                            .b = a + channels,
                            .c = a + 2 * channels,
                            .shift = a + 3 * channels,
                            .mean = call->saved,
                            .factor = call->saved + channels};
}

/* Elements [at, at + n) of an operand for the kernels. */
static const void *get(const batch_norm2d_job *j, const ronde__phys *phys, const float *x, int64_t at, int64_t n,
                       float *room) {
  return j->as_they_lie ? ronde__operand_at(phys, x, at) : ronde__widen(j->desc, phys, x, at, n, room);
}

/* Where the kernels write elements from `at` on, for put to take. */
static void *place(const batch_norm2d_job *j, const ronde__phys *phys, float *x, int64_t at, float *room) {
  return j->as_they_lie ? ronde__operand_at(phys, x, at) : ronde__operand_room(phys, x, at, room);
}

static void put(const batch_norm2d_job *j, const ronde__phys *phys, const void *from, int64_t n, float *x, int64_t at) {
  if (!j->as_they_lie) ronde__narrow(j->desc, phys, from, n, x, at);
}

/* Chunk `item` of all blocks' chunks: its first element, rows, and block. */
static int64_t chunk_at(const ronde__phys *x, int64_t item, int64_t *rows_out, int64_t *block_out) {
  int64_t chunks = chunks_of(x), row = item % chunks * CHUNK;
  *block_out = item / chunks;
  *rows_out = ronde__min(CHUNK, rows_of(x) - row);
  return (*block_out * rows_of(x) + row) * x->block;
}

/* Blocks [first, last) of channels. */
typedef struct blocks {
  int64_t first, last;
} blocks;

/* The blocks from `first` on whose memory the second of two passes finds in the second cache: as many as fit, at least
 * one. Backward reads the output's gradient too. */
static blocks blocks_in_cache(const batch_norm2d_job *j, int64_t first, bool backward) {
  const ronde__phys *x = &j->desc->in[0];
  size_t all = ronde__phys_bytes(x) + (backward ? ronde__phys_bytes(&j->desc->out[0]) : 0);
  int64_t bytes = (int64_t)all / ronde__phys_blocks(x);
  int64_t n = ronde__max(1, CACHE_BYTES * j->desc->threads / bytes);
  return (blocks){first, ronde__min(first + n, ronde__phys_blocks(x))};
}

static blocks all_blocks(const batch_norm2d_job *j) { return (blocks){0, ronde__phys_blocks(&j->desc->in[0])}; }

typedef void (*chunk_fn)(const batch_norm2d_job *j, int64_t at, int64_t rows, int64_t block, float *partial);

typedef struct chunk_job {
  const batch_norm2d_job *j;
  chunk_fn fn;
  blocks blocks;
} chunk_job;

static void chunks_part(void *arg, int thread, int n_threads) {
  const chunk_job *c = arg;
  const ronde__phys *x = &c->j->desc->in[0];
  int64_t begin, end, n = c->blocks.last - c->blocks.first;
  ronde__thread_chunk(n * chunks_of(x), thread, n_threads, &begin, &end);
  for (int64_t item = begin + c->blocks.first * chunks_of(x), stop = item + end - begin; item < stop; item++) {
    int64_t rows, block, at = chunk_at(x, item, &rows, &block);
    c->fn(c->j, at, rows, block, c->j->partial + item * 2 * x->block);
  }
}

static void each_chunk(const batch_norm2d_job *j, blocks b, chunk_fn fn) {
  chunk_job c = {j, fn, b};
  ronde__pool_run(j->call->pool, chunks_part, &c);
}

/* ---- forward ---- */

static void chunk_moments(const batch_norm2d_job *j, int64_t at, int64_t rows, int64_t block, float *partial) {
  const ronde__phys *x = &j->desc->in[0];
  norm_of(j->desc, x->bf16)
      ->moments(ronde__operand_at(x, j->call->in[0], at), rows, x->block, partial, partial + x->block);
}

/* Mean and sum of squares of a block's channels, from its chunks. Source: Chan, Golub & LeVeque, 1979. */
static void join_moments(const batch_norm2d_job *j, int64_t block, double *mean, double *m2) {
  const ronde__phys *x = &j->desc->in[0];
  const float *partial = j->partial + block * chunks_of(x) * 2 * x->block;
  double done = 0;
  for (int64_t i = 0; i < chunks_of(x); i++, partial += 2 * x->block) {
    double rows = (double)ronde__min(CHUNK, rows_of(x) - i * CHUNK), all = done + rows;
    for (int64_t c = 0; c < x->block; c++) {
      double delta = partial[c] - (i ? mean[c] : 0);
      mean[c] = i ? mean[c] + delta * rows / all : partial[c];
      m2[c] = i ? m2[c] + partial[x->block + c] + delta * delta * done * rows / all : partial[x->block + c];
    }
    done = all;
  }
}

/* A channel's statistics over m values; the running ones follow. */
static void set_statistics(const batch_norm2d_job *j, int64_t channel, double mean, double m2, double m) {
  const ronde__op_attr *attr = &j->desc->attr;
  float *running_mean = &j->call->buffer[0][channel], *running_var = &j->call->buffer[1][channel];
  j->mean[channel] = (float)mean;
  j->factor[channel] = (float)(1 / sqrt(m2 / m + attr->eps));
  if (channel >= j->desc->in[0].c) return; /* padding keeps its initial values */
  *running_mean += (float)(attr->momentum * (mean - *running_mean));
  *running_var += (float)(attr->momentum * (m2 / (m - 1) - *running_var));
}

static void batch_statistics(const batch_norm2d_job *j, blocks b) {
  const ronde__phys *x = &j->desc->in[0];
  double mean[MAX_BLOCK], m2[MAX_BLOCK], m = (double)rows_of(x);
  each_chunk(j, b, chunk_moments);
  for (int64_t block = b.first; block < b.last; block++) {
    join_moments(j, block, mean, m2);
    for (int64_t c = 0; c < x->block; c++) set_statistics(j, block * x->block + c, mean[c], m2[c], m);
  }
}

/* The same of all replicas' examples; those without an example have 0 rows. */
static void shared_statistics(const batch_norm2d_job *j, blocks b) {
  const ronde__partials *partials = &j->call->partials;
  int64_t channels = padded_channels(&j->desc->in[0]), n = j->desc->in[0].block;
  for (int64_t c = b.first * n; c < b.last * n; c++) {
    double done = 0, mean = 0, m2 = 0;
    for (int i = 0; i < partials->n; i++) {
      const double *partial = partials->at + i * partials->stride;
      double rows = partial[0], all = done + rows, delta = partial[1 + c] - mean;
      if (rows == 0) continue;
      mean += delta * rows / all;
      m2 += partial[1 + channels + c] + delta * delta * done * rows / all;
      done = all;
    }
    set_statistics(j, c, mean, m2, done);
  }
}

static void running_statistics(const batch_norm2d_job *j, blocks b) {
  int64_t n = j->desc->in[0].block;
  for (int64_t c = b.first * n; c < b.last * n; c++) {
    j->mean[c] = j->call->buffer[0][c];
    j->factor[c] = (float)(1 / sqrt((double)j->call->buffer[1][c] + j->desc->attr.eps));
  }
}

static void chunk_affine(const batch_norm2d_job *j, int64_t at, int64_t rows, int64_t block, float *partial) {
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  int64_t n = desc->in[0].block, c = block * n;
  _Alignas(64) float room[3][FEW * MAX_BLOCK];
  bool is_whole = j->as_they_lie && !desc->attr.pointwise_behind;
  for (int64_t r = 0, few; r < rows; r += few, at += few * n) {
    few = is_whole ? rows : ronde__min(FEW, rows - r);
    const void *x = get(j, &desc->in[0], call->in[0], at, few * n, room[0]), *residual = NULL;
    if (desc->n_inputs == 2) residual = get(j, &desc->in[1], call->in[1], at, few * n, room[1]);
    void *y = place(j, &desc->out[0], call->out[0], at, room[2]);
    j->norm->affine(x, residual, few, n, j->a + c, j->shift + c, desc->attr.act == RONDE__ACT_RELU, y);
    if (desc->attr.pointwise_behind) desc->compute.kernels->pointwise_forward(&desc->attr.pointwise, y, y, few * n);
    put(j, &desc->out[0], y, few * n, call->out[0], at);
  }
}

/* What forward multiplies the values of channels by, and adds. */
static void set_affine(const batch_norm2d_job *j, blocks b) {
  int64_t n = j->desc->in[0].block;
  for (int64_t c = b.first * n; c < b.last * n; c++) {
    j->a[c] = j->call->param[0][c] * j->factor[c];
    j->shift[c] = (float)(j->call->param[1][c] - (double)j->mean[c] * j->a[c]);
  }
}

static ronde_status batch_norm2d_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  batch_norm2d_job j = job_of(desc, call);
  blocks b = {0, 0};
  while (b.last < ronde__phys_blocks(&desc->in[0])) {
    b = blocks_in_cache(&j, b.last, false);
    if (call->partials.n) shared_statistics(&j, b);
    else if (call->training) batch_statistics(&j, b);
    else running_statistics(&j, b);
    set_affine(&j, b);
    each_chunk(&j, b, chunk_affine);
  }
  return RONDE_OK;
}

/* ---- backward ---- */

/* The gradient behind the function becomes the one in front of it. */
static void function_backward(const batch_norm2d_job *j, int64_t rows, int64_t block, const float *x, float *dy) {
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t n = j->desc->in[0].block, c = block * n;
  float normalised[FEW * MAX_BLOCK];
  for (int64_t r = 0, few; r < rows; r += few, x += few * n, dy += few * n) {
    few = ronde__min(FEW, rows - r);
    kernels->norm->affine(x, NULL, few, n, j->a + c, j->shift + c, false, normalised);
    kernels->pointwise_backward(&j->desc->attr.pointwise, dy, normalised, dy, few * n, false);
  }
}

/* The gradient of n elements of the residual from `at` on is that of the sum. */
static void residual_gradient(const batch_norm2d_job *j, int64_t at, int64_t n) {
  const ronde__op_call *call = j->call;
  const ronde__phys *residual = &j->desc->in[1], *out = &j->desc->out[0];
  bool accumulate = call->accumulate_dinput[1];
  _Alignas(64) float room[2][CHUNK * MAX_BLOCK];
  if (!call->din[1] || call->din[1] == call->dout[0]) return;
  if (residual->bf16 == out->bf16) {
    ronde__value_add(j->desc, out, call->dout[0], at, call->din[1], at, n, accumulate);
    return;
  }
  const float *dy = ronde__widen(j->desc, out, call->dout[0], at, n, room[0]);
  float *to = ronde__operand_room(residual, call->din[1], at, room[1]);
  if (accumulate) ronde__widen(j->desc, residual, call->din[1], at, n, room[1]);
  ronde__gradient_add(j->desc, dy, to, n, accumulate);
  ronde__narrow(j->desc, residual, to, n, call->din[1], at);
}

/* A ReLU behind the normalisation alone is computed again from x, which is in cache, so that neither its output is read nor
 * the gradient in front of it written. */
static bool is_relu_again(const ronde__op_desc *desc) { return desc->attr.act && desc->n_inputs == 1; }

/* The gradient behind a ReLU of a sum becomes the one in front of it, which is the residual's too, while it is in cache. */
static void chunk_sums(const batch_norm2d_job *j, int64_t at, int64_t rows, int64_t block, float *partial) {
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  int64_t n = in->block, elems = rows * n;
  _Alignas(64) float room[3][CHUNK * MAX_BLOCK];
  const void *x = get(j, in, call->in[0], at, elems, room[0]), *relu = NULL;
  const float *shift = is_relu_again(desc) ? j->shift + block * n : NULL;
  if (desc->attr.act && !shift) relu = get(j, out, call->out[0], at, elems, room[1]);
  void *dy = place(j, out, call->dout[0], at, room[2]);
  if (!j->as_they_lie) ronde__widen(desc, out, call->dout[0], at, elems, room[2]);
  if (desc->attr.pointwise_behind) function_backward(j, rows, block, x, dy);
  j->norm->sums(dy, relu, x, rows, n, j->mean + block * n, j->a + block * n, shift, partial, partial + n);
  if (desc->attr.pointwise_behind || relu) put(j, out, dy, elems, call->dout[0], at);
  if (desc->n_inputs == 2) residual_gradient(j, at, elems);
}

static void chunk_backward(const batch_norm2d_job *j, int64_t at, int64_t rows, int64_t block, float *partial) {
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  const ronde__phys *in = &desc->in[0];
  int64_t n = in->block, c = block * n;
  _Alignas(64) float room[3][FEW * MAX_BLOCK];
  for (int64_t r = 0, few; r < rows; r += few, at += few * n) {
    few = j->as_they_lie ? rows : ronde__min(FEW, rows - r);
    const void *x = get(j, in, call->in[0], at, few * n, room[0]);
    const void *dy = get(j, &desc->out[0], call->dout[0], at, few * n, room[1]);
    void *dx = place(j, in, call->din[0], at, room[2]);
    const float *shift = is_relu_again(desc) ? j->shift + c : NULL;
    if (call->accumulate_dinput[0] && !j->as_they_lie) ronde__widen(desc, in, call->din[0], at, few * n, room[2]);
    j->norm->backward(dy, x, few, n, j->mean + c, j->a + c, j->b + c, j->c + c, shift, dx, call->accumulate_dinput[0]);
    put(j, in, dx, few * n, call->din[0], at);
  }
}

/* A channel's sums of dy and of dy * (x - mean) over m values. */
typedef struct sums {
  double m, dy, dyx;
} sums;

static sums own_sums(const batch_norm2d_job *j, int64_t channel) {
  const ronde__phys *x = &j->desc->in[0];
  const float *partial = j->partial + channel / x->block * chunks_of(x) * 2 * x->block + channel % x->block;
  sums s = {.m = (double)rows_of(x)};
  for (int64_t i = 0; i < chunks_of(x); i++, partial += 2 * x->block) {
    s.dy += partial[0];
    s.dyx += partial[x->block];
  }
  return s;
}

static sums shared_sums(const batch_norm2d_job *j, int64_t channel) {
  const ronde__partials *partials = &j->call->partials;
  sums s = {0};
  for (int i = 0; i < partials->n; i++) {
    const double *partial = partials->at + i * partials->stride;
    s.m += partial[0];
    s.dy += partial[1 + channel];
    s.dyx += partial[1 + padded_channels(&j->desc->in[0]) + channel];
  }
  return s;
}

/* Gradients of the parameters are of this replica's examples: they are added up like all others. */
static void param_gradients(const batch_norm2d_job *j, blocks b) {
  const ronde__phys *x = &j->desc->in[0];
  const ronde__op_call *call = j->call;
  for (int64_t c = b.first * x->block; c < b.last * x->block; c++) {
    sums own = own_sums(j, c), all = call->partials.n ? shared_sums(j, c) : own;
    double factor = j->factor[c], a = call->param[0][c] * factor;
    float dweight = (float)(own.dyx * factor), dbias = (float)own.dy;
    float *dw = call->dparam[0], *db = call->dparam[1];
    if (dw) dw[c] = call->accumulate_dparam[0] ? dw[c] + dweight : dweight;
    if (db) db[c] = call->accumulate_dparam[1] ? db[c] + dbias : dbias;
    j->a[c] = (float)a;
    j->b[c] = (float)(-a * factor * factor * all.dyx / all.m);
    j->c[c] = (float)(-a * all.dy / all.m);
  }
}

static ronde_status batch_norm2d_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  batch_norm2d_job j = job_of(desc, call);
  blocks b = {0, 0};
  while (b.last < ronde__phys_blocks(&desc->in[0])) {
    b = blocks_in_cache(&j, b.last, true);
    set_affine(&j, b);
    if (!call->partials.n) each_chunk(&j, b, chunk_sums);
    param_gradients(&j, b);
    if (call->din[0]) each_chunk(&j, b, chunk_backward);
  }
  return RONDE_OK;
}

/* ---- synchronised: what the replicas tell each other; [1 + 2 channels] ----
 * Rows, then mean and sum of squares of each channel, or its two sums of backward. */

static size_t batch_norm2d_part_elems(const ronde__op_desc *desc) {
  return desc->attr.synchronised ? (size_t)(1 + 2 * padded_channels(&desc->in[0])) : 0;
}

static ronde_status batch_norm2d_contribute(const ronde__op_desc *desc, const void *state, const ronde__op_call *call,
                                            bool backward) {
  batch_norm2d_job j = job_of(desc, call);
  int64_t channels = padded_channels(&desc->in[0]), n = desc->in[0].block;
  double *first = call->partial + 1, *second = first + channels;
  call->partial[0] = (double)rows_of(&desc->in[0]);
  if (backward) set_affine(&j, all_blocks(&j));
  each_chunk(&j, all_blocks(&j), backward ? chunk_sums : chunk_moments);
  for (int64_t block = 0; block < channels / n && !backward; block++)
    join_moments(&j, block, first + block * n, second + block * n);
  for (int64_t c = 0; c < channels && backward; c++) {
    sums own = own_sums(&j, c);
    first[c] = own.dy, second[c] = own.dyx;
  }
  return RONDE_OK;
}

static ronde_status batch_norm2d_absorb(const ronde__op_desc *desc, const ronde__op_call *call) {
  batch_norm2d_job j = job_of(desc, call);
  shared_statistics(&j, all_blocks(&j));
  return RONDE_OK;
}

static const char *batch_norm2d_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.kernels->isa;
}

static const ronde__form batch_norm2d_form = {
    .bf16 = {.in = 3, .out = 1},
    .work_elems = batch_norm2d_work_elems,
    .saved_elems = batch_norm2d_saved_elems,
    .forward = batch_norm2d_forward,
    .backward = batch_norm2d_backward,
    .partial_elems = batch_norm2d_part_elems,
    .contribute = batch_norm2d_contribute,
    .absorb = batch_norm2d_absorb,
    .implementation = batch_norm2d_implementation,
};

const ronde__op ronde__op_batch_norm2d = {
    .name = "batch_norm",
    .infer = batch_norm2d_infer,
    .params = batch_norm2d_params,
    .buffers = batch_norm2d_buffers,
    .layouts = batch_norm2d_layouts,
    .join = batch_norm2d_join,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 3,
    .forms = (const ronde__form *const[]){&batch_norm2d_form, NULL},
};

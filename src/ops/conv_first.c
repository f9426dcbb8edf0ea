/* First convolution, LANES -> BLOCKS: few input channels with the batch in the lanes are the transposed operand of a
 * GEMM, so no im2col is stored. The network's input needs no gradient; where one is needed, the plan uses BLOCKS on
 * both sides. With a max pooling behind it (attr.pool) only the pooled map is stored: forward makes the pixels of a
 * window in scratch, backward the gradient of a few pixels, as they come. */
#include "ops/conv.h"
#include "ops/pool2d.h"
#include "ops/widen.h"

#include <string.h>

/* Floats of dY that stay in the first cache. */
enum { CACHED = 4096 };

typedef struct conv_first_state {
  ronde__axis h, w;
  int64_t lanes, out_pixel, out_block, out_blocks;
  int64_t longest;           /* neighbouring pixels whose dY stays in the first cache while tap rows pass over it */
  int64_t *places;           /* with a pooling, [its places]: of a window's pixels in scratch */
  ronde__gemm_list *rows;    /* [KH + 1][KH + 1]: by first tap row and their number; over channels and tap rows, and
                                nothing where unused */
  ronde__gemm_pair *forward; /* [KW + 1]: by taps of a row */
  ronde__gemm_pair *weight;  /* [KW + 1] */
  ronde__gemm_list pixels;   /* neighbouring pixels of a row: x, dy */
} conv_first_state;

static void conv_first_release(const ronde__op_desc *desc, void *opaque) {
  conv_first_state *s = opaque;
  if (!s) return;
  for (int i = 0; s->rows && i < (s->h.kernel + 1) * (s->h.kernel + 1); i++) ronde__gemm_list_destroy(&s->rows[i]);
  ronde__free(s->rows);
  ronde__free(s->forward);
  ronde__free(s->weight);
  ronde__gemm_list_destroy(&s->pixels);
  ronde__free(s->places);
  ronde__free(s);
}

static ronde__gemm_list *row_list(const conv_first_state *s, ronde__taps h) {
  return &s->rows[h.first * (s->h.kernel + 1) + h.count];
}

static ronde_status make_row_list(const ronde__op_desc *desc, const conv_first_state *s, ronde__taps h) {
  ronde__gemm_list *list = row_list(s, h);
  if (list->a) return RONDE_OK;
  RONDE_TRY(ronde__gemm_list_create(desc->in[0].c * h.count, list));
  for (int64_t c = 0, term = 0; c < desc->in[0].c; c++)
    for (int y = 0; y < h.count; y++, term++) {
      list->a[term] = (uint64_t)((c * s->h.in + y * s->h.dilation) * s->w.in * s->lanes) * sizeof(float);
      list->b[term] = (uint64_t)((c * s->h.kernel + h.first + y) * s->w.kernel * desc->out[0].block) * sizeof(float);
    }
  return RONDE_OK;
}

static int64_t n_places(const ronde__op_desc *desc) {
  return (int64_t)desc->attr.pool.kernel[0] * desc->attr.pool.kernel[1];
}

static ronde_status conv_first_make_lists(const ronde__op_desc *desc, conv_first_state *s) {
  int kh = s->h.kernel + 1, kw = s->w.kernel + 1;
  RONDE__ALLOC(s->rows, (size_t)kh * kh * sizeof *s->rows, "convolution plan");
  RONDE__ALLOC(s->forward, (size_t)kw * sizeof *s->forward, "convolution plan");
  RONDE__ALLOC(s->weight, (size_t)kw * sizeof *s->weight, "convolution plan");
  for (int64_t oh = 0; oh < s->h.out; oh++) RONDE_TRY(make_row_list(desc, s, ronde__axis_forward(&s->h, oh)));
  RONDE_TRY(make_row_list(desc, s, (ronde__taps){0, 0, 0}));
  RONDE_TRY(ronde__gemm_list_create(s->w.out, &s->pixels));
  for (int64_t i = 0; i < s->w.out; i++) {
    s->pixels.a[i] = (uint64_t)(i * s->w.stride * s->lanes) * sizeof(float);
    s->pixels.b[i] = (uint64_t)(i * s->out_pixel) * sizeof(float);
  }
  int64_t places = n_places(desc);
  RONDE__ALLOC(s->places, (size_t)places * sizeof *s->places, "convolution plan");
  for (int64_t i = 0; i < places; i++) s->places[i] = i * s->out_pixel;
  return RONDE_OK;
}

static ronde_status conv_first_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  conv_first_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_first_state){.h = ronde__conv_axis_h(desc), .w = ronde__conv_axis_w(desc), .lanes = in->block};
  s->out_pixel = out->n * out->block, s->out_block = out->h * out->w * s->out_pixel,
  s->out_blocks = ronde__phys_blocks(out), s->longest = ronde__min(s->w.out, ronde__max(1, CACHED / s->out_pixel));
  ronde_status status = conv_first_make_lists(desc, s);
  if (status != RONDE_OK) {
    conv_first_release(desc, s);
    return status;
  }
  for (int k = 1; k <= s->w.kernel; k++) {
    int64_t lda = s->w.dilation * s->lanes;
    ronde__gemm_shape forward = {(int)in->n, (int)out->block, k, lda, out->block, out->block, true, false, false};
    ronde__gemm_shape weight = {k, (int)out->block, (int)in->n, lda, out->block, out->block, false, false, false};
    s->forward[k] = ronde__gemm_pair_resolve(desc, forward);
    s->weight[k] = ronde__gemm_pair_resolve(desc, weight);
  }
  *state_out = s;
  return RONDE_OK;
}

/* Scratch of a thread: where there is a pooling, a window's pixels, or the gradient of neighbouring ones; where the output
 * is bfloat16, a pixel of it, or the gradient of neighbouring ones too. */
static int64_t thread_elems(const ronde__op_desc *desc, const conv_first_state *s, bool backward) {
  int64_t narrow = desc->out[0].bf16, pooled = n_places(desc) > 0;
  int64_t pixels = backward ? (pooled | narrow) * s->longest : n_places(desc);
  return (pixels + (narrow && (pooled || !backward))) * s->out_pixel;
}

static size_t conv_first_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  return (size_t)(desc->threads * thread_elems(desc, state, backward));
}

/* Of a pooling: as its own op has it. */
static size_t conv_first_saved_elems(const ronde__op_desc *desc, const void *state) {
  return n_places(desc) ? ronde__pool2d_indices_elems(&desc->out[0]) : 0;
}

typedef struct conv_first_job {
  const ronde__op_desc *desc;
  const conv_first_state *s;
  const ronde__op_call *call;
} conv_first_job;

/* The pooling adds the bias to what it reads. */
static bool pool_adds_bias(const ronde__op_desc *desc) {
  return n_places(desc) > 0 && desc->attr.bias && desc->attr.act == RONDE__ACT_NONE;
}

/* Pixel (oh, ow) of an output block, before the pooling: y [N][bo]. */
static void convolve(const conv_first_job *j, int64_t ob, int64_t oh, int64_t ow, float *y) {
  const conv_first_state *s = j->s;
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  int64_t bo = desc->out[0].block, slab = desc->param[0].i * desc->param[0].t * bo;
  ronde__taps h = ronde__axis_forward(&s->h, oh), w = ronde__axis_forward(&s->w, ow);
  if (w.count == 0) h = (ronde__taps){0, 0, 0};
  const ronde__gemm_list *list = row_list(s, h);
  ronde__gemm_sum(&s->forward[ronde__max(1, w.count)], list, list->count,
                  call->in[0] + (h.at * s->w.in + w.at) * s->lanes, call->param[0] + ob * slab + w.first * bo, y,
                  false);
  if (!pool_adds_bias(desc)) ronde__fused_bias_act(desc, call, ob, y, desc->out[0].n);
}

/* One output of the pooling, y and its places. */
static void pool_window(const conv_first_job *j, int64_t ob, int64_t oh, int64_t ow, float *window, float *y,
                        uint8_t *which) {
  const ronde__joined_pool *pool = &j->desc->attr.pool;
  int64_t pixel = j->s->out_pixel, bo = j->desc->out[0].block;
  for (int h = 0; h < pool->kernel[0]; h++)
    for (int w = 0; w < pool->kernel[1]; w++)
      convolve(j, ob, oh * pool->kernel[0] + h, ow * pool->kernel[1] + w, window + (h * pool->kernel[1] + w) * pixel);
  const float *bias = pool_adds_bias(j->desc) ? j->call->param[1] + ob * bo : NULL;
  j->desc->compute.kernels->max_window(window, j->s->places, (int)n_places(j->desc), pixel, bias, bo, pool->relu, y,
                                       which);
}

static void conv_first_forward_part(void *arg, int thread, int n_threads) {
  const conv_first_job *j = arg;
  const conv_first_state *s = j->s;
  const ronde__phys *out = &j->desc->out[0];
  bool pooled = n_places(j->desc) > 0;
  float *window = j->call->work + thread * thread_elems(j->desc, s, false);
  int64_t pixels = out->h * out->w, begin, end;
  ronde__thread_chunk(s->out_blocks * pixels, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item / pixels, oh = item % pixels / out->w, ow = item % out->w, at = item * s->out_pixel;
    float *y = ronde__operand_room(out, j->call->out[0], at, window + n_places(j->desc) * s->out_pixel);
    if (pooled) pool_window(j, ob, oh, ow, window, y, (uint8_t *)j->call->saved + at);
    else convolve(j, ob, oh, ow, y);
    ronde__narrow(j->desc, out, y, s->out_pixel, j->call->out[0], at);
  }
}

static ronde_status conv_first_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_first_job j = {desc, state, call};
  ronde__pool_run(call->pool, conv_first_forward_part, &j);
  return RONDE_OK;
}

/* dY of neighbouring pixels from (oh, ow) on: where it lies, or made of the pooled one, zeros but for the maxima; those
 * that are in no window had no part in the result. */
static const float *gradient_of(const conv_first_job *j, int64_t ob, int64_t oh, int64_t ow, int64_t length,
                                float *expanded) {
  const conv_first_state *s = j->s;
  const ronde__op_call *call = j->call;
  const ronde__phys *out = &j->desc->out[0];
  const int *kernel = j->desc->attr.pool.kernel;
  float *pooled = expanded + s->longest * s->out_pixel; /* room for a gradient in front of that */
  if (!n_places(j->desc))
    return ronde__widen(j->desc, out, call->dout[0], ob * s->out_block + (oh * s->w.out + ow) * s->out_pixel,
                        length * s->out_pixel, expanded);
  for (int64_t i = 0; i < length; i++) {
    float *to = expanded + i * s->out_pixel;
    int64_t y = oh / kernel[0], x = (ow + i) / kernel[1];
    int64_t from = ob * s->out_block + (y * j->desc->out[0].w + x) * s->out_pixel;
    int place = (int)(oh % kernel[0] * kernel[1] + (ow + i) % kernel[1]);
    if (y < out->h && x < out->w)
      j->desc->compute.kernels->max_place_backward(
          ronde__widen(j->desc, out, call->dout[0], from, s->out_pixel, pooled), (const uint8_t *)call->saved + from,
          place, s->out_pixel, to);
    else memset(to, 0, (size_t)s->out_pixel * sizeof *to);
  }
  return expanded;
}

/* Tap rows [row0, row1), of all (c, kh), of one block of dW, [KW][bo] each: pixels outside, so that the rows share dY
 * while it is in the first cache; and the first of them with the bias, summed by rows of pixels. Either may be
 * frozen. */
static void weight_rows(const conv_first_job *j, int64_t ob, int64_t row0, int64_t row1, float *expanded) {
  const conv_first_state *s = j->s;
  const ronde__op_call *call = j->call;
  int64_t bo = j->desc->out[0].block, kernel = s->h.kernel, size = s->w.kernel * bo;
  const ronde__kernels *kernels = j->desc->compute.kernels;
  float *dw = call->dparam[0] ? call->dparam[0] + ob * j->desc->param[0].i * kernel * size : NULL;
  float *db = row0 == 0 && call->dparam[1] ? call->dparam[1] + ob * bo : NULL;
  if (!call->accumulate_dparam[0] && dw) memset(dw + row0 * size, 0, (size_t)((row1 - row0) * size) * sizeof *dw);
  if (!call->accumulate_dparam[1] && db) memset(db, 0, (size_t)bo * sizeof *db);
  for (int64_t oh = 0; oh < s->h.out; oh++) {
    ronde__taps h = ronde__axis_forward(&s->h, oh);
    float sums[RONDE__MAX_BLOCK] = {0}; /* of dY, in this row */
    for (int64_t ow = 0, length; ow < s->w.out; ow += length) {
      ronde__taps w = ronde__axis_forward(&s->w, ow);
      length = ronde__min(s->longest, ronde__axis_run(&s->w, ronde__axis_forward, ow, s->w.out));
      const float *dy = gradient_of(j, ob, oh, ow, length, expanded);
      for (int64_t row = row0; row < row1 && w.count > 0 && dw; row++) {
        int64_t c = row / kernel, kh = row % kernel - h.first;
        if (kh < 0 || kh >= h.count) continue;
        const float *x = call->in[0] + ((c * s->h.in + h.at + kh * s->h.dilation) * s->w.in + w.at) * s->lanes;
        ronde__gemm_run(&s->weight[w.count].add, x, s->pixels.a, dy, s->pixels.b, length,
                        dw + row * size + w.first * bo);
      }
      if (db) kernels->column_sums(dy, bo, length * j->desc->out[0].n, bo, sums);
    }
    if (db) kernels->add(db, sums, db, bo);
  }
}

static void conv_first_weight_part(void *arg, int thread, int n_threads) {
  const conv_first_job *j = arg;
  int64_t rows = j->desc->in[0].c * j->s->h.kernel, begin, end;
  ronde__thread_chunk(j->s->out_blocks * rows, thread, n_threads, &begin, &end);
  while (begin < end) {
    int64_t row0 = begin % rows, row1 = ronde__min(rows, row0 + end - begin);
    weight_rows(j, begin / rows, row0, row1, j->call->work + thread * thread_elems(j->desc, j->s, true));
    begin += row1 - row0;
  }
}

static ronde_status conv_first_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_first_job j = {desc, state, call};
  ronde__fused_act_backward(desc, call);
  if (call->dparam[0] || call->dparam[1]) ronde__pool_run(call->pool, conv_first_weight_part, &j);
  return RONDE_OK;
}

static const char *conv_first_implementation(const ronde__op_desc *desc, const void *opaque) {
  const conv_first_state *s = opaque;
  return s->forward[s->w.kernel].set.implementation;
}

static bool conv_first_takes(const ronde__op_desc *desc) {
  return ronde__conv_is_between(desc, RONDE__LANES, RONDE__BLOCKS);
}

const ronde__form ronde__conv_first = {
    .name = "first",
    .takes = conv_first_takes,
    .prepare = conv_first_prepare,
    .release = conv_first_release,
    .work_elems = conv_first_work_elems,
    .saved_elems = conv_first_saved_elems,
    .forward = conv_first_forward,
    .backward = conv_first_backward,
    .implementation = conv_first_implementation,
    .bf16 = {.out = 1},
    .executed_flops = ronde__conv_executed_flops,
};

/* Convolution between BLOCKS: every output pixel (or run of pixels) of a channel block is one batch-reduce GEMM over
 * its taps and input blocks; the rows are the batch, times the pixels of the run. Source of the formulation: Georganas
 * et al., "High-performance deep learning via a single building block", 2019. */
#include "ops/conv.h"
#include "ops/conv_schedule.h"

#include <string.h>

/* Runs of pixels are cut to about so many rows. */
enum { ROWS_WANTED = 128 };

/* The outputs for which a tap falls inside the input. */
typedef struct outputs {
  int64_t h0, h1, w0, w1;
} outputs;

typedef struct conv_blocks_state {
  ronde__axis h, w;
  outputs *outputs; /* [KH*KW] */
  bool *live;       /* [KH*KW]: it falls inside the input somewhere; else it is no operand, and has no gradient */
  ronde__conv_schedule forward, data;
  ronde__gemm_pair weight;                          /* [bi][bo] += X_p^T [bi][N] dY_p [N][bo] */
  ronde__gemm_list pixels;                          /* neighbouring pixels of a row: X, dY */
  int64_t in_pixel, in_block, out_pixel, out_block; /* strides */
  int64_t in_blocks, out_blocks, weight_block;
} conv_blocks_state;

static void conv_blocks_release(const ronde__op_desc *desc, void *opaque) {
  conv_blocks_state *s = opaque;
  if (!s) return;
  ronde__conv_schedule_release(&s->forward);
  ronde__conv_schedule_release(&s->data);
  ronde__gemm_list_destroy(&s->pixels);
  ronde__free(s->outputs);
  ronde__free(s->live);
  ronde__free(s);
}

static ronde_status conv_blocks_make_run(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w,
                                         ronde__conv_schedule *sched, ronde__conv_run *r) {
  int64_t k = dir->from->block, n = dir->to->block;
  ronde__gemm_shape shape = {(int)r->extent, (int)n, (int)k, k, n, n, false, false, false};
  r->kernel = ronde__conv_schedule_kernel(sched, dir->desc, &shape);
  return ronde__conv_taps_list(dir, h, w, ronde__phys_blocks(dir->from), k * n, sizeof(float), sched, &r->list);
}

/* The convolution; or, where each output reads one input at its own place, the same of a map with all pixels in one row, for longer
 * runs of them. */
static ronde__op_desc conv_blocks_flat(const ronde__op_desc *d) {
  const ronde__axis h = ronde__conv_axis_h(d), w = ronde__conv_axis_w(d);
  ronde__op_desc flat = *d;
  if (h.kernel * w.kernel * h.stride * w.stride > 1 || h.in != h.out || w.in != w.out) return flat;
  if (h.padding || h.end || w.padding || w.end) return flat;
  flat.in[0].h = flat.out[0].h = 1;
  flat.in[0].w = flat.out[0].w = h.in * w.in;
  return flat;
}

static ronde_status conv_blocks_prepare(const ronde__op_desc *given, void **state_out) {
  const ronde__op_desc flat = conv_blocks_flat(given), *desc = &flat;
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  conv_blocks_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_blocks_state){.h = ronde__conv_axis_h(desc), .w = ronde__conv_axis_w(desc)};
  s->in_pixel = in->n * in->block, s->in_block = in->h * in->w * s->in_pixel, s->in_blocks = ronde__phys_blocks(in);
  s->out_pixel = out->n * out->block, s->out_block = out->h * out->w * s->out_pixel,
  s->out_blocks = ronde__phys_blocks(out);
  s->weight_block = in->block * out->block;
  int64_t longest = ronde__max(1, ROWS_WANTED / in->n);
  ronde_status status = ronde__conv_schedules_create(desc, longest, conv_blocks_make_run, NULL, &s->forward, &s->data);
  if (status == RONDE_OK) status = ronde__gemm_list_create(out->w, &s->pixels);
  int taps = s->h.kernel * s->w.kernel;
  s->outputs = ronde__alloc((size_t)taps * sizeof *s->outputs);
  s->live = ronde__alloc((size_t)taps * sizeof *s->live);
  if (status == RONDE_OK && (!s->outputs || !s->live))
    status = ronde__fail(RONDE_E_MEMORY, "convolution plan: no memory for %d taps", taps);
  if (status != RONDE_OK) {
    conv_blocks_release(desc, s);
    return status;
  }
  for (int t = 0; t < taps; t++) {
    outputs *o = &s->outputs[t];
    ronde__axis_outputs_of_tap(&s->h, t / s->w.kernel, &o->h0, &o->h1);
    ronde__axis_outputs_of_tap(&s->w, t % s->w.kernel, &o->w0, &o->w1);
    s->live[t] = o->h0 < o->h1 && o->w0 < o->w1;
  }
  for (int64_t i = 0; i < out->w; i++) {
    s->pixels.a[i] = (uint64_t)(i * s->w.stride * s->in_pixel) * sizeof(float);
    s->pixels.b[i] = (uint64_t)(i * s->out_pixel) * sizeof(float);
  }
  ronde__gemm_shape weight = {(int)in->block, (int)out->block, (int)in->n, in->block, out->block, out->block,
                              true,           false,           false};
  s->weight = ronde__gemm_pair_resolve(desc, weight);
  *state_out = s;
  return RONDE_OK;
}

static size_t conv_blocks_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  return backward && desc->need_dinput[0] ? (size_t)ronde__weight_elems(&desc->param[0]) : 0;
}

typedef struct conv_blocks_job {
  const ronde__op_desc *desc;
  const conv_blocks_state *s;
  const ronde__op_call *call;
  const float *turned; /* the weights, for the data gradient */
} conv_blocks_job;

/* The weights of an output block, where they are used once: a single run of pixels takes little longer to multiply than
 * they take to come from memory. */
static void touch_slab(const conv_blocks_state *s, const float *w) {
  int64_t tap = s->in_blocks * s->weight_block;
  for (int t = 0; t < s->h.kernel * s->w.kernel; t++)
    if (s->live[t]) ronde__weight_touch(w + t * tap, tap);
}

static void conv_blocks_forward_part(void *arg, int thread, int n_threads) {
  const conv_blocks_job *j = arg;
  const conv_blocks_state *s = j->s;
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  int64_t begin, end, slab = desc->param[0].t * s->in_blocks * s->weight_block;
  ronde__thread_chunk(s->out_blocks * s->forward.n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item / s->forward.n_runs;
    const ronde__conv_run *r = &s->forward.runs[item % s->forward.n_runs];
    float *out = call->out[0] + ob * s->out_block;
    const float *w = call->param[0] + ob * slab;
    if (s->forward.n_runs == 1) touch_slab(s, w);
    ronde__conv_run_sum(&s->forward, r, call->in[0], w, out, false);
    ronde__fused_bias_act(desc, call, ob, out + r->c0, r->extent);
  }
}

static ronde_status conv_blocks_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_blocks_job j = {.desc = desc, .s = state, .call = call};
  ronde__pool_run(call->pool, conv_blocks_forward_part, &j);
  return RONDE_OK;
}

static void conv_blocks_data_part(void *arg, int thread, int n_threads) {
  const conv_blocks_job *j = arg;
  const conv_blocks_state *s = j->s;
  int64_t begin, end, slab = j->desc->param[0].t * s->out_blocks * s->weight_block;
  ronde__thread_chunk(s->in_blocks * s->data.n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ib = item / s->data.n_runs;
    ronde__conv_run_sum(&s->data, &s->data.runs[item % s->data.n_runs], j->call->dout[0], j->turned + ib * slab,
                        j->call->din[0] + ib * s->in_block, j->call->accumulate_dinput[0]);
  }
}

/* The taps [tap0, tap1) of one pair of blocks: pixels outside, so that the rows of X and dY that neighbouring taps
 * share stay in cache. */
static void weight_taps(const conv_blocks_job *j, int64_t ob, int64_t ib, int64_t tap0, int64_t tap1) {
  const conv_blocks_state *s = j->s;
  const ronde__op_call *call = j->call;
  const float *x = call->in[0] + ib * s->in_block, *dy = call->dout[0] + ob * s->out_block;
  int64_t longest = ronde__max(1, 256 / j->desc->in[0].n), taps = j->desc->param[0].t;
  float *dw = call->dparam[0] + (ob * taps * s->in_blocks + ib) * s->weight_block;
  int64_t dw_tap = s->in_blocks * s->weight_block;
  for (int64_t t = tap0; t < tap1; t++)
    if (!s->live[t] && !call->accumulate_dparam[0] && !call->leaves_dead)
      memset(dw + t * dw_tap, 0, (size_t)s->weight_block * sizeof(float));
  for (int64_t oh = 0; oh < s->h.out; oh++)
    for (int64_t ow0 = 0; ow0 < s->w.out; ow0 += longest)
      for (int64_t t = tap0; t < tap1; t++) {
        const outputs *o = &s->outputs[t];
        int64_t begin = ronde__max(o->w0, ow0), end = ronde__min(o->w1, ow0 + longest);
        if (oh < o->h0 || oh >= o->h1 || begin >= end) continue;
        int64_t ih = oh * s->h.stride + t / s->w.kernel * s->h.dilation - s->h.padding;
        int64_t iw = begin * s->w.stride + t % s->w.kernel * s->w.dilation - s->w.padding;
        bool first = oh == o->h0 && begin == o->w0;
        const ronde__gemm *gemm = first && !call->accumulate_dparam[0] ? &s->weight.set : &s->weight.add;
        ronde__gemm_run(gemm, x + (ih * s->w.in + iw) * s->in_pixel, s->pixels.a,
                        dy + (oh * s->w.out + begin) * s->out_pixel, s->pixels.b, end - begin, dw + t * dw_tap);
      }
}

static void conv_blocks_weight_part(void *arg, int thread, int n_threads) {
  const conv_blocks_job *j = arg;
  int64_t taps = j->desc->param[0].t, begin, end;
  ronde__thread_chunk(j->s->out_blocks * j->s->in_blocks * taps, thread, n_threads, &begin, &end);
  while (begin < end) {
    int64_t pair = begin / taps, tap0 = begin % taps, tap1 = ronde__min(taps, tap0 + end - begin);
    weight_taps(j, pair / j->s->in_blocks, pair % j->s->in_blocks, tap0, tap1);
    begin += tap1 - tap0;
  }
}

void ronde__conv_blocks_weight_gradient(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_blocks_job j = {.desc = desc, .s = state, .call = call};
  ronde__pool_run(call->pool, conv_blocks_weight_part, &j);
}

void ronde__conv_blocks_data_gradient(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_blocks_job j = {.desc = desc, .s = state, .call = call};
  j.turned = ronde__weight_turned(desc, j.s->live, call, call->work);
  ronde__pool_run(call->pool, conv_blocks_data_part, &j);
}

static ronde_status conv_blocks_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__fused_backward(desc, call);
  if (call->dparam[0]) ronde__conv_blocks_weight_gradient(desc, state, call);
  ronde__op_gradients_final(desc, call);
  if (call->din[0]) ronde__conv_blocks_data_gradient(desc, state, call);
  return RONDE_OK;
}

static const char *conv_blocks_implementation(const ronde__op_desc *desc, const void *opaque) {
  const conv_blocks_state *s = opaque;
  return s->forward.kernels[0].set.implementation;
}

static bool conv_blocks_takes(const ronde__op_desc *desc) {
  return ronde__conv_is_between(desc, RONDE__BLOCKS, RONDE__BLOCKS);
}

const ronde__form ronde__conv_blocks = {
    .name = "blocks",
    .takes = conv_blocks_takes,
    .prepare = conv_blocks_prepare,
    .release = conv_blocks_release,
    .work_elems = conv_blocks_work_elems,
    .forward = conv_blocks_forward,
    .backward = conv_blocks_backward,
    .turns_weight = true,
    .implementation = conv_blocks_implementation,
    .executed_flops = ronde__conv_executed_flops,
};

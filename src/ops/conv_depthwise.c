/* Depthwise convolution (groups == channels on both sides) between BLOCKS: each channel meets one filter, so there is
 * nothing to multiply as matrices; a run of pixels is a sum over taps of rows times a vector of weights.
 * Weights [C/b][T][b]. */
#include "ops/conv.h"
#include "ops/conv_schedule.h"

#include <string.h>

typedef struct conv_depthwise_state {
  ronde__axis h, w;
  ronde__conv_schedule forward, data; /* without GEMM kernels */
  int64_t in_pixel, in_block, out_pixel, out_block;
} conv_depthwise_state;

static void conv_depthwise_release(const ronde__op_desc *desc, void *opaque) {
  conv_depthwise_state *s = opaque;
  if (!s) return;
  ronde__conv_schedule_release(&s->forward);
  ronde__conv_schedule_release(&s->data);
  ronde__free(s);
}

static ronde_status conv_depthwise_make_run(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w,
                                            ronde__conv_schedule *sched, ronde__conv_run *r) {
  return ronde__conv_taps_list(dir, h, w, 1, dir->from->block, sizeof(float), sched, &r->list);
}

static ronde_status conv_depthwise_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  conv_depthwise_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_depthwise_state){.h = ronde__conv_axis_h(desc), .w = ronde__conv_axis_w(desc)};
  s->in_pixel = in->n * in->block, s->in_block = in->h * in->w * s->in_pixel;
  s->out_pixel = out->n * out->block, s->out_block = out->h * out->w * s->out_pixel;
  ronde_status status =
      ronde__conv_schedules_create(desc, INT64_MAX, conv_depthwise_make_run, NULL, &s->forward, &s->data);
  if (status != RONDE_OK) conv_depthwise_release(desc, s);
  else *state_out = s;
  return status;
}

static size_t conv_depthwise_work_elems(const ronde__op_desc *desc, const void *state, bool backward) { return 0; }

typedef struct conv_depthwise_job {
  const ronde__op_desc *desc;
  const conv_depthwise_state *s;
  const ronde__op_call *call;
} conv_depthwise_job;

static void run_sum(const conv_depthwise_job *j, const ronde__conv_schedule *sched, const ronde__conv_run *r,
                    int64_t block, const float *from, float *to, bool accumulate) {
  const ronde__gemm_list *list = &sched->lists[r->list];
  int64_t n = j->desc->in[0].block;
  j->desc->compute.kernels->depthwise_rows(from + r->a0, list->a, j->call->param[0] + block * j->desc->param[0].t * n,
                                           list->b, list->count, r->extent, n, to + r->c0, accumulate);
}

static void conv_depthwise_forward_part(void *arg, int thread, int n_threads) {
  const conv_depthwise_job *j = arg;
  const ronde__conv_schedule *sched = &j->s->forward;
  int64_t begin, end;
  ronde__thread_chunk(ronde__phys_blocks(&j->desc->in[0]) * sched->n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t block = item / sched->n_runs;
    const ronde__conv_run *r = &sched->runs[item % sched->n_runs];
    float *out = j->call->out[0] + block * j->s->out_block;
    run_sum(j, sched, r, block, j->call->in[0] + block * j->s->in_block, out, false);
    ronde__fused_bias_act(j->desc, j->call, block, out + r->c0, r->extent);
  }
}

static ronde_status conv_depthwise_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_depthwise_job j = {desc, state, call};
  ronde__pool_run(call->pool, conv_depthwise_forward_part, &j);
  return RONDE_OK;
}

static void conv_depthwise_data_part(void *arg, int thread, int n_threads) {
  const conv_depthwise_job *j = arg;
  const ronde__conv_schedule *sched = &j->s->data;
  int64_t begin, end;
  ronde__thread_chunk(ronde__phys_blocks(&j->desc->in[0]) * sched->n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t block = item / sched->n_runs;
    run_sum(j, sched, &sched->runs[item % sched->n_runs], block, j->call->dout[0] + block * j->s->out_block,
            j->call->din[0] + block * j->s->in_block, j->call->accumulate_dinput[0]);
  }
}

/* The taps [tap0, tap1) of one block: pixels outside, so that the rows which neighbouring taps share stay in cache. */
static void weight_taps(const conv_depthwise_job *j, int64_t block, int64_t tap0, int64_t tap1) {
  const conv_depthwise_state *s = j->s;
  int64_t n = j->desc->in[0].block, rows = j->desc->in[0].n, longest = ronde__max(1, 256 / rows);
  const float *x = j->call->in[0] + block * s->in_block, *dy = j->call->dout[0] + block * s->out_block;
  float *dw = j->call->dparam[0] + block * j->desc->param[0].t * n;
  if (!j->call->accumulate_dparam[0]) memset(dw + tap0 * n, 0, (size_t)((tap1 - tap0) * n) * sizeof *dw);
  for (int64_t oh = 0; oh < s->h.out; oh++)
    for (int64_t ow0 = 0; ow0 < s->w.out; ow0 += longest)
      for (int64_t t = tap0; t < tap1; t++) {
        int64_t h0, h1, w0, w1;
        ronde__axis_outputs_of_tap(&s->h, (int)(t / s->w.kernel), &h0, &h1);
        ronde__axis_outputs_of_tap(&s->w, (int)(t % s->w.kernel), &w0, &w1);
        int64_t begin = ronde__max(w0, ow0), end = ronde__min(w1, ow0 + longest);
        int64_t length = s->w.stride > 1 ? 1 : end - begin; /* neighbours in memory only at stride 1 */
        int64_t ih = oh * s->h.stride + t / s->w.kernel - s->h.padding;
        for (int64_t ow = begin; ow < end && oh >= h0 && oh < h1; ow += length) {
          int64_t iw = ow * s->w.stride + t % s->w.kernel - s->w.padding;
          j->desc->compute.kernels->column_dots(dy + (oh * s->w.out + ow) * s->out_pixel,
                                                x + (ih * s->w.in + iw) * s->in_pixel, length * rows, n, dw + t * n);
        }
      }
}

static void conv_depthwise_weight_part(void *arg, int thread, int n_threads) {
  const conv_depthwise_job *j = arg;
  int64_t taps = j->desc->param[0].t, begin, end;
  ronde__thread_chunk(ronde__phys_blocks(&j->desc->in[0]) * taps, thread, n_threads, &begin, &end);
  while (begin < end) {
    int64_t tap0 = begin % taps, tap1 = ronde__min(taps, tap0 + end - begin);
    weight_taps(j, begin / taps, tap0, tap1);
    begin += tap1 - tap0;
  }
}

static ronde_status conv_depthwise_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_depthwise_job j = {desc, state, call};
  ronde__fused_act_backward(desc, call);
  if (desc->attr.bias) ronde__bias_gradient(desc, call);
  if (call->dparam[0]) ronde__pool_run(call->pool, conv_depthwise_weight_part, &j);
  ronde__op_gradients_final(desc, call);
  if (call->din[0]) ronde__pool_run(call->pool, conv_depthwise_data_part, &j);
  return RONDE_OK;
}

/* Its only kernels are the instruction set's own. */
static const char *conv_depthwise_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.kernels->isa;
}

static bool conv_depthwise_takes(const ronde__op_desc *desc) {
  return ronde__conv_n_groups(&desc->attr) > 1 && desc->in[0].layout == RONDE__BLOCKS;
}

const ronde__form ronde__conv_depthwise = {
    .name = "depthwise",
    .takes = conv_depthwise_takes,
    .prepare = conv_depthwise_prepare,
    .release = conv_depthwise_release,
    .work_elems = conv_depthwise_work_elems,
    .forward = conv_depthwise_forward,
    .backward = conv_depthwise_backward,
    .implementation = conv_depthwise_implementation,
    .executed_flops = ronde__conv_executed_flops,
};

/* Convolution between LANES, for few channels: the batch fills the vector lanes, so no channel is padded. An output row
 * of all channels is one batch-reduce GEMM of the plain weights with shifted input rows; weight gradients are dot
 * products along the lanes. */
#include "ops/conv.h"
#include "ops/conv_schedule.h"

#include <string.h>

typedef struct conv_lanes_state {
  ronde__axis h, w;
  ronde__conv_schedule forward, data;
  int64_t lanes;
  int *flipped; /* [KW]: position of tap kw in the transposed weights */
} conv_lanes_state;

static void conv_lanes_release(const ronde__op_desc *desc, void *opaque) {
  conv_lanes_state *s = opaque;
  if (!s) return;
  ronde__conv_schedule_release(&s->forward);
  ronde__conv_schedule_release(&s->data);
  ronde__free(s->flipped);
  ronde__free(s);
}

/* A list for each set of rows of taps: over channels and kh. */
static ronde_status find_list(const ronde__conv_direction *dir, ronde__taps h, ronde__conv_schedule *sched,
                              int *list_out) {
  bool is_new;
  const ronde__phys *from = dir->from;
  RONDE_TRY(ronde__conv_schedule_list(sched, (int[4]){h.first, h.count, 0, 0}, from->c * h.count, list_out, &is_new));
  if (!is_new) return RONDE_OK;
  ronde__gemm_list *list = &sched->lists[*list_out];
  for (int64_t c = 0, term = 0; c < from->c; c++)
    for (int y = 0; y < h.count; y++, term++) {
      list->a[term] = (uint64_t)((c * dir->h.kernel + h.first + y * dir->step_h.tap) * dir->w.kernel) * sizeof(float);
      list->b[term] = (uint64_t)((c * from->h + y * dir->step_h.pitch) * from->w * from->block) * sizeof(float);
    }
  return RONDE_OK;
}

/* Weights as the GEMM's A: [to channels][from channels][KH][KW], the taps of a row in the order in which the operand's
 * pixels follow. */
static ronde_status conv_lanes_make_run(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w,
                                        ronde__conv_schedule *sched, ronde__conv_run *r) {
  const ronde__phys *from = dir->from, *to = dir->to;
  const conv_lanes_state *s = dir->user;
  r->b0 = r->a0;
  r->a0 = dir->step_w.tap < 0 && w.count ? s->flipped[w.first] : w.first;
  ronde__gemm_shape shape = {.m = (int)to->c,
                             .n = (int)r->extent,
                             .k = (int)ronde__max(1, w.count),
                             .lda = from->c * dir->h.kernel * dir->w.kernel,
                             .ldb = dir->step_w.pitch * s->lanes,
                             .ldc = to->h * to->w * s->lanes};
  r->kernel = ronde__conv_schedule_kernel(sched, dir->desc, &shape);
  return find_list(dir, w.count ? h : (ronde__taps){0, 0, 0}, sched, &r->list);
}

/* Taps that feed one input come in steps, from the last to the first: they stand together in this order. */
static ronde_status flip_taps(conv_lanes_state *s) {
  RONDE__ALLOC(s->flipped, (size_t)s->w.kernel * sizeof *s->flipped, "convolution plan");
  int position = 0, step = -ronde__axis_backward_steps(&s->w).tap;
  for (int residue = 0; residue < step && residue < s->w.kernel; residue++) {
    int last = residue + (s->w.kernel - 1 - residue) / step * step;
    for (int kw = last; kw >= 0; kw -= step) s->flipped[kw] = position++;
  }
  return RONDE_OK;
}

static ronde_status conv_lanes_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0];
  conv_lanes_state *s;
  RONDE__ALLOC(s, sizeof *s, "convolution plan");
  *s = (conv_lanes_state){.h = ronde__conv_axis_h(desc), .w = ronde__conv_axis_w(desc), .lanes = in->block};
  ronde_status status = desc->need_dinput[0] ? flip_taps(s) : RONDE_OK;
  if (status == RONDE_OK)
    status = ronde__conv_schedules_create(desc, INT64_MAX, conv_lanes_make_run, s, &s->forward, &s->data);
  if (status != RONDE_OK) conv_lanes_release(desc, s);
  else *state_out = s;
  return status;
}

static size_t conv_lanes_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  return backward && desc->need_dinput[0] ? (size_t)ronde__weight_elems(&desc->param[0]) : 0;
}

typedef struct conv_lanes_job {
  const ronde__op_desc *desc;
  const conv_lanes_state *s;
  const ronde__op_call *call;
} conv_lanes_job;

static void conv_lanes_forward_part(void *arg, int thread, int n_threads) {
  const conv_lanes_job *j = arg;
  const ronde__conv_schedule *sched = &j->s->forward;
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  int64_t begin, end, plane = desc->out[0].h * desc->out[0].w * j->s->lanes;
  ronde__thread_chunk(sched->n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    const ronde__conv_run *r = &sched->runs[item];
    ronde__conv_run_sum(sched, r, call->param[0], call->in[0], call->out[0], false);
    if (desc->attr.bias || desc->attr.act)
      for (int64_t o = 0; o < desc->out[0].c; o++)
        desc->compute.kernels->bias_act_lanes(call->out[0] + o * plane + r->c0, r->extent,
                                              desc->attr.bias ? call->param[1][o] : 0, desc->attr.act);
  }
}

static ronde_status conv_lanes_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_lanes_job j = {desc, state, call};
  ronde__pool_run(call->pool, conv_lanes_forward_part, &j);
  return RONDE_OK;
}

static void conv_lanes_data_part(void *arg, int thread, int n_threads) {
  const conv_lanes_job *j = arg;
  const ronde__conv_schedule *sched = &j->s->data;
  int64_t begin, end;
  ronde__thread_chunk(sched->n_runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    ronde__conv_run_sum(sched, &sched->runs[item], j->call->work, j->call->dout[0], j->call->din[0],
                        j->call->accumulate_dinput[0]);
  }
}

/* [O][C][KH][KW] -> [C][O][KH][KW in the order of flip_taps] */
static void transpose_weights(const conv_lanes_state *s, const ronde__weight_layout *l, const float *from, float *to) {
  for (int64_t c = 0; c < l->i; c++)
    for (int64_t o = 0; o < l->o; o++)
      for (int64_t kh = 0; kh < s->h.kernel; kh++) {
        const float *in = from + (o * l->i + c) * l->t + kh * s->w.kernel;
        float *out = to + (c * l->o + o) * l->t + kh * s->w.kernel;
        for (int kw = 0; kw < s->w.kernel; kw++) out[s->flipped[kw]] = in[kw];
      }
}

/* Output channels [o0, o1), of which the gradients of rows [oh0, oh1) stay in the first cache. */
typedef struct weight_part {
  int64_t o0, o1, oh0, oh1;
} weight_part;

/* Adds to the gradient of the KW taps of (o, c, kh), from the output rows of the part that tap row kh reaches. */
static void weight_row(const conv_lanes_job *j, const weight_part *part, int64_t c, int kh) {
  const conv_lanes_state *s = j->s;
  const ronde__op_call *call = j->call;
  const ronde__weight_layout *l = &j->desc->param[0];
  int64_t oh0, oh1, lanes = s->lanes, out_plane = s->h.out * s->w.out * lanes;
  ronde__axis_outputs_of_tap(&s->h, kh, &oh0, &oh1);
  oh0 = ronde__max(oh0, part->oh0), oh1 = ronde__min(oh1, part->oh1);
  int64_t row = oh0 * s->h.stride + kh * s->h.dilation - s->h.padding;
  const float *x = call->in[0] + (c * s->h.in + row) * s->w.in * lanes;
  const float *dy = call->dout[0] + part->o0 * out_plane + oh0 * s->w.out * lanes;
  float *dw = call->dparam[0] + part->o0 * l->i * l->t + c * l->t + kh * s->w.kernel;
  for (int64_t ow = 0; ow < s->w.out && oh0 < oh1;) {
    ronde__taps w = ronde__axis_forward(&s->w, ow);
    int64_t length = s->w.stride > 1 ? 1 : ronde__axis_run(&s->w, ronde__axis_forward, ow, s->w.out);
    if (w.count > 0)
      j->desc->compute.kernels->dot_tile(dy + ow * lanes, out_plane, s->w.out * lanes, (int)(part->o1 - part->o0),
                                         x + w.at * lanes, s->w.dilation * lanes, s->h.stride * s->w.in * lanes,
                                         w.count, oh1 - oh0, length * lanes, dw + w.first, l->i * l->t, true);
    ow += length;
  }
}

/* Items are pairs (c, kh), each of which goes over all gradients of outputs: these a part at a time. */
static void conv_lanes_weight_part(void *arg, int thread, int n_threads) {
  enum { FLOATS = 8192 };
  const conv_lanes_job *j = arg;
  const conv_lanes_state *s = j->s;
  const ronde__weight_layout *l = &j->desc->param[0];
  const int64_t channels = l->o, row = s->w.out * s->lanes;
  const int64_t few = j->desc->compute.kernels->dot_planes((int)channels, s->w.kernel);
  const int64_t rows = ronde__max(1, FLOATS / (few * row));
  int64_t begin, end;
  ronde__thread_chunk(j->desc->in[0].c * s->h.kernel, thread, n_threads, &begin, &end);
  for (int64_t o = 0; o < channels && !j->call->accumulate_dparam[0]; o++)
    memset(j->call->dparam[0] + o * l->i * l->t + begin * s->w.kernel, 0,
           (size_t)((end - begin) * s->w.kernel) * sizeof(float));
  for (int64_t oh = 0; oh < s->h.out; oh += rows)
    for (int64_t o = 0; o < channels; o += few) {
      weight_part part = {o, ronde__min(o + few, channels), oh, ronde__min(oh + rows, s->h.out)};
      for (int64_t item = begin; item < end; item++)
        weight_row(j, &part, item / s->h.kernel, (int)(item % s->h.kernel));
    }
}

static ronde_status conv_lanes_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  conv_lanes_job j = {desc, state, call};
  ronde__fused_backward(desc, call);
  if (call->dparam[0]) ronde__pool_run(call->pool, conv_lanes_weight_part, &j);
  ronde__op_gradients_final(desc, call);
  if (!call->din[0]) return RONDE_OK;
  transpose_weights(state, &desc->param[0], call->param[0], call->work);
  ronde__pool_run(call->pool, conv_lanes_data_part, &j);
  return RONDE_OK;
}

static const char *conv_lanes_implementation(const ronde__op_desc *desc, const void *opaque) {
  const conv_lanes_state *s = opaque;
  return s->forward.kernels[0].set.implementation;
}

static bool conv_lanes_takes(const ronde__op_desc *desc) {
  return ronde__conv_is_between(desc, RONDE__LANES, RONDE__LANES);
}

const ronde__form ronde__conv_lanes = {
    .name = "lanes",
    .takes = conv_lanes_takes,
    .prepare = conv_lanes_prepare,
    .release = conv_lanes_release,
    .work_elems = conv_lanes_work_elems,
    .forward = conv_lanes_forward,
    .backward = conv_lanes_backward,
    .implementation = conv_lanes_implementation,
    .executed_flops = ronde__conv_executed_flops,
};

/* Transposed 2-d convolution, PyTorch's definition: each input pixel adds its multiple of the kernel to the output, so that
 * it is the data gradient of the convolution from the output's shape to the input's, with the same weight [C][O / groups]
 * [KH][KW]. That convolution, here the inner one, does the work: its data gradient is forward, its forward is the data
 * gradient, and its weight gradient is the weight gradient with the sides exchanged.
 * Legend: C input, O output channels. */
#include "ops/conv.h"

#include <limits.h>
#include <math.h>

static int dilation_of(const ronde__op_attr *attr, int d) { return attr->dilation[d] ? attr->dilation[d] : 1; }

/* Outputs along dimension d. */
static int64_t outputs(const ronde__op_attr *attr, int d, int64_t in) {
  ronde__axis axis = {.kernel = attr->kernel[d], .dilation = dilation_of(attr, d)};
  return (in - 1) * attr->stride[d] + ronde__axis_extent(&axis) - 2 * (int64_t)attr->padding[d] -
         attr->padding_more[d] + attr->output_padding[d];
}

static ronde_status check_output(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *in_label, int64_t out, int d) {
  char text[96];
  ronde__shape_text(in, text, sizeof text);
  int most = (int)ronde__max(attr->stride[d], dilation_of(attr, d));
  if (attr->output_padding[d] < 0 || attr->output_padding[d] >= most)
    return ronde__fail(RONDE_E_USAGE, "%s: output_padding %d must be from 0 to below stride or dilation, %d", label,
                       attr->output_padding[d], most);
  if (out < 1 || out > INT_MAX)
    return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s, of which a transposed convolution makes %lld pixels %s", label,
                       in_label, text, (long long)out, d ? "a row" : "a column");
  return RONDE_OK;
}

static ronde_status conv_transpose2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                           const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: a transposed convolution takes CxHxW, but %s gives %s", label, in_labels[0],
                       text);
  if (attr->out_channels < 1) return ronde__fail(RONDE_E_USAGE, "%s: out_channels must be positive", label);
  RONDE_TRY(ronde__window_check(attr, label, in));
  int64_t groups = ronde__conv_n_groups(attr);
  if (groups < 1 || in[0].dim[0] % groups || attr->out_channels % groups)
    return ronde__fail(RONDE_E_USAGE,
                       "%s: %lld groups do not divide both its input, %s of %s, and its %lld output channels", label,
                       (long long)groups, text, in_labels[0], (long long)attr->out_channels);
  *out = (ronde__shape){3, {attr->out_channels}};
  for (int d = 0; d < 2; d++) {
    out->dim[1 + d] = outputs(attr, d, in[0].dim[1 + d]);
    RONDE_TRY(check_output(attr, label, &in[0], in_labels[0], out->dim[1 + d], d));
  }
  return RONDE_OK;
}

static int conv_transpose2d_params(const ronde__op_attr *attr, const ronde__shape *in,
                                   ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  int64_t channels = attr->out_channels / ronde__conv_n_groups(attr);
  float bound = (float)(1 / sqrt((double)channels * attr->kernel[0] * attr->kernel[1]));
  specs[0] = (ronde__param_spec){
      .suffix = "weight", .shape = {4, {in[0].dim[0], channels, attr->kernel[0], attr->kernel[1]}}, .bound = bound};
  if (attr->of_sequence) specs[0].shape = (ronde__shape){3, {in[0].dim[0], channels, attr->kernel[1]}};
  specs[1] = (ronde__param_spec){.suffix = "bias", .shape = {1, {attr->out_channels}}, .bound = bound};
  return attr->bias ? 2 : 1;
}

static int64_t conv_transpose2d_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return 2 * ronde__shape_elems(&in[0]) * (out->dim[0] / ronde__conv_n_groups(attr)) * attr->kernel[0] *
         attr->kernel[1];
}

/* ---- the inner convolution ---- */

/* Padding behind that no window reaches is left out, because plain windows have more forms. */
static ronde__op_attr inner_attr(const ronde__op_attr *attr, const ronde__phys *in, const ronde__phys *out) {
  ronde__op_attr inner = *attr;
  const int64_t windows[] = {in->h, in->w}, pixels[] = {out->h, out->w};
  inner.out_channels = in->c;
  inner.bias = false;
  for (int d = 0; d < 2; d++) {
    inner.padding_more[d] = 0;
    if (ronde__window_axis(&inner, d, pixels[d]).out != windows[d])
      inner.padding_more[d] = attr->padding_more[d] - attr->output_padding[d];
  }
  return inner;
}

/* data: for its data gradient alone; else for its forward and its weight gradient. */
static ronde__op_desc inner_of(const ronde__op_desc *desc, bool data) {
  return (ronde__op_desc){.attr = inner_attr(&desc->attr, &desc->in[0], &desc->out[0]),
                          .n_inputs = 1,
                          .n_outputs = 1,
                          .n_params = 1,
                          .in = {desc->out[0]},
                          .out = {desc->in[0]},
                          .param = {desc->param[0]},
                          .need_dinput = {data},
                          .frozen = {data || desc->frozen[0]},
                          .compute = desc->compute,
                          .threads = desc->threads};
}

/* Those of the inner convolution, whose input comes in the layout that is offered. */
static void conv_transpose2d_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n;
  desc->out[0] = ronde__phys_make(desc->in[0].layout, n, out->dim[0], out->dim[1], out->dim[2]);
  desc->in[0] = ronde__phys_make(desc->in[0].layout, n, in[0].dim[0], in[0].dim[1], in[0].dim[2]);
  ronde__op_desc inner = inner_of(desc, true);
  ronde__op_conv2d.layouts(&inner, out, in);
  desc->in[0] = inner.out[0];
  desc->out[0] = inner.in[0];
  desc->param[0] = inner.param[0];
  bool lanes = desc->out[0].layout == RONDE__LANES;
  desc->param[1] =
      ronde__weight_layout_make(lanes ? RONDE__PLAIN : RONDE__PANELS, out->dim[0], 1, 1, desc->out[0].block, 1);
}

typedef struct transposed {
  ronde__op_desc data, learn; /* the inner convolution, as inner_of() makes it */
  void *data_state, *learn_state;
} transposed;

static void conv_transpose2d_release(const ronde__op_desc *desc, void *opaque) {
  transposed *t = opaque;
  if (!t) return;
  if (t->data.form && t->data.form->release) t->data.form->release(&t->data, t->data_state);
  if (t->learn.form && t->learn.form->release) t->learn.form->release(&t->learn, t->learn_state);
  ronde__free(t);
}

static ronde_status prepare_inner(ronde__op_desc *inner, void **state_out) {
  const ronde__form *const *form = ronde__op_conv2d.forms;
  while (!(*form)->takes(inner)) form++; /* between equal layouts one of them does */
  inner->form = *form;
  return inner->form->prepare(inner, state_out);
}

static ronde_status conv_transpose2d_prepare(const ronde__op_desc *desc, void **state_out) {
  transposed *t;
  RONDE__ALLOC(t, sizeof *t, "convolution plan");
  *t = (transposed){.data = inner_of(desc, true), .learn = inner_of(desc, false)};
  ronde_status status = prepare_inner(&t->data, &t->data_state);
  if (status == RONDE_OK) status = prepare_inner(&t->learn, &t->learn_state);
  if (status != RONDE_OK) conv_transpose2d_release(desc, t);
  else *state_out = t;
  return status;
}

/* Where the data gradient stays until it is added. */
static size_t added_elems(const ronde__op_desc *desc) { return (size_t)ronde__phys_elems(&desc->in[0]); }

static size_t inner_work(const ronde__op_desc *inner, const void *state, bool backward) {
  return inner->form->work_elems ? inner->form->work_elems(inner, state, backward) : 0;
}

static size_t conv_transpose2d_work(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const transposed *t = opaque;
  if (!backward) return inner_work(&t->data, t->data_state, true);
  size_t forward = inner_work(&t->learn, t->learn_state, false), learn = inner_work(&t->learn, t->learn_state, true);
  return (forward > learn ? forward : learn) + added_elems(desc);
}

/* ---- calls ---- */

typedef struct bias_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} bias_job;

static void bias_part(void *arg, int thread, int n_threads) {
  const bias_job *j = arg;
  const ronde__phys *out = &j->desc->out[0];
  bool lanes = out->layout == RONDE__LANES;
  int64_t begin, end, plane = out->h * out->w * (lanes ? out->block : out->n * out->block);
  ronde__thread_chunk(lanes ? out->c : ronde__phys_blocks(out), thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    float *y = j->call->out[0] + i * plane;
    if (lanes) j->desc->compute.kernels->bias_act_lanes(y, plane, j->call->param[1][i], RONDE__ACT_NONE);
    else ronde__fused_bias_act(j->desc, j->call, i, y, plane / out->block);
  }
}

static ronde_status conv_transpose2d_forward(const ronde__op_desc *desc, const void *opaque,
                                             const ronde__op_call *call) {
  const transposed *t = opaque;
  bias_job j = {desc, call};
  float *x = (float *)call->in[0]; /* without an activation no backward writes to it */
  ronde__op_call inner = {.in = {call->out[0]},
                          .out = {x},
                          .dout = {x},
                          .din = {call->out[0]},
                          .param = {call->param[0]},
                          .work = call->work,
                          .pool = call->pool};
  RONDE_TRY(t->data.form->backward(&t->data, t->data_state, &inner));
  if (desc->attr.bias) ronde__pool_run(call->pool, bias_part, &j);
  return RONDE_OK;
}

static ronde_status conv_transpose2d_backward(const ronde__op_desc *desc, const void *opaque,
                                              const ronde__op_call *call) {
  const transposed *t = opaque;
  bool adds = call->accumulate_dinput[0];
  float *dx = call->din[0] && adds ? call->work : call->din[0];
  ronde__op_call inner = {.in = {call->dout[0]},
                          .out = {dx},
                          .param = {call->param[0]},
                          .work = call->work + added_elems(desc),
                          .pool = call->pool};
  if (desc->attr.bias) ronde__bias_gradient(desc, call);
  if (dx) RONDE_TRY(t->learn.form->forward(&t->learn, t->learn_state, &inner));
  if (dx && adds)
    for (size_t i = 0; i < added_elems(desc); i++) call->din[0][i] += dx[i];
  if (!call->dparam[0]) return RONDE_OK;
  inner.out[0] = inner.dout[0] = (float *)call->in[0];
  inner.dparam[0] = call->dparam[0];
  inner.accumulate_dparam[0] = call->accumulate_dparam[0];
  return t->learn.form->backward(&t->learn, t->learn_state, &inner);
}

static const char *conv_transpose2d_implementation(const ronde__op_desc *desc, const void *opaque) {
  const transposed *t = opaque;
  return t->data.form->implementation(&t->data, t->data_state);
}

static double conv_transpose2d_executed_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const transposed *t = opaque;
  if (!backward) return t->data.form->executed_flops(&t->data, t->data_state, true);
  return (desc->need_dinput[0] ? t->learn.form->executed_flops(&t->learn, t->learn_state, false) : 0) +
         (desc->frozen[0] ? 0 : t->learn.form->executed_flops(&t->learn, t->learn_state, true));
}

static const ronde__form conv_transpose2d_form = {
    .prepare = conv_transpose2d_prepare,
    .release = conv_transpose2d_release,
    .work_elems = conv_transpose2d_work,
    .forward = conv_transpose2d_forward,
    .backward = conv_transpose2d_backward,
    .implementation = conv_transpose2d_implementation,
    .executed_flops = conv_transpose2d_executed_flops,
};

const ronde__op ronde__op_conv_transpose2d = {
    .name = "conv_transpose",
    .infer = conv_transpose2d_infer,
    .params = conv_transpose2d_params,
    .flops = conv_transpose2d_flops,
    .layouts = conv_transpose2d_layouts,
    .backward_reads = {.in = 1},
    .forms = (const ronde__form *const[]){&conv_transpose2d_form, NULL},
};

/* Each pixel becomes a window of pixels like it (nearest neighbour, whole factors): the transpose of pooling over windows
 * side by side, by the same kernels with a factor of 1. attr.kernel is the window. */
#include "ops/gemm_list.h"
#include "ops/pool2d.h"

#include <limits.h>

static ronde_status upsample2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: upsampling takes CxHxW, but %s gives %s", label, in_labels[0], text);
  *out = in[0];
  for (int d = 0; d < 2; d++) {
    if (attr->kernel[d] < 1)
      return ronde__fail(RONDE_E_USAGE, "%s: the factors of height and width must be at least 1, not %d and %d", label,
                         attr->kernel[0], attr->kernel[1]);
    if (in[0].dim[1 + d] > INT_MAX / attr->kernel[d])
      return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s, which is too large to be upsampled %d times", label,
                         in_labels[0], text, attr->kernel[d]);
    out->dim[1 + d] = in[0].dim[1 + d] * attr->kernel[d];
  }
  return RONDE_OK;
}

/* The windows of the pooling from the output to the input. */
static ronde_status upsample2d_prepare(const ronde__op_desc *desc, void **state_out) {
  ronde__op_desc pooling = *desc;
  pooling.in[0] = desc->out[0];
  pooling.out[0] = desc->in[0];
  for (int d = 0; d < 2; d++) pooling.attr.stride[d] = pooling.attr.kernel[d], pooling.attr.padding[d] = 0;
  return ronde__pool2d_prepare(&pooling, state_out);
}

typedef struct upsample2d_job {
  const ronde__op_desc *desc;
  const ronde__pool2d *s;
  const ronde__op_call *call;
  bool backward;
} upsample2d_job;

/* Of the pooling, whose windows are side by side, forward here is what its backward does, and the other way round. */
static void upsample2d_part(void *arg, int thread, int n_threads) {
  const upsample2d_job *j = arg;
  const ronde__pool2d *s = j->s;
  const ronde__kernels *kernels = j->desc->compute.kernels;
  const ronde__op_call *call = j->call;
  int64_t begin, end;
  ronde__thread_chunk(s->planes * s->out_pixels, thread, n_threads, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    int64_t at;
    const ronde__window *w = ronde__pool2d_window(s, i % s->out_pixels, &at);
    int64_t small = i * s->pixel, large = (i / s->out_pixels * s->in_pixels + at) * s->pixel;
    if (j->backward)
      kernels->avg_window(call->dout[0] + large, w->offsets, w->count, s->pixel, 1, call->din[0] + small,
                          call->accumulate_dinput[0]);
    else
      kernels->avg_window_backward(call->in[0] + small, w->offsets, w->count, s->pixel, 1, call->out[0] + large, false);
  }
}

static ronde_status upsample2d_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  upsample2d_job j = {desc, state, call, false};
  ronde__pool_run(call->pool, upsample2d_part, &j);
  return RONDE_OK;
}

static ronde_status upsample2d_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  upsample2d_job j = {desc, state, call, true};
  if (call->din[0]) ronde__pool_run(call->pool, upsample2d_part, &j);
  return RONDE_OK;
}

static const ronde__form upsample2d_form = {
    .prepare = upsample2d_prepare,
    .release = ronde__pool2d_release,
    .forward = upsample2d_forward,
    .backward = upsample2d_backward,
    .implementation = ronde__pool2d_implementation,
};

const ronde__op ronde__op_upsample2d = {
    .name = "upsample",
    .infer = upsample2d_infer,
    .layouts = ronde__pool2d_layouts,
    .forms = (const ronde__form *const[]){&upsample2d_form, NULL},
};

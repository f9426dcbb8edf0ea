/* Images of another height and width: each output pixel is the nearest input pixel, or the mean of the up to four around its
 * place, weighted by distance (bilinear interpolation); beyond the border there is the border's pixel again. Weights are
 * products of those of both axes. Source of the places: ONNX's Resize, which has PyTorch's among its own.
 * Legend: a plane is a channel of LANES or a channel block of BLOCKS, a pixel of it is a vector (pool2d.h). */
#include "ops/gemm_list.h"
#include "ops/pool2d.h"

#include <limits.h>
#include <math.h>

/* Of one output along an axis: two inputs and their weights; the same one twice, with all the weight on the first, where one
 * is enough. */
typedef struct place {
  int64_t at[2];
  float weight[2];
} place;

typedef struct resizing {
  int64_t planes, vector;
  place *rows, *columns;
} resizing;

static ronde_status resize2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                   const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: resizing takes CxHxW, but %s gives %s", label, in_labels[0], text);
  *out = in[0];
  for (int d = 0; d < 2; d++) {
    float scale = attr->resize.scale[d];
    out->dim[1 + d] = attr->kernel[d];
    if (attr->kernel[d] < 1 || in[0].dim[1 + d] > INT_MAX)
      return ronde__fail(RONDE_E_USAGE, "%s: %s gives %s, which cannot be resized to %dx%d", label, in_labels[0], text,
                         attr->kernel[0], attr->kernel[1]);
    if (scale != 0 && !(scale > 0 && isfinite(scale)))
      return ronde__fail(RONDE_E_USAGE, "%s: a scale must be above 0, not %g", label, (double)scale);
  }
  return RONDE_OK;
}

/* ---- places ---- */

/* Where output o of `out` lies among `in` inputs, whose centres are 0, 1, ... */
static double position(const ronde__resize *resize, double scale, int64_t o, int64_t in, int64_t out) {
  switch (resize->coordinates) {
  case RONDE__RESIZE_ALIGN_CORNERS: return out > 1 ? (double)(o * (in - 1)) / (double)(out - 1) : 0;
  case RONDE__RESIZE_ASYMMETRIC: return (double)o / scale;
  case RONDE__RESIZE_PYTORCH_HALF_PIXEL:
    if (out == 1) return 0;
    break;
  default: break;
  }
  return ((double)o + 0.5) / scale - 0.5;
}

static double nearest(ronde__resize_rounding rounding, double at) {
  switch (rounding) {
  case RONDE__RESIZE_FLOOR: return floor(at);
  case RONDE__RESIZE_CEIL: return ceil(at);
  case RONDE__RESIZE_ROUND_PREFER_CEIL: return floor(at + 0.5);
  default: return ceil(at - 0.5);
  }
}

static int64_t inside(double at, int64_t n) { return at < 0 ? 0 : at > (double)(n - 1) ? n - 1 : (int64_t)at; }

static ronde_status find_places(const ronde__resize *resize, double scale, int64_t in, int64_t out, place **places) {
  if (scale == 0) scale = (double)out / (double)in;
  RONDE__ALLOC(*places, (size_t)out * sizeof **places, "resizing plan");
  for (int64_t o = 0; o < out; o++) {
    place *p = &(*places)[o];
    double at = position(resize, scale, o, in, out), first = floor(at);
    if (!resize->linear) {
      p->at[0] = p->at[1] = inside(nearest(resize->rounding, at), in);
      p->weight[0] = 1, p->weight[1] = 0;
      continue;
    }
    p->at[0] = inside(first, in), p->at[1] = inside(first + 1, in);
    p->weight[1] = (float)(at - first);
    p->weight[0] = 1 - p->weight[1];
    if (p->at[0] == p->at[1]) p->weight[0] = 1, p->weight[1] = 0;
  }
  return RONDE_OK;
}

static void resize2d_release(const ronde__op_desc *desc, void *state) {
  resizing *s = state;
  if (!s) return;
  ronde__free(s->rows);
  ronde__free(s->columns);
  ronde__free(s);
}

static ronde_status resize2d_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  const ronde__resize *resize = &desc->attr.resize;
  bool lanes = in->layout == RONDE__LANES;
  resizing *s;
  RONDE__ALLOC(s, sizeof *s, "resizing plan");
  *s = (resizing){.planes = lanes ? in->c : ronde__phys_blocks(in), .vector = lanes ? in->block : in->n * in->block};
  ronde_status status = find_places(resize, (double)resize->scale[0], in->h, out->h, &s->rows);
  if (status == RONDE_OK) status = find_places(resize, (double)resize->scale[1], in->w, out->w, &s->columns);
  if (status != RONDE_OK) resize2d_release(desc, s);
  else *state_out = s;
  return status;
}

/* ---- calls ---- */

typedef struct resize_job {
  const ronde__op_desc *desc;
  const resizing *s;
  const ronde__op_call *call;
} resize_job;

/* The inputs of output (h, w) of a plane, as elements from its beginning, and their weights: those above 0. */
static int terms_of(const resize_job *j, int64_t h, int64_t w, int64_t at_out[4], float weight_out[4]) {
  const place *row = &j->s->rows[h], *column = &j->s->columns[w];
  int n = 0;
  for (int i = 0; i < 4; i++) {
    float weight = row->weight[i / 2] * column->weight[i % 2];
    if (weight == 0) continue;
    at_out[n] = (row->at[i / 2] * j->desc->in[0].w + column->at[i % 2]) * j->s->vector;
    weight_out[n++] = weight;
  }
  return n;
}

static const int64_t itself = 0; /* a window of one pixel */

static void forward_part(void *arg, int thread, int n_threads) {
  const resize_job *j = arg;
  const ronde__phys *in = &j->desc->in[0], *out = &j->desc->out[0];
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t begin, end, at[4], n = j->s->vector;
  float weight[4];
  ronde__thread_chunk(j->s->planes * out->h, thread, n_threads, &begin, &end);
  for (int64_t row = begin; row < end; row++) {
    const float *x = j->call->in[0] + row / out->h * in->h * in->w * n;
    for (int64_t w = 0; w < out->w; w++) {
      float *y = j->call->out[0] + (row * out->w + w) * n;
      int terms = terms_of(j, row % out->h, w, at, weight);
      for (int i = 0; i < terms; i++) kernels->avg_window(x + at[i], &itself, 1, n, weight[i], y, i > 0);
    }
  }
}

static void backward_part(void *arg, int thread, int n_threads) {
  const resize_job *j = arg;
  const ronde__phys *in = &j->desc->in[0], *out = &j->desc->out[0];
  const ronde__kernels *kernels = j->desc->compute.kernels;
  int64_t begin, end, at[4], n = j->s->vector, own = in->h * in->w * n;
  float weight[4];
  ronde__thread_chunk(j->s->planes, thread, n_threads, &begin, &end);
  for (int64_t plane = begin; plane < end; plane++) {
    float *dx = j->call->din[0] + plane * own;
    const float *dy = j->call->dout[0] + plane * out->h * out->w * n;
    for (int64_t i = 0; i < own && !j->call->accumulate_dinput[0]; i++) dx[i] = 0;
    for (int64_t p = 0; p < out->h * out->w; p++) {
      int terms = terms_of(j, p / out->w, p % out->w, at, weight);
      for (int i = 0; i < terms; i++)
        kernels->avg_window_backward(dy + p * n, &itself, 1, n, weight[i], dx + at[i], true);
    }
  }
}

static ronde_status resize2d_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  resize_job j = {desc, state, call};
  ronde__pool_run(call->pool, forward_part, &j);
  return RONDE_OK;
}

static ronde_status resize2d_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  resize_job j = {desc, state, call};
  if (call->din[0]) ronde__pool_run(call->pool, backward_part, &j);
  return RONDE_OK;
}

static const ronde__form resize2d_form = {
    .prepare = resize2d_prepare,
    .release = resize2d_release,
    .forward = resize2d_forward,
    .backward = resize2d_backward,
    .implementation = ronde__pool2d_implementation,
};

const ronde__op ronde__op_resize2d = {
    .name = "resize",
    .infer = resize2d_infer,
    .layouts = ronde__pool2d_layouts,
    .forms = (const ronde__form *const[]){&resize2d_form, NULL},
};

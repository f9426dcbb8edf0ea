/* What maximum and average pooling share: shape rule, layouts, the windows of each output, planes split over the threads. */
#include "ops/pool2d.h"

#include "ops/gemm_list.h"

#include <string.h>

ronde_status ronde__pool2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s: pooling takes CxHxW, but %s gives %s", label, in_labels[0], text);
  *out = (ronde__shape){3, {in[0].dim[0]}};
  RONDE_TRY(ronde__window_check(attr, label, in));
  for (int d = 0; d < 2; d++) {
    ronde__axis axis = ronde__window_axis(attr, d, in[0].dim[1 + d]);
    out->dim[1 + d] = axis.out;
    if (axis.out < 1)
      return ronde__fail(RONDE_E_USAGE, "%s: the %dx%d window is larger than its input: %s gives %s", label,
                         attr->kernel[0], attr->kernel[1], in_labels[0], text);
    for (int64_t o = 0; o < axis.out; o++)
      if (ronde__axis_forward(&axis, o).count == 0)
        return ronde__fail(RONDE_E_USAGE, "%s: a window of %dx%d meets nothing but padding: %s gives %s", label,
                           attr->kernel[0], attr->kernel[1], in_labels[0], text);
  }
  return RONDE_OK;
}

void ronde__pool2d_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__phys *x = &desc->in[0];
  if (x->layout == RONDE__ROWS)
    *x = ronde__phys_make(x->c < RONDE__QUANTUM ? RONDE__LANES : RONDE__BLOCKS, x->n, x->c, x->h, x->w);
  desc->out[0] = ronde__phys_make(x->layout, x->n, x->c, out->dim[1], out->dim[2]);
}

ronde_status ronde__pool2d_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *in = &desc->in[0];
  ronde__axis h = ronde__window_axis(&desc->attr, 0, in->h), w = ronde__window_axis(&desc->attr, 1, in->w);
  return ronde__pool2d_prepare_windows(desc, &h, &w, ronde__axis_forward, state_out);
}

/* Inputs of all windows along one axis. */
static int64_t total_taps(const ronde__axis *axis, ronde__axis_fn taps) {
  int64_t n = 0;
  for (int64_t o = 0; o < axis->out; o++) n += taps(axis, o).count;
  return n;
}

/* Whether every input is in exactly one window along an axis. */
static bool tiles(const ronde__axis *axis, ronde__axis_fn taps) {
  int64_t next = 0;
  for (int64_t o = 0; o < axis->out; o++) {
    ronde__taps t = taps(axis, o);
    if (t.at != next || (t.count > 1 && axis->dilation > 1)) return false;
    next += t.count;
  }
  return next == axis->in;
}

ronde_status ronde__pool2d_prepare_windows(const ronde__op_desc *desc, const ronde__axis *h, const ronde__axis *w,
                                           ronde__axis_fn taps, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  ronde__pool2d *s;
  RONDE__ALLOC(s, sizeof *s, "pooling plan");
  s->in_pixels = in->h * in->w, s->out_pixels = out->h * out->w;
  s->planes = in->layout == RONDE__LANES ? in->c : ronde__phys_blocks(in);
  s->vector = in->layout == RONDE__LANES ? in->block : in->n * in->block;
  s->tiles = tiles(h, taps) && tiles(w, taps);
  s->windows = ronde__alloc((size_t)s->out_pixels * sizeof *s->windows);
  s->offsets = ronde__alloc((size_t)(total_taps(h, taps) * total_taps(w, taps)) * sizeof *s->offsets);
  if (!s->windows || !s->offsets) {
    ronde__pool2d_release(desc, s);
    return ronde__fail(RONDE_E_MEMORY, "pooling plan: no memory for %lld windows", (long long)s->out_pixels);
  }
  int64_t used = 0;
  for (int64_t p = 0; p < s->out_pixels; p++) {
    ronde__taps th = taps(h, p / out->w), tw = taps(w, p % out->w);
    s->windows[p] = (ronde__window){th.at * in->w + tw.at, s->offsets + used, th.count * tw.count,
                                    ronde__axis_places(h, p / out->w) * ronde__axis_places(w, p % out->w)};
    for (int y = 0; y < th.count; y++)
      for (int x = 0; x < tw.count; x++) s->offsets[used++] = (y * h->dilation * in->w + x * w->dilation) * s->vector;
  }
  *state_out = s;
  return RONDE_OK;
}

void ronde__pool2d_release(const ronde__op_desc *desc, void *state) {
  ronde__pool2d *s = state;
  if (!s) return;
  ronde__free(s->windows);
  ronde__free(s->offsets);
  ronde__free(s);
}

const char *ronde__pool2d_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.kernels->isa;
}

bool ronde__pool2d_begin_plane(const ronde__pool2d *pool, const ronde__op_call *call, float *dx) {
  if (call->accumulate_dinput[0]) return true;
  if (!pool->tiles) memset(dx, 0, (size_t)(pool->in_pixels * pool->vector) * sizeof *dx);
  return !pool->tiles;
}

typedef struct pool2d_job {
  const ronde__op_desc *desc;
  const ronde__pool2d *pool;
  const ronde__op_call *call;
  ronde__pool2d_fn fn;
} pool2d_job;

static void pool2d_part(void *arg, int thread, int n_threads) {
  const pool2d_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(j->pool->planes, thread, n_threads, &begin, &end);
  for (int64_t plane = begin; plane < end; plane++) j->fn(j->desc, j->pool, j->call, plane);
}

void ronde__pool2d_run(const ronde__op_desc *desc, const ronde__pool2d *pool, const ronde__op_call *call,
                       ronde__pool2d_fn fn) {
  pool2d_job j = {desc, pool, call, fn};
  ronde__pool_run(call->pool, pool2d_part, &j);
}

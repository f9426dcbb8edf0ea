/* What maximum and average pooling share: shape rule, layouts, the windows of each output, planes split over the threads. */
#include "ops/pool2d.h"

#include "ops/gemm_list.h"
#include "ops/widen.h"

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

/* Elements of a pixel of which a plane, widened, stays in the second cache: a number of quanta that divides it. */
static int64_t stretch_of(const ronde__pool2d *s) {
  enum { CACHED = 1 << 16 }; /* floats */
  int64_t quanta = s->pixel / RONDE__QUANTUM;
  int64_t n = ronde__min(quanta, ronde__max(1, CACHED / (s->in_pixels * RONDE__QUANTUM)));
  while (quanta % n) n--;
  return n * RONDE__QUANTUM;
}

ronde_status ronde__pool2d_prepare_windows(const ronde__op_desc *desc, const ronde__axis *h, const ronde__axis *w,
                                           ronde__axis_fn taps, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  ronde__pool2d *s;
  RONDE__ALLOC(s, sizeof *s, "pooling plan");
  s->in_pixels = in->h * in->w, s->out_pixels = out->h * out->w;
  s->planes = in->layout == RONDE__LANES ? in->c : ronde__phys_blocks(in);
  s->pixel = in->layout == RONDE__LANES ? in->block : in->n * in->block;
  s->vector = ronde__is_narrow(desc) ? stretch_of(s) : s->pixel;
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

/* Of a thread: a plane of the input's side and one of the output's. */
size_t ronde__pool2d_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  const ronde__pool2d *s = state;
  return ronde__is_narrow(desc) ? (size_t)(desc->threads * (s->in_pixels + s->out_pixels) * s->vector) : 0;
}

typedef struct pool2d_job {
  const ronde__op_desc *desc;
  const ronde__pool2d *pool;
  const ronde__op_call *call;
  bool backward;
  ronde__pool2d_fn fn;
} pool2d_job;

/* The stretches of `pixels` pixels, from element `at` on, side by side in room. */
static void widen_stretches(const pool2d_job *j, const ronde__phys *phys, const float *x, int64_t at, int64_t pixels,
                            float *room) {
  int64_t n = j->pool->vector;
  for (int64_t p = 0; p < pixels; p++) {
    float *to = room + p * n;
    const float *from = ronde__widen(j->desc, phys, x, at + p * j->pool->pixel, n, to);
    if (from != to) memcpy(to, from, (size_t)n * sizeof *to);
  }
}

static void narrow_stretches(const pool2d_job *j, const ronde__phys *phys, const float *room, int64_t at,
                             int64_t pixels, float *x) {
  int64_t n = j->pool->vector;
  for (int64_t p = 0; p < pixels; p++) {
    int64_t to = at + p * j->pool->pixel;
    if (phys->bf16) ronde__narrow(j->desc, phys, room + p * n, n, x, to);
    else memcpy(x + to, room + p * n, (size_t)n * sizeof *x);
  }
}

/* Where the windows' gradients are added to what is there, it is cleared if it counts for nothing. */
static bool begin_gradient(const pool2d_job *j, float *dx) {
  const ronde__pool2d *s = j->pool;
  if (j->call->accumulate_dinput[0]) return true;
  if (!s->tiles) memset(dx, 0, (size_t)(s->in_pixels * s->vector) * sizeof *dx);
  return !s->tiles;
}

static void run_plane(const pool2d_job *j, int64_t in_at, int64_t out_at) {
  ronde__pool2d_plane plane = {.which = (uint8_t *)j->call->saved + out_at};
  if (j->backward) {
    plane.dx = j->call->din[0] + in_at, plane.dy = j->call->dout[0] + out_at;
    plane.accumulate = begin_gradient(j, plane.dx);
  } else {
    plane.x = j->call->in[0] + in_at, plane.y = j->call->out[0] + out_at;
  }
  j->fn(j->desc, j->pool, &plane);
}

static void run_widened(const pool2d_job *j, int64_t in_at, int64_t out_at, float *in_room, float *out_room) {
  const ronde__pool2d *s = j->pool;
  const ronde__op_call *call = j->call;
  const ronde__phys *in = &j->desc->in[0], *out = &j->desc->out[0];
  ronde__pool2d_plane plane = {
      .x = in_room, .dx = in_room, .y = out_room, .dy = out_room, .which = (uint8_t *)call->saved + out_at};
  if (!j->backward) {
    widen_stretches(j, in, call->in[0], in_at, s->in_pixels, in_room);
    j->fn(j->desc, s, &plane);
    narrow_stretches(j, out, out_room, out_at, s->out_pixels, call->out[0]);
    return;
  }
  widen_stretches(j, out, call->dout[0], out_at, s->out_pixels, out_room);
  if (call->accumulate_dinput[0]) widen_stretches(j, in, call->din[0], in_at, s->in_pixels, in_room);
  plane.accumulate = begin_gradient(j, in_room);
  j->fn(j->desc, s, &plane);
  narrow_stretches(j, in, in_room, in_at, s->in_pixels, call->din[0]);
}

static void pool2d_part(void *arg, int thread, int n_threads) {
  const pool2d_job *j = arg;
  const ronde__pool2d *s = j->pool;
  int64_t begin, end, stretches = s->pixel / s->vector, room = (s->in_pixels + s->out_pixels) * s->vector;
  float *in_room = j->call->work + thread * room, *out_room = in_room + s->in_pixels * s->vector;
  ronde__thread_chunk(s->planes * stretches, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t plane = item / stretches, first = item % stretches * s->vector;
    int64_t in_at = plane * s->in_pixels * s->pixel + first, out_at = plane * s->out_pixels * s->pixel + first;
    if (ronde__is_narrow(j->desc)) run_widened(j, in_at, out_at, in_room, out_room);
    else run_plane(j, in_at, out_at);
  }
}

void ronde__pool2d_run(const ronde__op_desc *desc, const ronde__pool2d *pool, const ronde__op_call *call, bool backward,
                       ronde__pool2d_fn fn) {
  pool2d_job j = {desc, pool, call, backward, fn};
  ronde__pool_run(call->pool, pool2d_part, &j);
}

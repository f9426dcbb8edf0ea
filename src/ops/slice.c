/* A part of a tensor, or more than it: along each dimension output i is input begin + i by, and what lies outside the input
 * is a value, or an element of it (ronde__window_mode). So it is also padding, cropping and turning round. Images are cut in
 * their layout where the channels stay.
 * Legend: an array is [outer][dimensions][run], runs are adjacent floats that stay together. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <string.h>

static ronde_status slice_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                const char *const *in_labels, ronde__shape *out) {
  bool fits = attr->shape.rank == in[0].rank;
  for (int d = 0; fits && d < in[0].rank; d++) {
    int64_t last, far = INT64_C(1) << 40;
    fits = attr->shape.dim[d] > 0 && attr->by[d] != 0 && attr->begin[d] > -far && attr->begin[d] < far &&
           !__builtin_mul_overflow(attr->shape.dim[d] - 1, attr->by[d], &last) && last > -far && last < far;
    if (!fits || attr->outside != RONDE__OUTSIDE_REFLECT) continue;
    int64_t least = attr->begin[d] + ronde__min(0, last), most = attr->begin[d] + ronde__max(0, last), n = in[0].dim[d];
    fits = least > -n && most < 2 * n - 1;
  }
  *out = attr->shape;
  if (fits) return RONDE_OK;
  char text[96], to[96];
  ronde__shape_text(&in[0], text, sizeof text);
  ronde__shape_text(&attr->shape, to, sizeof to);
  return ronde__fail(RONDE_E_USAGE, "%s: %s cannot be cut or padded to %s: %s gives %s", label, text, to, in_labels[0],
                     text);
}

static bool is_whole(const ronde__op_attr *attr, const ronde__shape *in, int d) {
  return attr->begin[d] == 0 && attr->by[d] == 1 && attr->shape.dim[d] == in->dim[d];
}

static void slice_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  bool image = in[0].rank == 3 && is_whole(&desc->attr, &in[0], 0);
  ronde__layout layout = image ? desc->in[0].layout : RONDE__ROWS;
  desc->attr.whole = in[0];
  desc->in[0] = ronde__phys_of_shape_in(layout, &in[0], desc->in[0].n);
  desc->out[0] = ronde__phys_of_shape_in(layout, out, desc->in[0].n);
}

/* The dimensions that are cut, as [outer][rank of them][run]. */
typedef struct slice_plan {
  int64_t outer, run;
  int rank, first; /* the shape's dimension that the first of them is */
  int64_t in, out; /* floats of one of `outer` */
} slice_plan;

static slice_plan plan_of(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[0];
  const ronde__op_attr *a = &desc->attr;
  slice_plan p = {.rank = a->shape.rank, .run = 1, .outer = x->n};
  if (x->layout != RONDE__ROWS) {
    p.rank = 2, p.first = 1;
    p.run = x->layout == RONDE__BLOCKS ? x->n * x->block : x->n;
    p.outer = x->layout == RONDE__BLOCKS ? ronde__phys_blocks(x) : x->c;
  }
  for (; p.rank > 1 && is_whole(a, &a->whole, p.first + p.rank - 1); p.rank--)
    p.run *= a->shape.dim[p.first + p.rank - 1];
  for (; p.rank > 1 && is_whole(a, &a->whole, p.first); p.first++, p.rank--) p.outer *= a->shape.dim[p.first];
  p.in = p.out = p.run;
  for (int d = p.first; d < p.first + p.rank; d++) p.in *= a->whole.dim[d], p.out *= a->shape.dim[d];
  return p;
}

/* The element of [0, n) that stands for i; -1: the value does. */
static int64_t inside(ronde__window_mode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
  case RONDE__OUTSIDE_EDGE: return i < 0 ? 0 : n - 1;
  case RONDE__OUTSIDE_REFLECT: return i < 0 ? -i : 2 * (n - 1) - i;
  case RONDE__OUTSIDE_WRAP: return (i % n + n) % n;
  default: return -1;
  }
}

/* Where output element i of one of `outer`, in runs, is read; -1: nowhere. */
static int64_t source_of(const ronde__op_attr *a, const slice_plan *p, int64_t i) {
  int64_t at = 0, step = 1;
  for (int d = p->first + p->rank - 1; d >= p->first; d--) {
    int64_t from = inside(a->outside, a->begin[d] + i % a->shape.dim[d] * a->by[d], a->whole.dim[d]);
    if (from < 0) return -1;
    at += from * step;
    step *= a->whole.dim[d];
    i /= a->shape.dim[d];
  }
  return at;
}

typedef struct slice_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  slice_plan plan;
} slice_job;

static void forward_part(void *arg, int thread, int n_threads) {
  const slice_job *j = arg;
  const slice_plan *p = &j->plan;
  int64_t begin, end, runs = p->out / p->run;
  ronde__thread_chunk(p->outer * runs, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t from = source_of(&j->desc->attr, p, item % runs);
    float *y = j->call->out[0] + item * p->run;
    if (from >= 0) memcpy(y, j->call->in[0] + item / runs * p->in + from * p->run, (size_t)p->run * sizeof *y);
    for (int64_t i = 0; i < p->run && from < 0; i++) y[i] = j->desc->attr.value;
  }
}

static ronde_status slice_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  slice_job j = {desc, call, plan_of(desc)};
  ronde__pool_run(call->pool, forward_part, &j);
  if (desc->attr.value != 0) ronde__elementwise_clear_padding(&desc->out[0], call->out[0]);
  return RONDE_OK;
}

/* An input may be read several times, so that one thread has all outputs of one of `outer`. */
static void backward_part(void *arg, int thread, int n_threads) {
  const slice_job *j = arg;
  const slice_plan *p = &j->plan;
  int64_t begin, end, runs = p->out / p->run;
  ronde__thread_chunk(p->outer, thread, n_threads, &begin, &end);
  for (int64_t o = begin; o < end; o++) {
    float *dx = j->call->din[0] + o * p->in;
    if (!j->call->accumulate_dinput[0]) memset(dx, 0, (size_t)p->in * sizeof *dx);
    for (int64_t r = 0; r < runs; r++) {
      int64_t to = source_of(&j->desc->attr, p, r);
      const float *dy = j->call->dout[0] + o * p->out + r * p->run;
      if (to >= 0) ronde__gradient_add(j->desc, dy, dx + to * p->run, p->run, true);
    }
  }
}

static ronde_status slice_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  slice_job j = {desc, call, plan_of(desc)};
  if (call->din[0]) ronde__pool_run(call->pool, backward_part, &j);
  return RONDE_OK;
}

static const ronde__form slice_form = {
    .forward = slice_forward,
    .backward = slice_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_slice = {
    .name = "slice",
    .infer = slice_infer,
    .layouts = slice_layouts,
    .forms = (const ronde__form *const[]){&slice_form, NULL},
};

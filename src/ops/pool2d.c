/* What maximum and average pooling share: shape rule, layouts, the windows of each output, pixels split over the
 * threads. */
#include "ops/pool2d.h"

#include "ops/gemm_list.h"

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

/* ---- which windows there are ---- */

/* What a window has along an axis. */
typedef struct span {
  int64_t at;        /* the first input */
  int count, places; /* inputs, and places inside the input or its padding */
} span;

/* An output whose window has an input, as its tap-th. */
typedef struct meeting {
  int64_t out;
  int tap;
} meeting;

/* An axis with all its windows: the meetings of input i are those from first[i] to first[i + 1], in the outputs' order. */
typedef struct line {
  int64_t n_in, n_out;
  int dilation;
  span *spans;
  int64_t *first;
  meeting *meetings;
} line;

static void line_free(line *l) {
  ronde__free(l->spans);
  ronde__free(l->first);
  ronde__free(l->meetings);
}

static bool line_make(const ronde__axis *axis, ronde__axis_fn taps, line *l) {
  int64_t total = 0;
  *l = (line){.n_in = axis->in, .n_out = axis->out, .dilation = axis->dilation};
  l->spans = ronde__alloc((size_t)axis->out * sizeof *l->spans);
  l->first = ronde__alloc((size_t)(axis->in + 1) * sizeof *l->first);
  if (!l->spans || !l->first) return false;
  for (int64_t o = 0; o < axis->out; o++) {
    ronde__taps t = taps(axis, o);
    l->spans[o] = (span){t.at, t.count, ronde__axis_places(axis, o)};
    for (int i = 0; i < t.count; i++) l->first[t.at + (int64_t)i * axis->dilation]++;
    total += t.count;
  }
  l->meetings = ronde__alloc((size_t)total * sizeof *l->meetings);
  if (!l->meetings) return false;
  for (int64_t i = 1; i <= axis->in; i++) l->first[i] += l->first[i - 1];
  for (int64_t o = axis->out - 1; o >= 0; o--)
    for (int i = 0; i < l->spans[o].count; i++)
      l->meetings[--l->first[l->spans[o].at + (int64_t)i * axis->dilation]] = (meeting){o, i};
  return true;
}

static bool outputs_alike(const line *l, int64_t a, int64_t b) {
  return l->spans[a].count == l->spans[b].count && l->spans[a].places == l->spans[b].places;
}

static int64_t n_meetings(const line *l, int64_t i) { return l->first[i + 1] - l->first[i]; }

static bool inputs_alike(const line *l, int64_t a, int64_t b) {
  const meeting *x = l->meetings + l->first[a], *y = l->meetings + l->first[b];
  if (n_meetings(l, a) != n_meetings(l, b)) return false;
  for (int64_t i = 0; i < n_meetings(l, a); i++)
    if (x[i].out - x->out != y[i].out - y->out || x[i].tap != y[i].tap || !outputs_alike(l, x[i].out, y[i].out))
      return false;
  return true;
}

/* The first position of a kind. */
static int64_t first_of_kind(const ronde__pool2d_axis *axis, int kind) {
  int64_t p = 0;
  while (axis->kind[p] != kind) p++;
  return p;
}

static bool sort_out(const line *l, int64_t n, bool (*alike)(const line *l, int64_t a, int64_t b),
                     ronde__pool2d_axis *axis) {
  axis->first = ronde__alloc((size_t)n * sizeof *axis->first);
  axis->kind = ronde__alloc((size_t)n * sizeof *axis->kind);
  if (!axis->first || !axis->kind) return false;
  for (int64_t p = 0; p < n; p++) {
    int kind = 0;
    while (kind < axis->kinds && !alike(l, first_of_kind(axis, kind), p)) kind++;
    axis->kind[p] = kind;
    if (kind == axis->kinds) axis->kinds++;
  }
  return true;
}

/* Fills room at s->offsets, or counts how much it takes. */
static int64_t list_windows(ronde__pool2d *s, const line l[2], bool exclude_padding) {
  int64_t used = 0;
  for (int k = 0; k < s->out[0].kinds * s->out[1].kinds; k++) {
    const span *h = &l[0].spans[first_of_kind(&s->out[0], k / s->out[1].kinds)];
    const span *w = &l[1].spans[first_of_kind(&s->out[1], k % s->out[1].kinds)];
    int count = h->count * w->count;
    if (s->offsets) {
      float factor = 1.0f / (float)(exclude_padding ? count : h->places * w->places);
      s->windows[k] = (ronde__window){s->offsets + used, count, factor};
      for (int i = 0; i < count; i++)
        s->offsets[used + i] =
            ((int64_t)(i / w->count) * l[0].dilation * s->in_w + (int64_t)(i % w->count) * l[1].dilation) * s->pixel;
    }
    used += count;
  }
  return used;
}

static ronde__window_of window_of(const ronde__pool2d *s, const line l[2], const meeting *h, const meeting *w,
                                  int64_t from, bool exclude_padding) {
  const span *sh = &l[0].spans[h->out], *sw = &l[1].spans[w->out];
  return (ronde__window_of){
      .at = (h->out * s->out_w + w->out - from) * s->pixel,
      .place = h->tap * sw->count + w->tap,
      .factor = 1.0f / (float)(exclude_padding ? sh->count * sw->count : sh->places * sw->places)};
}

/* The same at s->of. */
static int64_t list_windows_of(ronde__pool2d *s, const line l[2], bool exclude_padding) {
  int64_t used = 0;
  for (int k = 0; k < s->in[0].kinds * s->in[1].kinds; k++) {
    int64_t y = first_of_kind(&s->in[0], k / s->in[1].kinds), x = first_of_kind(&s->in[1], k % s->in[1].kinds);
    int64_t count = n_meetings(&l[0], y) * n_meetings(&l[1], x);
    const meeting *h = l[0].meetings + l[0].first[y], *w = l[1].meetings + l[1].first[x];
    for (int64_t i = 0; i < count && s->of; i++)
      s->of[used + i] = window_of(s, l, h + i / n_meetings(&l[1], x), w + i % n_meetings(&l[1], x),
                                  h->out * s->out_w + w->out, exclude_padding);
    if (s->of) s->windows_of[k] = (ronde__windows_of){s->of + used, (int)count};
    used += count;
  }
  return used;
}

static bool make_windows(ronde__pool2d *s, const line l[2], bool exclude_padding) {
  for (int d = 0; d < 2; d++) {
    if (!sort_out(&l[d], l[d].n_out, outputs_alike, &s->out[d]) || !sort_out(&l[d], l[d].n_in, inputs_alike, &s->in[d]))
      return false;
    for (int64_t o = 0; o < l[d].n_out; o++) s->out[d].first[o] = l[d].spans[o].at;
    for (int64_t i = 0; i < l[d].n_in; i++)
      s->in[d].first[i] = n_meetings(&l[d], i) ? l[d].meetings[l[d].first[i]].out : 0;
  }
  int64_t n_offsets = list_windows(s, l, exclude_padding), n_of = list_windows_of(s, l, exclude_padding);
  s->windows = ronde__alloc((size_t)s->out[0].kinds * (size_t)s->out[1].kinds * sizeof *s->windows);
  s->windows_of = ronde__alloc((size_t)s->in[0].kinds * (size_t)s->in[1].kinds * sizeof *s->windows_of);
  s->offsets = ronde__alloc((size_t)n_offsets * sizeof *s->offsets);
  s->of = ronde__alloc((size_t)n_of * sizeof *s->of);
  if (!s->windows || !s->windows_of || !s->offsets || !s->of) return false;
  list_windows(s, l, exclude_padding);
  list_windows_of(s, l, exclude_padding);
  return true;
}

/* Of rows of this width. */
static int64_t stretch_of(int64_t width) {
  enum { CACHED = 1 << 17, SHORTEST = 256 }; /* elements */
  return ronde__max(SHORTEST, CACHED / width / RONDE__QUANTUM * RONDE__QUANTUM);
}

ronde_status ronde__pool2d_prepare_windows(const ronde__op_desc *desc, const ronde__axis *h, const ronde__axis *w,
                                           ronde__axis_fn taps, void **state_out) {
  const ronde__phys *in = &desc->in[0], *out = &desc->out[0];
  ronde__pool2d *s;
  line l[2] = {0};
  RONDE__ALLOC(s, sizeof *s, "pooling plan");
  s->in_w = in->w, s->in_pixels = in->h * in->w, s->out_w = out->w, s->out_pixels = out->h * out->w;
  s->planes = in->layout == RONDE__LANES ? in->c : ronde__phys_blocks(in);
  s->pixel = in->layout == RONDE__LANES ? in->block : in->n * in->block;
  s->stretch = stretch_of(in->w);
  bool made = line_make(h, taps, &l[0]) && line_make(w, taps, &l[1]) && make_windows(s, l, desc->attr.exclude_padding);
  for (int d = 0; d < 2; d++) line_free(&l[d]);
  if (!made) {
    ronde__pool2d_release(desc, s);
    return ronde__fail(RONDE_E_MEMORY, "pooling plan: no memory for %lld windows", (long long)(out->h * out->w));
  }
  *state_out = s;
  return RONDE_OK;
}

void ronde__pool2d_release(const ronde__op_desc *desc, void *state) {
  ronde__pool2d *s = state;
  if (!s) return;
  for (int d = 0; d < 2; d++) {
    ronde__free(s->out[d].first);
    ronde__free(s->out[d].kind);
    ronde__free(s->in[d].first);
    ronde__free(s->in[d].kind);
  }
  ronde__free(s->windows);
  ronde__free(s->windows_of);
  ronde__free(s->offsets);
  ronde__free(s->of);
  ronde__free(s);
}

/* ---- execution ---- */

const char *ronde__pool2d_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.kernels->isa;
}

typedef struct pool2d_job {
  const ronde__op_desc *desc;
  const ronde__pool2d *pool;
  const ronde__op_call *call;
  bool backward;
  ronde__pool2d_fn fn;
} pool2d_job;

static void pool2d_part(void *arg, int thread, int n_threads) {
  const pool2d_job *j = arg;
  const ronde__pool2d *s = j->pool;
  int64_t begin, end, pixels = j->backward ? s->in_pixels : s->out_pixels;
  ronde__thread_chunk(s->planes * pixels, thread, n_threads, &begin, &end);
  for (int64_t plane = begin / pixels; plane * pixels < end; plane++)
    for (int64_t first = 0; first < s->pixel; first += s->stretch) {
      ronde__pool2d_part part = {.in = plane * s->in_pixels * s->pixel + first,
                                 .out = plane * s->out_pixels * s->pixel + first,
                                 .begin = ronde__max(begin - plane * pixels, 0),
                                 .end = ronde__min(end - plane * pixels, pixels),
                                 .n = ronde__min(s->stretch, s->pixel - first)};
      j->fn(j->desc, s, j->call, &part);
    }
}

void ronde__pool2d_run(const ronde__op_desc *desc, const ronde__pool2d *pool, const ronde__op_call *call, bool backward,
                       ronde__pool2d_fn fn) {
  pool2d_job j = {desc, pool, call, backward, fn};
  ronde__pool_run(call->pool, pool2d_part, &j);
}

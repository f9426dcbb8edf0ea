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

/* Compares with the latest kinds only, so that an axis of many kinds takes no longer by position: a kind may be there
 * twice. */
static bool sort_out(const line *l, int64_t n, bool (*alike)(const line *l, int64_t a, int64_t b),
                     ronde__pool2d_axis *axis) {
  enum { COMPARED = 16 };
  axis->first = ronde__alloc((size_t)n * sizeof *axis->first);
  axis->kind = ronde__alloc((size_t)n * sizeof *axis->kind);
  axis->example = ronde__alloc((size_t)n * sizeof *axis->example);
  if (!axis->first || !axis->kind || !axis->example) return false;
  for (int64_t p = 0; p < n; p++) {
    int kind = ronde__max(0, axis->kinds - COMPARED);
    while (kind < axis->kinds && !alike(l, axis->example[kind], p)) kind++;
    axis->kind[p] = kind;
    if (kind == axis->kinds) axis->example[axis->kinds++] = p;
  }
  return true;
}

static void list_windows(ronde__pool2d *s, const line l[2], bool exclude_padding) {
  int64_t *offsets = s->offsets;
  for (int k = 0; k < s->out[0].kinds * s->out[1].kinds; k++) {
    const span *h = &l[0].spans[s->out[0].example[k / s->out[1].kinds]];
    const span *w = &l[1].spans[s->out[1].example[k % s->out[1].kinds]];
    int count = h->count * w->count;
    s->windows[k] = (ronde__window){offsets, count, 1.0f / (float)(exclude_padding ? count : h->places * w->places)};
    for (int i = 0; i < count; i++)
      *offsets++ =
          ((int64_t)(i / w->count) * l[0].dilation * s->in_w + (int64_t)(i % w->count) * l[1].dilation) * s->pixel;
  }
}

static ronde__window_of window_of(const ronde__pool2d *s, const line l[2], const meeting *h, const meeting *w,
                                  int64_t from, bool exclude_padding) {
  const span *sh = &l[0].spans[h->out], *sw = &l[1].spans[w->out];
  return (ronde__window_of){
      .at = (h->out * s->out_w + w->out - from) * s->pixel,
      .place = h->tap * sw->count + w->tap,
      .factor = 1.0f / (float)(exclude_padding ? sh->count * sw->count : sh->places * sw->places)};
}

static void list_windows_of(ronde__pool2d *s, const line l[2], bool exclude_padding) {
  ronde__window_of *of = s->of;
  for (int k = 0; k < s->in[0].kinds * s->in[1].kinds; k++) {
    int64_t y = s->in[0].example[k / s->in[1].kinds], x = s->in[1].example[k % s->in[1].kinds];
    int64_t across = n_meetings(&l[1], x), count = n_meetings(&l[0], y) * across;
    const meeting *h = l[0].meetings + l[0].first[y], *w = l[1].meetings + l[1].first[x];
    s->windows_of[k] = (ronde__windows_of){of, (int)count};
    for (int64_t i = 0; i < count; i++)
      *of++ = window_of(s, l, h + i / across, w + i % across, h->out * s->out_w + w->out, exclude_padding);
  }
}

static bool make_windows(ronde__pool2d *s, const line l[2], bool exclude_padding) {
  size_t n_windows = 1, n_windows_of = 1, n_offsets = 1, n_of = 1;
  for (int d = 0; d < 2; d++) {
    size_t offsets = 0, of = 0;
    if (!sort_out(&l[d], l[d].n_out, outputs_alike, &s->out[d]) || !sort_out(&l[d], l[d].n_in, inputs_alike, &s->in[d]))
      return false;
    for (int64_t o = 0; o < l[d].n_out; o++) s->out[d].first[o] = l[d].spans[o].at;
    for (int64_t i = 0; i < l[d].n_in; i++)
      s->in[d].first[i] = n_meetings(&l[d], i) ? l[d].meetings[l[d].first[i]].out : 0;
    for (int k = 0; k < s->out[d].kinds; k++) offsets += (size_t)l[d].spans[s->out[d].example[k]].count;
    for (int k = 0; k < s->in[d].kinds; k++) of += (size_t)n_meetings(&l[d], s->in[d].example[k]);
    n_windows *= (size_t)s->out[d].kinds, n_windows_of *= (size_t)s->in[d].kinds;
    n_offsets *= offsets, n_of *= of;
  }
  s->windows = ronde__alloc(n_windows * sizeof *s->windows);
  s->windows_of = ronde__alloc(n_windows_of * sizeof *s->windows_of);
  s->offsets = ronde__alloc(n_offsets * sizeof *s->offsets);
  s->of = ronde__alloc(n_of * sizeof *s->of);
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

static void axis_free(ronde__pool2d_axis *axis) {
  ronde__free(axis->first);
  ronde__free(axis->kind);
  ronde__free(axis->example);
}

void ronde__pool2d_release(const ronde__op_desc *desc, void *state) {
  ronde__pool2d *s = state;
  if (!s) return;
  for (int d = 0; d < 2; d++) {
    axis_free(&s->out[d]);
    axis_free(&s->in[d]);
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

/* Pixels [begin, end) of a plane, from these elements of it on. */
static void run_pixels(const pool2d_job *j, int64_t begin, int64_t end, int64_t from, int64_t to, int64_t n) {
  const ronde__pool2d *s = j->pool;
  ronde__pool2d_pixel pixel = {.n = n, .narrow = ronde__is_narrow(j->desc)};
  for (int64_t p = begin, at; p < end; p++) {
    if (j->backward) pixel.of = ronde__pool2d_windows_of(s, p, &at);
    else pixel.window = ronde__pool2d_window(s, p, &at);
    pixel.from = from + at * s->pixel, pixel.to = to + p * s->pixel;
    j->fn(j->desc, j->call, &pixel);
  }
}

static void pool2d_part(void *arg, int thread, int n_threads) {
  const pool2d_job *j = arg;
  const ronde__pool2d *s = j->pool;
  int64_t pixels = j->backward ? s->in_pixels : s->out_pixels, others = j->backward ? s->out_pixels : s->in_pixels;
  int64_t begin, end;
  ronde__thread_chunk(s->planes * pixels, thread, n_threads, &begin, &end);
  for (int64_t plane = begin / pixels; plane * pixels < end; plane++)
    for (int64_t first = 0; first < s->pixel; first += s->stretch)
      run_pixels(j, ronde__max(begin - plane * pixels, 0), ronde__min(end - plane * pixels, pixels),
                 plane * others * s->pixel + first, plane * pixels * s->pixel + first,
                 ronde__min(s->stretch, s->pixel - first));
}

void ronde__pool2d_run(const ronde__op_desc *desc, const ronde__pool2d *pool, const ronde__op_call *call, bool backward,
                       ronde__pool2d_fn fn) {
  pool2d_job j = {desc, pool, call, backward, fn};
  ronde__pool_run(call->pool, pool2d_part, &j);
}

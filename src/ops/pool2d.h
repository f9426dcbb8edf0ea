/* What max and average pooling share: the windows of every output pixel, over planes of vectors. In LANES a plane is a
 * channel and a pixel N elements; in BLOCKS a plane is a channel block and a pixel N * block elements: so one kernel
 * serves both. A gradient is gathered: each input pixel adds what the windows give that have it, in their order. */
#ifndef RONDE_POOL2D_H
#define RONDE_POOL2D_H

#include "ops/widen.h"
#include "ops/window.h"

/* The window of an output pixel, from its first input inside on. */
typedef struct ronde__window {
  const int64_t *offsets; /* elements, in row-major order of the window */
  int count;
  float factor; /* of an average */
} ronde__window;

/* The windows that have an input pixel, from the first one's output on. */
typedef struct ronde__windows_of {
  const ronde__window_of *at;
  int count;
} ronde__windows_of;

/* Of each position along an axis: the first one that it meets on the other side, and its kind. Positions of a kind meet
 * others alike: most pixels share a few windows, which stay in cache. */
typedef struct ronde__pool2d_axis {
  int64_t *first;
  int *kind;
  int64_t *example; /* [kinds]: a position of each */
  int kinds;
} ronde__pool2d_axis;

typedef struct ronde__pool2d {
  int64_t planes, in_w, in_pixels, out_w, out_pixels;
  int64_t pixel;             /* elements */
  int64_t stretch;           /* so many elements of all pixels at a time, of which a few rows stay in cache */
  ronde__pool2d_axis out[2]; /* height, width */
  ronde__pool2d_axis in[2];
  ronde__window *windows;        /* [kinds of output rows][kinds of output columns] */
  ronde__windows_of *windows_of; /* [kinds of input rows][kinds of input columns] */
  int64_t *offsets;              /* storage */
  ronde__window_of *of;
} ronde__pool2d;

/* The window of output pixel p; *at_out: its first input pixel. */
static inline const ronde__window *ronde__pool2d_window(const ronde__pool2d *s, int64_t p, int64_t *at_out) {
  int64_t y = p / s->out_w, x = p % s->out_w;
  *at_out = s->out[0].first[y] * s->in_w + s->out[1].first[x];
  return &s->windows[s->out[0].kind[y] * s->out[1].kinds + s->out[1].kind[x]];
}

/* The windows that have input pixel p; *at_out: the output pixel of the first one. */
static inline const ronde__windows_of *ronde__pool2d_windows_of(const ronde__pool2d *s, int64_t p, int64_t *at_out) {
  int64_t y = p / s->in_w, x = p % s->in_w;
  *at_out = s->in[0].first[y] * s->out_w + s->in[1].first[x];
  return &s->windows_of[s->in[0].kind[y] * s->in[1].kinds + s->in[1].kind[x]];
}

ronde_status ronde__pool2d_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out);
void ronde__pool2d_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out);
ronde_status ronde__pool2d_prepare(const ronde__op_desc *desc, void **state_out);
/* With windows of any kind: `taps` says which inputs (at, count), a dilation apart, an output has along an axis. */
ronde_status ronde__pool2d_prepare_windows(const ronde__op_desc *desc, const ronde__axis *h, const ronde__axis *w,
                                           ronde__axis_fn taps, void **state_out);
void ronde__pool2d_release(const ronde__op_desc *desc, void *state);
const char *ronde__pool2d_implementation(const ronde__op_desc *desc, const void *state);

/* Floats that hold a byte for each output: which place of its window a maximum has. */
static inline size_t ronde__pool2d_indices_elems(const ronde__phys *out) {
  return (size_t)ronde__ceil_div(ronde__phys_elems(out), (int64_t)sizeof(float));
}

/* What is computed: n elements of an output pixel forward, of an input pixel's gradient backward. */
typedef struct ronde__pool2d_pixel {
  int64_t from, to; /* where its windows begin, and where it lies: elements of the input and the output forward, of the
                       output's and the input's gradient backward */
  int64_t n;
  bool narrow;                 /* an operand, at least */
  const ronde__window *window; /* forward */
  const ronde__windows_of *of; /* backward */
} ronde__pool2d_pixel;

/* Calls fn for the pixels of all planes, split over the pool. */
typedef void (*ronde__pool2d_fn)(const ronde__op_desc *desc, const ronde__op_call *call,
                                 const ronde__pool2d_pixel *pixel);
void ronde__pool2d_run(const ronde__op_desc *desc, const ronde__pool2d *pool, const ronde__op_call *call, bool backward,
                       ronde__pool2d_fn fn);

#endif

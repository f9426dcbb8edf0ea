/* What max and average pooling share: the windows of every output pixel, over planes of vectors. In LANES a plane is a
 * channel and a pixel N floats; in BLOCKS a plane is a channel block and a pixel N * block floats: so one kernel serves
 * both. Of operands in bfloat16 a plane is a stretch of these vectors, widened in scratch. */
#ifndef RONDE_POOL2D_H
#define RONDE_POOL2D_H

#include "ops/window.h"

typedef struct ronde__window {
  int64_t at;             /* pixel of its first input inside */
  const int64_t *offsets; /* elements from there, in row-major order of the window */
  int count;
  int places; /* inside the input or its padding */
} ronde__window;

typedef struct ronde__pool2d {
  int64_t planes, in_pixels, out_pixels;
  int64_t pixel, vector;  /* elements of a pixel, and of the part of it in a plane */
  bool tiles;             /* every input is in exactly one window */
  ronde__window *windows; /* [out_pixels] */
  int64_t *offsets;       /* storage */
} ronde__pool2d;

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

/* A plane in f32: x and dx [in_pixels][vector], y and dy [out_pixels][vector], of which forward has x and y, backward dx
 * and dy. */
typedef struct ronde__pool2d_plane {
  const float *x, *dy;
  float *y, *dx;
  uint8_t *which;  /* of the first output; those of the next pixel are a whole pixel further */
  bool accumulate; /* to dx */
} ronde__pool2d_plane;

/* Runs fn over the planes, split over the pool. */
typedef void (*ronde__pool2d_fn)(const ronde__op_desc *desc, const ronde__pool2d *pool,
                                 const ronde__pool2d_plane *plane);
void ronde__pool2d_run(const ronde__op_desc *desc, const ronde__pool2d *pool, const ronde__op_call *call, bool backward,
                       ronde__pool2d_fn fn);
size_t ronde__pool2d_work_elems(const ronde__op_desc *desc, const void *state, bool backward);

#endif

/* Naive references in f64 accumulation, row-major logical arrays: the oracle of the op tests. Not linked into the library. */
#ifndef RONDE_REF_H
#define RONDE_REF_H
#include "kernel/kernel.h"

typedef struct ronde__ref_conv {
  int64_t n, c, h, w, o;
  int kh, kw, sh, sw, ph, pw;
} ronde__ref_conv;
/* x [N][C][H][W], weight [O][C][KH][KW], bias [O] or NULL, y [N][O][OH][OW] */
void ronde__ref_conv_forward(const ronde__ref_conv *p, const float *x, const float *weight, const float *bias, float *y);
/* any of dx, dweight, dbias may be NULL; all are overwritten */
void ronde__ref_conv_backward(const ronde__ref_conv *p, const float *x, const float *weight, const float *dy, float *dx, float *dweight, float *dbias);
#endif

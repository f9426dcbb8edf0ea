/* Naive references in f64 accumulation, row-major logical arrays: the oracle of the kernel and op tests. Not linked
 * into the library. Every result is rounded to f32 once; all outputs are overwritten, and gradients that are NULL are
 * left out. */
#ifndef RONDE_REF_H
#define RONDE_REF_H
#include "kernel/kernel.h"

/* c[m][n] (+)= sum over t of a_t[m][k] * b_t[k][n]; arguments as ronde__gemm_run's. */
void ronde__ref_gemm(const ronde__gemm_shape *shape, const float *a, const uint64_t *a_offsets, const float *b,
                     const uint64_t *b_offsets, int64_t count, float *c);

typedef struct ronde__ref_conv {
  int64_t n, c, h, w, o;
  int kh, kw, sh, sw, ph, pw;
  int dh, dw, eh, ew; /* dilations; zeros at the end beyond those in front, which ph and pw are */
  bool round_up;      /* of pooling: ceil_mode */
} ronde__ref_conv;
/* How many windows there are in height and width. */
void ronde__ref_window(const ronde__ref_conv *p, int64_t *h_out, int64_t *w_out);
/* x [N][C][H][W], weight [O][C][KH][KW], bias [O] or NULL, y [N][O][OH][OW] */
void ronde__ref_conv_forward(const ronde__ref_conv *p, const float *x, const float *weight, const float *bias,
                             float *y);
/* any of dx, dweight, dbias may be NULL; all are overwritten */
void ronde__ref_conv_backward(const ronde__ref_conv *p, const float *x, const float *weight, const float *dy, float *dx,
                              float *dweight, float *dbias);

/* x [N][I], weight [O][I], bias [O] or NULL, y [N][O] */
void ronde__ref_linear_forward(int64_t n, int64_t i, int64_t o, const float *x, const float *weight, const float *bias,
                               float *y);
void ronde__ref_linear_backward(int64_t n, int64_t i, int64_t o, const float *x, const float *weight, const float *dy,
                                float *dx, float *dweight, float *dbias);

/* Pooling: p->o is not read. x [N][C][H][W], y [N][C][OH][OW]. The first largest value of a window wins; NaN is the
 * largest. */
void ronde__ref_max_pool_forward(const ronde__ref_conv *p, const float *x, float *y);
void ronde__ref_max_pool_backward(const ronde__ref_conv *p, const float *x, const float *dy, float *dx);
/* Divides by the window's size, or by its values inside the image where exclude_padding. */
void ronde__ref_avg_pool_forward(const ronde__ref_conv *p, bool exclude_padding, const float *x, float *y);
void ronde__ref_avg_pool_backward(const ronde__ref_conv *p, bool exclude_padding, const float *dy, float *dx);

/* Batch normalisation of x [N][C][pixels] by the batch's own statistics; mean [C] and var [C] (biased) are set. */
void ronde__ref_batch_norm_forward(int64_t n, int64_t c, int64_t pixels, double eps, const float *x,
                                   const float *weight, const float *bias, float *y, double *mean, double *var);
void ronde__ref_batch_norm_backward(int64_t n, int64_t c, int64_t pixels, double eps, const float *x,
                                    const float *weight, const float *dy, float *dx, float *dweight, float *dbias);

/* By libm in f64. */
void ronde__ref_act_forward(ronde__activation act, int64_t n, const float *x, float *y);
/* y: the outputs of forward */
void ronde__ref_act_backward(ronde__activation act, int64_t n, const float *y, const float *dy, float *dx);

/* By libm in f64, with the limits at infinities. */
double ronde__ref_pointwise(const ronde__pointwise *f, double x);
double ronde__ref_pointwise_slope(const ronde__pointwise *f, double x);

/* logits [N][K]; returns the mean loss; dlogits (may be NULL) is the mean's gradient. */
double ronde__ref_cross_entropy(int64_t n, int64_t k, const float *logits, const int64_t *labels, float *dlogits);
/* Mean over all n elements of (prediction - target)^2. */
double ronde__ref_mse(int64_t n, const float *prediction, const float *target, float *dprediction);
/* The same of |prediction - target|; of the Huber loss; of the binary cross entropy of logits. */
double ronde__ref_l1(int64_t n, const float *prediction, const float *target, float *dprediction);
double ronde__ref_huber(int64_t n, double delta, const float *prediction, const float *target, float *dprediction);
double ronde__ref_bce(int64_t n, const float *logits, const float *target, float *dlogits);

#endif

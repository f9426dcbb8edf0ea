/* Naive references in f64, the oracle of the tests.
 * N batch, C channels, H, W; O output channels, OH, OW; KH, KW taps, SH, SW strides, DH, DW dilations, PH, PW padding in
 * front. */
#include "kernel/ref.h"

#include <math.h>
#include <stdlib.h>

/* Windows are counted one by one: each fits, or is the last one, which is cut off but does not begin in the end. */
static int64_t n_windows(int64_t in, int front, int end, int k, int dilation, int stride, bool round_up) {
  int64_t n = 0, limit = in + front + end;
  while (n * stride + (int64_t)dilation * (k - 1) < limit) n++;
  if (round_up && (n - 1) * stride + (int64_t)dilation * (k - 1) + 1 < limit) n++;
  return round_up && (n - 1) * stride >= in + front ? n - 1 : n;
}
static int64_t out_h(const ronde__ref_conv *p) {
  return n_windows(p->h, p->ph, p->ph + p->eh, p->kh, p->dh, p->sh, p->round_up);
}
static int64_t out_w(const ronde__ref_conv *p) {
  return n_windows(p->w, p->pw, p->pw + p->ew, p->kw, p->dw, p->sw, p->round_up);
}

void ronde__ref_window(const ronde__ref_conv *p, int64_t *h_out, int64_t *w_out) {
  *h_out = out_h(p);
  *w_out = out_w(p);
}

static double *zeros(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }

/* Rounds the sums to out (NULL: drops them) and frees them. */
static void round_to(double *sums, int64_t n, float *out) {
  for (int64_t i = 0; out && i < n; i++) out[i] = (float)sums[i];
  free(sums);
}

void ronde__ref_gemm(const ronde__gemm_shape *s, const float *a, const uint64_t *a_offsets, const float *b,
                     const uint64_t *b_offsets, int64_t count, float *c) {
  for (int64_t i = 0; i < s->m; i++)
    for (int64_t j = 0; j < s->n; j++) {
      double sum = s->accumulate ? c[i * s->ldc + j] : 0;
      for (int64_t t = 0; t < count; t++)
        for (int64_t k = 0; k < s->k; k++) {
          const float *at = a + a_offsets[t] / sizeof(float), *bt = b + b_offsets[t] / sizeof(float);
          sum += (double)at[s->trans_a ? k * s->lda + i : i * s->lda + k] * (double)bt[k * s->ldb + j];
        }
      c[i * s->ldc + j] = (float)sum;
    }
}

/* The flat index of the input pixel that tap (kh, kw) of output (oh, ow) meets in plane `plane`; -1 in the padding. */
static int64_t input_at(const ronde__ref_conv *p, int64_t plane, int64_t oh, int64_t ow, int kh, int kw) {
  int64_t h = oh * p->sh + kh * p->dh - p->ph, w = ow * p->sw + kw * p->dw - p->pw;
  return h < 0 || h >= p->h || w < 0 || w >= p->w ? -1 : (plane * p->h + h) * p->w + w;
}

void ronde__ref_conv_forward(const ronde__ref_conv *p, const float *x, const float *weight, const float *bias,
                             float *y) {
  for (int64_t n = 0; n < p->n; n++)
    for (int64_t o = 0; o < p->o; o++)
      for (int64_t oh = 0; oh < out_h(p); oh++)
        for (int64_t ow = 0; ow < out_w(p); ow++) {
          double sum = bias ? bias[o] : 0;
          for (int64_t c = 0; c < p->c; c++)
            for (int kh = 0; kh < p->kh; kh++)
              for (int kw = 0; kw < p->kw; kw++) {
                int64_t i = input_at(p, n * p->c + c, oh, ow, kh, kw);
                if (i >= 0) sum += (double)x[i] * (double)weight[((o * p->c + c) * p->kh + kh) * p->kw + kw];
              }
          *y++ = (float)sum;
        }
}

void ronde__ref_conv_backward(const ronde__ref_conv *p, const float *x, const float *weight, const float *dy, float *dx,
                              float *dweight, float *dbias) {
  int64_t n_x = p->n * p->c * p->h * p->w, n_weight = p->o * p->c * p->kh * p->kw;
  double *sum_x = zeros(n_x), *sum_weight = zeros(n_weight), *sum_bias = zeros(p->o);
  for (int64_t n = 0; n < p->n; n++)
    for (int64_t o = 0; o < p->o; o++)
      for (int64_t oh = 0; oh < out_h(p); oh++)
        for (int64_t ow = 0; ow < out_w(p); ow++) {
          double d = *dy++;
          sum_bias[o] += d;
          for (int64_t c = 0; c < p->c; c++)
            for (int kh = 0; kh < p->kh; kh++)
              for (int kw = 0; kw < p->kw; kw++) {
                int64_t i = input_at(p, n * p->c + c, oh, ow, kh, kw);
                int64_t j = ((o * p->c + c) * p->kh + kh) * p->kw + kw;
                if (i < 0) continue;
                sum_x[i] += d * (double)weight[j];
                sum_weight[j] += d * (double)x[i];
              }
        }
  round_to(sum_x, n_x, dx);
  round_to(sum_weight, n_weight, dweight);
  round_to(sum_bias, p->o, dbias);
}

void ronde__ref_linear_forward(int64_t n, int64_t i, int64_t o, const float *x, const float *weight, const float *bias,
                               float *y) {
  for (int64_t r = 0; r < n; r++)
    for (int64_t j = 0; j < o; j++) {
      double sum = bias ? bias[j] : 0;
      for (int64_t k = 0; k < i; k++) sum += (double)x[r * i + k] * (double)weight[j * i + k];
      y[r * o + j] = (float)sum;
    }
}

void ronde__ref_linear_backward(int64_t n, int64_t i, int64_t o, const float *x, const float *weight, const float *dy,
                                float *dx, float *dweight, float *dbias) {
  double *sum_x = zeros(n * i), *sum_weight = zeros(o * i), *sum_bias = zeros(o);
  for (int64_t r = 0; r < n; r++)
    for (int64_t j = 0; j < o; j++) {
      double d = dy[r * o + j];
      sum_bias[j] += d;
      for (int64_t k = 0; k < i; k++) {
        sum_x[r * i + k] += d * (double)weight[j * i + k];
        sum_weight[j * i + k] += d * (double)x[r * i + k];
      }
    }
  round_to(sum_x, n * i, dx);
  round_to(sum_weight, o * i, dweight);
  round_to(sum_bias, o, dbias);
}

/* The flat index of the first largest input of a window; NaN is the largest. */
static int64_t window_max(const ronde__ref_conv *p, const float *x, int64_t plane, int64_t oh, int64_t ow) {
  int64_t best = -1;
  for (int kh = 0; kh < p->kh; kh++)
    for (int kw = 0; kw < p->kw; kw++) {
      int64_t i = input_at(p, plane, oh, ow, kh, kw);
      if (i < 0) continue;
      if (best < 0 || x[i] > x[best] || (isnan(x[i]) && !isnan(x[best]))) best = i;
    }
  return best;
}

void ronde__ref_max_pool_forward(const ronde__ref_conv *p, const float *x, float *y) {
  for (int64_t plane = 0; plane < p->n * p->c; plane++)
    for (int64_t oh = 0; oh < out_h(p); oh++)
      for (int64_t ow = 0; ow < out_w(p); ow++) *y++ = x[window_max(p, x, plane, oh, ow)];
}

void ronde__ref_max_pool_backward(const ronde__ref_conv *p, const float *x, const float *dy, float *dx) {
  int64_t n_x = p->n * p->c * p->h * p->w;
  double *sum_x = zeros(n_x);
  for (int64_t plane = 0; plane < p->n * p->c; plane++)
    for (int64_t oh = 0; oh < out_h(p); oh++)
      for (int64_t ow = 0; ow < out_w(p); ow++) sum_x[window_max(p, x, plane, oh, ow)] += *dy++;
  round_to(sum_x, n_x, dx);
}

static int64_t window_size(const ronde__ref_conv *p, bool exclude_padding, int64_t oh, int64_t ow) {
  int64_t size = 0;
  for (int kh = 0; kh < p->kh; kh++)
    for (int kw = 0; kw < p->kw; kw++) {
      bool padded =
          oh * p->sh + kh * p->dh < p->h + 2 * p->ph + p->eh && ow * p->sw + kw * p->dw < p->w + 2 * p->pw + p->ew;
      size += exclude_padding ? input_at(p, 0, oh, ow, kh, kw) >= 0 : padded;
    }
  return size;
}

void ronde__ref_avg_pool_forward(const ronde__ref_conv *p, bool exclude_padding, const float *x, float *y) {
  for (int64_t plane = 0; plane < p->n * p->c; plane++)
    for (int64_t oh = 0; oh < out_h(p); oh++)
      for (int64_t ow = 0; ow < out_w(p); ow++) {
        double sum = 0;
        for (int kh = 0; kh < p->kh; kh++)
          for (int kw = 0; kw < p->kw; kw++) {
            int64_t i = input_at(p, plane, oh, ow, kh, kw);
            if (i >= 0) sum += x[i];
          }
        *y++ = (float)(sum / (double)window_size(p, exclude_padding, oh, ow));
      }
}

void ronde__ref_avg_pool_backward(const ronde__ref_conv *p, bool exclude_padding, const float *dy, float *dx) {
  int64_t n_x = p->n * p->c * p->h * p->w;
  double *sum_x = zeros(n_x);
  for (int64_t plane = 0; plane < p->n * p->c; plane++)
    for (int64_t oh = 0; oh < out_h(p); oh++)
      for (int64_t ow = 0; ow < out_w(p); ow++) {
        double d = *dy++ / (double)window_size(p, exclude_padding, oh, ow);
        for (int kh = 0; kh < p->kh; kh++)
          for (int kw = 0; kw < p->kw; kw++) {
            int64_t i = input_at(p, plane, oh, ow, kh, kw);
            if (i >= 0) sum_x[i] += d;
          }
      }
  round_to(sum_x, n_x, dx);
}

void ronde__ref_act_forward(ronde__activation act, int64_t n, const float *x, float *y) {
  for (int64_t i = 0; i < n; i++) {
    double v = x[i];
    if (act == RONDE__ACT_RELU) v = v < 0 ? 0 : v;
    if (act == RONDE__ACT_TANH) v = tanh(v);
    if (act == RONDE__ACT_SIGMOID) v = 1 / (1 + exp(-v));
    y[i] = (float)v;
  }
}

void ronde__ref_act_backward(ronde__activation act, int64_t n, const float *y, const float *dy, float *dx) {
  for (int64_t i = 0; i < n; i++) {
    double v = y[i], d = dy[i];
    if (act == RONDE__ACT_RELU) d = v <= 0 ? 0 : d;
    if (act == RONDE__ACT_TANH) d *= 1 - v * v;
    if (act == RONDE__ACT_SIGMOID) d *= (1 - v) * v;
    dx[i] = (float)d;
  }
}

static double ref_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double ref_between(double x, double lower, double upper) { return x < lower ? lower : x > upper ? upper : x; }

/* Twice what the tanh of GELU's second form is taken of. */
static double ref_gelu_argument(double x) { return 2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x); }

double ronde__ref_pointwise(const ronde__pointwise *f, double x) {
  double a = (double)f->a, b = (double)f->b, low = ref_between(x, -1000, INFINITY); /* no infinity times zero */
  switch (f->kind) {
  case RONDE__POINTWISE_GELU: return low * erfc(-low / sqrt(2)) / 2;
  case RONDE__POINTWISE_GELU_TANH: return low * ref_sigmoid(ref_gelu_argument(low));
  case RONDE__POINTWISE_SILU: return low * ref_sigmoid(low);
  case RONDE__POINTWISE_HARD_SWISH: return low * (ref_between(low, -3, 3) + 3) / 6;
  case RONDE__POINTWISE_HARD_SIGMOID: return ref_between(a * x + b, 0, 1);
  case RONDE__POINTWISE_LEAKY_RELU: return x < 0 ? a * x : x;
  case RONDE__POINTWISE_ELU: return x < 0 ? a * expm1(x) : x;
  case RONDE__POINTWISE_CLIP: return ref_between(x, a, b);
  }
  return NAN;
}

/* At a kink, PyTorch's choice. */
double ronde__ref_pointwise_slope(const ronde__pointwise *f, double x) {
  double a = (double)f->a, b = (double)f->b, z = ref_between(x, -1000, 1000), s;
  switch (f->kind) {
  case RONDE__POINTWISE_GELU: return erfc(-z / sqrt(2)) / 2 + z * exp(-z * z / 2) / sqrt(2 * M_PI);
  case RONDE__POINTWISE_GELU_TANH:
    s = ref_sigmoid(ref_gelu_argument(z));
    return s + z * s * (1 - s) * 2 * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * z * z);
  case RONDE__POINTWISE_SILU: s = ref_sigmoid(z); return s + z * s * (1 - s);
  case RONDE__POINTWISE_HARD_SWISH: return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
  case RONDE__POINTWISE_HARD_SIGMOID: return a * x + b <= 0 || a * x + b >= 1 ? 0 : a;
  case RONDE__POINTWISE_LEAKY_RELU: return x > 0 ? 1 : a;
  case RONDE__POINTWISE_ELU: return x > 0 ? 1 : a * exp(x);
  case RONDE__POINTWISE_CLIP: return x <= a || x >= b ? 0 : 1;
  }
  return NAN;
}

double ronde__ref_cross_entropy(int64_t n, int64_t k, const float *logits, const int64_t *labels, float *dlogits) {
  double loss = 0;
  for (int64_t r = 0; r < n; r++, logits += k) {
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < k; j++) largest = fmax(largest, logits[j]);
    for (int64_t j = 0; j < k; j++) sum += exp(logits[j] - largest);
    loss += log(sum) + largest - logits[labels[r]];
    for (int64_t j = 0; dlogits && j < k; j++)
      *dlogits++ = (float)((exp(logits[j] - largest) / sum - (j == labels[r])) / (double)n);
  }
  return loss / (double)n;
}

double ronde__ref_mse(int64_t n, const float *prediction, const float *target, float *dprediction) {
  double loss = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = (double)prediction[i] - (double)target[i];
    loss += d * d;
    if (dprediction) dprediction[i] = (float)(2 * d / (double)n);
  }
  return loss / (double)n;
}

double ronde__ref_l1(int64_t n, const float *prediction, const float *target, float *dprediction) {
  double loss = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = (double)prediction[i] - (double)target[i];
    loss += fabs(d);
    if (dprediction) dprediction[i] = (float)((d > 0 ? 1 : d < 0 ? -1 : 0) / (double)n);
  }
  return loss / (double)n;
}

double ronde__ref_huber(int64_t n, double delta, const float *prediction, const float *target, float *dprediction) {
  double loss = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = (double)prediction[i] - (double)target[i];
    loss += fabs(d) <= delta ? 0.5 * d * d : delta * (fabs(d) - 0.5 * delta);
    if (dprediction) dprediction[i] = (float)(fmin(fmax(d, -delta), delta) / (double)n);
  }
  return loss / (double)n;
}

double ronde__ref_bce(int64_t n, const float *logits, const float *target, float *dlogits) {
  double loss = 0;
  for (int64_t i = 0; i < n; i++) {
    double s = 1 / (1 + exp(-(double)logits[i])), t = (double)target[i];
    loss -= t * log(s) + (1 - t) * log(1 - s);
    if (dlogits) dlogits[i] = (float)((s - t) / (double)n);
  }
  return loss / (double)n;
}

/* Where value i of channel k lies. */
static int64_t channel_place(int64_t k, int64_t i, int64_t c, int64_t pixels) {
  return (i / pixels * c + k) * pixels + i % pixels;
}

void ronde__ref_batch_norm_forward(int64_t n, int64_t c, int64_t pixels, double eps, const float *x,
                                   const float *weight, const float *bias, float *y, double *mean, double *var) {
  int64_t m = n * pixels;
  for (int64_t k = 0; k < c; k++) {
    mean[k] = var[k] = 0;
    for (int64_t i = 0; i < m; i++) mean[k] += x[channel_place(k, i, c, pixels)] / (double)m;
    for (int64_t i = 0; i < m; i++) var[k] += pow(x[channel_place(k, i, c, pixels)] - mean[k], 2) / (double)m;
    for (int64_t i = 0; i < m; i++) {
      int64_t at = channel_place(k, i, c, pixels);
      y[at] = (float)((x[at] - mean[k]) / sqrt(var[k] + eps) * weight[k] + bias[k]);
    }
  }
}

/* By the chain rule through mean and variance, term by term. */
void ronde__ref_batch_norm_backward(int64_t n, int64_t c, int64_t pixels, double eps, const float *x,
                                    const float *weight, const float *dy, float *dx, float *dweight, float *dbias) {
  int64_t m = n * pixels;
  for (int64_t k = 0; k < c; k++) {
    double mean = 0, var = 0, dw = 0, db = 0, dvar = 0, dmean = 0;
    for (int64_t i = 0; i < m; i++) mean += x[channel_place(k, i, c, pixels)] / (double)m;
    for (int64_t i = 0; i < m; i++) var += pow(x[channel_place(k, i, c, pixels)] - mean, 2) / (double)m;
    double deviation = sqrt(var + eps);
    for (int64_t i = 0; i < m; i++) {
      int64_t at = channel_place(k, i, c, pixels);
      double centred = x[at] - mean, dnormal = (double)dy[at] * weight[k];
      dw += dy[at] * centred / deviation;
      db += dy[at];
      dvar += dnormal * centred * -0.5 / pow(deviation, 3);
      dmean -= dnormal / deviation;
    }
    for (int64_t i = 0; i < m; i++) {
      int64_t at = channel_place(k, i, c, pixels);
      dx[at] =
          (float)((double)dy[at] * weight[k] / deviation + dvar * 2 * (x[at] - mean) / (double)m + dmean / (double)m);
    }
    dweight[k] = (float)dw;
    dbias[k] = (float)db;
  }
}

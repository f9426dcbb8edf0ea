/* The gates of recurrent layers: one step of one example in one pass, from the sums of products to the new state. */
#include "kernel/simd_math.h"

/* What goes into an activation is at most `clip` away from 0; 0: as far as it likes. */
INLINE vec bound_sum(vec x, float clip) {
  if (clip <= 0) return x;
  x = blend(x > clip, splat(clip), x);
  return blend(x < -clip, splat(-clip), x);
}

/* What an activation makes of both ends, between which its slope counts. */
typedef struct ends {
  vec low, high;
} ends;

INLINE ends sigmoid_ends(float clip) {
  vec x[2] = {splat(-clip), splat(clip)};
  if (clip > 0) sigmoid_each(2, x);
  return (ends){x[0], x[1]};
}

INLINE ends tanh_ends(float clip) {
  vec x[2] = {splat(-clip), splat(clip)};
  if (clip > 0) tanh_each(2, x);
  return (ends){x[0], x[1]};
}

/* The gradient of what went into an activation that gave y. */
INLINE vec passed(vec gradient, vec y, const ends *between, float clip) {
  if (clip <= 0) return gradient;
  return blend((y > between->low) & (y < between->high), gradient, splat(0));
}

/* Of h values at i, the gates of which lie h apart. */
void NAME(lstm_step)(float *gates, const float *bias, const float *peepholes, const float *cell_before, float *cell,
                     float *y, float clip, int64_t h) {
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec sum[4], c, before = {0};
    if (cell_before) before = load_some(cell_before + i, live);
    UNROLL
    for (int g = 0; g < 4; g++) {
      sum[g] = load_some(gates + g * h + i, live);
      if (bias) sum[g] += load_some(bias + g * h + i, live);
    }
    if (peepholes) {
      sum[0] += load_some(peepholes + i, live) * before;
      sum[1] += load_some(peepholes + h + i, live) * before;
    }
    vec open[3] = {bound_sum(sum[0], clip), bound_sum(sum[1], clip), peepholes ? sum[3] : bound_sum(sum[3], clip)};
    sum[2] = bound_sum(sum[2], clip);
    if (peepholes) sigmoid_each(2, open);
    else sigmoid_each(3, open);
    tanh_each(1, &sum[2]);
    c = open[0] * sum[2];
    if (cell_before) c += open[1] * before;
    if (peepholes) {
      open[2] = bound_sum(open[2] + load_some(peepholes + 2 * h + i, live) * c, clip);
      sigmoid_each(1, &open[2]);
    }
    store_some(gates + i, open[0], live);
    store_some(gates + h + i, open[1], live);
    store_some(gates + 2 * h + i, sum[2], live);
    store_some(gates + 3 * h + i, open[2], live);
    store_some(cell + i, c, live);
    c = bound_sum(c, clip);
    tanh_each(1, &c);
    store_some(y + i, open[2] * c, live);
  }
}

void NAME(lstm_step_back)(const float *gates, const float *peepholes, const float *cell_before, const float *cell,
                          const float *dy, float *dh, float *dcell, float *dgates, float clip, int64_t h) {
  const ends of_sigmoid = sigmoid_ends(clip), of_tanh = tanh_ends(clip);
  for (int64_t k = 0; k < h; k += LANES) {
    int64_t live = ronde__min(LANES, h - k);
    vec i = load_some(gates + k, live), f = load_some(gates + h + k, live), g = load_some(gates + 2 * h + k, live);
    vec o = load_some(gates + 3 * h + k, live), y = load_some(cell + k, live), of_h = load_some(dh + k, live);
    if (dy) of_h += load_some(dy + k, live);
    y = bound_sum(y, clip);
    tanh_each(1, &y);
    vec of_c = load_some(dcell + k, live) + passed(of_h * o * (1.0f - y * y), y, &of_tanh, clip), before = {0};
    vec of_o = passed(of_h * y * o * (1.0f - o), o, &of_sigmoid, clip);
    if (cell_before) before = load_some(cell_before + k, live);
    if (peepholes) of_c += of_o * load_some(peepholes + 2 * h + k, live);
    vec of_i = passed(of_c * g * i * (1.0f - i), i, &of_sigmoid, clip);
    vec of_f = passed(of_c * before * f * (1.0f - f), f, &of_sigmoid, clip), to_before = of_c * f;
    if (peepholes) to_before += of_i * load_some(peepholes + k, live) + of_f * load_some(peepholes + h + k, live);
    store_some(dgates + k, of_i, live);
    store_some(dgates + h + k, of_f, live);
    store_some(dgates + 2 * h + k, passed(of_c * i * (1.0f - g * g), g, &of_tanh, clip), live);
    store_some(dgates + 3 * h + k, of_o, live);
    store_some(dcell + k, to_before, live);
    store_some(dh + k, (vec){0}, live);
  }
}

void NAME(gru_step)(float *gates, const float *sums, const float *bias, const float *y_before, float *y, float clip,
                    int64_t h) {
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec open[2], n = load_some(gates + 2 * h + i, live), q = load_some(sums + 2 * h + i, live);
    UNROLL
    for (int g = 0; g < 2; g++) {
      open[g] = load_some(gates + g * h + i, live) + load_some(sums + g * h + i, live);
      if (bias) open[g] += load_some(bias + g * h + i, live);
    }
    if (bias) n += load_some(bias + 2 * h + i, live);
    if (bias) q += load_some(bias + 3 * h + i, live);
    for (int g = 0; g < 2; g++) open[g] = bound_sum(open[g], clip);
    sigmoid_each(2, open);
    n = bound_sum(n + open[0] * q, clip);
    tanh_each(1, &n);
    store_some(gates + i, open[0], live);
    store_some(gates + h + i, open[1], live);
    store_some(gates + 2 * h + i, n, live);
    store_some(gates + 3 * h + i, q, live);
    store_some(y + i, n + open[1] * (load_some(y_before + i, live) - n), live);
  }
}

void NAME(gru_step_back)(const float *gates, const float *y_before, const float *dy, float *dh, float *dgates,
                         float clip, int64_t h) {
  const ends of_sigmoid = sigmoid_ends(clip), of_tanh = tanh_ends(clip);
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec r = load_some(gates + i, live), z = load_some(gates + h + i, live), n = load_some(gates + 2 * h + i, live);
    vec q = load_some(gates + 3 * h + i, live), of_h = load_some(dh + i, live);
    if (dy) of_h += load_some(dy + i, live);
    vec of_n = passed(of_h * (1.0f - z) * (1.0f - n * n), n, &of_tanh, clip);
    vec of_z = of_h * (load_some(y_before + i, live) - n);
    store_some(dgates + i, passed(of_n * q * r * (1.0f - r), r, &of_sigmoid, clip), live);
    store_some(dgates + h + i, passed(of_z * z * (1.0f - z), z, &of_sigmoid, clip), live);
    store_some(dgates + 2 * h + i, of_n, live);
    store_some(dgates + 3 * h + i, of_n * r, live);
    store_some(dh + i, of_h * z, live);
  }
}

void NAME(gru_reset)(float *gates, const float *bias, const float *y_before, float *reset, float clip, int64_t h) {
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec open[2];
    UNROLL
    for (int g = 0; g < 2; g++) {
      open[g] = load_some(gates + g * h + i, live);
      if (bias) open[g] += load_some(bias + g * h + i, live);
      open[g] = bound_sum(open[g], clip);
    }
    sigmoid_each(2, open);
    store_some(gates + i, open[0], live);
    store_some(gates + h + i, open[1], live);
    store_some(reset + i, open[0] * load_some(y_before + i, live), live);
  }
}

void NAME(gru_reset_step)(float *gates, const float *bias, const float *y_before, float *y, float clip, int64_t h) {
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec n = load_some(gates + 2 * h + i, live), z = load_some(gates + h + i, live);
    if (bias) n += load_some(bias + 2 * h + i, live);
    n = bound_sum(n, clip);
    tanh_each(1, &n);
    store_some(gates + 2 * h + i, n, live);
    store_some(y + i, n + z * (load_some(y_before + i, live) - n), live);
  }
}

void NAME(gru_reset_step_back)(const float *gates, const float *y_before, const float *dy, float *dh, float *dgates,
                               float clip, int64_t h) {
  const ends of_sigmoid = sigmoid_ends(clip), of_tanh = tanh_ends(clip);
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec z = load_some(gates + h + i, live), n = load_some(gates + 2 * h + i, live), of_h = load_some(dh + i, live);
    if (dy) of_h += load_some(dy + i, live);
    vec of_z = of_h * (load_some(y_before + i, live) - n) * z * (1.0f - z);
    store_some(dgates + h + i, passed(of_z, z, &of_sigmoid, clip), live);
    store_some(dgates + 2 * h + i, passed(of_h * (1.0f - z) * (1.0f - n * n), n, &of_tanh, clip), live);
    store_some(dh + i, of_h * z, live);
  }
}

void NAME(gru_reset_back)(const float *gates, const float *y_before, const float *dreset, float *dh, float *dgates,
                          float *reset, float clip, int64_t h) {
  const ends of_sigmoid = sigmoid_ends(clip);
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec r = load_some(gates + i, live), before = load_some(y_before + i, live), of_reset = load_some(dreset + i, live);
    store_some(dgates + i, passed(of_reset * before * r * (1.0f - r), r, &of_sigmoid, clip), live);
    store_some(dh + i, load_some(dh + i, live) + of_reset * r, live);
    store_some(reset + i, r * before, live);
  }
}

void NAME(rnn_step)(float *gate, const float *bias, bool relu, float *y, float clip, int64_t h) {
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec sum = load_some(gate + i, live);
    if (bias) sum += load_some(bias + i, live);
    sum = bound_sum(sum, clip);
    if (relu) sum = blend(sum < 0.0f, splat(0), sum);
    else tanh_each(1, &sum);
    store_some(gate + i, sum, live);
    store_some(y + i, sum, live);
  }
}

void NAME(rnn_step_back)(const float *gate, const float *dy, bool relu, float *dh, float *dgate, float clip,
                         int64_t h) {
  const ends of_gate = relu ? (ends){splat(-clip), splat(clip)} : tanh_ends(clip);
  for (int64_t i = 0; i < h; i += LANES) {
    int64_t live = ronde__min(LANES, h - i);
    vec y = load_some(gate + i, live), of_h = load_some(dh + i, live);
    if (dy) of_h += load_some(dy + i, live);
    vec of_sum = relu ? blend(y > 0.0f, of_h, splat(0)) : of_h * (1.0f - y * y);
    store_some(dgate + i, passed(of_sum, y, &of_gate, clip), live);
    store_some(dh + i, (vec){0}, live);
  }
}

/* Group normalisation: y = (x - mean) / sqrt(variance + eps) * weight + bias, by the statistics of each group of channels
 * of each example; instance normalisation has one channel a group. Source: Wu & He, "Group normalization", 2018.
 * A lane is a channel of an example, and in BLOCKS a padded one too: in all layouts lanes lie as an activation of one pixel
 * does, `step` of them side by side in each pixel. Sums are of lanes, each in the order of its pixels, then of groups.
 * Legend: r = 1 / sqrt(variance + eps), z = (x - mean) r. */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"

#include <math.h>
#include <string.h>

static ronde_status group_norm_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                     const char *const *in_labels, ronde__shape *out) {
  char text[96];
  ronde__shape_text(&in[0], text, sizeof text);
  if (in[0].rank < 1 || attr->groups < 1 || in[0].dim[0] % attr->groups)
    return ronde__fail(RONDE_E_USAGE, "%s: %d groups do not divide the channels of %s, which gives %s", label,
                       attr->groups, in_labels[0], text);
  if (ronde__shape_elems(&in[0]) == attr->groups)
    return ronde__fail(RONDE_E_USAGE, "%s: %d groups of %s, which gives %s, have a single value each, and no variance",
                       label, attr->groups, in_labels[0], text);
  *out = in[0];
  return RONDE_OK;
}

static int group_norm_params(const ronde__op_attr *attr, const ronde__shape *in,
                             ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  const ronde__shape shape = {1, {in[0].dim[0]}};
  specs[0] = (ronde__param_spec){.suffix = "weight", .shape = shape, .bound = 1, .init = RONDE_INIT_CONSTANT};
  specs[1] = (ronde__param_spec){.suffix = "bias", .shape = shape, .bound = 0, .init = RONDE_INIT_CONSTANT};
  return attr->affine ? 2 : 0;
}

static void group_norm_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->in[0] = desc->out[0] = ronde__phys_of_shape_in(desc->in[0].layout, &in[0], desc->in[0].n);
  for (int i = 0; i < 2; i++) desc->param[i] = ronde__weight_layout_make(RONDE__PLAIN, in[0].dim[0], 1, 1, 1, 1);
}

/* ---- lanes ---- */

enum { TILE = 64 }; /* of lanes, whose sums stay in registers or in cache */

static ronde__phys lanes_of(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[0];
  return ronde__phys_make(x->layout, x->n, x->c, 1, 1);
}

static int64_t n_lanes(const ronde__op_desc *desc) {
  ronde__phys lanes = lanes_of(desc);
  return ronde__phys_elems(&lanes);
}

static int64_t n_groups(const ronde__op_desc *desc) { return desc->in[0].n * desc->attr.groups; }

/* Lanes side by side, from `first` on: element p step + i is pixel p of lane first + i. */
typedef struct tile {
  int64_t first, n, at, pixels, step;
} tile;

static tile tile_at(const ronde__op_desc *desc, int64_t first, int64_t end) {
  const ronde__phys *x = &desc->in[0];
  tile t = {.first = first, .pixels = x->h * x->w, .step = x->layout == RONDE__ROWS ? 1 : x->block};
  if (x->layout == RONDE__BLOCKS) t.step *= x->n;
  t.at = first / t.step * t.step * t.pixels + first % t.step;
  t.n = ronde__min(ronde__min(TILE, t.step - first % t.step), end - first);
  return t;
}

/* What the passes of a call have in scratch. */
typedef struct norm_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  double *sums, *dots;                      /* [lanes] */
  float *mean, *scale, *shift, *shift_by_x; /* [lanes] */
} norm_job;

static norm_job make_job(const ronde__op_desc *desc, const ronde__op_call *call) {
  int64_t n = n_lanes(desc);
  norm_job j = {.desc = desc, .call = call, .sums = (double *)(void *)call->work};
  j.dots = j.sums + n;
  j.mean = (float *)(void *)(j.dots + n);
  j.scale = j.mean + n, j.shift = j.scale + n, j.shift_by_x = j.shift + n;
  memset(j.mean, 0, (size_t)(4 * n) * sizeof *j.mean);
  return j;
}

static size_t group_norm_work(const ronde__op_desc *desc, const void *state, bool backward) {
  return (size_t)n_lanes(desc) * (2 * sizeof(double) / sizeof(float) + 4);
}

/* Mean and r of each group. */
static size_t group_norm_saved(const ronde__op_desc *desc, const void *state) { return (size_t)(2 * n_groups(desc)); }

static int64_t group_elems(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[0];
  return x->c / desc->attr.groups * x->h * x->w;
}

/* Lane of channel i of group g, counted over all examples. */
static int64_t lane_of(const ronde__op_desc *desc, const ronde__phys *lanes, int64_t g, int64_t i) {
  int64_t groups = desc->attr.groups, width = lanes->c / groups;
  return ronde__phys_index(lanes, g / groups, g % groups * width + i, 0);
}

static int64_t channel_of(const ronde__op_desc *desc, int64_t g, int64_t i) {
  int64_t groups = desc->attr.groups;
  return g % groups * (desc->in[0].c / groups) + i;
}

static double sum_of_group(const ronde__op_desc *desc, const ronde__phys *lanes, int64_t g, const double *sums) {
  double sum = 0;
  for (int64_t i = 0; i < lanes->c / desc->attr.groups; i++) sum += sums[lane_of(desc, lanes, g, i)];
  return sum;
}

/* ---- forward ---- */

static void sums_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(n_lanes(j->desc), thread, n_threads, &begin, &end);
  for (tile t; begin < end; begin += t.n) {
    t = tile_at(j->desc, begin, end);
    double sums[TILE] = {0};
    for (int64_t p = 0; p < t.pixels; p++)
      for (int64_t i = 0; i < t.n; i++) sums[i] += (double)j->call->in[0][t.at + p * t.step + i];
    memcpy(j->sums + t.first, sums, (size_t)t.n * sizeof *sums);
  }
}

static void means_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  const ronde__phys lanes = lanes_of(j->desc);
  int64_t begin, end;
  ronde__thread_chunk(n_groups(j->desc), thread, n_threads, &begin, &end);
  for (int64_t g = begin; g < end; g++) {
    float mean = (float)(sum_of_group(j->desc, &lanes, g, j->sums) / (double)group_elems(j->desc));
    j->call->saved[2 * g] = mean;
    for (int64_t i = 0; i < lanes.c / j->desc->attr.groups; i++) j->mean[lane_of(j->desc, &lanes, g, i)] = mean;
  }
}

static void squares_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(n_lanes(j->desc), thread, n_threads, &begin, &end);
  for (tile t; begin < end; begin += t.n) {
    t = tile_at(j->desc, begin, end);
    double sums[TILE] = {0};
    for (int64_t p = 0; p < t.pixels; p++)
      for (int64_t i = 0; i < t.n; i++) {
        double z = (double)j->call->in[0][t.at + p * t.step + i] - (double)j->mean[t.first + i];
        sums[i] += z * z;
      }
    memcpy(j->dots + t.first, sums, (size_t)t.n * sizeof *sums);
  }
}

static void scales_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  const ronde__phys lanes = lanes_of(j->desc);
  const float *weight = j->call->param[0], *bias = j->call->param[1];
  int64_t begin, end;
  ronde__thread_chunk(n_groups(j->desc), thread, n_threads, &begin, &end);
  for (int64_t g = begin; g < end; g++) {
    double variance = sum_of_group(j->desc, &lanes, g, j->dots) / (double)group_elems(j->desc);
    float r = (float)(1 / sqrt(variance + (double)j->desc->attr.eps));
    j->call->saved[2 * g + 1] = r;
    for (int64_t i = 0; i < lanes.c / j->desc->attr.groups; i++) {
      int64_t lane = lane_of(j->desc, &lanes, g, i), c = channel_of(j->desc, g, i);
      j->scale[lane] = j->desc->attr.affine ? r * weight[c] : r;
      j->shift[lane] = j->desc->attr.affine ? bias[c] : 0;
    }
  }
}

static void apply_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(n_lanes(j->desc), thread, n_threads, &begin, &end);
  for (tile t; begin < end; begin += t.n) {
    t = tile_at(j->desc, begin, end);
    const float *mean = j->mean + t.first, *scale = j->scale + t.first, *shift = j->shift + t.first;
    for (int64_t p = 0; p < t.pixels; p++) {
      const float *x = j->call->in[0] + t.at + p * t.step;
      float *y = j->call->out[0] + t.at + p * t.step;
      for (int64_t i = 0; i < t.n; i++) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
    }
  }
}

static ronde_status group_norm_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  norm_job j = make_job(desc, call);
  ronde__pool_run(call->pool, sums_part, &j);
  ronde__pool_run(call->pool, means_part, &j);
  ronde__pool_run(call->pool, squares_part, &j);
  ronde__pool_run(call->pool, scales_part, &j);
  ronde__pool_run(call->pool, apply_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

/* Of each lane the sums of dy and of dy z. */
static void gradient_sums_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(n_lanes(j->desc), thread, n_threads, &begin, &end);
  for (tile t; begin < end; begin += t.n) {
    t = tile_at(j->desc, begin, end);
    double sums[TILE] = {0}, dots[TILE] = {0};
    for (int64_t p = 0; p < t.pixels; p++) {
      const float *x = j->call->in[0] + t.at + p * t.step, *dy = j->call->dout[0] + t.at + p * t.step;
      for (int64_t i = 0; i < t.n; i++) {
        sums[i] += (double)dy[i];
        dots[i] += (double)dy[i] * ((double)x[i] - (double)j->mean[t.first + i]);
      }
    }
    for (int64_t i = 0; i < t.n; i++) {
      j->sums[t.first + i] = sums[i];
      j->dots[t.first + i] = dots[i] * (double)j->scale[t.first + i];
    }
  }
}

/* Of each lane mean and r, as forward left them. */
static void statistics_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  const ronde__phys lanes = lanes_of(j->desc);
  int64_t begin, end;
  ronde__thread_chunk(n_groups(j->desc), thread, n_threads, &begin, &end);
  for (int64_t g = begin; g < end; g++)
    for (int64_t i = 0; i < lanes.c / j->desc->attr.groups; i++) {
      int64_t lane = lane_of(j->desc, &lanes, g, i);
      j->mean[lane] = j->call->saved[2 * g];
      j->scale[lane] = j->call->saved[2 * g + 1];
    }
}

static void write_gradient(const ronde__op_call *call, int param, int64_t c, double sum) {
  float *gradient = call->dparam[param];
  if (gradient) gradient[c] = (float)((call->accumulate_dparam[param] ? (double)gradient[c] : 0) + sum);
}

static void params_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  const ronde__phys lanes = lanes_of(j->desc);
  int64_t begin, end;
  ronde__thread_chunk(lanes.c, thread, n_threads, &begin, &end);
  for (int64_t c = begin; c < end; c++) {
    double sum = 0, dot = 0;
    for (int64_t n = 0; n < lanes.n; n++) {
      int64_t lane = ronde__phys_index(&lanes, n, c, 0);
      sum += j->sums[lane], dot += j->dots[lane];
    }
    write_gradient(j->call, 0, c, dot);
    write_gradient(j->call, 1, c, sum);
  }
}

/* With e = dy weight: dx = r (e - mean of e - z * mean of e z), as scale dy - shift - shift_by_x (x - mean). */
static void factors_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  const ronde__phys lanes = lanes_of(j->desc);
  int64_t begin, end, width = lanes.c / j->desc->attr.groups;
  ronde__thread_chunk(n_groups(j->desc), thread, n_threads, &begin, &end);
  for (int64_t g = begin; g < end; g++) {
    double sum = 0, dot = 0, r = (double)j->call->saved[2 * g + 1];
    for (int64_t i = 0; i < width; i++) {
      int64_t lane = lane_of(j->desc, &lanes, g, i);
      double weight = j->desc->attr.affine ? (double)j->call->param[0][channel_of(j->desc, g, i)] : 1;
      sum += weight * j->sums[lane], dot += weight * j->dots[lane];
      j->scale[lane] = (float)(r * weight);
    }
    for (int64_t i = 0; i < width; i++) {
      int64_t lane = lane_of(j->desc, &lanes, g, i);
      j->shift[lane] = (float)(r * sum / (double)group_elems(j->desc));
      j->shift_by_x[lane] = (float)(r * r * dot / (double)group_elems(j->desc));
    }
  }
}

static void data_part(void *arg, int thread, int n_threads) {
  const norm_job *j = arg;
  bool accumulate = j->call->accumulate_dinput[0];
  int64_t begin, end;
  ronde__thread_chunk(n_lanes(j->desc), thread, n_threads, &begin, &end);
  for (tile t; begin < end; begin += t.n) {
    t = tile_at(j->desc, begin, end);
    const float *mean = j->mean + t.first, *scale = j->scale + t.first, *shift = j->shift + t.first;
    const float *shift_by_x = j->shift_by_x + t.first;
    for (int64_t p = 0; p < t.pixels; p++) {
      const float *x = j->call->in[0] + t.at + p * t.step, *dy = j->call->dout[0] + t.at + p * t.step;
      float *dx = j->call->din[0] + t.at + p * t.step;
      for (int64_t i = 0; i < t.n; i++) {
        float gradient = scale[i] * dy[i] - shift[i] - shift_by_x[i] * (x[i] - mean[i]);
        dx[i] = gradient + (accumulate ? dx[i] : 0);
      }
    }
  }
}

static ronde_status group_norm_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  norm_job j = make_job(desc, call);
  ronde__pool_run(call->pool, statistics_part, &j);
  ronde__pool_run(call->pool, gradient_sums_part, &j);
  if (call->dparam[0] || call->dparam[1]) ronde__pool_run(call->pool, params_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, factors_part, &j);
  if (call->din[0]) ronde__pool_run(call->pool, data_part, &j);
  return RONDE_OK;
}

static const char *group_norm_implementation(const ronde__op_desc *desc, const void *state) { return "c"; }

static const ronde__form group_norm_form = {
    .work_elems = group_norm_work,
    .saved_elems = group_norm_saved,
    .forward = group_norm_forward,
    .backward = group_norm_backward,
    .implementation = group_norm_implementation,
};

const ronde__op ronde__op_group_norm = {
    .name = "group_norm",
    .infer = group_norm_infer,
    .params = group_norm_params,
    .layouts = group_norm_layouts,
    .backward_reads = {.in = 1},
    .dinput_in_dout = 1,
    .forms = (const ronde__form *const[]){&group_norm_form, NULL},
};

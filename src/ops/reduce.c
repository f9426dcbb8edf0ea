/* y = the sum, mean, maximum, minimum or product over some dimensions of an example, in f64 and in the order of the input's
 * elements. Over pixels alone it stays in the layout of the image. */
#include "ops/reduce.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/walk.h"

#include <math.h>

ronde_status ronde__reduce_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out) {
  if (attr->dims == 0 || attr->dims >> in[0].rank) {
    char text[96];
    ronde__shape_text(&in[0], text, sizeof text);
    return ronde__fail(RONDE_E_USAGE, "%s: it reduces no dimension of %s (%s), or one that is not there", label,
                       in_labels[0], text);
  }
  *out = (ronde__shape){0};
  for (int d = 0; d < in[0].rank; d++) {
    bool goes = attr->dims >> d & 1;
    if (!goes || attr->keep) out->dim[out->rank++] = goes ? 1 : in[0].dim[d];
  }
  if (out->rank == 0) *out = (ronde__shape){1, {1}};
  return RONDE_OK;
}

void ronde__reduce_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__phys *x = &desc->in[0];
  int64_t n = x->n / ronde__phys_rows(x, &in[0]);
  bool pixels = in[0].rank == 3 && !(desc->attr.dims & 1);
  ronde__layout layout = pixels ? x->layout : RONDE__ROWS;
  desc->attr.shape = in[0];
  *x = ronde__phys_of_shape_in(layout, &in[0], n);
  desc->out[0] = ronde__phys_of_shape_in(layout, out, n);
}

/* Array 0 is the input, 1 the output, sorted so that the output's dimensions come first; returns how many they are. */
static int walk_of(const ronde__op_desc *desc, ronde__walk *walk) {
  const ronde__phys *x = &desc->in[0];
  bool pixels = x->layout != RONDE__ROWS;
  *walk = (ronde__walk){0};
  if (pixels) { /* [channels or blocks,H,W,floats of a pixel] */
    int64_t run = x->layout == RONDE__BLOCKS ? x->n * x->block : x->n, step = run;
    int64_t blocks = x->layout == RONDE__BLOCKS ? ronde__phys_blocks(x) : x->c;
    const int64_t size[] = {blocks, x->h, x->w, run};
    walk->rank = 4;
    for (int d = 3; d >= 0; d--) {
      bool goes = (d == 1 || d == 2) && desc->attr.dims >> d & 1;
      walk->size[d] = size[d];
      walk->step[0][d] = d == 3 ? 1 : step;
      walk->step[1][d] = goes ? 0 : d == 3 ? 1 : step;
      if (d < 3) step *= size[d];
    }
    int64_t own = run; /* steps of the output, which has no such dimensions */
    for (int d = 2; d >= 0; d--) {
      if (!walk->step[1][d]) continue;
      walk->step[1][d] = own;
      own *= size[d];
    }
  } else {
    ronde__walk_operand(walk, 0, x, &desc->attr.shape, x, 0, false);
    ronde__walk_operand(walk, 1, x, &desc->attr.shape, &desc->out[0], desc->attr.dims, false);
  }
  ronde__walk_merge(walk);
  for (int d = 0; d < walk->rank; d++)
    if (walk->size[d] == 1) walk->step[1][d] = 0;
  return ronde__walk_sort(walk, 1);
}

typedef struct reduce_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  ronde__walk walk;
  int kept;
} reduce_job;

enum { CHUNK = 256 };

static double start_of(ronde__reduce_kind kind) {
  switch (kind) {
  case RONDE__REDUCE_MAXIMUM: return -INFINITY;
  case RONDE__REDUCE_MINIMUM: return INFINITY;
  case RONDE__REDUCE_PRODUCT: return 1;
  default: return 0;
  }
}

/* Takes n more elements, one into each of n results, or all into one. */
static void take(ronde__reduce_kind kind, double *y, int64_t step_y, const float *x, int64_t step_x, int64_t n) {
  switch (kind) {
  case RONDE__REDUCE_MAXIMUM:
    for (int64_t i = 0; i < n; i++) {
      double v = (double)x[i * step_x];
      y[i * step_y] = v > y[i * step_y] || isnan(v) ? v : y[i * step_y];
    }
    break;
  case RONDE__REDUCE_MINIMUM:
    for (int64_t i = 0; i < n; i++) {
      double v = (double)x[i * step_x];
      y[i * step_y] = v < y[i * step_y] || isnan(v) ? v : y[i * step_y];
    }
    break;
  case RONDE__REDUCE_PRODUCT:
    for (int64_t i = 0; i < n; i++) y[i * step_y] *= (double)x[i * step_x];
    break;
  default:
    for (int64_t i = 0; i < n; i++) y[i * step_y] += (double)x[i * step_x];
  }
}

/* How many elements become one. */
static int64_t group_of(const reduce_job *j) { return ronde__walk_count(&j->walk, j->kept, j->walk.rank); }

static bool has_runs(const reduce_job *j) {
  const ronde__walk *w = &j->walk;
  return j->kept > 0 && w->step[0][j->kept - 1] == 1 && w->step[1][j->kept - 1] == 1;
}

/* Runs of adjacent results, or one result at a time. */
static int64_t run_of(const reduce_job *j) { return has_runs(j) ? ronde__min(CHUNK, j->walk.size[j->kept - 1]) : 1; }

typedef struct reduce_run {
  int64_t x, y, n;
} reduce_run;

static int64_t count_runs(const reduce_job *j) {
  int64_t results = ronde__walk_count(&j->walk, 0, j->kept);
  if (!has_runs(j)) return results;
  int64_t length = j->walk.size[j->kept - 1];
  return results / length * ronde__ceil_div(length, run_of(j));
}

static reduce_run run_at(const reduce_job *j, int64_t item) {
  const ronde__walk *w = &j->walk;
  if (!has_runs(j))
    return (reduce_run){ronde__walk_at(w, 0, 0, j->kept, item), ronde__walk_at(w, 1, 0, j->kept, item), 1};
  int64_t length = w->size[j->kept - 1], run = run_of(j), per_row = ronde__ceil_div(length, run),
          first = item % per_row * run, row = item / per_row;
  return (reduce_run){ronde__walk_at(w, 0, 0, j->kept - 1, row) + first,
                      ronde__walk_at(w, 1, 0, j->kept - 1, row) + first, ronde__min(run, length - first)};
}

static void forward_part(void *arg, int thread, int n_threads) {
  const reduce_job *j = arg;
  const ronde__walk *w = &j->walk;
  ronde__reduce_kind kind = j->desc->attr.reduce;
  int last = w->rank - 1;
  bool along = j->kept < w->rank && !has_runs(j); /* the innermost loop is over what goes */
  int64_t begin, end, group = group_of(j), inner = along ? w->size[last] : 1;
  ronde__thread_chunk(count_runs(j), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    reduce_run run = run_at(j, item);
    double y[CHUNK];
    for (int64_t i = 0; i < run.n; i++) y[i] = start_of(kind);
    for (int64_t g = 0; g < group / inner; g++) {
      const float *x = j->call->in[0] + run.x + ronde__walk_at(w, 0, j->kept, along ? last : w->rank, g);
      if (along) take(kind, y, 0, x, w->step[0][last], inner);
      else take(kind, y, 1, x, 1, run.n);
    }
    for (int64_t i = 0; i < run.n; i++)
      j->call->out[0][run.y + i] = (float)(kind == RONDE__REDUCE_MEAN ? y[i] / (double)group : y[i]);
  }
}

static ronde_status reduce_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  reduce_job j = {.desc = desc, .call = call};
  j.kept = walk_of(desc, &j.walk);
  ronde__pool_run(call->pool, forward_part, &j);
  ronde__elementwise_clear_padding(&desc->out[0], call->out[0]);
  return RONDE_OK;
}

/* The product of all elements of a group but one. */
static double product_of_others(const reduce_job *j, const float *x, int64_t but) {
  double product = 1;
  for (int64_t g = 0; g < group_of(j); g++)
    if (g != but) product *= (double)x[ronde__walk_at(&j->walk, 0, j->kept, j->walk.rank, g)];
  return product;
}

/* The slopes of one result by the elements of its group; extremes share theirs evenly, as PyTorch's amax does. */
static void spread(const reduce_job *j, int64_t x_at, int64_t y_at) {
  const ronde__op_call *call = j->call;
  ronde__reduce_kind kind = j->desc->attr.reduce;
  bool extreme = kind == RONDE__REDUCE_MAXIMUM || kind == RONDE__REDUCE_MINIMUM;
  int64_t group = group_of(j), n = 0;
  const float *x = call->in[0] ? call->in[0] + x_at : NULL;
  float dy = call->dout[0][y_at], y = extreme ? call->out[0][y_at] : 0;
  for (int64_t g = 0; g < group && extreme; g++) n += x[ronde__walk_at(&j->walk, 0, j->kept, j->walk.rank, g)] == y;
  for (int64_t g = 0; g < group; g++) {
    int64_t at = ronde__walk_at(&j->walk, 0, j->kept, j->walk.rank, g);
    float *dx = call->din[0] + x_at + at, slope;
    if (extreme) slope = x[at] == y ? dy / (float)n : 0;
    else if (kind == RONDE__REDUCE_PRODUCT) slope = (float)((double)dy * product_of_others(j, x, g));
    else slope = kind == RONDE__REDUCE_MEAN ? dy / (float)group : dy;
    *dx = slope + (call->accumulate_dinput[0] ? *dx : 0);
  }
}

static void backward_part(void *arg, int thread, int n_threads) {
  const reduce_job *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(count_runs(j), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    reduce_run run = run_at(j, item);
    for (int64_t i = 0; i < run.n; i++) spread(j, run.x + i, run.y + i);
  }
}

static ronde_status reduce_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  reduce_job j = {.desc = desc, .call = call};
  if (!call->din[0]) return RONDE_OK;
  j.kept = walk_of(desc, &j.walk);
  ronde__pool_run(call->pool, backward_part, &j);
  ronde__elementwise_clear_padding(&desc->in[0], call->din[0]);
  return RONDE_OK;
}

static const char *reduce_implementation(const ronde__op_desc *desc, const void *state) {
  static const char *const names[] = {"sum", "mean", "maximum", "minimum", "product"};
  return names[desc->attr.reduce];
}

const ronde__form ronde__reduce_form = {
    .forward = reduce_forward,
    .backward = reduce_backward,
    .implementation = reduce_implementation,
};

const ronde__op ronde__op_reduce = {
    .name = "reduce",
    .infer = ronde__reduce_infer,
    .layouts = ronde__reduce_layouts,
    .backward_reads = {.in = 1, .out = 1},
    .forms = (const ronde__form *const[]){&ronde__reduce_form, NULL},
};

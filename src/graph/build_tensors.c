/* The public calls of arithmetic, reductions and moves: what takes tensors of any rank. */
#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ronde_tensor *add_unary(ronde__op_kind kind, const ronde__op_attr *attr, const ronde_tensor *x) {
  return ronde__graph_add_node(kind, NULL, attr, &x, 1, NULL);
}

/* A list of sizes as long as the tensor has dimensions. */
static bool has_rank(const ronde_tensor *x, int rank, const char *what) {
  if (rank >= 1 && rank <= RONDE_MAX_RANK) return true;
  ronde__graph_fail(x->graph, ronde__fail(RONDE_E_USAGE, "%s: %s has 1 to %d dimensions, not %d", x->label, what,
                                          RONDE_MAX_RANK, rank));
  return false;
}

/* ---- arithmetic ---- */

static ronde_tensor *add_pair(ronde__pair_kind kind, ronde__op_kind alike, const ronde_tensor *a,
                              const ronde_tensor *b) {
  bool is_sum = kind == RONDE__PAIR_ADD || kind == RONDE__PAIR_SUBTRACT;
  if (!a || !b) return NULL;
  if (!ronde__shape_equal(&a->shape, &b->shape) || alike == RONDE__OP_PAIR)
    alike = is_sum ? RONDE__OP_PAIR_SUM : RONDE__OP_PAIR;
  return ronde__graph_add_node(alike, NULL, &(ronde__op_attr){.pair = kind}, (const ronde_tensor *const[]){a, b}, 2,
                               NULL);
}

ronde_tensor *ronde_add(const ronde_tensor *a, const ronde_tensor *b) {
  return add_pair(RONDE__PAIR_ADD, RONDE__OP_ADD, a, b);
}
ronde_tensor *ronde_subtract(const ronde_tensor *a, const ronde_tensor *b) {
  return add_pair(RONDE__PAIR_SUBTRACT, RONDE__OP_SUBTRACT, a, b);
}
ronde_tensor *ronde_multiply(const ronde_tensor *a, const ronde_tensor *b) {
  return add_pair(RONDE__PAIR_MULTIPLY, RONDE__OP_MULTIPLY, a, b);
}
ronde_tensor *ronde_divide(const ronde_tensor *a, const ronde_tensor *b) {
  return add_pair(RONDE__PAIR_DIVIDE, RONDE__OP_PAIR, a, b);
}
ronde_tensor *ronde_minimum(const ronde_tensor *a, const ronde_tensor *b) {
  return add_pair(RONDE__PAIR_MINIMUM, RONDE__OP_PAIR, a, b);
}
ronde_tensor *ronde_maximum(const ronde_tensor *a, const ronde_tensor *b) {
  return add_pair(RONDE__PAIR_MAXIMUM, RONDE__OP_PAIR, a, b);
}
ronde_tensor *ronde_power(const ronde_tensor *a, const ronde_tensor *b) {
  return add_pair(RONDE__PAIR_POWER, RONDE__OP_PAIR, a, b);
}

#define RONDE_FUNCTION(KIND, name, value, slope) \
  _Static_assert((int)RONDE_##KIND == (int)RONDE__FUNCTION_##KIND, "the order of ronde_function_kind");
#include "ops/functions.inc"
#undef RONDE_FUNCTION

ronde_tensor *ronde_function(const ronde_tensor *x, ronde_function_kind kind, float a, float b) {
  ronde__function f = {(ronde__function_kind)kind, a, b};
  if (x && ((int)kind < 0 || kind > RONDE_THRESHOLD))
    return ronde__graph_fail(x->graph, ronde__fail(RONDE_E_USAGE, "%s: there is no such function", x->label));
  return add_unary(RONDE__OP_FUNCTION, &(ronde__op_attr){.function = f}, x);
}

ronde_tensor *ronde_matmul(const ronde_tensor *a, const ronde_tensor *b, bool turn_a, bool turn_b) {
  return ronde__graph_add_node(RONDE__OP_MATMUL, NULL, &(ronde__op_attr){.turned = {turn_a, turn_b}},
                               (const ronde_tensor *const[]){a, b}, 2, NULL);
}

_Static_assert((int)RONDE_REDUCE_PRODUCT == (int)RONDE__REDUCE_PRODUCT, "the order of ronde_reduce_kind");

ronde_tensor *ronde_reduce(const ronde_tensor *x, ronde_reduce_kind kind, int n, const int *dims, bool keep) {
  ronde__op_attr attr = {.reduce = (ronde__reduce_kind)kind, .keep = keep};
  if (!x) return NULL;
  for (int i = 0; i < n; i++) {
    int d = dims[i] < 0 ? dims[i] + x->shape.rank : dims[i];
    if (d < 0 || d >= x->shape.rank)
      return ronde__graph_fail(x->graph, ronde__fail(RONDE_E_USAGE, "%s has no dimension %d", x->label, dims[i]));
    attr.dims |= 1u << d;
  }
  if (kind == RONDE_REDUCE_MEAN && x->shape.rank == 3 && attr.dims == 6) { /* which has a name of its own */
    ronde_tensor *y = ronde_adaptive_avg_pool2d(x, 1, 1);
    return keep ? y : ronde_flatten(y);
  }
  bool is_sum = kind == RONDE_REDUCE_SUM || kind == RONDE_REDUCE_MEAN;
  return add_unary(is_sum ? RONDE__OP_REDUCE_SUM : RONDE__OP_REDUCE, &attr, x);
}

/* ---- parameters ---- */

static ronde_status keep_values(ronde__param *param, const float *values) {
  size_t bytes = (size_t)ronde__shape_elems(&param->shape) * sizeof *values;
  if (param->values) return RONDE_OK; /* it is shared */
  param->values = malloc(bytes);
  if (!param->values) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its values", param->name);
  memcpy(param->values, values, bytes);
  return RONDE_OK;
}

ronde_status ronde__graph_fix(ronde_graph *graph, int param, const float *values) {
  graph->params[param].frozen = graph->params[param].fixed = true;
  return keep_values(&graph->params[param], values);
}

static ronde_tensor *add_parameter(ronde_graph *graph, const char *name, int rank, const int64_t *dims,
                                   float deviation) {
  ronde__op_attr attr = {.shape = {.rank = rank}, .deviation = deviation};
  if (graph->n_inputs == 0)
    return ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: the input comes before parameters", name));
  const ronde_tensor *x = graph->tensors[graph->inputs[0]];
  if (!has_rank(x, rank, name)) return NULL;
  memcpy(attr.shape.dim, dims, (size_t)rank * sizeof *dims);
  return ronde__graph_add_node(RONDE__OP_PARAMETER, name, &attr, &x, 1, NULL);
}

ronde_tensor *ronde_parameter_drawn(ronde_graph *graph, const char *name, int rank, const int64_t *dims,
                                    float deviation) {
  if (!(deviation > 0) || !isfinite(deviation))
    return ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: its deviation must be above 0", name));
  return add_parameter(graph, name, rank, dims, deviation);
}

ronde_tensor *ronde_parameter(ronde_graph *graph, const char *name, int rank, const int64_t *dims, const float *values,
                              bool fixed) {
  if (fixed && !values)
    return ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: a constant needs values", name));
  ronde_tensor *y = add_parameter(graph, name, rank, dims, 0);
  if (!y || !values) return y;
  const int param = graph->nodes[y->producer].param[0];
  ronde_status status = fixed ? ronde__graph_fix(graph, param, values) : keep_values(&graph->params[param], values);
  return status == RONDE_OK ? y : ronde__graph_fail(graph, status);
}

/* ---- moves ---- */

ronde_tensor *ronde_reshape(const ronde_tensor *x, int rank, const int64_t *dims) {
  ronde__op_attr attr = {.shape = {.rank = rank}};
  if (!x || !has_rank(x, rank, "a shape")) return NULL;
  memcpy(attr.shape.dim, dims, (size_t)rank * sizeof *dims);
  bool is_vector = rank == 1 && dims[0] == ronde__shape_elems(&x->shape);
  return is_vector ? ronde_flatten(x) : add_unary(RONDE__OP_RESHAPE, &attr, x);
}

ronde_tensor *ronde_transpose(const ronde_tensor *x, const int *order) {
  ronde__op_attr attr = {0};
  if (!x) return NULL;
  memcpy(attr.order, order, (size_t)x->shape.rank * sizeof *order);
  return add_unary(RONDE__OP_TRANSPOSE, &attr, x);
}

static ronde_tensor *add_slice(const ronde_tensor *x, ronde__op_attr *attr) {
  attr->shape.rank = x->shape.rank;
  return add_unary(RONDE__OP_SLICE, attr, x);
}

ronde_tensor *ronde_slice(const ronde_tensor *x, const int64_t *begin, const int64_t *step, const int64_t *sizes) {
  ronde__op_attr attr = {0};
  if (!x) return NULL;
  for (int d = 0; d < x->shape.rank; d++) {
    int64_t last = begin[d] + (sizes[d] - 1) * step[d], n = x->shape.dim[d];
    attr.begin[d] = begin[d];
    attr.by[d] = step[d];
    attr.shape.dim[d] = sizes[d];
    if (begin[d] < 0 || begin[d] >= n || sizes[d] < 1 || sizes[d] > n || step[d] > n || step[d] < -n || last < 0 ||
        last >= n)
      return ronde__graph_fail(x->graph,
                               ronde__fail(RONDE_E_USAGE, "%s: a slice reaches beyond its dimension %d", x->label, d));
  }
  return add_slice(x, &attr);
}

_Static_assert((int)RONDE_PAD_WRAP == (int)RONDE__OUTSIDE_WRAP, "the order of ronde_pad_mode");

ronde_tensor *ronde_pad(const ronde_tensor *x, const int64_t *before, const int64_t *after, ronde_pad_mode mode,
                        float value) {
  ronde__op_attr attr = {.outside = (ronde__window_mode)mode, .value = mode == RONDE_PAD_VALUE ? value : 0};
  if (!x) return NULL;
  for (int d = 0; d < x->shape.rank; d++) {
    if (before[d] < -INT32_MAX || before[d] > INT32_MAX || after[d] < -INT32_MAX || after[d] > INT32_MAX)
      return ronde__graph_fail(x->graph, ronde__fail(RONDE_E_USAGE, "%s: its padding is too large", x->label));
    attr.begin[d] = -before[d];
    attr.by[d] = 1;
    attr.shape.dim[d] = x->shape.dim[d] + before[d] + after[d];
  }
  return add_slice(x, &attr);
}

void ronde_cut_along(const ronde_tensor *x, int dim, int n, const int64_t *sizes, ronde_tensor **pieces_out) {
  ronde__op_attr attr = {.n_outputs = n, .dim = dim};
  for (int i = 0; i < n; i++) pieces_out[i] = NULL;
  if (!x) return;
  if (n < 2 || n > RONDE__OP_MAX_OUTPUTS) {
    ronde__graph_fail(x->graph, ronde__fail(RONDE_E_USAGE, "%s: it can be split into 2 to %d pieces, not %d", x->label,
                                            RONDE__OP_MAX_OUTPUTS, n));
    return;
  }
  if (dim < 0) attr.dim += x->shape.rank;
  memcpy(attr.sizes, sizes, (size_t)n * sizeof *sizes);
  ronde__graph_add_node(RONDE__OP_SPLIT, NULL, &attr, &x, 1, pieces_out);
}

void ronde_cut(const ronde_tensor *x, int n, const int64_t *sizes, ronde_tensor **pieces_out) {
  ronde_cut_along(x, 0, n, sizes, pieces_out);
}

ronde_tensor *ronde_channel_shuffle(const ronde_tensor *x, int groups) {
  return add_unary(RONDE__OP_CHANNEL_SHUFFLE, &(ronde__op_attr){.groups = groups}, x);
}

ronde_tensor *ronde_concat_along(const ronde_tensor *const *inputs, int n, int dim) {
  if (n < 1 || !inputs[0]) return NULL;
  if (n < 2 || n > RONDE__OP_MAX_INPUTS)
    return ronde__graph_fail(inputs[0]->graph,
                             ronde__fail(RONDE_E_USAGE, "%s: 2 to %d tensors can be concatenated, not %d",
                                         inputs[0]->label, RONDE__OP_MAX_INPUTS, n));
  if (dim < 0) dim += inputs[0]->shape.rank;
  return ronde__graph_add_node(RONDE__OP_CONCAT, NULL, &(ronde__op_attr){.n_inputs = n, .dim = dim}, inputs, n, NULL);
}

ronde_tensor *ronde_concat(const ronde_tensor *const *inputs, int n) { return ronde_concat_along(inputs, n, 0); }

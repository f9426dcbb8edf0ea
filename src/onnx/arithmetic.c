/* Arithmetic on tensors, parameters and numbers; reductions; functions of one number. */
#include "onnx/import.h"

#include <float.h>
#include <math.h>
#include <string.h>

static ronde_status name_next(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

/* ---- functions of one number ---- */

static ronde_status build_function(ronde__onnx_import *im, const ronde__onnx_node *node, ronde_function_kind kind,
                                   double a, double b) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  RONDE_TRY(ronde__onnx_in_any(im, node, 0, &x, &place));
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set_place(im, node, 0, ronde_function(x, kind, (float)a, (float)b), &place);
}

#define FUNCTION(name, KIND, a, b)                                                           \
  ronde_status ronde__onnx_op_##name(ronde__onnx_import *im, const ronde__onnx_node *node) { \
    return build_function(im, node, RONDE_##KIND, a, b);                                     \
  }
#define ATTRIBUTE(name, otherwise) ronde__onnx_attr_float(node, name, otherwise)
FUNCTION(neg, AFFINE, -1, 0)
FUNCTION(reciprocal, RECIPROCAL, 1, 0)
FUNCTION(sqrt, SQRT, 0, 0)
FUNCTION(exp, EXP, 0, 0)
FUNCTION(log, LOG, 0, 0)
FUNCTION(abs, ABS, 0, 0)
FUNCTION(erf, ERF, 0, 0)
FUNCTION(sin, SIN, 0, 0)
FUNCTION(cos, COS, 0, 0)
FUNCTION(tan, TAN, 0, 0)
FUNCTION(asin, ASIN, 0, 0)
FUNCTION(acos, ACOS, 0, 0)
FUNCTION(atan, ATAN, 0, 0)
FUNCTION(sinh, SINH, 0, 0)
FUNCTION(cosh, COSH, 0, 0)
FUNCTION(asinh, ASINH, 0, 0)
FUNCTION(acosh, ACOSH, 0, 0)
FUNCTION(atanh, ATANH, 0, 0)
FUNCTION(softplus, SOFTPLUS, 0, 0)
FUNCTION(softsign, SOFTSIGN, 0, 0)
FUNCTION(selu, SELU, ATTRIBUTE("alpha", 1.67326319217681884765625), ATTRIBUTE("gamma", 1.05070102214813232421875))
FUNCTION(celu, CELU, ATTRIBUTE("alpha", 1), 0)
FUNCTION(thresholded_relu, THRESHOLD, ATTRIBUTE("alpha", 1), 0)

ronde_status ronde__onnx_op_mish(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set(im, node, 0, ronde_multiply(x, ronde_tanh(ronde_function(x, RONDE_SOFTPLUS, 0, 0))));
}

ronde_status ronde__onnx_op_prelu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x, *slope;
  ronde__onnx_place place = {0};
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  RONDE_TRY(ronde__onnx_operand(im, node, 1, &place, &slope));
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set_place(im, node, 0,
                               ronde_add(ronde_relu(x), ronde_multiply(ronde_clip(x, -INFINITY, 0), slope)), &place);
}

/* ---- on sizes ---- */

/* Of so many times the batch: times or by a number, or by as many batches or fewer. */
static bool calculate_batches(const char *type, int64_t a, int64_t b, int64_t *y_out) {
  int64_t k = ronde__onnx_batches(a), m = ronde__onnx_batches(b), most = INT32_MAX;
  bool times = !strcmp(type, "Mul"), by = !strcmp(type, "Div");
  if ((k && m && !by) || (!times && !(by && k))) return false;
  int64_t own = k ? k : m, other = k && m ? m : k ? b : a;
  if (other < 1 || other > most || own > most || (by && own % other)) return false;
  int64_t result = times ? own * other : own / other;
  *y_out = k && m ? result : RONDE__ONNX_BATCHES(result);
  return result <= most;
}

static bool calculate_plain(const char *type, int64_t a, int64_t b, int64_t *y_out) {
  if (!strcmp(type, "Add")) return !__builtin_add_overflow(a, b, y_out);
  if (!strcmp(type, "Sub")) return !__builtin_sub_overflow(a, b, y_out);
  if (!strcmp(type, "Mul")) return !__builtin_mul_overflow(a, b, y_out);
  if (b <= 0 || a < 0) return false;
  *y_out = strcmp(type, "Mod") ? a / b : a % b;
  return true;
}

static bool calculate(const char *type, int64_t a, int64_t b, int64_t *y_out) {
  if (ronde__onnx_batches(a) || ronde__onnx_batches(b)) return calculate_batches(type, a, b, y_out);
  return calculate_plain(type, a, b, y_out) && !ronde__onnx_batches(*y_out);
}

static ronde_status build_sizes(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value a, b, y = {.kind = RONDE__ONNX_SIZES}, *out = ronde__onnx_out(im, node, 0);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &a));
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &b));
  y.n = a.n > b.n ? a.n : b.n;
  y.is_scalar = a.is_scalar && b.is_scalar;
  bool right = (a.n == y.n || a.n == 1) && (b.n == y.n || b.n == 1);
  for (int i = 0; i < y.n && right; i++)
    right = calculate(node->proto->op_type, a.size[a.n == 1 ? 0 : i], b.size[b.n == 1 ? 0 : i], &y.size[i]);
  if (!right) return ronde__onnx_fail(im, node, "its sizes do not follow from the file alone");
  if (out) *out = y;
  return RONDE_OK;
}

/* ---- of two tensors ---- */

typedef ronde_tensor *(*binary)(const ronde_tensor *a, const ronde_tensor *b);

static ronde_tensor *apply_number(ronde__pair_kind kind, const ronde_tensor *x, float c, bool number_first) {
  switch (kind) {
  case RONDE__PAIR_ADD: return ronde_function(x, RONDE_AFFINE, 1, c);
  case RONDE__PAIR_SUBTRACT:
    return number_first ? ronde_function(x, RONDE_AFFINE, -1, c) : ronde_function(x, RONDE_AFFINE, 1, -c);
  case RONDE__PAIR_MULTIPLY: return ronde_function(x, RONDE_AFFINE, c, 0);
  case RONDE__PAIR_DIVIDE:
    return number_first ? ronde_function(x, RONDE_RECIPROCAL, c, 0) : ronde_function(x, RONDE_AFFINE, 1 / c, 0);
  case RONDE__PAIR_MINIMUM: return ronde_clip(x, -INFINITY, c);
  case RONDE__PAIR_MAXIMUM: return ronde_clip(x, c, INFINITY);
  default:
    return c == 2      ? ronde_function(x, RONDE_SQUARE, 0, 0)
           : c == 0.5f ? ronde_function(x, RONDE_SQRT, 0, 0)
                       : ronde_function(x, RONDE_POWER, c, 0);
  }
}

/* With a number behind it that is added, one operation. *last_out: the node whose output it is. */
static bool add_behind(const ronde__onnx_import *im, const ronde__onnx_node *node, float *offset_out,
                       const ronde__onnx_node **last_out) {
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  double offset;
  if (!next || next->build != ronde__onnx_op_add || next->n_in != 2) return false;
  if (!ronde__onnx_is_number(im, next, next->in[0] == node->out[0] ? 1 : 0, &offset)) return false;
  *offset_out = (float)offset;
  *last_out = next;
  return true;
}

static ronde_status build_number(ronde__onnx_import *im, const ronde__onnx_node *node, ronde__pair_kind kind,
                                 int number_at, double number) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  const ronde__onnx_node *last = node;
  float c = (float)number, offset;
  RONDE_TRY(ronde__onnx_in_any(im, node, 1 - number_at, &x, &place));
  if (kind == RONDE__PAIR_MULTIPLY && add_behind(im, node, &offset, &last)) {
    RONDE_TRY(name_next(im, node));
    return ronde__onnx_set_place(im, last, 0, ronde_function(x, RONDE_AFFINE, c, offset), &place);
  }
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set_place(im, node, 0, apply_number(kind, x, c, number_at == 0), &place);
}

/* Whether all operands are images of one row, or one pixel, and of one size. */
static bool are_images(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *first = ronde__onnx_in(im, node, 0);
  for (int i = 0; i < node->n_in; i++) {
    const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
    if (!RONDE__ONNX_IS(value, TENSOR) || value->order != RONDE__ONNX_IMAGE || value->n != first->n ||
        !ronde__shape_equal(&value->x->shape, &first->x->shape))
      return false;
  }
  return true;
}

/* Operand i with the rank of the largest one. */
static ronde_status take_operand(ronde__onnx_import *im, const ronde__onnx_node *node, int i, bool as_image,
                                 ronde__onnx_place *place, const ronde_tensor **x_out) {
  return as_image ? ronde__onnx_in_any(im, node, i, x_out, place) : ronde__onnx_operand(im, node, i, place, x_out);
}

static ronde_status build_pairs(ronde__onnx_import *im, const ronde__onnx_node *node, binary call,
                                const ronde_tensor **y_out, ronde__onnx_place *place_out) {
  const ronde_tensor *x;
  const bool as_image = are_images(im, node);
  RONDE_TRY(ronde__onnx_common(im, node, 0, node->n_in, place_out));
  RONDE_TRY(take_operand(im, node, 0, as_image, place_out, y_out));
  for (int i = 1; i < node->n_in; i++) {
    RONDE_TRY(take_operand(im, node, i, as_image, place_out, &x));
    if (i == node->n_in - 1) RONDE_TRY(name_next(im, node));
    if (!(*y_out = call(*y_out, x))) return ronde_graph_status(im->graph);
  }
  return RONDE_OK;
}

static ronde_status build_chain(ronde__onnx_import *im, const ronde__onnx_node *node, ronde__pair_kind kind,
                                binary call) {
  const ronde_tensor *y;
  ronde__onnx_place place = {0};
  double number;
  for (int i = 0; i < 2 && node->n_in == 2; i++)
    if (ronde__onnx_is_number(im, node, i, &number) && RONDE__ONNX_IS(ronde__onnx_in(im, node, 1 - i), TENSOR) &&
        !(kind == RONDE__PAIR_POWER && i == 0))
      return build_number(im, node, kind, i, number);
  if (node->n_in < 1) return ronde__onnx_fail(im, node, "it has no inputs");
  RONDE_TRY(build_pairs(im, node, call, &y, &place));
  return ronde__onnx_set_place(im, node, 0, y, &place);
}

static ronde_status build_pair(ronde__onnx_import *im, const ronde__onnx_node *node, ronde__pair_kind kind,
                               binary call) {
  if (node->n_in != 2) return ronde__onnx_fail(im, node, "it has %d inputs instead of 2", node->n_in);
  if (ronde__onnx_is_sizes(ronde__onnx_in(im, node, 0)) && ronde__onnx_is_sizes(ronde__onnx_in(im, node, 1)))
    return build_sizes(im, node);
  return build_chain(im, node, kind, call);
}

/* Of sizes only. */
ronde_status ronde__onnx_op_mod(ronde__onnx_import *im, const ronde__onnx_node *node) {
  if (node->n_in == 2) return build_sizes(im, node);
  return ronde__onnx_fail(im, node, "it has %d inputs instead of 2", node->n_in);
}

ronde_status ronde__onnx_op_sum(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_chain(im, node, RONDE__PAIR_ADD, ronde_add);
}
ronde_status ronde__onnx_op_max(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_chain(im, node, RONDE__PAIR_MAXIMUM, ronde_maximum);
}
ronde_status ronde__onnx_op_min(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_chain(im, node, RONDE__PAIR_MINIMUM, ronde_minimum);
}
ronde_status ronde__onnx_op_mean(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *y;
  ronde__onnx_place place = {0};
  if (node->n_in < 1) return ronde__onnx_fail(im, node, "it has no inputs");
  RONDE_TRY(build_pairs(im, node, ronde_add, &y, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_function(y, RONDE_AFFINE, 1 / (float)node->n_in, 0), &place);
}
ronde_status ronde__onnx_op_add(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_pair(im, node, RONDE__PAIR_ADD, ronde_add);
}
ronde_status ronde__onnx_op_sub(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_pair(im, node, RONDE__PAIR_SUBTRACT, ronde_subtract);
}
ronde_status ronde__onnx_op_pow(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_pair(im, node, RONDE__PAIR_POWER, ronde_power);
}

/* ---- GELU as older opsets have it: x / sqrt(2), Erf, + 1, times x, times 1/2 ---- */

static bool is_near(double number, double wanted) { return fabs(number - wanted) < 1e-5; }

/* The only reader of a node, if it is that operator; *other_out: its other input. */
static const ronde__onnx_node *reader_of(const ronde__onnx_import *im, const ronde__onnx_node *node,
                                         ronde__onnx_operator operator, int * other_out) {
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  if (!next || next->build != operator|| next->n_out<1) return NULL;
  *other_out = next->n_in == 2 && next->in[0] == node->out[0] ? 1 : 0;
  return next;
}

/* Whether value `half` is x / 2. */
static bool is_half_of(const ronde__onnx_import *im, int half, int x) {
  const ronde__onnx_node *node = half >= 0 && im->file->producer[half] >= 0 && im->file->n_readers[half] == 1
                                     ? &im->file->nodes[im->file->producer[half]]
                                     : NULL;
  double number;
  if (!node || node->build != ronde__onnx_op_mul || node->n_in != 2) return false;
  for (int i = 0; i < 2; i++)
    if (node->in[i] == x && ronde__onnx_is_number(im, node, 1 - i, &number) && is_near(number, 0.5)) return true;
  return false;
}

/* The nodes from x / sqrt(2) on; NULL: it is no GELU. */
static bool find_gelu(const ronde__onnx_import *im, const ronde__onnx_node *first, int x,
                      const ronde__onnx_node *nodes[5]) {
  double number;
  int other;
  nodes[0] = first;
  if (!(nodes[1] = reader_of(im, first, ronde__onnx_op_erf, &other))) return false;
  if (!(nodes[2] = reader_of(im, nodes[1], ronde__onnx_op_add, &other)) || nodes[2]->n_in != 2 ||
      !ronde__onnx_is_number(im, nodes[2], other, &number) || number != 1)
    return false;
  if (!(nodes[3] = reader_of(im, nodes[2], ronde__onnx_op_mul, &other)) || nodes[3]->n_in != 2) return false;
  nodes[4] = nodes[3];
  if (is_half_of(im, nodes[3]->in[other], x)) return true;
  if (nodes[3]->in[other] != x) return false;
  nodes[4] = reader_of(im, nodes[3], ronde__onnx_op_mul, &other);
  return nodes[4] && nodes[4]->n_in == 2 && ronde__onnx_is_number(im, nodes[4], other, &number) && is_near(number, 0.5);
}

/* Tries it from a node on that divides x by sqrt(2). */
static bool begins_gelu(ronde__onnx_import *im, const ronde__onnx_node *node, ronde_status *status_out) {
  const ronde__onnx_node *nodes[5];
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  double number, root = sqrt(2);
  bool divides = node->build == ronde__onnx_op_div;
  if (node->n_in != 2) return false;
  int at = ronde__onnx_is_number(im, node, 1, &number)               ? 0
           : !divides && ronde__onnx_is_number(im, node, 0, &number) ? 1
                                                                     : -1;
  if (at < 0 || !RONDE__ONNX_IS(ronde__onnx_in(im, node, at), TENSOR) || !is_near(number, divides ? root : 1 / root))
    return false;
  if (!find_gelu(im, node, node->in[at], nodes)) return false;
  *status_out = ronde__onnx_in_place(im, node, at, &x, &place);
  if (*status_out == RONDE_OK) *status_out = name_next(im, nodes[0]);
  if (*status_out != RONDE_OK) return true;
  x = ronde_gelu(x, false);
  for (int i = 0; i < 5 && *status_out == RONDE_OK; i++)
    *status_out = ronde__onnx_set_place(im, nodes[i], 0, x, &place);
  return true;
}

ronde_status ronde__onnx_op_div(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde_status status;
  if (begins_gelu(im, node, &status)) return status;
  return build_pair(im, node, RONDE__PAIR_DIVIDE, ronde_divide);
}
ronde_status ronde__onnx_op_mul(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde_status status;
  if (begins_gelu(im, node, &status)) return status;
  return build_pair(im, node, RONDE__PAIR_MULTIPLY, ronde_multiply);
}

/* ---- reductions ---- */

/* What is reduced: dimensions dims [n], of which nothing is left where none of them is kept. */
typedef struct reduction {
  const ronde_tensor *x;
  int n, dims[RONDE_MAX_RANK];
  ronde__onnx_place place; /* of the result */
  bool none;               /* there are no axes, and that means that nothing is reduced */
} reduction;

static ronde_status read_reduction(ronde__onnx_import *im, const ronde__onnx_node *node, bool keep,
                                   reduction *reduction_out) {
  reduction r = {0};
  int64_t dims[RONDE_MAX_RANK];
  unsigned axes;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &r.x, &r.place));
  bool has_batch = r.place.at != RONDE__ONNX_ALIKE;
  RONDE_TRY(ronde__onnx_axes(im, node, 1, r.place.rank, &axes));
  r.none = axes == 0 && ronde__onnx_attr_int(node, "noop_with_empty_axes", 0);
  if (axes == 0 && has_batch && !r.none) return ronde__onnx_fail(im, node, "without axes it reduces the batch");
  if (has_batch && axes >> r.place.at & 1) return ronde__onnx_fail(im, node, "axis %d is the batch", r.place.at);
  const ronde__onnx_place from = r.place;
  for (int axis = 0; axis < from.rank; axis++) {
    if (axis == from.at || (axes && !(axes >> axis & 1))) continue;
    r.dims[r.n++] = ronde__onnx_dim_at(&from, axis);
    if (!keep && !r.none && axis < from.at) r.place.at--;
  }
  if (im->file->lead && r.n == ronde_tensor_dims(r.x, dims) && !keep)
    return ronde__onnx_fail(im, node, "nothing of an example is left but one number without a dimension");
  *reduction_out = r;
  return RONDE_OK;
}

typedef enum before { AS_IT_IS, OF_ABS, OF_SQUARES, OF_EXP } before;
typedef enum behind { NOTHING, ROOT, LOGARITHM } behind;

static ronde_status reduce(ronde__onnx_import *im, const ronde__onnx_node *node, before first, ronde_reduce_kind kind,
                           behind last) {
  reduction r = {0};
  bool keep = ronde__onnx_attr_int(node, "keepdims", 1) != 0;
  RONDE_TRY(read_reduction(im, node, keep, &r));
  const ronde_tensor *x = r.x;
  if (first == OF_EXP && !r.none) { /* less the largest, so that nothing overflows */
    const ronde_tensor *largest = ronde_reduce(x, RONDE_REDUCE_MAXIMUM, r.n, r.dims, true);
    x = ronde_function(ronde_subtract(x, largest), RONDE_EXP, 0, 0);
    x = ronde_function(ronde_reduce(x, RONDE_REDUCE_SUM, r.n, r.dims, true), RONDE_LOG, 0, 0);
    x = ronde_add(x, largest);
    RONDE_TRY(name_next(im, node));
    return ronde__onnx_set_place(im, node, 0, keep ? x : ronde_reduce(x, RONDE_REDUCE_SUM, r.n, r.dims, false),
                                 &r.place);
  }
  if (first == OF_ABS) x = ronde_function(x, RONDE_ABS, 0, 0);
  if (first == OF_SQUARES) x = ronde_function(x, RONDE_SQUARE, 0, 0);
  if (first == OF_EXP) x = ronde_function(x, RONDE_EXP, 0, 0);
  if (last == NOTHING) RONDE_TRY(name_next(im, node));
  if (!r.none) x = ronde_reduce(x, kind, r.n, r.dims, keep);
  /* Where all elements are 0, their gradients are too, as PyTorch's are: the bound keeps the root's slope finite. */
  if (last == ROOT) x = ronde_function(ronde_clip(x, FLT_MIN, INFINITY), RONDE_SQRT, 0, 0);
  if (last == LOGARITHM) x = ronde_function(x, RONDE_LOG, 0, 0);
  return ronde__onnx_set_place(im, node, 0, x, &r.place);
}

#define REDUCE(name, first, kind, last)                                                             \
  ronde_status ronde__onnx_op_reduce_##name(ronde__onnx_import *im, const ronde__onnx_node *node) { \
    return reduce(im, node, first, RONDE_REDUCE_##kind, last);                                      \
  }
REDUCE(sum, AS_IT_IS, SUM, NOTHING)
REDUCE(mean, AS_IT_IS, MEAN, NOTHING)
REDUCE(max, AS_IT_IS, MAXIMUM, NOTHING)
REDUCE(min, AS_IT_IS, MINIMUM, NOTHING)
REDUCE(prod, AS_IT_IS, PRODUCT, NOTHING)
REDUCE(l1, OF_ABS, SUM, NOTHING)
REDUCE(l2, OF_SQUARES, SUM, ROOT)
REDUCE(sum_square, OF_SQUARES, SUM, NOTHING)
REDUCE(log_sum, AS_IT_IS, SUM, LOGARITHM)
REDUCE(log_sum_exp, OF_EXP, SUM, LOGARITHM)

/* ---- softmax ---- */

/* Dimensions [from, rank) as one: before opset 13 softmax is over all of them. */
static const ronde_tensor *join_from(const ronde_tensor *x, int from) {
  int64_t dims[RONDE_MAX_RANK];
  int rank = ronde_tensor_dims(x, dims);
  for (int d = from + 1; d < rank; d++) dims[from] *= dims[d];
  return rank > from + 1 ? ronde_reshape(x, from + 1, dims) : x;
}

static ronde_status build_softmax(ronde__onnx_import *im, const ronde__onnx_node *node, bool logarithm) {
  const ronde_tensor *x, *own;
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK], axis = ronde__onnx_attr_int(node, "axis", im->file->opset < 13 ? 1 : -1);
  int dim;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &own, &place));
  int rank = ronde_tensor_dims(own, dims);
  RONDE_TRY(ronde__onnx_axis(im, node, axis, &place, &dim));
  if (im->file->opset < 13 && place.at > 0) return ronde__onnx_fail(im, node, "the batch is not its first dimension");
  if (ronde__onnx_is_left_out(im, node, RONDE__ONNX_CLASSES)) return ronde__onnx_set_place(im, node, 0, own, &place);
  x = im->file->opset < 13 ? join_from(own, dim) : own;
  if (logarithm) {
    x = ronde_subtract(x, ronde_reduce(x, RONDE_REDUCE_MAXIMUM, 1, &dim, true));
    const ronde_tensor *sum = ronde_reduce(ronde_function(x, RONDE_EXP, 0, 0), RONDE_REDUCE_SUM, 1, &dim, true);
    x = ronde_subtract(x, ronde_function(sum, RONDE_LOG, 0, 0));
  } else {
    RONDE_TRY(name_next(im, node));
    x = ronde_softmax(x, dim);
  }
  int64_t now[RONDE_MAX_RANK];
  bool joined = x && ronde_tensor_dims(x, now) != rank;
  return ronde__onnx_set_place(im, node, 0, joined ? ronde_reshape(x, rank, dims) : x, &place);
}

ronde_status ronde__onnx_op_softmax(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_softmax(im, node, false);
}
ronde_status ronde__onnx_op_log_softmax(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_softmax(im, node, true);
}

/* ---- choosing ---- */

/* Lists of sizes, as PyTorch's exporter chooses them. */
static ronde_status choose_sizes(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value of[3], *out = ronde__onnx_out(im, node, 0);
  for (int i = 0; i < 3; i++) RONDE_TRY(ronde__onnx_in_sizes(im, node, i, &of[i]));
  if (of[0].n != of[1].n || of[0].n != of[2].n)
    return ronde__onnx_fail(im, node, "only lists of sizes that are equally long can be chosen from");
  for (int i = 0; i < of[0].n; i++) of[0].size[i] = of[0].size[i] ? of[1].size[i] : of[2].size[i];
  if (out) *out = of[0];
  return RONDE_OK;
}

/* x, and the places of it that are taken: 1 of an array of zeros and ones. NULL of the result: a number, which goes to what
 * is added there. */
static ronde_status take_places(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                const ronde__onnx_known *chosen, const ronde__onnx_place *place,
                                ronde__onnx_known *added, const ronde_tensor **x_out) {
  const ronde_tensor *mask;
  double number;
  *x_out = NULL;
  if (ronde__onnx_is_number(im, node, i, &number)) {
    for (int64_t k = 0; k < added->n; k++)
      if ((chosen->values[k] != 0) == (i == 1)) added->values[k] = number;
    return RONDE_OK;
  }
  ronde__onnx_known *own = ronde__onnx_make_known(im, chosen->rank, chosen->dim);
  if (!own) return ronde__onnx_fail(im, node, "its condition is too large");
  for (int64_t k = 0; k < own->n; k++) own->values[k] = (chosen->values[k] != 0) == (i == 1);
  RONDE_TRY(ronde__onnx_operand(im, node, i, place, x_out));
  RONDE_TRY(ronde__onnx_fixed_operand(im, node, i == 1 ? ".chosen" : ".others", own, place, &mask));
  *x_out = ronde_multiply(*x_out, mask);
  return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
}

/* By a condition that follows from the file, as masks do: the sum of the places that are taken of either. */
static ronde_status choose_places(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_known *chosen = ronde__onnx_known_of(im, ronde__onnx_in(im, node, 0));
  const ronde_tensor *x, *others, *addend;
  ronde__onnx_place place = {0};
  if (!chosen || chosen->n == 0)
    return ronde__onnx_fail(im, node, "its condition does not follow from the file alone, or is too large");
  RONDE_TRY(ronde__onnx_common(im, node, 0, 3, &place));
  ronde__onnx_known *added = ronde__onnx_make_known(im, chosen->rank, chosen->dim);
  if (!added) return ronde__onnx_fail(im, node, "its condition is too large");
  RONDE_TRY(take_places(im, node, 1, chosen, &place, added, &x));
  RONDE_TRY(take_places(im, node, 2, chosen, &place, added, &others));
  if (!x && !others) return ronde__onnx_fail(im, node, "it chooses between two numbers");
  x = x && others ? ronde_add(x, others) : x ? x : others;
  if (x && !ronde__onnx_is_alike(added, 0)) {
    RONDE_TRY(ronde__onnx_fixed_operand(im, node, ".added", added, &place, &addend));
    x = ronde_add(x, addend);
  }
  return ronde__onnx_set_place(im, node, 0, x, &place);
}

ronde_status ronde__onnx_op_where(ronde__onnx_import *im, const ronde__onnx_node *node) {
  bool sizes = true;
  for (int i = 0; i < 3; i++) sizes = sizes && ronde__onnx_is_sizes(ronde__onnx_in(im, node, i));
  return sizes ? choose_sizes(im, node) : choose_places(im, node);
}

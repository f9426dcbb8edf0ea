/* Arrays that follow from the file alone: masks, tables of indices, and the sizes that exporters compute them from. Nodes that
 * read nothing else are evaluated while the network is built. */
#include "onnx/known.h"

#include <math.h>
#include <string.h>

bool ronde__onnx_are_zeros(const ronde__onnx_value *value) {
  if (value->kind == RONDE__ONNX_NUMBER) return value->number == 0;
  const known *array = ronde__onnx_array(value);
  return array && ronde__onnx_is_alike(array, 0);
}

/* ---- what inputs hold ---- */

static double bounded(int64_t value) {
  return (double)ronde__max(-RONDE__KNOWN_FAR, ronde__min(RONDE__KNOWN_FAR, value));
}

static known *of_sizes(ronde__onnx_import *im, const ronde__onnx_value *value) {
  known *array = ronde__known_make(im, !value->is_scalar, (int64_t[]){value->n}, true);
  for (int i = 0; i < value->n && array; i++) {
    if (ronde__onnx_batches(value->size[i])) return NULL;
    array->values[i] = bounded(value->size[i]);
  }
  return array;
}

/* Or truths. */
static bool has_integers(const Onnx__TensorProto *tensor) {
  return ronde__onnx_is_integer(tensor->data_type) || tensor->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL;
}

static bool read_integers(const Onnx__TensorProto *tensor, known *array) {
  int n;
  int64_t *values = ronde__alloc((size_t)array->n * sizeof *values);
  bool read = values && ronde__onnx_read_integers(tensor, (int)array->n, values, &n);
  for (int64_t i = 0; i < array->n && read; i++) array->values[i] = bounded(values[i]);
  ronde__free(values);
  return read;
}

static bool read_floats(const ronde__onnx *file, const Onnx__TensorProto *tensor, known *array) {
  float *values = ronde__alloc((size_t)array->n * sizeof *values);
  bool read = values && ronde__onnx_check_floats(file, tensor) == RONDE_OK &&
              ronde__onnx_read_floats(file, tensor, values) == RONDE_OK;
  for (int64_t i = 0; i < array->n && read; i++) array->values[i] = (double)values[i];
  ronde__free(values);
  return read;
}

/* An initializer of floats is trained, so that it is not known; what a node Constant gives is. */
static known *of_constant(ronde__onnx_import *im, const ronde__onnx_value *value) {
  const Onnx__TensorProto *tensor = value->constant;
  bool integers = has_integers(tensor), floats = tensor->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  if (value->transposed || !(integers || (floats && (value->fixed || tensor->n_dims == 0)))) return NULL;
  if (tensor->n_dims > MAX_RANK) return NULL;
  known *array = ronde__known_make(im, (int)tensor->n_dims, tensor->dims, integers);
  if (!array || (floats && array->n == 0)) return NULL;
  return (integers ? read_integers(tensor, array) : read_floats(im->file, tensor, array)) ? array : NULL;
}

/* Also of the places of examples. */
static const known *any_known_of(ronde__onnx_import *im, const ronde__onnx_value *value) {
  if (!value) return NULL;
  switch (value->kind) {
  case RONDE__ONNX_KNOWN: return value->known;
  case RONDE__ONNX_SIZES: return of_sizes(im, value);
  case RONDE__ONNX_CONSTANT: return of_constant(im, value);
  default: return NULL;
  }
}

const known *ronde__onnx_known_of(ronde__onnx_import *im, const ronde__onnx_value *value) {
  const known *array = any_known_of(im, value);
  return array && array->per_example == 0 ? array : NULL;
}

/* A number takes the dims of what it meets. */
static const known *operand_of(ronde__onnx_import *im, const ronde__onnx_value *value) {
  known *array = value->kind == RONDE__ONNX_NUMBER ? ronde__known_make(im, 0, NULL, false) : NULL;
  if (value->kind != RONDE__ONNX_NUMBER) return any_known_of(im, value);
  if (array) array->values[0] = value->number;
  return array;
}

/* ---- arithmetic ---- */

/* Dims that all of n arrays can be spread to; false: there are none. */
static bool common_dims(const known *const *in, int n, int *rank_out, int64_t dims_out[MAX_RANK]) {
  *rank_out = 0;
  for (int i = 0; i < n; i++) *rank_out = in[i]->rank > *rank_out ? in[i]->rank : *rank_out;
  for (int d = 0; d < *rank_out; d++) {
    dims_out[d] = 1;
    for (int i = 0; i < n; i++) {
      int own = d - (*rank_out - in[i]->rank);
      if (own >= 0 && in[i]->dim[own] != 1) dims_out[d] = in[i]->dim[own];
    }
  }
  return true;
}

typedef enum kind {
  ADD,
  SUBTRACT,
  MULTIPLY,
  DIVIDE,
  REST,
  FMOD,
  POWER,
  LARGEST,
  SMALLEST,
  SAME,
  LESS,
  MORE,
  NO_MORE,
  NO_LESS,
  BOTH,
  EITHER,
  ONE
} kind;

static double calculate(kind kind, double a, double b, bool integers) {
  switch (kind) {
  case ADD: return a + b;
  case SUBTRACT: return a - b;
  case MULTIPLY: return a * b;
  case DIVIDE: return integers ? (b != 0 ? trunc(a / b) : 0) : a / b;
  case REST: return b != 0 ? a - floor(a / b) * b : 0;
  case FMOD: return b != 0 ? fmod(a, b) : 0;
  case POWER: return pow(a, b);
  case LARGEST: return fmax(a, b);
  case SMALLEST: return fmin(a, b);
  case SAME: return a == b;
  case LESS: return a < b;
  case MORE: return a > b;
  case NO_MORE: return a <= b;
  case NO_LESS: return a >= b;
  case BOTH: return a != 0 && b != 0;
  case EITHER: return a != 0 || b != 0;
  default: return (a != 0) != (b != 0);
  }
}

static known *pair(ronde__onnx_import *im, const known *const *in, kind kind) {
  int64_t dims[MAX_RANK];
  int rank;
  bool integers = in[0]->integers && in[1]->integers;
  if (!common_dims(in, 2, &rank, dims)) return NULL;
  const known *a = ronde__known_spread(im, in[0], rank, dims), *b = ronde__known_spread(im, in[1], rank, dims);
  known *y = a && b ? ronde__known_make(im, rank, dims, integers || kind >= SAME) : NULL;
  for (int64_t i = 0; y && i < y->n; i++)
    y->values[i] = ronde__known_rounded(calculate(kind, a->values[i], b->values[i], integers), y->integers);
  return y;
}

/* Of one array or more. */
static const known *extreme(ronde__onnx_import *im, const ronde__onnx_node *node, const known *const *in, kind kind) {
  const known *y = in[0];
  for (int i = 1; i < node->n_in && y; i++) y = pair(im, (const known *[]){y, in[i]}, kind);
  return y;
}

static known *choose(ronde__onnx_import *im, const known *const *in) {
  int64_t dims[MAX_RANK];
  int rank;
  if (!common_dims(in, 3, &rank, dims)) return NULL;
  const known *c = ronde__known_spread(im, in[0], rank, dims), *a = ronde__known_spread(im, in[1], rank, dims),
              *b = ronde__known_spread(im, in[2], rank, dims);
  known *y = c && a && b ? ronde__known_make(im, rank, dims, in[1]->integers && in[2]->integers) : NULL;
  for (int64_t i = 0; y && i < y->n; i++) y->values[i] = c->values[i] != 0 ? a->values[i] : b->values[i];
  return y;
}

static known *copy(ronde__onnx_import *im, const known *x, bool integers) {
  known *y = ronde__known_make(im, x->rank, x->dim, integers);
  if (y && x->n) memcpy(y->values, x->values, (size_t)x->n * sizeof *y->values);
  return y;
}

static known *cast(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x) {
  int64_t to = ronde__onnx_cast_to(im, node);
  bool truth = to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, floats = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  bool integers = ronde__onnx_is_integer(to);
  known *y = truth || floats || integers ? copy(im, x, !floats) : NULL;
  for (int64_t i = 0; y && i < y->n; i++)
    y->values[i] =
        truth ? y->values[i] != 0 : ronde__known_rounded(floats ? y->values[i] : trunc(y->values[i]), y->integers);
  return y;
}

static known *unary(ronde__onnx_import *im, const known *x, const char *type) {
  known *y = copy(im, x, x->integers);
  bool root = !strcmp(type, "Sqrt"), not = !strcmp(type, "Not"), minus = !strcmp(type, "Neg");
  for (int64_t i = 0; y && i < y->n; i++)
    y->values[i] = root    ? ronde__known_rounded(sqrt(y->values[i]), y->integers)
                   : not   ? y->values[i] == 0
                   : minus ? -y->values[i]
                           : y->values[i];
  return y;
}

/* ---- made anew ---- */

static known *range(ronde__onnx_import *im, const known *const *in) {
  if (in[0]->n != 1 || in[1]->n != 1 || in[2]->n != 1) return NULL;
  double start = in[0]->values[0], end = in[1]->values[0], by = in[2]->values[0], n = ceil((end - start) / by);
  if (by == 0 || !(n <= MAX_ELEMS)) return NULL;
  known *y = ronde__known_make(im, 1, (int64_t[]){n > 0 ? (int64_t)n : 0}, in[0]->integers);
  for (int64_t i = 0; y && i < y->n; i++) y->values[i] = ronde__known_rounded(start + (double)i * by, y->integers);
  return y;
}

static known *constant_of_shape(ronde__onnx_import *im, const ronde__onnx_node *node, const known *shape) {
  const Onnx__AttributeProto *value = ronde__onnx_attr(node, "value");
  double number = 0;
  ronde__onnx_value one;
  int64_t dims[MAX_RANK];
  bool integers = value && value->t && ronde__onnx_read_sizes(value->t, &one) && one.n == 1;
  if (integers) number = bounded(one.size[0]);
  else if (value && !(value->t && ronde__onnx_read_number(value->t, &number))) return NULL;
  if (shape->n > MAX_RANK) return NULL;
  for (int64_t d = 0; d < shape->n; d++) dims[d] = (int64_t)shape->values[d];
  known *y = ronde__known_make(im, (int)shape->n, dims, integers);
  for (int64_t i = 0; y && i < y->n; i++) y->values[i] = number;
  return y;
}

/* data with slices replaced: those at indices [...,k], of its first k dimensions, by updates. */
static known *scatter(ronde__onnx_import *im, const ronde__onnx_node *node, const known *const *in) {
  const known *at = in[1], *from = in[2];
  const int64_t k = at->rank ? at->dim[at->rank - 1] : 0;
  int64_t step[MAX_RANK], inner = 1;
  if (at->rank < 1 || k < 1 || k > in[0]->rank || !ronde__onnx_attr_is(node, "reduction", "none", "none")) return NULL;
  for (int d = (int)k; d < in[0]->rank; d++) inner *= in[0]->dim[d];
  if (at->n / k * inner != from->n) return NULL;
  ronde__known_steps_of(in[0], step);
  known *y = copy(im, in[0], in[0]->integers);
  for (int64_t i = 0; i < at->n / k && y && inner; i++) {
    int64_t place = ronde__known_place(y, step, at->values + i * k, k);
    if (place < 0) return NULL;
    memcpy(y->values + place, from->values + i * inner, (size_t)inner * sizeof *y->values);
  }
  return y;
}

/* ---- nodes ---- */

typedef enum act { PAIR, UNARY, OTHER } act;
typedef enum other {
  CAST,
  WHERE,
  RESHAPE,
  TRANSPOSE,
  SQUEEZE,
  UNSQUEEZE,
  EXPAND,
  SLICE,
  GATHER,
  GATHER_ND,
  GATHER_ELEMENTS,
  RUNNING_SUMS,
  CONCAT,
  MOST,
  LEAST,
  RANGE,
  FILL,
  SCATTER
} other;

static const struct {
  const char *type;
  act act;
  int what;  /* kind, or other */
  int least; /* inputs */
} acts[] = {
    {"Add", PAIR, ADD, 2},
    {"Sub", PAIR, SUBTRACT, 2},
    {"Mul", PAIR, MULTIPLY, 2},
    {"Div", PAIR, DIVIDE, 2},
    {"Mod", PAIR, REST, 2},
    {"Pow", PAIR, POWER, 2},
    {"Equal", PAIR, SAME, 2},
    {"Less", PAIR, LESS, 2},
    {"Greater", PAIR, MORE, 2},
    {"LessOrEqual", PAIR, NO_MORE, 2},
    {"GreaterOrEqual", PAIR, NO_LESS, 2},
    {"And", PAIR, BOTH, 2},
    {"Or", PAIR, EITHER, 2},
    {"Xor", PAIR, ONE, 2},
    {"Sqrt", UNARY, 0, 1},
    {"Not", UNARY, 0, 1},
    {"Neg", UNARY, 0, 1},
    {"Identity", UNARY, 0, 1},
    {"Cast", OTHER, CAST, 1},
    {"CastLike", OTHER, CAST, 1},
    {"Where", OTHER, WHERE, 3},
    {"Reshape", OTHER, RESHAPE, 2},
    {"Transpose", OTHER, TRANSPOSE, 1},
    {"Squeeze", OTHER, SQUEEZE, 1},
    {"Unsqueeze", OTHER, UNSQUEEZE, 1},
    {"Expand", OTHER, EXPAND, 2},
    {"Slice", OTHER, SLICE, 3},
    {"Gather", OTHER, GATHER, 2},
    {"GatherND", OTHER, GATHER_ND, 2},
    {"GatherElements", OTHER, GATHER_ELEMENTS, 2},
    {"CumSum", OTHER, RUNNING_SUMS, 2},
    {"Concat", OTHER, CONCAT, 1},
    {"Max", OTHER, MOST, 1},
    {"Min", OTHER, LEAST, 1},
    {"Range", OTHER, RANGE, 3},
    {"ConstantOfShape", OTHER, FILL, 1},
    {"ScatterND", OTHER, SCATTER, 3},
};

/* Whether what says sizes, axes, places or indices is integers. */
static bool has_integers_where_needed(const ronde__onnx_node *node, const known *const *in, other what) {
  if (what == FILL) return in[0]->integers;
  if (what == SCATTER) return in[1]->integers;
  if (what < RESHAPE || what > RUNNING_SUMS) return true;
  for (int i = 1; i < node->n_in; i++)
    if (in[i] && !in[i]->integers) return false;
  return true;
}

static const known *other_act(ronde__onnx_import *im, const ronde__onnx_node *node, const known *const *in,
                              other what) {
  if (!has_integers_where_needed(node, in, what)) return NULL;
  switch (what) {
  case CAST: return cast(im, node, in[0]);
  case WHERE: return choose(im, in);
  case RESHAPE: return ronde__known_reshape(im, node, in[0], in[1]);
  case TRANSPOSE: return ronde__known_transpose(im, node, in[0]);
  case SQUEEZE: return ronde__known_squeeze(im, node, in[0], in[1], true);
  case UNSQUEEZE: return ronde__known_squeeze(im, node, in[0], in[1], false);
  case EXPAND: return ronde__known_expand(im, in[0], in[1]);
  case SLICE: return ronde__known_slice(im, in);
  case GATHER: return ronde__known_gather(im, node, in[0], in[1]);
  case GATHER_ND: return ronde__known_gather_nd(im, node, in[0], in[1]);
  case GATHER_ELEMENTS: return ronde__known_gather_elements(im, node, in[0], in[1]);
  case RUNNING_SUMS: return ronde__known_running_sums(im, node, in[0], in[1]);
  case CONCAT: return ronde__known_concat(im, node, in);
  case MOST: return extreme(im, node, in, LARGEST);
  case LEAST: return extreme(im, node, in, SMALLEST);
  case RANGE: return range(im, in);
  case FILL: return constant_of_shape(im, node, in[0]);
  default: return scatter(im, node, in);
  }
}

/* The sizes that integers are expanded to, which all examples have alike: the batch is 1. A float becomes a number. */
static const known *sizes_of_one(ronde__onnx_import *im, const ronde__onnx_value *value) {
  ronde__onnx_value one = *value;
  if (value->kind != RONDE__ONNX_SIZES) return any_known_of(im, value);
  if (value->n && value->size[0] == RONDE__ONNX_BATCH) one.size[0] = 1;
  return of_sizes(im, &one);
}

/* Whether a node is for this file to evaluate: it reads integers, or an array; or it is a list of what is fixed, or a number as
 * another type. */
static bool reads_known(const ronde__onnx_import *im, const ronde__onnx_node *node, bool casts, bool expands,
                        bool numbers, bool joins) {
  const ronde__onnx_value *first = ronde__onnx_in(im, node, 0);
  for (int i = 0; i < node->n_in; i++) {
    const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
    if (value && (value->kind == RONDE__ONNX_KNOWN || value->mask)) return true;
  }
  if (first && first->kind == RONDE__ONNX_NUMBER)
    return expands || (first->n == 0 &&
                       (numbers || (casts && ronde__onnx_cast_to(im, node) == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL)));
  if (!first || first->kind != RONDE__ONNX_CONSTANT) return first && first->kind == RONDE__ONNX_SIZES;
  bool is_one = ronde__onnx_elems(first->constant) == 1;
  return has_integers(first->constant) || (joins && first->fixed) || (expands && (first->fixed || is_one)) ||
         (casts && is_one && ronde__onnx_is_integer(ronde__onnx_cast_to(im, node)));
}

/* A short list of integers is one of sizes again. */
static ronde__onnx_value value_of(const known *y) {
  ronde__onnx_value sizes = {.kind = RONDE__ONNX_SIZES, .n = (int)y->n, .is_scalar = y->rank == 0};
  if (y->per_example != 0 || !y->integers || y->rank > 1 || y->n > RONDE__ONNX_MAX_SIZES)
    return (ronde__onnx_value){.kind = RONDE__ONNX_KNOWN, .known = y};
  for (int i = 0; i < sizes.n; i++) sizes.size[i] = (int64_t)y->values[i];
  return sizes;
}

/* Operators of arrays alone, where it has not been possible. */
ronde_status ronde__onnx_op_known_only(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return ronde__onnx_fail(
      im, node, "it is supported where its inputs follow from the file alone and have up to %d numbers", MAX_ELEMS);
}

/* Into a tensor that is not known, at indices and with updates that are: x keep + put, of which an element of one is 0. */
ronde_status ronde__onnx_op_scatter_nd(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x, *keep, *put;
  ronde__onnx_place place = {0};
  const known *at = ronde__onnx_known_of(im, ronde__onnx_in(im, node, 1)),
              *updates = ronde__onnx_known_of(im, ronde__onnx_in(im, node, 2));
  ronde__shape shape = {0};
  if (!at || !updates) return ronde__onnx_op_known_only(im, node);
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  shape.rank = ronde_tensor_dims(x, shape.dim);
  known *ones = ronde__onnx_make_known(im, shape.rank, shape.dim),
        *zeros = ronde__onnx_make_known(im, shape.rank, shape.dim);
  known *none = ronde__onnx_make_known(im, updates->rank, updates->dim);
  for (int64_t i = 0; ones && i < ones->n; i++) ones->values[i] = 1;
  const known *kept = ones && none ? scatter(im, node, (const known *[]){ones, at, none}) : NULL;
  const known *added = zeros ? scatter(im, node, (const known *[]){zeros, at, updates}) : NULL;
  if (place.at != RONDE__ONNX_ALIKE || !kept || !added) return ronde__onnx_op_known_only(im, node);
  RONDE_TRY(ronde__onnx_fixed(im, node, ".keep", kept, &keep));
  x = ronde_multiply(x, keep);
  if (!ronde__onnx_is_alike(added, 0)) {
    RONDE_TRY(ronde__onnx_fixed(im, node, ".put", added, &put));
    x = ronde_add(x, put);
  }
  return ronde__onnx_set_place(im, node, 0, x, &place);
}

/* From 0 up to the batch, by 1: the places of examples. What is looked up by them all examples have alike. */
static bool is_range_of_batch(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *end = ronde__onnx_in(im, node, 1);
  bool is_batch = end && end->kind == RONDE__ONNX_SIZES && end->n == 1 && end->size[0] == RONDE__ONNX_BATCH;
  for (int i = 0; i < 3 && is_batch; i += 2) {
    ronde__onnx_value one;
    is_batch = ronde__onnx_in_sizes(im, node, i, &one) == RONDE_OK && one.n == 1 && one.size[0] == i / 2;
  }
  return is_batch;
}

static bool looks_up(const ronde__onnx_node *node) { return !strncmp(node->proto->op_type, "Gather", 6); }

/* Where dimension d of one of two operands is in their result. */
static int spread_to(const known *y, const known *x, int d) { return d + y->rank - x->rank; }

/* How the values of y = a kind b differ from one example to the next. */
static void set_examples_of_pair(kind kind, const known *a, const known *b, known *y) {
  double by = kind == MULTIPLY ? NAN : a->per_example + (kind == ADD ? b->per_example : -b->per_example);
  if (kind == MULTIPLY && b->per_example == 0 && b->n && ronde__onnx_is_alike(b, b->values[0]))
    by = a->per_example * b->values[0];
  if (kind == MULTIPLY && a->per_example == 0 && a->n && ronde__onnx_is_alike(a, a->values[0]))
    by = b->per_example * a->values[0];
  int at_a = spread_to(y, a, a->examples_at), at_b = spread_to(y, b, b->examples_at);
  if (a->per_example != 0 && b->per_example != 0 && at_a != at_b) by = NAN;
  y->per_example = kind == ADD || kind == SUBTRACT || kind == MULTIPLY ? by : NAN;
  y->examples_at = a->per_example != 0 ? at_a : at_b;
}

/* The dimension d of x where others of 1 have come in between; -1: it has gone. */
static int unsqueezed(const known *x, const known *y, const known *list, int d) {
  for (int at = 0; at < y->rank; at++) {
    bool is_new = false;
    for (int64_t i = 0; i < list->n; i++)
      is_new |= (int64_t)list->values[i] == at || (int64_t)list->values[i] == at - y->rank;
    if (!is_new && d-- == 0) return at;
  }
  return -1;
}

/* The same of any node, by its inputs. */
static void set_examples(const ronde__onnx_node *node, act act, int what, const known *const *in, known *y) {
  bool differs = false;
  for (int i = 0; i < node->n_in; i++) differs |= in[i] && in[i]->per_example != 0 && !(i == 1 && looks_up(node));
  if (!differs) return;
  y->per_example = NAN;
  if (act == PAIR) set_examples_of_pair((kind)what, in[0], in[1], y);
  else if (act == UNARY && !strcmp(node->proto->op_type, "Identity")) y->per_example = in[0]->per_example;
  else if (act == OTHER && what == UNSQUEEZE && in[1] && in[1]->per_example == 0) {
    y->per_example = in[0]->per_example;
    y->examples_at = unsqueezed(in[0], y, in[1], in[0]->examples_at);
  }
}

bool ronde__onnx_evaluate(ronde__onnx_import *im, const ronde__onnx_node *node) {
  enum { MAX_IN = 16 };
  const known *in[MAX_IN] = {NULL}, *y;
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  size_t k = 0;
  while (k < RONDE__COUNT(acts) && strcmp(acts[k].type, node->proto->op_type) != 0) k++;
  if (k == RONDE__COUNT(acts) || node->n_in < acts[k].least || node->n_in > MAX_IN || !out) return false;
  bool casts = acts[k].act == OTHER && acts[k].what == CAST; /* of another input the type alone counts */
  bool expands = acts[k].act == OTHER && acts[k].what == EXPAND;
  if (acts[k].act == OTHER && acts[k].what == RANGE && im->file->lead && is_range_of_batch(im, node)) {
    known *first = ronde__onnx_make_known(im, 1, (int64_t[]){1});
    if (first) first->integers = true, first->per_example = 1, *out = value_of(first);
    return first;
  }
  bool takes_all = acts[k].act == OTHER && (acts[k].what == CONCAT || acts[k].what == MOST || acts[k].what == LEAST);
  bool alone = acts[k].act == UNARY, numbers = alone || acts[k].act == PAIR || expands;
  bool joins = acts[k].act == OTHER && acts[k].what == CONCAT;
  if (!reads_known(im, node, casts, expands, alone, joins)) return false;
  for (int i = 0; i < (casts ? 1 : node->n_in); i++) {
    const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
    if (value && expands && i == 1) in[i] = in[0]->integers ? sizes_of_one(im, value) : any_known_of(im, value);
    else if (value) in[i] = numbers || casts ? operand_of(im, value) : any_known_of(im, value);
    if (value && !in[i]) return false;
    if (!value && (i < acts[k].least || takes_all)) return false;
  }
  switch (acts[k].act) {
  case PAIR:
    y = pair(im, in, acts[k].what == REST && ronde__onnx_attr_int(node, "fmod", 0) ? FMOD : (kind)acts[k].what);
    break;
  case UNARY: y = unary(im, in[0], node->proto->op_type); break;
  default: y = other_act(im, node, in, (other)acts[k].what);
  }
  if (y) set_examples(node, acts[k].act, acts[k].what, in, (known *)y);
  if (y) *out = value_of(y);
  return y;
}

/* Arrays that follow from the file alone: masks, tables of indices, and the sizes that exporters compute them from. Nodes that
 * read nothing else are evaluated while the network is built. */
#include "onnx/import.h"

#include <math.h>
#include <string.h>

typedef ronde__onnx_known known;

/* Of one array, and of all of a building: a file does not get memory for what it merely claims. */
enum { MAX_ELEMS = 1 << 20, MAX_ALL = 1 << 23, MAX_RANK = RONDE__ONNX_MAX_SIZES };

/* A number that stands for "to the end" in a file may be larger; it still lies behind every end. */
static const int64_t FAR = INT64_C(1) << 53;

bool ronde__onnx_is_alike(const known *array, double value) {
  for (int64_t i = 0; i < array->n; i++)
    if (array->values[i] != value) return false;
  return true;
}

bool ronde__onnx_are_zeros(const ronde__onnx_value *value) {
  if (value->kind == RONDE__ONNX_NUMBER) return value->number == 0;
  return value->kind == RONDE__ONNX_KNOWN && ronde__onnx_is_alike(value->known, 0);
}

/* NULL: it is too large here, or has a size below 0. */
static known *make(ronde__onnx_import *im, int rank, const int64_t *dims, bool integers) {
  int64_t n = 1;
  if (rank > MAX_RANK) return NULL;
  for (int d = 0; d < rank; d++)
    if (dims[d] < 0 || dims[d] > MAX_ELEMS || (n *= dims[d]) > MAX_ELEMS) return NULL;
  if (im->n_known + n > MAX_ALL) return NULL;
  known *array = ronde__alloc(sizeof *array + (size_t)n * sizeof *array->values);
  if (!array) return NULL;
  *array = (known){.next = im->known, .integers = integers, .rank = rank, .n = n};
  if (rank) memcpy(array->dim, dims, (size_t)rank * sizeof *dims);
  im->known = array;
  im->n_known += n;
  return array;
}

known *ronde__onnx_make_known(ronde__onnx_import *im, int rank, const int64_t *dims) {
  known *array = make(im, rank, dims, false);
  for (int64_t i = 0; array && i < array->n; i++) array->values[i] = 0;
  return array;
}

void ronde__onnx_release_known(ronde__onnx_import *im) {
  for (known *next; im->known; im->known = next) {
    next = im->known->next;
    ronde__free(im->known);
  }
}

/* ---- what inputs hold ---- */

static double bounded(int64_t value) { return (double)ronde__max(-FAR, ronde__min(FAR, value)); }

static known *of_sizes(ronde__onnx_import *im, const ronde__onnx_value *value) {
  known *array = make(im, !value->is_scalar, (int64_t[]){value->n}, true);
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
  known *array = make(im, (int)tensor->n_dims, tensor->dims, integers);
  if (!array || (floats && array->n == 0)) return NULL;
  return (integers ? read_integers(tensor, array) : read_floats(im->file, tensor, array)) ? array : NULL;
}

const known *ronde__onnx_known_of(ronde__onnx_import *im, const ronde__onnx_value *value) {
  if (!value) return NULL;
  switch (value->kind) {
  case RONDE__ONNX_KNOWN: return value->known;
  case RONDE__ONNX_SIZES: return of_sizes(im, value);
  case RONDE__ONNX_CONSTANT: return of_constant(im, value);
  default: return NULL;
  }
}

/* A number takes the dims of what it meets. */
static const known *operand_of(ronde__onnx_import *im, const ronde__onnx_value *value) {
  known *array = value->kind == RONDE__ONNX_NUMBER ? make(im, 0, NULL, false) : NULL;
  if (value->kind != RONDE__ONNX_NUMBER) return ronde__onnx_known_of(im, value);
  if (array) array->values[0] = value->number;
  return array;
}

/* ---- walking ---- */

/* Elements in the steps of `step` over dims [rank], which begin at `first`. */
static void copy_steps(const known *from, int64_t first, const int64_t *step, known *to) {
  int64_t at[MAX_RANK] = {0}, place = first;
  for (int64_t i = 0; i < to->n; i++) {
    to->values[i] = from->values[place];
    for (int d = to->rank - 1; d >= 0; d--) {
      place += step[d];
      if (++at[d] < to->dim[d]) break;
      place -= step[d] * to->dim[d];
      at[d] = 0;
    }
  }
}

static void steps_of(const known *array, int64_t step_out[MAX_RANK]) {
  int64_t step = 1;
  for (int d = array->rank - 1; d >= 0; d--) step_out[d] = step, step *= array->dim[d];
}

/* The array with the dims of a larger one, as in arithmetic. NULL: it does not fit. */
static const known *spread(ronde__onnx_import *im, const known *array, int rank, const int64_t *dims) {
  int64_t own[MAX_RANK], step[MAX_RANK] = {0};
  int skip = rank - array->rank;
  if (skip < 0) return NULL;
  steps_of(array, own);
  for (int d = 0; d < array->rank; d++) {
    if (array->dim[d] != 1 && array->dim[d] != dims[d + skip]) return NULL;
    step[d + skip] = array->dim[d] == 1 ? 0 : own[d];
  }
  known *y = make(im, rank, dims, array->integers);
  if (y && array->n) copy_steps(array, 0, step, y);
  return y;
}

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

/* ---- arithmetic ---- */

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
  case BOTH: return a != 0 && b != 0;
  case EITHER: return a != 0 || b != 0;
  default: return (a != 0) != (b != 0);
  }
}

/* As the file's types have it: f32, or integers that doubles hold. */
static double rounded(double value, bool integers) {
  if (!integers) return (double)(float)value;
  return isnan(value) ? 0 : fmax(-(double)FAR, fmin((double)FAR, value));
}

static known *pair(ronde__onnx_import *im, const known *const *in, kind kind) {
  int64_t dims[MAX_RANK];
  int rank;
  bool integers = in[0]->integers && in[1]->integers;
  if (!common_dims(in, 2, &rank, dims)) return NULL;
  const known *a = spread(im, in[0], rank, dims), *b = spread(im, in[1], rank, dims);
  known *y = a && b ? make(im, rank, dims, integers || kind >= SAME) : NULL;
  for (int64_t i = 0; y && i < y->n; i++)
    y->values[i] = rounded(calculate(kind, a->values[i], b->values[i], integers), y->integers);
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
  const known *c = spread(im, in[0], rank, dims), *a = spread(im, in[1], rank, dims),
              *b = spread(im, in[2], rank, dims);
  known *y = c && a && b ? make(im, rank, dims, in[1]->integers && in[2]->integers) : NULL;
  for (int64_t i = 0; y && i < y->n; i++) y->values[i] = c->values[i] != 0 ? a->values[i] : b->values[i];
  return y;
}

static known *copy(ronde__onnx_import *im, const known *x, bool integers) {
  known *y = make(im, x->rank, x->dim, integers);
  if (y && x->n) memcpy(y->values, x->values, (size_t)x->n * sizeof *y->values);
  return y;
}

static known *cast(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x) {
  int64_t to = ronde__onnx_cast_to(im, node);
  bool truth = to == ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, floats = to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
  bool integers = ronde__onnx_is_integer(to);
  known *y = truth || floats || integers ? copy(im, x, !floats) : NULL;
  for (int64_t i = 0; y && i < y->n; i++)
    y->values[i] = truth ? y->values[i] != 0 : rounded(floats ? y->values[i] : trunc(y->values[i]), y->integers);
  return y;
}

static known *unary(ronde__onnx_import *im, const known *x, const char *type) {
  known *y = copy(im, x, x->integers);
  bool root = !strcmp(type, "Sqrt"), not = !strcmp(type, "Not"), minus = !strcmp(type, "Neg");
  for (int64_t i = 0; y && i < y->n; i++)
    y->values[i] = root    ? rounded(sqrt(y->values[i]), y->integers)
                   : not   ? y->values[i] == 0
                   : minus ? -y->values[i]
                           : y->values[i];
  return y;
}

/* ---- shapes ---- */

/* The array in dims, one of which may be -1, and those of 0 are as before. */
static known *reshape(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *to) {
  int64_t dims[MAX_RANK], product = 1;
  int open = -1;
  bool zeros = ronde__onnx_attr_int(node, "allowzero", 0) != 0;
  if (to->n > MAX_RANK) return NULL;
  for (int64_t d = 0; d < to->n; d++) {
    dims[d] = (int64_t)to->values[d];
    if (dims[d] == 0 && !zeros) dims[d] = d < x->rank ? x->dim[d] : -2;
    if (dims[d] == -1 && open < 0) open = (int)d;
    else if (dims[d] < 0 || dims[d] > MAX_ELEMS || (product *= dims[d]) > MAX_ELEMS) return NULL;
  }
  if (open >= 0 && (product == 0 || x->n % product)) return NULL;
  if (open >= 0) dims[open] = x->n / product;
  else if (product != x->n) return NULL;
  known *y = make(im, (int)to->n, dims, x->integers);
  if (y && x->n) memcpy(y->values, x->values, (size_t)x->n * sizeof *y->values);
  return y;
}

static known *transpose(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x) {
  size_t n;
  const int64_t *perm = ronde__onnx_attr_ints(node, "perm", &n);
  int64_t own[MAX_RANK], step[MAX_RANK], dims[MAX_RANK];
  unsigned seen = 0;
  if (perm && n != (size_t)x->rank) return NULL;
  steps_of(x, own);
  for (int d = 0; d < x->rank; d++) {
    int64_t from = perm ? perm[d] : x->rank - 1 - d;
    if (from < 0 || from >= x->rank || seen >> from & 1) return NULL;
    seen |= 1u << from;
    dims[d] = x->dim[from];
    step[d] = own[from];
  }
  known *y = make(im, x->rank, dims, x->integers);
  if (y && y->n) copy_steps(x, 0, step, y);
  return y;
}

/* Dimensions of 1 come or go at the axes of input 1, or of the attribute of older opsets. */
static known *squeeze(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *list,
                      bool away) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "axes", &n);
  int64_t dims[MAX_RANK];
  unsigned axes = 0;
  if (!given) n = list ? (size_t)list->n : 0;
  if (n > MAX_RANK) return NULL;
  int rank = away ? x->rank : x->rank + (int)n, kept = 0, from = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t axis = given ? given[i] : (int64_t)list->values[i];
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || axes >> axis & 1) return NULL;
    axes |= 1u << axis;
  }
  if (rank > MAX_RANK) return NULL;
  for (int d = 0; d < rank; d++) {
    bool named = axes >> d & 1;
    if (!away) dims[kept++] = named ? 1 : x->dim[from++];
    else if (n ? named : x->dim[d] == 1) {
      if (x->dim[d] != 1) return NULL;
    } else dims[kept++] = x->dim[d];
  }
  known *y = make(im, kept, dims, x->integers);
  if (y && x->n) memcpy(y->values, x->values, (size_t)x->n * sizeof *y->values);
  return y;
}

/* Not to fewer elements than there are: sizes of 1 leave a dimension as it is. */
static const known *expand(ronde__onnx_import *im, const known *x, const known *to) {
  int64_t dims[MAX_RANK];
  int rank = x->rank > to->n ? x->rank : (int)to->n;
  if (rank > MAX_RANK) return NULL;
  for (int d = 0; d < rank; d++) {
    int own = d - (rank - x->rank), wanted = d - (rank - (int)to->n);
    int64_t size = wanted >= 0 ? (int64_t)to->values[wanted] : 1;
    dims[d] = size == 1 && own >= 0 ? x->dim[own] : size;
  }
  return spread(im, x, rank, dims);
}

/* ---- parts ---- */

/* An end of a slice inside [least, most]. */
static int64_t end_inside(double at, int64_t n, int64_t least, int64_t most) {
  if (at < 0) at = at + (double)n < 0 ? -1 : at + (double)n;
  return ronde__max(least, ronde__min(most, (int64_t)at));
}

/* Starts, ends, axes and steps are inputs 1 to 4. */
static known *slice(ronde__onnx_import *im, const known *const *in) {
  const known *x = in[0];
  int64_t dims[MAX_RANK], step[MAX_RANK], first = 0, own[MAX_RANK];
  if (!in[1] || !in[2] || in[1]->n != in[2]->n) return NULL;
  if ((in[3] && in[3]->n != in[1]->n) || (in[4] && in[4]->n != in[1]->n)) return NULL;
  steps_of(x, own);
  for (int d = 0; d < x->rank; d++) dims[d] = x->dim[d], step[d] = own[d];
  for (int64_t i = 0; i < in[1]->n; i++) {
    int64_t d = in[3] ? (int64_t)in[3]->values[i] : i, by = in[4] ? (int64_t)in[4]->values[i] : 1;
    if (d < 0) d += x->rank;
    if (d < 0 || d >= x->rank || by == 0 || by < -MAX_ELEMS || by > MAX_ELEMS) return NULL;
    int64_t n = x->dim[d], least = by > 0 ? 0 : -1, most = by > 0 ? n : n - 1;
    int64_t begin = end_inside(in[1]->values[i], n, by > 0 ? 0 : -1, by > 0 ? n : n - 1);
    int64_t length = (end_inside(in[2]->values[i], n, least, most) - begin) * (by > 0 ? 1 : -1);
    dims[d] = length > 0 ? ronde__ceil_div(length, by > 0 ? by : -by) : 0;
    first += begin * own[d];
    step[d] = by * own[d];
  }
  known *y = make(im, x->rank, dims, x->integers);
  if (y && y->n) copy_steps(x, first, step, y);
  return y;
}

static known *gather(ronde__onnx_import *im, const ronde__onnx_node *node, const known *x, const known *at) {
  int64_t axis = ronde__onnx_attr_int(node, "axis", 0), dims[2 * MAX_RANK], outer = 1, inner = 1;
  int rank = 0;
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= x->rank || x->rank - 1 + at->rank > MAX_RANK) return NULL;
  for (int d = 0; d < axis; d++) outer *= x->dim[d], dims[rank++] = x->dim[d];
  for (int d = 0; d < at->rank; d++) dims[rank++] = at->dim[d];
  for (int d = (int)axis + 1; d < x->rank; d++) inner *= x->dim[d], dims[rank++] = x->dim[d];
  known *y = make(im, rank, dims, x->integers);
  double n = (double)x->dim[axis], *to = y ? y->values : NULL;
  for (int64_t o = 0; o < outer && y; o++)
    for (int64_t i = 0; i < at->n; i++, to += inner) {
      double from = at->values[i] < 0 ? at->values[i] + n : at->values[i];
      if (!(from >= 0 && from < n)) return NULL;
      memcpy(to, x->values + (o * x->dim[axis] + (int64_t)from) * inner, (size_t)inner * sizeof *to);
    }
  return y;
}

static known *concat(ronde__onnx_import *im, const ronde__onnx_node *node, const known *const *in) {
  int64_t axis = ronde__onnx_attr_int(node, "axis", 1), dims[MAX_RANK], outer = 1, inner = 1, behind = 0;
  int rank = in[0]->rank;
  bool integers = true;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return NULL;
  memcpy(dims, in[0]->dim, (size_t)rank * sizeof *dims);
  for (int i = 1; i < node->n_in; i++) {
    if (in[i]->rank != rank || in[i]->dim[axis] > MAX_ELEMS) return NULL;
    for (int d = 0; d < rank; d++)
      if (d != axis && in[i]->dim[d] != dims[d]) return NULL;
    dims[axis] += in[i]->dim[axis];
  }
  for (int i = 0; i < node->n_in; i++) integers = integers && in[i]->integers;
  for (int d = 0; d < axis; d++) outer *= dims[d];
  for (int d = (int)axis + 1; d < rank; d++) inner *= dims[d];
  known *y = make(im, rank, dims, integers);
  for (int i = 0; i < node->n_in && y && y->n; i++) {
    int64_t run = in[i]->dim[axis] * inner;
    for (int64_t o = 0; o < outer && run; o++)
      memcpy(y->values + o * dims[axis] * inner + behind, in[i]->values + o * run, (size_t)run * sizeof(double));
    behind += run;
  }
  return y;
}

/* ---- made anew ---- */

static known *range(ronde__onnx_import *im, const known *const *in) {
  if (in[0]->n != 1 || in[1]->n != 1 || in[2]->n != 1) return NULL;
  double start = in[0]->values[0], end = in[1]->values[0], by = in[2]->values[0], n = ceil((end - start) / by);
  if (by == 0 || !(n <= MAX_ELEMS)) return NULL;
  known *y = make(im, 1, (int64_t[]){n > 0 ? (int64_t)n : 0}, in[0]->integers);
  for (int64_t i = 0; y && i < y->n; i++) y->values[i] = rounded(start + (double)i * by, y->integers);
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
  known *y = make(im, (int)shape->n, dims, integers);
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
  steps_of(in[0], step);
  known *y = copy(im, in[0], in[0]->integers);
  for (int64_t i = 0; i < at->n / k && y && inner; i++) {
    int64_t place = 0;
    for (int64_t d = 0; d < k; d++) {
      double n = (double)y->dim[d], index = at->values[i * k + d];
      if (index < 0) index += n;
      if (!(index >= 0 && index < n)) return NULL;
      place += (int64_t)index * step[d];
    }
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
    {"Concat", OTHER, CONCAT, 1},
    {"Max", OTHER, MOST, 1},
    {"Min", OTHER, LEAST, 1},
    {"Range", OTHER, RANGE, 3},
    {"ConstantOfShape", OTHER, FILL, 1},
    {"ScatterND", OTHER, SCATTER, 3},
};

static const known *other_act(ronde__onnx_import *im, const ronde__onnx_node *node, const known *const *in,
                              other what) {
  switch (what) {
  case CAST: return cast(im, node, in[0]);
  case WHERE: return choose(im, in);
  case RESHAPE: return reshape(im, node, in[0], in[1]);
  case TRANSPOSE: return transpose(im, node, in[0]);
  case SQUEEZE: return squeeze(im, node, in[0], in[1], true);
  case UNSQUEEZE: return squeeze(im, node, in[0], in[1], false);
  case EXPAND: return expand(im, in[0], in[1]);
  case SLICE: return slice(im, in);
  case GATHER: return gather(im, node, in[0], in[1]);
  case CONCAT: return concat(im, node, in);
  case MOST: return extreme(im, node, in, LARGEST);
  case LEAST: return extreme(im, node, in, SMALLEST);
  case RANGE: return range(im, in);
  case FILL: return constant_of_shape(im, node, in[0]);
  default: return scatter(im, node, in);
  }
}

/* Whether a node is for this file to evaluate: it reads integers, or an array. */
static bool reads_known(const ronde__onnx_import *im, const ronde__onnx_node *node, bool casts, bool expands) {
  const ronde__onnx_value *first = ronde__onnx_in(im, node, 0);
  for (int i = 0; i < node->n_in; i++) {
    const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
    if (value && (value->kind == RONDE__ONNX_KNOWN || value->mask)) return true;
  }
  if (first && first->kind == RONDE__ONNX_NUMBER) return expands;
  if (!first || first->kind != RONDE__ONNX_CONSTANT) return first && first->kind == RONDE__ONNX_SIZES;
  bool is_one = ronde__onnx_elems(first->constant) == 1;
  return has_integers(first->constant) || (expands && (first->fixed || is_one)) ||
         (casts && is_one && ronde__onnx_is_integer(ronde__onnx_cast_to(im, node)));
}

/* A short list of integers is one of sizes again. */
static ronde__onnx_value value_of(const known *y) {
  ronde__onnx_value sizes = {.kind = RONDE__ONNX_SIZES, .n = (int)y->n, .is_scalar = y->rank == 0};
  if (!y->integers || y->rank > 1 || y->n > RONDE__ONNX_MAX_SIZES)
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

bool ronde__onnx_evaluate(ronde__onnx_import *im, const ronde__onnx_node *node) {
  enum { MAX_IN = 16 };
  const known *in[MAX_IN] = {NULL}, *y;
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  size_t k = 0;
  while (k < RONDE__COUNT(acts) && strcmp(acts[k].type, node->proto->op_type) != 0) k++;
  if (k == RONDE__COUNT(acts) || node->n_in < acts[k].least || node->n_in > MAX_IN || !out) return false;
  bool casts = acts[k].act == OTHER && acts[k].what == CAST; /* of another input the type alone counts */
  bool expands = acts[k].act == OTHER && acts[k].what == EXPAND;
  bool takes_all = acts[k].act == OTHER && (acts[k].what == CONCAT || acts[k].what == MOST || acts[k].what == LEAST);
  if (!reads_known(im, node, casts, expands)) return false;
  for (int i = 0; i < (casts ? 1 : node->n_in); i++) {
    const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
    if (value) in[i] = acts[k].act == PAIR || expands ? operand_of(im, value) : ronde__onnx_known_of(im, value);
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
  if (y) *out = value_of(y);
  return y;
}

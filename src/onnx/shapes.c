/* Operators that join, cut and reshape, and the arithmetic on sizes that exporters put in front of them. */
#include "onnx/import.h"

#include <inttypes.h>
#include <string.h>

#define KIND(value, KIND) ((value) && (value)->kind == RONDE__ONNX_##KIND)

/* Output 0 is what input 0 is. */
static ronde_status pass_on(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (!in || in->kind == RONDE__ONNX_NOTHING) return ronde__onnx_fail(im, node, "it has no input");
  if (out) *out = *in;
  return RONDE_OK;
}

static ronde_status set_sizes(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_value *sizes) {
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (out) *out = *sizes;
  return RONDE_OK;
}

/* Of integers, in sizes or in a constant. */
static bool is_sizes(const ronde__onnx_value *value) {
  ronde__onnx_value ignored;
  return KIND(value, SIZES) || (KIND(value, CONSTANT) && ronde__onnx_read_sizes(value->constant, &ignored));
}

/* ---- joining and cutting ---- */

static ronde_status join_sizes(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value all = {.kind = RONDE__ONNX_SIZES}, one;
  for (int i = 0; i < node->n_in; i++) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, i, &one));
    if (all.n + one.n > RONDE__ONNX_MAX_SIZES) return ronde__onnx_fail(im, node, "the list of sizes is too long");
    memcpy(all.size + all.n, one.size, (size_t)one.n * sizeof *one.size);
    all.n += one.n;
  }
  return set_sizes(im, node, &all);
}

/* Of more inputs than a call takes: those so far, and the next ones. */
static ronde_status join_tensors(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *inputs[RONDE__OP_MAX_INPUTS];
  int n = 0;
  for (int i = 0; i < node->n_in; i++) {
    RONDE_TRY(ronde__onnx_in_tensor(im, node, i, &inputs[n++]));
    bool is_last = i == node->n_in - 1;
    if (n < RONDE__OP_MAX_INPUTS && !is_last) continue;
    if (is_last) RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
    if (n > 1 && !(inputs[0] = ronde_concat(inputs, n))) return ronde_graph_status(im->graph);
    n = 1;
  }
  return n ? ronde__onnx_set(im, node, 0, inputs[0]) : ronde__onnx_fail(im, node, "it has no inputs");
}

ronde_status ronde__onnx_op_concat(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  int dim;
  if (is_sizes(ronde__onnx_in(im, node, 0))) return join_sizes(im, node);
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  RONDE_TRY(ronde__onnx_axis(im, node, ronde__onnx_attr_int(node, "axis", 1), ronde_tensor_dims(x, dims), &dim));
  if (dim) return ronde__onnx_fail(im, node, "only axis 1 is supported");
  return join_tensors(im, node);
}

/* Sizes of the pieces: an input since opset 13, before an attribute, or alike. */
static ronde_status read_pieces(ronde__onnx_import *im, const ronde__onnx_node *node, int64_t length,
                                int64_t *sizes_out) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "split", &n);
  ronde__onnx_value sizes;
  if (ronde__onnx_in(im, node, 1)) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &sizes));
    given = sizes.size;
    n = (size_t)sizes.n;
  }
  if (given && n != (size_t)node->n_out) return ronde__onnx_fail(im, node, "it has not one size for each output");
  int64_t each = ronde__ceil_div(length, node->n_out), left = length;
  for (int i = 0; i < node->n_out; i++) {
    sizes_out[i] = given ? given[i] : ronde__min(each, left);
    if (sizes_out[i] < 1 || sizes_out[i] > left) return ronde__onnx_fail(im, node, "its pieces do not fit its input");
    left -= sizes_out[i];
  }
  return left ? ronde__onnx_fail(im, node, "its pieces do not fit its input") : RONDE_OK;
}

/* Of more pieces than a call makes: the first ones, and the rest to cut again. */
ronde_status ronde__onnx_op_split(ronde__onnx_import *im, const ronde__onnx_node *node) {
  enum { MAX_PIECES = 64 };
  const ronde_tensor *x;
  ronde_tensor *pieces[RONDE__OP_MAX_OUTPUTS];
  int64_t dims[RONDE_MAX_RANK], sizes[MAX_PIECES];
  int dim, n_all = node->n_out;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  RONDE_TRY(ronde__onnx_axis(im, node, ronde__onnx_attr_int(node, "axis", 0), ronde_tensor_dims(x, dims), &dim));
  if (dim || n_all > MAX_PIECES)
    return ronde__onnx_fail(im, node, "only axis 1 and up to %d pieces are supported", MAX_PIECES);
  RONDE_TRY(read_pieces(im, node, dims[0], sizes));
  if (n_all == 1) return ronde__onnx_set(im, node, 0, x);
  for (int at = 0; at < n_all;) {
    int left = n_all - at, n = left <= RONDE__OP_MAX_OUTPUTS ? left : RONDE__OP_MAX_OUTPUTS, own = n < left ? n - 1 : n;
    int64_t now[RONDE__OP_MAX_OUTPUTS] = {0};
    for (int i = 0; i < left; i++) now[ronde__min(i, n - 1)] += sizes[at + i];
    if (at == 0) RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
    ronde_cut(x, n, now, pieces);
    for (int i = 0; i < own; i++) RONDE_TRY(ronde__onnx_set(im, node, at + i, pieces[i]));
    x = pieces[n - 1];
    at += own;
  }
  return RONDE_OK;
}

/* ---- reshaping ---- */

/* x in another shape: as it is, or as a vector. */
static ronde_status reshape_to(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                               const ronde__shape *shape) {
  ronde__shape own = {0};
  own.rank = ronde_tensor_dims(x, own.dim);
  if (ronde__shape_equal(&own, shape)) return ronde__onnx_set(im, node, 0, x);
  if (shape->rank == 1) {
    RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
    return ronde__onnx_set(im, node, 0, ronde_flatten(x));
  }
  char from[96], to[96];
  ronde__shape_text(&own, from, sizeof from);
  ronde__shape_text(shape, to, sizeof to);
  return ronde__onnx_fail(im, node, "an example of %s cannot become one of %s: only a vector", from, to);
}

ronde_status ronde__onnx_op_flatten(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__shape own = {0};
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  own.rank = ronde_tensor_dims(x, own.dim);
  int64_t axis = ronde__onnx_attr_int(node, "axis", 1);
  if (axis != 1 && axis != -own.rank) return ronde__onnx_fail(im, node, "only axis 1 is supported");
  return reshape_to(im, node, x, &(ronde__shape){1, {ronde__shape_elems(&own)}});
}

/* What the sizes behind the batch's ask for; rank 0: it is not possible. */
static ronde__shape wanted_shape(const ronde__onnx_value *to, const ronde__shape *own) {
  ronde__shape shape = {to->n - 1, {0}};
  int64_t elems = ronde__shape_elems(own), product = 1;
  int open = -1;
  if (shape.rank < 1 || shape.rank > RONDE_MAX_RANK) return (ronde__shape){0};
  for (int d = 0; d < shape.rank; d++) {
    int64_t size = to->size[1 + d];
    if (size == 0 && d < own->rank) size = own->dim[d];
    if (size == -1 && open < 0 && to->size[0] != -1) open = d;
    else if (size < 1 || __builtin_mul_overflow(product, size, &product)) return (ronde__shape){0};
    shape.dim[d] = size;
  }
  if (open >= 0 && elems % product) return (ronde__shape){0};
  if (open >= 0) shape.dim[open] = elems / product;
  return open >= 0 || product == elems ? shape : (ronde__shape){0};
}

ronde_status ronde__onnx_op_reshape(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_value to;
  ronde__shape own = {0};
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &to));
  own.rank = ronde_tensor_dims(x, own.dim);
  int64_t first = to.n ? to.size[0] : 1;
  bool keeps = first == RONDE__ONNX_BATCH || first == 0 || first == -1 || (im->file->batch && first == im->file->batch);
  ronde__shape shape = wanted_shape(&to, &own);
  if (!keeps || shape.rank == 0)
    return ronde__onnx_fail(im, node, "it does not keep the batch as the first dimension, or an example's elements");
  return reshape_to(im, node, x, &shape);
}

/* The axes as a mask, counted with the batch: an input since opset 13, an attribute before; 0: it has none. */
static ronde_status read_axes(ronde__onnx_import *im, const ronde__onnx_node *node, int rank, unsigned *mask_out) {
  size_t n;
  const int64_t *given = ronde__onnx_attr_ints(node, "axes", &n);
  ronde__onnx_value axes;
  *mask_out = 0;
  if (!given && ronde__onnx_in(im, node, 1)) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &axes));
    given = axes.size;
    n = (size_t)axes.n;
  }
  for (size_t i = 0; i < n; i++) {
    int64_t axis = given[i] < 0 && given[i] >= -rank ? given[i] + rank : given[i];
    if (axis < 0 || axis >= rank) return ronde__onnx_fail(im, node, "axis %" PRId64 " is not there", given[i]);
    *mask_out |= 1u << axis;
  }
  return RONDE_OK;
}

/* An LSTM's output has one direction: [T,1,N,H] becomes [T,N,H], and [1,N,H] becomes [N,H]. */
static ronde_status squeeze_lstm(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_value *in) {
  bool is_state = in->order == RONDE__ONNX_STATE;
  unsigned axes;
  RONDE_TRY(read_axes(im, node, is_state ? 3 : 4, &axes));
  if (axes != (is_state ? 1u : 2u)) return ronde__onnx_fail(im, node, "only the axis of directions can go");
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (!out) return RONDE_OK;
  *out = *in;
  out->order = is_state ? RONDE__ONNX_BATCH_FIRST : RONDE__ONNX_TIME_FIRST;
  return RONDE_OK;
}

ronde_status ronde__onnx_op_squeeze(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__shape own = {0}, shape = {0};
  unsigned axes;
  if (KIND(in, TENSOR) && (in->order == RONDE__ONNX_STATE || in->order == RONDE__ONNX_DIRECTIONS))
    return squeeze_lstm(im, node, in);
  if (is_sizes(in)) {
    ronde__onnx_value sizes;
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &sizes));
    if (sizes.n != 1) return ronde__onnx_fail(im, node, "a list of %d sizes cannot become one", sizes.n);
    sizes.is_scalar = true;
    return set_sizes(im, node, &sizes);
  }
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  own.rank = ronde_tensor_dims(x, own.dim);
  RONDE_TRY(read_axes(im, node, own.rank + 1, &axes));
  for (int d = 0; d < own.rank; d++) {
    bool goes = axes ? axes >> (d + 1) & 1 : own.dim[d] == 1;
    if (goes && own.dim[d] != 1) return ronde__onnx_fail(im, node, "axis %d is not 1", d + 1);
    if (!goes) shape.dim[shape.rank++] = own.dim[d];
  }
  if ((axes & 1) || shape.rank == 0) return ronde__onnx_fail(im, node, "the batch or all of an example would go");
  return reshape_to(im, node, x, &shape);
}

/* [N,H] becomes a state [1,N,H] of an LSTM. */
static ronde_status unsqueeze_state(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  int64_t dims[RONDE_MAX_RANK];
  unsigned axes;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  RONDE_TRY(read_axes(im, node, ronde_tensor_dims(x, dims) + 2, &axes));
  if (ronde_tensor_dims(x, dims) != 1 || axes != 1)
    return ronde__onnx_fail(im, node, "only sizes, and states of an LSTM, can get another dimension");
  if (out) *out = (ronde__onnx_value){.kind = RONDE__ONNX_TENSOR, .order = RONDE__ONNX_STATE, .x = x};
  return RONDE_OK;
}

ronde_status ronde__onnx_op_unsqueeze(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value sizes;
  if (!is_sizes(ronde__onnx_in(im, node, 0))) return unsqueeze_state(im, node);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &sizes));
  if (sizes.n != 1) return ronde__onnx_fail(im, node, "a list of %d sizes cannot get another dimension", sizes.n);
  sizes.is_scalar = false;
  return set_sizes(im, node, &sizes);
}

ronde_status ronde__onnx_op_transpose(ronde__onnx_import *im, const ronde__onnx_node *node) {
  static const int64_t times[] = {1, 0, 2}, matrix[] = {1, 0};
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  int64_t dims[RONDE_MAX_RANK];
  size_t n;
  const int64_t *perm = ronde__onnx_attr_ints(node, "perm", &n);
  bool turns = (!perm || (n == 2 && !memcmp(perm, matrix, sizeof matrix)));
  if (KIND(in, CONSTANT) && in->constant->n_dims == 2 && turns && out) {
    *out = *in;
    out->transposed = !in->transposed;
    return RONDE_OK;
  }
  bool is_sequence = KIND(in, TENSOR) && in->order <= RONDE__ONNX_TIME_FIRST && ronde_tensor_dims(in->x, dims) == 2;
  if (is_sequence && perm && n == 3 && !memcmp(perm, times, sizeof times) && out) {
    *out = *in;
    out->order = in->order == RONDE__ONNX_BATCH_FIRST ? RONDE__ONNX_TIME_FIRST : RONDE__ONNX_BATCH_FIRST;
    return RONDE_OK;
  }
  bool moves = !perm;
  for (size_t d = 0; d < n; d++) moves |= perm[d] != (int64_t)d;
  if (KIND(in, TENSOR) && !moves) return pass_on(im, node);
  return ronde__onnx_fail(im, node, "only weights, and the time of a sequence, can be transposed");
}

/* ---- constants and sizes ---- */

ronde_status ronde__onnx_op_identity(ronde__onnx_import *im, const ronde__onnx_node *node) { return pass_on(im, node); }

ronde_status ronde__onnx_op_cast(ronde__onnx_import *im, const ronde__onnx_node *node) {
  int64_t to = ronde__onnx_attr_int(node, "to", 0);
  bool to_sizes = to == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 || to == ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
  bool sizes = is_sizes(ronde__onnx_in(im, node, 0));
  if (sizes ? !to_sizes : to != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
    return ronde__onnx_fail(im, node, "to type %" PRId64 " it is not supported", to);
  return pass_on(im, node);
}

/* Those that are tensors are known from the beginning, as initializers are. */
ronde_status ronde__onnx_op_constant(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const Onnx__AttributeProto *one = ronde__onnx_attr(node, "value_int"), *list = ronde__onnx_attr(node, "value_ints");
  const Onnx__AttributeProto *number = ronde__onnx_attr(node, "value_float");
  ronde__onnx_value value = {.kind = RONDE__ONNX_SIZES, .n = 1, .is_scalar = true};
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (one) value.size[0] = one->i;
  else if (number) value = (ronde__onnx_value){.kind = RONDE__ONNX_NUMBER, .number = (double)number->f};
  else if (list && list->n_ints <= RONDE__ONNX_MAX_SIZES) {
    value.is_scalar = false;
    value.n = (int)list->n_ints;
    for (int i = 0; i < value.n; i++) value.size[i] = list->ints[i];
  } else {
    return ronde__onnx_fail(im, node, "a constant of this kind is not supported");
  }
  for (int i = 0; value.kind == RONDE__ONNX_SIZES && i < value.n; i++)
    if (value.size[i] == RONDE__ONNX_BATCH) return ronde__onnx_fail(im, node, "its value is out of range");
  if (out) *out = value;
  return RONDE_OK;
}

/* Zeros, as states of an LSTM begin. */
ronde_status ronde__onnx_op_constant_of_shape(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const Onnx__AttributeProto *value = ronde__onnx_attr(node, "value");
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0), number = {.kind = RONDE__ONNX_NUMBER};
  if (value && value->t && !ronde__onnx_read_number(value->t, &number.number))
    return ronde__onnx_fail(im, node, "only a float is supported as its value");
  if (out) *out = number;
  return RONDE_OK;
}

ronde_status ronde__onnx_op_expand(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0), number = {.kind = RONDE__ONNX_NUMBER};
  bool is_zero = KIND(in, CONSTANT) && ronde__onnx_is_zero(in->constant);
  if (KIND(in, NUMBER)) number.number = in->number;
  else if (!is_zero && !(KIND(in, CONSTANT) && ronde__onnx_read_number(in->constant, &number.number)))
    return ronde__onnx_fail(im, node, "only constants that are one number can be expanded");
  if (out) *out = number;
  return RONDE_OK;
}

ronde_status ronde__onnx_op_shape(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int64_t dims[RONDE_MAX_RANK];
  ronde__onnx_value sizes = {.kind = RONDE__ONNX_SIZES, .n = 1, .size = {RONDE__ONNX_BATCH}};
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  int rank = ronde_tensor_dims(x, dims);
  if (ronde__onnx_attr(node, "start") || ronde__onnx_attr(node, "end"))
    return ronde__onnx_fail(im, node, "start and end are not supported");
  for (int d = 0; d < rank; d++) sizes.size[sizes.n++] = dims[d];
  return set_sizes(im, node, &sizes);
}

/* The only layer and direction of an LSTM's state: [1,N,H] becomes [N,H]. */
static ronde_status gather_state(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_value *in) {
  ronde__onnx_value at, *out = ronde__onnx_out(im, node, 0);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &at));
  bool is_first = at.is_scalar && at.n == 1 && (at.size[0] == 0 || at.size[0] == -1);
  if (!is_first || ronde__onnx_attr_int(node, "axis", 0))
    return ronde__onnx_fail(im, node, "of an LSTM's state only its one layer can be taken");
  if (out) *out = (ronde__onnx_value){.kind = RONDE__ONNX_TENSOR, .x = in->x};
  return RONDE_OK;
}

ronde_status ronde__onnx_op_gather(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value from, at, picked = {.kind = RONDE__ONNX_SIZES};
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  if (KIND(in, TENSOR) && in->order == RONDE__ONNX_STATE) return gather_state(im, node, in);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &from));
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &at));
  if (ronde__onnx_attr_int(node, "axis", 0)) return ronde__onnx_fail(im, node, "only axis 0 is supported");
  picked.is_scalar = at.is_scalar;
  for (; picked.n < at.n; picked.n++) {
    int64_t i = at.size[picked.n] < 0 && at.size[picked.n] >= -from.n ? at.size[picked.n] + from.n : at.size[picked.n];
    if (i < 0 || i >= from.n) return ronde__onnx_fail(im, node, "index %" PRId64 " is not there", i);
    picked.size[picked.n] = from.size[i];
  }
  return set_sizes(im, node, &picked);
}

/* Of sizes: from one place to another. */
ronde_status ronde__onnx_op_slice(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value from, place[4] = {{.n = 0}, {.n = 0}, {.n = 1, .size = {0}}, {.n = 1, .size = {1}}};
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &from));
  for (int i = 1; i <= 4; i++) /* starts, ends, axes, steps */
    if (i <= 2 || ronde__onnx_in(im, node, i)) RONDE_TRY(ronde__onnx_in_sizes(im, node, i, &place[i - 1]));
  if (place[0].n != 1 || place[1].n != 1 || place[2].size[0] != 0 || place[3].size[0] != 1)
    return ronde__onnx_fail(im, node, "only a stretch of a list of sizes is supported");
  int64_t begin = place[0].size[0], end = place[1].size[0];
  begin = ronde__max(0, ronde__min(from.n, begin < 0 && begin >= -from.n ? begin + from.n : begin));
  end = ronde__max(begin, ronde__min(from.n, end < 0 && end >= -from.n ? end + from.n : end));
  ronde__onnx_value part = {.kind = RONDE__ONNX_SIZES, .n = (int)(end - begin)};
  memcpy(part.size, from.size + begin, (size_t)part.n * sizeof *part.size);
  return set_sizes(im, node, &part);
}

/* Operators that reshape, and the arithmetic on sizes that exporters put in front of them. */
#include "onnx/import.h"

#include <inttypes.h>
#include <string.h>

/* Output 0 is what input 0 is. */
static ronde_status pass_on(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (!in || in->kind == RONDE__ONNX_NOTHING) return ronde__onnx_fail(im, node, "it has no input");
  if (out) *out = *in;
  return RONDE_OK;
}

/* The same of a number, whose dims may be others then. */
static ronde_status pass_on_number(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (out) *out = (ronde__onnx_value){.kind = RONDE__ONNX_NUMBER, .number = ronde__onnx_in(im, node, 0)->number};
  return RONDE_OK;
}

static ronde_status set_sizes(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_value *sizes) {
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (out) *out = *sizes;
  return RONDE_OK;
}

/* ---- reshaping ---- */

/* x in another shape, and where that has the batch. Of rank 0, a single number: [1]. */
static ronde_status reshape_to(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                               const ronde__shape *shape, const ronde__onnx_place *place) {
  ronde__shape own = {0}, one = {1, {1}};
  own.rank = ronde_tensor_dims(x, own.dim);
  if (shape->rank == 0) shape = &one;
  if (ronde__shape_equal(&own, shape)) return ronde__onnx_set_place(im, node, 0, x, place);
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set_place(im, node, 0, ronde_reshape(x, shape->rank, shape->dim), place);
}

/* To a matrix; its rows are the batch's, unless there is none. */
ronde_status ronde__onnx_op_flatten(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  ronde__shape own = {0}, to = {2, {1, 1}};
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  int lead = im->file->lead && !(RONDE__ONNX_IS(in, TENSOR) && in->at == RONDE__ONNX_ALIKE);
  if (lead) RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  else RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  own.rank = ronde_tensor_dims(x, own.dim);
  int64_t axis = ronde__onnx_attr_int(node, "axis", 1);
  if (axis < 0) axis += own.rank + lead;
  if (axis < 0 || axis > own.rank + lead || (lead && axis != 1))
    return ronde__onnx_fail(im, node, lead ? "only axis 1 is supported" : "its axis is not there");
  if (lead) to = (ronde__shape){1, {ronde__shape_elems(&own)}};
  for (int d = 0; d < own.rank && !lead; d++) to.dim[d >= axis] *= own.dim[d];
  return reshape_to(im, node, x, &to, &(ronde__onnx_place){2, lead ? 0 : RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0});
}

ronde_status ronde__onnx_op_reshape(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value to, sizes;
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &to));
  if (!ronde__onnx_is_sizes(ronde__onnx_in(im, node, 0))) return ronde__onnx_reshape_tensor(im, node, &to);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &sizes)); /* a list stays a list, or a number by itself */
  if (to.n > 1 || (to.n == 1 && to.size[0] != -1 && to.size[0] != sizes.n) || (to.n == 0 && sizes.n != 1))
    return ronde__onnx_fail(im, node, "a list of sizes cannot get another shape");
  sizes.is_scalar = to.n == 0;
  return set_sizes(im, node, &sizes);
}

static ronde_status read_axes(ronde__onnx_import *im, const ronde__onnx_node *node, int rank, unsigned *mask_out) {
  return ronde__onnx_axes(im, node, 1, rank, mask_out);
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
  out->order = RONDE__ONNX_AS_EVER;
  out->at = is_state ? 0 : 1;
  return RONDE_OK;
}

/* Dimensions of 1 go: those that are named, or all. */
static ronde_status squeeze_tensor(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0}, to;
  ronde__shape own = {0}, shape = {0};
  unsigned axes;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  own.rank = ronde_tensor_dims(x, own.dim);
  RONDE_TRY(read_axes(im, node, place.rank, &axes));
  bool has_batch = place.at != RONDE__ONNX_ALIKE, loses = has_batch && axes >> place.at & 1;
  to = place;
  for (int axis = 0; axis < place.rank; axis++) {
    int dim = ronde__onnx_dim_at(&place, axis);
    if (dim < 0 && !place.merged) continue;
    if (dim < 0) dim = axis;
    bool goes = axis != place.at && (axes ? axes >> axis & 1 : own.dim[dim] == 1);
    if (goes && own.dim[dim] != 1) return ronde__onnx_fail(im, node, "axis %d is not 1", axis);
    if (!goes) shape.dim[shape.rank++] = own.dim[dim];
    else if (axis < place.at) to.at--;
  }
  if (loses || (has_batch && shape.rank == 0))
    return ronde__onnx_fail(im, node, "the batch or all of an example would go");
  return reshape_to(im, node, x, &shape, &to);
}

ronde_status ronde__onnx_op_squeeze(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value sizes;
  bool has_direction =
      RONDE__ONNX_IS(in, TENSOR) && (in->order == RONDE__ONNX_DIRECTIONS || in->order == RONDE__ONNX_STATE);
  if (has_direction) return squeeze_lstm(im, node, in);
  if (!ronde__onnx_is_sizes(in)) return squeeze_tensor(im, node);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &sizes));
  if (sizes.n != 1) return ronde__onnx_fail(im, node, "a list of %d sizes cannot become one", sizes.n);
  sizes.is_scalar = true;
  return set_sizes(im, node, &sizes);
}

/* [N,H] becomes a state [1,N,H] of an LSTM; else a tensor gets dimensions of 1. */
static ronde_status unsqueeze_tensor(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  ronde__onnx_place place = {0}, to_place;
  ronde__shape own = {0}, to = {0};
  unsigned axes;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  own.rank = ronde_tensor_dims(x, own.dim);
  size_t n;
  ronde__onnx_value given = {0};
  if (!ronde__onnx_attr_ints(node, "axes", &n)) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &given));
    n = (size_t)given.n;
  }
  if (n > RONDE_MAX_RANK) return ronde__onnx_fail(im, node, "it has too many axes");
  int rank = place.rank + (int)n;
  RONDE_TRY(read_axes(im, node, rank, &axes));
  if (place.at == 0 && !place.merged && own.rank == 1 && axes == 1) {
    if (out) *out = (ronde__onnx_value){.kind = RONDE__ONNX_TENSOR, .order = RONDE__ONNX_STATE, .x = x};
    return RONDE_OK;
  }
  if (own.rank + (int)n > RONDE_MAX_RANK || __builtin_popcount(axes) != (int)n)
    return ronde__onnx_fail(im, node, "an axis is there twice, or is one too many");
  to_place = (ronde__onnx_place){rank, RONDE__ONNX_ALIKE, place.merged, 0};
  for (int axis = 0, from = 0; axis < rank; axis++) {
    if (axes >> axis & 1) to.dim[to.rank++] = 1;
    else if (from++ == place.at) to_place.at = axis;
    if (axes >> axis & 1 || (from - 1 == place.at && !place.merged)) continue;
    to.dim[to.rank++] =
        own.dim[place.merged || place.at == RONDE__ONNX_ALIKE || from - 1 < place.at ? from - 1 : from - 2];
  }
  return reshape_to(im, node, x, &to, &to_place);
}

/* The weight of a convolution along one dimension, [O,C,K], which becomes [O,C,1,K] for a convolution of images and nothing else. */
static bool is_row(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  size_t n;
  const int64_t *axes = ronde__onnx_attr_ints(node, "axes", &n);
  ronde__onnx_value given = {0};
  if (!RONDE__ONNX_IS(in, CONSTANT) || in->constant->n_dims != 3 || in->transposed || !next) return false;
  if ((next->build != ronde__onnx_op_conv && next->build != ronde__onnx_op_conv_transpose) || next->n_in < 2 ||
      next->in[1] != node->out[0])
    return false;
  if (!axes && ronde__onnx_in_sizes(im, node, 1, &given) == RONDE_OK) axes = given.size, n = (size_t)given.n;
  return axes && n == 1 && (axes[0] == 2 || axes[0] == -2);
}

ronde_status ronde__onnx_op_unsqueeze(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value sizes;
  if (is_row(im, node)) {
    RONDE_TRY(pass_on(im, node));
    ronde__onnx_out(im, node, 0)->row = true;
    return RONDE_OK;
  }
  if (!ronde__onnx_is_sizes(ronde__onnx_in(im, node, 0))) return unsqueeze_tensor(im, node);
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &sizes));
  if (sizes.n != 1) return ronde__onnx_fail(im, node, "a list of %d sizes cannot get another dimension", sizes.n);
  sizes.is_scalar = false;
  return set_sizes(im, node, &sizes);
}

/* Whether a product is a linear layer of its first operand. */
static bool is_linear(const ronde__onnx *file, const ronde__onnx_node *product, int operand) {
  int weight = product->n_in == 2 && product->in[0] == operand ? product->in[1] : -1;
  const int producer = weight < 0 ? -1 : file->producer[weight];
  if (producer >= 0 && file->nodes[producer].build == ronde__onnx_op_transpose) weight = file->nodes[producer].in[0];
  return weight >= 0 && file->constants[weight] && file->constants[weight]->n_dims == 2 && !file->is_buffer[weight];
}

/* Whether only products of matrices read it, which can take it as it lies. */
static bool is_for_product(const ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__onnx_place *place,
                           int rank, const int *order) {
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  if (!next || next->build != ronde__onnx_op_matmul || rank < 2 || place->at > place->rank - 3) return false;
  if (is_linear(im->file, next, node->out[0])) return false;
  for (int d = 0; d < rank - 2; d++)
    if (order[d] != d) return false;
  return order[rank - 2] == rank - 1;
}

static ronde_status transpose_tensor(ronde__onnx_import *im, const ronde__onnx_node *node, const int64_t *perm,
                                     size_t n) {
  const ronde_tensor *x;
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  ronde__onnx_place place = {0}, to;
  int64_t dims[RONDE_MAX_RANK];
  int order[RONDE_MAX_RANK + 1], rank = 0;
  unsigned seen = 0;
  bool moves = false;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  if (perm && n != (size_t)place.rank) return ronde__onnx_fail(im, node, "its perm has another length");
  to = place;
  for (int axis = 0; axis < place.rank; axis++) {
    int64_t from = perm ? perm[axis] : place.rank - 1 - axis;
    if (from < 0 || from >= place.rank || seen >> from & 1)
      return ronde__onnx_fail(im, node, "its perm names a dimension that is not there, or one twice");
    seen |= 1u << from;
    if (from == place.at) to.at = axis;
    if (from == place.at && !place.merged) continue;
    order[rank] = from == place.at ? (int)from : ronde__onnx_dim_at(&place, (int)from);
    moves |= order[rank] != rank;
    rank++;
  }
  ronde_tensor_dims(x, dims);
  if (!moves) return ronde__onnx_set_place(im, node, 0, x, &to);
  if (out && is_for_product(im, node, &to, rank, order)) {
    RONDE_TRY(ronde__onnx_set_place(im, node, 0, x, &to));
    out->transposed = true;
    return RONDE_OK;
  }
  RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  return ronde__onnx_set_place(im, node, 0, ronde__onnx_transposed(x, order), &to);
}

ronde_status ronde__onnx_op_transpose(ronde__onnx_import *im, const ronde__onnx_node *node) {
  static const int64_t matrix[] = {1, 0};
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  size_t n;
  const int64_t *perm = ronde__onnx_attr_ints(node, "perm", &n);
  bool turns = (!perm || (n == 2 && !memcmp(perm, matrix, sizeof matrix)));
  if (RONDE__ONNX_IS(in, TENSOR) && in->shuffled) return pass_on(im, node);
  if (!RONDE__ONNX_IS(in, CONSTANT) || in->constant->n_dims != 2 || !turns || !out)
    return transpose_tensor(im, node, perm, n);
  *out = *in;
  out->transposed = !in->transposed;
  return RONDE_OK;
}

/* ---- constants and sizes ---- */

ronde_status ronde__onnx_op_identity(ronde__onnx_import *im, const ronde__onnx_node *node) { return pass_on(im, node); }

ronde_status ronde__onnx_op_cast(ronde__onnx_import *im, const ronde__onnx_node *node) {
  int64_t to = ronde__onnx_cast_to(im, node);
  bool to_sizes = ronde__onnx_is_integer(to);
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  bool sizes = ronde__onnx_is_sizes(in);
  double number;
  if (!sizes && to == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT && ronde__onnx_is_number(im, node, 0, &number)) {
    ronde__onnx_value *out = ronde__onnx_out(im, node, 0); /* of f64 too */
    if (!out) return RONDE_OK;
    *out = RONDE__ONNX_IS(in, NUMBER) ? *in : (ronde__onnx_value){.kind = RONDE__ONNX_NUMBER};
    out->number = (double)(float)number;
    return RONDE_OK;
  }
  if (sizes ? !to_sizes : to != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
    return ronde__onnx_fail(im, node, "to type %" PRId64 " it is not supported", to);
  return pass_on(im, node);
}

/* Those that are tensors are known from the beginning, as initializers are. */
ronde_status ronde__onnx_op_constant(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const Onnx__AttributeProto *one = ronde__onnx_attr(node, "value_int"), *list = ronde__onnx_attr(node, "value_ints");
  const Onnx__AttributeProto *number = ronde__onnx_attr(node, "value_float"),
                             *floats = ronde__onnx_attr(node, "value_floats");
  ronde__onnx_value value = {.kind = RONDE__ONNX_SIZES, .n = 1, .is_scalar = true};
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  if (one) value.size[0] = one->i;
  else if (number) value = (ronde__onnx_value){.kind = RONDE__ONNX_NUMBER, .number = (double)number->f};
  else if (list && list->n_ints <= RONDE__ONNX_MAX_SIZES) {
    value.is_scalar = false;
    value.n = (int)list->n_ints;
    for (int i = 0; i < value.n; i++) value.size[i] = list->ints[i];
  } else {
    ronde__onnx_known *array = floats ? ronde__onnx_make_known(im, 1, (int64_t[]){(int64_t)floats->n_floats}) : NULL;
    if (!array) return ronde__onnx_fail(im, node, "a constant of this kind is not supported");
    for (int64_t i = 0; i < array->n; i++) array->values[i] = (double)floats->floats[i];
    value = (ronde__onnx_value){.kind = RONDE__ONNX_KNOWN, .known = array};
  }
  for (int i = 0; value.kind == RONDE__ONNX_SIZES && i < value.n; i++)
    if (ronde__onnx_batches(value.size[i])) return ronde__onnx_fail(im, node, "its value is out of range");
  if (out) *out = value;
  return RONDE_OK;
}

/* A number gets the dims that are input i, if these are known. */
static void give_dims(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, ronde__onnx_value *number) {
  const ronde__onnx_value *sizes = ronde__onnx_in(im, node, i);
  if (!RONDE__ONNX_IS(sizes, SIZES)) return;
  for (int d = 0; d < sizes->n; d++)
    if (sizes->size[d] < 1 && !ronde__onnx_batches(sizes->size[d])) return;
  number->n = sizes->n;
  memcpy(number->size, sizes->size, sizeof sizes->size);
}

/* Zeros, as states of an LSTM begin. */
ronde_status ronde__onnx_op_constant_of_shape(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const Onnx__AttributeProto *value = ronde__onnx_attr(node, "value");
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0), number = {.kind = RONDE__ONNX_NUMBER}, one, length;
  if (value && value->t && ronde__onnx_read_sizes(value->t, &one) && one.n == 1) { /* integers, all alike */
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &length));
    if (length.n != 1 || length.size[0] < 0 || length.size[0] > RONDE__ONNX_MAX_SIZES)
      return ronde__onnx_fail(im, node, "only a short list of integers is supported");
    ronde__onnx_value list = {.kind = RONDE__ONNX_SIZES, .n = (int)length.size[0]};
    for (int i = 0; i < list.n; i++) list.size[i] = one.size[0];
    return set_sizes(im, node, &list);
  }
  if (value && value->t && !ronde__onnx_read_number(value->t, &number.number))
    return ronde__onnx_fail(im, node, "only a float is supported as its value");
  give_dims(im, node, 0, &number);
  if (out) *out = number;
  return RONDE_OK;
}

/* Whether the sizes are those of a batch of tensors, of which a constant has one: [batch,...] of [1,...] or [...]. */
static bool is_for_batch(const ronde__onnx_import *im, const ronde__onnx_value *in, const ronde__onnx_value *sizes) {
  int dims = (int)in->constant->n_dims, skip = dims == sizes->n;
  if (!im->file->lead || sizes->n < 2 || dims < 1 || dims < sizes->n - 1 || (skip && in->constant->dims[0] != 1))
    return false;
  if (sizes->size[0] != RONDE__ONNX_BATCH && !(im->file->batch && sizes->size[0] == im->file->batch)) return false;
  for (int d = 1; d < sizes->n; d++) {
    int64_t own = in->constant->dims[d - 1 + skip];
    if (sizes->size[d] != own && sizes->size[d] != -1 && sizes->size[d] != 1) return false;
  }
  return true;
}

ronde_status ronde__onnx_op_expand(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  ronde__onnx_value sizes;
  const ronde_tensor *y;
  if (RONDE__ONNX_IS(in, TENSOR)) return ronde__onnx_expand_tensor(im, node);
  if (RONDE__ONNX_IS(in, CONSTANT) && ronde__onnx_elems(in->constant) > 0 &&
      in->constant->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT && in->constant->n_dims > 0) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &sizes));
    if (is_for_batch(im, in, &sizes)) {
      RONDE_TRY(ronde__onnx_operand(im, node, 0, &(ronde__onnx_place){sizes.n, 0, RONDE__ONNX_ALONE, 0}, &y));
      return ronde__onnx_set(im, node, 0, y);
    }
  }
  ronde__onnx_value *out = ronde__onnx_out(im, node, 0), number = {.kind = RONDE__ONNX_NUMBER};
  bool is_zero = RONDE__ONNX_IS(in, CONSTANT) && ronde__onnx_is_zero(in->constant);
  bool is_number = ronde__onnx_is_number(im, node, 0, &number.number) ||
                   (RONDE__ONNX_IS(in, CONSTANT) && ronde__onnx_read_number(in->constant, &number.number));
  if (!is_zero && !is_number) return ronde__onnx_fail(im, node, "only constants that are one number can be expanded");
  bool is_single = RONDE__ONNX_IS(in, CONSTANT) ? in->constant->n_dims == 0
                   : RONDE__ONNX_IS(in, KNOWN)  ? in->known->rank == 0
                                                : RONDE__ONNX_IS(in, NUMBER) && in->n == 0;
  if (is_single) give_dims(im, node, 1, &number);
  if (out) *out = number;
  return RONDE_OK;
}

/* As PyTorch's exporter asks which sizes of an expansion are -1: a list of 0 and 1. */
ronde_status ronde__onnx_op_equal(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__onnx_value a, b;
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &a));
  RONDE_TRY(ronde__onnx_in_sizes(im, node, 1, &b));
  if (a.n != b.n) return ronde__onnx_fail(im, node, "only lists of sizes that are equally long can be compared");
  for (int i = 0; i < a.n; i++) a.size[i] = a.size[i] == b.size[i];
  return set_sizes(im, node, &a);
}

/* All sizes, or those from start to end. */
ronde_status ronde__onnx_op_shape(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  ronde__onnx_value sizes = {.kind = RONDE__ONNX_SIZES}, all;
  if (ronde__onnx_is_sizes(ronde__onnx_in(im, node, 0))) {
    RONDE_TRY(ronde__onnx_in_sizes(im, node, 0, &sizes));
    return set_sizes(im, node,
                     &(ronde__onnx_value){.kind = RONDE__ONNX_SIZES, .n = !sizes.is_scalar, .size = {sizes.n}});
  }
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  if (RONDE__ONNX_IS(in, NUMBER) && in->n > 0) {
    all = *in;
  } else if (RONDE__ONNX_IS(in, CONSTANT) || RONDE__ONNX_IS(in, KNOWN)) {
    size_t rank = RONDE__ONNX_IS(in, KNOWN) ? (size_t)in->known->rank : in->constant->n_dims;
    if (rank > RONDE__ONNX_MAX_SIZES || (RONDE__ONNX_IS(in, CONSTANT) && ronde__onnx_elems(in->constant) < 0))
      return ronde__onnx_fail(im, node, "its input has too many dimensions, or one that makes no sense");
    all = (ronde__onnx_value){.kind = RONDE__ONNX_SIZES, .n = (int)rank};
    memcpy(all.size, RONDE__ONNX_IS(in, KNOWN) ? in->known->dim : in->constant->dims, rank * sizeof *all.size);
    if (RONDE__ONNX_IS(in, CONSTANT) && in->transposed)
      all.size[0] = in->constant->dims[1], all.size[1] = in->constant->dims[0];
  } else {
    RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
    ronde__onnx_sizes_of(x, &place, &all);
  }
  int64_t start, end;
  ronde__onnx_shape_range(node, all.n, &start, &end);
  for (int64_t d = start; d < end; d++) sizes.size[sizes.n++] = all.size[d];
  return set_sizes(im, node, &sizes);
}

ronde_status ronde__onnx_op_size(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__shape shape = {0};
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  if (im->file->lead) return ronde__onnx_fail(im, node, "it counts the batch too");
  shape.rank = ronde_tensor_dims(x, shape.dim);
  return set_sizes(
      im, node,
      &(ronde__onnx_value){.kind = RONDE__ONNX_SIZES, .n = 1, .is_scalar = true, .size = {ronde__shape_elems(&shape)}});
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
  if (RONDE__ONNX_IS(in, TENSOR) && in->order == RONDE__ONNX_STATE) return gather_state(im, node, in);
  bool is_parameter = RONDE__ONNX_IS(in, CONSTANT) && !ronde__onnx_is_sizes(in);
  if (RONDE__ONNX_IS(in, TENSOR) || is_parameter) return ronde__onnx_gather_tensor(im, node);
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
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  if (RONDE__ONNX_IS(in, NUMBER)) return pass_on_number(im, node); /* a state of zeros */
  if (RONDE__ONNX_IS(in, TENSOR) || (RONDE__ONNX_IS(in, CONSTANT) && !ronde__onnx_is_sizes(in)))
    return ronde__onnx_slice_tensor(im, node);
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

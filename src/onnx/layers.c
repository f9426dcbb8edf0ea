/* Operators with weights: convolution, linear layers. */
#include "onnx/import.h"

#include <stdlib.h>

/* ---- convolution ---- */

static ronde_status take_conv(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde__shape *weight,
                              int64_t outputs, ronde__onnx_layer *layer) {
  const ronde__shape bias = {1, {outputs}};
  RONDE_TRY(ronde__onnx_take(im, node, 1, NULL, RONDE__ONNX_AS_IT_IS, weight, false, layer));
  const ronde__onnx_value *given_bias = ronde__onnx_in(im, node, 2);
  if (given_bias && !ronde__onnx_are_zeros(given_bias)) { /* as PyTorch's newer exporter writes that there is none */
    ronde__shape given = ronde__onnx_dims_of(im, node, 2);
    if (!ronde__shape_equal(&given, &bias)) return ronde__onnx_fail(im, node, "its bias has another shape");
    RONDE_TRY(ronde__onnx_take(im, node, 2, NULL, RONDE__ONNX_AS_IT_IS, &bias, false, layer));
  }
  return ronde__onnx_begin(im, layer);
}

/* The weight has 4 dimensions; or 3, for an image of one row. */
static ronde_status read_kernel(const ronde__onnx_import *im, const ronde__onnx_node *node,
                                const ronde__onnx_place *place, const ronde__shape *weight, bool *of_row_out,
                                int64_t kernel_out[2]) {
  const ronde__onnx_value *given = ronde__onnx_in(im, node, 1);
  bool of_row = place->image == 2 || (given && given->row);
  if (place->image == 1 || weight->rank != (of_row ? 3 : 4))
    return ronde__onnx_fail(im, node, "its weight is not an initializer of as many dimensions as its input");
  kernel_out[0] = of_row ? 1 : weight->dim[2];
  kernel_out[1] = weight->dim[weight->rank - 1];
  *of_row_out = of_row;
  return RONDE_OK;
}

ronde_status ronde__onnx_op_conv(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_window window;
  ronde__onnx_layer layer = {0};
  ronde__onnx_place place = {0};
  ronde__shape weight = ronde__onnx_dims_of(im, node, 1);
  int64_t groups = ronde__onnx_attr_int(node, "group", 1), kernel[2];
  bool of_row;
  RONDE_TRY(ronde__onnx_in_image(im, node, &x, &place));
  RONDE_TRY(read_kernel(im, node, &place, &weight, &of_row, kernel));
  if (groups < 1 || groups > INT32_MAX) return ronde__onnx_fail(im, node, "its groups are impossible");
  RONDE_TRY(ronde__onnx_read_window(im, node, x, place.image == 2, kernel, &window));
  ronde_status status = take_conv(im, node, &weight, weight.dim[0], &layer);
  if (status == RONDE_OK) {
    ronde_conv2d_options o = {.out_channels = weight.dim[0], .groups = (int)groups, .no_bias = layer.n == 1};
    for (int d = 0; d < 2; d++) {
      o.kernel[d] = window.kernel[d];
      o.stride[d] = window.stride[d];
      o.padding[d] = window.padding[d];
      o.padding_more[d] = window.padding_more[d];
      o.dilation[d] = window.dilation[d];
    }
    status = ronde__onnx_end_layer(im, node, &layer, ronde__conv_image(x, layer.label, &o, of_row));
  }
  if (status == RONDE_OK) ronde__onnx_give_place(im, node, &place);
  ronde__onnx_layer_release(&layer);
  return status;
}

/* ---- transposed convolution ---- */

/* Padding from the size of the output, which is given, or is the input's times the strides. */
static ronde_status pad_to_output(const ronde__onnx_import *im, const ronde__onnx_node *node, bool along_width,
                                  const int64_t *dims, ronde_conv_transpose2d_options *o) {
  size_t n;
  const int64_t *sizes = ronde__onnx_attr_ints(node, "output_shape", &n);
  bool upper = ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "SAME_UPPER");
  bool same = upper || ronde__onnx_attr_is(node, "auto_pad", "NOTSET", "SAME_LOWER");
  if (!sizes && !same) return RONDE_OK;
  const size_t own = along_width ? 1 : 2;
  if (sizes && n != own && n != own + 2)
    return ronde__onnx_fail(im, node, "its output_shape is not a size for each dimension of a pixel");
  for (int d = along_width; d < 2; d++) {
    int64_t size = sizes ? sizes[n - 2 + (size_t)d] : dims[1 + d] * o->stride[d];
    int64_t all =
        (dims[1 + d] - 1) * o->stride[d] + (int64_t)(o->kernel[d] - 1) * o->dilation[d] + 1 + o->output_padding[d];
    if (size < 1 || size > all)
      return ronde__onnx_fail(im, node, "its output has %lld pixels in dimension %d, more than the %lld that it makes",
                              (long long)size, d + 2, (long long)all);
    o->padding[d] = (int)(upper ? (all - size) / 2 : (all - size + 1) / 2);
    o->padding_more[d] = (int)(all - size - 2 * o->padding[d]);
  }
  return RONDE_OK;
}

static ronde_status read_output_padding(const ronde__onnx_import *im, const ronde__onnx_node *node, bool along_width,
                                        int padding[2]) {
  size_t n, own = along_width ? 1 : 2;
  const int64_t *given = ronde__onnx_attr_ints(node, "output_padding", &n);
  for (size_t d = 0; given && d < own; d++) {
    if (n != own || given[d] < 0 || given[d] > INT16_MAX)
      return ronde__onnx_fail(im, node, "its output_padding is not a size for each dimension of a pixel");
    padding[2 - own + d] = (int)given[d];
  }
  return RONDE_OK;
}

ronde_status ronde__onnx_op_conv_transpose(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_window window;
  ronde__onnx_layer layer = {0};
  int64_t dims[RONDE_MAX_RANK], groups = ronde__onnx_attr_int(node, "group", 1), kernel[2];
  ronde__onnx_place place = {0};
  ronde__shape weight = ronde__onnx_dims_of(im, node, 1);
  bool of_row;
  RONDE_TRY(ronde__onnx_in_image(im, node, &x, &place));
  RONDE_TRY(read_kernel(im, node, &place, &weight, &of_row, kernel));
  if (groups < 1 || groups > INT32_MAX / weight.dim[1]) return ronde__onnx_fail(im, node, "its groups are impossible");
  RONDE_TRY(ronde__onnx_read_window(im, node, x, place.image == 2, kernel, &window));
  ronde_tensor_dims(x, dims);
  ronde_conv_transpose2d_options o = {.out_channels = weight.dim[1] * groups, .groups = (int)groups};
  for (int d = 0; d < 2; d++) {
    o.kernel[d] = window.kernel[d];
    o.stride[d] = window.stride[d];
    o.padding[d] = window.padding[d];
    o.padding_more[d] = window.padding_more[d];
    o.dilation[d] = window.dilation[d];
  }
  RONDE_TRY(read_output_padding(im, node, place.image == 2, o.output_padding));
  RONDE_TRY(pad_to_output(im, node, place.image == 2, dims, &o));
  ronde_status status = take_conv(im, node, &weight, o.out_channels, &layer);
  o.no_bias = layer.n == 1;
  if (status == RONDE_OK)
    status = ronde__onnx_end_layer(im, node, &layer, ronde__conv_transpose_image(x, layer.label, &o, of_row));
  if (status == RONDE_OK) ronde__onnx_give_place(im, node, &place);
  ronde__onnx_layer_release(&layer);
  return status;
}

/* ---- linear ---- */

/* bias_of: the node whose input `bias` is the bias; NULL: there is none. last: the node whose output is set. */
typedef struct linear {
  const ronde__onnx_node *bias_of, *last;
  int bias;
  bool in_rows; /* the weight is [outputs][inputs], else the other way round */
} linear;

/* weight: as the initializer has it. */
static ronde_status take_linear(ronde__onnx_import *im, const ronde__onnx_node *node, const linear *l,
                                const ronde__shape *weight, bool inputs_first, int64_t outputs,
                                ronde__onnx_layer *layer) {
  ronde__onnx_change change = inputs_first ? RONDE__ONNX_INPUTS_FIRST : RONDE__ONNX_AS_IT_IS;
  RONDE_TRY(ronde__onnx_take(im, node, 1, NULL, change, weight, false, layer));
  if (l->bias_of) {
    const ronde__shape bias = {1, {outputs}};
    RONDE_TRY(ronde__onnx_take(im, l->bias_of, l->bias, NULL, RONDE__ONNX_AS_IT_IS, &bias, false, layer));
  }
  return ronde__onnx_begin(im, layer);
}

static ronde_status add_linear(ronde__onnx_import *im, const ronde__onnx_node *node, const linear *l) {
  const ronde_tensor *x;
  ronde__onnx_layer layer = {0};
  ronde__onnx_place place = {0};
  ronde__shape weight = ronde__onnx_dims_of(im, node, 1);
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &x, &place));
  if (place.at == place.rank - 1) return ronde__onnx_fail(im, node, "its rows would be those of the batch");
  if (weight.rank != 2) return ronde__onnx_fail(im, node, "its second factor is not an initializer of 2 dimensions");
  bool inputs_first = l->in_rows == ronde__onnx_in(im, node, 1)->transposed,
       is_turned = ronde__onnx_in(im, node, 1)->transposed;
  int64_t own = weight.dim[l->in_rows ? 0 : 1];
  if (is_turned) weight = (ronde__shape){2, {weight.dim[1], weight.dim[0]}};
  bool is_head = im->file->head >= 0 && node == &im->file->nodes[im->file->head];
  int64_t outputs = is_head && im->outputs > 0 ? im->outputs : own;
  ronde_status status = take_linear(im, node, l, &weight, inputs_first, own, &layer);
  if (status == RONDE_OK)
    status = ronde__onnx_end_layer(im, l->last, &layer,
                                   ronde__linear(x, layer.label, outputs, l->bias_of != NULL, inputs_first));
  ronde__onnx_value *out = ronde__onnx_out(im, l->last, 0);
  if (status == RONDE_OK && out) out->at = place.at, out->merged = place.merged;
  ronde__onnx_layer_release(&layer);
  return status;
}

/* Whether input i is a vector of that many elements, [1,n] taken for one. */
static bool is_vector(const ronde__onnx_import *im, const ronde__onnx_node *node, int i, int64_t n) {
  ronde__shape shape = ronde__onnx_dims_of(im, node, i);
  return (shape.rank == 1 && shape.dim[0] == n) || (shape.rank == 2 && shape.dim[0] == 1 && shape.dim[1] == n);
}

static bool is_buffer(const ronde__onnx_import *im, const ronde__onnx_node *node, int i) {
  return i < node->n_in && node->in[i] >= 0 && im->file->is_buffer[node->in[i]];
}

/* alpha y + beta times the addend, if there is one. */
static ronde_status end_gemm(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *y, float alpha,
                             float beta, const ronde__onnx_place *place) {
  const ronde_tensor *c;
  if (y && alpha != 1) y = ronde_function(y, RONDE_AFFINE, alpha, 0);
  if (y && ronde__onnx_in(im, node, 2)) {
    RONDE_TRY(ronde__onnx_operand(im, node, 2, place, &c));
    y = ronde_add(y, beta == 1 ? c : ronde_function(c, RONDE_AFFINE, beta, 0));
  }
  return ronde__onnx_set_place(im, node, 0, y, place);
}

/* Of any two matrices without a batch; or of rows of a batch, and a matrix that is computed, such as a weight that is normalised. */
static ronde_status general_gemm(ronde__onnx_import *im, const ronde__onnx_node *node, float alpha, float beta,
                                 bool turn_a, bool turn_b) {
  static const ronde__onnx_place matrix = {2, RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
  const ronde_tensor *a, *b, *y;
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK];
  RONDE_TRY(ronde__onnx_common(im, node, 0, ronde__onnx_in(im, node, 2) ? 3 : 2, &place));
  const bool of_rows = place.at != RONDE__ONNX_ALIKE;
  if (of_rows && (turn_a || place.at != 0 || place.rank != 2 || place.merged ||
                  ronde__onnx_place_of(ronde__onnx_in(im, node, 1)).at != RONDE__ONNX_ALIKE))
    return ronde__onnx_fail(im, node, "transA must be 0, and B alike for all examples");
  RONDE_TRY(ronde__onnx_operand(im, node, 0, of_rows ? &place : &matrix, &a));
  RONDE_TRY(ronde__onnx_operand(im, node, 1, &matrix, &b));
  if (of_rows) {
    ronde_tensor_dims(a, dims);
    a = ronde_reshape(a, 2, (int64_t[]){1, dims[0]});
  }
  y = ronde_matmul(a, b, turn_a, turn_b);
  if (of_rows && y) {
    ronde_tensor_dims(y, dims);
    y = ronde_reshape(y, 1, dims + 1);
  }
  return end_gemm(im, node, y, alpha, beta, of_rows ? &place : &matrix);
}

/* A linear layer, scaled, and an addend that is one too: of a weight that is an initializer. */
static ronde_status scaled_gemm(ronde__onnx_import *im, const ronde__onnx_node *node, float alpha, float beta,
                                bool in_rows) {
  const ronde__onnx_value *out = ronde__onnx_out(im, node, 0);
  RONDE_TRY(add_linear(im, node, &(linear){NULL, node, 0, in_rows}));
  if (!out) return RONDE_OK;
  const ronde__onnx_place place = ronde__onnx_place_of(out);
  return end_gemm(im, node, out->x, alpha, beta, &place);
}

ronde_status ronde__onnx_op_gemm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  bool has_bias = ronde__onnx_in(im, node, 2) != NULL, in_rows = ronde__onnx_attr_int(node, "transB", 0) != 0;
  bool turn_a = ronde__onnx_attr_int(node, "transA", 0) != 0;
  float alpha = (float)ronde__onnx_attr_float(node, "alpha", 1), beta = (float)ronde__onnx_attr_float(node, "beta", 1);
  const ronde__onnx_value *a = ronde__onnx_in(im, node, 0);
  ronde__shape weight = ronde__onnx_dims_of(im, node, 1);
  bool is_layer = weight.rank == 2 && a && a->kind == RONDE__ONNX_TENSOR && !turn_a;
  if (!is_layer) return general_gemm(im, node, alpha, beta, turn_a, in_rows);
  if (alpha != 1 || (has_bias && (beta != 1 || !is_vector(im, node, 2, weight.dim[in_rows ? 0 : 1]))))
    return scaled_gemm(im, node, alpha, beta, in_rows);
  return add_linear(im, node, &(linear){has_bias ? node : NULL, node, 2, in_rows});
}

/* An operand of a product, as a matrix or several: what has one dimension is a row, or a column. */
static ronde_status read_factor(ronde__onnx_import *im, const ronde__onnx_node *node, int i,
                                const ronde__onnx_place *place, bool vector, const ronde_tensor **x_out,
                                bool *turned_out) {
  ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  int64_t dims[RONDE_MAX_RANK], column[RONDE_MAX_RANK];
  *turned_out = value && value->transposed;
  if (*turned_out) value->transposed = false; /* the product itself turns it */
  ronde_status status = ronde__onnx_operand(im, node, i, place, x_out);
  if (*turned_out) value->transposed = true;
  if (status != RONDE_OK || !vector) return status;
  int rank = ronde_tensor_dims(*x_out, dims);
  int64_t n = dims[rank - 1];
  for (int d = 0; d < rank; d++) column[d] = 1;
  column[rank - (i == 0 ? 1 : 2)] = n;
  *x_out = ronde_reshape(*x_out, rank, column);
  return *x_out ? RONDE_OK : ronde_graph_status(im->graph);
}

/* Rows among which the batch stands, [...,T,N,F], times a matrix [F,G] that all examples have. */
static ronde_status product_of_rows(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *a, *b;
  ronde__onnx_place place = {0};
  int64_t dims[RONDE_MAX_RANK];
  bool turned;
  RONDE_TRY(ronde__onnx_in_place(im, node, 0, &a, &place));
  const int rank = ronde_tensor_dims(a, dims);
  const bool is_vector = rank == 1;
  const ronde__onnx_place matrix = {is_vector ? 2 : rank, RONDE__ONNX_ALIKE, RONDE__ONNX_ALONE, 0};
  RONDE_TRY(read_factor(im, node, 1, &matrix, false, &b, &turned));
  if (is_vector) a = ronde_reshape(a, 2, (int64_t[]){1, dims[0]});
  else RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  const ronde_tensor *y = ronde_matmul(a, b, false, turned);
  if (y && is_vector) {
    ronde_tensor_dims(y, dims);
    y = ronde_reshape(y, 1, dims + 1);
  }
  return ronde__onnx_set_place(im, node, 0, y, &place);
}

/* Of two tensors, either of which may be a parameter. */
static ronde_status product(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *a, *b;
  ronde__onnx_place place = {0};
  RONDE_TRY(ronde__onnx_common(im, node, 0, 2, &place));
  int ranks[] = {ronde__onnx_place_of(ronde__onnx_in(im, node, 0)).rank,
                 ronde__onnx_place_of(ronde__onnx_in(im, node, 1)).rank};
  bool is_row = ranks[0] == 1, is_column = ranks[1] == 1, turn_a, turn_b;
  int rank = place.rank > 2 ? place.rank : 2;
  const int other = ronde__onnx_place_of(ronde__onnx_in(im, node, 1)).at;
  if (place.at == rank - 2 && place.rank == ranks[0] && ranks[1] == 2 && other == RONDE__ONNX_ALIKE)
    return product_of_rows(im, node);
  if (place.at >= rank - 2) return ronde__onnx_fail(im, node, "the batch is one of the dimensions that are multiplied");
  place.at += place.at == RONDE__ONNX_ALIKE ? 0 : rank - place.rank;
  place.rank = rank;
  RONDE_TRY(read_factor(im, node, 0, &place, is_row, &a, &turn_a));
  RONDE_TRY(read_factor(im, node, 1, &place, is_column, &b, &turn_b));
  bool reshapes = is_row || is_column;
  if (!reshapes) RONDE_TRY(ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0));
  const ronde_tensor *y = ronde_matmul(a, b, turn_a, turn_b);
  if (!reshapes || !y) return ronde__onnx_set_place(im, node, 0, y, &place);
  ronde__shape own = {0}, to = {0};
  own.rank = ronde_tensor_dims(y, own.dim);
  for (int d = 0; d < own.rank; d++)
    if (!((d == own.rank - 2 && is_row) || (d == own.rank - 1 && is_column))) to.dim[to.rank++] = own.dim[d];
  if (to.rank == 0) to = (ronde__shape){1, {1}};
  return ronde__onnx_set_place(im, node, 0, ronde_reshape(y, to.rank, to.dim), &place);
}

/* With the addition of a vector behind it, which is the bias. */
ronde_status ronde__onnx_op_matmul(ronde__onnx_import *im, const ronde__onnx_node *node) {
  ronde__shape weight = ronde__onnx_dims_of(im, node, 1);
  const ronde__onnx_value *a = ronde__onnx_in(im, node, 0);
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  ronde__onnx_place place = ronde__onnx_place_of(a);
  bool is_layer = weight.rank == 2 && a && a->kind == RONDE__ONNX_TENSOR && !a->transposed &&
                  place.at < place.rank - 1 && !is_buffer(im, node, 1);
  if (node->n_in != 2) return ronde__onnx_fail(im, node, "it has %d inputs instead of 2", node->n_in);
  if (!is_layer) return product(im, node);
  if (next && next->build == ronde__onnx_op_add && next->n_in == 2) {
    int bias = next->in[0] == node->out[0] ? 1 : 0;
    if (is_vector(im, next, bias, weight.dim[1])) return add_linear(im, node, &(linear){next, next, bias, false});
  }
  return add_linear(im, node, &(linear){NULL, node, 0, false});
}

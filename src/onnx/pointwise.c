/* Activations, and dropout. */
#include "onnx/import.h"

#include <math.h>

typedef ronde_tensor *(*unary)(const ronde_tensor *x);

/* The next node of the graph is called like this one. */
static ronde_status name_next(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

static ronde_status begin_unary(ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor **x_out,
                                ronde__onnx_place *place_out) {
  RONDE_TRY(ronde__onnx_in_any(im, node, 0, x_out, place_out));
  return name_next(im, node);
}

static ronde_status build_unary(ronde__onnx_import *im, const ronde__onnx_node *node, unary call) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, call(x), &place);
}

ronde_status ronde__onnx_op_relu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_unary(im, node, ronde_relu);
}
ronde_status ronde__onnx_op_tanh(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_unary(im, node, ronde_tanh);
}
ronde_status ronde__onnx_op_hard_swish(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_unary(im, node, ronde_hard_swish);
}

/* x times its sigmoid, and nothing else that reads the sigmoid, is SiLU. */
ronde_status ronde__onnx_op_sigmoid(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  if (ronde__onnx_is_left_out(im, node, RONDE__ONNX_LABELS)) {
    RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
    return ronde__onnx_set(im, node, 0, x);
  }
  bool is_silu = next && next->build == ronde__onnx_op_mul && next->n_in == 2 &&
                 (next->in[0] == node->in[0] || next->in[1] == node->in[0]);
  if (!is_silu) return build_unary(im, node, ronde_sigmoid);
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, next, 0, ronde_silu(x), &place);
}

ronde_status ronde__onnx_op_swish(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  float alpha = (float)ronde__onnx_attr_float(node, "alpha", 1);
  if (alpha == 1) return build_unary(im, node, ronde_silu);
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_multiply(x, ronde_sigmoid(ronde_function(x, RONDE_AFFINE, alpha, 0))),
                               &place);
}

ronde_status ronde__onnx_op_gelu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  bool by_tanh = ronde__onnx_attr_is(node, "approximate", "none", "tanh");
  if (!by_tanh && !ronde__onnx_attr_is(node, "approximate", "none", "none"))
    return ronde__onnx_fail(im, node, "its approximation is unknown");
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_gelu(x, by_tanh), &place);
}

ronde_status ronde__onnx_op_hard_sigmoid(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  float alpha = (float)ronde__onnx_attr_float(node, "alpha", 0.2),
        beta = (float)ronde__onnx_attr_float(node, "beta", 0.5);
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_hard_sigmoid(x, alpha, beta), &place);
}

ronde_status ronde__onnx_op_leaky_relu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_leaky_relu(x, (float)ronde__onnx_attr_float(node, "alpha", 0.01)),
                               &place);
}

ronde_status ronde__onnx_op_elu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_elu(x, (float)ronde__onnx_attr_float(node, "alpha", 1)), &place);
}

/* The bounds are inputs since opset 11, and attributes before. */
ronde_status ronde__onnx_op_clip(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  double lower, upper;
  RONDE_TRY(ronde__onnx_in_number(im, node, 1, ronde__onnx_attr_float(node, "min", -INFINITY), &lower));
  RONDE_TRY(ronde__onnx_in_number(im, node, 2, ronde__onnx_attr_float(node, "max", INFINITY), &upper));
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_clip(x, (float)lower, (float)upper), &place);
}

/* In training whatever the file says of it: an export for inference that keeps it says that it is off. */
ronde_status ronde__onnx_op_dropout(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  ronde__onnx_place place = {0};
  double ratio;
  const ronde__onnx_value *mask = ronde__onnx_out(im, node, 1);
  if (mask && im->file->n_readers[node->out[1]] > 0) return ronde__onnx_fail(im, node, "its mask cannot be read");
  RONDE_TRY(ronde__onnx_in_number(im, node, 1, ronde__onnx_attr_float(node, "ratio", 0.5), &ratio));
  const ronde__onnx_value *in = ronde__onnx_in(im, node, 0);
  if (in && in->kind == RONDE__ONNX_NUMBER && in->n > 0) return ronde__onnx_drop_number(im, node, ratio);
  if (ratio == 0) return ronde__onnx_op_identity(im, node);
  RONDE_TRY(begin_unary(im, node, &x, &place));
  return ronde__onnx_set_place(im, node, 0, ronde_dropout(x, (float)ratio), &place);
}

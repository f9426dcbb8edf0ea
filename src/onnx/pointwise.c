/* Operators that look at one element at a time, sums and products of two tensors, softmax. */
#include "onnx/import.h"

#include <math.h>

typedef ronde_tensor *(*unary)(const ronde_tensor *x);

/* The next node of the graph is called like this one. */
static ronde_status name_next(const ronde__onnx_import *im, const ronde__onnx_node *node) {
  return ronde__graph_name_next(im->graph, ronde__onnx_node_name(node), NULL, 0);
}

static ronde_status begin_unary(const ronde__onnx_import *im, const ronde__onnx_node *node,
                                const ronde_tensor **x_out) {
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, x_out));
  return name_next(im, node);
}

static ronde_status build_unary(ronde__onnx_import *im, const ronde__onnx_node *node, unary call) {
  const ronde_tensor *x;
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, node, 0, call(x));
}

/* What makes the output of the file and belongs to the loss: the output is its input. */
static bool is_left_out(const ronde__onnx_import *im, const ronde__onnx_node *node, ronde__onnx_end end) {
  return im->end == end && node->out[0] == im->file->output && im->file->n_readers[node->out[0]] == 1;
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
  const ronde__onnx_node *next = ronde__onnx_only_reader(im->file, node->out[0]);
  if (is_left_out(im, node, RONDE__ONNX_LABELS)) {
    RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
    return ronde__onnx_set(im, node, 0, x);
  }
  bool is_silu = next && next->build == ronde__onnx_op_mul && next->n_in == 2 &&
                 (next->in[0] == node->in[0] || next->in[1] == node->in[0]);
  if (!is_silu) return build_unary(im, node, ronde_sigmoid);
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, next, 0, ronde_silu(x));
}

ronde_status ronde__onnx_op_swish(ronde__onnx_import *im, const ronde__onnx_node *node) {
  if (ronde__onnx_attr_float(node, "alpha", 1) != 1) return ronde__onnx_fail(im, node, "alpha must be 1");
  return build_unary(im, node, ronde_silu);
}

ronde_status ronde__onnx_op_gelu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  bool by_tanh = ronde__onnx_attr_is(node, "approximate", "none", "tanh");
  if (!by_tanh && !ronde__onnx_attr_is(node, "approximate", "none", "none"))
    return ronde__onnx_fail(im, node, "its approximation is unknown");
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, node, 0, ronde_gelu(x, by_tanh));
}

ronde_status ronde__onnx_op_hard_sigmoid(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  float alpha = (float)ronde__onnx_attr_float(node, "alpha", 0.2),
        beta = (float)ronde__onnx_attr_float(node, "beta", 0.5);
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, node, 0, ronde_hard_sigmoid(x, alpha, beta));
}

ronde_status ronde__onnx_op_leaky_relu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, node, 0, ronde_leaky_relu(x, (float)ronde__onnx_attr_float(node, "alpha", 0.01)));
}

ronde_status ronde__onnx_op_elu(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, node, 0, ronde_elu(x, (float)ronde__onnx_attr_float(node, "alpha", 1)));
}

/* The bounds are inputs since opset 11, and attributes before. */
ronde_status ronde__onnx_op_clip(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  double lower, upper;
  RONDE_TRY(ronde__onnx_in_number(im, node, 1, ronde__onnx_attr_float(node, "min", -INFINITY), &lower));
  RONDE_TRY(ronde__onnx_in_number(im, node, 2, ronde__onnx_attr_float(node, "max", INFINITY), &upper));
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, node, 0, ronde_clip(x, (float)lower, (float)upper));
}

/* In training whatever the file says of it: an export for inference that keeps it says that it is off. */
ronde_status ronde__onnx_op_dropout(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  double ratio;
  const ronde__onnx_value *mask = ronde__onnx_out(im, node, 1);
  if (mask && im->file->n_readers[node->out[1]] > 0) return ronde__onnx_fail(im, node, "its mask cannot be read");
  RONDE_TRY(ronde__onnx_in_number(im, node, 1, ronde__onnx_attr_float(node, "ratio", 0.5), &ratio));
  RONDE_TRY(begin_unary(im, node, &x));
  return ronde__onnx_set(im, node, 0, ronde_dropout(x, (float)ratio));
}

/* Before opset 13 all dimensions from the axis on were one, which is the same only for the last axis. */
static ronde_status softmax_dim(const ronde__onnx_import *im, const ronde__onnx_node *node, const ronde_tensor *x,
                                int *dim_out) {
  int64_t dims[RONDE_MAX_RANK], axis = ronde__onnx_attr_int(node, "axis", im->file->opset < 13 ? 1 : -1);
  int rank = ronde_tensor_dims(x, dims);
  RONDE_TRY(ronde__onnx_axis(im, node, axis, rank, dim_out));
  if (im->file->opset < 13 && *dim_out != rank - 1)
    return ronde__onnx_fail(im, node, "over several dimensions it is not supported");
  return RONDE_OK;
}

ronde_status ronde__onnx_op_softmax(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int dim;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  RONDE_TRY(softmax_dim(im, node, x, &dim));
  if (is_left_out(im, node, RONDE__ONNX_CLASSES)) return ronde__onnx_set(im, node, 0, x);
  RONDE_TRY(name_next(im, node));
  return ronde__onnx_set(im, node, 0, ronde_softmax(x, dim));
}

ronde_status ronde__onnx_op_log_softmax(ronde__onnx_import *im, const ronde__onnx_node *node) {
  const ronde_tensor *x;
  int dim;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &x));
  RONDE_TRY(softmax_dim(im, node, x, &dim));
  if (is_left_out(im, node, RONDE__ONNX_CLASSES)) return ronde__onnx_set(im, node, 0, x);
  return ronde__onnx_fail(im, node, "it is supported only as the network's output, with class labels");
}

/* ---- of two tensors ---- */

typedef ronde_tensor *(*binary)(const ronde_tensor *a, const ronde_tensor *b);

/* In the order of the inputs, from the left; the last call is called like the node. */
static ronde_status build_chain(ronde__onnx_import *im, const ronde__onnx_node *node, binary call) {
  const ronde_tensor *y, *x;
  RONDE_TRY(ronde__onnx_in_tensor(im, node, 0, &y));
  for (int i = 1; i < node->n_in; i++) {
    RONDE_TRY(ronde__onnx_in_tensor(im, node, i, &x));
    if (i == node->n_in - 1) RONDE_TRY(name_next(im, node));
    y = call(y, x);
  }
  return ronde__onnx_set(im, node, 0, y);
}

static ronde_status build_pair(ronde__onnx_import *im, const ronde__onnx_node *node, binary call) {
  if (node->n_in != 2) return ronde__onnx_fail(im, node, "it has %d inputs instead of 2", node->n_in);
  return build_chain(im, node, call);
}

ronde_status ronde__onnx_op_sum(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_chain(im, node, ronde_add);
}
ronde_status ronde__onnx_op_add(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_pair(im, node, ronde_add);
}
ronde_status ronde__onnx_op_sub(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_pair(im, node, ronde_subtract);
}
ronde_status ronde__onnx_op_mul(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build_pair(im, node, ronde_multiply);
}

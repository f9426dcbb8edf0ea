/* The public calls of layers and losses that are one node each. */
#include "graph/graph.h"
#include "ops/window.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An op with one output. */
static ronde_tensor *add_node(ronde__op_kind kind, const char *name, const ronde__op_attr *attr,
                              const ronde_tensor *const *inputs, int n_inputs) {
  return ronde__graph_add_node(kind, name, attr, inputs, n_inputs, NULL);
}

static ronde_tensor *add_unary(ronde__op_kind kind, const char *name, const ronde__op_attr *attr,
                               const ronde_tensor *x) {
  return add_node(kind, name, attr, (const ronde_tensor *const[]){x}, 1);
}

ronde_tensor *ronde__conv_image(const ronde_tensor *x, const char *name, const ronde_conv2d_options *o,
                                bool of_sequence) {
  ronde__op_attr attr = {.out_channels = o->out_channels,
                         .groups = o->groups,
                         .bias = !o->no_bias,
                         .kaiming_normal = o->kaiming_normal,
                         .of_sequence = of_sequence};
  for (int d = 0; d < 2; d++) {
    attr.kernel[d] = o->kernel[d];
    attr.stride[d] = o->stride[d] ? o->stride[d] : 1;
    attr.padding[d] = o->padding[d];
    attr.padding_more[d] = o->padding_more[d];
    attr.dilation[d] = o->dilation[d];
  }
  if (x) ronde__window_simplify(&attr, &x->shape, false);
  return add_unary(RONDE__OP_CONV2D, name, &attr, x);
}

ronde_tensor *ronde_conv2d(const ronde_tensor *x, const char *name, const ronde_conv2d_options *options) {
  return ronde__conv_image(x, name, options, false);
}

ronde_tensor *ronde_conv_transpose2d(const ronde_tensor *x, const char *name,
                                     const ronde_conv_transpose2d_options *options) {
  return ronde__conv_transpose_image(x, name, options, false);
}

ronde_tensor *ronde__conv_transpose_image(const ronde_tensor *x, const char *name,
                                          const ronde_conv_transpose2d_options *o, bool of_sequence) {
  ronde__op_attr attr = {
      .out_channels = o->out_channels, .groups = o->groups, .bias = !o->no_bias, .of_sequence = of_sequence};
  for (int d = 0; d < 2; d++) {
    attr.kernel[d] = o->kernel[d];
    attr.stride[d] = o->stride[d] ? o->stride[d] : 1;
    attr.padding[d] = o->padding[d];
    attr.padding_more[d] = o->padding_more[d];
    attr.output_padding[d] = o->output_padding[d];
    attr.dilation[d] = o->dilation[d];
  }
  return add_unary(RONDE__OP_CONV_TRANSPOSE2D, name, &attr, x);
}

/* An image of one row. */
ronde_tensor *ronde_conv1d(const ronde_tensor *x, const char *name, const ronde_conv1d_options *o) {
  int64_t dims[RONDE_MAX_RANK];
  ronde_conv2d_options options = {.out_channels = o->out_channels,
                                  .kernel = {1, o->kernel},
                                  .stride = {1, o->stride},
                                  .padding = {0, o->padding},
                                  .dilation = {1, o->dilation},
                                  .groups = o->groups,
                                  .no_bias = o->no_bias};
  if (!x) return NULL;
  if (ronde_tensor_dims(x, dims) != 2)
    return ronde__graph_fail(
        x->graph, ronde__fail(RONDE_E_USAGE, "%s: a sequence of channels is needed, [C,T], but %s has %d dimensions",
                              name, x->label, x->shape.rank));
  ronde__op_attr image = {.shape = {.rank = 3, .dim = {dims[0], 1, dims[1]}}};
  ronde_tensor *y = ronde__conv_image(add_unary(RONDE__OP_RESHAPE, NULL, &image, x), name, &options, true);
  if (!y) return NULL;
  ronde__op_attr sequence = {.shape = {.rank = 2, .dim = {y->shape.dim[0], y->shape.dim[2]}}};
  return add_unary(RONDE__OP_RESHAPE, NULL, &sequence, y);
}

ronde_tensor *ronde__linear(const ronde_tensor *x, const char *name, int64_t out_features, bool bias,
                            bool inputs_first) {
  ronde__op_attr attr = {.out_channels = out_features, .bias = bias, .inputs_first = inputs_first};
  return add_unary(RONDE__OP_LINEAR, name, &attr, x);
}

ronde_tensor *ronde_linear(const ronde_tensor *x, const char *name, int64_t out_features, bool bias) {
  return ronde__linear(x, name, out_features, bias, false);
}

ronde_tensor *ronde_linear_tied(const ronde_tensor *x, const char *layer, int64_t out_features, const char *bias) {
  if (!x) return NULL;
  ronde_graph *graph = x->graph;
  char *weight = ronde__format("%s.weight", layer);
  if (!weight) {
    ronde__graph_fail(graph, ronde__fail(RONDE_E_MEMORY, "graph: no memory for %s", layer));
    return NULL;
  }
  const int known = graph->n_params;
  ronde__graph_name_next(graph, layer, (const char *const[]){weight, bias}, 2);
  ronde_tensor *y = ronde_linear(x, NULL, out_features, true);
  ronde__graph_name_next(graph, NULL, NULL, 0); /* where the call has been refused */
  for (ronde__param *p = graph->params + known; y && p < graph->params + graph->n_params; p++)
    if (!strcmp(p->name, bias)) p->init = RONDE_INIT_CONSTANT, p->bound = 0;
  free(weight);
  return y;
}

ronde_tensor *ronde_embedding(const ronde_tensor *x, const char *name, int64_t features, float deviation) {
  ronde__op_attr attr = {.out_channels = features, .vocabulary = x ? x->vocabulary : 0, .deviation = deviation};
  return add_unary(RONDE__OP_EMBEDDING, name, &attr, x);
}

static ronde_tensor *add_pool(ronde__op_kind kind, const ronde_tensor *x, const ronde_pool2d_options *o) {
  ronde__op_attr attr = {.exclude_padding = o->exclude_padding, .ceil_mode = o->ceil_mode};
  for (int d = 0; d < 2; d++) {
    attr.kernel[d] = o->kernel[d];
    attr.stride[d] = o->stride[d] ? o->stride[d] : o->kernel[d];
    attr.padding[d] = o->padding[d];
    attr.padding_more[d] = o->padding_more[d];
    attr.dilation[d] = o->dilation[d];
  }
  if (x) ronde__window_simplify(&attr, &x->shape, kind == RONDE__OP_AVG_POOL2D && !attr.exclude_padding);
  return add_unary(kind, NULL, &attr, x);
}

ronde_tensor *ronde_max_pool2d(const ronde_tensor *x, const ronde_pool2d_options *o) {
  return add_pool(RONDE__OP_MAX_POOL2D, x, o);
}
ronde_tensor *ronde_avg_pool2d(const ronde_tensor *x, const ronde_pool2d_options *o) {
  return add_pool(RONDE__OP_AVG_POOL2D, x, o);
}

ronde_tensor *ronde_adaptive_avg_pool2d(const ronde_tensor *x, int out_h, int out_w) {
  return add_unary(RONDE__OP_ADAPTIVE_AVG_POOL2D, NULL,
                   &(ronde__op_attr){.kernel = {out_h, out_w}, .exclude_padding = true}, x);
}

ronde_tensor *ronde_upsample2d(const ronde_tensor *x, int factor_h, int factor_w) {
  return add_unary(RONDE__OP_UPSAMPLE2D, NULL, &(ronde__op_attr){.kernel = {factor_h, factor_w}}, x);
}

_Static_assert((int)RONDE_RESIZE_PYTORCH_HALF_PIXEL == (int)RONDE__RESIZE_PYTORCH_HALF_PIXEL,
               "the order of ronde_resize_coordinates");
_Static_assert((int)RONDE_RESIZE_CEIL == (int)RONDE__RESIZE_CEIL, "the order of ronde_resize_rounding");

ronde_tensor *ronde_resize2d(const ronde_tensor *x, const ronde_resize2d_options *o) {
  ronde__op_attr attr = {.kernel = {o->size[0], o->size[1]},
                         .resize = {.linear = o->linear,
                                    .coordinates = (ronde__resize_coordinates)o->coordinates,
                                    .rounding = (ronde__resize_rounding)o->rounding,
                                    .scale = {o->scale[0], o->scale[1]}}};
  return add_unary(RONDE__OP_RESIZE2D, NULL, &attr, x);
}

ronde_tensor *ronde_batch_norm2d(const ronde_tensor *x, const char *name, const ronde_batch_norm2d_options *o) {
  ronde__op_attr attr = {.eps = o && o->eps > 0 ? o->eps : 1e-5f,
                         .momentum = o && o->momentum > 0 ? o->momentum : 0.1f};
  return add_unary(RONDE__OP_BATCH_NORM2D, name, &attr, x);
}

ronde_tensor *ronde_dropout(const ronde_tensor *x, float probability) {
  return add_unary(RONDE__OP_DROPOUT, NULL, &(ronde__op_attr){.probability = probability}, x);
}

ronde_tensor *ronde_dropout_dims(const ronde_tensor *x, float probability, int dims) {
  ronde__op_attr attr = {.probability = probability, .length = 1};
  int64_t size[RONDE_MAX_RANK];
  int rank = x ? ronde_tensor_dims(x, size) : 0;
  for (int d = ronde__max(0, dims); d < rank; d++) attr.length *= size[d];
  return add_unary(RONDE__OP_DROPOUT, NULL, &attr, x);
}

ronde_tensor *ronde_relu(const ronde_tensor *x) {
  return add_unary(RONDE__OP_ACTIVATION, NULL, &(ronde__op_attr){.act = RONDE__ACT_RELU}, x);
}
ronde_tensor *ronde_tanh(const ronde_tensor *x) {
  return add_unary(RONDE__OP_ACTIVATION, NULL, &(ronde__op_attr){.act = RONDE__ACT_TANH}, x);
}
ronde_tensor *ronde_sigmoid(const ronde_tensor *x) {
  return add_unary(RONDE__OP_ACTIVATION, NULL, &(ronde__op_attr){.act = RONDE__ACT_SIGMOID}, x);
}

static ronde_tensor *add_pointwise(const ronde_tensor *x, ronde__pointwise f) {
  return add_unary(RONDE__OP_POINTWISE, NULL, &(ronde__op_attr){.pointwise = f}, x);
}

ronde_tensor *ronde_gelu(const ronde_tensor *x, bool by_tanh) {
  return add_pointwise(x, (ronde__pointwise){.kind = by_tanh ? RONDE__POINTWISE_GELU_TANH : RONDE__POINTWISE_GELU});
}
ronde_tensor *ronde_silu(const ronde_tensor *x) {
  return add_pointwise(x, (ronde__pointwise){.kind = RONDE__POINTWISE_SILU});
}
ronde_tensor *ronde_hard_swish(const ronde_tensor *x) {
  return add_pointwise(x, (ronde__pointwise){.kind = RONDE__POINTWISE_HARD_SWISH});
}
ronde_tensor *ronde_hard_sigmoid(const ronde_tensor *x, float slope, float offset) {
  return add_pointwise(x, (ronde__pointwise){RONDE__POINTWISE_HARD_SIGMOID, slope, offset});
}
ronde_tensor *ronde_leaky_relu(const ronde_tensor *x, float slope) {
  return add_pointwise(x, (ronde__pointwise){.kind = RONDE__POINTWISE_LEAKY_RELU, .a = slope});
}
ronde_tensor *ronde_elu(const ronde_tensor *x, float alpha) {
  return add_pointwise(x, (ronde__pointwise){.kind = RONDE__POINTWISE_ELU, .a = alpha});
}
ronde_tensor *ronde_clip(const ronde_tensor *x, float lower, float upper) {
  return add_pointwise(x, (ronde__pointwise){RONDE__POINTWISE_CLIP, lower, upper});
}

ronde_tensor *ronde_flatten(const ronde_tensor *x) {
  return add_unary(RONDE__OP_FLATTEN, NULL, &(ronde__op_attr){0}, x);
}

ronde_tensor *ronde_softmax(const ronde_tensor *x, int dim) {
  if (!x) return NULL;
  return add_unary(RONDE__OP_SOFTMAX, NULL, &(ronde__op_attr){.dim = dim < 0 ? x->shape.rank + dim : dim}, x);
}

ronde_tensor *ronde_lengths(const ronde_tensor *x, int32_t padding) {
  return add_unary(RONDE__OP_LENGTHS, NULL, &(ronde__op_attr){.begin = {padding}}, x);
}

/* Inputs [n], and the lengths behind them. */
static ronde_tensor *add_attention(const ronde_tensor **inputs, int n, const ronde_attention_options *o) {
  ronde__op_attr attr = {.heads = o->heads, .causal = o->causal, .lengths = o->lengths != NULL};
  if (o->lengths) inputs[n++] = o->lengths;
  attr.n_inputs = n;
  return add_node(RONDE__OP_ATTENTION, NULL, &attr, inputs, n);
}

ronde_tensor *ronde_attention(const ronde_tensor *query, const ronde_tensor *key, const ronde_tensor *value,
                              const ronde_attention_options *options) {
  return add_attention((const ronde_tensor *[]){query, key, value, NULL}, 3, options);
}

ronde_tensor *ronde_self_attention(const ronde_tensor *x, const ronde_attention_options *options) {
  return add_attention((const ronde_tensor *[]){x, NULL}, 1, options);
}

ronde_tensor *ronde_additive_attention(const ronde_tensor *query, const ronde_tensor *key, const char *name,
                                       const ronde_additive_attention_options *o) {
  bool has_lengths = o && o->lengths;
  ronde__op_attr attr = {.normalised = o && o->normalised, .lengths = has_lengths, .n_inputs = has_lengths ? 3 : 2};
  const ronde_tensor *inputs[] = {query, key, has_lengths ? o->lengths : NULL};
  return add_node(RONDE__OP_ADDITIVE_ATTENTION, name, &attr, inputs, attr.n_inputs);
}

ronde_tensor *ronde_rms_norm(const ronde_tensor *x, const char *name, float eps) {
  return add_unary(RONDE__OP_RMS_NORM, name, &(ronde__op_attr){.eps = eps > 0 ? eps : 1.1920929e-7f}, x);
}

ronde_tensor *ronde_layer_norm(const ronde_tensor *x, const char *name, const ronde_layer_norm_options *o) {
  ronde__op_attr attr = {.dim = o && o->dims ? o->dims : 1, .eps = o && o->eps > 0 ? o->eps : 1e-5f};
  return add_unary(RONDE__OP_LAYER_NORM, name, &attr, x);
}

ronde_tensor *ronde_group_norm(const ronde_tensor *x, const char *name, const ronde_group_norm_options *o) {
  ronde__op_attr attr = {.groups = o->groups, .affine = !o->no_affine, .eps = o->eps > 0 ? o->eps : 1e-5f};
  return add_unary(RONDE__OP_GROUP_NORM, name, &attr, x);
}

ronde_tensor *ronde_instance_norm(const ronde_tensor *x, const char *name, const ronde_instance_norm_options *o) {
  ronde_group_norm_options options = {.eps = o ? o->eps : 0, .no_affine = !o || !o->affine};
  if (!x) return NULL;
  if (x->shape.rank > 0 && x->shape.dim[0] <= INT_MAX) options.groups = (int)x->shape.dim[0];
  return ronde_group_norm(x, name, &options);
}

static ronde_tensor *add_loss(ronde__op_kind kind, const ronde_tensor *x, const ronde_tensor *target, float delta) {
  return add_node(kind, NULL, &(ronde__op_attr){.delta = delta}, (const ronde_tensor *const[]){x, target}, 2);
}

ronde_tensor *ronde_cross_entropy(const ronde_tensor *logits, const ronde_tensor *target) {
  ronde__op_attr attr = {.length = logits && logits->shape.rank ? logits->shape.dim[logits->shape.rank - 1] : 0};
  return add_node(RONDE__OP_CROSS_ENTROPY, NULL, &attr, (const ronde_tensor *const[]){logits, target}, 2);
}
ronde_tensor *ronde_ctc_loss(const ronde_tensor *logits, const ronde_tensor *target, const ronde_ctc_options *o) {
  ronde__op_attr attr = {.labels = o->labels,
                         .blank = o->blank,
                         .zero_infinity = o->zero_infinity,
                         .lengths = o->lengths != NULL,
                         .n_inputs = o->lengths ? 3 : 2};
  return add_node(RONDE__OP_CTC_LOSS, NULL, &attr, (const ronde_tensor *const[]){logits, target, o->lengths},
                  attr.n_inputs);
}
ronde_tensor *ronde_mse_loss(const ronde_tensor *prediction, const ronde_tensor *target) {
  return add_loss(RONDE__OP_MSE_LOSS, prediction, target, 0);
}
ronde_tensor *ronde_l1_loss(const ronde_tensor *prediction, const ronde_tensor *target) {
  return add_loss(RONDE__OP_L1_LOSS, prediction, target, 0);
}
ronde_tensor *ronde_huber_loss(const ronde_tensor *prediction, const ronde_tensor *target, float delta) {
  if (prediction && !(delta > 0 && isfinite(delta)))
    return ronde__graph_fail(prediction->graph,
                             ronde__fail(RONDE_E_USAGE, "%s: the Huber loss needs a delta above 0", prediction->label));
  return add_loss(RONDE__OP_HUBER_LOSS, prediction, target, delta);
}
ronde_tensor *ronde_bce_loss(const ronde_tensor *logits, const ronde_tensor *target) {
  return add_loss(RONDE__OP_BCE_LOSS, logits, target, 0);
}

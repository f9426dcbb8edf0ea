/* What each op of a graph is in ONNX. */
#include "onnx/writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_buffer(ronde__onnx_writer *w, const ronde__node *node, int i, Onnx__NodeProto *to) {
  const ronde__buffer *buffer = &w->graph->buffers[node->buffer[i]];
  float *values = ronde__onnx_add_floats_of(w, buffer->name, &buffer->shape);
  if (values) ronde__net_get_buffer(w->net, node->buffer[i], values);
  ronde__onnx_add_input(w, to, buffer->name);
}

/* ---- windows ---- */

static void add_window(ronde__onnx_writer *w, const ronde__op_attr *attr, Onnx__NodeProto *to) {
  const int64_t kernel[] = {attr->kernel[0], attr->kernel[1]}, stride[] = {attr->stride[0], attr->stride[1]};
  const int64_t pads[] = {attr->padding[0], attr->padding[1], attr->padding[0] + attr->padding_more[0],
                          attr->padding[1] + attr->padding_more[1]};
  const int64_t dilation[] = {attr->dilation[0] ? attr->dilation[0] : 1, attr->dilation[1] ? attr->dilation[1] : 1};
  ronde__onnx_add_ints(w, to, "kernel_shape", 2, kernel);
  ronde__onnx_add_ints(w, to, "pads", 4, pads);
  ronde__onnx_add_ints(w, to, "strides", 2, stride);
  if (dilation[0] > 1 || dilation[1] > 1) ronde__onnx_add_ints(w, to, "dilations", 2, dilation);
  if (attr->ceil_mode) ronde__onnx_add_int(w, to, "ceil_mode", 1);
}

/* A convolution of this type with its weights. Of a sequence, which is an image of one row by now: so is its weight. */
static Onnx__NodeProto *add_conv(ronde__onnx_writer *w, const ronde__node *node, const char *type) {
  const char *y = ronde__onnx_out_name(w, node, 0), *row = ronde__onnx_text(w, "%s.weight", y ? y : "");
  if (node->attr.of_sequence) {
    static const int64_t height = 2;
    Onnx__NodeProto *step = ronde__onnx_add(w, "Unsqueeze", node->label, row);
    ronde__onnx_add_param(w, node, 0, step);
    ronde__onnx_add_input(w, step, ronde__onnx_add_sizes(w, 1, &height));
  }
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, type);
  if (node->attr.of_sequence) ronde__onnx_add_input(w, to, row);
  else ronde__onnx_add_param(w, node, 0, to);
  if (node->n_params > 1) ronde__onnx_add_param(w, node, 1, to);
  return to;
}

static void write_conv(ronde__onnx_writer *w, const ronde__node *node) {
  Onnx__NodeProto *to = add_conv(w, node, "Conv");
  ronde__onnx_add_int(w, to, "group", node->attr.groups ? node->attr.groups : 1);
  add_window(w, &node->attr, to);
}

static void write_conv_transpose(ronde__onnx_writer *w, const ronde__node *node) {
  const int *more = node->attr.output_padding;
  Onnx__NodeProto *to = add_conv(w, node, "ConvTranspose");
  ronde__onnx_add_int(w, to, "group", node->attr.groups ? node->attr.groups : 1);
  add_window(w, &node->attr, to);
  if (more[0] || more[1]) ronde__onnx_add_ints(w, to, "output_padding", 2, (int64_t[]){more[0], more[1]});
}

static void write_pool(ronde__onnx_writer *w, const ronde__node *node, const char *type) {
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, type);
  if (!strcmp(type, "AveragePool")) ronde__onnx_add_int(w, to, "count_include_pad", !node->attr.exclude_padding);
  add_window(w, &node->attr, to);
}

/* Pixels that are repeated. */
static void write_resize(ronde__onnx_writer *w, const ronde__node *node, int64_t h, int64_t w_factor) {
  const float scales[] = {1, 1, (float)h, (float)w_factor};
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Resize");
  ronde__onnx_add_input(w, to, "");
  ronde__onnx_add_input(w, to, ronde__onnx_add_floats(w, 1, 4, scales));
  ronde__onnx_add_word(w, to, "coordinate_transformation_mode", "asymmetric");
  ronde__onnx_add_word(w, to, "mode", "nearest");
  ronde__onnx_add_word(w, to, "nearest_mode", "floor");
}

static void write_resize2d(ronde__onnx_writer *w, const ronde__node *node) {
  static const char *const coordinates[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  const ronde__resize *resize = &node->attr.resize;
  const int64_t *in = &ronde__onnx_shape_in(w, node)->dim[1], sizes[] = {node->attr.kernel[0], node->attr.kernel[1]};
  const float scales[] = {1, 1, resize->scale[0], resize->scale[1]};
  bool by_scales = true;
  for (int d = 0; d < 2; d++)
    by_scales &= resize->scale[d] != 0 && floor((double)in[d] * (double)resize->scale[d]) == (double)sizes[d];
  if (!by_scales && (resize->scale[0] != 0 || resize->scale[1] != 0)) {
    ronde__onnx_refuse(w, node, "ONNX has no scale beside another size than it gives");
    return;
  }
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Resize");
  ronde__onnx_add_input(w, to, "");
  ronde__onnx_add_input(w, to, by_scales ? ronde__onnx_add_floats(w, 1, 4, scales) : "");
  if (!by_scales) {
    ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, 2, sizes));
    ronde__onnx_add_ints(w, to, "axes", 2, (int64_t[]){2, 3});
    ronde__onnx_need_opset(w, 18); /* the batch needs no size */
  }
  ronde__onnx_add_word(w, to, "coordinate_transformation_mode", coordinates[resize->coordinates]);
  ronde__onnx_add_word(w, to, "mode", resize->linear ? "linear" : "nearest");
  if (!resize->linear) ronde__onnx_add_word(w, to, "nearest_mode", roundings[resize->rounding]);
}

/* ONNX has no adaptive pooling: to one pixel it is the mean of all, and where one side is a multiple of the other it is
 * pooling side by side, or repeating. */
static void write_adaptive(ronde__onnx_writer *w, const ronde__node *node) {
  const int64_t *in = &ronde__onnx_shape_in(w, node)->dim[1];
  const int *out = node->attr.kernel;
  if (out[0] == 1 && out[1] == 1) {
    ronde__onnx_add_like(w, node, "GlobalAveragePool");
  } else if (in[0] % out[0] == 0 && in[1] % out[1] == 0) {
    ronde__node pool = *node;
    for (int d = 0; d < 2; d++) {
      pool.attr.kernel[d] = pool.attr.stride[d] = (int)(in[d] / out[d]);
      pool.attr.padding[d] = 0;
    }
    write_pool(w, &pool, "AveragePool");
  } else if (out[0] % in[0] == 0 && out[1] % in[1] == 0) {
    write_resize(w, node, out[0] / in[0], out[1] / in[1]);
  } else {
    char why[160];
    snprintf(why, sizeof why,
             "ONNX has no adaptive pooling from %lldx%lld to %dx%d, of which neither divides the other",
             (long long)in[0], (long long)in[1], out[0], out[1]);
    ronde__onnx_refuse(w, node, why);
  }
}

/* ---- normalisations ---- */

/* The part that stays; the other way round see momentum_of in layers.c. */
static float stays_of(float momentum) {
  char text[32];
  snprintf(text, sizeof text, "%.7g", (double)momentum);
  return (float)(1 - strtod(text, NULL));
}

static void write_batch_norm(ronde__onnx_writer *w, const ronde__node *node) {
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "BatchNormalization");
  ronde__onnx_add_params(w, node, to);
  add_buffer(w, node, 0, to);
  add_buffer(w, node, 1, to);
  ronde__onnx_add_float(w, to, "epsilon", node->attr.eps);
  ronde__onnx_add_float(w, to, "momentum", stays_of(node->attr.momentum));
}

static void write_layer_norm(ronde__onnx_writer *w, const ronde__node *node) {
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "LayerNormalization");
  ronde__onnx_add_params(w, node, to);
  ronde__onnx_add_int(w, to, "axis", -node->attr.dim);
  ronde__onnx_add_float(w, to, "epsilon", node->attr.eps);
}

static void write_rms_norm(ronde__onnx_writer *w, const ronde__node *node) {
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "RMSNormalization");
  ronde__onnx_add_params(w, node, to);
  ronde__onnx_add_int(w, to, "axis", -1);
  ronde__onnx_add_float(w, to, "epsilon", node->attr.eps);
  ronde__onnx_need_opset(w, 23);
}

/* A vector that changes nothing, as the scale or bias of a normalisation without. */
static const char *add_alike(ronde__onnx_writer *w, const ronde__node *node, const char *what, int64_t n, float value) {
  const char *y = ronde__onnx_out_name(w, node, 0), *name = ronde__onnx_text(w, "%s.%s", y ? y : "", what);
  float *values = name ? ronde__onnx_add_fixed(w, name, name, 1, &n) : NULL;
  for (int64_t i = 0; i < n && values; i++) values[i] = value;
  return name;
}

static void write_group_norm(ronde__onnx_writer *w, const ronde__node *node) {
  int64_t channels = ronde__onnx_shape_in(w, node)->dim[0];
  bool by_channel = node->attr.groups == channels, affine = node->attr.affine;
  const char *scale = affine ? NULL : add_alike(w, node, "scale", channels, 1);
  const char *bias = affine ? NULL : add_alike(w, node, "bias", channels, 0);
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, by_channel ? "InstanceNormalization" : "GroupNormalization");
  if (affine) ronde__onnx_add_params(w, node, to);
  else ronde__onnx_add_input(w, to, scale), ronde__onnx_add_input(w, to, bias);
  ronde__onnx_add_float(w, to, "epsilon", node->attr.eps);
  if (by_channel) return;
  ronde__onnx_add_int(w, to, "num_groups", node->attr.groups);
  ronde__onnx_need_opset(w, 21); /* where scale and bias are by channel */
}

/* ---- one element at a time ---- */

/* SiLU has a name of its own from opset 24 on only. */
static void write_silu(ronde__onnx_writer *w, const ronde__node *node) {
  const char *x = w->names[node->in[0]], *y = ronde__onnx_out_name(w, node, 0);
  const char *sigmoid = ronde__onnx_text(w, "%s.sigmoid", y ? y : "");
  Onnx__NodeProto *first = ronde__onnx_add(w, "Sigmoid", node->label, sigmoid);
  ronde__onnx_add_input(w, first, x);
  Onnx__NodeProto *second = ronde__onnx_add(w, "Mul", node->label, y);
  ronde__onnx_add_input(w, second, x);
  ronde__onnx_add_input(w, second, sigmoid);
}

static void write_clip(ronde__onnx_writer *w, const ronde__node *node) {
  float lower = node->attr.pointwise.a, upper = node->attr.pointwise.b;
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Clip");
  ronde__onnx_add_input(w, to, isinf(lower) ? "" : ronde__onnx_add_floats(w, 0, 1, &lower));
  if (!isinf(upper)) ronde__onnx_add_input(w, to, ronde__onnx_add_floats(w, 0, 1, &upper));
}

static void write_pointwise(ronde__onnx_writer *w, const ronde__node *node) {
  const ronde__pointwise *f = &node->attr.pointwise;
  Onnx__NodeProto *to;
  switch (f->kind) {
  case RONDE__POINTWISE_GELU:
  case RONDE__POINTWISE_GELU_TANH:
    to = ronde__onnx_add_like(w, node, "Gelu");
    if (f->kind == RONDE__POINTWISE_GELU_TANH) ronde__onnx_add_word(w, to, "approximate", "tanh");
    ronde__onnx_need_opset(w, 20);
    break;
  case RONDE__POINTWISE_SILU: write_silu(w, node); break;
  case RONDE__POINTWISE_HARD_SWISH: ronde__onnx_add_like(w, node, "HardSwish"); break;
  case RONDE__POINTWISE_HARD_SIGMOID:
    to = ronde__onnx_add_like(w, node, "HardSigmoid");
    ronde__onnx_add_float(w, to, "alpha", f->a);
    ronde__onnx_add_float(w, to, "beta", f->b);
    break;
  case RONDE__POINTWISE_LEAKY_RELU:
    ronde__onnx_add_float(w, ronde__onnx_add_like(w, node, "LeakyRelu"), "alpha", f->a);
    break;
  case RONDE__POINTWISE_ELU: ronde__onnx_add_float(w, ronde__onnx_add_like(w, node, "Elu"), "alpha", f->a); break;
  case RONDE__POINTWISE_CLIP: write_clip(w, node); break;
  default: ronde__onnx_refuse(w, node, "this activation is not known in ONNX");
  }
}

static void write_activation(ronde__onnx_writer *w, const ronde__node *node) {
  switch (node->attr.act) {
  case RONDE__ACT_RELU: ronde__onnx_add_like(w, node, "Relu"); break;
  case RONDE__ACT_TANH: ronde__onnx_add_like(w, node, "Tanh"); break;
  case RONDE__ACT_SIGMOID: ronde__onnx_add_like(w, node, "Sigmoid"); break;
  default: ronde__onnx_refuse(w, node, "this activation is not known in ONNX");
  }
}

/* Ones for as many dimensions of an example as are drawn one by one, and 1 for the rest, go through a Dropout. */
static void write_dropout_dims(ronde__onnx_writer *w, const ronde__node *node) {
  static const float one = 1;
  static const int64_t ones[RONDE_MAX_RANK] = {1, 1, 1, 1, 1, 1};
  const char *y = ronde__onnx_out_name(w, node, 0);
  const char *own = ronde__onnx_text(w, "%s.sizes", y), *sizes = ronde__onnx_text(w, "%s.draws", y);
  const char *whole = ronde__onnx_text(w, "%s.ones", y), *kept = ronde__onnx_text(w, "%s.kept", y);
  const ronde__shape *shape = ronde__onnx_shape_in(w, node);
  int64_t length = node->attr.length;
  int dims = shape->rank;
  while (length > 1) length /= shape->dim[--dims];
  Onnx__NodeProto *to = ronde__onnx_add_step(w, "Shape", w->names[node->in[0]], own);
  ronde__onnx_add_int(w, to, "end", dims + 1);
  to = ronde__onnx_add_step(w, "Concat", own, sizes);
  ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, shape->rank - dims, ones));
  ronde__onnx_add_int(w, to, "axis", 0);
  to = ronde__onnx_add_step(w, "Expand", ronde__onnx_add_floats(w, 0, 1, &one), whole);
  ronde__onnx_add_input(w, to, sizes);
  to = ronde__onnx_add_step(w, "Dropout", whole, kept);
  ronde__onnx_add_input(w, to, ronde__onnx_add_floats(w, 0, 1, &node->attr.probability));
  ronde__onnx_add_input(w, ronde__onnx_add_like(w, node, "Mul"), kept);
}

static void write_dropout(ronde__onnx_writer *w, const ronde__node *node) {
  if (node->attr.length > 1) {
    write_dropout_dims(w, node);
    return;
  }
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Dropout");
  ronde__onnx_add_input(w, to, ronde__onnx_add_floats(w, 0, 1, &node->attr.probability));
}

/* ---- cutting ---- */

static void write_split(ronde__onnx_writer *w, const ronde__node *node) {
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Split");
  for (int i = 1; i < node->n_outputs; i++) ronde__onnx_add_output(w, to, ronde__onnx_out_name(w, node, i));
  ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, node->n_outputs, node->attr.sizes));
  ronde__onnx_add_int(w, to, "axis", node->attr.dim + 1);
}

/* ---- arithmetic ---- */

static void write_pair(ronde__onnx_writer *w, const ronde__node *node) {
  static const char *const types[] = {"Add", "Sub", "Mul", "Div", "Min", "Max", "Pow"};
  ronde__onnx_add_like(w, node, types[node->attr.pair]);
}

/* Of a number and the node's input, or what a node in front of it gives. */
static void add_number(ronde__onnx_writer *w, const ronde__node *node, const char *type, const char *from, float number,
                       bool number_first, const char *to) {
  const char *constant = ronde__onnx_add_floats(w, 0, 1, &number);
  Onnx__NodeProto *added = ronde__onnx_add(w, type, node->label, to);
  ronde__onnx_add_input(w, added, number_first ? constant : from);
  ronde__onnx_add_input(w, added, number_first ? from : constant);
}

static void write_affine(ronde__onnx_writer *w, const ronde__node *node) {
  const char *x = w->names[node->in[0]], *y = ronde__onnx_out_name(w, node, 0);
  float a = node->attr.function.a, b = node->attr.function.b;
  if (a == 1) add_number(w, node, "Add", x, b, false, y);
  else if (b == 0) add_number(w, node, "Mul", x, a, false, y);
  else {
    const char *scaled = ronde__onnx_text(w, "%s.scaled", y ? y : "");
    add_number(w, node, "Mul", x, a, false, scaled);
    add_number(w, node, "Add", scaled, b, false, y);
  }
}

static void write_function(ronde__onnx_writer *w, const ronde__node *node) {
  static const char *const types[] = {[RONDE__FUNCTION_SQRT] = "Sqrt",
                                      [RONDE__FUNCTION_EXP] = "Exp",
                                      [RONDE__FUNCTION_LOG] = "Log",
                                      [RONDE__FUNCTION_ABS] = "Abs",
                                      [RONDE__FUNCTION_ERF] = "Erf",
                                      [RONDE__FUNCTION_SIN] = "Sin",
                                      [RONDE__FUNCTION_COS] = "Cos",
                                      [RONDE__FUNCTION_TAN] = "Tan",
                                      [RONDE__FUNCTION_ASIN] = "Asin",
                                      [RONDE__FUNCTION_ACOS] = "Acos",
                                      [RONDE__FUNCTION_ATAN] = "Atan",
                                      [RONDE__FUNCTION_SINH] = "Sinh",
                                      [RONDE__FUNCTION_COSH] = "Cosh",
                                      [RONDE__FUNCTION_ASINH] = "Asinh",
                                      [RONDE__FUNCTION_ACOSH] = "Acosh",
                                      [RONDE__FUNCTION_ATANH] = "Atanh",
                                      [RONDE__FUNCTION_SOFTPLUS] = "Softplus",
                                      [RONDE__FUNCTION_SOFTSIGN] = "Softsign",
                                      [RONDE__FUNCTION_SELU] = "Selu",
                                      [RONDE__FUNCTION_CELU] = "Celu",
                                      [RONDE__FUNCTION_THRESHOLD] = "ThresholdedRelu"};
  const ronde__function *f = &node->attr.function;
  const char *x = w->names[node->in[0]], *y = ronde__onnx_out_name(w, node, 0);
  if (f->kind == RONDE__FUNCTION_AFFINE) write_affine(w, node);
  else if (f->kind == RONDE__FUNCTION_RECIPROCAL) add_number(w, node, "Div", x, f->a, true, y);
  else if (f->kind == RONDE__FUNCTION_POWER) add_number(w, node, "Pow", x, f->a, false, y);
  else if (f->kind == RONDE__FUNCTION_SQUARE) add_number(w, node, "Pow", x, 2, false, y);
  else {
    Onnx__NodeProto *to = ronde__onnx_add_like(w, node, types[f->kind]);
    if (f->kind >= RONDE__FUNCTION_SELU) ronde__onnx_add_float(w, to, "alpha", f->a);
    if (f->kind == RONDE__FUNCTION_SELU) ronde__onnx_add_float(w, to, "gamma", f->b);
  }
}

static void write_reduce(ronde__onnx_writer *w, const ronde__node *node) {
  static const char *const types[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"};
  int64_t axes[RONDE_MAX_RANK], n = 0;
  if (!node->attr.keep && ronde__onnx_shape_in(w, node)->rank == __builtin_popcount(node->attr.dims)) {
    ronde__onnx_refuse(w, node, "ONNX has no dimension left for one number an example: keep the dimensions");
    return;
  }
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, types[node->attr.reduce]);
  for (int d = 0; d < RONDE_MAX_RANK; d++)
    if (node->attr.dims >> d & 1) axes[n++] = d + 1;
  ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, n, axes));
  ronde__onnx_add_int(w, to, "keepdims", node->attr.keep);
  ronde__onnx_need_opset(w, 18); /* axes are an input of all of them */
}

/* ---- moves ---- */

static void write_reshape(ronde__onnx_writer *w, const ronde__node *node) {
  int64_t dims[RONDE_MAX_RANK + 1] = {0};
  memcpy(dims + 1, node->attr.shape.dim, (size_t)node->attr.shape.rank * sizeof *dims);
  ronde__onnx_add_input(w, ronde__onnx_add_like(w, node, "Reshape"),
                        ronde__onnx_add_sizes(w, node->attr.shape.rank + 1, dims));
}

static void write_transpose(ronde__onnx_writer *w, const ronde__node *node) {
  int64_t perm[RONDE_MAX_RANK + 1] = {0};
  int rank = ronde__onnx_shape_in(w, node)->rank;
  for (int d = 0; d < rank; d++) perm[d + 1] = node->attr.order[d] + 1;
  ronde__onnx_add_ints(w, ronde__onnx_add_like(w, node, "Transpose"), "perm", rank + 1, perm);
}

/* One of several nodes that are one of ours, with its label. */
static Onnx__NodeProto *add_part(ronde__onnx_writer *w, const ronde__node *node, const char *type, const char *from,
                                 const char *to) {
  Onnx__NodeProto *part = ronde__onnx_add(w, type, node->label, to);
  ronde__onnx_add_input(w, part, from);
  return part;
}

/* The channels as two dimensions, [batch, groups, channels of a group, the rest], which are exchanged. */
static void write_channel_shuffle(ronde__onnx_writer *w, const ronde__node *node) {
  const ronde__shape *shape = ronde__onnx_shape_in(w, node);
  const int64_t groups = node->attr.groups, channels = shape->dim[0];
  const int64_t cut[] = {0, groups, channels / groups, ronde__shape_elems(shape) / channels}, perm[] = {0, 2, 1, 3};
  int64_t whole[RONDE_MAX_RANK + 1] = {0};
  memcpy(whole + 1, shape->dim, (size_t)shape->rank * sizeof *whole);
  const char *y = ronde__onnx_out_name(w, node, 0);
  const char *in_groups = ronde__onnx_text(w, "%s.groups", y ? y : "");
  const char *turned = ronde__onnx_text(w, "%s.turned", y ? y : "");
  Onnx__NodeProto *to = add_part(w, node, "Reshape", w->names[node->in[0]], in_groups);
  ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, 4, cut));
  ronde__onnx_add_ints(w, add_part(w, node, "Transpose", in_groups, turned), "perm", 4, perm);
  to = add_part(w, node, "Reshape", turned, y);
  ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, shape->rank + 1, whole));
}

/* Whether all that it reads lies inside. */
static bool is_inside(const ronde__op_attr *attr, const ronde__shape *in) {
  for (int d = 0; d < in->rank; d++) {
    int64_t last = attr->begin[d] + (attr->shape.dim[d] - 1) * attr->by[d];
    if (attr->begin[d] < 0 || attr->begin[d] >= in->dim[d] || last < 0 || last >= in->dim[d]) return false;
  }
  return true;
}

static void write_cut(ronde__onnx_writer *w, const ronde__node *node, const ronde__shape *in) {
  const ronde__op_attr *attr = &node->attr;
  int64_t list[4][RONDE_MAX_RANK];
  for (int d = 0; d < in->rank; d++) {
    int64_t end = attr->begin[d] + attr->shape.dim[d] * attr->by[d];
    list[0][d] = attr->begin[d];
    list[1][d] = end < 0 ? INT32_MIN : end;
    list[2][d] = d + 1;
    list[3][d] = attr->by[d];
  }
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Slice");
  for (int i = 0; i < 4; i++) ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, in->rank, list[i]));
}

static void write_slice(ronde__onnx_writer *w, const ronde__node *node) {
  static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
  const ronde__op_attr *attr = &node->attr;
  const ronde__shape *in = ronde__onnx_shape_in(w, node);
  int64_t pads[2 * (RONDE_MAX_RANK + 1)] = {0};
  int n = in->rank + 1;
  if (is_inside(attr, in)) {
    write_cut(w, node, in);
    return;
  }
  for (int d = 0; d < in->rank; d++) {
    pads[d + 1] = -attr->begin[d];
    pads[n + d + 1] = attr->begin[d] + attr->shape.dim[d] - in->dim[d];
  }
  Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Pad");
  ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, 2 * n, pads));
  if (attr->value != 0) ronde__onnx_add_input(w, to, ronde__onnx_add_floats(w, 0, 1, &attr->value));
  ronde__onnx_add_word(w, to, "mode", modes[attr->outside]);
  if (attr->outside == RONDE__OUTSIDE_WRAP) ronde__onnx_need_opset(w, 19);
}

/* Repeated for each example of the input's batch. */
static void write_parameter(ronde__onnx_writer *w, const ronde__node *node) {
  const ronde__shape *shape = &w->graph->params[node->param[0]].shape;
  const char *y = ronde__onnx_out_name(w, node, 0), *name = ronde__onnx_give_param(w, node, 0, node->label);
  const char *batch = ronde__onnx_text(w, "%s.batch", y ? y : ""), *all = ronde__onnx_text(w, "%s.sizes", y ? y : "");
  Onnx__NodeProto *sizes = ronde__onnx_add(w, "Shape", node->label, batch);
  ronde__onnx_add_input(w, sizes, w->names[node->in[0]]);
  ronde__onnx_add_int(w, sizes, "end", 1);
  Onnx__NodeProto *join = ronde__onnx_add(w, "Concat", node->label, all);
  ronde__onnx_add_input(w, join, batch);
  ronde__onnx_add_input(w, join, ronde__onnx_add_sizes(w, shape->rank, shape->dim));
  ronde__onnx_add_int(w, join, "axis", 0);
  Onnx__NodeProto *to = ronde__onnx_add(w, "Expand", node->label, y);
  ronde__onnx_add_input(w, to, name);
  ronde__onnx_add_input(w, to, all);
}

/* ---- products ---- */

/* Input i of a product, turned where that is wanted. */
static const char *add_factor(ronde__onnx_writer *w, const ronde__node *node, int i) {
  int64_t perm[RONDE_MAX_RANK + 1];
  int rank = ronde__onnx_shape_in(w, node)->rank + 1;
  if (!node->attr.turned[i]) return w->names[node->in[i]];
  for (int d = 0; d < rank; d++) perm[d] = d;
  perm[rank - 2] = rank - 1, perm[rank - 1] = rank - 2;
  const char *y = ronde__onnx_out_name(w, node, 0), *turned = ronde__onnx_text(w, "%s.turned%d", y ? y : "", i);
  Onnx__NodeProto *to = ronde__onnx_add(w, "Transpose", turned ? turned : node->label, turned);
  ronde__onnx_add_input(w, to, w->names[node->in[i]]);
  ronde__onnx_add_ints(w, to, "perm", rank, perm);
  return turned;
}

static void write_matmul(ronde__onnx_writer *w, const ronde__node *node) {
  const char *a = add_factor(w, node, 0), *b = add_factor(w, node, 1);
  Onnx__NodeProto *to = ronde__onnx_add(w, "MatMul", node->label, ronde__onnx_out_name(w, node, 0));
  ronde__onnx_add_input(w, to, a);
  ronde__onnx_add_input(w, to, b);
}

/* Of a vector a Gemm; of more dimensions a product with the turned weight, and a sum. */
static void write_linear(ronde__onnx_writer *w, const ronde__node *node) {
  static const int64_t perm[] = {1, 0};
  const char *y = ronde__onnx_out_name(w, node, 0);
  if (ronde__onnx_shape_in(w, node)->rank == 1) {
    Onnx__NodeProto *to = ronde__onnx_add_like(w, node, "Gemm");
    ronde__onnx_add_params(w, node, to);
    if (!node->attr.inputs_first) ronde__onnx_add_int(w, to, "transB", 1);
    return;
  }
  bool bias = node->n_params > 1;
  const char *turned = ronde__onnx_text(w, "%s.weight", y ? y : ""),
             *sum = bias ? ronde__onnx_text(w, "%s.product", y ? y : "") : y;
  if (!node->attr.inputs_first) {
    Onnx__NodeProto *turn = ronde__onnx_add(w, "Transpose", turned ? turned : node->label, turned);
    ronde__onnx_add_param(w, node, 0, turn);
    ronde__onnx_add_ints(w, turn, "perm", 2, perm);
  }
  Onnx__NodeProto *to = ronde__onnx_add(w, "MatMul", node->label, sum);
  ronde__onnx_add_input(w, to, w->names[node->in[0]]);
  if (node->attr.inputs_first) ronde__onnx_add_param(w, node, 0, to);
  else ronde__onnx_add_input(w, to, turned);
  if (!bias) return;
  Onnx__NodeProto *add = ronde__onnx_add(w, "Add", node->label, y);
  ronde__onnx_add_input(w, add, sum);
  ronde__onnx_add_param(w, node, 1, add);
}

/* Rows of a table. */
static void write_embedding(ronde__onnx_writer *w, const ronde__node *node) {
  const char *table = ronde__onnx_give_param(w, node, 0, w->graph->params[node->param[0]].name);
  Onnx__NodeProto *to = ronde__onnx_add(w, "Gather", node->label, ronde__onnx_out_name(w, node, 0));
  ronde__onnx_add_input(w, to, table);
  ronde__onnx_add_input(w, to, w->names[node->in[0]]);
}

/* ---- all ---- */

void ronde__onnx_write_node(ronde__onnx_writer *w, const ronde__node *node) {
  switch (node->kind) {
  case RONDE__OP_CONV2D: write_conv(w, node); break;
  case RONDE__OP_CONV_TRANSPOSE2D: write_conv_transpose(w, node); break;
  case RONDE__OP_LINEAR: write_linear(w, node); break;
  case RONDE__OP_PAIR:
  case RONDE__OP_PAIR_SUM: write_pair(w, node); break;
  case RONDE__OP_FUNCTION: write_function(w, node); break;
  case RONDE__OP_REDUCE:
  case RONDE__OP_REDUCE_SUM: write_reduce(w, node); break;
  case RONDE__OP_RESHAPE: write_reshape(w, node); break;
  case RONDE__OP_TRANSPOSE: write_transpose(w, node); break;
  case RONDE__OP_CHANNEL_SHUFFLE: write_channel_shuffle(w, node); break;
  case RONDE__OP_SLICE: write_slice(w, node); break;
  case RONDE__OP_PARAMETER: write_parameter(w, node); break;
  case RONDE__OP_MATMUL: write_matmul(w, node); break;
  case RONDE__OP_MAX_POOL2D: write_pool(w, node, "MaxPool"); break;
  case RONDE__OP_AVG_POOL2D: write_pool(w, node, "AveragePool"); break;
  case RONDE__OP_ADAPTIVE_AVG_POOL2D: write_adaptive(w, node); break;
  case RONDE__OP_RESIZE2D: write_resize2d(w, node); break;
  case RONDE__OP_UPSAMPLE2D: write_resize(w, node, node->attr.kernel[0], node->attr.kernel[1]); break;
  case RONDE__OP_BATCH_NORM2D: write_batch_norm(w, node); break;
  case RONDE__OP_LAYER_NORM: write_layer_norm(w, node); break;
  case RONDE__OP_GROUP_NORM: write_group_norm(w, node); break;
  case RONDE__OP_LSTM:
  case RONDE__OP_GRU:
  case RONDE__OP_RNN: ronde__onnx_write_recurrent(w, node); break;
  case RONDE__OP_ATTENTION: ronde__onnx_write_attention(w, node); break;
  case RONDE__OP_RMS_NORM: write_rms_norm(w, node); break;
  case RONDE__OP_DROPOUT: write_dropout(w, node); break;
  case RONDE__OP_ACTIVATION: write_activation(w, node); break;
  case RONDE__OP_POINTWISE: write_pointwise(w, node); break;
  case RONDE__OP_FLATTEN: ronde__onnx_add_like(w, node, "Flatten"); break;
  case RONDE__OP_ADD: ronde__onnx_add_like(w, node, "Add"); break;
  case RONDE__OP_SUBTRACT: ronde__onnx_add_like(w, node, "Sub"); break;
  case RONDE__OP_MULTIPLY: ronde__onnx_add_like(w, node, "Mul"); break;
  case RONDE__OP_CONCAT:
    ronde__onnx_add_int(w, ronde__onnx_add_like(w, node, "Concat"), "axis", node->attr.dim + 1);
    break;
  case RONDE__OP_SPLIT: write_split(w, node); break;
  case RONDE__OP_SOFTMAX:
    ronde__onnx_add_int(w, ronde__onnx_add_like(w, node, "Softmax"), "axis", node->attr.dim + 1);
    break;
  case RONDE__OP_EMBEDDING: write_embedding(w, node); break;
  case RONDE__OP_LENGTHS: ronde__onnx_write_lengths(w, node); break;
  case RONDE__OP_ADDITIVE_ATTENTION: ronde__onnx_write_additive_attention(w, node); break;
  default: ronde__onnx_refuse(w, node, "ONNX has no such operator");
  }
}

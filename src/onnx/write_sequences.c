/* What the ops of sequences are in ONNX: recurrent layers, and attention of both kinds. */
#include "onnx/writer.h"

#include <stdio.h>
#include <string.h>

/* ---- recurrent layers ---- */

/* Block i of ONNX's rows is block from[i] of Ronde's. */
typedef struct gate_order {
  int n, from[4];
} gate_order;

/* LSTM: i f g o to i o f g, and peepholes i f o to i o f; GRU: r z n to z r h. */
static const gate_order of_lstm = {4, {0, 3, 1, 2}}, of_peepholes = {3, {0, 2, 1}}, of_gru = {3, {1, 0, 2}},
                        of_rnn = {1, {0}};

static const gate_order *order_of(const ronde__node *node) {
  return node->kind == RONDE__OP_LSTM ? &of_lstm : node->kind == RONDE__OP_GRU ? &of_gru : &of_rnn;
}

/* Parameters i, and i + 1 where they are two halves, as one initializer of the first one's name, which it returns. */
static const char *add_gates(ronde__onnx_writer *w, const ronde__node *node, int i, int n, const gate_order *order,
                             const ronde__shape *shape) {
  bool *written = &w->written[node->param[i]];
  const char *name = w->graph->params[node->param[i]].name;
  float *values = *written ? NULL : ronde__onnx_add_floats_of(w, name, shape);
  for (int k = 0; k < n && values; k++) {
    int64_t elems = ronde__shape_elems(&w->graph->params[node->param[i + k]].shape), block = elems / order->n;
    float *own = ronde__onnx_room(w, (size_t)elems * sizeof *own);
    if (!own) return name;
    ronde__net_get(w->net, ronde__onnx_param_at(w->net, node->param[i + k]), own);
    for (int gate = 0; gate < order->n; gate++)
      memcpy(values + k * elems + gate * block, own + order->from[gate] * block, (size_t)block * sizeof *own);
  }
  *written = true;
  return name;
}

static void add_transpose(ronde__onnx_writer *w, const char *from, const char *to) {
  static const int64_t perm[] = {1, 0, 2};
  ronde__onnx_add_ints(w, ronde__onnx_add_step(w, "Transpose", from, to), "perm", 3, perm);
}

enum { X, W, R, B, LENGTHS, HIDDEN, CELL, P, N_INPUTS };

static void add_weights(ronde__onnx_writer *w, const ronde__node *node, const char **inputs) {
  const gate_order *order = order_of(node);
  int64_t hidden = node->attr.out_channels, features = ronde__onnx_shape_in(w, node)->dim[1];
  int64_t rows = order->n * hidden;
  const ronde__shape ih = {3, {1, rows, features}}, hh = {3, {1, rows, hidden}}, bias = {2, {1, 2 * rows}};
  const ronde__shape peepholes = {2, {1, 3 * hidden}};
  inputs[W] = add_gates(w, node, 0, 1, order, &ih);
  inputs[R] = add_gates(w, node, 1, 1, order, &hh);
  if (node->attr.bias) inputs[B] = add_gates(w, node, 2, 2, order, &bias);
  if (node->attr.peepholes) inputs[P] = add_gates(w, node, node->n_params - 1, 1, &of_peepholes, &peepholes);
}

/* What tells the operator from its usual form. */
static void add_kind(ronde__onnx_writer *w, const ronde__node *node, Onnx__NodeProto *to) {
  ronde__onnx_add_int(w, to, "hidden_size", node->attr.out_channels);
  if (node->attr.reverse) ronde__onnx_add_word(w, to, "direction", "reverse");
  if (node->attr.cell == RONDE__CELL_GRU) ronde__onnx_add_int(w, to, "linear_before_reset", 1);
  if (node->attr.clip > 0) ronde__onnx_add_float(w, to, "clip", node->attr.clip);
  if (node->attr.cell == RONDE__CELL_RELU) ronde__onnx_add_word_list(w, to, "activations", "Relu");
}

/* In ONNX time comes first, and there is a dimension of directions. */
void ronde__onnx_write_recurrent(ronde__onnx_writer *w, const ronde__node *node) {
  const char *type = node->kind == RONDE__OP_LSTM ? "LSTM" : node->kind == RONDE__OP_GRU ? "GRU" : "RNN";
  const int n_states = node->n_outputs - 1, n_given = node->n_inputs - 1 - node->attr.lengths;
  const char *y = ronde__onnx_out_name(w, node, 0), *part[3] = {"", "", ""}, *inputs[N_INPUTS] = {NULL};
  int n_inputs = 0;
  if (!y) return;
  if (node->attr.lengths) inputs[LENGTHS] = ronde__onnx_steps_of(w, node, ronde__onnx_shape_in(w, node)->dim[0]);
  inputs[X] = ronde__onnx_text(w, "%s.x", y);
  add_transpose(w, w->names[node->in[0]], inputs[X]);
  for (int i = 0; i < n_given; i++) {
    inputs[HIDDEN + i] = ronde__onnx_text(w, "%s.state%d", y, i + 1);
    ronde__onnx_add_axis(w, "Unsqueeze", 0, w->names[node->in[1 + i]], inputs[HIDDEN + i]);
  }
  for (int i = 0; i <= n_states; i++)
    if (w->needed[node->out[i]]) part[i] = ronde__onnx_text(w, "%s.part%d", y, i);
  Onnx__NodeProto *to = ronde__onnx_add(w, type, node->label, part[0]);
  for (int i = 1; i <= n_states; i++) ronde__onnx_add_output(w, to, part[i]);
  add_weights(w, node, inputs);
  for (int i = 0; i < N_INPUTS; i++)
    if (inputs[i]) n_inputs = i + 1;
  for (int i = 0; i < n_inputs; i++) ronde__onnx_add_input(w, to, inputs[i]);
  add_kind(w, node, to);
  if (part[0] && *part[0]) {
    const char *steps = ronde__onnx_text(w, "%s.steps", y);
    ronde__onnx_add_axis(w, "Squeeze", 1, part[0], steps);
    add_transpose(w, steps, y);
  }
  for (int i = 1; i <= n_states; i++)
    if (part[i] && *part[i]) ronde__onnx_add_axis(w, "Squeeze", 0, part[i], ronde__onnx_out_name(w, node, i));
}

/* ---- attention ---- */

/* Query, key and value lie side by side. */
static void add_parts(ronde__onnx_writer *w, const ronde__node *node, const char *y, const char **parts) {
  const int64_t own = ronde__onnx_shape_in(w, node)->dim[1] / 3, sizes[] = {own, own, own};
  for (int i = 0; i < 3; i++) parts[i] = ronde__onnx_text(w, "%s.part%d", y, i);
  Onnx__NodeProto *cut = ronde__onnx_add(w, "Split", parts[0], parts[0]);
  ronde__onnx_add_output(w, cut, parts[1]);
  ronde__onnx_add_output(w, cut, parts[2]);
  ronde__onnx_add_input(w, cut, w->names[node->in[0]]);
  ronde__onnx_add_input(w, cut, ronde__onnx_add_sizes(w, 3, sizes));
  ronde__onnx_add_int(w, cut, "axis", 2);
}

/* What of S keys is seen, for T queries, bool [N,1,T,S]. */
static const char *add_mask(ronde__onnx_writer *w, const ronde__node *node, int64_t t, int64_t s) {
  static const int64_t axes[] = {1, 2};
  const char *seen = ronde__onnx_seen_of(w, node, s), *mask = ronde__onnx_text(w, "%s.mask%lld", seen, (long long)t);
  if (!mask || ronde__onnx_is_given(w, mask)) return mask;
  const int64_t sizes[] = {1, 1, t, 1};
  const char *row = ronde__onnx_text(w, "%s.row", mask);
  Onnx__NodeProto *step = ronde__onnx_add_step(w, "Unsqueeze", seen, row);
  ronde__onnx_add_input(w, step, ronde__onnx_add_sizes(w, 2, axes));
  step = ronde__onnx_add_step(w, "Expand", row, mask);
  ronde__onnx_add_input(w, step, ronde__onnx_add_sizes(w, 4, sizes));
  return mask;
}

void ronde__onnx_write_attention(ronde__onnx_writer *w, const ronde__node *node) {
  const bool lengths = node->attr.lengths, packed = node->n_inputs - lengths == 1;
  const char *y = ronde__onnx_out_name(w, node, 0), *parts[3] = {NULL}, *mask = "";
  const int64_t s = w->graph->tensors[node->in[packed ? 0 : 1]]->shape.dim[0];
  for (int i = 0; i < node->n_inputs - lengths; i++) parts[i] = w->names[node->in[i]];
  if (packed) add_parts(w, node, y ? y : "", parts);
  if (lengths) mask = add_mask(w, node, ronde__onnx_shape_in(w, node)->dim[0], s);
  const char *any = lengths ? ronde__onnx_any_of(w, node) : NULL;
  const char *of_keys = lengths ? ronde__onnx_text(w, "%s.of_keys", y ? y : "") : y;
  Onnx__NodeProto *to = ronde__onnx_add(w, "Attention", node->label, of_keys);
  for (int i = 0; i < 3; i++) ronde__onnx_add_input(w, to, parts[i]);
  if (lengths) ronde__onnx_add_input(w, to, mask);
  ronde__onnx_add_int(w, to, "q_num_heads", node->attr.heads);
  ronde__onnx_add_int(w, to, "kv_num_heads", node->attr.heads);
  ronde__onnx_add_int(w, to, "is_causal", node->attr.causal);
  ronde__onnx_need_opset(w, 23);
  if (lengths) ronde__onnx_add_input(w, ronde__onnx_add_step(w, "Mul", of_keys, y), any);
}

/* ---- additive attention ---- */

/* What scores are a product with, [U]: v, or normalised g v / |v|. */
static const char *add_vector(ronde__onnx_writer *w, const ronde__node *node, const char *y) {
  const char *v = w->graph->params[node->param[0]].name, *norm = ronde__onnx_text(w, "%s.norm", y);
  const char *factor = ronde__onnx_text(w, "%s.factor", y), *vector = ronde__onnx_text(w, "%s.vector", y);
  const int64_t axis = 0;
  Onnx__NodeProto *to = ronde__onnx_add_step(w, "ReduceL2", v, norm);
  ronde__onnx_give_param(w, node, 0, node->label);
  ronde__onnx_add_input(w, to, ronde__onnx_add_sizes(w, 1, &axis));
  ronde__onnx_need_opset(w, 18); /* axes are an input */
  to = ronde__onnx_add_step(w, "Div", ronde__onnx_give_param(w, node, 1, node->label), factor);
  ronde__onnx_add_input(w, to, norm);
  ronde__onnx_add_input(w, ronde__onnx_add_step(w, "Mul", v, vector), factor);
  return vector;
}

/* v tanh(q + k + b), [N,T,S]. */
static const char *add_scores(ronde__onnx_writer *w, const ronde__node *node, const char *y) {
  const char *rows = ronde__onnx_text(w, "%s.queries", y), *columns = ronde__onnx_text(w, "%s.keys", y);
  const char *sums = ronde__onnx_text(w, "%s.sums", y), *tanh = ronde__onnx_text(w, "%s.tanh", y);
  const char *scores = ronde__onnx_text(w, "%s.scores", y), *biased = ronde__onnx_text(w, "%s.biased", y);
  ronde__onnx_add_axis(w, "Unsqueeze", 2, w->names[node->in[0]], rows);
  ronde__onnx_add_axis(w, "Unsqueeze", 1, w->names[node->in[1]], columns);
  if (node->attr.normalised) ronde__onnx_add_param(w, node, 2, ronde__onnx_add_step(w, "Add", rows, biased));
  ronde__onnx_add_input(w, ronde__onnx_add_step(w, "Add", node->attr.normalised ? biased : rows, sums), columns);
  ronde__onnx_add_step(w, "Tanh", sums, tanh);
  const char *vector = node->attr.normalised ? add_vector(w, node, y) : NULL;
  Onnx__NodeProto *to = ronde__onnx_add_step(w, "MatMul", tanh, scores);
  if (vector) ronde__onnx_add_input(w, to, vector);
  else ronde__onnx_add_param(w, node, 0, to);
  return scores;
}

/* The softmax, which has the node's label. */
static void add_shares(ronde__onnx_writer *w, const ronde__node *node, const char *scores, const char *shares) {
  Onnx__NodeProto *to = ronde__onnx_add(w, "Softmax", node->label, shares);
  ronde__onnx_add_input(w, to, scores);
  ronde__onnx_add_int(w, to, "axis", 2);
}

/* What is made of lengths comes first, so that all the rest stands together for who reads the file. */
void ronde__onnx_write_additive_attention(ronde__onnx_writer *w, const ronde__node *node) {
  static const float unseen = -1e30f;
  const char *y = ronde__onnx_out_name(w, node, 0);
  if (!y) return;
  if (!node->attr.lengths) {
    add_shares(w, node, add_scores(w, node, y), y);
    return;
  }
  const char *seen = ronde__onnx_seen_of(w, node, w->graph->tensors[node->in[1]]->shape.dim[0]);
  const char *any = ronde__onnx_any_of(w, node);
  const char *row = ronde__onnx_text(w, "%s.seen", y), *masked = ronde__onnx_text(w, "%s.masked", y);
  const char *shares = ronde__onnx_text(w, "%s.shares", y);
  ronde__onnx_add_axis(w, "Unsqueeze", 1, seen, row);
  const char *scores = add_scores(w, node, y);
  Onnx__NodeProto *to = ronde__onnx_add_step(w, "Where", row, masked);
  ronde__onnx_add_input(w, to, scores);
  ronde__onnx_add_input(w, to, ronde__onnx_add_floats(w, 0, 1, &unseen));
  add_shares(w, node, masked, shares);
  ronde__onnx_add_input(w, ronde__onnx_add_step(w, "Mul", shares, y), any);
}

/* What the ops of sequences are in ONNX: LSTM, GRU, attention. */
#include "onnx/writer.h"

#include <stdio.h>
#include <string.h>

/* ---- LSTM and GRU ---- */

/* Blocks of `block` elements in the order of ONNX: of an LSTM i f g o to i o f g, of a GRU r z n to z r h. */
static void turn_gates(const float *values, int gates, int64_t block, float *out) {
  static const int lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2};
  const int *from = gates == 4 ? lstm : gru;
  for (int gate = 0; gate < gates; gate++)
    memcpy(out + gate * block, values + from[gate] * block, (size_t)block * sizeof *out);
}

static int gates_of(const ronde__node *node) { return node->kind == RONDE__OP_LSTM ? 4 : 3; }

/* Parameters i, and i + 1 where they are two halves, as one initializer of that name. */
static void add_gates(ronde__onnx_writer *w, const ronde__node *node, int i, int n, const char *name,
                      const ronde__shape *shape, Onnx__NodeProto *to) {
  bool *written = &w->written[node->param[i]];
  float *values = *written ? NULL : ronde__onnx_add_floats_of(w, name, shape);
  for (int k = 0; k < n && values; k++) {
    int64_t elems = ronde__shape_elems(&w->graph->params[node->param[i + k]].shape);
    float *own = ronde__onnx_room(w, (size_t)elems * sizeof *own);
    if (!own) return;
    ronde__net_get(w->net, ronde__onnx_param_at(w->net, node->param[i + k]), own);
    turn_gates(own, gates_of(node), elems / gates_of(node), values + k * elems);
  }
  *written = true;
  ronde__onnx_add_input(w, to, name);
}

/* Of both biases: what one's name has around the part that PyTorch gives it, "_ih_l0". */
static const char *bias_name(ronde__onnx_writer *w, const ronde__node *node) {
  static const char part[] = "_ih_l0";
  const char *name = w->graph->params[node->param[2]].name, *at = strstr(name, part);
  if (!at) return name;
  return ronde__onnx_text(w, "%.*s%s", (int)(at - name), name, at + sizeof part - 1);
}

static Onnx__NodeProto *add_move(ronde__onnx_writer *w, const ronde__node *node, const char *type, const char *from,
                                 const char *to) {
  Onnx__NodeProto *move = ronde__onnx_add(w, type, node->label, to);
  ronde__onnx_add_input(w, move, from);
  return move;
}

static void add_transpose(ronde__onnx_writer *w, const ronde__node *node, const char *from, const char *to) {
  static const int64_t perm[] = {1, 0, 2};
  ronde__onnx_add_ints(w, add_move(w, node, "Transpose", from, to), "perm", 3, perm);
}

/* Squeeze or Unsqueeze. */
static void add_axis(ronde__onnx_writer *w, const ronde__node *node, const char *type, int64_t axis, const char *from,
                     const char *to) {
  Onnx__NodeProto *move = add_move(w, node, type, from, to);
  ronde__onnx_add_input(w, move, ronde__onnx_add_sizes(w, 1, &axis));
}

static void add_weights(ronde__onnx_writer *w, const ronde__node *node, Onnx__NodeProto *to) {
  int64_t hidden = node->attr.out_channels, features = ronde__onnx_shape_in(w, node)->dim[1];
  int64_t rows = gates_of(node) * hidden;
  const ronde__shape ih = {3, {1, rows, features}}, hh = {3, {1, rows, hidden}}, bias = {2, {1, 2 * rows}};
  add_gates(w, node, 0, 1, w->graph->params[node->param[0]].name, &ih, to);
  add_gates(w, node, 1, 1, w->graph->params[node->param[1]].name, &hh, to);
  if (node->attr.bias) add_gates(w, node, 2, 2, bias_name(w, node), &bias, to);
  else if (node->n_inputs > 1) ronde__onnx_add_input(w, to, "");
}

/* In ONNX time comes first, and there is a dimension of directions. */
void ronde__onnx_write_recurrent(ronde__onnx_writer *w, const ronde__node *node) {
  const bool is_lstm = node->kind == RONDE__OP_LSTM;
  const int n_states = is_lstm ? 2 : 1;
  const char *y = ronde__onnx_out_name(w, node, 0), *part[3] = {"", "", ""}, *state[3] = {"", "", ""};
  if (node->attr.lengths) {
    ronde__onnx_refuse(w, node, "recurrent layers that have lengths are not written yet");
    return;
  }
  if (!y) return;
  const char *x = ronde__onnx_text(w, "%s.x", y), *steps = ronde__onnx_text(w, "%s.steps", y);
  add_transpose(w, node, w->names[node->in[0]], x);
  for (int i = 1; i < node->n_inputs; i++) {
    state[i] = ronde__onnx_text(w, "%s.state%d", y, i);
    add_axis(w, node, "Unsqueeze", 0, w->names[node->in[i]], state[i]);
  }
  for (int i = 0; i <= n_states; i++)
    if (w->needed[node->out[i]]) part[i] = ronde__onnx_text(w, "%s.part%d", y, i);
  Onnx__NodeProto *to = ronde__onnx_add(w, is_lstm ? "LSTM" : "GRU", node->label, part[0]);
  for (int i = 1; i <= n_states; i++) ronde__onnx_add_output(w, to, part[i]);
  ronde__onnx_add_input(w, to, x);
  add_weights(w, node, to);
  if (node->n_inputs > 1) ronde__onnx_add_input(w, to, "");
  for (int i = 1; i < node->n_inputs; i++) ronde__onnx_add_input(w, to, state[i]);
  ronde__onnx_add_int(w, to, "hidden_size", node->attr.out_channels);
  if (node->attr.reverse) ronde__onnx_add_word(w, to, "direction", "reverse");
  if (!is_lstm) ronde__onnx_add_int(w, to, "linear_before_reset", 1);
  if (part[0] && *part[0]) {
    add_axis(w, node, "Squeeze", 1, part[0], steps);
    add_transpose(w, node, steps, y);
  }
  for (int i = 1; i <= n_states; i++)
    if (part[i] && *part[i]) add_axis(w, node, "Squeeze", 0, part[i], ronde__onnx_out_name(w, node, i));
}

/* ---- attention ---- */

/* Query, key and value lie side by side. */
static void add_parts(ronde__onnx_writer *w, const ronde__node *node, const char *y, const char **parts) {
  const int64_t own = ronde__onnx_shape_in(w, node)->dim[1] / 3, sizes[] = {own, own, own};
  for (int i = 0; i < 3; i++) parts[i] = ronde__onnx_text(w, "%s.part%d", y, i);
  Onnx__NodeProto *cut = ronde__onnx_add(w, "Split", node->label, parts[0]);
  ronde__onnx_add_output(w, cut, parts[1]);
  ronde__onnx_add_output(w, cut, parts[2]);
  ronde__onnx_add_input(w, cut, w->names[node->in[0]]);
  ronde__onnx_add_input(w, cut, ronde__onnx_add_sizes(w, 3, sizes));
  ronde__onnx_add_int(w, cut, "axis", 2);
}

void ronde__onnx_write_attention(ronde__onnx_writer *w, const ronde__node *node) {
  const char *y = ronde__onnx_out_name(w, node, 0), *parts[3] = {NULL};
  if (node->attr.lengths) {
    ronde__onnx_refuse(w, node, "attention to lengths is not written yet");
    return;
  }
  for (int i = 0; i < node->n_inputs; i++) parts[i] = w->names[node->in[i]];
  if (node->n_inputs == 1) add_parts(w, node, y ? y : "", parts);
  Onnx__NodeProto *to = ronde__onnx_add(w, "Attention", node->label, y);
  for (int i = 0; i < 3; i++) ronde__onnx_add_input(w, to, parts[i]);
  ronde__onnx_add_int(w, to, "q_num_heads", node->attr.heads);
  ronde__onnx_add_int(w, to, "kv_num_heads", node->attr.heads);
  ronde__onnx_add_int(w, to, "is_causal", node->attr.causal);
  ronde__onnx_need_opset(w, 23);
}

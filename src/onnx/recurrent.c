/* Recurrent operators: LSTM, GRU and RNN, of one layer, in either direction or in both. */
#include "onnx/import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIRECTIONS = 2, MAX_STATES = 2 };
enum { BIAS = 3, LENGTHS, STATES, PEEPHOLES = 7 }; /* inputs */

typedef struct cell {
  ronde__op_kind kind;
  ronde__cell_kind kind_of_cell;
  ronde__onnx_change change; /* of its weights */
  int gates, states;
  int n_activations; /* of a direction */
  const char *activations[3];
  const ronde__onnx_node *node;
  int directions;
  bool backwards;   /* of one direction: from the last step to the first */
  bool batch_first; /* [batch,time,features], in place of [time,batch,features] */
  int64_t hidden, features;
  float clip;                                            /* 0: none */
  const ronde_tensor *x;                                 /* [T,F] */
  const ronde_tensor *begin[MAX_STATES][MAX_DIRECTIONS]; /* [H]; NULL: zero */
  const ronde_tensor *lengths;                           /* [1]: how many steps an example has; NULL: all */
} cell;

/* ---- what the node says ---- */

/* Those of each direction, one after the other, or none: the usual ones. */
static bool has_usual_activations(const ronde__onnx_node *node, const cell *c) {
  const Onnx__AttributeProto *given = ronde__onnx_attr(node, "activations");
  for (size_t i = 0; given && i < given->n_strings; i++) {
    const char *wanted = c->activations[i % (size_t)c->n_activations];
    if (given->strings[i].len != strlen(wanted) || memcmp(given->strings[i].data, wanted, strlen(wanted)) != 0)
      return false;
  }
  return true;
}

/* Lengths that say nothing, each example having all steps, or that follow from the examples. */
static ronde_status read_lengths(ronde__onnx_import *im, cell *c) {
  const ronde__onnx_value *lengths = ronde__onnx_in(im, c->node, LENGTHS);
  const ronde__onnx_known *known = lengths ? ronde__onnx_known_of(im, lengths) : NULL;
  int64_t dims[RONDE_MAX_RANK];
  ronde_tensor_dims(c->x, dims);
  bool has_all = !lengths || (known && ronde__onnx_is_alike(known, (double)dims[0]));
  if (has_all || ronde__onnx_in_lengths(im, c->node, LENGTHS, dims[0], &c->lengths)) return RONDE_OK;
  return ronde__onnx_fail(im, c->node,
                          "its lengths of sequences are neither all %lld steps nor from 0 to %lld of each "
                          "example",
                          (long long)dims[0], (long long)dims[0]);
}

/* Of an RNN one function, of all directions. */
static void read_function(const ronde__onnx_node *node, cell *c) {
  const Onnx__AttributeProto *given = ronde__onnx_attr(node, "activations");
  if (c->kind != RONDE__OP_RNN || !given || given->n_strings == 0) return;
  if (given->strings[0].len != 4 || memcmp(given->strings[0].data, "Relu", 4) != 0) return;
  c->activations[0] = "Relu";
  c->kind_of_cell = RONDE__CELL_RELU;
}

static ronde_status read_way(const ronde__onnx_import *im, const ronde__onnx_node *node, cell *c) {
  bool forward = ronde__onnx_attr_is(node, "direction", "forward", "forward");
  bool both = ronde__onnx_attr_is(node, "direction", "forward", "bidirectional");
  c->backwards = ronde__onnx_attr_is(node, "direction", "forward", "reverse");
  c->directions = both ? 2 : 1;
  if (!forward && !both && !c->backwards) return ronde__onnx_fail(im, node, "its direction is not known");
  read_function(node, c);
  if (!has_usual_activations(node, c) || ronde__onnx_attr_int(node, "input_forget", 0))
    return ronde__onnx_fail(im, node, "only the usual gates are supported, without input_forget");
  c->clip = (float)ronde__onnx_attr_float(node, "clip", 0);
  if (!(c->clip >= 0 && isfinite(c->clip))) return ronde__onnx_fail(im, node, "its clip is no positive number");
  if (c->kind == RONDE__OP_GRU && !ronde__onnx_attr_int(node, "linear_before_reset", 0))
    c->kind_of_cell = RONDE__CELL_GRU_RESET_FIRST;
  return RONDE_OK;
}

static ronde_status read_sequence(ronde__onnx_import *im, const ronde__onnx_node *node, cell *c) {
  const ronde__onnx_value *x = ronde__onnx_in(im, node, 0);
  const ronde__onnx_place place = ronde__onnx_place_of(x);
  c->batch_first = ronde__onnx_attr_int(node, "layout", 0) != 0;
  bool is_sequence = x && x->kind == RONDE__ONNX_TENSOR && x->order == RONDE__ONNX_AS_EVER && !x->transposed &&
                     place.at == (c->batch_first ? 0 : 1) && place.rank == 3 && !place.merged;
  const bool swapped = x && x->kind == RONDE__ONNX_TENSOR && place.rank == 3 && place.at == (c->batch_first ? 1 : 0);
  if (!is_sequence)
    return ronde__onnx_fail(
        im, node, "its input is not [time, batch, features], or with layout 1 [batch, time, features]%s",
        swapped ? ": the batch of a file is its inputs' first dimension, unless the second one is open "
                  "and called batch"
                : "");
  c->x = x->x;
  return read_lengths(im, c);
}

/* Of an initializer, or of one whose gates nodes have turned. */
static ronde__shape dims_of(const ronde__onnx_import *im, const cell *c, int i) {
  const ronde__onnx_value *value = ronde__onnx_in(im, c->node, i);
  return value && value->kind == RONDE__ONNX_ROWS ? ronde__onnx_dims_of_gates(value->rows, c->directions)
                                                  : ronde__onnx_dims_of(im, c->node, i);
}

static ronde_status read_sizes(const ronde__onnx_import *im, const ronde__onnx_node *node, cell *c) {
  ronde__shape w = dims_of(im, c, 1), r = dims_of(im, c, 2);
  c->hidden = r.dim[2], c->features = w.dim[2];
  bool right = w.rank == 3 && r.rank == 3 && w.dim[0] == c->directions && r.dim[0] == c->directions &&
               c->hidden <= INT32_MAX / 8 && r.dim[1] == c->gates * c->hidden && w.dim[1] == c->gates * c->hidden;
  if (right && ronde__onnx_attr_int(node, "hidden_size", c->hidden) == c->hidden) return RONDE_OK;
  return ronde__onnx_fail(im, node,
                          "its weights are not initializers [%d, %d hidden, features] and [%d, %d hidden, hidden]",
                          c->directions, c->gates, c->directions, c->gates);
}

/* ---- the states in front of the first steps ---- */

static bool is_zero(const ronde__onnx_value *value) {
  if (!value || ronde__onnx_are_zeros(value)) return true;
  return value->kind == RONDE__ONNX_CONSTANT && ronde__onnx_is_zero(value->constant);
}

/* Input i: zero, or [directions, batch, hidden], or with layout 1 [batch, directions, hidden]. */
static ronde_status read_state(const ronde__onnx_import *im, const ronde__onnx_node *node, const cell *c, int i,
                               const ronde_tensor *begin[MAX_DIRECTIONS]) {
  const ronde__onnx_value *value = ronde__onnx_in(im, node, i);
  if (is_zero(value)) return RONDE_OK;
  bool is_tensor = value->kind == RONDE__ONNX_TENSOR && !value->merged && !value->transposed;
  if (is_tensor && value->order == RONDE__ONNX_STATE && c->directions == 1 && !c->batch_first) {
    begin[0] = value->x;
    return RONDE_OK;
  }
  ronde__onnx_place place = ronde__onnx_place_of(value);
  int64_t dims[RONDE_MAX_RANK];
  bool fits = is_tensor && value->order == RONDE__ONNX_AS_EVER && place.rank == 3 &&
              place.at == (c->batch_first ? 0 : 1) && ronde_tensor_dims(value->x, dims) == 2 &&
              dims[0] == c->directions && dims[1] == c->hidden;
  if (!fits) return ronde__onnx_fail(im, node, "its initial state is neither zero nor of its batch and directions");
  for (int d = 0; d < c->directions; d++) {
    const int64_t first[] = {d, 0}, step[] = {1, 1}, row[] = {1, c->hidden};
    const ronde_tensor *own = c->directions == 1 ? value->x : ronde_slice(value->x, first, step, row);
    begin[d] = ronde_reshape(own, 1, row + 1);
    if (!begin[d]) return ronde_graph_status(im->graph);
  }
  return RONDE_OK;
}

/* ---- layers ---- */

/* What a part of input i is called: like the initializer, which has both biases in one: one that is called as PyTorch calls
 * its first bias, and as it is written here, gives both PyTorch's names. To be freed. */
static char *part_name(const ronde__onnx_import *im, const cell *c, int i, int d, bool of_h) {
  static const char part[] = "_ih_l";
  const ronde__onnx_value *value = ronde__onnx_in(im, c->node, i);
  const char *name = value && value->kind == RONDE__ONNX_CONSTANT && value->constant->name ? value->constant->name : "";
  const char *way = d ? "_reverse" : "", *at = strstr(name, part);
  if (i != BIAS) return ronde__format("%s%s", name, way);
  if (!at) return ronde__format("%s%s%s", name, way, of_h ? "_hh_l0" : "_ih_l0");
  return ronde__format("%.*s%s%s%s", (int)(at - name), name, of_h ? "_hh_l" : part, at + sizeof part - 1, way);
}

static bool has_peepholes(const ronde__onnx_import *im, const cell *c) {
  return c->kind == RONDE__OP_LSTM && ronde__onnx_in(im, c->node, PEEPHOLES) != NULL;
}

/* Part k of input i, where nodes have turned its gates: the initializer as it is. */
static ronde_status take_turned(ronde__onnx_import *im, const cell *c, int i, int k, const ronde__shape *shape,
                                ronde__onnx_layer *layer) {
  const ronde__onnx_rows *rows = ronde__onnx_in(im, c->node, i)->rows;
  const Onnx__TensorProto *tensor = ronde__onnx_turned_gates(rows, c->change, c->gates, k);
  if (!tensor || tensor->dims[0] != shape->dim[0] || !ronde__onnx_is_weight_name(tensor->name))
    return ronde__onnx_fail(im, c->node, "the gates of input %d are not those of one initializer in ONNX's order", i);
  return ronde__onnx_take_tensor(im, c->node, tensor, NULL, RONDE__ONNX_AS_IT_IS, shape, false, layer);
}

/* Part k of input i, which has the rows of all directions one after the other; of a bias, first those of x, then those of h. */
static ronde_status take_part(ronde__onnx_import *im, const cell *c, int i, int k, const ronde__shape *shape,
                              ronde__onnx_layer *layer) {
  const bool is_bias = i == BIAS;
  if (ronde__onnx_in(im, c->node, i)->kind == RONDE__ONNX_ROWS) return take_turned(im, c, i, k, shape, layer);
  char *name = part_name(im, c, i, is_bias ? k / 2 : k, is_bias && k % 2);
  if (!name) return ronde__fail(RONDE_E_MEMORY, "%s: no memory for names", im->file->path);
  ronde_status status =
      ronde__onnx_take(im, c->node, i, name, i == PEEPHOLES ? RONDE__ONNX_PEEPHOLES : c->change, shape, false, layer);
  free(name);
  if (status == RONDE_OK) layer->weights[layer->n - 1].part = k;
  return status;
}

/* Whether an input that may be left out has these dims. */
static ronde_status check_dims(const ronde__onnx_import *im, const cell *c, int i, const ronde__shape *wanted,
                               const char *what) {
  ronde__shape given = dims_of(im, c, i);
  return ronde__shape_equal(&given, wanted) ? RONDE_OK
                                            : ronde__onnx_fail(im, c->node, "its %s have another shape", what);
}

static ronde_status take_weights(ronde__onnx_import *im, const cell *c, int d, ronde__onnx_layer *layer) {
  const int64_t rows = c->gates * c->hidden;
  const ronde__shape ih = {2, {rows, c->features}}, hh = {2, {rows, c->hidden}}, bias = {1, {rows}};
  const ronde__shape biases = {2, {c->directions, 2 * rows}};
  const ronde__shape peepholes = {1, {3 * c->hidden}}, all_peepholes = {2, {c->directions, 3 * c->hidden}};
  RONDE_TRY(take_part(im, c, 1, d, &ih, layer));
  RONDE_TRY(take_part(im, c, 2, d, &hh, layer));
  if (ronde__onnx_in(im, c->node, BIAS)) {
    RONDE_TRY(check_dims(im, c, BIAS, &biases, "biases"));
    for (int k = 2 * d; k <= 2 * d + 1; k++) RONDE_TRY(take_part(im, c, BIAS, k, &bias, layer));
  }
  if (has_peepholes(im, c)) {
    RONDE_TRY(check_dims(im, c, PEEPHOLES, &all_peepholes, "peepholes"));
    RONDE_TRY(take_part(im, c, PEEPHOLES, d, &peepholes, layer));
  }
  return ronde__onnx_begin(im, layer);
}

/* Direction d; out: all steps [T,H], and the last states [H]. */
static ronde_status add_direction(ronde__onnx_import *im, const cell *c, int d, ronde_tensor **out) {
  ronde__onnx_layer layer = {0};
  const ronde_tensor *inputs[RONDE__OP_MAX_INPUTS] = {c->x};
  ronde__op_attr attr = {.out_channels = c->hidden,
                         .n_inputs = 1,
                         .cell = c->kind_of_cell,
                         .bias = ronde__onnx_in(im, c->node, BIAS) != NULL,
                         .peepholes = has_peepholes(im, c),
                         .lengths = c->lengths != NULL,
                         .clip = c->clip,
                         .reverse = c->backwards || d == 1};
  for (int i = 0; i < c->states && c->begin[i][d]; i++) inputs[attr.n_inputs++] = c->begin[i][d];
  if (c->lengths) inputs[attr.n_inputs++] = c->lengths;
  ronde_status status = take_weights(im, c, d, &layer);
  const ronde_tensor *y =
      status == RONDE_OK ? ronde__graph_add_node(c->kind, layer.label, &attr, inputs, attr.n_inputs, out) : NULL;
  if (status == RONDE_OK) status = ronde__onnx_note_layer(im, c->node, &layer, y);
  ronde__onnx_layer_release(&layer);
  return status;
}

/* ---- outputs ---- */

/* Output i of one direction, where the batch is the second dimension: it gets its dimensions when somebody asks for them. */
static ronde_status set_lazily(ronde__onnx_import *im, const cell *c, int i, const ronde_tensor *x) {
  RONDE_TRY(ronde__onnx_set(im, c->node, i, x));
  ronde__onnx_value *value = ronde__onnx_out(im, c->node, i);
  if (value) value->order = i == 0 ? RONDE__ONNX_DIRECTIONS : RONDE__ONNX_STATE;
  return RONDE_OK;
}

/* Output i of all directions: [T,D,H], or a state [D,H]. */
static ronde_status set_joined(ronde__onnx_import *im, const cell *c, int i, ronde_tensor *const *parts) {
  int64_t own[RONDE_MAX_RANK];
  int rank = ronde_tensor_dims(parts[0], own);
  const int64_t steps[] = {own[0], c->directions, c->hidden}, *dims = i == 0 ? steps : steps + 1;
  const ronde_tensor *x = parts[0];
  if (c->directions == 2) x = ronde_concat_along((const ronde_tensor *const[]){parts[0], parts[1]}, 2, rank - 1);
  const ronde__onnx_place place = {i == 0 ? 4 : 3, c->batch_first ? 0 : i == 0 ? 2 : 1, RONDE__ONNX_ALONE, 0};
  return ronde__onnx_set_place(im, c->node, i, ronde_reshape(x, i == 0 ? 3 : 2, dims), &place);
}

static ronde_status build(ronde__onnx_import *im, const ronde__onnx_node *node, cell c) {
  ronde_tensor *out[MAX_DIRECTIONS][RONDE__OP_MAX_OUTPUTS];
  c.node = node;
  RONDE_TRY(read_way(im, node, &c));
  RONDE_TRY(read_sequence(im, node, &c));
  RONDE_TRY(read_sizes(im, node, &c));
  for (int i = 0; i < c.states; i++) RONDE_TRY(read_state(im, node, &c, STATES + i, c.begin[i]));
  if (c.states == 2 && !c.begin[0][0] != !c.begin[1][0])
    return ronde__onnx_fail(im, node, "only one of its initial states is zero");
  for (int d = 0; d < c.directions; d++) RONDE_TRY(add_direction(im, &c, d, out[d]));
  for (int i = 0; i <= c.states; i++) {
    ronde_tensor *parts[] = {out[0][i], c.directions == 2 ? out[1][i] : NULL};
    bool lazily = c.directions == 1 && !c.batch_first;
    if (lazily) RONDE_TRY(set_lazily(im, &c, i, parts[0]));
    else if (ronde__onnx_is_read(im, node, i)) RONDE_TRY(set_joined(im, &c, i, parts));
  }
  return RONDE_OK;
}

ronde_status ronde__onnx_op_lstm(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build(im, node,
               (cell){.kind = RONDE__OP_LSTM,
                      .kind_of_cell = RONDE__CELL_LSTM,
                      .change = RONDE__ONNX_LSTM_GATES,
                      .gates = 4,
                      .states = 2,
                      .n_activations = 3,
                      .activations = {"Sigmoid", "Tanh", "Tanh"}});
}

ronde_status ronde__onnx_op_gru(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build(im, node,
               (cell){.kind = RONDE__OP_GRU,
                      .kind_of_cell = RONDE__CELL_GRU,
                      .change = RONDE__ONNX_GRU_GATES,
                      .gates = 3,
                      .states = 1,
                      .n_activations = 2,
                      .activations = {"Sigmoid", "Tanh"}});
}

ronde_status ronde__onnx_op_rnn(ronde__onnx_import *im, const ronde__onnx_node *node) {
  return build(im, node,
               (cell){.kind = RONDE__OP_RNN,
                      .kind_of_cell = RONDE__CELL_TANH,
                      .change = RONDE__ONNX_RNN_GATES,
                      .gates = 1,
                      .states = 1,
                      .n_activations = 1,
                      .activations = {"Tanh"}});
}

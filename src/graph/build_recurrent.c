/* Recurrent layers: layers and directions, each a node of its own, and their states. */
#include "graph/graph.h"

#include <stdio.h>

enum { N_PARAMS = 5, MAX_ENDS = 64 };

/* What all layers and directions share. */
typedef struct recurrent_stack {
  ronde__op_kind kind;
  ronde__cell_kind cell;
  const char *name;
  const ronde_recurrent_options *o;
  int layers, directions, states;
} recurrent_stack;

static ronde_tensor *as_shape(const ronde_tensor *x, int rank, const int64_t *dims) {
  return x ? ronde_reshape(x, rank, dims) : NULL;
}

/* Of states [layers directions,hidden] the k-th one, [hidden]. */
static const ronde_tensor *state_of(const recurrent_stack *s, const ronde_tensor *states, int k) {
  const int64_t begin[] = {k, 0}, step[] = {1, 1}, sizes[] = {1, s->o->hidden};
  if (s->layers * s->directions == 1 || !states) return states;
  return as_shape(ronde_slice(states, begin, step, sizes), 1, sizes + 1);
}

/* Joins states [n] of [hidden] to [n,hidden]; one stays as it is. */
static ronde_tensor *join_states(ronde_tensor **states, int n, int64_t hidden) {
  const int64_t row[] = {1, hidden};
  ronde_tensor *all = n == 1 ? states[0] : as_shape(states[0], 2, row);
  for (int done = 1; done < n;) {
    const ronde_tensor *parts[RONDE__OP_MAX_INPUTS] = {all};
    int count = 1;
    while (done < n && count < RONDE__OP_MAX_INPUTS) parts[count++] = as_shape(states[done++], 2, row);
    all = ronde_concat(parts, count);
  }
  return all;
}

/* One layer in one direction, the k-th of all. Its parameters have PyTorch's names. */
static ronde_tensor *add_direction(const recurrent_stack *s, const ronde_tensor *x, int k, ronde_tensor **outputs) {
  static const char *const weights[] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  const ronde_recurrent_options *o = s->o;
  ronde__op_attr attr = {.out_channels = o->hidden,
                         .cell = s->cell,
                         .peepholes = o->peepholes,
                         .clip = o->clip,
                         .bias = !o->no_bias,
                         .lengths = o->lengths != NULL,
                         .reverse = k % s->directions == 1};
  const ronde_tensor *inputs[RONDE__OP_MAX_INPUTS] = {x}, *given[] = {o->hidden_0, o->cell_0};
  attr.n_inputs = 1;
  for (int i = 0; i < s->states && o->hidden_0; i++) inputs[attr.n_inputs++] = state_of(s, given[i], k);
  if (o->lengths) inputs[attr.n_inputs++] = o->lengths;
  if (s->layers * s->directions == 1 && !o->of_cell)
    return ronde__graph_add_node(s->kind, s->name, &attr, inputs, attr.n_inputs, outputs);
  char text[N_PARAMS][192];
  const char *names[N_PARAMS];
  const int n_weights = o->no_bias ? 2 : 4, n = n_weights + o->peepholes;
  char layer[24] = "";
  if (!o->of_cell) snprintf(layer, sizeof layer, "_l%d%s", k / s->directions, attr.reverse ? "_reverse" : "");
  for (int i = 0; i < n; i++) {
    snprintf(text[i], sizeof text[i], "%s.%s%s", s->name, i < n_weights ? weights[i] : "weight_peephole", layer);
    names[i] = text[i];
  }
  ronde__graph_name_next(x->graph, s->name, names, n);
  return ronde__graph_add_node(s->kind, NULL, &attr, inputs, attr.n_inputs, outputs);
}

static ronde_status check_options(const recurrent_stack *s) {
  const ronde_recurrent_options *o = s->o;
  if (s->layers < 1 || s->layers * s->directions > MAX_ENDS)
    return ronde__fail(RONDE_E_USAGE, "%s: 1 to %d layers, not %d", s->name, MAX_ENDS / s->directions, s->layers);
  if ((o->peepholes && s->kind != RONDE__OP_LSTM) || (o->reset_first && s->kind != RONDE__OP_GRU) ||
      (o->relu && s->kind != RONDE__OP_RNN))
    return ronde__fail(RONDE_E_USAGE, "%s: peepholes are of an LSTM, reset_first is of a GRU, relu of an RNN", s->name);
  if (s->states == 1 && o->cell_0)
    return ronde__fail(RONDE_E_USAGE, "%s: a GRU or an RNN has no cells: cell_0 is of an LSTM", s->name);
  if (o->of_cell && s->layers * s->directions > 1)
    return ronde__fail(RONDE_E_USAGE, "%s: a cell is one layer in one direction", s->name);
  if (s->states == 2 && !o->hidden_0 != !o->cell_0)
    return ronde__fail(RONDE_E_USAGE, "%s: hidden_0 and cell_0 go together", s->name);
  const ronde__shape wanted = {2, {s->layers * s->directions, o->hidden}};
  for (int i = 0; i < s->states && s->layers * s->directions > 1 && o->hidden_0; i++) {
    const ronde_tensor *given = i ? o->cell_0 : o->hidden_0;
    char text[96];
    if (ronde__shape_equal(&given->shape, &wanted)) continue;
    ronde__shape_text(&wanted, text, sizeof text);
    return ronde__fail(RONDE_E_USAGE,
                       "%s: its first states are %s, one row a layer and "
                       "direction, but %s has another shape",
                       s->name, text, given->label);
  }
  return RONDE_OK;
}

static ronde_tensor *add_stack(recurrent_stack *s, const ronde_tensor *x, ronde_tensor **states_out[2]) {
  ronde_tensor *ends[2][MAX_ENDS], *outputs[RONDE__OP_MAX_OUTPUTS], *y[2];
  const ronde_recurrent_options *o = s->o;
  for (int i = 0; i < 2; i++)
    if (states_out[i]) *states_out[i] = NULL;
  if (!x) return NULL;
  s->layers = o->layers ? o->layers : 1, s->directions = o->both_directions ? 2 : 1;
  ronde_status status = check_options(s);
  if (status != RONDE_OK) return ronde__graph_fail(x->graph, status);
  for (int layer = 0; layer < s->layers && x; layer++) {
    if (layer && o->dropout > 0) x = ronde_dropout(x, o->dropout);
    for (int d = 0; d < s->directions && x; d++) {
      int k = layer * s->directions + d;
      y[d] = add_direction(s, x, k, outputs);
      if (!y[d]) return NULL;
      for (int i = 0; i < s->states; i++) ends[i][k] = outputs[1 + i];
    }
    x = s->directions == 1 ? y[0] : ronde_concat_along((const ronde_tensor *const[]){y[0], y[1]}, 2, 1);
  }
  for (int i = 0; i < s->states && x; i++)
    if (states_out[i]) *states_out[i] = join_states(ends[i], s->layers * s->directions, o->hidden);
  return x ? x->graph->tensors[x->id] : NULL;
}

ronde_tensor *ronde_lstm(const ronde_tensor *x, const char *name, const ronde_recurrent_options *options,
                         ronde_tensor **hidden_out, ronde_tensor **cell_out) {
  recurrent_stack s = {.kind = RONDE__OP_LSTM, .cell = RONDE__CELL_LSTM, .name = name, .o = options, .states = 2};
  return add_stack(&s, x, (ronde_tensor * *[]){hidden_out, cell_out});
}

ronde_tensor *ronde_gru(const ronde_tensor *x, const char *name, const ronde_recurrent_options *options,
                        ronde_tensor **hidden_out) {
  recurrent_stack s = {.kind = RONDE__OP_GRU,
                       .cell = options->reset_first ? RONDE__CELL_GRU_RESET_FIRST : RONDE__CELL_GRU,
                       .name = name,
                       .o = options,
                       .states = 1};
  return add_stack(&s, x, (ronde_tensor * *[]){hidden_out, NULL});
}

ronde_tensor *ronde_rnn(const ronde_tensor *x, const char *name, const ronde_recurrent_options *options,
                        ronde_tensor **hidden_out) {
  recurrent_stack s = {.kind = RONDE__OP_RNN,
                       .cell = options->relu ? RONDE__CELL_RELU : RONDE__CELL_TANH,
                       .name = name,
                       .o = options,
                       .states = 1};
  return add_stack(&s, x, (ronde_tensor * *[]){hidden_out, NULL});
}

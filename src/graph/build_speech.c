/* Public calls for networks that speak: attention within an LSTM, and losses that a network computes itself. */
#include "graph/graph.h"

#include <stdio.h>

ronde_tensor *ronde_location_attention(const ronde_tensor *x, const ronde_tensor *memory, const char *name,
                                       const ronde_location_attention_options *o, ronde_tensor **context_out,
                                       ronde_tensor **weights_out) {
  char keys[160];
  ronde_tensor *outputs[RONDE__OP_MAX_OUTPUTS] = {NULL};
  ronde__op_attr attr = {.out_channels = o->hidden,
                         .filters = o->filters,
                         .kernel = {1, o->kernel},
                         .lengths = o->lengths != NULL,
                         .n_inputs = o->lengths ? 4 : 3};
  snprintf(keys, sizeof keys, "%s.attention_layer.memory_layer.linear_layer", name);
  const ronde_tensor *inputs[] = {x, memory, ronde_linear(memory, keys, o->width, false), o->lengths};
  ronde__graph_add_node(RONDE__OP_LOCATION_ATTENTION, name, &attr, inputs, attr.n_inputs, outputs);
  if (context_out) *context_out = outputs[1];
  if (weights_out) *weights_out = outputs[2];
  return outputs[0];
}

static ronde_tensor *add_error(ronde__op_kind kind, const ronde_tensor *x, const ronde_tensor *target,
                               const ronde_tensor *lengths) {
  ronde__op_attr attr = {.lengths = lengths != NULL, .n_inputs = lengths ? 3 : 2};
  const ronde_tensor *inputs[] = {x, target, lengths};
  return ronde__graph_add_node(kind, NULL, &attr, inputs, attr.n_inputs, NULL);
}

ronde_tensor *ronde_squared_error(const ronde_tensor *x, const ronde_tensor *target, const ronde_tensor *lengths) {
  return add_error(RONDE__OP_SQUARED_ERROR, x, target, lengths);
}

ronde_tensor *ronde_bce_error(const ronde_tensor *logits, const ronde_tensor *target, const ronde_tensor *lengths) {
  return add_error(RONDE__OP_BCE_ERROR, logits, target, lengths);
}

ronde_tensor *ronde_mean_loss(const ronde_tensor *x) {
  return ronde__graph_add_node(RONDE__OP_MEAN_LOSS, NULL, &(ronde__op_attr){0}, &x, 1, NULL);
}

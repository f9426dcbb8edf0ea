/* The recording of a graph: its inputs, nodes and parameters. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>

ronde_status ronde_graph_create(ronde_graph **graph_out) {
  ronde_graph *graph = calloc(1, sizeof *graph);
  if (!graph) return ronde__fail(RONDE_E_MEMORY, "graph: no memory");
  graph->target = graph->output = graph->loss = -1;
  *graph_out = graph;
  return RONDE_OK;
}

void ronde_graph_destroy(ronde_graph *graph) {
  if (!graph) return;
  for (int i = 0; i < graph->n_tensors; i++) {
    free(graph->tensors[i]->label);
    free(graph->tensors[i]);
  }
  for (int i = 0; i < graph->n_nodes; i++) free(graph->nodes[i].label);
  for (int i = 0; i < graph->n_params; i++) {
    free(graph->params[i].name);
    free(graph->params[i].values);
  }
  for (int i = 0; i < graph->n_buffers; i++) free(graph->buffers[i].name);
  for (int i = 0; i < graph->n_shared; i++) free(graph->shared[i]);
  free(graph->shared);
  free(graph->buffers);
  free(graph->tensors);
  free(graph->nodes);
  free(graph->params);
  free(graph);
}

ronde_status ronde_graph_status(const ronde_graph *graph) { return graph->status; }

void *ronde__graph_fail(ronde_graph *graph, ronde_status status) {
  if (graph->status == RONDE_OK) graph->status = status;
  return NULL;
}

/* Room for one more of n items; NULL where there is no memory. */
static void *build_grow(void *items, int n, size_t size) {
  return (n & (n - 1)) ? items : realloc(items, (n ? 2 * (size_t)n : 1) * size);
}

static ronde_tensor *graph_add_tensor(ronde_graph *graph, const ronde__shape *shape, int producer, const char *label) {
  ronde_tensor **tensors = build_grow(graph->tensors, graph->n_tensors, sizeof *tensors);
  if (tensors) graph->tensors = tensors;
  ronde_tensor *x = tensors ? calloc(1, sizeof *x) : NULL;
  char *copy = ronde__strdup(label);
  if (!x || !copy) {
    free(x);
    free(copy);
    return ronde__graph_fail(graph, ronde__fail(RONDE_E_MEMORY, "graph: no memory for %s", label));
  }
  *x = (ronde_tensor){graph, graph->n_tensors, *shape, producer, copy, 0};
  return graph->tensors[graph->n_tensors++] = x;
}

/* A dimension or product beyond these is a mistake, and could overflow an index. */
#define MAX_EXAMPLE_ELEMS INT32_MAX
#define MAX_PARAM_ELEMS (INT64_C(1) << 40)

enum { MAX_INPUT_RANK = 4 };

static bool fits(const ronde__shape *shape, int64_t max_elems) {
  int64_t n = 1;
  for (int d = 0; d < shape->rank; d++)
    if (__builtin_mul_overflow(n, shape->dim[d], &n) || n > max_elems) return false;
  return true;
}

static ronde_status too_large(const char *label, const ronde__shape *shape) {
  char text[128];
  ronde__shape_text(shape, text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: %s is too large", label, text);
}

ronde_tensor *ronde_input(ronde_graph *graph, const char *name, int rank, const int64_t *dims) {
  ronde__shape shape = {rank, {0}};
  if (graph->n_inputs == RONDE_MAX_INPUTS)
    return ronde__graph_fail(graph,
                             ronde__fail(RONDE_E_USAGE, "%s: a graph has at most %d inputs", name, RONDE_MAX_INPUTS));
  for (int i = 0; i < graph->n_inputs; i++)
    if (!strcmp(graph->tensors[graph->inputs[i]]->label, name))
      return ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "the graph has an input %s already", name));
  if (rank < 1 || rank > MAX_INPUT_RANK)
    return ronde__graph_fail(
        graph, ronde__fail(RONDE_E_USAGE, "%s: an input has 1 to %d dims (F, or T,F, or C,H,W), not %d", name,
                           MAX_INPUT_RANK, rank));
  for (int d = 0; d < rank; d++) {
    shape.dim[d] = dims[d];
    if (dims[d] < 1 || dims[d] > INT32_MAX)
      return ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: dim %d is %lld", name, d, (long long)dims[d]));
  }
  if (!fits(&shape, MAX_EXAMPLE_ELEMS)) return ronde__graph_fail(graph, too_large(name, &shape));
  if (ronde__graph_input_elems(graph) > MAX_EXAMPLE_ELEMS - ronde__shape_elems(&shape))
    return ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: the inputs are too large together", name));
  ronde_tensor *x = graph_add_tensor(graph, &shape, -1, name);
  if (x) graph->inputs[graph->n_inputs++] = x->id;
  return x;
}

ronde_tensor *ronde_input_tokens(ronde_graph *graph, const char *name, int rank, const int64_t *dims,
                                 int64_t vocabulary) {
  if (vocabulary < 1 || vocabulary > INT32_MAX)
    return ronde__graph_fail(
        graph, ronde__fail(RONDE_E_USAGE, "%s: a vocabulary of %lld tokens", name, (long long)vocabulary));
  ronde_tensor *x = ronde_input(graph, name, rank, dims);
  if (x) x->vocabulary = vocabulary;
  return x;
}

ronde_tensor *ronde_graph_input(ronde_graph *graph, const char *name) {
  for (int i = 0; i < graph->n_inputs; i++)
    if (!strcmp(graph->tensors[graph->inputs[i]]->label, name)) return graph->tensors[graph->inputs[i]];
  return ronde__graph_fail(graph,
                           ronde__fail(RONDE_E_USAGE, "the network reads an input %s, and the data have none", name));
}

int64_t ronde__graph_input_elems(const ronde_graph *graph) {
  int64_t elems = 0;
  for (int i = 0; i < graph->n_inputs; i++) elems += ronde__shape_elems(&graph->tensors[graph->inputs[i]]->shape);
  return elems;
}

void ronde__graph_take_input(const ronde_graph *graph, int input, int64_t n, const float *x, float *to) {
  int64_t row = ronde__graph_input_elems(graph),
          elems = ronde__shape_elems(&graph->tensors[graph->inputs[input]]->shape);
  for (int i = 0; i < input; i++) x += ronde__shape_elems(&graph->tensors[graph->inputs[i]]->shape);
  for (int64_t i = 0; i < n; i++) memcpy(to + i * elems, x + i * row, (size_t)elems * sizeof *to);
}

ronde_tensor *ronde_target(ronde_graph *graph) {
  if (graph->target >= 0) return graph->tensors[graph->target];
  ronde_tensor *x = graph_add_tensor(graph, &(ronde__shape){0}, -1, "target");
  if (x) graph->target = x->id;
  return x;
}

void ronde_graph_share(ronde_graph *graph, const char *layer) {
  char **shared = build_grow(graph->shared, graph->n_shared, sizeof *shared), *copy = ronde__strdup(layer);
  if (shared) graph->shared = shared;
  if (shared && copy) {
    shared[graph->n_shared++] = copy;
    return;
  }
  free(copy);
  ronde__graph_fail(graph, ronde__fail(RONDE_E_MEMORY, "graph: no memory for %s", layer));
}

static bool is_shared(const ronde_graph *graph, const char *label) {
  for (int i = 0; i < graph->n_shared; i++)
    if (strcmp(graph->shared[i], label) == 0) return true;
  return false;
}

static ronde_status other_shape(const ronde__param *param, const ronde__shape *wanted) {
  char own[96], text[96];
  ronde__shape_text(&param->shape, own, sizeof own);
  ronde__shape_text(wanted, text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: it is shared, but one layer wants it as %s and another as %s", param->name,
                     own, text);
}

/* Of a parameter that is there already. */
static int share_param(ronde_graph *graph, const char *label, const ronde__param_spec *spec, int index) {
  const ronde__param *param = &graph->params[index];
  if (is_shared(graph, label) && ronde__shape_equal(&param->shape, &spec->shape)) return index;
  if (is_shared(graph, label)) ronde__graph_fail(graph, other_shape(param, &spec->shape));
  else
    ronde__graph_fail(
        graph, ronde__fail(RONDE_E_USAGE,
                           "%s: the graph has a parameter of this name already; ronde_graph_share(graph, \"%s\") "
                           "shares it between layers",
                           param->name, label));
  return -1;
}

/* The name that was given for the next parameter or buffer, else by its layer; NULL: no memory. */
static char *name_of_next(ronde_graph *graph, const char *label, const char *suffix) {
  if (graph->n_next == 0) return suffix ? ronde__format("%s.%s", label, suffix) : ronde__strdup(label);
  graph->n_next--;
  return ronde__strdup(*graph->next_names++);
}

static int add_param(ronde_graph *graph, const char *label, const ronde__param_spec *spec) {
  char *name = name_of_next(graph, label, spec->suffix);
  ronde__param *params = build_grow(graph->params, graph->n_params, sizeof *params);
  if (params) graph->params = params;
  if (!name || !params) {
    free(name);
    ronde__graph_fail(graph, ronde__fail(RONDE_E_MEMORY, "graph: no memory for %s", label));
    return -1;
  }
  for (int i = 0; i < graph->n_params; i++)
    if (strcmp(params[i].name, name) == 0) {
      free(name);
      return share_param(graph, label, spec, i);
    }
  params[graph->n_params] = (ronde__param){name, spec->shape, spec->bound, spec->init, NULL, false, false};
  return graph->n_params++;
}

static int add_buffer(ronde_graph *graph, const char *label, const ronde__buffer_spec *spec) {
  char *name = name_of_next(graph, label, spec->suffix);
  ronde__buffer *buffers = build_grow(graph->buffers, graph->n_buffers, sizeof *buffers);
  if (buffers) graph->buffers = buffers;
  if (!name || !buffers) {
    free(name);
    ronde__graph_fail(graph, ronde__fail(RONDE_E_MEMORY, "graph: no memory for %s", label));
    return -1;
  }
  for (int i = 0; i < graph->n_buffers; i++)
    if (strcmp(buffers[i].name, name) == 0) {
      ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: a layer that keeps statistics cannot be shared", label));
      free(name);
      return -1;
    }
  buffers[graph->n_buffers] = (ronde__buffer){name, spec->shape, spec->initial, spec->is_counter};
  return graph->n_buffers++;
}

/* The target is for losses alone, and nothing reads a loss. */
static ronde_status check_inputs(const ronde__op *op, const char *label, const ronde_tensor *const *inputs,
                                 int n_inputs) {
  const ronde_graph *graph = inputs[0]->graph;
  for (int i = 0; i < n_inputs; i++) {
    const ronde_tensor *x = inputs[i];
    if (x->graph != graph) return ronde__fail(RONDE_E_USAGE, "%s: its inputs belong to different graphs", label);
    bool is_target = op->is_loss && i == 1;
    if (is_target && x->id != graph->target)
      return ronde__fail(RONDE_E_USAGE, "%s: its target is %s, not the graph's target", label, x->label);
    if (!is_target && x->id == graph->target)
      return ronde__fail(RONDE_E_USAGE, "%s: the target cannot be the input of a layer", label);
    if ((x->vocabulary > 0) != (op->tokens >> i & 1) && !op->any_input)
      return ronde__fail(RONDE_E_USAGE,
                         x->vocabulary ? "%s: it takes values, but %s holds token numbers"
                                       : "%s: it takes token numbers, but %s holds values",
                         label, x->label);
    if (x->producer >= 0 && ronde__ops[graph->nodes[x->producer].kind]->is_loss)
      return ronde__fail(RONDE_E_USAGE, "%s: the loss %s cannot be the input of a layer", label, x->label);
  }
  return RONDE_OK;
}

/* The shapes of a node's outputs and parameters, and the parameters themselves. */
static ronde_status add_operands(ronde_graph *graph, const ronde__op *op, ronde__node *node, const ronde__shape *in,
                                 const char *const *in_labels, ronde__shape *out) {
  ronde__param_spec specs[RONDE__OP_MAX_PARAMS];
  ronde__buffer_spec buffers[RONDE__OP_MAX_BUFFERS];
  RONDE_TRY(op->infer(&node->attr, node->label, in, in_labels, out));
  node->n_outputs = op->outputs ? op->outputs(&node->attr) : 1;
  for (int i = 0; i < node->n_outputs; i++)
    if (!fits(&out[i], MAX_EXAMPLE_ELEMS)) return too_large(node->label, &out[i]);
  int n_params = op->params ? op->params(&node->attr, in, specs) : 0;
  for (int i = 0; i < n_params; i++)
    if (!fits(&specs[i].shape, MAX_PARAM_ELEMS)) return too_large(node->label, &specs[i].shape);
  for (; node->n_params < n_params && graph->status == RONDE_OK; node->n_params++)
    node->param[node->n_params] = add_param(graph, node->label, &specs[node->n_params]);
  int n_buffers = op->buffers ? op->buffers(&node->attr, in, buffers) : 0;
  for (; node->n_buffers < n_buffers && graph->status == RONDE_OK; node->n_buffers++)
    node->buffer[node->n_buffers] = add_buffer(graph, node->label, &buffers[node->n_buffers]);
  return graph->status;
}

/* Where there are several outputs, each has its number in its label: "split_3.1". */
static ronde_status add_outputs(ronde_graph *graph, ronde__node *node, const ronde__shape *shapes) {
  for (int i = 0; i < node->n_outputs; i++) {
    char *label = node->n_outputs > 1 ? ronde__format("%s.%d", node->label, i + 1) : ronde__strdup(node->label);
    const ronde_tensor *y = label ? graph_add_tensor(graph, &shapes[i], graph->n_nodes, label) : NULL;
    free(label);
    if (!y) return RONDE_E_MEMORY;
    node->out[i] = y->id;
  }
  return RONDE_OK;
}

ronde_status ronde__graph_name_next(ronde_graph *graph, const char *label, const char *const *names, int n) {
  graph->next_label = label;
  graph->next_names = names;
  graph->n_next = n;
  return graph->status;
}

ronde_tensor *ronde__graph_add_node(ronde__op_kind kind, const char *name, const ronde__op_attr *attr,
                                    const ronde_tensor *const *inputs, int n_inputs, ronde_tensor **outputs_out) {
  for (int i = 0; i < n_inputs; i++)
    if (!inputs[i]) return NULL;
  ronde_graph *graph = inputs[0]->graph;
  const ronde__op *op = ronde__ops[kind];
  if (graph->status != RONDE_OK) return NULL;
  ronde__node node = {.kind = kind, .attr = *attr, .n_inputs = n_inputs};
  ronde__shape in[RONDE__OP_MAX_INPUTS], out[RONDE__OP_MAX_OUTPUTS];
  const char *labels[RONDE__OP_MAX_INPUTS];
  for (int i = 0; i < n_inputs; i++) {
    node.in[i] = inputs[i]->id;
    in[i] = inputs[i]->shape;
    labels[i] = inputs[i]->label;
  }
  ronde__node *nodes = build_grow(graph->nodes, graph->n_nodes, sizeof *nodes);
  if (nodes) graph->nodes = nodes;
  if (!name) name = graph->next_label;
  node.label = name ? ronde__strdup(name) : ronde__format("%s_%d", op->name, graph->n_nodes + 1);
  if (!nodes || !node.label) {
    free(node.label);
    return ronde__graph_fail(graph, ronde__fail(RONDE_E_MEMORY, "graph: no memory for %s", op->name));
  }
  ronde_status status = check_inputs(op, node.label, inputs, n_inputs);
  if (status == RONDE_OK) status = add_operands(graph, op, &node, in, labels, out);
  if (status == RONDE_OK) status = add_outputs(graph, &node, out);
  ronde__graph_name_next(graph, NULL, NULL, 0);
  if (status != RONDE_OK) {
    free(node.label);
    return ronde__graph_fail(graph, status);
  }
  graph->nodes[graph->n_nodes++] = node;
  const ronde__graph_listener *listener = graph->listener;
  if (listener) status = listener->added(listener->user, graph, graph->n_nodes - 1);
  if (status != RONDE_OK) return ronde__graph_fail(graph, status);
  for (int i = 0; i < node.n_outputs && outputs_out; i++) outputs_out[i] = graph->tensors[node.out[i]];
  return graph->tensors[node.out[0]];
}

int ronde_tensor_dims(const ronde_tensor *x, int64_t dims_out[RONDE_MAX_RANK]) {
  if (!x) return 0;
  memcpy(dims_out, x->shape.dim, sizeof x->shape.dim);
  return x->shape.rank;
}

ronde_pass ronde_graph_pass(const ronde_graph *graph) { return graph->pass; }

ronde_status ronde_tensor_values(const ronde_tensor *x, float *values_out) {
  if (!x) return RONDE_E_USAGE; /* what made it has said why */
  const ronde__graph_listener *listener = x->graph->listener;
  if (!listener)
    return ronde__fail(RONDE_E_USAGE, "%s has no values: the graph is only recorded (--exec eager executes it)",
                       x->label);
  return listener->values(listener->user, x, values_out);
}

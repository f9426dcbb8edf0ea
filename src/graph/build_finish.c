/* The end of a recording: which tensors are output and loss, how parameters begin, and what the whole has. */
#include "graph/flops.h"
#include "graph/graph.h"

#include <math.h>
#include <string.h>

void ronde_graph_set_output(ronde_graph *graph, const ronde_tensor *output) {
  if (!output) return;
  if (output->graph != graph || output->id == graph->target || output->shape.rank == 0)
    ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s cannot be the output of this network", output->label));
  else graph->output = output->id;
}

void ronde_graph_set_loss(ronde_graph *graph, const ronde_tensor *loss) {
  if (!loss) return;
  if (loss->graph != graph || loss->producer < 0 || !ronde__ops[graph->nodes[loss->producer].kind]->is_loss)
    ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s cannot be the loss of this network", loss->label));
  else graph->loss = loss->id;
}

/* Of this name, or of a layer or layers of this name. */
static bool is_of(const ronde__param *param, const char *name) {
  size_t n = strlen(name);
  return strncmp(param->name, name, n) == 0 && (param->name[n] == 0 || param->name[n] == '.');
}

void ronde_graph_set_init(ronde_graph *graph, const char *name, ronde_init_kind kind, float value) {
  int n_set = 0;
  if (graph->status != RONDE_OK) return;
  if (!isfinite(value) || (value < 0 && kind != RONDE_INIT_CONSTANT)) {
    ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: it cannot begin by a value of %g", name, (double)value));
    return;
  }
  for (int i = 0; i < graph->n_params; i++) {
    ronde__param *param = &graph->params[i];
    if (!is_of(param, name) || param->values || param->fixed) continue;
    param->init = kind;
    param->bound = value;
    n_set++;
  }
  if (n_set == 0)
    ronde__graph_fail(graph, ronde__fail(RONDE_E_USAGE, "%s: there is no parameter of this name to be drawn", name));
}

ronde_status ronde__graph_finish(ronde_graph *graph) {
  RONDE_TRY(graph->status);
  if (graph->n_inputs == 0) return graph->status = ronde__fail(RONDE_E_USAGE, "the network has no input");
  if (graph->output < 0) return graph->status = ronde__fail(RONDE_E_USAGE, "the network has no output");
  if (graph->loss < 0)
    ronde_graph_set_loss(graph, ronde_cross_entropy(graph->tensors[graph->output], ronde_target(graph)));
  if (graph->status == RONDE_OK && graph->n_params == 0)
    graph->status = ronde__fail(RONDE_E_USAGE, "the network has no parameters");
  return graph->status;
}

int ronde__graph_synchronise(ronde_graph *graph) {
  int n = 0;
  for (int i = 0; i < graph->n_nodes; i++) {
    if (graph->nodes[i].kind != RONDE__OP_BATCH_NORM2D) continue;
    graph->nodes[i].attr.synchronised = true;
    n++;
  }
  return n;
}

int64_t ronde_graph_parameters(const ronde_graph *graph) {
  int64_t n = 0;
  for (int i = 0; i < graph->n_params; i++)
    if (!graph->params[i].fixed) n += ronde__shape_elems(&graph->params[i].shape);
  return n;
}

/* An op looks at the shapes of all its inputs. */
int64_t ronde__node_flops(const ronde_graph *graph, const ronde__node *node) {
  ronde__shape in[RONDE__OP_MAX_INPUTS];
  const ronde__op *op = ronde__ops[node->kind];
  for (int i = 0; i < node->n_inputs; i++) in[i] = graph->tensors[node->in[i]]->shape;
  return op->flops ? op->flops(&node->attr, in, &graph->tensors[node->out[0]]->shape) : 0;
}

int64_t ronde_graph_forward_flops(const ronde_graph *graph) {
  int64_t n = 0;
  for (int i = 0; i < graph->n_nodes; i++) n += ronde__node_flops(graph, &graph->nodes[i]);
  return n;
}

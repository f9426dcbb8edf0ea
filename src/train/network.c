#include "train/job.h"

#include <stdio.h>

static ronde_status check_targets(const ronde__job *job, const ronde_graph *graph) {
  const ronde_source *source = &job->data->source;
  const ronde__node *loss = &graph->nodes[graph->tensors[graph->loss]->producer];
  int64_t outputs = ronde__shape_elems(&graph->tensors[loss->in[0]]->shape);
  const char *label = graph->tensors[loss->in[0]]->label;
  if (ronde__ops[loss->kind]->wants_labels) {
    if (source->classes == 0)
      return ronde__fail(RONDE_E_USAGE, "%s: the loss takes class labels, but the data %s have values", label,
                         source->name);
    if (outputs < job->classes)
      return ronde__fail(RONDE_E_USAGE, "%s gives %lld logits, but the data %s have %lld classes", label,
                         (long long)outputs, source->name, (long long)job->classes);
  } else if (source->classes != 0 || source->target_elems != outputs) {
    return ronde__fail(RONDE_E_USAGE, "%s gives %lld values, but the data %s have %s of %lld", label,
                       (long long)outputs, source->name, source->classes ? "class labels" : "targets",
                       (long long)(source->classes ? source->classes : source->target_elems));
  }
  return RONDE_OK;
}

typedef struct builder {
  const ronde__model *model;
  const ronde__model_options *options;
} builder;

static ronde_tensor *build_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  const builder *b = user;
  return b->model->build(graph, x, classes, b->options);
}

static ronde_status build(ronde_model_fn fn, void *user, const ronde__shape *shape, int64_t classes,
                          ronde_graph **graph_out) {
  ronde_graph *graph;
  RONDE_TRY(ronde_graph_create(&graph));
  ronde_tensor *x = ronde_input(graph, "input", shape->rank, shape->dim);
  ronde_tensor *y = x ? fn(graph, x, classes, user) : NULL;
  ronde_status status = ronde_graph_status(graph);
  if (status == RONDE_OK && !y) status = RONDE_E_USAGE; /* the model function has said why */
  if (status == RONDE_OK) {
    ronde_graph_set_output(graph, y);
    status = ronde__graph_finish(graph);
  }
  if (status != RONDE_OK) ronde_graph_destroy(graph);
  else *graph_out = graph;
  return status;
}

ronde_status ronde__model_graph(const ronde__model *model, const ronde__model_options *options,
                                const ronde__shape *shape, int64_t classes, ronde_graph **graph_out) {
  builder b = {model, options};
  return build(build_model, &b, shape, classes, graph_out);
}

static ronde_tensor *build_callers(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  const ronde_hooks *hooks = user;
  ronde_tensor *y = hooks->model(graph, x, classes, hooks->user);
  if (!y && ronde_graph_status(graph) == RONDE_OK)
    ronde__fail(RONDE_E_USAGE, "the caller's model function returned no output");
  return y;
}

static ronde_status smooth_labels(const ronde__job *job, ronde_graph *graph) {
  ronde__node *loss = &graph->nodes[graph->tensors[graph->loss]->producer];
  if (loss->kind != RONDE__OP_CROSS_ENTROPY)
    return ronde__config_no_effect(job->config, "label-smoothing", "the loss is no cross entropy");
  loss->attr.label_smoothing = (float)job->options->label_smoothing;
  return RONDE_OK;
}

ronde_status ronde__job_graph(const ronde__job *job, ronde_graph **graph_out) {
  ronde_graph *graph;
  if (job->model) {
    ronde__model_options options = {.padding_same = job->options->padding == RONDE__PADDING_SAME,
                                    .dropout = (float)job->options->dropout};
    RONDE_TRY(ronde__model_graph(job->model, &options, &job->shape, job->classes, &graph));
  } else {
    RONDE_TRY(build(build_callers, (void *)&job->hooks, &job->shape, job->classes, &graph));
  }
  ronde_status status = job->data ? check_targets(job, graph) : RONDE_OK;
  if (status == RONDE_OK) status = smooth_labels(job, graph);
  if (status != RONDE_OK) ronde_graph_destroy(graph);
  else *graph_out = graph;
  return status;
}

int64_t ronde__graph_train_flops(const ronde_graph *graph) {
  int64_t n = 0;
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    const ronde__op *op = ronde__ops[node->kind];
    if (!op->flops) continue;
    int64_t forward = op->flops(&node->attr, &graph->tensors[node->in[0]]->shape, &graph->tensors[node->out]->shape);
    bool first = true; /* no parameter in front of it: nobody needs its input's gradient */
    for (int j = 0; j < i && first; j++) first = graph->nodes[j].n_params == 0;
    n += forward * (first ? 2 : 3);
  }
  return n;
}

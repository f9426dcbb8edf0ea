/* The graph of a job's model, checked against its data, and the options of the net that executes it. */
#include "graph/flops.h"
#include "job/job.h"

#include <stdio.h>
#include <string.h>

static ronde_status check_targets(const ronde__job *job, const ronde_graph *graph) {
  const ronde_source *source = &job->data->source;
  const ronde__node *loss = &graph->nodes[graph->tensors[graph->loss]->producer];
  int64_t outputs = ronde__shape_elems(&graph->tensors[loss->in[0]]->shape);
  const char *label = graph->tensors[loss->in[0]]->label;
  if (loss->n_inputs < 2) return RONDE_OK; /* it reads no target */
  if (ronde__ops[loss->kind]->wants_labels) {
    if (source->classes == 0)
      return ronde__fail(RONDE_E_USAGE, "%s: the loss takes class labels, but the targets of the data %s are values",
                         label, source->name);
    int64_t rows = ronde__loss_labels(graph), labels = ronde__source_labels(source);
    if (rows != labels)
      return ronde__fail(RONDE_E_USAGE, "%s gives the logits of %lld labels an example, but the data %s have %lld",
                         label, (long long)rows, source->name, (long long)labels);
    const ronde__shape *logits = &graph->tensors[loss->in[0]]->shape;
    outputs = logits->dim[logits->rank - 1];
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
  const ronde__options *values; /* whose loss is for values; NULL: the loss is the cross entropy */
  const ronde__onnx *file;      /* whose network it is, instead of the model's; or NULL */
} builder;

static ronde_tensor *loss_of_values(const ronde__options *options, const ronde_tensor *y, const ronde_tensor *target) {
  switch (options->loss) {
  case RONDE__LOSS_L1: return ronde_l1_loss(y, target);
  case RONDE__LOSS_HUBER: return ronde_huber_loss(y, target, (float)options->huber_delta);
  case RONDE__LOSS_BCE: return ronde_bce_loss(y, target);
  default: return ronde_mse_loss(y, target);
  }
}

/* Of the steps that the logits [T,K] are of: what the last layer over so many of them was told. NULL: none was. */
static const ronde_tensor *steps_of(const ronde_graph *graph, const ronde_tensor *logits) {
  for (int i = graph->n_nodes - 1; i >= 0; i--) {
    const ronde__node *node = &graph->nodes[i];
    const ronde__shape *shape = &graph->tensors[node->in[0]]->shape;
    if (node->attr.lengths && shape->dim[0] == logits->shape.dim[0])
      return graph->tensors[node->in[node->n_inputs - 1]];
  }
  return NULL;
}

/* A network of recordings transcribes, as the built-in ones do. */
static void set_transcribing_loss(const builder *b, ronde_graph *graph, const ronde_tensor *y) {
  int64_t labels = b->options ? b->options->labels : 0;
  if (!y || !b->model || !b->model->lengths || y->shape.rank != 2) return;
  const ronde_ctc_options loss = {
      .labels = labels ? labels : y->shape.dim[0], .zero_infinity = true, .lengths = steps_of(graph, y)};
  ronde_graph_set_loss(graph, ronde_ctc_loss(y, ronde_target(graph), &loss));
}

/* What the loss does itself stays away. The output layer is as wide as there are classes; for values the file's counts. */
static ronde_tensor *build_file(const builder *b, ronde_graph *graph, ronde_tensor *x, int64_t outputs) {
  if (!b->values) {
    ronde_tensor *y = ronde__onnx_build(b->file, graph, x, outputs, RONDE__ONNX_CLASSES);
    set_transcribing_loss(b, graph, y);
    return y;
  }
  bool are_labels = b->values->loss == RONDE__LOSS_BCE;
  return ronde__onnx_build(b->file, graph, x, 0, are_labels ? RONDE__ONNX_LABELS : RONDE__ONNX_WHOLE);
}

static ronde_tensor *build_model(ronde_graph *graph, ronde_tensor *x, int64_t outputs, void *user) {
  const builder *b = user;
  ronde_tensor *y = b->file ? build_file(b, graph, x, outputs) : b->model->build(graph, x, outputs, b->options);
  if (y && b->values) ronde_graph_set_loss(graph, loss_of_values(b->values, y, ronde_target(graph)));
  return y;
}

/* vocabulary: of tokens; 0: it is values. */
static ronde_tensor *add_input(ronde_graph *graph, const char *name, const ronde__shape *shape, int64_t vocabulary) {
  return vocabulary ? ronde_input_tokens(graph, name, shape->rank, shape->dim, vocabulary)
                    : ronde_input(graph, name, shape->rank, shape->dim);
}

/* What a network reads: its first input, and those beside it. */
typedef struct network_inputs {
  const ronde__shape *shape;
  int64_t vocabulary;
  const ronde__more_inputs *more;
} network_inputs;

static ronde_status define(ronde_graph *graph, ronde_model_fn fn, void *user, const network_inputs *inputs,
                           int64_t classes) {
  ronde_tensor *x = add_input(graph, "input", inputs->shape, inputs->vocabulary);
  for (int i = 0; i < inputs->more->n; i++)
    add_input(graph, inputs->more->at[i].name, &inputs->more->at[i].shape, inputs->more->at[i].vocabulary);
  RONDE_TRY(ronde_graph_status(graph));
  ronde_tensor *y = fn(graph, x, classes, user);
  RONDE_TRY(ronde_graph_status(graph));
  if (!y) return RONDE_E_USAGE; /* the model function has said why */
  ronde_graph_set_output(graph, y);
  return ronde__graph_finish(graph);
}

static ronde_status make_graph(builder *b, const network_inputs *inputs, int64_t classes, ronde_graph **graph_out) {
  ronde_graph *graph;
  RONDE_TRY(ronde_graph_create(&graph));
  ronde_status status = define(graph, build_model, b, inputs, classes);
  if (status != RONDE_OK) ronde_graph_destroy(graph);
  else *graph_out = graph;
  return status;
}

ronde__shape ronde__model_shape(const ronde__model *model) {
  ronde__shape shape = {0};
  for (int d = 0; d < 3 && model->shape[d]; d++) shape.dim[shape.rank++] = model->shape[d];
  return shape;
}

ronde__more_inputs ronde__model_more(const ronde__model *model) {
  ronde__more_inputs more = {0};
  if (!model->decoder_input && !model->lengths) return more;
  more.n = 1;
  if (model->lengths) {
    snprintf(more.at[0].name, sizeof more.at[0].name, "%s", RONDE__LENGTHS_INPUT);
    more.at[0].shape = (ronde__shape){1, {1}};
    if (!model->text) return more;
    snprintf(more.at[more.n].name, sizeof more.at[more.n].name, "%s", RONDE__TEXT_INPUT);
    more.at[more.n].shape = (ronde__shape){1, {model->text}};
    more.at[more.n++].vocabulary = model->classes;
    return more;
  }
  snprintf(more.at[0].name, sizeof more.at[0].name, "%s", RONDE__DECODER_INPUT);
  more.at[0].shape = ronde__model_shape(model);
  more.at[0].vocabulary = model->vocabulary;
  return more;
}

ronde_status ronde__model_graph(const ronde__model *model, const ronde__model_options *options,
                                const ronde__shape *shape, int64_t vocabulary, int64_t classes,
                                ronde_graph **graph_out) {
  ronde__more_inputs more = ronde__model_more(model);
  return make_graph(&(builder){.model = model, .options = options}, &(network_inputs){shape, vocabulary, &more},
                    classes, graph_out);
}

_Static_assert((int)RONDE__ONNX_INPUT_BYTES == (int)RONDE__INPUT_NAME_BYTES, "names of inputs are as long");

ronde__more_inputs ronde__file_more(const ronde__onnx *file) {
  ronde__more_inputs more = {.n = ronde__onnx_n_inputs(file) - 1};
  for (int i = 0; i < more.n; i++) {
    const char *name = ronde__onnx_input_at(file, i + 1, &more.at[i].shape, &more.at[i].vocabulary);
    snprintf(more.at[i].name, sizeof more.at[i].name, "%s", name);
  }
  return more;
}

ronde_status ronde__file_bind(ronde__onnx *file, const ronde__shape *shape, const ronde__more_inputs *more) {
  const ronde__more_inputs own = ronde__file_more(file);
  ronde__shape inputs[RONDE_MAX_INPUTS] = {*shape};
  for (int i = 0; i < own.n; i++) {
    int from = i;
    for (int k = 0; k < more->n; k++)
      if (!strcmp(more->at[k].name, own.at[i].name)) from = k;
    if (from < more->n) inputs[i + 1] = more->at[from].shape;
  }
  return ronde__onnx_bind(file, inputs, own.n + 1);
}

ronde_status ronde__file_graph(const ronde__onnx *file, ronde_graph **graph_out) {
  const ronde__more_inputs more = ronde__file_more(file);
  const ronde__model model = ronde__file_model(file, NULL);
  return make_graph(&(builder){.model = &model, .file = file},
                    &(network_inputs){ronde__onnx_shape(file), model.vocabulary, &more}, 0, graph_out);
}

ronde__model ronde__file_model(const ronde__onnx *file, const char *name) {
  static const ronde__shape one = {1, {1}};
  const ronde__more_inputs more = ronde__file_more(file);
  ronde__model model = {
      .name = name, .about = ronde__onnx_about(file), .any_shape = true, .classes = ronde__onnx_outputs(file)};
  ronde__shape shape;
  ronde__onnx_input_at(file, 0, &shape, &model.vocabulary);
  model.decoder_input = more.n == 1 && !strcmp(more.at[0].name, RONDE__DECODER_INPUT);
  model.lengths = more.n == 1 && !strcmp(more.at[0].name, RONDE__LENGTHS_INPUT) &&
                  ronde__shape_equal(&more.at[0].shape, &one) && more.at[0].vocabulary == 0;
  return model;
}

static ronde_tensor *build_callers(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  const ronde_hooks *hooks = user;
  ronde_tensor *y = hooks->model(graph, x, classes, hooks->user);
  if (!y && ronde_graph_status(graph) == RONDE_OK)
    ronde__fail(RONDE_E_USAGE, "the caller's model function returned no output");
  return y;
}

/* Another loss has no labels to smooth. */
static void smooth_labels(const ronde__job *job, ronde_graph *graph) {
  ronde__node *loss = &graph->nodes[graph->tensors[graph->loss]->producer];
  if (loss->kind == RONDE__OP_CROSS_ENTROPY) loss->attr.label_smoothing = (float)job->options->label_smoothing;
}

/* ---- --freeze ---- */

/* Whether a prefix [n] stands for a name: for the whole of it, or for what is in front of a dot. */
static bool stands_for(const char *prefix, size_t n, const char *name) {
  if (n == 0 || strncmp(name, prefix, n) != 0) return false; /* so the name is not shorter */
  return !name[n] || name[n] == '.' || prefix[n - 1] == '.';
}

/* What comes nearest to text among all names of parameters and what they begin with, up to a dot. */
static void nearest_prefix(const ronde_graph *graph, const char *text, char *nearest, size_t bytes) {
  int best = INT32_MAX;
  for (int i = 0; i < graph->n_params; i++) {
    const char *name = graph->params[i].name;
    for (size_t n = 1; n <= strlen(name); n++) {
      char part[256];
      if ((name[n] && name[n] != '.') || n >= sizeof part) continue;
      snprintf(part, sizeof part, "%.*s", (int)n, name);
      int distance = ronde__edit_distance(text, part);
      if (distance >= best) continue;
      best = distance;
      snprintf(nearest, bytes, "%s", part);
    }
  }
}

static ronde_status freeze_prefix(ronde_graph *graph, const char *prefix, size_t n) {
  int n_matched = 0;
  for (int i = 0; i < graph->n_params; i++) {
    if (!stands_for(prefix, n, graph->params[i].name)) continue;
    graph->params[i].frozen = true;
    n_matched++;
  }
  if (n_matched > 0) return RONDE_OK;
  char text[256], nearest[256] = "";
  snprintf(text, sizeof text, "%.*s", (int)n, prefix);
  nearest_prefix(graph, text, nearest, sizeof nearest);
  return ronde__fail(RONDE_E_USAGE,
                     "--freeze: no parameter has the name '%s', or this prefix before a dot; the nearest is %s", text,
                     nearest);
}

static ronde_status freeze(const ronde__job *job, ronde_graph *graph) {
  for (const char *text = job->options->freeze; text;) {
    size_t n = strcspn(text, ",");
    RONDE_TRY(freeze_prefix(graph, text, n));
    text = text[n] ? text + n + 1 : NULL;
  }
  for (int i = 0; i < graph->n_params; i++)
    if (!graph->params[i].frozen) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--freeze %s: nothing is left to train", RONDE__SHOWN(job->options->freeze));
}

/* ---- the job's graph ---- */

static ronde_status check_inputs(const ronde__job *job) {
  const ronde__model *model = job->model;
  int wanted = (model->decoder_input || model->lengths) + (model->text > 0);
  if (job->file) wanted = ronde__file_more(job->file).n;
  if (job->more.n == wanted) return RONDE_OK;
  const char *why =
      wanted ? "takes several inputs, but the data have others" : "takes one input, but the data have several";
  if (model->text)
    why = "speaks: it takes audio:DIR, or a source whose other inputs are called " RONDE__LENGTHS_INPUT
          " and " RONDE__TEXT_INPUT;
  else if (model->lengths)
    why = "transcribes: it takes audio:DIR, or a source whose second input is called " RONDE__LENGTHS_INPUT;
  else if (model->decoder_input)
    why = "translates: it takes pairs:FILE, or a source whose second input is called " RONDE__DECODER_INPUT;
  return ronde__fail(RONDE_E_USAGE, "%s %s", model->name, why);
}

static ronde_status define_job(const ronde__job *job, ronde_graph *graph) {
  if (job->model && job->model->vocabulary && !job->vocabulary)
    return ronde__fail(RONDE_E_USAGE, "%s takes tokens: text:FILE, or npy:DIR with integers", job->model->name);
  if (job->model) RONDE_TRY(check_inputs(job));
  if (job->model && !job->model->any_shape && job->shape.rank != 3)
    return ronde__fail(RONDE_E_USAGE, "%s takes images, but the input is a table: --model mlp:256,64 takes it",
                       job->model->name);
  ronde__model_options options = {.padding_same = job->options->padding == RONDE__PADDING_SAME,
                                  .dropout = (float)job->options->dropout,
                                  .sizes = job->model ? ronde__model_sizes(job->model_name) : NULL,
                                  .activation = (ronde__hidden_activation)job->options->activation,
                                  .labels = job->data ? ronde__source_labels(&job->data->source) : 0};
  builder b = {job->model, &options, job->targets > 0 ? job->options : NULL, job->file};
  int64_t outputs = job->targets > 0 ? job->targets : job->classes;
  network_inputs inputs = {&job->shape, job->vocabulary, &job->more};
  if (job->model) RONDE_TRY(define(graph, build_model, &b, &inputs, outputs));
  else RONDE_TRY(define(graph, build_callers, (void *)&job->hooks, &inputs, job->classes));
  if (job->data) RONDE_TRY(check_targets(job, graph));
  smooth_labels(job, graph);
  return RONDE_OK;
}

static ronde_status define_pass(void *job, ronde_graph *graph) { return define_job(job, graph); }

ronde__net_options ronde__job_net_options(const ronde__job *job, ronde__pool *pool, ronde__prof *prof, bool training) {
  ronde__net_options options = {.compute = job->compute, .pool = pool, .prof = prof, .training = training};
  options.keeps_turned = training && job->keeps_turned;
  if (job->options->exec != RONDE__EXEC_EAGER) return options;
  options.define = define_pass;
  options.define_user = (void *)job;
  return options;
}

const ronde__kernels *ronde__job_flat_kernels(const ronde__job *job) {
  return job->spans ? &ronde__kernels_none : job->compute.kernels;
}

double ronde__job_element_ns(const ronde__job *job) {
  const ronde__spans *spans = job->spans;
  return spans && spans->updated_elems ? (double)spans->update_ns / (double)spans->updated_elems : 0;
}

ronde_status ronde__job_optim(const ronde__job *job, const ronde__net *net, ronde__optim **optim_out) {
  int n_dead;
  const ronde__range *dead = ronde__net_dead(net, &n_dead);
  RONDE_TRY(ronde__optim_create(&job->optim, ronde__job_flat_kernels(job), ronde__net_n_trained(net), optim_out));
  ronde__optim_set_dead(*optim_out, dead, n_dead);
  return RONDE_OK;
}

ronde_status ronde__job_copy_network(const ronde__job *job, ronde__job **copy_out) {
  ronde__job *copy;
  RONDE__ALLOC(copy, sizeof *copy, "network");
  *copy = (ronde__job){.hooks = job->hooks,
                       .model = job->model,
                       .shape = job->shape,
                       .classes = job->classes,
                       .vocabulary = job->vocabulary,
                       .more = job->more,
                       .targets = job->targets,
                       .compute = job->compute};
  ronde_status status = ronde__config_copy(job->config, &copy->config);
  if (status != RONDE_OK) {
    ronde__free(copy);
    return status;
  }
  copy->options = ronde__config_options(copy->config);
  copy->model_name = copy->options->model ? copy->options->model : job->model_name;
  *copy_out = copy;
  return RONDE_OK;
}

void ronde__job_destroy_network(ronde__job *copy) {
  if (!copy) return;
  ronde_config_destroy(copy->config);
  ronde__free(copy);
}

ronde_status ronde__job_graph(const ronde__job *job, ronde_graph **graph_out) {
  ronde_graph *graph;
  RONDE_TRY(ronde_graph_create(&graph));
  ronde_status status = define_job(job, graph);
  if (status == RONDE_OK && job->options->freeze) status = freeze(job, graph);
  if (status != RONDE_OK) ronde_graph_destroy(graph);
  else *graph_out = graph;
  return status;
}

static bool trains(const ronde_graph *graph, const ronde__node *node) {
  for (int i = 0; i < node->n_params; i++)
    if (!graph->params[node->param[i]].frozen) return true;
  return false;
}

int64_t ronde__graph_trained_parameters(const ronde_graph *graph) {
  int64_t n = 0;
  for (int i = 0; i < graph->n_params; i++)
    if (!graph->params[i].frozen) n += ronde__shape_elems(&graph->params[i].shape);
  return n;
}

int64_t ronde__graph_train_flops(const ronde_graph *graph) {
  int64_t n = 0;
  for (int i = 0; i < graph->n_nodes; i++) {
    const ronde__node *node = &graph->nodes[i];
    int64_t forward = ronde__node_flops(graph, node);
    if (forward == 0) continue;
    bool own = !graph->params[node->param[0]].frozen, first = true;
    for (int j = 0; j < i && first; j++) first = !trains(graph, &graph->nodes[j]);
    /* Where nothing in front of it trains, nobody needs its input's gradient. */
    n += forward * (1 + own + !first);
  }
  return n;
}

_Static_assert((int)RONDE__ACTIVATION_RELU == RONDE__HIDDEN_RELU && (int)RONDE__ACTIVATION_TANH == RONDE__HIDDEN_TANH &&
                   (int)RONDE__ACTIVATION_SIGMOID == RONDE__HIDDEN_SIGMOID,
               "--activation is handed on to the network as it is");

const char *ronde__job_activation(const ronde__job *job) {
  if (!job->model || !job->model->has_activation) return NULL;
  return ronde_config_get(job->config, "activation");
}

const char *ronde__job_loss(const ronde__job *job) {
  return job->targets > 0 ? ronde_config_get(job->config, "loss") : NULL;
}

const char *ronde__job_padding(const ronde__job *job) {
  if (!job->model || !job->model->has_padding) return NULL;
  return job->options->padding == RONDE__PADDING_SAME ? "same" : "valid";
}

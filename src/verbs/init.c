/* ronde_init: fresh weights in a file; ronde_models: what is built in. */
#include "job/job.h"

#include "io/sha256.h"
#include "setup/setup.h"
#include "state/weights.h"
#include "base/json.h"

#include <jansson.h>
#include <stdlib.h>

static ronde_status write_fresh(const ronde__job *job, const ronde_graph *graph, ronde__net *net, char **json_out) {
  char sha256[RONDE__SHA256_HEX];
  RONDE_TRY(ronde__net_init(net, (uint64_t)job->options->seed));
  RONDE_TRY(ronde__weights_sha256(net, NULL, sha256));
  RONDE_TRY(ronde__weights_save(net, NULL, job->options->output, job));
  return ronde__json_give(json_pack("{s:s, s:s, s:I, s:s}", "model", job->model_name, "output", job->options->output,
                                    "parameters", (json_int_t)ronde_graph_parameters(graph), "weights_sha256", sha256),
                          "result", json_out);
}

static ronde_status init_job(const ronde__job *job, char **json_out) {
  ronde_graph *graph;
  ronde__net *net = NULL;
  if (!job->options->output) return ronde__fail(RONDE_E_USAGE, "--output FILE is needed: where the weights go");
  RONDE_TRY(ronde__job_graph(job, &graph));
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, false);
  ronde_status status = ronde__net_create(graph, &options, &net);
  if (status == RONDE_OK) status = write_fresh(job, graph, net, json_out);
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
  return status;
}

ronde_status ronde_init(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde__job *job;
  RONDE_TRY(ronde__job_create(config, hooks, &job));
  ronde_status status = init_job(job, json_out);
  ronde__job_destroy(job);
  return status;
}

static json_t *init_tensors_json(const ronde_graph *graph) {
  json_t *tensors = json_array();
  for (int i = 0; i < graph->n_params; i++)
    json_array_append_new(tensors,
                          json_pack("{s:s, s:o}", "name", graph->params[i].name, "shape",
                                    ronde__json_dims(graph->params[i].shape.dim, graph->params[i].shape.rank)));
  return tensors;
}

static ronde_status describe_model(const ronde__model *model, const char *name, bool with_tensors, json_t **json_out) {
  ronde_graph *graph;
  ronde__model_options options = {.padding_same = true, .dropout = model->dropout, .sizes = ronde__model_sizes(name)};
  ronde__shape shape = ronde__model_shape(model);
  RONDE_TRY(ronde__model_graph(model, &options, &shape, model->vocabulary, model->classes, &graph));
  json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:o, s:I}", "name", name, "about", model->about, "parameters",
                           (json_int_t)ronde_graph_parameters(graph), "forward_flops_per_example",
                           (json_int_t)ronde_graph_forward_flops(graph), "shape",
                           ronde__json_dims(shape.dim, shape.rank), "classes", (json_int_t)model->classes);
  if (model->decoder_input) json_object_set_new(json, RONDE__DECODER_INPUT, ronde__json_dims(shape.dim, shape.rank));
  if (model->lengths) json_object_set_new(json, RONDE__LENGTHS_INPUT, ronde__json_dims((int64_t[]){1}, 1));
  if (model->text) json_object_set_new(json, RONDE__TEXT_INPUT, ronde__json_dims(&model->text, 1));
  if (model->vocabulary) json_object_set_new(json, "vocabulary", json_integer(model->vocabulary));
  if (with_tensors) json_object_set_new(json, "tensors", init_tensors_json(graph));
  ronde_graph_destroy(graph);
  *json_out = json;
  return RONDE_OK;
}

/* The inputs beside the first one, and how many tokens that has. */
static void add_inputs(const ronde__onnx *file, json_t *json) {
  const ronde__more_inputs more = ronde__file_more(file);
  ronde__shape shape;
  int64_t vocabulary;
  for (int i = 0; i < more.n; i++)
    json_object_set_new(json, more.at[i].name, ronde__json_dims(more.at[i].shape.dim, more.at[i].shape.rank));
  ronde__onnx_input_at(file, 0, &shape, &vocabulary);
  if (vocabulary) json_object_set_new(json, "vocabulary", json_integer(vocabulary));
}

/* The names of dimensions that the file leaves open, with the size that each of them has here. */
static json_t *open_dims(const ronde__onnx *file) {
  json_t *open = json_object();
  for (int i = 0; i < ronde__onnx_n_inputs(file); i++) {
    ronde__shape shape;
    int64_t vocabulary;
    const char *input = ronde__onnx_input_at(file, i, &shape, &vocabulary);
    for (int d = 0; d < shape.rank; d++) {
      const char *name = ronde__onnx_open_dim(file, i, d);
      char *unnamed = name && !*name ? ronde__format("%s[%d]", input, d + 1) : NULL;
      if (name && (*name || unnamed)) json_object_set_new(open, unnamed ? unnamed : name, json_integer(shape.dim[d]));
      free(unnamed);
    }
  }
  return open;
}

/* A network that can be listed, of a file that leaves dimensions open. Tables of positions may be short. */
static ronde_status bind_for_listing(ronde__onnx *file) {
  enum { PLACES = 16, PIXELS = 128 };
  ronde__shape inputs[RONDE_MAX_INPUTS];
  int64_t vocabulary;
  for (int i = 0; i < ronde__onnx_n_inputs(file); i++) {
    ronde__onnx_input_at(file, i, &inputs[i], &vocabulary);
    for (int d = 0; d < inputs[i].rank; d++)
      if (inputs[i].dim[d] == 0) inputs[i].dim[d] = inputs[i].rank == 3 ? PIXELS : PLACES;
  }
  return ronde__onnx_bind(file, inputs, ronde__onnx_n_inputs(file));
}

static ronde_status describe_file(const char *path, json_t **json_out) {
  ronde__onnx *file;
  ronde_graph *graph;
  RONDE_TRY(ronde__onnx_open(path, &file));
  const ronde__shape *shape = ronde__onnx_shape(file);
  ronde_status status = bind_for_listing(file);
  if (status == RONDE_OK) status = ronde__file_graph(file, &graph);
  if (status == RONDE_OK) {
    *json_out = json_pack("{s:o, s:s, s:I, s:I, s:o, s:I, s:s, s:o}", "name", ronde__json_text(path), "about",
                          ronde__onnx_about(file), "parameters", (json_int_t)ronde_graph_parameters(graph),
                          "forward_flops_per_example", (json_int_t)ronde_graph_forward_flops(graph), "shape",
                          ronde__json_dims(shape->dim, shape->rank), "classes", (json_int_t)ronde__onnx_outputs(file),
                          "sha256", ronde__onnx_sha256(file), "tensors", init_tensors_json(graph));
    ronde_graph_destroy(graph);
    add_inputs(file, *json_out);
    json_t *open = open_dims(file);
    if (json_object_size(open) > 0) json_object_set(*json_out, "open", open);
    json_decref(open);
  }
  ronde__onnx_close(file);
  return status;
}

static ronde_status describe_models(json_t *models) {
  for (int i = 0; ronde__model_at(i); i++) {
    json_t *json;
    RONDE_TRY(describe_model(ronde__model_at(i), ronde__model_at(i)->name, false, &json));
    json_array_append_new(models, json);
  }
  return RONDE_OK;
}

ronde_status ronde_models(const char *name, char **json_out) {
  json_t *json;
  if (name && ronde__onnx_named(name)) {
    RONDE_TRY(describe_file(name, &json));
    return ronde__json_give(json, "result", json_out);
  }
  if (name) {
    const ronde__model *model = ronde__model_find(name);
    if (!model) return ronde__fail(RONDE_E_USAGE, "%s: no such network; `ronde models` lists them", RONDE__SHOWN(name));
    RONDE_TRY(describe_model(model, name, true, &json));
    return ronde__json_give(json, "result", json_out);
  }
  json_t *models = json_array();
  ronde_status status = describe_models(models);
  if (status != RONDE_OK) {
    json_decref(models);
    return status;
  }
  return ronde__json_give(json_pack("{s:o}", "models", models), "result", json_out);
}

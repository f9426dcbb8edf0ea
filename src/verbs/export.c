/* ronde_export: the weights of a checkpoint alone, or the whole network as an ONNX file. */
#include "base/json.h"
#include "onnx/onnx.h"
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

/* ---- weights alone ---- */

static ronde_status export_weights(const ronde__options *o, char **json_out) {
  ronde__resume *r;
  char *path;
  int n_tensors;
  int64_t elems;
  if (!o->init) return ronde__fail(RONDE_E_USAGE, "a checkpoint is needed: --init FILE");
  RONDE_TRY(ronde__weights_find(o->init, &path));
  ronde_status status = ronde__checkpoint_open(path, &r);
  free(path);
  RONDE_TRY(status);
  status = ronde__weights_export(r->file, o->output, &n_tensors, &elems);
  json_t *input = ronde__json_text(r->path);
  ronde__resume_close(r);
  if (status != RONDE_OK) {
    json_decref(input);
    return status;
  }
  return ronde__json_give(json_pack("{s:o, s:o, s:i, s:I}", "input", input, "output", ronde__json_text(o->output),
                                    "tensors", n_tensors, "values", (json_int_t)elems),
                          "result", json_out);
}

/* What only a network needs, as it follows from these options and the weights' notes. */
static ronde_status check_weights_alone(const ronde_config *config) {
  static const char *const names[] = {"model", "classes", "shape", "padding", "activation", "dropout"};
  for (size_t i = 0; i < RONDE__COUNT(names); i++)
    if (ronde_config_is_given(config, names[i]))
      return ronde__fail(RONDE_E_USAGE, "--%s can have no effect: only --format onnx writes a network", names[i]);
  return RONDE_OK;
}

/* ---- the network ---- */

/* Notes that the file itself makes plain, or that are of a checkpoint, stay away. */
static bool is_kept(const char *key) {
  static const char *const own[] = {"format",  "model",      "shape",          RONDE__META_MODEL_SHA256, "classes",
                                    "padding", "activation", RONDE__CHECKSUMS, RONDE__CHECKPOINT_NOTE};
  for (size_t i = 0; i < RONDE__COUNT(own); i++)
    if (!strcmp(key, own[i])) return false;
  return true;
}

static ronde_status write_network(const ronde__job *job, const ronde__net *net) {
  ronde__file_meta *meta;
  int n = 0;
  RONDE__ALLOC(meta, (size_t)job->init->n_meta * sizeof *meta, job->options->output);
  for (int i = 0; i < job->init->n_meta; i++)
    if (is_kept(job->init->meta[i].key)) meta[n++] = job->init->meta[i];
  ronde_status status = ronde__onnx_write(net, job->options->output, meta, n);
  ronde__free(meta);
  return status;
}

static ronde_status export_network(const ronde__job *job, char **json_out) {
  ronde_graph *graph;
  ronde__net *net = NULL;
  if (!job->init) return ronde__fail(RONDE_E_USAGE, "the weights to export are needed: --init FILE");
  RONDE_TRY(ronde__job_graph(job, &graph));
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, false);
  ronde_status status = ronde__net_create(graph, &options, &net);
  if (status == RONDE_OK) {
    ronde__weights_load(net, job->init, false);
    status = write_network(job, net);
  }
  json_t *json = status != RONDE_OK
                     ? NULL
                     : json_pack("{s:o, s:o, s:i, s:I}", "input", ronde__json_text(job->init_path), "output",
                                 ronde__json_text(job->options->output), "tensors", graph->n_params + graph->n_buffers,
                                 "values", (json_int_t)ronde_graph_parameters(graph));
  ronde__net_destroy(net);
  ronde_graph_destroy(graph);
  return status == RONDE_OK ? ronde__json_give(json, "result", json_out) : status;
}

ronde_status ronde_export(const ronde_config *config, char **json_out) {
  const ronde__options *o = ronde__config_options(config);
  ronde__job *job;
  if (!o->output) return ronde__fail(RONDE_E_USAGE, "--output FILE is needed: where the weights go");
  if (o->format == RONDE__FORMAT_SAFETENSORS) {
    RONDE_TRY(check_weights_alone(config));
    return export_weights(o, json_out);
  }
  RONDE_TRY(ronde__job_create(config, NULL, &job));
  ronde_status status = export_network(job, json_out);
  ronde__job_destroy(job);
  return status;
}

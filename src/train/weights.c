#include "train/job.h"

#include "io/safetensors.h"
#include "io/sha256.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ronde_status check_tensor(const ronde__param *param, const ronde__file_tensor *tensor, const char *path) {
  if (!tensor) return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is missing", path, param->name);
  if (tensor->dtype != RONDE__FILE_F32) return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is not a float", path, param->name);
  if (!ronde__shape_equal(&tensor->shape, &param->shape)) {
    char has[96], wants[96];
    ronde__shape_text(&tensor->shape, has, sizeof has);
    ronde__shape_text(&param->shape, wants, sizeof wants);
    return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is %s, but the network's is %s", path, param->name, has, wants);
  }
  return RONDE_OK;
}

static bool is_param(const ronde_graph *graph, const char *name) {
  for (int i = 0; i < graph->n_params; i++)
    if (strcmp(graph->params[i].name, name) == 0) return true;
  return false;
}

ronde_status ronde__weights_check(const ronde_graph *graph, const ronde__safetensors *file, const char *path) {
  for (int i = 0; i < graph->n_params; i++)
    RONDE_TRY(check_tensor(&graph->params[i], ronde__safetensors_find(file, graph->params[i].name), path));
  for (int i = 0; i < file->n_tensors; i++)
    if (!is_param(graph, file->tensors[i].name))
      return ronde__fail(RONDE_E_INPUT, "%s: tensor %s is not in the network", path, file->tensors[i].name);
  return RONDE_OK;
}

void ronde__weights_load(ronde__net *net, const ronde__safetensors *file) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  for (int i = 0; i < n_params; i++) ronde__net_set(net, i, ronde__safetensors_find(file, params[i].name)->data);
}

const char *ronde__job_padding(const ronde__job *job) {
  if (!job->model || !job->model->has_padding) return NULL;
  return job->options->padding == RONDE__PADDING_SAME ? "same" : "valid";
}

/* One value a channel, comma-separated, with a point whatever the locale. */
static void list_values(const float *values, int n, char *text, size_t bytes) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);
  size_t used = 0;
  for (int i = 0; i < n && used < bytes; i++)
    used += (size_t)snprintf(text + used, bytes - used, "%s%.9g", i ? "," : "", values[i]);
  uselocale(before);
  if (c) freelocale(c);
}

static ronde_status write_file(const char *path, const ronde__file_tensor *tensors, int n_tensors, const ronde__job *job) {
  char shape[96], classes[24], mean[64], deviation[64];
  ronde__file_meta meta[8] = {{"format", "pt"}, {"model", job->model_name}, {"shape", shape}, {"classes", classes}};
  int n_meta = 4;
  ronde__shape_text(&job->shape, shape, sizeof shape);
  snprintf(classes, sizeof classes, "%" PRId64, job->classes);
  if (ronde__job_padding(job)) meta[n_meta++] = (ronde__file_meta){"padding", ronde__job_padding(job)};
  if (job->options->resize) meta[n_meta++] = (ronde__file_meta){"resize", job->options->resize};
  if (job->data && job->data->normalization.channels > 0) {
    const ronde__normalization *normalization = &job->data->normalization;
    list_values(normalization->mean, normalization->channels, mean, sizeof mean);
    list_values(normalization->deviation, normalization->channels, deviation, sizeof deviation);
    meta[n_meta++] = (ronde__file_meta){"normalize_mean", mean};
    meta[n_meta++] = (ronde__file_meta){"normalize_std", deviation};
  }
  return ronde__safetensors_write(path, tensors, n_tensors, meta, n_meta);
}

ronde_status ronde__weights_save(const ronde__net *net, const char *path, const ronde__job *job) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  ronde__file_tensor *tensors;
  float *values;
  RONDE__ALLOC(tensors, (size_t)n_params * sizeof *tensors, path);
  size_t n = 0;
  for (int i = 0; i < n_params; i++) n += (size_t)ronde__shape_elems(&params[i].shape);
  if (!(values = ronde__alloc(n * sizeof *values))) {
    ronde__free(tensors);
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for %zu values", path, n);
  }
  n = 0;
  for (int i = 0; i < n_params; i++) {
    ronde__net_get(net, i, values + n);
    tensors[i] = (ronde__file_tensor){params[i].name, RONDE__FILE_F32, params[i].shape, values + n};
    n += (size_t)ronde__shape_elems(&params[i].shape);
  }
  ronde_status status = write_file(path, tensors, n_params, job);
  ronde__free(values);
  ronde__free(tensors);
  return status;
}

static int by_name(const void *a, const void *b, void *names) {
  const ronde__net_param *params = names;
  return strcmp(params[*(const int *)a].name, params[*(const int *)b].name);
}

ronde_status ronde__weights_sha256(const ronde__net *net, char hex_out[65]) {
  int n_params, *order;
  const ronde__net_param *params = ronde__net_params(net, &n_params);
  int64_t longest = 0;
  for (int i = 0; i < n_params; i++) longest = ronde__max(longest, ronde__shape_elems(&params[i].shape));
  float *values;
  RONDE__ALLOC(order, (size_t)n_params * sizeof *order, "hash of the weights");
  if (!(values = ronde__alloc((size_t)longest * sizeof *values))) {
    ronde__free(order);
    return ronde__fail(RONDE_E_MEMORY, "hash of the weights: no memory for %" PRId64 " values", longest);
  }
  for (int i = 0; i < n_params; i++) order[i] = i;
  qsort_r(order, (size_t)n_params, sizeof *order, by_name, (void *)params);
  ronde__sha256 sha;
  ronde_status status = ronde__sha256_init(&sha);
  for (int i = 0; i < n_params && status == RONDE_OK; i++) {
    ronde__net_get(net, order[i], values);
    ronde__sha256_update(&sha, values, (size_t)ronde__shape_elems(&params[order[i]].shape) * sizeof *values);
  }
  if (status == RONDE_OK) status = ronde__sha256_final(&sha, hex_out);
  ronde__free(values);
  ronde__free(order);
  return status;
}

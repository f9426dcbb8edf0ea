/* ronde_predict: the most probable classes of images that are given as a file. */
#include "job/normalize.h"

#include "io/safetensors.h"
#include "setup/setup.h"
#include "state/weights.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct predict_images {
  float *x; /* [n][C][H][W] */
  int64_t n;
  ronde__shape shape;
} predict_images;

static bool name_ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

/* A picture has as many channels as the network's input. */
static ronde_status predict_read_picture(const ronde__job *job, predict_images *im) {
  uint8_t *pixels;
  int64_t h, w, channels = job->shape.dim[0];
  RONDE_TRY(ronde__image_read(job->options->input, (int)channels, &h, &w, &pixels));
  im->n = 1;
  im->shape = (ronde__shape){3, {channels, h, w}};
  im->x = ronde__alloc((size_t)(channels * h * w) * sizeof *im->x);
  if (im->x) job->kernels->from_u8(pixels, 1.0f / 255, 0, im->x, channels * h * w);
  ronde__free(pixels);
  return im->x ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "%s: no memory for the image", job->options->input);
}

static ronde_status predict_read_images(const ronde__job *job, predict_images *im) {
  const char *path = job->options->input;
  if (!path) return ronde__fail(RONDE_E_USAGE, "an image or npy file to look at is needed: --input FILE");
  if (!name_ends_with(path, ".npy")) return predict_read_picture(job, im);
  im->shape.rank = 3;
  return ronde__npy_read_images(path, (ronde__image_layout)job->options->layout, &im->n, im->shape.dim, &im->x);
}

static ronde_status predict_resize(const ronde__job *job, predict_images *im) {
  if (!job->resize[0]) return RONDE_OK;
  int64_t *sides = im->shape.dim + 1;
  RONDE_TRY(ronde__planes_resize(im->n * im->shape.dim[0], sides, job->resize, &im->x));
  memcpy(sides, job->resize, sizeof job->resize);
  return RONDE_OK;
}

/* As the training data were, or as the user says; one value, or one a channel. */
static ronde_status predict_normalize(ronde__job *job, predict_images *im) {
  bool usual;
  ronde__normalization by;
  RONDE_TRY(ronde__normalize_choose(job, &usual, &by));
  bool follows = strcmp(job->options->normalize, "auto") == 0;
  if (by.channels > 1 && by.channels != im->shape.dim[0])
    return ronde__fail(follows ? RONDE_E_INPUT : RONDE_E_USAGE,
                       "%s: mean and deviation of %d channels do not fit images of %lld channels",
                       follows ? job->init_path : "--normalize", by.channels, (long long)im->shape.dim[0]);
  RONDE_TRY(ronde__normalize_settle(job, &by));
  int64_t plane = im->shape.dim[1] * im->shape.dim[2], n = im->n * im->shape.dim[0] * plane;
  for (int64_t i = 0; i < n && by.channels; i++) {
    int64_t c = by.channels == 1 ? 0 : i / plane % by.channels;
    im->x[i] = (im->x[i] - by.mean[c]) / by.deviation[c];
  }
  return RONDE_OK;
}

static void softmax(float *y, int64_t n) {
  float max = y[0];
  double sum = 0;
  for (int64_t k = 1; k < n; k++) max = y[k] > max ? y[k] : max;
  for (int64_t k = 0; k < n; k++) sum += y[k] = expf(y[k] - max);
  for (int64_t k = 0; k < n; k++) y[k] = (float)(y[k] / sum);
}

/* The `top` most probable classes, the likeliest first; y is used up. */
static json_t *best_classes(float *y, int64_t n, int64_t top, const ronde__class_names *names) {
  json_t *classes = json_array();
  for (int64_t i = 0; i < ronde__min(top, n); i++) {
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++)
      if (y[k] > y[best]) best = k;
    json_t *row = json_pack("{s:I, s:f}", "class", (json_int_t)best, "probability", (double)y[best]);
    if (best < names->n) json_object_set_new(row, "name", json_string(names->name[best]));
    json_array_append_new(classes, row);
    y[best] = -1;
  }
  return classes;
}

static ronde_status predict_classify(const ronde__job *job, ronde__net *net, const predict_images *im,
                                     int64_t n_outputs, json_t *examples) {
  enum { CHUNK = 64 };
  float *y;
  int64_t elems = ronde__shape_elems(&im->shape);
  RONDE__ALLOC(y, (size_t)(CHUNK * n_outputs) * sizeof *y, "prediction");
  ronde_status status = RONDE_OK;
  for (int64_t i = 0; i < im->n && status == RONDE_OK; i += CHUNK) {
    int64_t n = ronde__min(CHUNK, im->n - i);
    status = job->hooks.cancel && job->hooks.cancel(job->hooks.user) ? RONDE_E_CANCELLED : RONDE_OK;
    if (status == RONDE_OK) status = ronde__net_predict(net, n, im->x + i * elems, y);
    for (int64_t j = 0; j < n && status == RONDE_OK; j++) {
      softmax(y + j * n_outputs, n_outputs);
      if (isnan(y[j * n_outputs]))
        status = ronde__fail(RONDE_E_NUMERIC, "%s: the network's output for image %lld is NaN or Inf",
                             job->options->input, (long long)(i + j));
      else
        json_array_append_new(
            examples, json_pack("{s:I, s:o}", "index", (json_int_t)(i + j), "classes",
                                best_classes(y + j * n_outputs, n_outputs, job->options->top, &job->class_names)));
    }
  }
  ronde__free(y);
  return status;
}

static ronde_status predict_run_net(ronde__job *job, const predict_images *im, json_t *examples) {
  ronde_graph *graph = NULL;
  ronde__pool *pool = NULL;
  ronde__net *net = NULL;
  job->shape = im->shape;
  ronde_status status = ronde__job_graph(job, &graph);
  if (status == RONDE_OK) status = ronde__weights_check(graph, job->init, job->init_path, NULL);
  if (status == RONDE_OK) status = ronde__class_names_read(job->init, job->init_path, &job->class_names);
  if (status == RONDE_OK) status = ronde__pool_create(job->threads, &pool);
  if (status == RONDE_OK) {
    ronde__net_options options = ronde__job_net_options(job, pool, NULL, false);
    status = ronde__net_create(graph, &options, &net);
  }
  if (status == RONDE_OK) {
    ronde__weights_load(net, job->init, false);
    status = predict_classify(job, net, im, ronde__shape_elems(&graph->tensors[graph->output]->shape), examples);
  }
  ronde__net_destroy(net);
  ronde__pool_destroy(pool);
  ronde_graph_destroy(graph);
  return status;
}

static ronde_status predict_job(ronde__job *job, char **json_out) {
  predict_images im = {0};
  if (!job->init) return ronde__fail(RONDE_E_USAGE, "the weights to predict with are needed: --init FILE");
  RONDE_TRY(predict_read_images(job, &im));
  json_t *examples = json_array();
  ronde_status status = predict_resize(job, &im);
  if (status == RONDE_OK) status = predict_normalize(job, &im);
  if (status == RONDE_OK) status = predict_run_net(job, &im, examples);
  ronde__free(im.x);
  json_t *result =
      status == RONDE_OK ? json_pack("{s:s, s:O}", "input", job->options->input, "examples", examples) : NULL;
  json_decref(examples);
  if (status != RONDE_OK) return status;
  char *text = result ? json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
  json_decref(result);
  if (!text) return ronde__fail(RONDE_E_MEMORY, "prediction: no memory for the result");
  if (json_out) *json_out = text;
  else free(text);
  return RONDE_OK;
}

ronde_status ronde_predict(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde__job *job;
  RONDE_TRY(ronde__job_create(config, hooks, &job));
  ronde_status status = predict_job(job, json_out);
  ronde__job_destroy(job);
  return status;
}

/* A job whose network comes from an ONNX file: the file, its weights, and what it leaves open. */
#include "job/normalize.h"
#include "setup/setup.h"

#include <stdlib.h>

/* The file that --model names, once. */
static ronde_status open_file(ronde__job *job) {
  return job->file ? RONDE_OK : ronde__onnx_open(job->options->model, &job->file);
}

ronde_status ronde__take_file(ronde__job *job) {
  RONDE_TRY(open_file(job));
  if (job->config->verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__onnx_check_training(job->file));
  job->file_model = ronde__file_model(job->file, job->options->model);
  job->model = &job->file_model;
  job->model_name = job->options->model;
  const ronde__shape *shape = ronde__onnx_shape(job->file);
  bool cuts = job->model->vocabulary && shape->rank == 1 && job->options->data &&
              !ronde_config_is_given(job->config, "window") && ronde__data_has_window(job->options->data);
  if (cuts && shape->dim[0] > 0) job->config->options.window = shape->dim[0];
  return RONDE_OK;
}

/* A file's tables have rows for so many tokens, of which the data may have fewer; but tokens they must be. */
void ronde__tokens_of_file(ronde__job *job) {
  const ronde__more_inputs more = ronde__file_more(job->file);
  job->vocabulary = job->data->source.vocabulary;
  if (job->vocabulary) job->vocabulary = ronde__max(job->vocabulary, job->model->vocabulary);
  for (int i = 0; i < more.n && i < job->more.n; i++)
    if (job->more.at[i].vocabulary)
      job->more.at[i].vocabulary = ronde__max(job->more.at[i].vocabulary, more.at[i].vocabulary);
}

bool ronde__begins_with_file(const ronde__job *job) {
  int verb = job->config->verb;
  bool wants = verb == RONDE__VERB_TRAIN || verb == RONDE__VERB_EVAL || verb == RONDE__VERB_PREDICT ||
               verb == RONDE__VERB_EXPORT;
  return wants && !job->hooks.model && job->options->model && ronde__onnx_named(job->options->model) &&
         !job->options->sim_spans;
}

ronde_status ronde__open_file_weights(ronde__job *job) {
  RONDE_TRY(open_file(job));
  if (ronde__onnx_is_open(job->file)) return RONDE_OK;
  if (!(job->init_path = ronde__strdup(job->options->model)))
    return ronde__fail(RONDE_E_MEMORY, "%s: no memory for its name", job->options->model);
  return ronde__onnx_weights(job->file, &job->init);
}

ronde_status ronde__bind_file(ronde__job *job, const ronde__shape *shape, const ronde__more_inputs *more) {
  RONDE_TRY(ronde__file_bind(job->file, shape, more));
  job->file_model = ronde__file_model(job->file, job->options->model);
  return RONDE_OK;
}

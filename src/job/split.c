/* Which examples tests are made on, and what a file of weights says of those that its run kept out of training: enough
 * to find them again in the same data. */
#include "job/job.h"
#include "job/split.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- tests ---- */

ronde__tests ronde__job_tests(const ronde__job *job) {
  ronde__tests tests = {.split = RONDE_SPLIT_TRAIN};
  tests.ids = ronde__sampler_validation(job->sampler, &tests.n);
  if (tests.n > 0) {
    tests.name = "validation";
    return tests;
  }
  int64_t n = job->data->source.n_examples[RONDE_SPLIT_TEST];
  const char *name = n == 0 ? NULL : job->data->test_is_val ? "validation" : "test";
  return (ronde__tests){.name = name, .split = RONDE_SPLIT_TEST, .n = n};
}

/* ---- in a file ---- */

char *ronde__split_text(const ronde__job *job) {
  int64_t n = 0;
  if (job->sampler) ronde__sampler_validation(job->sampler, &n);
  if (n == 0) return NULL;
  const ronde__options *o = job->options;
  json_t *json =
      json_pack("{s:f, s:I, s:b, s:I, s:I, s:s}", "val_split", o->val_split, "seed", (json_int_t)o->seed, "by_class",
                job->splits_by_class, "train_examples", (json_int_t)job->data->source.n_examples[RONDE_SPLIT_TRAIN],
                "validation_examples", (json_int_t)n, "data_sha256", job->data->sha256);
  char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(json);
  return text;
}

ronde_status ronde__split_read(const ronde__safetensors *file, const char *path, ronde__split_note *note_out) {
  const char *text = ronde__safetensors_meta(file, RONDE__META_SPLIT), *sha256;
  json_int_t seed, n_train, n_validation;
  double fraction;
  int by_class;
  if (!text) return *note_out = (ronde__split_note){0}, RONDE_OK;
  json_t *json = json_loads(text, 0, NULL);
  bool good =
      json_unpack(json, "{s:F, s:I, s:b, s:I, s:I, s:s}", "val_split", &fraction, "seed", &seed, "by_class", &by_class,
                  "train_examples", &n_train, "validation_examples", &n_validation, "data_sha256", &sha256) == 0 &&
      fraction > 0 && fraction < 1 && seed >= 0 && n_validation > 0 && n_validation < n_train &&
      strlen(sha256) < sizeof note_out->data_sha256;
  if (good) {
    *note_out = (ronde__split_note){fraction, (uint64_t)seed, by_class, n_train, n_validation, ""};
    strcpy(note_out->data_sha256, sha256);
  }
  json_decref(json);
  if (good) return RONDE_OK;
  return ronde__fail(RONDE_E_INPUT, "%s: metadata %s is invalid", path, RONDE__META_SPLIT);
}

bool ronde__split_fits(const ronde__split_note *note, const ronde__data *data) {
  bool known = *note->data_sha256 && *data->sha256;
  return note->n_validation > 0 && note->n_train == data->source.n_examples[RONDE_SPLIT_TRAIN] &&
         (!known || !strcmp(note->data_sha256, data->sha256));
}

/* ---- making it ---- */

ronde_status ronde__split_sampler(const ronde__data *data, bool by_class, ronde__sampler_options *options,
                                  ronde__sampler **sampler_out) {
  int64_t *labels = NULL;
  if (by_class && (options->val_split > 0 || options->n_drawn > 0) && options->n_train > 0) {
    RONDE__ALLOC(labels, (size_t)options->n_train * sizeof *labels, data->source.name);
    ronde_status status = ronde__data_labels(data, labels);
    if (status != RONDE_OK) {
      ronde__free(labels);
      return status;
    }
  }
  options->labels = labels;
  ronde_status status = ronde__sampler_create(options, sampler_out);
  ronde__free(labels);
  return status;
}

ronde_status ronde__split_again(const ronde__split_note *note, const ronde__data *data, ronde__sampler **sampler_out) {
  ronde__sampler_options options = {
      .n_train = note->n_train, .repeat = 1, .val_split = note->fraction, .batch = 1, .seed = note->seed};
  return ronde__split_sampler(data, note->by_class, &options, sampler_out);
}

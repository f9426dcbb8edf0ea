/* What --resume reads from a checkpoint: the note, JSON, of a file that is whole otherwise. What is accepted makes
 * sense, sets options that print as they were, and is compared with a job. */
#include "state/checkpoint.h"
#include "config/config.h"
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

/* The job that wants to go on. */
static const ronde__job *make_job(void) {
  static ronde__job *job;
  if (job) return job;
  ronde_config *config;
  require(ronde_config_create("train", &config) == RONDE_OK);
  require(ronde_config_set(config, "model", "mnist-small") == RONDE_OK);
  require(ronde_config_set(config, "data", "synthetic:1x8x8:2:6") == RONDE_OK);
  require(ronde_config_set(config, "cache", "off") == RONDE_OK);
  require(ronde_config_set(config, "batch", "2") == RONDE_OK);
  require(ronde_config_set(config, "epochs", "4") == RONDE_OK);
  if (ronde__job_create(config, NULL, &job) != RONDE_OK) abort();
  ronde_config_destroy(config);
  return job;
}

/* A safetensors file without tensors, with these bytes as its note; to be freed. NULL: they are no text. */
static char *make_file(const uint8_t *note, size_t size, size_t *bytes_out) {
  json_t *text = json_stringn((const char *)note, size);
  if (!text || memchr(note, 0, size)) {
    json_decref(text);
    return NULL;
  }
  json_t *root = json_pack("{s:{s:s, s:o}}", "__metadata__", "model", "mnist-small", RONDE__CHECKPOINT_NOTE, text);
  char *header = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  uint64_t length = strlen(header), padded = (length + 7) / 8 * 8;
  char *file = malloc(8 + padded);
  memcpy(file, &padded, 8);
  memset(file + 8, ' ', padded);
  memcpy(file + 8, header, length);
  free(header);
  *bytes_out = 8 + padded;
  return file;
}

static void resume_run(const ronde__resume *r) {
  const ronde__progress *p = &r->progress;
  require(p->step >= 0 && p->skipped >= 0 && p->sums.steps <= p->step && p->sums.steps <= p->sums.examples);
  require(p->sums.n_correct >= 0); /* of sequences there are more labels than examples */
  require(p->best.epoch == 0 || (p->best.epoch > 0 && p->best.score.n > 0));
  ronde_config *config;
  require(ronde_config_create("train", &config) == RONDE_OK);
  if (ronde__resume_options(r, config, 0) == RONDE_OK) {
    json_t *given = ronde__config_given(config);
    require(given != NULL);
    json_decref(given);
  }
  ronde_config_destroy(config);
  if (ronde__resume_check(r, make_job()) == RONDE_OK) require(p->step <= make_job()->steps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t bytes;
  ronde__resume *resume;
  char *file = size ? make_file(data, size, &bytes) : NULL;
  if (!file) return 0;
  if (ronde__resume_parse("input", file, bytes, &resume) == RONDE_OK) {
    resume_run(resume);
    ronde__resume_close(resume);
  }
  free(file);
  return 0;
}

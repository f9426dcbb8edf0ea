/* ronde_predictor_create: a predictor from a file of weights. */
#include "job/normalize.h"
#include "setup/setup.h"
#include "state/predictor.h"

static ronde_status make_predictor(ronde__job *job, ronde_predictor **predictor_out) {
  ronde__normalization normalization;
  if (!job->init) return ronde__fail(RONDE_E_USAGE, "the weights to predict with are needed: --init FILE");
  RONDE_TRY(ronde__normalize_input(job, &normalization));
  RONDE_TRY(ronde__class_names_read(job->init, job->init_path, &job->class_names));
  return ronde__predictor_create(job, NULL, NULL, &normalization, predictor_out);
}

ronde_status ronde_predictor_create(const ronde_config *config, const ronde_hooks *hooks,
                                    ronde_predictor **predictor_out) {
  ronde__job *job;
  if (config->verb != RONDE__VERB_PREDICT)
    return ronde__fail(RONDE_E_USAGE, "a configuration of \"predict\" is needed");
  RONDE_TRY(ronde__job_create(config, hooks, &job));
  ronde_status status = make_predictor(job, predictor_out);
  ronde__job_destroy(job);
  return status;
}

/* What only training has: optimizer, schedule, steps, tests, checkpoints. */
#include "setup/setup.h"
#include "job/split.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static ronde_status resolve_optimizer(ronde__job *job) {
  ronde__options *o = &job->config->options;
  bool sgd = o->optimizer == RONDE__OPTIMIZER_SGD, adagrad = o->optimizer == RONDE__OPTIMIZER_ADAGRAD;
  if (o->nesterov && o->momentum == 0) return ronde__fail(RONDE_E_USAGE, "--nesterov needs a --momentum above 0");
  if (o->optimizer == RONDE__OPTIMIZER_LBFGS && o->lr == 0)
    return ronde__fail(RONDE_E_USAGE, "--lr 0: a line search needs a first step length above 0");
  if (o->eps < 0) o->eps = sgd || o->optimizer == RONDE__OPTIMIZER_LBFGS ? 0 : adagrad ? 1e-10 : 1e-8;
  if (o->weight_decay < 0) o->weight_decay = o->optimizer == RONDE__OPTIMIZER_ADAMW ? 0.01 : 0;
  static const ronde__optim_kind kinds[] = {
      [RONDE__OPTIMIZER_SGD] = RONDE__OPTIM_SGD,         [RONDE__OPTIMIZER_ADAM] = RONDE__OPTIM_ADAM,
      [RONDE__OPTIMIZER_ADAMW] = RONDE__OPTIM_ADAMW,     [RONDE__OPTIMIZER_ADAGRAD] = RONDE__OPTIM_ADAGRAD,
      [RONDE__OPTIMIZER_RMSPROP] = RONDE__OPTIM_RMSPROP, [RONDE__OPTIMIZER_LBFGS] = RONDE__OPTIM_LBFGS};
  job->optim = (ronde__optim_options){.kind = kinds[o->optimizer],
                                      .lr = o->lr,
                                      .momentum = o->momentum,
                                      .weight_decay = o->weight_decay,
                                      .nesterov = o->nesterov,
                                      .beta1 = o->betas[0],
                                      .beta2 = o->betas[1],
                                      .eps = o->eps,
                                      .alpha = o->alpha,
                                      .history = (int)o->lbfgs_history};
  return RONDE_OK;
}

/* n asynchronous workers make n updates where synchronous ones make one. */
static ronde_status resolve_rate(ronde__job *job) {
  ronde__options *o = &job->config->options;
  /* The record says what was done. */
  if (o->optimizer == RONDE__OPTIMIZER_LBFGS && !ronde_config_is_given(job->config, "lr")) o->lr = 1;
  if (!ronde__strategy_understands(job->strategy, "lr-divide-workers")) o->lr_divide_workers = false;
  if (o->lr_scale_workers && o->lr_divide_workers)
    return ronde__fail(RONDE_E_USAGE, "--lr-scale-workers can have no effect: --lr-divide-workers undoes it");
  if (o->lr_scale_workers) o->lr *= job->n_replicas;
  if (o->lr_divide_workers) o->lr /= job->roles.n_workers;
  if (o->local_lr < 0) o->local_lr = o->lr;
  return RONDE_OK;
}

static ronde_status resolve_schedule(ronde__job *job) {
  const ronde__options *o = job->options;
  if (o->warmup && o->lr_schedule == RONDE__LR_SCHEDULE_ONE_CYCLE)
    return ronde__fail(RONDE_E_USAGE, "--warmup can have no effect: --lr-schedule one-cycle has a rise of its own");
  static const ronde__schedule_kind kinds[] = {[RONDE__LR_SCHEDULE_CONSTANT] = RONDE__SCHEDULE_CONSTANT,
                                               [RONDE__LR_SCHEDULE_STEP] = RONDE__SCHEDULE_STEP,
                                               [RONDE__LR_SCHEDULE_COSINE] = RONDE__SCHEDULE_COSINE,
                                               [RONDE__LR_SCHEDULE_ONE_CYCLE] = RONDE__SCHEDULE_ONE_CYCLE,
                                               [RONDE__LR_SCHEDULE_PLATEAU] = RONDE__SCHEDULE_PLATEAU};
  job->schedule = (ronde__schedule){kinds[o->lr_schedule], o->lr,      o->lr_gamma, o->lr_step,
                                    job->steps_per_epoch,  job->steps, o->warmup,   o->lr_rise};
  return RONDE_OK;
}

/* The smallest part of a whole batch has an example for each. */
static ronde_status count_micro_batches(ronde__job *job) {
  ronde__options *o = &job->config->options;
  ronde__strategy_settings settings = {.options = o};
  int64_t n = ronde__max(1, job->batch / job->n_replicas);
  if (!job->strategy->n_micro) return RONDE_OK;
  RONDE_TRY(job->strategy->n_micro(&settings, job->n_stages, n, &job->micro_batches));
  o->micro_batches = job->micro_batches;
  return RONDE_OK;
}

static ronde_status resolve_steps(ronde__job *job) {
  ronde__options *o = &job->config->options;
  const ronde_source *source = &job->data->source;
  if (o->local_batch && ronde_config_is_given(job->config, "batch"))
    return ronde__fail(RONDE_E_USAGE, "--batch and --local-batch both set the batch size: give only one of the two");
  if (o->local_batch) o->batch = o->local_batch * job->n_replicas;
  job->batch = o->batch;
  RONDE_TRY(count_micro_batches(job));
  ronde__strategy_settings settings = {.options = o, .roles = &job->roles};
  job->local_batch = job->strategy->pass_examples
                         ? job->strategy->pass_examples(&settings, job->batch, job->n_replicas)
                         : ronde__ceil_div(ronde__ceil_div(job->batch, job->n_replicas), job->micro_batches);
  ronde__sampler_options sampler = {source->n_examples[RONDE_SPLIT_TRAIN],
                                    o->repeat,
                                    o->val_split,
                                    o->train_examples,
                                    o->batch,
                                    o->shuffle,
                                    o->drop_last,
                                    (uint64_t)o->seed,
                                    NULL,
                                    o->bucket_by_length ? job->data->counted[RONDE_SPLIT_TRAIN] : NULL};
  if (o->train_examples && o->val_split > 0)
    return ronde__fail(RONDE_E_USAGE,
                       "--train-examples and --val-split both say how many examples are trained on: give "
                       "only one of the two");
  if (sampler.n_train == 0 && source->n_examples[RONDE_SPLIT_TEST] > 0)
    return ronde__fail(RONDE_E_INPUT, "%s: there are %s examples, but none to train on", ronde__job_data_name(job),
                       job->data->test_is_val ? "validation" : "test");
  /* A run that goes on keeps out what it did, though an older version drew it without a look at classes. */
  job->splits_by_class = ronde__source_classifies(source) && (!job->resume || job->kept_out.by_class);
  RONDE_TRY(ronde__split_sampler(job->data, job->splits_by_class, &sampler, &job->sampler));
  int64_t n_validation;
  ronde__sampler_validation(job->sampler, &n_validation);
  if (o->val_split > 0 && n_validation == 0)
    return ronde__fail(RONDE_E_USAGE, "--val-split %g keeps no validation examples out of %" PRId64, o->val_split,
                       sampler.n_train);
  job->batches_per_epoch = ronde__sampler_epoch_batches(job->sampler);
  job->steps_per_epoch = ronde__ceil_div(job->batches_per_epoch, o->accumulate);
  if (o->epochs > INT64_MAX / 2 / job->steps_per_epoch)
    return ronde__fail(RONDE_E_USAGE, "--epochs %" PRId64 ": too many", o->epochs);
  job->steps = o->steps ? o->steps : o->epochs * job->steps_per_epoch;
  return RONDE_OK;
}

/* What is done with tests, where there are any. */
static ronde_status resolve_tests(ronde__job *job) {
  const ronde__options *o = job->options;
  int64_t n_tests = ronde__job_tests(job).n;
  bool drops = o->lr_schedule == RONDE__LR_SCHEDULE_PLATEAU;
  if (drops && n_tests == 0)
    return ronde__fail(RONDE_E_USAGE, "--lr-schedule plateau can have no effect: the data have no test examples");
  if ((drops || o->patience) && o->eval_every == 0)
    return ronde__fail(RONDE_E_USAGE, "--%s can have no effect: with --eval-every 0 the only test is at the end",
                       drops ? "lr-schedule plateau" : "patience");
  if (o->out && o->save_best && n_tests > 0 && !(job->best_path = ronde__format("%s/" RONDE__BEST_NAME, o->out)))
    return ronde__fail(RONDE_E_MEMORY, "%s/" RONDE__BEST_NAME ": no memory", o->out);
  return RONDE_OK;
}

/* What must see all gradients of a step before the first parameter changes. */
static bool needs_whole_gradients(const ronde__job *job) {
  const ronde__options *o = job->options;
  return o->clip > 0 || o->accumulate > 1 || o->skip_bad_steps > 0 || o->record_spans || job->spans ||
         job->drills[RONDE__DRILL_CORRUPT].on;
}

ronde_status ronde__set_up_training(ronde__job *job) {
  const ronde__options *o = job->options;
  RONDE_TRY(resolve_steps(job));
  RONDE_TRY(ronde__check_effects(job, RONDE__KNOWN_DATA, NULL));
  RONDE_TRY(resolve_tests(job));
  RONDE_TRY(resolve_rate(job));
  RONDE_TRY(resolve_optimizer(job));
  RONDE_TRY(resolve_schedule(job));
  if (o->record_spans && o->accumulate > 1)
    return ronde__fail(RONDE_E_USAGE, "--record-spans: a step of one batch is recorded, without --accumulate");
  RONDE_TRY(ronde__set_up_drills(job));
  job->fused_update = job->roles.n_workers == 1 && job->strategy->fuses_alone && !needs_whole_gradients(job) &&
                      o->exec != RONDE__EXEC_EAGER;
  job->fuses_split = !needs_whole_gradients(job);
  return RONDE_OK;
}

/* One batch, again and again; without dropout every system computes the same. */
ronde_status ronde__set_up_stepper(ronde__job *job) {
  ronde__options *o = &job->config->options;
  if (o->optimizer == RONDE__OPTIMIZER_LBFGS)
    return ronde__fail(RONDE_E_USAGE,
                       "--optimizer lbfgs: what is measured is a step of one gradient and one update, "
                       "and a step of it has several");
  o->dropout = 0;
  job->batch = job->local_batch = o->batch;
  job->fused_update = true;
  return resolve_optimizer(job);
}

/* "500": steps; "30s", "10m", "2h": time. */
static ronde_status resolve_checkpoints(ronde__job *job) {
  const char *text = job->options->checkpoint_every;
  if (!text) return RONDE_OK;
  long long n;
  char unit = 0;
  int used = 0, n_read = sscanf(text, "%18lld%c%n", &n, &unit, &used);
  uint64_t unit_s = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  bool digits = text[0] >= '0' && text[0] <= '9';
  if (digits && n_read == 1) {
    job->checkpoint_steps = n;
    return RONDE_OK;
  }
  if (!digits || n_read != 2 || !unit_s || text[used] || n < 1 || n > 1000000)
    return ronde__fail(RONDE_E_USAGE,
                       "--checkpoint-every %s: expected a number of steps, or a time such as 30s, 10m or 2h",
                       RONDE__SHOWN(text));
  if (job->strategy->meets_to_save && !job->strategy->agrees_to_save)
    return ronde__fail(RONDE_E_USAGE,
                       "--checkpoint-every %s: with %s the workers must meet to save, so give a number of steps",
                       RONDE__SHOWN(text), job->strategy->meets_to_save);
  job->checkpoint_ns = (uint64_t)n * unit_s * 1000000000u;
  return RONDE_OK;
}

ronde_status ronde__set_up_checkpoints(ronde__job *job) {
  RONDE_TRY(resolve_checkpoints(job));
  return job->resume ? ronde__resume_check(job->resume, job) : RONDE_OK;
}

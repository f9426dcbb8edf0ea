/* What only training has: optimizer, schedule, steps, tests, drills, checkpoints. */
#include "setup/setup.h"
#include "job/split.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static ronde_status resolve_optimizer(ronde__job *job) {
  ronde__options *o = &job->config->options;
  bool sgd = o->optimizer == RONDE__OPTIMIZER_SGD, adagrad = o->optimizer == RONDE__OPTIMIZER_ADAGRAD;
  if (o->nesterov && o->momentum == 0) return ronde__fail(RONDE_E_USAGE, "--nesterov needs a --momentum above 0");
  if (o->eps < 0) o->eps = sgd ? 0 : adagrad ? 1e-10 : 1e-8;
  if (o->weight_decay < 0) o->weight_decay = o->optimizer == RONDE__OPTIMIZER_ADAMW ? 0.01 : 0;
  static const ronde__optim_kind kinds[] = {[RONDE__OPTIMIZER_SGD] = RONDE__OPTIM_SGD,
                                            [RONDE__OPTIMIZER_ADAM] = RONDE__OPTIM_ADAM,
                                            [RONDE__OPTIMIZER_ADAMW] = RONDE__OPTIM_ADAMW,
                                            [RONDE__OPTIMIZER_ADAGRAD] = RONDE__OPTIM_ADAGRAD,
                                            [RONDE__OPTIMIZER_RMSPROP] = RONDE__OPTIM_RMSPROP};
  job->optim = (ronde__optim_options){kinds[o->optimizer], o->lr,       o->momentum, o->weight_decay, o->nesterov,
                                      o->betas[0],         o->betas[1], o->eps,      o->alpha};
  return RONDE_OK;
}

/* n asynchronous workers make n updates where synchronous ones make one. */
static ronde_status resolve_rate(ronde__job *job) {
  ronde__options *o = &job->config->options;
  /* The record says what was done. */
  if (!ronde__strategy_understands(job->strategy, "lr-divide-workers")) o->lr_divide_workers = false;
  if (o->lr_scale_workers && o->lr_divide_workers)
    return ronde__fail(RONDE_E_USAGE, "--lr-scale-workers can have no effect: --lr-divide-workers takes it back");
  if (o->lr_scale_workers) o->lr *= job->roles.n_workers;
  if (o->lr_divide_workers) o->lr /= job->roles.n_workers;
  if (o->local_lr < 0) o->local_lr = o->lr;
  return RONDE_OK;
}

static ronde_status resolve_schedule(ronde__job *job) {
  const ronde__options *o = job->options;
  static const ronde__schedule_kind kinds[] = {[RONDE__LR_SCHEDULE_CONSTANT] = RONDE__SCHEDULE_CONSTANT,
                                               [RONDE__LR_SCHEDULE_STEP] = RONDE__SCHEDULE_STEP,
                                               [RONDE__LR_SCHEDULE_COSINE] = RONDE__SCHEDULE_COSINE,
                                               [RONDE__LR_SCHEDULE_ONE_CYCLE] = RONDE__SCHEDULE_ONE_CYCLE,
                                               [RONDE__LR_SCHEDULE_PLATEAU] = RONDE__SCHEDULE_PLATEAU};
  job->schedule = (ronde__schedule){kinds[o->lr_schedule], o->lr,      o->lr_gamma, o->lr_step,
                                    job->steps_per_epoch,  job->steps, o->warmup,   o->lr_rise};
  return RONDE_OK;
}

static ronde_status check_drilled(const ronde__job *job, const char *text, int rank) {
  if (rank >= 0 && rank < job->roles.n_workers) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--drill %s: there is no rank %d among %d", RONDE__SHOWN(text), rank,
                     job->roles.n_workers);
}

static ronde_status check_loads(const ronde__job *job, const char *text, int rank) {
  RONDE_TRY(check_drilled(job, text, rank));
  if (rank == 0 || !job->strategy->rank_0_loads) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--drill %s: with --strategy %s rank 0 loads for all (load:0:MS)",
                     RONDE__SHOWN(text), job->strategy->name);
}

/* Rank 0 is slow with one strategy, and as always with others. */
static ronde_status slow_strategy(ronde__job *job, const char *name, double ms) {
  ronde__strategy_settings settings = {.options = job->options};
  if (!ronde__strategy_find(name, &settings))
    return ronde__fail(RONDE_E_USAGE, "--drill slow:%s: there is no such strategy", name);
  if (strcmp(name, job->strategy->name)) return RONDE_OK;
  job->drill_slow_rank = 0;
  job->drill_slow_ns = (uint64_t)(ms * 1e6);
  return RONDE_OK;
}

static ronde_status resolve_drill(ronde__job *job) {
  const char *text = job->options->drill;
  char name[32];
  job->drill_slow_rank = job->drill_load_rank = -1;
  while (text && *text) {
    double ms;
    int rank, used = 0;
    long long step;
    if (sscanf(text, "load:%d:%lf%n", &rank, &ms, &used) == 2 && used && ms >= 0 && ms <= 60000) {
      RONDE_TRY(check_loads(job, text, rank));
      job->drill_load_rank = rank;
      job->drill_load_ns = (uint64_t)(ms * 1e6);
    } else if (sscanf(text, "load:%lf%n", &ms, &used) == 1 && used && ms >= 0 && ms <= 60000) {
      job->drill_load_ns = (uint64_t)(ms * 1e6);
    } else if (sscanf(text, "slow:%d:%lf%n", &rank, &ms, &used) == 2 && used && ms >= 0 && ms <= 60000) {
      RONDE_TRY(check_drilled(job, text, rank));
      job->drill_slow_rank = rank;
      job->drill_slow_ns = (uint64_t)(ms * 1e6);
      int more = 0;
      if (sscanf(text + used, "@%lld%n", &step, &more) == 1 && more && step > 0) job->drill_slow_step = step;
      used += more;
    } else if (sscanf(text, "slow:%31[a-z-]:%lf%n", name, &ms, &used) == 2 && used && ms >= 0 && ms <= 60000) {
      RONDE_TRY(slow_strategy(job, name, ms));
    } else if (sscanf(text, "drift:%d:%lld%n", &rank, &step, &used) == 2 && used && step > 0) {
      RONDE_TRY(check_drilled(job, text, rank));
      job->drill_drift_rank = rank;
      job->drill_drift_step = step;
    } else {
      return ronde__fail(RONDE_E_USAGE,
                         "--drill %s: not load:[RANK:]MS, slow:RANK:MS[@STEP], slow:STRATEGY:MS or drift:RANK:STEP",
                         RONDE__SHOWN(text));
    }
    text += used;
    if (*text && *text++ != ',')
      return ronde__fail(RONDE_E_USAGE, "--drill %s: parts are separated by commas", RONDE__SHOWN(job->options->drill));
  }
  return RONDE_OK;
}

static ronde_status resolve_steps(ronde__job *job) {
  ronde__options *o = &job->config->options;
  const ronde_source *source = &job->data->source;
  if (o->local_batch && ronde__config_is_set(job->config, "batch"))
    return ronde__fail(RONDE_E_USAGE, "--batch and --local-batch both give the size of a step: one of them is enough");
  if (o->local_batch) o->batch = o->local_batch * job->roles.n_workers;
  job->batch = o->batch;
  job->local_batch = ronde__ceil_div(job->batch, job->roles.n_workers);
  ronde__sampler_options sampler = {source->n_examples[RONDE_SPLIT_TRAIN],
                                    o->repeat,
                                    o->val_split,
                                    o->batch,
                                    o->shuffle,
                                    o->drop_last,
                                    (uint64_t)o->seed,
                                    NULL};
  if (sampler.n_train == 0 && source->n_examples[RONDE_SPLIT_TEST] > 0)
    return ronde__fail(RONDE_E_INPUT, "%s: there are %s examples, but none to train on", ronde__job_data_name(job),
                       job->data->test_is_val ? "validation" : "test");
  /* A run that goes on keeps out what it did, though an older version drew it without a look at classes. */
  job->splits_by_class = source->classes > 0 && (!job->resume || job->kept_out.by_class);
  RONDE_TRY(ronde__split_sampler(job->data, job->splits_by_class, &sampler, &job->sampler));
  int64_t n_validation;
  ronde__sampler_validation(job->sampler, &n_validation);
  if (o->val_split > 0 && n_validation == 0)
    return ronde__fail(RONDE_E_USAGE, "--val-split %g keeps none of %" PRId64 " examples", o->val_split,
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
  return job->options->clip > 0 || job->options->accumulate > 1 || job->options->skip_bad_steps > 0;
}

ronde_status ronde__set_up_training(ronde__job *job) {
  const ronde__options *o = job->options;
  RONDE_TRY(resolve_steps(job));
  RONDE_TRY(ronde__check_effects(job, RONDE__KNOWN_DATA, NULL));
  RONDE_TRY(resolve_tests(job));
  RONDE_TRY(resolve_rate(job));
  RONDE_TRY(resolve_optimizer(job));
  RONDE_TRY(resolve_schedule(job));
  job->fused_update = job->roles.n_workers == 1 && job->strategy->fuses_alone && !needs_whole_gradients(job) &&
                      o->exec != RONDE__EXEC_EAGER;
  return resolve_drill(job);
}

/* One batch, again and again; without dropout every system computes the same. */
ronde_status ronde__set_up_stepper(ronde__job *job) {
  ronde__options *o = &job->config->options;
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
    return ronde__fail(RONDE_E_USAGE, "--checkpoint-every %s: not a number of steps, nor a time such as 30s, 10m or 2h",
                       RONDE__SHOWN(text));
  if (job->strategy->meets_to_save)
    return ronde__fail(RONDE_E_USAGE, "--checkpoint-every %s: with %s the workers meet for it: after how many steps?",
                       RONDE__SHOWN(text), job->strategy->meets_to_save);
  job->checkpoint_ns = (uint64_t)n * unit_s * 1000000000u;
  return RONDE_OK;
}

ronde_status ronde__set_up_checkpoints(ronde__job *job) {
  RONDE_TRY(resolve_checkpoints(job));
  return job->resume ? ronde__resume_check(job->resume, job) : RONDE_OK;
}

/* The steps and epochs of one rank, the tests between them, and what all ranks agree on at the end of each. */
#include "train/rank.h"
#include "job/split.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- steps ---- */

/* For those who may find this rank lost. */
static void note(ronde__rank *r, ronde__activity activity) {
  ronde__transport_note(r->group, (ronde__doing){activity, r->progress.step});
}

/* Synchronous replicas that a strategy leaves unequal between steps; asynchronous ones are made equal where they meet. */
static ronde_status rank_refresh(ronde__rank *r) {
  const ronde__strategy *strategy = r->job->strategy;
  if (strategy->asynchronous || !strategy->refresh) return RONDE_OK;
  ronde__prof_switch(r->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(strategy->refresh(r->strategy_state));
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

/* Behind this step the strategy has a state that the run could go on from. */
static void mark(ronde__rank *r) {
  if (r->behind[0].step == r->progress.step) return;
  r->behind[1] = r->behind[0];
  r->behind[0] = r->progress;
}

static ronde_status rank_settle(ronde__rank *r) {
  const ronde__strategy *strategy = r->job->strategy;
  if (!strategy->settle) return RONDE_OK;
  ronde__prof_switch(r->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(strategy->settle(r->strategy_state));
  mark(r);
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

ronde_status ronde__rank_finish(ronde__rank *r) {
  const ronde__strategy *strategy = r->job->strategy;
  if (r->strategy_state && strategy->finish) RONDE_TRY(strategy->finish(r->strategy_state));
  for (int i = 0; i < RONDE__MAX_BESIDE; i++)
    if (r->service_threads[i]) RONDE_TRY(ronde__comm_thread_drain(r->service_threads[i]));
  return RONDE_OK;
}

/* Examples of update `index` (from 0) of an epoch, and its batches. */
static void step_size(const ronde__job *job, int64_t index, ronde__step *step) {
  int64_t first = index * job->options->accumulate,
          end = ronde__min(first + job->options->accumulate, job->batches_per_epoch);
  step->n_batches = (int)(end - first);
  step->examples = ronde__min(end * job->batch, ronde__sampler_epoch_examples(job->sampler)) - first * job->batch;
}

/* Every rank counts for itself the labels that the step has on all of them. */
static ronde_status weigh_labels(ronde__rank *r, int64_t epoch, int64_t index, ronde__step *step) {
  const ronde__job *job = r->job;
  return ronde__sampler_label_weight(job->sampler, job->data, epoch, index * job->options->accumulate, step->n_batches,
                                     &r->ids, &step->label_weight);
}

static void describe(const ronde__rank *r, const ronde__step_result *result, char *text, size_t bytes) {
  int rank = ronde__rank_at(r, result->broken_rank);
  if (result->broken_param < 0) snprintf(text, bytes, "the loss of rank %d is NaN or Inf", rank);
  else
    snprintf(text, bytes, "the gradient of %s on rank %d has NaN or Inf", r->graph->params[result->broken_param].name,
             rank);
}

/* All ranks come here together, and one of them says it; an asynchronous one comes alone. */
static ronde_status broken(ronde__rank *r, const ronde__step *step, const ronde__step_result *result) {
  r->agreed = true;
  if (r->transport->rank != 0 && !r->job->strategy->asynchronous) return RONDE_E_NUMERIC;
  char what[256];
  describe(r, result, what, sizeof what);
  return ronde__fail(RONDE_E_NUMERIC, "step %" PRId64 ": %s", step->step, what);
}

/* No rank has updated; all go on as if the step had had no examples. */
static void skip(ronde__rank *r, const ronde__step *step, const ronde__step_result *result) {
  ronde__rank_restore_buffers(r);
  r->progress.skipped++;
  if (r->transport->rank != 0) return;
  char what[256];
  describe(r, result, what, sizeof what);
  ronde__log(RONDE_LOG_WARNING, "step %" PRId64 ": %s: left out (%" PRId64 " of at most %" PRId64 ")", step->step, what,
             r->progress.skipped, r->job->options->skip_bad_steps);
}

static ronde_status compare_replicas(ronde__rank *r, int64_t step) {
  const ronde__job *job = r->job;
  int64_t every = job->options->sentinel;
  bool due = job->n_replicas > 1 && every > 0 && (step % every == 0 || step == job->steps);
  bool drifts = job->drills[RONDE__DRILL_DRIFT].on && step == job->drills[RONDE__DRILL_DRIFT].step;
  if (due || drifts) RONDE_TRY(rank_settle(r));
  if (drifts && ronde__job_drills(job, RONDE__DRILL_DRIFT, r->transport->rank)) ronde__rank_drift(r);
  if (!due) return RONDE_OK;
  ronde__prof_switch(r->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(ronde__sentinel_check(r, step));
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

static int64_t own_examples(const ronde__rank *r, const ronde__step *step) {
  int64_t n = 0;
  for (int64_t left = step->examples; left > 0; left -= r->job->batch) {
    int64_t batch = ronde__min(left, r->job->batch);
    n += ronde__shard_begin(batch, r->share + 1, r->n_shares) - ronde__shard_begin(batch, r->share, r->n_shares);
  }
  return n;
}

/* Whether a checkpoint is written after this step. last: nothing comes after it, as the run has been cancelled, or is
 * done; the end is saved once, with what its test has found. agreed: all have heard that one wants it. */
static bool is_due(const ronde__rank *r, bool last, bool agreed) {
  const ronde__job *job = r->job;
  if (last) return true;
  if (r->progress.step >= job->steps) return false;
  if (!job->strategy->meets_to_save) return r->saver && ronde__saver_due(r->saver, r->progress.step);
  return agreed || (job->checkpoint_steps > 0 && r->progress.step % job->checkpoint_steps == 0);
}

/* Whether this rank's clock asks for a checkpoint that all must meet for. */
static bool wants_to_save(const ronde__rank *r) {
  return r->saver && r->job->checkpoint_ns && r->job->strategy->agrees_to_save &&
         ronde__saver_due(r->saver, r->progress.step);
}

typedef struct saving {
  ronde__rank *rank;
  bool now, hurried;
} saving;

static ronde_status save_state(void *user) {
  const saving *s = user;
  ronde__rank *r = s->rank;
  const ronde__reporter *reporter = r->reporter;
  if (reporter && reporter->saving) RONDE_TRY(reporter->saving(reporter->user));
  return s->now ? ronde__saver_now(r->saver, &r->progress, s->hurried) : ronde__saver_begin(r->saver, &r->progress);
}

/* Rank 0 writes what all of them have. */
static ronde_status gather_and_save(ronde__rank *r, bool last, bool hurried) {
  const ronde__strategy *strategy = r->job->strategy;
  saving s = {r, last || r->state.parts, hurried};
  if (strategy->gather_state) RONDE_TRY(strategy->gather_state(r->strategy_state));
  return r->saver || r->state.parts ? ronde__rank_tell_parts(r, save_state, &s) : RONDE_OK;
}

/* Where workers do not wait for each other, the others would go on meanwhile: all wait until it is done. */
static ronde_status write_state(ronde__rank *r, bool last, bool hurried) {
  const ronde__strategy *strategy = r->job->strategy;
  note(r, RONDE__SAVING);
  RONDE_TRY(rank_settle(r));
  ronde__prof_switch(r->prof, RONDE__PHASE_CHECKPOINT);
  ronde_status status = r->saver ? ronde__rank_make_whole(r) : RONDE_OK;
  if (status == RONDE_OK && (strategy->meets_to_save || r->saver)) status = gather_and_save(r, last, hurried);
  if (r->saver) ronde__rank_drop_whole(r);
  RONDE_TRY(status);
  if (strategy->meets_to_save && !last) RONDE_TRY(ronde__rank_meet(r));
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

static ronde_status save(ronde__rank *r, bool last, bool cancelled, bool agreed) {
  bool takes_part = r->saver || (r->job->strategy->meets_to_save && r->job->options->out);
  return takes_part && is_due(r, last, agreed) ? write_state(r, last, cancelled) : RONDE_OK;
}

/* ---- where asynchronous ranks meet ---- */

/* Their steps' sums as one. */
static ronde__sums sum_results(const ronde__epoch_result *results, int n_workers, int64_t steps) {
  ronde__sums sums = {.steps = steps};
  for (int i = 0; i < n_workers; i++) {
    sums.examples += results[i].sums.examples;
    sums.n_correct += results[i].sums.n_correct;
    sums.loss_sum += results[i].sums.loss_sum;
  }
  return sums;
}

/* Asynchronous ranks come to a checkpoint, to the end of an epoch, or to an end that one of them has found, each in its
 * time: here they agree on how it ended, and on the parameters. */
static ronde_status rank_meet(ronde__rank *r, const ronde__epoch *epoch, ronde_status *status) {
  ronde__transport *transport = r->transport;
  RONDE_TRY(rank_settle(r));
  ronde__prof_switch(r->prof, RONDE__PHASE_WAIT);
  r->results[transport->rank] = (ronde__epoch_result){.end = *status, .sums = epoch->sums};
  RONDE_TRY(ronde__rank_meet(r));
  ronde__prof_switch(r->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(r->job->strategy->refresh(r->strategy_state));
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  for (int i = 0; i < r->job->roles.n_workers; i++)
    if (r->results[i].end == RONDE_E_NUMERIC || *status == RONDE_OK) *status = (ronde_status)r->results[i].end;
  r->agreed = *status != RONDE_OK;
  r->met = r->agreed;
  return RONDE_OK;
}

/* After a step within an epoch: where all come to the same one, it is a state of the run. A rank that has found an end
 * waits at the same meeting. */
static ronde_status meet_and_save(ronde__rank *r, const ronde__epoch *epoch) {
  ronde_status status = RONDE_OK;
  ronde__sums own = r->progress.sums;
  if (r->progress.step % r->job->steps_per_epoch == 0 || !is_due(r, false, false)) return RONDE_OK;
  RONDE_TRY(rank_meet(r, epoch, &status));
  RONDE_TRY(status);
  r->progress.sums = sum_results(r->results, r->job->roles.n_workers, own.steps);
  RONDE_TRY(write_state(r, false, false));
  r->progress.sums = own;
  return RONDE_OK;
}

/* What a step was, for the epoch and the run. n: its examples. */
static void count_step(ronde__rank *r, ronde__epoch *epoch, const ronde__step *step, const ronde__step_result *result,
                       int64_t n, bool skipped) {
  epoch->steps++;
  epoch->examples += n;
  epoch->left_out += result->n_left_out;
  epoch->lr = step->lr;
  if (!skipped) {
    epoch->sums.steps++;
    epoch->sums.examples += n;
    epoch->sums.loss_sum += result->loss_sum;
    epoch->sums.n_correct += result->n_correct;
  }
  r->progress.step = step->step;
  r->progress.closed = false;
  r->progress.sums = epoch->sums;
  r->now.step = step->step;
  if (!result->left_out || !ronde__rank_set_has(result->left_out, r->transport->rank))
    r->now.own.examples += result->hands_out ? result->n_own : step->own_examples;
  else if (result->missed) r->now.own.missed++;
  else r->now.own.dropped++;
}

/* Where a step is made again after a loss, it was told the first time. */
static ronde_status tell_step(ronde__rank *r, const ronde__step_report *report) {
  if (!r->reporter || !r->reporter->step || report->step <= r->reported_step) return RONDE_OK;
  r->reported_step = report->step;
  return r->reporter->step(r->reporter->user, report);
}

static double rate(const ronde__rank *r, int64_t step) {
  const ronde__schedule *schedule = &r->job->schedule;
  return ronde__schedule_lr(schedule, step) * pow(schedule->gamma, (double)r->progress.plateau.drops);
}

static ronde_status one_step(ronde__rank *r, ronde__epoch *epoch, ronde__step *step) {
  const ronde__job *job = r->job;
  ronde__step_result result;
  ronde__transport_note(r->group, (ronde__doing){RONDE__TRAINING, step->step});
  step->lr = rate(r, step->step);
  step->own_examples = own_examples(r, step);
  step->cancel = r->reporter && r->reporter->cancel && r->reporter->cancel(r->reporter->user);
  step->save = wants_to_save(r);
  uint64_t begin = ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  if (r->kept[0].counts) ronde__rank_keep_buffers(r);
  ronde__rank_drill(r, step->step);
  RONDE_TRY(job->strategy->step(r->strategy_state, step, &result));
  uint64_t end = ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  bool skipped = result.broken_rank >= 0;
  if (skipped && r->progress.skipped >= job->options->skip_bad_steps) return broken(r, step, &result);
  if (skipped) skip(r, step, &result);
  int64_t n = (job->strategy->asynchronous ? step->own_examples : step->examples) - result.n_left_out;
  r->then = r->now;
  count_step(r, epoch, step, &result, n, skipped);
  if (!result.passing) mark(r);
  ronde__step_report report = {step->step,
                               epoch->epoch,
                               n,
                               skipped || n == 0 || job->spans ? NAN : result.loss_sum / (double)n,
                               step->lr,
                               end - begin,
                               result.left_out,
                               result.n_evaluations};
  RONDE_TRY(tell_step(r, &report));
  RONDE_TRY(compare_replicas(r, step->step));
  /* Asynchronous ranks are at different steps when they hear of an end: that is no state of the run. */
  if (!job->strategy->asynchronous) RONDE_TRY(save(r, result.cancelled, result.cancelled, result.saves));
  else if (!result.cancelled) RONDE_TRY(meet_and_save(r, epoch));
  r->agreed = result.cancelled;
  return result.cancelled ? RONDE_E_CANCELLED : RONDE_OK;
}

/* ---- epochs ---- */

/* What each rank has of the test examples: where workers are lost, of those that are left. */
static ronde_status evaluate(ronde__rank *r, ronde__score *score_out) {
  const ronde__job *job = r->job;
  ronde__tests tests = ronde__job_tests(job);
  ronde__evaluation what = {.data = job->data,
                            .split = tests.split,
                            .ids = tests.ids,
                            .n = tests.n,
                            .rank = ronde__rank_has_lost(r) ? r->place : r->replica,
                            .n_workers = ronde__rank_has_lost(r) ? r->n_there : job->n_replicas,
                            .sizes_alone = !ronde__rank_reads(r),
                            .chunk = job->local_batch};
  if (what.n == 0) return RONDE_OK;
  RONDE_TRY(ronde__evaluate(r->net, &what, score_out));
  if (!ronde__rank_judges(r)) *score_out = (ronde__score){0};
  return RONDE_OK;
}

/* Everybody's share of the test examples; who is ready first waits here, in evaluation's time. The share of a worker that
 * is lost meanwhile is nobody's: once more, then. */
static ronde_status score(ronde__rank *r, ronde__epoch *epoch) {
  int n_before;
  note(r, RONDE__TESTING);
  ronde__prof_switch(r->prof, RONDE__PHASE_EVAL);
  RONDE_TRY(ronde__rank_share_buffers(r));
  do {
    n_before = r->n_there;
    RONDE_TRY(evaluate(r, &r->results[r->transport->rank].score));
    RONDE_TRY(ronde__rank_meet(r));
  } while (r->n_there < n_before);
  for (int i = 0; i < r->job->roles.n_workers; i++) {
    epoch->score.loss_sum += r->results[i].score.loss_sum;
    epoch->score.n_correct += r->results[i].score.n_correct;
    epoch->score.n += r->results[i].score.n;
  }
  epoch->has_score = epoch->score.n > 0;
  return RONDE_OK;
}

static ronde_status save_best(void *user) {
  ronde__rank *r = user;
  return ronde__weights_save(r->net, r->state.parts, r->job->best_path, r->job);
}

/* Replicas and scores are equal, so all ranks judge alike; rank 0 writes, and the others wait in the same phase. */
static ronde_status judge(ronde__rank *r, ronde__epoch *epoch) {
  const ronde__job *job = r->job;
  const ronde__options *o = job->options;
  double value = ronde__score_value(&epoch->score, ronde__source_classifies(&job->data->source));
  ronde__plateau_add(&r->progress.plateau, value, o->min_delta,
                     o->lr_schedule == RONDE__LR_SCHEDULE_PLATEAU ? o->lr_patience : 0);
  epoch->gave_up = ronde__progress_gave_up(&r->progress, job);
  epoch->reached = o->target_accuracy > 0 && value >= o->target_accuracy;
  int broken;
  if (!(value > r->progress.best.value)) return RONDE_OK;
  RONDE_TRY(ronde__rank_broken_parameter(r, &broken));
  if (broken >= 0) return RONDE_OK;
  r->progress.best = (ronde__best){value, epoch->epoch, epoch->last_step, epoch->score};
  epoch->is_best = true;
  if (!job->best_path) return RONDE_OK;
  ronde__prof_switch(r->prof, RONDE__PHASE_CHECKPOINT);
  RONDE_TRY(ronde__rank_tell_parts(r, save_best, r));
  return ronde__rank_meet(r);
}

/* Everybody's phases of the epoch, to everybody; rank 0 reports. */
static ronde_status close_epoch(ronde__rank *r, ronde__epoch *epoch, const uint64_t before[RONDE__N_PHASES],
                                bool with_score) {
  ronde__epoch_result *own = &r->results[r->transport->rank];
  *own = r->now.own;
  own->sums = epoch->sums;
  epoch->score = (ronde__score){0};
  epoch->has_score = epoch->is_best = epoch->reached = epoch->gave_up = false;
  RONDE_TRY(rank_settle(r));
  RONDE_TRY(rank_refresh(r));
  if (with_score) RONDE_TRY(score(r, epoch));
  if (epoch->has_score) RONDE_TRY(judge(r, epoch));
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  ronde__prof_totals(r->prof, own->ns);
  for (int p = 0; p < RONDE__N_PHASES; p++) own->ns[p] -= before[p];
  RONDE_TRY(ronde__rank_meet(r));
  epoch->results = r->results;
  if (r->job->strategy->asynchronous) {
    epoch->sums = sum_results(r->results, r->job->roles.n_workers, epoch->sums.steps);
    epoch->examples = 0;
    for (int i = 0; i < r->job->roles.n_workers; i++) epoch->examples += r->results[i].examples;
    r->progress.sums = epoch->sums;
  }
  return r->reporter && r->reporter->epoch ? r->reporter->epoch(r->reporter->user, epoch) : RONDE_OK;
}

/* The last update is followed by no step that would notice; replicas and scores are equal, so all ranks agree. */
static ronde_status check_numbers(ronde__rank *r, const ronde__epoch *epoch, int64_t step) {
  int param;
  RONDE_TRY(ronde__rank_broken_parameter(r, &param));
  r->agreed = true;
  bool speaks = r->transport->rank == 0;
  if (param >= 0)
    return speaks ? ronde__fail(RONDE_E_NUMERIC, "step %" PRId64 ": its update left NaN or Inf in %s, on every rank",
                                step, r->graph->params[param].name)
                  : RONDE_E_NUMERIC;
  if (!isfinite(epoch->score.loss_sum))
    return speaks ? ronde__fail(RONDE_E_NUMERIC, "step %" PRId64 ": the %s loss after it is NaN or Inf, on every rank",
                                step, ronde__job_tests(r->job).name)
                  : RONDE_E_NUMERIC;
  r->agreed = false;
  return RONDE_OK;
}

static bool wants_score(const ronde__rank *r, int64_t epoch, bool at_end) {
  int64_t every = r->job->options->eval_every;
  return r->max_steps == 0 && !r->job->spans && (at_end || (every > 0 && epoch % every == 0));
}

/* Unless it goes on after a loss. */
static ronde_status begin_epoch(ronde__rank *r, int64_t number, bool from_first_step) {
  if (r->now.epoch.epoch == number) return RONDE_OK;
  r->then = r->now;
  r->now = (ronde__tally){.step = r->progress.step, .epoch = {.epoch = number}};
  ronde__prof_totals(r->prof, r->now.before_ns);
  return from_first_step ? ronde__rank_share_out(r, number) : RONDE_OK;
}

static ronde_status one_epoch(ronde__rank *r, int64_t number, int64_t last_step, bool *ends_out) {
  const ronde__job *job = r->job;
  ronde__epoch *epoch = &r->now.epoch;
  int64_t first = r->progress.step - (number - 1) * job->steps_per_epoch;
  ronde_status status = RONDE_OK;
  RONDE_TRY(begin_epoch(r, number, first == 0));
  if (first > 0) {
    epoch->sums = r->progress.sums;
    epoch->lr = rate(r, r->progress.step);
  }
  for (int64_t i = first; i < job->steps_per_epoch && r->progress.step < last_step && status == RONDE_OK; i++) {
    ronde__step step = {.step = r->progress.step + 1};
    step_size(job, i, &step);
    RONDE_TRY(weigh_labels(r, number, i, &step));
    status = one_step(r, epoch, &step);
  }
  /* What was done up to a cancellation or to broken numbers is reported too. */
  if (status != RONDE_OK && !r->agreed) return status;
  if (job->strategy->asynchronous && !r->met) {
    ronde_status met = rank_meet(r, epoch, &status);
    if (met != RONDE_OK) r->agreed = false;
    RONDE_TRY(met);
  }
  epoch->last_step = r->progress.step;
  bool with_score = status == RONDE_OK && wants_score(r, number, r->progress.step == last_step);
  ronde_status closed = close_epoch(r, epoch, r->now.before_ns, with_score);
  if (closed != RONDE_OK) r->agreed = false;
  RONDE_TRY(closed);
  *ends_out = epoch->reached || epoch->gave_up;
  if (status == RONDE_OK) status = check_numbers(r, epoch, r->progress.step);
  r->progress.closed = status == RONDE_OK;
  if (job->regroups && r->progress.closed) r->behind[0] = r->progress;
  return status;
}

/* Asynchronous ranks have met: without --checkpoint-every that is what there is to go on from. */
static ronde_status save_epoch(ronde__rank *r, int64_t last_step) {
  const ronde__job *job = r->job;
  bool due = job->checkpoint_steps ? is_due(r, false, false) : job->options->save_last;
  bool saves = job->options->out && job->strategy->asynchronous && r->progress.step < last_step;
  return saves && due ? write_state(r, false, false) : RONDE_OK;
}

/* From where the run is to its end, or to a loss. */
static ronde_status train_epochs(ronde__rank *r, int64_t last) {
  int64_t epoch = ronde__progress_epoch(&r->progress, r->job);
  ronde_status status = RONDE_OK;
  bool ends = r->progress.closed && (r->progress.step >= last || ronde__progress_is_over(&r->progress, r->job));
  while (!ends && status == RONDE_OK) {
    status = one_epoch(r, epoch++, last, &ends);
    if (status == RONDE_OK && !ends) status = save_epoch(r, last);
    ends |= r->progress.step >= last;
  }
  return status;
}

ronde_status ronde__rank_train(ronde__rank *r) {
  int64_t last = r->max_steps ? ronde__min(r->max_steps, r->job->steps) : r->job->steps;
  ronde_status status;
  bool ended = !r->job->regroups;
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  ronde__worker_start(&r->worker);
  do {
    status = train_epochs(r, last);
    bool ends = status == RONDE_OK || r->agreed;
    if (!ends && !ronde__rank_is_halted(r, status)) return status;
    ronde_status met = ended ? RONDE_OK : ronde__rank_regroup(r, ends, &ended);
    if (met != RONDE_OK) r->agreed = false;
    RONDE_TRY(met);
  } while (!ended);
  note(r, RONDE__ENDING);
  bool saves = r->job->options->save_last || r->job->checkpoint_steps || r->job->checkpoint_ns;
  return status == RONDE_OK && saves ? save(r, true, false, false) : status;
}

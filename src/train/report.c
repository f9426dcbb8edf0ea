/* What a run tells: progress, steps.jsonl, run.json, the plan of --dry-run. */
#include "state/predictor.h"
#include "train/run.h"
#include "job/split.h"
#include "base/json.h"
#include "job/spans_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double seconds(uint64_t ns) { return (double)ns * 1e-9; }

/* Where this process took over; 0: at the start. */
static int64_t resumed_step(const ronde__job *job) { return job->resume ? job->resume->progress.step : 0; }

ronde_status ronde__report_step(void *user, const ronde__step_report *report) {
  ronde__run *r = user;
  const ronde__job *job = r->job;
  r->steps_ns += report->ns;
  if (r->n_steps++ == 0) r->cold_ns = report->ns;
  if (r->examples_done == 0) r->first_loss = report->loss;
  r->last_loss = report->loss;
  r->examples_done += report->examples;
  if (r->step_seconds) r->step_seconds[r->n_step_seconds++] = seconds(report->ns);
  if (r->steps) {
    ronde__steps_line line = {report->step, report->epoch,       report->examples, report->loss,
                              report->lr,   seconds(report->ns), report->left_out, report->n_evaluations};
    RONDE_TRY(ronde__steps_add(r->steps, &line));
  }
  if (!job->hooks.progress) return RONDE_OK;
  double elapsed = seconds(ronde__run_now(r) - r->first_step_ns);
  ronde_progress progress = {
      .step = report->step,
      .steps = job->steps,
      .epoch = report->epoch,
      .loss = report->loss,
      .lr = report->lr,
      .examples_per_s = r->steps_ns ? (double)r->examples_done / seconds(r->steps_ns) : 0,
      .elapsed_s = elapsed,
      .left_s = elapsed / (double)(report->step - resumed_step(job)) * (double)(job->steps - report->step),
      .train_accuracy = -1,
      .test_accuracy = -1};
  job->hooks.progress(job->hooks.user, &progress);
  return RONDE_OK;
}

/* Numbers that are finite, but far worse than guessing, at the epoch's end as in its mean, and than at the start. */
static void warn_of_loss(ronde__run *r, const ronde__record_epoch *row) {
  int64_t classes = r->job->data->source.classes;
  double guessing = log((double)ronde__max(2, classes)), bound = fmax(3 * guessing, r->first_loss);
  if (classes == 0 || r->warned_of_loss || !(row->train_loss > bound && r->last_loss > bound)) return;
  r->warned_of_loss = true;
  ronde__log(RONDE_LOG_WARNING,
             "epoch %" PRId64
             ": the mean loss is %.4g, but guessing would give %.4g: training diverges; a smaller --lr, --warmup or "
             "--clip may help",
             row->epoch, row->train_loss, guessing);
}

/* What the epoch's test says of the run. */
static void note_test(ronde__run *r, const ronde__epoch *e, const ronde__record_epoch *row) {
  ronde__record *record = &r->record;
  if (e->is_best)
    record->best = (ronde__record_best){e->epoch, e->last_step, row->test_loss, row->test_accuracy,
                                        r->job->best_path ? RONDE__BEST_NAME : NULL};
  if (e->gave_up)
    record->early_stop = (ronde__record_early_stop){r->job->options->patience, true, e->epoch, e->last_step};
  if (!e->reached) return;
  ronde__record_target *target = &record->target;
  *target = (ronde__record_target){.reached = true, .epoch = e->epoch, .step = e->last_step};
  for (int i = 0; i < record->n_epochs; i++) target->train_s += record->epochs[i].wall_s;
  target->wall_s = seconds(ronde__run_now(r) - r->first_step_ns);
}

static void tell_epoch(ronde__run *r, const ronde__epoch *e, const ronde__record_epoch *row) {
  const ronde__job *job = r->job;
  if (!job->hooks.progress || e->steps == 0) return;
  int64_t resumed = resumed_step(job), step = resumed;
  for (int i = 0; i < r->record.n_epochs; i++) step += r->record.epochs[i].steps;
  double elapsed = seconds(ronde__run_now(r) - r->first_step_ns);
  ronde_progress progress = {.step = step,
                             .steps = job->steps,
                             .epoch = e->epoch,
                             .loss = row->train_loss,
                             .lr = e->lr,
                             .examples_per_s = row->wall_s > 0 ? (double)row->examples / row->wall_s : 0,
                             .elapsed_s = elapsed,
                             .left_s = elapsed / (double)(step - resumed) * (double)(job->steps - step),
                             .epoch_end = true,
                             .train_accuracy = isnan(row->train_accuracy) ? -1 : row->train_accuracy,
                             .test_loss = row->test_loss,
                             .test_accuracy = isnan(row->test_accuracy) ? -1 : row->test_accuracy,
                             .tested_on = ronde__job_tests(job).name};
  job->hooks.progress(job->hooks.user, &progress);
}

ronde_status ronde__report_epoch(void *user, const ronde__epoch *e) {
  ronde__run *r = user;
  const ronde__job *job = r->job;
  bool has_classes = ronde__source_classifies(&job->data->source);
  double n = (double)ronde__max(1, e->sums.examples), n_score = (double)ronde__max(1, e->score.n);
  uint64_t cpu = ronde__cpu_ns();
  int n_here = 0;
  for (int w = 0; w < job->roles.n_workers; w++) n_here += e->results[w].here != 0;
  ronde__record_epoch row = {
      .epoch = e->epoch,
      .steps = e->steps,
      .examples = e->examples,
      .left_out_examples = e->left_out,
      .cpu_s = job->sim ? NAN : seconds(cpu - r->epoch_cpu_ns),
      .lr = e->lr,
      .train_loss = e->sums.steps && !job->spans ? e->sums.loss_sum / n : NAN,
      .train_accuracy = has_classes && e->sums.steps && !job->spans ? (double)e->sums.n_correct / n : NAN,
      .test_loss = e->has_score ? e->score.loss_sum / n_score : NAN,
      .test_accuracy = e->has_score && has_classes ? (double)e->score.n_correct / n_score : NAN};
  r->epoch_cpu_ns = cpu;
  for (int w = 0; w < job->roles.n_workers; w++) {
    ronde__record_worker *worker = &r->workers[w];
    worker->examples += e->results[w].examples;
    worker->dropped_parts += e->results[w].dropped;
    worker->missed_parts += e->results[w].missed;
    for (int p = 0; p < RONDE__N_PHASES; p++) {
      double s = seconds(e->results[w].ns[p]);
      bool apart = p == RONDE__PHASE_EVAL || p == RONDE__PHASE_CHECKPOINT;
      worker->phase_s[p] += s;
      row.phase_s[p] += s / n_here;
      if (!apart) worker->wall_s += s, row.wall_s += s / n_here;
    }
  }
  if (!job->sim) ronde__energy_update(&r->record.energy);
  RONDE_TRY(ronde__record_add_epoch(&r->record, &row));
  if (job->options->out) RONDE_TRY(ronde__epochs_add(job->options->out, &row, e->last_step));
  note_test(r, e, &row);
  warn_of_loss(r, &row);
  tell_epoch(r, e, &row);
  if (e->gave_up)
    ronde__log(RONDE_LOG_INFO,
               "stopped after epoch %" PRId64 ": the last %" PRId64 " tests were no better than that of epoch %" PRId64,
               e->epoch, r->record.early_stop.patience, r->record.best.epoch);
  return RONDE_OK;
}

ronde_status ronde__report_saving(void *user) {
  ronde__run *r = user;
  return r->steps ? ronde__steps_flush(r->steps) : RONDE_OK;
}

bool ronde__report_cancel(void *user) {
  ronde__run *r = user;
  return r->job->hooks.cancel && r->job->hooks.cancel(r->job->hooks.user);
}

/* ---- the record ---- */

static void fill_model_and_data(ronde__run *r) {
  const ronde__job *job = r->job;
  const ronde_graph *graph = r->ranks[0].graph;
  ronde__record *record = &r->record;
  double executed = 0;
  for (int s = 0; s < job->n_stages && job->stages; s++) executed += job->stages[s].size.flops;
  if (!job->stages) executed = ronde__net_executed_flops(r->ranks[0].net, job->local_batch);
  record->model = (ronde__record_model){job->model_name,
                                        ronde__job_padding(job),
                                        job->new_head,
                                        ronde_graph_parameters(graph),
                                        ronde__graph_trained_parameters(graph),
                                        ronde_graph_forward_flops(graph),
                                        ronde__graph_train_flops(graph),
                                        job->spans ? -1 : (int64_t)(executed / (double)job->local_batch),
                                        job->init_path,
                                        job->file ? ronde__onnx_sha256(job->file) : NULL};
}

static void fill_resumed(ronde__run *r) {
  const ronde__job *job = r->job;
  const ronde__best *best = &job->resume->progress.best;
  double n = (double)ronde__max(1, best->score.n);
  r->record.resumed = (ronde__record_resumed){job->resume->path, job->resume->progress.step};
  if (r->record.best.epoch || !best->epoch) return;
  bool kept = job->best_path && access(job->best_path, R_OK) == 0;
  r->record.best =
      (ronde__record_best){best->epoch, best->step, best->score.loss_sum / n,
                           ronde__source_classifies(&job->data->source) ? (double)best->score.n_correct / n : NAN,
                           kept ? RONDE__BEST_NAME : NULL};
}

static void fill_run(ronde__run *r) {
  const ronde__job *job = r->job;
  ronde__record *record = &r->record;
  const ronde_source *source = &job->data->source;
  ronde__tests tests = ronde__job_tests(job);
  bool validates = tests.name && !strcmp(tests.name, "validation");
  record->isa = job->compute.kernels->isa;
  record->data = (ronde__record_data){.name = source->name,
                                      .sha256 = job->data->sha256,
                                      .train_examples = source->n_examples[RONDE_SPLIT_TRAIN],
                                      .test_examples = source->n_examples[RONDE_SPLIT_TEST],
                                      .rank = source->rank,
                                      .classes = source->classes,
                                      .skipped_images = job->data->n_skipped,
                                      .tested_on = tests.name,
                                      .validation_examples = validates ? tests.n : 0};
  memcpy(record->data.dims, source->dims, sizeof record->data.dims);
  record->config = ronde__config_json(job->config);
  r->choices[0] = (ronde__record_choice){.choice = "isa", .value = job->compute.kernels->isa};
  r->choices[1] = (ronde__record_choice){.choice = "gemm", .value = ronde__gemm_name(job->compute.gemm)};
  record->choices = r->choices;
  r->choices[2] = (ronde__record_choice){.choice = "update", .value = job->fused_update ? "fused" : "apart"};
  r->choices[3] = (ronde__record_choice){.choice = "bf16", .value = ronde__bf16_name(job->compute.bf16)};
  record->n_choices = 4;
  record->target.accuracy = job->options->target_accuracy;
  record->early_stop.patience = job->options->patience;
  const ronde__allreduce *collective = r->ranks[0].settings.collective;
  if (job->roles.n_workers > 1 && collective)
    r->choices[record->n_choices++] =
        (ronde__record_choice){"collective", collective->name, r->ranks[0].collective_reason, NULL};
  if (job->strategy_reason)
    r->choices[record->n_choices++] =
        (ronde__record_choice){"strategy", job->strategy->name, job->strategy_reason, job->strategy_costs};
  int n_servers;
  ronde__roles_of(&job->roles, "server", &n_servers);
  record->world =
      (ronde__record_world){job->roles.n_workers, n_servers,        job->threads,      r->transports[0]->ops->name,
                            job->strategy->name,  job->sim != NULL, job->spans != NULL};
  if (job->resume) fill_resumed(r);
  record->restarts = job->hooks.restarts;
  record->skipped_steps = r->ranks[0].progress.skipped - (job->resume ? job->resume->progress.skipped : 0);
  if (r->ranks[0].saver) record->checkpoints = ronde__saver_written(r->ranks[0].saver);
  record->workers = r->workers;
  record->n_workers = job->roles.n_members;
}

/* Whom the others have gone on without, and have missed where they met. */
static void fill_losses(ronde__run *r) {
  const ronde__rank *first = &r->ranks[0];
  uint64_t now_ns = ronde__run_now(r);
  r->record.losses = r->losses;
  for (int w = 0; w < r->job->roles.n_workers && ronde__rank_has_lost(first); w++) {
    ronde__record_loss *row = &r->losses[r->record.n_losses];
    ronde__loss *loss = &r->lost[w];
    if (first->results[w].here || !first->transport->ops->lost(first->transport, w, loss)) continue;
    *row = (ronde__record_loss){.rank = w, .host = loss->host, .step = loss->doing.step};
    row->after_s = loss->at_ns > r->first_step_ns ? seconds(loss->at_ns - r->first_step_ns) : 0;
    row->behind_step = r->job->regroups ? first->world.since[w] : -1;
    row->ago_s = r->job->sim ? NAN : seconds(now_ns - loss->at_ns);
    r->workers[w].host = loss->host;
    r->record.n_losses++;
  }
}

/* The memory of the process is told by the worker that it lives beside. */
static void fill_member(ronde__record_worker *row, const ronde__job *job, const ronde__member *member,
                        const ronde__rank_facts *facts) {
  const ronde__rank_facts *own = &facts[member->rank];
  int nth = 0;
  row->host = own->host;
  if (!ronde__member_is_beside(&job->roles, member)) {
    row->peak_rss_bytes = own->peak_rss_bytes;
    row->needed_bytes = ronde__memory_needed(job, member->rank);
  }
  while (ronde__roles_at(&job->roles, member->rank, nth) != member) nth++;
  for (int p = 0; p < RONDE__N_PHASES; p++) {
    row->phase_s[p] = seconds(own->service_ns[nth][p]);
    row->wall_s += row->phase_s[p];
  }
}

/* Of a network in stages, as it was foreseen before the run. */
static void add_prediction(const ronde__job *job, json_t *object) {
  json_object_set_new(object, "predicted_step_s", json_real(job->step_s));
  json_object_set_new(object, "predicted_bubble_s", json_real(job->bubble_s));
  json_object_set_new(object, "predicted_from", json_string(job->stage_costs ? "spans" : "model"));
}

/* What the strategy tells of it, and beside what was foreseen of a step what it took, but for the first, which is cold. */
static void fill_strategy(ronde__run *r) {
  const ronde__strategy *strategy = r->job->strategy;
  const ronde__rank *first = &r->ranks[0];
  if (!strategy->record || !first->strategy_state) return;
  r->record.communication.of_strategy = json_object();
  strategy->record(first->strategy_state, first->strategy_facts, first->strategy_facts ? r->job->roles.n_ranks : 0,
                   r->record.communication.of_strategy);
  if (!r->job->stages) return;
  add_prediction(r->job, r->record.communication.of_strategy);
  if (r->n_steps > 1)
    json_object_set_new(r->record.communication.of_strategy, "step_s",
                        json_real(seconds(r->steps_ns - r->cold_ns) / (double)(r->n_steps - 1)));
}

/* What the ranks told of themselves; nothing where they could not meet at the end. */
static void fill_facts(ronde__run *r) {
  const ronde__rank_facts *facts = r->ranks[0].facts;
  ronde__record_communication *communication = &r->record.communication;
  for (int i = 0; i < r->job->roles.n_workers; i++) r->workers[i].needed_bytes = ronde__memory_needed(r->job, i);
  for (int i = 0; i < r->job->roles.n_workers && facts; i++) {
    if (!facts[i].host[0]) continue; /* it is lost */
    r->workers[i].host = facts[i].host;
    r->workers[i].peak_rss_bytes = facts[i].peak_rss_bytes;
    r->workers[i].optimizer_bytes = facts[i].optimizer_bytes;
  }
  for (int i = r->job->roles.n_workers; i < r->job->roles.n_members && facts; i++)
    fill_member(&r->workers[i], r->job, &r->job->roles.members[i], facts);
  fill_strategy(r);
  for (int i = 0; i < r->job->roles.n_ranks && facts; i++) {
    communication->bytes_sent += (int64_t)facts[i].bytes_sent;
    communication->bytes_received += (int64_t)facts[i].bytes_received;
    communication->messages += (int64_t)facts[i].messages;
  }
}

static ronde_status fill_results(ronde__run *r) {
  ronde__record *record = &r->record;
  const ronde__rank *first = &r->ranks[0];
  int n_ops = first->n_ops;
  fill_facts(r);
  fill_losses(r);
  for (int i = 0; i < r->job->roles.n_workers && first->straggler; i++) {
    r->late[i] = ronde__straggler_row_of(first->straggler, i);
    r->workers[i].late = &r->late[i];
  }
  return ronde__record_add_ops(record, first->facts ? first->ops : ronde__prof_ops(first->prof, &n_ops), n_ops);
}

/* Of the workers of this process: of others, all have written theirs together, or could not meet. */
static ronde_status write_trace(const ronde__run *r) {
  ronde__prof **profs;
  int n = (int)ronde__min(r->job->roles.n_workers, r->n_ranks);
  if (r->ranks[0].traced) return RONDE_OK;
  RONDE__ALLOC(profs, (size_t)n * sizeof *profs, "trace");
  for (int i = 0; i < n; i++) profs[i] = r->ranks[i].prof;
  char *path = ronde__format("%s/trace.json", r->job->options->out);
  ronde_status status =
      path ? ronde__prof_write_trace(profs, n, path) : ronde__fail(RONDE_E_MEMORY, "trace: no memory for its name");
  ronde__free(profs);
  free(path);
  return status;
}

static ronde_status save_last(const ronde__run *r) {
  char *path = ronde__format("%s/" RONDE__LAST_NAME, r->job->options->out);
  if (!path) return ronde__fail(RONDE_E_MEMORY, RONDE__LAST_NAME ": no memory for its name");
  ronde_status status = ronde__weights_save(r->ranks[0].net, r->ranks[0].state.parts, path, r->job);
  free(path);
  return status;
}

static ronde_status hash_weights(ronde__run *r) {
  const ronde__rank *first = &r->ranks[0];
  ronde__record *record = &r->record;
  RONDE_TRY(ronde__weights_sha256(first->net, first->state.parts, r->weights_sha256));
  RONDE_TRY(ronde__state_sha256(first->net, first->state.parts, r->state_sha256));
  record->weights_sha256 = r->weights_sha256;
  record->state_sha256 = r->state_sha256;
  return RONDE_OK;
}

/* Not where ranks ended apart from one another: messages may still be under way into the weights. */
static bool belong_to_a_step(const ronde__run *r, ronde_status ended) {
  bool together = ended == RONDE_OK || r->ranks[0].agreed, half = ended == RONDE_E_NUMERIC && r->job->fused_update;
  return together && !half && !r->job->spans;
}

ronde_status ronde__report_weights(ronde__run *r, ronde_status ended) {
  const ronde__options *o = r->job->options;
  const ronde__rank *first = &r->ranks[0];
  bool whole = ended == RONDE_OK || ended == RONDE_E_CANCELLED;
  if (belong_to_a_step(r, ended)) RONDE_TRY(hash_weights(r));
  if (o->out && o->save_last && whole) RONDE_TRY(save_last(r));
  if (o->save && whole) RONDE_TRY(ronde__weights_save(first->net, first->state.parts, o->save, r->job));
  if (!r->predictor_out || !whole) return RONDE_OK;
  return ronde__predictor_create(r->job, first->net, first->state.parts, &r->job->data->normalization,
                                 r->predictor_out);
}

static ronde_status write_spans(const ronde__run *r) {
  ronde__spans *spans;
  RONDE_TRY(ronde__recorder_finish(r->ranks[0].recorder, &spans));
  spans->model = ronde__strdup(r->job->model_name);
  spans->threads = r->job->threads;
  ronde_status status = spans->model ? ronde__spans_write(spans, r->job->options->record_spans)
                                     : ronde__fail(RONDE_E_MEMORY, "--record-spans: no memory");
  ronde__spans_destroy(spans);
  return status;
}

static void warn_of_target(const ronde__record *record) {
  const ronde__record_target *target = &record->target;
  if (record->status != RONDE_OK || target->accuracy == 0 || target->reached) return;
  ronde__log(RONDE_LOG_WARNING, "the accuracy of %g was not reached: the best was %.4f, in epoch %" PRId64,
             target->accuracy, record->best.test_accuracy, record->best.epoch);
}

ronde_status ronde__report_write(ronde__run *r, char **json_out) {
  const ronde__options *o = r->job->options;
  ronde__record *record = &r->record;
  ronde_status status = RONDE_OK;
  record->setup_s = r->first_step_ns ? seconds(r->first_step_ns - r->begin_ns) : NAN;
  bool trained = r->ranks[0].net && r->first_step_ns;
  fill_run(r);
  if (trained) {
    fill_model_and_data(r);
    status = fill_results(r);
    if (status == RONDE_OK) status = r->job->n_stages > 1 ? r->kept : ronde__report_weights(r, r->status);
    if (status == RONDE_OK && o->trace && o->out) status = write_trace(r);
    if (status == RONDE_OK && o->record_spans && r->status == RONDE_OK) status = write_spans(r);
  }
  record->status = status == RONDE_OK ? r->status : status;
  warn_of_target(record);
  record->wall_s = seconds(ronde__run_now(r) - r->begin_ns);
  if (!r->job->sim) {
    record->cpu_s = seconds(ronde__cpu_ns() - r->begin_cpu_ns);
    record->peak_rss_bytes = ronde__peak_rss_bytes();
  }
  /* Of all processes; the others' whole lives are the run. */
  for (int i = 1; i < r->job->roles.n_ranks && r->job->mpi && r->ranks[0].facts; i++) {
    record->cpu_s += seconds(r->ranks[0].facts[i].cpu_ns);
    record->peak_rss_bytes += ronde__max(0, r->ranks[0].facts[i].peak_rss_bytes);
  }
  if (!r->job->sim) ronde__energy_update(&record->energy);
  char *json;
  RONDE_TRY(ronde__record_json(record, &json));
  ronde_status written = o->out ? ronde__record_write(o->out, json) : RONDE_OK;
  if (json_out) *json_out = json;
  else free(json);
  return status != RONDE_OK ? status : written;
}

/* ---- --dry-run ---- */

/* Whose gradients will count: a strategy may leave out the parts of the slowest workers of each step. */
static int64_t planned_examples(const ronde__run *r) {
  const ronde__job *job = r->job;
  int64_t epochs = job->steps / job->steps_per_epoch, rest = job->steps % job->steps_per_epoch;
  int64_t n = epochs * ronde__sampler_epoch_examples(job->sampler) + rest * job->options->accumulate * job->batch;
  const ronde__strategy *strategy = job->strategy;
  int n_workers = job->roles.n_workers;
  int n_counted = strategy->n_counted ? strategy->n_counted(&r->ranks[0].settings, n_workers) : n_workers;
  return n * n_counted / n_workers;
}

/* What it will train on, and how: what runs must have in common to be compared. */
static json_t *work_json(const ronde__run *r) {
  const ronde__job *job = r->job;
  return json_pack("{s:b, s:I, s:s?, s:s, s:o, s:s, s:I, s:I, s:o}", "simulated", job->sim != NULL,
                   "train_flops_per_example", (json_int_t)ronde__graph_train_flops(r->ranks[0].graph), "padding",
                   ronde__job_padding(job), "dtype", ronde_config_get(job->config, "dtype"), "data",
                   ronde__json_text(job->data->source.name), "data_sha256", job->data->sha256, "data_examples",
                   (json_int_t)job->data->source.n_examples[RONDE_SPLIT_TRAIN], "examples",
                   (json_int_t)planned_examples(r), "config", ronde__config_json(job->config));
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of all ranks together, given a worker's and the bytes of an optimizer's whole state. */
static size_t memory_of(const ronde__job *job, const ronde__net_memory *memory, size_t optimizer) {
  ronde__strategy_settings settings = {.options = job->options, .roles = &job->roles};
  size_t n_workers = (size_t)job->roles.n_workers, bytes = 0;
  for (int r = 0; r < job->roles.n_workers && job->stages; r++)
    bytes += (size_t)ronde__rank_memory_sum(&job->memory[r]);
  if (job->stages) return bytes;
  size_t more = job->strategy->more_bytes ? job->strategy->more_bytes(&settings, memory->gradients, optimizer)
                                          : optimizer * n_workers;
  if (job->strategy->recovery_bytes)
    more += job->strategy->recovery_bytes(&settings, memory->gradients, optimizer) * n_workers;
  return (memory->parameters + memory->gradients + memory->arena) * n_workers + more;
}

size_t ronde__memory_of_run(const ronde__run *r, const ronde__net_memory *memory, size_t optimizer) {
  const ronde__strategy *strategy = r->job->strategy;
  size_t master = strategy->master_bytes ? strategy->master_bytes(r->ranks[0].strategy_state) : 0;
  return memory_of(r->job, memory, optimizer) + master;
}

static json_t *memory_json(const ronde__run *r) {
  const ronde__job *job = r->job;
  ronde__net_memory memory = ronde__net_memory_use(r->ranks[0].net);
  size_t optimizer = ronde__optim_state_bytes(&job->optim, ronde__net_n_trained(r->ranks[0].net));
  const ronde__optim *held = r->ranks[0].optim;
  size_t of_rank = (size_t)ronde__optim_n_states(held) * ronde__optim_elems(held) * sizeof(float);
  size_t total = ronde__memory_of_run(r, &memory, optimizer);
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)memory.parameters, "gradients",
                   (json_int_t)memory.gradients, "optimizer", (json_int_t)of_rank, "arena", (json_int_t)memory.arena,
                   "total", (json_int_t)total);
}

static json_t *stage_json(const ronde__job *job, const ronde_graph *graph, int s) {
  const ronde__job_stage *stage = &job->stages[s];
  const ronde__stage_size *size = &stage->size;
  const ronde__rank_memory *m = &job->memory[s];
  double all = 0, n = (double)job->local_batch;
  for (int i = 0; i < job->n_stages; i++) all += job->stages[i].seconds;
  json_t *memory = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "parameters", (json_int_t)m->parameters,
                             "gradients", (json_int_t)m->gradients, "optimizer", (json_int_t)m->optimizer, "arena",
                             (json_int_t)m->activations, "loader", (json_int_t)m->loader, "exchange",
                             (json_int_t)m->exchange, "total", (json_int_t)ronde__rank_memory_sum(m));
  return json_pack("{s:i, s:s, s:s, s:f, s:f, s:I, s:o, s:I, s:i, s:I}", "stage", s, "first",
                   graph->nodes[stage->begin].label, "last", graph->nodes[stage->end - 1].label, "share",
                   stage->seconds / all, "predicted_s", stage->seconds, "parameters", (json_int_t)size->parameters,
                   "memory_bytes", memory, "executed_flops_per_example", (json_int_t)(size->flops / n),
                   "micro_batches_under_way", ronde__job_passes(job, s), "sent_bytes_per_example",
                   (json_int_t)(size->sent_bytes / n));
}

static void add_stages(const ronde__run *r, json_t *plan) {
  const ronde__job *job = r->job;
  json_t *list = json_array();
  for (int s = 0; s < job->n_stages; s++) json_array_append_new(list, stage_json(job, r->ranks[0].graph, s));
  json_object_set_new(plan, "stages", list);
  add_prediction(job, plan);
}

ronde_status ronde__report_plan(const ronde__run *r, char **json_out) {
  const ronde__job *job = r->job;
  const ronde_graph *graph = r->ranks[0].graph;
  double *s = r->step_seconds;
  qsort(s, (size_t)r->n_step_seconds, sizeof *s, ascending);
  json_t *plan =
      json_pack("{s:s, s:I, s:I, s:I, s:i, s:i, s:s, s:I, s:I, s:o, s:f, s:I}", "model", job->model_name, "parameters",
                (json_int_t)ronde_graph_parameters(graph), "trained_parameters",
                (json_int_t)ronde__graph_trained_parameters(graph), "forward_flops_per_example",
                (json_int_t)ronde_graph_forward_flops(graph), "workers", job->roles.n_workers, "threads_per_worker",
                job->threads, "strategy", job->strategy->name, "batch", (json_int_t)job->batch, "steps",
                (json_int_t)job->steps, "memory_bytes", memory_json(r), "estimated_s",
                s[r->n_step_seconds / 2] * (double)job->steps, "estimated_from_steps", (json_int_t)r->n_step_seconds);
  json_t *work = work_json(r);
  if (plan && job->stages) add_stages(r, plan);
  bool is_whole = plan && work && json_object_update(plan, work) == 0;
  char *text = is_whole ? json_dumps(plan, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
  json_decref(work);
  json_decref(plan);
  if (!text) return ronde__fail(RONDE_E_MEMORY, "dry run: no memory for the plan");
  if (json_out) *json_out = text;
  else free(text);
  return RONDE_OK;
}

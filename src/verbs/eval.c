/* ronde_eval: loss and accuracy of given weights on one part of the data, by one or several ranks as threads. */
#include "job/job.h"

#include "base/log_group.h"
#include "io/sha256.h"
#include "setup/setup.h"
#include "job/evaluate.h"
#include "job/split.h"
#include "state/weights.h"
#include "base/json.h"
#include "verbs/verdicts.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The examples that --split means. */
typedef struct part {
  const char *name; /* test, val, train; all: the data have no such parts */
  ronde_split split;
  const int64_t *ids; /* [n] of the split, to be freed where they are owned; NULL: all of it */
  int64_t n, *owned;
} part;

typedef struct rank {
  const ronde__job *job;
  const part *part;
  ronde__verdict *verdicts; /* of all ranks' examples; NULL: there are no classes */
  atomic_bool *cancelled;   /* shared by the ranks, */
  ronde__log_group *errors; /* and so is this */
  int number;
  ronde_status status;
  ronde__score score;
  char sha256[RONDE__SHA256_HEX];
} rank;

/* Rank 0 asks, the others hear of it. */
static bool is_cancelled(void *user) {
  rank *r = user;
  const ronde_hooks *hooks = &r->job->hooks;
  if (r->number == 0 && hooks->cancel && hooks->cancel(hooks->user)) atomic_store(r->cancelled, true);
  return atomic_load(r->cancelled);
}

static ronde_status evaluate(rank *r, ronde__net *net) {
  const ronde__job *job = r->job;
  if (r->number == 0) RONDE_TRY(ronde__weights_sha256(net, r->sha256));
  ronde__evaluation what = {.data = job->data,
                            .split = r->part->split,
                            .ids = r->part->ids,
                            .n = r->part->n,
                            .rank = r->number,
                            .world = job->world,
                            .chunk = job->local_batch,
                            .verdicts = r->verdicts,
                            .cancel = is_cancelled,
                            .user = r};
  return ronde__evaluate(net, &what, &r->score);
}

static ronde_status run_rank(rank *r) {
  const ronde__job *job = r->job;
  ronde_graph *graph = NULL;
  ronde__pool *pool = NULL;
  ronde__net *net = NULL;
  ronde_status status = ronde__job_graph(job, &graph);
  if (status == RONDE_OK) status = ronde__pool_create(job->threads, &pool);
  if (status == RONDE_OK) {
    ronde__net_options options = ronde__job_net_options(job, pool, NULL, false);
    status = ronde__net_create(graph, &options, &net);
  }
  if (status == RONDE_OK) {
    ronde__weights_load(net, job->init, false);
    status = evaluate(r, net);
  }
  ronde__net_destroy(net);
  ronde__pool_destroy(pool);
  ronde_graph_destroy(graph);
  return status;
}

static void *thread_main(void *arg) {
  rank *r = arg;
  ronde__log_set_group(r->errors);
  r->status = run_rank(r);
  ronde__log_set_group(NULL);
  return NULL;
}

static ronde_status run_ranks(const ronde__job *job, rank *ranks) {
  pthread_t *threads;
  RONDE__ALLOC(threads, (size_t)job->world * sizeof *threads, "evaluation");
  int n_started = 1;
  for (; n_started < job->world; n_started++)
    if (pthread_create(&threads[n_started], NULL, thread_main, &ranks[n_started])) break;
  thread_main(&ranks[0]);
  for (int i = 1; i < n_started; i++) pthread_join(threads[i], NULL);
  ronde__free(threads);
  if (n_started < job->world) return ronde__fail(RONDE_E_MEMORY, "cannot start a thread for rank %d", n_started);
  for (int i = 0; i < job->world; i++) RONDE_TRY(ranks[i].status);
  return RONDE_OK;
}

/* ---- which examples ---- */

/* Makes the run's split again: job->sampler. */
static ronde_status split_again(ronde__job *job) {
  return ronde__split_again(&job->kept_out, job->data, &job->sampler);
}

static ronde_status take_test(const ronde__job *job, part *part_out) {
  int64_t n = job->data->source.n_examples[RONDE_SPLIT_TEST];
  const char *name = ronde__job_data_name(job);
  if (n > 0 && job->data->test_is_val)
    return ronde__fail(RONDE_E_INPUT, "%s: there is no test/ in it, but val/: --split val", name);
  if (n == 0) return ronde__fail(RONDE_E_INPUT, "%s: the data have no test examples", name);
  *part_out = (part){.name = "test", .split = RONDE_SPLIT_TEST, .n = n};
  return RONDE_OK;
}

static ronde_status take_val(ronde__job *job, part *part_out) {
  const ronde_source *source = &job->data->source;
  const char *name = ronde__job_data_name(job);
  part val = {.name = "val", .split = RONDE_SPLIT_TRAIN};
  if (ronde__split_fits(&job->kept_out, job->data)) {
    RONDE_TRY(split_again(job));
    val.ids = ronde__sampler_validation(job->sampler, &val.n);
  } else if (job->data->test_is_val) {
    val.split = RONDE_SPLIT_TEST;
    val.n = source->n_examples[RONDE_SPLIT_TEST];
  } else if (job->kept_out.n_validation > 0) {
    return ronde__fail(RONDE_E_INPUT, "%s: not the data (or not with the same options) that the run of %s kept out of",
                       name, job->init_path);
  } else {
    return ronde__fail(RONDE_E_INPUT, "%s: there are no validation examples: %s names none that its run kept out", name,
                       job->init_path);
  }
  *part_out = val;
  return RONDE_OK;
}

/* What the run trained on, where it kept some of it out. */
static ronde_status take_train(ronde__job *job, part *part_out) {
  part train = {.name = "train", .split = RONDE_SPLIT_TRAIN, .n = job->data->source.n_examples[RONDE_SPLIT_TRAIN]};
  if (train.n == 0)
    return ronde__fail(RONDE_E_INPUT, "%s: the data have no training examples", ronde__job_data_name(job));
  if (ronde__split_fits(&job->kept_out, job->data)) {
    RONDE_TRY(split_again(job));
    train.n = ronde__sampler_epoch_examples(job->sampler);
    RONDE__ALLOC(train.owned, (size_t)train.n * sizeof *train.owned, "evaluation");
    train.ids = train.owned;
    RONDE_TRY(ronde__sampler_epoch(job->sampler, 1, train.owned)); /* in file order: nothing is drawn or allocated */
  }
  *part_out = train;
  return RONDE_OK;
}

static ronde_status take_any(ronde__job *job, part *part_out) {
  const ronde_source *source = &job->data->source;
  if (source->n_examples[RONDE_SPLIT_TEST] > 0 && !job->data->test_is_val) return take_test(job, part_out);
  if (job->data->test_is_val || ronde__split_fits(&job->kept_out, job->data)) return take_val(job, part_out);
  part all = {.name = "all", .split = RONDE_SPLIT_TRAIN, .n = source->n_examples[RONDE_SPLIT_TRAIN]};
  ronde__log(RONDE_LOG_INFO, "%s has neither test nor validation examples: all of its %lld are evaluated",
             ronde__job_data_name(job), (long long)all.n);
  *part_out = all;
  return RONDE_OK;
}

static ronde_status choose(ronde__job *job, part *part_out) {
  switch (job->options->split) {
  case RONDE__EVAL_TRAIN: return take_train(job, part_out);
  case RONDE__EVAL_VAL: return take_val(job, part_out);
  case RONDE__EVAL_TEST: return take_test(job, part_out);
  default: return take_any(job, part_out);
  }
}

static ronde_status report(const ronde__job *job, const rank *ranks, const ronde__verdicts *verdicts, char **json_out) {
  ronde__score sum = {0};
  for (int i = 0; i < job->world; i++) {
    sum.loss_sum += ranks[i].score.loss_sum;
    sum.n_correct += ranks[i].score.n_correct;
    sum.n += ranks[i].score.n;
  }
  json_t *accuracy = job->data->source.classes ? json_real((double)sum.n_correct / (double)sum.n) : json_null();
  json_t *result = json_pack("{s:f, s:o, s:I, s:s, s:s, s:o}", "loss", sum.loss_sum / (double)sum.n, "accuracy",
                             accuracy, "examples", (json_int_t)sum.n, "split", ranks[0].part->name, "weights_sha256",
                             ranks[0].sha256, "input", ronde__json_text(job->init_path));
  if (!result) return ronde__fail(RONDE_E_NUMERIC, "%s: the loss is NaN or Inf", job->init_path);
  ronde_status status = verdicts->at ? ronde__verdicts_tell(verdicts, result) : RONDE_OK;
  if (status == RONDE_OK && job->options->csv) status = ronde__verdicts_write(verdicts, job->options->csv);
  if (status == RONDE_OK) return ronde__json_give(result, "result", json_out);
  json_decref(result);
  return status;
}

static ronde_status eval_part(ronde__job *job, const part *part, char **json_out) {
  job->local_batch = ronde__ceil_div(job->options->batch, job->world);
  ronde__verdicts verdicts = {job->data, part->split, part->ids, part->n, NULL};
  bool has_classes = job->data->source.classes > 0;
  if (!has_classes)
    RONDE_TRY(ronde__config_no_effect(job->config, "csv", "it tells of classes, and the targets are values"));
  rank *ranks = ronde__alloc((size_t)job->world * sizeof *ranks);
  if (has_classes) verdicts.at = ronde__alloc((size_t)part->n * sizeof *verdicts.at);
  atomic_bool cancelled = false;
  ronde__log_group errors = {0};
  ronde_status status =
      ranks && (verdicts.at || !has_classes) ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "evaluation: no memory");
  for (int i = 0; i < job->world && status == RONDE_OK; i++)
    ranks[i] = (rank){
        .job = job, .part = part, .verdicts = verdicts.at, .cancelled = &cancelled, .errors = &errors, .number = i};
  if (status == RONDE_OK) status = run_ranks(job, ranks);
  if (status == RONDE_OK) status = report(job, ranks, &verdicts, json_out);
  ronde__free(ranks);
  ronde__free(verdicts.at);
  ronde__log_group_clear(&errors);
  return status;
}

static ronde_status eval(ronde__job *job, char **json_out) {
  part part;
  if (!job->init) return ronde__fail(RONDE_E_USAGE, "the weights to evaluate are needed: --init FILE");
  RONDE_TRY(choose(job, &part));
  ronde_status status = eval_part(job, &part, json_out);
  ronde__free(part.owned);
  return status;
}

ronde_status ronde_eval(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde__job *job;
  RONDE_TRY(ronde__job_create(config, hooks, &job));
  ronde_status status = eval(job, json_out);
  ronde__job_destroy(job);
  return status;
}

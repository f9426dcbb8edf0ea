/* ronde_eval: loss and accuracy of given weights on one split of the data, by one or several ranks as threads. */
#include "job/job.h"

#include "base/log_group.h"
#include "data/bpe.h"
#include "base/time.h"
#include "io/sha256.h"
#include "setup/setup.h"
#include "job/evaluate.h"
#include "job/split.h"
#include "state/weights.h"
#include "base/json.h"
#include "verbs/error_rate.h"
#include "verbs/eval_bleu.h"
#include "verbs/transcribe.h"
#include "verbs/translator.h"
#include "verbs/verdicts.h"

#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The examples that --split means. */
typedef struct eval_examples {
  const char *name; /* test, val, train; all: the data has no such splits */
  ronde_split split;
  const int64_t *ids; /* [n] of the split, to be freed where they are owned; NULL: all of it */
  int64_t n, *owned;
} eval_examples;

typedef struct eval_rank {
  const ronde__job *job;
  const eval_examples *part;
  ronde__verdict *verdicts;  /* of all ranks' examples; NULL: there are no classes */
  ronde__value_sums *values; /* [job->targets], its own; NULL: there are no such */
  ronde__listener *listener; /* its own; NULL: the network transcribes nothing */
  atomic_bool *cancelled;    /* shared by the ranks, */
  ronde__log_group *errors;  /* and so is this */
  int number;
  ronde_status status;
  ronde__score score;
  ronde__bleu bleu; /* of --bleu */
  char sha256[RONDE__SHA256_HEX];
} eval_rank;

/* Rank 0 asks the caller's hook and shares the answer with the others. */
static bool eval_is_cancelled(void *user) {
  eval_rank *r = user;
  const ronde_hooks *hooks = &r->job->hooks;
  if (r->number == 0 && hooks->cancel && hooks->cancel(hooks->user)) atomic_store(r->cancelled, true);
  return atomic_load(r->cancelled);
}

static ronde_status eval_score(eval_rank *r, ronde__net *net) {
  const ronde__job *job = r->job;
  if (r->number == 0) RONDE_TRY(ronde__weights_sha256(net, NULL, r->sha256));
  ronde__evaluation what = {.data = job->data,
                            .split = r->part->split,
                            .ids = r->part->ids,
                            .n = r->part->n,
                            .rank = r->number,
                            .n_workers = job->roles.n_workers,
                            .chunk = job->local_batch,
                            .verdicts = r->verdicts,
                            .values = r->values,
                            .hear = r->listener ? ronde__listener_hear : NULL,
                            .hearer = r->listener,
                            .outputs = r->listener ? ronde__listener_outputs(r->listener) : 0,
                            .cancel = eval_is_cancelled,
                            .user = r};
  RONDE_TRY(ronde__evaluate(net, &what, &r->score));
  return job->options->bleu ? ronde__bleu_evaluate(job, net, &what, &r->bleu) : RONDE_OK;
}

/* What only a network that translates can do. */
static ronde_status eval_check_translation(const ronde__job *job, const ronde_graph *graph) {
  bool translates = ronde__translates(job, ronde__shape_elems(&graph->tensors[graph->output]->shape));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_TRANSLATION, translates));
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_BLEU, job->options->bleu != RONDE__BLEU_OFF));
  return ronde__config_settle(job->config, RONDE__NEED_BEAM, job->options->beam > 1);
}

static ronde_status eval_run_rank(eval_rank *r) {
  const ronde__job *job = r->job;
  ronde_graph *graph = NULL;
  ronde__pool *pool = NULL;
  ronde__net *net = NULL;
  ronde_status status = ronde__job_graph(job, &graph);
  if (status == RONDE_OK) status = eval_check_translation(job, graph);
  if (status == RONDE_OK && ronde__transcribes(job)) status = ronde__listener_create(job, graph, &r->listener);
  if (status == RONDE_OK) status = ronde__pool_create(job->threads, &pool);
  if (status == RONDE_OK) {
    ronde__net_options options = ronde__job_net_options(job, pool, NULL, false);
    status = ronde__net_create(graph, &options, &net);
  }
  if (status == RONDE_OK) {
    ronde__weights_load(net, job->init, false);
    status = eval_score(r, net);
  }
  ronde__net_destroy(net);
  ronde__pool_destroy(pool);
  ronde_graph_destroy(graph);
  return status;
}

static void eval_rank_main(void *arg) {
  eval_rank *r = arg;
  ronde__log_set_group(r->errors);
  r->status = eval_run_rank(r);
  ronde__log_set_group(NULL);
}

static ronde_status eval_run_ranks(const ronde__job *job, eval_rank *ranks) {
  ronde__task *tasks;
  RONDE__ALLOC(tasks, (size_t)job->roles.n_workers * sizeof *tasks, "evaluation");
  int n_started = 1;
  for (; n_started < job->roles.n_workers; n_started++) {
    tasks[n_started] = (ronde__task){.name = "", .run = eval_rank_main, .arg = &ranks[n_started]};
    if (ronde__task_start(NULL, &tasks[n_started])) break;
  }
  eval_rank_main(&ranks[0]);
  for (int i = 1; i < n_started; i++) ronde__task_join(NULL, &tasks[i]);
  ronde__free(tasks);
  if (n_started < job->roles.n_workers)
    return ronde__fail(RONDE_E_MEMORY, "cannot start a thread for rank %d", n_started);
  for (int i = 0; i < job->roles.n_workers; i++) RONDE_TRY(ranks[i].status);
  return RONDE_OK;
}

/* ---- which examples ---- */

/* Makes the run's split again: job->sampler. */
static ronde_status eval_split_again(ronde__job *job) {
  return ronde__split_again(&job->kept_out, job->data, &job->sampler);
}

static ronde_status eval_take_test(const ronde__job *job, eval_examples *part_out) {
  int64_t n = job->data->source.n_examples[RONDE_SPLIT_TEST];
  const char *name = ronde__job_data_name(job);
  if (n > 0 && job->data->test_is_val)
    return ronde__fail(RONDE_E_INPUT, "%s: it has val/ but no test/: give --split val", name);
  if (n == 0) return ronde__fail(RONDE_E_INPUT, "%s: the data set has no test examples", name);
  *part_out = (eval_examples){.name = "test", .split = RONDE_SPLIT_TEST, .n = n};
  return RONDE_OK;
}

static ronde_status eval_take_val(ronde__job *job, eval_examples *part_out) {
  const ronde_source *source = &job->data->source;
  const char *name = ronde__job_data_name(job);
  eval_examples val = {.name = "val", .split = RONDE_SPLIT_TRAIN};
  if (ronde__split_fits(&job->kept_out, job->data)) {
    RONDE_TRY(eval_split_again(job));
    val.ids = ronde__sampler_validation(job->sampler, &val.n);
  } else if (job->data->test_is_val) {
    val.split = RONDE_SPLIT_TEST;
    val.n = source->n_examples[RONDE_SPLIT_TEST];
  } else if (job->kept_out.n_validation > 0) {
    return ronde__fail(RONDE_E_INPUT,
                       "%s: these are not the data and options from which the run of %s held out examples", name,
                       job->init_path);
  } else {
    return ronde__fail(RONDE_E_INPUT, "%s: there are no validation examples: the run of %s held out none", name,
                       job->init_path);
  }
  *part_out = val;
  return RONDE_OK;
}

/* What the run trained on, without the examples that it held out. */
static ronde_status eval_take_train(ronde__job *job, eval_examples *part_out) {
  eval_examples train = {
      .name = "train", .split = RONDE_SPLIT_TRAIN, .n = job->data->source.n_examples[RONDE_SPLIT_TRAIN]};
  if (train.n == 0)
    return ronde__fail(RONDE_E_INPUT, "%s: the data set has no training examples", ronde__job_data_name(job));
  if (ronde__split_fits(&job->kept_out, job->data)) {
    RONDE_TRY(eval_split_again(job));
    train.n = ronde__sampler_epoch_examples(job->sampler);
    RONDE__ALLOC(train.owned, (size_t)train.n * sizeof *train.owned, "evaluation");
    train.ids = train.owned;
    RONDE_TRY(ronde__sampler_epoch(job->sampler, 1, train.owned)); /* in file order: nothing is drawn or allocated */
  }
  *part_out = train;
  return RONDE_OK;
}

static ronde_status eval_take_any(ronde__job *job, eval_examples *part_out) {
  const ronde_source *source = &job->data->source;
  if (source->n_examples[RONDE_SPLIT_TEST] > 0 && !job->data->test_is_val) return eval_take_test(job, part_out);
  if (job->data->test_is_val || ronde__split_fits(&job->kept_out, job->data)) return eval_take_val(job, part_out);
  eval_examples all = {.name = "all", .split = RONDE_SPLIT_TRAIN, .n = source->n_examples[RONDE_SPLIT_TRAIN]};
  ronde__log(RONDE_LOG_INFO, "%s has neither test nor validation examples: all %lld examples are evaluated",
             ronde__job_data_name(job), (long long)all.n);
  *part_out = all;
  return RONDE_OK;
}

static ronde_status eval_choose(ronde__job *job, eval_examples *part_out) {
  switch (job->options->split) {
  case RONDE__EVAL_TRAIN: return eval_take_train(job, part_out);
  case RONDE__EVAL_VAL: return eval_take_val(job, part_out);
  case RONDE__EVAL_TEST: return eval_take_test(job, part_out);
  default: return eval_take_any(job, part_out);
  }
}

/* The targets' spread is what R2 compares with; where they are all the same, there is none. */
static json_t *eval_r2(double square, double m2) { return m2 > 0 ? json_real(1 - square / m2) : json_null(); }

/* Adds what was told of values: all and each; sums [job->targets]. */
static void eval_tell_values(const ronde__job *job, const ronde__value_sums *sums, json_t *result) {
  double error = 0, square = 0, r2 = 0, n = (double)sums[0].n, all = n * (double)job->targets;
  bool is_spread = true;
  json_t *each = json_array();
  for (int64_t k = 0; k < job->targets; k++) {
    const ronde__value_sums *s = &sums[k];
    error += s->error;
    square += s->square;
    is_spread = is_spread && s->m2 > 0;
    r2 += is_spread ? (1 - s->square / s->m2) / (double)job->targets : 0;
    json_array_append_new(each, json_pack("{s:f, s:f, s:o}", "mae", s->error / n, "rmse", sqrt(s->square / n), "r2",
                                          eval_r2(s->square, s->m2)));
  }
  json_object_set_new(result, "mae", json_real(error / all));
  json_object_set_new(result, "rmse", json_real(sqrt(square / all)));
  json_object_set_new(result, "r2", is_spread ? json_real(r2) : json_null());
  json_object_set_new(result, "values", each);
}

/* Of several labels an example: how many are right, all and each. */
static void eval_tell_labels(const ronde__job *job, const ronde__value_sums *sums, json_t *result) {
  int64_t n_right = 0;
  json_t *each = json_array();
  for (int64_t k = 0; k < job->targets; k++) {
    n_right += sums[k].n_right;
    json_array_append_new(
        each, json_pack("{s:f, s:f}", "accuracy", (double)sums[k].n_right / (double)sums[k].n, "share", sums[k].mean));
  }
  json_object_set_new(result, "label_accuracy", json_real((double)n_right / (double)(sums[0].n * job->targets)));
  json_object_set_new(result, "labels", each);
}

/* Joins the ranks' sums in their order, into the first one's. */
static void eval_join_values(const ronde__job *job, const eval_rank *ranks, json_t *result) {
  for (int i = 1; i < job->roles.n_workers; i++)
    for (int64_t k = 0; k < job->targets; k++) ronde__value_sums_add(&ranks[0].values[k], &ranks[i].values[k]);
  if (job->options->loss == RONDE__LOSS_BCE) eval_tell_labels(job, ranks[0].values, result);
  else eval_tell_values(job, ranks[0].values, result);
}

/* The bytes that a token stands for, on average over the tokens that are told. */
static ronde_status eval_bytes_per_token(const ronde__job *job, const eval_examples *part, double *bytes_out) {
  const ronde_source *source = &job->data->source;
  const ronde__bpe *bpe = ronde__data_vocabulary(job->data);
  int64_t n = ronde__source_labels(source), *labels, bytes = 0, n_told = 0, n_bytes;
  float *x;
  RONDE__ALLOC(labels, (size_t)n * sizeof *labels + (size_t)ronde__source_elems(source) * sizeof *x, "evaluation");
  x = (float *)(labels + n);
  ronde_status status = RONDE_OK;
  for (int64_t i = 0; i < part->n && status == RONDE_OK; i++) {
    int64_t id = part->ids ? part->ids[i] : i;
    status = ronde__data_read(job->data, part->split, &id, 1, x, labels, NULL);
    for (int64_t k = 0; k < n && status == RONDE_OK; k++) {
      if (labels[k] < 0) continue;
      ronde__bpe_token(bpe, labels[k], &n_bytes);
      bytes += n_bytes;
      n_told++;
    }
  }
  ronde__free(labels);
  *bytes_out = (double)bytes / (double)n_told;
  return status;
}

/* Of a language model: what its mean loss, in nats a token, says. */
static ronde_status eval_tell_sequences(const ronde__job *job, const eval_examples *part, double loss, json_t *result) {
  bool tells_all = ronde__data_has_window(job->options->data) && job->options->mask == 0; /* of a text */
  bool has_vocabulary = ronde__data_vocabulary(job->data) != NULL;
  double bytes = 1;
  json_object_set_new(result, "perplexity", json_real(exp(loss)));
  if (!tells_all || has_vocabulary) json_object_set_new(result, "bits_per_token", json_real(loss / log(2)));
  if (!tells_all) return RONDE_OK;
  if (has_vocabulary) RONDE_TRY(eval_bytes_per_token(job, part, &bytes));
  json_object_set_new(result, "bits_per_byte", json_real(loss / log(2) / bytes));
  return RONDE_OK;
}

/* Of recordings: how much of what is said is wrong. */
static void eval_tell_speech(const ronde__job *job, const eval_rank *ranks, json_t *result) {
  ronde__error_counts all = {0};
  for (int i = 0; i < job->roles.n_workers; i++)
    ronde__error_counts_join(&all, ronde__listener_counts(ranks[i].listener));
  ronde__error_rates_tell(&all, result);
}

static ronde_status eval_report(const ronde__job *job, const eval_rank *ranks, const ronde__verdicts *verdicts,
                                char **json_out) {
  ronde__score sum = {0};
  ronde__bleu bleu = {0};
  for (int i = 0; i < job->roles.n_workers; i++) {
    sum.loss_sum += ranks[i].score.loss_sum;
    sum.n_correct += ranks[i].score.n_correct;
    sum.n += ranks[i].score.n;
    ronde__bleu_join(&bleu, &ranks[i].bleu);
  }
  json_t *accuracy =
      ronde__source_classifies(&job->data->source) ? json_real((double)sum.n_correct / (double)sum.n) : json_null();
  json_t *result =
      json_pack("{s:f, s:o, s:I, s:o, s:s, s:s, s:o}", "loss", sum.loss_sum / (double)sum.n, "accuracy", accuracy,
                "examples", (json_int_t)sum.n, "data", ronde__json_text(job->options->data), "split",
                ranks[0].part->name, "weights_sha256", ranks[0].sha256, "input", ronde__json_text(job->init_path));
  if (!result) return ronde__fail(RONDE_E_NUMERIC, "%s: the loss is NaN or Inf", job->init_path);
  if (ranks[0].values) eval_join_values(job, ranks, result);
  ronde_status status = RONDE_OK;
  if (ranks[0].listener) eval_tell_speech(job, ranks, result);
  else if (job->data->source.label_elems && !(job->model && job->model->text))
    status = eval_tell_sequences(job, ranks[0].part, sum.loss_sum / (double)sum.n, result);
  if (job->options->bleu) json_object_set_new(result, "bleu", ronde__bleu_json(job, &bleu));
  if (status == RONDE_OK && verdicts->at) status = ronde__verdicts_tell(verdicts, job->options->csv, result);
  if (status == RONDE_OK) return ronde__json_give(result, "result", json_out);
  json_decref(result);
  return status;
}

static ronde_status eval_run(ronde__job *job, const eval_examples *part, char **json_out) {
  job->local_batch = ronde__ceil_div(job->options->batch, job->roles.n_workers);
  ronde__verdicts verdicts = {job->data, part->split, part->ids, part->n, NULL};
  bool has_classes = ronde__source_classifies(&job->data->source);
  RONDE_TRY(ronde__config_settle(job->config, RONDE__NEED_CLASSES, has_classes));
  eval_rank *ranks = ronde__alloc((size_t)job->roles.n_workers * sizeof *ranks);
  if (has_classes) verdicts.at = ronde__alloc((size_t)part->n * sizeof *verdicts.at);
  size_t n_values = (size_t)job->targets * (size_t)job->roles.n_workers;
  ronde__value_sums *values = n_values ? ronde__alloc(n_values * sizeof *values) : NULL;
  atomic_bool cancelled = false;
  ronde__log_group errors = {0};
  ronde_status status = ranks && (verdicts.at || !has_classes) && (values || !n_values)
                            ? RONDE_OK
                            : ronde__fail(RONDE_E_MEMORY, "evaluation: no memory");
  for (int i = 0; i < job->roles.n_workers && status == RONDE_OK; i++)
    ranks[i] = (eval_rank){.job = job,
                           .part = part,
                           .verdicts = verdicts.at,
                           .cancelled = &cancelled,
                           .errors = &errors,
                           .number = i,
                           .values = values ? values + i * job->targets : NULL};
  if (status == RONDE_OK) status = eval_run_ranks(job, ranks);
  if (status == RONDE_OK) status = eval_report(job, ranks, &verdicts, json_out);
  for (int i = 0; ranks && i < job->roles.n_workers; i++) ronde__listener_destroy(ranks[i].listener);
  ronde__free(ranks);
  ronde__free(verdicts.at);
  ronde__free(values);
  ronde__log_group_clear(&errors);
  return status;
}

static ronde_status eval_job(ronde__job *job, char **json_out) {
  eval_examples part;
  if (!job->init) return ronde__fail(RONDE_E_USAGE, "the weights to evaluate are needed: --init FILE");
  RONDE_TRY(eval_choose(job, &part));
  ronde_status status = eval_run(job, &part, json_out);
  ronde__free(part.owned);
  return status;
}

ronde_status ronde_eval(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde__job *job;
  RONDE_TRY(ronde__job_create(config, hooks, &job));
  ronde_status status = eval_job(job, json_out);
  ronde__job_destroy(job);
  return status;
}

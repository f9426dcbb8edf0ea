/* ronde_eval: loss and accuracy of given weights on the test examples, by one or several ranks as threads. */
#include "train/job.h"

#include "base/log_group.h"
#include "io/sha256.h"
#include "train/machine.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct rank {
  const ronde__job *job;
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
                            .split = RONDE_SPLIT_TEST,
                            .n = job->data->source.n_examples[RONDE_SPLIT_TEST],
                            .rank = r->number,
                            .world = job->world,
                            .chunk = job->local_batch,
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

static ronde_status report(const ronde__job *job, const rank *ranks, char **json_out) {
  ronde__score sum = {0};
  for (int i = 0; i < job->world; i++) {
    sum.loss_sum += ranks[i].score.loss_sum;
    sum.n_correct += ranks[i].score.n_correct;
    sum.n += ranks[i].score.n;
  }
  json_t *accuracy = job->data->source.classes ? json_real((double)sum.n_correct / (double)sum.n) : json_null();
  json_t *result =
      json_pack("{s:f, s:o, s:I, s:s, s:o}", "loss", sum.loss_sum / (double)sum.n, "accuracy", accuracy, "examples",
                (json_int_t)sum.n, "weights_sha256", ranks[0].sha256, "input", ronde__json_text(job->init_path));
  if (!result) return ronde__fail(RONDE_E_NUMERIC, "%s: the loss is NaN or Inf", job->init_path);
  char *text = json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  json_decref(result);
  if (!text) return ronde__fail(RONDE_E_MEMORY, "evaluation: no memory for the result");
  if (json_out) *json_out = text;
  else free(text);
  return RONDE_OK;
}

static ronde_status eval(ronde__job *job, char **json_out) {
  if (!job->init) return ronde__fail(RONDE_E_USAGE, "the weights to evaluate are needed: --init FILE");
  if (job->data->source.n_examples[RONDE_SPLIT_TEST] == 0)
    return ronde__fail(RONDE_E_INPUT, "%s: the data have no test examples", job->data->source.name);
  job->local_batch = ronde__ceil_div(job->options->batch, job->world);
  rank *ranks;
  atomic_bool cancelled = false;
  ronde__log_group errors = {0};
  RONDE__ALLOC(ranks, (size_t)job->world * sizeof *ranks, "evaluation");
  for (int i = 0; i < job->world; i++)
    ranks[i] = (rank){.job = job, .cancelled = &cancelled, .errors = &errors, .number = i};
  ronde_status status = run_ranks(job, ranks);
  if (status == RONDE_OK) status = report(job, ranks, json_out);
  ronde__free(ranks);
  ronde__log_group_clear(&errors);
  return status;
}

ronde_status ronde_eval(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde__job *job;
  RONDE_TRY(ronde__job_create(config, hooks, &job));
  ronde_status status = eval(job, json_out);
  ronde__job_destroy(job);
  return status;
}

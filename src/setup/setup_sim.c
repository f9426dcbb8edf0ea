/* A simulated run: the cluster that --sim-net describes, and the recorded computation that --sim-spans replays. */
#include "setup/setup.h"

#include "job/spans_file.h"

#include <inttypes.h>
#include <string.h>

/* No spans: computation takes no time. */
static ronde_status read_spans(ronde__job *job) {
  const char *path = job->options->sim_spans;
  if (!path) return RONDE_OK;
  if (strcmp(path, "none")) return ronde__spans_read(path, &job->spans);
  RONDE__ALLOC(job->spans, sizeof *job->spans, "--sim-spans");
  return RONDE_OK;
}

/* What has no effect or sense where nothing is executed; the recorded ranks had these threads. */
static ronde_status settle_replay(ronde__job *job) {
  ronde__options *o = &job->config->options;
  if (!job->spans)
    return job->sim->n_slow ? ronde__fail(RONDE_E_INPUT,
                                          "%s, line %d: `slow` is of replayed computation, and there is no --sim-spans",
                                          job->sim->name, job->sim->slow[0].line)
                            : RONDE_OK;
  RONDE_TRY(ronde__config_no_effect(job->config, "threads", "computation is replayed as it was recorded"));
  o->save_best = o->save_last = false;
  o->sentinel = o->eval_every = 0;
  job->threads = job->spans->threads ? job->spans->threads : 1;
  o->threads = job->threads;
  return RONDE_OK;
}

ronde_status ronde__set_up_sim(ronde__job *job) {
  const ronde__options *o = job->options;
  int n_ranks = job->roles.n_ranks;
  if (o->transport != RONDE__TRANSPORT_SIM) return RONDE_OK;
  if (!o->sim_net)
    return ronde__fail(RONDE_E_USAGE, "--transport sim: --sim-net FILE is needed: it says what the links take");
  RONDE_TRY(ronde__sim_net_read(o->sim_net, &job->sim));
  RONDE__ALLOC(job->sim_host_of, (size_t)n_ranks * sizeof *job->sim_host_of, "--sim-net");
  RONDE_TRY(ronde__sim_net_place(job->sim, n_ranks, job->sim_host_of));
  RONDE_TRY(read_spans(job));
  return settle_replay(job);
}

static ronde_status check_param(const ronde__param_span *span, const ronde_graph *graph, int i, const char *option,
                                const char *path) {
  const ronde__param *param = &graph->params[i];
  if (!strcmp(span->name, param->name) && span->elems == (uint64_t)ronde__shape_elems(&param->shape)) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE,
                     "--%s %s: parameter %d is %s with %" PRIu64 " elements, and here it is %s with %" PRId64, option,
                     path, i + 1, span->name, span->elems, param->name, ronde__shape_elems(&param->shape));
}

ronde_status ronde__spans_fit(const ronde__job *job, const ronde_graph *graph, const ronde__spans *spans,
                              const char *option, const char *path) {
  if (strcmp(spans->model, job->model_name) || spans->n_params != graph->n_params)
    return ronde__fail(RONDE_E_USAGE, "--%s %s: it is of %s with %d parameters, and this is %s with %d", option, path,
                       spans->model, spans->n_params, job->model_name, graph->n_params);
  for (int i = 0; i < graph->n_params; i++) RONDE_TRY(check_param(&spans->params[i], graph, i, option, path));
  return RONDE_OK;
}

ronde_status ronde__check_spans(const ronde__job *job, const ronde_graph *graph) {
  const ronde__spans *spans = job->spans;
  const char *path = job->options->sim_spans;
  if (spans && job->strategy->needs_values)
    return ronde__fail(
        RONDE_E_USAGE,
        "--sim-spans %s: a step of --strategy %s%s depends on computed values, so it cannot be replayed: "
        "leave --sim-spans out",
        RONDE__SHOWN(path), job->strategy->name,
        job->options->optimizer == RONDE__OPTIMIZER_LBFGS ? " with --optimizer lbfgs" : "");
  if (!spans || !spans->params) return RONDE_OK;
  RONDE_TRY(ronde__spans_fit(job, graph, spans, "sim-spans", path));
  if (spans->examples == job->local_batch) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE,
                     "--sim-spans %s: it is of %" PRId64 " examples a worker, and here a worker has %" PRId64
                     " of a batch: --local-batch %" PRId64 ", or a record with --batch %" PRId64,
                     path, spans->examples, job->local_batch, spans->examples, job->local_batch);
}

/* A network that is cut into stages: into how many, where, and what each takes. */
#include "setup/setup.h"

#include "job/spans_file.h"

ronde_status ronde__count_stages(ronde__job *job) {
  ronde__options *o = &job->config->options;
  ronde__strategy_settings settings = {.options = o};
  job->n_replicas = job->roles.n_workers;
  if (!job->strategy->n_stages) return RONDE_OK;
  RONDE_TRY(job->strategy->n_stages(&settings, job->roles.n_workers, &job->n_stages));
  job->n_replicas = job->roles.n_workers / job->n_stages;
  o->stages = job->n_stages;
  return RONDE_OK;
}

/* ---- what fits a rank's memory ---- */

typedef struct fitting {
  const ronde__job *job;
  const ronde_graph *graph;
  int64_t bytes;             /* that a rank may have */
  ronde__stage_size **sizes; /* [nodes][nodes]: by the first and the last node; rows, and what is not known: zeros */
  ronde_status status;       /* of the last that could not be measured */
} fitting;

static ronde_status measure(const ronde__job *job, const ronde_graph *graph, int begin, int end,
                            ronde__stage_size *size_out) {
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
  options.stage = (ronde__stage){.begin = begin, .end = end};
  return ronde__stage_measure(graph, &options, job->local_batch, size_out);
}

static const ronde__stage_size *size_of(fitting *f, int begin, int end) {
  ronde__stage_size **row = &f->sizes[begin];
  if (!*row && !(*row = ronde__alloc((size_t)f->graph->n_nodes * sizeof **row))) return NULL;
  ronde__stage_size *size = &(*row)[end - 1];
  if (size->arena_bytes == 0 && f->status == RONDE_OK) f->status = measure(f->job, f->graph, begin, end, size);
  return size;
}

/* What a rank needs for it. */
static int64_t bytes_of(const ronde__job *job, const ronde_graph *graph, int stage, int begin, int end,
                        const ronde__stage_size *size) {
  int loss = graph->tensors[graph->loss]->producer;
  bool reads = begin == 0 || (loss >= begin && loss < end);
  ronde__rank_memory memory = ronde__stage_memory(job, size, ronde__job_passes(job, stage), reads);
  return ronde__rank_memory_sum(&memory);
}

static bool fits(void *user, int stage, int begin, int end) {
  fitting *f = user;
  const ronde__stage_size *size = size_of(f, begin, end);
  return size && bytes_of(f->job, f->graph, stage, begin, end, size) <= f->bytes;
}

ronde_status ronde__stage_bytes(const ronde__job *job, const ronde_graph *graph, int stage, int begin, int end,
                                int64_t *bytes_out) {
  ronde__stage_size size;
  RONDE_TRY(measure(job, graph, begin, end, &size));
  *bytes_out = bytes_of(job, graph, stage, begin, end, &size);
  return RONDE_OK;
}

/* Nobody has to be asked where even the whole network would fit with as many passes. */
static ronde_status begin_fitting(const ronde__job *job, const ronde_graph *graph, int64_t bytes, fitting *f,
                                  bool *any_out) {
  *f = (fitting){.job = job, .graph = graph, .bytes = bytes};
  RONDE__ALLOC(f->sizes, (size_t)graph->n_nodes * sizeof *f->sizes, "stages");
  *any_out = fits(f, 0, 0, graph->n_nodes);
  return f->status;
}

static void end_fitting(fitting *f) {
  for (int i = 0; f->sizes && i < f->graph->n_nodes; i++) ronde__free(f->sizes[i]);
  ronde__free(f->sizes);
}

ronde_status ronde__cut_stages(const ronde__job *job, const ronde_graph *graph, int64_t bytes, ronde__cut *cut_out) {
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
  fitting f = {.graph = graph};
  bool any = true;
  ronde_status status = bytes < INT64_MAX ? begin_fitting(job, graph, bytes, &f, &any) : RONDE_OK;
  ronde__cut_request request = {.graph = graph,
                                .options = &options,
                                .n = job->local_batch,
                                .n_micro = job->micro_batches * job->options->accumulate,
                                .n_stages = job->n_stages,
                                .n_replicas = job->n_replicas,
                                .n_states = (int)(ronde__optim_state_bytes(&job->optim, 1) / sizeof(float)),
                                .spans = job->stage_costs,
                                .fits = any ? NULL : fits,
                                .user = &f};
  if (status == RONDE_OK) status = job->strategy->cut(&request, cut_out);
  if (status == RONDE_OK) status = f.status;
  end_fitting(&f);
  return status;
}

/* ---- the job's ---- */

static ronde_status fill(ronde__job *job, const ronde_graph *graph, int64_t bytes, ronde__cut *cut) {
  RONDE_TRY(ronde__cut_stages(job, graph, bytes, cut));
  for (int s = 0; s < job->n_stages; s++) {
    ronde__job_stage *stage = &job->stages[s];
    *stage = (ronde__job_stage){.begin = cut->nodes[s], .end = cut->nodes[s + 1], .seconds = cut->seconds[s]};
    RONDE_TRY(measure(job, graph, stage->begin, stage->end, &stage->size));
  }
  job->step_s = cut->step_s;
  job->bubble_s = cut->bubble_s;
  return RONDE_OK;
}

ronde_status ronde__cut_alloc(int n_stages, ronde__cut *cut_out) {
  *cut_out = (ronde__cut){.nodes = ronde__alloc((size_t)(n_stages + 1) * sizeof *cut_out->nodes),
                          .seconds = ronde__alloc((size_t)n_stages * sizeof *cut_out->seconds)};
  if (cut_out->nodes && cut_out->seconds) return RONDE_OK;
  ronde__cut_free(cut_out);
  return ronde__fail(RONDE_E_MEMORY, "stages: no memory for %d of them", n_stages);
}

void ronde__cut_free(ronde__cut *cut) {
  ronde__free(cut->nodes);
  ronde__free(cut->seconds);
}

ronde_status ronde__set_up_stages(ronde__job *job, const ronde_graph *graph, int64_t bytes) {
  const char *path = job->options->stage_costs;
  int n = job->n_stages;
  ronde__cut cut;
  if (n == 1) return ronde__config_no_effect(job->config, "stage-costs", "the network is not cut");
  if (path) {
    RONDE_TRY(ronde__spans_read(path, &job->stage_costs));
    RONDE_TRY(ronde__spans_fit(job, graph, job->stage_costs, "stage-costs", path));
  }
  RONDE__ALLOC(job->stages, (size_t)n * sizeof *job->stages, "stages");
  RONDE_TRY(ronde__cut_alloc(n, &cut));
  ronde_status status = fill(job, graph, bytes, &cut);
  ronde__cut_free(&cut);
  return status;
}

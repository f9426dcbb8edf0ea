/* What ranks need in bytes: from plans and options, before anything of it is allocated. */
#include "job/job.h"
#include "job/split.h"

enum { PREFETCH = 4 };

bool ronde__job_stage_judges(const ronde__job *job, const ronde_graph *graph, int s) {
  if (job->n_stages == 1) return true;
  int loss = graph->tensors[graph->loss]->producer;
  return loss >= job->stages[s].begin && loss < job->stages[s].end;
}

bool ronde__job_stage_reads(const ronde__job *job, const ronde_graph *graph, int s) {
  return s == 0 || ronde__job_stage_judges(job, graph, s);
}

/* Batches that a step comes back to: all, or those whose micro-batches are under way in the stages behind. */
static int kept_batches(const ronde__job *job) {
  int64_t of_step = ronde__min(job->options->accumulate, job->batches_per_epoch);
  if (job->strategy->rereads) return (int)of_step;
  return (int)ronde__min(of_step, job->strategy->n_stages ? 1 + ronde__ceil_div(job->n_stages, job->micro_batches) : 1);
}

ronde__loader_options ronde__job_loader(const ronde__job *job, bool reads, int replica) {
  bool whole = ronde__strategy_reads_whole(job->strategy);
  return (ronde__loader_options){.data = job->data,
                                 .sampler = job->sampler,
                                 .rank = whole ? 0 : replica,
                                 .world = whole ? 1 : job->n_replicas,
                                 .whole = job->options->shard == RONDE__SHARD_WHOLE,
                                 .prefetch = job->spans ? 0 : PREFETCH,
                                 .sizes_alone = job->spans != NULL || !reads,
                                 .keep = kept_batches(job)};
}

/* Tests are read in the same task that trains. */
static int64_t loader_bytes(const ronde__job *job, bool reads) {
  ronde__loader_options options = ronde__job_loader(job, reads, 0);
  if (options.sizes_alone) return 0;
  int64_t n_tests = ronde__job_tests(job).n;
  return ronde__loader_bytes(&options) + (n_tests ? job->local_batch * ronde__data_example_bytes(job->data) : 0);
}

/* What a worker holds to be able to save its state after a loss. */
static int64_t recovery_bytes(const ronde__job *job, const ronde__stage_size *size) {
  ronde__strategy_settings settings = {.options = job->options, .roles = &job->roles};
  if (!job->strategy->recovery_bytes) return 0;
  return (int64_t)job->strategy->recovery_bytes(&settings, size->trained * sizeof(float),
                                                ronde__optim_state_bytes(&job->optim, size->trained));
}

ronde__rank_memory ronde__stage_memory(const ronde__job *job, const ronde__stage_size *size, int n_passes, bool reads) {
  int64_t elem = sizeof(float);
  ronde__strategy_settings settings = {.options = job->options, .roles = &job->roles};
  bool whole = job->n_stages == 1;
  return (ronde__rank_memory){
      .parameters = (int64_t)size->parameters * elem + (job->keeps_turned ? (int64_t)size->kept_bytes : 0),
      .gradients = job->fused_update ? 0 : (int64_t)size->trained * elem,
      .optimizer =
          whole && job->strategy->more_bytes ? 0 : (int64_t)ronde__optim_state_bytes(&job->optim, size->trained),
      .activations = (int64_t)size->arena_bytes * n_passes,
      .loader = loader_bytes(job, reads),
      .exchange = whole ? 0 : (int64_t)job->strategy->stage_bytes(&settings, job->n_replicas, size->trained),
      .checkpoint = recovery_bytes(job, size)};
}

int64_t ronde__rank_memory_sum(const ronde__rank_memory *m) {
  return m->parameters + m->gradients + m->optimizer + m->activations + m->loader + m->exchange + m->checkpoint;
}

static size_t more_bytes(const ronde__job *job, int n_workers, const ronde__stage_size *size) {
  ronde__roles roles = job->roles;
  ronde__strategy_settings settings = {.options = job->options, .roles = &roles};
  roles.n_workers = n_workers;
  return job->strategy->more_bytes(&settings, size->trained * sizeof(float),
                                   ronde__optim_state_bytes(&job->optim, size->trained));
}

/* What a strategy says of all ranks together: what one worker more would take is each one's; the rest is with the members
 * that are no workers, or cut into shards, or the first worker's. */
static void add_strategy(const ronde__job *job, const ronde__stage_size *size, ronde__rank_memory *memory) {
  const ronde__roles *roles = &job->roles;
  int n = roles->n_workers, n_others = roles->n_members - n;
  if (!job->strategy->more_bytes) return;
  int64_t all = (int64_t)more_bytes(job, n, size), own = (int64_t)more_bytes(job, n + 1, size) - all,
          rest = all - n * own;
  for (int i = 0; i < roles->n_members; i++) {
    bool works = i < n;
    int64_t part = job->strategy->shards_optimizer ? (works ? rest / n : 0)
                   : n_others                      ? (works ? 0 : rest / n_others)
                                                   : (i == 0 ? rest : 0);
    memory[roles->members[i].rank].exchange += part + (works ? own : 0);
  }
}

/* Rank 0 copies the state, which comes together in arrays there where others have it; where it is in stages, none is
 * copied. */
static int64_t checkpoint_bytes(const ronde__job *job, const ronde__stage_size *size) {
  const char *const *arrays = job->strategy->arrays;
  int64_t state = (int64_t)ronde__optim_state_bytes(&job->optim, size->trained), elem = sizeof(float);
  if (!job->options->out) return 0;
  for (; arrays && *arrays; arrays++) state += (int64_t)size->trained * elem;
  return (int64_t)size->parameters * elem + state * (job->strategy->gather_state ? 2 : 1);
}

ronde_status ronde__job_memory(const ronde__job *job, const ronde_graph *graph, ronde__rank_memory *memory_out) {
  ronde__stage_size whole;
  for (int r = 0; r < job->roles.n_ranks; r++) memory_out[r] = (ronde__rank_memory){0};
  if (job->n_stages > 1) {
    for (int r = 0; r < job->roles.n_workers; r++) {
      int s = r % job->n_stages;
      memory_out[r] = ronde__stage_memory(job, &job->stages[s].size, ronde__job_passes(job, s),
                                          ronde__job_stage_reads(job, graph, s));
    }
    return RONDE_OK;
  }
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
  options.transient_gradients = job->fused_update;
  RONDE_TRY(ronde__stage_measure(graph, &options, job->local_batch, &whole));
  for (int r = 0; r < job->roles.n_workers; r++)
    memory_out[r] = ronde__stage_memory(job, &whole, 1, r == 0 || !job->strategy->rank_0_loads);
  add_strategy(job, &whole, memory_out);
  memory_out[0].checkpoint += checkpoint_bytes(job, &whole);
  return RONDE_OK;
}

int64_t ronde__memory_of_program(const ronde__job *job, int rank) {
  if (job->sim) return 0; /* this process says nothing of a cluster's */
  int64_t process = job->rooms[job->mpi ? rank : 0].used[RONDE__ROOM_HOST] + RONDE__PROGRAM_BYTES;
  return process / (job->mpi ? 1 : job->roles.n_ranks);
}

int64_t ronde__memory_needed(const ronde__job *job, int rank) {
  return ronde__rank_memory_sum(&job->memory[rank]) + ronde__memory_of_program(job, rank);
}

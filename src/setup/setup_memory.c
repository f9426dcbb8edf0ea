/* The memory of the ranks: what they need, against what --memory-limit and the system let them have. A run that needs
 * more is refused before it allocates any of it, by all its processes alike, as each knows what the others have. */
#include "setup/setup.h"

#include "base/log_group.h"
#include "comm/tags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of threads that have a stack each beside a rank's pool: its loader's, its exchange's. MPI_BYTES: that Open MPI maps, or
 * has in memory, when it has begun, a little more than was seen. */
enum { MORE_THREADS = 2, USUAL_STACK = 8 << 20, MPI_BYTES = 32 << 20 };

static const char *const room_names[] = {[RONDE__ROOM_ADDRESSES] = "RLIMIT_AS (ulimit -v)",
                                         [RONDE__ROOM_DATA] = "RLIMIT_DATA (ulimit -d)",
                                         [RONDE__ROOM_GROUP] = "the control group's limit",
                                         [RONDE__ROOM_HOST] = "the memory of the host"};

ronde_status ronde__find_rooms(ronde__job *job) {
  ronde__transport *mpi = job->mpi;
  if (!job->rooms) RONDE__ALLOC(job->rooms, (size_t)(mpi ? mpi->size : 1) * sizeof *job->rooms, "ranks");
  ronde__room_find(&job->rooms[mpi ? mpi->rank : 0]);
  return mpi ? ronde__allgather(mpi, RONDE__TAG_ROOMS, job->rooms, sizeof *job->rooms) : RONDE_OK;
}

/* ---- who shares what ---- */

static const ronde__room *room_of(const ronde__job *job, int rank) { return &job->rooms[job->mpi ? rank : 0]; }

static bool is_of_process(ronde__room_kind kind) { return kind == RONDE__ROOM_ADDRESSES || kind == RONDE__ROOM_DATA; }

/* Whether a limit on one rank is also on the other. */
static bool shares(const ronde__job *job, ronde__room_kind kind, int a, int b) {
  if (!job->mpi) return true;
  if (is_of_process(kind)) return a == b;
  if (kind == RONDE__ROOM_GROUP && room_of(job, a)->group != room_of(job, b)->group) return false;
  return !job->mpi->host_of || job->mpi->host_of[a] == job->mpi->host_of[b];
}

static int64_t user_limit(const ronde__job *job) {
  int64_t bytes;
  return job->options->memory_limit && ronde__bytes_parse(job->options->memory_limit, &bytes) ? bytes : 0;
}

/* A simulated run that replays allocates next to nothing. */
static int64_t limit_of(const ronde__job *job, ronde__room_kind kind, int rank) {
  return job->spans ? 0 : room_of(job, rank)->limit[kind];
}

/* What a rank maps that never lies in memory. */
static int64_t stacks_of(const ronde__job *job, ronde__room_kind kind, int rank) {
  int64_t stack = room_of(job, rank)->stack;
  return is_of_process(kind) ? (job->threads + MORE_THREADS) * (stack > 0 ? stack : USUAL_STACK) : 0;
}

/* Whether a limit of a process's is no other one's. */
static bool is_alone(const ronde__job *job, ronde__room_kind kind, int rank) {
  int n = 0;
  for (int r = 0; r < job->roles.n_ranks; r++) n += shares(job, kind, r, rank);
  return job->mpi && n == 1;
}

int64_t ronde__memory_of_stage(const ronde__job *job) {
  int64_t least = INT64_MAX, user = user_limit(job);
  for (int r = 0; r < job->roles.n_ranks; r++) {
    if (user) least = ronde__min(least, user - ronde__memory_of_program(job, r));
    for (ronde__room_kind kind = 0; kind < RONDE__N_ROOMS; kind++) {
      int64_t limit = limit_of(job, kind, r);
      if (limit && is_alone(job, kind, r))
        least = ronde__min(least, limit - room_of(job, r)->used[kind] - RONDE__PROGRAM_BYTES - stacks_of(job, kind, r));
    }
  }
  return ronde__max(0, least);
}

/* ---- what is missing ---- */

typedef struct lack {
  int64_t bytes, needed, limit;
  int rank, n_ranks; /* of several that share the limit, the first */
  const char *name;  /* of the limit */
  ronde__room_kind kind;
  bool is_users;
} lack;

static void note(lack *worst, lack found) {
  found.bytes = found.needed - found.limit;
  if (found.bytes > worst->bytes) *worst = found;
}

/* Of the ranks that share a limit with this one, if it is the first of them. */
static void check_room(const ronde__job *job, ronde__room_kind kind, int rank, lack *worst) {
  int64_t limit = limit_of(job, kind, rank), needed = 0;
  int n = 0;
  for (int r = 0; r < rank; r++)
    if (shares(job, kind, r, rank)) return;
  for (int r = rank; r < job->roles.n_ranks; r++) {
    if (!shares(job, kind, r, rank)) continue;
    needed += ronde__rank_memory_sum(&job->memory[r]) + stacks_of(job, kind, r);
    if (job->mpi || n == 0) needed += room_of(job, r)->used[kind] + RONDE__PROGRAM_BYTES;
    n++;
  }
  if (limit) note(worst, (lack){0, needed, limit, rank, n, room_names[kind], kind, false});
}

static lack find_lack(const ronde__job *job) {
  int64_t user = user_limit(job);
  lack worst = {0};
  for (int r = 0; r < job->roles.n_ranks; r++) {
    if (user) note(&worst, (lack){0, ronde__memory_needed(job, r), user, r, 1, "--memory-limit", 0, true});
    for (ronde__room_kind kind = 0; kind < RONDE__N_ROOMS; kind++) check_room(job, kind, r, &worst);
  }
  return worst;
}

/* ---- a plan that fits ---- */

/* Of a limit, what one of n ranks of a plan has beside what is planned: each a process that has joined MPI, but for the
 * limit of the user, which threads can keep too. */
static int64_t beside_plan(const ronde__job *job, bool is_users, ronde__room_kind kind, int rank, int n) {
  const ronde__room *room = room_of(job, rank);
  int64_t bytes = room->used[is_users ? RONDE__ROOM_HOST : kind] + RONDE__PROGRAM_BYTES;
  if (is_users) return job->mpi ? bytes : bytes / n;
  return bytes + stacks_of(job, kind, rank) + (job->mpi ? 0 : MPI_BYTES);
}

/* What a stage may need, on a process of its own, and where the hosts are not given, on a host of its own. */
static int64_t bytes_of_plan(const ronde__job *job, int n_stages) {
  int64_t user = user_limit(job), least = user ? user - beside_plan(job, true, 0, 0, n_stages) : INT64_MAX;
  for (ronde__room_kind kind = 0; kind < RONDE__N_ROOMS; kind++)
    for (int r = 0; r < (job->mpi ? job->mpi->size : 1); r++) {
      int64_t limit = limit_of(job, kind, r);
      int n = job->mpi && !is_of_process(kind) ? ronde__transport_local(job->mpi) : 1;
      if (limit) least = ronde__min(least, limit / n - beside_plan(job, false, kind, r, n_stages));
    }
  return least;
}

/* What is tried may fail without a word, also to those who collect what the job says. */
typedef struct quiet {
  ronde__log_group *group;
  bool muted;
} quiet;

static quiet begin_quiet(void) {
  quiet before = {ronde__log_get_group(), ronde__log_mute(true)};
  ronde__log_set_group(NULL);
  return before;
}

static void end_quiet(quiet before) {
  ronde__log_set_group(before.group);
  ronde__log_mute(before.muted);
}

/* The strategy that cuts networks, if it could train this one; NULL. */
static const ronde__strategy *find_cutter(const ronde__job *job) {
  const ronde__options *o = job->options;
  ronde__strategy_settings settings = {.options = o};
  const ronde__strategy *s = NULL;
  for (int i = 0; (s = ronde__strategy_at(i)) && !s->n_stages;) i++;
  if (!s || o->optimizer == RONDE__OPTIMIZER_LBFGS || o->sync_bn) return NULL;
  quiet before = begin_quiet();
  bool can = !s->check || s->check(&settings, 1) == RONDE_OK;
  end_quiet(before);
  return can ? s : NULL;
}

typedef struct proposal {
  const ronde__strategy *strategy;
  int n_stages;
  int64_t micro_batches, bytes; /* bytes: of the largest stage, all told */
  const char *too_large;        /* a layer that no stage can have; "": there is none */
  int64_t layer_bytes;
} proposal;

/* The layer whose state is the largest, though not all of what it needs. */
static ronde_status find_largest(const ronde__job *job, const ronde_graph *graph, proposal *p, int64_t *all_out) {
  ronde__net_options options = ronde__job_net_options(job, NULL, NULL, true);
  ronde__node_cost *costs;
  int *node_of;
  *all_out = 0;
  RONDE__ALLOC(costs, (size_t)graph->n_nodes * sizeof *costs, "memory");
  if (!(node_of = ronde__alloc((size_t)graph->n_params * sizeof *node_of))) {
    ronde__free(costs);
    return ronde__fail(RONDE_E_MEMORY, "memory: no memory for %d parameters", graph->n_params);
  }
  ronde_status status = ronde__graph_costs(graph, &options, 1, costs, node_of);
  for (int i = 0; i < graph->n_nodes && status == RONDE_OK; i++) {
    size_t trained = (size_t)costs[i].trained;
    int64_t bytes = (int64_t)(2 * trained * sizeof(float) + ronde__optim_state_bytes(&job->optim, trained));
    *all_out += bytes;
    if (bytes <= p->layer_bytes) continue;
    p->layer_bytes = bytes;
    p->too_large = graph->nodes[i].label;
  }
  ronde__free(costs);
  ronde__free(node_of);
  return status;
}

static bool looks_across(const ronde_graph *graph) {
  bool any = false;
  for (int i = 0; i < graph->n_nodes; i++) any |= graph->nodes[i].kind == RONDE__OP_BATCH_NORM2D;
  return any;
}

/* Really plans a replica of so many stages; *found_out: it fits. */
static ronde_status try_plan(const ronde__job *job, const ronde_graph *graph, int n_stages, int64_t n_micro,
                             const lack *l, proposal *p, bool *found_out) {
  ronde__job planned = *job;
  int64_t bytes = bytes_of_plan(job, n_stages), most = 0;
  ronde__cut cut;
  planned.strategy = p->strategy;
  planned.fused_update = false;
  planned.n_stages = n_stages;
  planned.n_replicas = 1;
  planned.micro_batches = n_micro;
  planned.local_batch = ronde__ceil_div(job->batch, n_micro);
  planned.stages = NULL;
  RONDE_TRY(ronde__cut_alloc(n_stages, &cut));
  quiet before = begin_quiet();
  ronde_status status = ronde__cut_stages(&planned, graph, bytes, &cut);
  *found_out = status == RONDE_OK && cut.fits;
  for (int s = 0; s < n_stages && *found_out && status == RONDE_OK; s++) {
    int64_t own;
    status = ronde__stage_bytes(&planned, graph, s, cut.nodes[s], cut.nodes[s + 1], &own);
    most = ronde__max(most, own);
  }
  ronde__cut_free(&cut);
  end_quiet(before);
  if (status != RONDE_OK || !*found_out) return status;
  p->n_stages = n_stages;
  p->micro_batches = n_micro;
  p->bytes = most + beside_plan(job, l->is_users, l->kind, l->rank, n_stages);
  return RONDE_OK;
}

/* The fewest stages, and of these the fewest micro-batches from the usual number on. */
static ronde_status propose(const ronde__job *job, const ronde_graph *graph, const lack *l, proposal *p) {
  int64_t all, room = bytes_of_plan(job, 1), most = ronde__max(1, job->batch / (looks_across(graph) ? 2 : 1));
  int layers = 0;
  ronde__options open = *job->options;
  ronde__strategy_settings settings = {.options = &open};
  *p = (proposal){.strategy = find_cutter(job), .too_large = ""};
  RONDE_TRY(find_largest(job, graph, p, &all));
  if (p->layer_bytes > room || room <= 0) return RONDE_OK;
  p->too_large = "";
  if (!p->strategy) return RONDE_OK;
  for (int i = 0; i < graph->n_nodes; i++) layers += graph->nodes[i].n_params > 0;
  open.micro_batches = 0;
  int64_t first = ronde__max(2, ronde__ceil_div(all, room)), last = ronde__min(2 * first + 4, layers);
  bool found = false;
  for (int64_t n = first; n <= last; n++) {
    int64_t usual;
    /* The smallest micro-batches say whether there is anything to find. */
    ronde_status status = try_plan(job, graph, (int)n, most, l, p, &found);
    if (status == RONDE_E_USAGE) return RONDE_OK; /* there cannot be so many stages */
    RONDE_TRY(status);
    if (!found) continue;
    RONDE_TRY(p->strategy->n_micro(&settings, (int)n, ronde__max(1, job->batch), &usual));
    found = false;
    for (int64_t m = ronde__min(usual, most); !found; m = ronde__min(2 * m, most))
      RONDE_TRY(try_plan(job, graph, (int)n, m, l, p, &found));
    return RONDE_OK;
  }
  return RONDE_OK;
}

/* ---- what is said ---- */

/* The one that splits layers over workers; each still keeps all of their parameters. */
static const char *splitting_strategy(void) {
  const ronde__strategy *s;
  int i = 0;
  while ((s = ronde__strategy_at(i)) && !s->split) i++;
  return s ? s->name : "";
}

static void say_proposal(const ronde__job *job, const lack *l, const proposal *p, char *text, size_t bytes) {
  const char *where = l->is_users || job->mpi  ? ""
                      : is_of_process(l->kind) ? ", each a process (--transport mpi)"
                                               : ", each on a host of its own (--hosts)";
  if (p->n_stages)
    snprintf(text, bytes,
             "; --strategy %s --stages %d --micro-batches %" PRId64 " fits: at most %" PRId64 " bytes a worker%s",
             p->strategy->name, p->n_stages, p->micro_batches, p->bytes, where);
  else if (*p->too_large)
    snprintf(text, bytes,
             "; the parameters of %s alone need %" PRId64
             " bytes, more than a stage of any pipeline may have (--strategy %s splits what such a layer computes, but "
             "leaves each worker all of its parameters)",
             p->too_large, p->layer_bytes, splitting_strategy());
  else snprintf(text, bytes, "; no pipeline fits either: use a smaller --batch or --local-batch, or more memory");
}

static ronde_status refuse(const ronde__job *job, const ronde_graph *graph, const lack *l) {
  const ronde__rank_memory *m = &job->memory[l->rank];
  char who[64], more[384], program[64] = "";
  proposal p;
  RONDE_TRY(propose(job, graph, l, &p));
  say_proposal(job, l, &p, more, sizeof more);
  if (l->n_ranks > 1) snprintf(who, sizeof who, "%d ranks together need", l->n_ranks);
  else if (job->roles.n_ranks > 1) snprintf(who, sizeof who, "rank %d needs", l->rank);
  else snprintf(who, sizeof who, "the training needs");
  if (l->n_ranks == 1)
    snprintf(program, sizeof program, ", the program %" PRId64, l->needed - ronde__rank_memory_sum(m));
  return ronde__fail(RONDE_E_MEMORY,
                     "%s %" PRId64 " bytes, but %s is %" PRId64 ": %" PRId64
                     " bytes are missing (rank %d: weights %" PRId64 ", gradients %" PRId64 ", optimizer %" PRId64
                     ", activations %" PRId64 ", batches %" PRId64 ", exchange %" PRId64 ", checkpoint %" PRId64
                     "%s)%s",
                     who, l->needed, l->name, l->limit, l->bytes, l->rank, m->parameters, m->gradients, m->optimizer,
                     m->activations, m->loader, m->exchange, m->checkpoint, program, more);
}

/* Where a step sums the gradients of several batches, of the same weights. */
static bool may_keep_turned(const ronde__job *job) {
  return job->strategy && job->strategy->equals_one && job->options->exec != RONDE__EXEC_EAGER && !job->spans &&
         job->micro_batches * job->options->accumulate > 1;
}

ronde_status ronde__check_memory(ronde__job *job, const ronde_graph *graph) {
  if (!job->mpi) RONDE_TRY(ronde__find_rooms(job));
  RONDE__ALLOC(job->memory, (size_t)job->roles.n_ranks * sizeof *job->memory, "ranks");
  job->keeps_turned = may_keep_turned(job);
  RONDE_TRY(ronde__job_memory(job, graph, job->memory));
  lack worst = find_lack(job);
  if (worst.bytes > 0 && job->keeps_turned) {
    job->keeps_turned = false;
    RONDE_TRY(ronde__job_memory(job, graph, job->memory));
    worst = find_lack(job);
  }
  if (worst.bytes <= 0) return RONDE_OK;
  /* All processes see it; one says it. */
  return job->mpi && job->mpi->rank != 0 ? RONDE_E_MEMORY : refuse(job, graph, &worst);
}

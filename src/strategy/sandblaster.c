/* Sandblaster L-BFGS: the strategy, and its workers. A worker asks the coordinator for portions of the batch until the step
 * is over, fetches the weights from the servers where its own are older, and pushes the gradients of portions that
 * count. sandblaster.h has the whole, and what is said.
 * n elements that train, P portions, an evaluation: the workers send P n floats in all, and each receives n. What goes
 * to and from the coordinator is some 200 bytes a portion, and a program and an answer for each of about 2 history + 6
 * dot products and norms of an iteration of L-BFGS. */
#include "strategy/sandblaster.h"

#include "strategy/buckets.h"
#include "strategy/lbfgs_steps.h"
#include "strategy/ps_worker.h"
#include "strategy/shard.h"

typedef struct state {
  ronde__worker *worker;
  const ronde__strategy_settings *settings;
  ronde__transport *group;
  const ronde__member *servers; /* [n_servers] */
  int n_servers, coordinator;
  ronde__bucket live;    /* what trains, as one bucket: servers have what is not dead of it */
  int64_t size;          /* examples of a portion */
  ronde__batch *batches; /* of the step */
  int64_t n_batches;
  ronde__sandblaster_word word;
  ronde__sandblaster_order order;
  ronde__sandblaster_outcome outcome;
  int64_t version;            /* of the weights here */
  ronde__lbfgs_memory memory; /* rank 0: behind the last step */
  ronde__sandblaster_head head;
  ronde__request *requests; /* [n_requests] */
  int n_requests, n_begun;
  int64_t n_portions; /* that it has computed */
} state;

static uint32_t tag_of(uint32_t tag) { return RONDE__SANDBLASTER_TAG(tag); }
static float *gradients_of(const state *s) { return ronde__net_gradients(s->worker->net); }

/* ---- messages ------------------------------------------------------------------------------------------------------ */

static ronde_status begin_send(state *s, int rank, uint32_t tag, const void *data, size_t bytes) {
  return s->group->ops->isend(s->group, rank, tag_of(tag), data, bytes, &s->requests[s->n_begun++]);
}

static ronde_status begin_receive(state *s, int rank, uint32_t tag, void *data, size_t bytes) {
  return s->group->ops->irecv(s->group, rank, tag_of(tag), data, bytes, &s->requests[s->n_begun++]);
}

static ronde_status end_all(state *s, uint64_t timeout_ns) {
  int n = s->n_begun;
  s->n_begun = 0;
  return s->group->ops->wait(s->group, s->requests, n, timeout_ns);
}

static ronde_status send_heads(state *s, ronde__sandblaster_head head) {
  s->head = head;
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(begin_send(s, s->servers[i].rank, RONDE__SANDBLASTER_HEAD, &s->head, sizeof s->head));
  return RONDE_OK;
}

/* Servers' shards of a packed array, to them or from them. */
static ronde_status move_shards(state *s, bool sends, uint32_t tag, float *packed) {
  for (int i = 0; i < s->n_servers; i++) {
    ronde__range shard = ronde__sandblaster_shard(s->live.n_live, i, s->n_servers);
    float *at = packed + shard.begin;
    size_t bytes = shard.n * sizeof *at;
    if (shard.n == 0) continue;
    RONDE_TRY(sends ? begin_send(s, s->servers[i].rank, tag, at, bytes)
                    : begin_receive(s, s->servers[i].rank, tag, at, bytes));
  }
  return RONDE_OK;
}

/* The array of gradients, which is free between two portions, packs what is live. */
static ronde_status receive_live(state *s, uint32_t tag, float *flat) {
  float *packed = s->live.n_dead ? gradients_of(s) : flat;
  RONDE_TRY(move_shards(s, false, tag, packed));
  RONDE_TRY(end_all(s, s->group->timeout_ns));
  if (s->live.n_dead) {
    ronde__bucket_scatter(&s->live, packed, flat);
    ronde__bucket_clear_dead(&s->live, packed);
  }
  return RONDE_OK;
}

static ronde_status send_live(state *s, uint32_t tag, float *flat) {
  float *packed = s->live.n_dead ? gradients_of(s) : flat;
  if (s->live.n_dead) ronde__bucket_gather(&s->live, flat, packed);
  RONDE_TRY(move_shards(s, true, tag, packed));
  RONDE_TRY(end_all(s, s->group->timeout_ns));
  if (s->live.n_dead) ronde__bucket_clear_dead(&s->live, packed);
  return RONDE_OK;
}

static ronde_status fetch(state *s, int64_t version) {
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(send_heads(s, (ronde__sandblaster_head){.kind = RONDE__SANDBLASTER_FETCH}));
  RONDE_TRY(receive_live(s, RONDE__SANDBLASTER_WEIGHTS, ronde__net_values(s->worker->net)));
  s->version = version;
  return RONDE_OK;
}

static ronde_status push(state *s) {
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  ronde__bucket_pack(&s->live, gradients_of(s));
  RONDE_TRY(send_heads(s, (ronde__sandblaster_head){RONDE__SANDBLASTER_PUSH, s->word.portion}));
  RONDE_TRY(move_shards(s, true, RONDE__SANDBLASTER_PIECE, gradients_of(s)));
  RONDE_TRY(end_all(s, s->group->timeout_ns));
  ronde__bucket_clear_dead(&s->live, gradients_of(s));
  return RONDE_OK;
}

/* ---- a step -------------------------------------------------------------------------------------------------------- */

static ronde_status take_batches(state *s, const ronde__step *step) {
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_LOAD);
  for (int i = 0; i < step->n_batches; i++) RONDE_TRY(ronde__loader_next(s->worker->loader, &s->batches[i]));
  return RONDE_OK;
}

static ronde_status say(state *s) {
  RONDE_TRY(begin_send(s, s->coordinator, RONDE__SANDBLASTER_WORD, &s->word, sizeof s->word));
  return end_all(s, s->group->timeout_ns);
}

/* For a worker that is slow, all may wait here: it is the coordinator that says who is lost. */
static ronde_status hear(state *s) {
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_WAIT);
  RONDE_TRY(begin_receive(s, s->coordinator, RONDE__SANDBLASTER_ORDER, &s->order, sizeof s->order));
  RONDE_TRY(end_all(s, s->group->timeout_ns));
  if (s->order.kind != RONDE__SANDBLASTER_OVER) return RONDE_OK;
  RONDE_TRY(begin_receive(s, s->coordinator, RONDE__SANDBLASTER_OUTCOME, &s->outcome, sizeof s->outcome));
  return end_all(s, s->group->timeout_ns);
}

static ronde_status compute(state *s, const ronde__step *step) {
  ronde__worker *worker = s->worker;
  ronde__sandblaster_portion p =
      ronde__sandblaster_portion_at(worker->batch, s->size, step->examples, s->order.portion);
  const ronde__batch *batch = &s->batches[p.batch];
  const ronde_graph *graph = ronde__net_graph(worker->net);
  int64_t elems = ronde__graph_input_elems(graph);
  if (s->order.version != s->version) RONDE_TRY(fetch(s, s->order.version));
  ronde__net_batch part = {.n = p.n,
                           .x = batch->x + p.first * elems,
                           .labels = batch->labels ? batch->labels + p.first * ronde__loss_labels(graph) : NULL,
                           .label_weight = step->label_weight,
                           .targets = batch->targets ? batch->targets + p.first * ronde__loss_elems(graph) : NULL,
                           .training = true,
                           .seed = worker->seed,
                           .step = (uint64_t)step->step,
                           .first_example = p.batch * worker->batch + p.first};
  s->word = (ronde__sandblaster_word){
      .kind = RONDE__SANDBLASTER_DONE, .evaluation = s->order.evaluation, .portion = s->order.portion};
  RONDE_TRY(ronde__worker_gradients_on(worker, step, &part, &s->word.found));
  s->n_portions++;
  ronde__prof_switch(worker->prof, RONDE__PHASE_EXCHANGE);
  return say(s);
}

static void end_step(state *s, ronde__step_result *result_out) {
  const ronde__sandblaster_outcome *o = &s->outcome;
  s->memory = o->memory;
  ronde__optim_set_updates(s->worker->optim, o->memory.n_iterations);
  *result_out = (ronde__step_result){.loss_sum = o->loss_sum,
                                     .n_correct = o->n_correct,
                                     .cancelled = o->cancelled != 0,
                                     .broken_rank = (int)o->broken_rank,
                                     .broken_param = (int)o->broken_param,
                                     .n_evaluations = (int)o->n_evaluations,
                                     .hands_out = true,
                                     .n_own = o->own_examples};
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_OTHER);
}

static ronde_status sandblaster_step(void *opaque, const ronde__step *step, ronde__step_result *result_out) {
  state *s = opaque;
  RONDE_TRY(take_batches(s, step));
  s->word = (ronde__sandblaster_word){.kind = RONDE__SANDBLASTER_BEGIN,
                                      .lr = step->lr,
                                      .step = step->step,
                                      .examples = step->examples,
                                      .n_batches = step->n_batches,
                                      .cancel = step->cancel};
  ronde__prof_switch(s->worker->prof, RONDE__PHASE_EXCHANGE);
  RONDE_TRY(say(s));
  do {
    RONDE_TRY(hear(s));
    if (s->order.pushes) RONDE_TRY(push(s));
    if (s->order.kind == RONDE__SANDBLASTER_PORTION) RONDE_TRY(compute(s, step));
  } while (s->order.kind != RONDE__SANDBLASTER_OVER);
  end_step(s, result_out);
  return RONDE_OK;
}

/* The weights behind the last step are still the servers' alone. */
static ronde_status settle(void *opaque) {
  state *s = opaque;
  return s->version == s->outcome.version ? RONDE_OK : fetch(s, s->outcome.version);
}

static ronde_status gather_state(void *opaque) {
  state *s = opaque;
  ronde__optim *optim = s->worker->optim;
  const char *name;
  if (s->worker->transport->rank != 0) return RONDE_OK;
  RONDE_TRY(send_heads(s, (ronde__sandblaster_head){.kind = RONDE__SANDBLASTER_GIVE_STATE}));
  RONDE_TRY(end_all(s, s->group->timeout_ns));
  for (int i = 0; i < ronde__optim_n_states(optim); i++)
    RONDE_TRY(receive_live(s, RONDE__SANDBLASTER_SHARD, ronde__optim_state(optim, i, &name)));
  return RONDE_OK;
}

static json_t *note(const void *opaque) { return ronde__lbfgs_note(&((const state *)opaque)->memory); }

static ronde_status finish(void *opaque) {
  state *s = opaque;
  s->word = (ronde__sandblaster_word){.kind = RONDE__SANDBLASTER_LEAVING};
  return say(s);
}

/* ---- creation ------------------------------------------------------------------------------------------------------ */

static void destroy(void *opaque) {
  state *s = opaque;
  if (!s) return;
  if (s->requests) s->group->ops->cancel(s->group, s->requests, s->n_requests);
  ronde__free(s->requests);
  ronde__free(s->batches);
  ronde__free(s);
}

static void see_live(state *s) {
  const ronde__net *net = s->worker->net;
  size_t n = ronde__net_n_trained(net), n_dead_elems = ronde__dead_elems(net);
  s->live = (ronde__bucket){.end = n, .n_live = n - n_dead_elems};
  s->live.dead = ronde__net_dead(net, &s->live.n_dead);
}

/* What the others begin with. */
static ronde_status tell_others(state *s) {
  ronde__optim *optim = s->worker->optim;
  bool has_state = s->worker->note != NULL;
  ronde__sandblaster_plan plan = {(int64_t)s->live.n_live, has_state, s->memory};
  const char *name;
  RONDE_TRY(begin_send(s, s->coordinator, RONDE__SANDBLASTER_PLAN, &plan, sizeof plan));
  for (int i = 0; i < s->n_servers; i++)
    RONDE_TRY(begin_send(s, s->servers[i].rank, RONDE__SANDBLASTER_PLAN, &plan, sizeof plan));
  RONDE_TRY(end_all(s, s->group->timeout_ns));
  RONDE_TRY(send_live(s, RONDE__SANDBLASTER_SHARD, ronde__net_values(s->worker->net)));
  for (int i = 0; i < ronde__optim_n_states(optim) && has_state; i++)
    RONDE_TRY(send_live(s, RONDE__SANDBLASTER_SHARD, ronde__optim_state(optim, i, &name)));
  return RONDE_OK;
}

static ronde_status set_up(state *s) {
  const ronde__options *o = s->settings->options;
  const ronde__worker *worker = s->worker;
  int n;
  s->servers = ronde__roles_of(s->settings->roles, RONDE__SANDBLASTER_SERVER, &s->n_servers);
  s->coordinator = ronde__roles_of(s->settings->roles, RONDE__SANDBLASTER_COORDINATOR, &n)->rank;
  s->size = ronde__sandblaster_portion_size(o, worker->batch, worker->transport->size);
  see_live(s);
  s->n_requests = 2 * s->n_servers + 1;
  s->n_batches = o->accumulate;
  RONDE__ALLOC(s->requests, (size_t)s->n_requests * sizeof *s->requests, "sandblaster");
  RONDE__ALLOC(s->batches, (size_t)s->n_batches * sizeof *s->batches, "sandblaster");
  if (worker->note) RONDE_TRY(ronde__lbfgs_read_note(worker->note, (int)o->lbfgs_history, &s->memory));
  return worker->transport->rank == 0 ? tell_others(s) : RONDE_OK;
}

static ronde_status create(ronde__worker *worker, const ronde__strategy_settings *settings, void **state_out) {
  state *s;
  RONDE__ALLOC(s, sizeof *s, "sandblaster");
  *s = (state){.worker = worker, .settings = settings, .group = settings->group, .outcome.version = 1};
  ronde_status status = set_up(s);
  if (status != RONDE_OK) destroy(s);
  else *state_out = s;
  return status;
}

/* ---- what holds of it ---------------------------------------------------------------------------------------------- */

static bool has_own_ranks(const ronde__options *o) { return o->placement == RONDE__PLACEMENT_DEDICATED; }

/* The coordinator's too. */
static int extra_ranks(const ronde__strategy_settings *settings) {
  int n = ronde__ps_extra_ranks(settings);
  return n ? n + 1 : 0;
}

/* The coordinator beside worker 0, or behind the last server. */
static ronde_status place(const ronde__strategy_settings *settings, ronde__roles *roles) {
  RONDE_TRY(ronde__ps_place(settings, &ronde__sandblaster_server_role, roles));
  int rank = has_own_ranks(settings->options) ? roles->n_ranks - 1 : 0;
  return ronde__roles_add(roles, &ronde__sandblaster_coordinator_role, rank);
}

static int64_t pass_examples(const ronde__strategy_settings *settings, int64_t batch, int n_workers) {
  return ronde__sandblaster_portion_size(settings->options, batch, n_workers);
}

/* All servers together: the state, the weights, their gradient, two more vectors of a line search, and portions that came
 * early. */
static size_t more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  return optimizer + (4 + (size_t)ronde__sandblaster_window(settings->roles->n_workers)) * gradients;
}

typedef struct facts_of_rank {
  int64_t n_portions; /* of its worker */
  ronde__sandblaster_counts counts;
} facts_of_rank;

static void facts(const void *opaque, const ronde__service *services, void *facts_out) {
  facts_of_rank *f = facts_out;
  if (opaque) f->n_portions = ((const state *)opaque)->n_portions;
  for (int i = 0; i < RONDE__MAX_BESIDE; i++)
    if (services[i].member && services[i].member->role == &ronde__sandblaster_coordinator_role)
      f->counts = *ronde__sandblaster_counts_of(services[i].state);
}

static void record(const void *opaque, const void *facts, int n_ranks, json_t *communication) {
  const state *s = opaque;
  const facts_of_rank *of_rank = facts;
  json_t *portions = json_array();
  ronde__sandblaster_counts all = {0};
  for (int i = 0; i < n_ranks; i++) {
    if (i < s->settings->roles->n_workers) json_array_append_new(portions, json_integer(of_rank[i].n_portions));
    all.given_twice += of_rank[i].counts.given_twice;
    all.forgotten += of_rank[i].counts.forgotten;
    all.questions += of_rank[i].counts.questions;
  }
  json_object_set_new(communication, "sandblaster",
                      json_pack("{s:I, s:o, s:I, s:I, s:I}", "portion", (json_int_t)s->size, "portions", portions,
                                "given_twice", (json_int_t)all.given_twice, "forgotten", (json_int_t)all.forgotten,
                                "questions", (json_int_t)all.questions));
}

static const char *const options[] = {
    RONDE__OPTIONS_OF_SERVERS, RONDE__OPTIONS_OF_LBFGS, "skip-bad-steps", "sentinel", "portion", NULL};

const ronde__strategy ronde__strategy_sandblaster = {
    .name = "sandblaster",
    .options = options,
    .check = ronde__ps_check,
    .min_workers = 1,
    .rereads = true,
    .equals_one = true,
    .optimizer = "lbfgs",
    .needs_values = true,
    .each_loads_all = true,
    .no_batch_norm = "its running statistics would be of whichever portions a worker gets",
    .extra_ranks = extra_ranks,
    .place = place,
    .pass_examples = pass_examples,
    .more_bytes = more_bytes,
    .create = create,
    .step = sandblaster_step,
    .destroy = destroy,
    .settle = settle,
    .gather_state = gather_state,
    .note = note,
    .finish = finish,
    .facts_bytes = sizeof(facts_of_rank),
    .facts = facts,
    .records = (const char *const[]){"sandblaster", NULL},
    .record = record,
};

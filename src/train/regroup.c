/* Workers of which every step needs all, after a loss (--on-loss continue): those that are left agree on who they are and
 * on the newest step that one of them has whole, take over its state where they have not got so far, and go on as a world
 * of their own: fewer ranks, whose messages nobody takes for those of the world before, and for which batches and tests
 * are cut anew.
 *
 * A rank that finds a member lost gives up whatever it is at, since every call of the transport ends then
 * (ronde__transport_await). Rank 0, which must be there, hears each of those that are left and tells all what follows, so
 * that they agree, whoever is lost meanwhile. Who has come to its end asks too: the others may need its state. Two
 * workers are never more than one step apart, because a step is only ended with a part of each. */
#include "train/rank.h"

#include <inttypes.h>
#include <string.h>

/* What a rank tells, */
typedef struct report {
  int64_t here;
  int64_t ends;    /* it has come to an end that all share */
  int64_t step;    /* the newest behind which it can be; -1: none */
  int64_t has_all; /* of that state, and not a shard of some of it */
} report;

/* and what it is told. */
typedef struct verdict {
  int64_t ends, step, root,
      is_behind; /* root has the state of the step, -1: only all together have it; is_behind: somebody else has not */
  ronde__progress progress;
  ronde__rank_set members;
} verdict;

/* ---- what all agree on ---- */

/* Whether each rank has a shard alone of some of the state. */
static bool is_in_shards(const ronde__rank *r) { return r->job->strategy->hand_over != NULL; }

/* Whether what strategies have shards of lies here whole, left over from a world that came to nothing. */
static bool is_between(const ronde__rank *r) { return !r->strategy_state || (is_in_shards(r) && r->world.whole >= 0); }

/* A strategy that was made anew and has not ended a step yet knows of none. */
static int64_t newest_step(ronde__rank *r) {
  if (is_between(r)) return r->world.whole;
  int64_t step = r->job->strategy->recover(r->strategy_state);
  return step < 0 ? -1 : ronde__max(step, r->world.step);
}

/* The newest step that one has whole; of shards, the one that all can go back to, even where one of them has all of it. */
static void find_state(const ronde__rank *r, const report *all, verdict *v) {
  bool any = false;
  v->root = v->step = -1;
  for (int i = 0; i < r->group->size; i++) {
    bool is_better = is_in_shards(r) ? all[i].step < v->step : all[i].step > v->step;
    if (all[i].here && (!any || is_better)) v->step = all[i].step;
    any |= all[i].here;
  }
  for (int i = 0; i < r->group->size; i++) {
    bool has_it = all[i].has_all && all[i].step == v->step;
    if (all[i].here && has_it && v->root < 0) v->root = i;
    v->is_behind |= all[i].here && !has_it;
  }
}

static ronde_status judge(const ronde__rank *r, const report *all, verdict *v) {
  *v = (verdict){.ends = true};
  for (int i = 0; i < r->group->size; i++) {
    if (!all[i].here) continue;
    ronde__rank_set_add(&v->members, i);
    v->ends &= all[i].ends;
  }
  find_state(r, all, v);
  if (v->ends) return RONDE_OK;
  if (v->step < 0) return ronde__fail(RONDE_E_LOST, "none of the ranks that are left has a whole state to go on from");
  if (r->world.number == RONDE__MAX_WORLDS)
    return ronde__fail(RONDE_E_LOST, "ranks were lost %d times: the others do not go on once more", RONDE__MAX_WORLDS);
  /* It has ended every step that another one has: it has its part in it, and has told its result. */
  const ronde__progress *progress = ronde__rank_progress_behind(r, v->step);
  if (!progress)
    return ronde__fail(RONDE_E_INTERNAL,
                       "rank %" PRId64 " has the state behind step %" PRId64 ", and rank 0 is at %" PRId64, v->root,
                       v->step, r->progress.step);
  v->progress = *progress;
  return RONDE_OK;
}

/* From here on nobody is halted, until there is a world again. */
static ronde_status consult(ronde__rank *r, report own, verdict *v) {
  report *all;
  RONDE__ALLOC(all, (size_t)r->group->size * sizeof *all, "meeting");
  ronde__transport_await(r->group, NULL);
  all[r->group->rank] = own;
  ronde_status status = ronde__rank_hear_all(r->group, RONDE__TAG_WORLD, all, sizeof *all);
  if (status == RONDE_OK && r->group->rank == 0) status = judge(r, all, v);
  ronde__free(all);
  RONDE_TRY(status);
  return ronde__rank_tell_all(r->group, RONDE__TAG_WORLD, v, sizeof *v);
}

static void note_losses(ronde__rank *r, const verdict *v) {
  for (int i = 0; i < r->job->roles.n_workers; i++) {
    bool is_member = ronde__rank_set_has(&v->members, i);
    if (!is_member) r->results[i] = (ronde__epoch_result){0};
    if (!is_member && (i == r->transport->rank || r->world.awaited[i])) r->world.since[i] = v->step;
    r->results[i].here = is_member;
  }
  ronde__rank_count_there(r);
}

/* ---- the new world ---- */

/* Behind the step that all go on from: as if what was done since had not been begun. */
static void go_back(ronde__rank *r, const verdict *v) {
  int64_t step = v->step, epoch;
  ronde__rank_return_to(r, step);
  r->progress = v->progress;
  r->behind[0] = v->progress;
  r->behind[1] = (ronde__progress){.step = -1};
  r->agreed = false;
  epoch = ronde__progress_epoch(&r->progress, r->job);
  if (r->now.step != step || r->now.epoch.epoch != epoch) r->now = r->then;
  if (r->now.step != step || r->now.epoch.epoch != epoch) r->now = (ronde__tally){0};
}

static void drop_strategy(ronde__rank *r) {
  if (r->strategy_state) r->job->strategy->destroy(r->strategy_state);
  r->strategy_state = NULL;
  r->worker.param_needed = NULL;
  r->worker.needed_user = NULL;
}

/* Parameters, optimizer's state and a strategy's arrays, from a rank that has them to all. */
static ronde_status share_state(ronde__rank *r, const verdict *v) {
  ronde__transport *world = ronde__rank_world(r);
  size_t bytes = ronde__net_n_trained(r->net) * sizeof(float);
  int64_t n_updates = ronde__optim_updates(r->optim);
  int root = 0;
  while (r->world.members[root] != v->root) root++;
  RONDE_TRY(ronde__broadcast_tree(world, RONDE__TAG_WORLD, root, &n_updates, sizeof n_updates));
  if (r->world.whole != v->step) r->world.whole = -1;
  RONDE_TRY(ronde__broadcast_tree(world, RONDE__TAG_WORLD, root, ronde__net_values(r->net), bytes));
  for (int i = 0; i < r->state.n_arrays; i++)
    RONDE_TRY(ronde__broadcast_tree(world, RONDE__TAG_WORLD, root, r->state.arrays[i].values, bytes));
  ronde__optim_set_updates(r->optim, n_updates);
  r->world.whole = v->step;
  return RONDE_OK;
}

/* The optimizer has its whole state again, with which it was made. */
static ronde_status give_whole(ronde__rank *r) {
  int n_dead, n = ronde__optim_n_states(r->optim);
  const ronde__range *dead = ronde__net_dead(r->net, &n_dead);
  float **whole;
  RONDE__ALLOC(whole, (size_t)(n + 1) * sizeof *whole, "--on-loss");
  for (int i = 0; i < n; i++) whole[i] = r->state.arrays[i].values;
  ronde__optim_take(r->optim, whole, ronde__net_n_trained(r->net));
  ronde__optim_set_dead(r->optim, dead, n_dead);
  ronde__free(whole);
  return RONDE_OK;
}

/* All get the whole of what each has a shard of. Nobody gives its shards up before all have got it: who is lost meanwhile may
 * have been the one who had it. */
static ronde_status join_shards(ronde__rank *r, const verdict *v) {
  ronde__transport *world = ronde__rank_world(r);
  const ronde__strategy *strategy = r->job->strategy;
  uint8_t *has_it;
  RONDE_TRY(ronde__rank_make_whole(r));
  if (v->root < 0) RONDE_TRY(strategy->hand_over(r->strategy_state, world, r->world.members));
  else if (v->is_behind) RONDE_TRY(share_state(r, v));
  r->world.whole = v->step;
  RONDE__ALLOC(has_it, (size_t)world->size, "--on-loss");
  ronde_status status = ronde__allgather(world, RONDE__TAG_WORLD, has_it, sizeof *has_it);
  ronde__free(has_it);
  RONDE_TRY(status);
  return r->strategy_state ? give_whole(r) : RONDE_OK;
}

static ronde_status get_state(ronde__rank *r, const verdict *v) {
  if (!is_in_shards(r)) return v->is_behind ? share_state(r, v) : RONDE_OK;
  RONDE_TRY(join_shards(r, v));
  drop_strategy(r);
  return RONDE_OK;
}

static ronde_status go_on(ronde__rank *r, const verdict *v, int64_t own_step) {
  const ronde__strategy *strategy = r->job->strategy;
  /* Nothing that was given up may be written into once the memory is used again. */
  if (r->group->ops->land) RONDE_TRY(r->group->ops->land(r->group));
  if (!is_in_shards(r)) {
    drop_strategy(r);
    r->world.whole = own_step;
  } else if (r->strategy_state) strategy->go_back(r->strategy_state, v->step);
  ronde__rank_make_world(r, &v->members, v->step);
  ronde__transport_await(r->group, r->world.awaited);
  go_back(r, v);
  RONDE_TRY(get_state(r, v));
  RONDE_TRY(ronde__rank_cut_anew(r));
  if (r->straggler) ronde__straggler_be_among(r->straggler, r->world.members, r->world.n);
  r->worker.transport = r->worker.replicas = ronde__rank_world(r);
  RONDE_TRY(strategy->create(&r->worker, &r->settings, &r->strategy_state));
  ronde__rank_forget_whole(r);
  r->world.whole = -1;
  r->state.strategy_state = r->strategy_state;
  ronde__worker_start(&r->worker);
  if (r->group->rank == 0)
    ronde__log(RONDE_LOG_WARNING, "%d of %d workers are left: they go on behind step %" PRId64, r->world.n,
               r->job->roles.n_workers, v->step);
  return RONDE_OK;
}

ronde_status ronde__rank_regroup(ronde__rank *r, bool ends, bool *ended_out) {
  ronde_status status;
  ronde__prof_switch(r->prof, RONDE__PHASE_EXCHANGE);
  do {
    verdict v = {0};
    report own = {true, ends, ends ? r->progress.step : newest_step(r), !is_in_shards(r) || is_between(r)};
    RONDE_TRY(consult(r, own, &v));
    note_losses(r, &v);
    *ended_out = v.ends;
    if (v.ends) break;
    ends = false;
    status = go_on(r, &v, own.step);
    if (status != RONDE_OK && !ronde__rank_is_halted(r, status)) return status;
  } while (status != RONDE_OK);
  ronde__prof_switch(r->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

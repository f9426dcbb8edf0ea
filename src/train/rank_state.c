/* What belongs to the state of a rank's run, and that of a checkpoint in it, where the run goes on from one. */
#include "setup/setup.h"
#include "train/rank.h"

#include <inttypes.h>
#include <string.h>

/* All but the parameters, which every strategy takes from rank 0. */
static ronde_status share_state(ronde__rank *r) {
  int n_buffers;
  size_t n_elems;
  ronde__net_buffer *buffers = ronde__net_buffers(r->net, &n_buffers);
  float *values = ronde__net_buffer_values(r->net, &n_elems);
  RONDE_TRY(ronde__start_broadcast(r->transport, values, n_elems * sizeof *values));
  for (int i = 0; i < n_buffers; i++)
    RONDE_TRY(ronde__start_broadcast(r->transport, &buffers[i].count, sizeof buffers[i].count));
  size_t n_trained = ronde__net_n_trained(r->net);
  for (int i = 0; i < r->state.n_arrays; i++)
    RONDE_TRY(ronde__start_broadcast(r->transport, r->state.arrays[i].values, n_trained * sizeof(float)));
  return RONDE_OK;
}

/* The optimizer's arrays, then the strategy's. */
ronde_status ronde__rank_list_state(ronde__rank *r) {
  int n_own = ronde__optim_n_states(r->optim), n_more = 0;
  const char *const *more = r->job->strategy->arrays;
  while (more && more[n_more]) n_more++;
  r->state = (ronde__state){.net = r->net, .optim = r->optim};
  RONDE__ALLOC(r->state.arrays, (size_t)(n_own + n_more) * sizeof *r->state.arrays, "training");
  for (int i = 0; i < n_own + n_more; i++) {
    ronde__state_array *array = &r->state.arrays[i];
    if (i < n_own) array->values = ronde__optim_state(r->optim, i, &array->name);
    else {
      array->name = more[i - n_own];
      RONDE__ALLOC_FLOATS(array->values, ronde__job_flat_kernels(r->job), ronde__net_n_trained(r->net), "training");
    }
    r->state.n_arrays++;
  }
  return RONDE_OK;
}

bool ronde__rank_is_sharded(ronde__rank *r) {
  return r->job->strategy->shards_optimizer && ronde__rank_world(r)->size > 1;
}

void ronde__rank_forget_whole(ronde__rank *r) {
  for (int i = 0; i < ronde__optim_n_states(r->optim) && ronde__rank_is_sharded(r); i++)
    r->state.arrays[i].values = NULL;
}

ronde_status ronde__rank_make_whole(ronde__rank *r) {
  size_t bytes = ronde__net_n_trained(r->net) * sizeof(float);
  for (int i = 0; i < ronde__optim_n_states(r->optim); i++) {
    if (!r->state.arrays[i].values) r->state.arrays[i].values = ronde__pages_map(bytes);
    if (!r->state.arrays[i].values)
      return ronde__fail(RONDE_E_MEMORY, "no memory for the optimizer's state, %zu bytes", bytes);
  }
  return RONDE_OK;
}

void ronde__rank_drop_whole(ronde__rank *r) {
  size_t bytes = ronde__net_n_trained(r->net) * sizeof(float);
  for (int i = 0; i < ronde__optim_n_states(r->optim) && ronde__rank_is_sharded(r); i++) {
    ronde__pages_unmap(r->state.arrays[i].values, bytes);
    r->state.arrays[i].values = NULL;
  }
}

void ronde__rank_drop_state(ronde__rank *r) {
  for (int i = r->optim ? ronde__optim_n_states(r->optim) : 0; i < r->state.n_arrays; i++)
    ronde__free(r->state.arrays[i].values);
  ronde__free(r->state.arrays);
}

ronde_status ronde__rank_take_state(ronde__rank *r) {
  if (!r->job->resume) return RONDE_OK;
  RONDE_TRY(ronde__resume_load(r->job->resume, &r->state));
  if (r->state.parts && r->job->mpi) return ronde__parts_spread(r->state.parts, r->job->resume->file);
  return r->job->mpi ? share_state(r) : RONDE_OK;
}

/* What a forward pass changes, and a step that is left out must not have changed. Behind a step that nobody returns to,
 * what the older one keeps stays. */
void ronde__rank_keep_buffers(ronde__rank *r) {
  int n_buffers;
  size_t n_elems;
  const ronde__net_buffer *buffers = ronde__net_buffers(r->net, &n_buffers);
  const float *values = ronde__net_buffer_values(r->net, &n_elems);
  if (r->kept[0].step == r->behind[0].step || r->kept[0].step == r->behind[1].step) {
    ronde__kept older = r->kept[1];
    r->kept[1] = r->kept[0];
    r->kept[0] = older;
  }
  ronde__kept *kept = &r->kept[0];
  kept->step = r->progress.step;
  if (n_elems) memcpy(kept->buffers, values, n_elems * sizeof *values);
  for (int i = 0; i < n_buffers; i++) kept->counts[i] = buffers[i].count;
}

static void restore(ronde__rank *r, const ronde__kept *kept) {
  int n_buffers;
  size_t n_elems;
  ronde__net_buffer *buffers = ronde__net_buffers(r->net, &n_buffers);
  float *values = ronde__net_buffer_values(r->net, &n_elems);
  if (n_elems) memcpy(values, kept->buffers, n_elems * sizeof *values);
  for (int i = 0; i < n_buffers; i++) buffers[i].count = kept->counts[i];
}

void ronde__rank_restore_buffers(ronde__rank *r) { restore(r, &r->kept[0]); }

/* In the middle of a step that is given up: as it was in front of it, or of an earlier one. */
void ronde__rank_return_to(ronde__rank *r, int64_t step) {
  for (size_t i = 0; i < RONDE__COUNT(r->kept); i++)
    if (r->kept[i].step == step) {
      restore(r, &r->kept[i]);
      return;
    }
}

const ronde__progress *ronde__rank_progress_behind(const ronde__rank *r, int64_t step) {
  for (size_t i = 0; i < RONDE__COUNT(r->behind); i++)
    if (r->behind[i].step == step) return &r->behind[i];
  return NULL;
}

static void save_after_loss(ronde__rank *r, const ronde__progress *behind) {
  ronde__transport *group = r->group;
  if (!group->ops->claim || !group->ops->claim(group, behind->step)) return;
  ronde__transport_note(group, (ronde__doing){RONDE__SAVING, behind->step});
  ronde__rank_return_to(r, behind->step);
  if (!r->saver && ronde__saver_create(r->job, group->time, &r->state, &r->saver) != RONDE_OK) return;
  if (r->reporter->saving && r->reporter->saving(r->reporter->user) != RONDE_OK) return;
  if (ronde__saver_now(r->saver, behind, true) == RONDE_OK)
    ronde__log(RONDE_LOG_WARNING, "rank %d has saved the state behind step %" PRId64, group->rank, behind->step);
}

/* Steps of this worker alone have ended too, although nothing goes on from them. */
void ronde__rank_recover(ronde__rank *r) {
  const ronde__job *job = r->job;
  const ronde_hooks *hooks = &job->hooks;
  int64_t begun = job->resume ? job->resume->progress.step : 0, ended = r->progress.step;
  bool may_start_again = job->options->on_loss == RONDE__ON_LOSS_RESTART || (job->regroups && job->options->out);
  if (!may_start_again || !r->strategy_state) return;
  bool has_all = job->strategy->recover && !job->strategy->hand_over;
  int64_t step = has_all ? job->strategy->recover(r->strategy_state) : -1;
  const ronde__progress *behind = step > 0 ? ronde__rank_progress_behind(r, step) : NULL;
  if (behind && r->behind[0].step == ended) ended = step;
  if (hooks->lost) hooks->lost(hooks->user, begun, ended);
  if (behind && step > begun) save_after_loss(r, behind);
}

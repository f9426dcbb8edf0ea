/* What a rank needs before its first step, and its end. */
#include "train/rank.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *optimizer_name(const ronde__job *job) {
  static const char *const names[] = {
      [RONDE__OPTIM_SGD] = "sgd",         [RONDE__OPTIM_ADAM] = "adam",       [RONDE__OPTIM_ADAMW] = "adamw",
      [RONDE__OPTIM_ADAGRAD] = "adagrad", [RONDE__OPTIM_RMSPROP] = "rmsprop", [RONDE__OPTIM_LBFGS] = "lbfgs"};
  return names[job->optim.kind];
}

static double slowness_of(const ronde__rank *r) {
  return r->job->sim ? ronde__sim_net_slowness(r->job->sim, r->group->rank) : 1;
}

static ronde_status make_net(ronde__rank *r) {
  const ronde__job *job = r->job;
  ronde__replay replay = {.spans = job->spans, .time = r->group->time, .slowness = slowness_of(r)};
  RONDE_TRY(ronde__pool_create(job->spans ? 1 : job->threads, &r->pool));
  RONDE_TRY(ronde__prof_create(r->transport->rank, r->transport->time, job->options->trace, &r->prof));
  RONDE_TRY(ronde__job_graph(job, &r->graph));
  if (job->options->sync_bn) ronde__graph_synchronise(r->graph);
  ronde__net_options options = ronde__job_net_options(job, r->pool, r->prof, true);
  options.transient_gradients = job->fused_update;
  options.taker_name = optimizer_name(job);
  if (job->spans) options.replay = &replay;
  options.stage = ronde__rank_stage(r);
  if (job->split) {
    RONDE_TRY(ronde__peer_ranks_set(&r->peers, r->transport, job->turns, r->prof, &r->worker.met_ns));
    options.split = (ronde__split){job->split, &r->peers.exchanges, job->fuses_split};
  }
  RONDE_TRY(ronde__net_create(r->graph, &options, &r->net));
  if (!job->resume && !job->spans) RONDE_TRY(ronde__net_init(r->net, (uint64_t)job->options->seed));
  if (job->init) ronde__weights_load(r->net, job->init, job->new_head != NULL);
  RONDE_TRY(ronde__job_optim(job, r->net, &r->optim));
  if (job->spans) ronde__optim_pace(r->optim, r->group->time, ronde__job_element_ns(job) * replay.slowness);
  RONDE_TRY(ronde__rank_list_state(r));
  RONDE_TRY(ronde__rank_make_parts(r));
  return ronde__rank_take_state(r);
}

/* Of the update after `step`, the batch that comes first: epoch from 1, index from 0. */
static void find_batch(const ronde__job *job, int64_t step, int64_t *epoch_out, int64_t *index_out) {
  *epoch_out = step / job->steps_per_epoch + 1;
  *index_out = step % job->steps_per_epoch * job->options->accumulate;
}

/* The plans that this rank's steps need: a whole batch and the short last one. */
static ronde_status prepare_plans(ronde__rank *r) {
  const ronde__job *job = r->job;
  if (job->strategy->pass_examples)
    return ronde__net_prepare(r->net, ronde__min(job->local_batch, ronde__sampler_epoch_examples(job->sampler)));
  int64_t last = ronde__sampler_epoch_examples(job->sampler) - (job->batches_per_epoch - 1) * job->batch,
          sizes[] = {job->batch, last};
  for (int i = 0; i < 2; i++) {
    int64_t n =
        ronde__shard_begin(sizes[i], r->share + 1, r->n_shares) - ronde__shard_begin(sizes[i], r->share, r->n_shares);
    if (job->split) RONDE_TRY(ronde__net_prepare_split(r->net, sizes[i]));
    else if (n > 0 || job->options->sync_bn) RONDE_TRY(ronde__net_prepare(r->net, ronde__max(1, n)));
  }
  return RONDE_OK;
}

/* What a strategy may know of the run; a worker adds how it exchanges. */
static ronde__strategy_settings settings_of(const ronde__rank *r) {
  const ronde__job *job = r->job;
  return (ronde__strategy_settings){.options = job->options, .group = r->group, .roles = &job->roles};
}

static ronde_status make_service(ronde__rank *r, int i, ronde__pool *pool) {
  const ronde__job *job = r->job;
  ronde__service *service = &r->services[i];
  service->member = ronde__roles_at(&job->roles, r->group->rank, i);
  if (!service->member) return RONDE_OK;
  ronde__service_options options = {.settings = &r->settings,
                                    .member = service->member,
                                    .kernels = ronde__job_flat_kernels(job),
                                    .optim = &job->optim,
                                    .element_ns = ronde__job_element_ns(job) * slowness_of(r),
                                    .optimizer_name = optimizer_name(job),
                                    .clip = job->options->clip,
                                    .records_order = job->records_order,
                                    .pool = pool};
  return service->member->role->create(&options, &service->state);
}

/* Beside the worker, whose pool they leave alone. */
static ronde_status start_services(ronde__rank *r) {
  for (int i = 0; i < RONDE__MAX_BESIDE; i++) {
    ronde__service *service = &r->services[i];
    RONDE_TRY(make_service(r, i, NULL));
    if (!service->state) continue;
    RONDE_TRY(ronde__comm_thread_create(r->group->time, r->group->rank, false, &r->service_threads[i]));
    RONDE_TRY(ronde__comm_thread_submit(r->service_threads[i], service->member->role->run, service->state));
  }
  return RONDE_OK;
}

ronde_status ronde__rank_serve(ronde__rank *r) {
  r->settings = settings_of(r);
  RONDE_TRY(ronde__pool_create(r->job->spans ? 1 : r->job->threads, &r->pool));
  RONDE_TRY(make_service(r, 0, r->pool));
  RONDE_TRY(r->services[0].member->role->run(r->services[0].state));
  r->agreed = true;
  return RONDE_OK;
}

static ronde_status make_kept(ronde__rank *r) {
  int n_buffers;
  size_t n_elems;
  ronde__net_buffers(r->net, &n_buffers);
  ronde__net_buffer_values(r->net, &n_elems);
  for (size_t i = 0; i < RONDE__COUNT(r->kept); i++) {
    ronde__kept *kept = &r->kept[i];
    kept->step = -1;
    RONDE__ALLOC(kept->buffers, n_elems * sizeof *kept->buffers, "training");
    RONDE__ALLOC(kept->counts, (size_t)n_buffers * sizeof *kept->counts, "training");
  }
  return RONDE_OK;
}

/* For a vector of a bucket's length. A checkpoint names what was chosen: a run that goes on from it has the same sums,
 * also with a later version's model. */
static ronde_status choose_collective(ronde__rank *r, const ronde__allreduce **chosen_out) {
  const ronde__job *job = r->job;
  *chosen_out = NULL;
  if (!job->strategy->all_reduces) return RONDE_OK;
  *chosen_out = job->collective;
  if (job->collective) {
    snprintf(r->collective_reason, sizeof r->collective_reason, "%s", job->collective_reason);
    return RONDE_OK;
  }
  size_t bucket = (size_t)(job->options->bucket_mb * 1e6 / sizeof(float)), all = ronde__net_n_trained(r->net);
  size_t n = bucket < all ? bucket : all;
  ronde__ranks ranks = ronde__ranks_of(r->transport);
  int n_hosts = ronde__ranks_hosts(&ranks);
  *chosen_out = ronde__allreduce_auto(&ranks, n);
  snprintf(r->collective_reason, sizeof r->collective_reason,
           "modelled for %d ranks on %d host%s, vectors of %zu bytes", ranks.n, n_hosts, n_hosts > 1 ? "s" : "",
           n * sizeof(float));
  bool tells = r->transport->rank == 0 && job->roles.n_workers > 1;
  return tells ? ronde_config_set(job->given, "collective", (*chosen_out)->name) : RONDE_OK;
}

/* From a batch of an epoch on. */
static ronde_status make_loader(ronde__rank *r, int64_t epoch, int64_t index) {
  const ronde__job *job = r->job;
  bool slow_to_load = ronde__job_drills(job, RONDE__DRILL_LOAD, r->transport->rank);
  ronde__loader_options loader = ronde__job_loader(job, ronde__rank_reads(r), r->replica);
  if (!ronde__strategy_reads_whole(job->strategy)) loader.rank = r->share, loader.world = r->n_shares;
  loader.time = r->transport->time;
  loader.delay_ns = slow_to_load ? job->drills[RONDE__DRILL_LOAD].ns : 0;
  if (job->spans)
    loader.delay_ns += ronde__spans_scale(job->spans, job->spans->load_ns, job->local_batch, slowness_of(r));
  loader.first_epoch = epoch;
  loader.first_index = index;
  RONDE_TRY(ronde__loader_create(&loader, &r->loader));
  r->worker.loader = r->loader;
  return RONDE_OK;
}

static ronde_status cut_anew(ronde__rank *r, int64_t epoch, int64_t index) {
  r->worker.share = r->share = r->place;
  r->worker.n_shares = r->n_shares = r->n_there;
  ronde__loader_destroy(r->loader);
  r->loader = NULL;
  if (!r->job->spans) RONDE_TRY(prepare_plans(r));
  return make_loader(r, epoch, index);
}

ronde_status ronde__rank_share_out(ronde__rank *r, int64_t epoch) {
  return ronde__rank_has_lost(r) && r->n_shares != r->n_there ? cut_anew(r, epoch, 0) : RONDE_OK;
}

ronde_status ronde__rank_cut_anew(ronde__rank *r) {
  int64_t epoch, index;
  find_batch(r->job, r->progress.step, &epoch, &index);
  return cut_anew(r, epoch, index);
}

ronde_status ronde__rank_set_up(ronde__rank *r) {
  const ronde__job *job = r->job;
  if (job->roles.n_ranks > job->roles.n_workers)
    r->transport = ronde__view_make(&r->workers, r->group, job->roles.worker_ranks, job->roles.n_workers);
  RONDE_TRY(ronde__rank_find_stage(r));
  if (job->regroups) RONDE_TRY(ronde__rank_found_world(r));
  r->n_there = job->roles.n_workers;
  r->place = r->transport->rank;
  r->share = r->replica;
  r->n_shares = job->n_replicas;
  RONDE_TRY(make_net(r));
  if (!job->spans && !job->strategy->n_stages) RONDE_TRY(prepare_plans(r));
  if (job->options->record_spans && r->group->rank == 0)
    RONDE_TRY(ronde__recorder_create(r->net, r->prof, job->local_batch, &r->recorder));
  size_t partial_elems = ronde__net_partial_elems(r->net);
  if (partial_elems)
    RONDE__ALLOC(r->partials, (size_t)job->roles.n_workers * (1 + partial_elems) * sizeof *r->partials, "training");
  bool returns = job->options->on_loss == RONDE__ON_LOSS_RESTART || job->regroups;
  if (job->options->skip_bad_steps || returns) RONDE_TRY(make_kept(r));
  RONDE__ALLOC(r->results, (size_t)job->roles.n_workers * sizeof *r->results, "training");
  RONDE__ALLOC(r->heard, (size_t)job->roles.n_workers * sizeof *r->heard, "training");
  bool waits = job->roles.n_workers > 1 && job->strategy->waits_for_all;
  if (waits && r->transport->rank == 0) RONDE_TRY(ronde__straggler_create(job->roles.n_workers, &r->straggler));
  int64_t first_epoch, first_index;
  r->progress = job->resume ? job->resume->progress : ronde__progress_none();
  r->reported_step = r->world.step = r->progress.step;
  if (job->regroups) r->behind[0] = r->progress;
  /* What was done of the epoch is everybody's: of ranks that count their own steps, rank 0 goes on with it. */
  if (job->strategy->asynchronous && r->transport->rank != 0)
    r->progress.sums = (ronde__sums){.steps = r->progress.sums.steps};
  find_batch(job, r->progress.step, &first_epoch, &first_index);
  if (!job->strategy->rank_0_loads || r->transport->rank == 0) RONDE_TRY(make_loader(r, first_epoch, first_index));
  const ronde__allreduce *collective;
  RONDE_TRY(choose_collective(r, &collective));
  r->settings = settings_of(r);
  r->settings.collective = collective;
  r->settings.bucket_bytes = (int64_t)(job->options->bucket_mb * 1e6);
  r->settings.wire_bf16 = job->options->wire == RONDE__WIRE_BF16;
  r->settings.overlap = job->options->overlap == RONDE__OVERLAP_ON;
  r->worker = (ronde__worker){.transport = ronde__rank_world(r),
                              .replicas = r->replicas,
                              .stage = r->stage,
                              .n_stages = job->n_stages,
                              .kernels = ronde__job_flat_kernels(job),
                              .recorder = r->recorder,
                              .pool = r->pool,
                              .prof = r->prof,
                              .net = r->net,
                              .optim = r->optim,
                              .loader = r->loader,
                              .seed = (uint64_t)job->options->seed,
                              .batch = job->batch,
                              .share = r->share,
                              .n_shares = r->n_shares,
                              .members = r->world.members,
                              .clip = job->options->clip,
                              .fused_update = job->fused_update,
                              .peers = job->split ? &r->peers : NULL,
                              .fuses_split = job->split && job->fuses_split,
                              .partials = r->partials,
                              .straggler = r->straggler,
                              .optim_arrays = r->state.arrays,
                              .arrays = r->state.arrays + ronde__optim_n_states(r->optim),
                              .note = job->resume ? ronde__resume_note(job->resume) : NULL};
  r->worker.update_slot =
      ronde__prof_op_slot(r->prof, optimizer_name(job), RONDE__PHASE_UPDATE, r->worker.kernels->isa);
  r->worker.before_forward_arg = r;
  RONDE_TRY(start_services(r));
  RONDE_TRY(job->strategy->create(&r->worker, &r->settings, &r->strategy_state));
  ronde__rank_forget_whole(r);
  r->state.strategy_state = r->strategy_state;
  bool saves = r->transport->rank == 0 && job->options->out;
  return saves ? ronde__saver_create(job, r->transport->time, &r->state, &r->saver) : RONDE_OK;
}

void ronde__rank_tear_down(ronde__rank *r) {
  ronde__saver_destroy(r->saver);
  if (r->strategy_state) r->job->strategy->destroy(r->strategy_state);
  for (int i = 0; i < RONDE__MAX_BESIDE; i++) {
    ronde__comm_thread_destroy(r->service_threads[i]);
    if (r->services[i].member) r->services[i].member->role->destroy(r->services[i].state);
  }
  ronde__loader_destroy(r->loader);
  ronde__free(r->ids.ids);
  ronde__parts_destroy(r->state.parts);
  ronde__rank_drop_state(r);
  ronde__optim_destroy(r->optim);
  ronde__net_destroy(r->net);
  ronde_graph_destroy(r->graph);
  ronde__pool_destroy(r->pool);
  ronde__prof_destroy(r->prof);
  ronde__straggler_destroy(r->straggler);
  ronde__recorder_destroy(r->recorder);
  ronde__peer_ranks_release(&r->peers);
  ronde__free(r->partials);
  ronde__free(r->same_ranks);
  ronde__free(r->results);
  ronde__free(r->heard);
  ronde__rank_drop_world(r);
  ronde__free(r->facts);
  ronde__free(r->strategy_facts);
  ronde__free(r->clocks);
  ronde__free(r->ops);
  ronde__free(r->op_rows);
  for (size_t i = 0; i < RONDE__COUNT(r->kept); i++) {
    ronde__free(r->kept[i].buffers);
    ronde__free(r->kept[i].counts);
  }
}

/* The ranks of a job: how many, of which transport, threads, strategy and servers. */
#include "setup/setup.h"

#include "comm/mpi.h"
#include "config/option.h"

#include <ronde/measure.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

ronde_status ronde__joins_mpi(const ronde_config *config, bool *joins_out) {
  const ronde__options *o = ronde__config_options(config);
  *joins_out = o->transport == RONDE__TRANSPORT_MPI || (o->transport == RONDE__TRANSPORT_AUTO && ronde__mpi_launched());
  if (o->transport == RONDE__TRANSPORT_SIM && config->verb != RONDE__VERB_TRAIN)
    return ronde__fail(RONDE_E_USAGE, "--transport sim: only train can be simulated");
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_LAUNCHED, *joins_out));
  return ronde__config_settle(config, RONDE__NEED_MPI, *joins_out);
}

ronde_status ronde__join_ranks(ronde__job *job) {
  bool joins;
  RONDE_TRY(ronde__joins_mpi(job->config, &joins));
  if (!joins) return RONDE_OK;
  ronde__mpi_options options = ronde__mpi_options_of(job->config);
  options.stuck = job->hooks.stuck;
  options.user = job->hooks.user;
  if (!job->mpi) {
    RONDE_TRY(ronde__transport_mpi(&options, &job->mpi));
    if (job->hooks.joined) job->hooks.joined(job->hooks.user);
  }
  job->config->options.transport = RONDE__TRANSPORT_MPI;
  return job->rooms ? RONDE_OK : ronde__find_rooms(job);
}

static ronde__strategy_settings settings_of(const ronde__options *o) {
  return (ronde__strategy_settings){.options = o};
}

/* NULL: the user names none. */
static const ronde__strategy *find_strategy(const ronde_config *config) {
  ronde__strategy_settings settings = settings_of(ronde__config_options(config));
  return ronde__strategy_find(ronde_config_get(config, "strategy"), &settings);
}

/* Under MPI the launcher has said how many there are. */
static ronde_status count_workers(ronde__job *job, int n_extra) {
  ronde__options *o = &job->config->options;
  if (!job->mpi && job->config->verb == RONDE__VERB_TRAIN) RONDE_TRY(ronde__join_ranks(job)); /* --resume brought it */
  if (!job->mpi) return RONDE_OK;
  int n_workers = job->mpi->size - n_extra;
  /* All ranks see it; one says it. */
  if (n_workers < 1 || (ronde_config_is_given(job->config, "workers") && o->workers != n_workers))
    return job->mpi->rank != 0 ? RONDE_E_USAGE
                               : ronde__fail(RONDE_E_USAGE, "--workers %" PRId64 "%s, but MPI has started %d processes",
                                             o->workers, n_extra ? " and their servers" : "", job->mpi->size);
  o->workers = n_workers;
  return RONDE_OK;
}

/* Where the user says nothing of them. */
static void suggest_workers(ronde__job *job) {
  ronde__options *o = &job->config->options;
  ronde__strategy_settings settings = settings_of(o);
  const ronde__strategy *strategy = job->config->verb == RONDE__VERB_TRAIN ? find_strategy(job->config) : NULL;
  if (!strategy || !strategy->usual_workers || job->mpi || ronde_config_is_given(job->config, "workers")) return;
  o->workers = ronde__max(o->workers, strategy->usual_workers(&settings));
}

/* Ranks on the host of the first one here. */
static int ranks_here(const ronde__job *job) {
  int n = 0;
  if (job->mpi) return ronde__transport_local(job->mpi);
  if (!job->sim) return job->roles.n_ranks;
  for (int r = 0; r < job->roles.n_ranks; r++) n += job->sim_host_of[r] == job->sim_host_of[0];
  return n;
}

/* Of the workers of this host. */
static int default_threads(const ronde__job *job) { return (int)ronde__max(1, ronde__cores() / ranks_here(job)); }

ronde_status ronde__settle_optimizer(ronde__job *job) {
  const ronde__strategy *strategy = find_strategy(job->config);
  if (!strategy || !strategy->optimizer) return RONDE_OK;
  const char *given = ronde_config_get(job->config, "optimizer");
  if (ronde_config_is_given(job->config, "optimizer") && strcmp(given, strategy->optimizer))
    return ronde__fail(RONDE_E_USAGE, "--optimizer %s: the servers of --strategy %s update by %s", given,
                       strategy->name, strategy->optimizer);
  RONDE_TRY(ronde_config_set(job->config, "optimizer", strategy->optimizer));
  return ronde_config_set(job->given, "optimizer", strategy->optimizer); /* also of a run that goes on by another */
}

int ronde_config_server_ranks(const ronde_config *config) {
  ronde__strategy_settings settings = settings_of(ronde__config_options(config));
  const ronde__strategy *strategy = config->verb == RONDE__VERB_TRAIN ? find_strategy(config) : NULL;
  return strategy && strategy->extra_ranks ? strategy->extra_ranks(&settings) : 0;
}

/* Of a training; NULL: it is none, or not known yet. */
static const ronde__strategy *meant(const ronde_config *config) {
  const ronde__options *o = ronde__config_options(config);
  ronde__strategy_settings settings = settings_of(o);
  if (config->verb != RONDE__VERB_TRAIN) return NULL;
  if (o->strategy != RONDE__STRATEGY_AUTO) return find_strategy(config);
  return ronde__strategy_default(o->hosts || o->hostfile ? 2 : (int)o->workers, &settings);
}

bool ronde_config_goes_on(const ronde_config *config) {
  const ronde__options *o = ronde__config_options(config);
  const ronde__strategy *strategy = meant(config);
  if (!strategy) return false;
  if (o->on_loss == RONDE__ON_LOSS_CONTINUE) return strategy->goes_on || strategy->regroups;
  return o->on_loss == RONDE__ON_LOSS_AUTO && strategy->goes_on;
}

bool ronde_config_restarts(const ronde_config *config) {
  const ronde__options *o = ronde__config_options(config);
  const ronde__strategy *strategy = meant(config);
  if (config->verb != RONDE__VERB_TRAIN || !o->out || !*o->out) return false;
  if (o->on_loss == RONDE__ON_LOSS_RESTART) return true;
  return o->on_loss == RONDE__ON_LOSS_CONTINUE && strategy && strategy->regroups;
}

bool ronde_config_understands(const ronde_config *config, const char *name, const char *option) {
  const ronde__options *o = ronde__config_options(config);
  ronde__strategy_settings plain = {0};
  const ronde__strategy *strategy = ronde__strategy_find(name, &plain);
  if (strcmp(name, "auto") == 0)
    strategy = ronde__strategy_default(o->hosts || o->hostfile ? 2 : (int)o->workers, &plain);
  if (!strategy) return true;
  const ronde__option *known = ronde__option_find(RONDE__VERB_TRAIN, option);
  if (known && ronde__option_needs(known, RONDE__NEED_COMPANY) && strategy->max_workers == 1) return false;
  if (known && ronde__option_needs(known, RONDE__NEED_PARTS) && ronde__strategy_reads_whole(strategy)) return false;
  if (known && ronde__option_needs(known, RONDE__NEED_ALL_REDUCE) && !strategy->all_reduces) return false;
  return ronde__strategy_understands(strategy, option);
}

/* What only other strategies understand can have no effect. */
static ronde_status check_strategy(const ronde__job *job) {
  ronde_option option;
  ronde__strategy_settings settings = settings_of(job->options);
  for (int i = 0; ronde_config_option("train", i, &option); i++) {
    char names[128], why[192];
    if (ronde__strategy_understands(job->strategy, option.name)) continue;
    ronde__strategy_names(option.name, names, sizeof names);
    snprintf(why, sizeof why, "it applies to --strategy %s, and this is %s%s", names, job->strategy->name,
             job->strategy->max_workers == 1 ? ", with one worker" : "");
    RONDE_TRY(ronde__config_no_effect(job->config, option.name, why));
  }
  if (job->options->optimizer == RONDE__OPTIMIZER_LBFGS &&
      !ronde__strategy_understands(job->strategy, "lbfgs-history")) {
    char names[128];
    ronde__strategy_names("lbfgs-history", names, sizeof names);
    return ronde__fail(RONDE_E_USAGE,
                       "--optimizer lbfgs: its steps need several gradients, and those of --strategy %s "
                       "have one; %s can",
                       job->strategy->name, names);
  }
  return job->strategy->check ? job->strategy->check(&settings, job->roles.n_workers) : RONDE_OK;
}

/* Who takes part besides the workers. */
static ronde_status place_members(ronde__job *job) {
  ronde__strategy_settings settings = settings_of(job->options);
  if (!job->strategy->place) return RONDE_OK;
  RONDE_TRY(job->strategy->place(&settings, &job->roles));
  if (job->options->transport != RONDE__TRANSPORT_SELF || ronde__roles_alone(&job->roles)) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--transport self cannot reach a %s: use --transport threads or mpi",
                     job->roles.members[job->roles.n_workers].role->title);
}

/* Within one host an exchange is copying: where all cores compute it would only take turns with them. Where others than
 * workers take part, they and the workers wait for each other's messages. */
static bool overlap_pays(const ronde__job *job) {
  bool one_host = ranks_here(job) == job->roles.n_ranks;
  return job->roles.n_members > job->roles.n_workers || !one_host ||
         ronde__cores() > job->roles.n_workers * job->threads;
}

/* What the run before had chosen, so that its sums go on; MPI's own only where there is MPI. NULL: nothing. */
static const char *chosen_before(const ronde__job *job) {
  if (!job->resume || !job->strategy->all_reduces) return NULL;
  const char *name = ronde__resume_collective(job->resume, job->roles.n_workers, job->strategy->name);
  return name && (job->mpi || strcmp(name, "mpi")) ? name : NULL;
}

static ronde_status resolve_collective(ronde__job *job) {
  const ronde__options *o = job->options;
  const ronde__allreduce *ring = ronde__allreduce_find("ring");
  const char *name = ronde_config_get(job->config, "collective"), *from = "--collective";
  job->collective_reason = job->resume ? "named by --collective or by the checkpoint" : "named by --collective";
  if (o->collective == RONDE__COLLECTIVE_AUTO) {
    name = job->choices.collective;
    from = "--choices:";
    job->collective_reason = "named by --choices";
    const char *before = *name ? NULL : chosen_before(job);
    if (before) {
      name = before;
      job->collective_reason = "chosen by the resumed run";
      RONDE_TRY(ronde_config_set(job->given, "collective", name));
    }
  }
  job->collective = ronde__allreduce_find(name);
  if (job->collective && !strcmp(name, "mpi") && !job->mpi)
    return ronde__fail(RONDE_E_USAGE, "%s mpi: only --transport mpi has this collective", from);
  if (o->wire != RONDE__WIRE_BF16) return RONDE_OK;
  if (job->collective && job->collective != ring)
    return ronde__fail(RONDE_E_USAGE, "--wire bf16 needs the ring collective, and %s %s is another one", from, name);
  if (!job->collective) job->collective_reason = "--wire bf16 goes round a ring";
  job->collective = ring;
  return RONDE_OK;
}

ronde_status ronde__set_up_world(ronde__job *job) {
  ronde__options *o = &job->config->options;
  int n_extra = ronde_config_server_ranks(job->config);
  suggest_workers(job);
  RONDE_TRY(count_workers(job, n_extra));
  RONDE_TRY(ronde__roles_make((int)o->workers, n_extra, &job->roles));
  if (job->config->verb == RONDE__VERB_TRAIN && !job->mpi) RONDE_TRY(ronde__find_rooms(job));
  job->threads = o->threads ? (int)o->threads : default_threads(job);
  o->threads = job->threads;
  if (job->config->verb != RONDE__VERB_TRAIN) return RONDE_OK;
  if (o->transport == RONDE__TRANSPORT_SELF && job->roles.n_workers > 1)
    return ronde__fail(RONDE_E_USAGE, "--transport self can have only one worker, not %d", job->roles.n_workers);
  ronde__strategy_settings settings = settings_of(o);
  job->strategy = o->strategy == RONDE__STRATEGY_AUTO ? ronde__strategy_default(job->roles.n_workers, &settings)
                                                      : find_strategy(job->config);
  if (!job->strategy)
    return ronde__fail(RONDE_E_INTERNAL, "--strategy %s: there is no such strategy",
                       ronde_config_get(job->config, "strategy"));
  if (job->roles.n_workers < job->strategy->min_workers ||
      (job->strategy->max_workers && job->roles.n_workers > job->strategy->max_workers))
    return ronde__fail(RONDE_E_USAGE, "--strategy %s runs with %d worker, not %d", job->strategy->name,
                       job->strategy->max_workers, job->roles.n_workers);
  RONDE_TRY(check_strategy(job));
  RONDE_TRY(ronde__count_stages(job));
  RONDE_TRY(place_members(job));
  RONDE_TRY(ronde__set_up_sim(job));
  if (!ronde__strategy_understands(job->strategy, "sentinel")) o->sentinel = 0;
  if (o->overlap == RONDE__OVERLAP_AUTO) o->overlap = overlap_pays(job) ? RONDE__OVERLAP_ON : RONDE__OVERLAP_OFF;
  RONDE_TRY(ronde__set_up_choices(job));
  RONDE_TRY(resolve_collective(job));
  RONDE_TRY(ronde__check_effects(job, RONDE__KNOWN_RANKS, NULL));
  RONDE_TRY(ronde__set_up_losses(job));
  if (o->sync_bn && o->exec == RONDE__EXEC_EAGER)
    return ronde__fail(RONDE_E_USAGE,
                       "--sync-bn needs --exec graph: eager workers may not all reach the same normalisation layers");
  return RONDE_OK;
}

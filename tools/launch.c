/* Training by several processes: one start of mpirun behind another, until the run has ended otherwise than by a loss, or for hosts
 * that join. start.c starts it, watch.c knows how it stands, prepare.c has the next one ready. */
#include "handover.h"
#include "launch.h"
#include "limits.h"
#include "restart.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* As many workers as were asked for, or as the hosts have places. */
static ronde_status count_ranks(tool_launched *l) {
  const tool_call *call = l->call;
  const tool_hosts *hosts = &l->hosts;
  int n_servers = ronde_config_server_ranks(call->config);
  l->n_ranks = (int)strtol(ronde_config_get(call->config, "workers"), NULL, 10) + n_servers;
  if (hosts->n && !ronde_config_is_given(call->config, "workers")) l->n_ranks = tool_hosts_ranks(hosts, n_servers);
  const char *s = hosts->n > 1 ? "s" : "";
  if (hosts->slots && l->n_ranks <= n_servers)
    return tool_fail(RONDE_E_USAGE, "--hosts: %d slots on %d host%s leave none for a worker, besides %d for servers",
                     hosts->slots, hosts->n, s, n_servers);
  if (hosts->slots && l->n_ranks > hosts->slots)
    return tool_fail(RONDE_E_USAGE, "--workers: only %d slots on %d host%s for %d ranks", hosts->slots, hosts->n, s,
                     l->n_ranks);
  return RONDE_OK;
}

static bool is_given(const tool_call *call, const char *option) {
  const char *value = ronde_config_get(call->config, option);
  return value && *value;
}

bool tool_must_launch(const tool_call *call) {
  bool mpi = strcmp(ronde_config_get(call->config, "transport"), "mpi") == 0;
  return (mpi || is_given(call, "hosts") || is_given(call, "hostfile")) && !tool_is_launched();
}

/* Where it may not have such files mpirun hangs. */
static ronde_status check_files(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur >= TOOL_FILE_BYTES) return RONDE_OK;
  return tool_fail(RONDE_E_WRITE, "ulimit -f allows files of %llu KB: mpirun needs %d KB",
                   (unsigned long long)limit.rlim_cur >> 10, TOOL_FILE_BYTES >> 10);
}

/* ---- the start that follows ---- */

/* Begins `words`, if there are any, or with what is given from the newest state in --out. The hosts are those of the one before,
 * which loses them, and the words. */
static ronde_status begin_again(tool_launched *before, int n_ranks, char **words) {
  tool_launched *l = tool_launch_fresh(before);
  if (!l) return tool_fail(RONDE_E_MEMORY, "no memory for %d ranks", n_ranks);
  l->hosts = before->hosts;
  before->hosts = (tool_hosts){0};
  l->n_ranks = n_ranks;
  l->words = words;
  l->once_more = words != NULL;
  if (words) before->words = NULL;
  int n_workers = n_ranks - ronde_config_server_ranks(l->call->config);
  ronde_status status = words ? RONDE_OK : tool_restart_words(l->call, n_workers, &l->words);
  if (status == RONDE_OK) status = tool_launch_begin(l);
  if (status == RONDE_OK) before->next = l;
  else tool_launch_end(l);
  return status;
}

/* None has begun to train. A host that was away until now may be taken for that by the system a little longer. */
static bool is_worth_another(const tool_launched *l) {
  return l->trains && tool_watch_is_apart(l) && !l->once_more && !l->unended && !tool_signal();
}

static ronde_status begin_once_more(tool_launched *l) {
  tool_say("warning: %s: started once more", l->failed_why);
  return begin_again(l, l->n_ranks, l->words);
}

/* Once it has ended so: `next` is the start that follows, with hosts that join, or after a loss, and has begun; or NULL: none
 * does, and how the run ended. */
static ronde_status follow(tool_launched *l, ronde_status ended) {
  bool joining = ended == RONDE_E_CANCELLED && l->joining && !l->unended, joins = l->next && *l->next->joiners;
  int n_ranks = l->n_ranks;
  if (joining && l->next) {
    tool_restart_join(l, l->next);
    tool_prepare_let_begin(l);
    return RONDE_OK;
  }
  if (joins) tool_prepare_end(l);
  if (joining) tool_restart_stay(l);
  bool again = joining || tool_restart_without_joiners(l, ended, &n_ranks) ||
               (ended == RONDE_E_LOST && tool_restart_prepare(l, &n_ranks));
  if (again && tool_prepare_fits(l, n_ranks)) {
    tool_prepare_let_begin(l);
    return RONDE_OK;
  }
  tool_prepare_end(l);
  return again ? begin_again(l, n_ranks, NULL) : ended;
}

/* What the prepared start has come to. Where hosts join by it, all save and end once it is ready, as when they are interrupted. */
static void look_at_next(tool_launched *l) {
  int state;
  tool_watch_look(l->next);
  if (!l->next->waits) return;
  if (tool_watch_has_gone(l->next, &state)) {
    while (tool_watch_take(l->next)) continue;
    tool_orphans_kill(l->next);
    tool_prepare_fail(l);
  } else if (*l->next->joiners && l->next->ready && !l->joining && tool_watch_is_steady(l)) {
    tool_watch_ask(l);
  }
}

/* Nobody joins before they have trained for as long as their start took: where hosts come and go, they would do nothing but
 * start. */
static void look_for_joiners(tool_launched *l) {
  bool may = l->joins && !l->next && tool_watch_is_steady(l) && tool_now_s() - l->joined_s > l->joined_s - l->begin_s;
  if (may && tool_join_look(l->joins)) tool_prepare_joining(l);
}

/* A rank was killed, or a host's daemon is lost: what is to follow is prepared while the others notice, and save. */
static void look_for_loss(tool_launched *l) {
  bool follows = l->restarts && !l->next && !l->prepared && l->trained && l->stage == TOOL_RUNS && !l->joining;
  bool lost = *l->lost_daemon || (l->killed_signal && !l->ranks[l->killed_rank].ended);
  if (!follows || !lost || (l->goes_on && !l->ranks[0].gone && !l->ranks[0].away) || tool_signal()) return;
  l->prepared = true;
  tool_prepare_restart(l);
}

/* Until mpirun and all that it has started here are gone, and the start that follows, if one does, has begun, which is as soon as
 * the ranks are not in its way, while mpirun still takes down what there is. How it ended: RONDE_OK, too, where one follows. */
static ronde_status watch(tool_launched *l) {
  int state = 0;
  bool gone = false, any;
  ronde_status status = RONDE_OK;
  do {
    any = tool_watch_take(l);
    if (!gone) tool_watch_look(l);
    if (!gone) gone = tool_watch_has_gone(l, &state);
    if (l->next) look_at_next(l);
    if (l->concluded) continue;
    look_for_joiners(l);
    look_for_loss(l);
    if (tool_watch_have_saved(l) || tool_watch_is_settled(l)) status = follow(l, tool_watch_conclude(l, state));
  } while (!gone || any);
  tool_silent_end(l);
  if (!l->concluded && l->stage == TOOL_RUNS && WIFSIGNALED(state)) tool_orphans_await(l, WTERMSIG(state));
  tool_orphans_kill(l);
  if (l->concluded) return status;
  return is_worth_another(l) ? begin_once_more(l) : follow(l, tool_watch_conclude(l, state));
}

/* Until it has ended otherwise than by a loss, or is not to be started again. Frees it. */
static ronde_status launch_all(tool_launched *l) {
  ronde_status status = tool_rank_words(l->call, &l->words);
  if (status == RONDE_OK) status = tool_launch_begin(l);
  while (status == RONDE_OK) {
    if (l->joins) tool_join_follow(l->joins, &l->hosts, l->goes_on ? l->ranks : NULL, l->n_ranks);
    status = watch(l);
    tool_launched *next = l->next;
    if (!next) break;
    next->joins = l->joins;
    tool_launch_end(l);
    l = next;
  }
  tool_launch_end(l);
  return status;
}

ronde_status tool_launch(const tool_call *call) {
  tool_joins joins = {0};
  tool_restarts restarts = {0};
  bool elastic = is_given(call, "elastic") && !strcmp(ronde_config_get(call->config, "elastic"), "on");
  const tool_launched all = {.call = call,
                             .grace_s = tool_seconds(call, "grace"),
                             .timeout_s = tool_seconds(call, "timeout"),
                             .trains = strcmp(call->verb, "train") == 0,
                             .goes_on = ronde_config_goes_on(call->config),
                             .restarts = tool_restart_is_wanted(call),
                             .out = is_given(call, "out") ? ronde_config_get(call->config, "out") : NULL,
                             .joins = elastic ? &joins : NULL,
                             .noted = &restarts};
  tool_launched *l = tool_launch_fresh(&all);
  if (!l) return tool_fail(RONDE_E_MEMORY, "no memory for mpirun");
  tool_signals_watch();
  tool_session_sweep();
  prctl(PR_SET_CHILD_SUBREAPER, 1); /* what mpirun leaves behind comes to us */
  ronde_status status = tool_hosts_get(call, &l->hosts);
  if (status == RONDE_OK) status = check_files();
  if (status == RONDE_OK) status = tool_restart_check(call);
  if (status == RONDE_OK && elastic) status = tool_join_check(call);
  if (elastic) tool_join_begin(&joins, ronde_config_get(call->config, "hostfile"));
  if (status == RONDE_OK) status = count_ranks(l);
  if (status == RONDE_OK) status = launch_all(l);
  else tool_launch_end(l);
  if (elastic) tool_join_end(&joins);
  tool_restarts_free(&restarts);
  return status;
}

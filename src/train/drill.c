/* Faults in the steps of a rank, as --drill plants them (setup/drill.c), so that what a run does about them is seen before
 * one comes by itself. Those of the disk are base/disk.h's. */
#include "train/rank.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const ronde__drill *drill_of(const ronde__rank *r, ronde__drill_kind kind) {
  const ronde__drill *drill = &r->job->drills[kind];
  return ronde__job_drills(r->job, kind, r->transport->rank) ? drill : NULL;
}

static bool strikes(const ronde__rank *r, ronde__drill_kind kind) {
  const ronde__drill *drill = drill_of(r, kind);
  return drill && drill->step == r->drilled_step;
}

static void say(const ronde__rank *r, const char *what) {
  ronde__log(RONDE_LOG_WARNING, "step %" PRId64 ": rank %d: %s (--drill)", r->drilled_step, r->transport->rank, what);
}

/* More than any address space has. */
static ronde_status plant_oom(const ronde__rank *r) {
  size_t bytes = (size_t)1 << 62;
  say(r, "an allocation fails");
  void *p = ronde__pages_map(bytes);
  if (!p) return ronde__fail(RONDE_E_MEMORY, "step %" PRId64 ": no memory for %zu bytes", r->drilled_step, bytes);
  ronde__pages_unmap(p, bytes);
  return RONDE_OK;
}

/* What a signal to the process means: ranks that are threads go with it. */
static void say_of_process(const ronde__rank *r, const char *what) {
  const char *others =
      r->job->roles.n_ranks > 1 && !r->job->mpi ? ", and with it all ranks, which are its threads" : "";
  ronde__log(RONDE_LOG_WARNING, "step %" PRId64 ": rank %d (process %ld) %s%s (--drill)", r->drilled_step,
             r->transport->rank, (long)getpid(), what, others);
}

static ronde_status plant_kill(const ronde__rank *r) {
  say_of_process(r, "is killed");
  kill(getpid(), SIGKILL);
  return RONDE_OK;
}

/* A process that continues this one after so long, and holds nothing of it open. 0, or an errno. */
static int start_helper(uint64_t ns, pid_t *helper_out) {
  char script[64];
  snprintf(script, sizeof script, "sleep %" PRIu64 ".%03" PRIu64 "; kill -CONT $PPID", ns / 1000000000u,
           ns / 1000000u % 1000);
  char *const words[] = {(char[]){"sh"}, (char[]){"-c"}, script, NULL}, *const environment[] = {NULL};
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  for (int fd = 0; fd < 3 && !error; fd++)
    error = posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
  if (!error) error = posix_spawn(helper_out, "/bin/sh", &actions, NULL, words, environment);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

static ronde_status plant_stop(const ronde__rank *r, uint64_t ns) {
  pid_t helper = 0;
  char what[64];
  if (ns) snprintf(what, sizeof what, "is stopped for %.3g s", (double)ns * 1e-9);
  else snprintf(what, sizeof what, "is stopped until kill -CONT %ld", (long)getpid());
  say_of_process(r, what);
  int error = ns ? start_helper(ns, &helper) : 0;
  if (error) return ronde__fail(RONDE_E_MEMORY, "--drill stop: cannot start /bin/sh: %s", strerror(error));
  kill(getpid(), SIGSTOP);
  if (helper) waitpid(helper, NULL, 0);
  return RONDE_OK;
}

/* In front of a forward pass: of several in a step, the first. A simulated straggler is late there too. */
static ronde_status strike(void *arg) {
  ronde__rank *r = arg;
  if (r->late_ns) ronde__time_sleep(r->transport->time, r->late_ns);
  const ronde__drill *slow = drill_of(r, RONDE__DRILL_SLOW);
  if (slow && r->progress.step + 1 >= slow->step) ronde__time_sleep(r->transport->time, slow->ns);
  if (strikes(r, RONDE__DRILL_KILL)) RONDE_TRY(plant_kill(r));
  if (strikes(r, RONDE__DRILL_STOP)) RONDE_TRY(plant_stop(r, r->job->drills[RONDE__DRILL_STOP].ns));
  if (strikes(r, RONDE__DRILL_OOM)) RONDE_TRY(plant_oom(r));
  r->drilled_step = 0;
  return RONDE_OK;
}

void ronde__rank_drill(ronde__rank *r, int64_t step) {
  const ronde__drill *full = &r->job->drills[RONDE__DRILL_DISK_FULL];
  const ronde__job *job = r->job;
  r->drilled_step = step;
  r->late_ns =
      job->sim ? ronde__sim_net_straggle_ns(job->sim, (uint64_t)job->options->sim_seed, r->group->rank, step) : 0;
  r->worker.before_forward = job->options->drill || r->late_ns ? strike : NULL;
  r->worker.corrupts = strikes(r, RONDE__DRILL_CORRUPT);
  if (r->worker.corrupts) say(r, "a gradient becomes NaN");
  if (r->disk && full->on && step >= full->step && !atomic_exchange(&r->disk->full, true)) say(r, "the disk is full");
}

void ronde__rank_drift(ronde__rank *r) {
  int n_params;
  const ronde__net_param *params = ronde__net_params(r->net, &n_params);
  uint32_t bits;
  float *value = ronde__net_values(r->net) + params[n_params / 2].offset;
  memcpy(&bits, value, sizeof bits);
  bits ^= 1;
  memcpy(value, &bits, sizeof bits);
}

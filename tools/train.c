/* `ronde train`: here, or by starting the ranks as processes. */
#include "common.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool is_on(const ronde_config *config, const char *name) {
  return strcmp(ronde_config_get(config, name), "on") == 0;
}

/* Where to go on, instead of tables. */
static void fail_interrupted(const tool_call *call, const char *text) {
  json_t *run = text ? tool_json(text) : NULL;
  double resumed = tool_number(json_object_get(run, "resumed_from"), "step");
  double step = (resumed > 0 ? resumed : 0) + tool_number(json_object_get(run, "totals"), "steps");
  double kept = tool_number(json_object_get(run, "checkpoints"), "last_step");
  const char *out = ronde_config_get(call->config, "out");
  char from[64] = "", shown[TOOL_SHOWN];
  if (kept < step) snprintf(from, sizeof from, " from step %.0f", kept);
  if (!run) tool_fail(RONDE_E_CANCELLED, "interrupted: the training was broken off before it began");
  else if (*out && (kept > 0 || resumed > 0))
    tool_fail(RONDE_E_CANCELLED, "interrupted after step %.0f: ronde train --resume %s goes on%s", step,
              tool_shown(out, shown), from);
  else
    tool_fail(RONDE_E_CANCELLED, "interrupted after step %.0f: there is nothing to go on from%s", step,
              *out ? "" : " (--out DIR keeps what there is)");
  json_decref(run);
}

static ronde_status show_training(const tool_call *call, const char *text, bool dry_run) {
  if (call->json) tool_print_json(text);
  ronde_status flushed = call->json ? tool_flush() : RONDE_OK;
  if (flushed) return flushed; /* where the result was lost, no table stands in front of that */
  if (call->json && call->quiet) return RONDE_OK;
  json_t *json = tool_json(text);
  if (!json) return RONDE_E_INTERNAL;
  if (!dry_run) {
    tool_summary(json, ronde_config_get(call->config, "out"), call->verbose);
  } else if (!call->json) {
    tool_plan(json);
  }
  json_decref(json);
  return RONDE_OK;
}

static double since_1970_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static ronde_status write_mlperf(const tool_call *call, const char *text, double began_ms) {
  const char *path = ronde_config_get(call->config, "mlperf-log");
  if (!*path || !text) return RONDE_OK;
  json_t *run = json_loads(text, 0, NULL);
  ronde_status status = run ? tool_mlperf_write(path, run, began_ms) : RONDE_E_INTERNAL;
  json_decref(run);
  return status;
}

ronde_status tool_train(const tool_call *call) {
  if (*ronde_config_get(call->config, "mlperf-log") && *ronde_config_get(call->config, "resume"))
    return tool_fail(RONDE_E_USAGE, "--mlperf-log and --resume contradict each other: a log is of a whole training");
  /* How the run was started before is how it goes on. */
  ronde_status resumed = tool_is_launched() ? RONDE_OK : ronde_config_resume(call->config);
  if (resumed) return resumed;
  if (tool_must_launch(call)) return tool_launch(call);
  if (tool_is_launched() && !tool_is_ours() && !strcmp(ronde_config_get(call->config, "on-loss"), "restart"))
    return tool_fail(RONDE_E_USAGE,
                     "--on-loss restart: only `ronde train` itself can start its ranks again, and mpirun or "
                     "srun has started this one: leave it to --hosts");
  bool dry_run = is_on(call->config, "dry-run");
  tool_signals_start(tool_seconds(call, "grace"));
  ronde_hooks hooks =
      tool_hooks(!call->quiet && !dry_run, strtoll(ronde_config_get(call->config, "log-every"), NULL, 10));
  char *text = NULL;
  double began_ms = since_1970_ms();
  ronde_status status = ronde_train(call->config, &hooks, &text);
  tool_foot(NULL);
  /* A run that is started again has one record, its last. */
  bool again = status == RONDE_E_LOST && tool_is_ours() && ronde_config_restarts(call->config);
  ronde_status shown = text && !again ? show_training(call, text, dry_run) : RONDE_OK;
  if (!shown && !dry_run && !again) shown = write_mlperf(call, text, began_ms);
  if (status == RONDE_E_CANCELLED && !tool_is_follower() && !tool_is_compared()) fail_interrupted(call, text);
  free(text);
  return status ? status : shown;
}

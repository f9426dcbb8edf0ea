/* `ronde train`: here, or by starting the ranks as processes. */
#include "common.h"

#include <stdlib.h>
#include <string.h>

static bool is_on(const ronde_config *config, const char *name) {
  return strcmp(ronde_config_get(config, name), "on") == 0;
}

static ronde_status show_training(const tool_call *call, const char *text, bool dry_run) {
  if (call->json) tool_print_json(text);
  ronde_status flushed = call->json ? tool_flush() : RONDE_OK;
  if (flushed) return flushed; /* where the result was lost, no table stands in front of that */
  if (call->json && call->quiet) return RONDE_OK;
  json_t *json = tool_json(text);
  if (!json) return RONDE_E_INTERNAL;
  if (!dry_run) {
    tool_summary(json, ronde_config_get(call->config, "out"));
  } else if (!call->json) {
    tool_plan(json);
  }
  json_decref(json);
  return RONDE_OK;
}

ronde_status tool_train(const tool_call *call) {
  /* How the run was started before is how it goes on. */
  ronde_status resumed = tool_is_launched() ? RONDE_OK : ronde_config_resume(call->config);
  if (resumed) return resumed;
  if (tool_must_launch(call)) return tool_launch(call);
  bool dry_run = is_on(call->config, "dry-run");
  tool_signals_start(tool_seconds(call, "grace"));
  ronde_hooks hooks =
      tool_hooks(!call->quiet && !dry_run, strtoll(ronde_config_get(call->config, "log-every"), NULL, 10));
  char *text = NULL;
  ronde_status status = ronde_train(call->config, &hooks, &text);
  tool_foot(NULL);
  ronde_status shown = text ? show_training(call, text, dry_run) : RONDE_OK;
  free(text);
  if (status == RONDE_E_CANCELLED && !tool_is_follower()) tool_fail(status, "interrupted: the training is incomplete");
  return status ? status : shown;
}

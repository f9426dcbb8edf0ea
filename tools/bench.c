/* What the suites of `ronde bench` share. */
#include "common.h"

#include <stdlib.h>

void tool_bench_warn(const json_t *bench) {
  const json_t *load = json_object_get(bench, "host_load");
  if (json_is_true(json_object_get(load, "is_busy")))
    tool_say("warning: others kept %.1f of %.0f cores busy while this was measured: repeat it on an idle host",
             tool_number(load, "busy_with_others"), tool_number(load, "cores"));
}

/* Takes over text. */
static ronde_status show_bench(const tool_call *call, char *text, void (*print)(const json_t *bench)) {
  json_t *bench = tool_json(text);
  tool_bench_warn(bench);
  json_decref(bench);
  return tool_print_result(call, text, print);
}

ronde_status tool_bench_run(const tool_call *call,
                            ronde_status (*measure)(const ronde_config *config, const ronde_hooks *hooks,
                                                    char **json_out),
                            void (*print)(const json_t *bench)) {
  tool_signals_start(0);
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text = NULL;
  ronde_status status = measure(call->config, &hooks, &text);
  if (text) status = show_bench(call, text, print);
  if (status == RONDE_E_CANCELLED && !tool_is_follower())
    tool_fail(status, "interrupted: the measurement is incomplete");
  return status;
}

ronde_status tool_bench_show(const tool_call *call, const ronde_measurement *record,
                             void (*print)(const json_t *bench)) {
  char *text;
  ronde_status status = ronde_measurement_json(record, &text);
  return status ? status : show_bench(call, text, print);
}

ronde_status tool_bench_set(ronde_measurement *record, int of, const char *name, json_t *value) {
  char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
  ronde_status status =
      text ? ronde_measurement_set(record, of, name, text) : tool_fail(RONDE_E_MEMORY, "no memory for the measurement");
  free(text);
  json_decref(value);
  return status;
}

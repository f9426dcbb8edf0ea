/* `ronde init`: freshly drawn weights as a file. */
#include "common.h"

#include <stdlib.h>

ronde_status tool_init(const tool_call *call) {
  tool_signals_start(0);
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text;
  ronde_status status = ronde_init(call->config, &hooks, &text);
  if (status) return status;
  json_t *json = tool_json(text);
  if (json) {
    char parameters[32];
    if (call->json) tool_print_json(text);
    tool_say("wrote %s: %s parameters, sha256 %s", ronde_config_get(call->config, "output"),
             tool_count(tool_number(json, "parameters"), parameters), tool_string(json, "weights_sha256"));
  }
  status = json ? RONDE_OK : RONDE_E_INTERNAL;
  json_decref(json);
  free(text);
  return status;
}

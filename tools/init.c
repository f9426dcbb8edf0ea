#include "common.h"

#include <stdlib.h>

ronde_status tool_init(const tool_call *call) {
  tool_signals_start();
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text;
  ronde_status status = ronde_init(call->config, &hooks, &text);
  if (status) return status;
  if (call->json) tool_print_json(text);
  tool_say("wrote %s", ronde_config_get(call->config, "output"));
  free(text);
  return RONDE_OK;
}

/* ronde export: the weights alone, in a file. */
#include "common.h"

#include <stdlib.h>

ronde_status tool_export(const tool_call *call) {
  char *text;
  ronde_status status = ronde_export(call->config, &text);
  if (status) return status;
  json_t *json = tool_json(text);
  if (json) {
    char values[32];
    if (call->json) tool_print_json(text);
    tool_say("wrote %s: %.0f tensors, %s values of %s", tool_string(json, "output"), tool_number(json, "tensors"),
             tool_count(tool_number(json, "values"), values), tool_string(json, "input"));
  }
  status = json ? RONDE_OK : RONDE_E_INTERNAL;
  json_decref(json);
  free(text);
  return status;
}

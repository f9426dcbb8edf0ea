/* ronde eval: loss and accuracy of trained weights. */
#include "common.h"

#include <math.h>
#include <stdio.h>

static void print_figures(const json_t *json) {
  char examples[32];
  double accuracy = tool_number(json, "accuracy");
  printf("loss      %.9g\n", tool_number(json, "loss"));
  if (isfinite(accuracy)) printf("accuracy  %.4f\n", accuracy);
  printf("examples  %s (%s)\n", tool_count(tool_number(json, "examples"), examples), tool_string(json, "split"));
  printf("weights   sha256 %s\n", tool_string(json, "weights_sha256"));
}

ronde_status tool_eval(const tool_call *call) {
  tool_signals_start(0);
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text;
  ronde_status status = ronde_eval(call->config, &hooks, &text);
  return status ? status : tool_print_result(call, text, print_figures);
}

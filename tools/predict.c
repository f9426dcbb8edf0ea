/* `ronde predict`: the likeliest classes of images. */
#include "common.h"

#include <stdio.h>

static void print_examples(const json_t *json) {
  const json_t *examples = json_object_get(json, "examples"), *example, *row;
  size_t i, j;
  json_array_foreach(examples, i, example) {
    printf("example %.0f\n", tool_number(example, "index"));
    json_array_foreach(json_object_get(example, "classes"), j, row) {
      const char *name = tool_string(row, "name");
      printf("  class %4.0f  %6.2f %%%s%s\n", tool_number(row, "class"), 100 * tool_number(row, "probability"),
             *name ? "  " : "", name);
    }
  }
}

ronde_status tool_predict(const tool_call *call) {
  tool_signals_start(0);
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text;
  ronde_status status = ronde_predict(call->config, &hooks, &text);
  return status ? status : tool_print_result(call, text, print_examples);
}

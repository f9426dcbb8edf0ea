/* `ronde models`: the networks that are built in, or one, built in or from an ONNX file, with its tensors. */
#include "common.h"

#include <stdio.h>

static void print_one(const json_t *model) {
  static const tool_column columns[] = {
      {"tensor", TOOL_CELL_TEXT, "name", 0, 1},
      {"shape", TOOL_CELL_SHAPE, "shape", 0, 1},
  };
  char parameters[32], flops[32], shape[64];
  const char *name;
  json_t *size;
  printf("%s: %s\n\n", tool_string(model, "name"), tool_string(model, "about"));
  printf("parameters     %s\n", tool_count(tool_number(model, "parameters"), parameters));
  printf("forward FLOPs  %s an example\n", tool_count(tool_number(model, "forward_flops_per_example"), flops));
  printf("input          %s\n", tool_shape(json_object_get(model, "shape"), shape));
  json_object_foreach(json_object_get(model, "open"), name, size)
      printf("open           %s, here %" JSON_INTEGER_FORMAT "\n", name, json_integer_value(size));
  printf("classes        %.0f\n\n", tool_number(model, "classes"));
  tool_table(json_object_get(model, "tensors"), columns, sizeof columns / sizeof columns[0]);
}

static void print_all(const json_t *json) {
  static const tool_column columns[] = {
      {"model", TOOL_CELL_TEXT, "name", 0, 1},
      {"parameters", TOOL_CELL_COUNT, "parameters", 0, 1},
      {"forward FLOPs", TOOL_CELL_COUNT, "forward_flops_per_example", 0, 1},
      {"input", TOOL_CELL_SHAPE, "shape", 0, 1},
      {"classes", TOOL_CELL_COUNT, "classes", 0, 1},
      {"about", TOOL_CELL_TEXT, "about", 0, 1},
  };
  tool_table(json_object_get(json, "models"), columns, sizeof columns / sizeof columns[0]);
}

ronde_status tool_models(const tool_call *call) {
  const char *name = call->words[0];
  char *text;
  ronde_status status = ronde_models(name, &text);
  return status ? status : tool_print_result(call, text, name ? print_one : print_all);
}

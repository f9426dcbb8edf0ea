#include "common.h"

#include <stdio.h>
#include <string.h>

static void print_model(const json_t *model, bool in_table) {
  char parameters[32], flops[32], shape[64];
  tool_count(tool_number(model, "parameters"), parameters);
  tool_count(tool_number(model, "forward_flops_per_example"), flops);
  tool_shape(json_object_get(model, "shape"), shape);
  if (in_table) {
    printf("%-16s %14s %16s  %-10s %7.0f  %s\n", tool_string(model, "name"), parameters, flops, shape,
           tool_number(model, "classes"), tool_string(model, "about"));
    return;
  }
  printf("%s: %s\n\n", tool_string(model, "name"), tool_string(model, "about"));
  printf("parameters     %s\nforward FLOPs  %s an example\ninput          %s\nclasses        %.0f\n\n", parameters,
         flops, shape, tool_number(model, "classes"));
}

static void print_tensors(const json_t *tensors) {
  const json_t *tensor;
  size_t i;
  int width = 0;
  json_array_foreach(tensors, i, tensor) {
    int length = (int)strlen(tool_string(tensor, "name"));
    if (length > width) width = length;
  }
  json_array_foreach(tensors, i, tensor) {
    char shape[64];
    printf("%-*s  %s\n", width, tool_string(tensor, "name"), tool_shape(json_object_get(tensor, "shape"), shape));
  }
}

static void print_one(const json_t *model) {
  print_model(model, false);
  print_tensors(json_object_get(model, "tensors"));
}

static void print_all(const json_t *json) {
  const json_t *model;
  size_t i;
  printf("%-16s %14s %16s  %-10s %7s  %s\n", "model", "parameters", "forward FLOPs", "input", "classes", "about");
  json_array_foreach(json_object_get(json, "models"), i, model) { print_model(model, true); }
}

ronde_status tool_models(const tool_call *call) {
  const char *name = call->words[0];
  char *text;
  ronde_status status = ronde_models(name, &text);
  return status ? status : tool_print_result(call, text, name ? print_one : print_all);
}

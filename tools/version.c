/* `ronde version`: this build, and what it can use on this machine. */
#include "common.h"

#include <stdio.h>

static void print_names(const char *label, const json_t *names) {
  const json_t *name;
  size_t i;
  printf("%s", label);
  json_array_foreach(names, i, name) printf(" %s", json_string_value(name));
  printf("\n");
}

static void print_version(const json_t *json) {
  const char *git = tool_string(json, "git"), *feature;
  json_t *value;
  printf("ronde %s%s%s%s\n", tool_string(json, "version"), *git ? " (git " : "", git, *git ? ")" : "");
  printf("instruction set  %s, of", tool_string(json, "isa"));
  print_names("", json_object_get(json, "isas"));
  print_names("matrix multiply ", json_object_get(json, "gemm"));
  printf("bfloat16         %s%s", tool_string(json, "bf16"),
         json_array_size(json_object_get(json, "bf16s")) ? ", of" : "");
  print_names("", json_object_get(json, "bf16s"));
  json_object_foreach(json_object_get(json, "features"), feature, value) {
    const char *text = json_string_value(value);
    if (!text) text = json_is_true(value) ? "yes" : "no";
    printf("%-16s %s\n", feature, text);
  }
}

ronde_status tool_version(const tool_call *call) {
  char *text;
  ronde_status status = ronde_version_json(&text);
  return status ? status : tool_print_result(call, text, print_version);
}

/* ronde data: list, info, get, convert, tokenize. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- list ----------------------------------------------------------------------------------------------------- */

static void print_list(const json_t *json) {
  static const tool_column columns[] = {
      {"set", TOOL_CELL_TEXT, "name", 0, 1},
      {"download", TOOL_CELL_BYTES, "download_bytes", 0, 1},
      {"found in", TOOL_CELL_TEXT, "folder", 0, 1},
      {"about", TOOL_CELL_TEXT, "about", 0, 1},
  };
  tool_table(json_object_get(json, "sets"), columns, sizeof columns / sizeof columns[0]);
}

static ronde_status list_sets(const tool_call *call) {
  ronde_option option;
  char *text;
  for (int i = 0; ronde_config_option("data", i, &option); i++) {
    const char *value = ronde_config_get(call->config, option.name);
    if (value && strcmp(value, option.default_text ? option.default_text : "") != 0)
      return tool_fail(RONDE_E_USAGE, "ronde data list: --%s can have no effect", option.name);
  }
  ronde_status status = ronde_data_list(&text);
  return status ? status : tool_print_result(call, text, print_list);
}

enum { MOST_SHOWN = 8 }; /* of a column's categories */

/* ---- info, convert -------------------------------------------------------------------------------------------- */

/* csv: what the inputs are, in the network's order; a category is an input of its own. */
static void print_columns(const json_t *columns) {
  const json_t *input, *target;
  char name[128], value[128];
  size_t i, k;
  json_array_foreach(json_object_get(columns, "targets"), i, target) {
    tool_printable(json_string_value(target), name, sizeof name);
    printf("target             %s\n", name);
  }
  json_array_foreach(json_object_get(columns, "inputs"), i, input) {
    const json_t *category, *categories = json_object_get(input, "categories");
    tool_printable(tool_string(input, "name"), name, sizeof name);
    printf("%s %s", i ? "                  " : "inputs            ", name);
    json_array_foreach(categories, k, category) {
      tool_printable(json_string_value(category), value, sizeof value);
      if (k < MOST_SHOWN) printf("%s%s", k ? ", " : ": ", value);
    }
    if (json_array_size(categories) > MOST_SHOWN) printf(", ... %zu in all", json_array_size(categories));
    printf("\n");
  }
}

static void print_set(const json_t *json) {
  char n[32], shape[64];
  printf("%s\n\n", tool_string(json, "name"));
  printf("training examples  %s\n", tool_count(tool_number(json, "train_examples"), n));
  if (json_object_get(json, "validation_examples"))
    printf("validation         %s\n", tool_count(tool_number(json, "validation_examples"), n));
  const char *tests = *tool_string(json, "tested_on") ? "validation" : "test examples";
  printf("%-17s  %s\n", tests, tool_count(tool_number(json, "test_examples"), n));
  printf("shape              %s, %s\n", tool_shape(json_object_get(json, "shape"), shape), tool_string(json, "type"));
  if (json_object_get(json, "target_values")) printf("target values      %.0f\n", tool_number(json, "target_values"));
  else printf("classes            %.0f\n", tool_number(json, "classes"));
  if (tool_number(json, "skipped_images") > 0) printf("skipped images     %.0f\n", tool_number(json, "skipped_images"));
  if (*tool_string(json, "sha256")) printf("sha256             %s\n", tool_string(json, "sha256"));
  const json_t *name, *names = json_object_get(json, "class_names"), *files = json_object_get(json, "files");
  size_t i;
  json_array_foreach(names, i, name) {
    char shown[128];
    tool_printable(json_string_value(name), shown, sizeof shown);
    printf("class %-12zu %s\n", i, shown);
  }
  print_columns(json_object_get(json, "columns"));
  if (!files) return;
  printf("\nwrote");
  json_array_foreach(files, i, name) { printf(" %s", json_string_value(name)); }
  printf(" to %s\n", tool_string(json, "folder"));
}

static ronde_status describe_set(const tool_call *call) {
  char *text;
  ronde_status status = ronde_data_info(call->config, &text);
  return status ? status : tool_print_result(call, text, print_set);
}

static ronde_status convert_set(const tool_call *call) {
  char *text;
  ronde_status status = ronde_data_convert(call->config, &text);
  return status ? status : tool_print_result(call, text, print_set);
}

/* ---- tokenize ---- */

static void print_vocabulary(const json_t *json) {
  char bytes[32], tokens[32];
  printf("%s: %.0f tokens\n", tool_string(json, "file"), tool_number(json, "vocabulary"));
  printf("%s bytes of text are %s of them, %.3g bytes each\n", tool_count(tool_number(json, "bytes"), bytes),
         tool_count(tool_number(json, "tokens"), tokens), tool_number(json, "bytes_per_token"));
}

static ronde_status learn_vocabulary(const tool_call *call) {
  char *text;
  ronde_status status = ronde_data_tokenize(call->config, &text);
  return status ? status : tool_print_result(call, text, print_vocabulary);
}

/* ---- get ------------------------------------------------------------------------------------------------------ */

static void show_download(void *user, const char *file, int64_t done, int64_t total) {
  static double shown_s;
  char have[32], all[32], line[256];
  (void)user;
  double now_s = tool_now_s();
  if (tool_columns() == 0 || (now_s - shown_s < 0.1 && done < total)) return;
  shown_s = now_s;
  snprintf(line, sizeof line, "%s  %3.0f %%  %s of %s", file, total > 0 ? 100.0 * (double)done / (double)total : 0,
           tool_bytes((double)done, have), tool_bytes((double)total, all));
  tool_foot(line);
}

static bool is_download_cancelled(void *user) {
  (void)user;
  return tool_signal() != 0;
}

static void print_files(const json_t *json) {
  const json_t *file;
  size_t i;
  json_array_foreach(json_object_get(json, "files"), i, file) {
    char bytes[32];
    printf("%-30s %12s  %s\n", tool_string(file, "file"), tool_bytes(tool_number(file, "bytes"), bytes),
           json_is_true(json_object_get(file, "was_there")) ? "was there" : "downloaded");
  }
  printf("%s is in %s\n", tool_string(json, "name"), tool_string(json, "folder"));
}

static ronde_status get_set(const tool_call *call) {
  const ronde_data_hooks hooks = {.progress = show_download, .cancel = is_download_cancelled};
  char *text;
  tool_signals_start(0);
  ronde_status status = ronde_data_get(call->config, &hooks, &text);
  tool_foot(NULL);
  return status ? status : tool_print_result(call, text, print_files);
}

/* ---- the verb ---- */

ronde_status tool_data(const tool_call *call) {
  static const struct {
    const char *name;
    bool takes_set;
    ronde_status (*run)(const tool_call *call);
  } actions[] = {{"list", false, list_sets},
                 {"info", true, describe_set},
                 {"get", true, get_set},
                 {"convert", true, convert_set},
                 {"tokenize", true, learn_vocabulary}};
  enum { N = sizeof actions / sizeof actions[0] };
  const char *name = call->words[0], *names[N];
  if (!name) return tool_fail(RONDE_E_USAGE, "what to do is missing: ronde data list, info, get, convert or tokenize");
  for (int i = 0; i < N; i++) {
    names[i] = actions[i].name;
    if (strcmp(names[i], name) != 0) continue;
    const char *set = ronde_config_get(call->config, "data");
    bool has_set = set && *set;
    if (actions[i].takes_set && !has_set)
      return tool_fail(RONDE_E_USAGE, "a data set is missing: ronde data %s NAME", name);
    if (!actions[i].takes_set && has_set) return tool_fail(RONDE_E_USAGE, "unexpected word '%s': ronde data list", set);
    return actions[i].run(call);
  }
  return tool_fail_word("ronde data", name, names, N);
}

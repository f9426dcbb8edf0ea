/* `ronde ckpt info|verify|diff`: what is in a checkpoint, whether it is whole, where two differ. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_ckpt(const json_t *json) {
  char bytes[32], n[32];
  const json_t *state = json_object_get(json, "state"), *place = json_object_get(state, "place");
  printf("%s: %s of %s, %s in %zu tensors\n", tool_string(json, "file"), tool_string(json, "kind"),
         tool_string(json, "model"), tool_bytes(tool_number(json, "data_bytes"), bytes),
         json_array_size(json_object_get(json, "tensors")));
  if (!place) return;
  const json_t *data = json_object_get(state, "data"), *world = json_object_get(state, "world");
  printf("after step         %s, the %.0fth of epoch %.0f\n", tool_count(tool_number(place, "step"), n),
         tool_number(place, "steps_of_epoch"), tool_number(place, "epoch"));
  printf("optimizer updates  %s\n", tool_count(tool_number(place, "optimizer_updates"), n));
  printf("data               %s, %s examples, sha256 %.12s...\n", tool_string(data, "name"),
         tool_count(tool_number(data, "train_examples"), n), tool_string(data, "sha256"));
  printf("written by         %.0f worker%s (%s)\n", tool_number(world, "workers"),
         tool_number(world, "workers") == 1 ? "" : "s", tool_string(world, "strategy"));
  const char *name;
  json_t *value;
  printf("options           ");
  json_object_foreach((json_t *)json_object_get(state, "given"), name, value) {
    printf(" --%s %s", name, json_string_value(value));
  }
  printf("\n");
}

static void print_verified(const json_t *json) {
  const json_t *file;
  size_t i;
  json_array_foreach(json_object_get(json, "files"), i, file) {
    bool whole = json_is_true(json_object_get(file, "whole")), sums = json_is_true(json_object_get(file, "checksums"));
    printf("%-12s %s\n", !whole ? "DAMAGED" : sums ? "whole" : "no checksums", tool_string(file, "file"));
  }
}

static void print_diff(const json_t *json) {
  if (json_is_true(json_object_get(json, "same"))) {
    printf("the same in all of %.0f tensors\n", tool_number(json, "tensors"));
    return;
  }
  printf("differing           %.0f of %.0f tensors\n", tool_number(json, "differing"), tool_number(json, "tensors"));
  printf("the first           %s\n", tool_string(json, "first"));
  printf("largest difference  %.9g %s\n", tool_number(json, "largest_difference"), tool_string(json, "largest_tensor"));
}

/* What was found is printed also where it is a reason to end with an error. */
static ronde_status show_ckpt(const tool_call *call, ronde_status status, char *text,
                              void (*show)(const json_t *json)) {
  if (!text) return status;
  ronde_status printed = tool_print_result(call, text, show);
  return status ? status : printed;
}

static ronde_status ckpt_info(const tool_call *call) {
  char *text = NULL;
  ronde_status status = ronde_ckpt_info(call->words[1], &text);
  return show_ckpt(call, status, text, print_ckpt);
}

static ronde_status ckpt_verify(const tool_call *call) {
  char *text = NULL;
  ronde_status status = ronde_ckpt_verify(call->words[1], &text);
  return show_ckpt(call, status, text, print_verified);
}

static ronde_status ckpt_diff(const tool_call *call) {
  char *text = NULL;
  ronde_status status = ronde_ckpt_diff(call->words[1], call->words[2], &text);
  return show_ckpt(call, status, text, print_diff);
}

ronde_status tool_ckpt(const tool_call *call) {
  static const struct {
    const char *name;
    int n_words;
    ronde_status (*run)(const tool_call *call);
  } actions[] = {{"info", 2, ckpt_info}, {"verify", 2, ckpt_verify}, {"diff", 3, ckpt_diff}};
  enum { N = sizeof actions / sizeof actions[0] };
  const char *name = call->words[0], *names[N];
  if (!name) return tool_fail(RONDE_E_USAGE, "what to do is missing: ronde ckpt info, verify or diff");
  for (int i = 0; i < N; i++) {
    names[i] = actions[i].name;
    if (strcmp(names[i], name) != 0) continue;
    if (call->n_words < actions[i].n_words)
      return tool_fail(RONDE_E_USAGE, "a file is missing: ronde ckpt %s A%s", name, actions[i].n_words > 2 ? " B" : "");
    if (call->n_words > actions[i].n_words)
      return tool_fail(RONDE_E_USAGE, "unexpected word '%s': ronde ckpt %s A", call->words[2], name);
    return actions[i].run(call);
  }
  return tool_fail_word("ronde ckpt", name, names, N);
}

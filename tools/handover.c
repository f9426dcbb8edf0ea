/* What the ranks of a launched run are told. */
#include "handover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the user wrote it: "--NAME", "--NAME=VALUE" or "--no-NAME". */
static bool is_written(char *const *words, const char *name) {
  for (; *words && strcmp(*words, "--"); words++) {
    const char *word = *words;
    if (strncmp(word, "--", 2)) continue;
    word += 2;
    size_t n = strcspn(word, "=");
    if (n == strlen(name) && !strncmp(word, name, n)) return true;
    if (!strncmp(word, "no-", 3) && !strcmp(word + 3, name)) return true;
  }
  return false;
}

static char *option_word(const char *name, const char *value) {
  size_t size = strlen(name) + strlen(value) + 4;
  char *word = malloc(size);
  if (word) snprintf(word, size, "--%s=%s", name, value);
  return word;
}

static int count_words(char *const *words) {
  int n = 0;
  while (words[n]) n++;
  return n;
}

/* Of "bench collectives", two. */
static int n_verb_words(const char *verb) {
  int n = 1;
  for (; *verb; verb++) n += *verb == ' ';
  return n;
}

ronde_status tool_rank_words(const tool_call *call, char ***words_out) {
  int n = 0, n_options = 0, n_front = 1 + n_verb_words(call->verb), n_given = count_words(call->argv);
  ronde_option option;
  while (ronde_config_option(call->verb, n_options, &option)) n_options++;
  char **words = calloc((size_t)(n_given + n_options + 1), sizeof *words);
  bool complete = words;
  for (int i = 0; complete && i < n_front; i++) complete = (words[n++] = strdup(call->argv[i]));
  for (int i = 0; complete && ronde_config_option(call->verb, i, &option); i++)
    if (ronde_config_is_given(call->config, option.name) && !is_written(call->argv + n_front, option.name))
      complete = (words[n++] = option_word(option.name, ronde_config_get(call->config, option.name)));
  for (int i = n_front; complete && i < n_given; i++) complete = (words[n++] = strdup(call->argv[i]));
  if (complete) {
    *words_out = words;
    return RONDE_OK;
  }
  tool_rank_words_free(words);
  return tool_fail(RONDE_E_MEMORY, "no memory for the command of the ranks");
}

void tool_rank_words_free(char **words) {
  for (int i = 0; words && words[i]; i++) free(words[i]);
  free(words);
}

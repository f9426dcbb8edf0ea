/* Writes and reads marks. */
#include "mark.h"

#include <ronde/measure.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[TOOL_N_MARKS] = {"begin",   "joined", "ready", "trains", "lost",
                                                "without", "end",    "asked", "said",   "unreached"};

const char *tool_verdict_text(tool_verdict verdict) {
  static const char *const texts[TOOL_N_VERDICTS] = {
      "it is in order", "it is of another version of Ronde", "it is cut off",
      "it has not this launch's key, or was changed on its way", "it tells of what there is not"};
  return texts[verdict];
}

static bool is_control(char c) { return (unsigned char)c < ' ' || c == 0x7f; }

static void blank_controls(char *text) {
  for (; *text; text++)
    if (is_control(*text)) *text = ' ';
}

static bool has_controls(const char *text) {
  bool any = false;
  for (; *text; text++) any |= is_control(*text);
  return any;
}

bool tool_mark_write(const char *key, const tool_mark *mark, char line[TOOL_MARK_BYTES]) {
  char words[TOOL_MARK_BYTES], seal[RONDE_SEAL_DIGITS + 1];
  int n = snprintf(words, sizeof words, "%s %d %lld %lld %s%s%s", kinds[mark->kind], mark->number, mark->a, mark->b,
                   *mark->name ? mark->name : "-", *mark->text ? " " : "", mark->text);
  if (n < 0 || n >= (int)sizeof words || strchr(mark->name, ' ')) return false;
  blank_controls(words);
  if (!ronde_seal(key, words, seal)) return false;
  n = snprintf(line, TOOL_MARK_BYTES, TOOL_MARK TOOL_MARKS " %s %s", seal, words);
  return n > 0 && n < TOOL_MARK_BYTES;
}

/* The next word, at most size - 1 bytes of it, without its blank; false: there is none, or it is longer. */
static bool take_word(const char **at, char *word, size_t size) {
  size_t n = strcspn(*at, " ");
  if (n == 0 || n >= size) return false;
  memcpy(word, *at, n);
  word[n] = 0;
  *at += n;
  *at += **at == ' ';
  return true;
}

/* As it is written, without zeros in front. */
static bool take_number(const char **at, long long *number_out) {
  char word[24], again[24];
  if (!take_word(at, word, sizeof word)) return false;
  *number_out = strtoll(word, NULL, 10);
  snprintf(again, sizeof again, "%lld", *number_out);
  return strcmp(word, again) == 0;
}

static bool read_words(const char *at, tool_mark *mark) {
  char kind[16];
  long long number;
  int k = 0;
  if (has_controls(at) || !take_word(&at, kind, sizeof kind)) return false;
  while (k < TOOL_N_MARKS && strcmp(kind, kinds[k]) != 0) k++;
  if (k == TOOL_N_MARKS) return false;
  mark->kind = (tool_mark_kind)k;
  if (!take_number(&at, &number) || number < 0 || number > INT32_MAX || !take_number(&at, &mark->a) ||
      !take_number(&at, &mark->b) || !take_word(&at, mark->name, sizeof mark->name))
    return false;
  mark->number = (int)number;
  if (!strcmp(mark->name, "-")) *mark->name = 0;
  return snprintf(mark->text, sizeof mark->text, "%s", at) < (int)sizeof mark->text;
}

/* The seal is asked for in front of all that the mark tells. */
tool_verdict tool_mark_read(const char *key, const char *text, tool_mark *mark_out) {
  char version[8], seal[RONDE_SEAL_DIGITS + 2];
  tool_mark mark = {0};
  if (!*text) return TOOL_MARK_TRUNCATED;
  if (!take_word(&text, version, sizeof version) || strcmp(version, TOOL_MARKS) != 0) return TOOL_MARK_VERSION;
  if (strlen(text) <= RONDE_SEAL_DIGITS + 1) return TOOL_MARK_TRUNCATED;
  if (!take_word(&text, seal, sizeof seal) || !ronde_seal_holds(key, text, seal)) return TOOL_MARK_KEYLESS;
  if (!read_words(text, &mark)) return TOOL_MARK_NONSENSE;
  *mark_out = mark;
  return TOOL_MARK_GOOD;
}

static const char begin_word[] = "begin ";

char *tool_begin_write(const char *key, const char *restarts) {
  size_t bytes = RONDE_SEAL_DIGITS + sizeof begin_word + strlen(restarts) + 1;
  char *line = malloc(bytes), seal[RONDE_SEAL_DIGITS + 1];
  if (!line) return NULL;
  char *words = line + RONDE_SEAL_DIGITS + 1;
  snprintf(words, bytes - RONDE_SEAL_DIGITS - 1, "%s%s", begin_word, restarts);
  if (!ronde_seal(key, words, seal)) {
    free(line);
    return NULL;
  }
  memcpy(line, seal, RONDE_SEAL_DIGITS);
  line[RONDE_SEAL_DIGITS] = ' ';
  return line;
}

const char *tool_begin_read(const char *key, const char *line) {
  char seal[RONDE_SEAL_DIGITS + 2];
  size_t length = sizeof begin_word - 1;
  bool good = take_word(&line, seal, sizeof seal) && ronde_seal_holds(key, line, seal) &&
              strncmp(line, begin_word, length) == 0;
  return good ? line + length : NULL;
}

/* Marks of ranks, as the launcher reads them, and its own word to rank 0. The first byte says whether the rest is sealed as by the
 * launch, so that what stands behind the key is reached too. What is accepted can be written again, and says the same. */
#include "mark.h"

#include <ronde/measure.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char key[] = "the key of this launch";

static void require(bool holds) {
  if (!holds) abort();
}

static void check(const char *text) {
  tool_mark mark = {.number = -7}, again;
  char line[TOOL_MARK_BYTES];
  tool_verdict verdict = tool_mark_read(key, text, &mark);
  require(verdict < TOOL_N_VERDICTS && *tool_verdict_text(verdict));
  if (verdict != TOOL_MARK_GOOD) {
    require(mark.number == -7);
    return;
  }
  require(mark.kind < TOOL_N_MARKS && mark.number >= 0 && memchr(mark.name, 0, sizeof mark.name) &&
          memchr(mark.text, 0, sizeof mark.text));
  if (!tool_mark_write(key, &mark, line)) return; /* longer than one that is written */
  require(tool_mark_read(key, line + sizeof TOOL_MARK - 1, &again) == TOOL_MARK_GOOD);
  require(again.kind == mark.kind && again.number == mark.number && again.a == mark.a && again.b == mark.b &&
          strlen(again.name) == strlen(mark.name) && strlen(again.text) == strlen(mark.text));
}

/* The word by which a start begins. */
static void check_begin(const char *line) {
  const char *restarts = tool_begin_read(key, line);
  char *again = restarts ? tool_begin_write(key, restarts) : NULL;
  require(!restarts || (again && strcmp(again, line) == 0));
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char text[4096], whole[4200], seal[RONDE_SEAL_DIGITS + 1];
  if (size < 1 || size > sizeof text) return 0;
  memcpy(text, data + 1, size - 1);
  text[size - 1] = 0;
  if (data[0] % 2 == 0) {
    check(text);
    check_begin(text);
    return 0;
  }
  require(ronde_seal(key, text, seal));
  snprintf(whole, sizeof whole, TOOL_MARKS " %s %s", seal, text);
  check(whole);
  check_begin(whole + sizeof TOOL_MARKS);
  return 0;
}

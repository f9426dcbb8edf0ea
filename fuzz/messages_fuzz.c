/* What ranks on other hosts send: options before the run; facts, rows of the per-op table and spans after it. The first
 * byte says which. What is accepted can be reported. */
#include "train/rank.h"
#include "setup/setup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
  if (!holds) abort();
}

/* Bytes of the same size as the item, zeros where the input ends. */
static void take_bytes(const uint8_t **data, size_t *size, void *item, size_t bytes) {
  size_t n = *size < bytes ? *size : bytes;
  memset(item, 0, bytes);
  memcpy(item, *data, n);
  *data += n;
  *size -= n;
}

/* Two texts, the first of which ends in a NUL. */
static void compare_options(const uint8_t *data, size_t size) {
  char name[32], own[64], theirs[64], *text = malloc(size + 2);
  memcpy(text, data, size);
  text[size] = text[size + 1] = 0;
  if (ronde__options_differ(text, text + strlen(text) + 1, name, own, theirs))
    require(strlen(name) < 32 && strlen(own) < 64 && strlen(theirs) < 64);
  free(text);
}

static void report_job(const ronde__gather_row *rows, int n) {
  ronde__prof_op ops[8];
  ronde__record record;
  char *json = NULL;
  if (ronde__gather_read(rows, n, 1, ops) != RONDE_OK) return;
  ronde__record_begin(&record);
  require(ronde__record_add_ops(&record, ops, n) == RONDE_OK);
  require(ronde__record_json(&record, &json) == RONDE_OK);
  free(json);
  ronde__record_end(&record);
}

static void gather_job(const uint8_t *data, size_t size) {
  enum { WORLD = 2, ROWS = 8 };
  ronde__rank_facts facts[WORLD];
  ronde__gather_row rows[ROWS];
  take_bytes(&data, &size, facts, sizeof facts);
  if (ronde__gather_check_facts(facts, WORLD) != RONDE_OK) return;
  for (int i = 0; i < WORLD; i++) require(strlen(facts[i].host) < sizeof facts[i].host && facts[i].n_ops >= 0);
  int n = (int)ronde__min(facts[1].n_ops, ROWS);
  for (int i = 0; i < n; i++) take_bytes(&data, &size, &rows[i], sizeof rows[i]);
  report_job(rows, n);
}

static void trace(const uint8_t *data, size_t size) {
  ronde__trace_head head;
  ronde__span span;
  take_bytes(&data, &size, &head, sizeof head);
  take_bytes(&data, &size, &span, sizeof span);
  if (ronde__trace_check_head(&head, 1) != RONDE_OK || ronde__trace_check_spans(&head, &span, 1, 1) != RONDE_OK) return;
  require(strlen(head.host) < sizeof head.host);
  require(span.what >= 0 && span.what < RONDE__N_PHASES + head.n_ops && span.begin_ns >= head.first_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  if (data[0] % 4 == 2) trace(data + 1, size - 1);
  else if (data[0] % 2) compare_options(data + 1, size - 1);
  else gather_job(data + 1, size - 1);
  return 0;
}

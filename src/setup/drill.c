/* --drill: which faults a training is to meet, and where. Each is a row: its kind, its syntax, which is also what is matched
 * and shown, and its check. In a syntax, words in capitals are numbers or a strategy, [ ] may be left out, and the rest is
 * literal. Of rows of one name the first that matches is meant. */
#include "setup/setup.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
  ronde__drill_kind kind;
  const char *syntax;
  ronde_status (*check)(const ronde__job *job, const char *text, const ronde__drill *drill); /* beside rank and step */
} row;

/* A fault as it is read. */
typedef struct reading {
  ronde__drill drill;
  char strategy[32]; /* with which alone there is one; "": with any */
} reading;

/* ---- what a kind needs ---- */

static ronde_status check_load(const ronde__job *job, const char *text, const ronde__drill *drill) {
  if (drill->rank <= 0 || !job->strategy->rank_0_loads) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--drill %s: with --strategy %s rank 0 loads for all (load:0:MS)",
                     RONDE__SHOWN(text), job->strategy->name);
}

static ronde_status check_disk(const ronde__job *job, const char *text, const ronde__drill *drill) {
  if (job->options->out || job->options->save) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--drill %s can have no effect: nothing is written without --out or --save",
                     RONDE__SHOWN(text));
}

static const row rows[] = {
    {RONDE__DRILL_LOAD, "load:[RANK:]MS", check_load},
    {RONDE__DRILL_SLOW, "slow:RANK:MS[@STEP]", NULL},
    {RONDE__DRILL_SLOW, "slow:STRATEGY:MS", NULL}, /* of rank 0 */
    {RONDE__DRILL_DRIFT, "drift:RANK:STEP", NULL},
    {RONDE__DRILL_CORRUPT, "corrupt:RANK@STEP", NULL},
    {RONDE__DRILL_OOM, "oom:RANK@STEP", NULL},
    {RONDE__DRILL_KILL, "kill:RANK@STEP", NULL},
    {RONDE__DRILL_STOP, "stop:RANK@STEP[:SECONDS]", NULL},
    {RONDE__DRILL_SLOW_DISK, "slow-disk:MS", check_disk},
    {RONDE__DRILL_DISK_FULL, "disk-full@STEP", check_disk},
};

/* ---- reading ---- */

static const char *read_strategy(const char *text, reading *read) {
  size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz-");
  if (n == 0 || n >= sizeof read->strategy) return NULL;
  snprintf(read->strategy, sizeof read->strategy, "%.*s", (int)n, text);
  return text + n;
}

/* What a word of a syntax stands for, which is n letters long. What is left of text; NULL where there is none, or a number
 * is out of its range. */
static const char *read_word(const char *word, size_t n, const char *text, reading *read) {
  ronde__drill *drill = &read->drill;
  char *end;
  if (!strncmp(word, "STRATEGY", n)) return read_strategy(text, read);
  if (!isdigit((unsigned char)*text)) return NULL;
  if (!strncmp(word, "RANK", n) || !strncmp(word, "STEP", n)) {
    long long value = strtoll(text, &end, 10);
    bool rank = *word == 'R';
    if (rank ? value > INT32_MAX : value < 1) return NULL;
    if (rank) drill->rank = (int)value;
    else drill->step = value;
    return end;
  }
  bool ms = !strncmp(word, "MS", n);
  double value = strtod_l(text, &end, ronde__c_locale());
  if (!(ms ? value <= 60000 : value >= 0.1 && value <= 3600)) return NULL;
  drill->ns = (uint64_t)(value * (ms ? 1e6 : 1e9));
  return end;
}

/* What is left of text behind what the syntax describes; NULL where it does not fit. */
static const char *match(const char *syntax, const char *text, reading *read) {
  while (text && *syntax && *syntax != ']') {
    if (*syntax == '[') {
      reading with = *read;
      const char *rest = match(syntax + 1, text, &with);
      if (rest) *read = with;
      text = rest ? rest : text;
      syntax = strchr(syntax, ']') + 1;
    } else if (isupper((unsigned char)*syntax)) {
      size_t n = strspn(syntax, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
      text = read_word(syntax, n, text, read);
      syntax += n;
    } else if (*syntax++ != *text++) return NULL;
  }
  return text;
}

static size_t name_length(const char *text) { return strcspn(text, ":@,"); }

/* The row that part fits, and what is left of it in *rest_out; else the first of its name, and NULL there. NULL: none has
 * that name. */
static const row *find_row(const char *part, reading *read_out, const char **rest_out) {
  size_t n = name_length(part);
  const row *named = NULL;
  for (size_t i = 0; i < RONDE__COUNT(rows); i++) {
    if (name_length(rows[i].syntax) != n || strncmp(rows[i].syntax, part, n)) continue;
    *read_out = (reading){.drill = {.on = true, .rank = -1}};
    *rest_out = match(rows[i].syntax, part, read_out);
    if (*rest_out && (!**rest_out || **rest_out == ',')) return &rows[i];
    if (!named) named = &rows[i];
  }
  *rest_out = NULL;
  return named;
}

static ronde_status fail_unknown(const char *part) {
  char all[256];
  size_t used = 0;
  for (size_t i = 0; i < RONDE__COUNT(rows); i++)
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                             i == 0                       ? ""
                             : i < RONDE__COUNT(rows) - 1 ? ", "
                                                          : " or ",
                             rows[i].syntax);
  return ronde__fail(RONDE_E_USAGE, "--drill %s: expected %s", RONDE__SHOWN(part), all);
}

static ronde_status check(const ronde__job *job, const char *part, const row *row) {
  const ronde__drill *drill = &job->drills[row->kind];
  if (drill->rank >= job->roles.n_workers)
    return ronde__fail(RONDE_E_USAGE, "--drill %s: there is no rank %d among %d", RONDE__SHOWN(part), drill->rank,
                       job->roles.n_workers);
  if (drill->step > job->steps)
    return ronde__fail(RONDE_E_USAGE, "--drill %s can have no effect: the run has %" PRId64 " steps",
                       RONDE__SHOWN(part), job->steps);
  return row->check ? row->check(job, part, drill) : RONDE_OK;
}

/* A fault of rank 0 with one strategy alone: with others there is none, so that there may be one for each. */
static ronde_status settle_strategy(const ronde__job *job, reading *read) {
  ronde__strategy_settings settings = {.options = job->options};
  if (!*read->strategy) return RONDE_OK;
  if (!ronde__strategy_find(read->strategy, &settings))
    return ronde__fail(RONDE_E_USAGE, "--drill slow:%s: there is no such strategy", read->strategy);
  read->drill.on = strcmp(read->strategy, job->strategy->name) == 0;
  read->drill.rank = 0;
  return RONDE_OK;
}

/* One fault of the plan: what comes behind it. */
static ronde_status read_part(ronde__job *job, const char *part, const char **rest_out) {
  reading read;
  const row *row = find_row(part, &read, rest_out);
  if (!row) return fail_unknown(part);
  if (!*rest_out)
    return ronde__fail(RONDE_E_USAGE,
                       "--drill %s: it is %s (RANK from 0, STEP from 1, MS up to 60000, SECONDS from 0.1 to 3600), and "
                       "faults are separated by commas",
                       RONDE__SHOWN(part), row->syntax);
  RONDE_TRY(settle_strategy(job, &read));
  if (!read.drill.on) return RONDE_OK;
  if (job->drills[row->kind].on)
    return ronde__fail(RONDE_E_USAGE, "--drill %s: there can be one fault of this kind", RONDE__SHOWN(part));
  job->drills[row->kind] = read.drill;
  return check(job, part, row);
}

ronde_status ronde__set_up_drills(ronde__job *job) {
  const char *rest = job->options->drill;
  while (rest) {
    RONDE_TRY(read_part(job, rest, &rest));
    rest = *rest ? rest + 1 : NULL;
  }
  return RONDE_OK;
}

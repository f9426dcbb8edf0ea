/* --drill: which faults a training is to meet, and where. Each kind is a row: its syntax, which is also what is matched and
 * shown, and its check. In a syntax, words in capitals are numbers, [ ] may be left out, and the rest is literal. */
#include "setup/setup.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct kind {
  const char *syntax;
  ronde_status (*check)(const ronde__job *job, const char *text, const ronde__drill *drill); /* beside rank and step */
} kind;

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

static const kind kinds[RONDE__N_DRILLS] = {
    [RONDE__DRILL_LOAD] = {"load:[RANK:]MS", check_load},
    [RONDE__DRILL_SLOW] = {"slow:RANK:MS[@STEP]", NULL},
    [RONDE__DRILL_DRIFT] = {"drift:RANK:STEP", NULL},
    [RONDE__DRILL_CORRUPT] = {"corrupt:RANK@STEP", NULL},
    [RONDE__DRILL_OOM] = {"oom:RANK@STEP", NULL},
    [RONDE__DRILL_KILL] = {"kill:RANK@STEP", NULL},
    [RONDE__DRILL_STOP] = {"stop:RANK@STEP[:SECONDS]", NULL},
    [RONDE__DRILL_SLOW_DISK] = {"slow-disk:MS", check_disk},
    [RONDE__DRILL_DISK_FULL] = {"disk-full@STEP", check_disk},
};

/* ---- reading ---- */

/* The number that a word of a syntax stands for, which is n letters long. What is left of text; NULL where there is none in
 * its range. */
static const char *read_number(const char *word, size_t n, const char *text, ronde__drill *drill) {
  char *end;
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
static const char *match(const char *syntax, const char *text, ronde__drill *drill) {
  while (text && *syntax && *syntax != ']') {
    if (*syntax == '[') {
      ronde__drill with = *drill;
      const char *rest = match(syntax + 1, text, &with);
      if (rest) *drill = with;
      text = rest ? rest : text;
      syntax = strchr(syntax, ']') + 1;
    } else if (isupper((unsigned char)*syntax)) {
      size_t n = strspn(syntax, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
      text = read_number(syntax, n, text, drill);
      syntax += n;
    } else if (*syntax++ != *text++) return NULL;
  }
  return text;
}

static size_t name_length(const char *text) { return strcspn(text, ":@,"); }

static int find_kind(const char *part) {
  size_t n = name_length(part);
  for (int i = 0; i < RONDE__N_DRILLS; i++)
    if (name_length(kinds[i].syntax) == n && !strncmp(kinds[i].syntax, part, n)) return i;
  return -1;
}

static ronde_status fail_unknown(const char *part) {
  char all[256];
  size_t used = 0;
  for (int i = 0; i < RONDE__N_DRILLS; i++)
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%s",
                             i == 0                    ? ""
                             : i < RONDE__N_DRILLS - 1 ? ", "
                                                       : " or ",
                             kinds[i].syntax);
  return ronde__fail(RONDE_E_USAGE, "--drill %s: expected %s", RONDE__SHOWN(part), all);
}

static ronde_status check(const ronde__job *job, const char *part, int i) {
  const ronde__drill *drill = &job->drills[i];
  if (drill->rank >= job->roles.n_workers)
    return ronde__fail(RONDE_E_USAGE, "--drill %s: there is no rank %d among %d", RONDE__SHOWN(part), drill->rank,
                       job->roles.n_workers);
  if (drill->step > job->steps)
    return ronde__fail(RONDE_E_USAGE, "--drill %s can have no effect: the run has %" PRId64 " steps",
                       RONDE__SHOWN(part), job->steps);
  return kinds[i].check ? kinds[i].check(job, part, drill) : RONDE_OK;
}

/* One fault of the plan: what comes behind it. */
static ronde_status read_part(ronde__job *job, const char *part, const char **rest_out) {
  int i = find_kind(part);
  if (i < 0) return fail_unknown(part);
  ronde__drill *drill = &job->drills[i], read = {.on = true, .rank = -1};
  const char *rest = match(kinds[i].syntax, part, &read);
  if (!rest || (*rest && *rest != ','))
    return ronde__fail(RONDE_E_USAGE,
                       "--drill %s: it is %s (RANK from 0, STEP from 1, MS up to 60000, SECONDS from 0.1 to 3600), and "
                       "faults are separated by commas",
                       RONDE__SHOWN(part), kinds[i].syntax);
  if (drill->on)
    return ronde__fail(RONDE_E_USAGE, "--drill %s: there can be one fault of this kind", RONDE__SHOWN(part));
  *drill = read;
  *rest_out = rest;
  return check(job, part, i);
}

/* slow:STRATEGY:MS, of which there may be several: rank 0 is slow with that strategy, and as always with others. */
static ronde_status read_slow_strategy(ronde__job *job, const char *name, double ms) {
  ronde__strategy_settings settings = {.options = job->options};
  if (!ronde__strategy_find(name, &settings))
    return ronde__fail(RONDE_E_USAGE, "--drill slow:%s: there is no such strategy", name);
  if (strcmp(name, job->strategy->name) == 0)
    job->drills[RONDE__DRILL_SLOW] = (ronde__drill){.on = true, .rank = 0, .ns = (uint64_t)(ms * 1e6)};
  return RONDE_OK;
}

ronde_status ronde__set_up_drills(ronde__job *job) {
  const char *rest = job->options->drill;
  while (rest) {
    char name[32];
    double ms;
    int used = 0;
    if (sscanf(rest, "slow:%31[a-z-]:%lf%n", name, &ms, &used) == 2 && used && ms >= 0 && ms <= 60000) {
      RONDE_TRY(read_slow_strategy(job, name, ms));
      rest += used;
    } else RONDE_TRY(read_part(job, rest, &rest));
    rest = *rest ? rest + 1 : NULL;
  }
  return RONDE_OK;
}

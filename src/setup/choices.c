/* --choices: what an earlier run chose, of what decides how its results are rounded, is chosen again. Rank 0 reads the
 * file; the others are told. A choice that run.json records has a row in the table here. */
#include "setup/setup.h"

#include <stdio.h>
#include <string.h>

/* A choice of the file, found to be text. */
typedef struct row {
  const char *path, *name, *value;
} row;

static ronde_status take_collective(ronde__job *job, const row *r, bool *concerns_out) {
  if (!ronde__allreduce_find(r->value))
    return ronde__fail(RONDE_E_INPUT, "--choices %s: there is no collective '%.40s'", r->path, r->value);
  *concerns_out = job->roles.n_workers > 1 && job->strategy->all_reduces;
  if (!*concerns_out) return RONDE_OK;
  bool named = job->options->collective != RONDE__COLLECTIVE_AUTO;
  const char *other = ronde_config_get(job->config, "collective");
  if (named && strcmp(other, r->value))
    return ronde__fail(RONDE_E_USAGE, "--collective %s, but --choices %s has %s: give only one of the two", other,
                       r->path, r->value);
  snprintf(job->choices.collective, sizeof job->choices.collective, "%s", r->value);
  return RONDE_OK;
}

/* Settled long before: what decides more than a sum comes first. */
static ronde_status take_strategy(ronde__job *job, const row *r, bool *concerns_out) {
  *concerns_out = true;
  return RONDE_OK;
}

/* What is set by a variable in the environment, before any option is read. */
static ronde_status compare(const row *r, const char *here, const char *variable) {
  if (!strcmp(r->value, here)) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE,
                     "--choices %s: its %s is %.40s, but here it is %s: set %s=%.40s to compute as that run did",
                     r->path, r->name, r->value, here, variable, r->value);
}

static ronde_status compare_isa(ronde__job *job, const row *r, bool *concerns_out) {
  *concerns_out = true;
  return compare(r, job->compute.kernels->isa, "RONDE_ISA");
}

static ronde_status compare_gemm(ronde__job *job, const row *r, bool *concerns_out) {
  *concerns_out = true;
  return compare(r, ronde__gemm_name(job->compute.gemm), "RONDE_GEMM");
}

static ronde_status compare_bf16(ronde__job *job, const row *r, bool *concerns_out) {
  const char *here = ronde__bf16_name(job->compute.bf16), *none = ronde__bf16_name(NULL);
  bool is_none = !strcmp(r->value, none);
  *concerns_out = true;
  if (!strcmp(r->value, here)) return RONDE_OK;
  return ronde__fail(
      RONDE_E_USAGE,
      "--choices %s: its bfloat16 is %.40s, but here it is %s: give --dtype %s%s%.40s to compute as that "
      "run did",
      r->path, r->value, here, is_none ? "f32" : "bf16", is_none ? "" : " and set RONDE_ISA=", is_none ? "" : r->value);
}

/* When an update is made changes no bit. */
static ronde_status pass_over(ronde__job *job, const row *r, bool *concerns_out) { return RONDE_OK; }

static const struct {
  const char *name;
  ronde_status (*take)(ronde__job *job, const row *r, bool *concerns_out);
} table[] = {{"strategy", take_strategy}, {"collective", take_collective}, {"isa", compare_isa},
             {"gemm", compare_gemm},      {"bf16", compare_bf16},          {"update", pass_over}};

static ronde_status take(ronde__job *job, row r, const json_t *value, bool *any) {
  bool concerns = false;
  r.value = json_string_value(value);
  if (!r.name || !r.value)
    return ronde__fail(RONDE_E_INPUT, "--choices %s: %.40s: each choice needs a name and a text as its value", r.path,
                       r.name ? r.name : "choices");
  for (size_t i = 0; i < RONDE__COUNT(table); i++) {
    if (strcmp(table[i].name, r.name)) continue;
    RONDE_TRY(table[i].take(job, &r, &concerns));
    *any |= concerns;
    return RONDE_OK;
  }
  return ronde__fail(RONDE_E_INPUT, "--choices %s: this version of Ronde does not know the choice '%.40s'", r.path,
                     r.name);
}

/* run.json, or {"collective": "ring"}. */
static ronde_status take_all(ronde__job *job, const char *path, json_t *json) {
  json_t *list = json_object_get(json, "choices"), *value;
  const char *name;
  size_t i;
  bool any = false;
  if (!json_is_object(json) || (list && !json_is_array(list)))
    return ronde__fail(RONDE_E_INPUT, "--choices %s: neither a run.json nor a JSON object of choices", path);
  json_array_foreach(list, i, value) {
    name = json_string_value(json_object_get(value, "choice"));
    RONDE_TRY(take(job, (row){path, name, NULL}, json_object_get(value, "value"), &any));
  }
  if (!list) json_object_foreach(json, name, value) RONDE_TRY(take(job, (row){path, name, NULL}, value, &any));
  return any ? RONDE_OK : ronde__config_no_effect(job->config, "choices", "this run makes none of the file's choices");
}

static ronde_status load(const char *path, json_t **json_out) {
  json_error_t error;
  *json_out = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (*json_out) return RONDE_OK;
  if (error.line > 0) return ronde__fail(RONDE_E_INPUT, "--choices %s: line %d: %s", path, error.line, error.text);
  return ronde__fail(RONDE_E_INPUT, "--choices %s: %s", path, error.text);
}

static ronde_status read_file(ronde__job *job, const char *path) {
  json_t *json;
  RONDE_TRY(load(path, &json));
  ronde_status status = take_all(job, path, json);
  json_decref(json);
  return status;
}

ronde_status ronde__set_up_choices(ronde__job *job) {
  ronde__transport *mpi = job->mpi;
  const char *path = job->options->choices;
  if (path && (!mpi || mpi->rank == 0)) RONDE_TRY(read_file(job, path));
  if (!mpi) return RONDE_OK;
  ronde_status status = ronde__broadcast_tree(mpi, RONDE__TAG_CHOICES, 0, &job->choices, sizeof job->choices);
  job->choices.collective[sizeof job->choices.collective - 1] = 0;
  return status;
}

/* ---- the strategy, in front of all else ---- */

/* NULL: the file names none, or what is no text, of which all of the file's choices are told later. */
static const char *strategy_in(json_t *json) {
  json_t *list = json_object_get(json, "choices"), *row;
  size_t i;
  json_array_foreach(list, i, row) {
    const char *name = json_string_value(json_object_get(row, "choice"));
    if (name && !strcmp(name, "strategy")) return json_string_value(json_object_get(row, "value"));
  }
  return list ? NULL : json_string_value(json_object_get(json, "strategy"));
}

static ronde_status check_strategy(const ronde__job *job, const char *path, const char *name) {
  ronde__strategy_settings settings = {.options = job->options};
  int asked = job->options->strategy;
  if (!ronde__strategy_find(name, &settings))
    return ronde__fail(RONDE_E_INPUT, "--choices %s: there is no strategy '%.40s'", path, name);
  const char *other = ronde_config_get(job->config, "strategy");
  if (asked == RONDE__STRATEGY_AUTO || asked == RONDE__STRATEGY_MEASURED || !strcmp(other, name)) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE, "--strategy %s, but --choices %s has %s: give one of them", other, path, name);
}

static ronde_status read_strategy(ronde__job *job, const char *path) {
  json_t *json;
  RONDE_TRY(load(path, &json));
  const char *name = strategy_in(json);
  ronde_status status = name ? check_strategy(job, path, name) : RONDE_OK;
  if (name && status == RONDE_OK) snprintf(job->choices.strategy, sizeof job->choices.strategy, "%s", name);
  json_decref(json);
  return status;
}

/* A run that goes on says what its beginning had measured. */
static void take_measured(ronde__job *job) {
  json_t *then = json_object_get(job->resume->json, "choices");
  const char *name = json_string_value(json_object_get(then, "strategy"));
  if (!name || strcmp(name, ronde_config_get(job->config, "strategy"))) return;
  job->strategy_reason = "measured when the run began";
  job->strategy_costs = json_incref(json_object_get(then, "candidates"));
}

ronde_status ronde__settle_strategy(ronde__job *job) {
  const char *path = job->options->choices;
  char *name = job->choices.strategy;
  if (path && (!job->mpi || job->mpi->rank == 0)) RONDE_TRY(read_strategy(job, path));
  if (job->mpi) RONDE_TRY(ronde__broadcast_tree(job->mpi, RONDE__TAG_CHOICES, 0, name, sizeof job->choices.strategy));
  name[sizeof job->choices.strategy - 1] = 0;
  if (job->resume && !*name) take_measured(job);
  if (!*name) return RONDE_OK;
  job->strategy_reason = "named by --choices";
  return ronde__config_name_strategy(job->config, name);
}

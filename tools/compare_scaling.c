/* `ronde compare --scaling 1,2,4`: how much faster more workers train, at the same batch (strong scaling) and at the same
 * batch of each worker (weak scaling). Efficiency is t1 / (n tn) for the same examples: 1 where n workers are n times as
 * fast as one. Sources: Amdahl, 1967 (strong); Gustafson, "Reevaluating Amdahl's law", 1988 (weak). */
#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int workers_of(const tool_case *one) { return (int)tool_number(one->plan, "workers"); }
static int threads_of(const tool_case *one) {
  return workers_of(one) * (int)tool_number(one->plan, "threads_per_worker");
}

static bool is_weak(const tool_call *call, const tool_case *one) {
  const tool_axis *axis = tool_axis_of(call, "scaling");
  const char *value = axis ? one->values[axis - call->axes] : NULL;
  return value && strcmp(value, "weak") == 0;
}

/* ---- the advice -------------------------------------------------------------------------------------------------- */

static ronde_statistics speed_of(const ronde_measurement *record, int index) {
  return ronde_measurement_statistics(record, index, "times_as_fast");
}

/* "1.84 times as fast as one [1.80, 1.88]" */
static void put_speed(FILE *out, const ronde_measurement *record, int index) {
  ronde_statistics s = speed_of(record, index);
  fprintf(out, "%.2f times as fast as one", s.median);
  if (isfinite(s.low)) fprintf(out, " [%.2f, %.2f]", s.low, s.high);
}

static void put_case(FILE *out, const tool_case *one) {
  int n = workers_of(one);
  fprintf(out, "%d worker%s", n, n == 1 ? "" : "s");
  if (n > 1) fprintf(out, " by %s", tool_string(one->plan, "strategy"));
}

/* Of strong scaling: the case that more workers are no longer certain to be faster than. */
static int find_best(const tool_call *call, const tool_cases *cases, const ronde_measurement *record) {
  int best = 0;
  for (int i = 1; i < cases->n; i++)
    if (!is_weak(call, &cases->at[i]) && speed_of(record, i).low > speed_of(record, best).median) best = i;
  return best;
}

/* The fastest of the cases with more workers than the best one, or -1. */
static int find_beyond(const tool_call *call, const tool_cases *cases, const ronde_measurement *record, int best) {
  int beyond = -1;
  for (int i = 1; i < cases->n; i++)
    if (!is_weak(call, &cases->at[i]) && workers_of(&cases->at[i]) > workers_of(&cases->at[best]) &&
        (beyond < 0 || speed_of(record, i).median > speed_of(record, beyond).median))
      beyond = i;
  return beyond;
}

/* The part of the training that is exchange, as far as it was not hidden. communication_s is a step's. */
static double exchange_share(double communication_s, double steps, double train_s) {
  return communication_s * steps / train_s;
}

static double exchange_of(const ronde_measurement *record, const tool_case *one, int index) {
  return exchange_share(ronde_measurement_statistics(record, index, "communication_s").median,
                        tool_number(json_object_get(one->run, "totals"), "steps"),
                        ronde_measurement_statistics(record, index, "train_s").median);
}

static void put_advice(FILE *out, const tool_call *call, const tool_cases *cases, const ronde_measurement *record) {
  int cores = ronde_host_load_since(NULL).cores, best = find_best(call, cases, record);
  int beyond = find_beyond(call, cases, record, best);
  if (!isfinite(speed_of(record, cases->n - 1).low)) {
    fprintf(out, "one round tells no difference for certain: --rounds 3 and more do");
    return;
  }
  fprintf(out, "take ");
  put_case(out, &cases->at[best]);
  if (best) fprintf(out, ", "), put_speed(out, record, best);
  if (beyond < 0) {
    if (best) fprintf(out, ", and try more: nothing measured here is faster with fewer");
    return;
  }
  fprintf(out, "; ");
  put_case(out, &cases->at[beyond]);
  fprintf(out, " cannot be told to be faster (");
  put_speed(out, record, beyond);
  fprintf(out, ")");
  if (threads_of(&cases->at[beyond]) > cores) fprintf(out, ", as they share %d cores", cores);
  else if (exchange_of(record, &cases->at[beyond], beyond) > 0.1)
    fprintf(out, ", as exchange takes %.0f %% of their time", 100 * exchange_of(record, &cases->at[beyond], beyond));
}

ronde_status tool_scaling_rank(const tool_call *call, const tool_cases *cases, ronde_measurement *record) {
  ronde_status status = RONDE_OK;
  char *text = NULL;
  size_t bytes;
  for (int i = 0; i < cases->n && !status; i++) {
    double n = workers_of(&cases->at[i]);
    status = ronde_measurement_add_ratio(record, i, "times_as_long", "examples_per_s", 0, i);
    if (!status) status = ronde_measurement_add_rate(record, i, "efficiency", "times_as_long", 1 / n);
  }
  FILE *out = status ? NULL : open_memstream(&text, &bytes);
  if (out) put_advice(out, call, cases, record);
  if (!status && (!out || fclose(out))) status = tool_fail(RONDE_E_MEMORY, "compare: no memory for its advice");
  if (!status) status = tool_bench_set(record, RONDE_WHOLE, "advice", json_string(text));
  free(text);
  return status;
}

void tool_scaling_warn(const tool_cases *cases) {
  int cores = ronde_host_load_since(NULL).cores, most = 0;
  for (int i = 0; i < cases->n; i++)
    if (threads_of(&cases->at[i]) > most) most = threads_of(&cases->at[i]);
  if (most > cores)
    tool_say("warning: up to %d threads of the workers share the %d cores of this host: that is no scaling of theirs",
             most, cores);
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

/* Cases of one kind, and the one worker that they are compared with. */
static json_t *rows_of(const json_t *cases, const char *kind) {
  json_t *rows = json_array(), *one;
  size_t i;
  json_array_foreach(cases, i, one) {
    bool is_wanted = strcmp(tool_string(json_object_get(one, "values"), "scaling"), kind) == 0;
    if (i > 0 && !is_wanted) continue;
    json_t *row = json_copy(one);
    double exchange = exchange_share(tool_number(json_object_get(one, "communication_s"), "median"),
                                     tool_number(one, "steps"), tool_number(json_object_get(one, "train_s"), "median"));
    json_object_set_new(row, "exchange_percent", json_real(100 * exchange));
    json_array_append_new(rows, row);
  }
  return rows;
}

static void print_kind(const json_t *cases, const char *kind, const char *title) {
  static const tool_column columns[] = {
      {"workers", TOOL_CELL_COUNT, "workers", 0, 1},
      {"strategy", TOOL_CELL_TEXT, "strategy", 0, 1},
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"examples/s", TOOL_CELL_COUNT, "examples_per_s.median", 0, 1},
      {"speed", TOOL_CELL_NUMBER, "times_as_fast.median", 2, 1},
      {"efficiency", TOOL_CELL_NUMBER, "efficiency.median", 3, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "efficiency", 3, 1},
      {"exchange %", TOOL_CELL_NUMBER, "exchange_percent", 1, 1},
  };
  json_t *rows = rows_of(cases, kind);
  printf("\n%s\n", title);
  tool_table(rows, columns, sizeof columns / sizeof columns[0]);
  json_decref(rows);
}

void tool_scaling_print(const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases");
  print_kind(cases, "strong", "strong scaling: the same batch, divided among the workers");
  print_kind(cases, "weak", "weak scaling: the same batch of each worker");
  printf("\nadvice: %s\n", tool_string(bench, "advice"));
}

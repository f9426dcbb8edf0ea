/* The three regimes of batch-size scaling: up to some batch, twice the batch needs half the steps (perfect scaling), then it
 * saves less and less, and in the end nothing. Source: Shallue et al., "Measuring the Effects of Data Parallelism on Neural
 * Network Training", JMLR 2019. They read the ends of the regimes off a plot; here each has a bound, so that an interval
 * can decide it. */
#include "batches.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PERFECT 0.8 /* of the examples that the smallest batch needs, over those that this one needs */
#define NO_GAIN 1.1 /* times fewer steps than the batch in front of it, for twice the batch */

/* Why nothing can be concluded from a batch; NULL: it can. */
static json_t *open_of(const tool_batch *one) {
  if (!isfinite(one->lr)) return json_string("no learning rate of the grid reached the target within the budget");
  if (one->n_coarse)
    return json_sprintf("%d of %d seeds reached the target by their first test: fewer --train-examples test more often",
                        one->n_coarse, one->n_seeds);
  if (one->is_at_edge)
    return json_sprintf("the best learning rate, %g, is at the edge of the grid: a better one may lie outside",
                        one->lr);
  if (one->n_reached < one->n_seeds)
    return json_sprintf("only %d of %d seeds reached the target within the budget", one->n_reached, one->n_seeds);
  return one->n_seeds < 2 ? json_string("one seed has no interval: --rounds 3 or more") : NULL;
}

/* The batches from the smallest on that can be concluded from, up to the first that cannot; says of each why not. */
static ronde_status find_closed(ronde_measurement *record, const tool_batch *batches, int n, int *n_closed_out) {
  *n_closed_out = n;
  for (int i = 0; i < n; i++) {
    json_t *open = open_of(&batches[i]);
    if (open && i < *n_closed_out) *n_closed_out = i;
    TOOL_TRY(tool_bench_set(record, i, "open", open ? open : json_null()));
  }
  return RONDE_OK;
}

static ronde_status add_ratios(ronde_measurement *record, int n) {
  for (int i = 1; i < n; i++) {
    TOOL_TRY(ronde_measurement_add_ratio(record, i, "of_perfect", "examples_to_target", 0, i));
    TOOL_TRY(ronde_measurement_add_ratio(record, i, "fewer_steps", "steps_to_target", i - 1, i));
  }
  return RONDE_OK;
}

/* What NO_GAIN is for a batch that is not twice the one in front of it. */
static double no_gain(const tool_batch *batches, int i) {
  return pow(NO_GAIN, log2((double)batches[i].batch / (double)batches[i - 1].batch));
}

/* Indices of batches; -1: not found among those that were measured. */
typedef struct regimes {
  int perfect_to, perfect_ended_by; /* certain to hold up to; certain to have ended by */
  int gains_to, gain_stopped_by;
} regimes;

static regimes find_regimes(const ronde_measurement *record, const tool_batch *batches, int n) {
  regimes found = {0, -1, 0, -1};
  bool holds = true;
  for (int i = 1; i < n; i++) {
    ronde_statistics perfect = ronde_measurement_statistics(record, i, "of_perfect"),
                     fewer = ronde_measurement_statistics(record, i, "fewer_steps");
    holds &= perfect.low >= PERFECT;
    if (holds) found.perfect_to = i;
    if (found.perfect_ended_by < 0 && perfect.high < PERFECT) found.perfect_ended_by = i;
    if (fewer.low > no_gain(batches, i)) found.gains_to = i;
  }
  for (int i = n - 1; i > found.gains_to; i--)
    if (ronde_measurement_statistics(record, i, "fewer_steps").high < no_gain(batches, i)) found.gain_stopped_by = i;
  return found;
}

static json_t *batch_json(const tool_batch *batches, int i) {
  return i < 0 ? json_null() : json_integer(batches[i].batch);
}

/* "Perfect scaling ends between batch 64 and 256"; last: the largest batch that was concluded from. */
static void put_end(FILE *out, const tool_batch *batches, const char *what, const char *ends, int from, int to,
                    int last) {
  if (to >= 0)
    fprintf(out, "%s %s between batch %" PRId64 " and %" PRId64 ". ", what, ends, batches[from].batch,
            batches[to].batch);
  else if (from == last)
    fprintf(out, "%s holds up to batch %" PRId64 ", the largest that counts. ", what, batches[from].batch);
  else
    fprintf(out, "%s is certain up to batch %" PRId64 "; by which one it %s cannot be told. ", what,
            batches[from].batch, ends);
}

static json_t *text_of(const tool_batch *batches, int n_closed, int n, const regimes *found) {
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  if (!out) return NULL;
  if (n_closed < 2) fprintf(out, "Nothing can be concluded: ");
  else {
    put_end(out, batches, "Perfect scaling", "ends", found->perfect_to, found->perfect_ended_by, n_closed - 1);
    put_end(out, batches, "Gain by larger batches", "stops", found->gains_to, found->gain_stopped_by, n_closed - 1);
  }
  if (n_closed < n) {
    json_t *open = open_of(&batches[n_closed]);
    fprintf(out, "%satch %" PRId64 "%s open: %s.", n_closed < 2 ? "b" : "B", batches[n_closed].batch,
            n_closed < n - 1 ? " and above are" : " is", json_string_value(open));
    json_decref(open);
  }
  fclose(out);
  json_t *json = json_string(text);
  free(text);
  return json;
}

ronde_status tool_batches_conclude(ronde_measurement *record, const tool_batch *batches, int n) {
  int n_closed;
  TOOL_TRY(find_closed(record, batches, n, &n_closed));
  TOOL_TRY(add_ratios(record, n));
  bool is_same = !ronde_measurement_difference(record);
  regimes found = {-1, -1, -1, -1};
  if (n_closed >= 2 && is_same) found = find_regimes(record, batches, n_closed);
  json_t *text = is_same ? text_of(batches, n_closed, n, &found)
                         : json_sprintf("Nothing can be concluded, because it is not the same work: %s.",
                                        ronde_measurement_difference(record));
  return tool_bench_set(
      record, RONDE_WHOLE, "regimes",
      json_pack("{s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "perfect_is", PERFECT, "no_gain_is", NO_GAIN, "perfect_to",
                batch_json(batches, found.perfect_to), "perfect_ended_by", batch_json(batches, found.perfect_ended_by),
                "gains_to", batch_json(batches, found.gains_to), "gain_stopped_by",
                batch_json(batches, found.gain_stopped_by), "text", text));
}

void tool_batches_print(const json_t *bench) {
  static const tool_column columns[] = {
      {"batch", TOOL_CELL_COUNT, "batch", 0, 1},
      {"best lr", TOOL_CELL_NUMBER, "lr", -4, 1},
      {"trainings", TOOL_CELL_COUNT, "tried", 0, 1},
      {"reached", TOOL_CELL_TEXT, "reached", 0, 1},
      {"steps", TOOL_CELL_COUNT, "steps_to_target.median", 0, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "steps_to_target", 0, 1},
      {"of perfect", TOOL_CELL_NUMBER, "of_perfect.median", 2, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "of_perfect", 2, 1},
      {"times fewer steps", TOOL_CELL_NUMBER, "fewer_steps.median", 2, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "fewer_steps", 2, 1},
      {"open, because", TOOL_CELL_TEXT, "open", 0, 1},
  };
  printf("%s on %s: steps to an accuracy of %g, of at most %.0f\n", tool_string(bench, "model"),
         tool_string(bench, "data"), tool_number(bench, "target_accuracy"), tool_number(bench, "budget_steps"));
  tool_table(json_object_get(bench, "cases"), columns, sizeof columns / sizeof columns[0]);
  printf("\n%s\n", tool_string(json_object_get(bench, "regimes"), "text"));
}

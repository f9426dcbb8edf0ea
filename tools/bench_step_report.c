/* What `bench step` measured: whether the work was the same, bench.json, and the table. */
#include "bench_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same work ---- */

static const char *const fields[] = {
    "model", "parameters", "forward_flops_per_example", "padding", "batch", "dtype", "optimizer", "momentum",
    "lr",    "threads"};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

/* Sums in f32 in another order: the loss is a mean over the batch of values of a few units. What one update made of it
 * shows that gradients and optimizer are the same; batch normalisation over few pixels magnifies rounding there. */
#define FIRST_LOSS_TOLERANCE 1e-4
#define UPDATE_TOLERANCE 0.02

static void differ(json_t *differences, const char *field, json_t *text) {
  json_array_append_new(differences, json_pack("{s:s, s:o}", "field", field, "text", text));
}

/* Numbers by value: 1 and 1.0 are one. */
static bool is_equal(const json_t *a, const json_t *b) {
  return json_is_number(a) && json_is_number(b) ? json_number_value(a) == json_number_value(b) : json_equal(a, b);
}

static void compare_fields(const tool_system *a, const tool_system *b, json_t *differences) {
  for (int i = 0; i < N_FIELDS; i++) {
    const json_t *first = json_object_get(a->about, fields[i]), *other = json_object_get(b->about, fields[i]);
    if (is_equal(first, other)) continue;
    char *x = json_dumps(first, JSON_ENCODE_ANY), *y = json_dumps(other, JSON_ENCODE_ANY);
    differ(differences, fields[i],
           json_sprintf("%s is %s with %s, %s with %s", fields[i], x ? x : "missing", a->name, y ? y : "missing",
                        b->name));
    free(x);
    free(y);
  }
}

static void compare_losses(const tool_system *a, const tool_system *b, json_t *differences) {
  double drop_a = a->losses[0] - a->losses[1], drop_b = b->losses[0] - b->losses[1];
  if (!(fabs(a->losses[0] - b->losses[0]) <= FIRST_LOSS_TOLERANCE * fmax(1, fabs(a->losses[0]))))
    differ(differences, "first_loss",
           json_sprintf("first_loss is %.9g with %s, %.9g with %s", a->losses[0], a->name, b->losses[0], b->name));
  else if (!(fabs(drop_a - drop_b) <= UPDATE_TOLERANCE * fabs(drop_a) + FIRST_LOSS_TOLERANCE))
    differ(differences, "second_loss",
           json_sprintf("second_loss is %.9g with %s, %.9g with %s", a->losses[1], a->name, b->losses[1], b->name));
}

json_t *tool_step_differences(const tool_system *systems, int n) {
  json_t *differences = json_array();
  for (int i = 1; i < n; i++) {
    compare_fields(&systems[0], &systems[i], differences);
    compare_losses(&systems[0], &systems[i], differences);
  }
  return differences;
}

/* ---- bench.json ---- */

/* How many times as fast Ronde is, round by round. */
static ronde_status ratios_json(const tool_system *ronde, const tool_system *other, json_t **json_out) {
  tool_samples ratios = {0};
  ronde_status status = RONDE_OK;
  for (int64_t i = 0; i < ronde->medians.n && !status; i++)
    status = tool_sample(&ratios, other->medians.at[i] / ronde->medians.at[i]);
  if (!status) *json_out = tool_samples_json(&ratios);
  free(ratios.at);
  return status;
}

static ronde_status case_json(const tool_system *first, const tool_system *one, json_t *cases) {
  json_t *ratios = json_null();
  ronde_status status = one->medians.n > 0 ? ratios_json(first, one, &ratios) : RONDE_OK;
  if (status) return status;
  json_t *json = json_pack("{s:s, s:s, s:O, s:O}", "name", one->name, "system", one->peer ? one->peer : "ronde",
                           "command", one->command, "about", one->about);
  for (int i = 0; i < N_FIELDS; i++) json_object_set(json, fields[i], json_object_get(one->about, fields[i]));
  json_object_set_new(json, "clock", json_string("monotonic wall clock, a whole step"));
  json_object_set_new(json, "first_loss", json_real(one->losses[0]));
  json_object_set_new(json, "second_loss", json_real(one->losses[1]));
  json_object_set_new(json, "setup_s", json_real(one->setup_s));
  json_object_set_new(json, "peak_rss_bytes", json_real(one->peak_rss_bytes));
  json_object_set_new(json, "step_s", tool_steps_json(&one->steps, &one->medians));
  json_object_set_new(json, "round_s", tool_samples_json(&one->medians));
  json_object_set_new(json, "ronde_is_faster_by", ratios);
  json_array_append_new(cases, json);
  return RONDE_OK;
}

static double case_median(const json_t *one, const char *key) {
  return tool_number(json_object_get(one, key), "median");
}

/* The name of the fastest peer; null where there is none. */
static json_t *fastest_peer(const json_t *cases) {
  const json_t *one, *best = NULL;
  size_t i;
  json_array_foreach(cases, i, one) {
    if (i == 0 || !isfinite(case_median(one, "round_s"))) continue;
    if (!best || case_median(one, "round_s") < case_median(best, "round_s")) best = one;
  }
  return best ? json_incref(json_object_get(best, "name")) : json_null();
}

ronde_status tool_step_json(const tool_system *systems, int n, const json_t *differences, json_t **bench_out) {
  json_t *cases = json_array();
  ronde_status status = RONDE_OK;
  for (int i = 0; i < n && !status; i++) status = case_json(&systems[0], &systems[i], cases);
  if (status) {
    json_decref(cases);
    return status;
  }
  *bench_out =
      json_pack("{s:s, s:s, s:O, s:b, s:O, s:o, s:o}", "schema", "ronde.bench.v1", "verb", "bench step", "machine",
                json_object_get(systems[0].about, "machine"), "ranked", json_array_size(differences) == 0,
                "differences", differences, "fastest_peer", fastest_peer(cases), "cases", cases);
  return *bench_out ? RONDE_OK : tool_fail(RONDE_E_MEMORY, "bench step: no memory for the result");
}

/* ---- the table ---- */

static void print_case(const json_t *one, const char *fastest) {
  const json_t *steps = json_object_get(one, "step_s"), *ratio = json_object_get(one, "ronde_is_faster_by");
  char speed[96] = "-", peak[32], interval[64];
  if (*tool_string(one, "name") && json_is_object(ratio))
    snprintf(speed, sizeof speed, "%.2f  %s", tool_number(ratio, "median"), tool_interval(ratio, 1, 2, interval));
  printf("%-26s %10.3f %8.3f  %-16s %22s %11s %8.2f  %-11.9g%s\n", tool_string(one, "name"),
         1e3 * tool_number(steps, "median"), 1e3 * tool_number(steps, "mad"), tool_interval(steps, 1e3, 3, interval),
         speed, tool_bytes(tool_number(one, "peak_rss_bytes"), peak), tool_number(one, "setup_s"),
         tool_number(one, "first_loss"), strcmp(tool_string(one, "name"), fastest) == 0 ? " the fastest peer" : "");
}

void tool_step_print(const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *one, *first = json_array_get(cases, 0);
  size_t i;
  char parameters[32];
  printf("%s (%s parameters), batch %.0f, %s, %.0f thread%s; milliseconds a step\n", tool_string(first, "model"),
         tool_count(tool_number(first, "parameters"), parameters), tool_number(first, "batch"),
         tool_string(first, "optimizer"), tool_number(first, "threads"), tool_number(first, "threads") > 1 ? "s" : "");
  printf("%-26s %10s %8s  %-16s %22s %11s %8s  %s\n", "system", "median", "MAD", "[95 % interval]",
         "Ronde is faster by", "peak memory", "set-up s", "first loss");
  json_array_foreach(cases, i, one) { print_case(one, tool_string(bench, "fastest_peer")); }
}

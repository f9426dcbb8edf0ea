/* What `bench step` measured: whether the work was the same, the record, and the table. */
#include "bench_step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same work ---- */

static const char *const fields[] = {"dtype",   "model",  "parameters", "forward_flops_per_example",
                                     "padding", "batch",  "optimizer",  "momentum",
                                     "lr",      "threads"};
enum { DTYPE, N_FIELDS = sizeof fields / sizeof fields[0] };

/* Sums in f32 in another order: the loss is a mean over the batch of values of a few units. What one update made of it
 * shows that gradients and optimizer are the same; batch normalisation over few pixels magnifies rounding there. */
#define FIRST_LOSS_TOLERANCE 1e-4
#define UPDATE_TOLERANCE 0.02
/* The same where operands and activations are rounded to 8 bits, by other rules in each system: first losses of resnet50 lie
 * within 0.1 of each other, and one update lowers them by 0.80 in f32, by 0.63, 0.48 and 0.49 in PyTorch's (plain and
 * channels-last) and TensorFlow's bfloat16. */
#define BF16_LOSS_TOLERANCE 0.05
#define BF16_UPDATE_TOLERANCE 0.4

static ronde_status note_loss(ronde_measurement *record, const char *field, const tool_system *a, double loss_a,
                              const tool_system *b, double loss_b) {
  char text[256];
  snprintf(text, sizeof text, "%s is %.9g with %s, %.9g with %s", field, loss_a, a->name, loss_b, b->name);
  return ronde_measurement_differ(record, field, text);
}

static bool is_bf16(const tool_system *one) { return strcmp(tool_string(one->about, "dtype"), "bf16") == 0; }

static ronde_status compare_losses(const tool_system *a, const tool_system *b, ronde_measurement *record) {
  double drop_a = a->losses[0] - a->losses[1], drop_b = b->losses[0] - b->losses[1];
  bool bf16 = is_bf16(a) || is_bf16(b);
  double first = bf16 ? BF16_LOSS_TOLERANCE : FIRST_LOSS_TOLERANCE;
  double update = bf16 ? BF16_UPDATE_TOLERANCE : UPDATE_TOLERANCE;
  if (!(fabs(a->losses[0] - b->losses[0]) <= first * fmax(1, fabs(a->losses[0]))))
    return note_loss(record, "first_loss", a, a->losses[0], b, b->losses[0]);
  if (!(fabs(drop_a - drop_b) <= update * fabs(drop_a) + first))
    return note_loss(record, "second_loss", a, a->losses[1], b, b->losses[1]);
  return RONDE_OK;
}

/* ---- the record ---- */

/* Its work is that of one step. */
static ronde_status add_system(const tool_system *one, ronde_measurement *record) {
  int index;
  const char *const values[] = {one->name};
  ronde_status status = ronde_measurement_add_case(record, one->name, one->peer ? one->peer : "ronde", values, &index);
  if (!status) status = tool_bench_set(record, index, "command", json_incref(one->command));
  if (!status) status = tool_bench_set(record, index, "about", json_incref(one->about));
  for (int i = 0; i < N_FIELDS && !status; i++) {
    json_t *value = json_object_get(one->about, fields[i]);
    if (value) status = tool_bench_set(record, index, fields[i], json_incref(value));
  }
  double examples = tool_number(one->about, "batch");
  const ronde_work work = {"step", examples, NAN, NAN};
  if (!status) status = ronde_measurement_set_work(record, index, &work);
  if (!status) status = tool_bench_set(record, index, "clock", json_string("monotonic wall clock, a whole step"));
  if (!status) status = tool_bench_set(record, index, "first_loss", json_real(one->losses[0]));
  if (!status) status = tool_bench_set(record, index, "second_loss", json_real(one->losses[1]));
  if (!status) status = tool_bench_set(record, index, "setup_s", json_real(one->setup_s));
  return status;
}

/* Rounding to 8 bits may change what an update brings more than another optimizer would, so each is compared in its own
 * format. Where nobody else rounds so, Ronde's two formats are. */
static ronde_status compare_all(const tool_system *systems, int n, const tool_system *in_f32,
                                ronde_measurement *record) {
  ronde_status status = RONDE_OK;
  bool any = false;
  for (int i = 1; i < n && !status; i++) {
    bool same = !in_f32 || is_bf16(&systems[i]);
    any |= same;
    status = compare_losses(same ? &systems[0] : in_f32, &systems[i], record);
  }
  return status || any || !in_f32 ? status : compare_losses(in_f32, &systems[0], record);
}

ronde_status tool_step_record(const tool_system *systems, int n, const tool_system *in_f32, ronde_measurement *record) {
  const char *names[TOOL_MAX_SYSTEMS];
  for (int i = 0; i < n; i++) names[i] = systems[i].name;
  json_t *machine = json_object_get(systems[0].about, "machine");
  ronde_status status = ronde_measurement_add_axis(record, "system", names, n);
  if (!status && machine) status = tool_bench_set(record, RONDE_WHOLE, "machine", json_incref(machine));
  for (int i = 0; i < n && !status; i++) status = add_system(&systems[i], record);
  if (in_f32 && !status)
    status =
        tool_bench_set(record, RONDE_WHOLE, "f32_losses", json_pack("[f, f]", in_f32->losses[0], in_f32->losses[1]));
  /* In bfloat16 Ronde is measured beside what is fastest in either format. */
  for (int i = 1; i < n && !status; i++)
    for (int f = is_bf16(&systems[0]) ? DTYPE + 1 : DTYPE; f < N_FIELDS; f++)
      ronde_measurement_differs(record, fields[f], 0, i);
  return status ? status : compare_all(systems, n, in_f32, record);
}

/* The name of the fastest peer; null where there is none. */
static json_t *fastest_peer(const tool_system *systems, int n, const ronde_measurement *record) {
  const tool_system *fastest = NULL;
  double least = INFINITY;
  for (int i = 1; i < n; i++) {
    double seconds = ronde_measurement_statistics(record, i, "round_s").median;
    if (!(seconds < least)) continue;
    least = seconds;
    fastest = &systems[i];
  }
  return fastest ? json_string(fastest->name) : json_null();
}

ronde_status tool_step_rank(const tool_system *systems, int n, ronde_measurement *record) {
  ronde_status status = ronde_measurement_rank(record, "round_s", false);
  for (int i = 0; i < n && !status; i++) {
    status = tool_bench_set(record, i, "peak_rss_bytes", json_real(systems[i].peak_rss_bytes));
    if (!status) status = ronde_measurement_add_ratio(record, i, "ronde_is_faster_by", "round_s", i, 0);
  }
  return status ? status : tool_bench_set(record, RONDE_WHOLE, "fastest_peer", fastest_peer(systems, n, record));
}

/* ---- the table ---- */

void tool_step_print(const json_t *bench) {
  static const tool_column columns[] = {
      {"system", TOOL_CELL_TEXT, "name", 0, 1},
      {"median", TOOL_CELL_NUMBER, "step_s.median", 3, 1e3},
      {"MAD", TOOL_CELL_NUMBER, "step_s.mad", 3, 1e3},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "step_s", 3, 1e3},
      {"Ronde is faster by", TOOL_CELL_NUMBER, "ronde_is_faster_by.median", 2, 1},
      {"[95 % interval]", TOOL_CELL_INTERVAL, "ronde_is_faster_by", 2, 1},
      {"peak memory", TOOL_CELL_BYTES, "peak_rss_bytes", 0, 1},
      {"set-up s", TOOL_CELL_NUMBER, "setup_s", 2, 1},
      {"first loss", TOOL_CELL_NUMBER, "first_loss", -9, 1},
  };
  const json_t *cases = json_object_get(bench, "cases"), *first = json_array_get(cases, 0);
  const char *fastest = tool_string(bench, "fastest_peer");
  char parameters[32];
  printf("%s (%s parameters), batch %.0f, %s, %.0f thread%s; milliseconds a step\n", tool_string(first, "model"),
         tool_count(tool_number(first, "parameters"), parameters), tool_number(first, "batch"),
         tool_string(first, "optimizer"), tool_number(first, "threads"), tool_number(first, "threads") > 1 ? "s" : "");
  tool_table(cases, columns, sizeof columns / sizeof columns[0]);
  if (*fastest) printf("the fastest peer: %s\n", fastest);
}

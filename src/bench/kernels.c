/* ronde_bench_kernels: each layer's kernels beside what this machine can do at all. A kernel's limit is the roofline:
 * the time of its operations at the arithmetic peak or of its bytes at the memory's, whichever is longer.
 * Source: Williams, Waterman & Patterson, "Roofline", 2009. */
#include "bench/stepper.h"
#include "kernel/bf16.h"
#include "measure/measurement.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the machine's peaks ---- */

typedef struct peaks {
  double flops_per_s, bytes_per_s;
  double bf16_flops_per_s; /* 0: all layers are f32 */
} peaks;

enum { PEAK_ROUNDS = 7, PEAK_TURNS = 400000, STREAM_ELEMS = 16 << 20 };

typedef struct peak_work {
  const ronde__kernels *kernels;
  const ronde__bf16 *bf16; /* of it rather than of f32 */
  float *a, *b, *c;        /* [STREAM_ELEMS] */
  float *sink;             /* [threads]: so that nothing is left out */
  bool stream;
} peak_work;

static void peak_thread(void *arg, int thread, int n_threads) {
  const peak_work *work = arg;
  if (!work->stream) {
    work->sink[thread] = work->bf16 ? work->bf16->peak(PEAK_TURNS) : work->kernels->multiply_adds(PEAK_TURNS);
    return;
  }
  int64_t begin = ronde__shard_begin(STREAM_ELEMS, thread, n_threads);
  int64_t end = ronde__shard_begin(STREAM_ELEMS, thread + 1, n_threads);
  work->kernels->add(work->a + begin, work->b + begin, work->c + begin, end - begin);
}

/* The best of some rounds: what disturbs only makes it slower. */
static double best_seconds(const peak_work *work, ronde__pool *pool) {
  double best = INFINITY;
  for (int i = 0; i < PEAK_ROUNDS; i++) {
    uint64_t begin = ronde__now_ns();
    ronde__pool_run(pool, peak_thread, (void *)work);
    double seconds = (double)(ronde__now_ns() - begin) * 1e-9;
    if (seconds < best) best = seconds;
  }
  return best;
}

static ronde_status measure_peaks(const ronde_stepper *s, peaks *peaks_out) {
  ronde__pool *pool = s->worker.pool;
  int threads = ronde__pool_threads(pool);
  size_t bytes = (size_t)STREAM_ELEMS * sizeof(float);
  peak_work work = {.kernels = s->job->compute.kernels,
                    .a = ronde__pages_map(bytes),
                    .b = ronde__pages_map(bytes),
                    .c = ronde__pages_map(bytes),
                    .sink = ronde__alloc((size_t)threads * sizeof(float))};
  ronde_status status = RONDE_OK;
  if (!work.a || !work.b || !work.c || !work.sink) {
    status = ronde__fail(RONDE_E_MEMORY, "bench kernels: no memory for %zu bytes", 3 * bytes);
  } else {
    /* Pages that were never written are all the same one. */
    memset(work.a, 0, bytes);
    memset(work.b, 0, bytes);
    double flops = 2.0 * RONDE__MULTIPLY_ADDS * PEAK_TURNS * work.kernels->vector * threads;
    peaks_out->flops_per_s = flops / best_seconds(&work, pool);
    work.bf16 = s->job->compute.bf16;
    if (work.bf16)
      peaks_out->bf16_flops_per_s = work.bf16->peak_flops * PEAK_TURNS * threads / best_seconds(&work, pool);
    work.stream = true;
    peaks_out->bytes_per_s = 3.0 * (double)bytes / best_seconds(&work, pool);
  }
  ronde__pages_unmap(work.a, bytes);
  ronde__pages_unmap(work.b, bytes);
  ronde__pages_unmap(work.c, bytes);
  ronde__free(work.sink);
  return status;
}

/* ---- rounds of steps ---- */

typedef struct rounds {
  int n, n_rows;
  double *seconds; /* [n][n_rows]: of one step */
  double *steps;   /* [n]: the same of whole steps */
} rounds;

static int64_t steps_of_a_round(const ronde__options *o, double step_s) {
  return o->steps ? o->steps : ronde__max(3, (int64_t)(0.5 / step_s));
}

static ronde_status run_round(ronde_stepper *s, int64_t n_steps, double *seconds, double *step_s) {
  int n_rows;
  double loss;
  const ronde__prof_op *rows = ronde__prof_ops(s->worker.prof, &n_rows);
  for (int i = 0; i < n_rows; i++) seconds[i] = (double)rows[i].ns;
  uint64_t begin = ronde__now_ns();
  for (int64_t i = 0; i < n_steps; i++) RONDE_TRY(ronde__stepper_step(s, &loss));
  *step_s = (double)(ronde__now_ns() - begin) * 1e-9 / (double)n_steps;
  for (int i = 0; i < n_rows; i++) seconds[i] = ((double)rows[i].ns - seconds[i]) * 1e-9 / (double)n_steps;
  return RONDE_OK;
}

static ronde_status run_kernel_rounds(ronde_stepper *s, const ronde_hooks *hooks, rounds *r) {
  double warm_up = 0;
  for (int i = 0; i < 3; i++) RONDE_TRY(ronde_stepper_run(s, 1, &warm_up, &(double){0}));
  ronde__prof_ops(s->worker.prof, &r->n_rows);
  r->n = (int)s->job->options->rounds;
  RONDE__ALLOC(r->seconds, (size_t)r->n * (size_t)r->n_rows * sizeof *r->seconds, "bench kernels");
  RONDE__ALLOC(r->steps, (size_t)r->n * sizeof *r->steps, "bench kernels");
  int64_t n_steps = steps_of_a_round(s->job->options, warm_up);
  for (int i = 0; i < r->n; i++) {
    if (hooks && hooks->cancel && hooks->cancel(hooks->user)) return RONDE_E_CANCELLED;
    RONDE_TRY(run_round(s, n_steps, r->seconds + (size_t)i * (size_t)r->n_rows, &r->steps[i]));
  }
  return RONDE_OK;
}

/* ---- the record ---- */

static json_t *ratio_json(double a, double b) { return b > 0 ? json_real(a / b) : json_null(); }

/* By the name of what implements it, at the end of the row's. */
static bool is_bf16(const ronde_stepper *s, const ronde__prof_op *row) {
  const ronde__bf16 *bf16 = s->job->compute.bf16;
  size_t length = strlen(row->implementation), n = bf16 ? strlen(bf16->name) : 0;
  return bf16 && length >= n && strcmp(row->implementation + length - n, bf16->name) == 0;
}

/* Its limit is the longer of two times: that of its arithmetic and that of its memory, each at the peak. */
static ronde_status record_rates(ronde_measurement *m, int one, double flops, double bytes, double flops_per_s,
                                 const peaks *p) {
  double seconds = ronde_measurement_statistics(m, one, "seconds").median;
  double step_s = ronde_measurement_statistics(m, RONDE_WHOLE, "step_s").median;
  double arithmetic_s = flops / flops_per_s, memory_s = bytes / p->bytes_per_s;
  bool is_arithmetic = arithmetic_s > memory_s;
  double limit_s = is_arithmetic ? arithmetic_s : memory_s;
  json_t *reached = limit_s > 0 ? ratio_json(limit_s, seconds) : json_null();
  RONDE_TRY(ronde__measurement_put(m, one, "of_step", ratio_json(seconds, step_s)));
  RONDE_TRY(ronde__measurement_put(m, one, "gflops_per_s", ratio_json(1e-9 * flops, seconds)));
  RONDE_TRY(ronde__measurement_put(m, one, "gbytes_per_s", ratio_json(1e-9 * bytes, seconds)));
  RONDE_TRY(ronde__measurement_put(m, one, "of_limit", reached));
  return ronde__measurement_put(m, one, "bound", json_string(is_arithmetic ? "arithmetic" : "memory"));
}

static ronde_status record_kernel(const ronde_stepper *s, const rounds *r, int i, const peaks *p,
                                  ronde_measurement *m) {
  int n_rows, one;
  const ronde__prof_op *row = &ronde__prof_ops(s->worker.prof, &n_rows)[i];
  const char *phase = ronde__phase_name(row->phase), *const values[] = {row->op, phase};
  double calls = (double)row->calls / (double)s->n_steps, flops = row->flops / (double)s->n_steps;
  double bytes = row->bytes * calls;
  char name[256];
  snprintf(name, sizeof name, "%s %s", row->op, phase);
  RONDE_TRY(ronde_measurement_add_case(m, name, "ronde", values, &one));
  RONDE_TRY(ronde__measurement_put(m, one, "op", json_string(row->op)));
  RONDE_TRY(ronde__measurement_put(m, one, "phase", json_string(phase)));
  RONDE_TRY(ronde__measurement_put(m, one, "implementation", json_string(row->implementation)));
  RONDE_TRY(ronde__measurement_put(m, one, "calls_per_step", json_real(calls)));
  RONDE_TRY(ronde__measurement_put(m, one, "flops", json_real(flops)));
  RONDE_TRY(ronde__measurement_put(m, one, "bytes", json_real(bytes)));
  RONDE_TRY(ronde_measurement_set_work(m, one, &(ronde_work){"step", (double)s->job->batch, bytes, flops}));
  for (int j = 0; j < r->n; j++)
    RONDE_TRY(
        ronde_measurement_add_samples(m, one, "seconds", j, &r->seconds[(size_t)j * (size_t)n_rows + (size_t)i], 1));
  return record_rates(m, one, flops, bytes, is_bf16(s, row) ? p->bf16_flops_per_s : p->flops_per_s, p);
}

/* What the stepper says of its work. */
static ronde_status record_work(const ronde_stepper *s, ronde_measurement *m) {
  char *text;
  const char *name;
  json_t *value;
  RONDE_TRY(ronde_stepper_describe(s, &text));
  json_t *work = json_loads(text, 0, NULL);
  ronde_status status = work ? RONDE_OK : RONDE_E_MEMORY;
  json_object_foreach(work, name, value) {
    if (!status) status = ronde__measurement_put(m, RONDE_WHOLE, name, json_incref(value));
  }
  json_decref(work);
  free(text);
  return status;
}

static ronde_status add_kernel_axes(const ronde_stepper *s, ronde_measurement *m) {
  const char **ops, *phases[RONDE__N_PHASES];
  int n_rows;
  const ronde__prof_op *rows = ronde__prof_ops(s->worker.prof, &n_rows);
  RONDE__ALLOC(ops, (size_t)n_rows * sizeof *ops, "bench kernels");
  int n_ops = 0;
  for (int i = 0; i < n_rows; i++) {
    bool is_new = true;
    for (int j = 0; j < n_ops && is_new; j++) is_new = strcmp(ops[j], rows[i].op) != 0;
    if (is_new) ops[n_ops++] = rows[i].op;
  }
  for (int i = 0; i < RONDE__N_PHASES; i++) phases[i] = ronde__phase_name((ronde__phase)i);
  ronde_status status = ronde_measurement_add_axis(m, "op", ops, n_ops);
  if (!status) status = ronde_measurement_add_axis(m, "phase", phases, RONDE__N_PHASES);
  ronde__free(ops);
  return status;
}

static ronde_status record_kernels(const ronde_stepper *s, const rounds *r, const peaks *p, ronde_measurement *m) {
  json_t *peak =
      json_pack("{s:f, s:f, s:o}", "gflops_per_s", p->flops_per_s * 1e-9, "gbytes_per_s", p->bytes_per_s * 1e-9,
                "bf16_gflops_per_s", p->bf16_flops_per_s > 0 ? json_real(p->bf16_flops_per_s * 1e-9) : json_null());
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "peak", peak));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "rounds", json_integer(r->n)));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "clock", json_string("monotonic wall clock")));
  RONDE_TRY(record_work(s, m));
  RONDE_TRY(add_kernel_axes(s, m));
  for (int i = 0; i < r->n; i++) RONDE_TRY(ronde_measurement_add_samples(m, RONDE_WHOLE, "step_s", i, &r->steps[i], 1));
  for (int i = 0; i < r->n_rows; i++) RONDE_TRY(record_kernel(s, r, i, p, m));
  return ronde_measurement_leave_unranked(m, "each kernel does different work");
}

static ronde_status measure_kernels(ronde_stepper *s, const ronde_hooks *hooks, rounds *r, ronde_measurement *m) {
  peaks p = {0};
  ronde_measurement_begin(m);
  RONDE_TRY(measure_peaks(s, &p));
  RONDE_TRY(run_kernel_rounds(s, hooks, r));
  ronde_measurement_end(m);
  return record_kernels(s, r, &p, m);
}

ronde_status ronde_bench_kernels(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  const char *out = ronde__config_options(config)->out;
  ronde_stepper *s;
  ronde_measurement *m = NULL;
  rounds r = {0};
  RONDE_TRY(ronde__stepper_create(config, true, &s));
  ronde_status status = ronde_measurement_create("bench kernels", &m);
  if (status == RONDE_OK) status = measure_kernels(s, hooks, &r, m);
  if (status == RONDE_OK && out && *out) status = ronde_measurement_write(m, out);
  if (status == RONDE_OK) status = ronde_measurement_json(m, json_out);
  ronde_measurement_destroy(m);
  ronde__free(r.seconds);
  ronde__free(r.steps);
  ronde_stepper_destroy(s);
  return status;
}

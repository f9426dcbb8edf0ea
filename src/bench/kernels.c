/* ronde_bench_kernels: each layer's kernels beside what this machine can do at all. A kernel's limit is the roofline:
 * the time of its operations at the arithmetic peak or of its bytes at the memory's, whichever is longer.
 * Source: Williams, Waterman & Patterson, "Roofline", 2009. */
#include "base/machine.h"
#include "bench/stepper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the machine's peaks ---- */

typedef struct peaks {
  double flops_per_s, bytes_per_s;
} peaks;

enum { PEAK_ROUNDS = 7, PEAK_TURNS = 400000, STREAM_ELEMS = 16 << 20 };

typedef struct peak_work {
  const ronde__kernels *kernels;
  float *a, *b, *c; /* [STREAM_ELEMS] */
  float *sink;      /* [threads]: so that nothing is left out */
  bool stream;
} peak_work;

static void peak_thread(void *arg, int thread, int n_threads) {
  const peak_work *work = arg;
  if (!work->stream) {
    work->sink[thread] = work->kernels->multiply_adds(PEAK_TURNS);
    return;
  }
  int64_t begin = ronde__share_begin(STREAM_ELEMS, thread, n_threads);
  int64_t end = ronde__share_begin(STREAM_ELEMS, thread + 1, n_threads);
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
  peak_work work = {.kernels = s->job->kernels,
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

static ronde_status run_rounds(ronde_stepper *s, const ronde_hooks *hooks, rounds *r) {
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

/* ---- bench.json ---- */

static json_t *list_of(const double *at, int n, int stride) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, json_real(at[i * stride]));
  return list;
}

static ronde_status row_json(const ronde_stepper *s, const rounds *r, int i, const peaks *p, json_t *rows) {
  int n_rows, n = r->n;
  const ronde__prof_op *row = &ronde__prof_ops(s->worker.prof, &n_rows)[i];
  json_t *samples = list_of(r->seconds + i, n, n_rows);
  double at[1000], calls = (double)row->calls / (double)s->n_steps;
  for (int j = 0; j < n; j++) at[j] = r->seconds[(size_t)j * (size_t)n_rows + (size_t)i];
  ronde_statistics statistics;
  RONDE_TRY(ronde_statistics_of(at, n, &statistics));
  double seconds = statistics.median, flops = row->flops / (double)s->n_steps, bytes = row->bytes * calls;
  double arithmetic_s = flops / p->flops_per_s, memory_s = bytes / p->bytes_per_s;
  double limit_s = arithmetic_s > memory_s ? arithmetic_s : memory_s;
  bool timed = seconds > 0;
  json_t *json =
      json_pack("{s:s, s:s, s:s, s:f, s:o, s:f, s:f, s:s}", "op", row->op, "phase", ronde__phase_name(row->phase),
                "implementation", row->implementation, "calls_per_step", calls, "seconds", samples, "flops", flops,
                "bytes", bytes, "bound", arithmetic_s > memory_s ? "arithmetic" : "memory");
  json_object_set_new(json, "gflops_per_s", timed ? json_real(flops / seconds * 1e-9) : json_null());
  json_object_set_new(json, "gbytes_per_s", timed ? json_real(bytes / seconds * 1e-9) : json_null());
  json_object_set_new(json, "of_limit", timed && limit_s > 0 ? json_real(limit_s / seconds) : json_null());
  json_object_set_new(json, "median_s", json_real(seconds));
  json_array_append_new(rows, json);
  return RONDE_OK;
}

static ronde_status to_json(const ronde_stepper *s, const rounds *r, const peaks *p, char **json_out) {
  char *work;
  json_t *rows = json_array();
  ronde_status status = ronde_stepper_describe(s, &work);
  for (int i = 0; i < r->n_rows && status == RONDE_OK; i++) status = row_json(s, r, i, p, rows);
  if (status != RONDE_OK) {
    json_decref(rows);
    return status;
  }
  json_t *json = json_loads(work, 0, NULL);
  free(work);
  json_object_set_new(json, "schema", json_string("ronde.bench.v1"));
  json_object_set_new(json, "verb", json_string("bench kernels"));
  json_object_set_new(json, "command", ronde__command_json());
  json_object_set_new(
      json, "peak",
      json_pack("{s:f, s:f}", "gflops_per_s", p->flops_per_s * 1e-9, "gbytes_per_s", p->bytes_per_s * 1e-9));
  json_object_set_new(json, "step_s", list_of(r->steps, r->n, 1));
  json_object_set_new(json, "kernels", rows);
  char *text = json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
  json_decref(json);
  if (!text) return ronde__fail(RONDE_E_MEMORY, "bench kernels: no memory for the result");
  *json_out = text;
  return RONDE_OK;
}

ronde_status ronde_bench_kernels(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  ronde_stepper *s;
  rounds r = {0};
  peaks p = {0};
  RONDE_TRY(ronde__stepper_create(config, true, &s));
  ronde_status status = measure_peaks(s, &p);
  if (status == RONDE_OK) status = run_rounds(s, hooks, &r);
  if (status == RONDE_OK) status = to_json(s, &r, &p, json_out);
  ronde__free(r.seconds);
  ronde__free(r.steps);
  ronde_stepper_destroy(s);
  return status;
}

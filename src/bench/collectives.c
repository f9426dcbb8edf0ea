/* ronde_bench_collectives: every collective by size, as nccl-tests measure them: verify, warm up, then calls back to
 * back in rounds that alternate between the collectives; a round's time is the slowest rank's.
 * p ranks; n elements of a vector. */
#include "comm/collective.h"
#include "comm/copy.h"
#include "comm/mpi.h"
#include "job/job.h"
#include "base/machine.h"
#include "measure/measurement.h"
#include "setup/setup.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64, MAX_CASES = 16, MAX_SIZES = 64, MAX_ITERATIONS = 100000 };
#define ROUND_NS 50000000.0 /* of calls, where --iterations leaves it open */

typedef enum kind {
  KIND_ALLREDUCE,
  KIND_ALLREDUCE_BF16,
  KIND_REDUCE_SCATTER,
  KIND_PAIRWISE,
  KIND_ALLGATHER,
  KIND_BROADCAST,
  KIND_COPY
} kind;

typedef struct measured {
  const char *name;
  kind kind;
  const ronde__allreduce *allreduce;
} measured;

static const measured others[] = {
    {"ring-bf16", KIND_ALLREDUCE_BF16, NULL}, /* of --wire bf16 */
    {"reduce-scatter", KIND_REDUCE_SCATTER, NULL},
    {"pairwise", KIND_PAIRWISE, NULL}, /* a reduce-scatter, of --strategy sharded in one host */
    {"all-gather", KIND_ALLGATHER, NULL},
    {"broadcast", KIND_BROADCAST, NULL},
    {"copy", KIND_COPY, NULL}, /* of a rank's own vector, all ranks at once: what memory allows */
};

typedef struct bench {
  const ronde__options *options;
  const ronde__kernels *kernels;
  ronde_hooks hooks;
  measured cases[MAX_CASES];
  int64_t sizes[MAX_SIZES]; /* bytes */
  int n_cases, n_sizes, size, n_hosts;
  bool process_each;
  const char *transport;
  ronde_measurement *record; /* filled by rank 0 */
} bench;

typedef struct rank {
  bench *bench;
  ronde__transport *transport;
  float *x, *other; /* [the largest n]; other: scratch of collectives, the target of a copy */
  ronde_status status;
} rank;

/* What ranks tell each other between rounds. */
typedef struct word {
  double seconds;
  int64_t iterations;
  int32_t cancel, wrong;
} word;

/* ---- one call ---- */

static ronde_status call_collective(const measured *c, rank *r, size_t n) {
  ronde__transport *transport = r->transport;
  const ronde__kernels *kernels = r->bench->kernels;
  switch (c->kind) {
  case KIND_ALLREDUCE: return c->allreduce->run(transport, kernels, RONDE__TAG_STRATEGY, r->x, n, r->other);
  case KIND_ALLREDUCE_BF16:
    return ronde__allreduce_bf16(transport, kernels, RONDE__TAG_STRATEGY, r->x, n, r->other, r->other + n);
  case KIND_REDUCE_SCATTER:
    return ronde__reduce_scatter_ring(transport, kernels, RONDE__TAG_STRATEGY, r->x, n, r->other);
  case KIND_PAIRWISE: return ronde__reduce_scatter_pairwise(transport, kernels, RONDE__TAG_STRATEGY, r->x, n, r->other);
  case KIND_ALLGATHER: return ronde__allgather_chunks_ring(transport, RONDE__TAG_STRATEGY, r->x, n);
  case KIND_BROADCAST: return ronde__broadcast_tree(transport, RONDE__TAG_STRATEGY, 0, r->x, n * sizeof *r->x);
  case KIND_COPY: ronde__copy_past_cache(r->other, r->x, n * sizeof *r->x);
  }
  return RONDE_OK;
}

static size_t other_elems(const measured *c, const ronde__transport *transport, size_t n) {
  switch (c->kind) {
  case KIND_ALLREDUCE: return c->allreduce->scratch(transport, n);
  case KIND_ALLREDUCE_BF16: return n + ronde__allreduce_bf16_scratch(n, transport->size);
  case KIND_REDUCE_SCATTER: return ronde__ring_scratch(n, transport->size);
  case KIND_PAIRWISE: return 2 * RONDE__PAIRWISE_ELEMS;
  case KIND_COPY: return n;
  default: return 0;
  }
}

/* Bytes over a link for each byte of the vector: busbw is this times algbw. */
static double bus_factor(kind kind, int p) {
  switch (kind) {
  case KIND_ALLREDUCE: return 2.0 * (p - 1) / p;
  case KIND_ALLREDUCE_BF16:
  case KIND_REDUCE_SCATTER:
  case KIND_PAIRWISE:
  case KIND_ALLGATHER: return (double)(p - 1) / p;
  default: return 1;
  }
}

/* ---- verifying ---- */

/* Whole numbers whose sum over p ranks is exact whatever the order, in bfloat16 too: results must be equal, not near. */
static float input_at(int p, int rank, size_t i) {
  int64_t span = ronde__max(1, 128 / p);
  uint64_t mixed = ((uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xbf58476d1ce4e5b9u) >> 33;
  return (float)((int64_t)(mixed % (uint64_t)(2 * span + 1)) - span);
}

static float sum_of_inputs(int p, size_t i) {
  float sum = 0;
  for (int r = 0; r < p; r++) sum += input_at(p, r, i);
  return sum;
}

/* Element i of the vector after the call, where this rank must have it. */
static bool is_right(const measured *c, const rank *r, size_t n, size_t i, int owner) {
  int p = r->transport->size, self = r->transport->rank;
  switch (c->kind) {
  case KIND_ALLREDUCE:
  case KIND_ALLREDUCE_BF16: return r->x[i] == sum_of_inputs(p, i);
  case KIND_REDUCE_SCATTER:
  case KIND_PAIRWISE: return owner != self || r->x[i] == sum_of_inputs(p, i);
  case KIND_ALLGATHER: return r->x[i] == input_at(p, owner, i);
  case KIND_BROADCAST: return r->x[i] == input_at(p, 0, i);
  case KIND_COPY: return r->other[i] == input_at(p, self, i);
  }
  return false;
}

static ronde_status verify_call(const measured *c, rank *r, size_t n, int32_t *wrong_out) {
  int p = r->transport->size, self = r->transport->rank;
  for (size_t i = 0; i < n; i++) r->x[i] = input_at(p, self, i);
  if (c->kind == KIND_ALLREDUCE_BF16) memset(r->other, 0, n * sizeof *r->other); /* the residual */
  RONDE_TRY(call_collective(c, r, n));
  *wrong_out = 0;
  for (int owner = 0; owner < p; owner++)
    for (int64_t i = ronde__shard_begin((int64_t)n, owner, p); i < ronde__shard_begin((int64_t)n, owner + 1, p); i++)
      *wrong_out |= !is_right(c, r, n, (size_t)i, owner);
  /* So that sums do not grow from call to call. */
  memset(r->x, 0, n * sizeof *r->x);
  return RONDE_OK;
}

/* ---- timing ---- */

/* Until all have come; then everybody knows what each one says. */
static ronde_status meet_ranks(rank *r, const word *own, word *words) {
  words[r->transport->rank] = *own;
  return ronde__allgather(r->transport, RONDE__TAG_READY, words, sizeof *words);
}

static ronde_status time_calls(const measured *c, rank *r, size_t n, int64_t iterations, word *words,
                               double *seconds_out) {
  word own = {0};
  const ronde_hooks *hooks = &r->bench->hooks;
  own.cancel = r->transport->rank == 0 && hooks->cancel && hooks->cancel(hooks->user);
  RONDE_TRY(meet_ranks(r, &own, words));
  if (words[0].cancel) return RONDE_E_CANCELLED;
  uint64_t begin = ronde__time_now(r->transport->time);
  for (int64_t i = 0; i < iterations; i++) RONDE_TRY(call_collective(c, r, n));
  own.seconds = (double)(ronde__time_now(r->transport->time) - begin) * 1e-9;
  RONDE_TRY(meet_ranks(r, &own, words));
  *seconds_out = 0;
  for (int i = 0; i < r->transport->size; i++)
    if (words[i].seconds > *seconds_out) *seconds_out = words[i].seconds;
  return RONDE_OK;
}

/* Verifies and warms up; every rank comes to the same number of calls for a round. */
static ronde_status prepare_calls(const measured *c, rank *r, size_t n, word *words, int64_t *iterations_out) {
  const ronde__options *o = r->bench->options;
  word own = {0};
  RONDE_TRY(verify_call(c, r, n, &own.wrong));
  RONDE_TRY(meet_ranks(r, &own, words));
  for (int i = 0; i < r->transport->size; i++)
    if (words[i].wrong)
      return r->transport->rank != 0 ? RONDE_E_DIFFERENCE
                                     : ronde__fail(RONDE_E_DIFFERENCE, "%s of %zu bytes: rank %d has a wrong result",
                                                   c->name, n * sizeof *r->x, i);
  double seconds;
  RONDE_TRY(time_calls(c, r, n, o->warm_ups, words, &seconds));
  double wanted = o->iterations ? (double)o->iterations : ROUND_NS * 1e-9 / (seconds / (double)o->warm_ups + 1e-9);
  *iterations_out = wanted < 1 ? 1 : wanted > MAX_ITERATIONS ? MAX_ITERATIONS : (int64_t)wanted;
  return RONDE_OK;
}

/* ---- the record ---- */

static json_t *kind_json(kind kind) {
  static const char *const kinds[] = {"all-reduce", "all-reduce", "reduce-scatter", "reduce-scatter", "all-gather",
                                      "broadcast",  "copy"};
  return json_string(kinds[kind]);
}

/* seconds [rounds]: of one call. Bandwidths are those of the median. */
static ronde_status record_case(bench *b, const measured *c, size_t n, int64_t iterations, const double *seconds,
                                int *case_out) {
  ronde_measurement *m = b->record;
  char size[24];
  const char *const values[] = {c->name, size};
  double bytes = (double)(n * sizeof(float)), factor = bus_factor(c->kind, b->size);
  snprintf(size, sizeof size, "%zu", n * sizeof(float));
  RONDE_TRY(ronde_measurement_add_case(m, c->name, "ronde", values, case_out));
  int one = *case_out;
  RONDE_TRY(ronde__measurement_put(m, one, "collective", kind_json(c->kind)));
  RONDE_TRY(ronde__measurement_put(m, one, "bytes", json_integer((json_int_t)(n * sizeof(float)))));
  RONDE_TRY(ronde__measurement_put(m, one, "iterations", json_integer(iterations)));
  RONDE_TRY(ronde__measurement_put(m, one, "verified", json_true()));
  RONDE_TRY(ronde__measurement_put(m, one, "bus_factor", json_real(factor)));
  RONDE_TRY(ronde_measurement_set_work(m, one, &(ronde_work){"call", NAN, bytes, NAN}));
  for (int r = 0; r < b->options->rounds; r++)
    RONDE_TRY(ronde_measurement_add_samples(m, one, "time_s", r, &seconds[r], 1));
  double algbw = bytes / ronde_measurement_statistics(m, one, "time_s").median;
  RONDE_TRY(ronde__measurement_put(m, one, "algbw_bytes_per_s", json_real(algbw)));
  return ronde__measurement_put(m, one, "busbw_bytes_per_s", json_real(algbw * factor));
}

/* The time in which all ranks copy a vector of that size once, over the time of each all-reduce. cases [n_cases]: of that
 * size. */
static ronde_status record_copying(bench *b, const int *cases) {
  double copy_s = NAN;
  for (int i = 0; i < b->n_cases; i++)
    if (b->cases[i].kind == KIND_COPY) copy_s = ronde_measurement_statistics(b->record, cases[i], "time_s").median;
  for (int i = 0; i < b->n_cases && isfinite(copy_s); i++) {
    double seconds = ronde_measurement_statistics(b->record, cases[i], "time_s").median;
    if (b->cases[i].kind == KIND_ALLREDUCE || b->cases[i].kind == KIND_ALLREDUCE_BF16)
      RONDE_TRY(ronde__measurement_put(b->record, cases[i], "of_copying", json_real(copy_s / seconds)));
  }
  return RONDE_OK;
}

/* iterations [n_cases], seconds [n_cases][rounds] */
static ronde_status record_size(bench *b, size_t n, const int64_t *iterations, const double *seconds) {
  int cases[MAX_CASES];
  for (int i = 0; i < b->n_cases; i++)
    RONDE_TRY(record_case(b, &b->cases[i], n, iterations[i], seconds + i * b->options->rounds, &cases[i]));
  return record_copying(b, cases);
}

static ronde_status add_collective_axes(bench *b) {
  const char *names[MAX_CASES], *sizes[MAX_SIZES];
  char texts[MAX_SIZES][24];
  for (int i = 0; i < b->n_cases; i++) names[i] = b->cases[i].name;
  for (int i = 0; i < b->n_sizes; i++) {
    snprintf(texts[i], sizeof texts[i], "%" PRId64, b->sizes[i]);
    sizes[i] = texts[i];
  }
  RONDE_TRY(ronde_measurement_add_axis(b->record, "algorithm", names, b->n_cases));
  return ronde_measurement_add_axis(b->record, "bytes", sizes, b->n_sizes);
}

static ronde_status begin_record(bench *b) {
  ronde_measurement *m;
  RONDE_TRY(ronde_measurement_create("bench collectives", &b->record));
  m = b->record;
  RONDE_TRY(add_collective_axes(b));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "machine", ronde__machine_json(b->kernels->isa)));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "workers", json_integer(b->size)));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "hosts", json_integer(b->n_hosts)));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "transport", json_string(b->transport)));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "rounds", json_integer(b->options->rounds)));
  RONDE_TRY(ronde__measurement_put(m, RONDE_WHOLE, "clock",
                                   json_string("monotonic wall clock, calls back to back, the slowest rank's time")));
  RONDE_TRY(ronde_measurement_leave_unranked(m, "cases of another size or another collective do different work"));
  ronde_measurement_begin(m);
  return RONDE_OK;
}

/* Of processes the others of this host would count as strangers. */
static ronde_status end_record(bench *b, char **json_out) {
  const char *out = b->options->out;
  if (!b->process_each) ronde_measurement_end(b->record);
  if (out && *out) RONDE_TRY(ronde_measurement_write(b->record, out));
  return ronde_measurement_json(b->record, json_out);
}

/* ---- rounds ---- */

static ronde_status measure_size(rank *r, size_t n, word *words, double *seconds) {
  bench *b = r->bench;
  int64_t iterations[MAX_CASES], rounds = b->options->rounds;
  for (int i = 0; i < b->n_cases; i++) RONDE_TRY(prepare_calls(&b->cases[i], r, n, words, &iterations[i]));
  for (int64_t round = 0; round < rounds; round++)
    for (int i = 0; i < b->n_cases; i++) {
      int at = (int)((round + i) % b->n_cases);
      double *sample = &seconds[at * rounds + round];
      RONDE_TRY(time_calls(&b->cases[at], r, n, iterations[at], words, sample));
      *sample /= (double)iterations[at];
    }
  return r->transport->rank == 0 ? record_size(b, n, iterations, seconds) : RONDE_OK;
}

static ronde_status measure_sizes(rank *r) {
  bench *b = r->bench;
  word *words;
  double *seconds;
  size_t most = (size_t)b->sizes[b->n_sizes - 1] / sizeof(float), other = 1;
  RONDE__ALLOC(words, (size_t)b->size * sizeof *words, "bench");
  seconds = ronde__alloc((size_t)(b->n_cases * b->options->rounds) * sizeof *seconds);
  for (int i = 0; i < b->n_cases; i++)
    other = (size_t)ronde__max((int64_t)other, (int64_t)other_elems(&b->cases[i], r->transport, most));
  r->x = ronde__pages_map(most * sizeof *r->x);
  r->other = ronde__pages_map(other * sizeof *r->other);
  bool complete = seconds && r->x && r->other;
  ronde_status status =
      complete ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "bench: no memory for %zu bytes", most * sizeof *r->x);
  for (int i = 0; i < b->n_sizes && status == RONDE_OK; i++)
    status = measure_size(r, (size_t)b->sizes[i] / sizeof(float), words, seconds);
  if (r->x) ronde__pages_unmap(r->x, most * sizeof *r->x);
  if (r->other) ronde__pages_unmap(r->other, other * sizeof *r->other);
  ronde__free(seconds);
  ronde__free(words);
  return status;
}

/* ---- set-up ---- */

static ronde_status parse_bytes(const char *flag, const char *text, int64_t *bytes_out) {
  char *end;
  long long value = strtoll(text, &end, 10);
  int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  bool right = text[0] >= '0' && text[0] <= '9' && !end[shift > 0] && value > 0 && value <= (INT64_C(4) << 30 >> shift);
  if (!right || (value << shift) % (int64_t)sizeof(float))
    return ronde__fail(RONDE_E_USAGE,
                       "--%s %s: expected a number of bytes such as 4096, 64K or 4M, a multiple of 4 up to 4G", flag,
                       text);
  *bytes_out = (int64_t)value << shift;
  return RONDE_OK;
}

static ronde_status list_sizes(bench *b) {
  int64_t least, most;
  RONDE_TRY(parse_bytes("min", b->options->min, &least));
  RONDE_TRY(parse_bytes("max", b->options->max, &most));
  if (least > most)
    return ronde__fail(RONDE_E_USAGE, "--min %s is larger than --max %s", b->options->min, b->options->max);
  for (int64_t size = least; size <= most && b->n_sizes < MAX_SIZES; size *= b->options->factor)
    b->sizes[b->n_sizes++] = size;
  return RONDE_OK;
}

static bool is_listed_collective(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (strcspn(at, ",") == length && !memcmp(at, name, length)) return true;
  return false;
}

static void list_case(bench *b, measured c) {
  const char *list = b->options->collectives;
  if ((!list || is_listed_collective(list, c.name)) && b->n_cases < MAX_CASES) b->cases[b->n_cases++] = c;
}

static ronde_status list_cases(bench *b, const ronde__transport *transport) {
  const char *list = b->options->collectives;
  int wanted = list ? 1 : 0;
  for (const char *at = list; at && *at; at++) wanted += *at == ',';
  const ronde__allreduce *one;
  for (int i = 0; (one = ronde__allreduce_at(i)); i++) {
    const char *why = one->refuses ? one->refuses(transport) : NULL;
    if (why && list && is_listed_collective(list, one->name))
      return ronde__fail(RONDE_E_USAGE, "--collectives %s: %s", one->name, why);
    if (!why) list_case(b, (measured){one->name, KIND_ALLREDUCE, one});
  }
  for (size_t i = 0; i < RONDE__COUNT(others); i++) list_case(b, others[i]);
  if (list && b->n_cases != wanted)
    return ronde__fail(RONDE_E_USAGE,
                       "--collectives %s: %d of these are unknown or named twice (there are ring, halving-doubling, "
                       "tree, hierarchical, mpi, ring-bf16, reduce-scatter, pairwise, all-gather, broadcast, copy)",
                       RONDE__SHOWN(list), wanted - b->n_cases);
  return RONDE_OK;
}

static ronde_status check_collectives(bench *b, const ronde_config *config, const ronde__transport *transport) {
  b->size = transport->size;
  b->transport = transport->ops->name;
  b->process_each = transport->process_each;
  for (int r = 0; r < b->size; r++)
    b->n_hosts = (int)ronde__max(b->n_hosts, transport->host_of ? transport->host_of[r] + 1 : 1);
  if (b->size == 1)
    return ronde__fail(RONDE_E_USAGE, "one worker has no other to exchange data with: give --workers 2 or more");
  if (b->process_each && ronde_config_is_given(config, "workers") && b->options->workers != b->size)
    return ronde__fail(RONDE_E_USAGE, "--workers %" PRId64 ", but MPI has started %d processes", b->options->workers,
                       b->size);
  RONDE_TRY(list_sizes(b));
  return list_cases(b, transport);
}

static void bench_rank(void *arg) {
  rank *r = arg;
  ronde__log_set_rank(r->transport->rank);
  r->status = measure_sizes(r);
  if (r->status != RONDE_OK && r->status != RONDE_E_CANCELLED) r->transport->ops->abort(r->transport);
  ronde__log_set_rank(-1);
}

/* The first on the calling thread, the others beside it. */
static ronde_status run_ranks(rank *ranks, int n) {
  ronde__task tasks[MAX_THREADS];
  int n_started = 1;
  ronde_status status = RONDE_OK;
  for (; n_started < n; n_started++) {
    tasks[n_started] = (ronde__task){.name = "", .run = bench_rank, .arg = &ranks[n_started]};
    if (ronde__task_start(ranks[n_started].transport->time, &tasks[n_started])) break;
  }
  if (n_started == n) {
    bench_rank(&ranks[0]);
  } else {
    status = ronde__fail(RONDE_E_MEMORY, "cannot start a thread for rank %d", n_started);
    ranks[0].transport->ops->abort(ranks[0].transport);
  }
  for (int i = 1; i < n_started; i++) ronde__task_join(ranks[i].transport->time, &tasks[i]);
  for (int i = 0; i < n && (status == RONDE_OK || status == RONDE_E_LOST); i++)
    if (ranks[i].status != RONDE_OK) status = ranks[i].status;
  return status;
}

static ronde_status run_here(bench *b, const ronde_config *config, ronde__transport **transports, int n) {
  rank *ranks;
  RONDE_TRY(check_collectives(b, config, transports[0]));
  if (transports[0]->rank == 0) RONDE_TRY(begin_record(b));
  RONDE__ALLOC(ranks, (size_t)n * sizeof *ranks, "bench");
  for (int i = 0; i < n; i++) ranks[i] = (rank){.bench = b, .transport = transports[i]};
  ronde_status status = run_ranks(ranks, n);
  ronde__free(ranks);
  return status;
}

static ronde_status make_transports(const bench *b, const ronde_config *config, ronde__transport **transports,
                                    int *n_out) {
  const ronde__options *o = b->options;
  bool joins_mpi;
  *n_out = 1;
  RONDE_TRY(ronde__joins_mpi(config, &joins_mpi));
  ronde__mpi_options options = ronde__mpi_options_of(config);
  if (joins_mpi) return ronde__transport_mpi(&options, transports);
  if (o->transport == RONDE__TRANSPORT_SELF) return ronde__transport_self(transports);
  if (o->workers > MAX_THREADS)
    return ronde__fail(RONDE_E_USAGE, "--workers %" PRId64 ": at most %d workers can be threads of one process",
                       o->workers, MAX_THREADS);
  *n_out = (int)o->workers;
  return ronde__transport_threads(*n_out, transports);
}

ronde_status ronde_bench_collectives(const ronde_config *config, const ronde_hooks *hooks, char **json_out) {
  bench b = {.options = ronde__config_options(config)};
  ronde__transport *transports[MAX_THREADS];
  int n;
  if (hooks) b.hooks = *hooks;
  ronde_status status = ronde__kernels_get(&b.kernels);
  if (status == RONDE_OK) status = make_transports(&b, config, transports, &n);
  if (status == RONDE_OK) {
    status = run_here(&b, config, transports, n);
    if (status != RONDE_OK && status != RONDE_E_CANCELLED) transports[0]->ops->abort(transports[0]);
    bool reports = status == RONDE_OK && transports[0]->rank == 0;
    if (reports) status = end_record(&b, json_out);
    for (int i = 0; i < n; i++) ronde__transport_destroy(transports[i]);
  }
  ronde_measurement_destroy(b.record);
  return status;
}

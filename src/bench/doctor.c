/* ronde_doctor: what a training between these hosts would meet. Every rank tells of its host; the links are measured
 * pair by pair, one pair at a time; rank 0 says what to change. */
#include "comm/collective.h"
#include "comm/mpi.h"
#include "comm/probe.h"
#include "data/columns.h"
#include "job/job.h"
#include "setup/setup.h"
#include <ronde/measure.h>
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

/* Of the best link's bandwidth; of clocks, in seconds. */
#define SLOW_LINK 0.5
#define FAR_CLOCK_S 1.0

typedef struct facts {
  char host[64], build[96], kernels[32], data[65];
  int32_t cores, threads, ranks_on_host, data_status; /* threads: of a rank; data_status: of opening --data */
  int64_t memory_bytes, data_examples;
  double load;           /* of the last minute, in cores */
  int64_t wall_ahead_ns; /* of the time of day, in front of the transport's clock */
} facts;

typedef struct doctor {
  const ronde_config *config;
  const ronde__options *options;
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  ronde__transport *transport;
  facts *facts;       /* [size] */
  ronde__link *links; /* [size][size]: where the row leads, row < column */
  json_t *advice;
  int n_errors;
} doctor;

/* ---- what every rank tells --------------------------------------------------------------------------------------- */

static int64_t wall_ahead_ns(ronde__transport *transport) {
  struct timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  return (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (int64_t)ronde__time_now(transport->time);
}

/* The line that says what is wrong with the data is this rank's; the others go on. */
static void look_at_data(const doctor *d, facts *f) {
  ronde__columns_options columns = {.target = d->options->target, .ignored = d->options->ignore_columns};
  ronde__data_options options = {.spec = d->options->data,
                                 .window = d->options->window,
                                 .frames = d->options->frames,
                                 .cache = true,
                                 .seed = 1,
                                 .layout = (ronde__image_layout)d->options->layout,
                                 .columns = &columns};
  ronde__data *data;
  f->data_status = (int32_t)ronde__data_open(&options, &data);
  if (f->data_status != RONDE_OK) return;
  memcpy(f->data, data->sha256, sizeof f->data);
  f->data_examples = data->source.n_examples[RONDE_SPLIT_TRAIN];
  ronde__data_close(data);
}

static void look_at_host(const doctor *d, facts *f) {
  struct sysinfo info;
  *f = (facts){.cores = ronde__cores(), .ranks_on_host = ronde__transport_local(d->transport)};
  gethostname(f->host, sizeof f->host - 1);
  snprintf(f->build, sizeof f->build, "%s", ronde__build());
  snprintf(f->kernels, sizeof f->kernels, "%s (%s)", d->kernels->isa, ronde__gemm_name(d->gemm));
  f->threads = d->options->threads ? (int32_t)d->options->threads : (int32_t)ronde__max(1, f->cores / f->ranks_on_host);
  if (sysinfo(&info) == 0) f->memory_bytes = (int64_t)info.totalram * info.mem_unit;
  f->load = ronde__load();
  f->wall_ahead_ns = wall_ahead_ns(d->transport);
  if (d->options->data) look_at_data(d, f);
}

/* One pair at a time, so that none shares its link with another; the message of all to all keeps them in step. */
static ronde_status measure_links(doctor *d) {
  ronde__transport *t = d->transport;
  int size = t->size;
  for (int a = 0; a < size; a++)
    for (int b = a + 1; b < size; b++) {
      ronde__link link;
      bool leads = t->rank == a;
      if (leads || t->rank == b) RONDE_TRY(ronde__probe_link(t, leads ? b : a, leads, &link));
      if (leads) d->links[a * size + b] = link;
      RONDE_TRY(ronde__allgather(t, RONDE__TAG_LINKS, d->links, (size_t)size * sizeof *d->links));
    }
  return RONDE_OK;
}

/* ---- what to change ---------------------------------------------------------------------------------------------- */

static void add_advice(doctor *d, bool is_error, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void add_advice(doctor *d, bool is_error, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  d->n_errors += is_error;
  json_array_append_new(
      d->advice, json_pack("{s:s, s:o}", "level", is_error ? "error" : "warning", "text", ronde__json_text(text)));
}

/* What several ranks of a host have in common is said once. */
static bool is_new_host(const doctor *d, int rank) {
  for (int i = 0; i < rank; i++)
    if (!strcmp(d->facts[i].host, d->facts[rank].host)) return false;
  return true;
}

static void judge_cores(doctor *d, const facts *f) {
  int threads = f->threads * f->ranks_on_host;
  if (f->ranks_on_host > f->cores)
    add_advice(d, false, "host %s has %d cores for %d workers", f->host, f->cores, f->ranks_on_host);
  else if (threads > f->cores)
    add_advice(d, false, "host %s has %d cores for %d threads of %d worker%s: give --threads %d", f->host, f->cores,
               threads, f->ranks_on_host, f->ranks_on_host > 1 ? "s" : "", f->cores / f->ranks_on_host);
  if (ronde__host_is_busy(f->load, f->cores, true))
    add_advice(d, false, "host %s is busy: a load of %.1f on %d cores", f->host, f->load, f->cores);
}

static void judge_rank(doctor *d, int rank) {
  const facts *f = &d->facts[rank], *first = &d->facts[0];
  if (is_new_host(d, rank)) judge_cores(d, f);
  if (strcmp(f->build, first->build))
    add_advice(d, true, "host %s has ronde %s, host %s ronde %s: install the same build", f->host, f->build,
               first->host, first->build);
  if (strcmp(f->kernels, first->kernels))
    add_advice(
        d, true,
        "host %s computes with %s, host %s with %s: set RONDE_ISA on all hosts to one that each of them supports",
        f->host, f->kernels, first->host, first->kernels);
  if (f->data_status != RONDE_OK)
    add_advice(d, true, "host %s cannot read --data %s: its line above says why", f->host, d->options->data);
  else if (first->data_status == RONDE_OK && (strcmp(f->data, first->data) || f->data_examples != first->data_examples))
    add_advice(d, true,
               "host %s has training data (%" PRId64
               " examples, hash %.12s) that differ from those of host %s (%" PRId64 ", %.12s)",
               f->host, f->data_examples, f->data, first->host, first->data_examples, first->data);
}

static double clock_ahead_s(const doctor *d, int rank) {
  double wall_s = 1e-9 * (double)(d->facts[rank].wall_ahead_ns - d->facts[0].wall_ahead_ns);
  return rank ? d->links[rank].clock_ahead_s + wall_s : 0;
}

static double slower_way(const ronde__link *link) {
  return link->to_bytes_per_s < link->from_bytes_per_s ? link->to_bytes_per_s : link->from_bytes_per_s;
}

/* Links between hosts, against the best of them: inside a host they are another kind. */
static void judge_links(doctor *d) {
  int size = d->transport->size;
  double best = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < size * size; i++) {
      const char *a = d->facts[i / size].host, *b = d->facts[i % size].host;
      double rate = slower_way(&d->links[i]);
      if (i / size >= i % size || !strcmp(a, b)) continue;
      if (pass == 0 && rate > best) best = rate;
      if (pass == 1 && rate < SLOW_LINK * best)
        add_advice(d, false, "the link between hosts %s and %s reaches %.3g MB/s, the fastest link %.3g MB/s", a, b,
                   1e-6 * rate, 1e-6 * best);
    }
  for (int r = 1; r < size; r++)
    if (fabs(clock_ahead_s(d, r)) > FAR_CLOCK_S)
      add_advice(d, false, "the clock of host %s is %.1f s %s that of host %s", d->facts[r].host,
                 fabs(clock_ahead_s(d, r)), clock_ahead_s(d, r) > 0 ? "ahead of" : "behind", d->facts[0].host);
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

static json_t *rank_json(const doctor *d, int rank) {
  const facts *f = &d->facts[rank];
  json_t *data = json_null();
  if (d->options->data && f->data_status == RONDE_OK)
    data = json_pack("{s:I, s:o}", "train_examples", (json_int_t)f->data_examples, "sha256", ronde__json_text(f->data));
  return json_pack("{s:i, s:o, s:s, s:s, s:i, s:i, s:i, s:I, s:f, s:f, s:o}", "rank", rank, "host",
                   ronde__json_text(f->host), "build", f->build, "kernels", f->kernels, "cores", f->cores, "threads",
                   f->threads, "ranks_on_host", f->ranks_on_host, "memory_bytes", (json_int_t)f->memory_bytes, "load",
                   f->load, "clock_ahead_s", clock_ahead_s(d, rank), "data", data);
}

static ronde_status give_result(doctor *d, char **json_out) {
  json_t *ranks = json_array(), *links = json_array();
  int size = d->transport->size;
  for (int r = 0; r < size; r++) judge_rank(d, r);
  judge_links(d);
  for (int r = 0; r < size; r++) json_array_append_new(ranks, rank_json(d, r));
  for (int a = 0; a < size; a++)
    for (int b = a + 1; b < size; b++) {
      const ronde__link *l = &d->links[a * size + b];
      json_array_append_new(links, json_pack("{s:i, s:i, s:f, s:f, s:f, s:f}", "from", a, "to", b, "latency_s",
                                             l->latency_s, "to_bytes_per_s", l->to_bytes_per_s, "from_bytes_per_s",
                                             l->from_bytes_per_s, "clock_error_s", l->clock_error_s));
    }
  json_t *json = json_pack("{s:s, s:o, s:o, s:O}", "schema", "ronde.doctor.v1", "ranks", ranks, "links", links,
                           "advice", d->advice);
  *json_out = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
  json_decref(json);
  if (!*json_out) return ronde__fail(RONDE_E_MEMORY, "doctor: no memory for the result");
  return d->n_errors ? RONDE_E_DIFFERENCE : RONDE_OK;
}

static ronde_status examine_hosts(doctor *d, char **json_out) {
  ronde__transport *t = d->transport;
  RONDE__ALLOC(d->facts, (size_t)t->size * sizeof *d->facts, "doctor");
  RONDE__ALLOC(d->links, (size_t)t->size * (size_t)t->size * sizeof *d->links, "doctor");
  if (t->size > 1) ronde__log_set_rank(t->rank);
  look_at_host(d, &d->facts[t->rank]);
  ronde__log_set_rank(-1);
  RONDE_TRY(ronde__allgather(t, RONDE__TAG_FACTS, d->facts, sizeof *d->facts));
  RONDE_TRY(measure_links(d));
  return t->rank == 0 ? give_result(d, json_out) : RONDE_OK;
}

static ronde_status join_ranks(const doctor *d, ronde__transport **transport_out) {
  bool joins_mpi;
  RONDE_TRY(ronde__joins_mpi(d->config, &joins_mpi));
  ronde__mpi_options options = ronde__mpi_options_of(d->config);
  if (joins_mpi) return ronde__transport_mpi(&options, transport_out);
  RONDE_TRY(ronde__config_settle(d->config, RONDE__NEED_SEVERAL_HOSTS, false));
  return ronde__transport_self(transport_out);
}

ronde_status ronde_doctor(const ronde_config *config, char **json_out) {
  const char *spec = ronde__config_options(config)->data;
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_ARRAYS, ronde__data_is_of_arrays(spec)));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_COLUMNS, ronde__data_is_of_columns(spec)));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_TEXT, ronde__data_has_window(spec)));
  RONDE_TRY(ronde__config_settle(config, RONDE__NEED_RECORDINGS, ronde__data_is_of_recordings(spec)));
  doctor d = {.config = config, .options = ronde__config_options(config), .advice = json_array()};
  *json_out = NULL;
  RONDE_TRY(ronde__kernels_get(&d.kernels));
  RONDE_TRY(ronde__gemm_default(d.kernels, &d.gemm));
  ronde_status status = join_ranks(&d, &d.transport);
  if (status == RONDE_OK) {
    status = examine_hosts(&d, json_out);
    if (status != RONDE_OK && status != RONDE_E_DIFFERENCE) d.transport->ops->abort(d.transport);
    ronde__transport_destroy(d.transport);
  }
  ronde__free(d.facts);
  ronde__free(d.links);
  json_decref(d.advice);
  return status;
}

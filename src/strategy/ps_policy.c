/* What the strategies with parameter servers share of their policy: where the servers are, what memory they take, and what
 * run.json tells of them. */
#include "strategy/ps_worker.h"

#include <math.h>

static bool are_dedicated(const ronde__options *o) { return o->placement == RONDE__PLACEMENT_DEDICATED; }

int ronde__ps_extra_ranks(const ronde__strategy_settings *settings) {
  const ronde__options *o = settings->options;
  return o && are_dedicated(o) ? (int)o->servers : 0;
}

ronde_status ronde__ps_place(const ronde__strategy_settings *settings, const ronde__role *role, ronde__roles *roles) {
  int first = are_dedicated(settings->options) ? roles->n_workers : 0;
  for (int i = 0; i < settings->options->servers; i++) RONDE_TRY(ronde__roles_add(roles, role, first + i));
  return RONDE_OK;
}

ronde_status ronde__ps_check(const ronde__strategy_settings *settings, int n_workers) {
  const ronde__options *o = settings->options;
  if (are_dedicated(o) || o->servers <= n_workers) return RONDE_OK;
  return ronde__fail(RONDE_E_USAGE,
                     "--servers %d: only %d of them can share the ranks of %d workers; --placement dedicated gives "
                     "servers ranks of their own",
                     (int)o->servers, n_workers, n_workers);
}

/* Servers keep parameters, state, and a place for everybody's gradients, once. */
size_t ronde__ps_more_bytes(const ronde__strategy_settings *settings, size_t gradients, size_t optimizer) {
  return optimizer + (1 + (size_t)settings->roles->n_workers) * gradients;
}

void ronde__ps_facts(const void *worker, const ronde__service *services, void *facts_out) {
  if (services[0].state) *(ronde__staleness *)facts_out = *ronde__server_staleness(services[0].state);
}

/* The least staleness that this part of the pushes does not exceed. */
static int64_t quantile(const ronde__staleness *all, double part) {
  int64_t n = 0;
  int b = 0;
  while (b < RONDE__STALENESS_BINS - 1 && (double)(n += all->histogram[b]) < part * (double)all->n) b++;
  return b;
}

const char *const ronde__ps_sync_records[] = {"table_rows_exchanged", NULL};

void ronde__ps_sync_record(const void *worker, const void *facts, int n_ranks, json_t *communication) {
  const ronde__ps_worker *s = worker;
  if (s->rows && !isnan(ronde__ps_rows_part(s->rows)))
    json_object_set_new(communication, "table_rows_exchanged", json_real(ronde__ps_rows_part(s->rows)));
}

const char *const ronde__ps_records[] = {"staleness", "table_rows_exchanged", NULL};

void ronde__ps_record(const void *worker, const void *facts, int n_ranks, json_t *communication) {
  const ronde__staleness *of_rank = facts;
  ronde__ps_sync_record(worker, facts, n_ranks, communication);
  ronde__staleness all = {0};
  int n_bins = RONDE__STALENESS_BINS;
  for (int i = 0; i < n_ranks; i++) {
    all.n += of_rank[i].n;
    all.sum += of_rank[i].sum;
    all.max = ronde__max(all.max, of_rank[i].max);
    for (int b = 0; b < n_bins; b++) all.histogram[b] += of_rank[i].histogram[b];
  }
  if (all.n == 0) return;
  while (n_bins > 1 && all.histogram[n_bins - 1] == 0) n_bins--;
  json_t *histogram = json_array();
  for (int b = 0; b < n_bins; b++) json_array_append_new(histogram, json_integer(all.histogram[b]));
  json_object_set_new(communication, "staleness",
                      json_pack("{s:f, s:I, s:I, s:I, s:I, s:o}", "mean", (double)all.sum / (double)all.n, "p50",
                                (json_int_t)quantile(&all, 0.5), "p90", (json_int_t)quantile(&all, 0.9), "p99",
                                (json_int_t)quantile(&all, 0.99), "max", (json_int_t)all.max, "histogram", histogram));
}

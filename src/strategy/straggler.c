/* Counts who was last to be ready in each step, with a bounded sample of the waits for their medians. */
#include "strategy/straggler.h"

#include "base/rng.h"
#include "strategy/strategy.h"

enum { MAX_SAMPLES = 1024 };

struct ronde__straggler {
  int n_ranks;
  const int *ranks; /* [n]: whose results come; NULL: all ranks' */
  int n;
  ronde__straggler_row *rows; /* [ranks], but for the medians */
  float *waited_s;            /* [ranks][MAX_SAMPLES] */
  double *others;             /* [ranks] */
  ronde__rng rng;
};

static const char *const names[] = {
#define RONDE_X(name, text) text,
    RONDE__STRAGGLER_LIST(RONDE_X)
#undef RONDE_X
};

const char *ronde__straggler_name(ronde__straggler_cause cause) { return names[cause]; }

ronde__straggler_cause ronde__straggler_row_cause(const ronde__straggler_row *row) {
  int largest = 0;
  for (int c = 1; c < RONDE__N_STRAGGLER_CAUSES; c++)
    if (row->above_s[c] > row->above_s[largest]) largest = c;
  return (ronde__straggler_cause)largest;
}

static ronde_status straggler_make_room(ronde__straggler *s) {
  size_t n = (size_t)s->n_ranks;
  RONDE__ALLOC(s->rows, n * sizeof *s->rows, "stragglers");
  RONDE__ALLOC(s->waited_s, n * MAX_SAMPLES * sizeof *s->waited_s, "stragglers");
  RONDE__ALLOC(s->others, ronde__max(n, MAX_SAMPLES) * sizeof *s->others, "stragglers");
  return RONDE_OK;
}

ronde_status ronde__straggler_create(int n_ranks, ronde__straggler **straggler_out) {
  ronde__straggler *s;
  RONDE__ALLOC(s, sizeof *s, "stragglers");
  *s = (ronde__straggler){.n_ranks = n_ranks, .n = n_ranks, .rng = ronde__rng_make(0, RONDE__STREAM_SAMPLES)};
  ronde_status status = straggler_make_room(s);
  if (status == RONDE_OK) *straggler_out = s;
  else ronde__straggler_destroy(s);
  return status;
}

void ronde__straggler_destroy(ronde__straggler *s) {
  if (!s) return;
  ronde__free(s->rows);
  ronde__free(s->waited_s);
  ronde__free(s->others);
  ronde__free(s);
}

void ronde__straggler_be_among(ronde__straggler *s, const int *ranks, int n) {
  s->ranks = ranks;
  s->n = n;
}

/* Each step has the same chance to be among the samples. Source: Vitter, "Random sampling with a reservoir", ACM TOMS
 * 1985 (algorithm R). */
static void keep_sample(ronde__straggler *s, int rank, double waited_s) {
  int64_t seen = s->rows[rank].steps; /* with this one */
  int64_t at = seen <= MAX_SAMPLES ? seen - 1 : (int64_t)ronde__rng_below(&s->rng, (uint64_t)seen);
  if (at < MAX_SAMPLES) s->waited_s[(int64_t)rank * MAX_SAMPLES + at] = (float)waited_s;
}

static double total_s(const ronde__local_result *found) {
  double s = 0;
  for (int c = 0; c < RONDE__N_STRAGGLER_CAUSES; c++) s += 1e-9 * (double)found->spent_ns[c];
  return s;
}

void ronde__straggler_note(ronde__straggler *s, const ronde__local_result *results) {
  int last = 0, n = s->n;
  for (int i = 1; i < n; i++)
    if (total_s(&results[i]) > total_s(&results[last])) last = i;
  int rank = s->ranks ? s->ranks[last] : last;
  ronde__straggler_row *row = &s->rows[rank];
  double waited_s = 0;
  for (int i = 0; i < n; i++) waited_s += (total_s(&results[last]) - total_s(&results[i])) / (n - 1);
  row->steps++;
  row->waited_s += waited_s;
  keep_sample(s, rank, waited_s);
  for (int c = 0; c < RONDE__N_STRAGGLER_CAUSES; c++) {
    int n_others = 0;
    for (int i = 0; i < n; i++)
      if (i != last) s->others[n_others++] = 1e-9 * (double)results[i].spent_ns[c];
    row->above_s[c] += 1e-9 * (double)results[last].spent_ns[c] - ronde__median(s->others, n_others);
  }
}

ronde__straggler_row ronde__straggler_row_of(const ronde__straggler *s, int rank) {
  ronde__straggler_row row = s->rows[rank];
  int64_t n = ronde__min(row.steps, MAX_SAMPLES);
  for (int64_t i = 0; i < n; i++) s->others[i] = (double)s->waited_s[(int64_t)rank * MAX_SAMPLES + i];
  row.waited_median_s = n ? ronde__median(s->others, n) : 0;
  return row;
}

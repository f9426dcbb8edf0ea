/* Counts who was last to be ready in each step, with a bounded sample of the waits for their medians. */
#include "strategy/late.h"

#include "base/rng.h"
#include "strategy/strategy.h"

enum { MAX_SAMPLES = 1024 };

struct ronde__late {
  int n_ranks;
  ronde__late_row *rows; /* [ranks], but for the medians */
  float *waited_s;       /* [ranks][MAX_SAMPLES] */
  double *others;        /* [ranks] */
  ronde__rng rng;
};

static const char *const names[] = {
#define RONDE_X(name, text) text,
    RONDE__LATE_LIST(RONDE_X)
#undef RONDE_X
};

const char *ronde__late_name(ronde__late_cause cause) { return names[cause]; }

ronde__late_cause ronde__late_row_cause(const ronde__late_row *row) {
  int largest = 0;
  for (int c = 1; c < RONDE__N_LATE_CAUSES; c++)
    if (row->above_s[c] > row->above_s[largest]) largest = c;
  return (ronde__late_cause)largest;
}

static ronde_status make_room(ronde__late *late) {
  size_t n = (size_t)late->n_ranks;
  RONDE__ALLOC(late->rows, n * sizeof *late->rows, "late ranks");
  RONDE__ALLOC(late->waited_s, n * MAX_SAMPLES * sizeof *late->waited_s, "late ranks");
  RONDE__ALLOC(late->others, ronde__max(n, MAX_SAMPLES) * sizeof *late->others, "late ranks");
  return RONDE_OK;
}

ronde_status ronde__late_create(int n_ranks, ronde__late **late_out) {
  ronde__late *late;
  RONDE__ALLOC(late, sizeof *late, "late ranks");
  *late = (ronde__late){.n_ranks = n_ranks, .rng = ronde__rng_make(0, RONDE__STREAM_SAMPLES)};
  ronde_status status = make_room(late);
  if (status == RONDE_OK) *late_out = late;
  else ronde__late_destroy(late);
  return status;
}

void ronde__late_destroy(ronde__late *late) {
  if (!late) return;
  ronde__free(late->rows);
  ronde__free(late->waited_s);
  ronde__free(late->others);
  ronde__free(late);
}

/* Each step has the same chance to be among the samples. Source: Vitter, "Random sampling with a reservoir", ACM TOMS
 * 1985 (algorithm R). */
static void keep_sample(ronde__late *late, int rank, double waited_s) {
  int64_t seen = late->rows[rank].steps; /* with this one */
  int64_t at = seen <= MAX_SAMPLES ? seen - 1 : (int64_t)ronde__rng_below(&late->rng, (uint64_t)seen);
  if (at < MAX_SAMPLES) late->waited_s[(int64_t)rank * MAX_SAMPLES + at] = (float)waited_s;
}

static double total_s(const ronde__part *part) {
  double s = 0;
  for (int c = 0; c < RONDE__N_LATE_CAUSES; c++) s += 1e-9 * (double)part->spent_ns[c];
  return s;
}

void ronde__late_note(ronde__late *late, const ronde__part *parts) {
  int last = 0, n = late->n_ranks;
  for (int i = 1; i < n; i++)
    if (total_s(&parts[i]) > total_s(&parts[last])) last = i;
  ronde__late_row *row = &late->rows[last];
  double waited_s = 0;
  for (int i = 0; i < n; i++) waited_s += (total_s(&parts[last]) - total_s(&parts[i])) / (n - 1);
  row->steps++;
  row->waited_s += waited_s;
  keep_sample(late, last, waited_s);
  for (int c = 0; c < RONDE__N_LATE_CAUSES; c++) {
    int n_others = 0;
    for (int i = 0; i < n; i++)
      if (i != last) late->others[n_others++] = 1e-9 * (double)parts[i].spent_ns[c];
    row->above_s[c] += 1e-9 * (double)parts[last].spent_ns[c] - ronde__median(late->others, n_others);
  }
}

ronde__late_row ronde__late_row_of(const ronde__late *late, int rank) {
  ronde__late_row row = late->rows[rank];
  int64_t n = ronde__min(row.steps, MAX_SAMPLES);
  for (int64_t i = 0; i < n; i++) late->others[i] = (double)late->waited_s[(int64_t)rank * MAX_SAMPLES + i];
  row.waited_median_s = n ? ronde__median(late->others, n) : 0;
  return row;
}

/* What to take, and what limits it, drawn from cases that were measured: by `ronde advise`, which measures them for that, and
 * by the report of a suite, of the grid that it measured. */
#ifndef TOOL_ADVICE_H
#define TOOL_ADVICE_H

#include "common.h"

/* Cases whose rates differ by no more are as good as each other: the simpler one is taken. */
#define ADVICE_ALIKE 0.95

/* A row: {stage, strategy, workers, threads (of each), batch, examples_per_s {median, low, high}, step_s, load_s, compute_s,
 * exchange_s, wait_s (medians of a step), equals_one}. Owned by the caller. stage: which question it answers. */
json_t *tool_advice_row(const char *stage, const json_t *bench_case);
/* Of a candidate of `--strategy measured` in run.json, by the row of which it has workers, threads and batch. NULL: it was
 * left out. */
json_t *tool_advice_candidate(const char *stage, const json_t *like, const json_t *candidate);
/* The fastest row that equals one worker, or the simplest of those that are as fast: the fewest threads in all, then the fewest
 * workers, then the smallest batch, then the first. NULL: there is none. Borrowed. */
const json_t *tool_advice_pick(const json_t *rows);
/* {what: "compute", "memory", "exchange", "waiting" or "loading", shares {...}, text}: where the step of a row goes. kernels: what `bench
 * kernels` measured of it, or NULL; then compute is not told from memory. Owned by the caller. */
json_t *tool_advice_limit(const json_t *row, const json_t *kernels);
/* "2 workers with 1 thread each by allreduce, batch 128". */
const char *tool_advice_name(const json_t *row, char buffer[160]);
/* "71,988 examples/s [70,101, 73,009]". */
const char *tool_advice_rate(const json_t *row, char buffer[128]);

#endif

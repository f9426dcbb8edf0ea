/* A call of a recurrent layer: where in it things are. Legend: as in recurrent.h. */
#ifndef RONDE_RECURRENT_JOB_H
#define RONDE_RECURRENT_JOB_H

#include "ops/elementwise.h"
#include "ops/recurrent_plan.h"

#include <string.h>

typedef struct ronde__recurrent_job {
  const ronde__op_desc *desc;
  const ronde__recurrent_state *s;
  const ronde__op_call *call;
  ronde__recurrent_scratch w;
} ronde__recurrent_job;

/* ---- where things are ---- */

/* Of operands: so many elements on. */
static inline void *ronde__recurrent_at(const ronde__recurrent_state *s, const void *operands, int64_t elements) {
  return (char *)operands + elements * s->operands->bytes;
}

/* The k-th step in time. */
static inline int64_t ronde__recurrent_step_at(const ronde__recurrent_job *j, int64_t k) {
  return j->desc->attr.reverse ? j->s->t - 1 - k : k;
}

static inline int64_t ronde__recurrent_length(const ronde__recurrent_job *j, int64_t n) {
  return ronde__rows_there(j->desc, j->call, n, j->s->t);
}

/* Behind these no example of [n0, n1) takes part; at least 1. */
static inline int64_t ronde__recurrent_steps(const ronde__recurrent_job *j, int64_t n0, int64_t n1) {
  int64_t most = 1;
  for (int64_t n = n0; n < n1; n++) most = ronde__max(most, ronde__recurrent_length(j, n));
  return most;
}

/* The state of an example in front of its first step; NULL: zeros. */
static inline const float *ronde__recurrent_first(const ronde__recurrent_job *j, int i, int64_t n) {
  return ronde__recurrent_states(&j->desc->attr) ? j->call->in[i] + n * j->s->h : NULL;
}

/* Of a matrix [N T][columns]: panel p of the rows of step t, from example n on. */
static inline float *ronde__recurrent_panel(const ronde__recurrent_job *j, float *x, int64_t columns, int64_t p,
                                            int64_t t, int64_t n) {
  return x + p * RONDE__PANEL * j->s->t * j->s->n + (t * j->s->n + n) * ronde__panel_width(columns, p);
}

/* Of dh, or what lies like it. */
static inline float *ronde__recurrent_dh(const ronde__recurrent_job *j, float *dh, int64_t p, int64_t n) {
  return dh + p * RONDE__PANEL * j->s->n + n * ronde__panel_width(j->s->h, p);
}

static inline float *ronde__recurrent_cell(const ronde__recurrent_job *j, int64_t n, int64_t t) {
  const ronde__recurrent_state *s = j->s;
  return j->call->saved + s->t * s->n * s->row * s->h + (n * s->t + t) * s->h;
}

/* The cells before the k-th step; NULL: zeros. */
static inline const float *ronde__recurrent_cell_before(const ronde__recurrent_job *j, int64_t n, int64_t k) {
  return k > 0 ? ronde__recurrent_cell(j, n, ronde__recurrent_step_at(j, k - 1)) : ronde__recurrent_first(j, 2, n);
}

static inline void ronde__recurrent_multiply(const ronde__gemm *gemm, const void *a, const void *b, float *c) {
  static const uint64_t none = 0;
  ronde__gemm_run(gemm, a, &none, b, &none, 1, c);
}

/* n values of rows become operands, if these are not the rows themselves. */
static inline void ronde__recurrent_copy(const ronde__recurrent_job *j, const float *x, int64_t n, void *to) {
  if (j->s->operands->has_copies) j->s->operands->rows(j->desc, x, n, to);
}

static inline void ronde__copy_or_clear(float *to, const float *from, int64_t n) {
  if (from) memcpy(to, from, (size_t)n * sizeof *to);
  else memset(to, 0, (size_t)n * sizeof *to);
}

/* Vectors [n][H] to [panel][n][width]. */
static inline void ronde__recurrent_pack_vectors(const ronde__recurrent_job *j, const float *vectors, int64_t n,
                                                 float *packed) {
  const int64_t h = j->s->h;
  ronde__panels_pack(j->desc, &(ronde__panel_rows){n, h, 0, n}, vectors, h, false, 0, ronde__panels_of(h), packed);
}

static inline void ronde__recurrent_pack_peepholes(const ronde__recurrent_job *j) {
  if (j->desc->attr.peepholes)
    ronde__recurrent_pack_vectors(j, j->call->param[ronde__peepholes_at(&j->desc->attr)], 3, j->w.peepholes);
}

/* The i-th panel that step t goes through: every other step the other way round, so that it begins with weights that the one before
 * has left in cache. */
static inline int64_t ronde__recurrent_turn(const ronde__recurrent_state *s, int64_t t, int64_t i) {
  return t % 2 ? ronde__panels_of(s->h) - 1 - i : i;
}

/* ---- groups of rows ---- */

/* The first row of one, how many it has, and whether it is the last of its example or step. */
typedef struct ronde__row_group {
  int64_t t, n, rows;
  bool last;
} ronde__row_group;

/* Of an example, or at a step: those in which some of the first `steps` steps are. */
static inline int64_t ronde__recurrent_groups_of_line(const ronde__recurrent_state *s, int64_t steps) {
  return ronde__ceil_div(s->by_example ? steps : s->n, s->group);
}

static inline int64_t ronde__recurrent_groups(const ronde__recurrent_state *s, int64_t steps) {
  return (s->by_example ? s->n : steps) * ronde__recurrent_groups_of_line(s, steps);
}

static inline ronde__row_group ronde__recurrent_group(const ronde__recurrent_state *s, int64_t steps, int64_t i) {
  int64_t per_line = ronde__recurrent_groups_of_line(s, steps), line = i / per_line, first = i % per_line * s->group;
  int64_t rows = ronde__min(s->group, ronde__recurrent_line(s) - first);
  bool last = first + s->group >= ronde__recurrent_line(s);
  return s->by_example ? (ronde__row_group){first, line, rows, last} : (ronde__row_group){line, first, rows, last};
}

/* Of each row of a group so many bytes, to be fetched. */
static inline ronde__ahead ronde__recurrent_ahead(ronde__row_group of, const void *first, int64_t bytes,
                                                  int64_t apart) {
  const int64_t lines = ronde__ahead_lines(bytes);
  return (ronde__ahead){.at = {first}, .n = lines > 0, .bytes = lines, .rows = of.rows, .apart = apart};
}

/* ---- gates of a panel ---- */

/* Gates [begin, end) of panel p, which lie side by side in its rows. */
typedef struct ronde__gates_part {
  int64_t p, begin, end;
} ronde__gates_part;

/* Those from the i-th on, of [panel][gate], and in front of the end-th. */
static inline ronde__gates_part ronde__recurrent_part(const ronde__recurrent_state *s, int64_t i, int64_t end) {
  return (ronde__gates_part){i / s->g, i % s->g, ronde__min(i % s->g + end - i, s->g)};
}

#endif

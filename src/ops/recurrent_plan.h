/* How the matrices of a recurrent layer lie, and its products.
 * A matrix of many columns lies in panels of WIDTH columns, the last one narrower, so that each operand of a product is
 * short and contiguous: rows of gates as [panel of H][T][N][R][width], weights as [gate][panel][F or H][width], and
 * backward the other way round as [panel][gate, H][width]. */
#ifndef RONDE_RECURRENT_PLAN_H
#define RONDE_RECURRENT_PLAN_H

#include "ops/panels.h"
#include "ops/recurrent.h"

enum { RONDE__ROWS_CHUNK = 64 };

static inline bool ronde__panel_is_narrow(int64_t columns, int64_t panel) {
  return columns - panel * RONDE__PANEL < RONDE__PANEL;
}

/* A sum over gates' panels: of the whole ones, and of the last ones where these are narrower. By whether it is the last
 * piece of examples, or the last group of rows. */
typedef struct ronde__gates_sum {
  ronde__gemm_pair whole[2], narrow[2];
  ronde__gemm_list wholes, narrows;
} ronde__gates_sum;

/* A sum over all N T rows: RONDE__ROWS_CHUNK at a time, and what is left. */
typedef struct ronde__rows_sum {
  ronde__gemm_pair chunk, rest;
  ronde__gemm_list chunks;
} ronde__rows_sum;

typedef struct ronde__recurrent_state {
  const ronde__cell *cell;
  int64_t n, t, f, h, g, row, piece, n_pieces;
  /* What is multiplied for all steps at once goes by groups of rows, the last one smaller: of an example at steps one behind the
   * other, or of a step, examples one behind the other, whichever are more. A piece of f_piece of the features has its weights in
   * cache while all rows are gone through. */
  bool by_example;
  int64_t group, f_piece;
  /* By whether it is the last group, the panel is narrow, and it is the last piece of features. */
  ronde__gemm_pair rows_of_x[2][2][2];
  /* By whether it is the last piece of examples, and whether the panel is narrow. */
  ronde__gemm_pair sums_of_h[2][2];
  /* By whether the panel of their columns is narrow. With a reset, dh is without the last gate, of which dreset is. */
  ronde__gates_sum dh[2], dx[2], dreset[2];
  ronde__rows_sum dw_ih[2][2], dw_hh[2][2]; /* by whether the panel of the gate, and that of the columns, is narrow */
} ronde__recurrent_state;

/* How many rows can be in a group's place, the groups of an example or step together. */
static inline int64_t ronde__recurrent_line(const ronde__recurrent_state *s) { return s->by_example ? s->t : s->n; }
static inline bool ronde__recurrent_has_cells(const ronde__recurrent_state *s) { return s->cell->states > 1; }
/* How many first states there are. */
static inline int ronde__recurrent_states(const ronde__op_attr *attr) { return attr->n_inputs - 1 - attr->lengths; }

#endif

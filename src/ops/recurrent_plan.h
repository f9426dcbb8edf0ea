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

/* What products read, which a form may hold in a format of its own. In any format a matrix begins at the same element, counted in
 * elements, as in f32; and so does each RONDE__PANEL rows of a panel of weights' columns. */
typedef struct ronde__recurrent_operands {
  int64_t bytes;              /* of an element */
  int64_t most_rows, feature; /* of a product: rows at most; pieces of features are multiples of the second */
  int64_t chunks;             /* of rows, that the gradients of weights go through at once, at most */
  ronde__operand_form form;   /* of rows */
  /* Rows are copied, and a sum over them is padded with zeros; else the last three are NULL, and rows are multiplied where they lie. */
  bool has_copies;
  /* A panel [k][width] of weights [width][k], ld apart. */
  void (*turn)(const ronde__op_desc *desc, const float *w, int64_t ld, int64_t width, int64_t k, void *to);
  /* A panel [rows][width] of rows ld apart; rows: at most RONDE__PANEL. */
  void (*columns)(const ronde__op_desc *desc, const float *w, int64_t ld, int64_t rows, int64_t width, void *to);
  /* n values of rows. */
  void (*rows)(const ronde__op_desc *desc, const float *x, int64_t n, void *to);
  /* Of the gradients of weights, which are sums over rows, these padded to so many: a panel of gates' rows, ld apart, turned; and
   * a panel of what they are multiplied with. */
  void (*left)(const ronde__op_desc *desc, const float *d, int64_t ld, int64_t rows, int64_t width, int64_t padded,
               void *to);
  void (*right)(const ronde__op_desc *desc, const float *x, int64_t rows, int64_t width, int64_t padded, void *to);
} ronde__recurrent_operands;

extern const ronde__recurrent_operands ronde__recurrent_f32, ronde__recurrent_bf16; /* recurrent_operands.c */

/* A sum over gates' panels: of the whole ones, and of the last ones where these are narrower. By whether it is the last
 * piece of examples, or the last group of rows. */
typedef struct ronde__gates_sum {
  ronde__gemm_pair whole[2], narrow[2];
  ronde__gemm_list wholes, narrows;
} ronde__gates_sum;

/* A sum over all N T rows: RONDE__ROWS_CHUNK at a time, and, where rows are not padded, what is left. */
typedef struct ronde__rows_sum {
  ronde__gemm_pair chunk, rest;
  ronde__gemm_list chunks;
} ronde__rows_sum;

typedef struct ronde__recurrent_state {
  const ronde__cell *cell;
  const ronde__recurrent_operands *operands;
  int64_t n, t, f, h, g, row, piece, n_pieces;
  /* What is multiplied for all steps at once goes by groups of rows, the last one smaller: of an example at steps one behind the
   * other, or of a step, examples one behind the other, whichever are more. A piece of f_piece of the features has its weights in
   * cache while all rows are gone through. */
  bool by_example;
  int64_t group, f_piece;
  /* What a thread makes together: gates of a panel, so that rows of theirs and of x are read once for all; and panels of the gradient of
   * x, so that rows of gates are. */
  int64_t gates_at_once, panels_at_once;
  /* By whether it is the last group, the panel is narrow, and it is the last piece of features. */
  ronde__gemm_pair rows_of_x[2][2][2];
  /* By whether it is the last piece of examples, and whether the panel is narrow. */
  ronde__gemm_pair sums_of_h[2][2];
  /* By whether the panel of their columns is narrow. With a reset, dh is without the last gate, of which dreset is. */
  ronde__gates_sum dh[2], dx[2], dreset[2];
  ronde__rows_sum dw_ih[2][2], dw_hh[2][2]; /* by whether the panel of the gate, and that of the columns, is narrow */
} ronde__recurrent_state;

/* The memory of a call. What a cell has not is NULL. Where rows are not copied, they are their own copies; x_rows is NULL. */
typedef struct ronde__recurrent_scratch {
  void *w_hh; /* in panels */
  /* Of the threads, of which those that have nothing to do need no place: panels of weights, or pieces of them; gradients of
   * a panel of all gates that are told at once; a panel of all gates' rows, turned. */
  void *w_ih;
  float *pieces;
  void *left;
  float *bias, *bias_panels; /* [R][H]; [panel][R][width] */
  float *peepholes;          /* [panel][3][width] */
  float *now, *sums;         /* h of each example, and its sums, [panel][N][G][width] */
  float *reset;              /* forward: of each example, [N][H]; backward: of all steps, in panels */
  void *x_rows, *now_rows, *reset_rows, *drow_rows;
  float *drows, *before, *x, *dh, *dcell; /* dh: [panel][N][width] */
  float *dreset;                          /* like dh */
  void *x_right, *before_right, *reset_right;
} ronde__recurrent_scratch;

/* How it lies in `base`, which may be NULL; returns how many floats it takes. */
int64_t ronde__recurrent_lay(const ronde__op_desc *desc, const ronde__recurrent_state *s, bool backward, float *base,
                             ronde__recurrent_scratch *scratch);

/* How many rows can be in a group's place, the groups of an example or step together. */
static inline int64_t ronde__recurrent_line(const ronde__recurrent_state *s) { return s->by_example ? s->t : s->n; }
/* Elements of a panel of all gates' weights. */
static inline int64_t ronde__recurrent_packed(const ronde__recurrent_state *s) { return s->g * s->h * RONDE__PANEL; }
static inline bool ronde__recurrent_has_cells(const ronde__recurrent_state *s) { return s->cell->states > 1; }
/* How many first states there are. */
static inline int ronde__recurrent_states(const ronde__op_attr *attr) { return attr->n_inputs - 1 - attr->lengths; }
/* All rows, as a sum over them takes them. */
static inline int64_t ronde__recurrent_padded(const ronde__recurrent_state *s) {
  return s->operands->has_copies ? ronde__round_up(s->n * s->t, RONDE__ROWS_CHUNK) : s->n * s->t;
}

/* Of rows of gates, or their gradients: where those of panel p at step t begin from example n on, in elements. */
static inline int64_t ronde__recurrent_row(const ronde__recurrent_state *s, int64_t p, int64_t t, int64_t n) {
  return s->row * (p * RONDE__PANEL * s->t * s->n + (t * s->n + n) * ronde__panel_width(s->h, p));
}

#endif

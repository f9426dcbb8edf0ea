/* Products with matrices of many columns. Such a matrix B [k][columns] lies in panels of RONDE__PANEL columns, the last one
 * narrower, each [k][width] and one behind the other, so that the operand of a product is short and contiguous. */
#ifndef RONDE_PANELS_H
#define RONDE_PANELS_H

#include "ops/gemm_list.h"

enum { RONDE__PANEL = 64 };

static inline int64_t ronde__panels_of(int64_t columns) { return ronde__ceil_div(columns, RONDE__PANEL); }
static inline int64_t ronde__panel_width(int64_t columns, int64_t panel) {
  return ronde__min(RONDE__PANEL, columns - panel * RONDE__PANEL);
}

/* C [m][columns] (+)= A B. Rows of A [m][k] are lda apart (turned: A is [k][m]), those of C ldc. ldb: 0, or B is no panels but
 * rows so far apart. */
typedef struct ronde__product_shape {
  int64_t m, k, columns, lda, ldb, ldc;
  bool turned;
} ronde__product_shape;

/* Long sums are taken in chunks, and what is left. By whether the panel is narrow. */
typedef struct ronde__product {
  ronde__product_shape shape;
  ronde__gemm_pair chunk[2], rest[2];
  ronde__gemm_list chunks[2];
} ronde__product;

ronde_status ronde__product_create(const ronde__op_desc *desc, const ronde__product_shape *shape,
                                   ronde__product *product_out);
/* Zeros are taken. */
void ronde__product_destroy(ronde__product *product);
/* Of panels begin to end - 1. */
void ronde__product_run_some(const ronde__product *product, int64_t begin, int64_t end, const float *a, const float *b,
                             float *c, bool adds);
void ronde__product_run(const ronde__product *product, const float *a, const float *b, float *c, bool adds);

/* A matrix of k rows in panels, or some of its rows. */
typedef struct ronde__panel_rows {
  int64_t k, columns, first, rows;
} ronde__panel_rows;

/* Copies rows [rows][columns], ld apart, to where they belong in panels begin to end - 1; turned: from [columns][rows]. */
void ronde__panels_pack(const ronde__op_desc *desc, const ronde__panel_rows *of, const float *from, int64_t ld,
                        bool turned, int64_t begin, int64_t end, float *to);
/* Sets columns [first_column, first_column + n) of one row; from NULL: to zeros. */
void ronde__panels_set(float *to, int64_t k, int64_t columns, int64_t row, int64_t first_column, const float *from,
                       int64_t n);

#endif

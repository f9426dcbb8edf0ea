/* Products with matrices in panels: kernels by the width of the panel, sums in chunks of CHUNK terms where they are long. */
#include "ops/panels.h"

#include <string.h>

enum { CHUNK = 256 };

static int64_t row_of_b(const ronde__product_shape *shape, int64_t width) { return shape->ldb ? shape->ldb : width; }

/* Panels of so many columns. */
static ronde_status resolve_width(const ronde__op_desc *desc, int64_t width, bool narrow, ronde__product *product) {
  const ronde__product_shape *s = &product->shape;
  ronde__gemm_list *chunks = &product->chunks[narrow];
  int64_t n_chunks = s->k > 2 * CHUNK ? s->k / CHUNK : 0, rest = s->k - n_chunks * CHUNK, ldb = row_of_b(s, width);
  ronde__gemm_shape shape = {
      .m = (int)s->m, .n = (int)width, .k = CHUNK, .lda = s->lda, .ldb = ldb, .ldc = s->ldc, .trans_a = s->turned};
  RONDE_TRY(ronde__gemm_list_create(n_chunks, chunks));
  for (int64_t i = 0; i < n_chunks; i++) {
    chunks->a[i] = (uint64_t)(i * CHUNK * (s->turned ? s->lda : 1)) * sizeof(float);
    chunks->b[i] = (uint64_t)(i * CHUNK * ldb) * sizeof(float);
  }
  if (n_chunks) product->chunk[narrow] = ronde__gemm_pair_resolve(desc, shape);
  shape.k = (int)rest;
  if (rest) product->rest[narrow] = ronde__gemm_pair_resolve(desc, shape);
  return RONDE_OK;
}

ronde_status ronde__product_create(const ronde__op_desc *desc, const ronde__product_shape *shape,
                                   ronde__product *product_out) {
  *product_out = (ronde__product){.shape = *shape};
  if (shape->columns >= RONDE__PANEL) RONDE_TRY(resolve_width(desc, RONDE__PANEL, false, product_out));
  if (shape->columns % RONDE__PANEL) RONDE_TRY(resolve_width(desc, shape->columns % RONDE__PANEL, true, product_out));
  return RONDE_OK;
}

void ronde__product_destroy(ronde__product *product) {
  for (int narrow = 0; narrow < 2; narrow++) ronde__gemm_list_destroy(&product->chunks[narrow]);
}

static void run_panel(const ronde__product *product, int64_t panel, const float *a, const float *b, float *c,
                      bool adds) {
  static const uint64_t none = 0;
  const ronde__product_shape *s = &product->shape;
  int64_t width = ronde__panel_width(s->columns, panel);
  bool narrow = width < RONDE__PANEL;
  const ronde__gemm_list *chunks = &product->chunks[narrow];
  int64_t done = chunks->count * CHUNK;
  b += panel * RONDE__PANEL * (s->ldb ? 1 : s->k);
  c += panel * RONDE__PANEL;
  if (chunks->count) ronde__gemm_sum(&product->chunk[narrow], chunks, chunks->count, a, b, c, adds);
  if (done == s->k) return;
  const ronde__gemm_pair *rest = &product->rest[narrow];
  ronde__gemm_run(adds || done ? &rest->add : &rest->set, a + done * (s->turned ? s->lda : 1), &none,
                  b + done * row_of_b(s, width), &none, 1, c);
}

void ronde__product_run_some(const ronde__product *product, int64_t begin, int64_t end, const float *a, const float *b,
                             float *c, bool adds) {
  for (int64_t panel = begin; panel < end; panel++) run_panel(product, panel, a, b, c, adds);
}

void ronde__product_run(const ronde__product *product, const float *a, const float *b, float *c, bool adds) {
  ronde__product_run_some(product, 0, ronde__panels_of(product->shape.columns), a, b, c, adds);
}

void ronde__panels_pack(const ronde__op_desc *desc, const ronde__panel_rows *of, const float *from, int64_t ld,
                        bool turned, int64_t begin, int64_t end, float *to) {
  for (int64_t panel = begin; panel < end; panel++) {
    int64_t width = ronde__panel_width(of->columns, panel), column = panel * RONDE__PANEL;
    float *rows = to + column * of->k + of->first * width;
    if (turned) desc->compute.kernels->transpose(from + column * ld, ld, width, of->rows, rows, width);
    for (int64_t r = 0; r < of->rows && !turned; r++)
      memcpy(rows + r * width, from + r * ld + column, (size_t)width * sizeof *rows);
  }
}

void ronde__panels_set(float *to, int64_t k, int64_t columns, int64_t row, int64_t first_column, const float *from,
                       int64_t n) {
  for (int64_t done = 0; done < n;) {
    int64_t column = first_column + done, panel = column / RONDE__PANEL, inside = column % RONDE__PANEL;
    int64_t width = ronde__panel_width(columns, panel), some = ronde__min(n - done, width - inside);
    float *at = to + panel * RONDE__PANEL * k + row * width + inside;
    if (from) memcpy(at, from + done, (size_t)some * sizeof *at);
    else memset(at, 0, (size_t)some * sizeof *at);
    done += some;
  }
}

/* The vectors of L-BFGS as arrays of f32 in memory. A piece is worked on by one thread, and sums of pieces are joined in
 * their order. */
#include "optim/lbfgs.h"

#include <math.h>
#include <string.h>

typedef struct call {
  const ronde__flat_vectors *flat;
  void (*run)(const struct call *call, size_t first, size_t n);
  float *y;
  const float *x;
  float factor;
} call;

size_t ronde__flat_pieces(const ronde__flat_vectors *flat) { return (flat->n + flat->piece - 1) / flat->piece; }

static void run_pieces(void *arg, int thread, int n_threads) {
  const call *c = arg;
  size_t n = c->flat->n, piece = c->flat->piece;
  int64_t n_pieces = (int64_t)ronde__flat_pieces(c->flat);
  size_t begin = (size_t)ronde__shard_begin(n_pieces, thread, n_threads) * piece;
  size_t end = (size_t)ronde__shard_begin(n_pieces, thread + 1, n_threads) * piece;
  if (end > n) end = n;
  for (size_t at = begin; at < end; at += piece) c->run(c, at, end - at < piece ? end - at : piece);
}

static void run(call c) {
  if (c.flat->n <= c.flat->piece) run_pieces(&c, 0, 1);
  else ronde__pool_run(c.flat->pool, run_pieces, &c);
}

static void copy_piece(const call *c, size_t first, size_t n) { memcpy(c->y + first, c->x + first, n * sizeof *c->y); }

static void scale_piece(const call *c, size_t first, size_t n) {
  c->flat->kernels->scale(c->y + first, c->factor, (int64_t)n);
}

/* As plain SGD descends, by the negative factor. */
static void add_piece(const call *c, size_t first, size_t n) {
  c->flat->kernels->sgd(&(ronde__sgd_args){.lr = -c->factor}, c->y + first, c->x + first, NULL, (int64_t)n);
}

static void dot_piece(const call *c, size_t first, size_t n) {
  c->flat->part[first / c->flat->piece].sum_abs = c->flat->kernels->dot(c->y + first, c->x + first, (int64_t)n);
}

static void norms_piece(const call *c, size_t first, size_t n) {
  ronde__vector_norms norms = {0};
  for (size_t i = first; i < first + n; i++) {
    double size = fabs((double)c->x[i]);
    norms.sum_abs += size;
    if (!(size <= norms.max_abs)) norms.max_abs = size;
  }
  c->flat->part[first / c->flat->piece] = norms;
}

static ronde_status flat_copy(void *user, int to, int from) {
  const ronde__flat_vectors *flat = user;
  run((call){flat, copy_piece, flat->at[to], flat->at[from], 0});
  return RONDE_OK;
}

static ronde_status flat_scale(void *user, int x, double factor) {
  const ronde__flat_vectors *flat = user;
  run((call){flat, scale_piece, flat->at[x], NULL, (float)factor});
  return RONDE_OK;
}

static ronde_status flat_add(void *user, int y, double factor, int x) {
  const ronde__flat_vectors *flat = user;
  run((call){flat, add_piece, flat->at[y], flat->at[x], (float)factor});
  return RONDE_OK;
}

static ronde_status flat_dot(void *user, int x, int y, double *dot_out) {
  const ronde__flat_vectors *flat = user;
  double sum = 0;
  run((call){flat, dot_piece, flat->at[x], flat->at[y], 0});
  for (size_t i = 0; i < ronde__flat_pieces(flat); i++) sum += flat->part[i].sum_abs;
  *dot_out = sum;
  return RONDE_OK;
}

static ronde_status flat_norms(void *user, int x, ronde__vector_norms *norms_out) {
  const ronde__flat_vectors *flat = user;
  ronde__vector_norms norms = {0};
  run((call){flat, norms_piece, NULL, flat->at[x], 0});
  for (size_t i = 0; i < ronde__flat_pieces(flat); i++) {
    norms.sum_abs += flat->part[i].sum_abs;
    norms.max_abs = fmax(norms.max_abs, flat->part[i].max_abs);
  }
  *norms_out = norms;
  return RONDE_OK;
}

ronde__vectors ronde__flat_vectors_table(ronde__flat_vectors *flat) {
  return (ronde__vectors){flat_copy, flat_scale, flat_add, flat_dot, flat_norms, flat};
}

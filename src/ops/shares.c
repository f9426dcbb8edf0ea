/* What the steps around a split layer share: the parts of a value, and turns. */
#include "ops/shares.h"

#include <string.h>

ronde__phys ronde__share_of_features(const ronde__peers *peers, const ronde__phys *all, int rank) {
  int64_t blocks = ronde__phys_blocks(all), begin = ronde__share_begin(peers, blocks, rank) * all->block;
  int64_t end = ronde__min(ronde__share_begin(peers, blocks, rank + 1) * all->block, all->c);
  ronde__phys share = *all;
  share.c = end > begin ? end - begin : 0;
  return share;
}

/* ---- turns ---- */

int ronde__n_turns(const ronde__peers *peers) { return peers->scheme == RONDE__TURNS_A ? 1 : peers->size; }

/* Of a rank's examples, those that earlier turns have had. */
static int64_t had_before(const ronde__turn *turn, int rank, int number) {
  int64_t n = ronde__share_of(turn->peers, turn->n_all, rank);
  switch (turn->peers->scheme) {
  case RONDE__TURNS_A: return number > 0 ? n : 0;
  case RONDE__TURNS_B: return number > rank ? n : 0;
  default: return ronde__share_begin(turn->peers, n, number);
  }
}

int64_t ronde__turn_first(const ronde__turn *turn, int rank) { return had_before(turn, rank, turn->number); }

int64_t ronde__turn_share(const ronde__turn *turn, int rank) {
  return had_before(turn, rank, turn->number + 1) - had_before(turn, rank, turn->number);
}

int64_t ronde__turn_row(const ronde__turn *turn, int rank) {
  int64_t rows = 0;
  for (int r = 0; r < rank; r++) rows += ronde__turn_share(turn, r);
  return rows;
}

int64_t ronde__turn_example(const ronde__turn *turn, int64_t row) {
  int rank = 0;
  for (int64_t n; row >= (n = ronde__turn_share(turn, rank)); rank++) row -= n;
  return ronde__share_begin(turn->peers, turn->n_all, rank) + ronde__turn_first(turn, rank) + row;
}

/* ---- rows ---- */

ronde__rows ronde__rows_of(const ronde__phys *x) {
  int64_t pixels = x->h * x->w;
  switch (x->layout) {
  case RONDE__BLOCKS: return (ronde__rows){ronde__phys_blocks(x) * pixels, x->block};
  case RONDE__LANES: return (ronde__rows){x->c * pixels, 1};
  default: return (ronde__rows){1, x->c * pixels};
  }
}

void ronde__rows_copy(const ronde__op_desc *desc, ronde__rows rows, const ronde__row_copy *c, bool accumulate) {
  int64_t n = c->n * rows.inner;
  for (int64_t i = 0; i < rows.outer && n > 0; i++) {
    const float *from = c->from + (i * c->n_from + c->from_row) * rows.inner;
    float *to = c->to + (i * c->n_to + c->to_row) * rows.inner;
    if (accumulate) desc->compute.kernels->add(to, from, to, n);
    else memcpy(to, from, (size_t)n * sizeof *to);
  }
}

/* What the ops around a split layer share: the parts of a value, and parcels between ranks. */
#include "ops/shares.h"

#include "ops/gemm_list.h"

#include <string.h>

ronde__phys ronde__share_of_features(const ronde__peers *peers, const ronde__phys *all, int rank) {
  int64_t blocks = ronde__phys_blocks(all), begin = ronde__share_begin(peers, blocks, rank) * all->block;
  int64_t end = ronde__min(ronde__share_begin(peers, blocks, rank + 1) * all->block, all->c);
  ronde__phys share = *all;
  share.c = end > begin ? end - begin : 0;
  return share;
}

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

ronde_status ronde__parcels_prepare(const ronde__op_desc *desc, void **state_out) {
  size_t n = (size_t)desc->peers->size;
  ronde__parcels *p;
  RONDE__ALLOC(p, sizeof *p + 2 * n * sizeof *p->to, "split layer");
  p->to = (ronde__parcel *)(p + 1);
  p->from = p->to + n;
  *state_out = p;
  return RONDE_OK;
}

void ronde__parcels_release(const ronde__op_desc *desc, void *state) { ronde__free(state); }

ronde_status ronde__parcels_exchange(const ronde__op_desc *desc, const ronde__parcels *parcels, bool backward) {
  return desc->peers->exchange(desc->peers->user, backward, parcels->to, parcels->from);
}

void ronde__parcels_add(const ronde__op_desc *desc, const ronde__parcels *parcels, float *y, size_t n) {
  for (int r = 0; r < desc->peers->size && n > 0; r++)
    if (r != desc->peers->rank) desc->compute.kernels->add(y, parcels->from[r].at, y, (int64_t)n);
}

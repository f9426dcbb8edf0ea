/* Loops over several arrays in one order. */
#include "ops/walk.h"

static void set_rows(ronde__walk *w, int array, const ronde__phys *whole, const ronde__shape *shape,
                     unsigned repeated) {
  int64_t step = 1;
  w->rank = shape->rank + 1;
  for (int d = shape->rank - 1; d >= 0; d--) {
    bool once = repeated >> d & 1;
    w->size[d + 1] = shape->dim[d];
    w->step[array][d + 1] = once ? 0 : step;
    if (!once) step *= shape->dim[d];
  }
  w->size[0] = whole->n;
  w->step[array][0] = step;
}

/* [C,H,W,N] */
static void set_lanes(ronde__walk *w, int array, const ronde__phys *whole, const ronde__phys *own) {
  const int64_t size[] = {whole->c, whole->h, whole->w, whole->n}, has[] = {own->c, own->h, own->w, own->n};
  int64_t step = 1;
  w->rank = 4;
  for (int d = 3; d >= 0; d--) {
    w->size[d] = size[d];
    w->step[array][d] = has[d] < size[d] ? 0 : step;
    step *= has[d];
  }
}

/* [C / block,H,W,N,block] */
static void set_blocks(ronde__walk *w, int array, const ronde__phys *whole, const ronde__phys *own, bool last_block) {
  int64_t full = whole->c / whole->block, rest = whole->c % whole->block, plane = own->h * own->w * own->n * own->block;
  const int64_t size[] = {last_block ? rest > 0 : full, whole->h, whole->w, whole->n, last_block ? rest : whole->block};
  const int64_t step[] = {plane, own->w * own->n * own->block, own->n * own->block, own->block, 1};
  const bool once[] = {own->c < whole->c, own->h < whole->h, own->w < whole->w, false, own->c < whole->c};
  w->rank = 5;
  for (int d = 0; d < 5; d++) {
    w->size[d] = size[d];
    w->step[array][d] = once[d] ? 0 : step[d];
  }
}

void ronde__walk_operand(ronde__walk *walk, int array, const ronde__phys *whole, const ronde__shape *shape,
                         const ronde__phys *own, unsigned repeated, bool last_block) {
  switch (whole->layout) {
  case RONDE__LANES: set_lanes(walk, array, whole, own); break;
  case RONDE__BLOCKS: set_blocks(walk, array, whole, own, last_block); break;
  default: set_rows(walk, array, whole, shape, repeated);
  }
}

static bool joins(const ronde__walk *w, int outer, int inner) {
  for (int a = 0; a < RONDE__WALK_ARRAYS; a++)
    if (w->step[a][outer] != w->step[a][inner] * w->size[inner]) return false;
  return true;
}

static void set_dim(ronde__walk *w, int to, int from) {
  w->size[to] = w->size[from];
  for (int a = 0; a < RONDE__WALK_ARRAYS; a++) w->step[a][to] = w->step[a][from];
}

void ronde__walk_merge(ronde__walk *w) {
  int kept = 0;
  for (int d = 0; d < w->rank; d++) {
    if (w->size[d] == 1) continue;
    if (kept > 0 && joins(w, kept - 1, d)) {
      int64_t size = w->size[kept - 1] * w->size[d];
      set_dim(w, kept - 1, d);
      w->size[kept - 1] = size;
    } else {
      set_dim(w, kept++, d);
    }
  }
  w->rank = kept ? kept : 1;
  if (!kept) w->size[0] = 1;
}

int64_t ronde__walk_count(const ronde__walk *w, int first, int end) {
  int64_t n = 1;
  for (int d = first; d < end; d++) n *= w->size[d];
  return n;
}

int64_t ronde__walk_at(const ronde__walk *w, int array, int first, int end, int64_t i) {
  int64_t at = 0;
  for (int d = end - 1; d >= first; i /= w->size[d--]) at += i % w->size[d] * w->step[array][d];
  return at;
}

int ronde__walk_sort(ronde__walk *w, int array) {
  ronde__walk from = *w;
  int n = 0, n_stepped;
  for (int d = 0; d < from.rank; d++)
    if (from.step[array][d]) {
      w->size[n] = from.size[d];
      for (int a = 0; a < RONDE__WALK_ARRAYS; a++) w->step[a][n] = from.step[a][d];
      n++;
    }
  n_stepped = n;
  for (int d = 0; d < from.rank; d++)
    if (!from.step[array][d]) {
      w->size[n] = from.size[d];
      for (int a = 0; a < RONDE__WALK_ARRAYS; a++) w->step[a][n] = from.step[a][d];
      n++;
    }
  return n_stepped;
}

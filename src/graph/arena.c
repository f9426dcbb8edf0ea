/* Memory by liveness: the largest block first, each at the lowest place where it meets no block that lives at the same
 * time. Source: Pisarchyk & Lee, "Efficient memory management for deep neural net inference", 2020 (greedy by size). */
#include "graph/plan.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

static int larger_first(const void *a, const void *b) {
  const ronde__arena_block *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return (x->offset_out > y->offset_out) - (x->offset_out < y->offset_out);
}

static int lower_first(const void *a, const void *b) {
  const ronde__arena_block *const *x = a, *const *y = b;
  return (*(*x)->offset_out > *(*y)->offset_out) - (*(*x)->offset_out < *(*y)->offset_out);
}

ronde_status ronde__arena_place(ronde__arena_block *blocks, int n_blocks, size_t *bytes_out) {
  const ronde__arena_block **rivals;
  RONDE__ALLOC(rivals, (size_t)n_blocks * sizeof *rivals, "memory plan");
  for (int i = 0; i < n_blocks; i++) blocks[i].bytes = (blocks[i].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  qsort(blocks, (size_t)n_blocks, sizeof *blocks, larger_first);
  size_t total = 0;
  for (int i = 0; i < n_blocks; i++) {
    int n_rivals = 0;
    for (int j = 0; j < i; j++)
      if (blocks[j].first <= blocks[i].last && blocks[i].first <= blocks[j].last) rivals[n_rivals++] = &blocks[j];
    qsort(rivals, (size_t)n_rivals, sizeof *rivals, lower_first);
    size_t place = 0;
    for (int j = 0; j < n_rivals; j++) {
      if (place + blocks[i].bytes <= *rivals[j]->offset_out) break;
      size_t end = *rivals[j]->offset_out + rivals[j]->bytes;
      if (end > place) place = end;
    }
    *blocks[i].offset_out = place;
    if (place + blocks[i].bytes > total) total = place + blocks[i].bytes;
  }
  ronde__free(rivals);
  *bytes_out = total;
  return RONDE_OK;
}

/* Shapes: number of elements, comparison, text. */
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>

int64_t ronde__shape_elems(const ronde__shape *shape) {
  int64_t n = 1;
  for (int d = 0; d < shape->rank; d++) n *= shape->dim[d];
  return n;
}

bool ronde__shape_equal(const ronde__shape *a, const ronde__shape *b) {
  if (a->rank != b->rank) return false;
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d] != b->dim[d]) return false;
  return true;
}

void ronde__shape_text(const ronde__shape *shape, char *text, size_t size) {
  size_t used = 0;
  if (shape->rank == 0) snprintf(text, size, "scalar");
  for (int d = 0; d < shape->rank && used < size; d++)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, d ? "x" : "", shape->dim[d]);
}

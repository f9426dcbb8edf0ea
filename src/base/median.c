/* The median of numbers, without sorting all of them. */
#include "base/base.h"

/* The k-th smallest; x [n] is reordered. Source: Hoare, "Algorithm 65: find", 1961. */
static double smallest(double *x, int64_t n, int64_t k) {
  int64_t begin = 0, end = n - 1;
  while (begin < end) {
    double pivot = x[k];
    int64_t i = begin, j = end;
    do {
      while (x[i] < pivot) i++;
      while (pivot < x[j]) j--;
      if (i > j) break;
      double swapped = x[i];
      x[i++] = x[j];
      x[j--] = swapped;
    } while (i <= j);
    if (j < k) begin = i;
    if (k < i) end = j;
  }
  return x[k];
}

double ronde__median(double *x, int64_t n) {
  double upper = smallest(x, n, n / 2);
  return n % 2 ? upper : 0.5 * (upper + smallest(x, n, n / 2 - 1));
}

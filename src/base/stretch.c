#include "base/base.h"

int ronde__stretch_behind(const ronde__stretch *stretches, int n, size_t first) {
  int low = 0, high = n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (stretches[middle].begin + stretches[middle].n > first) high = middle;
    else low = middle + 1;
  }
  return low;
}

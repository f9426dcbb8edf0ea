/* The gaps between ascending ranges of elements. */
#include "base/base.h"

ronde__gaps ronde__gaps_of(const ronde__range *ranges, int n, size_t begin, size_t end) {
  int low = 0, high = n;
  while (low < high) {
    int middle = (low + high) / 2;
    if (ranges[middle].begin + ranges[middle].n > begin) high = middle;
    else low = middle + 1;
  }
  return (ronde__gaps){ranges + low, ranges + n, begin, end};
}

bool ronde__gaps_next(ronde__gaps *gaps, ronde__range *gap_out) {
  while (gaps->at < gaps->end) {
    bool any = gaps->next < gaps->past && gaps->next->begin < gaps->end;
    size_t begin = gaps->at, stop = any ? gaps->next->begin : gaps->end;
    gaps->at = any ? stop + gaps->next++->n : gaps->end;
    if (stop <= begin) continue;
    *gap_out = (ronde__range){begin, stop - begin};
    return true;
  }
  return false;
}

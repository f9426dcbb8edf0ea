/* Values by chance, the same in every run: a linear congruential generator. */
#include "lib/random.h"

#include <stdlib.h>

uint32_t random_state = 1;
int random_bits = 24;

float random_float(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (float)(random_state >> (32 - random_bits)) / (float)(1 << (random_bits - 1)) - 1.0f;
}

float *random_floats(int64_t n) {
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = random_float();
  return x;
}

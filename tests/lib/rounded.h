/* To bfloat16 and back, by arithmetic: 8 significant bits, ties to even. Of numbers that are not denormal. */
#ifndef RONDE_TESTS_ROUNDED_H
#define RONDE_TESTS_ROUNDED_H

#include <math.h>

static inline float rounded_to_bf16(float value) {
  int exponent;
  double fraction = frexp((double)value, &exponent);
  return (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8);
}

#endif

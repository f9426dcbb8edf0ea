/* The arithmetic peak of a core, to compare kernels with. */
#include "kernel/simd.h"

/* Two units of 4 to 5 cycles need 8 to 10 independent operations; these fit into 16 registers beside the operands. */
enum { CHAINS = RONDE__MULTIPLY_ADDS };

float NAME(multiply_adds)(int64_t turns) {
  vec sum[CHAINS], factor = splat(0.999f), term = splat(0.001f);
  __asm__ volatile("" : "+x"(factor), "+x"(term)); /* not known when compiling */
  for (int i = 0; i < CHAINS; i++) sum[i] = splat((float)i);
  for (; turns > 0; turns--) {
    UNROLL
    for (int i = 0; i < CHAINS; i++) sum[i] = sum[i] * factor + term;
  }
  vec total = {0};
  for (int i = 0; i < CHAINS; i++) total += sum[i];
  return lane_sum(total);
}

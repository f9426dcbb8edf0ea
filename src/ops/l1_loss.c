/* Mean over the elements of |x - t|; its gradient where they are equal is 0, as PyTorch has it. */
#include "ops/value_loss.h"

#include <math.h>

static double l1_loss_term(double x, double t, double delta) { return fabs(x - t); }
static float l1_loss_slope(float x, float t, float delta) {
  return isnan(x - t) ? x - t : (float)((x > t) - (x < t)); /* what is broken must be seen */
}

RONDE__VALUE_LOSS(l1_loss);

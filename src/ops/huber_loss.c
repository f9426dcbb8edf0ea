/* Mean over the elements of (x - t)^2 / 2 where |x - t| <= delta, else of delta (|x - t| - delta / 2), as PyTorch's
 * HuberLoss has it. Source: Huber, "Robust estimation of a location parameter", 1964. */
#include "ops/value_loss.h"

#include <math.h>

static double term(double x, double t, double delta) {
  double d = fabs(x - t);
  return d > delta ? delta * (d - delta / 2) : d * d / 2;
}

static float slope(float x, float t, float delta) {
  float d = x - t;
  return d > delta ? delta : d < -delta ? -delta : d;
}

static const ronde__value_terms terms = {term, {slope}};

RONDE__VALUE_LOSS(huber_loss, terms);

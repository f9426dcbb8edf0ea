/* Binary cross entropy of several labels at once: mean over the elements of -t log s(x) - (1 - t) log(1 - s(x)), s the
 * sigmoid of a logit x, t the label from 0 to 1; as PyTorch's BCEWithLogitsLoss has it. Computed as
 * max(x, 0) - x t + log(1 + exp(-|x|)), which overflows nowhere. As a loss, and of each
 * example. */
#include "ops/value_loss.h"

#include <math.h>

static double term(double x, double t, double delta) { return fmax(x, 0) - x * t + log1p(exp(-fabs(x))); }

static float slope(float x, float t, float delta) {
  float e = expf(-fabsf(x));
  return (x >= 0 ? 1 : e) / (1 + e) - t;
}

static float target_slope(float x, float t, float delta) { return -x; }

static const ronde__value_terms terms = {term, {slope, target_slope}};

RONDE__VALUE_LOSS(bce_loss, terms);
RONDE__VALUE_ERROR(bce_error, terms);

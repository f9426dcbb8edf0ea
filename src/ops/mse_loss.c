/* Mean over the elements of (x - t)^2: as a loss, and of each example. */
#include "ops/value_loss.h"

static double term(double x, double t, double delta) { return (x - t) * (x - t); }
static float slope(float x, float t, float delta) { return 2 * (x - t); }
static float target_slope(float x, float t, float delta) { return 2 * (t - x); }

static const ronde__value_terms terms = {term, {slope, target_slope}};

RONDE__VALUE_LOSS(mse_loss, terms);
RONDE__VALUE_ERROR(squared_error, terms);

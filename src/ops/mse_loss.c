/* Mean over the elements of (x - t)^2: as a loss, and of each example. */
#include "ops/value_error.h"

static double mse_loss_term(double x, double t, double delta) { return (x - t) * (x - t); }
static float mse_loss_slope(float x, float t, float delta) { return 2 * (x - t); }
static float mse_loss_target_slope(float x, float t, float delta) { return 2 * (t - x); }

RONDE__VALUE_LOSS(mse_loss);
RONDE__VALUE_ERROR(squared_error, mse_loss);

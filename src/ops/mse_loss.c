/* Mean over the elements of (x - t)^2. */
#include "ops/value_loss.h"

static double mse_loss_term(double x, double t, double delta) { return (x - t) * (x - t); }
static float mse_loss_slope(float x, float t, float delta) { return 2 * (x - t); }

RONDE__VALUE_LOSS(mse_loss);

/* The learning rate of a step, and the factor by which a gradient is clipped. Both follow PyTorch.
 * Source: Loshchilov & Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017 (cosine); Goyal et
 * al., "Accurate, large minibatch SGD", 2017 (warm-up); Pascanu et al., "On the difficulty of training recurrent
 * neural networks", ICML 2013 (clipping by norm). */
#include "optim/optim.h"

#include <math.h>

static double cosine_factor(const ronde__schedule *schedule, int64_t step) {
  int64_t done = step - schedule->warmup_steps - 1, length = schedule->steps - schedule->warmup_steps;
  if (done <= 0) return 1;
  if (done >= length) return 0;
  return (1 + cos(M_PI * (double)done / (double)length)) / 2;
}

double ronde__schedule_lr(const ronde__schedule *schedule, int64_t step) {
  double lr = schedule->lr;
  if (step < schedule->warmup_steps) lr *= (double)step / (double)schedule->warmup_steps;
  if (schedule->kind == RONDE__SCHEDULE_COSINE) return lr * cosine_factor(schedule, step);
  if (schedule->kind == RONDE__SCHEDULE_CONSTANT) return lr;
  int64_t epochs_done = (step - 1) / schedule->steps_per_epoch;
  return lr * pow(schedule->gamma, (double)(epochs_done / schedule->step_epochs));
}

float ronde__clip_factor(double sum_squares, double clip) {
  double factor = clip / (sqrt(sum_squares) + 1e-6);
  return factor > 1 ? 1 : (float)factor;
}

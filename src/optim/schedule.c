/* The learning rate of a step, and the factor by which a gradient is clipped. Both follow PyTorch.
 * Source: Loshchilov & Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017 (cosine); Goyal et
 * al., "Accurate, large minibatch SGD", 2017 (warm-up); Smith & Topin, "Super-convergence", 2018 (one cycle); Pascanu et al., "On the difficulty of training recurrent
 * neural networks", ICML 2013 (clipping by norm). */
#include "optim/optim.h"

#include <math.h>

static double cosine_factor(const ronde__schedule *schedule, int64_t step) {
  int64_t done = step - schedule->warmup_steps - 1, length = schedule->steps - schedule->warmup_steps;
  if (done <= 0) return 1;
  if (done >= length) return 0;
  return (1 + cos(M_PI * (double)done / (double)length)) / 2;
}

/* From one rate to the other along half a cosine; at: 0 to 1. */
static double cosine_between(double from, double to, double at) { return to + (from - to) * (1 + cos(M_PI * at)) / 2; }

static double one_cycle_factor(const ronde__schedule *schedule, int64_t step) {
  const double start = 1 / 25.0, end = start / 1e4;
  double last = (double)schedule->steps - 1, at = (double)step - 1, peak = schedule->rise * (double)schedule->steps - 1;
  if (at >= last) return end;
  return peak > 0 && at <= peak ? cosine_between(start, 1, at / peak)
                                : cosine_between(1, end, (at - peak) / (last - peak));
}

double ronde__schedule_lr(const ronde__schedule *schedule, int64_t step) {
  double lr = schedule->lr;
  if (schedule->kind == RONDE__SCHEDULE_ONE_CYCLE) return lr * one_cycle_factor(schedule, step);
  if (step < schedule->warmup_steps) lr *= (double)step / (double)schedule->warmup_steps;
  if (schedule->kind == RONDE__SCHEDULE_COSINE) return lr * cosine_factor(schedule, step);
  if (schedule->kind != RONDE__SCHEDULE_STEP) return lr;
  int64_t epochs_done = (step - 1) / schedule->steps_per_epoch;
  return lr * pow(schedule->gamma, (double)(epochs_done / schedule->step_epochs));
}

void ronde__plateau_add(ronde__plateau *plateau, double value, double min_delta, int64_t patience) {
  plateau->tests++;
  plateau->waits++;
  if (value > plateau->best + min_delta) {
    plateau->best = value;
    plateau->tests = plateau->waits = 0;
  }
  if (patience == 0 || plateau->waits < patience) return;
  plateau->drops++;
  plateau->waits = 0;
}

float ronde__clip_factor(double sum_squares, double clip) {
  double factor = clip / (sqrt(sum_squares) + 1e-6);
  return factor > 1 ? 1 : (float)factor;
}

/* Optimizers and learning-rate schedules with PyTorch's definitions, on flat arrays of packed parameters.
 * Padding (weight 0, gradient 0) stays exactly 0 under all of them. */
#ifndef RONDE_OPTIM_H
#define RONDE_OPTIM_H

#include "base/pool.h"
#include "base/rows.h"
#include "base/time.h"
#include "kernel/kernel.h"

typedef enum ronde__optim_kind {
  RONDE__OPTIM_SGD,
  RONDE__OPTIM_ADAM,
  RONDE__OPTIM_ADAMW,
  RONDE__OPTIM_ADAGRAD,
  RONDE__OPTIM_RMSPROP,
  RONDE__OPTIM_LBFGS /* its state alone: a step of it needs several gradients, see lbfgs.h */
} ronde__optim_kind;

typedef struct ronde__optim_options {
  ronde__optim_kind kind;
  double lr, momentum, weight_decay;
  bool nesterov;
  double beta1, beta2, eps;
  double alpha; /* of RMSprop's running average of squares */
  int history;  /* of LBFGS, 1 to RONDE__LBFGS_MAX_HISTORY */
} ronde__optim_options;

typedef struct ronde__optim ronde__optim;

/* n elements of parameters; state starts as PyTorch's does (zeros, no updates). kernels must outlive it.
 * eps is the caller's choice: PyTorch's default is 1e-8 for Adam, AdamW and RMSprop, 1e-10 for
 * Adagrad. */
ronde_status ronde__optim_create(const ronde__optim_options *options, const ronde__kernels *kernels, size_t n,
                                 ronde__optim **optim_out);
/* From now on the update of an element takes so long by this time, and is not made: for kernels that do nothing. */
void ronde__optim_pace(ronde__optim *optim, ronde__time *time, double element_ns);
void ronde__optim_destroy(ronde__optim *optim); /* NULL is taken */
/* Gradients of these ranges, ascending, are always zero: nobody reads them. Where there is no decay and their state is
 * zero too, an update would leave the parameters there as they are, and passes over them. dead must outlive the
 * optimizer. */
void ronde__optim_set_dead(ronde__optim *optim, const ronde__range *dead, int n_dead);
/* Keeps the state of these ranges alone, one behind the other: from now on `first` of a range counts in that order, the
 * state's arrays are as long, and nothing is dead. Memory of the rest is given back; on RONDE_E_MEMORY all stays. */
ronde_status ronde__optim_keep(ronde__optim *optim, const ronde__range *ranges, int n_ranges);
/* The other way round: the state is these arrays [states][n], of ronde__pages_map, which become the optimizer's. */
void ronde__optim_take(ronde__optim *optim, float *const *whole, size_t n);
/* One update by gradients that are already scaled, at this step's learning rate. Call begin once a step, then cover
 * the n elements by ranges in any order and from several threads: a fused or sharded update is a range, and so is a
 * bucket. The bits do not depend on the cut. w, g [n] are the range's own; first is its offset in the whole. */
void ronde__optim_begin(ronde__optim *optim, double lr);
void ronde__optim_range(const ronde__optim *optim, float *w, const float *g, size_t first, size_t n);
/* Prefetches the state of a range that is updated soon. The range may reach beyond the end. */
void ronde__optim_fetch(const ronde__optim *optim, size_t first, size_t n);
/* Where the state of element `first` lies in each array of it; returns how many these are. */
int ronde__optim_touches(const ronde__optim *optim, size_t first, const void **at_out);
/* Updates the dead ranges of the whole w, where a fused update does the rest. */
void ronde__optim_dead(const ronde__optim *optim, float *w);
/* Whether updates change dead ranges. */
bool ronde__optim_moves_dead(ronde__optim *optim);
/* The same as ronde__optim_range, split over the pool at multiples of 4096 elements. */
void ronde__optim_range_on(const ronde__optim *optim, ronde__pool *pool, float *w, const float *g, size_t first,
                           size_t n);
/* The same of `part` of a table, whose gradient is zero but for these rows; g of the others is not read. w, g and first
 * are the table's. Where a gradient of zero moves nothing (plain SGD without decay), the others are passed over. */
void ronde__optim_rows_on(const ronde__optim *optim, ronde__pool *pool, float *w, const float *g, size_t first,
                          const ronde__row_set *rows, ronde__range part);
/* Which elements whose gradient is zero an update may change. */
typedef enum ronde__zero_moves {
  RONDE__ZERO_MOVES_NONE,
  RONDE__ZERO_MOVES_STATE, /* those that have state of earlier gradients */
  RONDE__ZERO_MOVES_ALL
} ronde__zero_moves;
ronde__zero_moves ronde__optim_zero_moves(const ronde__optim *optim);
/* State for checkpoints: arrays of n elements ("momentum_buffer", "exp_avg", "exp_avg_sq", "sum", "square_avg"; of LBFGS "d",
 * "prev_flat_grad", "old_dirs.0", "old_stps.0", "old_dirs.1" and so on), and the number of updates, which is to be set
 * when arrays were. */
int ronde__optim_n_states(const ronde__optim *optim);
size_t ronde__optim_elems(const ronde__optim *optim); /* of each array */
float *ronde__optim_state(ronde__optim *optim, int i, const char **name_out);
int64_t ronde__optim_updates(const ronde__optim *optim);
void ronde__optim_set_updates(ronde__optim *optim, int64_t n_updates);
size_t ronde__optim_state_bytes(const ronde__optim_options *options, size_t n);

/* The factor that brings the gradient's norm down to `clip` (PyTorch's clip_grad_norm_: clip / (norm + 1e-6), at most
 * 1). A norm that is NaN gives NaN, one that is Inf gives 0, as there. */
float ronde__clip_factor(double sum_squares, double clip);

typedef enum ronde__schedule_kind {
  RONDE__SCHEDULE_CONSTANT,
  RONDE__SCHEDULE_STEP,
  RONDE__SCHEDULE_COSINE,
  RONDE__SCHEDULE_ONE_CYCLE,
  RONDE__SCHEDULE_PLATEAU
} ronde__schedule_kind;

/* The rate of update `step`, from 1 to `steps`, is lr times two factors:
 *   warm-up   step / warmup_steps up to step warmup_steps, then 1: step 1 gets lr / warmup_steps, step warmup_steps lr
 *   CONSTANT  1
 *   STEP      gamma ^ floor((epoch - 1) / step_epochs), epochs from 1, warm-up included: StepLR stepped once an epoch
 *   COSINE    (1 + cos(pi k / (steps - warmup_steps))) / 2 for k = step - warmup_steps - 1, and 1 during the warm-up:
 *             CosineAnnealingLR stepped once an update. Step warmup_steps + 1 gets lr; the last step the rate just
 *             before 0, so that no update is spent on a rate of 0; steps beyond the last get 0.
 *   ONE_CYCLE OneCycleLR stepped once an update, with its div_factor of 25, final_div_factor of 10^4 and cosines: lr is
 *             the peak. From lr / 25 at step 1 up to lr at update rise x steps, then down to lr / 25 / 10^4 at the last.
 *             It has its own warm-up: warmup_steps is not used.
 *   PLATEAU   ronde__plateau's, which depends on the tests; 1 here
 * STEP needs step_epochs and steps_per_epoch of at least 1. */
typedef struct ronde__schedule {
  ronde__schedule_kind kind;
  double lr, gamma;
  int64_t step_epochs, steps_per_epoch, steps, warmup_steps;
  double rise; /* of ONE_CYCLE: the fraction of the steps in which the rate rises */
} ronde__schedule;
double ronde__schedule_lr(const ronde__schedule *schedule, int64_t step);

/* Tests that bring nothing, counted. Zeros but for a best of -Inf before the first. */
typedef struct ronde__plateau {
  double best;   /* of the tests that were better than the one before them by more than min_delta */
  int64_t tests; /* since then */
  int64_t drops; /* of the learning rate so far */
  int64_t waits; /* tests since then, or since the last drop */
} ronde__plateau;
/* A test. There is a drop where `patience` tests in a row have brought nothing, as Keras's ReduceLROnPlateau counts them
 * (PyTorch's waits for one more); 0: never. NaN is no better than anything. */
void ronde__plateau_add(ronde__plateau *plateau, double value, double min_delta, int64_t patience);

#endif

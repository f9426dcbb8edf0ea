/* A convolution's output (or its data gradient) as runs of pixels, each one batch-reduce GEMM: the runs with the
 * operand lists and kernels that they share. */
#ifndef RONDE_CONV_SCHEDULE_H
#define RONDE_CONV_SCHEDULE_H

#include "ops/axis.h"
#include "ops/gemm_list.h"

typedef struct ronde__conv_run {
  int64_t a0, b0, c0; /* element offsets of the operands and the result */
  int64_t extent;     /* rows or columns of the result */
  int list, kernel;
} ronde__conv_run;

typedef struct ronde__conv_schedule {
  ronde__conv_run *runs;
  ronde__gemm_list *lists;
  int (*list_keys)[4]; /* the taps of each list */
  ronde__gemm_pair *kernels;
  int n_runs, n_lists, n_kernels;
} ronde__conv_schedule;

/* One direction: from the positions of `to` (what is computed) to operands in `from`. */
typedef struct ronde__conv_direction {
  const ronde__op_desc *desc;
  ronde__axis h, w;
  ronde__axis_fn taps;
  ronde__steps step_h, step_w; /* how taps advance, and the operand's positions with them */
  const ronde__phys *from, *to;
  const void *user; /* the form's */
} ronde__conv_direction;

/* What a form makes of a run of pixels that meet the taps h and w: its list, and its kernel where it has one. The place
 * and extent of its result are set, and a0, which is that of its first operand in `from`. */
typedef ronde_status (*ronde__conv_run_fn)(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w,
                                           ronde__conv_schedule *schedule, ronde__conv_run *run);
/* Forward, and the data gradient's where it is needed, in runs of `longest` pixels at most. To be released, also where it
 * failed. */
ronde_status ronde__conv_schedules_create(const ronde__op_desc *desc, int64_t longest, ronde__conv_run_fn fn,
                                          const void *user, ronde__conv_schedule *forward, ronde__conv_schedule *data);
void ronde__conv_schedule_release(ronde__conv_schedule *schedule);
/* For such a function: the list of BLOCKS over taps and `blocks` channel blocks of the operand, with weights of
 * `weight_block` elements each, [tap][block]; an element has `size` bytes. */
ronde_status ronde__conv_taps_list(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w, int64_t blocks,
                                   int64_t weight_block, size_t size, ronde__conv_schedule *schedule, int *index_out);
/* The list with this key; made with `count` pairs, to be filled, where *is_new_out. */
ronde_status ronde__conv_schedule_list(ronde__conv_schedule *schedule, const int key[4], int64_t count, int *index_out,
                                       bool *is_new_out);
/* The kernel of a shape (its m, n and k tell it from the others), resolved where it is new. */
int ronde__conv_schedule_kernel(ronde__conv_schedule *schedule, const ronde__op_desc *desc,
                                const ronde__gemm_shape *shape);
/* c (+)= the run's sum; a, b and c are the tensors' beginnings. */
void ronde__conv_run_sum(const ronde__conv_schedule *schedule, const ronde__conv_run *run, const float *a,
                         const float *b, float *c, bool accumulate);

#endif

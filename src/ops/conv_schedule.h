/* A convolution's output (or its data gradient) as runs of pixels, each one batch-reduce GEMM: the runs with the
 * operand lists and kernels that they share. */
#ifndef RONDE_CONV_SCHEDULE_H
#define RONDE_CONV_SCHEDULE_H

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

/* Room for so many; the counts stay 0. */
ronde_status ronde__conv_schedule_allocate(ronde__conv_schedule *schedule, int64_t runs, int64_t lists,
                                           int64_t kernels);
void ronde__conv_schedule_release(ronde__conv_schedule *schedule);
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

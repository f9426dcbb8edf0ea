#include "ops/conv_schedule.h"

#include <string.h>

ronde_status ronde__conv_schedule_allocate(ronde__conv_schedule *s, int64_t runs, int64_t lists, int64_t kernels) {
  RONDE__ALLOC(s->runs, (size_t)runs * sizeof *s->runs, "convolution plan");
  RONDE__ALLOC(s->lists, (size_t)lists * sizeof *s->lists, "convolution plan");
  RONDE__ALLOC(s->list_keys, (size_t)lists * sizeof *s->list_keys, "convolution plan");
  RONDE__ALLOC(s->kernels, (size_t)kernels * sizeof *s->kernels, "convolution plan");
  return RONDE_OK;
}

void ronde__conv_schedule_release(ronde__conv_schedule *s) {
  for (int i = 0; i < s->n_lists; i++) ronde__gemm_list_destroy(&s->lists[i]);
  ronde__free(s->runs);
  ronde__free(s->lists);
  ronde__free(s->list_keys);
  ronde__free(s->kernels);
}

ronde_status ronde__conv_schedule_list(ronde__conv_schedule *s, const int key[4], int64_t count, int *index_out,
                                       bool *is_new_out) {
  int i = 0;
  while (i < s->n_lists && memcmp(s->list_keys[i], key, sizeof s->list_keys[i]) != 0) i++;
  *is_new_out = i == s->n_lists;
  if (*is_new_out) {
    RONDE_TRY(ronde__gemm_list_create(count, &s->lists[i]));
    memcpy(s->list_keys[i], key, sizeof s->list_keys[i]);
    s->n_lists++;
  }
  *index_out = i;
  return RONDE_OK;
}

int ronde__conv_schedule_kernel(ronde__conv_schedule *s, const ronde__op_desc *desc, const ronde__gemm_shape *shape) {
  for (int i = 0; i < s->n_kernels; i++) {
    const ronde__gemm_shape *known = &s->kernels[i].set.shape;
    if (known->m == shape->m && known->n == shape->n && known->k == shape->k) return i;
  }
  s->kernels[s->n_kernels] = ronde__gemm_pair_resolve(desc, *shape);
  return s->n_kernels++;
}

void ronde__conv_run_sum(const ronde__conv_schedule *s, const ronde__conv_run *run, const float *a, const float *b,
                         float *c, bool accumulate) {
  const ronde__gemm_list *list = &s->lists[run->list];
  ronde__gemm_sum(&s->kernels[run->kernel], list, list->count, a + run->a0, b + run->b0, c + run->c0, accumulate);
}

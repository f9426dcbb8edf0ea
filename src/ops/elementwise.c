#include "ops/elementwise.h"

#include "ops/gemm_list.h"

#include <string.h>

typedef struct job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
  int64_t n;
  ronde__range_fn fn;
} job;

static void part(void *arg, int thread, int n_threads) {
  const job *j = arg;
  int64_t begin, end;
  ronde__thread_share(ronde__ceil_div(j->n, RONDE__QUANTUM), thread, n_threads, &begin, &end);
  begin *= RONDE__QUANTUM;
  end = ronde__min(end * RONDE__QUANTUM, j->n);
  if (begin < end) j->fn(j->desc, j->call, begin, end - begin);
}

void ronde__elementwise_run(const ronde__op_desc *desc, const ronde__op_call *call, int64_t n, ronde__range_fn fn) {
  job j = {desc, call, n, fn};
  ronde__pool_run(call->pool, part, &j);
}

void ronde__gradient_add(const ronde__op_desc *desc, const float *src, float *dst, int64_t n, bool accumulate) {
  if (accumulate) desc->kernels->add(dst, src, dst, n);
  else memcpy(dst, src, (size_t)n * sizeof *dst);
}

ronde_status ronde__elementwise_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                      const char *const *in_labels, ronde__shape *out) {
  *out = in[0];
  return RONDE_OK;
}

void ronde__elementwise_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  desc->out[0] = desc->in[0];
}

const char *ronde__elementwise_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->kernels->isa;
}

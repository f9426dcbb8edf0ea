/* A parameter as a tensor: the same for each example of the batch, whose size is all that is read of the input. */
#include "ops/elementwise.h"
#include "ops/gemm_list.h"

#include <string.h>

static ronde_status parameter_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                    const char *const *in_labels, ronde__shape *out) {
  *out = attr->shape;
  bool fits = out->rank >= 1;
  for (int d = 0; d < out->rank; d++) fits = fits && out->dim[d] >= 1;
  return fits ? RONDE_OK : ronde__fail(RONDE_E_USAGE, "%s: a parameter has 1 to 6 dimensions, of 1 or more", label);
}

static int parameter_params(const ronde__op_attr *attr, const ronde__shape *in,
                            ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  ronde_init_kind init = attr->deviation > 0 ? RONDE_INIT_NORMAL : RONDE_INIT_CONSTANT;
  specs[0] = (ronde__param_spec){.suffix = NULL, .shape = attr->shape, .bound = attr->deviation, .init = init};
  return 1;
}

static void parameter_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int64_t n = desc->in[0].n / ronde__phys_rows(&desc->in[0], &in[0]);
  desc->out[0] = ronde__phys_of_shape(out, n);
  desc->param[0] = ronde__weight_layout_make(RONDE__PLAIN, ronde__shape_elems(out), 1, 1, 1, 1);
}

typedef struct parameter_job {
  const ronde__op_desc *desc;
  const ronde__op_call *call;
} parameter_job;

static ronde_status parameter_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  int64_t elems = ronde__weight_elems(&desc->param[0]);
  for (int64_t n = 0; n < desc->out[0].n; n++)
    memcpy(call->out[0] + n * elems, call->param[0], (size_t)elems * sizeof(float));
  return RONDE_OK;
}

/* In f64, over the examples in their order. */
static void backward_part(void *arg, int thread, int n_threads) {
  enum { CHUNK = 256 };
  const parameter_job *j = arg;
  const ronde__op_call *call = j->call;
  int64_t elems = ronde__weight_elems(&j->desc->param[0]), begin, end;
  ronde__thread_chunk(elems, thread, n_threads, &begin, &end);
  for (int64_t first = begin; first < end; first += CHUNK) {
    double sums[CHUNK] = {0};
    int64_t m = ronde__min(CHUNK, end - first);
    for (int64_t n = 0; n < j->desc->out[0].n; n++)
      for (int64_t i = 0; i < m; i++) sums[i] += (double)call->dout[0][n * elems + first + i];
    for (int64_t i = 0; i < m; i++)
      call->dparam[0][first + i] =
          (float)(sums[i] + (call->accumulate_dparam[0] ? (double)call->dparam[0][first + i] : 0));
  }
}

static ronde_status parameter_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  parameter_job j = {desc, call};
  if (call->dparam[0]) ronde__pool_run(call->pool, backward_part, &j);
  if (call->din[0] && !call->accumulate_dinput[0])
    memset(call->din[0], 0, (size_t)ronde__phys_elems(&desc->in[0]) * sizeof(float));
  return RONDE_OK;
}

static const ronde__form parameter_form = {
    .forward = parameter_forward,
    .backward = parameter_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_parameter = {
    .name = "parameter",
    .infer = parameter_infer,
    .params = parameter_params,
    .layouts = parameter_layouts,
    .takes_rows = true,
    .any_input = true,
    .forms = (const ronde__form *const[]){&parameter_form, NULL},
};

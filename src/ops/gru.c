/* One layer and direction of gated recurrent units, PyTorch's definition: for each step t
 *   r, z = sigmoid of (W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), q = W_hn h_(t-1) + b_hn,
 *   n = tanh(W_in x_t + b_in + r q), h_t = (1 - z) n + z h_(t-1).
 * Source: Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014; the reset gate behind the
 * product, as cuDNN has it.
 * A row of gates is [r z n q]. Inputs: the sequence; perhaps h_0, else it is zero; perhaps lengths. Outputs: all h, the
 * last h. */
#include "ops/recurrent.h"

static void gru_biases(const float *of_x, const float *of_h, int64_t h, float *bias) {
  for (int64_t i = 0; i < 2 * h; i++) bias[i] = of_x[i] + of_h[i];
  for (int64_t i = 2 * h; i < 3 * h; i++) bias[i] = of_x[i], bias[h + i] = of_h[i];
}

static void gru_step(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_step(s->row, s->sums, s->bias, s->y_before, s->y, s->h);
}

static void gru_step_back(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_step_back(s->row, s->y_before, s->dy, s->dh, s->drow, s->h);
}

static const ronde__cell gru_cell = {
    .name = "a GRU",
    .gates = 3,
    .states = 1,
    .column = {0, 1, 3},
    .biases = gru_biases,
    .forward = gru_step,
    .backward = gru_step_back,
};

static ronde_status gru_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                              const char *const *in_labels, ronde__shape *out) {
  return ronde__recurrent_infer(&gru_cell, attr, label, in, in_labels, out);
}

static int gru_params(const ronde__op_attr *attr, const ronde__shape *in,
                      ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  return ronde__recurrent_params(&gru_cell, attr, in, specs);
}

static int64_t gru_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return ronde__recurrent_flops(&gru_cell, attr, in);
}

static void gru_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__recurrent_layouts(&gru_cell, desc, in, out);
}

static int gru_outputs(const ronde__op_attr *attr) { return ronde__recurrent_outputs(&gru_cell); }

static ronde_status gru_prepare(const ronde__op_desc *desc, void **state_out) {
  return ronde__recurrent_prepare(&gru_cell, desc, state_out);
}

static const ronde__form gru_form = {
    .prepare = gru_prepare,
    .release = ronde__recurrent_release,
    .work_elems = ronde__recurrent_work,
    .saved_elems = ronde__recurrent_saved,
    .forward = ronde__recurrent_forward,
    .backward = ronde__recurrent_backward,
    .implementation = ronde__recurrent_implementation,
    .executed_flops = ronde__recurrent_executed_flops,
};

const ronde__op ronde__op_gru = {
    .name = "gru",
    .outputs = gru_outputs,
    .infer = gru_infer,
    .params = gru_params,
    .flops = gru_flops,
    .layouts = gru_layouts,
    .backward_reads = {.in = 15, .out = 1},
    .forms = (const ronde__form *const[]){&gru_form, NULL},
};

/* One layer and direction of a long short-term memory, PyTorch's definition: for each step t
 *   i, f, o = sigmoid, g = tanh of (W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), c_t = f c_(t-1) + i g, h_t = o tanh(c_t).
 * Source: Hochreiter & Schmidhuber, "Long short-term memory", 1997, with forget gates.
 * A row of gates is [i f g o]. Inputs: the sequence; perhaps h_0 and c_0, else both are zero; perhaps lengths. Outputs:
 * all h, the last h, the last c. */
#include "ops/recurrent.h"

static void lstm_biases(const float *of_x, const float *of_h, int64_t h, float *bias) {
  for (int64_t i = 0; i < 4 * h; i++) bias[i] = of_x[i] + of_h[i];
}

static void lstm_step(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->lstm_step(s->row, s->bias, s->cell_before, s->cell, s->y, s->h);
}

static void lstm_step_back(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->lstm_step_back(s->row, s->cell_before, s->cell, s->dy, s->dh, s->dcell, s->drow, s->h);
}

static const ronde__cell lstm_cell = {
    .name = "an LSTM",
    .gates = 4,
    .states = 2,
    .adds = true,
    .column = {0, 1, 2, 3},
    .biases = lstm_biases,
    .forward = lstm_step,
    .backward = lstm_step_back,
};

static ronde_status lstm_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                               const char *const *in_labels, ronde__shape *out) {
  return ronde__recurrent_infer(&lstm_cell, attr, label, in, in_labels, out);
}

static int lstm_params(const ronde__op_attr *attr, const ronde__shape *in,
                       ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  return ronde__recurrent_params(&lstm_cell, attr, in, specs);
}

static int64_t lstm_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return ronde__recurrent_flops(&lstm_cell, attr, in);
}

static void lstm_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  ronde__recurrent_layouts(&lstm_cell, desc, in, out);
}

static int lstm_outputs(const ronde__op_attr *attr) { return ronde__recurrent_outputs(&lstm_cell); }

static ronde_status lstm_prepare(const ronde__op_desc *desc, void **state_out) {
  return ronde__recurrent_prepare(&lstm_cell, desc, state_out);
}

static const ronde__form lstm_form = {
    .prepare = lstm_prepare,
    .release = ronde__recurrent_release,
    .work_elems = ronde__recurrent_work,
    .saved_elems = ronde__recurrent_saved,
    .forward = ronde__recurrent_forward,
    .backward = ronde__recurrent_backward,
    .implementation = ronde__recurrent_implementation,
    .executed_flops = ronde__recurrent_executed_flops,
};

const ronde__op ronde__op_lstm = {
    .name = "lstm",
    .outputs = lstm_outputs,
    .infer = lstm_infer,
    .params = lstm_params,
    .flops = lstm_flops,
    .layouts = lstm_layouts,
    .backward_reads = {.in = 15, .out = 1},
    .forms = (const ronde__form *const[]){&lstm_form, NULL},
};

/* What one step of a recurrent layer is.
 * An LSTM, PyTorch's definition: for each step t
 *   i, f, o = sigmoid, g = tanh of (W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), c_t = f c_(t-1) + i g, h_t = o tanh(c_t);
 * with peepholes p, i and f also read p c_(t-1), and o reads p c_t. A row of gates is [i f g o].
 * A GRU, PyTorch's definition:
 *   r, z = sigmoid of (W_ih x_t + b_ih + W_hh h_(t-1) + b_hh), q = W_hn h_(t-1) + b_hn,
 *   n = tanh(W_in x_t + b_in + r q), h_t = (1 - z) n + z h_(t-1); a row is [r z n q].
 * A GRU as it was published resets h in front of the product: n = tanh(W_in x_t + b_in + W_hn (r h_(t-1)) + b_hn); a row is
 * [r z n].
 * With a clip, what goes into a function is bounded by it on both sides, as ONNX has it; of an LSTM c_t where it goes into tanh, too.
 * A simple layer: h_t = tanh, or ReLU, of (W_ih x_t + b_ih + W_hh h_(t-1) + b_hh); a row is h_t.
 * Sources: Hochreiter & Schmidhuber, "Long short-term memory", 1997, with forget gates; peepholes: Gers & Schmidhuber,
 * "Recurrent nets that time and count", 2000; Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014; the
 * reset gate behind the product as cuDNN has it; Elman, "Finding structure in time", 1990. */
#include "ops/recurrent.h"

/* ---- LSTM ---- */

static void lstm_step(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->lstm_step(s->row, s->bias, s->peepholes, s->cell_before, s->cell, s->y, s->clip, s->h);
}

static void lstm_step_back(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->lstm_step_back(s->row, s->peepholes, s->cell_before, s->cell, s->dy, s->dh, s->dcell, s->drow, s->clip,
                          s->h);
}

static const ronde__cell lstm_cell = {
    .name = "an LSTM",
    .gates = 4,
    .states = 2,
    .row = 4,
    .adds = true,
    .column = {0, 1, 2, 3},
    .forward = lstm_step,
    .backward = lstm_step_back,
};

/* ---- GRU ---- */

static void gru_step(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_step(s->row, s->sums, s->bias, s->y_before, s->y, s->clip, s->h);
}

static void gru_step_back(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_step_back(s->row, s->y_before, s->dy, s->dh, s->drow, s->clip, s->h);
}

static const ronde__cell gru_cell = {
    .name = "a GRU",
    .gates = 3,
    .states = 1,
    .row = 4,
    .column = {0, 1, 3},
    .forward = gru_step,
    .backward = gru_step_back,
};

/* ---- GRU that resets first ---- */

static void reset_first(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_reset(s->row, s->bias, s->y_before, s->reset, s->clip, s->h);
}

static void reset_step(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_reset_step(s->row, s->bias, s->y_before, s->y, s->clip, s->h);
}

static void reset_step_back(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_reset_step_back(s->row, s->y_before, s->dy, s->dh, s->drow, s->clip, s->h);
}

static void reset_first_back(const ronde__kernels *kernels, const ronde__recurrent_step *s) {
  kernels->gru_reset_back(s->row, s->y_before, s->dreset, s->dh, s->drow, s->reset, s->clip, s->h);
}

static const ronde__cell reset_cell = {
    .name = "a GRU",
    .gates = 3,
    .states = 1,
    .row = 3,
    .adds = true,
    .column = {0, 1, 2},
    .reset = reset_first,
    .forward = reset_step,
    .backward = reset_step_back,
    .reset_back = reset_first_back,
};

/* ---- simple layers ---- */

#define SIMPLE_CELL(NAME, IS_RELU)                                                              \
  static void NAME##_step(const ronde__kernels *kernels, const ronde__recurrent_step *s) {      \
    kernels->rnn_step(s->row, s->bias, IS_RELU, s->y, s->clip, s->h);                           \
  }                                                                                             \
  static void NAME##_step_back(const ronde__kernels *kernels, const ronde__recurrent_step *s) { \
    kernels->rnn_step_back(s->row, s->dy, IS_RELU, s->dh, s->drow, s->clip, s->h);              \
  }                                                                                             \
  static const ronde__cell NAME##_cell = {                                                      \
      .name = "an RNN",                                                                         \
      .gates = 1,                                                                               \
      .states = 1,                                                                              \
      .row = 1,                                                                                 \
      .adds = true,                                                                             \
      .forward = NAME##_step,                                                                   \
      .backward = NAME##_step_back,                                                             \
  }

SIMPLE_CELL(tanh, false);
SIMPLE_CELL(relu, true);

void ronde__cell_biases(const ronde__cell *cell, const float *of_x, const float *of_h, int64_t h, float *bias) {
  int64_t added = (cell->gates - !cell->adds) * h;
  for (int64_t i = 0; i < added; i++) bias[i] = of_x[i] + of_h[i];
  for (int64_t i = added; i < cell->gates * h; i++) bias[i] = of_x[i], bias[h + i] = of_h[i];
}

const ronde__cell *ronde__cell_of(const ronde__op_attr *attr) {
  static const ronde__cell *const cells[] = {[RONDE__CELL_LSTM] = &lstm_cell,
                                             [RONDE__CELL_GRU] = &gru_cell,
                                             [RONDE__CELL_GRU_RESET_FIRST] = &reset_cell,
                                             [RONDE__CELL_TANH] = &tanh_cell,
                                             [RONDE__CELL_RELU] = &relu_cell};
  return cells[attr->cell];
}

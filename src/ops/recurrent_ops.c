/* LSTM, GRU and RNN: one layer in one direction. Inputs: the sequence; perhaps h_0 (and of an LSTM c_0), else these are zero;
 * perhaps lengths. Outputs: all h, the last h (and of an LSTM the last c). */
#include "kernel/bf16.h"
#include "ops/recurrent_plan.h"

#include <math.h>

static int recurrent_outputs(const ronde__op_attr *attr) { return 1 + ronde__cell_of(attr)->states; }

static ronde_status recurrent_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                    const char *const *in_labels, ronde__shape *out) {
  const ronde__cell *cell = ronde__cell_of(attr);
  char text[96];
  if (attr->out_channels < 1) return ronde__fail(RONDE_E_USAGE, "%s: hidden must be positive", label);
  ronde__shape_text(&in[0], text, sizeof text);
  if (!(attr->clip >= 0 && isfinite(attr->clip)))
    return ronde__fail(RONDE_E_USAGE, "%s: its clip must be positive, or 0 for none", label);
  if (in[0].rank != 2)
    return ronde__fail(RONDE_E_USAGE, "%s: %s takes a sequence TxF, but %s gives %s", label, cell->name, in_labels[0],
                       text);
  ronde__shape hidden = {1, {attr->out_channels}}, one = {1, {1}};
  for (int i = 1; i < attr->n_inputs; i++) {
    bool is_length = i > ronde__recurrent_states(attr);
    if (ronde__shape_equal(&in[i], is_length ? &one : &hidden)) continue;
    ronde__shape_text(&in[i], text, sizeof text);
    if (is_length)
      return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[i],
                         text);
    return ronde__fail(RONDE_E_USAGE, "%s: its state has %lld values, but %s gives %s", label,
                       (long long)attr->out_channels, in_labels[i], text);
  }
  out[0] = (ronde__shape){2, {in[0].dim[0], attr->out_channels}};
  for (int i = 0; i < cell->states; i++) out[1 + i] = hidden;
  return RONDE_OK;
}

static int recurrent_params(const ronde__op_attr *attr, const ronde__shape *in,
                            ronde__param_spec specs[RONDE__OP_MAX_PARAMS]) {
  static const char *const suffixes[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
  int64_t h = attr->out_channels, rows = ronde__cell_of(attr)->gates * h, columns[] = {in[0].dim[1], h};
  int n = attr->bias ? 4 : 2;
  for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++) specs[i] = (ronde__param_spec){.bound = (float)(1 / sqrt((double)h))};
  for (int i = 0; i < n; i++) {
    specs[i].suffix = suffixes[i];
    specs[i].shape = i < 2 ? (ronde__shape){2, {rows, columns[i]}} : (ronde__shape){1, {rows}};
  }
  if (!attr->peepholes) return n;
  specs[n].suffix = "weight_peephole_l0";
  specs[n].shape = (ronde__shape){1, {3 * h}};
  return n + 1;
}

static int64_t recurrent_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  return 2 * in[0].dim[0] * ronde__cell_of(attr)->gates * attr->out_channels * (in[0].dim[1] + attr->out_channels);
}

static void recurrent_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  const ronde__cell *cell = ronde__cell_of(&desc->attr);
  int64_t n = desc->in[0].n, h = desc->attr.out_channels;
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  for (int i = 0; i < 1 + cell->states; i++) desc->out[i] = ronde__phys_of_shape(&out[i], n);
  for (int i = 0; i < 4; i++)
    desc->param[i] = ronde__weight_layout_make(RONDE__PLAIN, cell->gates * h,
                                               i == 0   ? in[0].dim[1]
                                               : i == 1 ? h
                                                        : 1,
                                               1, 1, 1);
  if (desc->attr.peepholes)
    desc->param[ronde__peepholes_at(&desc->attr)] = ronde__weight_layout_make(RONDE__PLAIN, 3 * h, 1, 1, 1, 1);
}

/* Sizes of whole panels. */
static bool takes_bf16(const ronde__op_desc *desc) {
  const ronde__bf16 *bf16 = desc->compute.bf16;
  return bf16 && desc->in[0].w % RONDE__BF16_PANEL == 0 && desc->attr.out_channels % RONDE__BF16_PANEL == 0;
}

static ronde_status prepare_bf16(const ronde__op_desc *desc, void **state_out) {
  return ronde__recurrent_prepare(desc, &ronde__recurrent_bf16, state_out);
}

static ronde_status prepare_f32(const ronde__op_desc *desc, void **state_out) {
  return ronde__recurrent_prepare(desc, &ronde__recurrent_f32, state_out);
}

#define RECURRENT_FORM                                                                                             \
  .release = ronde__recurrent_release, .work_elems = ronde__recurrent_work, .saved_elems = ronde__recurrent_saved, \
  .forward = ronde__recurrent_forward, .backward = ronde__recurrent_backward,                                      \
  .implementation = ronde__recurrent_implementation, .executed_flops = ronde__recurrent_executed_flops,            \
  .gives_pieces = true

static const ronde__form bf16_form = {.name = "bf16", .takes = takes_bf16, .prepare = prepare_bf16, RECURRENT_FORM};
static const ronde__form f32_form = {.prepare = prepare_f32, RECURRENT_FORM};

#define RECURRENT_OP(label)                                                                            \
  {                                                                                                    \
    .name = label, .outputs = recurrent_outputs, .infer = recurrent_infer, .params = recurrent_params, \
    .flops = recurrent_flops, .layouts = recurrent_layouts, .backward_reads = {.in = 15, .out = 1},    \
    .forms = (const ronde__form *const[]) {                                                            \
      &bf16_form, &f32_form, NULL                                                                      \
    }                                                                                                  \
  }

const ronde__op ronde__op_lstm = RECURRENT_OP("lstm");
const ronde__op ronde__op_gru = RECURRENT_OP("gru");
const ronde__op ronde__op_rnn = RECURRENT_OP("rnn");

/* Scaled dot-product attention of several heads, y = softmax(q kT / sqrt(D)) v: its shapes. Inputs: query, key and value, or one with
 * all three side by side [T][3F]; then perhaps lengths, how many keys of an example are there. */
#include "ops/attention.h"

enum { KEY = RONDE__KEY, VALUE = RONDE__VALUE };

static int64_t features_of(const ronde__op_attr *attr, const ronde__shape *in) {
  return ronde__attention_is_packed(attr) ? in[0].dim[1] / 3 : in[0].dim[1];
}

static ronde_status check_inputs(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                 const char *const *in_labels) {
  int n = attr->n_inputs - attr->lengths;
  char text[96];
  for (int i = 0; i < n; i++) {
    bool fits = in[i].rank == 2 && in[i].dim[1] == in[0].dim[1] && (i < VALUE || in[i].dim[0] == in[KEY].dim[0]);
    if (fits && (n == 3 || in[0].dim[1] % 3 == 0)) continue;
    ronde__shape_text(&in[i], text, sizeof text);
    return ronde__fail(
        RONDE_E_USAGE, "%s: %s is needed, but %s gives %s", label,
        n == 3 ? "a query [T,F], and a key and a value [S,F]" : "query, key and value side by side [T,3F]",
        in_labels[i], text);
  }
  if (!attr->lengths || (in[n].rank == 1 && in[n].dim[0] == 1)) return RONDE_OK;
  ronde__shape_text(&in[n], text, sizeof text);
  return ronde__fail(RONDE_E_USAGE, "%s: lengths are one number an example, but %s gives %s", label, in_labels[n],
                     text);
}

static ronde_status attention_infer(const ronde__op_attr *attr, const char *label, const ronde__shape *in,
                                    const char *const *in_labels, ronde__shape *out) {
  RONDE_TRY(check_inputs(attr, label, in, in_labels));
  int64_t features = features_of(attr, in);
  if (attr->heads < 1 || features % attr->heads)
    return ronde__fail(RONDE_E_USAGE, "%s: %d heads cannot share %lld features", label, attr->heads,
                       (long long)features);
  *out = (ronde__shape){2, {in[0].dim[0], features}};
  return RONDE_OK;
}

static int64_t attention_flops(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  int64_t keys = ronde__attention_is_packed(attr) ? in[0].dim[0] : in[KEY].dim[0];
  return 4 * out->dim[0] * keys * out->dim[1];
}

/* Whether the features of every head are a part of one block, in inputs and output. */
static bool heads_fit(const ronde__op_attr *attr, const ronde__shape *in, const ronde__shape *out) {
  int64_t d = out->dim[1] / attr->heads;
  return ronde__channel_block(in[0].dim[1]) % d == 0 && ronde__channel_block(out->dim[1]) % d == 0;
}

/* BLOCKS, as linear layers take and give them, where one of the inputs is. */
static void attention_layouts(ronde__op_desc *desc, const ronde__shape *in, const ronde__shape *out) {
  int n_operands = desc->attr.n_inputs - desc->attr.lengths;
  int64_t n = desc->in[0].n / ronde__phys_rows(&desc->in[0], &in[0]);
  bool by_blocks = false;
  for (int i = 0; i < n_operands; i++) by_blocks |= desc->in[i].layout == RONDE__BLOCKS;
  by_blocks &= heads_fit(&desc->attr, in, out);
  for (int i = 0; i < desc->attr.n_inputs; i++) desc->in[i] = ronde__phys_of_shape(&in[i], n);
  desc->out[0] = ronde__phys_of_shape(out, n);
  desc->rows = out->dim[0];
  if (!by_blocks) return;
  for (int i = 0; i < n_operands; i++)
    desc->in[i] = ronde__phys_make(RONDE__BLOCKS, n * in[i].dim[0], in[i].dim[1], 1, 1);
  desc->out[0] = ronde__phys_make(RONDE__BLOCKS, n * out->dim[0], out->dim[1], 1, 1);
}

const ronde__op ronde__op_attention = {
    .name = "attention",
    .infer = attention_infer,
    .flops = attention_flops,
    .layouts = attention_layouts,
    .takes_rows = true,
    .backward_reads = {.in = 15, .out = 1},
    .forms = (const ronde__form *const[]){&ronde__attention_bf16, &ronde__attention_f32, NULL},
};

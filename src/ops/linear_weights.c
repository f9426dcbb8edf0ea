/* The gradients of a split linear layer's weight and bias, where its examples come in turns: steps of their own make the
 * outputs and the input's gradient of each turn, and this one, behind all of them in backward, takes the rows of all
 * turns together. So the weight's gradient is one product, which may be used up tile by tile, and what the turns have begun
 * to send is on its way meanwhile. Input and gradient lie turn behind turn; their rows are joined in scratch, which is
 * little beside the weights. There is no forward. */
#include "ops/linear.h"
#include "ops/shares.h"

/* The layer of all rows, without an input's gradient or an activation, which the turns' steps have seen to. */
typedef struct linear_weights_state {
  ronde__op_desc layer;
  void *state;
} linear_weights_state;

static ronde_status linear_weights_prepare(const ronde__op_desc *desc, void **state_out) {
  linear_weights_state *s;
  RONDE__ALLOC(s, sizeof *s, "split layer");
  s->layer = *desc;
  ronde_status status = ronde__form_choose(ronde__ops[RONDE__OP_LINEAR], &s->layer);
  if (status == RONDE_OK) status = s->layer.form->prepare(&s->layer, &s->state);
  if (status != RONDE_OK) ronde__free(s);
  else *state_out = s;
  return status;
}

static void linear_weights_release(const ronde__op_desc *desc, void *opaque) {
  linear_weights_state *s = opaque;
  if (!s) return;
  s->layer.form->release(&s->layer, s->state);
  ronde__free(s);
}

static int64_t linear_weights_joined(const ronde__op_desc *desc) {
  return ronde__phys_elems(&desc->in[0]) + ronde__phys_elems(&desc->out[0]);
}

static size_t linear_weights_work(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const linear_weights_state *s = opaque;
  if (!backward) return 0;
  return (size_t)linear_weights_joined(desc) + s->layer.form->work_elems(&s->layer, s->state, true);
}

static void linear_weights_join(const ronde__op_desc *desc, const ronde__phys *x, const float *turns, float *joined) {
  ronde__rows rows = ronde__rows_of(x);
  ronde__turn turn = desc->turn;
  int64_t before = 0;
  for (turn.number = 0; turn.number < ronde__n_turns(turn.peers); turn.number++) {
    int64_t n = ronde__turn_rows(&turn);
    ronde__row_copy copy = {turns + rows.outer * before * rows.inner, joined, n, 0, x->n, before, n};
    ronde__rows_copy(desc, rows, &copy, false);
    before += n;
  }
}

static ronde_status linear_weights_backward(const ronde__op_desc *desc, const void *opaque,
                                            const ronde__op_call *call) {
  const linear_weights_state *s = opaque;
  ronde__op_call of_layer = *call;
  float *x = call->work, *dy = x + ronde__phys_elems(&desc->in[0]);
  linear_weights_join(desc, &desc->in[0], call->in[0], x);
  linear_weights_join(desc, &desc->out[0], call->dout[0], dy);
  of_layer.in[0] = x;
  of_layer.dout[0] = dy;
  of_layer.work = dy + ronde__phys_elems(&desc->out[0]);
  return s->layer.form->backward(&s->layer, s->state, &of_layer);
}

static const char *linear_weights_implementation(const ronde__op_desc *desc, const void *opaque) {
  const linear_weights_state *s = opaque;
  return s->layer.form->implementation(&s->layer, s->state);
}

static double linear_weights_flops(const ronde__op_desc *desc, const void *opaque, bool backward) {
  const linear_weights_state *s = opaque;
  return backward ? s->layer.form->executed_flops(&s->layer, s->state, true) : 0;
}

static const ronde__form linear_weights_form = {
    .prepare = linear_weights_prepare,
    .release = linear_weights_release,
    .work_elems = linear_weights_work,
    .backward = linear_weights_backward,
    .gives_pieces = true,
    .implementation = linear_weights_implementation,
    .executed_flops = linear_weights_flops,
};

const ronde__op ronde__op_linear_weights = {
    .name = "linear weights",
    .backward_reads = {.in = 1},
    .forms = (const ronde__form *const[]){&ronde__linear_none, &linear_weights_form, NULL},
};

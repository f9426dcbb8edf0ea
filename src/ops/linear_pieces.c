/* What the forms of a fully connected layer share. */
#include "ops/linear.h"

void ronde__linear_backward_pieces(const ronde__op_desc *desc, const void *state, const ronde__op_call *call,
                                   int64_t piece, void (*part)(void *piece, int thread, int n_threads)) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  int64_t slab = ronde__linear_slab(desc);
  if (desc->attr.bias) ronde__op_gradient_final(call, 1, 0, (size_t)ronde__weight_elems(&desc->param[1]));
  for (int64_t end = ronde__phys_blocks(&desc->out[0]); end > 0; end = j.ob0) {
    j.ob0 = (end - 1) / piece * piece;
    j.n_obs = end - j.ob0;
    ronde__pool_run(call->pool, part, &j);
    if (!desc->in_pieces) ronde__op_gradient_final(call, 0, (size_t)(j.ob0 * slab), (size_t)(end * slab));
  }
}

double ronde__linear_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  double once = 2 * (double)(desc->in[0].n * desc->in[0].c * desc->in[0].h * desc->in[0].w * desc->out[0].c);
  return backward ? once * (desc->need_dinput[0] + !desc->frozen[0]) : once;
}

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

ronde__ahead ronde__linear_tile_ahead(const ronde__linear_piece *j, ronde__linear_tile tile) {
  ronde__ahead ahead = {.bytes = ronde__linear_tile_elems(j->desc) * (int64_t)sizeof(float)};
  if (j->desc->in_pieces) ahead.n = ronde__op_gradient_touches(j->call, 0, (size_t)tile.place, ahead.at);
  else ahead.at[ahead.n++] = j->call->dparam[0] + tile.place;
  return ahead;
}

void ronde__linear_hand_on(const ronde__linear_piece *j, int64_t place, int64_t n, const float *dw, bool fetched) {
  size_t begin = (size_t)place, end = begin + (size_t)n;
  j->call->listener.final(j->call->listener.user, &(ronde__gradient){0, begin, end, dw, true, fetched, NULL});
}

ronde__ahead ronde__linear_tiles_ahead(const ronde__linear_piece *j, int64_t ob0, int64_t n, int64_t term) {
  int64_t slab = ronde__linear_slab(j->desc), tile = ronde__linear_tile_elems(j->desc);
  const int64_t size = sizeof(float);
  return (ronde__ahead){.at = {j->call->param[0] + ob0 * slab + term * tile},
                        .n = n > 0,
                        .bytes = tile * size,
                        .rows = n,
                        .apart = slab * size};
}

void ronde__linear_turn(const ronde__linear_piece *j, int64_t ob0, int64_t n, int64_t term, float *turned) {
  int64_t bi = j->desc->in[0].block, bo = j->desc->out[0].block;
  const float *w = j->call->param[0] + ob0 * ronde__linear_slab(j->desc) + term * bi * bo;
  for (int64_t i = 0; i < n; i++, w += ronde__linear_slab(j->desc), turned += bi * bo)
    j->desc->compute.kernels->transpose(w, bo, bi, bo, turned, bi);
}

double ronde__linear_executed_flops(const ronde__op_desc *desc, const void *state, bool backward) {
  double once = 2 * (double)(desc->in[0].n * desc->in[0].c * desc->in[0].h * desc->in[0].w * desc->out[0].c);
  return backward ? once * (desc->need_dinput[0] + !desc->frozen[0]) : once;
}

static void fill_terms(const ronde__phys *x, int64_t x_term, int64_t w_term, ronde__gemm_list *list) {
  for (int64_t i = 0; i < list->count; i++) {
    int64_t x_at = x->layout == RONDE__BLOCKS ? ronde__linear_term_at(x, i) : i * x_term;
    list->a[i] = (uint64_t)x_at * sizeof(float);
    list->b[i] = (uint64_t)(i * w_term) * sizeof(float);
  }
}

static void fill_outputs(const ronde__phys *x, int64_t bo, ronde__gemm_list *list) {
  int64_t a_block = (x->layout == RONDE__LANES ? x->c * x->h * x->w : x->n) * bo;
  for (int64_t ob = 0; ob < list->count; ob++) {
    list->a[ob] = (uint64_t)(ob * a_block) * sizeof(float);
    list->b[ob] = (uint64_t)(ob * bo * x->block) * sizeof(float);
  }
}

ronde_status ronde__linear_lists_create(const ronde__op_desc *desc, int64_t n_terms, int64_t x_term, int64_t w_term,
                                        ronde__linear_lists *lists_out) {
  ronde__linear_lists lists = {0};
  RONDE_TRY(ronde__gemm_list_create(n_terms, &lists.terms));
  ronde_status status = ronde__gemm_list_create(ronde__phys_blocks(&desc->out[0]), &lists.outputs);
  if (status) {
    ronde__linear_lists_destroy(&lists);
    return status;
  }
  fill_terms(&desc->in[0], x_term, w_term, &lists.terms);
  fill_outputs(&desc->in[0], desc->out[0].block, &lists.outputs);
  *lists_out = lists;
  return RONDE_OK;
}

void ronde__linear_lists_destroy(ronde__linear_lists *lists) {
  ronde__gemm_list_destroy(&lists->terms);
  ronde__gemm_list_destroy(&lists->outputs);
}

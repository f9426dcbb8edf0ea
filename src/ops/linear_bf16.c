/* Fully connected layer from BLOCKS with operands of bfloat16 and sums of f32. The weights, of which each is used once in
 * a pass for each example, are packed a few tiles at a time, in cache, right before they are multiplied; the activations
 * and their gradients once a call, or not at all: those of bfloat16 are rows as they lie, and what is computed is rounded
 * while it is in cache. Legend: as in linear.c; K the examples, as a reduction. */
#include "kernel/bf16.h"
#include "ops/linear.h"
#include "ops/widen.h"

/* About so much of a reduction is packed and multiplied at once; and of what is rounded so many rows, which stay in cache.
 * Fewer rows than MANY do not pay for packing the weights, unless by tiles. */
enum { STRIP = 512, ROWS_AT_ONCE = 2048, MANY = 24 };

typedef struct linear_bf16_state {
  int64_t terms, k;                 /* k: K, rounded up to what a product takes */
  int64_t piece, n_pieces;          /* the batch in pieces of rows, one a thread where there are few output blocks */
  ronde__gemm_list forward, data;   /* of a strip: x from its first term on, panels; dy, transposed panels */
  ronde__gemm_pair forward_rows[2]; /* [last piece] */
  ronde__gemm_pair data_rows[2];    /* the same of the data gradient */
  ronde__gemm_pair weight;
  int64_t data_piece; /* its rows at once */
} linear_bf16_state;

static void linear_bf16_release(const ronde__op_desc *desc, void *opaque) {
  linear_bf16_state *s = opaque;
  if (!s) return;
  ronde__gemm_list_destroy(&s->forward);
  ronde__gemm_list_destroy(&s->data);
  ronde__free(s);
}

/* Terms, or output blocks, in a strip. */
static int64_t strip_of(int64_t count, int64_t block) { return ronde__min(count, ronde__max(1, STRIP / block)); }

static ronde_status linear_bf16_make_lists(const ronde__op_desc *desc, linear_bf16_state *s) {
  const ronde__phys *x = &desc->in[0];
  int64_t out_blocks = ronde__phys_blocks(&desc->out[0]), bo = desc->out[0].block,
          n_strip = strip_of(s->terms, x->block);
  RONDE_TRY(ronde__gemm_list_create(s->terms, &s->forward));
  RONDE_TRY(ronde__gemm_list_create(out_blocks, &s->data));
  for (int64_t i = 0; i < s->terms; i++) {
    s->forward.a[i] = (uint64_t)ronde__linear_term_at(x, i) * sizeof(uint16_t);
    s->forward.b[i] = (uint64_t)(i % n_strip * x->block * bo) * sizeof(uint16_t);
  }
  for (int64_t i = 0; i < out_blocks; i++) {
    s->data.a[i] = (uint64_t)(i * x->n * bo) * sizeof(uint16_t);
    s->data.b[i] = (uint64_t)(i * x->block * bo) * sizeof(uint16_t);
  }
  return RONDE_OK;
}

/* Rows of the last of the pieces that n are cut into, or of another one. */
static int rows_of(int64_t n, int64_t piece, bool last) { return (int)(last ? (n - 1) % piece + 1 : piece); }

/* Whether an input's gradient of bfloat16 is a sum over one strip of output blocks, and rounded as soon as it is made; else
 * the strips add to one of f32. */
static bool rounds_at_once(const ronde__op_desc *desc) {
  int64_t out_blocks = ronde__phys_blocks(&desc->out[0]);
  return desc->in[0].bf16 && strip_of(out_blocks, desc->out[0].block) == out_blocks;
}

static ronde_status linear_bf16_prepare(const ronde__op_desc *desc, void **state_out) {
  const ronde__phys *x = &desc->in[0];
  int64_t bi = x->block, bo = desc->out[0].block;
  linear_bf16_state *s;
  RONDE__ALLOC(s, sizeof *s, "linear layer plan");
  s->terms = ronde__linear_n_terms(x);
  s->k = ronde__round_up(x->n, RONDE__BF16_STEP);
  s->piece = ronde__phys_blocks(&desc->out[0]) >= desc->threads ? x->n : ronde__ceil_div(x->n, desc->threads);
  if (desc->out[0].bf16) s->piece = ronde__min(s->piece, ROWS_AT_ONCE);
  s->n_pieces = ronde__ceil_div(x->n, s->piece);
  s->data_piece = rounds_at_once(desc) ? ronde__min(x->n, ROWS_AT_ONCE) : x->n;
  ronde_status status = linear_bf16_make_lists(desc, s);
  if (status != RONDE_OK) {
    linear_bf16_release(desc, s);
    return status;
  }
  ronde__gemm_shape forward = {.n = (int)bo, .k = (int)bi, .lda = bi, .ldb = bi, .ldc = bo, .operands = RONDE__OF_BF16};
  for (int last = 0; last < 2; last++) {
    forward.m = rows_of(x->n, s->piece, last);
    s->forward_rows[last] = ronde__gemm_pair_resolve(desc, forward);
  }
  ronde__gemm_shape data = {.n = (int)bi, .k = (int)bo, .lda = bo, .ldb = bo, .ldc = bi, .operands = RONDE__OF_BF16};
  for (int last = 0; last < 2; last++) {
    data.m = rows_of(x->n, s->data_piece, last);
    s->data_rows[last] = ronde__gemm_pair_resolve(desc, data);
  }
  ronde__gemm_shape weight = {.m = (int)bi,
                              .n = (int)bo,
                              .k = (int)(desc->compute.bf16->is_tiles ? s->k : ronde__round_up(x->n, 2)),
                              .lda = s->k,
                              .ldb = s->k,
                              .ldc = bo,
                              .operands = RONDE__OF_BF16_TILES};
  s->weight = ronde__gemm_pair_resolve(desc, weight);
  *state_out = s;
  return RONDE_OK;
}

/* ---- scratch ---- */

/* Elements of the packed operands, which all threads share: forward the input's rows; backward the input transposed,
 * tiles of [term][bi][k], and the output's gradient as panels [Ob][k][bo] and as rows. And floats of the input's gradient, where
 * strips add to it and it is bfloat16. */
typedef struct packed {
  int64_t input, panels, rows;
  int64_t dx;
} packed;

static packed packed_sizes(const ronde__op_desc *desc, const linear_bf16_state *s, bool backward) {
  const ronde__phys *x = &desc->in[0], *y = &desc->out[0];
  if (!backward) return (packed){.input = x->bf16 ? 0 : ronde__phys_elems(x)};
  bool learns = !desc->frozen[0], passes = desc->need_dinput[0];
  return (packed){.input = learns ? s->terms * x->block * s->k : 0,
                  .panels = learns ? ronde__phys_blocks(y) * s->k * y->block : 0,
                  .rows = passes && !y->bf16 ? ronde__phys_elems(y) : 0,
                  .dx = passes && x->bf16 && !rounds_at_once(desc) ? ronde__phys_elems(x) : 0};
}

/* Of a thread: a strip of weights; and, in floats, a tile of the weight's gradient, and the rows that are rounded. */
static int64_t strip_elems(const ronde__op_desc *desc, const linear_bf16_state *s, bool backward) {
  int64_t bi = desc->in[0].block, bo = desc->out[0].block;
  int64_t n = backward ? strip_of(s->data.count, bo) : strip_of(s->terms, bi);
  return backward && !desc->need_dinput[0] ? 0 : n * bi * bo;
}

static int64_t tile_elems(const ronde__op_desc *desc, bool backward) {
  return backward && desc->in_pieces ? desc->in[0].block * desc->out[0].block : 0;
}

static int64_t sum_elems(const ronde__op_desc *desc, const linear_bf16_state *s, bool backward) {
  if (!backward) return desc->out[0].bf16 ? s->piece * desc->out[0].block : 0;
  return desc->need_dinput[0] && rounds_at_once(desc) ? s->data_piece * desc->in[0].block : 0;
}

static int64_t own_elems(const ronde__op_desc *desc, const linear_bf16_state *s, bool backward) {
  return strip_elems(desc, s, backward) / 2 + tile_elems(desc, backward) + sum_elems(desc, s, backward);
}

static size_t linear_bf16_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  packed p = packed_sizes(desc, state, backward);
  int64_t own = own_elems(desc, state, backward);
  return (size_t)(desc->threads * own + p.dx + ronde__ceil_div(p.input + p.panels + p.rows, 2));
}

typedef struct scratch {
  float *tile, *sums, *dx;
  uint16_t *strip, *input, *panels, *rows;
} scratch;

static scratch scratch_of(const ronde__linear_piece *j, int thread, bool backward) {
  packed p = packed_sizes(j->desc, j->state, backward);
  int64_t own = own_elems(j->desc, j->state, backward);
  scratch to = {.tile = j->call->work + thread * own};
  to.sums = to.tile + tile_elems(j->desc, backward);
  to.strip = (uint16_t *)(to.sums + sum_elems(j->desc, j->state, backward));
  to.dx = j->call->work + j->desc->threads * own;
  to.input = (uint16_t *)(to.dx + p.dx);
  to.panels = to.input + p.input;
  to.rows = to.panels + p.panels;
  return to;
}

/* ---- forward ---- */

static void linear_bf16_pack_input_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  int64_t begin, end, block = RONDE__QUANTUM;
  ronde__thread_chunk(ronde__phys_elems(&j->desc->in[0]) / block, thread, n_threads, &begin, &end);
  j->desc->compute.bf16->pack(j->call->in[0] + begin * block, (end - begin) * block,
                              scratch_of(j, 0, false).input + begin * block);
}

/* The strip of an item's weights that begins with `term`; past its last one the first of the next item before `end`. */
static ronde__ahead strip_ahead(const ronde__linear_piece *j, int64_t item, int64_t term, int64_t end) {
  const linear_bf16_state *s = j->state;
  const int64_t tile = ronde__linear_tile_elems(j->desc);
  if (term == s->terms) item++, term = 0;
  int64_t n_strip = ronde__min(strip_of(s->terms, j->desc->in[0].block), s->terms - term);
  return (ronde__ahead){.at = {j->call->param[0] + item / s->n_pieces * ronde__linear_slab(j->desc) + term * tile},
                        .n = item < end,
                        .bytes = n_strip * tile * (int64_t)sizeof(float)};
}

static void linear_bf16_forward_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_bf16_state *s = j->state;
  const ronde__op_desc *desc = j->desc;
  const ronde__phys *out = &desc->out[0];
  scratch to = scratch_of(j, thread, false);
  const uint16_t *x = desc->in[0].bf16 ? (const uint16_t *)j->call->in[0] : to.input;
  int64_t bi = desc->in[0].block, bo = out->block, n_strip = strip_of(s->terms, bi), begin, end;
  ronde__thread_chunk(ronde__phys_blocks(&desc->out[0]) * s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item / s->n_pieces, row0 = item % s->n_pieces * s->piece;
    const ronde__gemm_pair *pair = &s->forward_rows[item % s->n_pieces == s->n_pieces - 1];
    const float *w = j->call->param[0] + ob * ronde__linear_slab(desc);
    int64_t at = (ob * out->n + row0) * bo;
    float *y = ronde__operand_room(out, j->call->out[0], at, to.sums);
    for (int64_t term = 0; term < s->terms; term += n_strip) {
      int64_t n = ronde__min(n_strip, s->terms - term);
      ronde__ahead next = strip_ahead(j, item, term + n, end);
      for (int64_t i = 0; i < n; i++)
        desc->compute.bf16->pack_panels(w + (term + i) * bi * bo, bo, bi, bo, bi, to.strip + i * bi * bo, bi);
      ronde__gemm_run_ahead(term ? &pair->add : &pair->set, x + row0 * bi, s->forward.a + term, to.strip,
                            s->forward.b + term, n, y, &next);
    }
    ronde__fused_bias_act(desc, j->call, ob, y, pair->set.shape.m);
    ronde__narrow(desc, out, y, pair->set.shape.m * bo, j->call->out[0], at);
  }
}

static ronde_status linear_bf16_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  if (!desc->in[0].bf16) ronde__pool_run(call->pool, linear_bf16_pack_input_part, &j);
  ronde__pool_run(call->pool, linear_bf16_forward_part, &j);
  return RONDE_OK;
}

/* ---- backward ---- */

static void linear_bf16_pack_transposed_input_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_bf16_state *s = j->state;
  const ronde__phys *x = &j->desc->in[0];
  scratch to = scratch_of(j, 0, true);
  int64_t begin, end;
  ronde__thread_chunk(s->terms, thread, n_threads, &begin, &end);
  for (int64_t term = begin; term < end; term++)
    ronde__operand_transposed(j->desc, x, j->call->in[0], ronde__linear_term_at(x, term), x->block, x->n, x->block,
                              to.input + term * x->block * s->k, s->k);
}

/* And the bias gradient, of a block at a time, while it is in cache. */
static void linear_bf16_pack_gradient_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_bf16_state *s = j->state;
  const ronde__phys *y = &j->desc->out[0];
  scratch to = scratch_of(j, 0, true);
  int64_t begin, end, size = y->n * y->block;
  ronde__thread_chunk(ronde__phys_blocks(y), thread, n_threads, &begin, &end);
  for (int64_t ob = begin; ob < end; ob++) {
    const float *dy = j->call->dout[0];
    if (j->desc->attr.bias && j->call->dparam[1]) ronde__bias_gradient_of_block(j->desc, j->call, ob);
    if (j->desc->need_dinput[0] && !y->bf16) j->desc->compute.bf16->pack(dy + ob * size, size, to.rows + ob * size);
    if (!j->desc->frozen[0])
      ronde__operand_panels(j->desc, y, dy, ob * size, y->block, y->n, y->block, s->k, to.panels + ob * s->k * y->block,
                            s->k);
  }
}

/* dx [rows][bi] (+)= the sums over a strip of output blocks, of rows from row0 on. */
static void linear_bf16_data_rows(const ronde__linear_piece *j, const ronde__gemm_pair *pair, int64_t row0, bool add,
                                  const scratch *to, float *dx, ronde__ahead *next) {
  const linear_bf16_state *s = j->state;
  const ronde__phys *y = &j->desc->out[0];
  const uint16_t *rows = y->bf16 ? (const uint16_t *)j->call->dout[0] : to->rows;
  ronde__gemm_run_ahead(add ? &pair->add : &pair->set, rows + row0 * y->block, s->data.a + j->ob0, to->strip, s->data.b,
                        j->n_obs, dx, next);
}

/* A piece of dX of a term's channel block, which is the sum over output blocks of dY W^T. */
static void linear_bf16_data_piece(const ronde__linear_piece *j, int64_t term, const scratch *to, ronde__ahead *next) {
  const linear_bf16_state *s = j->state;
  const ronde__op_desc *desc = j->desc;
  const ronde__phys *x = &desc->in[0];
  float *din = j->call->din[0];
  int64_t bi = x->block, bo = desc->out[0].block, at = ronde__linear_term_at(x, term), elems = x->n * bi;
  bool accumulate = j->call->accumulate_dinput[0], is_first = j->ob0 + j->n_obs == s->data.count;
  for (int64_t i = 0; i < j->n_obs; i++)
    desc->compute.bf16->pack_transposed_panels(
        j->call->param[0] + (j->ob0 + i) * ronde__linear_slab(desc) + term * bi * bo, bo, bi, bo,
        to->strip + i * bi * bo);
  if (!rounds_at_once(desc)) {
    float *dx = ronde__operand_room(x, din, at, to->dx + at);
    if (is_first && accumulate) ronde__widen(desc, x, din, at, elems, dx);
    linear_bf16_data_rows(j, &s->data_rows[0], 0, accumulate || !is_first, to, dx, next);
    if (j->ob0 == 0) ronde__narrow(desc, x, dx, elems, din, at);
    return;
  }
  for (int64_t row = 0; row < x->n; row += s->data_piece) {
    const ronde__gemm_pair *pair = &s->data_rows[row + s->data_piece >= x->n];
    int64_t n = pair->set.shape.m * bi;
    if (accumulate) ronde__widen(desc, x, din, at + row * bi, n, to->sums);
    linear_bf16_data_rows(j, pair, row, accumulate, to, to->sums, next);
    ronde__narrow(desc, x, to->sums, n, din, at + row * bi);
  }
}

/* dW of tile i, X_term^T dY. The product fetches what the update of the next tile, which is before `end`, goes through, or
 * where its gradient goes. Where products fetch nothing, it is handed on by a few rows, and the weights of the next term are
 * fetched beside each. */
static void linear_bf16_weight_tile(const ronde__linear_piece *j, int64_t i, int64_t end, const scratch *to) {
  const linear_bf16_state *s = j->state;
  const ronde__op_call *call = j->call;
  const ronde__linear_tile of = ronde__linear_tile_of(j, i);
  const int64_t bi = j->desc->in[0].block, bo = j->desc->out[0].block, elems = bi * bo,
                some = RONDE__LINEAR_FETCHED * bo;
  float *dw = j->desc->in_pieces ? to->tile : call->dparam[0] + of.place;
  ronde__ahead ahead = {0};
  uint64_t zero = 0;
  if (i + 1 < end) ahead = ronde__linear_tile_ahead(j, ronde__linear_tile_of(j, i + 1));
  ronde__gemm_run_ahead(call->accumulate_dparam[0] ? &s->weight.add : &s->weight.set, to->input + of.term * bi * s->k,
                        &zero, to->panels + of.ob * s->k * bo, &zero, 1, dw, &ahead);
  if (ronde__ahead_has_begun(&ahead)) {
    if (j->desc->in_pieces) ronde__linear_hand_on(j, of.place, elems, dw, true);
    return;
  }
  const float *weights = call->param[0] + ronde__linear_tile_of(j, i + j->n_obs < end ? i + j->n_obs : i).place;
  for (int64_t at = 0; at < elems; at += some) {
    ronde__linear_fetch(weights + at, some);
    if (j->desc->in_pieces) ronde__linear_hand_on(j, of.place + at, some, dw + at, false);
  }
}

/* Both gradients of the piece in one pass over its weights, while a term's tiles are in cache. */
static void linear_bf16_backward_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_bf16_state *s = j->state;
  scratch to = scratch_of(j, thread, true);
  int64_t begin, end;
  ronde__thread_chunk(s->terms, thread, n_threads, &begin, &end);
  for (int64_t term = begin; term < end; term++) {
    ronde__ahead next = ronde__linear_tiles_ahead(j, j->ob0, j->n_obs, ronde__min(term + 1, end - 1));
    if (j->call->din[0]) linear_bf16_data_piece(j, term, &to, &next);
    for (int64_t i = term * j->n_obs; i < (term + 1) * j->n_obs && !j->desc->frozen[0]; i++)
      linear_bf16_weight_tile(j, i, end * j->n_obs, &to);
  }
}

static ronde_status linear_bf16_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  const linear_bf16_state *s = state;
  ronde__fused_act_backward(desc, call);
  if (!desc->frozen[0]) ronde__pool_run(call->pool, linear_bf16_pack_transposed_input_part, &j);
  ronde__pool_run(call->pool, linear_bf16_pack_gradient_part, &j);
  ronde__linear_backward_pieces(desc, state, call, strip_of(s->data.count, desc->out[0].block),
                                linear_bf16_backward_part);
  return RONDE_OK;
}

static const char *linear_bf16_implementation(const ronde__op_desc *desc, const void *state) {
  return desc->compute.bf16->name;
}

static bool linear_bf16_takes(const ronde__op_desc *desc) {
  const ronde__bf16 *bf16 = desc->compute.bf16;
  return bf16 && desc->in[0].layout == RONDE__BLOCKS && (bf16->is_tiles || desc->in[0].n >= MANY);
}

const ronde__form ronde__linear_bf16 = {
    .name = "bf16",
    .takes = linear_bf16_takes,
    .prepare = linear_bf16_prepare,
    .release = linear_bf16_release,
    .work_elems = linear_bf16_work_elems,
    .bf16 = {.in = 1, .out = 1},
    .multiplies_bf16 = true,
    .gives_pieces = true,
    .forward = linear_bf16_forward,
    .backward = linear_bf16_backward,
    .implementation = linear_bf16_implementation,
    .executed_flops = ronde__linear_executed_flops,
};

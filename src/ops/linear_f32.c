/* Fully connected layer in f32, from any layout. Legend: N batch; C channels and P pixels of the input (F = C*P features);
 * O outputs, in blocks of bo; bi channels per input block. */
#include "ops/linear.h"

/* The input as GEMM operands: terms of k features each, the last one of ROWS and LANES shorter. */
typedef struct linear_f32_state {
  int64_t terms, k, tail; /* tail: features of one more, shorter term; 0: none */
  int64_t x_term, w_term; /* elements between terms, input and weight */
  int64_t x_ld;
  ronde__linear_lists lists;
  int n_pieces; /* the batch in pieces of rows, one a thread */
  int64_t piece;
  ronde__gemm_pair forward[2][2]; /* [last piece][tail] */
  ronde__gemm_pair data[2];       /* BLOCKS: a piece's rows; LANES: [tail] features */
  ronde__gemm_pair weight[2];     /* BLOCKS: RONDE__LINEAR_FETCHED rows of a tile; else [tail] */
} linear_f32_state;

static void linear_f32_make_kernels(const ronde__op_desc *desc, linear_f32_state *s) {
  const ronde__phys *x = &desc->in[0];
  int bo = (int)desc->out[0].block, n = (int)x->n;
  bool lanes = x->layout == RONDE__LANES;
  for (int tail = 0; tail < 2; tail++) {
    int k = (int)(tail ? s->tail : s->k), tile_rows = x->layout == RONDE__BLOCKS ? RONDE__LINEAR_FETCHED : k;
    if (k == 0) continue;
    for (int last = 0; last < 2; last++) {
      int rows = (int)(last ? n - (s->n_pieces - 1) * s->piece : s->piece);
      s->forward[last][tail] =
          ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){rows, bo, k, s->x_ld, bo, bo, lanes, false, false});
    }
    s->weight[tail] =
        ronde__gemm_pair_resolve(desc, (ronde__gemm_shape){tile_rows, bo, n, s->x_ld, bo, bo, !lanes, false, false});
    if (lanes && desc->need_dinput[0])
      s->data[tail] = ronde__gemm_pair_resolve(
          desc, (ronde__gemm_shape){k, (int)x->block, bo, bo, x->block, x->block, false, false, false});
  }
  if (x->layout == RONDE__BLOCKS && desc->need_dinput[0])
    s->data[0] = ronde__gemm_pair_resolve(
        desc, (ronde__gemm_shape){n, (int)x->block, bo, bo, x->block, x->block, false, false, false});
}

static void linear_f32_release(const ronde__op_desc *desc, void *opaque) {
  linear_f32_state *s = opaque;
  if (!s) return;
  ronde__linear_lists_destroy(&s->lists);
  ronde__free(s);
}

static ronde_status linear_f32_prepare(const ronde__op_desc *desc, void **state_out) {
  enum { K = 256 };
  const ronde__phys *x = &desc->in[0];
  int64_t features = x->c * x->h * x->w, bo = desc->out[0].block;
  linear_f32_state *s;
  RONDE__ALLOC(s, sizeof *s, "linear layer plan");
  s->k = x->layout == RONDE__BLOCKS ? x->block : ronde__min(K, features);
  s->terms = x->layout == RONDE__BLOCKS ? ronde__linear_n_terms(x) : features / s->k;
  s->tail = x->layout == RONDE__BLOCKS ? 0 : features % s->k;
  s->x_ld = x->layout == RONDE__ROWS ? features : x->block;
  s->x_term = x->layout == RONDE__BLOCKS ? x->n * x->block : x->layout == RONDE__LANES ? s->k * x->block : s->k;
  s->w_term = s->k * bo;
  s->piece = ronde__ceil_div(x->n, desc->threads);
  s->n_pieces = (int)ronde__ceil_div(x->n, s->piece);
  ronde_status status = ronde__linear_lists_create(desc, s->terms, s->x_term, s->w_term, &s->lists);
  if (status != RONDE_OK) {
    ronde__free(s);
    return status;
  }
  linear_f32_make_kernels(desc, s);
  *state_out = s;
  return RONDE_OK;
}

/* Output blocks that backward goes through together: all of few, else about 512 outputs. */
static int64_t linear_f32_together(const ronde__op_desc *desc) {
  enum { TOGETHER = 512 };
  int64_t blocks = ronde__phys_blocks(&desc->out[0]), bo = desc->out[0].block;
  return blocks * bo <= 2 * TOGETHER ? blocks : TOGETHER / bo;
}

/* Scratch of a thread in backward: transposed weights, one piece of the data gradient's sum; a tile of the weight's
 * gradient. */
static int64_t linear_f32_strip_elems(const ronde__op_desc *desc) {
  bool needed = desc->need_dinput[0] && desc->in[0].layout == RONDE__BLOCKS;
  return needed ? linear_f32_together(desc) * desc->out[0].block * desc->in[0].block : 0;
}

static int64_t linear_f32_thread_elems(const ronde__op_desc *desc, const linear_f32_state *s) {
  return linear_f32_strip_elems(desc) + (desc->in_pieces ? s->weight[0].set.shape.m * desc->out[0].block : 0);
}

/* dY transposed. */
static int64_t linear_f32_lanes_elems(const ronde__op_desc *desc) {
  bool needed = desc->need_dinput[0] && desc->in[0].layout == RONDE__LANES;
  return needed ? ronde__phys_blocks(&desc->out[0]) * desc->out[0].block * desc->in[0].block : 0;
}

static size_t linear_f32_work_elems(const ronde__op_desc *desc, const void *state, bool backward) {
  return backward ? (size_t)(linear_f32_lanes_elems(desc) + desc->threads * linear_f32_thread_elems(desc, state)) : 0;
}

/* Terms of short rows lie N * k floats apart, often a multiple of the bytes in a way of the first cache: more than a few
 * of them at once push each other out. */
static int64_t linear_f32_forward_step(const linear_f32_state *s) {
  enum { SHORT = 64 };
  return s->k < SHORT ? ronde__ceil_div(SHORT, s->k) : ronde__gemm_piece(&s->forward[1][0], s->terms);
}

static void linear_f32_forward_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_f32_state *s = j->state;
  const ronde__op_desc *desc = j->desc;
  const ronde__op_call *call = j->call;
  int64_t bo = desc->out[0].block, n = desc->out[0].n, begin, end;
  int64_t row = desc->in[0].layout == RONDE__LANES ? 1 : s->x_ld;
  ronde__thread_chunk(ronde__phys_blocks(&desc->out[0]) * s->n_pieces, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t ob = item / s->n_pieces, piece = item % s->n_pieces, row0 = piece * s->piece;
    const ronde__gemm_pair *pair = s->forward[piece == s->n_pieces - 1];
    const float *x = call->in[0] + row0 * row, *w = call->param[0] + ob * ronde__linear_slab(desc);
    float *y = call->out[0] + (ob * n + row0) * bo;
    ronde__gemm_sum_by(&pair[0], &s->lists.terms, s->terms, linear_f32_forward_step(s), x, w, y, false, NULL);
    uint64_t at_tail[2] = {(uint64_t)(s->terms * s->x_term) * sizeof(float),
                           (uint64_t)(s->terms * s->w_term) * sizeof(float)};
    if (s->tail) ronde__gemm_run(&pair[1].add, x, &at_tail[0], w, &at_tail[1], 1, y);
    ronde__fused_bias_act(desc, call, ob, y, pair[0].set.shape.m);
  }
}

static ronde_status linear_f32_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  ronde__pool_run(call->pool, linear_f32_forward_part, &j);
  return RONDE_OK;
}

static float *linear_f32_scratch_of(const ronde__linear_piece *j, int thread) {
  return j->call->work + linear_f32_lanes_elems(j->desc) + thread * linear_f32_thread_elems(j->desc, j->state);
}

/* dW of one (output block, term), of its rows from row0 on as many as a product has: X_term^T dY. Only a term of BLOCKS
 * has several. */
static void linear_f32_weight_rows(const ronde__linear_piece *j, int64_t ob, int64_t term, int64_t row0, int thread) {
  const linear_f32_state *s = j->state;
  const ronde__op_call *call = j->call;
  int64_t bo = j->desc->out[0].block, place = ob * ronde__linear_slab(j->desc) + term * s->w_term + row0 * bo;
  const float *x = call->in[0] + row0;
  x += term < s->terms ? s->lists.terms.a[term] / sizeof(float) : (uint64_t)(term * s->x_term);
  const ronde__gemm_pair *pair = &s->weight[term == s->terms];
  float *dw =
      j->desc->in_pieces ? linear_f32_scratch_of(j, thread) + linear_f32_strip_elems(j->desc) : call->dparam[0] + place;
  uint64_t zero = 0;
  ronde__gemm_run(call->accumulate_dparam[0] ? &pair->add : &pair->set, x, &zero,
                  call->dout[0] + ob * j->desc->out[0].n * bo, &zero, 1, dw);
  if (j->desc->in_pieces) ronde__linear_hand_on(j, place, pair->set.shape.m * bo, dw, false);
}

static void linear_f32_weight_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  int64_t terms = ((const linear_f32_state *)j->state)->terms + (((const linear_f32_state *)j->state)->tail > 0), begin,
          end;
  ronde__thread_chunk(ronde__phys_blocks(&j->desc->out[0]) * terms, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) linear_f32_weight_rows(j, item / terms, item % terms, 0, thread);
}

/* BLOCKS: a piece of dX of a term's channel block, which is the sum over output blocks of dY W^T. */
static void linear_f32_data_piece(const ronde__linear_piece *j, int64_t term, int thread) {
  const linear_f32_state *s = j->state;
  const ronde__op_desc *desc = j->desc;
  bool is_first = j->ob0 + j->n_obs == ronde__phys_blocks(&desc->out[0]);
  float *strip = linear_f32_scratch_of(j, thread);
  ronde__linear_turn(j, j->ob0, j->n_obs, term, strip);
  ronde__gemm_list of_piece = {s->lists.outputs.a + j->ob0, s->lists.outputs.b, j->n_obs};
  ronde__gemm_sum(&s->data[0], &of_piece, j->n_obs, j->call->dout[0], strip,
                  j->call->din[0] + s->lists.terms.a[term] / sizeof(float), j->call->accumulate_dinput[0] || !is_first);
}

/* BLOCKS: dW of a tile. */
static void linear_f32_weight_tile(const ronde__linear_piece *j, int64_t ob, int64_t term, int64_t next, int thread) {
  int64_t elems = RONDE__LINEAR_FETCHED * j->desc->out[0].block;
  const float *ahead =
      j->call->param[0] + ob * ronde__linear_slab(j->desc) + next * ((const linear_f32_state *)j->state)->w_term;
  for (int64_t row0 = 0; row0 < ((const linear_f32_state *)j->state)->k;
       row0 += RONDE__LINEAR_FETCHED, ahead += elems) {
    ronde__linear_fetch(ahead, elems);
    linear_f32_weight_rows(j, ob, term, row0, thread);
  }
}

/* BLOCKS: both gradients of the piece in one pass over its weights, while a term's blocks are in cache, and dY of the
 * piece during the whole pass. */
static void linear_f32_blocks_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  int64_t begin, end;
  ronde__thread_chunk(((const linear_f32_state *)j->state)->terms, thread, n_threads, &begin, &end);
  for (int64_t term = begin; term < end; term++) {
    if (j->call->din[0]) linear_f32_data_piece(j, term, thread);
    for (int64_t ob = j->ob0; ob < j->ob0 + j->n_obs && !j->desc->frozen[0]; ob++)
      linear_f32_weight_tile(j, ob, term, ronde__min(term + 1, end - 1), thread);
  }
}

/* LANES: dX [F][N] = W [F][O] dY^T [O][N]. */
static void linear_f32_data_lanes_part(void *arg, int thread, int n_threads) {
  const ronde__linear_piece *j = arg;
  const linear_f32_state *s = j->state;
  int64_t terms = s->terms + (s->tail > 0), begin, end;
  ronde__thread_chunk(terms, thread, n_threads, &begin, &end);
  for (int64_t term = begin; term < end; term++)
    ronde__gemm_sum(&s->data[term == s->terms], &s->lists.outputs, s->lists.outputs.count,
                    j->call->param[0] + term * s->w_term, j->call->work, j->call->din[0] + term * s->x_term,
                    j->call->accumulate_dinput[0]);
}

/* dY [Ob][N][bo] -> [Ob][bo][N] */
static void linear_f32_transpose_dout(const ronde__op_desc *desc, const ronde__op_call *call) {
  int64_t n = desc->out[0].n, bo = desc->out[0].block;
  for (int64_t ob = 0; ob < ronde__phys_blocks(&desc->out[0]); ob++)
    desc->compute.kernels->transpose(call->dout[0] + ob * n * bo, bo, n, bo, call->work + ob * bo * n, n);
}

static ronde_status linear_f32_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  ronde__linear_piece j = {.desc = desc, .state = state, .call = call};
  ronde__fused_backward(desc, call);
  if (desc->in[0].layout == RONDE__BLOCKS) {
    ronde__linear_backward_pieces(desc, state, call, linear_f32_together(desc), linear_f32_blocks_part);
    return RONDE_OK;
  }
  if (call->din[0]) { /* reads the weights before their gradient is handed out */
    linear_f32_transpose_dout(desc, call);
    ronde__pool_run(call->pool, linear_f32_data_lanes_part, &j);
  }
  if (!desc->frozen[0]) ronde__pool_run(call->pool, linear_f32_weight_part, &j);
  return RONDE_OK;
}

static const char *linear_f32_implementation(const ronde__op_desc *desc, const void *opaque) {
  const linear_f32_state *s = opaque;
  return s->forward[1][0].set.implementation;
}

const ronde__form ronde__linear_f32 = {
    .name = "f32",
    .prepare = linear_f32_prepare,
    .release = linear_f32_release,
    .work_elems = linear_f32_work_elems,
    .gives_pieces = true,
    .forward = linear_f32_forward,
    .backward = linear_f32_backward,
    .implementation = linear_f32_implementation,
    .executed_flops = ronde__linear_executed_flops,
};

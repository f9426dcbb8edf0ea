/* Attention in f32: rows are multiplied where they lie, and queries and gradients are turned. (Rows of a head that were copied side by
 * side first were no faster on an Intel Xeon.) */
#include "ops/attention.h"

enum { BLOCK = RONDE__ATTENTION_BLOCK };

/* [D][BLOCK]: forward of a tile of queries, backward of all, and of their gradients. */
static float *turned_dy_of(const ronde__attention_head *head) {
  return head->packed + ronde__attention_tiles(head->s->t) * BLOCK * head->s->d;
}

static int64_t packed_elems(const ronde__attention *s, bool backward) {
  return BLOCK * s->d * (backward ? 2 * ronde__attention_tiles(s->t) : 1);
}

static void make(const ronde__op_desc *desc, ronde__attention *s, int last_q, int last_k) {
  int q = (int)(last_q ? ronde__attention_rows(s->t, ronde__attention_tiles(s->t) - 1) : ronde__min(BLOCK, s->t));
  int k = (int)(last_k ? ronde__attention_rows(s->s, ronde__attention_tiles(s->s) - 1) : ronde__min(BLOCK, s->s));
  int d = (int)s->d;
  ronde__gemm_shape score = {.m = k, .n = q, .k = d, .lda = s->ld, .ldb = BLOCK, .ldc = BLOCK},
                    out = {.m = d, .n = q, .k = k, .lda = s->ld, .ldb = BLOCK, .ldc = BLOCK, .trans_a = true},
                    dq = {.m = q, .n = d, .k = k, .lda = BLOCK, .ldb = s->ld, .ldc = d, .trans_a = true},
                    dk = {.m = k, .n = d, .k = q, .lda = BLOCK, .ldb = s->ld, .ldc = d}, dv = dk;
  dv.ldb = s->ldy;
  s->score[last_q][last_k] = ronde__gemm_pair_tile(desc, score);
  s->out[last_q][last_k] = ronde__gemm_pair_tile(desc, out);
  s->dq[last_q][last_k] = ronde__gemm_pair_tile(desc, dq);
  s->dk[last_q][last_k] = ronde__gemm_pair_tile(desc, dk);
  s->dv[last_q][last_k] = ronde__gemm_pair_tile(desc, dv);
}

/* Rows of a tile of queries, or of gradients, as [D][BLOCK]. */
static void turn(const ronde__attention_head *head, const float *x, int64_t ld, int64_t tile, float *turned) {
  const ronde__attention *s = head->s;
  head->desc->compute.kernels->transpose(x + tile * BLOCK * ld, ld, ronde__attention_rows(s->t, tile), s->d, turned,
                                         BLOCK);
}

static const float *gradient(const ronde__attention_head *head, int64_t t) { return head->dy + t * head->s->ldy; }

static void pack(const ronde__attention_head *head) {
  const ronde__attention *s = head->s;
  for (int64_t tile = 0; tile < ronde__attention_tiles(s->t) && head->dy; tile++) {
    turn(head, head->x[RONDE__QUERY], s->ld, tile, head->packed + tile * BLOCK * s->d);
    turn(head, head->dy, s->ldy, tile, turned_dy_of(head) + tile * BLOCK * s->d);
  }
}

static void pack_queries(const ronde__attention_head *head, int64_t tile) {
  turn(head, head->x[RONDE__QUERY], head->s->ld, tile, head->packed);
}

static const float *rows_at(const ronde__attention_head *head, int i, int64_t tile) {
  return head->x[i] + tile * BLOCK * head->s->ld;
}

static void scores(const ronde__attention_head *head, int64_t tile, int64_t k, float *scores) {
  const ronde__attention *s = head->s;
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->score, tile, k)->set, rows_at(head, RONDE__KEY, k),
                            head->packed + (head->dy ? tile * BLOCK * s->d : 0), scores);
}

static void outputs(const ronde__attention_head *head, int64_t tile, int64_t k, const float *shares, float *y) {
  ronde__attention_multiply(head, &ronde__attention_pick(head->s, head->s->out, tile, k)->add,
                            rows_at(head, RONDE__VALUE, k), shares, y);
}

static void slopes(const ronde__attention_head *head, int64_t tile, int64_t k, float *slopes) {
  const ronde__attention *s = head->s;
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->score, tile, k)->set, rows_at(head, RONDE__VALUE, k),
                            turned_dy_of(head) + tile * BLOCK * s->d, slopes);
}

static void gradients(const ronde__attention_head *head, int64_t tile, int64_t k, const float *shares,
                      const float *slopes, float *dq, float *dk, float *dv) {
  const ronde__attention *s = head->s;
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->dv, tile, k)->add, shares,
                            head->dy + tile * BLOCK * s->ldy, dv);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->dk, tile, k)->add, slopes,
                            rows_at(head, RONDE__QUERY, tile), dk);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->dq, tile, k)->add, slopes, rows_at(head, RONDE__KEY, k),
                            dq);
}

static const ronde__attention_products products = {make,   packed_elems, gradient, pack,     pack_queries,
                                                   scores, outputs,      slopes,   gradients};

static ronde_status prepare(const ronde__op_desc *desc, void **state_out) {
  return ronde__attention_prepare(desc, &products, state_out);
}

static const char *implementation(const ronde__op_desc *desc, const void *state) {
  return ((const ronde__attention *)state)->score[0][0].set.implementation;
}

const ronde__form ronde__attention_f32 = {
    .prepare = prepare,
    .release = ronde__attention_release,
    .work_elems = ronde__attention_work,
    .saved_elems = ronde__attention_saved,
    .forward = ronde__attention_forward,
    .backward = ronde__attention_backward,
    .implementation = implementation,
    .executed_flops = ronde__attention_executed_flops,
};

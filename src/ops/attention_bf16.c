/* Attention with operands of bfloat16 and sums of f32; scores and their softmax are f32. What all tiles of a head read is packed once
 * a head, shares and slopes once a tile. The last tiles are padded with zeros to what a product takes.
 * Legend: as in attention_passes.c; A and B as in bf16.h. */
#include "kernel/bf16.h"
#include "ops/attention.h"
#include "ops/widen.h"

#include <string.h>

enum { BLOCK = RONDE__ATTENTION_BLOCK, TILE_BYTES = 16 * RONDE__BF16_STEP * sizeof(uint16_t) };

typedef struct packed {
  float *padded;                /* [BLOCK][D]: a last tile of queries */
  uint16_t *key;                /* A [S][D] */
  uint16_t *value;              /* forward A [D][S] in tiles, backward A [S][D] */
  uint16_t *turned, *turned_dy; /* B [D][BLOCK] of a tile of queries, of each in backward, and of gradients */
  uint16_t *query, *dy, *keys;  /* backward: B [BLOCK][D] of each tile of queries, gradients and keys */
  uint16_t *shares, *slopes, *turned_slopes; /* of a tile: forward B, backward A, A, and A in tiles */
} packed;

/* Elements of 16 bits of each of them, one behind the other. */
typedef struct sizes {
  int64_t padded, operand, tile, queries, keys, scores;
} sizes;

static int64_t keys_apart(const ronde__attention *s) { return ronde__round_up(s->s, RONDE__BF16_STEP); }

static sizes sizes_of(const ronde__attention *s) {
  return (sizes){.padded = 2 * BLOCK * s->d,
                 .operand = keys_apart(s) * s->d,
                 .tile = BLOCK * s->d,
                 .queries = ronde__attention_tiles(s->t) * BLOCK * s->d,
                 .keys = ronde__attention_tiles(s->s) * BLOCK * s->d,
                 .scores = BLOCK * BLOCK};
}

static int64_t packed_elems(const ronde__attention *s, bool backward) {
  const sizes n = sizes_of(s);
  int64_t forward = n.padded + 2 * n.operand + n.tile + n.scores;
  return (backward ? n.padded + 2 * n.operand + 4 * n.queries + n.keys + 3 * n.scores : forward) / 2;
}

static packed packed_of(const ronde__attention_head *head) {
  const sizes n = sizes_of(head->s);
  packed p = {.padded = head->packed};
  p.key = (uint16_t *)head->packed + n.padded;
  p.value = p.key + n.operand;
  p.turned = p.value + n.operand;
  p.shares = p.turned + n.tile;
  if (!head->dy) return p;
  p.turned_dy = p.turned + n.queries;
  p.query = p.turned_dy + n.queries;
  p.dy = p.query + n.queries;
  p.keys = p.dy + n.queries;
  p.shares = p.keys + n.keys;
  p.slopes = p.shares + n.scores;
  p.turned_slopes = p.slopes + n.scores;
  return p;
}

/* ---- kernels ---- */

/* Queries, or keys, of a tile, rounded up. */
static int64_t padded_rows(int64_t rows, int64_t tile) {
  return ronde__round_up(ronde__attention_rows(rows, tile), RONDE__BF16_STEP);
}

static void make(const ronde__op_desc *desc, ronde__attention *s, int last_q, int last_k) {
  int64_t tile = last_q ? ronde__attention_tiles(s->t) - 1 : 0, k = last_k ? ronde__attention_tiles(s->s) - 1 : 0;
  int q = (int)padded_rows(s->t, tile), keys = (int)ronde__attention_rows(s->s, k), padded = (int)padded_rows(s->s, k),
      d = (int)s->d;
  ronde__gemm_shape
      score = {.m = keys, .n = q, .k = d, .lda = d, .ldb = d, .ldc = BLOCK, .operands = RONDE__OF_BF16},
      out = {.m = d,
             .n = q,
             .k = padded,
             .lda = keys_apart(s),
             .ldb = BLOCK,
             .ldc = BLOCK,
             .operands = RONDE__OF_BF16_TILES},
      dq = {.m = q, .n = d, .k = padded, .lda = BLOCK, .ldb = BLOCK, .ldc = d, .operands = RONDE__OF_BF16_TILES},
      dk = {.m = keys, .n = d, .k = q, .lda = BLOCK, .ldb = BLOCK, .ldc = d, .operands = RONDE__OF_BF16};
  s->score[last_q][last_k] = ronde__gemm_pair_resolve(desc, score);
  s->out[last_q][last_k] = ronde__gemm_pair_resolve(desc, out);
  s->dq[last_q][last_k] = ronde__gemm_pair_resolve(desc, dq);
  s->dk[last_q][last_k] = s->dv[last_q][last_k] = ronde__gemm_pair_resolve(desc, dk);
}

/* ---- packing ---- */

static const ronde__bf16 *bf16_of(const ronde__attention_head *head) { return head->desc->compute.bf16; }

/* Rows of an operand of a head, ld elements apart, as packing finds them. */
typedef struct rows {
  const ronde__phys *phys; /* says the format */
  const float *x;
  int64_t ld;
} rows;

static rows input_of(const ronde__attention_head *head, int i) {
  return (rows){ronde__attention_input(head->desc, i), head->x[i], head->s->ld};
}

static rows gradient_of(const ronde__attention_head *head) {
  return (rows){&head->desc->out[0], head->dy, head->s->ldy};
}

/* A [S][D] */
static void pack_rows(const ronde__attention_head *head, rows from, uint16_t *to) {
  const ronde__attention *s = head->s;
  for (int64_t r = 0; r < s->s; r++) {
    const void *x = ronde__operand_at(from.phys, from.x, r * from.ld);
    if (from.phys->bf16) memcpy(to + r * s->d, x, (size_t)s->d * sizeof *to);
    else bf16_of(head)->pack(x, s->d, to + r * s->d);
  }
}

/* B [D][BLOCK] of a tile of queries, or of their gradients. */
static void pack_turned(const ronde__attention_head *head, rows from, int64_t tile, uint16_t *to) {
  const ronde__attention *s = head->s;
  int64_t n = ronde__attention_rows(s->t, tile), all = padded_rows(s->t, tile), ld = from.ld;
  const void *x = ronde__operand_at(from.phys, from.x, tile * BLOCK * ld);
  if (n < all) {
    float *padded = packed_of(head).padded;
    memset(padded, 0, ronde__operand_bytes(from.phys, all * s->d));
    for (int64_t r = 0; r < n; r++)
      memcpy(ronde__operand_at(from.phys, padded, r * s->d), ronde__operand_at(from.phys, x, r * ld),
             ronde__operand_bytes(from.phys, s->d));
    x = padded;
    ld = s->d;
  }
  if (from.phys->bf16) bf16_of(head)->transposed_panels(x, ld, all, s->d, to);
  else bf16_of(head)->pack_transposed_panels(x, ld, all, s->d, to);
}

/* B [BLOCK][D] of tile `tile` of so many rows. */
static void pack_tile(const ronde__attention_head *head, rows from, int64_t n, int64_t tile, uint16_t *to) {
  ronde__operand_panels(head->desc, from.phys, from.x, tile * BLOCK * from.ld, from.ld, ronde__attention_rows(n, tile),
                        head->s->d, padded_rows(n, tile), to, BLOCK);
}

static void pack_forward(const ronde__attention_head *head) {
  const ronde__attention *s = head->s;
  const rows value = input_of(head, RONDE__VALUE);
  ronde__operand_transposed(head->desc, value.phys, value.x, 0, value.ld, s->s, s->d, packed_of(head).value,
                            keys_apart(s));
}

static void pack_backward(const ronde__attention_head *head) {
  const ronde__attention *s = head->s;
  const rows query = input_of(head, RONDE__QUERY), key = input_of(head, RONDE__KEY), dy = gradient_of(head);
  const packed p = packed_of(head);
  pack_rows(head, input_of(head, RONDE__VALUE), p.value);
  for (int64_t tile = 0; tile < ronde__attention_tiles(s->t); tile++) {
    const int64_t at = tile * BLOCK * s->d;
    pack_turned(head, query, tile, p.turned + at);
    pack_turned(head, dy, tile, p.turned_dy + at);
    pack_tile(head, query, s->t, tile, p.query + at);
    pack_tile(head, dy, s->t, tile, p.dy + at);
  }
  for (int64_t k = 0; k < ronde__attention_tiles(s->s); k++) pack_tile(head, key, s->s, k, p.keys + k * BLOCK * s->d);
}

/* In places that are filled later. */
static const float *gradient(const ronde__attention_head *head, int64_t t) {
  const ronde__attention *s = head->s;
  const packed p = packed_of(head);
  bf16_of(head)->pack(head->dy + t * s->ldy, s->d, p.turned);
  bf16_of(head)->unpack(p.turned, s->d, p.padded);
  return p.padded;
}

static void pack(const ronde__attention_head *head) {
  pack_rows(head, input_of(head, RONDE__KEY), packed_of(head).key);
  if (head->dy) pack_backward(head);
  else pack_forward(head);
}

static void pack_queries(const ronde__attention_head *head, int64_t tile) {
  pack_turned(head, input_of(head, RONDE__QUERY), tile, packed_of(head).turned);
}

/* ---- products ---- */

static void scores(const ronde__attention_head *head, int64_t tile, int64_t k, float *scores) {
  const ronde__attention *s = head->s;
  const packed p = packed_of(head);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->score, tile, k)->set, p.key + k * BLOCK * s->d,
                            p.turned + (head->dy ? tile * BLOCK * s->d : 0), scores);
}

static void outputs(const ronde__attention_head *head, int64_t tile, int64_t k, const float *shares, float *y) {
  const ronde__attention *s = head->s;
  const packed p = packed_of(head);
  bf16_of(head)->pack_panels(shares, BLOCK, ronde__attention_rows(s->s, k), padded_rows(s->t, tile),
                             padded_rows(s->s, k), p.shares, BLOCK);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->out, tile, k)->add,
                            (const char *)p.value + k * (BLOCK / RONDE__BF16_STEP) * TILE_BYTES, p.shares, y);
}

static void slopes(const ronde__attention_head *head, int64_t tile, int64_t k, float *slopes) {
  const ronde__attention *s = head->s;
  const packed p = packed_of(head);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->score, tile, k)->set, p.value + k * BLOCK * s->d,
                            p.turned_dy + tile * BLOCK * s->d, slopes);
}

static void gradients(const ronde__attention_head *head, int64_t tile, int64_t k, const float *shares,
                      const float *slopes, float *dq, float *dk, float *dv) {
  const ronde__attention *s = head->s;
  const packed p = packed_of(head);
  const int64_t at = tile * BLOCK * s->d, rows = ronde__attention_rows(s->s, k);
  bf16_of(head)->pack(shares, rows * BLOCK, p.shares);
  bf16_of(head)->pack(slopes, rows * BLOCK, p.slopes);
  bf16_of(head)->pack_transposed(slopes, BLOCK, rows, padded_rows(s->t, tile), p.turned_slopes, BLOCK);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->dv, tile, k)->add, p.shares, p.dy + at, dv);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->dk, tile, k)->add, p.slopes, p.query + at, dk);
  ronde__attention_multiply(head, &ronde__attention_pick(s, s->dq, tile, k)->add, p.turned_slopes,
                            p.keys + k * BLOCK * s->d, dq);
}

/* ---- the form ---- */

static const ronde__attention_products products = {make,   packed_elems, gradient, pack,     pack_queries,
                                                   scores, outputs,      slopes,   gradients};

/* Heads of whole panels. */
static bool takes(const ronde__op_desc *desc) {
  const ronde__bf16 *bf16 = desc->compute.bf16;
  const ronde__phys *y = &desc->out[0];
  int64_t features = y->layout == RONDE__BLOCKS ? y->c : y->w;
  return bf16 && features / desc->attr.heads % RONDE__BF16_PANEL == 0;
}

static ronde_status prepare(const ronde__op_desc *desc, void **state_out) {
  return ronde__attention_prepare(desc, &products, state_out);
}

static const char *implementation(const ronde__op_desc *desc, const void *state) { return desc->compute.bf16->name; }

/* The output stays f32: backward reads it again, and the slopes of a query only add up to 0 with its own sums. */
const ronde__form ronde__attention_bf16 = {
    .name = "bf16",
    .bf16 = {.in = 7},
    .multiplies_bf16 = true,
    .takes = takes,
    .prepare = prepare,
    .release = ronde__attention_release,
    .work_elems = ronde__attention_work,
    .saved_elems = ronde__attention_saved,
    .forward = ronde__attention_forward,
    .backward = ronde__attention_backward,
    .implementation = implementation,
    .executed_flops = ronde__attention_executed_flops,
};

/* Scaled dot-product attention: what its forms share. attention_passes.c goes through tiles of queries and keys; a form packs what a head
 * multiplies, and multiplies. Legend: as in attention_passes.c. */
#ifndef RONDE_ATTENTION_H
#define RONDE_ATTENTION_H

#include "ops/elementwise.h"
#include "ops/gemm_list.h"

enum { RONDE__ATTENTION_BLOCK = 64 }; /* queries, or keys, of a tile */
enum { RONDE__QUERY, RONDE__KEY, RONDE__VALUE };

typedef struct ronde__attention ronde__attention;

/* A head of an example, in a call. */
typedef struct ronde__attention_head {
  const ronde__op_desc *desc;
  const ronde__attention *s;
  const float *x[3];   /* query, key, value: rows s->ld apart; of bfloat16 where their inputs are */
  const float *dy;     /* gradient of the output, rows s->ldy apart; NULL: forward */
  int64_t at;          /* of its first feature of the first query, in the output */
  int64_t n_keys;      /* that are there */
  float *sums;         /* [T]: logarithms */
  float *packed;       /* what the form has made of it, packed_elems */
  ronde__ahead *ahead; /* two: what is read or written next, by products */
} ronde__attention_head;

/* Scores and slopes are [keys][BLOCK], a column for each query of a tile. Products may set columns beyond the queries to zero; such
 * columns are left as they are between. Rows of keys that are not there are zero where they are handed back. y is
 * [D][BLOCK]; dq, dk and dv are [rows][D] of the tile, dq with room for BLOCK rows. */
typedef struct ronde__attention_products {
  /* The kernels of a tile, by whether it is the last one of queries, and of keys. */
  void (*make)(const ronde__op_desc *desc, ronde__attention *s, int last_q, int last_k);
  int64_t (*packed_elems)(const ronde__attention *s, bool backward); /* floats */
  /* The gradient of the output of query t, as the products below take it; until the next call. In front of `pack`. */
  const float *(*gradient)(const ronde__attention_head *head, int64_t t);
  /* What all tiles of a head read. */
  void (*pack)(const ronde__attention_head *head);
  /* Forward: what all tiles of keys read of a tile of queries. */
  void (*pack_queries)(const ronde__attention_head *head, int64_t tile);
  /* scores = key queryT */
  void (*scores)(const ronde__attention_head *head, int64_t tile, int64_t k, float *scores);
  /* y += valueT p */
  void (*outputs)(const ronde__attention_head *head, int64_t tile, int64_t k, const float *p, float *y);
  /* slopes = value dyT */
  void (*slopes)(const ronde__attention_head *head, int64_t tile, int64_t k, float *slopes);
  /* dv += p dy, dk += slopes query, dq += slopesT key */
  void (*gradients)(const ronde__attention_head *head, int64_t tile, int64_t k, const float *p, const float *slopes,
                    float *dq, float *dk, float *dv);
} ronde__attention_products;

struct ronde__attention {
  int64_t n, heads, t, s, d, f;
  bool by_blocks; /* operands are BLOCKS, of which a head's features are a part of one; else ROWS */
  int64_t ld;     /* of query, key and value */
  int64_t ldy;    /* of the output */
  float scale;
  const ronde__attention_products *products;
  /* By whether it is the last tile of queries, and of keys. */
  ronde__gemm_pair score[2][2], out[2][2], dq[2][2], dk[2][2], dv[2][2];
};

/* Query, key and value lie side by side in one input. */
static inline bool ronde__attention_is_packed(const ronde__op_attr *attr) {
  return attr->n_inputs - attr->lengths == 1;
}
/* Of query, key or value. */
static inline const ronde__phys *ronde__attention_input(const ronde__op_desc *desc, int i) {
  return &desc->in[ronde__attention_is_packed(&desc->attr) ? 0 : i];
}
static inline int64_t ronde__attention_tiles(int64_t rows) { return ronde__ceil_div(rows, RONDE__ATTENTION_BLOCK); }
static inline int64_t ronde__attention_rows(int64_t rows, int64_t tile) {
  return ronde__min(RONDE__ATTENTION_BLOCK, rows - tile * RONDE__ATTENTION_BLOCK);
}
/* Which of the kernels multiplies a tile. */
static inline const ronde__gemm_pair *ronde__attention_pick(const ronde__attention *s,
                                                            const ronde__gemm_pair kernels[2][2], int64_t tile,
                                                            int64_t k) {
  return &kernels[tile == ronde__attention_tiles(s->t) - 1][k == ronde__attention_tiles(s->s) - 1];
}
static inline void ronde__attention_multiply(const ronde__attention_head *head, const ronde__gemm *gemm, const void *a,
                                             const void *b, float *c) {
  const uint64_t zero = 0;
  ronde__gemm_run_ahead(gemm, a, &zero, b, &zero, 1, c, &head->ahead[ronde__ahead_is_done(&head->ahead[0])]);
}

/* The passes of every form. */
ronde_status ronde__attention_prepare(const ronde__op_desc *desc, const ronde__attention_products *products,
                                      void **state_out);
void ronde__attention_release(const ronde__op_desc *desc, void *state);
size_t ronde__attention_saved(const ronde__op_desc *desc, const void *state);
size_t ronde__attention_work(const ronde__op_desc *desc, const void *state, bool backward);
ronde_status ronde__attention_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
ronde_status ronde__attention_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call);
double ronde__attention_executed_flops(const ronde__op_desc *desc, const void *state, bool backward);

extern const ronde__form ronde__attention_bf16; /* operands of bfloat16 */
extern const ronde__form ronde__attention_f32;

#endif

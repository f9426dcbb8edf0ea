#include "tensor/tensor.h"

#include <string.h>

bool ronde__weight_layout_equal(const ronde__weight_layout *a, const ronde__weight_layout *b) {
  if (a->form != b->form || a->o != b->o || a->i != b->i || a->t != b->t) return false;
  bool same_o = a->form == RONDE__PLAIN || a->block_o == b->block_o;
  return same_o && (a->form != RONDE__BLOCKED || a->block_i == b->block_i);
}

int64_t ronde__weight_elems(const ronde__weight_layout *l) {
  switch (l->form) {
  case RONDE__BLOCKED:
    return ronde__ceil_div(l->o, l->block_o) * l->block_o * l->t * ronde__ceil_div(l->i, l->block_i) * l->block_i;
  case RONDE__PANELS: return ronde__ceil_div(l->o, l->block_o) * l->block_o * l->i * l->t;
  default: return l->o * l->i * l->t;
  }
}

int64_t ronde__weight_index(const ronde__weight_layout *l, int64_t o, int64_t i, int64_t t) {
  switch (l->form) {
  case RONDE__BLOCKED: {
    int64_t blocks_i = ronde__ceil_div(l->i, l->block_i);
    int64_t block = (o / l->block_o * l->t + t) * blocks_i + i / l->block_i;
    return (block * l->block_i + i % l->block_i) * l->block_o + o % l->block_o;
  }
  case RONDE__PANELS: return ((o / l->block_o * l->i + i) * l->t + t) * l->block_o + o % l->block_o;
  default: return (o * l->i + i) * l->t + t;
  }
}

/* Distance between o and o + 1 of one block. */
static int64_t stride_o(const ronde__weight_layout *l) { return l->form == RONDE__PLAIN ? l->i * l->t : 1; }

void ronde__weight_pack(const ronde__weight_layout *l, const float *logical, float *packed) {
  memset(packed, 0, (size_t)ronde__weight_elems(l) * sizeof *packed);
  int64_t block = l->form == RONDE__PLAIN ? l->o : l->block_o, step = stride_o(l);
  for (int64_t o0 = 0; o0 < l->o; o0 += block)
    for (int64_t i = 0; i < l->i; i++)
      for (int64_t t = 0; t < l->t; t++) {
        float *out = packed + ronde__weight_index(l, o0, i, t);
        for (int64_t o = o0; o < ronde__min(o0 + block, l->o); o++)
          out[(o - o0) * step] = logical[(o * l->i + i) * l->t + t];
      }
}

void ronde__weight_unpack(const ronde__weight_layout *l, const float *packed, float *logical) {
  int64_t block = l->form == RONDE__PLAIN ? l->o : l->block_o, step = stride_o(l);
  for (int64_t o0 = 0; o0 < l->o; o0 += block)
    for (int64_t i = 0; i < l->i; i++)
      for (int64_t t = 0; t < l->t; t++) {
        const float *in = packed + ronde__weight_index(l, o0, i, t);
        for (int64_t o = o0; o < ronde__min(o0 + block, l->o); o++)
          logical[(o * l->i + i) * l->t + t] = in[(o - o0) * step];
      }
}

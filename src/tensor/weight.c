/* Weights in their three forms, and the moves between them.
 * o output channels, i input channels, t taps of the kernel. */
#include "tensor/tensor.h"

#include <string.h>

enum { SLICE_ELEMS = 65536, CHUNK_ELEMS = 4096 };

ronde__weight_layout ronde__weight_layout_make(ronde__weight_form form, int64_t o, int64_t i, int64_t t,
                                               int64_t block_o, int64_t block_i) {
  return (ronde__weight_layout){
      .form = form, .o = o, .i = i, .t = t, .block_o = block_o, .block_i = block_i, .inputs_first = false};
}

bool ronde__weight_layout_equal(const ronde__weight_layout *a, const ronde__weight_layout *b) {
  if (a->form != b->form || a->o != b->o || a->i != b->i || a->t != b->t || a->inputs_first != b->inputs_first)
    return false;
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

/* Packs a block of output channels from o0 on. Inputs are taken in chunks whose blocks stay in the L1 cache, so that
 * each cache line is read and written once. */
static void unpack_channels(const ronde__weight_layout *l, const float *packed, int64_t o0, int64_t n, float *out) {
  int64_t row = l->i * l->t, block = l->form == RONDE__PLAIN ? 1 : l->block_o;
  int64_t step_i = l->form == RONDE__BLOCKED ? block : l->t * block;
  int64_t step_t = l->form == RONDE__BLOCKED ? ronde__ceil_div(l->i, l->block_i) * l->block_i * block : block;
  int64_t chunk = ronde__max(1, CHUNK_ELEMS / (block * l->t));
  for (int64_t i0 = 0; i0 < l->i; i0 += chunk)
    for (int64_t o = o0; o < o0 + n; o++) {
      const float *in = packed + ronde__weight_index(l, o, 0, 0);
      float *row_out = out + (o - o0) * row;
      int64_t end = ronde__min(i0 + chunk, l->i);
      if (l->t == 1) {
        for (int64_t i = i0; i < end; i++) row_out[i] = in[i * step_i];
        continue;
      }
      for (int64_t i = i0; i < end; i++)
        for (int64_t t = 0; t < l->t; t++) row_out[i * l->t + t] = in[i * step_i + t * step_t];
    }
}

/* Unpacks up to a block of output channels, in the order in which they are stored, which is faster than by rows. */
static void pack_block(const ronde__weight_layout *l, const float *in, int64_t o0, int64_t n, float *packed) {
  int64_t row = l->i * l->t, elems = ronde__weight_elems(l) / ronde__ceil_div(l->o, l->block_o);
  memset(packed + o0 / l->block_o * elems, 0, (size_t)elems * sizeof *packed);
  for (int64_t i = 0; i < l->i; i++)
    for (int64_t t = 0; t < l->t; t++) {
      float *out = packed + ronde__weight_index(l, o0, i, t);
      for (int64_t o = 0; o < n; o++) out[o] = in[o * row + i * l->t + t];
    }
}

/* ---- of a linear layer of x W: rows of W [I T][O] ---- */

static void unpack_row(const ronde__weight_layout *l, int64_t f, const float *packed, float *row) {
  int64_t block = l->form == RONDE__PLAIN ? 1 : l->block_o;
  for (int64_t o0 = 0; o0 < l->o; o0 += block)
    memcpy(row + o0, packed + ronde__weight_index(l, o0, f / l->t, f % l->t),
           (size_t)ronde__min(block, l->o - o0) * sizeof *row);
}

/* With the zeros behind the last outputs and, of the last row, those in the place of further inputs. */
static void pack_row(const ronde__weight_layout *l, int64_t f, const float *row, float *packed) {
  int64_t block = l->form == RONDE__PLAIN ? 1 : l->block_o, i = f / l->t, t = f % l->t;
  for (int64_t o0 = 0; o0 < l->o; o0 += block) {
    int64_t n = ronde__min(block, l->o - o0);
    float *stored = packed + ronde__weight_index(l, o0, i, t);
    memcpy(stored, row + o0, (size_t)n * sizeof *row);
    memset(stored + n, 0, (size_t)(block - n) * sizeof *row);
    if (l->form != RONDE__BLOCKED || i != l->i - 1) continue;
    for (int64_t more = l->i; more % l->block_i; more++)
      memset(packed + ronde__weight_index(l, o0, more, t), 0, (size_t)block * sizeof *row);
  }
}

static int64_t slice_rows(const ronde__weight_layout *l) {
  return ronde__min(l->i * l->t, ronde__max(1, SLICE_ELEMS / l->o));
}

static int64_t unpack_rows(const ronde__weight_layout *l, int64_t first, const float *packed, float *logical) {
  int64_t begin = first / l->o, end = ronde__min(begin + slice_rows(l), l->i * l->t);
  for (int64_t f = begin; f < end; f++) unpack_row(l, f, packed, logical + (f - begin) * l->o);
  return (end - begin) * l->o;
}

static int64_t pack_rows(const ronde__weight_layout *l, int64_t first, const float *logical, float *packed) {
  int64_t begin = first / l->o, end = ronde__min(begin + slice_rows(l), l->i * l->t);
  for (int64_t f = begin; f < end; f++) pack_row(l, f, logical + (f - begin) * l->o, packed);
  return (end - begin) * l->o;
}

/* ---- slices ---- */

/* Output channels of a slice: whole blocks. */
static int64_t slice_channels(const ronde__weight_layout *l) {
  int64_t block = l->form == RONDE__PLAIN ? 1 : l->block_o;
  return ronde__min(l->o, ronde__max(1, SLICE_ELEMS / (l->i * l->t * block)) * block);
}

int64_t ronde__weight_slice_elems(const ronde__weight_layout *l) {
  return l->inputs_first ? slice_rows(l) * l->o : slice_channels(l) * l->i * l->t;
}

int64_t ronde__weight_unpack_slice(const ronde__weight_layout *l, const float *packed, int64_t first, float *out) {
  if (l->inputs_first) return unpack_rows(l, first, packed, out);
  int64_t row = l->i * l->t, block = l->form == RONDE__PLAIN ? l->o : l->block_o;
  int64_t begin = first / row, end = ronde__min(begin + slice_channels(l), l->o);
  for (int64_t o = begin; o < end; o += block)
    unpack_channels(l, packed, o, ronde__min(block, end - o), out + (o - begin) * row);
  return (end - begin) * row;
}

int64_t ronde__weight_pack_slice(const ronde__weight_layout *l, int64_t first, const float *logical, float *packed) {
  if (l->inputs_first) return pack_rows(l, first, logical, packed);
  int64_t row = l->i * l->t, begin = first / row, end = ronde__min(begin + slice_channels(l), l->o);
  int64_t n = (end - begin) * row;
  if (l->form == RONDE__PLAIN) {
    memcpy(packed + first, logical, (size_t)n * sizeof *packed);
    return n;
  }
  for (int64_t o = begin; o < end; o += l->block_o)
    pack_block(l, logical + (o - begin) * row, o, ronde__min(l->block_o, end - o), packed);
  return n;
}

void ronde__weight_pack(const ronde__weight_layout *l, const float *logical, float *packed) {
  int64_t n = l->o * l->i * l->t;
  for (int64_t at = 0; at < n;) at += ronde__weight_pack_slice(l, at, logical + at, packed);
}

void ronde__weight_unpack(const ronde__weight_layout *l, const float *packed, float *logical) {
  int64_t n = l->o * l->i * l->t;
  for (int64_t at = 0; at < n;) at += ronde__weight_unpack_slice(l, packed, at, logical + at);
}

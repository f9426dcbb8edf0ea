/* Operands that may be bfloat16 (ronde__phys.bf16), a stretch at a time as f32: for ops whose kernels compute in f32. */
#ifndef RONDE_WIDEN_H
#define RONDE_WIDEN_H

#include "kernel/bf16.h"
#include "ops/op.h"

enum { RONDE__STRETCH = 1024 }; /* elements, of which a few lie in the first cache as f32 */

/* Whether an input or output is bfloat16. */
static inline bool ronde__is_narrow(const ronde__op_desc *desc) {
  bool any = false;
  for (int i = 0; i < desc->n_inputs; i++) any |= desc->in[i].bf16;
  for (int i = 0; i < desc->n_outputs; i++) any |= desc->out[i].bf16;
  return any;
}

/* The address of element `at` of an operand. */
static inline void *ronde__operand_at(const ronde__phys *phys, const float *x, int64_t at) {
  return phys->bf16 ? (void *)((const uint16_t *)x + at) : (void *)(x + at);
}

/* Bytes of n elements of an operand. */
static inline size_t ronde__operand_bytes(const ronde__phys *phys, int64_t n) {
  return (size_t)n * (phys->bf16 ? sizeof(uint16_t) : sizeof(float));
}

/* An operand from element `at` on, for kernels that take both kinds. */
static inline ronde__operand ronde__operand_from(const ronde__phys *phys, const float *x, int64_t at) {
  return (ronde__operand){ronde__operand_at(phys, x, at), phys->bf16};
}

/* Elements [at, at + n) of an operand: where they lie if they are f32, else in room [n]. */
static inline const float *ronde__widen(const ronde__op_desc *desc, const ronde__phys *phys, const float *x, int64_t at,
                                        int64_t n, float *room) {
  if (!phys->bf16) return x + at;
  desc->compute.bf16->unpack((const uint16_t *)x + at, n, room);
  return room;
}

/* Panels of rows [rows][n], ldx elements apart, of an operand from element `at` on, as bf16.h has them. */
static inline void ronde__operand_panels(const ronde__op_desc *desc, const ronde__phys *phys, const float *x,
                                         int64_t at, int64_t ldx, int64_t rows, int64_t n, int64_t k, uint16_t *out,
                                         int64_t ldk) {
  const void *from = ronde__operand_at(phys, x, at);
  if (phys->bf16) desc->compute.bf16->panels(from, ldx, rows, n, k, out, ldk);
  else desc->compute.bf16->pack_panels(from, ldx, rows, n, k, out, ldk);
}

/* The same rows transposed, as tiles. */
static inline void ronde__operand_transposed(const ronde__op_desc *desc, const ronde__phys *phys, const float *x,
                                             int64_t at, int64_t ldx, int64_t rows, int64_t n, uint16_t *out,
                                             int64_t lda) {
  const void *from = ronde__operand_at(phys, x, at);
  if (phys->bf16) desc->compute.bf16->transposed(from, ldx, rows, n, out, lda);
  else desc->compute.bf16->pack_transposed(from, ldx, rows, n, out, lda);
}

/* Where to write elements of an operand from `at` on: their place if they are f32, else room, from which ronde__narrow takes
 * them. */
static inline float *ronde__operand_room(const ronde__phys *phys, float *x, int64_t at, float *room) {
  return phys->bf16 ? room : x + at;
}

/* Begins to bring the lines that ronde__narrow will write into cache. */
static inline void ronde__narrow_soon(const ronde__phys *phys, const float *x, int64_t at, int64_t n) {
  enum { LINE = 64 / sizeof(uint16_t) };
  for (int64_t i = 0; i < n && phys->bf16; i += LINE) __builtin_prefetch((const uint16_t *)x + at + i, 1);
}

static inline void ronde__narrow(const ronde__op_desc *desc, const ronde__phys *phys, const float *room, int64_t n,
                                 float *x, int64_t at) {
  if (phys->bf16) desc->compute.bf16->pack(room, n, (uint16_t *)x + at);
}

#endif

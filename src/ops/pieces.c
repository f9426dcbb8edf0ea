/* Copies between a tensor and its pieces along the first dimension (channels of images, features of vectors), as runs of
 * adjacent elements: whole pieces (ROWS, an example at a time), planes (LANES), or the channels that lie in one block on
 * both sides (BLOCKS), where both may be bfloat16. */
#include "ops/pieces.h"

#include "ops/elementwise.h"
#include "ops/gemm_list.h"
#include "ops/widen.h"

#include <string.h>

/* `rows` runs of `length` elements, in steps, in the piece and in the whole. */
typedef struct piece_run {
  int64_t piece, piece_step, whole, whole_step, rows, length;
} piece_run;

typedef struct pieces_job {
  const ronde__op_desc *desc;
  const ronde__phys *piece_phys, *whole_phys;
  const float *from;
  float *to;
  int64_t offset; /* the channel of the whole that is the piece's first */
  bool puts, accumulate;
} pieces_job;

/* The run that begins at channel c of the piece; *next_out: the channel behind it. */
static piece_run piece_run_at(const pieces_job *j, int64_t c, int64_t *next_out) {
  const ronde__phys *piece = j->piece_phys, *whole = j->whole_phys;
  int64_t pixels = piece->h * piece->w, bp = piece->block, bw = whole->block, at = j->offset + c;
  *next_out = piece->c;
  switch (piece->layout) {
  case RONDE__ROWS:
    return (piece_run){0, piece->c * pixels, j->offset * pixels, whole->c * pixels, piece->n, piece->c * pixels};
  case RONDE__LANES: return (piece_run){0, pixels * bp, j->offset * pixels * bw, pixels * bw, piece->c, pixels * bp};
  default:
    *next_out = ronde__min(piece->c, ronde__min((c / bp + 1) * bp, (at / bw + 1) * bw - j->offset));
    return (piece_run){ronde__phys_index(piece, 0, c, 0),
                       bp,
                       ronde__phys_index(whole, 0, at, 0),
                       bw,
                       pixels * piece->n,
                       *next_out - c};
  }
}

/* n elements from row `row` of a run on. */
static void pieces_move(const pieces_job *j, const piece_run *r, int64_t row, int64_t n) {
  const ronde__phys *phys = j->piece_phys; /* in the format of the whole */
  int64_t piece = r->piece + row * r->piece_step, whole = r->whole + row * r->whole_step;
  int64_t from = j->puts ? piece : whole, to = j->puts ? whole : piece;
  if (j->from) ronde__value_add(j->desc, phys, j->from, from, j->to, to, n, j->accumulate);
  else if (!j->accumulate) memset(ronde__operand_at(phys, j->to, to), 0, ronde__operand_bytes(phys, n));
}

static void pieces_part(void *arg, int thread, int n_threads) {
  const pieces_job *j = arg;
  int64_t begin, end;
  for (int64_t c = 0; c < j->piece_phys->c;) {
    piece_run r = piece_run_at(j, c, &c);
    bool adjacent = r.length == r.piece_step && r.length == r.whole_step;
    ronde__thread_chunk(r.rows, thread, n_threads, &begin, &end);
    if (adjacent) pieces_move(j, &r, begin, (end - begin) * r.length);
    for (int64_t row = begin; row < end && !adjacent; row++) pieces_move(j, &r, row, r.length);
  }
  if (j->accumulate || (j->puts && j->offset > 0)) return;
  const ronde__phys *to = j->puts ? j->whole_phys : j->piece_phys;
  ronde__thread_chunk(to->h * to->w * to->n, thread, n_threads, &begin, &end);
  ronde__clear_padding_of_rows(to, j->to, begin, end);
}

void ronde__piece_put(const ronde__op_desc *desc, ronde__pool *pool, const ronde__phys *piece_phys, const float *piece,
                      int64_t offset, const ronde__phys *whole_phys, float *whole, bool accumulate) {
  pieces_job j = {desc, piece_phys, whole_phys, piece, whole, offset, true, accumulate};
  ronde__pool_run(pool, pieces_part, &j);
}

void ronde__piece_take(const ronde__op_desc *desc, ronde__pool *pool, const ronde__phys *whole_phys, const float *whole,
                       int64_t offset, const ronde__phys *piece_phys, float *piece, bool accumulate) {
  pieces_job j = {desc, piece_phys, whole_phys, whole, piece, offset, false, accumulate};
  ronde__pool_run(pool, pieces_part, &j);
}

ronde__layout ronde__pieces_layout(const ronde__phys *operands, int n) {
  ronde__layout layout = RONDE__ROWS;
  for (int i = 0; i < n; i++)
    if (operands[i].layout > layout) layout = operands[i].layout;
  return layout;
}

/* Between two layouts of the same values; inserted by the plan. To and from BLOCKS of images it is a transpose of each
 * block of channels, by tiles that go through a small buffer: the planes of a channel are often a multiple of 4 KiB apart,
 * so that a line of each would fall into one set of the first cache. */
#include "ops/elementwise.h"

#include "ops/gemm_list.h"
#include "ops/widen.h"

#include <string.h>

enum { TILE = 64, LD = TILE + RONDE__QUANTUM }; /* positions of a tile */

typedef struct reorder_job {
  const ronde__op_desc *desc;
  const ronde__phys *planes, *blocks; /* ROWS or LANES; BLOCKS, if one is: then of equal channels */
  const float *src;
  float *dst;
  bool to_blocks, accumulate;
} reorder_job;

/* Planes [channels][ld_planes] -> rows of a block of channels [n][ld_rows]; the block's padding is set to zero. */
static void tile_to_blocks(const reorder_job *j, int64_t in_planes, int64_t ld_planes, int64_t channels, int64_t n,
                           int64_t in_rows, int64_t ld_rows) {
  float tile[RONDE__MAX_BLOCK * LD], transposed[TILE * RONDE__MAX_BLOCK];
  const float *planes = j->src + in_planes;
  int64_t block = j->blocks->block;
  for (int64_t c = 0; c < channels; c++) memcpy(tile + c * LD, planes + c * ld_planes, (size_t)n * sizeof *tile);
  for (int64_t c = channels; c < block; c++) memset(tile + c * LD, 0, (size_t)n * sizeof *tile);
  if (!j->accumulate && !j->blocks->bf16) {
    j->desc->compute.kernels->transpose(tile, LD, block, n, j->dst + in_rows, ld_rows);
    return;
  }
  j->desc->compute.kernels->transpose(tile, LD, block, n, transposed, block);
  for (int64_t i = 0; i < n; i++)
    ronde__operand_add(j->desc, j->blocks, transposed + i * block, j->dst, in_rows + i * ld_rows,
                       j->accumulate ? channels : block, j->accumulate);
}

static void tile_to_planes(const reorder_job *j, int64_t in_rows, int64_t ld_rows, int64_t channels, int64_t n,
                           int64_t in_planes, int64_t ld_planes) {
  float tile[RONDE__MAX_BLOCK * LD], wide[TILE * RONDE__MAX_BLOCK];
  const float *rows = j->src + in_rows;
  if (j->blocks->bf16) {
    for (int64_t i = 0; i < n; i++)
      ronde__widen(j->desc, j->blocks, j->src, in_rows + i * ld_rows, channels, wide + i * RONDE__MAX_BLOCK);
    rows = wide;
    ld_rows = RONDE__MAX_BLOCK;
  }
  j->desc->compute.kernels->transpose(rows, ld_rows, n, channels, tile, LD);
  for (int64_t c = 0; c < channels; c++)
    ronde__gradient_add(j->desc, tile + c * LD, j->dst + in_planes + c * ld_planes, n, j->accumulate);
}

/* The positions of a channel that are adjacent: pixels of an example in ROWS, pixels and examples in LANES. */
static int64_t positions_of(const ronde__phys *planes) {
  return planes->h * planes->w * (planes->layout == RONDE__LANES ? planes->n : 1);
}

static void tiles_part(void *arg, int thread, int n_threads) {
  const reorder_job *j = arg;
  const ronde__phys *planes = j->planes, *blocks = j->blocks;
  bool lanes = planes->layout == RONDE__LANES;
  int64_t positions = positions_of(planes), tiles = ronde__ceil_div(positions, TILE), begin, end;
  int64_t ld_rows = (lanes ? 1 : blocks->n) * blocks->block;
  ronde__thread_chunk((lanes ? 1 : blocks->n) * ronde__phys_blocks(blocks) * tiles, thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t position = item % tiles * TILE, n = item / tiles / ronde__phys_blocks(blocks);
    int64_t c = item / tiles % ronde__phys_blocks(blocks) * blocks->block;
    int64_t channels = ronde__min(blocks->block, blocks->c - c), count = ronde__min(TILE, positions - position);
    int64_t in_planes = ronde__phys_index(planes, n, c, 0) + position;
    int64_t in_rows = ronde__phys_index(blocks, n, c, 0) + position * ld_rows;
    if (j->to_blocks) tile_to_blocks(j, in_planes, positions, channels, count, in_rows, ld_rows);
    else tile_to_planes(j, in_rows, ld_rows, channels, count, in_planes, positions);
  }
}

/* Of one pixel a block's channels are adjacent on both sides. By a few rows at a time, so that each is read, or written, in its
 * own order on the side of the planes too. */
static void vectors_part(void *arg, int thread, int n_threads) {
  enum { ROWS_TOGETHER = 8 };
  const reorder_job *j = arg;
  const ronde__phys *blocks = j->blocks, *from = j->to_blocks ? j->planes : blocks,
                    *to = j->to_blocks ? blocks : j->planes;
  int64_t begin, end, n_blocks = ronde__phys_blocks(blocks);
  float room[RONDE__MAX_BLOCK];
  ronde__thread_chunk(n_blocks * ronde__ceil_div(blocks->n, ROWS_TOGETHER), thread, n_threads, &begin, &end);
  for (int64_t item = begin; item < end; item++) {
    int64_t c = item % n_blocks * blocks->block, channels = ronde__min(blocks->block, blocks->c - c);
    int64_t first = item / n_blocks * ROWS_TOGETHER, last = ronde__min(blocks->n, first + ROWS_TOGETHER);
    for (int64_t n = first; n < last; n++) {
      int64_t in_planes = n * blocks->c + c, in_rows = c * blocks->n + n * blocks->block;
      const float *x = ronde__widen(j->desc, from, j->src, j->to_blocks ? in_planes : in_rows, channels, room);
      ronde__operand_add(j->desc, to, x, j->dst, j->to_blocks ? in_rows : in_planes, channels, j->accumulate);
    }
    if (j->to_blocks && !j->accumulate && c + channels == blocks->c)
      ronde__clear_padding_of_rows(blocks, j->dst, first, last);
  }
}

/* ROWS [N][F] -> LANES [F][N]: the way of a network's input. */
static void rows_to_lanes(void *arg, int thread, int n_threads) {
  const reorder_job *j = arg;
  const ronde__phys *rows = j->planes;
  int64_t features = rows->c * rows->h * rows->w, begin, end;
  ronde__thread_chunk(features, thread, n_threads, &begin, &end);
  j->desc->compute.kernels->transpose(j->src + begin, features, rows->n, end - begin, j->dst + begin * rows->n,
                                      rows->n);
}

/* from -> to, of which one is BLOCKS and the other is not. */
static void reorder_by_tiles(reorder_job *j, const ronde__phys *from, const ronde__phys *to, ronde__pool *pool) {
  j->to_blocks = to->layout == RONDE__BLOCKS;
  j->blocks = j->to_blocks ? to : from;
  ronde__phys planes = j->to_blocks ? *from : *to;
  planes.c = j->blocks->c, planes.h = j->blocks->h, planes.w = j->blocks->w; /* the same for every split of features */
  j->planes = &planes;
  bool vectors = planes.layout == RONDE__ROWS && planes.h * planes.w == 1;
  ronde__pool_run(pool, vectors ? vectors_part : tiles_part, j);
}

static void reorder_between(const ronde__op_desc *desc, ronde__pool *pool, const ronde__phys *from, const float *src,
                            const ronde__phys *to, float *dst, bool accumulate) {
  reorder_job j = {.desc = desc, .planes = from, .src = src, .dst = dst, .accumulate = accumulate};
  bool one_in_blocks = (from->layout == RONDE__BLOCKS) != (to->layout == RONDE__BLOCKS);
  if (from->layout == RONDE__ROWS && to->layout == RONDE__LANES && !accumulate)
    ronde__pool_run(pool, rows_to_lanes, &j);
  else if (one_in_blocks) reorder_by_tiles(&j, from, to, pool);
  else ronde__reorder(from, src, to, dst, accumulate);
}

static ronde_status reorder_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  reorder_between(desc, call->pool, &desc->in[0], call->in[0], &desc->out[0], call->out[0], false);
  return RONDE_OK;
}

static ronde_status reorder_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  if (call->din[0])
    reorder_between(desc, call->pool, &desc->out[0], call->dout[0], &desc->in[0], call->din[0],
                    call->accumulate_dinput[0]);
  return RONDE_OK;
}

static bool is_between_blocks(const ronde__op_desc *desc) {
  return desc->in[0].layout == RONDE__BLOCKS && desc->out[0].layout == RONDE__BLOCKS;
}

static const ronde__form features_form = {
    .takes = is_between_blocks,
    .forward = reorder_forward,
    .backward = reorder_backward,
    .implementation = ronde__elementwise_implementation,
};

static const ronde__form reorder_form = {
    .bf16 = {.in = 1, .out = 1},
    .for_products = true,
    .forward = reorder_forward,
    .backward = reorder_backward,
    .implementation = ronde__elementwise_implementation,
};

const ronde__op ronde__op_reorder = {
    .name = "reorder",
    .infer = ronde__elementwise_infer,
    .forms = (const ronde__form *const[]){&features_form, &reorder_form, NULL},
};

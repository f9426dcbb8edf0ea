/* Images that can be learned. Each class has a smooth prototype; an example is that prototype shifted, with a
 * contrast of its own and noise, as a function of (seed, id). Only integers are used, so that the bytes are the same
 * on every machine.
 * Legend: C channels, H, W; G nodes of the prototype's coarse grid in each direction. */
#include "base/rng.h"
#include "data/set.h"

#include <string.h>

#define G 5
#define ONE 256 /* of fixed-point numbers */

enum { STREAM_PROTOTYPE, STREAM_TRAIN, STREAM_TEST };
enum { BLOCK_TRAITS, BLOCK_NOISE }; /* blocks of an example: its traits, then its noise, 16 pixels a block */

/* Where the pixels of one row or column lie on the grid. */
typedef struct grid_point {
  int16_t node, fraction;
} grid_point;

static void random_block(uint64_t seed, int stream, uint64_t index, uint8_t bytes[16]) {
  uint32_t words[4];
  ronde__philox(seed, RONDE__STREAM_SYNTHETIC | (uint64_t)stream, index, words);
  for (int i = 0; i < 16; ++i) bytes[i] = (uint8_t)(words[i / 4] >> (8 * (i % 4)));
}

/* Values -128..127, grid [classes][C][G][G]. */
static void make_prototypes(const ronde__set *set, int8_t *grid) {
  int64_t n = set->classes * set->dims[0] * G * G;
  uint8_t bytes[16];
  for (int64_t i = 0; i < n; ++i) {
    if (i % 16 == 0) random_block(set->seed, STREAM_PROTOTYPE, (uint64_t)(i / 16), bytes);
    grid[i] = (int8_t)(bytes[i % 16] - 128);
  }
}

static void make_grid_points(grid_point *places, int64_t n, int shift) {
  int64_t last = (G - 1) * ONE - 1;
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = i * (G - 1) * ONE / n + shift;
    at = at < 0 ? 0 : at > last ? last : at;
    places[i] = (grid_point){(int16_t)(at / ONE), (int16_t)(at % ONE)};
  }
}

/* The columns of the grid, interpolated at one row, times ONE. */
static void blend_rows(const int8_t *grid, grid_point y, int columns[G]) {
  const int8_t *upper = grid + y.node * G, *lower = upper + G;
  for (int g = 0; g < G; ++g) columns[g] = upper[g] * (ONE - y.fraction) + lower[g] * y.fraction;
}

typedef struct example_maker {
  const ronde__set *set;
  int stream;
  const int8_t *prototypes;
  grid_point *rows, *columns; /* [H], [W] */
} example_maker;

static void make_example(const example_maker *m, int64_t id, uint8_t *x, int64_t *label_out) {
  const int64_t *dims = m->set->dims;
  int64_t elems = dims[0] * dims[1] * dims[2];
  uint64_t block = (uint64_t)id * (uint64_t)(ronde__ceil_div(elems, 16) + BLOCK_NOISE);
  uint8_t bytes[16];
  random_block(m->set->seed, m->stream, block + BLOCK_TRAITS, bytes);
  uint64_t draw;
  memcpy(&draw, bytes, sizeof draw);
  int64_t label = (int64_t)(draw % (uint64_t)m->set->classes);
  make_grid_points(m->rows, dims[1], bytes[8] - 128);
  make_grid_points(m->columns, dims[2], bytes[9] - 128);
  int contrast = ONE / 4 + bytes[10]; /* 0.25 to 1.25 */
  const int8_t *grid = m->prototypes + label * dims[0] * G * G;
  int64_t i = 0;
  for (int64_t c = 0; c < dims[0]; ++c, grid += G * G)
    for (int64_t h = 0; h < dims[1]; ++h) {
      int at_row[G];
      blend_rows(grid, m->rows[h], at_row);
      for (int64_t w = 0; w < dims[2]; ++w, ++i) {
        if (i % 16 == 0) random_block(m->set->seed, m->stream, block + BLOCK_NOISE + (uint64_t)(i / 16), bytes);
        int noise = (bytes[i % 16] - 128) / 2;
        grid_point p = m->columns[w];
        int smooth = (at_row[p.node] * (ONE - p.fraction) + at_row[p.node + 1] * p.fraction) / (ONE * ONE);
        int value = 128 + smooth * contrast / (2 * ONE) + noise;
        x[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
      }
    }
  *label_out = label;
}

static ronde_status synthetic_scan(const ronde__set *set, ronde__facts *facts_out) {
  ronde__facts facts = {.n = {set->n[0], set->n[1]}};
  memcpy(facts.dims, set->dims, sizeof facts.dims);
  *facts_out = facts;
  return RONDE_OK;
}

static ronde_status synthetic_fill(const ronde__set *set, const ronde__facts *facts, ronde_split split, void *x,
                                   int64_t *labels, float *targets) {
  int64_t elems = ronde__facts_elems(facts);
  size_t grid_bytes = (size_t)ronde__round_up(set->classes * set->dims[0] * G * G, (int64_t)sizeof(grid_point));
  int8_t *prototypes;
  RONDE__ALLOC(prototypes, grid_bytes + sizeof(grid_point) * (size_t)(set->dims[1] + set->dims[2]), set->name);
  grid_point *rows = (grid_point *)(prototypes + grid_bytes);
  const example_maker m = {set, split == RONDE_SPLIT_TRAIN ? STREAM_TRAIN : STREAM_TEST, prototypes, rows,
                           rows + set->dims[1]};
  make_prototypes(set, prototypes);
  for (int64_t id = 0; id < facts->n[split]; ++id) make_example(&m, id, (uint8_t *)x + id * elems, &labels[id]);
  ronde__free(prototypes);
  return RONDE_OK;
}

const ronde__set_kind ronde__synthetic_kind = {synthetic_scan, synthetic_fill};

/* Physical forms of activations and the moves between them. All three are affine in (n, c, p) within a channel block,
 * so that one loop serves every pair. */
#include "tensor/tensor.h"

#include <string.h>

/* Padding is multiplied, on both sides of a layer; narrow blocks are multiplied more slowly, and those of 48 in bfloat16 by half steps. The
 * costs of a channel were compared on an Intel Xeon (docs/notebook/blocks.md). */
int64_t ronde__channel_block(int64_t channels) {
  static const struct {
    int64_t block, cost;
  } choices[] = {{RONDE__MAX_BLOCK, 100}, {48, 110}, {32, 108}, {RONDE__QUANTUM, 130}};
  int64_t block = 0, least = INT64_MAX;
  for (size_t i = 0; i < RONDE__COUNT(choices); i++) {
    int64_t cost = choices[i].cost * ronde__round_up(channels, choices[i].block);
    if (cost < least) least = cost, block = choices[i].block;
  }
  return block;
}

ronde__phys ronde__phys_make(ronde__layout layout, int64_t n, int64_t c, int64_t h, int64_t w) {
  ronde__phys phys = {.layout = layout, .n = n, .c = c, .h = h, .w = w};
  if (layout == RONDE__LANES) phys.block = n;
  if (layout == RONDE__BLOCKS) phys.block = ronde__channel_block(c);
  return phys;
}

ronde__phys ronde__phys_of_shape(const ronde__shape *shape, int64_t n) {
  const int64_t *d = shape->dim;
  switch (shape->rank) {
  case 0: return ronde__phys_make(RONDE__ROWS, n, 1, 1, 1);
  case 1: return ronde__phys_make(RONDE__ROWS, n, d[0], 1, 1);
  case 2: return ronde__phys_make(RONDE__ROWS, n, d[0], 1, d[1]);
  default: return ronde__phys_make(RONDE__ROWS, n, d[0], d[1], ronde__shape_elems(shape) / (d[0] * d[1]));
  }
}

ronde__phys ronde__phys_of_shape_in(ronde__layout layout, const ronde__shape *shape, int64_t n) {
  ronde__phys rows = ronde__phys_of_shape(shape, n);
  return ronde__phys_make(layout, n, rows.c, rows.h, rows.w);
}

ronde__phys ronde__phys_along(const ronde__shape *shape, int dim, int64_t n) {
  int64_t inner = 1;
  for (int d = 0; d < dim; d++) n *= shape->dim[d];
  for (int d = dim + 1; d < shape->rank; d++) inner *= shape->dim[d];
  return ronde__phys_make(RONDE__ROWS, n, shape->dim[dim], 1, inner);
}

int64_t ronde__phys_blocks(const ronde__phys *phys) {
  return phys->layout == RONDE__BLOCKS ? ronde__ceil_div(phys->c, phys->block) : 1;
}

int64_t ronde__phys_elems(const ronde__phys *phys) {
  int64_t pixels = phys->h * phys->w;
  switch (phys->layout) {
  case RONDE__BLOCKS: return ronde__phys_blocks(phys) * pixels * phys->n * phys->block;
  default: return phys->n * phys->c * pixels;
  }
}

/* Blocks are multiples of the quantum, so that two bfloat16 share the place of a float without a rest. */
size_t ronde__phys_floats(const ronde__phys *phys) { return (size_t)ronde__phys_elems(phys) / (phys->bf16 ? 2 : 1); }

size_t ronde__phys_bytes(const ronde__phys *phys) { return ronde__phys_floats(phys) * sizeof(float); }

int64_t ronde__phys_index(const ronde__phys *phys, int64_t n, int64_t c, int64_t p) {
  int64_t pixels = phys->h * phys->w;
  switch (phys->layout) {
  case RONDE__LANES: return (c * pixels + p) * phys->block + n;
  case RONDE__BLOCKS: return ((c / phys->block * pixels + p) * phys->n + n) * phys->block + c % phys->block;
  default: return (n * phys->c + c) * pixels + p;
  }
}

bool ronde__phys_equal(const ronde__phys *a, const ronde__phys *b) {
  return a->layout == b->layout && a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w &&
         a->block == b->block && a->bf16 == b->bf16;
}

bool ronde__phys_alike(const ronde__phys *a, const ronde__phys *b) {
  int64_t pixels[] = {a->h * a->w, b->h * b->w};
  if (a->layout != b->layout) return false;
  switch (a->layout) {
  case RONDE__ROWS: return a->n * a->c * pixels[0] == b->n * b->c * pixels[1];
  case RONDE__LANES: return a->n == b->n && a->c * pixels[0] == b->c * pixels[1];
  default: return a->n == b->n && a->c == b->c && pixels[0] == pixels[1];
  }
}

int64_t ronde__phys_rows(const ronde__phys *phys, const ronde__shape *shape) {
  return ronde__shape_elems(shape) / (phys->c * phys->h * phys->w);
}

/* Strides of c (within a block), p and n. */
typedef struct phys_strides {
  int64_t c, p, n;
} phys_strides;

static phys_strides phys_strides_of(const ronde__phys *phys) {
  int64_t pixels = phys->h * phys->w;
  switch (phys->layout) {
  case RONDE__LANES: return (phys_strides){pixels * phys->block, phys->block, 1};
  case RONDE__BLOCKS: return (phys_strides){1, phys->n * phys->block, phys->block};
  default: return (phys_strides){pixels, 1, phys->c * pixels};
  }
}

/* The innermost loop writes to adjacent addresses. The middle one is cut into tiles of 16, so that a cache line that
 * was read is used while it is in cache. */
static void move_block(const float *src, phys_strides s, float *dst, phys_strides d, int64_t channels, int64_t pixels,
                       int64_t n, bool accumulate) {
  enum { TILE = 16 };
  int64_t count[3] = {channels, pixels, n}, from[3] = {s.c, s.p, s.n}, to[3] = {d.c, d.p, d.n};
  int inner = d.c == 1 ? 0 : d.p == 1 ? 1 : 2;
  int tile = s.c == 1 ? 0 : s.p == 1 ? 1 : 2;
  if (tile == inner) tile = inner == 2 ? 1 : 2;
  int outer = 3 - inner - tile;
  for (int64_t o = 0; o < count[outer]; o++)
    for (int64_t t0 = 0; t0 < count[tile]; t0 += TILE)
      for (int64_t i0 = 0; i0 < count[inner]; i0 += TILE)
        for (int64_t t = t0; t < ronde__min(t0 + TILE, count[tile]); t++) {
          const float *in = src + o * from[outer] + t * from[tile];
          float *out = dst + o * to[outer] + t * to[tile];
          int64_t end = ronde__min(i0 + TILE, count[inner]);
          if (accumulate)
            for (int64_t i = i0; i < end; i++) out[i * to[inner]] += in[i * from[inner]];
          else
            for (int64_t i = i0; i < end; i++) out[i * to[inner]] = in[i * from[inner]];
        }
}

static void zero_padding(const ronde__phys *phys, float *x) {
  int64_t rows = phys->h * phys->w * phys->n, tail = phys->layout == RONDE__BLOCKS ? phys->c % phys->block : 0;
  if (tail == 0) return;
  float *last = x + (ronde__phys_blocks(phys) - 1) * rows * phys->block;
  for (int64_t r = 0; r < rows; r++) memset(last + r * phys->block + tail, 0, (size_t)(phys->block - tail) * sizeof *x);
}

/* Two BLOCKS forms with different splits of the features into channels and pixels. */
static void move_features(const ronde__phys *s, const float *src, const ronde__phys *d, float *dst, bool accumulate) {
  int64_t s_pixels = s->h * s->w, d_pixels = d->h * d->w;
  for (int64_t f = 0; f < s->c * s_pixels; f++) {
    const float *in = src + ronde__phys_index(s, 0, f / s_pixels, f % s_pixels);
    float *out = dst + ronde__phys_index(d, 0, f / d_pixels, f % d_pixels);
    for (int64_t n = 0; n < s->n; n++) out[n * d->block] = in[n * s->block] + (accumulate ? out[n * d->block] : 0);
  }
}

void ronde__reorder(const ronde__phys *src_phys, const float *src, const ronde__phys *dst_phys, float *dst,
                    bool accumulate) {
  ronde__phys s = *src_phys, d = *dst_phys;
  if (!accumulate) zero_padding(&d, dst);
  /* ROWS and LANES are the same for every split of their features, so they take the other side's. */
  if (d.layout != RONDE__BLOCKS) d.c = s.c, d.h = s.h, d.w = s.w;
  else if (s.layout != RONDE__BLOCKS) s.c = d.c, s.h = d.h, s.w = d.w;
  else if (s.c != d.c) {
    move_features(&s, src, &d, dst, accumulate);
    return;
  }
  phys_strides from = phys_strides_of(&s), to = phys_strides_of(&d);
  int64_t step = s.c; /* channels that are affine on both sides */
  if (s.layout == RONDE__BLOCKS) step = s.block;
  if (d.layout == RONDE__BLOCKS) step = ronde__min(step, d.block);
  for (int64_t c = 0; c < s.c; c += step)
    move_block(src + ronde__phys_index(&s, 0, c, 0), from, dst + ronde__phys_index(&d, 0, c, 0), to,
               ronde__min(step, s.c - c), s.h * s.w, s.n, accumulate);
}

/* The rows of tiles of a Winograd convolution, as pieces of work. */
#include "ops/winograd_rows.h"

#include <string.h>

/* Channels on both sides: transformed weights of 2 MB, which come from the third cache, and of 9 MB. */
enum { SOME_CHANNELS = 128, MANY_CHANNELS = 256 };

/* About how many rows a chunk has: the more weights, the more rows that share them. A gradient of many weights is added to
 * by each chunk, from beyond the second cache. */
static int64_t rows_wanted(const ronde__phys *in, const ronde__phys *out, bool many_channels, bool of_weights) {
  if (many_channels) return of_weights ? 256 : 100;
  return in->c * out->c < SOME_CHANNELS * SOME_CHANNELS ? 48 : 64;
}

enum { OUT = RONDE__WINOGRAD_OUT, IN = RONDE__WINOGRAD_IN, PLACES = RONDE__WINOGRAD_PLACES };

/* Chunks of nearly equal length end between tiles, or cut a tile's examples in nearly equal parts. */
ronde__winograd_rows ronde__winograd_rows_of(const ronde__phys *in, const ronde__phys *out, bool of_weights) {
  int64_t tiles_w = ronde__ceil_div(out->w, OUT), tiles = ronde__ceil_div(out->h, OUT) * tiles_w, n = out->n;
  ronde__winograd_rows r = {.n = n, .tiles_w = tiles_w, .count = tiles * n};
  r.many_channels = in->c >= MANY_CHANNELS && out->c >= MANY_CHANNELS;
  int64_t wanted = rows_wanted(in, out, r.many_channels, of_weights);
  if (r.count <= wanted + wanted / 3) r.chunk = r.count;
  else if (n > wanted) r.chunk = ronde__ceil_div(n, ronde__ceil_div(n, wanted));
  else r.chunk = ronde__ceil_div(tiles, ronde__ceil_div(tiles, wanted / n)) * n;
  r.n_chunks = ronde__ceil_div(r.count, r.chunk);
  return r;
}

ronde__winograd_operand ronde__winograd_operand_of(const ronde__phys *phys, ronde__winograd_map map, int64_t top,
                                                   int64_t left, const ronde__winograd_rows *rows) {
  ronde__winograd_operand o = {.phys = *phys,
                               .map = map,
                               .size = map == RONDE__WINOGRAD_INPUT ? IN : OUT,
                               .top = top,
                               .left = left,
                               .blocks = ronde__phys_blocks(phys),
                               .place = rows->chunk * phys->block + RONDE__WINOGRAD_GAP};
  o.block_stride = PLACES * o.place;
  o.chunk = o.blocks * o.block_stride;
  return o;
}

bool ronde__winograd_next(const ronde__winograd_rows *rows, int64_t chunk, ronde__winograd_segment *s) {
  s->row += s->count;
  int64_t row = chunk * rows->chunk + s->row, tile = row / rows->n;
  if (s->row == rows->chunk || row >= rows->count) return false;
  s->tile_h = tile / rows->tiles_w, s->tile_w = tile % rows->tiles_w;
  s->example = row % rows->n;
  s->count = ronde__min(rows->n - s->example, rows->chunk - s->row);
  return true;
}

ronde__winograd_tile ronde__winograd_tile_at(const ronde__phys *phys, const float *block, int64_t top, int64_t left,
                                             int size) {
  int64_t row0 = ronde__max(0, -top), column0 = ronde__max(0, -left), pixel = phys->n * phys->block;
  return (ronde__winograd_tile){.at = (float *)block + ((top + row0) * phys->w + left + column0) * pixel,
                                .row = phys->w * pixel,
                                .column = pixel,
                                .row0 = (int)row0,
                                .row1 = (int)ronde__min(size, phys->h - top),
                                .column0 = (int)column0,
                                .column1 = (int)ronde__min(size, phys->w - left)};
}

ronde__winograd_tile ronde__winograd_whole_tile(const float *at, int64_t place, int size) {
  return (ronde__winograd_tile){(float *)at, size * place, place, 0, size, 0, size};
}

void ronde__winograd_transform(const ronde__kernels *kernels, const ronde__winograd_rows *rows,
                               const ronde__winograd_operand *o, const float *activation, int64_t chunk, int64_t block,
                               float *to) {
  const ronde__phys *phys = &o->phys;
  const float *from = activation + block * phys->h * phys->w * phys->n * phys->block;
  ronde__winograd_segment s = {0};
  while (ronde__winograd_next(rows, chunk, &s)) {
    ronde__winograd_tile in =
        ronde__winograd_tile_at(phys, from, s.tile_h * OUT + o->top, s.tile_w * OUT + o->left, o->size);
    ronde__winograd_tile out = ronde__winograd_whole_tile(to + s.row * phys->block, o->place, IN);
    in.at += s.example * phys->block;
    kernels->winograd(o->map, &in, &out, s.count * phys->block, false);
  }
  size_t rest = (size_t)((rows->chunk - s.row) * phys->block) * sizeof(float);
  for (int p = 0; p < PLACES && rest; p++) memset(to + p * o->place + s.row * phys->block, 0, rest);
}

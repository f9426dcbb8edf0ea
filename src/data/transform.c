/* Bilinear resizing, with taps that are made once for a size, and random moves, each a function of (seed, epoch,
 * example). */
#include "data/transform.h"

#include "data/data.h"

#include "base/rng.h"

#include <string.h>

/* ---- size ------------------------------------------------------------------------------------------------------- */

/* Where an output row or column lies: between inputs `first` and `second`. */
typedef struct resize_tap {
  int64_t first, second;
  float weight; /* of second */
} resize_tap;

struct ronde__resizer {
  int64_t from[2], to[2];
  resize_tap *taps[2]; /* [to] */
};

static void transform_make_taps(int64_t from, int64_t to, resize_tap *taps) {
  float scale = (float)from / (float)to;
  for (int64_t i = 0; i < to; ++i) {
    float at = scale * ((float)i + .5f) - .5f;
    if (at < 0) at = 0;
    int64_t first = ronde__min((int64_t)at, from - 1);
    taps[i] = (resize_tap){first, ronde__min(first + 1, from - 1), at - (float)first};
  }
}

ronde_status ronde__resizer_create(const int64_t from[2], const int64_t to[2], ronde__resizer **resizer_out) {
  ronde__resizer *r;
  RONDE__ALLOC(r, sizeof *r + (size_t)(to[0] + to[1]) * sizeof(resize_tap), "resize");
  r->taps[0] = (resize_tap *)(r + 1);
  r->taps[1] = r->taps[0] + to[0];
  for (int d = 0; d < 2; ++d) {
    r->from[d] = from[d];
    r->to[d] = to[d];
    transform_make_taps(from[d], to[d], r->taps[d]);
  }
  *resizer_out = r;
  return RONDE_OK;
}

void ronde__resizer_destroy(ronde__resizer *resizer) { ronde__free(resizer); }

/* The same text for both types of items. */
#define RESIZE_ROWS(type)                                                               \
  for (int64_t row = 0; row < n * r->to[0]; ++row) {                                    \
    const resize_tap *v = &r->taps[0][row % r->to[0]];                                  \
    const type *plane = x + row / r->to[0] * (r->from[0] * r->from[1]);                 \
    const type *a = plane + v->first * r->from[1], *b = plane + v->second * r->from[1]; \
    float *out = y + row * r->to[1];                                                    \
    for (int64_t w = 0; w < r->to[1]; ++w) {                                            \
      const resize_tap *h = &r->taps[1][w];                                             \
      float left = 1 - h->weight, right = h->weight;                                    \
      float upper = left * (float)a[h->first] + right * (float)a[h->second];            \
      float lower = left * (float)b[h->first] + right * (float)b[h->second];            \
      out[w] = (1 - v->weight) * upper + v->weight * lower;                             \
    }                                                                                   \
  }

void ronde__resize_u8(const ronde__resizer *r, int64_t n, const uint8_t *x, float *y) { RESIZE_ROWS(uint8_t) }

void ronde__resize_f32(const ronde__resizer *r, int64_t n, const float *x, float *y) { RESIZE_ROWS(float) }

/* ---- chance ----------------------------------------------------------------------------------------------------- */

#define RONDE__STREAM_AUGMENT (6ull << 32) /* beside those of base/rng.h */

/* Maps a random word to one of n, each equally likely up to 2^-28. */
static int transform_choose(uint32_t word, int n) { return (int)((uint64_t)word * (uint64_t)n >> 32); }

ronde__move ronde__move_draw(uint64_t seed, int64_t epoch, int64_t id, bool crop, bool flip) {
  uint32_t words[4];
  ronde__philox(seed, RONDE__STREAM_AUGMENT | (uint32_t)epoch, (uint64_t)id, words);
  ronde__move move = {.mirror = flip && words[2] >> 31};
  if (crop) {
    move.down = transform_choose(words[0], 2 * RONDE__CROP_PADDING + 1) - RONDE__CROP_PADDING;
    move.right = transform_choose(words[1], 2 * RONDE__CROP_PADDING + 1) - RONDE__CROP_PADDING;
  }
  return move;
}

static void transform_mirror_row(void *row, int64_t width, size_t item_bytes) {
  uint8_t *bytes = row;
  float *items = row;
  for (int64_t a = 0, b = width - 1; a < b; ++a, --b) {
    if (item_bytes == 1) {
      uint8_t kept = bytes[a];
      bytes[a] = bytes[b];
      bytes[b] = kept;
    } else {
      float kept = items[a];
      items[a] = items[b];
      items[b] = kept;
    }
  }
}

void ronde__move_apply(ronde__move move, int64_t n, const int64_t sides[2], size_t item_bytes, const void *x, void *y) {
  int64_t height = sides[0], width = sides[1], row_bytes = width * (int64_t)item_bytes;
  /* The output columns that have a source. */
  int64_t begin = ronde__max(0, -move.right), end = ronde__min(width, width - move.right);
  int64_t skip = begin * (int64_t)item_bytes, kept = ronde__max(0, end - begin) * (int64_t)item_bytes;
  for (int64_t row = 0; row < n * height; ++row) {
    char *to = (char *)y + row * row_bytes;
    int64_t from = row % height + move.down;
    memset(to, 0, (size_t)row_bytes);
    if (from < 0 || from >= height) continue;
    const char *source = (const char *)x + (row + move.down) * row_bytes + move.right * (int64_t)item_bytes;
    if (kept) memcpy(to + skip, source + skip, (size_t)kept);
    if (move.mirror) transform_mirror_row(to, width, item_bytes);
  }
}

/* ---- single inputs ---------------------------------------------------------------------------------------------- */

ronde_status ronde__planes_resize(int64_t n, const int64_t from[2], const int64_t to[2], float **x) {
  ronde__resizer *resizer;
  if (from[0] == to[0] && from[1] == to[1]) return RONDE_OK;
  RONDE_TRY(ronde__resizer_create(from, to, &resizer));
  float *y = ronde__alloc((size_t)(n * to[0] * to[1]) * sizeof *y);
  if (y) ronde__resize_f32(resizer, n, *x, y);
  ronde__resizer_destroy(resizer);
  if (!y) return ronde__fail(RONDE_E_MEMORY, "resize: no memory for %lld planes", (long long)n);
  ronde__free(*x);
  *x = y;
  return RONDE_OK;
}

/* What happens to an image between the store and a batch: it is resized and, where it is a training image, moved at
 * random. */
#ifndef RONDE_TRANSFORM_H
#define RONDE_TRANSFORM_H

#include "base/base.h"

/* Bilinear, as torch.nn.functional.interpolate(mode="bilinear", align_corners=False) without antialias. Immutable. */
typedef struct ronde__resizer ronde__resizer;
/* Sides are heights and widths. Errors: RONDE_E_MEMORY. */
ronde_status ronde__resizer_create(const int64_t from[2], const int64_t to[2], ronde__resizer **resizer_out);
void ronde__resizer_destroy(ronde__resizer *resizer);
/* n planes, on the scale of the stored values. */
void ronde__resize_u8(const ronde__resizer *resizer, int64_t n, const uint8_t *x, float *y);
void ronde__resize_f32(const ronde__resizer *resizer, int64_t n, const float *x, float *y);

#define RONDE__CROP_PADDING 4 /* pixels of zeros on each side of an image before it is cropped to its size again */

/* What is done to one training image: y[h][w] = x[h + down][w + right], zero outside, then mirrored. */
typedef struct ronde__move {
  int down, right; /* within the padding */
  bool mirror;
} ronde__move;

/* A function of (seed, epoch, id) and of which of the two moves are asked for. */
ronde__move ronde__move_draw(uint64_t seed, int64_t epoch, int64_t id, bool crop, bool flip);
/* n planes of sides [h, w] with items of 1 or 4 bytes. */
void ronde__move_apply(ronde__move move, int64_t n, const int64_t sides[2], size_t item_bytes, const void *x, void *y);

#endif

/* What both directions of location-sensitive attention do: sizes, windows of earlier weights, keys of a step. */
#include "ops/location_attention.h"

#include <string.h>

ronde__location_sizes ronde__location_sizes_of(const ronde__op_desc *desc) {
  const ronde__phys *x = &desc->in[RONDE__LOCATION_X], *memory = &desc->in[RONDE__LOCATION_MEMORY];
  return (ronde__location_sizes){.n = x->n,
                                 .t = x->c,
                                 .p = x->w,
                                 .s = memory->c,
                                 .e = memory->w,
                                 .a = desc->in[RONDE__LOCATION_KEYS].w,
                                 .h = desc->attr.out_channels,
                                 .k = desc->attr.kernel[1],
                                 .c = desc->attr.filters};
}

int64_t ronde__location_scratch(const ronde__location_sizes *z, bool backward) {
  int64_t one = z->s * (z->a + 2 * z->k);
  return backward ? 2 * one + z->n * z->t * RONDE__PANEL : one;
}

void ronde__location_join(const ronde__location_job *j) {
  const ronde__location_sizes *z = &j->s->sizes;
  const float *filters = j->call->param[RONDE__LOCATION_FILTERS], *dense = j->call->param[RONDE__LOCATION_DENSE];
  for (int64_t a = 0; a < z->a; a++) {
    float *row = j->location + a * 2 * z->k;
    memset(row, 0, (size_t)(2 * z->k) * sizeof *row);
    for (int64_t c = 0; c < z->c; c++)
      for (int64_t i = 0; i < 2 * z->k; i++) row[i] += dense[a * z->c + c] * filters[c * 2 * z->k + i];
  }
}

void ronde__location_windows(const ronde__location_sizes *z, const float *before, const float *sums, float *windows) {
  const float *of[] = {before, sums};
  for (int64_t s = 0; s < z->s; s++)
    for (int channel = 0; channel < 2; channel++) {
      float *row = windows + (2 * s + channel) * z->k;
      int64_t first = s - z->k / 2, begin = ronde__max(0, -first), end = ronde__min(z->k, z->s - first);
      memset(row, 0, (size_t)z->k * sizeof *row);
      if (begin < end) memcpy(row + begin, of[channel] + first + begin, (size_t)(end - begin) * sizeof *row);
    }
}

void ronde__location_keys(const ronde__location_job *j, int64_t n, const float *windows, const float *places,
                          float *out) {
  const ronde__location_sizes *z = &j->s->sizes;
  memcpy(out, j->call->in[RONDE__LOCATION_KEYS] + n * z->s * z->a, (size_t)(z->s * z->a) * sizeof *out);
  ronde__product_run(&j->s->places, windows, places, out, true);
}

/* Cuts an output into runs of pixels with the same taps, forward and for the data gradient; what the convolutions between
 * BLOCKS and between LANES have in common. */
#include "ops/conv_schedule.h"

#include "ops/conv.h"

#include <string.h>

static ronde_status conv_schedule_allocate(ronde__conv_schedule *s, int64_t runs, int64_t lists, int64_t kernels) {
  RONDE__ALLOC(s->runs, (size_t)runs * sizeof *s->runs, "convolution plan");
  RONDE__ALLOC(s->lists, (size_t)lists * sizeof *s->lists, "convolution plan");
  RONDE__ALLOC(s->list_keys, (size_t)lists * sizeof *s->list_keys, "convolution plan");
  RONDE__ALLOC(s->kernels, (size_t)kernels * sizeof *s->kernels, "convolution plan");
  return RONDE_OK;
}

void ronde__conv_schedule_release(ronde__conv_schedule *s) {
  for (int i = 0; i < s->n_lists; i++) ronde__gemm_list_destroy(&s->lists[i]);
  ronde__free(s->runs);
  ronde__free(s->lists);
  ronde__free(s->list_keys);
  ronde__free(s->kernels);
}

/* Neighbours in memory: a pixel's rows of BLOCKS, each of a block; a pixel's lanes. */
static int64_t pixel_rows(const ronde__phys *phys) { return phys->layout == RONDE__LANES ? phys->block : phys->n; }
static int64_t pixel_elems(const ronde__phys *phys) {
  return phys->layout == RONDE__LANES ? phys->block : phys->n * phys->block;
}

static ronde_status conv_schedule_create(const ronde__conv_direction *dir, int64_t longest, ronde__conv_run_fn fn,
                                         ronde__conv_schedule *s) {
  const ronde__phys *from = dir->from, *to = dir->to;
  int64_t pixels = to->h * to->w, kernel_h = dir->h.kernel + 1, kernel_w = dir->w.kernel + 1;
  int64_t classes = kernel_h * kernel_h * kernel_w * kernel_w;
  longest = ronde__min(longest, to->w);
  RONDE_TRY(conv_schedule_allocate(s, pixels, ronde__min(classes, pixels), longest));
  for (int64_t y = 0; y < to->h; y++) {
    ronde__taps h = dir->taps(&dir->h, y);
    for (int64_t x = 0, length; x < to->w; x += length) {
      ronde__taps w = dir->taps(&dir->w, x);
      /* Neighbouring pixels of the operand are neighbours in memory only at stride 1. */
      length = dir->w.stride > 1 ? 1 : ronde__min(longest, ronde__axis_run(&dir->w, dir->taps, x, to->w));
      ronde__conv_run *r = &s->runs[s->n_runs++];
      r->a0 = (h.at * from->w + w.at) * pixel_elems(from);
      r->c0 = (y * to->w + x) * pixel_elems(to);
      r->extent = length * pixel_rows(to);
      RONDE_TRY(fn(dir, h, w, s, r));
    }
  }
  return RONDE_OK;
}

ronde_status ronde__conv_schedules_create(const ronde__op_desc *desc, int64_t longest, ronde__conv_run_fn fn,
                                          const void *user, ronde__conv_schedule *forward, ronde__conv_schedule *data) {
  ronde__conv_direction dir = {.desc = desc,
                               .h = ronde__conv_axis_h(desc),
                               .w = ronde__conv_axis_w(desc),
                               .taps = ronde__axis_forward,
                               .from = &desc->in[0],
                               .to = &desc->out[0],
                               .user = user};
  dir.step_h = ronde__axis_forward_steps(&dir.h), dir.step_w = ronde__axis_forward_steps(&dir.w);
  RONDE_TRY(conv_schedule_create(&dir, longest, fn, forward));
  if (!desc->need_dinput[0]) return RONDE_OK;
  dir.taps = ronde__axis_backward;
  dir.step_h = ronde__axis_backward_steps(&dir.h), dir.step_w = ronde__axis_backward_steps(&dir.w);
  dir.from = &desc->out[0], dir.to = &desc->in[0];
  return conv_schedule_create(&dir, longest, fn, data);
}

ronde_status ronde__conv_schedule_list(ronde__conv_schedule *s, const int key[4], int64_t count, int *index_out,
                                       bool *is_new_out) {
  int i = 0;
  while (i < s->n_lists && memcmp(s->list_keys[i], key, sizeof s->list_keys[i]) != 0) i++;
  *is_new_out = i == s->n_lists;
  if (*is_new_out) {
    RONDE_TRY(ronde__gemm_list_create(count, &s->lists[i]));
    memcpy(s->list_keys[i], key, sizeof s->list_keys[i]);
    s->n_lists++;
  }
  *index_out = i;
  return RONDE_OK;
}

ronde_status ronde__conv_taps_list(const ronde__conv_direction *dir, ronde__taps h, ronde__taps w, int64_t blocks,
                                   int64_t weight_block, size_t size, ronde__conv_schedule *s, int *index_out) {
  bool is_new;
  int64_t count = (int64_t)h.count * w.count * blocks, term = 0;
  int64_t pixel = pixel_elems(dir->from), block_elems = dir->from->h * dir->from->w * pixel;
  RONDE_TRY(ronde__conv_schedule_list(s, (int[4]){h.first, h.count, w.first, w.count}, count, index_out, &is_new));
  if (!is_new) return RONDE_OK;
  ronde__gemm_list *list = &s->lists[*index_out];
  for (int y = 0; y < h.count; y++)
    for (int x = 0; x < w.count; x++)
      for (int64_t block = 0; block < blocks; block++, term++) {
        int64_t tap = (int64_t)(h.first + y * dir->step_h.tap) * dir->w.kernel + w.first + x * dir->step_w.tap;
        int64_t place = y * dir->step_h.pitch * dir->from->w + x * dir->step_w.pitch;
        list->a[term] = (uint64_t)(place * pixel + block * block_elems) * size;
        list->b[term] = (uint64_t)((tap * blocks + block) * weight_block) * size;
      }
  return RONDE_OK;
}

int ronde__conv_schedule_kernel(ronde__conv_schedule *s, const ronde__op_desc *desc, const ronde__gemm_shape *shape) {
  for (int i = 0; i < s->n_kernels; i++) {
    const ronde__gemm_shape *known = &s->kernels[i].set.shape;
    if (known->m == shape->m && known->n == shape->n && known->k == shape->k) return i;
  }
  s->kernels[s->n_kernels] = ronde__gemm_pair_resolve(desc, *shape);
  return s->n_kernels++;
}

void ronde__conv_run_sum(const ronde__conv_schedule *s, const ronde__conv_run *run, const float *a, const float *b,
                         float *c, bool accumulate) {
  const ronde__gemm_list *list = &s->lists[run->list];
  ronde__gemm_sum(&s->kernels[run->kernel], list, list->count, a + run->a0, b + run->b0, c + run->c0, accumulate);
}

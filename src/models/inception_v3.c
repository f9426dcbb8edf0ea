/* Inception-v3 in torchvision's form and with its names, without the auxiliary classifier (aux_logits=False); and a tiny one
 * with an eighth of the channels and each kind of block once. Images have at least 75x75 pixels.
 * Source: Szegedy et al., "Rethinking the Inception architecture for computer vision", CVPR 2016. */
#include "models/models.h"

#include <stdio.h>

/* The blocks of a network, and what all channels are divided by. */
typedef struct inception_sizes {
  int divisor;
  int a, c, e; /* how many of these kinds, whose maps keep their size */
} inception_sizes;

/* A block under construction: its input, and what the names of its layers begin with. */
typedef struct inception_block {
  const ronde_tensor *x;
  const char *name;
  const inception_sizes *sizes;
} inception_block;

typedef struct inception_window {
  int h, w, stride, padding_h, padding_w;
} inception_window;

static const inception_window one = {1, 1, 1, 0, 0}, three = {3, 3, 1, 1, 1}, five = {5, 5, 1, 2, 2};
static const inception_window row_of_three = {1, 3, 1, 0, 1}, column_of_three = {3, 1, 1, 1, 0};
static const inception_window row_of_seven = {1, 7, 1, 0, 3}, column_of_seven = {7, 1, 1, 3, 0};
static const inception_window inside = {3, 3, 1, 0, 0}, halving = {3, 3, 2, 0, 0};

/* Convolution without bias, batch normalisation, ReLU. */
static ronde_tensor *inception_conv(const inception_block *b, const ronde_tensor *x, const char *name, int64_t channels,
                                    inception_window w) {
  char text[64];
  ronde_conv2d_options o = {.out_channels = channels / b->sizes->divisor,
                            .kernel = {w.h, w.w},
                            .stride = {w.stride, w.stride},
                            .padding = {w.padding_h, w.padding_w},
                            .no_bias = true};
  snprintf(text, sizeof text, "%s%s.conv", b->name, name);
  x = ronde_conv2d(x, text, &o);
  snprintf(text, sizeof text, "%s%s.bn", b->name, name);
  return ronde_relu(ronde_batch_norm2d(x, text, &(ronde_batch_norm2d_options){.eps = 1e-3f}));
}

static ronde_tensor *inception_average(const ronde_tensor *x) {
  return ronde_avg_pool2d(x, &(ronde_pool2d_options){.kernel = {3, 3}, .stride = {1, 1}, .padding = {1, 1}});
}

static ronde_tensor *inception_maximum(const ronde_tensor *x) {
  return ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {3, 3}, .stride = {2, 2}});
}

static ronde_tensor *inception_stem(const inception_block *b) {
  ronde_tensor *x = inception_conv(b, b->x, "Conv2d_1a_3x3", 32, halving);
  x = inception_conv(b, x, "Conv2d_2a_3x3", 32, inside);
  x = inception_maximum(inception_conv(b, x, "Conv2d_2b_3x3", 64, three));
  x = inception_conv(b, x, "Conv2d_3b_1x1", 80, one);
  return inception_maximum(inception_conv(b, x, "Conv2d_4a_3x3", 192, inside));
}

static ronde_tensor *inception_a(const inception_block *b, int64_t pooled) {
  ronde_tensor *y1 = inception_conv(b, b->x, "branch1x1", 64, one);
  ronde_tensor *y5 = inception_conv(b, b->x, "branch5x5_1", 48, one);
  y5 = inception_conv(b, y5, "branch5x5_2", 64, five);
  ronde_tensor *y3 = inception_conv(b, b->x, "branch3x3dbl_1", 64, one);
  y3 = inception_conv(b, y3, "branch3x3dbl_2", 96, three);
  y3 = inception_conv(b, y3, "branch3x3dbl_3", 96, three);
  ronde_tensor *yp = inception_conv(b, inception_average(b->x), "branch_pool", pooled, one);
  return ronde_concat((const ronde_tensor *const[]){y1, y5, y3, yp}, 4);
}

/* Halves the maps, as D does. */
static ronde_tensor *inception_b(const inception_block *b) {
  ronde_tensor *y3 = inception_conv(b, b->x, "branch3x3", 384, halving);
  ronde_tensor *yd = inception_conv(b, b->x, "branch3x3dbl_1", 64, one);
  yd = inception_conv(b, yd, "branch3x3dbl_2", 96, three);
  yd = inception_conv(b, yd, "branch3x3dbl_3", 96, halving);
  return ronde_concat((const ronde_tensor *const[]){y3, yd, inception_maximum(b->x)}, 3);
}

/* narrow: channels inside of the branches of sevens. */
static ronde_tensor *inception_c(const inception_block *b, int64_t narrow) {
  ronde_tensor *y1 = inception_conv(b, b->x, "branch1x1", 192, one);
  ronde_tensor *y7 = inception_conv(b, b->x, "branch7x7_1", narrow, one);
  y7 = inception_conv(b, y7, "branch7x7_2", narrow, row_of_seven);
  y7 = inception_conv(b, y7, "branch7x7_3", 192, column_of_seven);
  ronde_tensor *yd = inception_conv(b, b->x, "branch7x7dbl_1", narrow, one);
  yd = inception_conv(b, yd, "branch7x7dbl_2", narrow, column_of_seven);
  yd = inception_conv(b, yd, "branch7x7dbl_3", narrow, row_of_seven);
  yd = inception_conv(b, yd, "branch7x7dbl_4", narrow, column_of_seven);
  yd = inception_conv(b, yd, "branch7x7dbl_5", 192, row_of_seven);
  ronde_tensor *yp = inception_conv(b, inception_average(b->x), "branch_pool", 192, one);
  return ronde_concat((const ronde_tensor *const[]){y1, y7, yd, yp}, 4);
}

static ronde_tensor *inception_d(const inception_block *b) {
  ronde_tensor *y3 = inception_conv(b, b->x, "branch3x3_1", 192, one);
  y3 = inception_conv(b, y3, "branch3x3_2", 320, halving);
  ronde_tensor *y7 = inception_conv(b, b->x, "branch7x7x3_1", 192, one);
  y7 = inception_conv(b, y7, "branch7x7x3_2", 192, row_of_seven);
  y7 = inception_conv(b, y7, "branch7x7x3_3", 192, column_of_seven);
  y7 = inception_conv(b, y7, "branch7x7x3_4", 192, halving);
  return ronde_concat((const ronde_tensor *const[]){y3, y7, inception_maximum(b->x)}, 3);
}

/* A row and a column side by side. */
static ronde_tensor *inception_fork(const inception_block *b, const ronde_tensor *x, const char *row,
                                    const char *column) {
  return ronde_concat((const ronde_tensor *const[]){inception_conv(b, x, row, 384, row_of_three),
                                                    inception_conv(b, x, column, 384, column_of_three)},
                      2);
}

static ronde_tensor *inception_e(const inception_block *b) {
  ronde_tensor *y1 = inception_conv(b, b->x, "branch1x1", 320, one);
  ronde_tensor *y3 = inception_conv(b, b->x, "branch3x3_1", 384, one);
  y3 = inception_fork(b, y3, "branch3x3_2a", "branch3x3_2b");
  ronde_tensor *yd = inception_conv(b, b->x, "branch3x3dbl_1", 448, one);
  yd = inception_conv(b, yd, "branch3x3dbl_2", 384, three);
  yd = inception_fork(b, yd, "branch3x3dbl_3a", "branch3x3dbl_3b");
  ronde_tensor *yp = inception_conv(b, inception_average(b->x), "branch_pool", 192, one);
  return ronde_concat((const ronde_tensor *const[]){y1, y3, yd, yp}, 4);
}

static ronde_tensor *inception_v3_make(ronde_tensor *x, int64_t classes, const ronde__model_options *options,
                                       const inception_sizes *sizes) {
  static const char *const a[] = {"Mixed_5b.", "Mixed_5c.", "Mixed_5d."}, *const e[] = {"Mixed_7b.", "Mixed_7c."};
  static const char *const c[] = {"Mixed_6b.", "Mixed_6c.", "Mixed_6d.", "Mixed_6e."};
  static const int64_t pooled[] = {32, 64, 64}, narrow[] = {128, 160, 160, 192};
  x = inception_stem(&(inception_block){x, "", sizes});
  for (int i = 0; i < sizes->a; i++) x = inception_a(&(inception_block){x, a[i], sizes}, pooled[i]);
  x = inception_b(&(inception_block){x, "Mixed_6a.", sizes});
  for (int i = 0; i < sizes->c; i++) x = inception_c(&(inception_block){x, c[i], sizes}, narrow[i]);
  x = inception_d(&(inception_block){x, "Mixed_7a.", sizes});
  for (int i = 0; i < sizes->e; i++) x = inception_e(&(inception_block){x, e[i], sizes});
  x = ronde_dropout(ronde_flatten(ronde_adaptive_avg_pool2d(x, 1, 1)), options->dropout);
  return ronde_linear(x, "fc", classes, true);
}

static ronde_tensor *inception_v3_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                        const ronde__model_options *options) {
  return inception_v3_make(x, classes, options, &(inception_sizes){.divisor = 1, .a = 3, .c = 4, .e = 2});
}

static ronde_tensor *inception_v3_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                             const ronde__model_options *options) {
  return inception_v3_make(x, classes, options, &(inception_sizes){.divisor = 8, .a = 1, .c = 1, .e = 1});
}

const ronde__model ronde__model_inception_v3 = {.name = "inception-v3",
                                                .about = "Inception-v3 as in torchvision, without auxiliary classifier",
                                                .build = inception_v3_build,
                                                .has_dropout = true,
                                                .dropout = 0.5f,
                                                .shape = {3, 299, 299},
                                                .classes = 1000};

const ronde__model ronde__model_inception_v3_tiny = {
    .name = "inception-v3-tiny",
    .about = "the same with an eighth of the channels and one block of each kind",
    .build = inception_v3_tiny_build,
    .has_dropout = true,
    .dropout = 0.5f,
    .shape = {3, 107, 107},
    .classes = 10};

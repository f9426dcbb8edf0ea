/* VGG-16 in torchvision's form and with its names, without batch normalisation: five stages of 3x3 convolutions, the maps
 * averaged to 7x7, and three linear layers; and a tiny one with an eighth of the channels. Images have at least 32x32 pixels.
 * Source: Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", ICLR 2015. */
#include "models/models.h"

#include <stdio.h>

enum { VGG16_STAGES = 5 };

typedef struct vgg16_sizes {
  int64_t channels[VGG16_STAGES];
  int64_t hidden; /* outputs of the first two linear layers */
} vgg16_sizes;

/* torchvision numbers convolutions, ReLUs and poolings together. */
static ronde_tensor *vgg16_features(ronde_tensor *x, const int64_t *channels) {
  static const int convolutions[VGG16_STAGES] = {2, 2, 3, 3, 3};
  int index = 0;
  for (int stage = 0; stage < VGG16_STAGES; stage++) {
    ronde_conv2d_options o = {
        .out_channels = channels[stage], .kernel = {3, 3}, .padding = {1, 1}, .kaiming_normal = true};
    for (int i = 0; i < convolutions[stage]; i++, index += 2) {
      char name[24];
      snprintf(name, sizeof name, "features.%d", index);
      x = ronde_relu(ronde_conv2d(x, name, &o));
    }
    x = ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {2, 2}, .stride = {2, 2}});
    index++;
  }
  return x;
}

static ronde_tensor *vgg16_make(ronde_tensor *x, int64_t classes, const ronde__model_options *options,
                                const vgg16_sizes *sizes) {
  x = ronde_flatten(ronde_adaptive_avg_pool2d(vgg16_features(x, sizes->channels), 7, 7));
  x = ronde_dropout(ronde_relu(ronde_linear(x, "classifier.0", sizes->hidden, true)), options->dropout);
  x = ronde_dropout(ronde_relu(ronde_linear(x, "classifier.3", sizes->hidden, true)), options->dropout);
  return ronde_linear(x, "classifier.6", classes, true);
}

static ronde_tensor *vgg16_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                 const ronde__model_options *options) {
  return vgg16_make(x, classes, options, &(vgg16_sizes){{64, 128, 256, 512, 512}, 4096});
}

static ronde_tensor *vgg16_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                      const ronde__model_options *options) {
  return vgg16_make(x, classes, options, &(vgg16_sizes){{8, 16, 32, 64, 64}, 64});
}

const ronde__model ronde__model_vgg16 = {.name = "vgg16",
                                         .about = "VGG-16 as in torchvision",
                                         .build = vgg16_build,
                                         .has_dropout = true,
                                         .dropout = 0.5f,
                                         .shape = {3, 224, 224},
                                         .classes = 1000};

const ronde__model ronde__model_vgg16_tiny = {.name = "vgg16-tiny",
                                              .about = "the same with an eighth of the channels",
                                              .build = vgg16_tiny_build,
                                              .has_dropout = true,
                                              .dropout = 0.5f,
                                              .shape = {3, 32, 32},
                                              .classes = 10};

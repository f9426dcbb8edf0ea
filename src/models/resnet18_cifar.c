/* ResNet-18 for images of 32x32 pixels: the stem is one 3x3 convolution without pooling. */
#include "models/resnet.h"

static ronde_tensor *resnet18_cifar_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                          const ronde__model_options *options) {
  static const ronde__resnet net = {.blocks = {2, 2, 2, 2}, .bottleneck = false, .small_stem = true};
  return ronde__resnet_build(x, classes, &net);
}

const ronde__model ronde__model_resnet18_cifar = {.name = "resnet18-cifar",
                                                  .about = "ResNet-18 with a 3x3 stem, for small images",
                                                  .build = resnet18_cifar_build,
                                                  .shape = {3, 32, 32},
                                                  .classes = 10};

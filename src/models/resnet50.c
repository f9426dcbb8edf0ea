/* ResNet-50 as in torchvision: bottleneck blocks with the stride in their 3x3 convolution. */
#include "models/resnet.h"

static ronde_tensor *resnet50_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                    const ronde__model_options *options) {
  static const ronde__resnet net = {.blocks = {3, 4, 6, 3}, .bottleneck = true, .small_stem = false};
  return ronde__resnet_build(x, classes, &net);
}

const ronde__model ronde__model_resnet50 = {.name = "resnet50",
                                            .about = "ResNet-50 as in torchvision",
                                            .build = resnet50_build,
                                            .shape = {3, 32, 32},
                                            .classes = 10};

/* ResNet-18 as in torchvision: two basic blocks a stage. */
#include "models/resnet.h"

static ronde_tensor *resnet18_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                    const ronde__model_options *options) {
  static const ronde__resnet net = {.blocks = {2, 2, 2, 2}, .bottleneck = false, .small_stem = false};
  return ronde__resnet_build(x, classes, &net);
}

const ronde__model ronde__model_resnet18 = {.name = "resnet18",
                                            .about = "ResNet-18 as in torchvision",
                                            .build = resnet18_build,
                                            .shape = {3, 32, 32},
                                            .classes = 10};

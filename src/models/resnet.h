/* ResNets in torchvision's form and with its names.
 * Source: He et al., "Deep residual learning for image recognition", 2015; stride in the 3x3 convolution of a
 * bottleneck, as torchvision has it. */
#ifndef RONDE_RESNET_H
#define RONDE_RESNET_H

#include "models/models.h"

typedef struct ronde__resnet {
  int blocks[4];
  bool bottleneck; /* 1x1, 3x3, 1x1 with four times the channels, else two 3x3 */
  bool small_stem; /* 3x3 without pooling, for small images; else 7x7 with stride 2 and max pooling */
} ronde__resnet;

ronde_tensor *ronde__resnet_build(ronde_tensor *x, int64_t classes, const ronde__resnet *net);

#endif

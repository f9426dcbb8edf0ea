/* The blocks and the whole of a ResNet, for all depths.
 * Source: He et al., "Deep residual learning for image recognition", CVPR 2016. */
#include "models/resnet.h"

#include <stdio.h>

/* Convolution NAME followed by batch normalisation BN. */
static ronde_tensor *resnet_conv_bn(const ronde_tensor *x, const char *prefix, const char *name, const char *bn,
                                    int64_t out, int kernel, int stride) {
  char text[64];
  ronde_conv2d_options o = {.out_channels = out,
                            .kernel = {kernel, kernel},
                            .stride = {stride, stride},
                            .padding = {kernel / 2, kernel / 2},
                            .no_bias = true,
                            .kaiming_normal = true};
  snprintf(text, sizeof text, "%s%s", prefix, name);
  x = ronde_conv2d(x, text, &o);
  snprintf(text, sizeof text, "%s%s", prefix, bn);
  return ronde_batch_norm2d(x, text, NULL);
}

/* The shortcut comes first, so that the last normalisation can add to it. */
static ronde_tensor *resnet_block(const ronde_tensor *x, const char *prefix, int64_t width, int stride,
                                  bool bottleneck) {
  int64_t dims[RONDE_MAX_RANK] = {0}, out = bottleneck ? 4 * width : width;
  ronde_tensor_dims(x, dims);
  const ronde_tensor *shortcut = x;
  if (stride != 1 || dims[0] != out)
    shortcut = resnet_conv_bn(x, prefix, "downsample.0", "downsample.1", out, 1, stride);
  ronde_tensor *y;
  if (bottleneck) {
    y = ronde_relu(resnet_conv_bn(x, prefix, "conv1", "bn1", width, 1, 1));
    y = ronde_relu(resnet_conv_bn(y, prefix, "conv2", "bn2", width, 3, stride));
    y = resnet_conv_bn(y, prefix, "conv3", "bn3", out, 1, 1);
  } else {
    y = ronde_relu(resnet_conv_bn(x, prefix, "conv1", "bn1", width, 3, stride));
    y = resnet_conv_bn(y, prefix, "conv2", "bn2", out, 3, 1);
  }
  return ronde_relu(ronde_add(y, shortcut));
}

ronde_tensor *ronde__resnet_build(ronde_tensor *x, int64_t classes, const ronde__resnet *net) {
  x = ronde_relu(resnet_conv_bn(x, "", "conv1", "bn1", 64, net->small_stem ? 3 : 7, net->small_stem ? 1 : 2));
  if (!net->small_stem)
    x = ronde_max_pool2d(x, &(ronde_pool2d_options){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  for (int stage = 0; stage < 4; stage++)
    for (int i = 0; i < net->blocks[stage]; i++) {
      char prefix[32];
      snprintf(prefix, sizeof prefix, "layer%d.%d.", stage + 1, i);
      x = resnet_block(x, prefix, 64 << stage, stage > 0 && i == 0 ? 2 : 1, net->bottleneck);
    }
  x = ronde_flatten(ronde_adaptive_avg_pool2d(x, 1, 1));
  return ronde_linear(x, "fc", classes, true);
}

/* AlexNet in torchvision's form (one GPU, adaptive pooling); the study feeds it 64x64.
 * Source: Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014. */
#include "models/models.h"

static ronde_tensor *alexnet_conv(const ronde_tensor *x, const char *name, int64_t out, int kernel, int stride,
                                  int padding) {
  ronde_conv2d_options o = {
      .out_channels = out, .kernel = {kernel, kernel}, .stride = {stride, stride}, .padding = {padding, padding}};
  return ronde_relu(ronde_conv2d(x, name, &o));
}

static ronde_tensor *alexnet_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                   const ronde__model_options *options) {
  float p = options->dropout;
  ronde_pool2d_options pool = {.kernel = {3, 3}, .stride = {2, 2}};
  x = ronde_max_pool2d(alexnet_conv(x, "features.0", 64, 11, 4, 2), &pool);
  x = ronde_max_pool2d(alexnet_conv(x, "features.3", 192, 5, 1, 2), &pool);
  x = alexnet_conv(x, "features.6", 384, 3, 1, 1);
  x = alexnet_conv(x, "features.8", 256, 3, 1, 1);
  x = ronde_max_pool2d(alexnet_conv(x, "features.10", 256, 3, 1, 1), &pool);
  x = ronde_flatten(ronde_adaptive_avg_pool2d(x, 6, 6));
  x = ronde_relu(ronde_linear(ronde_dropout(x, p), "classifier.1", 4096, true));
  x = ronde_relu(ronde_linear(ronde_dropout(x, p), "classifier.4", 4096, true));
  return ronde_linear(x, "classifier.6", classes, true);
}

const ronde__model ronde__model_alexnet = {.name = "alexnet",
                                           .about = "AlexNet as in torchvision",
                                           .build = alexnet_build,
                                           .has_dropout = true,
                                           .dropout = 0.5f,
                                           .shape = {3, 64, 64},
                                           .classes = 10};

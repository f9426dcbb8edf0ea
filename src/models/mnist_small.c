/* The small network of the data-parallelism study: one convolution, two linear layers; 402,442 parameters on MNIST
 * (valid: 347,146). */
#include "models/models.h"

static ronde_tensor *mnist_small_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                       const ronde__model_options *options) {
  int p = options->padding_same ? 1 : 0;
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 32, .kernel = {3, 3}, .padding = {p, p}});
  x = ronde_max_pool2d(ronde_relu(x), &(ronde_pool2d_options){.kernel = {2, 2}});
  x = ronde_relu(ronde_linear(ronde_flatten(x), "fc1", 64, true));
  return ronde_linear(x, "fc2", classes, true);
}

const ronde__model ronde__model_mnist_small = {.name = "mnist-small",
                                               .about = "one convolution of 32, FC 64",
                                               .build = mnist_small_build,
                                               .has_padding = true,
                                               .shape = {1, 28, 28},
                                               .classes = 10};

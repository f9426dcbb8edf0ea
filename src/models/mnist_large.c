/* The large network of the data-parallelism study: convolutions of 128, 256, 512 and two layers of 512; 4,104,202
 * parameters on MNIST (valid: 2,007,050). */
#include "models/models.h"

static ronde_tensor *mnist_large_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                       const ronde__model_options *options) {
  static const char *const names[] = {"conv1", "conv2", "conv3"};
  int p = options->padding_same ? 1 : 0;
  for (int i = 0; i < 3; i++) {
    x = ronde_conv2d(x, names[i],
                     &(ronde_conv2d_options){.out_channels = 128 << i, .kernel = {3, 3}, .padding = {p, p}});
    x = ronde_max_pool2d(ronde_relu(x), &(ronde_pool2d_options){.kernel = {2, 2}});
  }
  x = ronde_relu(ronde_linear(ronde_flatten(x), "fc1", 512, true));
  x = ronde_relu(ronde_linear(x, "fc2", 512, true));
  return ronde_linear(x, "fc3", classes, true);
}

const ronde__model ronde__model_mnist_large = {.name = "mnist-large",
                                               .about = "convolutions of 128, 256, 512, FC 512 twice",
                                               .build = mnist_large_build,
                                               .has_padding = true,
                                               .shape = {1, 28, 28},
                                               .classes = 10};

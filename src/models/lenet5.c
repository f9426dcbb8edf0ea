/* LeNet-5 as the cluster study runs it: tanh, average pooling, 62,006 parameters at 3x32x32.
 * Source: LeCun et al., "Gradient-based learning applied to document recognition", 1998. */
#include "models/models.h"

static ronde_tensor *lenet5_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                  const ronde__model_options *options) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  int rank = ronde_tensor_dims(x, dims);
  bool small = dims[1] == 28 && dims[2] == 28; /* zero-padded to 32x32, by the first convolution */
  if (rank != 3 || !(small || (dims[1] == 32 && dims[2] == 32))) {
    ronde__fail(RONDE_E_USAGE,
                "lenet5 takes images of 32x32, or 28x28 (zero-padded to 32x32), not %lldx%lld: give --resize 32x32",
                (long long)dims[1], (long long)dims[2]);
    return NULL;
  }
  int p = small ? 2 : 0;
  ronde_pool2d_options half = {.kernel = {2, 2}};
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 6, .kernel = {5, 5}, .padding = {p, p}});
  x = ronde_avg_pool2d(ronde_tanh(x), &half);
  x = ronde_conv2d(x, "conv2", &(ronde_conv2d_options){.out_channels = 16, .kernel = {5, 5}});
  x = ronde_avg_pool2d(ronde_tanh(x), &half);
  x = ronde_flatten(x);
  x = ronde_tanh(ronde_linear(x, "fc1", 120, true));
  x = ronde_tanh(ronde_linear(x, "fc2", 84, true));
  return ronde_linear(x, "fc3", classes, true);
}

const ronde__model ronde__model_lenet5 = {.name = "lenet5",
                                          .about = "LeNet-5, tanh and average pooling",
                                          .build = lenet5_build,
                                          .shape = {3, 32, 32},
                                          .classes = 10};

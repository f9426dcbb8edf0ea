/* A multilayer perceptron: hidden layers of the sizes that follow its name, each a linear layer, an activation and, where
 * it is asked for, dropout; then a linear layer to the outputs. For tables, and for anything else flattened. */
#include "models/models.h"

#include <stdio.h>
#include <stdlib.h>

enum { MLP_MAX_LAYERS = 64, MLP_MAX_SIZE = 1 << 20 };

/* The next size of "256,64", which is left behind it and its comma; 0: there is none, as it is no such list. */
static int64_t mlp_next_size(const char **at) {
  char *end;
  if (**at < '1' || **at > '9') return 0;
  long long size = strtoll(*at, &end, 10);
  if (size > MLP_MAX_SIZE || (*end && (*end != ',' || !end[1]))) return 0;
  *at = *end ? end + 1 : end;
  return size;
}

static ronde_tensor *mlp_activate(ronde_tensor *x, ronde__hidden_activation activation) {
  switch (activation) {
  case RONDE__HIDDEN_TANH: return ronde_tanh(x);
  case RONDE__HIDDEN_SIGMOID: return ronde_sigmoid(x);
  default: return ronde_relu(x);
  }
}

static ronde_tensor *mlp_build(ronde_graph *graph, ronde_tensor *x, int64_t outputs,
                               const ronde__model_options *options) {
  const char *all = options->sizes ? options->sizes : "256,64", *at = all;
  int64_t dims[RONDE_MAX_RANK];
  char name[24];
  int layer = 1;
  if (ronde_tensor_dims(x, dims) > 1) x = ronde_flatten(x);
  do {
    int64_t size = layer <= MLP_MAX_LAYERS ? mlp_next_size(&at) : 0;
    if (size == 0) {
      ronde__fail(RONDE_E_USAGE, "mlp:%s: the sizes of 1 to %d hidden layers, each 1 to %d, are needed: mlp:256,64",
                  RONDE__SHOWN(all), MLP_MAX_LAYERS, MLP_MAX_SIZE);
      return NULL;
    }
    snprintf(name, sizeof name, "fc%d", layer++);
    x = mlp_activate(ronde_linear(x, name, size, true), options->activation);
    if (options->dropout > 0) x = ronde_dropout(x, options->dropout);
  } while (*at);
  snprintf(name, sizeof name, "fc%d", layer);
  return ronde_linear(x, name, outputs, true);
}

const ronde__model ronde__model_mlp = {.name = "mlp",
                                       .about = "fully connected; mlp:256,64 gives the hidden sizes",
                                       .build = mlp_build,
                                       .has_sizes = true,
                                       .has_activation = true,
                                       .has_dropout = true,
                                       .any_shape = true,
                                       .shape = {1, 28, 28},
                                       .classes = 10};

/* The built-in networks, each written with the public API. */
#ifndef RONDE_MODELS_H
#define RONDE_MODELS_H

#include "base/base.h"

typedef struct ronde__model_options {
  bool padding_same; /* mnist-*: --padding same|valid */
  float dropout;     /* probability, for networks that have it */
} ronde__model_options;

typedef struct ronde__model {
  const char *name, *about;
  ronde_tensor *(*build)(ronde_graph *graph, ronde_tensor *x, int64_t classes, const ronde__model_options *options);
  bool has_padding; /* takes --padding */
  float dropout;    /* usual probability; 0: the network has none */
  int64_t shape[3]; /* usual input, C H W */
  int64_t classes;
} ronde__model;

const ronde__model *ronde__model_find(const char *name); /* NULL: unknown */
const ronde__model *ronde__model_at(int i);              /* NULL past the end */

#endif

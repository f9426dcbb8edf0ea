/* What the transformers of several sizes share. */
#ifndef RONDE_TRANSFORMER_H
#define RONDE_TRANSFORMER_H

#include "models/models.h"

typedef struct ronde__transformer {
  int layers; /* of the encoder, and as many of the decoder */
  int heads, width, hidden;
  bool tied; /* both embeddings are one matrix */
} ronde__transformer;

/* On tokens x of the source, and the input RONDE__DECODER_INPUT. */
ronde_tensor *ronde__transformer_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                       const ronde__model_options *options, const ronde__transformer *sizes);

#endif

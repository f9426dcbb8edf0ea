/* The transformer in small, for tests and for vocabularies of bytes. Each language has an embedding of its own. */
#include "models/transformer.h"

static ronde_tensor *transformer_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                            const ronde__model_options *options) {
  static const ronde__transformer tiny = {.layers = 2, .heads = 4, .width = 64, .hidden = 256};
  return ronde__transformer_build(graph, x, classes, options, &tiny);
}

const ronde__model ronde__model_transformer_tiny = {.name = "transformer-tiny",
                                                    .about = "encoder and decoder, 2 layers of 64 each",
                                                    .build = transformer_tiny_build,
                                                    .has_dropout = true,
                                                    .any_shape = true,
                                                    .dropout = 0.1f,
                                                    .shape = {64},
                                                    .vocabulary = 256,
                                                    .decoder_input = true,
                                                    .classes = 256};

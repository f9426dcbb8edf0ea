/* Google's neural machine translation, in the form in which it is usually reproduced (MLPerf's, version 2): an encoder of
 * LSTMs whose first layer reads the source in both directions, a decoder of LSTMs, and between them normalised additive
 * attention; from the third layer of the encoder and of the decoder on a shortcut leads around each. The decoder's first layer
 * asks, and what it is told of the source goes into all layers behind it, at the same step. Dropout stands in front of each
 * LSTM. Both languages have one embedding. Token 0 of a source is padding, which is no step of the encoder and which nobody
 * attends to. Parameters are called as in NVIDIA's implementation for PyTorch.
 * Parameters begin as there: from U(-0.1, 0.1), but for the second biases of LSTMs and what the attention normalises by.
 * The publication has 8 layers on either side, and its decoder asks by the output of the step before.
 * Sources: Wu et al., "Google's neural machine translation system: bridging the gap between human and machine translation",
 * 2016; MLPerf Training's reference of GNMT v2. */
#include "models/models.h"

#include <math.h>
#include <stdio.h>

typedef struct gnmt_sizes {
  int layers; /* of the encoder, and as many of the decoder */
  int64_t width;
} gnmt_sizes;

typedef struct gnmt_network {
  ronde_graph *graph;
  const gnmt_sizes *sizes;
  float dropout;
  ronde_tensor *lengths; /* of sources */
} gnmt_network;

static void gnmt_draw(ronde_graph *graph, const char *name) {
  ronde_graph_set_init(graph, name, RONDE_INIT_UNIFORM, 0.1f);
}

static void gnmt_begin_at(ronde_graph *graph, const char *layer, const char *param, float value) {
  char name[64];
  snprintf(name, sizeof name, "%s.%s", layer, param);
  ronde_graph_set_init(graph, name, RONDE_INIT_CONSTANT, value);
}

static ronde_tensor *gnmt_layer(const gnmt_network *b, const ronde_tensor *x, const char *name, bool both_directions,
                                const ronde_tensor *lengths) {
  const ronde_recurrent_options options = {
      .hidden = b->sizes->width, .both_directions = both_directions, .lengths = lengths};
  if (b->dropout > 0) x = ronde_dropout(x, b->dropout);
  ronde_tensor *y = ronde_lstm(x, name, &options, NULL, NULL);
  gnmt_draw(b->graph, name);
  gnmt_begin_at(b->graph, name, "bias_hh_l0", 0);
  if (both_directions) gnmt_begin_at(b->graph, name, "bias_hh_l0_reverse", 0);
  return y;
}

static ronde_tensor *gnmt_encode(const gnmt_network *b, const ronde_tensor *x) {
  ronde_tensor *y = gnmt_layer(b, x, "encoder.rnn_layers.0", true, b->lengths);
  for (int i = 1; i < b->sizes->layers; i++) {
    char name[32];
    snprintf(name, sizeof name, "encoder.rnn_layers.%d", i);
    ronde_tensor *z = gnmt_layer(b, y, name, false, b->lengths);
    y = i > 1 ? ronde_add(z, y) : z;
  }
  return y;
}

/* What the decoder's first layer y is told of the source. */
static ronde_tensor *gnmt_attend(const gnmt_network *b, const ronde_tensor *y, const ronde_tensor *memory) {
  static const char name[] = "decoder.att_rnn.attn";
  const ronde_additive_attention_options options = {.normalised = true, .lengths = b->lengths};
  const ronde_tensor *query = ronde_linear(y, "decoder.att_rnn.attn.linear_q", b->sizes->width, false);
  const ronde_tensor *key = ronde_linear(memory, "decoder.att_rnn.attn.linear_k", b->sizes->width, false);
  const ronde_tensor *weights = ronde_additive_attention(query, key, name, &options);
  gnmt_draw(b->graph, name);
  gnmt_begin_at(b->graph, name, "normalize_scalar", 1 / sqrtf((float)b->sizes->width));
  gnmt_begin_at(b->graph, name, "normalize_bias", 0);
  return ronde_matmul(weights, memory, false, false);
}

static ronde_tensor *gnmt_decode(const gnmt_network *b, const ronde_tensor *x, const ronde_tensor *memory) {
  ronde_tensor *y = gnmt_layer(b, x, "decoder.att_rnn.rnn", false, NULL);
  const ronde_tensor *told = gnmt_attend(b, y, memory);
  for (int i = 0; i + 1 < b->sizes->layers; i++) {
    char name[32];
    snprintf(name, sizeof name, "decoder.rnn_layers.%d", i);
    const ronde_tensor *both = ronde_concat_along((const ronde_tensor *const[]){y, told}, 2, 1);
    ronde_tensor *z = gnmt_layer(b, both, name, false, NULL);
    y = i > 0 ? ronde_add(z, y) : z;
  }
  return y;
}

static ronde_tensor *gnmt_make(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                               const ronde__model_options *options, const gnmt_sizes *sizes) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  ronde_tensor *told = ronde_graph_input(graph, RONDE__DECODER_INPUT);
  if (!told) return NULL;
  if (ronde_tensor_dims(x, dims) != 1 || ronde_tensor_dims(told, dims) != 1) {
    ronde__fail(RONDE_E_USAGE, "gnmt takes two sequences of tokens");
    return NULL;
  }
  const gnmt_network b = {.graph = graph, .sizes = sizes, .dropout = options->dropout, .lengths = ronde_lengths(x, 0)};
  ronde_graph_share(graph, "encoder.embedder");
  /* Both here, so that what they share is in the first stage of several. */
  const ronde_tensor *source = ronde_embedding(x, "encoder.embedder", sizes->width, 0),
                     *target = ronde_embedding(told, "encoder.embedder", sizes->width, 0);
  ronde_tensor *y = gnmt_decode(&b, target, gnmt_encode(&b, source));
  y = ronde_linear(y, "decoder.classifier.classifier", classes, true);
  gnmt_draw(graph, "encoder.embedder");
  gnmt_draw(graph, "decoder.classifier");
  return y;
}

static ronde_tensor *gnmt_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                const ronde__model_options *options) {
  return gnmt_make(graph, x, classes, options, &(gnmt_sizes){.layers = 4, .width = 1024});
}

static ronde_tensor *gnmt_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                     const ronde__model_options *options) {
  return gnmt_make(graph, x, classes, options, &(gnmt_sizes){.layers = 3, .width = 48});
}

const ronde__model ronde__model_gnmt = {.name = "gnmt",
                                        .about = "LSTMs with attention, 4 and 4 layers of 1024",
                                        .build = gnmt_build,
                                        .has_dropout = true,
                                        .any_shape = true,
                                        .dropout = 0.2f,
                                        .shape = {50},
                                        .vocabulary = 32320,
                                        .decoder_input = true,
                                        .classes = 32320};

const ronde__model ronde__model_gnmt_tiny = {.name = "gnmt-tiny",
                                             .about = "the same with 3 and 3 layers of 48",
                                             .build = gnmt_tiny_build,
                                             .has_dropout = true,
                                             .any_shape = true,
                                             .dropout = 0.2f,
                                             .shape = {64},
                                             .vocabulary = 256,
                                             .decoder_input = true,
                                             .classes = 256};

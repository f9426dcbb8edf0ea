/* The transformer as it was published: an encoder reads the source, a decoder tells each token of the target from those in
 * front of it (the input "decoder_input") and from what the encoder made of the source. Sub-layers have a shortcut beside
 * and a layer normalisation behind them; positions are sines. Token 0 of a source is padding, and nobody attends to it.
 * Parameters are called as in torch.nn.Transformer, but for the projections of attention, which are layers here: in_proj of
 * queries, keys and values together, and q_proj, k_proj and v_proj where they come from two sequences.
 * Source: Vaswani et al., "Attention is all you need", 2017; base is the first row of its table 3.
 * Legend: S source places, T target places, F features. */
#include "models/transformer.h"

#include <math.h>
#include <stdio.h>

typedef struct builder {
  const ronde__transformer *sizes;
  float dropout;
} builder;

/* A name below the layer: "encoder.layers.0.self_attn". */
typedef struct part_name {
  char text[96];
} part_name;

static part_name name_of(const char *layer, const char *part) {
  part_name name;
  snprintf(name.text, sizeof name.text, "%s.%s", layer, part);
  return name;
}

static ronde_tensor *project(const ronde_tensor *x, const char *layer, const char *part, int64_t features) {
  return ronde_linear(x, name_of(layer, part).text, features, true);
}

static ronde_tensor *drop(const builder *b, ronde_tensor *x) {
  return b->dropout > 0 ? ronde_dropout(x, b->dropout) : x;
}

/* The shortcut around a sub-layer that gives y. */
static ronde_tensor *join(const builder *b, const ronde_tensor *x, ronde_tensor *y, const char *layer,
                          const char *norm) {
  return ronde_layer_norm(ronde_add(x, drop(b, y)), name_of(layer, norm).text, NULL);
}

static ronde_tensor *attend_self(const builder *b, const ronde_tensor *x, const char *layer, bool causal,
                                 const ronde_tensor *lengths) {
  const ronde_attention_options options = {.heads = b->sizes->heads, .causal = causal, .lengths = lengths};
  ronde_tensor *y = project(x, layer, "self_attn.in_proj", 3 * b->sizes->width);
  y = project(ronde_self_attention(y, &options), layer, "self_attn.out_proj", b->sizes->width);
  return join(b, x, y, layer, "norm1");
}

static ronde_tensor *attend_memory(const builder *b, const ronde_tensor *x, const ronde_tensor *memory,
                                   const char *layer, const ronde_tensor *lengths) {
  const ronde_attention_options options = {.heads = b->sizes->heads, .lengths = lengths};
  int width = b->sizes->width;
  ronde_tensor *q = project(x, layer, "multihead_attn.q_proj", width),
               *k = project(memory, layer, "multihead_attn.k_proj", width),
               *v = project(memory, layer, "multihead_attn.v_proj", width);
  ronde_tensor *y = project(ronde_attention(q, k, v, &options), layer, "multihead_attn.out_proj", width);
  return join(b, x, y, layer, "norm2");
}

static ronde_tensor *perceptron(const builder *b, const ronde_tensor *x, const char *layer, const char *norm) {
  ronde_tensor *y = ronde_relu(project(x, layer, "linear1", b->sizes->hidden));
  return join(b, x, project(y, layer, "linear2", b->sizes->width), layer, norm);
}

/* ---- the ends ---- */

/* Sines and cosines by turns, of waves from 2 pi places to 10000 times that: a constant [T][F] called name. */
static ronde_tensor *positions(ronde_graph *graph, const char *name, int64_t places, int width) {
  const int64_t dims[] = {places, width};
  float *values = ronde__alloc((size_t)(places * width) * sizeof *values);
  if (!values) {
    ronde__fail(RONDE_E_MEMORY, "%s: no memory", name);
    return NULL;
  }
  for (int64_t t = 0; t < places; t++)
    for (int i = 0; i < width; i++) {
      double angle = (double)t * pow(10000, -(double)(i / 2 * 2) / width);
      values[t * width + i] = (float)(i % 2 ? cos(angle) : sin(angle));
    }
  ronde_tensor *constant = ronde_parameter(graph, name, 2, dims, values, true);
  ronde__free(values);
  return constant;
}

/* Rows of the embedding are as long as a wave's, of about the square root of F. */
static ronde_tensor *embed(const builder *b, ronde_graph *graph, const ronde_tensor *tokens, const char *name,
                           const char *of_positions) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  float scale = sqrtf((float)b->sizes->width);
  ronde_tensor *y = ronde_embedding(tokens, b->sizes->tied ? "embedding" : name, b->sizes->width, 1 / scale);
  ronde_tensor_dims(tokens, dims);
  y = ronde_function(y, RONDE_AFFINE, scale, 0);
  return drop(b, ronde_add(y, positions(graph, of_positions, dims[0], b->sizes->width)));
}

ronde_tensor *ronde__transformer_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                       const ronde__model_options *options, const ronde__transformer *sizes) {
  const builder b = {.sizes = sizes, .dropout = options->dropout};
  int64_t dims[RONDE_MAX_RANK] = {0};
  ronde_tensor *told = ronde_graph_input(graph, RONDE__DECODER_INPUT);
  if (!told) return NULL;
  if (ronde_tensor_dims(x, dims) != 1 || ronde_tensor_dims(told, dims) != 1) {
    ronde__fail(RONDE_E_USAGE, "a transformer takes two sequences of tokens");
    return NULL;
  }
  if (sizes->tied) ronde_graph_share(graph, "embedding");
  ronde_tensor *lengths = ronde_lengths(x, 0);
  /* Both here, so that what they share is in the first stage of several. */
  ronde_tensor *memory = embed(&b, graph, x, "src_embedding", "src_positions"),
               *y = embed(&b, graph, told, "tgt_embedding", "tgt_positions");
  for (int i = 0; i < sizes->layers; i++) {
    char layer[32];
    snprintf(layer, sizeof layer, "encoder.layers.%d", i);
    memory = attend_self(&b, memory, layer, false, lengths);
    memory = perceptron(&b, memory, layer, "norm2");
  }
  for (int i = 0; i < sizes->layers; i++) {
    char layer[32];
    snprintf(layer, sizeof layer, "decoder.layers.%d", i);
    y = attend_self(&b, y, layer, true, NULL);
    y = attend_memory(&b, y, memory, layer, lengths);
    y = perceptron(&b, y, layer, "norm3");
  }
  return ronde_linear(y, "generator", classes, true);
}

/* One matrix looks up the tokens of both languages, as in section 3.4 of the publication. There it is the output layer's too,
 * which has its own here: a linear layer stores its weights in another order than an embedding looks them up. */
static ronde_tensor *transformer_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                       const ronde__model_options *options) {
  static const ronde__transformer base = {.layers = 6, .heads = 8, .width = 512, .hidden = 2048, .tied = true};
  return ronde__transformer_build(graph, x, classes, options, &base);
}

const ronde__model ronde__model_transformer = {.name = "transformer",
                                               .about = "encoder and decoder, 6 layers of 512 each",
                                               .build = transformer_build,
                                               .has_dropout = true,
                                               .any_shape = true,
                                               .dropout = 0.1f,
                                               .shape = {128},
                                               .vocabulary = 256,
                                               .decoder_input = true,
                                               .classes = 256};

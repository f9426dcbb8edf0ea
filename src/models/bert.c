/* BERT as a masked language model: layers of attention and of a perceptron, each with a shortcut and a layer normalisation
 * behind it; positions are learnt. Parameters are called and shaped as in Hugging Face's BertForMaskedLM: the output layer has
 * the weights of the embedding. All tokens are of type 0. Zeros at the end of a sequence are padding ([PAD]), which no token
 * sees. The weights of attention have no dropout. bert-tiny has the sizes of Turc et al.'s smallest one.
 * Sources: Devlin et al., "BERT: pre-training of deep bidirectional transformers for language understanding", 2019; Turc et
 * al., "Well-read students learn better", 2019. */
#include "models/models.h"

#include <stdio.h>

/* The deviation that all embeddings begin with. */
#define EMBEDDED 0.02f

typedef struct bert_sizes {
  int layers, heads;
  int64_t width;
  int64_t positions; /* of the longest sequence */
} bert_sizes;

typedef struct bert_network {
  const bert_sizes *sizes;
  float dropout;
  ronde_tensor *lengths;
  int layer; /* under construction */
} bert_network;

static ronde_tensor *bert_norm(const ronde_tensor *x, const char *name) {
  return ronde_layer_norm(x, name, &(ronde_layer_norm_options){.eps = 1e-12f});
}

static ronde_tensor *bert_drop(const bert_network *b, ronde_tensor *x) {
  return b->dropout > 0 ? ronde_dropout(x, b->dropout) : x;
}

static const char *bert_name(const bert_network *b, char name[64], const char *part) {
  snprintf(name, 64, "bert.encoder.layer.%d.%s", b->layer, part);
  return name;
}

static ronde_tensor *bert_linear(const bert_network *b, const ronde_tensor *x, const char *part, int64_t features) {
  char name[64];
  return ronde_linear(x, bert_name(b, name, part), features, true);
}

/* Back to the network's width, beside the shortcut. */
static ronde_tensor *bert_close(const bert_network *b, const ronde_tensor *y, const ronde_tensor *x, const char *dense,
                                const char *norm) {
  char name[64];
  ronde_tensor *z = bert_drop(b, bert_linear(b, y, dense, b->sizes->width));
  return bert_norm(ronde_add(z, x), bert_name(b, name, norm));
}

static ronde_tensor *bert_layer(const bert_network *b, const ronde_tensor *x) {
  int64_t width = b->sizes->width;
  ronde_tensor *query = bert_linear(b, x, "attention.self.query", width);
  ronde_tensor *key = bert_linear(b, x, "attention.self.key", width);
  ronde_tensor *value = bert_linear(b, x, "attention.self.value", width);
  ronde_attention_options seen = {.heads = b->sizes->heads, .lengths = b->lengths};
  ronde_tensor *y = ronde_attention(query, key, value, &seen);
  x = bert_close(b, y, x, "attention.output.dense", "attention.output.LayerNorm");
  y = ronde_gelu(bert_linear(b, x, "intermediate.dense", 4 * width), false);
  return bert_close(b, y, x, "output.dense", "output.LayerNorm");
}

/* Of the tokens, their positions, and type 0 of the two that BERT was published with. */
static ronde_tensor *bert_embeddings(const bert_network *b, ronde_graph *graph, const ronde_tensor *x, int64_t steps) {
  const int64_t positions[] = {b->sizes->positions, b->sizes->width}, types[] = {2, b->sizes->width};
  const int64_t from[] = {0, 0}, by[] = {1, 1}, used[] = {steps, b->sizes->width}, first[] = {1, b->sizes->width};
  ronde_tensor *y = ronde_embedding(x, "bert.embeddings.word_embeddings", b->sizes->width, EMBEDDED);
  const ronde_tensor *position =
      ronde_parameter_drawn(graph, "bert.embeddings.position_embeddings.weight", 2, positions, EMBEDDED);
  const ronde_tensor *type =
      ronde_parameter_drawn(graph, "bert.embeddings.token_type_embeddings.weight", 2, types, EMBEDDED);
  y = ronde_add(y, ronde_slice(type, from, by, first));
  y = ronde_add(y, ronde_slice(position, from, by, used));
  return bert_drop(b, bert_norm(y, "bert.embeddings.LayerNorm"));
}

/* Tells each token; its weights are the embedding's. */
static ronde_tensor *bert_head(const ronde_tensor *x, int64_t width, int64_t vocabulary) {
  ronde_tensor *y = ronde_gelu(ronde_linear(x, "cls.predictions.transform.dense", width, true), false);
  y = bert_norm(y, "cls.predictions.transform.LayerNorm");
  return ronde_linear_tied(y, "bert.embeddings.word_embeddings", vocabulary, "cls.predictions.bias");
}

static ronde_tensor *bert_make(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                               const ronde__model_options *options, const bert_sizes *sizes) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  if (ronde_tensor_dims(x, dims) != 1 || dims[0] > sizes->positions) {
    ronde__fail(RONDE_E_USAGE, "bert takes sequences of at most %lld tokens", (long long)sizes->positions);
    return NULL;
  }
  bert_network b = {.sizes = sizes, .dropout = options->dropout, .lengths = ronde_lengths(x, 0)};
  ronde_graph_share(graph, "bert.embeddings.word_embeddings");
  ronde_tensor *y = bert_embeddings(&b, graph, x, dims[0]);
  for (; b.layer < sizes->layers; b.layer++) y = bert_layer(&b, y);
  return bert_head(y, sizes->width, classes);
}

static ronde_tensor *bert_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                const ronde__model_options *options) {
  return bert_make(graph, x, classes, options,
                   &(bert_sizes){.layers = 12, .heads = 12, .width = 768, .positions = 512});
}

static ronde_tensor *bert_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                     const ronde__model_options *options) {
  return bert_make(graph, x, classes, options, &(bert_sizes){.layers = 2, .heads = 2, .width = 128, .positions = 512});
}

const ronde__model ronde__model_bert = {.name = "bert",
                                        .about = "BERT base for masked tokens, 12 layers of 768",
                                        .build = bert_build,
                                        .has_dropout = true,
                                        .any_shape = true,
                                        .dropout = 0.1f,
                                        .mask = 0.15f,
                                        .shape = {128},
                                        .vocabulary = 30522,
                                        .classes = 30522};

const ronde__model ronde__model_bert_tiny = {.name = "bert-tiny",
                                             .about = "the same with 2 layers of 128",
                                             .build = bert_tiny_build,
                                             .has_dropout = true,
                                             .any_shape = true,
                                             .dropout = 0.1f,
                                             .mask = 0.15f,
                                             .shape = {128},
                                             .vocabulary = 257,
                                             .classes = 257};

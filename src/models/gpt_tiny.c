/* A small causal transformer that tells the next token at each place of a sequence: layers of attention and of a perceptron,
 * each behind a layer normalisation and beside a shortcut; positions are learnt. Parameters are called and shaped as in
 * nanoGPT's GPT-2, whose smallest example has these sizes; the output layer has weights of its own.
 * Sources: Vaswani et al., "Attention is all you need", 2017; Radford et al., "Language models are unsupervised multitask
 * learners", 2019. */
#include "models/models.h"

#include <stdio.h>

enum { TINY_LAYERS = 4, TINY_HEADS = 4, TINY_WIDTH = 128 };

/* The deviation that both embeddings begin with. */
#define TINY_EMBEDDED 0.02f

static ronde_tensor *tiny_drop(ronde_tensor *x, const ronde__model_options *options) {
  return options->dropout > 0 ? ronde_dropout(x, options->dropout) : x;
}

static const char *tiny_name(char name[64], int layer, const char *part) {
  snprintf(name, 64, "transformer.h.%d.%s", layer, part);
  return name;
}

static ronde_tensor *tiny_attention(const ronde_tensor *x, int layer) {
  char name[64];
  ronde_tensor *y = ronde_layer_norm(x, tiny_name(name, layer, "ln_1"), NULL);
  y = ronde_linear(y, tiny_name(name, layer, "attn.c_attn"), 3 * TINY_WIDTH, true);
  y = ronde_self_attention(y, &(ronde_attention_options){.heads = TINY_HEADS, .causal = true});
  return ronde_linear(y, tiny_name(name, layer, "attn.c_proj"), TINY_WIDTH, true);
}

static ronde_tensor *tiny_perceptron(const ronde_tensor *x, int layer) {
  char name[64];
  ronde_tensor *y = ronde_layer_norm(x, tiny_name(name, layer, "ln_2"), NULL);
  y = ronde_gelu(ronde_linear(y, tiny_name(name, layer, "mlp.c_fc"), 4 * TINY_WIDTH, true), false);
  return ronde_linear(y, tiny_name(name, layer, "mlp.c_proj"), TINY_WIDTH, true);
}

static ronde_tensor *gpt_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                    const ronde__model_options *options) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  if (ronde_tensor_dims(x, dims) != 1) {
    ronde__fail(RONDE_E_USAGE, "gpt-tiny takes sequences of tokens");
    return NULL;
  }
  const int64_t positions[] = {dims[0], TINY_WIDTH};
  ronde_tensor *y = ronde_embedding(x, "transformer.wte", TINY_WIDTH, TINY_EMBEDDED);
  y = ronde_add(y, ronde_parameter_drawn(graph, "transformer.wpe.weight", 2, positions, TINY_EMBEDDED));
  y = tiny_drop(y, options);
  for (int layer = 0; layer < TINY_LAYERS; layer++) {
    y = ronde_add(y, tiny_drop(tiny_attention(y, layer), options));
    y = ronde_add(y, tiny_drop(tiny_perceptron(y, layer), options));
  }
  return ronde_linear(ronde_layer_norm(y, "transformer.ln_f", NULL), "lm_head", classes, false);
}

const ronde__model ronde__model_gpt_tiny = {.name = "gpt-tiny",
                                            .about = "causal transformer, 4 layers of 128",
                                            .build = gpt_tiny_build,
                                            .has_dropout = true,
                                            .any_shape = true,
                                            .dropout = 0.1f,
                                            .shape = {128},
                                            .vocabulary = 256,
                                            .classes = 256};

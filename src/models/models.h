/* The built-in networks, each written with the public API. */
#ifndef RONDE_MODELS_H
#define RONDE_MODELS_H

#include "base/base.h"

/* In the order of the words of --activation. */
typedef enum ronde__hidden_activation {
  RONDE__HIDDEN_RELU,
  RONDE__HIDDEN_TANH,
  RONDE__HIDDEN_SIGMOID
} ronde__hidden_activation;

typedef struct ronde__model_options {
  bool padding_same;                   /* mnist-*: --padding same|valid */
  float dropout;                       /* probability, for networks that have it */
  const char *sizes;                   /* mlp: of its hidden layers, "256,64"; NULL: its own */
  ronde__hidden_activation activation; /* mlp */
  int64_t labels;                      /* of an example, for networks that transcribe; 0: one for each step */
} ronde__model_options;

typedef struct ronde__model {
  const char *name, *about;
  ronde_tensor *(*build)(ronde_graph *graph, ronde_tensor *x, int64_t outputs, const ronde__model_options *options);
  bool has_padding;    /* takes --padding */
  bool has_sizes;      /* NAME:SIZES is a name of it */
  bool has_activation; /* takes --activation */
  bool has_dropout;    /* takes --dropout */
  bool any_shape;      /* inputs of any rank, else images */
  float dropout;       /* usual probability */
  float mask;          /* usual share of tokens that are masked, and to be told; 0: it tells labels */
  int64_t shape[3];    /* usual input, C H W; of sequences T, 0, 0 */
  int64_t vocabulary;  /* the input is tokens; usually numbers below it; 0: it is values */
  bool decoder_input;  /* there is a second input like the first, RONDE__DECODER_INPUT */
  bool lengths;        /* there is a second input, RONDE__LENGTHS_INPUT */
  int64_t text; /* there is a third input, RONDE__TEXT_INPUT, usually of so many of its `classes`; 0: there is none */
  int64_t classes;
} ronde__model;

/* Of who translates: the tokens of the target in front of the one that is to be told. */
#define RONDE__DECODER_INPUT "decoder_input"
/* Of who transcribes: how many frames of an example are there, as a value. */
#define RONDE__LENGTHS_INPUT "lengths"
/* Of who speaks: the characters that are said, as numbers from 1 on, and 0 behind them. */
#define RONDE__TEXT_INPUT "text"

/* By name, with sizes behind a colon where it has them; NULL: unknown. */
const ronde__model *ronde__model_find(const char *name);
/* What follows the colon of a name; NULL: it has none. */
const char *ronde__model_sizes(const char *name);
const ronde__model *ronde__model_at(int i); /* NULL past the end */

#endif

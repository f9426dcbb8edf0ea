/* Deep Speech 2 as it is usually written in PyTorch (deepspeech.pytorch): two convolutions over frequency and time, each with
 * batch normalisation and a ReLU that is clipped at 20; recurrent layers in both directions, whose two outputs are added, with
 * batch normalisation in front of all but the first; a linear layer for each step; and CTC. Of the recurrent layers that were
 * published these are gated recurrent units, five of 800; there is no lookahead convolution, which is for one direction. The
 * second convolution's width in time is 11, as that of the first, whose stride of 2 halves the steps. Parameters are called as
 * in that implementation. What lies behind an example's end is zero after each convolution and normalisation, and no step of a
 * recurrent layer; batch normalisation counts it.
 * Source: Amodei et al., "Deep Speech 2: end-to-end speech recognition in English and Mandarin", 2015.
 * Legend: B bands, F frames of the input, T steps, half as many, K classes. */
#include "models/models.h"

#include <stdio.h>

typedef struct speech_sizes {
  int64_t channels; /* of the convolutions */
  int layers;
  int64_t hidden;
} speech_sizes;

typedef struct speech_network {
  const speech_sizes *sizes;
  const ronde_tensor
      *steps; /* [1]: an example's; a quarter more, or less, than a whole number, which it is rounded to */
  const ronde_tensor *mask; /* [1,1,T]: 1 within an example's steps, else 0 */
} speech_network;

/* (frames + 1 / 2) / 2 is near the steps that a convolution of stride 2 makes of them, the half rounded up. */
static ronde_tensor *count_steps(ronde_graph *graph) {
  return ronde_function(ronde_graph_input(graph, RONDE__LENGTHS_INPUT), RONDE_AFFINE, 0.5f, 0.25f);
}

/* A constant has the places -0, -1, ... in time: the steps of an example, n, minus its place is at least 3 / 4 at n - 1, and at
 * most 1 / 4 at n. */
static ronde_tensor *make_mask(ronde_graph *graph, const ronde_tensor *steps, int64_t t) {
  const int64_t one[] = {1, 1, 1}, row[] = {1, 1, t};
  float *places = ronde__alloc((size_t)t * sizeof *places);
  if (!places) {
    ronde__fail(RONDE_E_MEMORY, "deepspeech2: no memory");
    return NULL;
  }
  for (int64_t i = 0; i < t; i++) places[i] = -(float)i;
  const ronde_tensor *constant = ronde_parameter(graph, "places", 3, row, places, true);
  ronde__free(places);
  ronde_tensor *left = ronde_add(ronde_reshape(steps, 3, one), constant);
  return ronde_clip(ronde_function(left, RONDE_AFFINE, 2, -0.5f), 0, 1);
}

static ronde_tensor *convolve(const speech_network *s, const ronde_tensor *x, int number, int kernel, int stride) {
  char conv[40], norm[40];
  const ronde_conv2d_options options = {
      .out_channels = s->sizes->channels, .kernel = {kernel, 11}, .stride = {2, stride}, .padding = {kernel / 2, 5}};
  snprintf(conv, sizeof conv, "conv.seq_module.%d", number);
  snprintf(norm, sizeof norm, "conv.seq_module.%d", number + 1);
  ronde_tensor *y = ronde_multiply(ronde_conv2d(x, conv, &options), s->mask);
  y = ronde_multiply(ronde_batch_norm2d(y, norm, NULL), s->mask);
  return ronde_clip(y, 0, 20);
}

/* Of a sequence x [T,F], over all steps. */
static ronde_tensor *normalize_steps(const ronde_tensor *x, const char *name) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  const int turned[] = {1, 0};
  ronde_tensor_dims(x, dims);
  const int64_t image[] = {dims[1], 1, dims[0]}, rows[] = {dims[1], dims[0]};
  ronde_tensor *y = ronde_reshape(ronde_transpose(x, turned), 3, image);
  return ronde_transpose(ronde_reshape(ronde_batch_norm2d(y, name, NULL), 2, rows), turned);
}

static ronde_tensor *recur(const speech_network *s, const ronde_tensor *x, int layer) {
  char name[40];
  int64_t dims[RONDE_MAX_RANK] = {0};
  const ronde_recurrent_options options = {.hidden = s->sizes->hidden, .both_directions = true, .lengths = s->steps};
  snprintf(name, sizeof name, "rnns.%d.batch_norm.module", layer);
  if (layer > 0) x = normalize_steps(x, name);
  snprintf(name, sizeof name, "rnns.%d.rnn", layer);
  ronde_tensor *y = ronde_gru(x, name, &options, NULL);
  ronde_tensor_dims(y, dims);
  const int64_t parted[] = {dims[0], 2, s->sizes->hidden};
  return ronde_reduce(ronde_reshape(y, 3, parted), RONDE_REDUCE_SUM, 1, (int[]){1}, false);
}

/* x [C,B,T] -> [T,C B] */
static ronde_tensor *to_steps(const ronde_tensor *x) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  const int turned[] = {1, 0};
  ronde_tensor_dims(x, dims);
  const int64_t rows[] = {dims[0] * dims[1], dims[2]};
  return ronde_transpose(ronde_reshape(x, 2, rows), turned);
}

static ronde_tensor *speech_make(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                 const ronde__model_options *options, const speech_sizes *sizes) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  if (ronde_tensor_dims(x, dims) != 3 || dims[0] != 1) {
    ronde__fail(RONDE_E_USAGE, "deepspeech2 takes features of recordings, 1 x bands x frames");
    return NULL;
  }
  int64_t t = (dims[2] - 1) / 2 + 1;
  speech_network s = {.sizes = sizes, .steps = count_steps(graph)};
  if (!s.steps || !(s.mask = make_mask(graph, s.steps, t))) return NULL;
  ronde_tensor *y = convolve(&s, x, 0, 41, 2);
  y = to_steps(convolve(&s, y, 3, 21, 1));
  for (int layer = 0; layer < sizes->layers; layer++) y = recur(&s, y, layer);
  y = ronde_linear(normalize_steps(y, "fc.0.module.0"), "fc.0.module.1", classes, false);
  const ronde_ctc_options loss = {
      .labels = options->labels ? options->labels : t, .zero_infinity = true, .lengths = s.steps};
  ronde_graph_set_loss(graph, ronde_ctc_loss(y, ronde_target(graph), &loss));
  return y;
}

static ronde_tensor *deepspeech2_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                       const ronde__model_options *options) {
  return speech_make(graph, x, classes, options, &(speech_sizes){.channels = 32, .layers = 5, .hidden = 800});
}

static ronde_tensor *deepspeech2_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                            const ronde__model_options *options) {
  return speech_make(graph, x, classes, options, &(speech_sizes){.channels = 8, .layers = 2, .hidden = 64});
}

const ronde__model ronde__model_deepspeech2 = {.name = "deepspeech2",
                                               .about = "Deep Speech 2, 5 layers of GRU of 800 in both directions",
                                               .build = deepspeech2_build,
                                               .any_shape = true,
                                               .shape = {1, 80, 400},
                                               .lengths = true,
                                               .classes = 29};

const ronde__model ronde__model_deepspeech2_tiny = {.name = "deepspeech2-tiny",
                                                    .about = "the same with 8 channels and 2 layers of 64",
                                                    .build = deepspeech2_tiny_build,
                                                    .any_shape = true,
                                                    .shape = {1, 80, 200},
                                                    .lengths = true,
                                                    .classes = 29};

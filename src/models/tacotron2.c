/* Tacotron 2: from the characters of a text to the log-mel features of its speech. The encoder has three convolutions over the
 * text and an LSTM in both directions. The decoder goes from frame to frame: two linear layers (the prenet) of the frame before,
 * an LSTM with location-sensitive attention, a second LSTM, and from what both tell the next frame and whether it is the last.
 * The postnet, five convolutions over all frames, tells what to add to them. Training gives the decoder the true frame before
 * (teacher forcing), so all but the attention's LSTM is known for all steps at once. The loss is the mean squared error of frames
 * without and with the postnet, and the binary cross entropy of the end; frames behind an example's end count as zeros in these
 * means, which are over all frames. Convolutions, batch normalisation and decoder also pass over what lies behind an end.
 * Parameters are called, and the layers are, as in NVIDIA's implementation. Here dropout ends with training, also in the prenet,
 * and follows one option: prenet and convolutions have that probability, and what the decoder's two LSTMs tell (not their own
 * states) a fifth of it, as 0.5 and 0.1 are there. Layers begin as PyTorch's do by default. Features are those of the data, each
 * recording's of mean 0 and deviation 1.
 * Source: Shen et al., "Natural TTS synthesis by conditioning WaveNet on mel spectrogram predictions", 2018.
 * Legend: S characters, T frames, B bands. */
#include "models/models.h"

#include <stdio.h>

enum { ENCODER_LAYERS = 3, POSTNET_LAYERS = 5, KERNEL = 5, LOCATION_KERNEL = 31 };

typedef struct tacotron_sizes {
  int64_t encoder, prenet, hidden, postnet; /* channels of the encoder; hidden values of the decoder's LSTMs */
  int64_t width, filters;                   /* of the attention */
} tacotron_sizes;

typedef struct tacotron {
  const tacotron_sizes *sizes;
  float dropout;
} tacotron;

static ronde_tensor *drop(const tacotron *b, ronde_tensor *x, float share) {
  return b->dropout > 0 ? ronde_dropout(x, b->dropout * share) : x;
}

static ronde_tensor *turn(const ronde_tensor *x) { return ronde_transpose(x, (int[]){1, 0}); }

/* Of x [C,T]. */
static ronde_tensor *normalize(const ronde_tensor *x, const char *name) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  ronde_tensor_dims(x, dims);
  const int64_t image[] = {dims[0], 1, dims[1]}, sequence[] = {dims[0], dims[1]};
  return ronde_reshape(ronde_batch_norm2d(ronde_reshape(x, 3, image), name, NULL), 2, sequence);
}

static ronde_tensor *convolve(const ronde_tensor *x, const char *part, int layer, int64_t channels) {
  char conv[48], norm[48];
  const ronde_conv1d_options options = {.out_channels = channels, .kernel = KERNEL, .padding = KERNEL / 2};
  snprintf(conv, sizeof conv, "%s.convolutions.%d.0.conv", part, layer);
  snprintf(norm, sizeof norm, "%s.convolutions.%d.1", part, layer);
  return normalize(ronde_conv1d(x, conv, &options), norm);
}

/* text [S] -> [S,encoder]. Embeddings begin with the deviation that they have at NVIDIA, which is uniform there. */
static ronde_tensor *encode(const tacotron *b, const ronde_tensor *text, const ronde_tensor *lengths) {
  const ronde_recurrent_options lstm = {.hidden = b->sizes->encoder / 2, .both_directions = true, .lengths = lengths};
  ronde_tensor *x = turn(ronde_embedding(text, "embedding", b->sizes->encoder, 0.055f));
  for (int i = 0; i < ENCODER_LAYERS; i++) x = drop(b, ronde_relu(convolve(x, "encoder", i, b->sizes->encoder)), 1);
  return ronde_lstm(turn(x), "encoder.lstm", &lstm, NULL, NULL);
}

/* What the decoder knows before each of frames [T,B]: [T,hidden + encoder], of those in front and of the text. */
static ronde_tensor *decode(const tacotron *b, const ronde_tensor *frames, const ronde_tensor *memory,
                            const ronde_tensor *lengths) {
  static const int64_t before[] = {1, 0}, after[] = {-1, 0};
  const tacotron_sizes *s = b->sizes;
  const ronde_location_attention_options attention = {
      .hidden = s->hidden, .width = s->width, .filters = s->filters, .kernel = LOCATION_KERNEL, .lengths = lengths};
  const ronde_recurrent_options lstm = {.hidden = s->hidden, .of_cell = true};
  ronde_tensor *context, *x = ronde_pad(frames, before, after, RONDE_PAD_VALUE, 0);
  for (int i = 0; i < 2; i++) {
    char name[48];
    snprintf(name, sizeof name, "decoder.prenet.layers.%d.linear_layer", i);
    x = drop(b, ronde_relu(ronde_linear(x, name, s->prenet, false)), 1);
  }
  ronde_tensor *h = drop(b, ronde_location_attention(x, memory, "decoder", &attention, &context, NULL), 0.2f);
  h = ronde_lstm(ronde_concat_along((const ronde_tensor *const[]){h, context}, 2, 1), "decoder.decoder_rnn", &lstm,
                 NULL, NULL);
  return ronde_concat_along((const ronde_tensor *const[]){drop(b, h, 0.2f), context}, 2, 1);
}

/* To frames [T,B]. */
static ronde_tensor *improve(const tacotron *b, const ronde_tensor *frames, int64_t bands) {
  ronde_tensor *x = turn(frames);
  for (int i = 0; i < POSTNET_LAYERS; i++) {
    bool last = i == POSTNET_LAYERS - 1;
    x = convolve(x, "postnet", i, last ? bands : b->sizes->postnet);
    x = drop(b, last ? x : ronde_tanh(x), 1);
  }
  return ronde_add(frames, turn(x));
}

/* [T,1]: 1 at an example's last frame and behind it, else 0. A constant has the places 0, 1, ... in time. */
static ronde_tensor *ends_of(ronde_graph *graph, const ronde_tensor *lengths, int64_t t) {
  const int64_t one[] = {1, 1}, column[] = {t, 1};
  float *places = ronde__alloc((size_t)t * sizeof *places);
  if (!places) {
    ronde__fail(RONDE_E_MEMORY, "tacotron2: no memory");
    return NULL;
  }
  for (int64_t i = 0; i < t; i++) places[i] = (float)i + 2;
  const ronde_tensor *constant = ronde_parameter(graph, "places", 2, column, places, true);
  ronde__free(places);
  return ronde_clip(ronde_subtract(constant, ronde_reshape(lengths, 2, one)), 0, 1);
}

static ronde_tensor *tacotron_make(ronde_graph *graph, ronde_tensor *x, const ronde__model_options *options,
                                   const tacotron_sizes *sizes) {
  int64_t dims[RONDE_MAX_RANK] = {0};
  const tacotron b = {sizes, options->dropout};
  const ronde_tensor *text = ronde_graph_input(graph, RONDE__TEXT_INPUT);
  const ronde_tensor *n_frames = ronde_graph_input(graph, RONDE__LENGTHS_INPUT);
  if (!text || !n_frames) return NULL;
  if (ronde_tensor_dims(x, dims) != 3 || dims[0] != 1) {
    ronde__fail(RONDE_E_USAGE, "tacotron2 takes features of recordings, 1 x bands x frames");
    return NULL;
  }
  const int64_t bands = dims[1], rows[] = {bands, dims[2]};
  const ronde_tensor *frames = turn(ronde_reshape(x, 2, rows)), *lengths = ronde_lengths(text, 0);
  const ronde_tensor *told = decode(&b, frames, encode(&b, text, lengths), lengths);
  ronde_tensor *raw = ronde_linear(told, "decoder.linear_projection.linear_layer", bands, true);
  ronde_tensor *ends = ronde_linear(told, "decoder.gate_layer.linear_layer", 1, true);
  ronde_tensor *fine = improve(&b, raw, bands);
  ronde_tensor *loss =
      ronde_add(ronde_squared_error(raw, frames, n_frames), ronde_squared_error(fine, frames, n_frames));
  loss = ronde_add(loss, ronde_bce_error(ends, ends_of(graph, n_frames, dims[2]), n_frames));
  ronde_graph_set_loss(graph, ronde_mean_loss(loss));
  return ronde_concat_along((const ronde_tensor *const[]){fine, ends}, 2, 1);
}

static ronde_tensor *tacotron2_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                     const ronde__model_options *options) {
  static const tacotron_sizes sizes = {
      .encoder = 512, .prenet = 256, .hidden = 1024, .postnet = 512, .width = 128, .filters = 32};
  return tacotron_make(graph, x, options, &sizes);
}

static ronde_tensor *tacotron2_tiny_build(ronde_graph *graph, ronde_tensor *x, int64_t classes,
                                          const ronde__model_options *options) {
  static const tacotron_sizes sizes = {
      .encoder = 32, .prenet = 16, .hidden = 48, .postnet = 24, .width = 16, .filters = 8};
  return tacotron_make(graph, x, options, &sizes);
}

const ronde__model ronde__model_tacotron2 = {.name = "tacotron2",
                                             .about = "Tacotron 2, from text to the features of its speech",
                                             .build = tacotron2_build,
                                             .has_dropout = true,
                                             .any_shape = true,
                                             .dropout = 0.5f,
                                             .shape = {1, 80, 400},
                                             .lengths = true,
                                             .text = 80,
                                             .classes = 148};

const ronde__model ronde__model_tacotron2_tiny = {.name = "tacotron2-tiny",
                                                  .about = "the same with LSTMs of 32 and 48",
                                                  .build = tacotron2_tiny_build,
                                                  .has_dropout = true,
                                                  .any_shape = true,
                                                  .dropout = 0.5f,
                                                  .shape = {1, 80, 200},
                                                  .lengths = true,
                                                  .text = 40,
                                                  .classes = 29};

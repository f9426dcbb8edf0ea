/* Speech in whole jobs: a network learns to transcribe tones, is evaluated, and transcribes files; another one learns to speak them.
 * Their steps are those of one worker, however they are shared out. */
#include "train_testing.h"

#include "data/wav_testing.h"
#include "lib/folder.h"
#include "verbs/error_rate.h"

#include <sys/stat.h>

/* Of sums of f32 in another order, against the largest element of the update; and of losses. */
#define UPDATE_TOLERANCE 2e-4
#define LOSS_TOLERANCE 5e-6

#ifdef RONDE_HAVE_AUDIO

enum { RECORDINGS = 48, LETTERS = 4, SAMPLES = 2000 };

/* Letters are tones of an eighth of a second, a blank is silence. */
static int hz_of(char letter) { return letter == ' ' ? 0 : 400 << (letter - 'a'); }

/* Texts such as "ab", "cad b". */
static void make_text(int i, char text[8]) {
  int n = 2 + i % 3, k = 0;
  for (; k < n; k++) text[k] = k == 2 ? ' ' : (char)('a' + (i * 5 + k * (1 + i / 4) + i / 7) % LETTERS);
  if (text[k - 1] == ' ') text[k++] = (char)('a' + i % LETTERS);
  text[k] = '\0';
}

static void write_recording(const char *name, const char *text) {
  int hz[8], n = (int)strlen(text);
  for (int k = 0; k < n; k++) hz[k] = hz_of(text[k]);
  test_write_bytes(folder, name, test_wav_tones((size_t)(n * SAMPLES), hz, (size_t)n));
}

static int write_once(void **state) {
  char all[RECORDINGS * 32] = "", name[32], text[8];
  make_folder_with_cache(state);
  for (int i = 0; i < RECORDINGS; i++) {
    make_text(i, text);
    snprintf(name, sizeof name, "%02d.wav", i);
    write_recording(name, text);
    snprintf(all + strlen(all), sizeof all - strlen(all), "%02d\t%s\n", i, text);
  }
  test_write(folder, "transcripts.txt", all, strlen(all));
  write_recording("long.WAV", "abcdabcd");
  test_write(folder, "text.wav", "no sound", 8);
  return 0;
}

/* The options have the folder at %s, twice at most. */
static ronde_status run_job(const char *verb, const ronde_hooks *hooks, char **json_out, const char *format) {
  char *options = ronde__format(format, folder, folder);
  test_log_start(&lines);
  ronde_status status = job_try(verb, options, hooks, json_out);
  free(options);
  return status;
}

/* Of what predict told, beside what the recordings hold. */
typedef struct heard {
  ronde__error_counts counts;
  int n;
} heard;

static void hear(void *user, const ronde_prediction *told) {
  heard *h = user;
  char text[8];
  const char *name = strrchr(told->file, '/') + 1;
  assert_true(told->n == 0 && told->n_values == 0 && told->index == 0);
  make_text(atoi(name), text);
  assert_int_equal(ronde__error_counts_add(&h->counts, text, told->text), RONDE_OK);
  h->n++;
}

static void check_eval(const char *options, const ronde__error_counts *counts) {
  char *text;
  assert_int_equal(run_job("eval", NULL, &text, options), RONDE_OK);
  json_t *json = json_of(text);
  assert_true(real_at(json, "words") == (double)counts->words);
  assert_true(real_at(json, "characters") == (double)counts->characters);
  assert_true(real_at(json, "wer") == (double)counts->word_errors / (double)counts->words);
  assert_true(real_at(json, "cer") == (double)counts->character_errors / (double)counts->characters);
  assert_null(json_object_get(json, "perplexity"));
  json_decref(json);
}

static void check_refused(const char *format, ronde_status status, const char *words) {
  char *text;
  assert_int_equal(run_job("predict", NULL, &text, format), status);
  if (!strstr(lines.error, words)) fail_msg("\"%s\" is not in \"%s\"", words, lines.error);
}

/* As many frames as the longest recording has, before and after. */
static void a_run_goes_on(void **state) {
  char *text;
  assert_int_equal(
      run_job("train", NULL, &text, "model=deepspeech2-tiny data=audio:%s batch=8 steps=1 threads=1 out=%s/run"),
      RONDE_OK);
  free(text);
  if (run_job("train", NULL, &text, "data=audio:%s steps=2 threads=1 resume=%s/run") != RONDE_OK)
    fail_msg("%s", lines.error);
  json_t *json = json_of(text);
  assert_int_equal((int)real_at(json, "totals.steps"), 1); /* behind the other one */
  json_decref(json);
}

static void it_learns_to_transcribe(void **state) {
  char *text;
  heard h = {{0}, 0};
  const ronde_hooks hooks = {.prediction = hear, .user = &h};
  assert_int_equal(run_job("train", NULL, &text,
                           "model=deepspeech2-tiny data=audio:%s batch=8 optimizer=adam lr=0.003 epochs=14 threads=1 "
                           "save=%s/w"),
                   RONDE_OK);
  free(text);
  assert_int_equal(run_job("predict", &hooks, &text, "init=%s/w threads=1 input=%s/[0-9]*.wav"), RONDE_OK);
  json_t *json = json_of(text);
  assert_int_equal(h.n, RECORDINGS);
  assert_int_equal(json_array_size(json_object_get(json, "examples")), RECORDINGS);
  assert_non_null(text_at(json, "examples.0.text"));
  json_decref(json);
  /* Whoever guesses has three quarters of the letters wrong. */
  double cer = (double)h.counts.character_errors / (double)h.counts.characters;
  if (!(cer < 0.2)) fail_msg("%g of the characters are wrong", cer);
  check_eval("init=%s/w data=audio:%s threads=1 split=train batch=7", &h.counts);
  check_eval("init=%s/w data=audio:%s threads=1 split=train batch=7 workers=3", &h.counts);
  check_refused("init=%s/w threads=1", RONDE_E_USAGE, "a WAV file to transcribe is needed");
  check_refused("init=%s/w threads=1 input=%s/long.WAV", RONDE_E_INPUT, "long.WAV: it has 101 frames of 10 ms");
  check_refused("init=%s/w threads=1 input=%s/text.wav", RONDE_E_INPUT, "text.wav: offset 0: not a WAV file");
  check_refused("init=%s/w threads=1 input=%s/none.wav", RONDE_E_INPUT, "none.wav");
  check_refused("init=%s/w threads=1 input=%s/00.wav top=3", RONDE_E_USAGE, "--top can have no effect");
}

static double loss_of(const char *options) {
  char *text;
  if (run_job("eval", NULL, &text, options) != RONDE_OK) fail_msg("%s", lines.error);
  json_t *json = json_of(text);
  double loss = real_at(json, "loss");
  assert_null(json_object_get(json, "perplexity"));
  assert_null(json_object_get(json, "wer"));
  json_decref(json);
  return loss;
}

static void it_learns_to_speak(void **state) {
  char *text;
  if (run_job("train", NULL, &text,
              "model=tacotron2-tiny data=audio:%s batch=8 optimizer=adam lr=0.01 dropout=0.1 epochs=16 threads=1 "
              "save=%s/w") != RONDE_OK)
    fail_msg("%s", lines.error);
  free(text);
  /* Who tells the mean of all features has an error of 1 without and with the postnet, in the 8 of 10 frames that are there. */
  double loss = loss_of("init=%s/w data=audio:%s threads=1 split=train batch=7");
  double shared = loss_of("init=%s/w data=audio:%s threads=1 split=train batch=7 workers=3");
  if (!(loss < 0.9)) fail_msg("a loss of %g", loss);
  assert_true(fabs(shared / loss - 1) <= LOSS_TOLERANCE);
  check_refused("init=%s/w threads=1 input=%s/00.wav", RONDE_E_USAGE, "a network of several inputs");
}

#endif

/* ---- many workers ---- */

enum { BANDS = 16, FRAMES = 14, LABELS = 3, CLASSES = 7, ROW = BANDS * FRAMES + 1 };

typedef struct network {
  ronde_model_fn model; /* NULL: */
  const char *built_in;
  bool speaks; /* its labels are an input too */
} network;

static int64_t frames_of(int64_t id) { return id == 1 ? 1 : FRAMES - id * 3 % (FRAMES / 2); }

static ronde_status read_features(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                  int64_t *labels, float *targets) {
  const network *of = user;
  for (int64_t i = 0; i < n; ++i) {
    float *row = x + i * (ROW + (of->speaks ? LABELS : 0));
    for (int64_t k = 0; k < ROW - 1; ++k) row[k] = k % FRAMES < frames_of(ids[i]) ? small_noise(ids[i], k) : 0;
    row[ROW - 1] = (float)frames_of(ids[i]);
    for (int64_t s = 0; s < LABELS; ++s)
      labels[i * LABELS + s] = s <= ids[i] % LABELS ? 1 + (ids[i] * 3 + s * 2) % (CLASSES - 1) : RONDE_IGNORED;
    for (int64_t s = 0; s < LABELS && of->speaks; ++s) {
      int32_t token = (int32_t)ronde__max(0, labels[i * LABELS + s]);
      memcpy(&row[ROW + s], &token, sizeof token);
    }
  }
  return RONDE_OK;
}

/* Without batch normalisation, so that any strategy's step is one worker's. */
static ronde_tensor *plain_network(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  const int64_t image[] = {BANDS, FRAMES};
  const ronde_tensor *lengths = ronde_graph_input(graph, "lengths");
  const ronde_recurrent_options gru = {.hidden = 6, .both_directions = true, .lengths = lengths};
  const ronde_ctc_options ctc = {.labels = LABELS, .zero_infinity = true, .lengths = lengths};
  ronde_tensor *y = ronde_transpose(ronde_reshape(x, 2, image), (int[]){1, 0});
  y = ronde_linear(ronde_gru(y, "gru", &gru, NULL), "fc", classes, true);
  ronde_graph_set_loss(graph, ronde_ctc_loss(y, ronde_target(graph), &ctc));
  return y;
}

static ronde_tensor *speaking_network(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  const int64_t image[] = {BANDS, FRAMES};
  const ronde_tensor *text = ronde_graph_input(graph, "text"), *lengths = ronde_graph_input(graph, "lengths");
  const ronde_location_attention_options attention = {
      .hidden = 6, .width = 5, .filters = 2, .kernel = 3, .lengths = ronde_lengths(text, 0)};
  ronde_tensor *frames = ronde_transpose(ronde_reshape(x, 2, image), (int[]){1, 0}), *context, *weights;
  ronde_tensor *h = ronde_location_attention(frames, ronde_embedding(text, "characters", 4, 1), "decoder", &attention,
                                             &context, &weights);
  ronde_tensor *y = ronde_concat_along((const ronde_tensor *const[]){h, context, weights}, 3, 1);
  y = ronde_linear(y, "fc", BANDS, true);
  ronde_tensor *loss = ronde_add(ronde_squared_error(y, frames, lengths), ronde_bce_error(y, frames, lengths));
  ronde_graph_set_loss(graph, ronde_mean_loss(loss));
  return y;
}

static const network transcriber = {.model = plain_network}, deepspeech2 = {.built_in = "deepspeech2-tiny"};
static const network speaker = {.model = speaking_network, .speaks = true};
static const network tacotron2 = {.built_in = "tacotron2-tiny", .speaks = true};

static observed train(const network *of, const char *format, ...) __attribute__((format(printf, 2, 3)));

static observed train(const network *of, const char *format, ...) {
  static const ronde_source_input more[] = {{.name = "lengths", .rank = 1, .dims = {1}},
                                            {.name = "text", .rank = 1, .dims = {LABELS}, .vocabulary = CLASSES}};
  const ronde_source source = {.name = "features",
                               .rank = 3,
                               .dims = {1, BANDS, FRAMES},
                               .classes = CLASSES,
                               .label_elems = LABELS,
                               .n_more = 1 + of->speaks,
                               .more = more,
                               .n_examples = {12, 0},
                               .read = read_features,
                               .user = (void *)(uintptr_t)of};
  char given[256], options[320];
  va_list args;
  va_start(args, format);
  vsnprintf(given, sizeof given, format, args);
  va_end(args);
  snprintf(options, sizeof options, "threads=1 %s%s %s", of->model ? "" : "model=", of->model ? "" : of->built_in,
           given);
  observed o = observe(options, &source, of->model, NULL);
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  return o;
}

static void check_strategy(const network *of, const char *strategy, int workers) {
  static const int batches[] = {9, 2};
  for (size_t b = 0; b < RONDE__COUNT(batches); b++) {
    observed fresh = train(of, "steps=1 lr=0 batch=%d", batches[b]),
             one = train(of, "steps=1 lr=0.5 batch=%d", batches[b]);
    observed many = train(of, "steps=1 lr=0.5 batch=%d workers=%d %s", batches[b], workers, strategy);
    double update = update_difference(&many, &one, &fresh), loss = fabs(many.loss[0] / one.loss[0] - 1);
    if (!(update <= UPDATE_TOLERANCE && loss <= LOSS_TOLERANCE))
      fail_msg("%s of %d, batch %d: updates differ by %g, losses by %g", strategy, workers, batches[b], update, loss);
    free(fresh.weights), free(one.weights), free(many.weights);
  }
}

static void a_step_of_many_is_a_step_of_one(void **state) {
  static const network *const plain[] = {&transcriber, &speaker};
  for (size_t i = 0; i < RONDE__COUNT(plain); i++) {
    check_strategy(plain[i], "strategy=allreduce", 3);
    check_strategy(plain[i], "strategy=ps-sync servers=2", 3);
    check_strategy(plain[i], "strategy=sharded", 3);
    check_strategy(plain[i], "strategy=dataparallel", 3);
  }
  check_strategy(&deepspeech2, "strategy=allreduce sync-bn=on", 3);
  check_strategy(&deepspeech2, "strategy=sharded sync-bn=on", 2);
  check_strategy(&tacotron2, "strategy=allreduce sync-bn=on", 3);
}

static void stages_and_eager_passes_have_the_bits_of_one_worker(void **state) {
  const network *of = *state;
  observed one = train(of, "steps=2 lr=0.1 batch=2 accumulate=3");
  for (int stages = 2; stages <= 4; stages++) {
    observed many =
        train(of, "steps=2 lr=0.1 batch=6 strategy=pipeline stages=%d workers=%d micro-batches=3", stages, stages);
    assert_true(bits_equal(&many, &one));
    free(many.weights);
  }
  free(one.weights);
  observed planned = train(of, "steps=3 lr=0.1 batch=5"), eager = train(of, "steps=3 lr=0.1 batch=5 exec=eager");
  assert_true(bits_equal(&planned, &eager));
  free(planned.weights), free(eager.weights);
}

static void other_data_are_refused(void **state) {
  json_t *json;
  train_on("model=deepspeech2-tiny batch=4 steps=1 threads=1", small_source(8, 0), NULL, &json);
  assert_non_null(strstr(lines.error, "deepspeech2-tiny transcribes: it takes audio:DIR"));
  json_decref(json);
  train_on("model=tacotron2-tiny batch=4 steps=1 threads=1", small_source(8, 0), NULL, &json);
  assert_non_null(strstr(lines.error, "tacotron2-tiny speaks: it takes audio:DIR"));
  json_decref(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#ifdef RONDE_HAVE_AUDIO
      cmocka_unit_test_setup_teardown(a_run_goes_on, write_once, remove_folder),
      cmocka_unit_test_setup_teardown(it_learns_to_transcribe, write_once, remove_folder),
      cmocka_unit_test_setup_teardown(it_learns_to_speak, write_once, remove_folder),
#endif
      cmocka_unit_test(a_step_of_many_is_a_step_of_one),
      cmocka_unit_test_prestate(stages_and_eager_passes_have_the_bits_of_one_worker, (void *)(uintptr_t)&deepspeech2),
      cmocka_unit_test_prestate(stages_and_eager_passes_have_the_bits_of_one_worker, (void *)(uintptr_t)&tacotron2),
      cmocka_unit_test_setup_teardown(other_data_are_refused, make_folder_with_log, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

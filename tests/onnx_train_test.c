/* Networks from ONNX files in the jobs: trained like the built-in ones, resumed, evaluated, exported again. */
#include "train_testing.h"

#include "lib/folder.h"
#include "onnx_testing.h"

#define GOLDEN RONDE_SOURCE_DIR "/tests/golden/onnx"

static int make_folder(void **state) {
  folder = test_folder_create();
  test_log_start(&lines);
  return 0;
}

/* A job with options in which @ stands for the test's folder. */
static char *with_folder(const char *options) {
  char *all = ronde__strdup("");
  for (const char *at = options; *at;) {
    size_t n = strcspn(at, "@");
    char *longer = ronde__format("%s%.*s%s", all, (int)n, at, at[n] ? folder : "");
    free(all);
    all = longer;
    at += n + (at[n] == '@');
  }
  return all;
}

static json_t *run_job(const char *verb, const char *options, const ronde_source *source) {
  char *all = with_folder(options);
  json_t *result = job_run(verb, all, source ? &(ronde_hooks){.source = source} : NULL);
  free(all);
  return result;
}

static void export_to(const char *options) {
  char *all = with_folder(options);
  ronde_config *config = config_make("export", all);
  char *text;
  ronde_status status = ronde_export(config, &text);
  if (status != RONDE_OK) fail_msg("%s: %s", all, lines.error);
  free(text);
  ronde_config_destroy(config);
  free(all);
}

/* init, then export: NAME.onnx of a built-in network with fresh weights, which are in NAME too. */
static void write_file(const char *name, const char *model) {
  char *init = ronde__format("%s output=@/%s seed=7", model, name);
  char *export = ronde__format("init=@/%s format=onnx output=@/%s.onnx", name, name);
  json_decref(run_job("init", init, NULL));
  export_to(export);
  free(init);
  free(export);
}

static char *weights_after(const char *options, const ronde_source *source) {
  char *all = ronde__format("batch=10 steps=4 lr=0.05 threads=1 %s", options);
  json_t *run = run_job("train", all, source);
  char *sha256 = ronde__strdup(text_at(run, "result.weights_sha256"));
  json_decref(run);
  free(all);
  return sha256;
}

static void refused(const char *verb, const char *options, const ronde_source *source, ronde_status wanted,
                    const char *a, const char *b) {
  char *all = with_folder(options);
  ronde_config *config = config_make(verb, all);
  ronde_hooks hooks = {.source = source};
  ronde_status status = strcmp(verb, "train") ? ronde_export(config, NULL) : ronde_train(config, &hooks, NULL);
  ronde_config_destroy(config);
  free(all);
  check_failed(&lines, status, wanted, a, b);
}

/* ---- as the built-in network ------------------------------------------------------------------------------------- */

/* shape: what only init needs to be told. */
static void check_same_bits(const char *model, const char *shape, const char *data) {
  char *own = ronde__format("%s %s momentum=0.9 init=@/net", model, data);
  char *file = ronde__format("%s momentum=0.9 model=@/net.onnx", data), *eager = ronde__format("%s exec=eager", file);
  char *two = ronde__format("%s workers=2", file), *own_two = ronde__format("%s workers=2", own);
  char *all = ronde__format("%s %s", model, shape);
  write_file("net", all);
  char *a = weights_after(own, NULL), *b = weights_after(file, NULL), *c = weights_after(eager, NULL);
  char *d = weights_after(own_two, NULL), *e = weights_after(two, NULL);
  assert_string_equal(a, b);
  assert_string_equal(a, c);
  assert_string_equal(d, e);
  free(own);
  free(file);
  free(eager);
  free(two);
  free(own_two);
  free(all);
  free(a);
  free(b);
  free(c);
  free(d);
  free(e);
}

static void test_same_bits_as_built_in(void **state) {
  need_onnx();
  check_same_bits("model=lenet5", "shape=1x28x28", "data=synthetic:1x28x28:10:40");
  check_same_bits("model=mnist-small padding=valid", "shape=1x14x14 classes=3", "data=synthetic:1x14x14:3:40");
  check_same_bits("model=mlp:20,10 activation=sigmoid", "shape=1x6x6 classes=3", "data=synthetic:1x6x6:3:40");
  check_same_bits("model=resnet18", "", "data=synthetic:3x32x32:10:40");
}

/* Its pooling enlarges 1x1 to 6x6, which comes back as another op of the same values. */
static void test_alexnet_is_the_same_to_evaluate(void **state) {
  need_onnx();
  write_file("net", "model=alexnet");
  json_t *a = run_job("eval", "init=@/net data=synthetic:3x64x64:10:16 threads=1", NULL);
  json_t *b = run_job("eval", "model=@/net.onnx data=synthetic:3x64x64:10:16 threads=1", NULL);
  assert_true(real_at(a, "loss") == real_at(b, "loss"));
  json_decref(a);
  json_decref(b);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

/* A text, and pairs of lines of one. */
static void write_texts(void) {
  enum { LINES = 120 };
  char text[LINES * 16], pairs[LINES * 16];
  size_t n_text = 0, n_pairs = 0;
  for (int i = 0; i < LINES; i++) {
    const int a = i * 7 % 26, b = i * 11 % 26;
    n_text += (size_t)sprintf(text + n_text, "%c%c%c and %c%c\n", 'a' + a, 'a' + b, 'a' + a, 'a' + b, 'a' + b);
    n_pairs += (size_t)sprintf(pairs + n_pairs, "%c%c%s\t%c%c\n", 'a' + a, 'a' + b, i % 3 ? "x" : "", 'A' + b, 'A' + a);
  }
  test_write(folder, "text.txt", text, n_text);
  test_write(folder, "pairs.tsv", pairs, n_pairs);
}

/* With dropout, which falls on the same places. */
static void test_same_bits_of_tokens(void **state) {
  need_onnx();
  write_texts();
  check_same_bits("model=gpt-tiny", "shape=12", "data=text:@/text.txt window=12");
  write_file("net", "model=gnmt-tiny shape=6");
  char *own = weights_after("model=gnmt-tiny init=@/net data=pairs:@/pairs.tsv window=6", NULL),
       *file = weights_after("model=@/net.onnx data=pairs:@/pairs.tsv", NULL);
  assert_string_equal(own, file);
  free(own);
  free(file);
}

/* A text is cut as the file's network takes it; the file and the weights that it was made of tell the same. */
static void test_a_text_from_a_file(void **state) {
  need_onnx();
  write_texts();
  write_file("net", "model=gpt-tiny shape=12");
  json_t *a = run_job("eval", "init=@/net data=text:@/text.txt threads=1", NULL);
  json_t *b = run_job("eval", "model=@/net.onnx data=text:@/text.txt threads=1", NULL);
  assert_true(real_at(a, "loss") == real_at(b, "loss") && real_at(a, "loss") > 0);
  assert_true(real_at(a, "bits_per_byte") == real_at(b, "bits_per_byte"));
  json_decref(a);
  json_decref(b);
  a = run_job("predict", "init=@/net prompt=abc tokens=6 seed=3 threads=1", NULL);
  b = run_job("predict", "model=@/net.onnx prompt=abc tokens=6 seed=3 threads=1", NULL);
  assert_string_equal(text_at(a, "text"), text_at(b, "text"));
  json_decref(a);
  json_decref(b);
}

static void test_tokens_that_do_not_fit(void **state) {
  need_onnx();
  write_texts();
  write_file("net", "model=gpt-tiny shape=12");
  write_file("pair", "model=gnmt-tiny shape=6");
  refused("train", "model=@/net.onnx steps=1 batch=4 data=synthetic:1x6x6:3:12", NULL, RONDE_E_USAGE,
          "net.onnx takes tokens: text:FILE", "npy:DIR with integers");
  refused("train", "model=@/net.onnx steps=1 batch=4 data=text:@/text.txt window=16", NULL, RONDE_E_USAGE,
          "its input is 12 an example, not 16", "");
  refused("train", "model=@/net.onnx steps=1 batch=4 data=pairs:@/pairs.tsv", NULL, RONDE_E_USAGE,
          "net.onnx takes one input, but the data have several", "");
  refused("train", "model=@/pair.onnx steps=1 batch=4 data=text:@/text.txt", NULL, RONDE_E_USAGE,
          "pair.onnx translates", "pairs:FILE");
}

static ronde_status read_tokens(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  const int64_t places = ((const ronde_source *)user)->dims[0];
  for (int64_t i = 0; i < n * places; i++) {
    const int32_t token = (int32_t)((ids[i / places] * 5 + i % places * 7) % 12);
    memcpy(x + i, &token, sizeof token);
    labels[i] = (token + 7) % 12;
  }
  return RONDE_OK;
}

/* As many places as the data have; what is written then has so many. */
static void test_open_dimensions(void **state) {
  need_onnx();
  for (int64_t places = 5; places <= 16; places += 11) {
    ronde_source source = {.name = "tokens",
                           .rank = 1,
                           .dims = {places},
                           .classes = 12,
                           .label_elems = places,
                           .vocabulary = 12,
                           .n_examples = {40, 8},
                           .read = read_tokens,
                           .user = &source};
    json_decref(run_job(
        "train", "model=" GOLDEN "/torch-open-gpt.onnx batch=10 steps=30 lr=0.5 threads=1 out=@/run overwrite=on",
        &source));
    export_to("init=@/run format=onnx output=@/trained.onnx");
    json_t *a = run_job("eval", "init=@/run threads=1", &source),
           *b = run_job("eval", "model=@/trained.onnx threads=1", &source);
    json_t *c = run_job("eval", "model=" GOLDEN "/torch-open-gpt.onnx threads=1", &source);
    assert_true(real_at(a, "loss") == real_at(b, "loss") && real_at(a, "loss") < real_at(c, "loss"));
    json_decref(a);
    json_decref(b);
    json_decref(c);
  }
  refused("export", "model=" GOLDEN "/torch-open-gpt.onnx format=onnx output=@/out.onnx", NULL, RONDE_E_USAGE,
          "dimension 1 of its input input, places0, is open", "neither data nor --shape");
  refused("export", "model=" GOLDEN "/torch-open-gpt.onnx shape=4x4 format=onnx output=@/out.onnx", NULL, RONDE_E_USAGE,
          "its input input has 1 dimensions an example, not 2", "");
  export_to("model=" GOLDEN "/torch-open-gpt.onnx shape=9 format=onnx output=@/out.onnx");
}

/* Bands and frames, how many of these are there, and up to three labels. */
static ronde_status read_speech(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x, int64_t *labels,
                                float *targets) {
  enum { ELEMS = 80 * 40, LABELS = 3 };
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k < ELEMS; k++) *x++ = sinf((float)(ids[i] + 3 * k));
    *x++ = (float)(20 + ids[i] % 20);
    for (int64_t k = 0; k < LABELS; k++) *labels++ = k <= ids[i] % 3 ? 1 + (ids[i] + k) % 20 : -1;
  }
  return RONDE_OK;
}

/* Networks of recordings transcribe: their loss is CTC. */
static void test_speech(void **state) {
  static const ronde_source_input lengths = {.name = "lengths", .rank = 1, .dims = {1}};
  const ronde_source source = {.name = "speech",
                               .rank = 3,
                               .dims = {1, 80, 40},
                               .classes = 29,
                               .label_elems = 3,
                               .n_more = 1,
                               .more = &lengths,
                               .n_examples = {20, 0},
                               .read = read_speech};
  need_onnx();
  write_file("net", "model=deepspeech2-tiny shape=1x80x40");
  char *own = weights_after("model=deepspeech2-tiny init=@/net", &source),
       *file = weights_after("model=@/net.onnx", &source);
  assert_string_equal(own, file);
  free(own);
  free(file);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static void test_fresh_weights(void **state) {
  need_onnx();
  ronde_source source = small_source(40, 12);
  write_file("net", "model=mlp:8 shape=1x6x6 classes=3");
  char *own = weights_after("model=mlp:8 seed=3", &source), *kept = weights_after("model=@/net.onnx seed=3", &source);
  char *fresh = weights_after("model=@/net.onnx seed=3 init=fresh", &source);
  assert_string_equal(own, fresh);
  assert_string_not_equal(own, kept);
  free(own);
  free(kept);
  free(fresh);
}

/* The file has four classes, the data three. */
static void test_a_new_output_layer(void **state) {
  need_onnx();
  ronde_source source = small_source(40, 12);
  write_file("net", "model=mlp:8 shape=1x6x6 classes=4");
  refused("train", "model=@/net.onnx steps=1 batch=10", &source, RONDE_E_INPUT, "its output layer fc2 has 4 classes",
          "--classes 3 starts a new output layer");
  json_t *run = run_job("train", "model=@/net.onnx steps=1 batch=10 classes=3", &source);
  assert_string_equal(text_at(run, "model.new_head"), "fc2");
  json_decref(run);
  json_decref(run_job("train", "model=@/net.onnx steps=1 batch=10 classes=4", &source));
}

static void test_folded_files(void **state) {
  need_onnx();
  static const char *const names[] = {"folded", "folded-newer"};
  for (size_t i = 0; i < RONDE__COUNT(names); i++) {
    char *options = ronde__format("model=" GOLDEN "/%s.onnx data=synthetic:2x5x5:4:12", names[i]);
    char *train = ronde__format("%s batch=4 steps=1", options);
    refused("train", train, NULL, RONDE_E_INPUT, "an export for inference: node /Conv_0",
            "training=torch.onnx.TrainingMode.TRAINING");
    json_decref(run_job("eval", options, NULL));
    free(options);
    free(train);
  }
}

static void test_data_that_do_not_fit(void **state) {
  need_onnx();
  write_file("net", "model=mlp:8 shape=1x6x6 classes=3");
  refused("train", "model=@/net.onnx batch=4 steps=1 data=synthetic:1x7x6:3:12", NULL, RONDE_E_USAGE,
          "its input is 1x6x6 an example, not 1x7x6", "--resize");
  refused("train", "model=@/none.onnx batch=4 steps=1 data=synthetic:1x7x6:3:12", NULL, RONDE_E_INPUT, "none.onnx",
          "cannot read");
}

/* The same numbers in another shape: an image of one plane is a row, and has a dim of one in front that a series has not. */
static void test_data_in_another_shape(void **state) {
  need_onnx();
  write_file("rows", "model=mlp:8 shape=36 classes=3");
  char *own = weights_after("model=mlp:8 init=@/rows data=synthetic:1x6x6:3:40", NULL);
  char *rows = weights_after("model=@/rows.onnx data=synthetic:1x6x6:3:40", NULL);
  assert_string_equal(own, rows);
  write_file("planes", "model=mlp:8 shape=1x6x6 classes=3");
  ronde_source table = small_source(40, 8);
  table.rank = 1, table.dims[0] = SMALL_SIDE * SMALL_SIDE;
  refused("train", "model=@/planes.onnx batch=10 steps=1", &table, RONDE_E_USAGE,
          "its input is 1x6x6 an example, not 36", "");
  free(own);
  free(rows);
}

/* Conv1d reads [channels][steps], of which an array of examples has nothing in front. */
static void test_series_in_arrays(void **state) {
  enum { N = 20, SERIES = 2 * 17 };
  static const char about[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (20, 2, 17), }";
  static const char classes[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (20,), }";
  need_onnx();
  float x[N * SERIES];
  uint8_t labels[N];
  for (int i = 0; i < N * SERIES; i++) x[i] = (float)(i * 7 % 23) / 23;
  for (int i = 0; i < N; i++) labels[i] = (uint8_t)(i % 10);
  test_bytes arrays = test_npy(about, x, sizeof x), targets = test_npy(classes, labels, sizeof labels);
  static const char *const names[] = {"train_x.npy", "test_x.npy", "train_y.npy", "test_y.npy"};
  for (int i = 0; i < 4; i++)
    test_write(folder, names[i], i < 2 ? arrays.data : targets.data, i < 2 ? arrays.n : targets.n);
  json_t *run =
      run_job("train", "model=" GOLDEN "/torch-newer-series1d.onnx data=npy:@ batch=10 steps=2 out=@/run", NULL);
  json_decref(run);
  run = run_job("train", "resume=@/run steps=4", NULL);
  assert_int_equal(real_at(run, "resumed_from.step"), 2);
  json_decref(run);
  json_t *scores = run_job("eval", "init=@/run data=npy:@", NULL);
  json_decref(run_job("predict", "init=@/run input=@/test_x.npy", NULL));
  export_to("init=@/run format=onnx output=@/net.onnx");
  json_t *again = run_job("eval", "model=@/net.onnx data=npy:@", NULL);
  assert_true(real_at(scores, "loss") == real_at(again, "loss"));
  json_decref(scores);
  json_decref(again);
  free(arrays.data);
  free(targets.data);
}

/* Values have no softmax that belongs to the loss. */
static void test_values(void **state) {
  need_onnx();
  ronde_source values = small_values(40, 12);
  json_t *run = run_job("train", "model=mlp:8 batch=10 steps=1 save=@/w", &values);
  json_decref(run);
  export_to("init=@/w format=onnx output=@/net.onnx");
  json_t *a = run_job("eval", "init=@/w", &values), *b = run_job("eval", "model=@/net.onnx", &values);
  assert_true(real_at(a, "loss") == real_at(b, "loss"));
  assert_true(real_at(a, "r2") == real_at(b, "r2"));
  json_decref(a);
  json_decref(b);
  char *own = weights_after("model=mlp:8 init=@/w", &values), *file = weights_after("model=@/net.onnx", &values);
  assert_string_equal(own, file);
  free(own);
  free(file);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void copy_file(const char *from, const char *to) {
  char *source = ronde__format("%s/%s", folder, from), bytes[16384];
  FILE *file = fopen(source, "rb");
  size_t n = fread(bytes, 1, sizeof bytes, file);
  assert_true(n < sizeof bytes);
  fclose(file);
  test_write(folder, to, bytes, n);
  free(source);
}

/* A run goes on with the same file, and not with another one of the same name. */
static void test_resume_knows_the_file(void **state) {
  need_onnx();
  ronde_source source = small_source(40, 12);
  write_file("net", "model=mlp:8 shape=1x6x6 classes=3");
  json_t *whole = run_job("train", "model=@/net.onnx batch=10 steps=6 threads=1", &source);
  json_t *part = run_job("train", "model=@/net.onnx batch=10 steps=3 threads=1 out=@/run", &source);
  assert_int_equal(strlen(text_at(part, "model.sha256")), 64);
  json_t *rest = run_job("train", "resume=@/run steps=6", &source);
  assert_string_equal(text_at(whole, "result.weights_sha256"), text_at(rest, "result.weights_sha256"));
  write_file("other", "model=mlp:8 shape=1x6x6 classes=3 activation=tanh");
  copy_file("other.onnx", "net.onnx");
  refused("train", "resume=@/run steps=9", &source, RONDE_E_INPUT, "was trained from another file", "net.onnx");
  json_decref(whole);
  json_decref(part);
  json_decref(rest);
}

/* What was learnt of the data goes with the file. */
static void test_what_is_trained_goes_out(void **state) {
  need_onnx();
  const char *data = "data=synthetic:1x28x28:10:80";
  char *train = ronde__format("model=lenet5 %s batch=20 steps=3 normalize=0.25;0.5 out=@/run", data);
  char *weights = ronde__format("init=@/run %s", data), *file = ronde__format("model=@/net.onnx %s", data);
  json_decref(run_job("train", train, NULL));
  export_to("init=@/run format=onnx output=@/net.onnx");
  json_t *a = run_job("eval", weights, NULL), *b = run_job("eval", file, NULL);
  assert_true(real_at(a, "loss") == real_at(b, "loss"));
  assert_true(real_at(a, "accuracy") == real_at(b, "accuracy"));
  json_decref(a);
  json_decref(b);
  export_to("model=@/net.onnx format=onnx output=@/again.onnx");
  char *models[] = {ronde__format("%s/net.onnx", folder), ronde__format("%s/again.onnx", folder)}, *texts[2];
  for (int i = 0; i < 2; i++) assert_int_equal(ronde_models(models[i], &texts[i]), RONDE_OK);
  json_t *one = json_of(texts[0]), *two = json_of(texts[1]);
  assert_string_equal(text_at(one, "sha256"), text_at(two, "sha256"));
  assert_true(real_at(one, "parameters") == 61706);
  json_decref(one);
  json_decref(two);
  for (int i = 0; i < 2; i++) free(models[i]);
  free(train);
  free(weights);
  free(file);
}

static void test_options_of_an_export(void **state) {
  need_onnx();
  write_file("net", "model=mlp:8 shape=1x6x6 classes=3");
  refused("export", "init=@/net output=@/w model=mlp:8", NULL, RONDE_E_USAGE, "--model can have no effect",
          "only --format onnx");
  refused("export", "model=lenet5 format=onnx output=@/w", NULL, RONDE_E_USAGE, "the weights to export are needed", "");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_same_bits_as_built_in),
      TEST(test_alexnet_is_the_same_to_evaluate),
      TEST(test_same_bits_of_tokens),
      TEST(test_a_text_from_a_file),
      TEST(test_tokens_that_do_not_fit),
      TEST(test_open_dimensions),
      TEST(test_speech),
      TEST(test_fresh_weights),
      TEST(test_a_new_output_layer),
      TEST(test_folded_files),
      TEST(test_data_that_do_not_fit),
      TEST(test_data_in_another_shape),
      TEST(test_series_in_arrays),
      TEST(test_values),
      TEST(test_resume_knows_the_file),
      TEST(test_what_is_trained_goes_out),
      TEST(test_options_of_an_export),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

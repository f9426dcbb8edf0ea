/* Whole jobs on data sets of colour images, through the public API. */
#include "train_testing.h"

#include "lib/folder.h"

#include "data/jpeg_testing.h"

#include "io/safetensors.h"

#include <sys/stat.h>

/* Runs a job whose options hold the test's folder at every %s. */
static json_t *run_job(const char *verb, const char *options) {
  char *text = ronde__format(options, folder, folder, folder);
  json_t *json = job_run(verb, text, NULL);
  free(text);
  return json;
}

static ronde_status try_job(const char *verb, const char *options, const ronde_hooks *hooks) {
  ronde_config *config = config_make(verb, options);
  char *text = NULL;
  ronde_status status = !strcmp(verb, "train")     ? ronde_train(config, hooks, &text)
                        : !strcmp(verb, "eval")    ? ronde_eval(config, hooks, &text)
                        : !strcmp(verb, "predict") ? ronde_predict(config, hooks, &text)
                                                   : ronde_init(config, hooks, &text);
  ronde_config_destroy(config);
  free(text);
  return status;
}

/* ---- CIFAR ------------------------------------------------------------------------------------------------------- */

enum { CIFAR_PIXELS = 3072, N_TEST = 20 };

/* Class k is brighter in one part of one channel than the others. */
static uint8_t cifar_pixel(int64_t image, int64_t p) {
  int64_t k = image % 10, c = p / 1024, row = p / 32 % 32;
  return (uint8_t)((c == k % 3 && row / 8 == k / 3 ? 180 : 60) + test_pixel(image, p) / 8);
}

static void write_cifar(const char *name, int label_bytes, int64_t first, int64_t n) {
  size_t record = (size_t)label_bytes + CIFAR_PIXELS;
  test_bytes b = {calloc((size_t)n, record), (size_t)n * record};
  for (int64_t i = 0; i < n; ++i) {
    uint8_t *at = b.data + (size_t)i * record + label_bytes;
    at[-1] = (uint8_t)((first + i) % 10);
    for (int64_t p = 0; p < CIFAR_PIXELS; ++p) at[p] = cifar_pixel(first + i, p);
  }
  test_write_bytes(folder, name, b);
}

static void write_cifar10(void) {
  for (int i = 1; i <= 5; ++i) {
    char *name = ronde__format("data_batch_%d.bin", i);
    write_cifar(name, 1, 10 * i, 10);
    free(name);
  }
  write_cifar("test_batch.bin", 1, 100, N_TEST);
}

static void write_cifar_npy(void) {
  uint8_t *x = malloc(N_TEST * CIFAR_PIXELS);
  for (int64_t i = 0; i < N_TEST * CIFAR_PIXELS; ++i) x[i] = cifar_pixel(100 + i / CIFAR_PIXELS, i % CIFAR_PIXELS);
  static const char dict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (20, 3, 32, 32), }";
  test_write_bytes(folder, "images.npy", test_npy(dict, x, N_TEST * CIFAR_PIXELS));
  free(x);
}

/* The weights' file says how each channel was normalised. */
static void check_metadata(void) {
  ronde__safetensors *file;
  char *path = ronde__format("%s/w", folder);
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  const char *mean = ronde__safetensors_meta(file, "normalize_mean");
  const char *deviation = ronde__safetensors_meta(file, "normalize_std");
  float m[3], d[3];
  assert_int_equal(sscanf(mean, "%f,%f,%f", &m[0], &m[1], &m[2]), 3);
  assert_int_equal(sscanf(deviation, "%f,%f,%f", &d[0], &d[1], &d[2]), 3);
  assert_true(m[0] == .4914f && m[1] == .4822f && m[2] == .4465f);
  assert_true(d[0] == .2470f && d[1] == .2435f && d[2] == .2616f);
  ronde__safetensors_close(file);
  free(path);
}

static void test_predict_sees_what_eval_sees_of_cifar(void **state) {
  write_cifar10();
  write_cifar_npy();
  static const char train[] = "model=lenet5 data=cifar10:%s batch=10 epochs=20 optimizer=adam lr=0.003 save=%s/w";
  json_t *trained = run_job("train", train);
  assert_int_equal((int)real_at(trained, "data.shape.0"), 3);
  check_metadata();
  json_t *eval = run_job("eval", "init=%s/w data=cifar10:%s");
  json_t *predicted = run_job("predict", "init=%s/w input=%s/images.npy top=10");
  double loss = 0;
  int n_right = 0;
  for (int i = 0; i < N_TEST; ++i)
    for (int k = 0; k < 10; ++k) {
      char class_path[64], path[64];
      snprintf(class_path, sizeof class_path, "examples.%d.classes.%d.class", i, k);
      snprintf(path, sizeof path, "examples.%d.classes.%d.probability", i, k);
      if ((int)real_at(predicted, class_path) != i % 10) continue;
      loss -= log(real_at(predicted, path)) / N_TEST;
      n_right += k == 0;
    }
  assert_int_equal(n_right, (int)lround(real_at(eval, "accuracy") * N_TEST));
  assert_true(n_right > N_TEST / 2);
  assert_true(fabs(loss - real_at(eval, "loss")) < 1e-3 * (1 + loss)); /* probabilities have 6 digits */
  json_decref(trained);
  json_decref(eval);
  json_decref(predicted);
}

/* Without data named, those of the run: of its folder, or of a file in it. Weights elsewhere have none. */
static void test_a_run_is_evaluated_on_its_data(void **state) {
  write_cifar10();
  json_decref(run_job("train", "model=lenet5 data=cifar10:%s batch=10 epochs=1 out=%s/run save=%s/w"));
  json_t *named = run_job("eval", "init=%s/run data=cifar10:%s"), *own = run_job("eval", "init=%s/run"),
         *file = run_job("eval", "init=%s/run/last.safetensors");
  assert_true(real_at(own, "loss") == real_at(named, "loss"));
  assert_true(real_at(file, "examples") == N_TEST);
  assert_string_equal(text_at(named, "data"), text_at(own, "data"));
  assert_non_null(strstr(text_at(own, "data"), "cifar10:"));
  json_decref(named), json_decref(own), json_decref(file);
  char *options = ronde__format("init=%s/w", folder);
  check_failed(&lines, try_job("eval", options, NULL), RONDE_E_USAGE, "--data NAME is needed", "");
  free(options);
}

/* Lists that do not fit the channels are refused. */
static void test_predict_refuses_other_normalisation(void **state) {
  static const char none[] = "are not valid";
  static const char *const bad[][3] = {{".5,.5", ".2,.2", "do not fit images of 3 channels"},
                                       {".5,.5,.5", ".2", none},
                                       {".5", "0", none},
                                       {"x", ".2", none},
                                       {".5,,.5", ".2,.2,.2", none},
                                       {".5,.5,.5,.5", ".2", none}};
  write_cifar_npy();
  json_decref(run_job("init", "model=lenet5 output=%s/fresh"));
  char *path = ronde__format("%s/w", folder), *fresh = ronde__format("%s/fresh", folder);
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(fresh, &file), RONDE_OK);
  for (size_t i = 0; i < RONDE__COUNT(bad); ++i) {
    const ronde__file_meta meta[] = {
        {"model", "lenet5"}, {"shape", "3x32x32"}, {"normalize_mean", bad[i][0]}, {"normalize_std", bad[i][1]}};
    assert_int_equal(ronde__safetensors_write(path, file->tensors, file->n_tensors, meta, 4), RONDE_OK);
    char *options = ronde__format("init=%s input=%s/images.npy", path, folder);
    ronde_config *config = config_make("predict", options);
    check_failed(&lines, ronde_predict(config, NULL, NULL), RONDE_E_INPUT, "/w: ", bad[i][2]);
    ronde_config_destroy(config);
    free(options);
  }
  ronde__safetensors_close(file);
  free(path);
  free(fresh);
}

/* ---- --normalize -------------------------------------------------------------------------------------------------- */

#define SHORT "model=lenet5 data=cifar10:%s batch=10 steps=3 "

static double eval_loss(const char *options) {
  json_t *eval = run_job("eval", options);
  double loss = real_at(eval, "loss");
  json_decref(eval);
  return loss;
}

/* What was applied in training is applied by eval and predict, unasked; something else is, and is said, where the user
 * gives it. */
static void test_normalisation_goes_with_the_weights(void **state) {
  static const struct {
    const char *option, *recorded;
  } cases[] = {{"normalize=auto", "0.4914,0.4822,0.4465;0.247,0.2435,0.2616"},
               {"normalize=on", "0.4914,0.4822,0.4465;0.247,0.2435,0.2616"},
               {"normalize=off", "off"},
               {"normalize=imagenet", "0.485,0.456,0.406;0.229,0.224,0.225"},
               {"normalize=0.25;0.125", "0.25;0.125"},
               {"normalize=0.5,0.25,1;2", "0.5,0.25,1;2,2,2"}};
  write_cifar10();
  write_cifar_npy();
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    char *options = ronde__format(SHORT "%s save=%s/w", folder, cases[i].option, folder);
    json_t *run = job_run("train", options, NULL);
    assert_string_equal(text_at(run, "config.normalize"), cases[i].recorded);
    free(options);
    test_log_start(&lines);
    double loss = eval_loss("init=%s/w data=cifar10:%s");
    assert_float_equal(loss, real_at(run, "result.test_loss"), 1e-5);
    assert_float_equal(eval_loss("init=%s/w data=cifar10:%s normalize=auto"), loss, 0);
    assert_int_equal(lines.n_warnings, 0);
    json_t *same = run_job("predict", "init=%s/w input=%s/images.npy");
    options = ronde__format("init=%s/w input=%s/images.npy normalize=%s", folder, folder, cases[i].recorded);
    json_t *told = job_run("predict", options, NULL);
    assert_true(json_equal(json_at(told, "examples"), json_at(same, "examples")));
    assert_int_equal(lines.n_warnings, 0);
    assert_true(fabs(eval_loss("init=%s/w data=cifar10:%s normalize=3;0.5") - loss) > 1e-6);
    assert_non_null(strstr(lines.warning, "--normalize 3;0.5: the weights were trained with --normalize "));
    assert_non_null(strstr(lines.warning, cases[i].recorded));
    test_log_start(&lines);
    json_decref(run_job("predict", "init=%s/w input=%s/images.npy normalize=3;0.5"));
    assert_int_equal(lines.n_warnings, 1);
    json_decref(same);
    json_decref(told);
    json_decref(run);
    free(options);
  }
}

static int n_followed; /* lines that say whose normalisation is taken */

static void count_followed(void *user, ronde_log_level level, const char *line) {
  n_followed += level == RONDE_LOG_INFO && strstr(line, "/w were: --normalize ") != NULL;
}

/* Training that starts from weights; on: what is usual for its own data. */
static void test_normalisation_is_that_of_init(void **state) {
  static const char *const usual = "0.4914,0.4822,0.4465;0.247,0.2435,0.2616";
  static const struct {
    const char *trained, *option, *recorded;
    int n_followed;
  } cases[] = {{"0.25;0.125", "", "0.25;0.125", 1},
               {"off", "", "off", 1},
               {"0.25;0.125", "normalize=on", NULL, 0},
               {"0.25;0.125", "normalize=3;0.5", "3;0.5", 0}};
  write_cifar10();
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    char *options = ronde__format(SHORT "normalize=%s save=%s/w", folder, cases[i].trained, folder);
    json_decref(job_run("train", options, NULL));
    free(options);
    n_followed = 0;
    ronde_log_set(count_followed, NULL);
    options = ronde__format(SHORT "init=%s/w out=%s/run overwrite=on %s", folder, folder, folder, cases[i].option);
    json_t *run = job_run("train", options, NULL);
    const char *recorded = cases[i].recorded ? cases[i].recorded : usual;
    assert_string_equal(text_at(run, "config.normalize"), recorded);
    assert_int_equal(n_followed, cases[i].n_followed);
    json_t *rest = run_job("train", "resume=%s/run steps=5"); /* without another look at them */
    assert_string_equal(text_at(rest, "config.normalize"), recorded);
    assert_int_equal(n_followed, cases[i].n_followed);
    json_decref(rest);
    json_decref(run);
    free(options);
  }
  test_log_start(&lines);
}

/* What cannot be applied is refused, wherever the data come from. */
static void test_normalisation_that_cannot_be(void **state) {
  static const char *const cases[][3] = {
      {"train", "model=lenet5 data=synthetic:3x32x32:3:9 normalize=on", "--normalize on can have no effect: synthetic"},
      {"train", "model=lenet5 data=synthetic:1x32x32:3:9 normalize=imagenet",
       "given for 3 channels, but the images have 1"},
      {"train", "model=lenet5 data=synthetic:3x32x32:3:9 normalize=1,2;3",
       "given for 2 channels, but the images have 3"}};
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i)
    check_failed(&lines, try_job(cases[i][0], cases[i][1], NULL), RONDE_E_USAGE, cases[i][2], "");
  json_decref(run_job("train", "model=lenet5 data=synthetic:3x32x32:3:9 batch=3 normalize=off"));
  write_cifar_npy();
  json_decref(run_job("init", "model=lenet5 output=%s/fresh"));
  char *on = ronde__format("init=%s/fresh input=%s/images.npy normalize=on", folder, folder);
  check_failed(&lines, try_job("predict", on, NULL), RONDE_E_USAGE, "--normalize on can have no effect", "/fresh");
  char *two = ronde__format("init=%s/fresh input=%s/images.npy normalize=1,2;3", folder, folder);
  check_failed(&lines, try_job("predict", two, NULL), RONDE_E_USAGE, "2 channels do not fit images of 3",
               "--normalize");
  free(on);
  free(two);
}

/* What the user says counts, though it is what would count without him. */
static void test_a_default_may_be_meant(void **state) {
  json_decref(run_job("train", "model=mnist-small data=synthetic:1x28x28:10:20 batch=10 padding=valid save=%s/w"));
  json_decref(run_job("eval", "init=%s/w data=synthetic:1x28x28:10:20"));
  char *same = ronde__format("init=%s/w data=synthetic:1x28x28:10:20 padding=same", folder);
  check_failed(&lines, try_job("eval", same, NULL), RONDE_E_INPUT, "/w: tensor fc1.weight", "but the network's is");
  free(same);
}

/* ---- another size, and chance ---------------------------------------------------------------------------------- */

/* 20x20 images train a network that takes 32x32; the weights' file tells eval and predict to do the same. */
static void test_resize_goes_with_the_weights(void **state) {
  test_write_idx_pair(folder, "train", 40, 20, 20, 4, false);
  test_write_idx_pair(folder, "t10k", 12, 20, 20, 4, false);
  uint8_t x[12 * 400];
  for (int i = 0; i < 12 * 400; ++i) x[i] = test_pixel(i / 400, i % 400);
  test_write_bytes(folder, "images.npy",
                   test_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (12, 20, 20), }", x, sizeof x));
  json_t *run = run_job("train",
                        "model=lenet5 data=mnist:%s resize=32x32 batch=8 epochs=8 optimizer=adam lr=0.003 "
                        "save=%s/w");
  assert_string_equal(text_at(run, "config.resize"), "32x32");
  assert_string_equal(text_at(run, "config.augment"), "off");
  assert_int_equal((int)real_at(run, "data.shape.1"), 32);
  json_t *eval = run_job("eval", "init=%s/w data=mnist:%s");
  assert_true(fabs(real_at(eval, "loss") - real_at(run, "result.test_loss")) < 1e-5);
  json_t *predicted = run_job("predict", "init=%s/w input=%s/images.npy top=1");
  int n_right = 0;
  for (int i = 0; i < 12; ++i) {
    char path[64];
    snprintf(path, sizeof path, "examples.%d.classes.0.class", i);
    n_right += (int)real_at(predicted, path) == i % 4;
  }
  assert_int_equal(n_right, (int)lround(real_at(eval, "accuracy") * 12));
  json_decref(run);
  json_decref(eval);
  json_decref(predicted);
  json_decref(run_job("init", "model=lenet5 data=mnist:%s resize=28x28 output=%s/v"));
}

/* Several workers see the images that one sees; evaluation sees them as they are. */
static void test_augmented_runs_agree(void **state) {
#define RUN "model=lenet5 data=synthetic:3x32x32:10:60 batch=20 epochs=2 seed=5"
#define CROPPED RUN " augment=crop,flip"
  static const char *const options[] = {
      RUN, CROPPED, CROPPED " workers=2", CROPPED " workers=3 shard=whole", RUN " augment=crop", RUN " augment=flip"};
#undef CROPPED
#undef RUN
  double loss[RONDE__COUNT(options)];
  for (size_t i = 0; i < RONDE__COUNT(options); ++i) {
    json_t *run = job_run("train", options[i], NULL);
    loss[i] = real_at(run, "result.train_loss");
    if (i == 1) assert_string_equal(text_at(run, "config.augment"), "crop,flip");
    json_decref(run);
  }
  for (int i = 2; i < 4; ++i) assert_true(fabs(loss[i] - loss[1]) < 1e-5);
  assert_true(fabs(loss[0] - loss[1]) > 1e-6 && fabs(loss[4] - loss[1]) > 1e-6 && fabs(loss[5] - loss[1]) > 1e-6);
}

/* ---- folders of images ----------------------------------------------------------------------------------------- */

enum { TREE_CLASSES = 3, TREE_TRAIN = 12, TREE_TEST = 4 };

/* Class k is brighter in a third of its rows; each image has a size of its own. */
static void write_picture(const char *split, int64_t k, int64_t i) {
  static uint8_t pixels[64 * 64 * 3];
  int64_t h = 20 + i * 3 % 17, w = 24 + i * 5 % 13;
  for (int64_t p = 0; p < h * w; ++p)
    for (int c = 0; c < 3; ++c)
      pixels[3 * p + c] = (uint8_t)((p / w * 3 / h == k ? 190 : 50) + test_pixel(k * 40 + i, 3 * p + c) / 10);
#ifdef RONDE_HAVE_JPEG
  bool jpeg = i % 2;
  test_bytes file = jpeg ? test_jpeg(h, w, 3, i % 4 == 3, pixels) : test_png(h, w, 3, 8, pixels);
#else
  bool jpeg = false;
  test_bytes file = test_png(h, w, 3, 8, pixels);
#endif
  char *path = ronde__format("%s/tree/%s/class%d", folder, split, (int)k), name[32];
  snprintf(name, sizeof name, "%02d.%s", (int)i, jpeg ? "jpg" : "png");
  test_write_bytes(path, name, file);
  free(path);
}

static void make_below(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0700), 0);
  free(path);
}

static void write_tree(void) {
  static const char *const splits[] = {"tree/train", "tree/test"};
  make_below("tree");
  for (int split = 0; split < 2; ++split) {
    make_below(splits[split]);
    for (int64_t k = 0; k < TREE_CLASSES; ++k) {
      char name[64];
      snprintf(name, sizeof name, "%s/class%d", splits[split], (int)k);
      make_below(name);
      int64_t n = split ? TREE_TEST : TREE_TRAIN;
      for (int64_t i = 0; i < n; ++i) write_picture(splits[split] + 5, k, i + 20 * split);
    }
  }
}

#define TREE_RUN "model=lenet5 data=folder:%s/tree resize=32x32 batch=6 optimizer=adam lr=0.003"

/* A tree of images trains; a broken one ends it before the first step, or is left out and counted. */
static void test_a_tree_of_images_trains(void **state) {
  if (!ronde__image_supported()) skip();
  write_tree();
  json_t *run = run_job("train", TREE_RUN " epochs=12 augment=flip normalize=0.3;0.5 save=%s/w");
  assert_string_equal(text_at(run, "data.name"), "folder");
  assert_int_equal((int)real_at(run, "data.train_examples"), TREE_CLASSES * TREE_TRAIN);
  assert_int_equal((int)real_at(run, "data.test_examples"), TREE_CLASSES * TREE_TEST);
  assert_int_equal((int)real_at(run, "data.classes"), TREE_CLASSES);
  assert_int_equal((int)real_at(run, "data.skipped_images"), 0);
  assert_true(real_at(run, "result.test_accuracy") > .6);
  assert_string_equal(text_at(run, "config.normalize"), "0.3;0.5");
  json_t *eval = run_job("eval", "init=%s/w data=folder:%s/tree");
  assert_true(fabs(real_at(eval, "loss") - real_at(run, "result.test_loss")) < 1e-5);
  json_decref(eval);
  int n_right = 0;
  for (int i = 0; i < TREE_CLASSES * TREE_TEST; ++i) {
    int k = i % TREE_CLASSES, number = 20 + i / TREE_CLASSES;
    char *name = ronde__format("init=%%s/w input=%%s/tree/test/class%d/%d.%s", k, number, "png");
    if (i / TREE_CLASSES % 2 && ronde__jpeg_supported()) memcpy(name + strlen(name) - 3, "jpg", 3);
    json_t *predicted = run_job("predict", name);
    int best = (int)real_at(predicted, "examples.0.classes.0.class");
    n_right += best == i % TREE_CLASSES;
    char called[16];
    snprintf(called, sizeof called, "class%d", best);
    assert_string_equal(text_at(predicted, "examples.0.classes.0.name"), called);
    json_decref(predicted);
    free(name);
  }
  long wanted = lround(real_at(run, "result.test_accuracy") * TREE_CLASSES * TREE_TEST);
  assert_in_range(n_right, wanted - 1, wanted + 1); /* eval's images were rounded to 8 bits */
  json_decref(run);
}

static void test_a_broken_image_is_named_or_skipped(void **state) {
  if (!ronde__image_supported()) skip();
  write_tree();
  test_write(folder, "tree/train/class1/00.png", "\x89PNG\r\n\x1a\n", 8);
  char *options = ronde__format(TREE_RUN " out=%s/run", folder, folder);
  check_failed(&lines, try_job("train", options, NULL), RONDE_E_INPUT, "/tree/train/class1/00.png: ", "PNG");
  assert_false(file_exists(folder, "run")); /* no step was made */
  free(options);
  json_t *run = run_job("train", TREE_RUN " skip-bad-images=on");
  assert_int_equal((int)real_at(run, "data.train_examples"), TREE_CLASSES * TREE_TRAIN - 1);
  assert_int_equal((int)real_at(run, "data.skipped_images"), 1);
  assert_non_null(strstr(lines.warning, "1 images that cannot be read are left out"));
  json_decref(run);
  test_log_start(&lines);
  static const char other[] = "model=lenet5 data=synthetic:3x32x32:3:9 skip-bad-images=on";
  check_failed(&lines, try_job("eval", other, NULL), RONDE_E_USAGE, "--skip-bad-images can have no effect",
               "only folder:DIR");
}

static void test_sizes_and_chance_that_cannot_be(void **state) {
  static const struct {
    const char *verb, *options, *words;
    bool own_source;
  } cases[] = {
      {"train", "model=lenet5 data=synthetic:3x20x20:10:60 resize=32", "--resize 32: expected HxW", false},
      {"train", "model=lenet5 data=synthetic:3x20x20:10:60 resize=0x32", "--resize 0x32: expected HxW", false},
      {"train", "model=lenet5 data=synthetic:3x20x20:10:60 resize=32x32x3", "expected HxW", false},
      {"train", "model=lenet5 data=synthetic:3x20x20:10:60 resize=99999x32", "expected HxW", false},
      {"init", "model=lenet5 resize=32x32 output=/tmp/never", "--resize can have no effect", false},
      {"train", "batch=4 resize=32x32", "--resize can have no effect", true},
      {"train", "batch=4 augment=flip", "--augment can have no effect", true},
      {"train", "model=mnist-small data=synthetic:3x3x3:10:60 augment=crop", "too small", false},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    ronde_source source = small_source(16, 4);
    ronde_hooks hooks = {.model = small_model, .source = &source};
    check_failed(&lines, try_job(cases[i].verb, cases[i].options, cases[i].own_source ? &hooks : NULL), RONDE_E_USAGE,
                 cases[i].words, "");
  }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_cache, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_predict_sees_what_eval_sees_of_cifar),
      TEST(test_a_run_is_evaluated_on_its_data),
      TEST(test_predict_refuses_other_normalisation),
      TEST(test_normalisation_goes_with_the_weights),
      TEST(test_normalisation_is_that_of_init),
      TEST(test_normalisation_that_cannot_be),
      TEST(test_a_default_may_be_meant),
      TEST(test_resize_goes_with_the_weights),
      TEST(test_augmented_runs_agree),
      TEST(test_a_tree_of_images_trains),
      TEST(test_a_broken_image_is_named_or_skipped),
      TEST(test_sizes_and_chance_that_cannot_be),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

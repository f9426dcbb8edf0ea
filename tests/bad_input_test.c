/* The built program on what goes wrong: bad files, impossible options, full disks, signals. Each run ends with the
 * exit code of its kind and one line that says where and why, and leaves nothing half-written. */
#include "bad_testing.h"

#include <errno.h>
#include <sys/mount.h>

#include "io/safetensors.h"

/* ---- IDX --------------------------------------------------------------------------------------------------------- */

enum { SIDE = 28, PIXELS = SIDE * SIDE, N = 40 };

/* A good set whose train images, or labels, the test then replaces. */
static char *idx_folder(const char *name) {
  char *path = set_folder(name);
  test_write_idx_pair(path, "train", N, SIDE, SIDE, 10, false);
  test_write_idx_pair(path, "t10k", 10, SIDE, SIDE, 10, false);
  return path;
}

static test_bytes images_idx(uint32_t claimed) {
  uint8_t x[N * PIXELS];
  for (int i = 0; i < N * PIXELS; ++i) x[i] = test_pixel(i / PIXELS, i % PIXELS);
  return test_idx(3, (uint32_t[]){claimed, SIDE, SIDE}, x, sizeof x);
}

static void idx_images(const char *name, test_bytes file) {
  char *path = idx_folder(name);
  test_write_bytes(path, "train-images-idx3-ubyte", file);
  free(path);
}

static void idx_labels(const char *name, int n, int bad_label) {
  char *path = idx_folder(name);
  uint8_t y[N] = {0};
  y[7] = (uint8_t)bad_label;
  test_write_bytes(path, "train-labels-idx1-ubyte", test_idx(1, (uint32_t[]){(uint32_t)n}, y, (size_t)n));
  free(path);
}

/* keep: bytes of the packed file; the byte `flip` from its end is changed. */
static void idx_gz(const char *name, double keep, int flip) {
  char *path = set_folder(name), *plain;
  test_write_idx_pair(path, "train", N, SIDE, SIDE, 10, false);
  plain = ronde__format("%s/train-images-idx3-ubyte", path);
  assert_int_equal(unlink(plain), 0);
  test_bytes whole = images_idx(N), packed = test_gzip(whole.data, whole.n);
  packed.n = (size_t)((double)packed.n * keep);
  if (flip) packed.data[packed.n - (size_t)flip] ^= 0x55;
  test_write_bytes(path, "train-images-idx3-ubyte.gz", packed);
  free(whole.data);
  free(plain);
  free(path);
}

static void write_idx_files(void) {
  idx_images("claims", images_idx(1000));
  idx_images("huge", images_idx(0x80000000u));
  idx_images("longer", images_idx(N - 1));
  test_bytes file = images_idx(N);
  file.data[2] = 0x0d; /* of floats */
  idx_images("floats", file);
  file = images_idx(N);
  file.n = 9;
  idx_images("headless", file);
  idx_labels("label12", N, 12);
  idx_labels("label-count", N - 1, 0);
  idx_gz("gz-cut", 0.5, 0);
  idx_gz("gz-checksum", 1, 6);
  idx_gz("gz-garbage", 1, 200);
  char *path = idx_folder("no-labels"), *labels = ronde__format("%s/train-labels-idx1-ubyte", path);
  assert_int_equal(unlink(labels), 0);
  free(labels);
  free(path);
  free(idx_folder("good"));
}

#define TRAIN "train --model lenet5 --batch 10 --out run --save " OLD " "
#define IMAGES "train-images-idx3-ubyte"

static void test_idx_files(void **state) {
  static const bad cases[] = {
      {TRAIN "--data mnist:claims", 3, "claims/" IMAGES, "1000"},
      {TRAIN "--data mnist:huge", 3, "huge/" IMAGES, "2147483648"},
      {TRAIN "--data mnist:longer", 3, "longer/" IMAGES, ""},
      {TRAIN "--data mnist:floats", 3, "floats/" IMAGES, ""},
      {TRAIN "--data mnist:headless", 3, "headless/" IMAGES, ""},
      {TRAIN "--data mnist:label12", 3, "label12/train-labels-idx1-ubyte: offset 15", "label 12 of example 7"},
      {TRAIN "--data mnist:good --classes 5", 3, "good/train-labels-idx1-ubyte: offset 13", "label 5 of example 5"},
      {TRAIN "--data mnist:label-count", 3, "label-count/train-labels", "39"},
      {TRAIN "--data mnist:gz-cut", 3, "gz-cut/" IMAGES ".gz", ""},
      {TRAIN "--data mnist:gz-checksum", 3, "gz-checksum/" IMAGES ".gz", ""},
      {TRAIN "--data mnist:gz-garbage", 3, "gz-garbage/" IMAGES ".gz", ""},
      {TRAIN "--data mnist:no-labels", 3, "no-labels/train-labels", "not found"},
      {TRAIN "--data mnist:nowhere", 3, "nowhere/" IMAGES, "not found"},
      {TRAIN "--data mnist:gz-cut --cache off --workers 2", 3, "gz-cut/" IMAGES ".gz", ""},
      {TRAIN "--data mnist:label12 --cache off --workers 2", 3, "label12/train-labels", "label 12"},
      {"eval weights --data mnist:gz-cut", 3, "gz-cut/" IMAGES ".gz", ""},
  };
  check_all(cases, RONDE__COUNT(cases));
}

/* ---- npy --------------------------------------------------------------------------------------------------------- */

static void write_npy_set(const char *name, const char *x_dict, const void *x, size_t x_bytes, const char *y_dict,
                          const void *y, size_t y_bytes) {
  char *path = set_folder(name);
  test_write_bytes(path, "train_x.npy", test_npy(x_dict, x, x_bytes));
  test_write_bytes(path, "train_y.npy", test_npy(y_dict, y, y_bytes));
  free(path);
}

#define X_GOOD "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1, 28, 28), }"
#define Y_GOOD "{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }"

static void write_npy_files(void) {
  static float x[4 * PIXELS], with_nan[4 * PIXELS];
  static double doubles[4 * PIXELS];
  int64_t y[4] = {0, 1, 2, 3}, negative[4] = {0, 1, -2, 3};
  float real_labels[4] = {0, 1, 2, 3};
  with_nan[PIXELS + 5] = NAN;
  const char *f64 = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 1, 28, 28), }";
  const char *f16 = "{'descr': '<f2', 'fortran_order': False, 'shape': (4, 1, 28, 28), }";
  const char *f64_nhwc = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 28, 28, 1), }";
  const char *one_hot = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3), }";
  const char *one_hot_integers = "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 2), }";
  const char *column = "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 1), }";
  float rows[12] = {[0] = 1, [4] = 1, [8] = 1, [11] = 1}, other_rows[12] = {[0] = 1, [4] = 1, [8] = 1, [11] = 0.5f};
  int64_t integer_rows[8] = {1, 0, 0, 1, 1, 0, 0, 1};
  const char *flat = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 784), }";
  const char *fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (4, 1, 28, 28), }";
  const char *many = "{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 1, 28, 28), }";
  const char *three = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
  const char *f4_labels = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
  write_npy_set("npy-good", X_GOOD, x, sizeof x, Y_GOOD, y, sizeof y);
  write_npy_set("npy-f64", f64, doubles, sizeof doubles, Y_GOOD, y, sizeof y);
  write_npy_set("npy-f64-nhwc", f64_nhwc, doubles, sizeof doubles, Y_GOOD, y, sizeof y);
  write_npy_set("npy-f16", f16, x, sizeof x / 2, Y_GOOD, y, sizeof y);
  write_npy_set("npy-one-hot", X_GOOD, x, sizeof x, one_hot, rows, sizeof rows);
  write_npy_set("npy-shares", X_GOOD, x, sizeof x, one_hot, other_rows, sizeof other_rows);
  write_npy_set("npy-one-hot-integers", X_GOOD, x, sizeof x, one_hot_integers, integer_rows, sizeof integer_rows);
  write_npy_set("npy-column", X_GOOD, x, sizeof x, column, y, sizeof y);
  write_npy_set("npy-flat", flat, x, sizeof x, Y_GOOD, y, sizeof y);
  write_npy_set("npy-fortran", fortran, x, sizeof x, Y_GOOD, y, sizeof y);
  write_npy_set("npy-many", many, x, sizeof x, Y_GOOD, y, sizeof y);
  write_npy_set("npy-cut", X_GOOD, x, sizeof x - 4, Y_GOOD, y, sizeof y);
  write_npy_set("npy-nan", X_GOOD, with_nan, sizeof with_nan, Y_GOOD, y, sizeof y);
  write_npy_set("npy-three", X_GOOD, x, sizeof x, three, y, 24);
  write_npy_set("npy-real-labels", X_GOOD, x, sizeof x, f4_labels, real_labels, sizeof real_labels);
  write_npy_set("npy-negative", X_GOOD, x, sizeof x, Y_GOOD, negative, sizeof negative);
  const char *nhwc = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 28, 28, 1), }";
  write_npy_set("npy-nhwc", nhwc, x, sizeof x, Y_GOOD, y, sizeof y);
  write_npy_set("npy-wordless", "{'descr': '<f4', }", x, sizeof x, Y_GOOD, y, sizeof y);
}

#define TRAIN_NPY "train --model lenet5 --batch 2 --out run --save " OLD " --data npy:"

static void test_npy_files(void **state) {
  static const bad cases[] = {
      {TRAIN_NPY "npy-f16", 3, "npy-f16/train_x.npy", "float16; float32, float64 or uint8 is needed"},
      {TRAIN_NPY "npy-one-hot", 3, "the 3 targets of each example are one 1 and zeros", "numpy.argmax(y, 1)"},
      {TRAIN_NPY "npy-one-hot-integers", 3, "npy-one-hot-integers/train_y.npy", "numpy.argmax(y, 1)"},
      {TRAIN_NPY "npy-flat", 2, "lenet5 takes images", "--model mlp"},
      {TRAIN_NPY "npy-fortran", 3, "npy-fortran/train_x.npy", "ortran"},
      {TRAIN_NPY "npy-many", 3, "npy-many/train_x.npy", ""},
      {TRAIN_NPY "npy-cut", 3, "npy-cut/train_x.npy", ""},
      {TRAIN_NPY "npy-nan", 3, "npy-nan/train_x.npy: offset", "NaN"},
      {TRAIN_NPY "npy-three", 3, "npy-three/train_y.npy", "3"},
      {TRAIN_NPY "npy-real-labels --label-smoothing 0.1", 2, "--label-smoothing", "cross entropy"},
      {TRAIN_NPY "npy-negative", 3, "npy-negative/train_y.npy: offset", "-2"},
      {TRAIN_NPY "npy-wordless", 3, "npy-wordless/train_x.npy", ""},
      {TRAIN_NPY "npy-nhwc", 3, "npy-nhwc/train_x.npy: offset 10: (4, 28, 28, 1) looks like (N, H, W, C)",
       "--layout nhwc"},
      {"predict weights npy-nhwc/train_x.npy", 3, "npy-nhwc/train_x.npy", "--layout nhwc"},
      {"init --model lenet5 -o fresh --data npy:npy-nhwc", 3, "npy-nhwc/train_x.npy", "--layout nhwc"},
      {"data info npy:npy-nhwc", 3, "npy-nhwc/train_x.npy", "--layout nhwc"},
      {"eval weights --data npy:npy-nhwc", 3, "npy-nhwc/train_x.npy", "--layout nhwc"},
      {TRAIN_NPY "npy-nhwc --layout nchw", 2, "lenet5", "28x1"},
      {"train --model lenet5 --data synthetic:1x28x28:10:40 --layout nhwc", 2, "--layout can have no effect", "npy"},
      {"predict weights some.png --layout nhwc", 2, "--layout can have no effect", "npy"},
      {"init --model lenet5 --shape 1x28x28 -o fresh --layout nhwc", 2, "--layout can have no effect", "--data"},
      {TRAIN_NPY "npy-nan --cache off", 3, "npy-nan/train_x.npy: offset", "NaN"},
      {TRAIN_NPY "nowhere", 3, "nowhere/train_x.npy", "not found"},
  };
  static const char *const good[] = {"train --model lenet5 --batch 2 --data npy:npy-nhwc --layout nhwc",
                                     "data info npy:npy-nhwc --layout nhwc",
                                     "train --model lenet5 --batch 2 --data npy:npy-f64",
                                     "train --model lenet5 --batch 2 --data npy:npy-f64-nhwc --layout nhwc",
                                     "predict weights npy-f64/train_x.npy",
                                     "train --model lenet5 --batch 2 --data npy:npy-column",
                                     "train --model lenet5 --batch 2 --data npy:npy-shares",
                                     "train --model lenet5 --batch 2 --data npy:npy-one-hot --loss mse",
                                     "train --model lenet5 --batch 2 --data npy:npy-one-hot --loss bce",
                                     "predict weights npy-nhwc/train_x.npy --layout nhwc",
                                     "train --model lenet5 --batch 2 --data npy:npy-nhwc --layout nhwc --cache off"};
  for (size_t i = 0; i < RONDE__COUNT(good); ++i) assert_int_equal(finish(start(good[i], NULL), good[i]), 0);
  check_all(cases, RONDE__COUNT(cases)); /* also where a cache holds the set as --layout nhwc reads it */
}

/* ---- safetensors ------------------------------------------------------------------------------------------------- */

static void write_raw(const char *name, uint64_t header_bytes, const char *header, size_t data_bytes) {
  test_bytes file = test_bytes_make(&header_bytes, 8);
  file = test_bytes_join(file, test_bytes_make(header, strlen(header)));
  uint8_t *zeros = calloc(data_bytes + 1, 1);
  test_write_bytes(folder, name, test_bytes_join(file, test_bytes_make(zeros, data_bytes)));
  free(zeros);
}

typedef enum change { MISSING, EXTRA, RESHAPED, WITH_NAN } change;

/* The good weights with the tensor fc2.bias changed, or one more. */
static void write_changed(const char *name, change change) {
  char *good = ronde__format("%s/weights", folder), *path = ronde__format("%s/%s", folder, name);
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(good, &file), RONDE_OK);
  ronde__file_tensor tensors[16];
  float values[84] = {0}, one = 1;
  int n = 0;
  for (int i = 0; i < file->n_tensors; ++i) {
    tensors[n] = file->tensors[i];
    if (!strcmp(tensors[n].name, "fc2.bias")) {
      if (change == MISSING) continue;
      if (change == RESHAPED) tensors[n].shape = (ronde__shape){2, {1, 84}};
      if (change == WITH_NAN) values[3] = NAN, tensors[n].data = values;
    }
    ++n;
  }
  if (change == EXTRA) tensors[n++] = (ronde__file_tensor){"fc9.bias", RONDE__FILE_F32, {1, {1}}, &one};
  assert_int_equal(ronde__safetensors_write(path, tensors, n, file->meta, file->n_meta), RONDE_OK);
  ronde__safetensors_close(file);
  free(good);
  free(path);
}

static void write_weights(void) {
  char *options = ronde__format("model=lenet5 shape=1x28x28 classes=10 output=%s/weights", folder);
  json_decref(job_run("init", options, NULL));
  free(options);
  write_changed("missing", MISSING);
  write_changed("extra", EXTRA);
  write_changed("reshaped", RESHAPED);
  write_changed("with-nan", WITH_NAN);
  static const char overlap[] =
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}";
  static const char huge[] =
      "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],"
      "\"data_offsets\":[0,18446744073709551615]}}";
  write_raw("overlap", sizeof overlap - 1, overlap, 12);
  write_raw("huge-offsets", sizeof huge - 1, huge, 8);
  write_raw("huge-header", UINT64_MAX, "{}", 0);
  write_raw("no-json", 5, "hello", 0);
  char *cut = ronde__format("%s/cut", folder), *good = ronde__format("%s/weights", folder);
  char *command = ronde__format("cp '%s' '%s' && truncate -s -4 '%s'", good, cut, cut);
  assert_int_equal(system(command), 0);
  free(command);
  free(cut);
  free(good);
}

#define SET "--data synthetic:1x28x28:10:40 "

static void test_weights(void **state) {
  static const bad cases[] = {
      {TRAIN SET "--init missing", 3, "missing: tensor fc2.bias", "missing"},
      {TRAIN SET "--init extra", 3, "extra: tensor fc9.bias", "not in the network"},
      {TRAIN SET "--init reshaped", 3, "reshaped: tensor fc2.bias", "84"},
      {TRAIN SET "--init with-nan", 3, "with-nan: ", "fc2.bias"},
      {TRAIN SET "--init overlap", 3, "overlap: ", ""},
      {TRAIN SET "--init huge-offsets", 3, "huge-offsets: ", ""},
      {TRAIN SET "--init huge-header", 3, "huge-header: ", ""},
      {TRAIN SET "--init no-json", 3, "no-json: ", ""},
      {TRAIN SET "--init cut", 3, "cut: ", ""},
      {TRAIN SET "--init nowhere", 3, "nowhere: ", "No such file"},
      {TRAIN SET "--init missing --workers 3", 3, "missing: tensor fc2.bias", "missing"},
      {TRAIN "--data synthetic:1x28x28:12:40 --init weights", 3, "weights: its output layer fc3 has 10 classes",
       "--classes 12"},
      {TRAIN "--data synthetic:3x28x28:10:40 --init weights", 3, "weights: tensor conv1.weight", "6x1x5x5"},
      {"train --model mnist-small --batch 10 " SET "--init weights", 3, "weights: tensor ", ""},
      {"eval extra " SET, 3, "extra: tensor fc9.bias", ""},
      {"eval with-nan " SET "--workers 2", 3, "with-nan: ", "fc2.bias"},
      {"eval nowhere " SET, 3, "nowhere: ", ""},
      {"predict cut image.npy", 3, "cut: ", ""},
  };
  check_all(cases, RONDE__COUNT(cases));
}

static void test_inputs_of_predict(void **state) {
  static const float image[400], pair[2] = {0, NAN};
  test_write(folder, "bad.png", "\x89PNG\r\n\x1a\nand then nothing", 24);
  test_write_bytes(folder, "small.npy",
                   test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 20, 20), }", image, 1600));
  test_write_bytes(folder, "pair.npy", test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", pair, 8));
  static const bad cases[] = {
      {"predict weights nowhere.npy", 3, "nowhere.npy", ""},
      {"predict weights nowhere.png", 3, "nowhere.png", ""},
      {"predict weights pair.npy", 3, "pair.npy", ""},
      {"predict weights small.npy", 2, "lenet5 takes images of 32x32", "20x20: give --resize 32x32"},
      {"predict weights small.npy --model mnist-small", 3, "weights: tensor", ""},
  };
  check_all(cases, RONDE__COUNT(cases));
  if (ronde__image_supported()) check_run("predict weights bad.png", 3, "bad.png", "");
  else check_run("predict weights bad.png", 2, "bad.png", "libpng");
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void test_options(void **state) {
  static const bad cases[] = {
      {TRAIN SET "--bach 3", 2, "unknown option --bach", "--batch"},
      {TRAIN SET "--batch 50", 2, "batch 50 is larger than the data", "40 training examples"},
      {TRAIN SET "--val-split 0.8", 2, "batch 10 is larger than the data", "8 training examples"},
      {TRAIN "--data synthetic:1x20x20:10:40", 2, "lenet5", "20x20"},
      {"train --model mnist-large --padding valid --data synthetic:1x8x8:10:40 --batch 10", 2, "window", "1x1"},
      {TRAIN SET "--optimizer adam --momentum 0.9", 2, "--momentum can have no effect", "sgd"},
      {TRAIN SET "--wire bf16", 2, "--wire can have no effect", "one worker"},
      {TRAIN SET "--wire bf16 --workers 2 --collective tree", 2, "--wire bf16 needs the ring collective", "tree"},
      {TRAIN SET "--betas 0.5,0.5", 2, "--betas can have no effect", "adam"},
      {TRAIN SET "--eps 0.1", 2, "--eps can have no effect", "sgd"},
      {TRAIN SET "--nesterov", 2, "--nesterov needs", "--momentum"},
      {TRAIN SET "--lr-gamma 0.3", 2, "--lr-gamma can have no effect", "step"},
      {TRAIN SET "--lr-step 3 --lr-schedule cosine", 2, "--lr-step can have no effect", "step"},
      {TRAIN SET "--padding valid", 2, "--padding can have no effect", "mnist-small"},
      {TRAIN SET "--dropout 0.5", 2, "--dropout can have no effect", "lenet5"},
      {TRAIN SET "--overlap off --bucket-mb 2", 2, "--bucket-mb can have no effect", "one worker"},
      {TRAIN SET "--shard whole", 2, "--shard can have no effect", "several workers"},
      {TRAIN SET "--local-batch 4", 2, "--batch and --local-batch", ""},
      {TRAIN SET "--batch 128 --local-batch 4", 2, "--batch and --local-batch", ""},
      {TRAIN SET "--workers 2 --strategy single", 2, "--strategy single", "2"},
      {TRAIN SET "--workers 2 --transport self", 2, "--transport self", "2"},
      {TRAIN SET "--drill slow:1:5", 2, "--drill slow:1:5", "rank 1"},
      {TRAIN SET "--drill later", 2, "--drill later", ""},
      {TRAIN SET "--dry-run", 2, "--dry-run", "--out"},
      {"train --model lenet5 --batch 10 --trace " SET, 2, "--trace can have no effect", "--out"},
      {"train --data synthetic:1x28x28:10:40", 2, "--model", ""},
      {"train --model lenet5", 2, "--data", ""},
      {"train --model lenet6 " SET, 2, "--model lenet6", ""},
      {"train --model lenet5 --data nosuch", 2, "nosuch", ""},
      {"train --model lenet5 --data synthetic:1x28:10:40", 2, "synthetic:1x28:10:40", "CxHxW"},
      {"train --model lenet5 --data npy", 2, "npy:DIR", ""},
      {"init --model lenet5 --shape 28x28 -o fresh", 2, "--shape 28x28", "CxHxW"},
      {"init --model lenet5", 2, "--output", ""},
  };
  check_all(cases, RONDE__COUNT(cases));
  setenv("RONDE_BUCKET_MB", "2", 1);
  check_run(TRAIN SET, 2, "RONDE_BUCKET_MB can have no effect", "one worker");
  unsetenv("RONDE_BUCKET_MB");
}

static void test_broken_numbers(void **state) {
  static const char common[] = "train --model mnist-small --batch 10 --out run --lr 1e9 --epochs 3 --save " OLD " " SET;
  check_run(common, 5, "step ", "rank");
  char words[512];
  snprintf(words, sizeof words, "%s--workers 3 --overwrite", common);
  check_run(words, 5, "step ", "rank");
  json_t *run = json_file(folder, "run/run.json");
  assert_string_equal(text_at(run, "status"), "failed");
  json_decref(run);
}

/* ---- outputs ----------------------------------------------------------------------------------------------------- */

static void test_outputs_that_cannot_be_written(void **state) {
  test_write(folder, "a-file", "x", 1);
  static const bad cases[] = {
      {"train --model lenet5 --batch 10 " SET "--save nowhere/w", 6, "nowhere/w", "No such file"},
      {"train --model lenet5 --batch 10 " SET "--save a-file/w", 6, "a-file/w", "Not a directory"},
      {"train --model lenet5 --batch 10 " SET "--save good", 6, "good", "folder"},
      {"train --model lenet5 --batch 10 " SET "--out a-file", 6, "a-file", ""},
      {"train --model lenet5 --batch 10 " SET "--out a-file/run --workers 2", 6, "a-file", ""},
      {"train --model lenet5 --batch 10 " SET "--out /proc/run", 6, "/proc/run", ""},
      {"init --model lenet5 -o nowhere/w", 6, "nowhere/w", "No such file"},
  };
  check_all(cases, RONDE__COUNT(cases));
}

static void test_results_that_cannot_be_printed(void **state) {
  static const char *const words[] = {"train --model lenet5 --batch 10 --json " SET, "eval weights " SET,
                                      "models --json"};
  for (size_t i = 0; i < RONDE__COUNT(words); ++i) {
    assert_int_equal(finish(start(words[i], "/dev/full"), words[i]), 6);
    check_error_line(words[i], "standard output", "No space left");
    assert_int_equal(finish(start(words[i], ""), words[i]), 6);
    check_error_line(words[i], "standard output", "");
  }
  /* Where nothing is printed there, nobody misses it. */
  assert_int_equal(finish(start("train --model lenet5 --batch 10 " SET, ""), "train"), 0);
}

static void test_a_full_disk(void **state) {
  char *disk = set_folder("disk");
  if (mount("tmpfs", disk, "tmpfs", 0, "size=64k")) {
    print_message("skipped: no tmpfs can be mounted here: %s\n", strerror(errno));
    free(disk);
    skip();
  }
  test_write(disk, "w", "older", 5);
  static const bad cases[] = {
      {"init --model lenet5 -o disk/w", 6, "disk/w", "No space left"},
      {"train --model lenet5 --batch 10 " SET "--save disk/w", 6, "disk/w", "No space left"},
      {"train --model lenet5 --batch 10 " SET "--save disk/w --out run --overwrite --workers 2", 6, "disk/w",
       "No space left"},
      {"train --model lenet5 --batch 10 " SET "--out disk/run --trace --epochs 40", 6, "disk/run", "No space left"},
  };
  check_all(cases, RONDE__COUNT(cases));
  char *old = read_text("disk/w");
  assert_string_equal(old, "older");
  free(old);
  /* A cache that does not fit is no reason to stop. */
  setenv("RONDE_CACHE_DIR", disk, 1);
  assert_int_equal(finish(start("train --model lenet5 --batch 10 --data synthetic:1x28x28:10:200", NULL), "train"), 0);
  char *cache = ronde__format("%s/cache", folder);
  setenv("RONDE_CACHE_DIR", cache, 1);
  free(cache);
  check_nothing_half_written("train with a full cache");
  assert_int_equal(umount(disk), 0);
  free(disk);
}

/* ---- signals ----------------------------------------------------------------------------------------------------- */

/* Until stderr holds the text, or the folder the file. */
static void await(pid_t child, const char *text, const char *file) {
  for (uint64_t limit = ronde__now_ns() + TIME_LIMIT_NS; ronde__now_ns() < limit; pause_ms(5)) {
    char *err = text ? read_text("err") : NULL;
    bool found = text ? err && strstr(err, text) : file_exists(folder, file);
    free(err);
    if (found) return;
  }
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  fail_msg("waited for %s in vain", text ? text : file);
}

static void remove_run(void) {
  char *command = ronde__format("rm -rf '%s/run' '%s/w'", folder, folder);
  assert_int_equal(system(command), 0);
  free(command);
}

static void check_signal(const char *words, int number) {
  remove_run();
  pid_t child = start(words, NULL);
  await(child, "step 3/", NULL);
  assert_int_equal(kill(child, number), 0);
  assert_int_equal(finish(child, words), 128 + number);
  check_error_line(words, "interrupted", "");
  check_nothing_half_written(words);
  json_t *run = json_file(folder, "run/run.json"), *steps;
  char *run_folder = ronde__format("%s/run", folder);
  steps = steps_file(run_folder);
  assert_string_equal(text_at(run, "status"), "interrupted");
  assert_int_equal((int)real_at(run, "totals.steps"), json_array_size(steps));
  assert_int_equal(finish(start("eval w " SET, NULL), "eval"), 0);
  free(run_folder);
  json_decref(run);
  json_decref(steps);
}

static void test_signals_end_a_run(void **state) {
  static const char one[] = "train --model lenet5 --batch 10 --epochs 1000000 --log-every 1 --out run --save w " SET;
  char many[256];
  snprintf(many, sizeof many, "%s--workers 3", one);
  check_signal(one, SIGINT);
  check_signal(one, SIGTERM);
  check_signal(many, SIGINT);
  check_signal(many, SIGTERM);
}

/* In a step that takes a minute: the first signal waits for its end, the second does not. */
static void test_a_second_signal_ends_at_once(void **state) {
  static const char words[] = "train --model lenet5 --batch 10 --drill slow:0:60000 --out run --save w " SET;
  uint64_t begin = ronde__now_ns();
  remove_run();
  pid_t child = start(words, NULL);
  await(child, NULL, "run/steps.jsonl");
  kill(child, SIGINT);
  pause_ms(300);
  assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
  kill(child, SIGINT);
  assert_int_equal(finish(child, words), 130);
  assert_true(ronde__now_ns() - begin < 50000000000u);
  assert_false(file_exists(folder, "run/run.json"));
  assert_false(file_exists(folder, "w"));
  check_nothing_half_written(words);
}

static int make_files(void **state) {
  start_folder();
  write_idx_files();
  write_npy_files();
  write_weights();
  return 0;
}

static int remove_files(void **state) {
  test_folder_destroy(folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_idx_files),
      cmocka_unit_test(test_npy_files),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_inputs_of_predict),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_broken_numbers),
      cmocka_unit_test(test_outputs_that_cannot_be_written),
      cmocka_unit_test(test_results_that_cannot_be_printed),
      cmocka_unit_test(test_a_full_disk),
      cmocka_unit_test(test_signals_end_a_run),
      cmocka_unit_test(test_a_second_signal_ends_at_once),
  };
  return cmocka_run_group_tests(tests, make_files, remove_files);
}

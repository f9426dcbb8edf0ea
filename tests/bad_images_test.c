/* The built program on CIFAR files and images that are not what they should be, and on weights of another network. */
#include "bad_testing.h"

#include "data/jpeg_testing.h"
#include "io/safetensors.h"

/* ---- CIFAR ------------------------------------------------------------------------------------------------------- */

enum { RECORD = 3073, RECORDS = 4 };

/* Zeros, labels too; the label of record 1 is `label`. */
static void write_batch(const char *path, const char *name, size_t bytes, int label) {
  uint8_t *data = calloc(bytes + 1, 1);
  if (bytes > RECORD) data[RECORD] = (uint8_t)label;
  test_write(path, name, data, bytes);
  free(data);
}

/* A good CIFAR-10, one of whose files is of other length or has a label beyond the classes. bytes < 0: it is missing.
 */
static void cifar10_with(const char *name, const char *changed, int bytes, int label) {
  char *path = set_folder(name), file[32];
  for (int i = 1; i <= 6; ++i) {
    snprintf(file, sizeof file, i == 6 ? "test_batch.bin" : "data_batch_%d.bin", i);
    if (strcmp(file, changed)) write_batch(path, file, RECORD * RECORDS, 0);
    else if (bytes >= 0) write_batch(path, file, (size_t)bytes, label);
  }
  free(path);
}

#define TRAIN "train --model lenet5 --batch 4 --out run --save " OLD " "

static void test_cifar_files(void **state) {
  cifar10_with("short", "data_batch_3.bin", RECORD * RECORDS - 1, 0);
  cifar10_with("longer", "data_batch_5.bin", RECORD * RECORDS + 3, 0);
  cifar10_with("empty", "data_batch_1.bin", 0, 0);
  cifar10_with("absent", "data_batch_4.bin", -1, 0);
  cifar10_with("label", "data_batch_2.bin", RECORD * RECORDS, 10);
  cifar10_with("test-short", "test_batch.bin", RECORD - 1, 0);
  char *path = set_folder("coarse");
  write_batch(path, "train.bin", RECORD * RECORDS, 0); /* one label a record */
  free(path);
  static const bad cases[] = {
      {TRAIN "--data cifar10:short", 3, "short/data_batch_3.bin: offset 9219: ", "12291 bytes are not a whole number"},
      {TRAIN "--data cifar10:longer", 3,
       "longer/data_batch_5.bin: offset 12292: ", "12295 bytes are not a whole number"},
      {TRAIN "--data cifar10:empty", 3, "empty/data_batch_1.bin: offset 0: ", "no examples"},
      {TRAIN "--data cifar10:absent", 3, "absent/data_batch_4.bin: ", "not found"},
      {TRAIN "--data cifar10:label", 3, "label/data_batch_2.bin: offset 3073: ", "label 10 of record 1"},
      {TRAIN "--data cifar10:test-short", 3, "test-short/test_batch.bin: offset 0: ", "3072 bytes"},
      {TRAIN "--data cifar100:coarse", 3, "coarse/train.bin: offset 9222: ", "records of 3074 bytes"},
      {TRAIN "--data cifar10:short --cache off --workers 2", 3, "short/data_batch_3.bin: offset 9219: ", ""},
  };
  check_all(cases, RONDE__COUNT(cases));
}

/* ---- folders of images ------------------------------------------------------------------------------------------- */

enum { SIDE = 32 };

static uint8_t pixels[SIDE * SIDE * 8]; /* enough for four channels of 8 bits, and for three of 16 */

static void make_below(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0777), 0);
  free(path);
}

/* A good set of two classes with one more image in the second; bytes NULL: none. */
static void folder_with(const char *name, const char *image, test_bytes file) {
  char path[128];
  free(set_folder(name));
  for (int k = 0; k < 2; ++k) {
    snprintf(path, sizeof path, "%s/class%d", name, k);
    make_below(path);
    for (int i = 0; i < 4; ++i) {
      snprintf(path, sizeof path, "%s/class%d/%d.png", name, k, i);
      test_write_bytes(folder, path, test_png(SIDE, SIDE, 3, 8, pixels));
    }
  }
  snprintf(path, sizeof path, "%s/class1/%s", name, image);
  test_write_bytes(folder, path, file);
}

/* A file of a few hundred bytes whose header claims another size. */
static test_bytes huge_png(uint32_t h, uint32_t w) {
  test_bytes file = test_png(SIDE, SIDE, 3, 8, pixels);
  test_put_be(file.data + 16, w);
  test_put_be(file.data + 20, h);
  test_put_be(file.data + 29, (uint32_t)crc32(0, file.data + 12, 17));
  return file;
}

static test_bytes cut(test_bytes file, size_t bytes) {
  assert_true(bytes < file.n);
  file.n = bytes;
  return file;
}

static void check_success(const char *words, const char *said) {
  int code = finish(start(words, NULL), words);
  char *err = read_text("err");
  if (code || !strstr(err, said)) fail_msg("ronde %s: exit code %d, without '%s':\n%s", words, code, said, err);
  free(err);
}

static void test_images(void **state) {
  if (!ronde__image_supported()) skip();
  folder_with("wide", "x.png", huge_png(SIDE, 2000000000));
  folder_with("long", "x.png", huge_png(40000, SIDE));
  folder_with("bomb", "x.png", huge_png(16000, 16000));
  folder_with("text", "x.png", test_bytes_make("no picture", 10));
  folder_with("half", "x.png", cut(test_png(SIDE, SIDE, 3, 8, pixels), 60));
  folder_with("deep", "x.png", test_png(SIDE, SIDE, 3, 16, pixels));
  folder_with("small", "x.png", test_png(SIDE, SIDE - 1, 3, 8, pixels));
  free(set_folder("no-classes"));
  test_write(folder, "no-classes/x.png", "\x89PNG\r\n\x1a\n", 8);
  folder_with("no-images", "x.png", test_png(SIDE, SIDE, 3, 8, pixels));
  make_below("no-images/class2");
  free(set_folder("unknown"));
  static const char *const parts[] = {"train", "train/a", "train/b", "test", "test/c"};
  for (size_t i = 0; i < RONDE__COUNT(parts); ++i) {
    char name[64];
    snprintf(name, sizeof name, "unknown/%s", parts[i]);
    make_below(name);
    if (!strchr(parts[i], '/')) continue;
    snprintf(name, sizeof name, "unknown/%s/x.png", parts[i]);
    test_write_bytes(folder, name, test_png(SIDE, SIDE, 3, 8, pixels));
  }
  static const bad cases[] = {
      {TRAIN "--data folder:wide", 3, "wide/class1/x.png: ", "not a PNG"},
      {TRAIN "--data folder:long --resize 32x32", 3, "long/class1/x.png: ", "40000x32 pixels; at most 32768"},
      {TRAIN "--data folder:bomb", 3, "bomb/class1/x.png: ", "16000x16000"},
      {TRAIN "--data folder:bomb --resize 32x32 --workers 2", 3, "bomb/class1/x.png: ", "16000x16000"},
      {TRAIN "--data folder:text", 3, "text/class1/x.png: offset 0: ", "not a PNG or JPEG"},
      {TRAIN "--data folder:half", 3, "half/class1/x.png: ", "PNG"},
      {TRAIN "--data folder:small", 3, "32x31", "--resize"},
      {TRAIN "--data folder:no-classes", 3, "no-classes: ", "one folder per class"},
      {TRAIN "--data folder:no-images", 3, "no-images/class2: ", "this class is empty"},
      {TRAIN "--data folder:unknown", 3, "unknown/test/c: ", "no class of this name"},
      {TRAIN "--data folder:nowhere", 3, "nowhere: ", "no such folder"},
      {"data info folder:bomb", 3, "bomb/class1/x.png: ", "16000x16000"},
  };
  check_all(cases, RONDE__COUNT(cases));
  check_success("train --model lenet5 --batch 3 --data folder:deep", "completed"); /* 16 bits become 8 */
  check_success("train --model lenet5 --batch 4 --data folder:bomb --skip-bad-images", "bomb/class1/x.png");
}

static void test_jpegs(void **state) {
#ifdef RONDE_HAVE_JPEG
  folder_with("cmyk", "x.jpg", test_jpeg(SIDE, SIDE, 4, TEST_JPEG_UNMARKED, pixels));
  test_bytes file = test_jpeg(SIDE, SIDE, 3, TEST_JPEG_PLAIN, pixels);
  uint8_t *frame = memmem(file.data, file.n, "\xff\xc0\x00\x11\x08", 5);
  assert_non_null(frame);
  memcpy(frame + 5, "\xff\xdc\xff\xdc", 4); /* 65500 x 65500 */
  folder_with("jpeg-bomb", "x.jpg", file);
  static const bad cases[] = {
      {TRAIN "--data folder:cmyk", 3, "cmyk/class1/x.jpg: ", "a CMYK JPEG without Adobe"},
      {TRAIN "--data folder:jpeg-bomb", 3, "jpeg-bomb/class1/x.jpg: ", "65500x65500"},
      {"predict colour cmyk/class1/x.jpg", 3, "cmyk/class1/x.jpg: ", "CMYK"},
      {"predict colour jpeg-bomb/class1/x.jpg", 3, "jpeg-bomb/class1/x.jpg: ", "65500x65500"},
  };
  check_all(cases, RONDE__COUNT(cases));
#else
  skip();
#endif
}

/* ---- weights of another network -------------------------------------------------------------------------------- */

/* The good weights with all names behind a prefix, or with a list of classes that is none. */
static void write_changed(const char *name, const char *prefix, const char *classes) {
  char *good = ronde__format("%s/colour", folder), *path = ronde__format("%s/%s", folder, name), names[16][64];
  ronde__file_meta meta = {"ronde.classes", classes};
  ronde__safetensors *file;
  assert_int_equal(ronde__safetensors_open(good, &file), RONDE_OK);
  for (int i = 0; i < file->n_tensors; ++i) {
    snprintf(names[i], sizeof names[i], "%s%s", prefix, file->tensors[i].name);
    file->tensors[i].name = names[i];
  }
  assert_int_equal(ronde__safetensors_write(path, file->tensors, file->n_tensors, &meta, 1), RONDE_OK);
  ronde__safetensors_close(file);
  free(good);
  free(path);
}

static void test_weights_of_another_network(void **state) {
  static const float image[3 * SIDE * SIDE];
  test_write_bytes(
      folder, "image.npy",
      test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 32, 32), }", image, sizeof image));
  write_changed("wrapped", "module.", "[]");
  write_changed("misnamed", "", "{\"a\": 1}");
#define SET "--data synthetic:3x32x32:10:40 "
  static const bad cases[] = {
      {"train --model resnet18-cifar --batch 4 --out run --save " OLD " --init colour " SET, 3,
       "colour: tensor bn1.bias is missing", ""},
      {"train --model resnet18-cifar --batch 4 --classes 20 --init colour " SET, 3, "colour: tensor bn1.bias", ""},
      {"train --model alexnet --data synthetic:3x64x64:10:40 --batch 4 --init colour --workers 2", 3,
       "colour: tensor classifier.1.bias is missing", ""},
      {TRAIN SET "--init wrapped", 3, "wrapped: tensor conv1.bias is missing", ""},
      {"eval colour --model resnet18-cifar " SET, 3, "colour: tensor bn1.bias is missing", ""},
      {"eval colour --data synthetic:3x32x32:20:40 --classes 20", 3, "colour: tensor fc3.bias is 10", "20"},
      {"predict colour image.npy --model resnet18-cifar", 3, "colour: tensor bn1.bias is missing", ""},
      {"predict misnamed image.npy --model lenet5", 3, "misnamed: metadata ronde.classes", "list"},
  };
  check_all(cases, RONDE__COUNT(cases));
}

static int make_files(void **state) {
  start_folder();
  char *options = ronde__format("model=lenet5 shape=3x32x32 classes=10 output=%s/colour", folder);
  json_decref(job_run("init", options, NULL));
  free(options);
  return 0;
}

static int remove_files(void **state) {
  test_folder_destroy(folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cifar_files),
      cmocka_unit_test(test_images),
      cmocka_unit_test(test_jpegs),
      cmocka_unit_test(test_weights_of_another_network),
  };
  return cmocka_run_group_tests(tests, make_files, remove_files);
}

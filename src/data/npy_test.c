/* NumPy files: headers of all versions, types of elements, layouts, damages. */
#include "data/testing.h"

#include <math.h>

#include "data/normalization.h"
#include "data/set.h"

static test_log lines;

static ronde_status scan_files(test_bytes file, ronde__npy *npy_out) {
  ronde__stream *stream;
  ronde_status status = ronde__stream_open_memory("file", file.data, file.n, &stream);
  if (status == RONDE_OK) {
    status = ronde__npy_scan(stream, npy_out);
    ronde__stream_close(stream);
  }
  free(file.data);
  return status;
}

static ronde_status read_label_file(test_bytes file, int64_t *labels) {
  ronde__stream *stream;
  ronde__npy npy;
  ronde_status status = ronde__stream_open_memory("file", file.data, file.n, &stream);
  assert_int_equal(status, RONDE_OK);
  status = ronde__npy_scan(stream, &npy);
  if (status == RONDE_OK) status = ronde__npy_read_labels(stream, &npy, labels);
  ronde__stream_close(stream);
  free(file.data);
  return status;
}

#define DICT(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

static void test_headers_are_read(void **state) {
  static const uint8_t zeros[256];
  ronde__npy npy;
  assert_int_equal(scan_files(test_npy(DICT("'<f4'", "False", "(2, 1, 3, 4)"), zeros, 96), &npy), RONDE_OK);
  assert_int_equal(npy.type, 'f');
  assert_int_equal(npy.item_bytes, 4);
  assert_int_equal(npy.rank, 4);
  assert_int_equal(npy.dim[3], 4);
  assert_int_equal(npy.n_items, 24);
  assert_int_equal(npy.data_offset % 64, 0);
  assert_int_equal(scan_files(test_npy(DICT("'|u1'", "False", "(7,)"), zeros, 7), &npy), RONDE_OK);
  assert_int_equal(npy.rank, 1);
  assert_int_equal(npy.item_bytes, 1);
  /* Other spellings of the same: double quotes, other order of keys, no last comma, Python 2's long. */
  const char *odd = "{\"shape\":(7L,),\"fortran_order\":False,\"descr\":\"|u1\"}";
  assert_int_equal(scan_files(test_npy(odd, zeros, 7), &npy), RONDE_OK);
  assert_int_equal(npy.dim[0], 7);
}

static void test_later_versions_are_read(void **state) {
  const char *dict = DICT("'|u1'", "False", "(3,)");
  uint32_t length = (uint32_t)strlen(dict);
  for (char major = 2; major <= 3; ++major) {
    char front[12] = "\x93NUMPY";
    front[6] = major;
    for (int i = 0; i < 4; ++i) front[8 + i] = (char)(length >> (8 * i));
    test_bytes file = test_bytes_join(test_bytes_make(front, 12), test_bytes_make(dict, length));
    ronde__npy npy;
    assert_int_equal(scan_files(test_bytes_join(file, test_bytes_make("abc", 3)), &npy), RONDE_OK);
    assert_int_equal(npy.data_offset, 12 + length);
  }
}

static void test_bad_headers_are_named(void **state) {
  static const uint8_t zeros[64];
  ronde__npy npy;
  test_log_start(&lines);
  static const struct {
    const char *dict;
    size_t bytes;
    const char *reason;
  } cases[] = {
      {DICT("'<f4'", "True", "(2,)"), 8, "Fortran"},
      {DICT("'|O'", "False", "(2,)"), 16, "type '|O'"},
      {DICT("'<c8'", "False", "(2,)"), 16, "only plain integers and floats"},
      {DICT("'<U3'", "False", "(2,)"), 24, "only plain integers and floats"},
      {DICT("'>f4'", "False", "(2,)"), 8, "big-endian"},
      {DICT("'<i3'", "False", "(2,)"), 6, "type '<i3'"},
      {DICT("''", "False", "(2,)"), 6, "type ''"},
      {DICT("[('a', '<f4')]", "False", "(2,)"), 8, "structured"},
      {DICT("'<f4'", "False", "(2,)"), 7, "needs 8 bytes, but 7 follow"},
      {DICT("'<f4'", "False", "(2,)"), 9, "needs 8 bytes, but the file is longer"},
      {DICT("'<f4'", "False", "(0, 3)"), 0, "dimension 0 is 0"},
      {DICT("'<f4'", "False", "(4611686018427387904, 4)"), 8, "more items than can be counted"},
      {DICT("'<f4'", "False", "(99999999999999999999,)"), 8, "cannot read 'shape'"},
      {DICT("'<f4'", "False", "(2147483648,)"), 8, "needs 8589934592 bytes"},
      {DICT("'<f4'", "False", "(-2,)"), 8, "cannot read 'shape'"},
      {DICT("'<f4'", "False", "(1,1,1,1,1,1,1)"), 4, "cannot read 'shape'"},
      {DICT("'<f4'", "0", "(2,)"), 8, "fortran_order"},
      {"{'descr': '<f4', 'shape': (2,)}", 8, "lacks"},
      {"{'descr': '<f4', 'color': (2,)}", 8, "unknown key"},
      {"{'descr': '<f4' 'shape': (2,)}", 8, "cannot read the header"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} 1", 8, "something follows"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)", 8, "cannot read the header"},
      {"[]", 8, "not a dict"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i)
    check_failed(&lines, scan_files(test_npy(cases[i].dict, zeros, cases[i].bytes), &npy), RONDE_E_INPUT,
                 "file: ", cases[i].reason);
  const char *good = DICT("'|u1'", "False", "(2,)");
  test_bytes file = test_npy(good, zeros, 2);
  file.data[0] = 'x';
  check_failed(&lines, scan_files(file, &npy), RONDE_E_INPUT, "offset 0", "not a npy file");
  file = test_npy(good, zeros, 2);
  file.data[6] = 4;
  check_failed(&lines, scan_files(file, &npy), RONDE_E_INPUT, "offset 6", "version 4.0");
  file = test_npy(good, zeros, 2);
  file.data[9] = 0xff;
  check_failed(&lines, scan_files(file, &npy), RONDE_E_INPUT, "offset 8", "bytes, but only");
  file = test_npy(good, zeros, 2);
  file.data[6] = 2;
  file.data[11] = 0xff;
  check_failed(&lines, scan_files(file, &npy), RONDE_E_INPUT, "offset 8", "at most");
  file = test_npy(good, zeros, 2);
  file.n = 9;
  check_failed(&lines, scan_files(file, &npy), RONDE_E_INPUT, "offset 9", "ends here");
}

/* Refused at the first byte too many: what follows it (here cut off) is not decompressed. */
static void test_gzip_that_goes_on_is_refused_at_once(void **state) {
  size_t n = 3 << 20;
  ronde__npy npy;
  uint8_t *items = calloc(n, 1);
  for (size_t i = 0; i < n; ++i) items[i] = (uint8_t)(i * i >> 5);
  test_log_start(&lines);
  test_bytes plain = test_npy(DICT("'|u1'", "False", "(2, 3)"), items, n), packed = test_gzip(plain.data, plain.n);
  packed.n = packed.n / 10 * 9; /* behind what is looked at for a header */
  check_failed(&lines, scan_files(packed, &npy), RONDE_E_INPUT, "offset 134", "needs 6 bytes, but the file is longer");
  free(plain.data);
  free(items);
}

static void test_values_that_are_not_finite_are_named(void **state) {
  test_log_start(&lines);
  float x[4] = {0, 1, NAN, -INFINITY}, got[4];
  for (int finite = 0; finite < 3; ++finite) {
    if (finite == 1) x[2] = 5;
    if (finite == 2) x[3] = -6;
    test_bytes file = test_npy(DICT("'<f4'", "False", "(4,)"), x, sizeof x);
    ronde__stream *stream;
    ronde__npy npy;
    assert_int_equal(ronde__stream_open_memory("file", file.data, file.n, &stream), RONDE_OK);
    assert_int_equal(ronde__npy_scan(stream, &npy), RONDE_OK);
    ronde_status status = ronde__npy_read_f32(stream, &npy, got);
    if (finite == 0) check_failed(&lines, status, RONDE_E_INPUT, "offset 136: ", "element 2 is NaN");
    if (finite == 1) check_failed(&lines, status, RONDE_E_INPUT, "offset 140: ", "element 3 is infinite");
    if (finite == 2) assert_int_equal(status, RONDE_OK);
    ronde__stream_close(stream);
    free(file.data);
  }
  assert_memory_equal(got, x, sizeof x);
}

static void test_labels_of_every_integer_type(void **state) {
  static const struct {
    const char *descr;
    int bytes;
  } types[] = {{"|u1", 1}, {"|i1", 1}, {"<u2", 2}, {"<i2", 2}, {"<u4", 4}, {"<i4", 4}, {"<u8", 8}, {"<i8", 8}};
  enum { N = 5000 }; /* more than one chunk */
  int64_t *labels = malloc(N * sizeof *labels);
  uint8_t *payload = calloc(N, 8);
  test_log_start(&lines);
  for (size_t t = 0; t < RONDE__COUNT(types); ++t) {
    char dict[100];
    int bytes = types[t].bytes;
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%d,), }", types[t].descr, N);
    memset(payload, 0, N * 8);
    for (int i = 0; i < N; ++i) payload[i * bytes] = (uint8_t)(i % 100);
    assert_int_equal(read_label_file(test_npy(dict, payload, (size_t)(N * bytes)), labels), RONDE_OK);
    for (int i = 0; i < N; ++i) assert_int_equal(labels[i], i % 100);
    if (types[t].descr[1] == 'u' && bytes < 4) continue; /* every value of the others fits */
    memset(payload + 4999 * bytes, 0xff, (size_t)bytes);
    check_failed(&lines, read_label_file(test_npy(dict, payload, (size_t)(N * bytes)), labels), RONDE_E_INPUT,
                 "of example 4999 is not within", types[t].descr[1] == 'i' ? "label -1 " : "file: offset ");
  }
  static const int8_t negative = -1; /* an array without dimensions has one item */
  check_failed(&lines, read_label_file(test_npy(DICT("'|i1'", "False", "()"), &negative, 1), labels), RONDE_E_INPUT,
               "label -1 of example 0 is not within", "file: offset ");
  free(payload);
  free(labels);
}

/* All inputs of a file, in pieces of two. */
static ronde_status read_inputs(const char *path, ronde__image_layout layout, int64_t *n_out, ronde__shape *shape_out,
                                float **x_out) {
  ronde__npy_inputs *inputs;
  ronde_status status = ronde__npy_inputs_open(path, layout, n_out, shape_out, &inputs);
  if (status != RONDE_OK) return status;
  int64_t elems = ronde__shape_elems(shape_out);
  float *x = ronde__alloc((size_t)(*n_out * elems) * sizeof *x);
  const ronde__normalization none = {0};
  const ronde__scaling scaling = ronde__scaling_of(&none, ronde__npy_inputs_unit(inputs));
  for (int64_t i = 0; i < *n_out && status == RONDE_OK; i += 2)
    status = ronde__npy_inputs_next(inputs, ronde__min(2, *n_out - i), &scaling, x + i * elems);
  ronde__npy_inputs_close(inputs);
  if (status != RONDE_OK) ronde__free(x);
  else *x_out = x;
  return status;
}

static void test_images_for_predict(void **state) {
  test_log_start(&lines);
  char *folder = test_folder_create();
  char *path = ronde__format("%s/x.npy", folder);
  const uint8_t pixels[6] = {0, 1, 2, 51, 254, 255};
  const float values[6] = {0, -1, 2.5f, 51, 254, 1e9f};
  int64_t n;
  ronde__shape shape;
  float *x;
  test_write_bytes(folder, "x.npy", test_npy(DICT("'|u1'", "False", "(1, 2, 3)"), pixels, 6));
  assert_int_equal(read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x), RONDE_OK);
  assert_int_equal(n, 1);
  assert_true(shape.dim[0] == 1 && shape.dim[1] == 2 && shape.dim[2] == 3);
  for (int i = 0; i < 6; ++i) assert_true(x[i] == (float)pixels[i] * (1.0f / 255));
  ronde__free(x);
  test_write_bytes(folder, "x.npy", test_npy(DICT("'<f4'", "False", "(2, 3, 1, 1)"), values, sizeof values));
  assert_int_equal(read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x), RONDE_OK);
  assert_int_equal(n, 2);
  assert_true(shape.dim[0] == 3 && shape.dim[1] == 1 && shape.dim[2] == 1);
  assert_memory_equal(x, values, sizeof values);
  ronde__free(x);
  test_write_bytes(folder, "x.npy", test_npy(DICT("'<f2'", "False", "(1, 1, 1, 3)"), values, 6));
  check_failed(&lines, read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x), RONDE_E_INPUT, path,
               "images are of type float16");
  const double doubles[6] = {0, -1, 2.5, 51, 254, 1e9};
  test_write_bytes(folder, "x.npy", test_npy(DICT("'<f8'", "False", "(2, 3, 1, 1)"), doubles, sizeof doubles));
  assert_int_equal(read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x), RONDE_OK);
  assert_memory_equal(x, values, sizeof values);
  ronde__free(x);
  test_write_bytes(folder, "x.npy", test_npy(DICT("'<f4'", "False", "(2, 3)"), values, sizeof values));
  assert_int_equal(read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x), RONDE_OK);
  assert_true(n == 2 && shape.rank == 1 && shape.dim[0] == 3);
  assert_memory_equal(x, values, sizeof values);
  ronde__free(x);
  const double wide[2] = {0.1, 1e39};
  test_write_bytes(folder, "x.npy", test_npy(DICT("'<f8'", "False", "(2, 1)"), wide, sizeof wide));
  check_failed(&lines, read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x), RONDE_E_INPUT, path,
               "element 1 is infinite");
  test_write_bytes(folder, "x.npy", test_npy(DICT("'<f4'", "False", "(6,)"), values, sizeof values));
  check_failed(&lines, read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x), RONDE_E_INPUT, path, "rank 1");
  free(path);
  test_folder_destroy(folder);
}

/* (N, H, W, C) read as (N, C, H, W) would train on H channels of W x C. */
static void test_channels_last_are_noticed_and_turned(void **state) {
  static const struct {
    int64_t a, b, c;
    bool refused;
  } shapes[] = {{28, 28, 3, true},  {28, 28, 1, true},   {32, 20, 4, true},  {5, 4, 3, true},
                {3, 28, 28, false}, {1, 28, 28, false},  {28, 28, 2, false}, {4, 9, 3, false},
                {28, 3, 3, false},  {28, 28, 28, false}, {3, 3, 3, false},   {64, 1, 1, false}};
  test_log_start(&lines);
  char *folder = test_folder_create(), dict[128];
  char *path = ronde__format("%s/x.npy", folder);
  static uint8_t pixels[28 * 28 * 28];
  int64_t n;
  ronde__shape shape;
  float *x;
  for (size_t i = 0; i < RONDE__COUNT(shapes); ++i) {
    int64_t a = shapes[i].a, b = shapes[i].b, c = shapes[i].c;
    snprintf(dict, sizeof dict, "{'descr': '|u1', 'fortran_order': False, 'shape': (1, %d, %d, %d), }", (int)a, (int)b,
             (int)c);
    test_write_bytes(folder, "x.npy", test_npy(dict, pixels, (size_t)(a * b * c)));
    ronde_status status = read_inputs(path, RONDE__IMAGE_AUTO, &n, &shape, &x);
    if (shapes[i].refused)
      check_failed(&lines, status, RONDE_E_INPUT, path, "give --layout nhwc to convert it, or --layout nchw");
    else assert_int_equal(status, RONDE_OK);
    if (status == RONDE_OK) ronde__free(x);
    assert_int_equal(read_inputs(path, RONDE__IMAGE_NCHW, &n, &shape, &x), RONDE_OK);
    assert_true(shape.dim[0] == a && shape.dim[1] == b && shape.dim[2] == c);
    ronde__free(x);
  }
  const float values[2 * 2 * 3 * 2] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                       12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
  test_write_bytes(folder, "x.npy", test_npy(DICT("'<f4'", "False", "(2, 2, 3, 2)"), values, sizeof values));
  assert_int_equal(read_inputs(path, RONDE__IMAGE_NHWC, &n, &shape, &x), RONDE_OK);
  assert_true(n == 2 && shape.dim[0] == 2 && shape.dim[1] == 2 && shape.dim[2] == 3);
  for (int i = 0; i < 24; ++i) { /* i counts n, c, pixel */
    int image = i / 12, c = i / 6 % 2, p = i % 6;
    assert_true(x[i] == (float)(image * 12 + p * 2 + c));
  }
  ronde__free(x);
  free(path);
  test_folder_destroy(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_headers_are_read),
      cmocka_unit_test(test_later_versions_are_read),
      cmocka_unit_test(test_bad_headers_are_named),
      cmocka_unit_test(test_gzip_that_goes_on_is_refused_at_once),
      cmocka_unit_test(test_values_that_are_not_finite_are_named),
      cmocka_unit_test(test_labels_of_every_integer_type),
      cmocka_unit_test(test_images_for_predict),
      cmocka_unit_test(test_channels_last_are_noticed_and_turned),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

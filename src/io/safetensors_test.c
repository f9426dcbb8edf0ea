/* Safetensors files: written and read back; damaged, foreign and oversized ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"
#include "io/folder_testing.h"
#include "io/safetensors.h"

/* A file of a header and n_data bytes 0, 1, 2, ...; exactly as long as it says, so that a sanitizer sees every step
 * beyond. */
typedef struct image {
  unsigned char *bytes;
  size_t n;
} image;

static image image_make(const char *header, size_t n_data) {
  uint64_t length = strlen(header);
  image made = {.n = 8 + length + n_data};
  made.bytes = malloc(made.n);
  memcpy(made.bytes, &length, 8);
  memcpy(made.bytes + 8, header, length);
  for (size_t i = 0; i < n_data; ++i) made.bytes[8 + length + i] = (unsigned char)i;
  return made;
}

static void assert_refused(ronde_status status, const char *reason) {
  if (status != RONDE_E_INPUT || n_lines != 1 || !strstr(last_line, reason))
    fail_msg("status %d, %d lines, wanted \"%s\", got \"%s\"", (int)status, n_lines, reason, last_line);
  assert_ptr_equal(strstr(last_line, "weights: "), last_line);
  assert_null(strchr(last_line, '\n'));
  n_lines = 0;
}

/* ---- bad headers ---- */

#define F32(name, shape, begin, end) \
  "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static const struct {
  const char *header;
  size_t n_data;
  const char *reason;
} malformed[] = {
    {"", 0, "offset 8: the header is not a JSON object"},
    {"[]", 0, "offset 8: the header is not a JSON object"},
    {" {}", 0, "offset 8: the header is not a JSON object"},
    {"{\"a\":", 0, "offset 13: the header is not valid JSON"},
    {"{} x", 0, "the header is not valid JSON"},
    {"{\"a\n\":1}", 0, "the header is not valid JSON"},
    {"{\"a\xff\":1}", 0, "the header is not valid JSON"},
    {"{" F32("a", "[1]", "0", "4") "," F32("a", "[1]", "4", "8") "}", 8, "duplicate object key"},
    {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "duplicate object key"},
    {"{\"a\":7}", 0, "tensor \"a\": offset 8: its description is not a JSON object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor \"a\": offset 8: no dtype"},
    {"{\"a\":{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor \"a\": offset 8: no dtype"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4,
     "tensor \"a\": offset 8: dtype \"U8\" cannot be read"},
    {"{\"a\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype \"f32\" cannot be read"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape"},
    {"{" F32("a", "{}", "0", "4") "}", 4, "no shape"},
    {"{" F32("a", "[-1]", "0", "4") "}", 4, "dimension 0 of its shape is negative (-1)"},
    {"{" F32("a", "[2,\"2\"]", "0", "16") "}", 16, "dimension 1 of its shape is not a whole number"},
    {"{" F32("a", "[1.0]", "0", "4") "}", 4, "dimension 0 of its shape is not a whole number"},
    {"{" F32("a", "[1,1,1,1,1,1,1]", "0", "4") "}", 4, "7 dimensions, at most 6"},
    {"{" F32("a", "[4294967296,4294967296]", "0", "0") "}", 0, "overflows at dimension 1"},
    {"{" F32("a", "[4611686018427387904]", "0", "0") "}", 0, "overflows at dimension 0"},
    {"{" F32("a", "[0,4294967296,4294967296]", "0", "0") "}", 0, "overflows at dimension 2"},
    {"{" F32("a", "[92233720368547758070]", "0", "4") "}", 4, "the header is not valid JSON: too big integer"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets is not a list of two whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
     "data_offsets is not a list of two whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4,
     "data_offsets is not a list of two whole numbers"},
    {"{" F32("a", "[1]", "0", "4.0") "}", 4, "data_offsets is not a list of two whole numbers"},
    {"{" F32("a", "[1]", "-4", "0") "}", 4, "data_offsets [-4, 0] are not within the 4 bytes of data"},
    {"{" F32("a", "[1]", "4", "0") "}", 4, "data_offsets [4, 0] are not within"},
    {"{" F32("a", "[2]", "0", "8") "}", 4, "data_offsets [0, 8] are not within the 4 bytes of data"},
    {"{" F32("a", "[1]", "9223372036854775803", "9223372036854775807") "}", 4, "are not within"},
    {"{" F32("a", "[1]", "0", "8") "}", 8, "its data has 8 bytes, its shape and dtype need 4"},
    {"{" F32("a", "[]", "0", "0") "}", 0, "its data has 0 bytes, its shape and dtype need 4"},
    {"{" F32("a", "[2]", "0", "8") "," F32("b", "[2]", "4", "12") "}", 12,
     "tensor \"b\": offset 120: its data overlaps that of \"a\""},
    {"{" F32("b", "[1]", "0", "4") "," F32("a", "[1]", "0", "4") "}", 4, "its data overlaps that of"},
    {"{" F32("a", "[1]", "0", "4") "," F32("b", "[1]", "6", "10") "}", 10,
     "tensor \"b\": offset 122: a gap of 2 bytes"},
    {"{" F32("a", "[1]", "4", "8") "}", 8, "a gap of 4 bytes"},
    {"{" F32("a", "[1]", "0", "4") "}", 7, "3 bytes after the last tensor belong to none"},
    {"{}", 1, "offset 10: 1 bytes after the last tensor belong to none"},
    {"{\"__metadata__\":[]}", 0, "__metadata__ is not a JSON object"},
    {"{\"__metadata__\":{\"epoch\":3}}", 0, "__metadata__ \"epoch\" is not a string"},
    {"{\"a\\nb\":1}", 0, "tensor \"a?b\""},
};

static void malformed_headers_are_refused(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(malformed); ++i) {
    image file = image_make(malformed[i].header, malformed[i].n_data);
    ronde__safetensors *parsed = NULL;
    assert_refused(ronde__safetensors_parse("weights", file.bytes, file.n, &parsed), malformed[i].reason);
    assert_null(parsed);
    free(file.bytes);
  }
}

static void a_header_by_itself_names_tensors_without_data(void **state) {
  image file = image_make("{" F32("a", "[1]", "0", "4") "," F32("b", "[2]", "4", "12") "}", 12);
  size_t header_bytes = file.n - 12;
  ronde__safetensors *parsed = NULL;
  assert_refused(ronde__safetensors_parse_header("weights", file.bytes, header_bytes - 1, file.n, &parsed),
                 "cut short");
  assert_refused(ronde__safetensors_parse_header("weights", file.bytes, 7, file.n, &parsed), "cut short");
  assert_refused(ronde__safetensors_parse_header("weights", file.bytes, header_bytes, 8, &parsed), "cut short");
  assert_refused(ronde__safetensors_parse_header("weights", file.bytes, header_bytes, file.n - 1, &parsed),
                 "are not within the 11 bytes of data");
  assert_int_equal(ronde__safetensors_parse_header("weights", file.bytes, header_bytes, file.n, &parsed), RONDE_OK);
  assert_int_equal(parsed->n_tensors, 2);
  assert_int_equal(ronde__safetensors_find(parsed, "b")->shape.dim[0], 2);
  assert_null(ronde__safetensors_find(parsed, "b")->data);
  ronde__safetensors_close(parsed);
  free(file.bytes);
}

static void header_lengths_are_checked(void **state) {
  ronde__safetensors *parsed = NULL;
  assert_refused(ronde__safetensors_parse("weights", NULL, 0, &parsed), "offset 0: the file is empty");
  image file = image_make("{}", 0);
  for (size_t n = 1; n < 8; ++n) {
    unsigned char *head = malloc(n);
    memcpy(head, file.bytes, n);
    assert_refused(ronde__safetensors_parse("weights", head, n, &parsed), "too few for a safetensors file");
    free(head);
  }
  static const uint64_t lengths[] = {3, 100000001, (uint64_t)INT64_MAX, UINT64_MAX, UINT64_MAX - 7};
  for (size_t i = 0; i < RONDE__COUNT(lengths); ++i) {
    memcpy(file.bytes, &lengths[i], 8);
    assert_refused(ronde__safetensors_parse("weights", file.bytes, file.n, &parsed),
                   i == 0 ? "offset 0: the header claims 3 bytes" : "offset 0: not a safetensors file");
  }
  free(file.bytes);
}

static void files_of_other_systems_are_named(void **state) {
#define LOCAL(length, name) "PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" length "\0\0\0" name
  static const struct {
    const char *bytes;
    size_t n;
    const char *reason;
  } cases[] = {
#define FILE_OF(bytes, reason) {bytes, sizeof(bytes) - 1, reason}
      FILE_OF(LOCAL("\20", "archive/data.pkl") "rest",
              "weights: a PyTorch file where safetensors is needed; in Python: "),
      FILE_OF(LOCAL("\20", "archive/data.pkl") "rest", "\"weights.safetensors\""),
      FILE_OF("\x80\2\x8a\nl\xfc\x9c"
              "F\xf9 j\xa8P\x19.",
              "a PyTorch file"),
      FILE_OF("\x80\4\x95\x11\0\0\0\0\0\0\0}", "a PyTorch file"),
      FILE_OF(LOCAL("\15", "metadata.json") "rest", "a Keras file"),
      FILE_OF("\x89HDF\r\n\x1a\n and then", "a Keras file"),
      FILE_OF(LOCAL("\11", "arr_0.npy") "rest", "a NumPy archive"),
      FILE_OF(LOCAL("\7", "x/y.txt") "rest", "a zip archive"),
      FILE_OF("PK\3\4\0\0\0\0\0", "a zip archive"),
      FILE_OF(LOCAL("\377", "cut"), "a zip archive"),
      FILE_OF("\x08\x07\x12\x07pytorch\x1a", "an ONNX file"),
      FILE_OF("\x93NUMPY\1\0v\0", "a single NumPy array"),
      FILE_OF("GGUF\3\0\0\0", "a GGUF file"),
      /* One of ours that was cut has a length in front. */
      FILE_OF("\x80\2\0\0\0\0\0\0{\"a\":", "offset 0: the header claims 640 bytes"),
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    char *copy = malloc(cases[i].n);
    memcpy(copy, cases[i].bytes, cases[i].n);
    ronde__safetensors *parsed = NULL;
    assert_refused(ronde__safetensors_parse("weights", copy, cases[i].n, &parsed), cases[i].reason);
    free(copy);
  }
}

/* The file is sparse: nothing of its 101 MB is read. */
static void a_header_beyond_the_limit_is_refused(void **state) {
  const uint64_t length = 100000001;
  assert_int_equal(chdir(folder), 0);
  assert_int_equal(ronde__file_replace("weights", &length, 8), RONDE_OK);
  assert_int_equal(truncate("weights", 101000000), 0);
  ronde__safetensors *parsed = NULL;
  assert_refused(
      ronde__safetensors_open("weights", &parsed),
      "not a safetensors file: it would have a header of 100000001 bytes, more than the format's limit of 100000000");
  assert_int_equal(chdir("/"), 0);
}

static void deep_nesting_is_refused(void **state) {
  const size_t depth = 100000;
  char *header = malloc(depth + 6);
  memcpy(header, "{\"a\":", 5);
  memset(header + 5, '[', depth);
  header[5 + depth] = '\0';
  image file = image_make(header, 0);
  free(header);
  ronde__safetensors *parsed = NULL;
  assert_refused(ronde__safetensors_parse("weights", file.bytes, file.n, &parsed), "maximum parsing depth");
  free(file.bytes);
}

/* Every prefix of a good file is a bad file. */
static void truncation_is_always_noticed(void **state) {
  image file = image_make("{" F32("a", "[2]", "0", "8") "," F32("b", "[]", "8", "12") "}", 12);
  for (size_t n = 0; n < file.n; ++n) {
    unsigned char *part = malloc(n ? n : 1);
    memcpy(part, file.bytes, n);
    ronde__safetensors *parsed = NULL;
    assert_refused(ronde__safetensors_parse("weights", part, n, &parsed), "offset ");
    free(part);
  }
  free(file.bytes);
}

static void unreadable_files_are_refused(void **state) {
  assert_int_equal(chdir(folder), 0);
  ronde__safetensors *parsed = NULL;
  assert_refused(ronde__safetensors_open("weights", &parsed), "cannot read: No such file or directory");
  assert_int_equal(mkfifo("weights", 0600), 0);
  assert_refused(ronde__safetensors_open("weights", &parsed), "cannot read: not a regular file");
  assert_int_equal(unlink("weights"), 0);
  assert_int_equal(mkdir("weights", 0700), 0);
  assert_refused(ronde__safetensors_open("weights", &parsed), "cannot read: it is a folder");
  assert_int_equal(rmdir("weights"), 0);
  assert_int_equal(ronde__file_replace("weights", NULL, 0), RONDE_OK);
  assert_refused(ronde__safetensors_open("weights", &parsed), "offset 0: the file is empty");
  assert_int_equal(chdir("/"), 0);
}

/* ---- good files ---- */

static ronde__safetensors *parse(const image *file) {
  ronde__safetensors *parsed = NULL;
  if (ronde__safetensors_parse("weights", file->bytes, file->n, &parsed)) fail_msg("%s", last_line);
  return parsed;
}

static void the_empty_file_of_the_format_is_good(void **state) {
  image file = image_make("{}      ", 0);
  ronde__safetensors *parsed = parse(&file);
  assert_int_equal(parsed->n_tensors, 0);
  assert_null(ronde__safetensors_find(parsed, "a"));
  ronde__safetensors_close(parsed);
  ronde__safetensors_close(NULL);
  free(file.bytes);
}

static void other_dtypes_become_f32(void **state) {
  /* Each column is one value in each dtype; the last three are NaN, infinity and the smallest subnormal of F16. */
  static const double f64[] = {1.5, -2, 0.1, 1e300, NAN, -INFINITY, 0x1p-24};
  static const uint16_t f16[] = {0x3e00, 0xc000, 0x2e66, 0x7bff, 0x7e00, 0xfc00, 0x0001};
  static const uint16_t bf16[] = {0x3fc0, 0xc000, 0x3dcd, 0x7f7f, 0x7fc0, 0xff80, 0x3380};
  static const float want_f64[] = {1.5f, -2, 0.1f, INFINITY, NAN, -INFINITY, 0x1p-24f};
  static const float want_f16[] = {1.5f, -2, 0x1.998p-4f, 65504, NAN, -INFINITY, 0x1p-24f};
  static const float want_bf16[] = {1.5f, -2, 0x1.9ap-4f, 0x1.fep127f, NAN, -INFINITY, 0x1p-24f};
  image file = image_make(
      "{\"d\":{\"dtype\":\"F64\",\"shape\":[7],\"data_offsets\":[28,84]},"
      "\"h\":{\"dtype\":\"F16\",\"shape\":[7],\"data_offsets\":[0,14]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[7],\"data_offsets\":[14,28]}}",
      84);
  unsigned char *data = file.bytes + file.n - 84;
  memcpy(data, f16, sizeof f16);
  memcpy(data + 14, bf16, sizeof bf16);
  memcpy(data + 28, f64, sizeof f64);
  ronde__safetensors *parsed = parse(&file);
  static const struct {
    const char *name;
    const float *want;
  } tensors[] = {{"d", want_f64}, {"h", want_f16}, {"b", want_bf16}};
  for (size_t t = 0; t < RONDE__COUNT(tensors); ++t) {
    const ronde__file_tensor *tensor = ronde__safetensors_find(parsed, tensors[t].name);
    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, RONDE__FILE_F32);
    const float *got = tensor->data;
    for (int i = 0; i < 7; ++i)
      if (got[i] != tensors[t].want[i] && !(isnan(got[i]) && isnan(tensors[t].want[i])))
        fail_msg("%s[%d] is %g, not %g", tensors[t].name, i, (double)got[i], (double)tensors[t].want[i]);
  }
  ronde__safetensors_close(parsed);
  free(file.bytes);
}

static void data_of_any_alignment_can_be_used(void **state) {
  for (size_t pad = 0; pad < 8; ++pad) {
    char header[256];
    snprintf(header, sizeof header,
             "{\"h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]}," /* leaves the rest unaligned */
             F32("f", "[3]", "2", "14") ",\"i\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[14,30]}}%*s",
             (int)pad, "");
    image file = image_make(header, 30);
    unsigned char *data = file.bytes + file.n - 30;
    const float floats[] = {1, -2, 3};
    const int64_t integers[] = {-5, INT64_MAX};
    memcpy(data + 2, floats, sizeof floats);
    memcpy(data + 14, integers, sizeof integers);
    ronde__safetensors *parsed = parse(&file);
    const ronde__file_tensor *f = ronde__safetensors_find(parsed, "f"), *i = ronde__safetensors_find(parsed, "i");
    assert_int_equal((uintptr_t)f->data % sizeof(float), 0);
    assert_int_equal((uintptr_t)i->data % sizeof(int64_t), 0);
    assert_memory_equal(f->data, floats, sizeof floats);
    assert_memory_equal(i->data, integers, sizeof integers);
    assert_int_equal(i->dtype, RONDE__FILE_I64);
    ronde__safetensors_close(parsed);
    free(file.bytes);
  }
}

static void tensors_without_elements_need_no_conversion(void **state) {
  image file = image_make(
      "{\"h\":{\"dtype\":\"F16\",\"shape\":[0,4294967296],\"data_offsets\":[0,0]}," F32("f", "[2,0]", "0", "0") "} ",
      0);
  ronde__safetensors *parsed = parse(&file);
  assert_int_equal(parsed->n_tensors, 2);
  assert_int_equal(ronde__safetensors_find(parsed, "h")->shape.dim[1], 4294967296);
  assert_int_equal(ronde__safetensors_check_finite(parsed), RONDE_OK);
  ronde__safetensors_close(parsed);
  free(file.bytes);
}

static void unknown_keys_of_a_tensor_are_allowed(void **state) {
  image file = image_make("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"note\":\"x\"}}", 4);
  ronde__safetensors_close(parse(&file));
  free(file.bytes);
}

static void values_that_are_not_finite_are_named(void **state) {
  static const float bad[] = {NAN, INFINITY, -INFINITY};
  image file = image_make(
      "{" F32("a", "[2,3]", "0", "24") ",\"i\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[24,32]}}", 32);
  unsigned char *data = file.bytes + file.n - 32;
  memset(data, 0, 24);
  memset(data + 24, 0xff, 8); /* would be NaN as floats */
  ronde__safetensors *parsed = parse(&file);
  assert_int_equal(ronde__safetensors_check_finite(parsed), RONDE_OK);
  ronde__safetensors_close(parsed);
  for (size_t b = 0; b < RONDE__COUNT(bad); ++b) {
    memcpy(data + 5 * sizeof(float), &bad[b], sizeof(float));
    parsed = parse(&file);
    assert_refused(ronde__safetensors_check_finite(parsed),
                   b ? "tensor \"a\": the value at index 5 is Inf" : "tensor \"a\": the value at index 5 is NaN");
    ronde__safetensors_close(parsed);
  }
  free(file.bytes);
}

/* ---- writing ---- */

static const float weight[] = {0, -1.5f, 0x1p-149f, 3.4028235e38f, 5, 6};
static const float bias[] = {7};
static const int64_t counter = 1234567890123456789;
/* "conv.bias" < "conv1.weight" bytewise, and the I64 in the middle has an odd number of floats in front. */
static const ronde__file_tensor written[] = {
    {"z\"\\ \xc3\xa9", RONDE__FILE_F32, {3, {2, 0, 3}}, weight},
    {"conv1.weight", RONDE__FILE_F32, {4, {1, 2, 3, 1}}, weight},
    {"conv.bias", RONDE__FILE_F32, {1, {1}}, bias},
    {"conv.num_batches_tracked", RONDE__FILE_I64, {0}, &counter},
};
static const ronde__file_meta notes[] = {{"format", "pt"}, {"note", "two\nlines"}};

static void what_is_written_is_read_back(void **state) {
  const char *path = in_folder("w.safetensors");
  assert_int_equal(ronde__safetensors_write(path, written, 4, notes, 2), RONDE_OK);
  ronde__safetensors *file = NULL;
  assert_int_equal(ronde__safetensors_open(path, &file), RONDE_OK);
  assert_int_equal(file->n_tensors, 4);
  static const char *const order[] = {"conv.bias", "conv.num_batches_tracked", "conv1.weight", "z\"\\ \xc3\xa9"};
  for (int i = 0; i < 4; ++i) assert_string_equal(file->tensors[i].name, order[i]);
  for (int i = 0; i < 4; ++i) {
    const ronde__file_tensor *got = ronde__safetensors_find(file, written[i].name);
    assert_non_null(got);
    assert_int_equal(got->dtype, written[i].dtype);
    assert_true(ronde__shape_equal(&got->shape, &written[i].shape));
    size_t bytes = (size_t)ronde__shape_elems(&got->shape) * (got->dtype == RONDE__FILE_I64 ? 8 : 4);
    assert_memory_equal(got->data, written[i].data, bytes);
    assert_null(ronde__safetensors_find(file, written[i].name + 1));
  }
  assert_string_equal(ronde__safetensors_meta(file, "format"), "pt");
  assert_string_equal(ronde__safetensors_meta(file, "note"), "two\nlines");
  assert_null(ronde__safetensors_meta(file, "forma"));
  ronde__safetensors_close(file);
}

/* PyTorch makes views of a mapped file: data must be aligned in it, and the header a multiple of 8. */
static void written_data_is_aligned(void **state) {
  const char *path = in_folder("w.safetensors");
  assert_int_equal(ronde__safetensors_write(path, written, 4, NULL, 0), RONDE_OK);
  unsigned char bytes[1024];
  FILE *in = fopen(path, "r");
  size_t n = fread(bytes, 1, sizeof bytes, in);
  fclose(in);
  uint64_t length;
  memcpy(&length, bytes, 8);
  assert_int_equal(length % 8, 0);
  assert_int_equal(n, 8 + length + sizeof counter + sizeof weight + sizeof bias);
  assert_memory_equal(bytes + 8 + length, &counter, sizeof counter);
  assert_memory_equal(bytes + 8 + length + sizeof counter, bias, sizeof bias);
  bytes[8 + length] = '\0';
  assert_null(strstr((char *)bytes + 8, "__metadata__"));
  assert_true(strstr((char *)bytes + 8, "conv.bias") < strstr((char *)bytes + 8, "conv.num_batches_tracked"));
}

static void wrong_calls_and_places_are_refused(void **state) {
  const char *path = in_folder("w.safetensors");
  ronde__file_tensor twice[] = {written[1], written[1]};
  assert_int_equal(ronde__safetensors_write(path, twice, 2, NULL, 0), RONDE_E_USAGE);
  ronde__file_tensor reserved = {"__metadata__", RONDE__FILE_F32, {1, {1}}, bias};
  assert_int_equal(ronde__safetensors_write(path, &reserved, 1, NULL, 0), RONDE_E_USAGE);
  ronde__file_tensor latin = {"caf\xe9", RONDE__FILE_F32, {1, {1}}, bias};
  assert_int_equal(ronde__safetensors_write(path, &latin, 1, NULL, 0), RONDE_E_USAGE);
  ronde__file_meta latin_note = {"note", "caf\xe9"};
  assert_int_equal(ronde__safetensors_write(path, written, 4, &latin_note, 1), RONDE_E_USAGE);
  assert_int_equal(n_lines, 4);
  assert_int_equal(access(path, F_OK), -1);
  assert_int_equal(ronde__safetensors_write(in_folder("none/w"), written, 4, NULL, 0), RONDE_E_WRITE);
  assert_non_null(strstr(last_line, "none/w: "));
  assert_int_equal(n_lines, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(malformed_headers_are_refused),
      TEST(header_lengths_are_checked),
      TEST(a_header_by_itself_names_tensors_without_data),
      TEST(files_of_other_systems_are_named),
      TEST(a_header_beyond_the_limit_is_refused),
      TEST(deep_nesting_is_refused),
      TEST(truncation_is_always_noticed),
      TEST(unreadable_files_are_refused),
      TEST(the_empty_file_of_the_format_is_good),
      TEST(other_dtypes_become_f32),
      TEST(data_of_any_alignment_can_be_used),
      TEST(tensors_without_elements_need_no_conversion),
      TEST(unknown_keys_of_a_tensor_are_allowed),
      TEST(values_that_are_not_finite_are_named),
      TEST(what_is_written_is_read_back),
      TEST(written_data_is_aligned),
      TEST(wrong_calls_and_places_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

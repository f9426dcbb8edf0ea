/* What is done with data sets beside training: list, info, get from a server of the test's own, convert. */
#include "train_testing.h"

#include "io/download.h"
#include "io/server_testing.h"
#include "data/remote.h"
#include "io/sha256.h"

static char *folder; /* of each test; also where its cache lies */
static test_log lines;

static int make_folder(void **state) {
  folder = test_folder_create();
  setenv("RONDE_CACHE_DIR", folder, 1);
  setenv("RONDE_DATA", folder, 1);
  test_log_start(&lines);
  return 0;
}

static int remove_folder(void **state) {
  ronde_log_set(NULL, NULL);
  unsetenv("RONDE_DATA");
  test_folder_destroy(folder);
  return 0;
}

typedef ronde_status (*action)(const ronde_config *config, char **json_out);

static ronde_status get(const ronde_config *config, char **json_out) { return ronde_data_get(config, NULL, json_out); }

/* Options with the test's folder for each %s. */
static ronde_status run_action(action fn, const char *options, json_t **json_out) {
  char *text = ronde__format(options, folder, folder), *json = NULL;
  ronde_config *config = config_make("data", text);
  ronde_status status = fn(config, &json);
  if (status == RONDE_OK && json_out) *json_out = json_of(json);
  else free(json);
  ronde_config_destroy(config);
  free(text);
  return status;
}

static json_t *act(action fn, const char *options) {
  json_t *json = NULL;
  assert_int_equal(run_action(fn, options, &json), RONDE_OK);
  return json;
}

/* ---- list, info, convert -------------------------------------------------------------------------------------- */

static void test_the_list_says_where_sets_are(void **state) {
  char *text;
  test_write_idx_pair(folder, "train", 5, 4, 4, 2, false);
  assert_int_equal(ronde_data_list(&text), RONDE_OK);
  json_t *list = json_of(text), *set;
  size_t i;
  int n = 0;
  json_array_foreach(json_at(list, "sets"), i, set) {
    const char *name = text_at(set, "name");
    assert_true(real_at(set, "download_bytes") > 1e6 && !strncmp(text_at(set, "url"), "http", 4));
    if (!strcmp(name, "mnist")) assert_string_equal(text_at(set, "folder"), folder);
    if (!strcmp(name, "cifar100")) assert_true(json_is_null(json_at(set, "folder")));
    n += !strcmp(name, "mnist") || !strcmp(name, "fashion-mnist") || !strcmp(name, "cifar10") ||
         !strcmp(name, "cifar100");
  }
  assert_int_equal(n, 4);
  json_decref(list);
}

/* What is converted is the same set: its hash says so. */
static void test_conversion_keeps_the_set(void **state) {
  test_write_idx_pair(folder, "train", 23, 6, 5, 4, false);
  test_write_idx_pair(folder, "t10k", 7, 6, 5, 4, true);
  json_t *before = act(ronde_data_info, "data=mnist:%s");
  assert_int_equal((int)real_at(before, "train_examples"), 23);
  assert_int_equal((int)real_at(before, "shape.2"), 5);
  assert_string_equal(text_at(before, "type"), "uint8");
  json_t *converted = act(ronde_data_convert, "data=mnist:%s output=%s/deep/npy");
  assert_int_equal(json_array_size(json_at(converted, "files")), 4);
  json_t *after = act(ronde_data_info, "data=npy:%s/deep/npy");
  static const char *const same[] = {"train_examples", "test_examples", "classes", "shape", "sha256"};
  for (size_t i = 0; i < RONDE__COUNT(same); ++i)
    assert_true(json_equal(json_at(before, same[i]), json_at(after, same[i])));
  json_decref(before);
  json_decref(converted);
  json_decref(after);
  /* f32 too, again from npy. */
  float x[2 * 3] = {1.5f, -2, 0, 3, 4, 5};
  uint8_t y[2] = {1, 0};
  test_write_bytes(folder, "train_x.npy",
                   test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 1, 1), }", x, sizeof x));
  test_write_bytes(folder, "train_y.npy",
                   test_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", y, sizeof y));
  before = act(ronde_data_convert, "data=npy:%s output=%s/f32");
  after = act(ronde_data_info, "data=npy:%s/f32");
  assert_string_equal(text_at(after, "type"), "float32");
  assert_string_equal(text_at(before, "sha256"), text_at(after, "sha256"));
  json_decref(before);
  json_decref(after);
}

static void test_actions_that_cannot_be(void **state) {
  static const struct {
    action fn;
    const char *options;
    ronde_status status;
    const char *words;
  } cases[] = {
      {ronde_data_info, "resize=3x3", RONDE_E_USAGE, "a data set is needed"},
      {ronde_data_info, "data=synthetic:1x3x3:2:4 resize=3x3", RONDE_E_USAGE, "--resize can have no effect"},
      {ronde_data_info, "data=synthetic:1x3x3:2:4 from=http://x", RONDE_E_USAGE, "--from can have no effect"},
      {ronde_data_info, "data=synthetic:1x3x3:2:4 skip-bad-images=on", RONDE_E_USAGE, "--skip-bad-images can have"},
      {ronde_data_info, "data=mnist:%s/nowhere", RONDE_E_INPUT, "/nowhere"},
      {ronde_data_convert, "data=synthetic:1x3x3:2:4", RONDE_E_USAGE, "--output DIR"},
      {ronde_data_convert, "data=synthetic:1x3x3:2:4 output=/proc/none", RONDE_E_WRITE, "/proc/none"},
      {get, "data=npy", RONDE_E_USAGE, "cannot be downloaded; there are fashion-mnist"},
      {get, "data=mnist resize=3x3", RONDE_E_USAGE, "--resize can have no effect"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i)
    check_failed(&lines, run_action(cases[i].fn, cases[i].options, NULL), cases[i].status, cases[i].words, "");
}

/* ---- get ------------------------------------------------------------------------------------------------------ */

static ronde__remote_file describe(const test_page *page, char hex[RONDE__SHA256_HEX]) {
  ronde__sha256 sha;
  assert_int_equal(ronde__sha256_init(&sha), RONDE_OK);
  ronde__sha256_update(&sha, page->data, page->n);
  assert_int_equal(ronde__sha256_final(&sha, hex), RONDE_OK);
  return (ronde__remote_file){page->name, (int64_t)page->n, hex};
}

static ronde_status get_remote(const ronde__remote *remote, const test_server *server, const char *below,
                               json_t **files_out) {
  char *from = ronde__format("http://127.0.0.1:%d/", server->port), *dir = ronde__format("%s/%s", folder, below);
  *files_out = json_array();
  ronde_status status = ronde__remote_get(remote, from, dir, NULL, *files_out);
  free(from);
  free(dir);
  return status;
}

static void test_files_are_fetched_once(void **state) {
  char hex[2][RONDE__SHA256_HEX];
  const test_page pages[] = {{"a.gz", "first", 5}, {"b.gz", "the second", 10}};
  test_server server = {.pages = pages, .n_pages = 2};
  ronde__remote remote = {.name = "two", .files = {describe(&pages[0], hex[0]), describe(&pages[1], hex[1])}};
  json_t *files;
  server_start(&server);
  for (int round = 0; round < 3; ++round) {
    if (round == 2) { /* a file that was damaged meanwhile */
      char *path = ronde__format("%s/deep/two/b.gz", folder);
      test_write("", path, "THE SECOND", 10);
      free(path);
    }
    assert_int_equal(get_remote(&remote, &server, "deep/two", &files), RONDE_OK);
    assert_int_equal(json_array_size(files), 2);
    assert_int_equal(json_is_true(json_object_get(json_array_get(files, 0), "was_there")), round > 0);
    assert_int_equal(json_is_true(json_object_get(json_array_get(files, 1), "was_there")), round == 1);
    assert_int_equal(server.n_requests, round == 2 ? 3 : 2);
    json_decref(files);
  }
  remote.files[1].sha256 = hex[0];
  ronde_status status = get_remote(&remote, &server, "deep/two", &files);
  check_failed(&lines, status, RONDE_E_INPUT, "/b.gz: its SHA-256 is ", hex[1]);
  json_decref(files);
  server_stop(&server);
}

/* A ustar archive of files, compressed. */
static test_bytes make_archive(const test_page *members, int n) {
  static const uint8_t zeros[1024];
  test_bytes b = test_bytes_make("", 0);
  for (int i = 0; i < n; ++i) {
    uint8_t block[512] = {0};
    unsigned sum = 0;
    snprintf((char *)block, 100, "%s", members[i].name);
    snprintf((char *)block + 124, 12, "%011o", (unsigned)members[i].n);
    memset(block + 148, ' ', 8);
    block[156] = '0';
    for (int k = 0; k < 512; ++k) sum += block[k];
    snprintf((char *)block + 148, 8, "%06o", sum);
    b = test_bytes_join(b, test_bytes_make(block, 512));
    b = test_bytes_join(b, test_bytes_make(members[i].data, members[i].n));
    b = test_bytes_join(b, test_bytes_make(zeros, (512 - members[i].n % 512) % 512));
  }
  b = test_bytes_join(b, test_bytes_make(zeros, 1024));
  test_bytes packed = test_gzip(b.data, b.n);
  free(b.data);
  return packed;
}

/* A small CIFAR-100: downloaded, unpacked, found, opened. */
static void test_an_archive_is_unpacked(void **state) {
  static const char *const members[] = {"train.bin", "test.bin", NULL};
  static uint8_t train[3 * 3074], test[2 * 3074];
  for (int i = 0; i < 3; ++i) train[i * 3074 + 1] = (uint8_t)(i * 40);
  const test_page inside[] = {{"cifar/readme.html", "hello", 5},
                              {"cifar/../../../train.bin", train, sizeof train}, /* only its last part counts */
                              {"cifar/test.bin", test, sizeof test}};
  for (int whole = 0; whole < 2; ++whole) {
    char hex[RONDE__SHA256_HEX];
    json_t *files;
    test_bytes archive = make_archive(inside, whole ? 3 : 2);
    const test_page page = {"small.tar.gz", archive.data, archive.n};
    test_server server = {.pages = &page, .n_pages = 1};
    const ronde__remote remote = {.name = "cifar100", .files = {describe(&page, hex)}, .members = members};
    server_start(&server);
    ronde_status status = get_remote(&remote, &server, "cifar100", &files);
    json_decref(files);
    if (whole) {
      assert_int_equal(status, RONDE_OK);
      assert_int_equal(get_remote(&remote, &server, "cifar100", &files), RONDE_OK);
      json_decref(files);
      assert_int_equal(server.n_requests, 1);
      char *path = ronde__format("%s/cifar100/small.tar.gz", folder);
      assert_int_not_equal(access(path, F_OK), 0);
      free(path);
    } else {
      check_failed(&lines, status, RONDE_E_INPUT, "small.tar.gz: 1 of the 2 files", "cifar100");
      char *path = ronde__format("%s/cifar100/small.tar.gz", folder);
      unlink(path);
      free(path);
    }
    server_stop(&server);
    free(archive.data);
  }
  json_t *json = NULL;
  ronde_config *config = config_make("data", "data=cifar100");
  char *text;
  assert_int_equal(ronde_data_info(config, &text), RONDE_OK);
  ronde_config_destroy(config);
  json = json_of(text);
  assert_int_equal((int)real_at(json, "train_examples"), 3);
  assert_int_equal((int)real_at(json, "classes"), 81);
  json_decref(json);
}

/* The public call, a server that has nothing: the error names the address. */
static void test_a_mirror_without_the_files(void **state) {
  test_server server = {.n_pages = 0};
  server_start(&server);
  char *options = ronde__format("data=cifar10 from=http://127.0.0.1:%d/deep/ output=%%s/new", server.port);
  check_failed(&lines, run_action(get, options, NULL), RONDE_E_INPUT,
               "/deep/cifar-10-binary.tar.gz: ", "the server answered 404");
  free(options);
  server_stop(&server);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_the_list_says_where_sets_are),
      TEST(test_conversion_keeps_the_set),
      TEST(test_actions_that_cannot_be),
  };
  const struct CMUnitTest with_curl[] = {
      TEST(test_files_are_fetched_once),
      TEST(test_an_archive_is_unpacked),
      TEST(test_a_mirror_without_the_files),
  };
#undef TEST
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return ronde__download_supported() ? failed + cmocka_run_group_tests(with_curl, NULL, NULL) : failed;
}

/* Downloads from a server on loopback: resumed, checked against their hash, cancelled. */
#include "io/server_testing.h"

#include "io/download.h"
#include "io/sha256.h"

static test_log lines;
static char *folder, *path, *part; /* of each test */

enum { N = 300000 };
static uint8_t content[N];
static char hash[RONDE__SHA256_HEX];

static int setup(void **state) {
  folder = test_folder_create();
  path = ronde__format("%s/file.gz", folder);
  part = ronde__format("%s.part", path);
  test_log_start(&lines);
  ronde__sha256 sha;
  for (int i = 0; i < N; ++i) content[i] = (uint8_t)(i * 7 + i / 251);
  assert_int_equal(ronde__sha256_init(&sha), RONDE_OK);
  ronde__sha256_update(&sha, content, N);
  assert_int_equal(ronde__sha256_final(&sha, hash), RONDE_OK);
  return 0;
}

static int teardown(void **state) {
  ronde_log_set(NULL, NULL);
  test_folder_destroy(folder);
  free(path);
  free(part);
  return 0;
}

typedef struct heard {
  int64_t last, total, cancel_at; /* cancel_at 0: never */
} heard;

static void keep_message(void *user, int64_t done, int64_t total) {
  heard *h = user;
  h->last = done;
  h->total = total;
}

static bool cancels(void *user) {
  const heard *h = user;
  return h->cancel_at && h->last >= h->cancel_at;
}

static ronde_status get(const test_server *server, const char *name, heard *h) {
  char *url = ronde__format("http://127.0.0.1:%d/%s", server->port, name);
  ronde__download what = {.url = url, .path = path, .bytes = N, .sha256 = hash};
  if (h) what.progress = keep_message, what.cancel = cancels, what.user = h;
  ronde_status status = ronde__download_run(&what);
  free(url);
  return status;
}

static const test_page page = {"file.gz", content, N};

static test_server start_download(test_server server) {
  if (!server.pages) server.pages = &page, server.n_pages = 1;
  return server;
}

static void check_whole(void) {
  static uint8_t got[N + 1];
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fread(got, 1, N + 1, file), N);
  fclose(file);
  assert_memory_equal(got, content, N);
  assert_int_not_equal(access(part, F_OK), 0);
}

static void check_nothing(void) {
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_not_equal(access(part, F_OK), 0);
}

static void test_a_file_and_its_progress(void **state) {
  heard h = {0};
  bool same;
  test_server server = start_download((test_server){.no_ranges = true});
  server_start(&server);
  assert_int_equal(get(&server, "file.gz", &h), RONDE_OK);
  server_stop(&server);
  check_whole();
  assert_true(h.last == N && h.total == N);
  assert_int_equal(ronde__download_check(path, N, hash, &same), RONDE_OK);
  assert_true(same);
  assert_int_equal(ronde__download_check(path, N - 1, hash, &same), RONDE_OK);
  assert_false(same);
  assert_int_equal(lines.n_errors + lines.n_warnings, 0);
}

/* Each answer is cut: the next one goes on where it ended. */
static void test_a_cut_connection_is_taken_up_again(void **state) {
  test_server server = start_download((test_server){.cut_after = 70000});
  server_start(&server);
  assert_int_equal(get(&server, "file.gz", NULL), RONDE_OK);
  server_stop(&server);
  check_whole();
  assert_int_equal(server.n_requests, 5);
  assert_int_equal(server.last_range, 280000);
  assert_int_equal(lines.n_warnings, 4);
}

/* The part that an earlier process left is used. It is fetched again where the server has no ranges or the part is
 * of another file. */
static void test_an_earlier_part_is_used(void **state) {
  for (int no_ranges = 0; no_ranges < 2; ++no_ranges) {
    test_server server = start_download((test_server){.no_ranges = no_ranges});
    test_write("", part, content, 1234);
    server_start(&server);
    assert_int_equal(get(&server, "file.gz", NULL), RONDE_OK);
    server_stop(&server);
    check_whole();
    assert_int_equal(server.n_requests, 1 + no_ranges);
    assert_int_equal(server.last_range, no_ranges ? -1 : 1234);
    unlink(path);
  }
  test_server server = start_download((test_server){.n_pages = 0});
  test_write("", part, content, N); /* all of it was there but for its name */
  server_start(&server);
  assert_int_equal(get(&server, "file.gz", NULL), RONDE_OK);
  server_stop(&server);
  assert_int_equal(server.n_requests, 0);
  check_whole();
}

static void test_wrong_contents_are_not_kept(void **state) {
  static uint8_t other[N + 10];
  memcpy(other, content, N);
  other[N / 2] ^= 1;
  const test_page wrong[] = {{"wrong", other, N}, {"long", other, N + 10}, {"short", content, N - 1}};
  for (int no_length = 0; no_length < 2; ++no_length) {
    test_server server = start_download((test_server){.pages = wrong, .n_pages = 3, .no_length = no_length});
    server_start(&server);
    check_failed(&lines, get(&server, "wrong", NULL), RONDE_E_INPUT, "its SHA-256 is ", hash);
    check_nothing();
    check_failed(&lines, get(&server, "long", NULL), RONDE_E_INPUT, "/long: ", "longer than the expected 300000 bytes");
    unlink(part);
    check_failed(&lines, get(&server, "short", NULL), RONDE_E_INPUT, "/short: ", "");
    unlink(part);
    check_nothing();
    server_stop(&server);
  }
  /* A damaged part is detected, and the next try fetches the whole file. */
  test_server server = start_download((test_server){0});
  server_start(&server);
  test_write("", part, "something else", 14);
  check_failed(&lines, get(&server, "file.gz", NULL), RONDE_E_INPUT, "its SHA-256 is ", "it is not kept");
  check_nothing();
  assert_int_equal(get(&server, "file.gz", NULL), RONDE_OK);
  server_stop(&server);
  check_whole();
}

static void test_answers_that_are_errors(void **state) {
  test_server server = start_download((test_server){0});
  server_start(&server);
  check_failed(&lines, get(&server, "absent", NULL), RONDE_E_INPUT, "/absent: ", "the server answered 404");
  check_nothing();
  test_write("", part, content, 1000); /* an error keeps what is there */
  check_failed(&lines, get(&server, "absent", NULL), RONDE_E_INPUT, "/absent: ", "the server answered 404");
  assert_int_equal(access(part, F_OK), 0);
  unlink(part);
  server_stop(&server);
  check_failed(&lines, get(&server, "file.gz", NULL), RONDE_E_INPUT, "http://127.0.0.1:", "file.gz");
  check_nothing();
  ronde__download what = {.url = "file:///etc/passwd", .path = path, .bytes = N, .sha256 = hash};
  check_failed(&lines, ronde__download_run(&what), RONDE_E_INPUT, "file:///etc/passwd", "");
  check_nothing();
}

static void test_folders_that_cannot_be_written(void **state) {
  test_server server = start_download((test_server){0});
  server_start(&server);
  free(path);
  path = ronde__format("%s/nowhere/file.gz", folder);
  check_failed(&lines, get(&server, "file.gz", NULL), RONDE_E_WRITE, "/nowhere/file.gz.part", "cannot write");
  server_stop(&server);
}

static void test_cancelling_keeps_the_part(void **state) {
  heard h = {.cancel_at = 1};
  test_server server = start_download((test_server){0});
  server_start(&server);
  test_write("", part, content, 5000);
  assert_int_equal(get(&server, "file.gz", &h), RONDE_E_CANCELLED);
  assert_int_equal(access(part, F_OK), 0);
  assert_int_not_equal(access(path, F_OK), 0);
  assert_int_equal(lines.n_errors, 0);
  assert_int_equal(get(&server, "file.gz", NULL), RONDE_OK);
  server_stop(&server);
  check_whole();
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_a_file_and_its_progress),   TEST(test_a_cut_connection_is_taken_up_again),
      TEST(test_an_earlier_part_is_used),   TEST(test_wrong_contents_are_not_kept),
      TEST(test_answers_that_are_errors),   TEST(test_folders_that_cannot_be_written),
      TEST(test_cancelling_keeps_the_part),
  };
#undef TEST
  if (!ronde__download_supported()) return 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}

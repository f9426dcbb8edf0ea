/* Tar archives: their members in order, and damaged headers. */
#include "data/testing.h"

#include "data/tar.h"

static test_log lines;

/* The header of a member, its content and its padding. */
static test_bytes add_member(test_bytes archive, const char *name, char type, const void *data, size_t n) {
  uint8_t block[512] = {0};
  unsigned sum = 0;
  snprintf((char *)block, 100, "%s", name);
  snprintf((char *)block + 124, 12, "%011o", (unsigned)n);
  memset(block + 148, ' ', 8);
  block[156] = (uint8_t)type;
  memcpy(block + 257,
         "ustar\0"
         "00",
         8);
  for (int i = 0; i < 512; ++i) sum += block[i];
  snprintf((char *)block + 148, 8, "%06o", sum);
  archive = test_bytes_join(archive, test_bytes_make(block, 512));
  archive = test_bytes_join(archive, test_bytes_make(data, n));
  static const uint8_t zeros[512];
  return test_bytes_join(archive, test_bytes_make(zeros, (512 - n % 512) % 512));
}

static test_bytes make_archive(void) {
  static const uint8_t zeros[1024], big[700];
  test_bytes b = add_member(test_bytes_make("", 0), "set/", '5', "", 0);
  b = add_member(b, "set/a.bin", '0', "abc", 3);
  b = add_member(b, "set/big.bin", '\0', big, sizeof big);
  b = add_member(b, "set/empty", '0', "", 0);
  return test_bytes_join(b, test_bytes_make(zeros, sizeof zeros));
}

static void test_members_in_order(void **state) {
  test_bytes archive = make_archive(), packed = test_gzip(archive.data, archive.n);
  for (int gzip = 0; gzip < 2; ++gzip) {
    ronde__stream *stream;
    ronde__tar_member member;
    bool end;
    char content[4] = "";
    const test_bytes *file = gzip ? &packed : &archive;
    assert_int_equal(ronde__stream_open_memory("archive", file->data, file->n, &stream), RONDE_OK);
    assert_int_equal(ronde__tar_next(stream, &member, &end), RONDE_OK);
    assert_true(!end && !member.is_file && !strcmp(member.name, "set/"));
    assert_int_equal(ronde__tar_next(stream, &member, &end), RONDE_OK);
    assert_true(!end && member.is_file && member.bytes == 3 && !strcmp(member.name, "set/a.bin"));
    assert_int_equal(ronde__stream_read(stream, content, 3), RONDE_OK);
    assert_string_equal(content, "abc");
    assert_int_equal(ronde__tar_skip_padding(stream, &member), RONDE_OK);
    assert_int_equal(ronde__tar_next(stream, &member, &end), RONDE_OK);
    assert_true(!end && member.is_file && member.bytes == 700);
    assert_int_equal(ronde__tar_skip(stream, &member), RONDE_OK);
    assert_int_equal(ronde__tar_next(stream, &member, &end), RONDE_OK);
    assert_true(!end && member.bytes == 0 && !strcmp(member.name, "set/empty"));
    assert_int_equal(ronde__tar_next(stream, &member, &end), RONDE_OK);
    assert_true(end);
    ronde__stream_close(stream);
  }
  free(archive.data);
  free(packed.data);
}

static void test_broken_archives_are_named(void **state) {
  test_log_start(&lines);
  for (int broken = 0; broken < 4; ++broken) {
    test_bytes archive = make_archive();
    if (broken == 0) archive.data[512 + 3] ^= 1;
    if (broken == 1) archive.data[512 + 124] = 'x';
    if (broken == 2) archive.n = 512 + 100;
    if (broken == 3) archive.n = 1024 + 2;
    ronde__stream *stream;
    ronde__tar_member member;
    bool end;
    assert_int_equal(ronde__stream_open_memory("archive", archive.data, archive.n, &stream), RONDE_OK);
    assert_int_equal(ronde__tar_next(stream, &member, &end), RONDE_OK);
    ronde_status status = ronde__tar_next(stream, &member, &end);
    if (broken == 3) {
      assert_int_equal(status, RONDE_OK);
      status = ronde__tar_skip(stream, &member);
    }
    check_failed(&lines, status, RONDE_E_INPUT, "archive: offset ", broken < 2 ? "not the header" : "ends here");
    ronde__stream_close(stream);
    free(archive.data);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_members_in_order),
      cmocka_unit_test(test_broken_archives_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

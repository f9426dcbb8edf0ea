/* SHA-256 against its published digests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "io/sha256.h"

/* Messages and digests: FIPS 180-2, appendix B. */
static const struct {
  const char *text, *hex;
} vectors[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

static void published_digests(void **state) {
  for (size_t i = 0; i < RONDE__COUNT(vectors); ++i) {
    ronde__sha256 sha;
    char hex[RONDE__SHA256_HEX];
    assert_int_equal(ronde__sha256_init(&sha), RONDE_OK);
    ronde__sha256_update(&sha, vectors[i].text, strlen(vectors[i].text));
    assert_int_equal(ronde__sha256_final(&sha, hex), RONDE_OK);
    assert_string_equal(hex, vectors[i].hex);
  }
}

static void pieces_give_the_same_digest(void **state) {
  ronde__sha256 sha;
  char hex[RONDE__SHA256_HEX], piece[7];
  memset(piece, 'a', sizeof piece);
  assert_int_equal(ronde__sha256_init(&sha), RONDE_OK);
  size_t left = 1000000;
  for (size_t i = 0; left > 0; ++i) {
    size_t n = i % (sizeof piece + 1) < left ? i % (sizeof piece + 1) : left;
    ronde__sha256_update(&sha, n > 0 ? piece : NULL, n);
    left -= n;
  }
  assert_int_equal(ronde__sha256_final(&sha, hex), RONDE_OK);
  assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The sanitizer's leak check is the assertion. */
static void final_without_a_digest_releases(void **state) {
  ronde__sha256 sha;
  assert_int_equal(ronde__sha256_init(&sha), RONDE_OK);
  assert_int_equal(ronde__sha256_final(&sha, NULL), RONDE_OK);
  assert_null(sha.context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(published_digests),
      cmocka_unit_test(pieces_give_the_same_digest),
      cmocka_unit_test(final_without_a_digest_releases),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The allocator of blocks: nothing overlaps, freed memory is used again, the limit holds. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/blocks.h"

#include <string.h>

typedef struct taken_piece {
  unsigned char *at;
  size_t bytes;
  unsigned char mark;
} taken_piece;

static void check_whole(const taken_piece *p) {
  for (size_t i = 0; i < p->bytes; i++) assert_int_equal(p->at[i], p->mark);
}

/* Pieces that are taken and given back in random order never overlap, and keep their contents. */
static void pieces_do_not_overlap(void **unused) {
  enum { PIECES = 40, ROUNDS = 3000 };
  ronde__blocks *blocks;
  taken_piece pieces[PIECES] = {0};
  uint32_t random = 7;
  assert_int_equal(ronde__blocks_create(&blocks), RONDE_OK);
  for (int i = 0; i < ROUNDS; i++) {
    random = random * 1664525u + 1013904223u;
    taken_piece *p = &pieces[(random >> 8) % PIECES];
    if (p->at) {
      check_whole(p);
      ronde__blocks_give(blocks, p->at);
      *p = (taken_piece){0};
    } else {
      size_t bytes = (random >> 16) % 50 == 0 ? 3000000 : (random >> 12) % 9000;
      *p = (taken_piece){ronde__blocks_take(blocks, bytes), bytes, (unsigned char)i};
      assert_non_null(p->at);
      assert_int_equal((uintptr_t)p->at % 64, 0);
      memset(p->at, p->mark, bytes);
    }
  }
  for (int i = 0; i < PIECES; i++)
    if (pieces[i].at) check_whole(&pieces[i]);
  ronde__blocks_destroy(blocks);
}

static void what_was_given_back_is_used_again(void **unused) {
  ronde__blocks *blocks;
  char *p[64];
  assert_int_equal(ronde__blocks_create(&blocks), RONDE_OK);
  for (int i = 0; i < 64; i++) assert_non_null(p[i] = ronde__blocks_take(blocks, 200000));
  size_t mapped = ronde__blocks_mapped(blocks);
  assert_true(mapped >= 64 * 200000);
  /* In whatever order they come back, the pieces join to one that takes most of a segment. */
  for (int i = 0; i < 64; i += 2) ronde__blocks_give(blocks, p[i]);
  for (int i = 1; i < 64; i += 2) ronde__blocks_give(blocks, p[i]);
  char *whole = ronde__blocks_take(blocks, 64 * 200000);
  assert_non_null(whole);
  assert_int_equal(ronde__blocks_mapped(blocks), mapped);
  ronde__blocks_give(blocks, whole);
  ronde__blocks_give(blocks, NULL);
  for (int i = 0; i < 64; i++) assert_non_null(p[i] = ronde__blocks_take(blocks, 200000));
  assert_int_equal(ronde__blocks_mapped(blocks), mapped);
  ronde__blocks_destroy(blocks);
  ronde__blocks_destroy(NULL);
}

static void too_much_is_refused(void **unused) {
  ronde__blocks *blocks;
  assert_int_equal(ronde__blocks_create(&blocks), RONDE_OK);
  assert_null(ronde__blocks_take(blocks, SIZE_MAX - 10));
  assert_null(ronde__blocks_take(blocks, (size_t)1 << 60));
  assert_int_equal(ronde__blocks_mapped(blocks), 0);
  assert_non_null(ronde__blocks_take(blocks, 100));
  ronde__blocks_destroy(blocks);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pieces_do_not_overlap),
      cmocka_unit_test(what_was_given_back_is_used_again),
      cmocka_unit_test(too_much_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

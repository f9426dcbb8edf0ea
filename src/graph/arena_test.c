/* The arena: blocks that live at the same time never overlap, and little is wasted. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/plan.h"

#include <stdlib.h>

enum { MAX_BLOCKS = 60, ALIGNMENT = 64 };

typedef struct life {
  size_t bytes, offset;
  int first, last;
} life;

static size_t place(life *lives, int n) {
  ronde__arena_block blocks[MAX_BLOCKS];
  size_t total;
  for (int i = 0; i < n; i++)
    blocks[i] = (ronde__arena_block){lives[i].bytes, lives[i].first, lives[i].last, &lives[i].offset};
  assert_int_equal(ronde__arena_place(blocks, n, &total), RONDE_OK);
  return total;
}

static bool meet_in_time(const life *a, const life *b) { return a->first <= b->last && b->first <= a->last; }
static bool meet_in_space(const life *a, const life *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}
static size_t rounded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* What lives at once at the busiest time. */
static size_t least(const life *lives, int n) {
  size_t most = 0;
  for (int i = 0; i < n; i++) {
    size_t sum = 0;
    for (int j = 0; j < n; j++)
      if (lives[j].first <= lives[i].first && lives[i].first <= lives[j].last) sum += rounded(lives[j].bytes);
    if (sum > most) most = sum;
  }
  return most;
}

static void random_lives(void **unused) {
  srand(1);
  for (int round = 0; round < 300; round++) {
    life lives[MAX_BLOCKS];
    int n = 1 + rand() % MAX_BLOCKS;
    size_t sum = 0;
    for (int i = 0; i < n; i++) {
      lives[i] = (life){1 + (size_t)(rand() % (round % 3 ? 5000 : 200)), (size_t)-1, rand() % 40, 0};
      lives[i].last = lives[i].first + rand() % (round % 2 ? 40 : 4);
      sum += rounded(lives[i].bytes);
    }
    size_t total = place(lives, n);
    assert_in_range(total, least(lives, n), sum);
    for (int i = 0; i < n; i++) {
      assert_int_equal(lives[i].offset % ALIGNMENT, 0);
      assert_true(lives[i].offset + lives[i].bytes <= total);
      for (int j = 0; j < i; j++)
        assert_false(meet_in_time(&lives[i], &lives[j]) && meet_in_space(&lives[i], &lives[j]));
    }
  }
}

/* Forward activations that all live until their backward step, and gradients of which two live at once: as in a chain
 * of layers. */
static void chain_is_placed_without_waste(void **unused) {
  enum { LAYERS = 12 };
  life lives[2 * LAYERS];
  for (int i = 0; i < LAYERS; i++) {
    size_t bytes = (size_t)ALIGNMENT << (LAYERS - i);
    lives[i] = (life){bytes, 0, i, 2 * LAYERS - 1 - i};
    lives[LAYERS + i] = (life){bytes, 0, 2 * LAYERS - 2 - i, 2 * LAYERS - 1 - i};
  }
  assert_int_equal(place(lives, 2 * LAYERS), least(lives, 2 * LAYERS));
}

/* One after the other in one place; and all at once side by side. */
static void extremes(void **unused) {
  life one_by_one[10], at_once[10];
  for (int i = 0; i < 10; i++) {
    one_by_one[i] = (life){1000, 0, i, i};
    at_once[i] = (life){1000, 0, 0, 5};
  }
  assert_int_equal(place(one_by_one, 10), 1024);
  assert_int_equal(place(at_once, 10), 10240);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_lives),
      cmocka_unit_test(chain_is_placed_without_waste),
      cmocka_unit_test(extremes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Messages between processes of one host; here mostly two places of one process, which can read its own memory too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/host.h"

static const uint64_t second_ns = 1000000000;

static void join(int n, ronde__host **hosts) {
  ronde__host_offer offer = ronde__host_make(n);
  for (int i = 0; i < n; i++) hosts[i] = ronde__host_join(offer, i, n);
  ronde__host_withdraw(offer);
  for (int i = 0; i < n; i++) {
    if (!hosts[i] || !ronde__host_reaches_all(hosts[i])) {
      print_message("SKIP: this process may not read its own memory by the system's call\n");
      skip();
    }
  }
}

static void leave(int n, ronde__host **hosts) {
  for (int i = 0; i < n; i++) ronde__host_destroy(hosts[i]);
}

static ronde__host_transfer message(int peer, uint32_t tag, bool is_send, void *data, size_t bytes) {
  return (ronde__host_transfer){.peer = peer, .tag = tag, .is_send = is_send, .data = data, .bytes = bytes};
}

static void advance(ronde__host *host) { assert_int_equal(ronde__host_advance(host), RONDE_OK); }

static void messages_match_by_tag_in_order(void **state) {
  ronde__host *h[2];
  join(2, h);
  int out[3] = {10, 11, 12}, in[3] = {0};
  ronde__host_transfer sends[3], receives[3];
  static const uint32_t sent[] = {7, 8, 7}, wanted[] = {8, 7, 7};
  for (int early = 0; early < 3; early++) { /* receives that are posted before the sends */
    memset(in, 0, sizeof in);
    for (int i = 0; i < 3; i++) receives[i] = message(0, wanted[i], false, &in[i], sizeof in[i]);
    for (int i = 0; i < early; i++) ronde__host_post(h[1], &receives[i]);
    for (int i = 0; i < 3; i++) {
      sends[i] = message(1, sent[i], true, &out[i], sizeof out[i]);
      ronde__host_post(h[0], &sends[i]);
    }
    advance(h[1]);
    for (int i = early; i < 3; i++) ronde__host_post(h[1], &receives[i]);
    advance(h[1]);
    for (int i = 0; i < 3; i++) assert_true(!sends[i].done && receives[i].done && receives[i].came == sizeof(int));
    advance(h[0]);
    for (int i = 0; i < 3; i++) assert_true(sends[i].done);
    assert_true(in[0] == 11 && in[1] == 10 && in[2] == 12);
  }
  leave(2, h);
}

/* Many more than the shared memory holds; nothing is lost, and the order stays. */
static void no_message_is_too_many(void **state) {
  enum { N = 1000 };
  static int out[N], in[N];
  static ronde__host_transfer sends[N], receives[N];
  ronde__host *h[2];
  join(2, h);
  for (int i = 0; i < N; i++) {
    out[i] = i + 1;
    sends[i] = message(1, (uint32_t)i % 3, true, &out[i], sizeof out[i]);
    ronde__host_post(h[0], &sends[i]);
  }
  for (int i = 0; i < N; i++) {
    receives[i] = message(0, (uint32_t)(N - 1 - i) % 3, false, &in[i], sizeof in[i]);
    ronde__host_post(h[1], &receives[i]);
  }
  for (int i = 0; i < 2 * N / 100; i++) {
    advance(h[1]);
    advance(h[0]);
  }
  int next[3] = {0, 1, 2};
  for (int i = 0; i < N; i++) {
    int tag = (N - 1 - i) % 3;
    assert_true(receives[i].done && sends[i].done);
    assert_int_equal(in[i], out[next[tag]]);
    next[tag] += 3;
  }
  leave(2, h);
}

static void a_send_that_was_given_up_is_not_received(void **state) {
  ronde__host *h[2];
  join(2, h);
  int first = 1, second = 2, in = 0;
  ronde__host_transfer given_up = message(1, 5, true, &first, sizeof first);
  ronde__host_transfer receive = message(0, 5, false, &in, sizeof in);
  ronde__host_post(h[0], &given_up);
  ronde__host_cancel(h[0], &given_up);
  ronde__host_post(h[1], &receive);
  advance(h[1]);
  assert_false(receive.done);
  ronde__host_transfer send = message(1, 5, true, &second, sizeof second);
  ronde__host_post(h[0], &send);
  advance(h[1]);
  advance(h[0]);
  assert_true(receive.done && send.done && in == 2 && !given_up.done);
  ronde__host_transfer never = message(0, 6, false, &in, sizeof in);
  ronde__host_post(h[1], &never);
  ronde__host_cancel(h[1], &never);
  send = message(1, 6, true, &first, sizeof first);
  ronde__host_post(h[0], &send);
  advance(h[1]);
  assert_true(in == 2 && !never.done && !send.done);
  ronde__host_cancel(h[0], &send);
  leave(2, h);
}

static void another_length_is_told_and_not_copied(void **state) {
  ronde__host *h[2];
  join(2, h);
  char out[8] = "1234567", in[8] = "";
  ronde__host_transfer send = message(1, 1, true, out, 8), receive = message(0, 1, false, in, 6);
  ronde__host_post(h[0], &send);
  ronde__host_post(h[1], &receive);
  advance(h[1]);
  advance(h[0]);
  assert_true(receive.done && send.done && receive.came == 8 && in[0] == 0);
  leave(2, h);
}

static void a_process_that_is_gone_is_an_error(void **state) {
  ronde__host *h[2];
  join(2, h); /* or skips */
  leave(2, h);
  ronde__host_offer offer = ronde__host_make(2);
  int ready[2], in = 0;
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    static int out = 3;
    static ronde__host_transfer send;
    ronde__host *host = ronde__host_join(offer, 1, 2);
    send = message(0, 1, true, &out, sizeof out);
    if (host) ronde__host_post(host, &send);
    _exit(host && write(ready[1], "x", 1) == 1 ? 0 : 1);
  }
  ronde__host *host = ronde__host_join(offer, 0, 2);
  char byte;
  assert_non_null(host);
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_int_equal(waitpid(child, NULL, 0), child);
  ronde__host_transfer receive = message(1, 1, false, &in, sizeof in);
  ronde__host_post(host, &receive);
  advance(host);
  assert_true(receive.done && receive.error == ESRCH && in == 0);
  assert_false(ronde__host_reaches_all(host));
  ronde__host_withdraw(offer);
  ronde__host_destroy(host);
  close(ready[0]);
  close(ready[1]);
}

/* A thread of a place: sends to the other, and gets the same from there, each message as long as its number says. */
typedef struct side {
  ronde__host *host;
  int peer;
  uint32_t tag;
  bool right;
} side;

static void wait_for(ronde__host *host, ronde__host_transfer *t) {
  for (;;) {
    uint32_t seen = ronde__event_count(ronde__host_bell(host));
    if (ronde__host_advance(host) != RONDE_OK || atomic_load(&t->done)) return;
    ronde__event_wait(ronde__host_bell(host), seen, ronde__now_ns() + 20 * second_ns);
  }
}

static size_t length(int i) { return (size_t)(i * 37 % 5000) * sizeof(uint32_t); }

static void *run_side(void *arg) {
  enum { ROUNDS = 400 };
  side *s = arg;
  uint32_t *out = malloc(length(134) + 5000 * sizeof *out), *in = malloc(length(134) + 5000 * sizeof *in);
  s->right = out && in;
  for (int i = 0; i < ROUNDS && s->right; i++) {
    ronde__host_transfer send = message(s->peer, s->tag, true, out, length(i));
    ronde__host_transfer receive = message(s->peer, s->tag, false, in, length(i));
    for (size_t k = 0; k < length(i) / sizeof *out; k++) out[k] = (uint32_t)(k + (size_t)i) * 2654435761u ^ s->tag;
    ronde__host_post(s->host, &send);
    ronde__host_post(s->host, &receive);
    wait_for(s->host, &receive);
    wait_for(s->host, &send);
    s->right = receive.came == length(i) && !memcmp(in, out, length(i));
  }
  free(out);
  free(in);
  return NULL;
}

static void two_threads_of_each_place_at_once(void **state) {
  ronde__host *h[2];
  pthread_t threads[4];
  side sides[4];
  join(2, h);
  for (int i = 0; i < 4; i++) {
    sides[i] = (side){h[i % 2], 1 - i % 2, (uint32_t)i / 2, false};
    assert_int_equal(pthread_create(&threads[i], NULL, run_side, &sides[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_true(sides[i].right);
  }
  leave(2, h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_match_by_tag_in_order),
      cmocka_unit_test(no_message_is_too_many),
      cmocka_unit_test(a_send_that_was_given_up_is_not_received),
      cmocka_unit_test(another_length_is_told_and_not_copied),
      cmocka_unit_test(a_process_that_is_gone_is_an_error),
      cmocka_unit_test(two_threads_of_each_place_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

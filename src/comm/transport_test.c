/* Messages between ranks: matching, waiting, and every way in which it can go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "comm/transport.h"

static const uint64_t second_ns = 1000000000;

static char lines[4096];
static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static void listen_begin(void) {
  lines[0] = 0;
  ronde_log_set(keep_lines, NULL);
}

static void listen_end(const char *expected) {
  ronde_log_set(NULL, NULL);
  assert_string_equal(lines, expected);
}

static void make(int n, ronde__transport **t) { assert_int_equal(ronde__transport_threads(n, t), RONDE_OK); }

static void destroy(int n, ronde__transport **t) {
  for (int r = 0; r < n; r++) ronde__transport_destroy(t[r]);
}

static ronde__request send(ronde__transport *t, int peer, uint32_t tag, const void *data, size_t bytes) {
  ronde__request request;
  assert_int_equal(t->ops->isend(t, peer, tag, data, bytes, &request), RONDE_OK);
  return request;
}

static ronde__request receive(ronde__transport *t, int peer, uint32_t tag, void *data, size_t bytes) {
  ronde__request request;
  assert_int_equal(t->ops->irecv(t, peer, tag, data, bytes, &request), RONDE_OK);
  return request;
}

static ronde_status wait(ronde__transport *t, ronde__request *requests, int n) {
  return t->ops->wait(t, requests, n, 5 * second_ns);
}

static bool test(ronde__transport *t, ronde__request *request) {
  bool done;
  assert_int_equal(t->ops->test(t, request, &done), RONDE_OK);
  return done;
}

/* All from one thread: nothing blocks but wait. */
static void messages_match_by_source_and_tag_in_order(void **state) {
  ronde__transport *t[3];
  make(3, t);
  int out[5] = {10, 11, 12, 13, 14}, in[5] = {0};
  ronde__request sends[4], receives[5];
  sends[0] = send(t[0], 2, 7, &out[0], sizeof(int));
  sends[1] = send(t[0], 2, 8, &out[1], sizeof(int));
  sends[2] = send(t[0], 2, 7, &out[2], sizeof(int));
  sends[3] = send(t[1], 2, 7, &out[3], sizeof(int));
  assert_false(test(t[0], &sends[0]));
  receives[0] = receive(t[2], 1, 7, &in[0], sizeof(int));
  receives[1] = receive(t[2], 0, 8, &in[1], sizeof(int));
  receives[2] = receive(t[2], 0, 7, &in[2], sizeof(int));
  receives[3] = receive(t[2], 0, 7, &in[3], sizeof(int));
  receives[4] = receive(t[2], 0, 7, &in[4], sizeof(int));
  assert_int_equal(wait(t[2], receives, 4), RONDE_OK);
  assert_false(test(t[2], &receives[4]));
  ronde__request last = send(t[0], 2, 7, &out[4], sizeof(int));
  assert_int_equal(wait(t[2], receives, 5), RONDE_OK);
  for (int i = 0; i < 5; i++) assert_null(receives[i].impl);
  assert_int_equal(in[0], 13);
  assert_int_equal(in[1], 11);
  assert_int_equal(in[2], 10);
  assert_int_equal(in[3], 12);
  assert_int_equal(in[4], 14);
  assert_int_equal(wait(t[0], sends, 3), RONDE_OK);
  assert_true(test(t[0], &last));
  assert_true(test(t[0], &last));
  assert_int_equal(wait(t[1], &sends[3], 1), RONDE_OK);
  assert_int_equal(t[0]->messages, 4);
  assert_int_equal(t[0]->bytes_sent, 16);
  assert_int_equal(t[2]->bytes_received, 20);
  destroy(3, t);
}

static void sum(const float *a, const float *b, float *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

/* Whoever comes second adds. */
static void what_comes_is_added(void **state) {
  for (int send_first = 0; send_first < 2; send_first++) {
    ronde__transport *t[2];
    make(2, t);
    float out[3] = {1, 2, 3}, in[4] = {10, 20, 30, 40};
    ronde__request sent = {0}, received;
    if (send_first) sent = send(t[0], 1, 7, out, sizeof out);
    assert_int_equal(t[1]->ops->irecv_add(t[1], 0, 7, sum, in, in, 3, &received), RONDE_OK);
    if (!send_first) sent = send(t[0], 1, 7, out, sizeof out);
    assert_int_equal(wait(t[1], &received, 1), RONDE_OK);
    assert_int_equal(wait(t[0], &sent, 1), RONDE_OK);
    assert_true(in[0] == 11 && in[1] == 22 && in[2] == 33 && in[3] == 40);
    assert_int_equal(t[1]->bytes_received, 12);
    destroy(2, t);
  }
}

static void a_rank_may_send_to_itself_and_nothing_at_all(void **state) {
  ronde__transport *t[1];
  make(1, t);
  int out = 5, in = 0;
  ronde__request requests[4];
  requests[0] = send(t[0], 0, 1, &out, sizeof out);
  requests[1] = receive(t[0], 0, 1, &in, sizeof in);
  requests[2] = receive(t[0], 0, 2, NULL, 0);
  requests[3] = send(t[0], 0, 2, NULL, 0);
  assert_int_equal(wait(t[0], requests, 4), RONDE_OK);
  assert_int_equal(in, 5);
  assert_int_equal(wait(t[0], NULL, 0), RONDE_OK);
  destroy(1, t);
}

/* Long messages are copied by lines: heads and tails of every length, and nothing beside. */
static void every_length_and_alignment_arrives_whole(void **state) {
  static unsigned char out[9000], in[9000];
  ronde__transport *t[2];
  make(2, t);
  for (size_t i = 0; i < sizeof out; i++) out[i] = (unsigned char)(i * 7 + i / 256 + 1);
  for (size_t bytes = 4000; bytes < 4300; bytes += bytes % 5 + 1)
    for (size_t shift = 0; shift < 70; shift += shift % 7 + 1) {
      size_t from = bytes % 64, to = 100 + shift;
      memset(in, 0, sizeof in);
      ronde__request sent = send(t[0], 1, 1, out + from, bytes), received = receive(t[1], 0, 1, in + to, bytes);
      assert_int_equal(wait(t[1], &received, 1), RONDE_OK);
      assert_int_equal(wait(t[0], &sent, 1), RONDE_OK);
      assert_memory_equal(in + to, out + from, bytes);
      assert_int_equal(in[to - 1], 0);
      assert_int_equal(in[to + bytes], 0);
    }
  destroy(2, t);
}

static void unequal_lengths_are_the_receivers_error(void **state) {
  ronde__transport *t[2];
  make(2, t);
  int64_t out = 5, in = 0;
  for (int receive_first = 0; receive_first < 2; receive_first++) {
    ronde__request requests[2];
    listen_begin();
    if (receive_first) requests[1] = receive(t[1], 0, 3, &in, 4);
    requests[0] = send(t[0], 1, 3, &out, 8);
    if (!receive_first) requests[1] = receive(t[1], 0, 3, &in, 4);
    assert_int_equal(wait(t[1], &requests[1], 1), RONDE_E_INTERNAL);
    assert_int_equal(wait(t[0], &requests[0], 1), RONDE_OK);
    listen_end("the message from rank 0 to rank 1 with tag 0x3 has 8 bytes, not 4\n");
    assert_int_equal(in, 0);
    assert_null(requests[1].impl);
  }
  destroy(2, t);
}

static void a_rank_that_does_not_exist_is_refused(void **state) {
  ronde__transport *t[2];
  ronde__request request;
  int x = 0;
  make(2, t);
  listen_begin();
  assert_int_equal(t[0]->ops->isend(t[0], 2, 1, &x, sizeof x, &request), RONDE_E_INTERNAL);
  assert_int_equal(t[0]->ops->irecv(t[0], -1, 1, &x, sizeof x, &request), RONDE_E_INTERNAL);
  listen_end("transport threads: there is no rank 2 among 2\ntransport threads: there is no rank -1 among 2\n");
  listen_begin();
  assert_int_equal(ronde__transport_threads(0, t), RONDE_E_INTERNAL);
  listen_end("transport threads: 0 ranks, but at least 1 is needed\n");
  destroy(2, t);
}

static void after_a_time_out_the_buffer_is_free(void **state) {
  ronde__transport *t[3];
  make(3, t);
  int in = 1, out = 2;
  ronde__request requests[2];
  listen_begin();
  requests[0] = receive(t[0], 1, 4, &in, sizeof in);
  requests[1] = send(t[0], 2, 4, &out, sizeof out);
  uint64_t begin = ronde__now_ns();
  assert_int_equal(t[0]->ops->wait(t[0], requests, 2, 20000000), RONDE_E_LOST);
  assert_true(ronde__now_ns() - begin >= 20000000);
  listen_end("nothing heard from rank 1, 2 for 0.02 s\n");
  assert_null(requests[0].impl);
  assert_null(requests[1].impl);
  /* The late message finds nobody. */
  ronde__request late = send(t[1], 0, 4, &out, sizeof out);
  assert_false(test(t[1], &late));
  assert_int_equal(in, 1);
  t[1]->ops->cancel(t[1], &late, 1);
  assert_null(late.impl);
  destroy(3, t);
}

static void a_rank_that_has_left_is_named(void **state) {
  ronde__transport *t[2];
  make(2, t);
  int in = 0, out = 3, got = 0;
  ronde__request requests[2];
  ronde__request delivered = receive(t[0], 1, 5, &got, sizeof got);
  ronde__request sent = send(t[1], 0, 5, &out, sizeof out);
  requests[0] = receive(t[0], 1, 6, &in, sizeof in);
  assert_int_equal(wait(t[1], &sent, 1), RONDE_OK);
  ronde__transport_destroy(t[1]);
  /* What it had sent still counts. */
  assert_int_equal(wait(t[0], &delivered, 1), RONDE_OK);
  assert_int_equal(got, 3);
  listen_begin();
  assert_int_equal(wait(t[0], requests, 1), RONDE_E_LOST);
  listen_end("rank 1 has left while a message was under way (tag 0x6)\n");
  requests[0] = send(t[0], 1, 7, &out, sizeof out);
  bool done;
  listen_begin();
  assert_int_equal(t[0]->ops->test(t[0], &requests[0], &done), RONDE_E_LOST);
  listen_end("rank 1 has left while a message was under way (tag 0x7)\n");
  assert_null(requests[0].impl);
  ronde__transport_destroy(t[0]);
}

/* Under the address sanitizer: neither a leak nor a use of what is gone. */
static void leaving_with_requests_under_way_is_safe(void **state) {
  for (int order = 0; order < 2; order++) {
    ronde__transport *t[2];
    make(2, t);
    static char buffer[2][100];
    for (int i = 0; i < 100; i++) {
      send(t[0], 1, (uint32_t)i, &buffer[0][i], 1);
      if (i % 3 == 0) receive(t[1], 0, (uint32_t)i, &buffer[1][i], 1);
      receive(t[1], 0, (uint32_t)(1000 + i), &buffer[1][i], 1);
    }
    ronde__transport_destroy(t[order]);
    ronde__transport_destroy(t[1 - order]);
  }
  ronde__transport_destroy(NULL);
}

/* ---- with a thread for each rank ---- */

typedef struct player {
  ronde__transport *transport;
  ronde_status status;
  int value;
} player;

static void *wait_for_rank_0(void *arg) {
  player *p = arg;
  ronde__request request;
  p->status = p->transport->ops->irecv(p->transport, 0, 1, &p->value, sizeof p->value, &request);
  if (p->status == RONDE_OK) p->status = p->transport->ops->wait(p->transport, &request, 1, 30 * second_ns);
  return NULL;
}

static void abort_wakes_all_who_wait(void **state) {
  ronde__transport *t[4];
  pthread_t threads[4];
  player players[4];
  make(4, t);
  for (int r = 1; r < 4; r++) {
    players[r] = (player){.transport = t[r]};
    assert_int_equal(pthread_create(&threads[r], NULL, wait_for_rank_0, &players[r]), 0);
  }
  nanosleep(&(struct timespec){0, 20000000}, NULL); /* so that most runs find them asleep; right in any case */
  listen_begin();
  t[0]->ops->abort(t[0]);
  for (int r = 1; r < 4; r++) {
    pthread_join(threads[r], NULL);
    assert_int_equal(players[r].status, RONDE_E_LOST);
  }
  ronde__request request = {NULL};
  int x = 0;
  bool done;
  assert_int_equal(t[0]->ops->isend(t[0], 1, 1, &x, sizeof x, &request), RONDE_E_LOST);
  assert_int_equal(t[1]->ops->irecv(t[1], 0, 1, &x, sizeof x, &request), RONDE_E_LOST);
  assert_int_equal(t[2]->ops->wait(t[2], &request, 1, second_ns), RONDE_E_LOST);
  assert_int_equal(t[3]->ops->test(t[3], &request, &done), RONDE_E_LOST);
  listen_end("");
  destroy(4, t);
}

static void a_delayed_message_wakes_the_sleeper(void **state) {
  ronde__transport *t[2];
  pthread_t thread;
  make(2, t);
  player p = {.transport = t[1]};
  assert_int_equal(pthread_create(&thread, NULL, wait_for_rank_0, &p), 0);
  nanosleep(&(struct timespec){0, 5000000}, NULL);
  int out = 77;
  ronde__request request = send(t[0], 1, 1, &out, sizeof out);
  assert_int_equal(wait(t[0], &request, 1), RONDE_OK);
  pthread_join(thread, NULL);
  assert_int_equal(p.status, RONDE_OK);
  assert_int_equal(p.value, 77);
  destroy(2, t);
}

/* Two threads of each rank play ping-pong on tags of their own: each must hear its own wake-ups. */
enum { ROUNDS = 2000 };

typedef struct rally {
  ronde__transport *transport;
  uint32_t tag;
  int wrong;
} rally;

static void *play(void *arg) {
  rally *r = arg;
  ronde__transport *t = r->transport;
  int peer = 1 - t->rank;
  for (int i = 0; i < ROUNDS; i++) {
    int out = i * 2 + t->rank, in = -1;
    ronde__request requests[2];
    if (t->ops->irecv(t, peer, r->tag, &in, sizeof in, &requests[0]) != RONDE_OK ||
        t->ops->isend(t, peer, r->tag, &out, sizeof out, &requests[1]) != RONDE_OK ||
        t->ops->wait(t, requests, 2, 30 * second_ns) != RONDE_OK || in != i * 2 + peer) {
      r->wrong++;
      return NULL;
    }
  }
  return NULL;
}

static void two_threads_of_a_rank_wait_at_once(void **state) {
  ronde__transport *t[2];
  pthread_t threads[4];
  rally rallies[4];
  make(2, t);
  for (int i = 0; i < 4; i++) {
    rallies[i] = (rally){t[i % 2], (uint32_t)(i / 2), 0};
    assert_int_equal(pthread_create(&threads[i], NULL, play, &rallies[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(rallies[i].wrong, 0);
  }
  assert_int_equal(t[0]->messages, 2 * ROUNDS);
  destroy(2, t);
}

/* ---- alone ---- */

static void self_refuses_messages(void **state) {
  ronde__transport *t;
  assert_int_equal(ronde__transport_self(&t), RONDE_OK);
  assert_int_equal(t->size, 1);
  assert_int_equal(t->rank, 0);
  ronde__request request = {NULL};
  int x = 0;
  bool done = false;
  listen_begin();
  assert_int_equal(t->ops->isend(t, 0, 1, &x, sizeof x, &request), RONDE_E_INTERNAL);
  assert_int_equal(t->ops->irecv(t, 1, 1, &x, sizeof x, &request), RONDE_E_INTERNAL);
  listen_end(
      "transport self: a message to or from rank 0, but there is only rank 0\n"
      "transport self: a message to or from rank 1, but there is only rank 0\n");
  assert_int_equal(t->ops->test(t, &request, &done), RONDE_OK);
  assert_true(done);
  assert_int_equal(wait(t, &request, 1), RONDE_OK);
  uint64_t now = ronde__time_now(t->time);
  assert_true(ronde__time_now(t->time) >= now);
  t->ops->abort(t);
  assert_int_equal(wait(t, &request, 1), RONDE_E_LOST);
  ronde__transport_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(messages_match_by_source_and_tag_in_order),
      cmocka_unit_test(what_comes_is_added),
      cmocka_unit_test(a_rank_may_send_to_itself_and_nothing_at_all),
      cmocka_unit_test(every_length_and_alignment_arrives_whole),
      cmocka_unit_test(unequal_lengths_are_the_receivers_error),
      cmocka_unit_test(a_rank_that_does_not_exist_is_refused),
      cmocka_unit_test(after_a_time_out_the_buffer_is_free),
      cmocka_unit_test(a_rank_that_has_left_is_named),
      cmocka_unit_test(leaving_with_requests_under_way_is_safe),
      cmocka_unit_test(abort_wakes_all_who_wait),
      cmocka_unit_test(a_delayed_message_wakes_the_sleeper),
      cmocka_unit_test(two_threads_of_a_rank_wait_at_once),
      cmocka_unit_test(self_refuses_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every collective, on every transport, against an f64 oracle: inputs differ on each rank, results are equal to the
 * bit on all ranks and in every run. One planted bug shows that the comparison can fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/collective_testing.h"

static const int worlds[] = {1, 2, 3, 4, 7};

/* What a rank runs. Only the main thread may assert, so a rank returns a status. */
typedef ronde_status (*rank_fn)(ronde__transport *transport, void *arg);

typedef struct rank_call {
  rank_fn fn;
  ronde__transport *transport;
  void *arg;
  ronde_status status;
} rank_call;

static void *rank_main(void *arg) {
  rank_call *call = arg;
  call->status = call->fn(call->transport, call->arg);
  return NULL;
}

static void run_all_ranks(ronde__transport **transports, int p, rank_fn fn, void *arg, ronde_status *statuses_out) {
  pthread_t threads[MAX_RANKS];
  rank_call calls[MAX_RANKS];
  for (int r = 0; r < p; r++) {
    calls[r] = (rank_call){fn, transports[r], arg, RONDE_OK};
    assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &calls[r]), 0);
  }
  for (int r = 0; r < p; r++) {
    pthread_join(threads[r], NULL);
    statuses_out[r] = calls[r].status;
  }
}

/* ---- a transport that hands on to another and flips one bit of one message: the planted bug ---- */

typedef struct flipper {
  ronde__transport head;
  ronde__transport *inner;
  int message, sent;
  float copy[1 << 16];
} flipper;

static ronde_status flip_isend(ronde__transport *t, int peer, uint32_t tag, const void *data, size_t bytes,
                               ronde__request *request) {
  flipper *f = (flipper *)t;
  if (f->sent++ == f->message && bytes > 0 && bytes <= sizeof f->copy) {
    memcpy(f->copy, data, bytes);
    ((unsigned char *)f->copy)[2] ^= 0x40; /* above the rounding of a sum */
    data = f->copy;
  }
  return f->inner->ops->isend(f->inner, peer, tag, data, bytes, request);
}
static ronde_status flip_irecv(ronde__transport *t, int peer, uint32_t tag, void *data, size_t bytes,
                               ronde__request *request) {
  return ((flipper *)t)->inner->ops->irecv(((flipper *)t)->inner, peer, tag, data, bytes, request);
}
static ronde_status flip_wait(ronde__transport *t, ronde__request *requests, int n, uint64_t timeout_ns) {
  return ((flipper *)t)->inner->ops->wait(((flipper *)t)->inner, requests, n, timeout_ns);
}
static void flip_cancel(ronde__transport *t, ronde__request *requests, int n) {
  ((flipper *)t)->inner->ops->cancel(((flipper *)t)->inner, requests, n);
}
static const ronde__transport_ops flip_ops = {
    .name = "flipper", .isend = flip_isend, .irecv = flip_irecv, .wait = flip_wait, .cancel = flip_cancel};

/* ---- one case ---- */

static void trial_alloc(trial *t) {
  for (int r = 0; r < t->p; r++) assert_non_null(t->result[r] = ronde__alloc(result_n(t) * sizeof(float)));
}

static void trial_free(trial *t) {
  for (int r = 0; r < t->p; r++) ronde__free(t->result[r]);
}

/* Whether all ranks have the same right values. */
static bool same_and_right(const trial *t) {
  for (int r = 1; r < t->p; r++)
    if (memcmp(t->result[0], t->result[r], result_n(t) * sizeof(float))) return false;
  return right(t, t->result[0]);
}

static void make_group(bool self, int p, ronde__transport **transports) {
  if (self) assert_int_equal(ronde__transport_self(transports), RONDE_OK);
  else assert_int_equal(ronde__transport_threads(p, transports), RONDE_OK);
}

static void destroy_group(ronde__transport **transports, int p) {
  for (int r = 0; r < p; r++) ronde__transport_destroy(transports[r]);
}

static void all_ok(const ronde_status *statuses, int p) {
  for (int r = 0; r < p; r++) assert_int_equal(statuses[r], RONDE_OK);
}

static bool has_root(const trial *t) { return t->op.kind == BROADCAST || t->op.kind == REDUCE; }

/* Twice the same bits, and right. */
static void check_trial(ronde__transport **transports, trial *t) {
  ronde_status statuses[MAX_RANKS];
  size_t bytes = result_n(t) * sizeof(float);
  trial_alloc(t);
  run_all_ranks(transports, t->p, run_trial, t, statuses);
  all_ok(statuses, t->p);
  assert_true(same_and_right(t));
  float *first = t->result[0];
  assert_non_null(t->result[0] = ronde__alloc(bytes));
  run_all_ranks(transports, t->p, run_trial, t, statuses);
  all_ok(statuses, t->p);
  assert_memory_equal(first, t->result[0], bytes);
  ronde__free(first);
  trial_free(t);
}

static void check_world(bool self, int p) {
  const ronde__kernels *kernels;
  ronde__transport *transports[MAX_RANKS];
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  make_group(self, p, transports);
  for (size_t o = 0; o < RONDE__COUNT(operations); o++)
    for (size_t s = 0; s < RONDE__COUNT(trial_sizes); s++) {
      trial t = {.op = operations[o], .p = p, .n = trial_sizes[s], .tag = 5, .kernels = kernels};
      for (t.root = 0; t.root < (has_root(&t) ? p : 1); t.root++) check_trial(transports, &t);
    }
  destroy_group(transports, p);
}

static void self_alone(void **state) { check_world(true, 1); }

static void threads_of_every_number(void **state) {
  for (size_t w = 0; w < RONDE__COUNT(worlds); w++) check_world(false, worlds[w]);
}

/* As if the ranks were on several hosts, as many on each or not. */
static void hosts_of_every_shape(void **state) {
  static const int shapes[][MAX_RANKS] = {
      {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 1, 2, 3}, {0, 1, 1, 0, 1, 2, 1}};
  for (size_t i = 0; i < RONDE__COUNT(shapes); i++) {
    int p = i < 4 ? 4 : 7;
    ronde__transport *transports[MAX_RANKS];
    make_group(false, p, transports);
    for (int r = 0; r < p; r++) transports[r]->host_of = shapes[i];
    for (size_t s = 0; s < RONDE__COUNT(trial_sizes); s++) {
      trial t = {.op = {ALLREDUCE, "hierarchical"}, .p = p, .n = trial_sizes[s], .tag = 5};
      assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
      check_trial(transports, &t);
    }
    destroy_group(transports, p);
  }
}

/* Between two hosts of two ranks only the sum of each host crosses, once in each direction. */
static void hosts_exchange_their_sums_only(void **state) {
  static const int hosts[] = {0, 0, 1, 1};
  ronde__transport *transports[MAX_RANKS];
  trial t = {.op = {ALLREDUCE, "hierarchical"}, .p = 4, .n = 4000, .tag = 5};
  assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
  make_group(false, t.p, transports);
  for (int r = 0; r < t.p; r++) transports[r]->host_of = hosts;
  check_trial(transports, &t);
  /* Twice, by each rank: half of x inside the host, and again, and half of x in two halves to the other host. */
  for (int r = 0; r < t.p; r++) assert_int_equal(transports[r]->bytes_sent, 2 * (2 + 1) * t.n / 2 * sizeof(float));
  destroy_group(transports, t.p);
}

static void algorithms_have_names(void **state) {
  int n = 0;
  for (; ronde__allreduce_at(n); n++)
    assert_ptr_equal(ronde__allreduce_find(ronde__allreduce_at(n)->name), ronde__allreduce_at(n));
  assert_int_equal(n, 5);
  assert_null(ronde__allreduce_at(-1));
  assert_null(ronde__allreduce_find("star"));
  ronde__transport *transport;
  make_group(true, 1, &transport);
  assert_non_null(ronde__allreduce_find("mpi")->refuses(transport));
  ronde__transport_destroy(transport);
}

/* Longer than some pieces, so that the double buffers come round: 2(p-1)/p n elements sent by each. */
static void many_pieces(void **state) {
  for (int o = 0; o < 2; o++) {
    trial t = {.op = operations[o], .p = 2, .n = 300001, .tag = 1};
    ronde__transport *transports[MAX_RANKS];
    ronde_status statuses[MAX_RANKS];
    assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
    make_group(false, t.p, transports);
    trial_alloc(&t);
    run_all_ranks(transports, t.p, run_trial, &t, statuses);
    all_ok(statuses, t.p);
    assert_true(same_and_right(&t));
    assert_int_equal(transports[0]->bytes_sent + transports[1]->bytes_sent, 2 * t.n * sizeof(float));
    assert_int_equal(transports[0]->bytes_received, transports[1]->bytes_sent);
    assert_true(transports[0]->messages > 4);
    trial_free(&t);
    destroy_group(transports, t.p);
  }
}

/* Rank 0 flips a bit of its message number `message` (-1: of none): whether it was seen, and how many it sent. */
static bool flip_is_seen(operation op, int message, int *n_sent_out) {
  trial t = {.op = op, .p = 3, .n = 1000, .tag = 9};
  ronde__transport *transports[MAX_RANKS], *wrapped[MAX_RANKS];
  ronde_status statuses[MAX_RANKS];
  assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
  make_group(false, t.p, transports);
  flipper *f = calloc(1, sizeof *f);
  assert_non_null(f);
  memcpy(wrapped, transports, sizeof wrapped);
  *f = (flipper){.head = *transports[0], .inner = transports[0], .message = message};
  f->head.ops = &flip_ops;
  wrapped[0] = &f->head;
  trial_alloc(&t);
  run_all_ranks(wrapped, t.p, run_trial, &t, statuses);
  all_ok(statuses, t.p);
  bool seen = !same_and_right(&t);
  *n_sent_out = f->sent;
  trial_free(&t);
  destroy_group(transports, t.p);
  free(f);
  return seen;
}

static void a_flipped_bit_is_caught(void **state) {
  for (size_t o = 0; o < RONDE__COUNT(operations); o++) {
    int n_sent, again;
    assert_false(flip_is_seen(operations[o], -1, &n_sent)); /* the wrapper alone is harmless */
    assert_true(n_sent > 0);
    for (int message = 0; message < n_sent; message++) assert_true(flip_is_seen(operations[o], message, &again));
  }
}

/* ---- two threads of a rank at once ---- */

typedef struct pair {
  trial own, side;
} pair;

typedef struct side_job {
  ronde__transport *transport;
  trial *trial;
} side_job;

static ronde_status run_side(void *arg) {
  side_job *job = arg;
  for (int i = 0; i < 20; i++) RONDE_TRY(run_trial(job->transport, job->trial));
  return RONDE_OK;
}

static ronde_status run_pair(ronde__transport *transport, void *arg) {
  pair *pair = arg;
  ronde__comm_thread *comm;
  side_job job = {transport, &pair->side};
  RONDE_TRY(ronde__comm_thread_create(transport->time, transport->rank, false, &comm));
  ronde_status status = ronde__comm_thread_submit(comm, run_side, &job);
  for (int i = 0; i < 20 && status == RONDE_OK; i++) status = run_trial(transport, &pair->own);
  ronde_status drained = ronde__comm_thread_drain(comm);
  ronde__comm_thread_destroy(comm);
  return status != RONDE_OK ? status : drained;
}

static void collectives_with_distinct_tags_run_at_once(void **state) {
  const ronde__kernels *kernels;
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  for (int p = 2; p <= 3; p++) {
    pair pair = {.own = {.op = {ALLREDUCE, "ring"}, .p = p, .n = 50021, .tag = 1, .kernels = kernels},
                 .side = {.op = {ALLREDUCE, "ring"}, .p = p, .n = 50020, .tag = 2, .kernels = kernels}};
    ronde__transport *transports[MAX_RANKS];
    ronde_status statuses[MAX_RANKS];
    make_group(false, p, transports);
    trial_alloc(&pair.own);
    trial_alloc(&pair.side);
    run_all_ranks(transports, p, run_pair, &pair, statuses);
    all_ok(statuses, p);
    assert_true(same_and_right(&pair.own));
    assert_true(same_and_right(&pair.side));
    trial_free(&pair.own);
    trial_free(&pair.side);
    destroy_group(transports, p);
  }
}

/* ---- a rank that never comes ---- */

static char lines[4096];
static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

/* All meet first: a thread that starts late on a busy machine would be missed too. */
static ronde_status run_unless_2(ronde__transport *transport, void *arg) {
  char met[MAX_RANKS] = {0};
  RONDE_TRY(ronde__allgather(transport, 1, met, 1));
  transport->timeout_ns = 1000000000;
  return transport->rank == 2 ? RONDE_OK : run_trial(transport, arg);
}

static void a_missing_rank_is_named_once(void **state) {
  for (size_t k = 0; k < RONDE__COUNT(operations); k++) {
    trial t = {.op = operations[k], .p = 4, .root = 2, .n = 100003, .tag = 3};
    ronde__transport *transports[MAX_RANKS];
    ronde_status statuses[MAX_RANKS];
    assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
    make_group(false, t.p, transports);
    trial_alloc(&t);
    lines[0] = 0;
    ronde_log_set(keep_lines, NULL);
    run_all_ranks(transports, t.p, run_unless_2, &t, statuses);
    ronde_log_set(NULL, NULL);
    for (int r = 0; r < t.p; r++) assert_int_equal(statuses[r], r == 2 ? RONDE_OK : RONDE_E_LOST);
    assert_string_equal(lines, "nothing heard from rank 2 for 1 s\n");
    trial_free(&t);
    destroy_group(transports, t.p);
  }
}

static ronde_status abort_as_2(ronde__transport *transport, void *arg) {
  if (transport->rank != 2) return run_trial(transport, arg);
  transport->ops->abort(transport);
  return run_trial(transport, arg);
}

static void an_abort_ends_every_collective_silently(void **state) {
  for (size_t k = 0; k < RONDE__COUNT(operations); k++) {
    trial t = {.op = operations[k], .p = 4, .root = 2, .n = 1000, .tag = 3};
    ronde__transport *transports[MAX_RANKS];
    ronde_status statuses[MAX_RANKS];
    assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
    make_group(false, t.p, transports);
    trial_alloc(&t);
    lines[0] = 0;
    ronde_log_set(keep_lines, NULL);
    run_all_ranks(transports, t.p, abort_as_2, &t, statuses);
    ronde_log_set(NULL, NULL);
    for (int r = 0; r < t.p; r++) assert_int_equal(statuses[r], RONDE_E_LOST);
    assert_string_equal(lines, "");
    trial_free(&t);
    destroy_group(transports, t.p);
  }
}

/* ---- choosing ---- */

typedef enum host_spread { IN_TURN, IN_BLOCKS, ONE_APART } host_spread;

/* Of p ranks over hosts: each host's turn in turn, each host's ranks together, or all but the last on the first. */
static ronde__ranks spread_ranks(int p, int n_hosts, host_spread how, int *host_of) {
  for (int r = 0; r < p; r++)
    host_of[r] = how == IN_TURN ? r % n_hosts : how == IN_BLOCKS ? r * n_hosts / p : r == p - 1 && n_hosts > 1;
  return (ronde__ranks){p, host_of};
}

static void long_vectors_go_by_bytes_and_short_ones_by_messages(void **state) {
  static const struct {
    int p, n_hosts;
    host_spread how;
    size_t bytes;
    const char *expected;
  } cases[] = {
      {1, 1, IN_TURN, 4000000, "ring"},
      {2, 1, IN_TURN, 4000000, "ring"},
      {3, 1, IN_TURN, 4000000, "ring"},
      {4, 1, IN_TURN, 4000000, "ring"},
      {3, 1, IN_TURN, 248024, "ring"}, /* lenet5 */
      {4, 1, IN_TURN, 248024, "ring"},
      {8, 1, IN_TURN, 248024, "halving-doubling"},
      {4, 1, IN_TURN, 4096, "halving-doubling"},
      {3, 1, IN_TURN, 4096, "tree"},
      {2, 2, IN_TURN, 4096, "halving-doubling"},
      {2, 2, IN_TURN, 65536, "ring"},
      {3, 3, IN_TURN, 248024, "ring"},
      {16, 16, IN_TURN, 248024, "halving-doubling"},
      {16, 16, IN_TURN, 100000000, "ring"},
      {8, 2, IN_TURN, 4000000, "hierarchical"},
      {8, 2, IN_BLOCKS, 4000000, "hierarchical"},
      {4, 2, IN_TURN, 250000, "hierarchical"},
      {4, 2, IN_TURN, 4096, "halving-doubling"},
      {8, 2, ONE_APART, 4096, "hierarchical"},
      {8, 8, ONE_APART, 40000000, "hierarchical"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    int host_of[16];
    ronde__ranks ranks = spread_ranks(cases[i].p, cases[i].n_hosts, cases[i].how, host_of);
    const char *name = ronde__allreduce_auto(&ranks, cases[i].bytes / sizeof(float))->name;
    if (strcmp(name, cases[i].expected))
      fail_msg("%d ranks on %d hosts, %zu bytes: %s, not %s", cases[i].p, cases[i].n_hosts, cases[i].bytes, name,
               cases[i].expected);
  }
}

/* For any ranks: no algorithm is passed over that the model has as faster by the margin, the order of equal hosts
 * does not matter, and every call gives the same. */
static void check_choice(int p, int n_hosts, host_spread how, size_t n) {
  int host_of[24], turned[24];
  ronde__ranks ranks = spread_ranks(p, n_hosts, how, host_of), other = {p, turned};
  const ronde__allreduce *chosen = ronde__allreduce_auto(&ranks, n), *one;
  int hosts = ronde__ranks_hosts(&ranks);
  for (int r = 0; r < p; r++) turned[r] = hosts - 1 - host_of[r];
  assert_ptr_equal(chosen, ronde__allreduce_auto(&ranks, n));
  assert_ptr_equal(chosen, ronde__allreduce_auto(&other, n));
  if (hosts == 1) assert_ptr_equal(chosen, ronde__allreduce_auto(&(ronde__ranks){.n = p}, n));
  assert_non_null(chosen->seconds);
  for (int i = 0; (one = ronde__allreduce_at(i)); i++)
    if (one->seconds) assert_true(chosen->seconds(&ranks, n) <= 1.2501 * one->seconds(&ranks, n));
}

static void the_choice_is_a_function_of_places_and_length(void **state) {
  for (int p = 1; p <= 24; p++)
    for (int n_hosts = 1; n_hosts <= p; n_hosts++)
      for (size_t n = 0; n <= 64 << 20; n = n ? 8 * n : 1)
        for (host_spread how = IN_TURN; how <= ONE_APART; how++) check_choice(p, n_hosts, how, n);
}

/* The model counts what runs: the bytes that the busiest rank sends, where only bytes cost. */
static void the_model_knows_the_bytes_of_a_ring(void **state) {
  for (int p = 2; p <= 7; p++) {
    ronde__ranks ranks = {.n = p};
    double long_s = ronde__allreduce_find("ring")->seconds(&ranks, (size_t)p << 20);
    double short_s = ronde__allreduce_find("ring")->seconds(&ranks, 0);
    double bytes = (long_s - short_s) / ronde__within_host.beta_s;
    trial t = {.op = {ALLREDUCE, "ring"}, .p = p, .n = (size_t)p << 10, .tag = 1};
    ronde__transport *transports[MAX_RANKS];
    assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
    make_group(false, p, transports);
    trial_alloc(&t);
    ronde_status statuses[MAX_RANKS];
    run_all_ranks(transports, p, run_trial, &t, statuses);
    all_ok(statuses, p);
    assert_float_equal(bytes, 1024.0 * (double)transports[0]->bytes_sent, 1024);
    trial_free(&t);
    destroy_group(transports, p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(self_alone),
      cmocka_unit_test(threads_of_every_number),
      cmocka_unit_test(hosts_of_every_shape),
      cmocka_unit_test(hosts_exchange_their_sums_only),
      cmocka_unit_test(algorithms_have_names),
      cmocka_unit_test(many_pieces),
      cmocka_unit_test(a_flipped_bit_is_caught),
      cmocka_unit_test(collectives_with_distinct_tags_run_at_once),
      cmocka_unit_test(a_missing_rank_is_named_once),
      cmocka_unit_test(an_abort_ends_every_collective_silently),
      cmocka_unit_test(long_vectors_go_by_bytes_and_short_ones_by_messages),
      cmocka_unit_test(the_choice_is_a_function_of_places_and_length),
      cmocka_unit_test(the_model_knows_the_bytes_of_a_ring),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every collective, on every transport, against an f64 oracle: inputs differ on each rank, results are equal to the
 * bit on all ranks and in every run. One planted bug shows that the comparison can fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "comm/collective.h"

enum { MAX_RANKS = 7 };

static const size_t sizes[] = {0, 1, 2, 6, 7, 1000, 100003};
static const int worlds[] = {1, 2, 3, 4, 7};

/* What a rank runs; asserts are for the main thread only, so that it hands back a status. */
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

static void run_ranks(ronde__transport **transports, int p, rank_fn fn, void *arg, ronde_status *statuses_out) {
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

/* ---- one case: collective, ranks, size ---- */

typedef enum kind { ALLREDUCE, ALLGATHER, BROADCAST, N_KINDS } kind;

typedef struct trial {
  kind kind;
  int p, root;
  size_t n;
  uint32_t tag;
  const ronde__kernels *kernels;
  float *result[MAX_RANKS]; /* [n], or [p][n] */
} trial;

static float input(int rank, size_t i) {
  uint32_t v[4];
  ronde__philox(11, (uint64_t)rank, i, v);
  return (float)(int32_t)v[0] * 0x1p-31f;
}

static size_t result_n(const trial *t) { return t->kind == ALLGATHER ? t->n * (size_t)t->p : t->n; }

static ronde_status run_trial(ronde__transport *transport, void *arg) {
  trial *t = arg;
  int r = transport->rank;
  float *x = t->result[r], *scratch = NULL;
  size_t n_scratch = t->kind == ALLREDUCE ? ronde__allreduce_ring_scratch(t->n, t->p) : 0;
  for (size_t i = 0; i < result_n(t); i++) x[i] = -77;
  for (size_t i = 0; i < t->n; i++) x[(t->kind == ALLGATHER ? (size_t)r * t->n : 0) + i] = input(r, i);
  if (n_scratch) RONDE__ALLOC(scratch, n_scratch * sizeof *scratch, "test");
  ronde_status status = t->kind == ALLREDUCE   ? ronde__allreduce_ring(transport, t->kernels, t->tag, x, t->n, scratch)
                        : t->kind == ALLGATHER ? ronde__allgather_ring(transport, t->tag, x, t->n * sizeof *x)
                                               : ronde__broadcast_tree(transport, t->tag, t->root, x, t->n * sizeof *x);
  ronde__free(scratch);
  return status;
}

static bool right(const trial *t, const float *x) {
  for (size_t i = 0; i < result_n(t); i++) {
    double expected = 0, bound = 0;
    if (t->kind == ALLREDUCE)
      for (int r = 0; r < t->p; r++) {
        expected += (double)input(r, i);
        bound += fabs((double)input(r, i)) * 0x1p-24 * t->p;
      }
    else expected = (double)(t->kind == ALLGATHER ? input((int)(i / t->n), i % t->n) : input(t->root, i));
    if (!(fabs((double)x[i] - expected) <= bound)) return false;
  }
  return true;
}

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

static void check_world(bool self, int p) {
  const ronde__kernels *kernels;
  ronde__transport *transports[MAX_RANKS];
  ronde_status statuses[MAX_RANKS];
  assert_int_equal(ronde__kernels_get(&kernels), RONDE_OK);
  make_group(self, p, transports);
  for (int k = 0; k < N_KINDS; k++)
    for (size_t s = 0; s < RONDE__COUNT(sizes); s++)
      for (int root = 0; root < (k == BROADCAST ? p : 1); root++) {
        trial t = {.kind = (kind)k, .p = p, .root = root, .n = sizes[s], .tag = 5, .kernels = kernels};
        trial_alloc(&t);
        run_ranks(transports, p, run_trial, &t, statuses);
        all_ok(statuses, p);
        assert_true(same_and_right(&t));
        /* Again: the same bits. */
        size_t bytes = result_n(&t) * sizeof(float);
        float *first = t.result[0];
        assert_non_null(t.result[0] = ronde__alloc(bytes));
        run_ranks(transports, p, run_trial, &t, statuses);
        all_ok(statuses, p);
        assert_memory_equal(first, t.result[0], bytes);
        ronde__free(first);
        trial_free(&t);
      }
  destroy_group(transports, p);
}

static void self_alone(void **state) { check_world(true, 1); }

static void threads_of_every_number(void **state) {
  for (size_t w = 0; w < RONDE__COUNT(worlds); w++) check_world(false, worlds[w]);
}

/* Longer than some pieces, so that the double buffers of the ring come round. */
static void many_pieces(void **state) {
  trial t = {.kind = ALLREDUCE, .p = 2, .n = 300001, .tag = 1};
  ronde__transport *transports[MAX_RANKS];
  ronde_status statuses[MAX_RANKS];
  assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
  make_group(false, t.p, transports);
  trial_alloc(&t);
  run_ranks(transports, t.p, run_trial, &t, statuses);
  all_ok(statuses, t.p);
  assert_true(same_and_right(&t));
  /* 2(p-1)/p n elements sent by each. */
  assert_int_equal(transports[0]->bytes_sent + transports[1]->bytes_sent, 2 * t.n * sizeof(float));
  assert_int_equal(transports[0]->bytes_received, transports[1]->bytes_sent);
  assert_true(transports[0]->messages > 4);
  trial_free(&t);
  destroy_group(transports, t.p);
}

static void a_flipped_bit_is_caught(void **state) {
  static const int n_messages[] = {[ALLREDUCE] = 4, [ALLGATHER] = 2, [BROADCAST] = 2}; /* of rank 0 among 3 */
  for (int k = 0; k < N_KINDS; k++)
    for (int message = 0; message <= n_messages[k]; message++) {
      trial t = {.kind = (kind)k, .p = 3, .n = 1000, .tag = 9};
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
      run_ranks(wrapped, t.p, run_trial, &t, statuses);
      all_ok(statuses, t.p);
      /* The last time the message is never sent: the wrapper alone is harmless. */
      assert_int_equal(f->sent, n_messages[k]);
      assert_int_equal(same_and_right(&t), message == n_messages[k]);
      trial_free(&t);
      destroy_group(transports, t.p);
      free(f);
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
  RONDE_TRY(ronde__comm_thread_create(transport->rank, &comm));
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
    pair pair = {.own = {.kind = ALLREDUCE, .p = p, .n = 50021, .tag = 1, .kernels = kernels},
                 .side = {.kind = ALLREDUCE, .p = p, .n = 50020, .tag = 2, .kernels = kernels}};
    ronde__transport *transports[MAX_RANKS];
    ronde_status statuses[MAX_RANKS];
    make_group(false, p, transports);
    trial_alloc(&pair.own);
    trial_alloc(&pair.side);
    run_ranks(transports, p, run_pair, &pair, statuses);
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
  RONDE_TRY(ronde__allgather_ring(transport, 1, met, 1));
  transport->timeout_ns = 1000000000;
  return transport->rank == 2 ? RONDE_OK : run_trial(transport, arg);
}

static void a_missing_rank_is_named_once(void **state) {
  for (int k = 0; k < N_KINDS; k++) {
    trial t = {.kind = (kind)k, .p = 4, .root = 2, .n = 100003, .tag = 3};
    ronde__transport *transports[MAX_RANKS];
    ronde_status statuses[MAX_RANKS];
    assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
    make_group(false, t.p, transports);
    trial_alloc(&t);
    lines[0] = 0;
    ronde_log_set(keep_lines, NULL);
    run_ranks(transports, t.p, run_unless_2, &t, statuses);
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
  for (int k = 0; k < N_KINDS; k++) {
    trial t = {.kind = (kind)k, .p = 4, .root = 2, .n = 1000, .tag = 3};
    ronde__transport *transports[MAX_RANKS];
    ronde_status statuses[MAX_RANKS];
    assert_int_equal(ronde__kernels_get(&t.kernels), RONDE_OK);
    make_group(false, t.p, transports);
    trial_alloc(&t);
    lines[0] = 0;
    ronde_log_set(keep_lines, NULL);
    run_ranks(transports, t.p, abort_as_2, &t, statuses);
    ronde_log_set(NULL, NULL);
    for (int r = 0; r < t.p; r++) assert_int_equal(statuses[r], RONDE_E_LOST);
    assert_string_equal(lines, "");
    trial_free(&t);
    destroy_group(transports, t.p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(self_alone),
      cmocka_unit_test(threads_of_every_number),
      cmocka_unit_test(many_pieces),
      cmocka_unit_test(a_flipped_bit_is_caught),
      cmocka_unit_test(collectives_with_distinct_tags_run_at_once),
      cmocka_unit_test(a_missing_rank_is_named_once),
      cmocka_unit_test(an_abort_ends_every_collective_silently),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

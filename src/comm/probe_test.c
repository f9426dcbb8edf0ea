/* What is measured of a link: against a model of one, in virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "comm/probe.h"
#include "comm/tags.h"

/* The leading rank's end of a link that lets BURST bytes pass at once and then RATE a second (a token bucket), with a
 * peer that answers every word. */
enum { RATE = 25000000, BURST = 256 << 10, LATENCY_NS = 200000 };

typedef struct model {
  ronde__transport transport;
  ronde__time time;
  double now, full_at; /* ns: the time, and when the bucket is full again */
  int n_messages, held_up_at;
} model;

static model *model_of_time(ronde__time *time) { return (model *)((char *)time - offsetof(model, time)); }

static uint64_t model_now(ronde__time *time) { return (uint64_t)model_of_time(time)->now; }

static void model_pass(model *m, size_t bytes) {
  const double ns_per_byte = 1e9 / RATE;
  if (m->full_at < m->now) m->full_at = m->now;
  m->full_at += ns_per_byte * (double)bytes;
  double gone = m->full_at - ns_per_byte * BURST;
  if (gone > m->now) m->now = gone;
}

/* Something holds up one message for 40 ms after it has passed, while the bucket fills. */
static ronde_status model_move(ronde__transport *t, uint32_t tag, size_t bytes, ronde__request *request_out) {
  model *m = (model *)t;
  *request_out = (ronde__request){0};
  model_pass(m, bytes);
  if (tag >> 8 == RONDE__TAG_PROBE_WORD) m->now += LATENCY_NS;
  else if (++m->n_messages == m->held_up_at) m->now += 40e6;
  return RONDE_OK;
}

static ronde_status model_isend(ronde__transport *t, int peer, uint32_t tag, const void *data, size_t bytes,
                                ronde__request *request_out) {
  return model_move(t, tag, bytes, request_out);
}

static ronde_status model_irecv(ronde__transport *t, int peer, uint32_t tag, void *data, size_t bytes,
                                ronde__request *request_out) {
  if (tag >> 8 == RONDE__TAG_PROBE_WORD) memset(data, 0, bytes);
  return model_move(t, tag, bytes, request_out);
}

static ronde_status model_wait(ronde__transport *t, ronde__request *requests, int n, uint64_t timeout_ns) {
  return RONDE_OK;
}

static void check_link(int held_up_at) {
  static const ronde__transport_ops ops = {
      .name = "model", .isend = model_isend, .irecv = model_irecv, .wait = model_wait};
  static const ronde__time_ops time_ops = {.now_ns = model_now};
  model m = {.transport = {.ops = &ops, .size = 2, .piece_bytes = RONDE__PIECE_BYTES},
             .time = {&time_ops},
             .held_up_at = held_up_at};
  m.transport.time = &m.time;
  ronde__link link;
  assert_int_equal(ronde__probe_link(&m.transport, 1, true, &link), RONDE_OK);
  assert_true(fabs(link.latency_s - 1e-9 * LATENCY_NS) < 1e-6);
  /* What passes at once is at most a quarter of the messages that count. */
  if (link.to_bytes_per_s > 1.34 * RATE || link.from_bytes_per_s > 1.34 * RATE || link.to_bytes_per_s < 0.9 * RATE ||
      link.from_bytes_per_s < 0.9 * RATE)
    fail_msg("%g and %g bytes a second of %g, held up at message %d", link.to_bytes_per_s, link.from_bytes_per_s,
             (double)RATE, held_up_at);
}

static void a_link_has_its_rate(void **state) { check_link(0); }

/* A message that is held up is no long one, and buffers that emptied meanwhile do not make the next one fast. */
static void a_message_that_is_held_up_misleads_nobody(void **state) {
  for (int at = 1; at <= 12; at++) check_link(at);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_link_has_its_rate),
      cmocka_unit_test(a_message_that_is_held_up_misleads_nobody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

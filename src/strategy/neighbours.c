/* Messages between the stages of a network. A value has a tag for its way forward, and one for its gradient's. */
#include "strategy/neighbours.h"

#include "comm/tags.h"

static uint32_t neighbours_tag(int message, bool backward) {
  return RONDE__WIRE_TAG(RONDE__TAG_STRATEGY + message, backward);
}

static ronde_status neighbours_send(void *user, ronde__side side, int message, const float *x, size_t n,
                                    void **under_way_out) {
  const ronde__neighbour_ranks *r = user;
  ronde__request request = {0};
  ronde_status status = r->transport->ops->isend(
      r->transport, r->rank_of[side], neighbours_tag(message, side == RONDE__IN_FRONT), x, n * sizeof *x, &request);
  *under_way_out = request.impl;
  return status;
}

static ronde_status neighbours_expect(void *user, ronde__side side, int message, float *x, size_t n,
                                      void **under_way_out) {
  const ronde__neighbour_ranks *r = user;
  ronde__request request = {0};
  ronde_status status = r->transport->ops->irecv(
      r->transport, r->rank_of[side], neighbours_tag(message, side == RONDE__BEHIND), x, n * sizeof *x, &request);
  *under_way_out = request.impl;
  return status;
}

/* The phase that a wait interrupts. */
static ronde__phase begin_wait(const ronde__neighbour_ranks *r) {
  ronde__phase phase = ronde__prof_phase(r->prof);
  if (phase != RONDE__PHASE_EVAL) ronde__prof_switch(r->prof, RONDE__PHASE_WAIT);
  return phase;
}

static ronde_status neighbours_receive(void *user, ronde__side side, int message, float *x, size_t n) {
  const ronde__neighbour_ranks *r = user;
  ronde__phase phase = begin_wait(r);
  ronde_status status = ronde__transport_receive(r->transport, r->rank_of[side],
                                                 neighbours_tag(message, side == RONDE__BEHIND), x, n * sizeof *x);
  ronde__prof_switch(r->prof, phase);
  return status;
}

static ronde_status neighbours_wait(void *user, void **under_way) {
  const ronde__neighbour_ranks *r = user;
  ronde__request request = {*under_way};
  if (!request.impl) return RONDE_OK;
  ronde__phase phase = begin_wait(r);
  ronde_status status = r->transport->ops->wait(r->transport, &request, 1, r->transport->timeout_ns);
  ronde__prof_switch(r->prof, phase);
  *under_way = NULL;
  return status;
}

static void neighbours_cancel(void *user, void **under_way) {
  const ronde__neighbour_ranks *r = user;
  ronde__request request = {*under_way};
  r->transport->ops->cancel(r->transport, &request, 1);
  *under_way = NULL;
}

void ronde__neighbour_ranks_set(ronde__neighbour_ranks *ranks, ronde__transport *transport, ronde__prof *prof,
                                int in_front, int behind) {
  *ranks = (ronde__neighbour_ranks){
      .transport = transport,
      .prof = prof,
      .rank_of = {[RONDE__IN_FRONT] = in_front, [RONDE__BEHIND] = behind},
      .messages = {neighbours_send, neighbours_receive, neighbours_expect, neighbours_wait, neighbours_cancel, ranks}};
}

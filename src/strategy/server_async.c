/* Update on arrival: whoever's push is complete first is first. Each worker's pushes land in a place of its own, which
 * then holds what that worker is sent: no worker waits for another's network. Source: Dean et al., "Large scale
 * distributed deep networks", NIPS 2012. */
#include "strategy/server_impl.h"

#include <stdlib.h>
#include <string.h>

enum { LISTENING, RECEIVING, ANSWERING, GONE };

static float *place_of(const ronde__server *s, int w) { return s->pushed + (size_t)w * s->n; }
static ronde__request *requests_of(const ronde__server *s, int w) { return s->requests + w * (s->n_buckets + 1); }

static bool all_done(const ronde__server *s, int w) {
  for (int i = 0; i <= s->n_buckets; i++)
    if (requests_of(s, w)[i].impl) return false;
  return true;
}

static ronde_status listen(ronde__server *s, int w) {
  ronde__transport *group = s->o.group;
  s->clients[w] = LISTENING;
  return group->ops->irecv(group, w, RONDE__PS_TAG(RONDE__PS_HEAD), &s->heads[w], sizeof s->heads[w],
                           requests_of(s, w));
}

static ronde_status receive_push(ronde__server *s, int w) {
  ronde__transport *group = s->o.group;
  ronde__request *requests = requests_of(s, w);
  s->clients[w] = RECEIVING;
  for (int b = 0; b < s->n_buckets; b++)
    if (ronde__server_length(s, b))
      RONDE_TRY(group->ops->irecv(group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_PUSH + b)), place_of(s, w) + s->begin[b],
                                  ronde__server_length(s, b) * sizeof(float), &requests[b]));
  return group->ops->irecv(group, w, RONDE__PS_TAG(RONDE__PS_PART), &s->parts[w], sizeof s->parts[w],
                           &requests[s->n_buckets]);
}

/* A copy travels: the next update waits for nobody. */
static ronde_status answer(ronde__server *s, int w) {
  ronde__transport *group = s->o.group;
  ronde__request *requests = requests_of(s, w);
  s->clients[w] = ANSWERING;
  s->answers[w] = (ronde__ps_answer){s->version, s->stop};
  if (s->n) memcpy(place_of(s, w), s->values, s->n * sizeof *s->values);
  RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_ANSWER), &s->answers[w], sizeof s->answers[w],
                              &requests[s->n_buckets]));
  for (int b = s->n_buckets - 1; b >= 0; b--)
    if (ronde__server_length(s, b))
      RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG((uint32_t)(RONDE__PS_PULL + b)), place_of(s, w) + s->begin[b],
                                  ronde__server_length(s, b) * sizeof(float), &requests[b]));
  return RONDE_OK;
}

static ronde_status note(ronde__server *s, int w) {
  ronde__staleness *staleness = &s->staleness;
  int64_t late = s->version - s->heads[w].version;
  staleness->n++;
  staleness->sum += late;
  staleness->max = ronde__max(staleness->max, late);
  staleness->histogram[ronde__min(late, RONDE__STALENESS_BINS - 1)]++;
  if (!s->o.records_order) return RONDE_OK;
  if (s->n_order == s->order_capacity) {
    int64_t capacity = 2 * s->order_capacity + 64;
    ronde__ps_update *larger = realloc(s->order, (size_t)capacity * sizeof *larger);
    if (!larger) return ronde__fail(RONDE_E_MEMORY, "parameter server: no memory for the order of pushes");
    s->order = larger;
    s->order_capacity = capacity;
  }
  s->order[s->n_order++] = (ronde__ps_update){w, s->heads[w].step};
  return RONDE_OK;
}

static ronde_status update(ronde__server *s, int w) {
  const ronde__part *part = &s->parts[w];
  s->stop |= part->cancel || part->broken;
  if (part->broken) return RONDE_OK;
  RONDE_TRY(note(s, w));
  uint64_t begin_ns = ronde__prof_switch(s->prof, RONDE__PHASE_UPDATE);
  ronde__optim_begin(s->optim, s->heads[w].lr);
  ronde__optim_range_on(s->optim, s->o.pool, s->values, place_of(s, w), 0, s->n);
  s->version++;
  ronde__prof_op_add(s->prof, s->update_slot, begin_ns, ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE), 0);
  return RONDE_OK;
}

static ronde_status go_on(ronde__server *s, int w) {
  switch (s->clients[w]) {
    case LISTENING:
      if (s->heads[w].kind == RONDE__PS_STEP) return receive_push(s, w);
      if (s->heads[w].kind == RONDE__PS_FETCH) return answer(s, w);
      s->clients[w] = GONE;
      return RONDE_OK;
    case RECEIVING:
      RONDE_TRY(update(s, w));
      return answer(s, w);
    default: return listen(s, w);
  }
}

ronde_status ronde__server_on_arrival(ronde__server *s) {
  ronde__transport *group = s->o.group;
  int n_workers = s->o.n_workers, n_gone = 0;
  RONDE__ALLOC(s->clients, (size_t)n_workers * sizeof *s->clients, "parameter server");
  RONDE__ALLOC(s->answers, (size_t)n_workers * sizeof *s->answers, "parameter server");
  for (int w = 0; w < n_workers; w++) RONDE_TRY(listen(s, w));
  while (n_gone < n_workers) {
    ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
    RONDE_TRY(group->ops->wait_some(group, s->requests, s->n_requests, RONDE__PS_IDLE_NS));
    ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
    for (int w = 0; w < n_workers; w++) {
      if (s->clients[w] == GONE || !all_done(s, w)) continue;
      RONDE_TRY(go_on(s, w));
      n_gone += s->clients[w] == GONE;
    }
  }
  return RONDE_OK;
}

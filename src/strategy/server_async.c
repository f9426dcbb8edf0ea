/* Update on arrival: whoever's push is complete first is first. Source: Dean et al., "Large scale
 * distributed deep networks", NIPS 2012. A strategy may hold a worker's answer back, and with it the worker.
 * A worker that is lost has gone: what it has pushed completely counts, the rest is dropped, by each server for its own
 * piece. Nobody is held for it. */
#include "strategy/server_rows.h"

/* A copy of the parameters travels: the next update waits for nobody. */
static ronde_status answer(ronde__server *s, int w) {
  ronde__transport *group = s->group;
  s->clients[w] = RONDE__CLIENT_ANSWERING;
  s->answers[w] = (ronde__ps_answer){s->version, s->stop};
  RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_ANSWER), &s->answers[w], sizeof s->answers[w],
                              &ronde__client_requests(s, w)[s->n_buckets]));
  if (s->heads[w].kind == RONDE__PS_PUSH_ALONE) return RONDE_OK;
  if (s->heads[w].whole) ronde__server_rows_all_moved(s, w);
  return ronde__client_send_values(s, w);
}

/* Where all have met they fetch without a step of their own, and nothing depends on the order. */
static ronde_status answer_fetch(ronde__server *s, int w) {
  if (s->heads[w].step) RONDE_TRY(ronde__server_note_order(s, w));
  return answer(s, w);
}

static ronde_status note(ronde__server *s, int w) {
  ronde__staleness *staleness = &s->staleness;
  int64_t late = s->version - s->heads[w].version;
  staleness->n++;
  staleness->sum += late;
  staleness->max = ronde__max(staleness->max, late);
  staleness->histogram[ronde__min(late, RONDE__STALENESS_BINS - 1)]++;
  return ronde__server_note_order(s, w);
}

static ronde_status update(ronde__server *s, int w) {
  const ronde__local_result *found = &s->results[w];
  s->stop |= found->cancel || found->broken;
  if (found->broken) return RONDE_OK;
  RONDE_TRY(note(s, w));
  uint64_t begin_ns = ronde__prof_switch(s->prof, RONDE__PHASE_UPDATE);
  ronde__optim_begin(s->optim, s->heads[w].lr);
  ronde__server_rows_begin(s);
  ronde__server_rows_join(s, w, -1);
  ronde__server_update(s, w, 0, s->n);
  ronde__server_rows_moved(s);
  s->version++;
  ronde__prof_op_add(s->prof, s->update_slot, begin_ns, ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE), 0);
  return RONDE_OK;
}

/* All begin with the same step, which may be one behind a checkpoint. */
static void note_done(ronde__server *s, int w) {
  int64_t step = s->heads[w].step;
  for (int v = 0; v < s->n_workers && !s->any_done; v++) s->done[v] = step - 1;
  s->any_done = true;
  s->done[w] = step;
}

static ronde_status answer_or_hold(ronde__server *s, int w) {
  if (!s->holds || !s->holds(s, w)) return answer(s, w);
  s->clients[w] = RONDE__CLIENT_READY;
  return RONDE_OK;
}

static ronde_status go_on(ronde__server *s, int w) {
  switch (s->clients[w]) {
  case RONDE__CLIENT_LISTENING:
    if (s->heads[w].kind == RONDE__PS_STEP || s->heads[w].kind == RONDE__PS_PUSH_ALONE)
      return ronde__client_receive(s, w);
    if (s->heads[w].kind == RONDE__PS_PASS) {
      note_done(s, w);
      return ronde__client_listen(s, w);
    }
    if (s->heads[w].kind == RONDE__PS_FETCH) return answer_fetch(s, w);
    if (s->heads[w].kind == RONDE__PS_GIVE_STATE) {
      RONDE_TRY(ronde__server_give_state(s));
      return ronde__client_listen(s, w);
    }
    s->clients[w] = RONDE__CLIENT_GONE;
    return RONDE_OK;
  case RONDE__CLIENT_PUSHING:
    RONDE_TRY(update(s, w));
    note_done(s, w);
    return answer_or_hold(s, w);
  default: return ronde__client_listen(s, w);
  }
}

/* Those that need not wait any more, at once: what they are sent is what this update has made. */
static ronde_status answer_held(ronde__server *s) {
  for (int w = 0; w < s->n_workers; w++)
    if (s->clients[w] == RONDE__CLIENT_READY) RONDE_TRY(answer_or_hold(s, w));
  return RONDE_OK;
}

static ronde_status serve_worker(ronde__server *s, int w) {
  if (s->clients[w] == RONDE__CLIENT_GONE) return RONDE_OK;
  if (ronde__transport_lost(s->group, w)) {
    s->group->ops->cancel(s->group, ronde__client_requests(s, w), RONDE__CLIENT_REQUESTS(s));
    s->clients[w] = RONDE__CLIENT_GONE;
  } else {
    bool done;
    if (s->clients[w] == RONDE__CLIENT_READY) return RONDE_OK;
    RONDE_TRY(ronde__client_advance(s, w, &done));
    if (!done) return RONDE_OK;
    RONDE_TRY(go_on(s, w));
  }
  return answer_held(s);
}

static int n_gone(const ronde__server *s) {
  int n = 0;
  for (int w = 0; w < s->n_workers; w++) n += s->clients[w] == RONDE__CLIENT_GONE;
  return n;
}

ronde_status ronde__server_on_arrival(ronde__server *s) {
  ronde__transport *group = s->group;
  int n_workers = s->n_workers;
  RONDE__ALLOC(s->answers, (size_t)n_workers * sizeof *s->answers, "parameter server");
  RONDE__ALLOC(s->done, (size_t)n_workers * sizeof *s->done, "parameter server");
  RONDE_TRY(ronde__clients_create(s));
  while (n_gone(s) < n_workers) {
    ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
    RONDE_TRY(group->ops->wait_some(group, s->requests, s->n_requests, group->timeout_ns));
    ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
    for (int w = 0; w < n_workers; w++) RONDE_TRY(serve_worker(s, w));
  }
  return RONDE_OK;
}

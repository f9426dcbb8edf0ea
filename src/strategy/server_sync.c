/* In lockstep: a step is all workers' pushes, summed in the order of ranks whatever came first. */
#include "strategy/server_rows.h"

static ronde_status receive(ronde__server *s, int worker, uint32_t tag, void *data, size_t bytes,
                            ronde__request *request) {
  return s->group->ops->irecv(s->group, worker, RONDE__PS_TAG(tag), data, bytes, request);
}

/* Until every worker begins a step, or is done. The scheduler's comes first: while it asks for the state, others may
 * wait for the scheduler. */
static ronde_status take_heads(ronde__server *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  for (int w = 0; w < s->n_workers; w++)
    RONDE_TRY(receive(s, w, RONDE__PS_HEAD, &s->heads[w], sizeof s->heads[w], &s->requests[w]));
  RONDE_TRY(ronde__server_wait(s, s->requests, 1));
  while (s->heads[0].kind == RONDE__PS_GIVE_STATE) {
    RONDE_TRY(ronde__server_give_state(s));
    RONDE_TRY(ronde__server_take(s, RONDE__PS_HEAD, &s->heads[0], sizeof s->heads[0]));
  }
  RONDE_TRY(ronde__server_wait(s, s->requests, s->n_workers));
  if (s->met_ns == 0) s->met_ns = ronde__time_now(s->group->time); /* they begin the first step together */
  return RONDE_OK;
}

static ronde_status receive_bucket(ronde__server *s, int b) {
  for (int w = 0; w < s->n_workers; w++) {
    size_t n = ronde__server_pushed_length(s, w, b);
    if (n)
      RONDE_TRY(receive(s, w, (uint32_t)(RONDE__PS_PUSH + b), s->pushed + (size_t)w * s->n + s->begin[b],
                        n * sizeof(float), &s->requests[b * s->n_workers + w]));
  }
  return RONDE_OK;
}

static ronde__request *requests_of_rows(const ronde__server *s, int w) {
  return s->requests + (s->n_buckets + 1) * s->n_workers + w * s->n_tables;
}

/* What says which rows of tables come precedes a bucket that has some. */
static ronde_status learn_rows(ronde__server *s, int b) {
  for (int w = 0; w < s->n_workers; w++)
    for (int t = 0; t < s->n_tables; t++) {
      if (!ronde__server_rows_has(s, b, t)) continue;
      RONDE_TRY(ronde__server_wait(s, requests_of_rows(s, w) + t, 1));
      ronde__server_rows_learn(s, w, t);
      ronde__server_rows_join(s, w, t);
    }
  return receive_bucket(s, b);
}

static ronde_status take_bucket(ronde__server *s, int b) {
  if (ronde__server_rows_in(s, b)) RONDE_TRY(learn_rows(s, b));
  RONDE_TRY(ronde__server_wait(s, s->requests + b * s->n_workers, s->n_workers));
  for (int w = 0; w < s->n_workers; w++) ronde__server_rows_spread(s, w, b);
  for (int w = 1; w < s->n_workers; w++) ronde__server_add(s, w, 0, s->begin[b], ronde__server_length(s, b));
  return RONDE_OK;
}

/* Sums in the order of ranks, whatever came first. */
static ronde_status take_pushes(ronde__server *s) {
  int n_workers = s->n_workers;
  ronde__request *results = s->requests + s->n_buckets * n_workers;
  uint64_t begin = ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
  ronde__server_rows_begin(s);
  for (int w = 0; w < n_workers; w++) RONDE_TRY(ronde__server_rows_receive(s, w, requests_of_rows(s, w)));
  for (int b = 0; b < s->n_buckets; b++)
    if (!ronde__server_rows_in(s, b)) RONDE_TRY(receive_bucket(s, b));
  for (int w = 0; w < n_workers; w++)
    RONDE_TRY(receive(s, w, RONDE__PS_RESULT, &s->results[w], sizeof s->results[w], &results[w]));
  for (int b = 0; b < s->n_buckets; b++) RONDE_TRY(take_bucket(s, b));
  ronde__server_rows_summed(s, 0);
  RONDE_TRY(ronde__server_wait(s, results, n_workers));
  uint64_t end = ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
  ronde__local_results_waited(s->results, n_workers, s->prof, s->met_ns, begin, end);
  s->met_ns = end;
  return RONDE_OK;
}

/* In lockstep all workers are sent the same rows. */
static ronde_status send_bucket(ronde__server *s, int b) {
  ronde__transport *group = s->group;
  const float *from = s->values + s->begin[b];
  size_t n = ronde__server_length(s, b);
  if (ronde__server_rows_in(s, b)) {
    n = ronde__server_rows_gather(s, 0, 0, b);
    from = s->pushed + s->begin[b];
  }
  for (int w = 0; w < s->n_workers && n; w++)
    RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_PULL + (uint32_t)b), from, n * sizeof *from,
                                &s->requests[b * s->n_workers + w]));
  return RONDE_OK;
}

/* First layers first: the next forward pass needs them first. */
static ronde_status update_and_send(ronde__server *s) {
  RONDE_TRY(ronde__server_clip(s, s->pushed));
  ronde__optim_begin(s->optim, s->heads[0].lr);
  ronde__server_rows_moved(s);
  for (int w = 0; w < s->n_workers; w++) RONDE_TRY(ronde__server_rows_tell(s, w, requests_of_rows(s, w)));
  for (int b = s->n_buckets - 1; b >= 0; b--) {
    size_t begin = s->begin[b], n = ronde__server_length(s, b);
    if (n == 0) continue;
    uint64_t begin_ns = ronde__prof_switch(s->prof, RONDE__PHASE_UPDATE);
    ronde__server_update(s, 0, begin, n);
    ronde__prof_op_add(s->prof, s->update_slot, begin_ns, ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE), 0);
    RONDE_TRY(send_bucket(s, b));
  }
  return RONDE_OK;
}

static ronde_status one_step(ronde__server *s) {
  int n_workers = s->n_workers;
  ronde__transport *group = s->group;
  ronde__request *told = s->requests + s->n_buckets * n_workers;
  RONDE_TRY(take_pushes(s));
  for (int w = 0; w < n_workers && s->index == 0; w++)
    RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_RESULTS), s->results,
                                (size_t)n_workers * sizeof *s->results, &told[w]));
  if (ronde__local_results_join(s->results, n_workers).broken_rank < 0) RONDE_TRY(update_and_send(s));
  return group->ops->wait(group, s->requests, s->n_requests, group->timeout_ns);
}

ronde_status ronde__server_in_step(ronde__server *s) {
  for (;;) {
    RONDE_TRY(take_heads(s));
    if (s->heads[0].kind == RONDE__PS_END) return RONDE_OK;
    RONDE_TRY(one_step(s));
  }
}

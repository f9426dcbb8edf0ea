/* Steps that do not wait for the slowest workers: server.h says how. Server 0 decides, and the others do the same once
 * they have received the same. */
#include "strategy/server_rows.h"

#include <inttypes.h>
#include <string.h>

/* What server 0 sends a worker in front of the parameters: how the steps ended that it has not heard of yet. */
typedef struct news {
  ronde__ps_news head;
  int64_t capacity, told; /* told: the newest step that it has heard of */
  uint64_t ready_ns;      /* when its last push was complete */
  ronde__ps_outcome *outcomes;
} news;

typedef struct backup {
  ronde__server *server;
  bool decides; /* this is server 0 */
  /* Server 0 */
  int64_t step;            /* the newest that is closed; -1: not known yet */
  ronde__rank_set counted; /* whose pushes of the next step are here */
  int n_counted;
  bool cancelled;
  uint64_t decided_ns;         /* when it decided to answer */
  news *news;                  /* [workers] */
  ronde__ps_outcome *outcomes; /* [n_outcomes] of the newest steps: those that somebody has not heard of */
  int64_t n_outcomes, capacity;
  ronde__ps_decision *sent; /* [n_slots]: more than can be under way, see backup_tell */
  ronde__request *sending;  /* [n_slots][servers] */
  int64_t n_slots, n_sent;
  /* The others */
  ronde__ps_decision decision; /* the next one, where `deciding` is done */
  ronde__request *deciding;
  bool over;
} backup;

static bool is_ready(const backup *b, int w) { return b->server->clients[w] == RONDE__CLIENT_READY; }

/* ---- what servers tell -------------------------------------------------------------------------------------------- */

/* Between two steps each worker is answered at most once, and the next step cannot close before all servers have done
 * what was decided on the last one: no wait, unless another server is far behind in what it has received. */
static ronde_status backup_tell(backup *b, ronde__ps_decision decision) {
  const ronde__server *s = b->server;
  ronde__transport *group = s->group;
  int64_t slot = b->n_sent++ % b->n_slots;
  ronde__request *requests = b->sending + slot * s->n_servers;
  RONDE_TRY(group->ops->wait(group, requests, s->n_servers, group->timeout_ns));
  b->sent[slot] = decision;
  for (int i = 1; i < s->n_servers; i++)
    RONDE_TRY(group->ops->isend(group, s->server_ranks[i], RONDE__PS_TAG(RONDE__PS_DECISION), &b->sent[slot],
                                sizeof b->sent[slot], &requests[i]));
  return RONDE_OK;
}

static ronde_status hear(backup *b) {
  ronde__transport *group = b->server->group;
  return group->ops->irecv(group, b->server->server_ranks[0], RONDE__PS_TAG(RONDE__PS_DECISION), &b->decision,
                           sizeof b->decision, b->deciding);
}

static ronde_status backup_make_room(ronde__ps_outcome **outcomes, int64_t *capacity, int64_t n) {
  if (n <= *capacity) return RONDE_OK;
  ronde__ps_outcome *larger;
  RONDE__ALLOC(larger, (size_t)(2 * n) * sizeof *larger, "parameter server");
  if (*capacity) memcpy(larger, *outcomes, (size_t)*capacity * sizeof *larger);
  ronde__free(*outcomes);
  *outcomes = larger;
  *capacity = 2 * n;
  return RONDE_OK;
}

/* Outcomes that all have heard of are not needed any more. */
static void forget(backup *b) {
  int64_t told = b->step;
  for (int w = 0; w < b->server->n_workers; w++) told = ronde__min(told, b->news[w].told);
  int64_t n = b->step - told;
  memmove(b->outcomes, b->outcomes + (b->n_outcomes - n), (size_t)n * sizeof *b->outcomes);
  b->n_outcomes = n;
}

static ronde_status send_news(backup *b, int w) {
  ronde__server *s = b->server;
  ronde__transport *group = s->group;
  ronde__request *requests = ronde__client_requests(s, w) + s->n_buckets;
  news *own = &b->news[w];
  int64_t n = b->step - own->told;
  own->head = (ronde__ps_news){n, b->decided_ns - own->ready_ns};
  RONDE_TRY(backup_make_room(&own->outcomes, &own->capacity, n));
  size_t bytes = (size_t)n * sizeof *own->outcomes;
  memcpy(own->outcomes, b->outcomes + (b->n_outcomes - n), bytes);
  own->told = b->step;
  forget(b);
  RONDE_TRY(group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_NEWS), &own->head, sizeof own->head, &requests[0]));
  return group->ops->isend(group, w, RONDE__PS_TAG(RONDE__PS_NEWS), own->outcomes, bytes, &requests[1]);
}

static ronde_status answer(backup *b, int w) {
  b->server->clients[w] = RONDE__CLIENT_ANSWERING;
  if (b->decides) RONDE_TRY(send_news(b, w));
  return ronde__client_send_values(b->server, w);
}

/* ---- a step ------------------------------------------------------------------------------------------------------- */

/* The mean over the examples that count: workers have divided by the number of all. Summed in the order of ranks. */
static ronde_status update(backup *b, const ronde__rank_set *counted) {
  ronde__server *s = b->server;
  int sum = -1;
  int64_t examples = 0;
  const ronde__ps_head *head = NULL;
  uint64_t begin = ronde__prof_switch(s->prof, RONDE__PHASE_UPDATE);
  ronde__server_rows_begin(s);
  for (int w = 0; w < s->n_workers; w++)
    if (ronde__rank_set_has(counted, w)) ronde__server_rows_join(s, w, -1);
  for (int w = 0; w < s->n_workers; w++) {
    if (!ronde__rank_set_has(counted, w)) continue;
    RONDE_TRY(ronde__server_note_order(s, w));
    head = &s->heads[w];
    examples += head->examples;
    if (sum >= 0) ronde__server_add(s, w, sum, 0, s->n);
    else sum = w;
  }
  float scale = (float)((double)head->step_examples / (double)examples);
  float *gradients = ronde__client_slot(s, sum);
  ronde__server_rows_summed(s, sum);
  if (scale != 1) s->o.kernels->scale(gradients, scale, (int64_t)s->n);
  RONDE_TRY(ronde__server_clip(s, gradients));
  ronde__optim_begin(s->optim, head->lr);
  ronde__server_update(s, sum, 0, s->n);
  ronde__server_rows_moved(s);
  ronde__prof_op_add(s->prof, s->update_slot, begin, ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE), 0);
  return RONDE_OK;
}

static ronde__ps_outcome outcome_of(const backup *b, const ronde__ps_decision *d) {
  const ronde__server *s = b->server;
  ronde__ps_outcome o = {.step = d->step, .cancelled = b->cancelled, .broken_rank = -1, .broken_param = -1};
  int64_t n_contributors = 0;
  for (int w = 0; w < s->n_workers; w++) {
    if (!ronde__rank_set_has(&d->counted, w)) continue;
    const ronde__local_result *found = &s->results[w];
    n_contributors = s->heads[w].n_contributors;
    o.examples += s->heads[w].examples;
    o.loss_sum += found->loss_sum;
    o.n_correct += found->n_correct;
    if (!found->broken || o.broken_rank >= 0) continue;
    o.broken_rank = w;
    o.broken_param = found->broken - 2;
  }
  for (int w = 0; w < n_contributors; w++)
    if (!ronde__rank_set_has(&d->counted, w)) ronde__rank_set_add(&o.left_out, w);
  return o;
}

static ronde_status close_step(backup *b, const ronde__ps_decision *d) {
  ronde__server *s = b->server;
  ronde__ps_outcome outcome = outcome_of(b, d);
  if (outcome.broken_rank < 0) RONDE_TRY(update(b, &d->counted));
  if (b->decides) {
    RONDE_TRY(backup_make_room(&b->outcomes, &b->capacity, b->n_outcomes + 1));
    b->outcomes[b->n_outcomes++] = outcome;
    b->step = d->step;
  }
  for (int w = 0; w < s->n_workers; w++)
    if (ronde__rank_set_has(&d->counted, w)) RONDE_TRY(answer(b, w));
  return RONDE_OK;
}

/* ---- server 0 decides --------------------------------------------------------------------------------------------- */

static ronde_status answer_apart(backup *b, int w) {
  RONDE_TRY(backup_tell(b, (ronde__ps_decision){.verdict = RONDE__PS_DO_ANSWER, .step = b->step, .worker = w}));
  return answer(b, w);
}

static ronde_status close_next(backup *b) {
  const ronde__server *s = b->server;
  ronde__ps_decision d = {.verdict = RONDE__PS_DO_CLOSE, .step = b->step + 1, .worker = -1, .counted = b->counted};
  b->counted = (ronde__rank_set){{0}};
  b->n_counted = 0;
  RONDE_TRY(backup_tell(b, d));
  RONDE_TRY(close_step(b, &d));
  for (int w = 0; w < s->n_workers; w++) /* who has no example in it has been waiting for its end */
    if (is_ready(b, w) && s->heads[w].step <= b->step) RONDE_TRY(answer_apart(b, w));
  return RONDE_OK;
}

static ronde_status check_head(const backup *b, int w) {
  const ronde__ps_head *h = &b->server->heads[w];
  bool fits = h->step == b->news[w].told + 1 && h->examples >= 0 && h->examples <= h->step_examples &&
              h->n_contributors > 0 && h->n_contributors <= b->server->n_workers;
  return fits ? RONDE_OK
              : ronde__fail(RONDE_E_INTERNAL,
                            "worker %d pushed %" PRId64 " examples for step %" PRId64
                            ", which does not fit the group's step %" PRId64,
                            w, h->examples, h->step, b->step);
}

/* The push of a worker is here, or its word that it has none. */
static ronde_status decide(backup *b, int w) {
  const ronde__ps_head *h = &b->server->heads[w];
  if (b->step < 0) {
    b->step = h->step - 1;
    for (int v = 0; v < b->server->n_workers; v++) b->news[v].told = b->step;
  }
  RONDE_TRY(check_head(b, w));
  b->decided_ns = b->news[w].ready_ns = ronde__time_now(b->server->group->time);
  if (h->examples > 0) b->cancelled |= b->server->results[w].cancel != 0;
  if (h->step <= b->step) return answer_apart(b, w);
  if (h->examples == 0) return RONDE_OK;
  ronde__rank_set_add(&b->counted, w);
  return ++b->n_counted < ronde__max(1, h->n_contributors - b->server->o.settings->options->backup) ? RONDE_OK
                                                                                                    : close_next(b);
}

/* ---- the others follow -------------------------------------------------------------------------------------------- */

/* Whether all that a decision is about has been received here too. */
static bool can_follow(const backup *b, const ronde__ps_decision *d) {
  const ronde__server *s = b->server;
  if (d->verdict == RONDE__PS_DO_ANSWER) return is_ready(b, (int)d->worker);
  for (int w = 0; w < s->n_workers && d->verdict == RONDE__PS_DO_CLOSE; w++)
    if (ronde__rank_set_has(&d->counted, w) && !(is_ready(b, w) && s->heads[w].step == d->step)) return false;
  return true;
}

static ronde_status check_decision(const backup *b, const ronde__ps_decision *d) {
  bool any = false;
  for (int w = 0; w < b->server->n_workers; w++) any |= ronde__rank_set_has(&d->counted, w);
  bool fits = d->verdict == RONDE__PS_DO_END || (d->verdict == RONDE__PS_DO_CLOSE && any) ||
              (d->verdict == RONDE__PS_DO_ANSWER && d->worker >= 0 && d->worker < b->server->n_workers);
  return fits ? RONDE_OK : ronde__fail(RONDE_E_INTERNAL, "server 0 sent an invalid decision");
}

static ronde_status follow(backup *b) {
  while (!b->over && !b->deciding->impl) {
    const ronde__ps_decision d = b->decision;
    RONDE_TRY(check_decision(b, &d));
    if (!can_follow(b, &d)) return RONDE_OK;
    b->over = d.verdict == RONDE__PS_DO_END;
    if (d.verdict == RONDE__PS_DO_CLOSE) RONDE_TRY(close_step(b, &d));
    if (d.verdict == RONDE__PS_DO_ANSWER) RONDE_TRY(answer(b, (int)d.worker));
    if (!b->over) RONDE_TRY(hear(b));
  }
  return RONDE_OK;
}

/* ---- all ---------------------------------------------------------------------------------------------------------- */

static ronde_status go_on(backup *b, int w) {
  ronde__server *s = b->server;
  bool pushed = s->clients[w] == RONDE__CLIENT_PUSHING;
  if (s->clients[w] == RONDE__CLIENT_ANSWERING) return ronde__client_listen(s, w);
  if (!pushed && s->heads[w].kind == RONDE__PS_GIVE_STATE) {
    RONDE_TRY(ronde__server_give_state(s));
    return ronde__client_listen(s, w);
  }
  if (!pushed && s->heads[w].kind == RONDE__PS_END) {
    s->clients[w] = RONDE__CLIENT_GONE;
    return RONDE_OK;
  }
  if (!pushed && s->heads[w].examples > 0) return ronde__client_receive(s, w);
  s->clients[w] = RONDE__CLIENT_READY;
  return b->decides ? decide(b, w) : RONDE_OK;
}

static ronde_status serve(backup *b) {
  ronde__server *s = b->server;
  ronde__transport *group = s->group;
  int n_gone = 0;
  RONDE_TRY(ronde__clients_create(s));
  if (!b->decides) RONDE_TRY(hear(b));
  while (n_gone < s->n_workers || !(b->decides || b->over)) {
    ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
    RONDE_TRY(group->ops->wait_some(group, s->requests, s->n_requests, group->timeout_ns));
    ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
    for (int w = 0; w < s->n_workers; w++) {
      bool done;
      if (s->clients[w] == RONDE__CLIENT_GONE || is_ready(b, w)) continue;
      RONDE_TRY(ronde__client_advance(s, w, &done));
      if (!done) continue;
      RONDE_TRY(go_on(b, w));
      n_gone += s->clients[w] == RONDE__CLIENT_GONE;
    }
    if (!b->decides) RONDE_TRY(follow(b));
    if (b->decides && n_gone == s->n_workers)
      RONDE_TRY(backup_tell(b, (ronde__ps_decision){.verdict = RONDE__PS_DO_END}));
  }
  return b->decides ? group->ops->wait(group, b->sending, (int)b->n_slots * s->n_servers, group->timeout_ns) : RONDE_OK;
}

static ronde_status make_room_to_decide(backup *b) {
  size_t n_workers = (size_t)b->server->n_workers, n_servers = (size_t)b->server->n_servers;
  b->n_slots = 2 * b->server->n_workers + 4;
  RONDE__ALLOC(b->news, n_workers * sizeof *b->news, "parameter server");
  RONDE__ALLOC(b->sent, (size_t)b->n_slots * sizeof *b->sent, "parameter server");
  RONDE__ALLOC(b->sending, (size_t)b->n_slots * n_servers * sizeof *b->sending, "parameter server");
  return RONDE_OK;
}

ronde_status ronde__server_with_backup(ronde__server *s) {
  backup b = {.server = s, .decides = s->index == 0, .step = -1, .deciding = &s->requests[s->n_requests - 1]};
  ronde_status status = b.decides ? make_room_to_decide(&b) : RONDE_OK;
  if (status == RONDE_OK) status = serve(&b);
  /* What is under way must not outlive its memory. */
  s->group->ops->cancel(s->group, s->requests, s->n_requests);
  if (b.sending) s->group->ops->cancel(s->group, b.sending, (int)b.n_slots * s->n_servers);
  for (int w = 0; b.news && w < s->n_workers; w++) ronde__free(b.news[w].outcomes);
  ronde__free(b.news);
  ronde__free(b.outcomes);
  ronde__free(b.sent);
  ronde__free(b.sending);
  return status;
}

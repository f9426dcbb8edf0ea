/* A server of Sandblaster L-BFGS: holds a shard of every vector, does what the coordinator's programs say, adds up the
 * gradients of portions in their order, and gives out the weights. */
#include "strategy/sandblaster.h"

#include <string.h>

typedef enum client_state { LISTENING, HELD, RECEIVING } client_state;

/* A worker. */
typedef struct client {
  client_state state;
  ronde__sandblaster_head head; /* HELD, RECEIVING: of a push, whose piece has no place yet; whose piece is coming */
} client;

typedef struct server {
  ronde__service_options o;
  ronde__transport *group;
  int n_workers, n_servers, coordinator;
  ronde__prof *prof;
  int update_slot;
  size_t n; /* elements of the shard */
  int n_vectors;
  ronde__flat_vectors flat;
  ronde__vectors vectors;
  size_t n_parts;
  /* Gradients of portions: those in front of `next` are summed, in GRADIENT. */
  float *early; /* [window][n]: portion p has place p mod window */
  bool *is_here;
  int window;
  int64_t next;
  ronde__sandblaster_program program;
  int64_t at; /* of the program: its command; n: it is done, and the next one is awaited */
  bool ended;
  client *clients;          /* [workers] */
  ronde__request *requests; /* [n_requests], which is all of the following: the program's, */
  ronde__request *heads;    /* [workers], */
  ronde__request *pieces;   /* [workers], */
  ronde__request *fetches;  /* [workers] */
  int n_requests;
} server;

static uint32_t tag_of(uint32_t tag) { return RONDE__SANDBLASTER_TAG(tag); }

static ronde_status wait_for(server *s, ronde__request *requests, int n) {
  return s->group->ops->wait(s->group, requests, n, s->group->timeout_ns);
}

/* ---- set-up ---- */

static ronde_status receive(server *s, int rank, uint32_t tag, void *data, size_t bytes) {
  RONDE_TRY(s->group->ops->irecv(s->group, rank, tag_of(tag), data, bytes, s->requests));
  return wait_for(s, s->requests, 1);
}

static ronde_status make_vectors(server *s, size_t n_all) {
  s->n_vectors = RONDE__LBFGS_PAIRS + 2 * s->o.optim->history;
  s->n = ronde__sandblaster_shard(n_all, s->o.member->index, s->n_servers).n;
  s->n_parts = ronde__sandblaster_parts(n_all, s->o.member->index, s->n_servers);
  s->flat = (ronde__flat_vectors){
      .kernels = s->o.kernels, .pool = s->o.pool, .n = s->n, .piece = ronde__sandblaster_piece(n_all)};
  RONDE__ALLOC(s->flat.part, s->n_parts * sizeof *s->flat.part, "L-BFGS server");
  RONDE__ALLOC(s->flat.at, (size_t)s->n_vectors * sizeof *s->flat.at, "L-BFGS server");
  for (int i = 0; i < s->n_vectors; i++) RONDE__ALLOC_FLOATS(s->flat.at[i], s->o.kernels, s->n, "L-BFGS server");
  RONDE__ALLOC_FLOATS(s->early, s->o.kernels, (size_t)s->window * s->n, "L-BFGS server");
  RONDE__ALLOC(s->is_here, (size_t)s->window * sizeof *s->is_here, "L-BFGS server");
  s->vectors = ronde__flat_vectors_table(&s->flat);
  return RONDE_OK;
}

static ronde_status set_up(server *s) {
  ronde__sandblaster_plan plan;
  size_t bytes;
  RONDE_TRY(receive(s, 0, RONDE__SANDBLASTER_PLAN, &plan, sizeof plan));
  RONDE_TRY(make_vectors(s, (size_t)plan.n));
  if ((bytes = s->n * sizeof(float)) == 0) return RONDE_OK;
  RONDE_TRY(receive(s, 0, RONDE__SANDBLASTER_SHARD, s->flat.at[RONDE__LBFGS_WEIGHTS], bytes));
  for (int i = RONDE__LBFGS_DIRECTION; i < s->n_vectors && plan.has_state; i++)
    RONDE_TRY(receive(s, 0, RONDE__SANDBLASTER_SHARD, s->flat.at[i], bytes));
  return RONDE_OK;
}

/* ---- workers ---- */

static ronde_status listen(server *s, int w) {
  client *c = &s->clients[w];
  c->state = LISTENING;
  return s->group->ops->irecv(s->group, w, tag_of(RONDE__SANDBLASTER_HEAD), &c->head, sizeof c->head, &s->heads[w]);
}

static ronde_status give_weights(server *s, int w) {
  RONDE_TRY(wait_for(s, &s->fetches[w], 1));
  if (s->n)
    RONDE_TRY(s->group->ops->isend(s->group, w, tag_of(RONDE__SANDBLASTER_WEIGHTS), s->flat.at[RONDE__LBFGS_WEIGHTS],
                                   s->n * sizeof(float), &s->fetches[w]));
  return listen(s, w);
}

static ronde_status give_state(server *s, int w) {
  for (int i = RONDE__LBFGS_DIRECTION; i < s->n_vectors && s->n; i++)
    RONDE_TRY(
        ronde__transport_send(s->group, w, tag_of(RONDE__SANDBLASTER_SHARD), s->flat.at[i], s->n * sizeof(float)));
  return listen(s, w);
}

static bool has_place(const server *s, int64_t portion) { return portion < s->next + s->window; }

static ronde_status take_piece(server *s, int w) {
  client *c = &s->clients[w];
  if (c->head.portion < s->next)
    return ronde__fail(RONDE_E_INTERNAL, "worker %d pushes portion %lld, but portion %lld is the next one", w,
                       (long long)c->head.portion, (long long)s->next);
  c->state = has_place(s, c->head.portion) ? RECEIVING : HELD;
  if (c->state == HELD || s->n == 0) return RONDE_OK;
  return s->group->ops->irecv(s->group, w, tag_of(RONDE__SANDBLASTER_PIECE),
                              s->early + (size_t)(c->head.portion % s->window) * s->n, s->n * sizeof(float),
                              &s->pieces[w]);
}

static ronde_status hear(server *s, int w) {
  switch ((ronde__sandblaster_head_kind)s->clients[w].head.kind) {
  case RONDE__SANDBLASTER_FETCH: return give_weights(s, w);
  case RONDE__SANDBLASTER_GIVE_STATE: return give_state(s, w);
  case RONDE__SANDBLASTER_PUSH: break;
  }
  return take_piece(s, w);
}

/* In the order of portions. */
static void add_up(server *s) {
  uint64_t begin = ronde__prof_switch(s->prof, RONDE__PHASE_UPDATE);
  float *sum = s->flat.at[RONDE__LBFGS_GRADIENT];
  for (bool *here; *(here = &s->is_here[s->next % s->window]); s->next++) {
    const float *piece = s->early + (size_t)(s->next % s->window) * s->n;
    if (s->next) s->o.kernels->add(sum, piece, sum, (int64_t)s->n);
    else if (s->n) memcpy(sum, piece, s->n * sizeof *sum);
    *here = false;
  }
  ronde__prof_op_add(s->prof, s->update_slot, begin, ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE), 0);
}

static ronde_status serve_worker(server *s, int w) {
  client *c = &s->clients[w];
  if (c->state == LISTENING && !s->heads[w].impl) RONDE_TRY(hear(s, w));
  if (c->state == HELD) RONDE_TRY(take_piece(s, w));
  if (c->state != RECEIVING || s->pieces[w].impl) return RONDE_OK;
  s->is_here[c->head.portion % s->window] = true;
  return listen(s, w);
}

/* What is added up makes place for others. */
static ronde_status serve_workers(server *s) {
  for (bool again = true; again;) {
    for (int w = 0; w < s->n_workers; w++) RONDE_TRY(serve_worker(s, w));
    again = s->is_here[s->next % s->window];
    if (again) add_up(s);
  }
  return RONDE_OK;
}

/* ---- programs ---- */

static ronde_status answer(server *s) {
  return ronde__transport_send(s->group, s->coordinator, tag_of(RONDE__SANDBLASTER_ANSWER), s->flat.part,
                               s->n_parts * sizeof *s->flat.part);
}

static ronde_status work(server *s, const ronde__sandblaster_command *c) {
  const ronde__vectors *v = &s->vectors;
  double product;
  ronde__vector_norms norms;
  /* The weights may be on their way. */
  bool changes =
      c->verb == RONDE__SANDBLASTER_COPY || c->verb == RONDE__SANDBLASTER_SCALE || c->verb == RONDE__SANDBLASTER_ADD;
  if (changes && c->y == RONDE__LBFGS_WEIGHTS) RONDE_TRY(wait_for(s, s->fetches, s->n_workers));
  switch ((ronde__sandblaster_verb)c->verb) {
  case RONDE__SANDBLASTER_COPY: return v->copy(v->user, c->y, c->x);
  case RONDE__SANDBLASTER_SCALE: return v->scale(v->user, c->y, c->factor);
  case RONDE__SANDBLASTER_ADD: return v->add(v->user, c->y, c->factor, c->x);
  case RONDE__SANDBLASTER_DOT: RONDE_TRY(v->dot(v->user, c->y, c->x, &product)); return answer(s);
  case RONDE__SANDBLASTER_NORMS: RONDE_TRY(v->norms(v->user, c->y, &norms)); return answer(s);
  case RONDE__SANDBLASTER_SUM: s->next = 0; return RONDE_OK;
  case RONDE__SANDBLASTER_READY: return answer(s);
  case RONDE__SANDBLASTER_END: s->ended = true; return RONDE_OK;
  }
  return RONDE_OK;
}

static ronde_status await_program(server *s) {
  return s->group->ops->irecv(s->group, s->coordinator, tag_of(RONDE__SANDBLASTER_PROGRAM), &s->program,
                              sizeof s->program, s->requests);
}

/* As far as it goes without a portion that is missing. */
static ronde_status go_on(server *s) {
  uint64_t begin = ronde__prof_switch(s->prof, RONDE__PHASE_UPDATE);
  while (s->at < s->program.n && !s->ended) {
    const ronde__sandblaster_command *c = &s->program.at[s->at];
    if (c->verb == RONDE__SANDBLASTER_SUM && s->next < c->x) break;
    RONDE_TRY(work(s, c));
    s->at++;
  }
  ronde__prof_op_add(s->prof, s->update_slot, begin, ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE), 0);
  if (s->at < s->program.n || s->ended) return RONDE_OK;
  s->at = 0;
  s->program.n = 0;
  return await_program(s);
}

static ronde_status serve(server *s) {
  ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
  RONDE_TRY(set_up(s));
  for (int w = 0; w < s->n_workers; w++) RONDE_TRY(listen(s, w));
  RONDE_TRY(await_program(s));
  while (!s->ended) {
    ronde__prof_switch(s->prof, RONDE__PHASE_WAIT);
    RONDE_TRY(s->group->ops->wait_some(s->group, s->requests, s->n_requests, s->group->timeout_ns));
    ronde__prof_switch(s->prof, RONDE__PHASE_EXCHANGE);
    RONDE_TRY(serve_workers(s));
    if (!s->requests[0].impl) RONDE_TRY(go_on(s));
  }
  RONDE_TRY(wait_for(s, s->fetches, s->n_workers));
  s->group->ops->cancel(s->group, s->heads, s->n_workers);
  ronde__prof_switch(s->prof, RONDE__PHASE_OTHER);
  return RONDE_OK;
}

/* ---- the role ---- */

static ronde_status run(void *opaque) {
  server *s = opaque;
  ronde_status status = serve(s);
  if (status == RONDE_OK) return status;
  s->group->ops->abort(s->group);
  s->group->ops->cancel(s->group, s->requests, s->n_requests);
  return status;
}

static void destroy(void *opaque) {
  server *s = opaque;
  if (!s) return;
  for (int i = 0; i < s->n_vectors && s->flat.at; i++) ronde__free(s->flat.at[i]);
  ronde__prof_destroy(s->prof);
  ronde__free(s->flat.at);
  ronde__free(s->flat.part);
  ronde__free(s->early);
  ronde__free(s->is_here);
  ronde__free(s->clients);
  ronde__free(s->requests);
  ronde__free(s);
}

static ronde_status make(server *s) {
  const ronde__roles *roles = s->o.settings->roles;
  int n;
  s->coordinator = ronde__roles_of(roles, RONDE__SANDBLASTER_COORDINATOR, &n)->rank;
  ronde__roles_of(roles, RONDE__SANDBLASTER_SERVER, &s->n_servers);
  s->n_workers = roles->n_workers;
  s->window = ronde__sandblaster_window(s->n_workers);
  RONDE_TRY(ronde__prof_create(s->o.member->rank, s->group->time, false, &s->prof));
  s->update_slot = ronde__prof_op_slot(s->prof, s->o.optimizer_name, RONDE__PHASE_UPDATE, s->o.kernels->isa);
  RONDE__ALLOC(s->clients, (size_t)s->n_workers * sizeof *s->clients, "L-BFGS server");
  s->n_requests = 1 + 3 * s->n_workers;
  RONDE__ALLOC(s->requests, (size_t)s->n_requests * sizeof *s->requests, "L-BFGS server");
  s->heads = s->requests + 1;
  s->pieces = s->heads + s->n_workers;
  s->fetches = s->pieces + s->n_workers;
  return RONDE_OK;
}

static ronde_status create(const ronde__service_options *options, void **server_out) {
  server *s;
  RONDE__ALLOC(s, sizeof *s, "L-BFGS server");
  *s = (server){.o = *options, .group = options->settings->group};
  ronde_status status = make(s);
  if (status != RONDE_OK) destroy(s);
  else *server_out = s;
  return status;
}

static ronde__prof *prof(const void *opaque) { return ((const server *)opaque)->prof; }

const ronde__role ronde__sandblaster_server_role = {
    RONDE__SANDBLASTER_SERVER, "server of L-BFGS", create, run, prof, destroy};

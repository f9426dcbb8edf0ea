/* The workers that make steps together: a view of the ranks that are left, numbered anew, whose messages are apart from
 * those of the worlds before it. */
#include "train/rank.h"

ronde__transport *ronde__rank_world(ronde__rank *r) { return r->world.number ? &r->world.view.head : r->transport; }

int ronde__rank_at(const ronde__rank *r, int place) { return r->world.number ? r->world.members[place] : place; }

void ronde__rank_make_world(ronde__rank *r, const ronde__rank_set *members, int64_t step) {
  ronde__world *w = &r->world;
  w->n = 0;
  w->step = step;
  for (int i = 0; i < r->job->roles.n_workers; i++) {
    bool is_member = ronde__rank_set_has(members, i);
    if (is_member) w->members[w->n++] = i;
    w->awaited[i] = is_member && i != r->transport->rank;
  }
  ronde__view_make_world(&w->view, r->transport, w->members, w->n, ++w->number, w->host_of);
}

ronde_status ronde__rank_found_world(ronde__rank *r) {
  ronde__world *w = &r->world;
  size_t n = (size_t)r->job->roles.n_workers;
  ronde__rank_set all = {{0}};
  RONDE__ALLOC(w->members, n * sizeof *w->members, "training");
  RONDE__ALLOC(w->host_of, n * sizeof *w->host_of, "training");
  RONDE__ALLOC(w->awaited, n * sizeof *w->awaited, "training");
  RONDE__ALLOC(w->since, n * sizeof *w->since, "training");
  for (size_t i = 0; i < n; i++) ronde__rank_set_add(&all, (int)i);
  ronde__rank_make_world(r, &all, 0);
  w->whole = -1;
  r->replicas = ronde__rank_world(r);
  return RONDE_OK;
}

void ronde__rank_drop_world(ronde__rank *r) {
  ronde__free(r->world.members);
  ronde__free(r->world.host_of);
  ronde__free(r->world.awaited);
  ronde__free(r->world.since);
}

bool ronde__rank_is_halted(ronde__rank *r, ronde_status status) {
  return r->job->regroups && status == RONDE_E_LOST && ronde__transport_is_halted(r->group);
}

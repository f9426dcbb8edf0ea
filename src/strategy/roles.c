/* The members of a run, and where each of them is. */
#include "strategy/roles.h"

#include <stdlib.h>
#include <string.h>

ronde_status ronde__roles_make(int n_workers, int n_extra, ronde__roles *roles) {
  *roles = (ronde__roles){.n_ranks = n_workers + n_extra, .n_workers = n_workers, .n_members = n_workers};
  roles->members = calloc((size_t)n_workers, sizeof *roles->members);
  roles->worker_ranks = calloc((size_t)n_workers, sizeof *roles->worker_ranks);
  if (!roles->members || !roles->worker_ranks)
    return ronde__fail(RONDE_E_MEMORY, "no memory for the roles of %d workers", n_workers);
  for (int i = 0; i < n_workers; i++) {
    roles->members[i] = (ronde__member){.name = "worker", .rank = i, .index = i};
    roles->worker_ranks[i] = i;
  }
  return RONDE_OK;
}

void ronde__roles_release(ronde__roles *roles) {
  free(roles->members);
  free(roles->worker_ranks);
  *roles = (ronde__roles){0};
}

ronde_status ronde__roles_add(ronde__roles *roles, const ronde__role *role, int rank) {
  int n_alike;
  ronde__roles_of(roles, role->name, &n_alike);
  size_t n = (size_t)roles->n_members + 1;
  ronde__member *members = realloc(roles->members, n * sizeof *members);
  if (!members) return ronde__fail(RONDE_E_MEMORY, "no memory for the role of a %s", role->title);
  roles->members = members;
  members[roles->n_members++] = (ronde__member){role->name, role, rank, n_alike};
  return RONDE_OK;
}

const ronde__member *ronde__roles_of(const ronde__roles *roles, const char *name, int *n_out) {
  const ronde__member *first = NULL;
  *n_out = 0;
  for (int i = 0; i < roles->n_members; i++) {
    if (strcmp(roles->members[i].name, name)) continue;
    if (!first) first = &roles->members[i];
    ++*n_out;
  }
  return first;
}

const ronde__member *ronde__roles_at(const ronde__roles *roles, int rank, int i) {
  for (int m = roles->n_workers; m < roles->n_members; m++)
    if (roles->members[m].rank == rank && i-- == 0) return &roles->members[m];
  return NULL;
}

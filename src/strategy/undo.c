/* Copies of what an update changes. */
#include "strategy/undo.h"

#include "base/ghost.h"

#include <string.h>

struct ronde__undo {
  const ronde__worker *worker;
  int n; /* of values */
  size_t bytes;
  int64_t n_updates;
  float *kept; /* one copy behind the other, each of all trained elements */
  float *values[];
};

ronde_status ronde__undo_create(const ronde__worker *worker, int n_arrays, ronde__undo **undo_out) {
  ronde__undo *u;
  const char *name;
  int n_states = ronde__optim_n_states(worker->optim), n = 1 + n_states + n_arrays;
  RONDE__ALLOC(u, sizeof *u + (size_t)n * sizeof *u->values, "what an update changes");
  *u = (ronde__undo){.worker = worker, .n = n};
  u->values[0] = ronde__net_values(worker->net);
  for (int i = 0; i < n_states; i++) u->values[1 + i] = ronde__optim_state(worker->optim, i, &name);
  for (int i = 0; i < n_arrays; i++) u->values[1 + n_states + i] = worker->arrays[i].values;
  u->bytes = (size_t)n * ronde__net_n_trained(worker->net) * sizeof(float);
  u->kept = ronde__pages_map(u->bytes);
  if (!u->kept) {
    ronde__free(u);
    return ronde__fail(RONDE_E_MEMORY, "--on-loss: no memory to keep what an update changes, %zu bytes",
                       (size_t)n * ronde__net_n_trained(worker->net) * sizeof(float));
  }
  *undo_out = u;
  return RONDE_OK;
}

void ronde__undo_destroy(ronde__undo *u) {
  if (!u) return;
  ronde__pages_unmap(u->kept, u->bytes);
  ronde__free(u);
}

void ronde__undo_begin(ronde__undo *u) { u->n_updates = ronde__optim_updates(u->worker->optim); }

void ronde__undo_keep(ronde__undo *u, size_t begin, size_t end) {
  size_t n = ronde__net_n_trained(u->worker->net);
  for (int i = 0; i < u->n; i++)
    if (!ronde__is_ghost(u->values[i]))
      memcpy(u->kept + (size_t)i * n + begin, u->values[i] + begin, (end - begin) * sizeof(float));
}

void ronde__undo_restore(const ronde__undo *u, size_t begin, size_t end) {
  size_t n = ronde__net_n_trained(u->worker->net);
  for (int i = 0; i < u->n; i++)
    if (!ronde__is_ghost(u->values[i]))
      memcpy(u->values[i] + begin, u->kept + (size_t)i * n + begin, (end - begin) * sizeof(float));
  ronde__optim_set_updates(u->worker->optim, u->n_updates);
}

size_t ronde__undo_bytes(size_t gradients, size_t optimizer, int n_arrays) {
  return gradients * (size_t)(1 + n_arrays) + optimizer;
}

/* The state of a checkpoint in a rank, where the run goes on from one. */
#include "setup/setup.h"
#include "train/rank.h"

/* All but the parameters, which every strategy takes from rank 0. */
static ronde_status share_state(ronde__rank *r) {
  int n_buffers;
  size_t n_elems;
  ronde__net_buffer *buffers = ronde__net_buffers(r->net, &n_buffers);
  float *values = ronde__net_buffer_values(r->net, &n_elems);
  RONDE_TRY(ronde__share_start(r->transport, values, n_elems * sizeof *values));
  for (int i = 0; i < n_buffers; i++)
    RONDE_TRY(ronde__share_start(r->transport, &buffers[i].count, sizeof buffers[i].count));
  size_t n_trained = ronde__net_n_trained(r->net);
  for (int i = 0; i < ronde__optim_n_states(r->optim); i++) {
    const char *name;
    float *state = ronde__optim_state(r->optim, i, &name);
    RONDE_TRY(ronde__share_start(r->transport, state, n_trained * sizeof *state));
  }
  return RONDE_OK;
}

ronde_status ronde__rank_take_state(ronde__rank *r) {
  if (!r->job->resume) return RONDE_OK;
  RONDE_TRY(ronde__resume_load(r->job->resume, r->net, r->optim));
  return r->job->mpi ? share_state(r) : RONDE_OK;
}

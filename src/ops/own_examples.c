/* Behind a split layer: from the rank's own features of all examples to all features of its own examples, an all-to-all;
 * backward its reverse. Both values are BLOCKS: in [C_own/b][N][b], out [C/b][n][b]. */
#include "ops/shares.h"

/* Blocks of all features. */
static int64_t own_examples_blocks(const ronde__op_desc *desc) { return ronde__phys_blocks(&desc->out[0]); }

static int64_t own_examples_own(const ronde__op_desc *desc) {
  return ronde__share_of(desc->peers, desc->in[0].n, desc->peers->rank);
}

/* Of a rank's features in this rank's examples: where they begin, and how many. */
static ronde__range own_examples_part(const ronde__op_desc *desc, int rank) {
  int64_t blocks = own_examples_blocks(desc), block = own_examples_own(desc) * desc->out[0].block;
  return (ronde__range){(size_t)(ronde__share_begin(desc->peers, blocks, rank) * block),
                        (size_t)(ronde__share_of(desc->peers, blocks, rank) * block)};
}

static size_t own_examples_work(const ronde__op_desc *desc, const void *state, bool backward) {
  ronde__rows rows = ronde__rows_of(&desc->in[0]);
  return (size_t)(rows.outer * rows.inner * (desc->in[0].n - own_examples_own(desc)));
}

/* Parcels of this rank's features, one for each other rank's examples, in scratch. */
static void own_examples_parcels(const ronde__op_desc *desc, float *work, ronde__parcel *parcels) {
  ronde__rows rows = ronde__rows_of(&desc->in[0]);
  for (int r = 0; r < desc->peers->size; r++) {
    if (r == desc->peers->rank) continue;
    parcels[r] =
        (ronde__parcel){work, (size_t)(rows.outer * rows.inner * ronde__share_of(desc->peers, desc->in[0].n, r))};
    work += parcels[r].n;
  }
}

static ronde_status own_examples_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__parcels *parcels = state;
  const ronde__peers *peers = desc->peers;
  ronde__rows rows = ronde__rows_of(&desc->in[0]);
  int64_t all = desc->in[0].n;
  own_examples_parcels(desc, call->work, parcels->to);
  for (int r = 0; r < peers->size; r++) {
    ronde__range part = own_examples_part(desc, r);
    int64_t n = ronde__share_of(peers, all, r);
    float *to = r == peers->rank ? call->out[0] + part.begin : parcels->to[r].at;
    ronde__row_copy copy = {call->in[0], to, all, ronde__share_begin(peers, all, r), n, 0, n};
    ronde__rows_copy(desc, rows, &copy, false);
    parcels->from[r] = (ronde__parcel){call->out[0] + part.begin, part.n};
  }
  return ronde__parcels_exchange(desc, parcels, false);
}

static ronde_status own_examples_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__parcels *parcels = state;
  const ronde__peers *peers = desc->peers;
  ronde__rows rows = ronde__rows_of(&desc->in[0]);
  int64_t all = desc->in[0].n;
  own_examples_parcels(desc, call->work, parcels->from);
  for (int r = 0; r < peers->size; r++) {
    ronde__range part = own_examples_part(desc, r);
    parcels->to[r] = (ronde__parcel){call->dout[0] + part.begin, part.n};
  }
  RONDE_TRY(ronde__parcels_exchange(desc, parcels, true));
  for (int r = 0; r < peers->size; r++) {
    int64_t n = ronde__share_of(peers, all, r);
    const float *from = r == peers->rank ? call->dout[0] + own_examples_part(desc, r).begin : parcels->from[r].at;
    ronde__row_copy copy = {from, call->din[0], n, 0, all, ronde__share_begin(peers, all, r), n};
    ronde__rows_copy(desc, rows, &copy, call->accumulate_dinput[0]);
  }
  return RONDE_OK;
}

static const ronde__form own_examples_form = {.prepare = ronde__parcels_prepare,
                                              .release = ronde__parcels_release,
                                              .work_elems = own_examples_work,
                                              .forward = own_examples_forward,
                                              .backward = own_examples_backward};

const ronde__op ronde__op_own_examples = {.name = "own examples",
                                          .forms = (const ronde__form *const[]){&own_examples_form, NULL}};

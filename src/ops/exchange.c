/* From one spread of a value over ranks to another, around split layers (shares.h): in front of the first one from each
 * rank's own examples to all of them, an all-gather; between two from each rank's features to all of them; behind the last
 * from its features to its own examples, an all-to-all. Backward is the reverse: what each rank has of the gradient goes
 * back to where the value came from, and is summed there, the rank's own part first, then the others' in their order.
 * It is two steps, so that others may stand between them. Forward begins in the first and ends in the second; backward
 * begins in the second and ends in the first. Begin: in value; out result, packed. End: in packed, value; out result. What
 * is in one piece is sent from where it lies, and forward received there too; the rest is packed behind one another. */
#include "ops/shares.h"

/* What goes to each rank and comes from it, and memory to find out where it lies. */
typedef struct exchange_parcels {
  ronde__parcel *to, *from; /* [ranks] */
} exchange_parcels;

/* Some rows of some of a value's outer indices. */
typedef struct exchange_place {
  int64_t outer, n_outer, row, n_rows;
} exchange_place;

/* Values forward, their gradients backward. */
typedef struct exchange_memory {
  float *value, *result, *packed;
} exchange_memory;

static const ronde__phys *exchange_value(const ronde__op_desc *desc) { return &desc->in[desc->n_inputs - 1]; }

/* Of the value, what is for a rank. */
static exchange_place exchange_value_place(const ronde__op_desc *desc, int rank) {
  const ronde__turn *turn = &desc->turn;
  int own = turn->peers->rank;
  exchange_place place = {.n_outer = ronde__rows_of(exchange_value(desc)).outer, .n_rows = ronde__turn_rows(turn)};
  if (desc->from == RONDE__EXAMPLES)
    place.row = ronde__turn_first(turn, own), place.n_rows = ronde__turn_share(turn, own);
  else if (desc->to == RONDE__EXAMPLES)
    place.row = ronde__turn_row(turn, rank), place.n_rows = ronde__turn_share(turn, rank);
  return place;
}

/* Of the result, what a rank has. */
static exchange_place exchange_result_place(const ronde__op_desc *desc, int rank) {
  const ronde__turn *turn = &desc->turn;
  const ronde__phys *y = &desc->out[0];
  int own = turn->peers->rank;
  exchange_place place = {.n_outer = ronde__rows_of(y).outer, .n_rows = ronde__turn_rows(turn)};
  if (desc->from == RONDE__EXAMPLES)
    place.row = ronde__turn_row(turn, rank), place.n_rows = ronde__turn_share(turn, rank);
  else if (desc->to == RONDE__EXAMPLES)
    place.row = ronde__turn_first(turn, own), place.n_rows = ronde__turn_share(turn, own);
  if (desc->from == RONDE__FEATURES) {
    int64_t pixels = y->h * y->w, blocks = ronde__phys_blocks(y);
    place.outer = ronde__share_begin(turn->peers, blocks, rank) * pixels;
    place.n_outer = ronde__share_of(turn->peers, blocks, rank) * pixels;
  }
  return place;
}

/* A place of a value at `at`: where it lies, if that is one piece, else the next of what is packed. */
static ronde__parcel exchange_parcel(const ronde__phys *x, float *at, const exchange_place *place, bool packs,
                                     float *packed, int64_t *n_packed) {
  int64_t inner = ronde__rows_of(x).inner, n = place->n_outer * place->n_rows * inner;
  bool in_one_piece = place->n_rows == x->n;
  if (in_one_piece && !packs) return (ronde__parcel){at ? at + place->outer * x->n * inner : NULL, (size_t)n};
  *n_packed += n;
  return (ronde__parcel){packed ? packed + *n_packed - n : NULL, (size_t)n};
}

/* Returns how much is packed. p NULL: it is only counted. */
static int64_t exchange_lay(const ronde__op_desc *desc, const exchange_memory *m, bool backward,
                            const exchange_parcels *p) {
  const ronde__peers *peers = desc->turn.peers;
  const ronde__phys *x = exchange_value(desc), *y = &desc->out[0];
  bool all_get_the_same = !backward && desc->to == RONDE__WHOLE, any = false;
  int64_t n_packed = 0;
  ronde__parcel to = {0}, from;
  for (int r = 0; r < peers->size; r++) {
    exchange_place at_value = exchange_value_place(desc, r), at_result = exchange_result_place(desc, r);
    if (r == peers->rank) continue;
    if (!all_get_the_same || !any)
      to = backward ? exchange_parcel(y, m->result, &at_result, false, m->packed, &n_packed)
                    : exchange_parcel(x, m->value, &at_value, false, m->packed, &n_packed);
    from = backward ? exchange_parcel(x, m->value, &at_value, true, m->packed, &n_packed)
                    : exchange_parcel(y, m->result, &at_result, false, m->packed, &n_packed);
    any = true;
    if (p) p->to[r] = to, p->from[r] = from;
  }
  return n_packed;
}

int64_t ronde__exchange_packed_elems(const ronde__op_desc *desc) {
  exchange_memory none = {0};
  return ronde__max(exchange_lay(desc, &none, false, NULL), exchange_lay(desc, &none, true, NULL));
}

static ronde_status exchange_prepare(const ronde__op_desc *desc, void **state_out) {
  size_t n = (size_t)desc->turn.peers->size;
  exchange_parcels *p;
  RONDE__ALLOC(p, sizeof *p + 2 * n * sizeof *p->to, "split layer");
  p->to = (ronde__parcel *)(p + 1);
  p->from = p->to + n;
  *state_out = p;
  return RONDE_OK;
}

static void exchange_release(const ronde__op_desc *desc, void *state) { ronde__free(state); }

/* Between a place of a value and the same as a piece of its own. */
static void exchange_pack(const ronde__op_desc *desc, const ronde__phys *x, const float *at,
                          const exchange_place *place, float *piece) {
  ronde__rows rows = ronde__rows_of(x);
  const float *from = at + place->outer * x->n * rows.inner;
  rows.outer = place->n_outer;
  ronde__row_copy copy = {from, piece, x->n, place->row, place->n_rows, 0, place->n_rows};
  ronde__rows_copy(desc, rows, &copy, false);
}

static void exchange_unpack(const ronde__op_desc *desc, const ronde__phys *x, const float *piece, float *at,
                            const exchange_place *place, bool accumulate) {
  ronde__rows rows = ronde__rows_of(x);
  float *to = at + place->outer * x->n * rows.inner;
  rows.outer = place->n_outer;
  ronde__row_copy copy = {piece, to, place->n_rows, 0, x->n, place->row, place->n_rows};
  ronde__rows_copy(desc, rows, &copy, accumulate);
}

/* The rank's own part: from the value to the result, or of the gradient back. */
static void exchange_own(const ronde__op_desc *desc, const exchange_memory *m, bool backward, bool accumulate) {
  int own = desc->turn.peers->rank;
  const ronde__phys *x = exchange_value(desc), *y = &desc->out[0];
  exchange_place at_value = exchange_value_place(desc, own), at_result = exchange_result_place(desc, own);
  ronde__rows rows = {at_value.n_outer, ronde__rows_of(x).inner};
  float *value = m->value + at_value.outer * x->n * rows.inner,
        *result = m->result + at_result.outer * y->n * rows.inner;
  ronde__row_copy forth = {value, result, x->n, at_value.row, y->n, at_result.row, at_value.n_rows},
                  back = {result, value, y->n, at_result.row, x->n, at_value.row, at_value.n_rows};
  ronde__rows_copy(desc, rows, backward ? &back : &forth, accumulate);
}

static ronde_status exchange_start(const ronde__op_desc *desc, const exchange_parcels *p, const exchange_memory *m,
                                   bool backward, void **under_way) {
  const ronde__peers *peers = desc->turn.peers;
  const ronde__phys *x = backward ? &desc->out[0] : exchange_value(desc);
  const float *at = backward ? m->result : m->value, *packed = NULL;
  exchange_lay(desc, m, backward, p);
  for (int r = 0; r < peers->size; r++) {
    exchange_place place = backward ? exchange_result_place(desc, r) : exchange_value_place(desc, r);
    if (r == peers->rank || place.n_rows == x->n || p->to[r].n == 0 || p->to[r].at == packed) continue;
    exchange_pack(desc, x, at, &place, p->to[r].at);
    packed = p->to[r].at;
  }
  return peers->begin(peers->user, backward, p->to, p->from, under_way);
}

static ronde_status exchange_begin_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  exchange_memory m = {(float *)call->in[0], call->out[0], call->out[1]};
  return exchange_start(desc, state, &m, false, call->under_way);
}

static ronde_status exchange_end_forward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__peers *peers = desc->turn.peers;
  const exchange_parcels *p = state;
  const ronde__phys *y = &desc->out[0];
  exchange_memory m = {(float *)call->in[1], call->out[0], (float *)call->in[0]};
  RONDE_TRY(peers->end(peers->user, call->under_way));
  exchange_lay(desc, &m, false, p);
  exchange_own(desc, &m, false, false);
  for (int r = 0; r < peers->size; r++) {
    exchange_place place = exchange_result_place(desc, r);
    if (r == peers->rank || place.n_rows == y->n) continue;
    exchange_unpack(desc, y, p->from[r].at, m.result, &place, false);
  }
  return RONDE_OK;
}

static ronde_status exchange_end_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  exchange_memory m = {NULL, call->dout[0], call->din[0]};
  return exchange_start(desc, state, &m, true, call->under_way);
}

static ronde_status exchange_begin_backward(const ronde__op_desc *desc, const void *state, const ronde__op_call *call) {
  const ronde__peers *peers = desc->turn.peers;
  const exchange_parcels *p = state;
  exchange_memory m = {call->din[0], call->dout[0], call->dout[1]};
  bool accumulate = call->accumulate_dinput[0];
  RONDE_TRY(peers->end(peers->user, call->under_way));
  exchange_lay(desc, &m, true, p);
  exchange_own(desc, &m, true, accumulate);
  for (int r = 0; r < peers->size; r++) {
    exchange_place place = exchange_value_place(desc, r);
    if (r == peers->rank) continue;
    exchange_unpack(desc, exchange_value(desc), p->from[r].at, m.value, &place, accumulate || desc->to == RONDE__WHOLE);
  }
  return RONDE_OK;
}

static const ronde__form exchange_begin_form = {.prepare = exchange_prepare,
                                                .release = exchange_release,
                                                .forward = exchange_begin_forward,
                                                .backward = exchange_begin_backward};
static const ronde__form exchange_end_form = {.prepare = exchange_prepare,
                                              .release = exchange_release,
                                              .forward = exchange_end_forward,
                                              .backward = exchange_end_backward};

const ronde__op ronde__op_exchange_begin = {.name = "exchange",
                                            .forms = (const ronde__form *const[]){&exchange_begin_form, NULL}};
const ronde__op ronde__op_exchange_end = {.name = "exchange",
                                          .forms = (const ronde__form *const[]){&exchange_end_form, NULL}};

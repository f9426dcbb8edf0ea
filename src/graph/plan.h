/* A plan: one graph laid out for one batch size. Steps in forward order; the values between them with their layouts;
 * where each lies in the arena, by liveness over the forward steps and the same steps backward. */
#ifndef RONDE_PLAN_H
#define RONDE_PLAN_H

#include "graph/graph.h"

/* A stored activation (and its gradient); views share one. */
typedef struct ronde__value {
  ronde__phys phys;
  bool external; /* the caller's memory: the input, the targets */
  bool split;    /* a rank's features of the examples of all ranks */
  bool has_gradient;
  int gradient_home;              /* the value in whose gradient's place this one's lies; itself */
  int whole;                      /* the value that has the rows of all turns, of which this is one's; itself */
  int turns;                      /* of such a whole, its first turn: the others follow; -1: none */
  size_t offset, gradient_offset; /* bytes in the arena */
  size_t next_offset;             /* of what is received: where that of the pass's next forward comes in the meantime,
                                     behind offset; 0: it is not received */
} ronde__value;

typedef struct ronde__plan_step {
  const ronde__op *op;
  ronde__op_desc desc;
  void *state;
  int in[RONDE__OP_MAX_INPUTS], out[RONDE__OP_MAX_OUTPUTS]; /* values */
  int param[RONDE__OP_MAX_PARAMS], buffer[RONDE__OP_MAX_BUFFERS];
  size_t param_at[RONDE__OP_MAX_PARAMS];        /* where the step's part of it begins */
  bool accumulate_dinput[RONDE__OP_MAX_INPUTS]; /* another step has written this gradient before, in backward order */
  bool for_loss, for_output;                    /* the loss, or the output, needs it */
  bool has_backward;
  bool split; /* of the examples of all ranks: it runs, too, where this one has none */
  size_t saved_offset, saved_bytes;
  size_t work_offset[2], work_bytes[2]; /* forward, backward */
  int forward_slot, backward_slot;      /* in the ledger, -1: none */
  int node;                             /* in whose place it runs */
  int under_way;     /* of a send, receive or exchange: what of a pass it has begun to send, or receive */
  int exchange;      /* from 1: the turns of one exchange have the same; 0: it is none */
  int value, result; /* of an exchange: of all turns */
  double forward_flops, backward_flops; /* executed */
} ronde__plan_step;

/* A parameter in backward. */
typedef struct ronde__plan_param {
  int reader;             /* the first step that reads it on the way to the loss, -1: none does */
  int first, last;        /* the steps that begin and finish its gradient (first >= last), -1: none does */
  bool in_pieces;         /* its step hands the gradient out by itself */
  size_t gradient_offset; /* bytes in the arena, where gradients are transient and not in pieces */
} ronde__plan_param;

typedef struct ronde__plan {
  int64_t n, n_all;
  ronde__plan_step *steps;
  ronde__value *values;
  ronde__plan_param *params;
  int *param_of, *buffer_of; /* in the graph, ascending: all of it, or the stage's */
  int n_steps, n_values, n_params, n_buffers;
  int input;                   /* the value that is the caller's x; -1: none */
  int taken[RONDE_MAX_INPUTS]; /* where there are several inputs: the values that a pass takes from the rows of x, */
  int n_taken;                 /* -1: nobody reads it */
  int target, output;          /* values; -1: none */
  int n_under_way;             /* sends and receives of a stage, or exchanges of split layers; */
  int n_received;              /* receives, which are the first of these, and of the steps */
  size_t arena_bytes;
  int n_passes; /* which backward of may follow */
} ronde__plan;

typedef struct ronde__plan_options {
  int64_t n;     /* at least 1 */
  int64_t n_all; /* where layers are split: of all ranks; 0: the plan is of the whole */
  bool training;
  ronde__compute compute;
  int threads;
  ronde__prof *prof; /* may be NULL */
  bool transient_gradients;
  const char *taker_name; /* NULL: none */
  double taker_bytes;
  const ronde_graph *rows_of; /* the graph whose layers have rows of their own in the ledger; NULL: none */
  ronde__stage stage;
  ronde__split split;
} ronde__plan_options;

/* describe.c: steps as both executors make them from a graph. */

/* Values that a loss is taken against lie as the prediction does, logically. */
ronde__phys ronde__phys_of_target(const ronde__phys *prediction);
/* How a tensor that a value holds, or that is a view of it, is offered to an op of n examples: as it lies, where the op
 * can read that, else as in files. */
ronde__phys ronde__phys_offered(const ronde__phys *held, const ronde__shape *shape, int64_t n, const ronde__op *reader);
/* Between two layouts of as many elements, of which ROWS take the examples of the other one. false: neither is ROWS, and
 * they have not the same examples. */
bool ronde__phys_match(ronde__phys *from, ronde__phys *to);
/* The op of a node and how many operands it has. Its inputs' layouts as their producers offer them, need_dinput and
 * frozen are the caller's to set; then ronde__step_lay_out chooses. */
ronde__plan_step ronde__step_of_node(const ronde__node *node, int layer, const ronde__plan_options *options);
/* Chooses the layouts of a step. stored: how each parameter is stored already, NULL where nothing has said so yet; inputs
 * are offered in other layouts until the op stores its parameters that way too. false: none of them leads there, and
 * the step has the layouts that it would have with parameters of its own. */
bool ronde__step_lay_out(const ronde_graph *graph, const ronde__node *node, const ronde__weight_layout *const *stored,
                         ronde__plan_step *step);
/* Between two layouts of a value. */
ronde__plan_step ronde__step_of_reorder(const ronde__phys *from, const ronde__phys *to, bool need_dinput,
                                        const ronde__plan_options *options);

/* A new value; returns its number. */
int ronde__plan_add_value(ronde__plan *plan, ronde__phys phys, bool external, bool has_gradient);

/* The end of a stage. gradient: of the value, which comes back. */
ronde__plan_step ronde__step_of_send(const ronde__phys *x, bool gradient, int message,
                                     const ronde__plan_options *options);
ronde__plan_step ronde__step_of_receive(const ronde__phys *y, int message, const ronde__plan_options *options);

/* plan_split.c, while a plan is laid out. Whether the node is split in this plan. */
static inline bool ronde__plan_splits(const ronde__plan_options *options, int node) {
  return options->n_all > 0 && options->split.nodes[node];
}
/* Values made of `value` by exchanges between ranks, added where they are not there yet: its own examples with all
 * features, of one that is split; all examples with all features. user: the step that reads it. */
int ronde__plan_own_examples(ronde__plan *plan, const ronde__plan_options *options, const ronde__shape *shape,
                             int value, const ronde__plan_step *user);
int ronde__plan_gather(ronde__plan *plan, const ronde__plan_options *options, const ronde__shape *shape, int value,
                       const ronde__plan_step *user);
/* Leaves this rank's part of a linear layer that is laid out for its own examples. */
void ronde__plan_split_linear(const ronde__plan_options *options, ronde__plan_step *step);
/* A value of all turns. */
int ronde__plan_add_whole(ronde__plan *plan, const ronde__plan_options *options, ronde__phys phys, bool has_gradient);
/* Adds a step that is laid out for the examples of all ranks, turn by turn. */
void ronde__plan_add_turns(ronde__plan *plan, const ronde__plan_options *options, const ronde__plan_step *step);
/* Puts steps of split layers in the order of turns: what a turn needs of other ranks is on its way while the one in front
 * of it is computed. */
ronde_status ronde__plan_order_turns(ronde__plan *plan);
/* Whether it is a step between ranks. */
static inline bool ronde__step_exchanges(const ronde__plan_step *step) { return step->exchange > 0; }
/* Of a step that keeps the features of a split value, the first of them. */
int64_t ronde__plan_first_channel(const ronde__plan_options *options, const ronde__shape *shape);

/* plan_stage.c: leaves of the whole plan, whose gradients have their order, the steps of the stage, and puts sends and
 * receives at its ends. The gradients' order must be found anew. */
ronde_status ronde__plan_stage(ronde__plan *plan, const ronde_graph *graph, const ronde__plan_options *options);
/* Of the whole plan: what travels across a cut in front of a node, gradients included. */
size_t ronde__plan_crossing_bytes(const ronde__plan *plan, int cut);

/* plan_bf16.c: which values are bfloat16, of a whole plan whose forms are chosen: those of which each step that computes
 * or reads them can have them so, and of which one multiplies in it. */
ronde_status ronde__plan_choose_bf16(ronde__plan *plan);

/* plan_step.c: resolves the kernels of a step whose op, desc (with its form) and has_backward are set; its sizes and
 * its rows in the ledger. */
ronde_status ronde__plan_step_prepare(ronde__plan_step *step, const ronde__plan_options *options);
/* What a call must move at least: operands and results once, of backward also what it reads again. */
double ronde__plan_step_bytes(const ronde__plan_step *step, bool backward, double taker_bytes);
/* Of what a synchronised op shares (op.h); 0: it is none. */
size_t ronde__plan_step_partial_elems(const ronde__plan_step *step);
void ronde__plan_step_release(ronde__plan_step *step);

/* loss.c: where the hooks have a loss, it takes the place of a loss step: hands out what that would read; then its
 * gradient, in backward. RONDE_E_USAGE where the step is not the loss of the recorded graph. */
static inline bool ronde__loss_is_apart(const ronde__plan_step *step, const ronde__net_hooks *hooks) {
  return step->op->is_loss && hooks && hooks->loss;
}
ronde_status ronde__loss_ask(const ronde_graph *recorded, const ronde__plan_step *step, const ronde__op_call *call,
                             const ronde__net_hooks *hooks, ronde__net_result *result_out);
void ronde__loss_take(const ronde__plan_step *step, const ronde__op_call *call, const ronde__net_hooks *hooks);

/* Whether its backward may keep the weight that it reads turned: that of this step alone. */
bool ronde__plan_keeps_turned(const ronde__plan *plan, const ronde__plan_step *step);

/* plan_memory.c: the offsets of all that lies in the arena, and its size; the steps are prepared. */
ronde_status ronde__plan_place_memory(ronde__plan *plan, const ronde_graph *graph, bool transient_gradients);

ronde_status ronde__plan_create(const ronde_graph *graph, const ronde__plan_options *options, ronde__plan **plan_out);
void ronde__plan_destroy(ronde__plan *plan);

/* How the plan's steps store each of its parameters, [n_params]; the same for every n. A parameter that no step uses is
 * PLAIN. */
void ronde__plan_weight_layouts(const ronde__plan *plan, const ronde_graph *graph, ronde__weight_layout *layouts_out);
/* The same of the buffers, [n_buffers]. */
void ronde__plan_buffer_layouts(const ronde__plan *plan, const ronde_graph *graph, ronde__weight_layout *layouts_out);

/* dead_taps.c: as ronde__net_dead, for parameters that have their places. The caller frees. */
ronde_status ronde__plan_dead_taps(const ronde__plan *plan, const ronde__net_param *params, ronde__range **dead_out,
                                   int *n_out);

/* arena.c: offsets for blocks of memory that live over [first, last] steps of time, so that blocks which live at once
 * do not overlap; returns the size. */
typedef struct ronde__arena_block {
  size_t bytes;
  int first, last;
  size_t *offset_out;
} ronde__arena_block;
ronde_status ronde__arena_place(ronde__arena_block *blocks, int n_blocks, size_t *bytes_out);

#endif

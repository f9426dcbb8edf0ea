/* What an eager pass leaves to its backward: the values, and the ops in the order in which they were called. */
#ifndef RONDE_TAPE_H
#define RONDE_TAPE_H

#include "base/blocks.h"
#include "graph/executor.h"
#include "graph/prepared.h"

/* An activation in one form; views share one. */
typedef struct ronde__tape_value {
  ronde__phys phys;
  float *data, *gradient; /* taken from the blocks; data of an external value is the caller's */
  bool external, wants_gradient;
  bool reached;  /* the loss depends on it: it will get its gradient */
  int read_last; /* the entry whose backward is the last to read the data, -1: none */
} ronde__tape_value;

/* An op that was called. in, out of its step are values; param and buffer are those of the net. */
typedef struct ronde__tape_entry {
  ronde__plan_step step;
  bool reached; /* the loss depends on it */
  float *saved;
  /* This call wants its parameters, or a buffer, in another form than the net has them: copies; else NULL. */
  bool is_foreign; /* its parameters, all alike */
  float *param[RONDE__OP_MAX_PARAMS], *buffer[RONDE__OP_MAX_BUFFERS];
} ronde__tape_entry;

/* What the passes of a net share. */
typedef struct ronde__eager {
  ronde__net *net;
  ronde__net_options options;
  ronde__prepared *prepared;
  ronde__blocks *blocks;
  int n_kept;               /* tapes that a backward may follow */
  double flops_per_example; /* executed, of the last training pass */
} ronde__eager;

/* A pass, the present or the last one. */
typedef struct ronde__tape {
  ronde__eager *shared;
  ronde__net_batch batch;
  float loss_scale;
  const ronde__net_hooks *hooks;
  ronde__net_result result;
  bool is_kept;     /* a backward will follow */
  bool only_shapes; /* preparing: nothing is executed */
  ronde__tape_value *values;
  ronde__tape_entry *entries;
  int *value_of;             /* [n_tensors] of the graph: its value, -1: none yet */
  int *param_of, *buffer_of; /* of the graph's to the net's */
  bool *was_needed;          /* [params of the net]: this pass has read it */
  int *finisher;             /* [params of the net]: the entry whose backward finishes its gradient */
  int n_values, n_entries, n_tensors, n_params, n_buffers;
  struct {
    int values, entries, tensors, params, buffers;
  } capacity;
} ronde__tape;

/* Room for n items; NULL where there is no memory (logged). */
void *ronde__tape_room(void *items, int n, int *capacity, size_t size);
/* Memory from the blocks; NULL data where only shapes are asked for. */
ronde_status ronde__tape_take(ronde__tape *tape, int64_t n_elems, float **p_out);
ronde_status ronde__tape_value_add(ronde__tape *tape, const ronde__tape_value *value, int *index_out);
/* Gives everything back. */
void ronde__tape_clear(ronde__tape *tape);
/* The forward pass has ended: gives back what its backward will not read. loss: the entry where that begins, -1: there
 * is none. */
void ronde__tape_finish(ronde__tape *tape, int loss);
/* The memory of a call of an entry, but for gradients and scratch. */
void ronde__tape_bind(const ronde__tape *tape, const ronde__tape_entry *entry, ronde__op_call *call);
/* Walks the tape from its end, giving back as it goes. */
ronde_status ronde__tape_backward(ronde__tape *tape, bool accumulate, const ronde__net_hooks *hooks, bool *touched);

#endif

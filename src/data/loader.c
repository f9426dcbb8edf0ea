/* One rank's batches, read ahead by a task of its own into a ring of slots. The reader's place (epoch, index, ids)
 * belongs to whoever reads; the ring's counters are guarded. */
#include "base/log_group.h"
#include "data/store.h"

#include <stdlib.h>
#include <string.h>

typedef struct slot {
  float *x;        /* [rows][elems] */
  int64_t *labels; /* [rows][label_elems], with classes */
  float *targets;  /* [rows][target_elems], without */
  ronde__batch batch;
} slot;

struct ronde__loader {
  ronde__loader_options options;
  const ronde_source *source;
  int64_t elems, batch, n_batches, n_examples;

  int64_t epoch, index; /* of the batch to read next */
  int64_t ids_epoch;    /* whose order is in ids; 0: none yet */
  int64_t *ids;         /* [n_examples] */
  ronde__store store;   /* cache off: this epoch's examples */

  slot *slots; /* [prefetch + keep]: the last ones handed out stay valid while the others fill */
  int n_slots;
  ronde__log_group *log_group; /* of who made it */
  bool has_task;
  ronde__task task;
  ronde__guard guard;
  ronde__event changed;
  int64_t n_read, n_taken;
  int n_again;     /* of those taken last, yet to come once more */
  int64_t n_skips; /* batches behind those that are read, not to be handed out */
  bool stop;
  ronde_status status; /* what ended the reader */
};

/* ---- reading one batch ------------------------------------------------------------------------------------------ */

static ronde_status begin_epoch(ronde__loader *l) {
  if (l->ids_epoch == l->epoch) return RONDE_OK;
  if (ronde__data_decodes(l->options.data)) {
    ronde__store_close(&l->store);
    RONDE_TRY(ronde__data_decode(l->options.data, &l->store));
  }
  RONDE_TRY(ronde__sampler_epoch(l->options.sampler, l->epoch, l->ids));
  l->ids_epoch = l->epoch;
  return RONDE_OK;
}

static ronde_status read_examples(ronde__loader *l, const int64_t *ids, int64_t n, slot *s) {
  const ronde__data *data = l->options.data;
  if (n == 0) return RONDE_OK;
  if (ronde__data_decodes(data))
    return ronde__data_read_epoch(data, &l->store, l->epoch, ids, n, s->x, s->labels, s->targets);
  if (data->augments) return ronde__data_read_epoch(data, NULL, l->epoch, ids, n, s->x, s->labels, s->targets);
  return ronde__data_read(data, RONDE_SPLIT_TRAIN, ids, n, s->x, s->labels, s->targets);
}

static void go_on(ronde__loader *l) {
  if (++l->index < l->n_batches) return;
  l->index = 0;
  ++l->epoch;
}

/* Reads the batch at the reader's place and moves the place on. */
static ronde_status read_batch(ronde__loader *l, slot *s) {
  if (!l->options.sizes_alone) RONDE_TRY(begin_epoch(l));
  int64_t first = l->index * l->batch;
  int64_t global_n = ronde__min(l->batch, l->n_examples - first);
  int64_t begin = ronde__shard_begin(global_n, l->options.rank, l->options.world);
  int64_t n = ronde__shard_begin(global_n, l->options.rank + 1, l->options.world) - begin;
  int64_t skip = l->options.whole ? begin : 0; /* rows read for other ranks */
  if (l->options.sizes_alone) skip = 0;
  else if (l->options.whole) RONDE_TRY(read_examples(l, l->ids + first, global_n, s));
  else RONDE_TRY(read_examples(l, l->ids + first + begin, n, s));
  s->batch =
      (ronde__batch){.epoch = l->epoch, .index = l->index, .global_n = global_n, .n = n, .x = s->x + skip * l->elems};
  if (s->labels) s->batch.labels = s->labels + skip * ronde__source_labels(l->source);
  if (s->targets) s->batch.targets = s->targets + skip * l->source->target_elems;
  go_on(l);
  return RONDE_OK;
}

/* ---- the task --------------------------------------------------------------------------------------------------- */

/* Guarded. False when the clock has passed deadline_ns (0: never). */
static bool wait_for_change(ronde__loader *l, uint64_t deadline_ns) {
  return ronde__guard_wait(&l->guard, l->options.time, &l->changed, RONDE__WAIT_ASIDE, deadline_ns);
}

static void tell_change(ronde__loader *l) { ronde__time_signal(l->options.time, &l->changed); }

/* Sleeps as the options say; woken by stop. Guarded. */
static void delay(ronde__loader *l) {
  if (l->options.delay_ns == 0) return;
  uint64_t until = ronde__time_now(l->options.time) + l->options.delay_ns;
  while (!l->stop && wait_for_change(l, until)) continue;
}

static void reader_main(void *arg) {
  ronde__loader *l = arg;
  if (l->options.world > 1) ronde__log_set_rank(l->options.rank);
  ronde__log_set_group(l->log_group);
  ronde__guard_enter(&l->guard);
  while (!l->stop && l->status == RONDE_OK) {
    for (; l->n_skips > 0; --l->n_skips) go_on(l);
    if (l->n_read - l->n_taken >= l->options.prefetch) {
      wait_for_change(l, 0);
      continue;
    }
    delay(l);
    if (l->stop) break;
    ronde__guard_leave(&l->guard);
    ronde_status status = read_batch(l, &l->slots[l->n_read % l->n_slots]);
    ronde__guard_enter(&l->guard);
    if (status == RONDE_OK && l->n_skips > 0) --l->n_skips;
    else if (status == RONDE_OK) ++l->n_read;
    l->status = status;
    tell_change(l);
  }
  ronde__guard_leave(&l->guard);
}

static ronde_status next_read_now(ronde__loader *l, ronde__batch *batch_out) {
  if (l->status == RONDE_OK) {
    ronde__guard_enter(&l->guard);
    delay(l);
    ronde__guard_leave(&l->guard);
    l->status = read_batch(l, &l->slots[l->n_taken % l->n_slots]);
  }
  if (l->status == RONDE_OK) *batch_out = l->slots[l->n_taken++ % l->n_slots].batch;
  return l->status;
}

void ronde__loader_again(ronde__loader *l, int n) { l->n_again = n; }

ronde_status ronde__loader_next(ronde__loader *l, ronde__batch *batch_out) {
  if (l->n_again > 0) {
    *batch_out = l->slots[(l->n_taken - l->n_again--) % l->n_slots].batch;
    return RONDE_OK;
  }
  if (!l->has_task) return next_read_now(l, batch_out);
  ronde__guard_enter(&l->guard);
  while (l->n_read == l->n_taken && l->status == RONDE_OK) wait_for_change(l, 0);
  ronde_status status = RONDE_OK;
  if (l->n_read > l->n_taken) {
    *batch_out = l->slots[l->n_taken++ % l->n_slots].batch;
    tell_change(l);
  } else {
    status = l->status;
  }
  ronde__guard_leave(&l->guard);
  return status;
}

ronde_status ronde__loader_skip(ronde__loader *l) {
  ronde__guard_enter(&l->guard);
  ronde_status status = l->status;
  if (!l->has_task) {
    go_on(l);
  } else if (l->n_read > l->n_taken) {
    ++l->n_taken;
    tell_change(l);
  } else {
    ++l->n_skips;
  }
  ronde__guard_leave(&l->guard);
  return status;
}

/* ---- creation --------------------------------------------------------------------------------------------------- */

static ronde_status alloc_rows(int64_t rows, int64_t elems, size_t item_bytes, void *rows_out) {
  int64_t bytes;
  void *p = NULL;
  if (__builtin_mul_overflow(rows, elems, &bytes) || __builtin_mul_overflow(bytes, (int64_t)item_bytes, &bytes))
    return ronde__fail(RONDE_E_MEMORY, "loader: a batch of %lld examples of %lld values is too large", (long long)rows,
                       (long long)elems);
  RONDE__ALLOC(p, (size_t)bytes, "loader");
  memcpy(rows_out, &p, sizeof p);
  return RONDE_OK;
}

static int64_t rows_of(const ronde__loader_options *o) {
  int64_t batch = ronde__sampler_batch(o->sampler);
  return o->whole ? batch : ronde__ceil_div(batch, o->world);
}

static int slots_of(const ronde__loader_options *o) { return o->prefetch + (int)ronde__max(1, o->keep); }

int64_t ronde__data_example_bytes(const ronde__data *data) {
  const ronde_source *source = &data->source;
  int64_t elems = ronde__source_elems(source) + (source->classes ? 0 : source->target_elems);
  return elems * (int64_t)sizeof(float) + ronde__source_labels(source) * (int64_t)sizeof(int64_t);
}

int64_t ronde__loader_bytes(const ronde__loader_options *o) {
  if (o->sizes_alone) return 0;
  return ronde__sampler_epoch_examples(o->sampler) * (int64_t)sizeof(int64_t) +
         slots_of(o) * rows_of(o) * ronde__data_example_bytes(o->data);
}

static ronde_status alloc_buffers(ronde__loader *l) {
  int64_t rows = rows_of(&l->options);
  l->n_slots = slots_of(&l->options);
  RONDE__ALLOC(l->slots, (size_t)l->n_slots * sizeof *l->slots, "loader");
  if (l->options.sizes_alone) return RONDE_OK;
  RONDE_TRY(alloc_rows(l->n_examples, 1, sizeof *l->ids, &l->ids));
  for (int i = 0; i < l->n_slots; ++i) {
    slot *s = &l->slots[i];
    RONDE_TRY(alloc_rows(rows, l->elems, sizeof *s->x, &s->x));
    if (l->source->classes) RONDE_TRY(alloc_rows(rows, ronde__source_labels(l->source), sizeof *s->labels, &s->labels));
    else RONDE_TRY(alloc_rows(rows, l->source->target_elems, sizeof *s->targets, &s->targets));
  }
  return RONDE_OK;
}

static ronde_status start_task(ronde__loader *l) {
  if (l->options.prefetch == 0) return RONDE_OK;
  l->task = (ronde__task){.name = "loader", .run = reader_main, .arg = l};
  int error = ronde__task_start(l->options.time, &l->task);
  if (error) return ronde__fail(RONDE_E_INTERNAL, "loader: cannot start a thread: %s", strerror(error));
  l->has_task = true;
  return RONDE_OK;
}

ronde_status ronde__loader_create(const ronde__loader_options *o, ronde__loader **loader_out) {
  if (o->world < 1 || o->rank < 0 || o->rank >= o->world || o->prefetch < 0)
    return ronde__fail(RONDE_E_INTERNAL, "loader: rank %d of %d with a prefetch of %d is not possible", o->rank,
                       o->world, o->prefetch);
  ronde__loader *l;
  RONDE__ALLOC(l, sizeof *l, "loader");
  l->options = *o;
  l->log_group = ronde__log_get_group();
  l->source = &o->data->source;
  l->elems = ronde__source_elems(l->source);
  l->batch = ronde__sampler_batch(o->sampler);
  l->n_batches = ronde__sampler_epoch_batches(o->sampler);
  l->n_examples = ronde__sampler_epoch_examples(o->sampler);
  /* The end of an epoch is the start of the next. */
  l->epoch = ronde__max(o->first_epoch, 1) + o->first_index / l->n_batches;
  l->index = o->first_index % l->n_batches;
  ronde__guard_init(&l->guard);
  ronde_status status = alloc_buffers(l);
  if (status == RONDE_OK) status = start_task(l);
  if (status == RONDE_OK) *loader_out = l;
  else ronde__loader_destroy(l);
  return status;
}

void ronde__loader_destroy(ronde__loader *l) {
  if (!l) return;
  if (l->has_task) {
    ronde__guard_enter(&l->guard);
    l->stop = true;
    tell_change(l);
    ronde__guard_leave(&l->guard);
    ronde__task_join(l->options.time, &l->task);
  }
  for (int i = 0; l->slots && i < l->n_slots; ++i) {
    ronde__free(l->slots[i].x);
    ronde__free(l->slots[i].labels);
    ronde__free(l->slots[i].targets);
  }
  ronde__free(l->slots);
  ronde__free(l->ids);
  ronde__store_close(&l->store);
  ronde__guard_destroy(&l->guard);
  ronde__free(l);
}

/* Checkpoints, written: a copy of the state, and the thread that makes a file of it. */
#include "state/checkpoint.h"

#include "io/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Caches and memory are the training's too: while a checkpoint is unpacked, summed and copied to the kernel's pages, steps
 * take 1.04 times as long (resnet50, 189 MB in 0.3 s). So its thread works for so long and then rests for REST times that. */
enum { WORK_NS = 2000000, REST = 5 };

/* Where a tensor's values lie in the snapshot. */
typedef struct piece {
  const ronde__weight_layout *layout;
  const float *packed;
  const int64_t *count; /* of a counter, else NULL */
  ronde__part part;     /* of a state in parts, instead of these */
} piece;

struct ronde__saver {
  const ronde__job *job;
  ronde__time *time;
  ronde__state state;
  char *folder;
  int64_t last_step; /* that the next save by steps counts from */
  bool any;          /* `progress` was saved, or is being saved */
  uint64_t due_ns;   /* by the clock */

  /* The snapshot: belongs to the writer while `busy`. */
  ronde__progress progress;
  float *values; /* [n_elems], then [n_arrays][n_trained], then [n_buffer_elems] */
  size_t n_elems, n_trained, n_buffer_elems, bytes;
  int64_t *counts; /* [buffers] */
  int64_t n_updates;
  json_t *note; /* the strategy's */
  ronde__file_tensor *tensors;
  piece *pieces; /* [n_tensors] */
  char **names;  /* of the arrays' tensors */
  int n_tensors, n_names;
  float *slice; /* [longest slice of a tensor] */
  bool at_leisure;
  uint64_t worked_ns; /* its processor time, when it rested last */

  ronde__task task;
  bool has_task;
  ronde__guard guard;
  ronde__event changed;
  atomic_bool hurry;       /* somebody waits for what is being written, */
  atomic_bool give_up;     /* or to write a newer state */
  bool busy, handed, stop; /* handed: to the task. Here and below: guarded */
  ronde_status status;
  ronde__record_checkpoints saved;
};

/* ---- the file ---- */

static json_t *best_json(const ronde__best *best) {
  if (best->epoch == 0) return json_null();
  return json_pack("{s:f, s:I, s:I, s:f, s:I, s:I}", "value", best->value, "epoch", (json_int_t)best->epoch, "step",
                   (json_int_t)best->step, "loss", best->score.loss_sum, "correct", (json_int_t)best->score.n_correct,
                   "examples", (json_int_t)best->score.n);
}

static json_t *plateau_json(const ronde__plateau *plateau) {
  return json_pack("{s:o, s:I, s:I, s:I}", "best", isfinite(plateau->best) ? json_real(plateau->best) : json_null(),
                   "tests", (json_int_t)plateau->tests, "drops", (json_int_t)plateau->drops, "waits",
                   (json_int_t)plateau->waits);
}

static json_t *place_json(const ronde__saver *s) {
  const ronde__progress *p = &s->progress;
  int64_t per_epoch = s->job->steps_per_epoch, epoch = p->step ? (p->step - 1) / per_epoch + 1 : 1;
  return json_pack("{s:I, s:I, s:I, s:I, s:b, s:I, s:{s:I, s:I, s:I, s:f}, s:o, s:o}", "step", (json_int_t)p->step,
                   "skipped", (json_int_t)p->skipped, "epoch", (json_int_t)epoch, "steps_of_epoch",
                   (json_int_t)(p->step - (epoch - 1) * per_epoch), "closed", p->closed, "optimizer_updates",
                   (json_int_t)s->n_updates, "epoch_sums", "steps", (json_int_t)p->sums.steps, "examples",
                   (json_int_t)p->sums.examples, "correct", (json_int_t)p->sums.n_correct, "loss", p->sums.loss_sum,
                   "best", best_json(&p->best), "plateau", plateau_json(&p->plateau));
}

static char *note_text(const ronde__saver *s) {
  const ronde__job *job = s->job;
  const ronde_source *source = &job->data->source;
  json_t *note = json_pack("{s:s, s:o, s:{s:o, s:s, s:I}, s:o, s:o, s:{s:s, s:s, s:s}, s:{s:i, s:s}}", "schema",
                           RONDE__CHECKPOINT_SCHEMA, "place", place_json(s), "data", "name",
                           ronde__json_text(source->name), "sha256", job->data->sha256, "train_examples",
                           (json_int_t)source->n_examples[RONDE_SPLIT_TRAIN], "given", ronde__config_given(job->given),
                           "config", ronde__config_json(job->config), "choices", "isa", job->compute.kernels->isa,
                           "gemm", ronde__gemm_name(job->compute.gemm), "bf16", ronde__bf16_name(job->compute.bf16),
                           "world", "workers", job->roles.n_workers, "strategy", job->strategy->name);
  if (note && s->note) json_object_set(note, "strategy", s->note);
  json_t *choices = json_object_get(note, "choices");
  if (job->strategy_reason) json_object_set_new(choices, "strategy", json_string(job->strategy->name));
  if (job->strategy_costs) json_object_set(choices, "candidates", job->strategy_costs);
  char *text = note ? json_dumps(note, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(note);
  return text;
}

static void rest(ronde__saver *s) {
  uint64_t worked = ronde__thread_cpu_ns() - s->worked_ns;
  if (!s->at_leisure || worked < WORK_NS) return;
  for (uint64_t i = 0; i < REST * worked / WORK_NS && !atomic_load(&s->hurry) && !atomic_load(&s->give_up); i++)
    ronde__time_sleep(s->time, WORK_NS);
  s->worked_ns = ronde__thread_cpu_ns();
}

static void read_piece(const ronde__saver *s, const piece *p, int64_t first, const void **data_out, int64_t *n_out) {
  *data_out = p->count ? (const void *)p->count : s->slice;
  *n_out = p->count ? 1 : ronde__weight_unpack_slice(p->layout, p->packed, first, s->slice);
}

/* A state that holds NaN or Inf is not worth an older one's place; the next step ends the run and names it. */
static ronde_status checkpoint_fetch(void *user, int i, int64_t first, const void **data_out, int64_t *n_out) {
  ronde__saver *s = user;
  const piece *p = &s->pieces[i];
  rest(s);
  if (atomic_load_explicit(&s->give_up, memory_order_relaxed)) return RONDE_E_CANCELLED;
  if (s->state.parts) RONDE_TRY(ronde__parts_fetch(s->state.parts, p->part, first, data_out, n_out));
  else read_piece(s, p, first, data_out, n_out);
  if (s->tensors[i].dtype == RONDE__FILE_I64 || s->job->compute.kernels->all_finite(*data_out, *n_out)) return RONDE_OK;
  ronde__log(RONDE_LOG_WARNING, "step %" PRId64 " was not saved: %s holds NaN or Inf", s->progress.step,
             s->tensors[i].name);
  return RONDE_E_NUMERIC;
}

static void remove_older(const ronde__saver *s) {
  char **paths;
  int n;
  if (ronde__checkpoint_list(s->folder, &paths, &n) != RONDE_OK) return;
  for (int i = 0; i < n; i++) {
    if (i >= s->job->options->keep) unlink(paths[i]);
    free(paths[i]);
  }
  ronde__free(paths);
}

/* Writes the snapshot. */
static ronde_status write_snapshot(ronde__saver *s) {
  ronde__weights_notes notes;
  ronde__weights_describe(s->job, &notes);
  char *note = note_text(s);
  char *path =
      ronde__format("%s/" RONDE__CHECKPOINT_FOLDER "/step-%" PRId64 ".safetensors", s->folder, s->progress.step);
  ronde_status status = RONDE_OK;
  if (!note || !path) status = ronde__fail(RONDE_E_MEMORY, "%s: no memory for a checkpoint", s->folder);
  if (status == RONDE_OK) {
    notes.meta[notes.n++] = (ronde__file_meta){RONDE__CHECKPOINT_NOTE, note};
    status = ronde__safetensors_write_checked(path, s->tensors, s->n_tensors, notes.meta, notes.n, checkpoint_fetch, s);
    if (status == RONDE_OK) remove_older(s);
  }
  ronde__weights_notes_release(&notes);
  free(note);
  free(path);
  return status;
}

static void write_and_note(ronde__saver *s, bool at_leisure) {
  uint64_t begin = ronde__time_now(s->time);
  /* In virtual time nothing else runs meanwhile that rests could leave the processor to. */
  s->at_leisure = at_leisure && !ronde__time_is_virtual(s->time);
  s->worked_ns = ronde__thread_cpu_ns();
  ronde_status status = write_snapshot(s);
  ronde__guard_enter(&s->guard);
  if (status == RONDE_OK) {
    s->saved.written++;
    s->saved.last_step = s->progress.step;
  } else if (status != RONDE_E_NUMERIC && status != RONDE_E_CANCELLED) {
    s->status = status;
  }
  s->saved.write_s += (double)(ronde__time_now(s->time) - begin) * 1e-9;
  s->busy = false;
  ronde__time_signal(s->time, &s->changed);
  ronde__guard_leave(&s->guard);
}

/* ---- the snapshot ---- */

/* Of one of the arrays; behind them lie the buffers. */
static float *state_values(const ronde__saver *s, int i) { return s->values + s->n_elems + (size_t)i * s->n_trained; }

static void copy_state(ronde__saver *s) {
  int n_buffers;
  size_t n_buffer_elems;
  const ronde__net_buffer *buffers = ronde__net_buffers(s->state.net, &n_buffers);
  const float *buffer_values = ronde__net_buffer_values(s->state.net, &n_buffer_elems);
  memcpy(s->values, ronde__net_values(s->state.net), s->n_elems * sizeof *s->values);
  for (int i = 0; i < s->state.n_arrays; i++)
    memcpy(state_values(s, i), s->state.arrays[i].values, s->n_trained * sizeof *s->values);
  if (n_buffer_elems) memcpy(state_values(s, s->state.n_arrays), buffer_values, n_buffer_elems * sizeof *s->values);
  for (int i = 0; i < n_buffers; i++) s->counts[i] = buffers[i].count;
}

static void take_snapshot(ronde__saver *s, const ronde__progress *progress) {
  uint64_t begin = ronde__time_now(s->time);
  if (!s->state.parts) copy_state(s);
  s->n_updates = ronde__optim_updates(s->state.optim);
  json_decref(s->note);
  s->note = s->job->strategy->note ? s->job->strategy->note(s->state.strategy_state) : NULL;
  s->progress = *progress;
  s->last_step = progress->step;
  s->any = true;
  uint64_t end = ronde__time_now(s->time);
  s->due_ns = end + s->job->checkpoint_ns;
  ronde__guard_enter(&s->guard);
  s->busy = true;
  s->saved.copy_s += (double)(end - begin) * 1e-9;
  ronde__guard_leave(&s->guard);
}

/* Guarded. */
static void wait_for_change(ronde__saver *s) {
  ronde__guard_wait(&s->guard, s->time, &s->changed, RONDE__WAIT_ASIDE, 0);
}

static void writer_main(void *arg) {
  ronde__saver *s = arg;
  /* Of this thread alone, on Linux: little more than what the training leaves. Not SCHED_IDLE: on a host that others
   * use, a checkpoint would never be whole. */
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 19);
  ronde__guard_enter(&s->guard);
  for (;;) {
    while (!s->handed && !s->stop) wait_for_change(s);
    if (!s->handed) break;
    s->handed = false;
    ronde__guard_leave(&s->guard);
    write_and_note(s, true);
    ronde__guard_enter(&s->guard);
  }
  ronde__guard_leave(&s->guard);
}

bool ronde__saver_due(ronde__saver *s, int64_t step) {
  const ronde__job *job = s->job;
  bool by_step = job->checkpoint_steps && step - s->last_step >= job->checkpoint_steps;
  bool by_clock = job->checkpoint_ns && ronde__time_now(s->time) >= s->due_ns;
  if (!by_step && !by_clock) return false;
  ronde__guard_enter(&s->guard);
  bool free = !s->busy;
  ronde__guard_leave(&s->guard);
  return free;
}

static ronde_status wait_idle(ronde__saver *s) {
  atomic_store(&s->hurry, true);
  ronde__guard_enter(&s->guard);
  while (s->busy) wait_for_change(s);
  ronde_status status = s->status;
  atomic_store(&s->hurry, false);
  ronde__guard_leave(&s->guard);
  return status;
}

ronde_status ronde__saver_begin(ronde__saver *s, const ronde__progress *progress) {
  RONDE_TRY(wait_idle(s));
  take_snapshot(s, progress);
  ronde__guard_enter(&s->guard);
  s->handed = true;
  ronde__time_signal(s->time, &s->changed);
  ronde__guard_leave(&s->guard);
  return RONDE_OK;
}

static bool is_saved(const ronde__saver *s, const ronde__progress *progress) {
  return s->any && s->progress.step == progress->step && s->progress.closed == progress->closed;
}

/* Where others use the processors, the thread that is writing may get too little of them to end within the time that is
 * left after a SIGTERM. */
ronde_status ronde__saver_now(ronde__saver *s, const ronde__progress *progress, bool hurried) {
  if (hurried && !is_saved(s, progress)) atomic_store(&s->give_up, true);
  ronde_status status = wait_idle(s);
  atomic_store(&s->give_up, false);
  RONDE_TRY(status);
  if (is_saved(s, progress)) return RONDE_OK;
  take_snapshot(s, progress);
  write_and_note(s, false);
  return wait_idle(s);
}

/* Of what is saved: with parts the others' too, and nothing is copied. */
static size_t state_bytes(const ronde__saver *s) {
  const ronde_graph *graph = ronde__net_graph(s->state.net);
  int64_t n = 0;
  for (int i = 0; i < graph->n_params; i++)
    n += ronde__shape_elems(&graph->params[i].shape) * (1 + (graph->params[i].frozen ? 0 : s->state.n_arrays));
  for (int i = 0; i < graph->n_buffers; i++) n += ronde__shape_elems(&graph->buffers[i].shape);
  return (size_t)n * sizeof *s->values;
}

ronde__record_checkpoints ronde__saver_written(ronde__saver *s) {
  ronde__guard_enter(&s->guard);
  ronde__record_checkpoints saved = s->saved;
  ronde__guard_leave(&s->guard);
  saved.bytes = (int64_t)(s->state.parts ? state_bytes(s) : s->bytes);
  return saved;
}

/* ---- creation ---- */

static void checkpoint_add_tensor(ronde__saver *s, const char *name, const ronde__shape *shape, piece where) {
  bool is_counter = where.count || where.part.kind == RONDE__PART_COUNTER;
  ronde__file_dtype dtype = is_counter ? RONDE__FILE_I64 : RONDE__FILE_F32;
  s->tensors[s->n_tensors] = (ronde__file_tensor){name, dtype, *shape, NULL};
  s->pieces[s->n_tensors++] = where;
}

static ronde_status add_states(ronde__saver *s, int index, const ronde__net_param *own) {
  const ronde__param *param = &ronde__net_graph(s->state.net)->params[index];
  for (int i = 0; i < s->state.n_arrays; i++) {
    char *name = s->names[s->n_names] = ronde__format(RONDE__RESERVED "%s.%s", s->state.arrays[i].name, param->name);
    if (!name) return ronde__fail(RONDE_E_MEMORY, "checkpoints: no memory for a name");
    s->n_names++;
    piece where = {.part = {RONDE__PART_ARRAY, index, i}};
    if (own) where = (piece){&own->layout, state_values(s, i) + own->offset, NULL, where.part};
    checkpoint_add_tensor(s, name, &param->shape, where);
  }
  return RONDE_OK;
}

/* A whole net has all of the graph's, in its order; of parts nothing is copied. */
static ronde_status list_tensors(ronde__saver *s) {
  const ronde_graph *graph = ronde__net_graph(s->state.net);
  int n;
  const ronde__net_param *params = s->state.parts ? NULL : ronde__net_params(s->state.net, &n);
  const ronde__net_buffer *buffers = s->state.parts ? NULL : ronde__net_buffers(s->state.net, &n);
  size_t n_tensors = (size_t)(graph->n_params * (1 + s->state.n_arrays) + graph->n_buffers);
  RONDE__ALLOC(s->tensors, n_tensors * sizeof *s->tensors, "checkpoints");
  RONDE__ALLOC(s->pieces, n_tensors * sizeof *s->pieces, "checkpoints");
  RONDE__ALLOC(s->names, n_tensors * sizeof *s->names, "checkpoints");
  RONDE__ALLOC(s->counts, (size_t)graph->n_buffers * sizeof *s->counts, "checkpoints");
  for (int i = 0; i < graph->n_params; i++) {
    const ronde__net_param *own = params ? &params[i] : NULL;
    piece where = {.part = {RONDE__PART_PARAM, i, 0}};
    if (own) where = (piece){&own->layout, s->values + own->offset, NULL, where.part};
    checkpoint_add_tensor(s, graph->params[i].name, &graph->params[i].shape, where);
    if (!graph->params[i].frozen) RONDE_TRY(add_states(s, i, own));
  }
  for (int i = 0; i < graph->n_buffers; i++) {
    const ronde__buffer *b = &graph->buffers[i];
    const ronde__net_buffer *own = buffers ? &buffers[i] : NULL;
    piece where = {.part = {b->is_counter ? RONDE__PART_COUNTER : RONDE__PART_BUFFER, i, 0}};
    if (own)
      where = (piece){&own->layout, state_values(s, s->state.n_arrays) + own->offset,
                      b->is_counter ? &s->counts[i] : NULL, where.part};
    checkpoint_add_tensor(s, b->name, &b->shape, where);
  }
  RONDE__ALLOC(s->slice, (size_t)ronde__net_slice_elems(s->state.net) * sizeof *s->slice, "checkpoints");
  return RONDE_OK;
}

static ronde_status set_up(ronde__saver *s) {
  s->n_elems = ronde__net_n_elems(s->state.net);
  ronde__net_buffer_values(s->state.net, &s->n_buffer_elems);
  s->n_trained = ronde__net_n_trained(s->state.net);
  s->bytes = (s->n_elems + (size_t)s->state.n_arrays * s->n_trained + s->n_buffer_elems) * sizeof *s->values;
  s->due_ns = ronde__time_now(s->time) + s->job->checkpoint_ns;
  s->folder = ronde__strdup(s->job->options->out);
  char *inner = ronde__format("%s/" RONDE__CHECKPOINT_FOLDER, s->job->options->out);
  ronde_status status =
      inner && s->folder ? ronde__folder_make(inner) : ronde__fail(RONDE_E_MEMORY, "checkpoints: no memory");
  free(inner);
  RONDE_TRY(status);
  /* Pages that no save touches cost nothing. */
  if (!s->state.parts) s->values = ronde__pages_map(s->bytes);
  if (!s->state.parts && !s->values)
    return ronde__fail(RONDE_E_MEMORY, "checkpoints: no memory for a copy of %zu bytes", s->bytes);
  RONDE_TRY(list_tensors(s));
  s->task = (ronde__task){.name = "checkpoints", .run = writer_main, .arg = s};
  if (ronde__task_start(s->time, &s->task)) return ronde__fail(RONDE_E_MEMORY, "checkpoints: cannot start a thread");
  s->has_task = true;
  return RONDE_OK;
}

ronde_status ronde__saver_create(const ronde__job *job, ronde__time *time, const ronde__state *state,
                                 ronde__saver **saver_out) {
  ronde__saver *s;
  RONDE__ALLOC(s, sizeof *s, "checkpoints");
  *s = (ronde__saver){.job = job, .time = time, .state = *state};
  if (job->resume) s->last_step = job->resume->progress.step;
  ronde__guard_init(&s->guard);
  ronde_status status = set_up(s);
  if (status != RONDE_OK) ronde__saver_destroy(s);
  else *saver_out = s;
  return status;
}

void ronde__saver_destroy(ronde__saver *s) {
  if (!s) return;
  if (s->has_task) {
    ronde__guard_enter(&s->guard);
    s->stop = true;
    ronde__time_signal(s->time, &s->changed);
    ronde__guard_leave(&s->guard);
    ronde__task_join(s->time, &s->task);
  }
  for (int i = 0; i < s->n_names; i++) free(s->names[i]);
  ronde__free(s->names);
  ronde__free(s->tensors);
  ronde__free(s->pieces);
  ronde__free(s->counts);
  ronde__free(s->slice);
  ronde__pages_unmap(s->values, s->bytes);
  free(s->folder);
  json_decref(s->note);
  ronde__guard_destroy(&s->guard);
  ronde__free(s);
}

/* The tape of an eager pass: its memory, and its backward. */
#include "graph/tape.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

void *ronde__tape_room(void *items, int n, int *capacity, size_t size) {
  if (n <= *capacity) return items;
  int larger = (int)ronde__max(64, 2 * (int64_t)n);
  void *moved = realloc(items, (size_t)larger * size);
  if (moved) *capacity = larger;
  else ronde__fail(RONDE_E_MEMORY, "tape: no memory for %d rows", n);
  return moved;
}

ronde_status ronde__tape_take(ronde__tape *t, int64_t n_elems, float **p_out) {
  *p_out = NULL;
  if (t->only_shapes || n_elems == 0) return RONDE_OK;
  *p_out = ronde__blocks_take(t->shared->blocks, (size_t)n_elems * sizeof(float));
  return *p_out ? RONDE_OK
                : ronde__fail(RONDE_E_MEMORY, "batch of %lld: no memory for %lld bytes of activations",
                              (long long)t->batch.n, (long long)n_elems * (long long)sizeof(float));
}

ronde_status ronde__tape_value_add(ronde__tape *t, const ronde__tape_value *value, int *index_out) {
  ronde__tape_value *values = ronde__tape_room(t->values, t->n_values + 1, &t->capacity.values, sizeof *t->values);
  if (!values) return RONDE_E_MEMORY;
  t->values = values;
  *index_out = t->n_values;
  values[t->n_values++] = *value;
  return RONDE_OK;
}

static void tape_give(ronde__tape *t, float **p) {
  ronde__blocks_give(t->shared->blocks, *p);
  *p = NULL;
}

static void give_data(ronde__tape *t, ronde__tape_value *value) {
  if (!value->external) tape_give(t, &value->data);
}

/* What an entry alone holds. */
static void give_entry(ronde__tape *t, ronde__tape_entry *entry) {
  tape_give(t, &entry->saved);
  for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++) tape_give(t, &entry->param[i]);
  for (int i = 0; i < RONDE__OP_MAX_BUFFERS; i++) tape_give(t, &entry->buffer[i]);
}

void ronde__tape_clear(ronde__tape *t) {
  for (int i = 0; i < t->n_entries; i++) give_entry(t, &t->entries[i]);
  for (int i = 0; i < t->n_values; i++) {
    give_data(t, &t->values[i]);
    tape_give(t, &t->values[i].gradient);
  }
  t->n_entries = t->n_values = t->n_tensors = t->n_params = t->n_buffers = 0;
}

static bool is_reached(const ronde__tape *t, const ronde__plan_step *step) {
  for (int i = 0; i < step->desc.n_outputs; i++)
    if (t->values[step->out[i]].reached) return true;
  return false;
}

void ronde__tape_finish(ronde__tape *t, int loss) {
  for (int i = t->n_entries - 1; i >= 0; i--) {
    ronde__tape_entry *entry = &t->entries[i];
    const ronde__plan_step *step = &entry->step;
    ronde__operands again = ronde__op_backward_reads(step->op, &step->desc);
    entry->reached = loss >= 0 && step->has_backward && (i == loss || is_reached(t, step));
    if (!entry->reached) {
      give_entry(t, entry);
      continue;
    }
    for (int j = 0; j < step->desc.n_inputs; j++) {
      ronde__tape_value *in = &t->values[step->in[j]];
      if (step->desc.need_dinput[j]) in->reached = true;
      if (again.in >> j & 1) in->read_last = i;
    }
    for (int j = 0; j < step->desc.n_outputs; j++)
      if (again.out >> j & 1) t->values[step->out[j]].read_last = i;
    for (int j = 0; j < step->desc.n_params; j++) t->finisher[step->param[j]] = i;
  }
  for (int i = 0; i < t->n_values; i++)
    if (t->values[i].read_last < 0) give_data(t, &t->values[i]);
}

/* ---- calls ---- */

void ronde__tape_bind(const ronde__tape *t, const ronde__tape_entry *entry, ronde__op_call *call) {
  const ronde__plan_step *step = &entry->step;
  int n;
  size_t n_elems;
  const ronde__net_param *params = ronde__net_params(t->shared->net, &n);
  const ronde__net_buffer *buffers = ronde__net_buffers(t->shared->net, &n);
  *call = (ronde__op_call){.labels = t->batch.labels,
                           .label_weight = t->batch.label_weight > 0 ? t->batch.label_weight : 1,
                           .loss_scale = t->loss_scale,
                           .pool = t->shared->options.pool,
                           .training = t->batch.training,
                           .seed = t->batch.seed,
                           .step = t->batch.step,
                           .first_example = t->batch.first_example,
                           .saved = entry->saved};
  for (int i = 0; i < step->desc.n_outputs; i++) call->out[i] = t->values[step->out[i]].data;
  for (int i = 0; i < step->desc.n_inputs; i++) call->in[i] = t->values[step->in[i]].data;
  for (int i = 0; i < step->desc.n_params; i++)
    call->param[i] =
        entry->is_foreign ? entry->param[i] : ronde__net_values(t->shared->net) + params[step->param[i]].offset;
  for (int i = 0; i < step->desc.n_buffers; i++) {
    const ronde__net_buffer *b = &buffers[step->buffer[i]];
    if (b->is_counter) continue;
    call->buffer[i] =
        entry->buffer[i] ? entry->buffer[i] : ronde__net_buffer_values(t->shared->net, &n_elems) + b->offset;
  }
}

/* ---- backward ---- */

/* The gradient of a parameter that a call had in another form than the net has. */
static ronde_status add_foreign(ronde__tape *t, const ronde__weight_layout *layout, const float *gradient,
                                const ronde__net_param *p, bool accumulate) {
  float *own = ronde__net_gradients(t->shared->net) + p->offset, *logical, *sum = NULL;
  int64_t n = ronde__shape_elems(&p->shape);
  RONDE_TRY(ronde__tape_take(t, n, &logical));
  ronde_status status = ronde__tape_take(t, n, &sum);
  if (status == RONDE_OK) {
    ronde__weight_unpack(layout, gradient, logical);
    if (accumulate) ronde__weight_unpack(&p->layout, own, sum);
    for (int64_t i = 0; i < n && accumulate; i++) logical[i] += sum[i];
    ronde__weight_pack(&p->layout, logical, own);
  }
  tape_give(t, &sum);
  tape_give(t, &logical);
  return status;
}

/* Places for the gradients that a call writes. */
static ronde_status take_gradients(ronde__tape *t, const ronde__tape_entry *entry, ronde__op_call *call) {
  const ronde__plan_step *step = &entry->step;
  int n_params;
  const ronde__net_param *params = ronde__net_params(t->shared->net, &n_params);
  for (int i = 0; i < step->desc.n_outputs; i++) call->dout[i] = t->values[step->out[i]].gradient;
  for (int i = 0; i < step->desc.n_inputs; i++) {
    ronde__tape_value *in = &t->values[step->in[i]];
    if (!step->desc.need_dinput[i]) continue;
    call->accumulate_dinput[i] = in->gradient != NULL;
    if (!in->gradient) RONDE_TRY(ronde__tape_take(t, ronde__phys_elems(&in->phys), &in->gradient));
    call->din[i] = in->gradient;
  }
  for (int i = 0; i < step->desc.n_params; i++) {
    if (step->desc.frozen[i]) continue;
    if (entry->is_foreign) RONDE_TRY(ronde__tape_take(t, ronde__weight_elems(&step->desc.param[i]), &call->dparam[i]));
    else call->dparam[i] = ronde__net_gradients(t->shared->net) + params[step->param[i]].offset;
  }
  return RONDE_OK;
}

static ronde_status call_backward(ronde__tape *t, const ronde__plan_step *step, const ronde__net_hooks *hooks,
                                  ronde__op_call *call) {
  ronde__prof *prof = t->shared->options.prof;
  if (ronde__loss_is_apart(step, hooks)) return ronde__loss_take(step, call, hooks), RONDE_OK;
  RONDE_TRY(ronde__tape_take(t, (int64_t)(step->work_bytes[1] / sizeof(float)), &call->work));
  uint64_t begin = prof ? ronde__prof_now(prof) : 0;
  ronde_status status = step->desc.form->backward(&step->desc, step->state, call);
  if (prof && status == RONDE_OK)
    ronde__prof_op_add(prof, step->backward_slot, begin, ronde__prof_now(prof), step->backward_flops);
  tape_give(t, &call->work);
  return status;
}

/* In a pass, what is a table in the recorded graph may be read as something else too: then all of its rows are met. */
static void bind_rows(const ronde__tape *t, const ronde__tape_entry *entry, ronde__op_call *call) {
  const ronde__plan_step *step = &entry->step;
  bool gives = step->op->gives_rows && !entry->is_foreign;
  for (int i = 0; i < step->desc.n_params; i++) {
    ronde__row_set *rows = ronde__net_rows(t->shared->net, step->param[i]);
    if (rows && gives && i == 0) call->rows = rows;
    else if (rows) ronde__row_set_add_all(rows);
  }
}

/* To the gradient of a shared parameter that an entry before has begun (touched), this one adds. */
static ronde_status tape_run_backward(ronde__tape *t, const ronde__tape_entry *entry, bool accumulate,
                                      const ronde__net_hooks *hooks, const bool *touched) {
  const ronde__plan_step *step = &entry->step;
  int n_params;
  const ronde__net_param *params = ronde__net_params(t->shared->net, &n_params);
  ronde__op_call call;
  ronde__tape_bind(t, entry, &call);
  for (int i = 0; i < step->desc.n_params; i++)
    call.accumulate_dparam[i] = !entry->is_foreign && (accumulate || touched[step->param[i]]);
  bind_rows(t, entry, &call);
  ronde_status status = take_gradients(t, entry, &call);
  if (status == RONDE_OK) status = call_backward(t, step, hooks, &call);
  for (int i = 0; i < step->desc.n_params && entry->is_foreign; i++) {
    if (step->desc.frozen[i]) continue;
    if (status == RONDE_OK)
      status = add_foreign(t, &step->desc.param[i], call.dparam[i], &params[step->param[i]],
                           accumulate || touched[step->param[i]]);
    tape_give(t, &call.dparam[i]);
  }
  return status;
}

/* The call was the last to need these. */
static void give_behind(ronde__tape *t, int index) {
  ronde__tape_entry *entry = &t->entries[index];
  const ronde__plan_step *step = &entry->step;
  give_entry(t, entry);
  for (int i = 0; i < step->desc.n_outputs; i++) {
    tape_give(t, &t->values[step->out[i]].gradient);
    if (t->values[step->out[i]].read_last == index) give_data(t, &t->values[step->out[i]]);
  }
  for (int i = 0; i < step->desc.n_inputs; i++)
    if (t->values[step->in[i]].read_last == index) give_data(t, &t->values[step->in[i]]);
}

ronde_status ronde__tape_backward(ronde__tape *t, bool accumulate, const ronde__net_hooks *hooks, bool *touched) {
  for (int i = t->n_entries - 1; i >= 0; i--) {
    const ronde__plan_step *step = &t->entries[i].step;
    if (!t->entries[i].reached) continue;
    RONDE_TRY(tape_run_backward(t, &t->entries[i], accumulate, hooks, touched));
    give_behind(t, i);
    for (int j = step->desc.n_params - 1; j >= 0; j--) {
      if (step->desc.frozen[j]) continue;
      touched[step->param[j]] = true;
      if (t->finisher[step->param[j]] == i) ronde__net_tell_gradient(t->shared->net, step->param[j], hooks);
    }
  }
  return RONDE_OK;
}

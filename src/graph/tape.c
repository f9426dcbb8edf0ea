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

ronde_status ronde__tape_take(ronde__eager *e, int64_t n_elems, float **p_out) {
  *p_out = NULL;
  if (e->only_shapes || n_elems == 0) return RONDE_OK;
  *p_out = ronde__blocks_take(e->blocks, (size_t)n_elems * sizeof(float));
  return *p_out ? RONDE_OK
                : ronde__fail(RONDE_E_MEMORY, "batch of %lld: no memory for %lld bytes of activations",
                              (long long)e->batch.n, (long long)n_elems * (long long)sizeof(float));
}

ronde_status ronde__tape_value_add(ronde__eager *e, const ronde__tape_value *value, int *index_out) {
  ronde__tape_value *values = ronde__tape_room(e->values, e->n_values + 1, &e->capacity.values, sizeof *e->values);
  if (!values) return RONDE_E_MEMORY;
  e->values = values;
  *index_out = e->n_values;
  values[e->n_values++] = *value;
  return RONDE_OK;
}

static void tape_give(ronde__eager *e, float **p) {
  ronde__blocks_give(e->blocks, *p);
  *p = NULL;
}

static void give_data(ronde__eager *e, ronde__tape_value *value) {
  if (!value->external) tape_give(e, &value->data);
}

/* What an entry alone holds. */
static void give_entry(ronde__eager *e, ronde__tape_entry *entry) {
  tape_give(e, &entry->saved);
  for (int i = 0; i < RONDE__OP_MAX_PARAMS; i++) tape_give(e, &entry->param[i]);
  for (int i = 0; i < RONDE__OP_MAX_BUFFERS; i++) tape_give(e, &entry->buffer[i]);
}

void ronde__tape_clear(ronde__eager *e) {
  for (int i = 0; i < e->n_entries; i++) give_entry(e, &e->entries[i]);
  for (int i = 0; i < e->n_values; i++) {
    give_data(e, &e->values[i]);
    tape_give(e, &e->values[i].gradient);
  }
  e->n_entries = e->n_values = e->n_tensors = e->n_params = e->n_buffers = 0;
}

static bool is_reached(const ronde__eager *e, const ronde__plan_step *step) {
  for (int i = 0; i < step->desc.n_outputs; i++)
    if (e->values[step->out[i]].reached) return true;
  return false;
}

void ronde__tape_finish(ronde__eager *e, int loss) {
  for (int i = e->n_entries - 1; i >= 0; i--) {
    ronde__tape_entry *entry = &e->entries[i];
    const ronde__plan_step *step = &entry->step;
    ronde__operands again = ronde__op_backward_reads(step->op, &step->desc);
    entry->reached = loss >= 0 && step->has_backward && (i == loss || is_reached(e, step));
    if (!entry->reached) {
      give_entry(e, entry);
      continue;
    }
    for (int j = 0; j < step->desc.n_inputs; j++) {
      ronde__tape_value *in = &e->values[step->in[j]];
      if (step->desc.need_dinput[j]) in->reached = true;
      if (again.in >> j & 1) in->read_last = i;
    }
    for (int j = 0; j < step->desc.n_outputs; j++)
      if (again.out >> j & 1) e->values[step->out[j]].read_last = i;
    for (int j = 0; j < step->desc.n_params; j++) e->finisher[step->param[j]] = i;
  }
  for (int i = 0; i < e->n_values; i++)
    if (e->values[i].read_last < 0) give_data(e, &e->values[i]);
}

/* ---- calls ---- */

void ronde__tape_bind(const ronde__eager *e, const ronde__tape_entry *entry, ronde__op_call *call) {
  const ronde__plan_step *step = &entry->step;
  int n;
  size_t n_elems;
  const ronde__net_param *params = ronde__net_params(e->net, &n);
  const ronde__net_buffer *buffers = ronde__net_buffers(e->net, &n);
  *call = (ronde__op_call){.labels = e->batch.labels,
                           .loss_scale = e->loss_scale,
                           .pool = e->options.pool,
                           .training = e->batch.training,
                           .seed = e->batch.seed,
                           .step = e->batch.step,
                           .first_example = e->batch.first_example,
                           .saved = entry->saved};
  for (int i = 0; i < step->desc.n_outputs; i++) call->out[i] = e->values[step->out[i]].data;
  for (int i = 0; i < step->desc.n_inputs; i++) call->in[i] = e->values[step->in[i]].data;
  for (int i = 0; i < step->desc.n_params; i++)
    call->param[i] = entry->is_foreign ? entry->param[i] : ronde__net_values(e->net) + params[step->param[i]].offset;
  for (int i = 0; i < step->desc.n_buffers; i++) {
    const ronde__net_buffer *b = &buffers[step->buffer[i]];
    if (b->is_counter) continue;
    call->buffer[i] = entry->buffer[i] ? entry->buffer[i] : ronde__net_buffer_values(e->net, &n_elems) + b->offset;
  }
}

/* ---- backward ---- */

/* The gradient of a parameter that a call had in another form than the net has. */
static ronde_status add_foreign(ronde__eager *e, const ronde__weight_layout *layout, const float *gradient,
                                const ronde__net_param *p, bool accumulate) {
  float *own = ronde__net_gradients(e->net) + p->offset, *logical, *sum = NULL;
  int64_t n = ronde__shape_elems(&p->shape);
  RONDE_TRY(ronde__tape_take(e, n, &logical));
  ronde_status status = ronde__tape_take(e, n, &sum);
  if (status == RONDE_OK) {
    ronde__weight_unpack(layout, gradient, logical);
    if (accumulate) ronde__weight_unpack(&p->layout, own, sum);
    for (int64_t i = 0; i < n && accumulate; i++) logical[i] += sum[i];
    ronde__weight_pack(&p->layout, logical, own);
  }
  tape_give(e, &sum);
  tape_give(e, &logical);
  return status;
}

/* Places for the gradients that a call writes. */
static ronde_status take_gradients(ronde__eager *e, const ronde__tape_entry *entry, ronde__op_call *call) {
  const ronde__plan_step *step = &entry->step;
  int n_params;
  const ronde__net_param *params = ronde__net_params(e->net, &n_params);
  for (int i = 0; i < step->desc.n_outputs; i++) call->dout[i] = e->values[step->out[i]].gradient;
  for (int i = 0; i < step->desc.n_inputs; i++) {
    ronde__tape_value *in = &e->values[step->in[i]];
    if (!step->desc.need_dinput[i]) continue;
    call->accumulate_dinput[i] = in->gradient != NULL;
    if (!in->gradient) RONDE_TRY(ronde__tape_take(e, ronde__phys_elems(&in->phys), &in->gradient));
    call->din[i] = in->gradient;
  }
  for (int i = 0; i < step->desc.n_params; i++) {
    if (step->desc.frozen[i]) continue;
    if (entry->is_foreign) RONDE_TRY(ronde__tape_take(e, ronde__weight_elems(&step->desc.param[i]), &call->dparam[i]));
    else call->dparam[i] = ronde__net_gradients(e->net) + params[step->param[i]].offset;
  }
  return RONDE_OK;
}

static ronde_status call_backward(ronde__eager *e, const ronde__plan_step *step, const ronde__net_hooks *hooks,
                                  ronde__op_call *call) {
  ronde__prof *prof = e->options.prof;
  if (ronde__loss_is_apart(step, hooks)) return ronde__loss_take(step, call, hooks), RONDE_OK;
  RONDE_TRY(ronde__tape_take(e, (int64_t)(step->work_bytes[1] / sizeof(float)), &call->work));
  uint64_t begin = prof ? ronde__prof_now(prof) : 0;
  ronde_status status = step->desc.form->backward(&step->desc, step->state, call);
  if (prof && status == RONDE_OK)
    ronde__prof_op_add(prof, step->backward_slot, begin, ronde__prof_now(prof), step->backward_flops);
  tape_give(e, &call->work);
  return status;
}

/* To the gradient of a shared parameter that an entry before has begun (touched), this one adds. */
static ronde_status tape_run_backward(ronde__eager *e, const ronde__tape_entry *entry, bool accumulate,
                                      const ronde__net_hooks *hooks, const bool *touched) {
  const ronde__plan_step *step = &entry->step;
  int n_params;
  const ronde__net_param *params = ronde__net_params(e->net, &n_params);
  ronde__op_call call;
  ronde__tape_bind(e, entry, &call);
  for (int i = 0; i < step->desc.n_params; i++)
    call.accumulate_dparam[i] = !entry->is_foreign && (accumulate || touched[step->param[i]]);
  ronde_status status = take_gradients(e, entry, &call);
  if (status == RONDE_OK) status = call_backward(e, step, hooks, &call);
  for (int i = 0; i < step->desc.n_params && entry->is_foreign; i++) {
    if (step->desc.frozen[i]) continue;
    if (status == RONDE_OK)
      status = add_foreign(e, &step->desc.param[i], call.dparam[i], &params[step->param[i]],
                           accumulate || touched[step->param[i]]);
    tape_give(e, &call.dparam[i]);
  }
  return status;
}

/* The call was the last to need these. */
static void give_behind(ronde__eager *e, int index) {
  ronde__tape_entry *entry = &e->entries[index];
  const ronde__plan_step *step = &entry->step;
  give_entry(e, entry);
  for (int i = 0; i < step->desc.n_outputs; i++) {
    tape_give(e, &e->values[step->out[i]].gradient);
    if (e->values[step->out[i]].read_last == index) give_data(e, &e->values[step->out[i]]);
  }
  for (int i = 0; i < step->desc.n_inputs; i++)
    if (e->values[step->in[i]].read_last == index) give_data(e, &e->values[step->in[i]]);
}

ronde_status ronde__tape_backward(ronde__eager *e, bool accumulate, const ronde__net_hooks *hooks, bool *touched) {
  for (int i = e->n_entries - 1; i >= 0; i--) {
    const ronde__plan_step *step = &e->entries[i].step;
    if (!e->entries[i].reached) continue;
    RONDE_TRY(tape_run_backward(e, &e->entries[i], accumulate, hooks, touched));
    give_behind(e, i);
    for (int j = step->desc.n_params - 1; j >= 0; j--) {
      if (step->desc.frozen[j]) continue;
      touched[step->param[j]] = true;
      if (e->finisher[step->param[j]] == i) ronde__net_tell_gradient(e->net, step->param[j], hooks);
    }
  }
  return RONDE_OK;
}

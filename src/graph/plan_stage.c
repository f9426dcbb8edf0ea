/* A stage of a plan: the steps of the whole that run in the place of its nodes, between receives and sends. The whole is
 * laid out before, so that layouts, fusions, forms and the order in which a gradient is summed are those of the whole.
 *
 * A value crosses a cut if it is made in front of it and read behind it. */
#include "graph/plan.h"

/* What the steps behind a cut want of a value. */
typedef struct crossing {
  bool crosses, for_loss, for_output;
  bool gradient; /* some of it is made there */
} crossing;

static crossing crossing_of(const ronde__plan *plan, int value, int cut) {
  crossing c = {0};
  for (int i = 0; i < plan->n_steps && value != plan->target; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    if (step->node < cut) continue;
    for (int j = 0; j < step->desc.n_outputs; j++)
      if (step->out[j] == value) return c;
    for (int j = 0; j < step->desc.n_inputs; j++) {
      if (step->in[j] != value) continue;
      c.crosses = true;
      c.for_loss |= step->for_loss;
      c.for_output |= step->for_output;
      c.gradient |= step->has_backward && step->desc.need_dinput[j];
    }
  }
  return c;
}

size_t ronde__plan_crossing_bytes(const ronde__plan *plan, int cut) {
  size_t bytes = 0;
  for (int v = 0; v < plan->n_values; v++) {
    crossing c = crossing_of(plan, v, cut);
    if (c.crosses) bytes += ronde__phys_bytes(&plan->values[v].phys) * (1 + c.gradient);
  }
  return bytes;
}

static void add_message(ronde__plan *plan, ronde__plan_step *steps, int *n_steps, ronde__plan_step step,
                        const crossing *c) {
  step.for_loss = c->for_loss;
  step.for_output = c->for_output;
  step.under_way = plan->n_under_way++;
  steps[(*n_steps)++] = step;
}

static void add_receives(ronde__plan *plan, const ronde__plan_options *options, ronde__plan_step *steps, int *n_steps) {
  for (int v = 0, message = 0; v < plan->n_values && options->stage.begin > 0; v++) {
    crossing c = crossing_of(plan, v, options->stage.begin);
    if (!c.crosses) continue;
    ronde__plan_step step = ronde__step_of_receive(&plan->values[v].phys, message++, options);
    step.out[0] = v;
    add_message(plan, steps, n_steps, step, &c);
    plan->n_received++;
  }
}

/* The caller's memory is the caller's again when the pass has ended, which may be before it is sent: a copy travels. */
static int copy_of_external(ronde__plan *plan, const ronde__plan_options *options, int value, const crossing *c,
                            ronde__plan_step *steps, int *n_steps) {
  const ronde__phys *phys = &plan->values[value].phys;
  ronde__plan_step step = ronde__step_of_reorder(phys, phys, false, options);
  step.for_loss = c->for_loss;
  step.for_output = c->for_output;
  step.in[0] = value;
  step.out[0] = ronde__plan_add_value(plan, *phys, false, false);
  steps[(*n_steps)++] = step;
  return step.out[0];
}

static void add_sends(ronde__plan *plan, const ronde__plan_options *options, ronde__plan_step *steps, int *n_steps) {
  for (int v = 0, message = 0, n = plan->n_values; v < n; v++) {
    crossing c = crossing_of(plan, v, options->stage.end);
    if (!c.crosses) continue;
    int sent =
        v == plan->input && options->stage.begin == 0 ? copy_of_external(plan, options, v, &c, steps, n_steps) : v;
    ronde__plan_step step = ronde__step_of_send(&plan->values[v].phys, c.gradient, message++, options);
    step.in[0] = sent;
    add_message(plan, steps, n_steps, step, &c);
  }
}

static bool is_inside(const ronde__stage *stage, int node) { return node >= stage->begin && node < stage->end; }

/* ---- parameters and buffers ---- */

/* Which stage executes a parameter, or a buffer: 1 this one, -1 another; where no step does, 2 and -2. */
typedef struct owned {
  int *params, *buffers;
} owned;

static ronde_status find_owned(const ronde__plan *plan, const ronde_graph *graph, const ronde__stage *stage,
                               const owned *o) {
  for (int i = 0; i < plan->n_steps; i++) {
    const ronde__plan_step *step = &plan->steps[i];
    int owner = is_inside(stage, step->node) ? 1 : -1;
    for (int j = 0; j < step->desc.n_params; j++) {
      if (o->params[step->param[j]] == -owner)
        return ronde__fail(RONDE_E_USAGE,
                           "%s shares %s with a layer of another stage: layers that share a parameter must be in one; "
                           "cut the network elsewhere",
                           graph->nodes[step->desc.layer].label, graph->params[step->param[j]].name);
      o->params[step->param[j]] = owner;
    }
    for (int j = 0; j < step->desc.n_buffers; j++) o->buffers[step->buffer[j]] = owner;
  }
  /* Those of nodes that nobody executes belong where these are. */
  for (int i = graph->n_nodes - 1; i >= 0; i--) {
    const ronde__node *node = &graph->nodes[i];
    int owner = is_inside(stage, i) ? 2 : -2;
    for (int j = 0; j < node->n_params; j++)
      if (o->params[node->param[j]] % 2 == 0) o->params[node->param[j]] = owner;
    for (int j = 0; j < node->n_buffers; j++)
      if (o->buffers[node->buffer[j]] % 2 == 0) o->buffers[node->buffer[j]] = owner;
  }
  return RONDE_OK;
}

/* Numbers what is owned anew: owner [n] becomes the new numbers, of_graph [number] the old ones. */
static int renumber(int *owner, int n, int *of_graph) {
  int n_owned = 0;
  for (int i = 0; i < n; i++) {
    if (owner[i] <= 0) continue;
    of_graph[n_owned] = i;
    owner[i] = n_owned++;
  }
  return n_owned;
}

/* ---- the stage ---- */

static void take_inside(const ronde__plan *plan, const ronde__stage *stage, const owned *o, ronde__plan_step *steps,
                        int *n_steps) {
  for (int i = 0; i < plan->n_steps; i++) {
    if (!is_inside(stage, plan->steps[i].node)) continue;
    ronde__plan_step *step = &steps[(*n_steps)++];
    *step = plan->steps[i];
    for (int j = 0; j < step->desc.n_params; j++) step->param[j] = o->params[step->param[j]];
    for (int j = 0; j < step->desc.n_buffers; j++) step->buffer[j] = o->buffers[step->buffer[j]];
  }
}

/* The output is computed in one stage, and the inputs read in the first; elsewhere they are received like any value. */
static void find_ends(ronde__plan *plan, const ronde__stage *stage) {
  bool outside = plan->output == plan->input && stage->begin > 0;
  for (int i = 0; i < plan->n_taken; i++) outside |= plan->output == plan->taken[i] && stage->begin > 0;
  for (int i = 0; i < plan->n_steps; i++)
    for (int j = 0; j < plan->steps[i].desc.n_outputs; j++)
      outside |= plan->steps[i].out[j] == plan->output && !is_inside(stage, plan->steps[i].node);
  if (outside) plan->output = -1;
  if (stage->begin == 0) return;
  plan->n_taken = 0;
  if (plan->input >= 0) plan->values[plan->input].external = false;
  plan->input = -1;
}

static ronde_status cut(ronde__plan *plan, const ronde_graph *graph, const ronde__plan_options *options,
                        const owned *o) {
  const ronde__stage *stage = &options->stage;
  ronde__plan_step *steps;
  int n_steps = 0, n_inside;
  RONDE_TRY(find_owned(plan, graph, stage, o));
  RONDE__ALLOC(steps, (size_t)(plan->n_steps + 2 * plan->n_values + 1) * sizeof *steps, "stage");
  plan->n_params = renumber(o->params, graph->n_params, plan->param_of);
  plan->n_buffers = renumber(o->buffers, graph->n_buffers, plan->buffer_of);
  add_receives(plan, options, steps, &n_steps);
  n_inside = n_steps;
  take_inside(plan, stage, o, steps, &n_steps);
  n_inside = n_steps - n_inside;
  add_sends(plan, options, steps, &n_steps);
  find_ends(plan, stage);
  ronde__free(plan->steps);
  plan->steps = steps;
  plan->n_steps = n_steps;
  return n_inside ? RONDE_OK
                  : ronde__fail(RONDE_E_USAGE, "the stage from %s to %s has nothing to compute: use fewer stages",
                                graph->nodes[stage->begin].label, graph->nodes[stage->end - 1].label);
}

ronde_status ronde__plan_stage(ronde__plan *plan, const ronde_graph *graph, const ronde__plan_options *options) {
  const ronde__stage *stage = &options->stage;
  if (stage->begin < 0 || stage->begin >= stage->end || stage->end > graph->n_nodes)
    return ronde__fail(RONDE_E_INTERNAL, "a stage of nodes %d to %d in a graph of %d", stage->begin, stage->end,
                       graph->n_nodes);
  owned o;
  RONDE__ALLOC(o.params, (size_t)(graph->n_params + graph->n_buffers) * sizeof *o.params, "stage");
  o.buffers = o.params + graph->n_params;
  ronde_status status = cut(plan, graph, options, &o);
  ronde__free(o.params);
  return status;
}

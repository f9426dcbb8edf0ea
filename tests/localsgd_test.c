/* Local SGD: whole runs against a replay of the algorithm, with the network alone and in f64 where it averages; what the
 * replicas hold; what is refused, and what breaks. */
#include "ps_testing.h"
#include "sanitized.h"

#include "lib/folder.h"

/* ---- the replay --------------------------------------------------------------------------------------------------- */

enum { N_MOST = 7 };
static const int worlds[] = {1, 2, 3, 4, 7};

/* What a run is asked, as the replay reads it. */
typedef struct plan {
  int workers, every, after, checkpoint; /* checkpoint: they meet every so many steps, 0: only at an epoch's end */
  bool overlap;
  double outer_lr, outer_momentum, lr, momentum, decay, clip;
  int examples, batch, epochs;
  ronde_model_fn model;
} plan;

/* Of all parameters that train: what each worker has, and what they have together. */
typedef struct replica {
  double *w, *velocity, *begun, *sent; /* begun, sent: of a sum that is under way */
  float *buffers;
} replica;

typedef struct replay {
  const plan *p;
  ronde__net *net;
  size_t n, n_buffers;
  replica at[N_MOST];
  double *global, *outer;
  float *gradient, *weights;
  int n_local;
  bool under_way;
} replay;

static double *reals(size_t n) { return calloc(n, sizeof(double)); }

/* Its gradient counts as often as there are workers; zeros where it has no example. */
static void local_gradient(replay *r, int worker, int64_t first, int64_t batch) {
  int n_workers = r->p->workers;
  int64_t own = ronde__shard_begin(batch, worker + 1, n_workers) - ronde__shard_begin(batch, worker, n_workers);
  memset(r->gradient, 0, r->n * sizeof *r->gradient);
  if (own == 0) return;
  size_t n;
  float *buffers = ronde__net_buffer_values(r->net, &n);
  for (size_t i = 0; i < r->n; ++i) r->weights[i] = (float)r->at[worker].w[i];
  if (n) memcpy(buffers, r->at[worker].buffers, n * sizeof *buffers);
  gradient_of(r->net, r->weights, worker, n_workers, first, batch, r->gradient);
  if (n) memcpy(r->at[worker].buffers, buffers, n * sizeof *buffers);
  double factor = (double)own * n_workers / (double)batch, squares = 0;
  for (size_t i = 0; i < r->n; ++i) squares += pow(r->gradient[i] = (float)(r->gradient[i] * factor), 2);
  if (r->p->clip > 0 && sqrt(squares) > r->p->clip)
    for (size_t i = 0; i < r->n; ++i) r->gradient[i] *= (float)(r->p->clip / (sqrt(squares) + 1e-6));
}

static void local_step(replay *r, int worker, int64_t first, int64_t batch) {
  replica *own = &r->at[worker];
  local_gradient(r, worker, first, batch);
  for (size_t i = 0; i < r->n; ++i) {
    double g = r->gradient[i] + r->p->decay * own->w[i];
    own->velocity[i] = r->p->momentum * own->velocity[i] + g;
    own->w[i] -= r->p->lr * own->velocity[i];
  }
}

static void begin(replay *r) {
  for (int v = 0; v < r->p->workers; ++v)
    for (size_t i = 0; i < r->n; ++i) {
      r->at[v].sent[i] = r->global[i] - r->at[v].w[i];
      r->at[v].begun[i] = r->at[v].w[i];
    }
  r->under_way = true;
  r->n_local = 0;
}

static void end(replay *r, bool averages) {
  double lr = averages ? 1 : r->p->outer_lr, momentum = averages ? 0 : r->p->outer_momentum;
  for (size_t i = 0; i < r->n; ++i) {
    double mean = 0;
    for (int v = 0; v < r->p->workers; ++v) mean += r->at[v].sent[i] / r->p->workers;
    if (!averages) r->outer[i] = momentum * r->outer[i] + mean;
    r->global[i] -= lr * (averages ? mean : momentum > 0 ? mean + momentum * r->outer[i] : mean);
    for (int v = 0; v < r->p->workers; ++v) r->at[v].w[i] = r->global[i] + (r->at[v].w[i] - r->at[v].begun[i]);
  }
  r->under_way = false;
}

static void meet(replay *r) {
  if (r->under_way) end(r, false);
  if (r->n_local > 0) {
    begin(r);
    end(r, false);
  }
  for (size_t i = 0; i < r->n; ++i) {
    double mean = 0;
    for (int v = 0; v < r->p->workers; ++v) mean += r->at[v].velocity[i] / r->p->workers;
    for (int v = 0; v < r->p->workers; ++v) r->at[v].velocity[i] = mean;
  }
  for (size_t i = 0; i < r->n_buffers; ++i) {
    double mean = 0;
    for (int v = 0; v < r->p->workers; ++v) mean += (double)r->at[v].buffers[i] / r->p->workers;
    for (int v = 0; v < r->p->workers; ++v) r->at[v].buffers[i] = (float)mean;
  }
}

static void replay_step(replay *r, int64_t step, int64_t first, int64_t batch) {
  bool averages = step < r->p->after;
  for (int v = 0; v < r->p->workers; ++v) local_step(r, v, first, batch);
  r->n_local++;
  if (!averages && r->n_local < r->p->every) return;
  if (r->under_way) end(r, averages);
  begin(r);
  if (averages || !r->p->overlap) end(r, averages);
}

static void replay_run(replay *r) {
  const plan *p = r->p;
  int64_t step = 0;
  for (int epoch = 0; epoch < p->epochs; ++epoch) {
    for (int64_t first = 0; first < p->examples; first += p->batch) {
      replay_step(r, ++step, first, ronde__min(p->batch, p->examples - first));
      if (p->checkpoint && step % p->checkpoint == 0) meet(r);
    }
    meet(r);
  }
}

static void replay_begin(replay *r, const plan *p, ronde__net *net) {
  *r = (replay){.p = p, .net = net, .n = ronde__net_n_trained(net)};
  assert_int_equal(r->n, ronde__net_n_elems(net));
  assert_int_equal(ronde__net_init(net, 1), RONDE_OK);
  const float *buffers = ronde__net_buffer_values(net, &r->n_buffers);
  r->global = reals(r->n);
  r->outer = reals(r->n);
  r->gradient = floats(r->n);
  r->weights = floats(r->n);
  for (size_t i = 0; i < r->n; ++i) r->global[i] = ronde__net_values(net)[i];
  for (int v = 0; v < p->workers; ++v) {
    r->at[v] = (replica){reals(r->n), reals(r->n), reals(r->n), reals(r->n), floats(r->n_buffers + 1)};
    memcpy(r->at[v].w, r->global, r->n * sizeof *r->global);
    if (r->n_buffers) memcpy(r->at[v].buffers, buffers, r->n_buffers * sizeof *buffers);
  }
}

static void replay_free(replay *r) {
  for (int v = 0; v < r->p->workers; ++v) {
    free(r->at[v].w);
    free(r->at[v].velocity);
    free(r->at[v].begun);
    free(r->at[v].sent);
    free(r->at[v].buffers);
  }
  free(r->global);
  free(r->outer);
  free(r->gradient);
  free(r->weights);
}

/* ---- runs against it ---------------------------------------------------------------------------------------------- */

static const plan *played;       /* what the replay does, */
static double played_difference; /* and how far the run is from it: of its largest change since the fresh weights */

static void reset_buffers(ronde__net *net, const float *fresh, size_t n) {
  if (n) memcpy(ronde__net_buffer_values(net, &n), fresh, n * sizeof *fresh);
}

static double distance(const float *got, const double *wanted, const float *fresh, size_t n) {
  double difference = 0, change = 0;
  for (size_t i = 0; i < n; ++i) {
    difference = fmax(difference, fabs(got[i] - wanted[i]));
    change = fmax(change, fabs(wanted[i] - fresh[i]));
  }
  assert_true(change > 0);
  return difference / change;
}

/* Running means begin at 0, running variances at 1. */
static void fresh_buffers(ronde__net *net, float *values) {
  int n_buffers;
  const ronde__net_buffer *buffers = ronde__net_buffers(net, &n_buffers);
  for (int i = 0; i < n_buffers; ++i)
    for (int64_t j = 0; j < ronde__shape_elems(&buffers[i].shape) && !buffers[i].is_counter; ++j)
      values[buffers[i].offset + (size_t)j] = strstr(buffers[i].name, "running_var") ? 1 : 0;
}

static void compare_with_replay(ronde__run *run) {
  ronde__net *net = run->ranks[0].net;
  size_t n = ronde__net_n_elems(net), n_buffers;
  const float *buffers = ronde__net_buffer_values(net, &n_buffers);
  float *got = memcpy(floats(n), ronde__net_values(net), n * sizeof *got), *fresh = floats(n);
  float *got_buffers = floats(n_buffers + 1), *first_buffers = floats(n_buffers + 1);
  if (n_buffers) memcpy(got_buffers, buffers, n_buffers * sizeof *buffers);
  for (int v = 1; v < run->n_ranks && n_buffers; ++v)
    assert_memory_equal(ronde__net_buffer_values(run->ranks[v].net, &n_buffers), got_buffers,
                        n_buffers * sizeof *buffers);
  fresh_buffers(net, first_buffers);
  reset_buffers(net, first_buffers, n_buffers);
  replay r;
  replay_begin(&r, played, net);
  memcpy(fresh, ronde__net_values(net), n * sizeof *fresh);
  replay_run(&r);
  played_difference = distance(got, r.global, fresh, n);
  for (size_t i = 0; i < n_buffers; ++i)
    played_difference = fmax(played_difference, fabs(got_buffers[i] - r.at[0].buffers[i]));
  replay_free(&r);
  free(got);
  free(fresh);
  free(got_buffers);
  free(first_buffers);
}

static observed run_plan(const plan *p, const plan *replayed, const char *more) {
  char options[512], checkpoint[64] = "";
  ronde_source source = small_source(p->examples, 0);
  if (p->checkpoint)
    snprintf(checkpoint, sizeof checkpoint, "out=%s overwrite=on checkpoint-every=%d", folder, p->checkpoint);
  snprintf(
      options, sizeof options,
      "threads=1 shuffle=off strategy=localsgd workers=%d sync-every=%d local-after=%d outer-lr=%g outer-momentum=%g "
      "sync-overlap=%s lr=%g momentum=%g weight-decay=%g clip=%g batch=%d epochs=%d %s %s",
      p->workers, p->every, p->after, p->outer_lr, p->outer_momentum, p->overlap ? "on" : "off", p->lr, p->momentum,
      p->decay, p->clip, p->batch, p->epochs, checkpoint, more);
  played = replayed;
  observe_also = replayed ? compare_with_replay : NULL;
  observed o = observe(options, &source, p->model ? p->model : small_model, NULL);
  observe_also = NULL;
  if (o.status != RONDE_OK) fail_msg("%s: status %d", options, o.status);
  if (!replicas_equal(&o)) fail_msg("%s: replicas differ", options);
  assert_int_equal(o.examples, p->examples * p->epochs);
  return o;
}

static void check_plan(const plan *p) {
  observed o = run_plan(p, p, "");
  if (played_difference > 3 * UPDATE_TOLERANCE)
    fail_msg("%d workers, every %d, after %d, overlap %d, outer %g %g: %g away from the replay", p->workers, p->every,
             p->after, p->overlap, p->outer_lr, p->outer_momentum, played_difference);
  free(o.weights);
}

/* 33 = 4 * 8 + 1: the last step of an epoch is one example's. 4 does not divide an epoch's 5 steps; 16 of an epoch of
 * 19 steps leaves 3, and 4 where they meet at step 20 too. */
static const plan plain = {.every = 4, .outer_lr = 1, .lr = 0.2, .examples = 33, .batch = 8, .epochs = 2};

static void test_runs_are_their_replay(void **state) {
  static const int every[] = {1, 4, 16};
  for (size_t w = 0; w < RONDE__COUNT(worlds); ++w)
    for (size_t k = 0; k < RONDE__COUNT(every); ++k)
      for (int variant = 0; variant < 4; ++variant) {
        plan p = plain;
        if (IN_PART && worlds[w] != 3) continue;
        p.workers = worlds[w];
        p.every = every[k];
        p.overlap = variant & 1;
        if (variant & 2) p.outer_lr = 0.7, p.outer_momentum = 0.6;
        if (every[k] == 16) p.examples = 150;
        check_plan(&p);
      }
}

/* Each worker's momentum is its own between meetings; what has no gradient decays on all alike. */
static void test_local_optimizers_and_checkpoints(void **state) {
  for (int variant = 0; variant < 8; ++variant) {
    plan p = plain;
    p.workers = 3;
    p.momentum = 0.5;
    p.decay = 0.01;
    p.overlap = variant & 1;
    p.checkpoint = variant & 2 ? 3 : 0;
    p.model = variant & 4 ? dead_taps_model : small_model;
    if (variant & 1) p.outer_momentum = 0.5, p.outer_lr = 0.5;
    check_plan(&p);
  }
}

static void test_dead_weights_that_do_not_move(void **state) {
  plan p = plain;
  p.workers = 3;
  p.model = dead_taps_model;
  check_plan(&p);
  p.overlap = true;
  check_plan(&p);
}

static void test_local_steps_after_some(void **state) {
  static const int after[] = {1, 2, 4, 7, 100};
  for (size_t i = 0; i < RONDE__COUNT(after); ++i)
    for (int variant = 0; variant < 4; ++variant) {
      plan p = plain;
      p.workers = 3;
      p.after = after[i];
      p.overlap = variant & 1;
      if (variant & 2) p.outer_lr = 0.7, p.outer_momentum = 0.6;
      check_plan(&p);
    }
}

static void test_clipping_is_of_local_gradients(void **state) {
  plan p = plain;
  p.workers = 3;
  p.clip = 0.1;
  check_plan(&p);
}

static ronde_tensor *normed_model(ronde_graph *graph, ronde_tensor *x, int64_t classes, void *user) {
  x = ronde_conv2d(x, "conv1", &(ronde_conv2d_options){.out_channels = 5, .kernel = {3, 3}, .padding = {1, 1}});
  x = ronde_relu(ronde_batch_norm2d(x, "bn1", NULL));
  return ronde_linear(ronde_flatten(x), "fc", classes, true);
}

static void test_running_statistics_are_averaged(void **state) {
  for (int overlap = 0; overlap < 2; ++overlap) {
    plan p = plain;
    p.workers = 3;
    p.overlap = overlap;
    p.model = normed_model;
    check_plan(&p);
  }
}

/* The harness sees what is not as it was asked. */
static void test_another_algorithm_is_seen(void **state) {
  plan p = plain, other;
  p.workers = 3;
  p.momentum = 0.5;
  for (int i = 0; i < 5; ++i) {
    other = p;
    if (i == 0) other.every = 3;
    if (i == 1) other.outer_lr = 0.99;
    if (i == 2) other.outer_momentum = 0.01;
    if (i == 3) other.overlap = true;
    if (i == 4) other.after = 3;
    observed o = run_plan(&p, &other, "");
    if (played_difference < 30 * UPDATE_TOLERANCE) fail_msg("other plan %d: only %g away", i, played_difference);
    free(o.weights);
  }
}

/* ---- of every step, it is one worker's ---------------------------------------------------------------------------- */

/* Momentum and decay are linear, so the mean of the workers' is the momentum of the mean. */
static void test_every_step_is_allreduce(void **state) {
  static const char *const kinds[] = {"batch=14", "batch=5", "batch=1", "batch=8 momentum=0.5 weight-decay=0.01",
                                      "batch=3 accumulate=2"};
  for (size_t k = 0; k < RONDE__COUNT(kinds); ++k) {
    observed fresh = train(17, NULL, "steps=1 lr=0 %s", kinds[k]);
    observed one = train(17, NULL, "epochs=2 lr=0.1 %s", kinds[k]);
    for (size_t w = 0; w < RONDE__COUNT(worlds); ++w) {
      if (IN_PART && worlds[w] != 3) continue;
      observed all = train(17, NULL, "epochs=2 lr=0.1 workers=%d strategy=allreduce %s", worlds[w], kinds[k]);
      observed local =
          train(17, NULL, "epochs=2 lr=0.1 workers=%d strategy=localsgd sync-every=1 %s", worlds[w], kinds[k]);
      assert_true(replicas_equal(&local));
      if (update_difference(&local, &one, &fresh) > 3 * UPDATE_TOLERANCE ||
          update_difference(&local, &all, &fresh) > 3 * UPDATE_TOLERANCE)
        fail_msg("%d workers, %s: %g and %g away", worlds[w], kinds[k], update_difference(&local, &one, &fresh),
                 update_difference(&local, &all, &fresh));
      assert_int_equal(local.examples, one.examples);
      assert_true(fabs(local.train_loss - one.train_loss) < 1e-5);
      if (worlds[w] == 1) assert_true(bits_equal(&local, &one));
      free(all.weights);
      free(local.weights);
    }
    free(fresh.weights);
    free(one.weights);
  }
}

/* ---- bits --------------------------------------------------------------------------------------------------------- */

static void test_how_work_is_done_changes_no_bit(void **state) {
  static const char *const pairs[][2] = {
      {"workers=4", "workers=4"},
      {"workers=4 sync-overlap=on outer-momentum=0.5", "workers=4 sync-overlap=on outer-momentum=0.5"},
      {"workers=3 sync-overlap=on", "workers=3 sync-overlap=on drill=slow:1:3"},
      {"workers=2 sync-overlap=on", "workers=2 sync-overlap=on bucket-mb=0.001"}, /* of two there is one order */
      {"workers=3 threads=1 optimizer=adam", "workers=3 threads=3 optimizer=adam"},
      {"workers=3 shard=static", "workers=3 shard=whole"},
      {"workers=7", "workers=7 drill=load:1"},
      {"workers=1 outer-lr=0.5", "workers=1 outer-lr=0.5 transport=threads"},
      {"workers=3 wire=bf16", "workers=3 wire=bf16 drill=slow:1:3"},
      {"workers=3 wire=bf16 threads=1", "workers=3 wire=bf16 threads=3"},
      {"workers=2 wire=bf16 sync-overlap=on", "workers=2 wire=bf16 sync-overlap=on bucket-mb=1"},
  };
  for (size_t i = 0; i < RONDE__COUNT(pairs); ++i) {
    observed a = train(33, NULL, "epochs=2 lr=0.1 batch=8 strategy=localsgd sync-every=2 %s", pairs[i][0]);
    observed b = train(33, NULL, "epochs=2 lr=0.1 batch=8 strategy=localsgd sync-every=2 %s", pairs[i][1]);
    assert_true(replicas_equal(&a) && replicas_equal(&b));
    if (!bits_equal(&a, &b)) fail_msg("%s | %s: not the same bits", pairs[i][0], pairs[i][1]);
    free(a.weights);
    free(b.weights);
  }
}

/* ---- broken numbers, and what is refused -------------------------------------------------------------------------- */

static char all_lines[4096];
static void keep_all(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(all_lines);
  if (level == RONDE_LOG_ERROR) snprintf(all_lines + used, sizeof all_lines - used, "%s\n", line);
}

/* Example 20 is rank 1's in step 4 of batches of 6: whoever else has come whereto. */
static void test_broken_numbers_are_named(void **state) {
  for (int every = 1; every <= 6; ++every)
    for (int overlap = 0; overlap < 2; ++overlap) {
      char options[256];
      ronde_source source = small_source(30, 0);
      source.read = read_with_a_hole;
      snprintf(
          options, sizeof options,
          "threads=1 shuffle=off batch=6 epochs=3 lr=0.1 workers=3 strategy=localsgd sync-every=%d sync-overlap=%s",
          every, overlap ? "on" : "off");
      all_lines[0] = 0;
      ronde_log_set(keep_all, NULL);
      observed o = observe(options, &source, small_model, NULL);
      ronde_log_set(NULL, NULL);
      assert_int_equal(o.status, RONDE_E_NUMERIC);
      if (strcmp(all_lines, "rank 1: step 4: the loss of rank 1 is NaN or Inf\n"))
        fail_msg("every %d, overlap %d: %s", every, overlap, all_lines);
    }
}

static void test_what_is_refused(void **state) {
#define LOCAL "batch=6 workers=2 strategy=localsgd "
  check_refused(LOCAL "skip-bad-steps=1", "this is localsgd");
  check_refused(LOCAL "sentinel=5", "this is localsgd");
  check_refused(LOCAL "wire=bf16 collective=tree", "--wire bf16 needs the ring collective");
  check_refused(LOCAL "overlap=on", "this is localsgd");
  check_refused(LOCAL "sync-bn=on", "this is localsgd");
  check_refused(LOCAL "sync-every=1 local-after=5", "every step is synchronised anyway");
  check_refused("batch=6 workers=2 sync-every=5", "it applies to --strategy localsgd");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_runs_are_their_replay),
      cmocka_unit_test_setup_teardown(test_local_optimizers_and_checkpoints, make_folder_with_log, remove_folder),
      cmocka_unit_test(test_dead_weights_that_do_not_move),
      cmocka_unit_test(test_local_steps_after_some),
      cmocka_unit_test(test_clipping_is_of_local_gradients),
      cmocka_unit_test(test_running_statistics_are_averaged),
      cmocka_unit_test(test_another_algorithm_is_seen),
      cmocka_unit_test(test_every_step_is_allreduce),
      cmocka_unit_test(test_how_work_is_done_changes_no_bit),
      cmocka_unit_test(test_broken_numbers_are_named),
      cmocka_unit_test(test_what_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Training steps of a built-in network on data in memory, timed on command, so that a driver can alternate systems in
 * one run.
 *
 *   bench_step --model mnist-small --batch 128 --optimizer adam|sgd|momentum [--threads 1] [--padding same] [--shape
 * CxHxW] [--ops] [--update-apart]
 *
 * Reads lines from stdin, as bench/peers/pytorch_step.py does: "go N" makes N steps (forward, backward, update) and
 * prints one JSON line; "quit" or the end of input ends it. --ops adds a table of where the time went, at the end, on
 * stderr. --update-apart: after backward, as with several workers, instead of within it. */
#include "models/models.h"
#include "train/job.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
  const char *model, *optimizer, *shape;
  int64_t batch;
  int threads;
  bool valid, ops, apart;
} setting;

static void print_line(void *user, ronde_log_level level, const char *line) { fprintf(stderr, "%s\n", line); }

static void check(ronde_status status) {
  if (status != RONDE_OK) exit(ronde_status_exit_code(status));
}

static setting parse(int argc, char **argv) {
  setting s = {.model = "lenet5", .optimizer = "sgd", .batch = 42, .threads = 1};
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
    if (!strcmp(name, "--ops") || !strcmp(name, "--update-apart")) {
      *(name[2] == 'o' ? &s.ops : &s.apart) = true;
      continue;
    }
    if (!strcmp(name, "--model")) s.model = value;
    else if (!strcmp(name, "--optimizer")) s.optimizer = value;
    else if (!strcmp(name, "--shape")) s.shape = value;
    else if (!strcmp(name, "--batch")) s.batch = atoll(value);
    else if (!strcmp(name, "--threads")) s.threads = atoi(value);
    else if (!strcmp(name, "--padding")) s.valid = !strcmp(value, "valid");
    else {
      fprintf(stderr, "bench_step: error: unknown option %s\n", name);
      exit(2);
    }
    i++;
  }
  return s;
}

static ronde__optim_options optimizer(const setting *s) {
  if (!strcmp(s->optimizer, "adam"))
    return (ronde__optim_options){.kind = RONDE__OPTIM_ADAM, .lr = 0.001, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  return (ronde__optim_options){
      .kind = RONDE__OPTIM_SGD, .lr = 0.001, .momentum = !strcmp(s->optimizer, "momentum") ? 0.9 : 0};
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef struct bench {
  ronde__worker worker;
  ronde__net_batch batch;
  double lr;
} bench;

static double step(bench *b) {
  ronde__step_result result;
  check(ronde__worker_step_on(&b->worker, &b->batch, b->lr, &result));
  if (result.broken_rank >= 0) check(ronde__fail(RONDE_E_NUMERIC, "bench_step: error: NaN or Inf in the numbers"));
  return result.loss_sum / (double)b->batch.n;
}

static void go(bench *b, int n) {
  double *ms = malloc((size_t)n * sizeof *ms), loss = 0;
  for (int i = 0; i < n; i++) {
    uint64_t begin = ronde__now_ns();
    loss = step(b);
    ms[i] = (double)(ronde__now_ns() - begin) * 1e-6;
  }
  qsort(ms, (size_t)n, sizeof *ms, ascending);
  printf("{\"median_ms\": %.5f, \"min_ms\": %.5f, \"steps\": %d, \"loss\": %.9g, \"peak_rss_bytes\": %lld}\n",
         ms[n / 2], ms[0], n, loss, (long long)ronde__peak_rss_bytes());
  fflush(stdout);
  free(ms);
}

static void print_ops(const bench *b) {
  int n;
  const ronde__prof_op *ops = ronde__prof_ops(b->worker.prof, &n);
  for (int i = 0; i < n; i++)
    fprintf(stderr, "%-22s %-9s %-10s %9.2f us a call %7.1f GFLOP/s\n", ops[i].op, ronde__phase_name(ops[i].phase),
            ops[i].implementation, (double)ops[i].ns / (double)ronde__max(1, ops[i].calls) * 1e-3,
            ops[i].ns ? ops[i].flops / (double)ops[i].ns : 0);
}

int main(int argc, char **argv) {
  setting s = parse(argc, argv);
  ronde_log_set(print_line, NULL);
  const ronde__model *model = ronde__model_find(s.model);
  const ronde__kernels *kernels;
  ronde__gemm_impl gemm;
  if (!model) check(ronde__fail(RONDE_E_USAGE, "bench_step: error: no model %s", s.model));
  check(ronde__kernels_get(&kernels));
  check(ronde__gemm_default(kernels, &gemm));
  ronde__shape shape = {3, {model->shape[0], model->shape[1], model->shape[2]}};
  if (s.shape && sscanf(s.shape, "%ldx%ldx%ld", &shape.dim[0], &shape.dim[1], &shape.dim[2]) != 3) check(RONDE_E_USAGE);
  ronde_graph *graph;
  check(ronde__model_graph(model, &(ronde__model_options){.padding_same = !s.valid}, &shape, model->classes, &graph));
  bench b = {.worker = {.kernels = kernels, .fused_update = !s.apart}};
  ronde__worker *w = &b.worker;
  check(ronde__transport_self(&w->transport));
  check(ronde__pool_create(s.threads, &w->pool));
  if (s.ops) {
    check(ronde__prof_create(0, false, &w->prof));
    w->update_slot = ronde__prof_op_slot(w->prof, s.optimizer, RONDE__PHASE_UPDATE, kernels->isa);
  }
  ronde__net_options net = {.kernels = kernels,
                            .gemm = gemm,
                            .pool = w->pool,
                            .prof = w->prof,
                            .training = true,
                            .transient_gradients = !s.apart,
                            .taker_name = s.optimizer};
  check(ronde__net_create(graph, &net, &w->net));
  check(ronde__net_init(w->net, 1));
  ronde__optim_options options = optimizer(&s);
  b.lr = options.lr;
  check(ronde__optim_create(&options, kernels, ronde__net_n_trained(w->net), &w->optim));
  int64_t elems = s.batch * ronde__shape_elems(&shape);
  float *x = malloc((size_t)elems * sizeof *x);
  int64_t *labels = malloc((size_t)s.batch * sizeof *labels);
  ronde__rng rng = ronde__rng_make(1, RONDE__STREAM_SYNTHETIC);
  for (int64_t i = 0; i < elems; i++) x[i] = ronde__rng_normal(&rng);
  for (int64_t i = 0; i < s.batch; i++) labels[i] = (int64_t)ronde__rng_below(&rng, (uint64_t)model->classes);
  b.batch = (ronde__net_batch){.n = s.batch, .x = x, .labels = labels, .training = true, .seed = 1};
  printf("{\"system\": \"ronde\", \"isa\": \"%s\", \"parameters\": %lld}\n", kernels->isa,
         (long long)ronde_graph_parameters(graph));
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof line, stdin) && strncmp(line, "quit", 4))
    if (!strncmp(line, "go ", 3) && atoi(line + 3) > 0) go(&b, atoi(line + 3));
  if (w->prof) print_ops(&b);
  ronde__optim_destroy(w->optim);
  ronde__net_destroy(w->net);
  ronde__prof_destroy(w->prof);
  ronde__pool_destroy(w->pool);
  ronde__transport_destroy(w->transport);
  ronde_graph_destroy(graph);
  free(x);
  free(labels);
  return 0;
}

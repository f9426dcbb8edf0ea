/* The MPI transport: this program starts itself under mpirun, and each rank runs one of the scenarios below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/collective_testing.h"
#include "comm/mpi.h"
#include "lib/suites.h"

/* ---- scenarios: what a rank does; the number of the failed check is its exit code ---- */

#define CHECK(what)                                                                \
  do {                                                                             \
    if (!(what)) {                                                                 \
      fprintf(stderr, "rank %d: line %d: %s\n", transport->rank, __LINE__, #what); \
      return 1;                                                                    \
    }                                                                              \
  } while (0)

static char lines[4096];
static void keep_lines(void *user, ronde_log_level level, const char *line) {
  size_t used = strlen(lines);
  snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

static const uint64_t second_ns = 1000000000;

static ronde_status finish(ronde__transport *t, ronde__request *requests, int n) {
  return t->ops->wait(t, requests, n, 20 * second_ns);
}

static int messages_match_by_tag_in_order(ronde__transport *transport) {
  const ronde__transport_ops *ops = transport->ops;
  int out[3] = {10, 11, 12}, in[3] = {0};
  ronde__request requests[3];
  bool done = true;
  if (transport->rank == 0) {
    CHECK(ops->isend(transport, 1, 7, &out[0], sizeof(int), &requests[0]) == RONDE_OK);
    CHECK(ops->isend(transport, 1, 8, &out[1], sizeof(int), &requests[1]) == RONDE_OK);
    CHECK(ops->isend(transport, 1, 7, &out[2], sizeof(int), &requests[2]) == RONDE_OK);
    CHECK(finish(transport, requests, 3) == RONDE_OK);
    CHECK(transport->bytes_sent == 12 && transport->messages == 3);
  } else if (transport->rank == 1) {
    CHECK(ops->irecv(transport, 0, 9, &in[0], sizeof(int), &requests[0]) == RONDE_OK);
    CHECK(ops->test(transport, &requests[0], &done) == RONDE_OK && !done);
    ops->cancel(transport, requests, 1);
    CHECK(!requests[0].impl);
    CHECK(ops->irecv(transport, 0, 8, &in[0], sizeof(int), &requests[0]) == RONDE_OK);
    CHECK(ops->irecv(transport, 0, 7, &in[1], sizeof(int), &requests[1]) == RONDE_OK);
    CHECK(ops->irecv(transport, 0, 7, &in[2], sizeof(int), &requests[2]) == RONDE_OK);
    CHECK(finish(transport, requests, 3) == RONDE_OK);
    CHECK(in[0] == 11 && in[1] == 10 && in[2] == 12);
    CHECK(ops->test(transport, &requests[0], &done) == RONDE_OK && done);
    CHECK(transport->bytes_received == 12);
  }
  return 0;
}

/* None, one byte, and lengths on both sides of MPI's own limits, unaligned. */
static int every_length_arrives_whole(ronde__transport *transport) {
  static const size_t lengths[] = {0, 1, 4095, 4097, 65000, 65537, 3000001};
  for (size_t i = 0; i < RONDE__COUNT(lengths); i++) {
    unsigned char *data = calloc(1, lengths[i] + 2);
    ronde__request request;
    CHECK(data);
    for (size_t b = 0; b < lengths[i] && transport->rank == 0; b++) data[b + 1] = (unsigned char)(b * 7 + b / 256 + 1);
    if (transport->rank == 0) CHECK(transport->ops->isend(transport, 1, 3, data + 1, lengths[i], &request) == RONDE_OK);
    else CHECK(transport->ops->irecv(transport, 0, 3, data + 1, lengths[i], &request) == RONDE_OK);
    CHECK(finish(transport, &request, 1) == RONDE_OK);
    for (size_t b = 0; b < lengths[i]; b++) CHECK(data[b + 1] == (unsigned char)(b * 7 + b / 256 + 1));
    CHECK(data[0] == 0 && data[lengths[i] + 1] == 0);
    free(data);
  }
  return 0;
}

/* Long ones go in parts; whoever comes behind them stays behind, whatever is waited for first. */
static int long_messages_keep_their_order(ronde__transport *transport) {
  enum { N = 4, LONGEST = 2000000 };
  static const size_t lengths[N] = {LONGEST, 10, 700000, 0};
  static unsigned char data[N][LONGEST + 1];
  ronde__request requests[N];
  for (int i = 0; i < N; i++) {
    memset(data[i], transport->rank == 0 ? i + 1 : 0, lengths[i]);
    if (transport->rank == 0) {
      CHECK(transport->ops->isend(transport, 1, 3, data[i], lengths[i], &requests[i]) == RONDE_OK);
    } else {
      bool done;
      CHECK(transport->ops->irecv(transport, 0, 3, data[i], lengths[i], &requests[i]) == RONDE_OK);
      CHECK(transport->ops->test(transport, &requests[i], &done) == RONDE_OK); /* parts are posted now, or later */
    }
  }
  for (int i = N - 1; i >= 0; i--)
    if (requests[i].impl) CHECK(finish(transport, &requests[i], 1) == RONDE_OK);
  for (int i = 0; i < N; i++)
    for (size_t b = 0; b <= lengths[i]; b++) CHECK(data[i][b] == (b < lengths[i] ? i + 1 : 0));
  CHECK(transport->ops->irecv(transport, 1 - transport->rank, 4, data[0], LONGEST, &requests[0]) == RONDE_OK);
  transport->ops->cancel(transport, requests, 1);
  return 0;
}

static int every_collective_is_right(ronde__transport *transport) {
  const ronde__kernels *kernels;
  CHECK(ronde__kernels_get(&kernels) == RONDE_OK);
  int n_operations = (int)RONDE__COUNT(operations);
  for (int o = 0; o <= n_operations; o++)
    for (size_t s = 0; s < RONDE__COUNT(trial_sizes); s++) {
      trial t = {.op = {ALLREDUCE, "mpi"}, .p = transport->size, .n = trial_sizes[s], .tag = 5, .kernels = kernels};
      if (o < n_operations) t.op = operations[o];
      t.root = transport->size - 1;
      size_t bytes = result_n(&t) * sizeof(float);
      float *x = malloc(bytes + 1), *all = malloc(bytes * (size_t)transport->size + 1);
      CHECK(x && all);
      t.result[transport->rank] = x;
      CHECK(run_trial(transport, &t) == RONDE_OK);
      CHECK(right(&t, x));
      memcpy((char *)all + bytes * (size_t)transport->rank, x, bytes);
      CHECK(ronde__allgather(transport, 6, all, bytes) == RONDE_OK);
      for (int r = 0; r < transport->size; r++) CHECK(!memcmp((char *)all + bytes * (size_t)r, x, bytes));
      free(x);
      free(all);
    }
  return 0;
}

typedef struct side_job {
  ronde__transport *transport;
  trial trial;
} side_job;

static ronde_status run_side(void *arg) {
  side_job *job = arg;
  for (int i = 0; i < 20; i++) RONDE_TRY(run_trial(job->transport, &job->trial));
  return right(&job->trial, job->trial.result[job->transport->rank]) ? RONDE_OK : RONDE_E_DIFFERENCE;
}

static int two_threads_of_a_rank_at_once(ronde__transport *transport) {
  static float own[50021], side[50020];
  const ronde__kernels *kernels;
  CHECK(ronde__kernels_get(&kernels) == RONDE_OK);
  trial t = {.op = {ALLREDUCE, "ring"}, .p = transport->size, .n = 50021, .tag = 1, .kernels = kernels};
  side_job job = {transport, t};
  t.result[transport->rank] = own;
  job.trial.result[transport->rank] = side;
  job.trial.n = 50020;
  job.trial.tag = 2;
  ronde__comm_thread *comm;
  CHECK(ronde__comm_thread_create(transport->time, transport->rank, false, &comm) == RONDE_OK);
  CHECK(ronde__comm_thread_submit(comm, run_side, &job) == RONDE_OK);
  for (int i = 0; i < 20; i++) CHECK(run_trial(transport, &t) == RONDE_OK);
  CHECK(ronde__comm_thread_drain(comm) == RONDE_OK);
  CHECK(right(&t, own));
  ronde__comm_thread_destroy(comm);
  return 0;
}

static int a_wrong_length_is_named(ronde__transport *transport) {
  char data[100] = {0};
  ronde__request request;
  if (transport->rank == 0) {
    CHECK(transport->ops->isend(transport, 1, 4, data, 50, &request) == RONDE_OK);
    CHECK(finish(transport, &request, 1) == RONDE_OK);
  } else {
    CHECK(transport->ops->irecv(transport, 0, 4, data, 60, &request) == RONDE_OK);
    CHECK(finish(transport, &request, 1) == RONDE_E_INTERNAL);
    CHECK(!strcmp(lines, "the message from rank 0 to rank 1 with tag 0x4 has 50 bytes, not 60\n"));
  }
  return 0;
}

/* The peer is there, but silent: it waits for the end of rank 0's patience. */
static int a_silent_rank_is_named(ronde__transport *transport) {
  char word = 0;
  ronde__request request;
  if (transport->rank == 0) {
    CHECK(transport->ops->irecv(transport, 1, 4, &word, 1, &request) == RONDE_OK);
    CHECK(transport->ops->wait(transport, &request, 1, second_ns / 2) == RONDE_E_LOST);
    CHECK(!strncmp(lines, "no message exchanged for 0.5 s with rank 1 on host ", 51));
    CHECK(transport->ops->isend(transport, 1, 5, &word, 1, &request) == RONDE_OK);
  } else {
    CHECK(transport->ops->irecv(transport, 0, 5, &word, 1, &request) == RONDE_OK);
  }
  CHECK(finish(transport, &request, 1) == RONDE_OK);
  return 0;
}

/* It computes, or writes to a slow disk, for longer than a lost rank may be silent. */
static int a_busy_rank_is_waited_for(ronde__transport *transport) {
  char word = 0;
  ronde__request request;
  if (transport->rank == 0) {
    CHECK(transport->ops->irecv(transport, 1, 4, &word, 1, &request) == RONDE_OK);
  } else {
    for (uint64_t end = ronde__now_ns() + 2 * transport->lost_after_ns; ronde__now_ns() < end;) {
    }
    CHECK(transport->ops->isend(transport, 0, 4, &word, 1, &request) == RONDE_OK);
  }
  CHECK(finish(transport, &request, 1) == RONDE_OK);
  return 0;
}

/* Rank 1 is stopped while ranks 0 and 2 wait, 2 for it and 0 for 2: it is blamed, by rank 2. */
static int a_stopped_rank_is_named(ronde__transport *transport) {
  int pid = getpid();
  char word = 0;
  ronde__request request;
  if (transport->rank == 1) {
    CHECK(transport->ops->isend(transport, 2, 4, &pid, sizeof pid, &request) == RONDE_OK);
    CHECK(finish(transport, &request, 1) == RONDE_OK);
    CHECK(transport->ops->irecv(transport, 2, 5, &word, 1, &request) == RONDE_OK);
    return finish(transport, &request, 1) != RONDE_OK;
  }
  if (transport->rank == 2) {
    CHECK(transport->ops->irecv(transport, 1, 4, &pid, sizeof pid, &request) == RONDE_OK);
    CHECK(finish(transport, &request, 1) == RONDE_OK);
    kill(pid, SIGSTOP);
    CHECK(transport->ops->irecv(transport, 1, 6, &word, 1, &request) == RONDE_OK);
    ronde_status status = finish(transport, &request, 1);
    kill(pid, SIGCONT);
    sleep(1); /* until it is heard of again */
    CHECK(status == RONDE_E_LOST && !strncmp(lines, "nothing heard from rank 1 on host ", 34));
    CHECK(transport->ops->isend(transport, 1, 5, &word, 1, &request) == RONDE_OK);
    CHECK(finish(transport, &request, 1) == RONDE_OK);
    CHECK(transport->ops->isend(transport, 0, 7, &word, 1, &request) == RONDE_OK);
  } else {
    CHECK(transport->ops->irecv(transport, 2, 7, &word, 1, &request) == RONDE_OK);
  }
  CHECK(finish(transport, &request, 1) == RONDE_OK);
  return 0;
}

/* What it sent before still arrives. */
static int a_rank_that_leaves_is_named(ronde__transport *transport) {
  char word = 0;
  ronde__request request;
  if (transport->rank == 1) {
    word = 7;
    CHECK(transport->ops->isend(transport, 0, 4, &word, 1, &request) == RONDE_OK);
    CHECK(finish(transport, &request, 1) == RONDE_OK);
    return 0;
  }
  CHECK(transport->ops->irecv(transport, 1, 4, &word, 1, &request) == RONDE_OK);
  CHECK(finish(transport, &request, 1) == RONDE_OK && word == 7);
  CHECK(transport->ops->irecv(transport, 1, 4, &word, 1, &request) == RONDE_OK);
  CHECK(finish(transport, &request, 1) == RONDE_E_LOST);
  CHECK(!strcmp(lines, "rank 1 has left while a message from it was still missing\n"));
  return 0;
}

static int an_abort_is_heard_by_all(ronde__transport *transport) {
  char word = 0;
  ronde__request request;
  int last = transport->size - 1;
  if (transport->rank == last) {
    transport->ops->abort(transport);
    CHECK(transport->ops->irecv(transport, 0, 4, &word, 1, &request) == RONDE_E_LOST);
    return 0;
  }
  CHECK(transport->ops->irecv(transport, (transport->rank + 1) % last, 4, &word, 1, &request) == RONDE_OK);
  CHECK(finish(transport, &request, 1) == RONDE_E_LOST);
  CHECK(!*lines);
  return 0;
}

static const struct {
  const char *name;
  int (*run)(ronde__transport *transport);
  int ranks, lost_after_s;
  bool sends_nothing; /* or a byte, so that it does not matter how */
} scenarios[] = {
    {"long", long_messages_keep_their_order, 2, 0, false},   {"match", messages_match_by_tag_in_order, 2, 0, false},
    {"lengths", every_length_arrives_whole, 2, 0, false},    {"threads", two_threads_of_a_rank_at_once, 3, 0, false},
    {"wrong-length", a_wrong_length_is_named, 2, 0, false},  {"silent", a_silent_rank_is_named, 2, 0, true},
    {"leaves", a_rank_that_leaves_is_named, 2, 0, false},    {"abort", an_abort_is_heard_by_all, 3, 0, true},
    {"busy", a_busy_rank_is_waited_for, 2, 2, true},         {"stopped", a_stopped_rank_is_named, 3, 2, true},
    {"collectives", every_collective_is_right, 0, 0, false},
};

static int run_scenario(const char *name) {
  for (size_t i = 0; i < RONDE__COUNT(scenarios); i++) {
    if (strcmp(scenarios[i].name, name)) continue;
    ronde__transport *transport;
    ronde_log_set(keep_lines, NULL);
    int lost_after_s = scenarios[i].lost_after_s ? scenarios[i].lost_after_s : 60;
    ronde__mpi_options options = {.timeout_ns = (uint64_t)lost_after_s * second_ns};
    if (ronde__transport_mpi(&options, &transport) != RONDE_OK) return 2;
    int failed = scenarios[i].run(transport);
    ronde__transport_destroy(transport);
    return failed;
  }
  return 3;
}

/* ---- the launching side ---- */

/* mpirun's exit code, and what it and the ranks printed. */
static int launch(int ranks, const char *name, char *output, size_t size) {
  char self[4096], command[6000];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  assert_true(n > 0);
  self[n] = 0;
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI keeps what it has to the end */
  snprintf(command, sizeof command, "timeout -k 2 100 mpirun.openmpi --oversubscribe -np %d '%s' mpi_test %s 2>&1",
           ranks, self, name);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t got = fread(output, 1, size - 1, pipe);
  output[got] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_scenario(const char *name, int ranks) {
  char output[8192];
  int code = launch(ranks, name, output, sizeof output);
  if (code != 0) print_error("%s with %d ranks: exit %d\n%s\n", name, ranks, code, output);
  assert_int_equal(code, 0);
}

/* Ranks of a host copy from each other, or MPI carries all, as it does between hosts. */
static void by_mpi_alone(bool alone) {
  if (alone) setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  else unsetenv("OMPI_MCA_btl_vader_single_copy_mechanism");
}

static void scenario(void **state) {
  if (why_no_mpi()) {
    print_message("SKIP: %s\n", why_no_mpi());
    skip();
  }
  static const int worlds[] = {1, 2, 3, 4, 7};
  const char *name = *state;
  for (size_t i = 0; i < RONDE__COUNT(scenarios); i++) {
    if (strcmp(scenarios[i].name, name)) continue;
    for (int alone = 0; alone < 2 - scenarios[i].sends_nothing; alone++) {
      by_mpi_alone(alone);
      if (scenarios[i].ranks) check_scenario(name, scenarios[i].ranks);
      for (size_t w = 0; w < RONDE__COUNT(worlds) && !scenarios[i].ranks; w++) check_scenario(name, worlds[w]);
    }
  }
}

int main(void) {
  if (suite_argument) return run_scenario(suite_argument);
  struct CMUnitTest tests[RONDE__COUNT(scenarios)];
  for (size_t i = 0; i < RONDE__COUNT(scenarios); i++)
    tests[i] = (struct CMUnitTest){
        .name = scenarios[i].name, .test_func = scenario, .initial_state = (void *)scenarios[i].name};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

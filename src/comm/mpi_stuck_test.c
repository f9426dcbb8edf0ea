/* Calls of MPI that do not come back, as some do that meet a dead host: functions of this program in front of MPI's own.
 * This program starts itself under mpirun, with a word that says what its three ranks do. Rank 2 is killed, and the others
 * go on without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/mpi.h"
#include "lib/suites.h"

#ifdef RONDE_HAVE_MPI
#include <mpi.h>

static _Atomic bool hangs_in_test;
static _Atomic int hangs_to = -1; /* where that rank is told who is lost */

static void hang(void) {
  for (;;) pause();
}

static _Atomic int n_inside;
static _Atomic bool any_at_once;

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
  if (hangs_in_test) hang();
  if (atomic_fetch_add(&n_inside, 1)) any_at_once = true;
  usleep(10);
  int error = PMPI_Test(request, done, status);
  atomic_fetch_sub(&n_inside, 1);
  return error;
}

int MPI_Isend(const void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request) {
  if (peer == hangs_to && type == MPI_INT && (*(const int *)data & 7) == 4) hang();
  return PMPI_Isend(data, n, type, peer, tag, comm, request);
}

/* ---- what ranks do ------------------------------------------------------------------------------------------------ */

static const uint64_t second_ns = 1000000000;

#define CHECK(what)                                                                \
  do {                                                                             \
    if (!(what)) {                                                                 \
      fprintf(stderr, "rank %d: line %d: %s\n", transport->rank, __LINE__, #what); \
      return;                                                                      \
    }                                                                              \
  } while (0)

static bool is_lost_soon(ronde__transport *transport, int rank) {
  for (uint64_t end = ronde__now_ns() + 5 * second_ns; ronde__now_ns() < end; usleep(1000))
    if (ronde__transport_lost(transport, rank)) return true;
  return false;
}

/* Looks for what never comes. */
static void *look(void *arg) {
  ronde__transport *transport = arg;
  char word;
  for (int i = 0; i < 200; i++) {
    ronde__request request;
    bool done = false;
    if (transport->ops->irecv(transport, 1 - transport->rank, 9, &word, 1, &request) != RONDE_OK) break;
    transport->ops->test(transport, &request, &done);
    transport->ops->cancel(transport, &request, 1);
  }
  return NULL;
}

static void ranks_exchange(ronde__transport *transport) {
  char word = 0;
  pthread_t beside;
  CHECK(!pthread_create(&beside, NULL, look, transport));
  look(transport);
  pthread_join(beside, NULL);
  CHECK(!any_at_once);
  if (transport->rank == 0) CHECK(ronde__transport_receive(transport, 1, 4, &word, 1) == RONDE_OK);
  else CHECK(ronde__transport_send(transport, 0, 4, &word, 1) == RONDE_OK);
  fprintf(stderr, "rank %d is well\n", transport->rank);
}

static void rank_1_hangs(ronde__transport *transport) {
  hangs_in_test = transport->rank == 1;
  if (transport->rank == 1) ranks_exchange(transport);
  CHECK(is_lost_soon(transport, 1));
  fprintf(stderr, "rank %d is well\n", transport->rank);
}

static void say(void *user, ronde_log_level level, const char *line) { fprintf(stderr, "%s\n", line); }

static void end(void *user) { _exit(4); }

static int be_rank(const char *word) {
  static const bool all_but_the_first[] = {false, true, true};
  bool hangs = !strcmp(word, "hangs");
  ronde__mpi_options options = {
      .timeout_ns = hangs ? second_ns : 60 * second_ns, .lost_after_ns = second_ns / 2, .stuck = end};
  ronde__transport *transport;
  ronde_log_set(say, NULL);
  if (ronde__transport_mpi(&options, &transport) != RONDE_OK) return 2;
  ronde__transport_lose(transport, all_but_the_first);
  if (transport->rank == 2) raise(SIGKILL);
  hangs_to = 2;
  if (!is_lost_soon(transport, 2)) fprintf(stderr, "rank %d does not know that rank 2 is lost\n", transport->rank);
  else if (hangs) rank_1_hangs(transport);
  else ranks_exchange(transport);
  _exit(0); /* MPI's own end would wait for the dead */
}

/* ---- the launching side ------------------------------------------------------------------------------------------- */

static const char *program;

/* What mpirun and the ranks print. */
static const char *launch(const char *word) {
  static char output[8192];
  char command[6000];
  if (why_no_mpi()) skip();
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1); /* MPI carries what ranks of one host send, too */
  setenv("LSAN_OPTIONS", "detect_leaks=0", 1);                   /* Open MPI keeps what it has to the end */
  snprintf(command, sizeof command,
           "timeout -k 2 100 mpirun.openmpi --enable-recovery --oversubscribe -np 3 '%s' %s 2>&1", program, word);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  output[fread(output, 1, sizeof output - 1, pipe)] = 0;
  pclose(pipe);
  return output;
}

static void check_says(const char *said, const char *what) {
  if (!strstr(said, what)) fail_msg("not '%s': %s", what, said);
}

/* To one that has gone nothing is sent, no call of MPI stands in front of the end of waiting, and threads call MPI one at a
 * time. */
static void a_loss_is_noted_whatever_mpi_does(void **state) {
  const char *said = launch("noted");
  check_says(said, "rank 0 is well");
  check_says(said, "rank 1 is well");
}

/* It says so, ends, and is one of those without which the others go on. */
static void who_hangs_in_mpi_is_lost(void **state) {
  const char *said = launch("hangs");
  check_says(said, "Open MPI has not come back from a call for 1 s: rank 1 on host ");
  check_says(said, "rank 0 is well");
}

int main(int n_words, char **words) {
  program = words[0];
  if (n_words > 1) return be_rank(words[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_loss_is_noted_whatever_mpi_does),
                                     cmocka_unit_test(who_hangs_in_mpi_is_lost)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void) { return 0; } /* mpi_test says why */

#endif

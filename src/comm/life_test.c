/* Signs of life: what is refused, who is lost and who is not. Hosts are numbers here, and addresses the loopback's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/pkt_sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/life.h"

/* ---- the wire ---- */

static const uint8_t key[RONDE__LIFE_KEY] = {1, 2, 3}, other_key[RONDE__LIFE_KEY] = {1, 2, 4};

static ronde__life_message three_words(void) {
  return (ronde__life_message){.sender = 4,
                               .sequence = 1ull << 40,
                               .n = 3,
                               .words = {{4, RONDE__LIFE_LIVES, {RONDE__SAVING, 1ll << 33}},
                                         {5, RONDE__LIFE_STOPPED, {RONDE__TRAINING, 7}},
                                         {6, RONDE__LIFE_GONE, {RONDE__ENDING, 0}}}};
}

static void a_message_is_read_as_it_was_written(void **state) {
  ronde__life_message m = three_words(), read;
  uint8_t data[RONDE__LIFE_BYTES];
  size_t n = ronde__life_write(&m, key, data);
  assert_int_equal(n, RONDE__LIFE_HEAD + 3 * RONDE__LIFE_WORD + RONDE__LIFE_MAC);
  assert_int_equal(ronde__life_read(data, n, key, 7, &read), RONDE__LIFE_GOOD);
  assert_true(read.sender == 4 && read.sequence == 1ull << 40 && read.n == 3);
  for (int i = 0; i < 3; i++) {
    assert_true(read.words[i].rank == 4 + i && read.words[i].state == m.words[i].state);
    assert_true(read.words[i].doing.step == m.words[i].doing.step);
    assert_true(read.words[i].doing.activity == m.words[i].doing.activity);
  }
}

/* Every bit that is changed, every length; another key, version, kind; ranks that there are not. */
static void what_is_not_this_jobs_is_refused(void **state) {
  ronde__life_message m = three_words(), read = {.sender = -1};
  uint8_t data[RONDE__LIFE_BYTES];
  size_t n = ronde__life_write(&m, key, data);
  for (size_t bit = 0; bit < 8 * n; bit++) {
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    ronde__life_verdict verdict = ronde__life_read(data, n, key, 7, &read);
    data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (bit < 32) assert_int_equal(verdict, RONDE__LIFE_FOREIGN);
    else if (bit < 40) assert_int_equal(verdict, RONDE__LIFE_VERSION);
    else if (bit / 8 >= 12 && bit / 8 < 16) assert_int_equal(verdict, RONDE__LIFE_TRUNCATED);
    else assert_int_equal(verdict, RONDE__LIFE_KEYLESS);
  }
  for (size_t less = 0; less < n; less++)
    assert_int_equal(ronde__life_read(data, less, key, 7, &read),
                     less < 4 ? RONDE__LIFE_FOREIGN : RONDE__LIFE_TRUNCATED);
  assert_int_equal(ronde__life_read(data, n, other_key, 7, &read), RONDE__LIFE_KEYLESS);
  assert_int_equal(ronde__life_read(data, n, key, 6, &read), RONDE__LIFE_NONSENSE); /* rank 6 of 6 */
  assert_int_equal(ronde__life_read(data, n, key, 4, &read), RONDE__LIFE_NONSENSE);
  m.words[1].state = RONDE__LIFE_SILENT; /* nobody knows that of a neighbour */
  n = ronde__life_write(&m, key, data);
  assert_int_equal(ronde__life_read(data, n, key, 7, &read), RONDE__LIFE_NONSENSE);
  assert_int_equal(read.sender, -1);
}

/* ---- the thread ---- */

enum { RANKS = 3, LOST_AFTER_MS = 300, HEARD_MS = 12 * LOST_AFTER_MS };

/* What a process of its own runs: a rank on a "host", which reports the first loss by a byte, 'L' and the rank's line. */
typedef struct world {
  ronde__life_offer offers[RANKS];
  uint8_t key[RONDE__LIFE_KEY];
} world;

static int report_fd = -1;
static bool others_go_on; /* without ranks 1 and 2 */
static char line[1024];

static void keep_line(void *user, ronde_log_level level, const char *text) { snprintf(line, sizeof line, "%s", text); }
static void report(void *user) {
  if (write(report_fd, line, strlen(line)) < 0) _exit(9);
}

typedef struct rank_process {
  pid_t pid;
  int to, from; /* pipes */
} rank_process;

static void pause_ms(int64_t ms) {
  struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000 * 1000000)};
  while (nanosleep(&left, &left)) continue;
}

/* Commands from the parent: 'h': hears of rank 1 by other ways, for a while; 'l': leaves; 'd': leaves, and ends. */
static void be_rank(int rank, const int *hosts, int in, int out) {
  static char names[RANKS][64] = {"a", "b", "c"};
  bool may_lose[RANKS] = {false, true, true};
  ronde__transport transport = {
      .rank = rank, .size = RANKS, .host_of = hosts, .may_lose = others_go_on ? may_lose : NULL};
  ronde__life_options options = {.transport = &transport,
                                 .host_names = (const char(*)[64])names,
                                 .iface = "127.0.0.0/8",
                                 .lost_after_ns = LOST_AFTER_MS * 1000000ull,
                                 .at_most_ns = 60000000000ull,
                                 .lost = report};
  ronde__life *life;
  world w;
  char command;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  report_fd = out;
  ronde_log_set(keep_line, NULL);
  ronde__transport_note(&transport, (ronde__doing){RONDE__TRAINING, 40 + rank});
  if (ronde__life_create(&options, &life) != RONDE_OK) _exit(2);
  ronde__life_offer offer = ronde__life_offer_of(life);
  if (write(out, &offer, sizeof offer) != sizeof offer || read(in, &w, sizeof w) != sizeof w) _exit(3);
  ronde__life_meet(life, w.offers, w.key);
  if (ronde__life_start(life) != RONDE_OK) _exit(4);
  if (read(in, &command, 1) != 1) _exit(5);
  for (int i = 0; command == 'h' && i < HEARD_MS; i += 20, pause_ms(20)) ronde__life_note_heard(life, 1);
  if (command == 'h' && read(in, &command, 1) != 1) _exit(5);
  ronde__life_leave(life);
  if (command == 'l' && read(in, &command, 1) != 1) _exit(5);
  ronde__life_destroy(life);
  _exit(0);
}

static rank_process ranks[RANKS];
static world all;

/* Connections to this port are neither taken nor refused, as behind a firewall: its queue is full. */
static uint16_t silent_port(int files_out[4]) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  for (int i = 0; i < 4; i++) files_out[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (i ? SOCK_NONBLOCK : 0), 0);
  assert_int_equal(bind(files_out[0], (struct sockaddr *)&at, size), 0);
  assert_int_equal(listen(files_out[0], 0), 0);
  assert_int_equal(getsockname(files_out[0], (struct sockaddr *)&at, &size), 0);
  for (int i = 1; i < 4; i++) connect(files_out[i], (struct sockaddr *)&at, size);
  return ntohs(at.sin_port);
}

/* Up to their offers. port: where the others are told to connect to; 0: each rank's own. */
static void begin_ranks(const int *hosts, uint16_t port) {
  fflush(NULL);
  memcpy(all.key, key, sizeof key);
  for (int r = 0; r < RANKS; r++) {
    int down[2], up[2];
    assert_true(!pipe2(down, O_CLOEXEC) && !pipe2(up, O_CLOEXEC));
    ranks[r].pid = fork();
    if (ranks[r].pid == 0) be_rank(r, hosts, down[0], up[1]);
    close(down[0]), close(up[1]);
    ranks[r].to = down[1], ranks[r].from = up[0];
    assert_int_equal(read(up[0], &all.offers[r], sizeof all.offers[r]), sizeof all.offers[r]);
    if (port) all.offers[r].place.connections = port;
  }
}

/* Those that are there. */
static void let_meet(void) {
  for (int r = 0; r < RANKS; r++)
    if (ranks[r].pid) assert_int_equal(write(ranks[r].to, &all, sizeof all), sizeof all);
  pause_ms(2 * LOST_AFTER_MS);
}

static void start_ranks_at(const int *hosts, uint16_t port) {
  begin_ranks(hosts, port);
  let_meet();
}

static void start_ranks(const int *hosts) { start_ranks_at(hosts, 0); }

static void end_ranks(void) {
  for (int r = 0; r < RANKS; r++) {
    if (ranks[r].pid) kill(ranks[r].pid, SIGKILL);
    if (ranks[r].pid) waitpid(ranks[r].pid, NULL, 0);
    close(ranks[r].to), close(ranks[r].from);
  }
}

/* What rank r says of a loss within so many ms; "": nothing. */
static const char *said_by(int r, int ms) {
  static char text[1025];
  struct pollfd file = {.fd = ranks[r].from, .events = POLLIN};
  ssize_t n = poll(&file, 1, ms) > 0 ? read(ranks[r].from, text, sizeof text - 1) : 0;
  text[n > 0 ? n : 0] = 0;
  return text;
}

static void check_said_by(int r, int ms, const char *what) {
  const char *said = said_by(r, ms);
  if (!strstr(said, what)) fail_msg("rank %d said '%s', not '%s'", r, said, what);
}

static void check_quiet(int r, int ms) {
  const char *said = said_by(r, ms);
  if (*said) fail_msg("rank %d said '%s'", r, said);
}

static void end_one(int r) {
  kill(ranks[r].pid, SIGKILL);
  waitpid(ranks[r].pid, NULL, 0);
  ranks[r].pid = 0;
}

static void on_one_host_nothing_listens(void **state) {
  start_ranks((const int[]){0, 0, 0});
  for (int r = 0; r < RANKS; r++) assert_true(all.offers[r].place.n_addresses == 0 && !all.offers[r].place.datagrams);
  end_ranks();
}

static void a_neighbour_that_dies_is_lost_at_once(void **state) {
  start_ranks((const int[]){0, 0, 0});
  end_one(1);
  check_said_by(0, 1000, "rank 1 on host b (last seen ");
  check_said_by(2, 1000, "the process has gone");
  end_ranks();
}

static void a_neighbour_that_dies_before_it_is_met_is_lost(void **state) {
  begin_ranks((const int[]){0, 0, 0}, 0);
  end_one(1);
  let_meet();
  check_said_by(0, 1000, "rank 1 on host b (last seen ");
  check_said_by(2, 1000, "the process has gone");
  end_ranks();
}

static void a_rank_of_another_host_that_dies_is_lost(void **state) {
  start_ranks((const int[]){0, 1, 2}); /* found by its host's system, */
  end_one(1);
  check_said_by(0, 1500, "rank 1 on host b (last seen training, step 41): the process has gone");
  check_said_by(2, 1500, "the process has gone");
  end_ranks();
  start_ranks((const int[]){0, 1, 1}); /* or by its neighbour; the one that speaks for its host */
  end_one(1);
  check_said_by(0, 1500, "rank 1 on host b (last seen training, step 41): the process has gone");
  end_ranks();
}

/* Each is told by itself, and by rank 0 alone; without rank 0 nobody goes on. */
static void the_others_go_on_without_some(void **state) {
  others_go_on = true;
  for (int i = 0; i < 2; i++) {
    start_ranks(i ? (const int[]){0, 1, 2} : (const int[]){0, 0, 0});
    for (int r = 1; r < RANKS; r++) {
      char name[32];
      snprintf(name, sizeof name, "rank %d on host %c", r, 'a' + r);
      end_one(r);
      check_said_by(0, 2000, name);
    }
    check_quiet(0, 2 * LOST_AFTER_MS);
    end_ranks();
  }
  start_ranks((const int[]){0, 0, 0});
  end_one(0);
  check_said_by(1, 1000, "lost 0.");
  end_ranks();
  others_go_on = false;
}

/* A debugger, Ctrl-Z, a busy host: it is there. It blames nobody either when it goes on. */
static void a_stopped_rank_is_not_lost(void **state) {
  static const int layouts[][RANKS] = {{0, 0, 0}, {0, 1, 2}, {0, 1, 1}};
  for (size_t i = 0; i < RONDE__COUNT(layouts); i++) {
    start_ranks(layouts[i]);
    kill(ranks[1].pid, SIGSTOP);
    check_quiet(0, 5 * LOST_AFTER_MS);
    check_quiet(2, 0);
    kill(ranks[1].pid, SIGCONT);
    for (int r = 0; r < RANKS; r++) check_quiet(r, r ? 0 : 2 * LOST_AFTER_MS);
    end_one(1); /* and then it is watched as before */
    check_said_by(0, 1500, "rank 1 on host b");
    end_ranks();
  }
}

/* As where words wait behind data: of a rank that only sends no word, and whose system does not answer, data come to rank 0. */
static void who_sends_data_is_not_lost(void **state) {
  int files[4];
  start_ranks_at((const int[]){0, 1, 2}, silent_port(files));
  assert_int_equal(write(ranks[0].to, "h", 1), 1);
  kill(ranks[1].pid, SIGSTOP);
  check_said_by(2, HEARD_MS / 2, "nothing heard from rank 1 on host b");
  check_quiet(0, 0);
  check_said_by(0, 4 * HEARD_MS, "nothing heard from rank 1 on host b"); /* once no data come any more */
  end_ranks();
  for (int i = 0; i < 4; i++) close(files[i]);
}

/* As where a virtual machine is suspended, or a terminal stops a whole group: rank 0 goes on first, nothing was sent
 * meanwhile that it could hear, and no system answers. It was late itself: nobody was silent for long while it ran. */
static void who_was_late_itself_blames_nobody(void **state) {
  static const int layouts[][RANKS] = {{0, 1, 2}, {0, 1, 1}};
  int files[4];
  uint16_t port = silent_port(files);
  for (size_t i = 0; i < RONDE__COUNT(layouts); i++) {
    start_ranks_at(layouts[i], port);
    for (int r = RANKS - 1; r >= 0; r--) {
      if (r == 0) pause_ms(LOST_AFTER_MS / 5); /* it hears what they have sent last */
      kill(ranks[r].pid, SIGSTOP);
    }
    pause_ms(4 * LOST_AFTER_MS);
    for (int r = 0; r < RANKS; r++) {
      kill(ranks[r].pid, SIGCONT);
      if (r == 0) pause_ms(LOST_AFTER_MS / 5);
    }
    for (int r = 0; r < RANKS; r++) check_quiet(r, r ? 0 : 3 * LOST_AFTER_MS);
    end_one(1); /* who is really silent is found as before */
    check_said_by(0, 1500, "rank 1 on host b");
    end_ranks();
  }
  for (int i = 0; i < 4; i++) close(files[i]);
}

static void who_says_goodbye_is_not_missed(void **state) {
  static const int layouts[][RANKS] = {{0, 1, 2}, {0, 1, 1}};
  for (size_t i = 0; i < RONDE__COUNT(layouts); i++) {
    start_ranks(layouts[i]);
    assert_int_equal(write(ranks[1].to, "d", 1), 1);
    waitpid(ranks[1].pid, NULL, 0);
    ranks[1].pid = 0;
    check_quiet(0, 4 * LOST_AFTER_MS);
    end_ranks();
  }
}

/* Whoever has not the key says that rank 1 has gone: nobody believes it, and it is told. */
static void a_forged_word_changes_nothing(void **state) {
  ronde__life_message m = {.sender = 1, .sequence = 1ull << 60, .n = 1, .words = {{1, RONDE__LIFE_GONE, {0, 0}}}};
  uint8_t data[RONDE__LIFE_BYTES];
  start_ranks((const int[]){0, 1, 2});
  int s = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                           .sin_port = htons(all.offers[0].place.datagrams)};
  size_t n = ronde__life_write(&m, other_key, data);
  assert_int_equal(sendto(s, data, n, 0, (struct sockaddr *)&to, sizeof to), n);
  check_quiet(0, 3 * LOST_AFTER_MS);
  n = ronde__life_write(&m, key, data); /* with it everybody would: the test can fail */
  assert_int_equal(sendto(s, data, n, 0, (struct sockaddr *)&to, sizeof to), n);
  check_said_by(0, 1500, "rank 1 on host b");
  close(s);
  end_ranks();
}

static void two_keys_are_not_alike(void **state) {
  uint8_t a[RONDE__LIFE_KEY] = {0}, b[RONDE__LIFE_KEY] = {0};
  assert_true(ronde__life_make_key(a) && ronde__life_make_key(b));
  assert_memory_not_equal(a, b, sizeof a);
}

static void an_interface_is_named_or_a_network(void **state) {
  uint32_t found[RONDE__LIFE_ADDRESSES];
  assert_int_equal(ronde__life_addresses("lo", found), 1);
  assert_int_equal(found[0], htonl(INADDR_LOOPBACK));
  assert_int_equal(ronde__life_addresses("127.0.0.0/8", found), 1);
  assert_int_equal(ronde__life_addresses("nothing,127.0.0.1/32", found), 1);
  assert_int_equal(ronde__life_addresses("128.0.0.0/8", found), 0);
  assert_int_equal(ronde__life_addresses("127.0.0.0/99,no", found), 0);
  for (int i = 0, n = ronde__life_addresses("", found); i < n; i++) assert_true(found[i] != htonl(INADDR_LOOPBACK));
}

static ronde__life_answer answer_of(const ronde__life_net *net, const uint8_t own[RONDE__LIFE_HELLO],
                                    const uint8_t expected[RONDE__LIFE_HELLO]) {
  ronde__life_answer answer;
  int s = ronde__life_probe(htonl(INADDR_LOOPBACK), net->place.connections, &answer);
  assert_true(s >= 0);
  for (int i = 0; i < 1000 && (answer == RONDE__ANSWER_NONE || answer == RONDE__ANSWER_HOST); i++) {
    ronde__life_greet(net, own);
    poll(&(struct pollfd){.fd = s, .events = POLLIN}, 1, 10);
    answer = ronde__life_probed(s, expected);
  }
  close(s);
  return answer;
}

static void signs_of_life_go_first(void **state) {
  ronde__life_net net;
  int priority = 0;
  socklen_t size = sizeof priority;
  assert_true(ronde__life_listen("lo", &net));
  const int sockets[] = {net.datagrams, net.connections};
  for (size_t i = 0; i < RONDE__COUNT(sockets); i++) {
    assert_int_equal(getsockopt(sockets[i], SOL_SOCKET, SO_PRIORITY, &priority, &size), 0);
    assert_int_equal(priority, TC_PRIO_INTERACTIVE);
  }
  ronde__life_close(&net);
}

/* A rank of another job may have got the port of one that has gone. */
static void who_answers_must_be_that_rank(void **state) {
  static const uint8_t one[RONDE__LIFE_HELLO] = {1}, other[RONDE__LIFE_HELLO] = {1, [RONDE__LIFE_HELLO - 1] = 1};
  ronde__life_net net;
  assert_true(ronde__life_listen("lo", &net));
  assert_int_equal(answer_of(&net, one, one), RONDE__ANSWER_LIVES);
  assert_int_equal(answer_of(&net, one, other), RONDE__ANSWER_GONE);
  ronde__life_close(&net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_is_read_as_it_was_written),
      cmocka_unit_test(what_is_not_this_jobs_is_refused),
      cmocka_unit_test(two_keys_are_not_alike),
      cmocka_unit_test(an_interface_is_named_or_a_network),
      cmocka_unit_test(who_answers_must_be_that_rank),
      cmocka_unit_test(signs_of_life_go_first),
      cmocka_unit_test(on_one_host_nothing_listens),
      cmocka_unit_test(a_neighbour_that_dies_is_lost_at_once),
      cmocka_unit_test(a_neighbour_that_dies_before_it_is_met_is_lost),
      cmocka_unit_test(a_rank_of_another_host_that_dies_is_lost),
      cmocka_unit_test(the_others_go_on_without_some),
      cmocka_unit_test(a_stopped_rank_is_not_lost),
      cmocka_unit_test(who_sends_data_is_not_lost),
      cmocka_unit_test(who_was_late_itself_blames_nobody),
      cmocka_unit_test(who_says_goodbye_is_not_missed),
      cmocka_unit_test(a_forged_word_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

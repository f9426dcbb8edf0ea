/* The file of a simulated cluster: what each line does, what is refused and where, and what the links then take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/sim_net.h"

static char lines[1024];
static void keep_lines(void *user, ronde_log_level level, const char *line) {
  snprintf(lines, sizeof lines, "%s", line);
}

static ronde__sim_net *net_of(const char *text) {
  ronde__sim_net *net;
  if (ronde__sim_net_parse("lan", text, &net) != RONDE_OK) fail_msg("refused: %s", text);
  return net;
}

static void check_close(double value, double expected) {
  if (fabs(value - expected) > 1e-12 * expected) fail_msg("%g instead of %g", value, expected);
}

static void test_every_line(void **state) {
  ronde__sim_net *net = net_of(
      "# a cluster\n"
      "hosts 2 ranks 3   # two\n"
      "hosts 1 ranks 1\r\n"
      "\n"
      "within latency 250ns rate 5GB/s\n"
      "between latency 50us rate 1Gbit/s\n"
      "pair 2 0 latency 2ms rate 100Mbit/s\n"
      "duplex half\n"
      "switch rate 1.5e1Gbit/s\n"
      "jitter 0.25\n"
      "delay chance 0.01 time 0.2s\n"
      "straggler chance 1 time 20ms\n"
      "slow rank 3 factor 1.5\n"
      "pause rank 1 at 1s time 500ms\n"
      "die rank 6 at 2s");
  int host_of[7];
  assert_int_equal(ronde__sim_net_place(net, 7, host_of), RONDE_OK);
  static const int expected[] = {0, 0, 0, 1, 1, 1, 2};
  assert_memory_equal(host_of, expected, sizeof expected);
  ronde__sim_options o = ronde__sim_net_options(net, 7, 3);
  assert_true(o.n == 7 && o.half_duplex && o.n_faults == 2 && o.seed == 3);
  check_close(o.link(o.user, 0, 2).alpha_s, 250e-9);
  check_close(o.link(o.user, 0, 2).beta_s, 1 / 5e9);
  check_close(o.link(o.user, 0, 4).beta_s, 8e-9);
  check_close(o.link(o.user, 1, 6).alpha_s, 2e-3);
  check_close(o.link(o.user, 6, 1).beta_s, 80e-9);
  check_close(o.switch_beta_s, 8e-9 / 15);
  assert_true(o.jitter == .25 && o.delay_chance == .01 && o.delay_s == .2);
  assert_true(ronde__sim_net_slowness(net, 3) == 1.5 && ronde__sim_net_slowness(net, 2) == 1);
  assert_true(o.faults[0].rank == 1 && o.faults[0].at_ns == 1000000000 && o.faults[0].lasts_ns == 500000000);
  assert_true(o.faults[1].rank == 6 && o.faults[1].lasts_ns == UINT64_MAX);
  assert_true(ronde__sim_net_straggle_ns(net, 1, 0, 1) == 20000000);
  ronde__free(net);
}

static void test_without_a_line(void **state) {
  ronde__sim_net *net = net_of("");
  int host_of[3];
  assert_int_equal(ronde__sim_net_place(net, 3, host_of), RONDE_OK);
  assert_true(host_of[0] == 0 && host_of[1] == 1 && host_of[2] == 2);
  ronde__sim_options o = ronde__sim_net_options(net, 3, 1);
  assert_true(!o.link && o.between.alpha_s == ronde__between_hosts.alpha_s && !o.n_faults && !o.half_duplex);
  assert_true(ronde__sim_net_straggle_ns(net, 1, 0, 1) == 0);
  ronde__free(net);
}

static void test_stragglers_are_drawn(void **state) {
  ronde__sim_net *net = net_of("straggler chance 0.25 time 1ms");
  int n = 0, n_other = 0;
  for (int64_t step = 1; step <= 4000; step++) {
    n += ronde__sim_net_straggle_ns(net, 1, 2, step) > 0;
    n_other += ronde__sim_net_straggle_ns(net, 1, 2, step) != ronde__sim_net_straggle_ns(net, 2, 2, step);
  }
  assert_true(n > 900 && n < 1100 && n_other > 1000);
  ronde__free(net);
}

/* ---- what is refused ---- */

static const struct {
  const char *text, *said;
} wrong[] = {
    {"\nfoo 3", "lan, line 2: unknown word: 'foo'"},
    {"hosts 3", "lan, line 1: the line is not `hosts N ranks K`"},
    {"hosts 0 ranks 1", "lan, line 1: not a whole number from 1 to 4096: '0'"},
    {"hosts 1.5 ranks 1", "lan, line 1: not a whole number from 1 to 4096: '1.5'"},
    {"hosts 4096 ranks 1\nhosts 1 ranks 1", "lan, line 2: there are more than 4096 hosts"},
    {"within latency 5 rate 1GB/s", "lan, line 1: not a time such as 50us (ns, us, ms, s): '5'"},
    {"within latency nan rate 1GB/s", "lan, line 1: not a time such as 50us (ns, us, ms, s): 'nan'"},
    {"within latency -5us rate 1GB/s", "lan, line 1: not a time such as 50us (ns, us, ms, s): '-5us'"},
    {"within latency 5us rate 0GB/s", "lan, line 1: not a rate such as 1Gbit/s or 5GB/s: '0GB/s'"},
    {"within latency 5us rate 1Gb", "lan, line 1: not a rate such as 1Gbit/s or 5GB/s: '1Gb'"},
    {"within rate 1GB/s latency 5us", "lan, line 1: the line is not `within latency T rate R`"},
    {"within latency 1us rate 1B/s\nwithin latency 1us rate 1B/s", "lan, line 2: it stands there twice: 'within'"},
    {"pair 1 1 latency 1us rate 1B/s", "lan, line 1: a pair is two hosts; inside one there is `within`"},
    {"pair 1 2 latency 1us rate 1B/s\npair 2 1 latency 1us rate 1B/s", "lan, line 2: this pair has a line already"},
    {"duplex both", "lan, line 1: neither full nor half: 'both'"},
    {"jitter 1.5", "lan, line 1: not a number from 0 to 1: '1.5'"},
    {"jitter 0x1p-1", "lan, line 1: not a number from 0 to 1: '0x1p-1'"},
    {"slow rank 1 factor 0", "lan, line 1: not a factor from 0.001 to 1000000: '0'"},
    {"die rank 1 at 1s\npause rank 1 at 2s time 1s", "lan, line 2: this rank pauses or dies already"},
    {"die rank 1 at 1s 2s", "lan, line 1: the line is not `die rank I at T`"},
    {"a b c d e f g h i j", "lan, line 1: it has too many words"},
};

static void test_errors_name_the_line(void **state) {
  ronde_log_set(keep_lines, NULL);
  for (size_t i = 0; i < RONDE__COUNT(wrong); i++) {
    ronde__sim_net *net;
    lines[0] = 0;
    assert_int_equal(ronde__sim_net_parse("lan", wrong[i].text, &net), RONDE_E_INPUT);
    assert_string_equal(lines, wrong[i].said);
  }
  ronde_log_set(NULL, NULL);
}

static const struct {
  const char *text, *said;
} out_of_place[] = {
    {"hosts 2 ranks 1", "lan: its hosts have room for 2 ranks, and there are 3"},
    {"hosts 3 ranks 1\npair 0 3 latency 1us rate 1B/s", "lan, line 2: there is no host 3: they are 0 to 2"},
    {"slow rank 3 factor 2", "lan, line 1: there is no rank 3: they are 0 to 2"},
    {"\ndie rank 9 at 1s", "lan, line 2: there is no rank 9: they are 0 to 2"},
};

static void test_what_there_is_not(void **state) {
  int host_of[3];
  ronde_log_set(keep_lines, NULL);
  for (size_t i = 0; i < RONDE__COUNT(out_of_place); i++) {
    ronde__sim_net *net = net_of(out_of_place[i].text);
    assert_int_equal(ronde__sim_net_place(net, 3, host_of), RONDE_E_INPUT);
    assert_string_equal(lines, out_of_place[i].said);
    ronde__free(net);
  }
  ronde__sim_net *net;
  assert_int_equal(ronde__sim_net_read("/nowhere/lan", &net), RONDE_E_INPUT);
  assert_string_equal(lines, "/nowhere/lan: No such file or directory");
  ronde_log_set(NULL, NULL);
}

/* ---- what the links take: 1 us, and 1 ns a byte ---- */

typedef struct wire {
  ronde__sim_options options;
  ronde__sim_links links;
  int host_of[8];
} wire;

static wire *wire_of(wire *w, const char *text, int n) {
  ronde__sim_net *net = net_of(text);
  assert_int_equal(ronde__sim_net_place(net, n, w->host_of), RONDE_OK);
  w->options = ronde__sim_net_options(net, n, 1);
  assert_null(w->options.link); /* the net may go */
  assert_int_equal(ronde__sim_links_create(&w->options, w->host_of, &w->links), RONDE_OK);
  ronde__free(net);
  return w;
}

static uint64_t arrival(wire *w, int from, int to, size_t bytes, uint64_t now_ns) {
  uint64_t left, arrived;
  assert_int_equal(ronde__sim_links_send(&w->links, from, to, bytes, now_ns, 0, &left, &arrived), RONDE_OK);
  return arrived;
}

#define LINK "between latency 1us rate 1GB/s\n"

static void test_full_and_half_duplex(void **state) {
  wire w;
  wire_of(&w, LINK, 3);
  assert_true(arrival(&w, 0, 1, 1000, 0) == 2000);
  assert_true(arrival(&w, 1, 0, 1000, 0) == 2000); /* both ways at once */
  assert_true(arrival(&w, 0, 2, 1000, 0) == 3000); /* behind the first */
  assert_true(arrival(&w, 2, 1, 1000, 0) == 3000); /* 1 is receiving until 2000 */
  ronde__sim_links_free(&w.links);
  wire_of(&w, LINK "duplex half\n", 3);
  assert_true(arrival(&w, 0, 1, 1000, 0) == 2000);
  assert_true(arrival(&w, 1, 0, 1000, 0) == 2000); /* sends until 1000, receives from then on */
  assert_true(arrival(&w, 1, 2, 500, 0) == 3500);  /* 1 sends and receives until 2000 */
  ronde__sim_links_free(&w.links);
}

static void test_a_shared_switch(void **state) {
  wire w;
  wire_of(&w, LINK "switch rate 500MB/s\n", 4);
  assert_true(arrival(&w, 0, 1, 1000, 0) == 3000);
  assert_true(arrival(&w, 2, 3, 1000, 0) == 5000); /* its turn at the switch begins at 2000 */
  ronde__sim_links_free(&w.links);
}

/* What is on its way to a port for later does not keep others from it now. */
static void test_gaps_are_used(void **state) {
  wire w;
  wire_of(&w, LINK, 3);
  w.options.within = w.options.between;
  assert_true(arrival(&w, 0, 2, 1000, 5000) == 7000);
  assert_true(arrival(&w, 1, 2, 4000, 0) == 5000);
  assert_true(arrival(&w, 1, 2, 1000, 0) == 6000);
  ronde__sim_links_free(&w.links);
}

static void test_jitter_and_delays_are_drawn(void **state) {
  wire w;
  int n_late = 0;
  uint64_t most = 0, least = UINT64_MAX;
  wire_of(&w, "between latency 1ms rate 1GB/s\njitter 0.5\ndelay chance 0.1 time 1s\n", 2);
  for (uint64_t i = 0; i < 2000; i++) {
    uint64_t now = i * 10000000000u, took = arrival(&w, 0, 1, 0, now) - now;
    n_late += took >= 1000000000;
    if (took >= 1000000000) continue;
    most = took > most ? took : most;
    least = took < least ? took : least;
  }
  assert_true(n_late > 150 && n_late < 250 && least >= 1000000 && most < 1500000 && most > 1490000);
  ronde__sim_links_free(&w.links);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_line),
      cmocka_unit_test(test_without_a_line),
      cmocka_unit_test(test_stragglers_are_drawn),
      cmocka_unit_test(test_errors_name_the_line),
      cmocka_unit_test(test_what_there_is_not),
      cmocka_unit_test(test_full_and_half_duplex),
      cmocka_unit_test(test_a_shared_switch),
      cmocka_unit_test(test_gaps_are_used),
      cmocka_unit_test(test_jitter_and_delays_are_drawn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

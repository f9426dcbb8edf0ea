/* Reads the format of sim_net.h: a table of lines, each a keyword and its values. */
#include "comm/sim_net.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20, MAX_VALUES = 4, MAX_WORDS = 1 + 2 * MAX_VALUES, MAX_HOSTS = 4096 };

typedef enum kind { NUMBER, COUNT, INDEX, FRACTION, TIME, RATE, DUPLEX } kind;

/* A line's words, and its values: times in seconds, rates in bytes per second. */
typedef struct line {
  const char *file;
  int number, n_words;
  const char *words[MAX_WORDS];
  int lengths[MAX_WORDS];
  double values[MAX_VALUES];
} line;

static ronde_status refuse(const line *l, const char *what, int word) {
  return ronde__fail(RONDE_E_INPUT, "%s, line %d: %s: '%.*s'", l->file, l->number, what,
                     l->lengths[word] < 80 ? l->lengths[word] : 80, l->words[word]);
}

static ronde_status refuse_line(const line *l, const char *what) {
  return ronde__fail(RONDE_E_INPUT, "%s, line %d: %s", l->file, l->number, what);
}

/* ---- values ---- */

typedef struct unit {
  const char *name;
  double factor;
} unit;

static const unit times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {NULL, 0}};
static const unit rates[] = {{"bit/s", .125}, {"kbit/s", 125}, {"Mbit/s", 125e3}, {"Gbit/s", 125e6}, {"B/s", 1},
                             {"kB/s", 1e3},   {"MB/s", 1e6},   {"GB/s", 1e9},     {NULL, 0}};
static const unit none[] = {{"", 1}, {NULL, 0}};

static const struct {
  const unit *units;
  double min, max;
  bool is_whole;
  const char *what;
} kinds[] = {
    [NUMBER] = {none, 1e-3, 1e6, false, "not a factor from 0.001 to 1000000"},
    [COUNT] = {none, 1, MAX_HOSTS, true, "not a whole number from 1 to 4096"},
    [INDEX] = {none, 0, MAX_HOSTS - 1, true, "not a whole number from 0 to 4095"},
    [FRACTION] = {none, 0, 1, false, "not a number from 0 to 1"},
    [TIME] = {times, 0, 1e6, false, "not a time such as 50us (ns, us, ms, s)"},
    [RATE] = {rates, 1, 1e15, false, "not a rate such as 1Gbit/s or 5GB/s"},
};

/* Digits with a point and an exponent; what strtod knows besides is no number here. */
static bool read_number(const line *l, int word, double *value_out, int *used_out) {
  char text[32];
  int n = 0;
  while (n < l->lengths[word] && n < (int)sizeof text - 1) {
    char c = l->words[word][n];
    bool exponent = c == 'e' && n + 1 < l->lengths[word] && strchr("+-0123456789", l->words[word][n + 1]);
    bool sign = (c == '-' || c == '+') && n > 0 && text[n - 1] == 'e';
    if (!(c >= '0' && c <= '9') && c != '.' && !exponent && !sign) break;
    text[n++] = c;
  }
  text[n] = 0;
  char *end;
  *value_out = strtod_l(text, &end, ronde__c_locale());
  *used_out = n;
  return n > 0 && *end == 0 && isfinite(*value_out);
}

static ronde_status read_value(const line *l, int word, kind kind, double *value_out) {
  int used;
  const char *text = l->words[word];
  if (kind == DUPLEX) {
    *value_out = l->lengths[word] == 4 && !memcmp(text, "half", 4);
    bool known = *value_out > 0 || (l->lengths[word] == 4 && !memcmp(text, "full", 4));
    return known ? RONDE_OK : refuse(l, "neither full nor half", word);
  }
  if (!read_number(l, word, value_out, &used)) return refuse(l, kinds[kind].what, word);
  for (const unit *u = kinds[kind].units; u->name; u++) {
    if (strlen(u->name) != (size_t)(l->lengths[word] - used) || memcmp(text + used, u->name, strlen(u->name))) continue;
    *value_out *= u->factor;
    bool fits = *value_out >= kinds[kind].min && *value_out <= kinds[kind].max;
    bool whole = !kinds[kind].is_whole || *value_out == floor(*value_out);
    return fits && whole ? RONDE_OK : refuse(l, kinds[kind].what, word);
  }
  return refuse(l, kinds[kind].what, word);
}

/* ---- lines ---- */

static ronde_status full(const line *l) { return refuse_line(l, "there are more than 4096 lines of this kind"); }

static ronde_status take_hosts(const line *l, ronde__sim_net *net) {
  int64_t n = 0;
  if (net->n_hosts == RONDE__SIM_ROWS) return full(l);
  net->hosts[net->n_hosts++] = (ronde__sim_hosts){(int)l->values[0], (int)l->values[1]};
  for (int i = 0; i < net->n_hosts; i++) n += net->hosts[i].n;
  return n <= MAX_HOSTS ? RONDE_OK : refuse_line(l, "there are more than 4096 hosts");
}

static ronde__link_class link_of(const line *l, int first) {
  return (ronde__link_class){l->values[first], 1 / l->values[first + 1]};
}

static ronde_status take_within(const line *l, ronde__sim_net *net) {
  net->within = link_of(l, 0);
  return RONDE_OK;
}

static ronde_status take_between(const line *l, ronde__sim_net *net) {
  net->between = link_of(l, 0);
  return RONDE_OK;
}

static ronde_status take_pair(const line *l, ronde__sim_net *net) {
  if (net->n_pairs == RONDE__SIM_ROWS) return full(l);
  ronde__sim_pair pair = {(int)l->values[0], (int)l->values[1], l->number, link_of(l, 2)};
  if (pair.a == pair.b) return refuse_line(l, "a pair is two hosts; inside one there is `within`");
  for (int i = 0; i < net->n_pairs; i++) {
    const ronde__sim_pair *other = &net->pairs[i];
    bool same = (other->a == pair.a && other->b == pair.b) || (other->a == pair.b && other->b == pair.a);
    if (same) return refuse_line(l, "this pair has a line already");
  }
  net->pairs[net->n_pairs++] = pair;
  return RONDE_OK;
}

static ronde_status take_duplex(const line *l, ronde__sim_net *net) {
  net->half_duplex = l->values[0] > 0;
  return RONDE_OK;
}

static ronde_status take_switch(const line *l, ronde__sim_net *net) {
  net->switch_beta_s = 1 / l->values[0];
  return RONDE_OK;
}

static ronde_status take_jitter(const line *l, ronde__sim_net *net) {
  net->jitter = l->values[0];
  return RONDE_OK;
}

static ronde_status take_delay(const line *l, ronde__sim_net *net) {
  net->delay_chance = l->values[0];
  net->delay_s = l->values[1];
  return RONDE_OK;
}

static ronde_status take_straggler(const line *l, ronde__sim_net *net) {
  net->straggler_chance = l->values[0];
  net->straggler_s = l->values[1];
  return RONDE_OK;
}

static ronde_status take_slow(const line *l, ronde__sim_net *net) {
  if (net->n_slow == RONDE__SIM_ROWS) return full(l);
  ronde__sim_slow slow = {(int)l->values[0], l->number, l->values[1]};
  for (int i = 0; i < net->n_slow; i++)
    if (net->slow[i].rank == slow.rank) return refuse_line(l, "this rank has a line already");
  net->slow[net->n_slow++] = slow;
  return RONDE_OK;
}

static ronde_status add_fault(const line *l, ronde__sim_net *net, uint64_t lasts_ns) {
  if (net->n_faults == RONDE__SIM_ROWS) return full(l);
  ronde__sim_fault fault = {(int)l->values[0], (uint64_t)llround(l->values[1] * 1e9), lasts_ns};
  for (int i = 0; i < net->n_faults; i++)
    if (net->faults[i].rank == fault.rank) return refuse_line(l, "this rank pauses or dies already");
  net->fault_lines[net->n_faults] = l->number;
  net->faults[net->n_faults++] = fault;
  return RONDE_OK;
}

static ronde_status take_pause(const line *l, ronde__sim_net *net) {
  return add_fault(l, net, (uint64_t)llround(l->values[2] * 1e9));
}

static ronde_status take_die(const line *l, ronde__sim_net *net) { return add_fault(l, net, UINT64_MAX); }

/* before: the word in front of the value. NULL: none. */
typedef struct value {
  const char *before;
  kind kind;
} value;

static const struct {
  const char *keyword, *usage;
  ronde_status (*take)(const line *l, ronde__sim_net *net);
  bool once;
  int n_values;
  value values[MAX_VALUES];
} table[] = {
    {"hosts", "hosts N ranks K", take_hosts, false, 2, {{NULL, COUNT}, {"ranks", COUNT}}},
    {"within", "within latency T rate R", take_within, true, 2, {{"latency", TIME}, {"rate", RATE}}},
    {"between", "between latency T rate R", take_between, true, 2, {{"latency", TIME}, {"rate", RATE}}},
    {"pair",
     "pair A B latency T rate R",
     take_pair,
     false,
     4,
     {{NULL, INDEX}, {NULL, INDEX}, {"latency", TIME}, {"rate", RATE}}},
    {"duplex", "duplex full|half", take_duplex, true, 1, {{NULL, DUPLEX}}},
    {"switch", "switch rate R", take_switch, true, 1, {{"rate", RATE}}},
    {"jitter", "jitter F", take_jitter, true, 1, {{NULL, FRACTION}}},
    {"delay", "delay chance P time T", take_delay, true, 2, {{"chance", FRACTION}, {"time", TIME}}},
    {"straggler", "straggler chance P time T", take_straggler, true, 2, {{"chance", FRACTION}, {"time", TIME}}},
    {"slow", "slow rank I factor F", take_slow, false, 2, {{"rank", INDEX}, {"factor", NUMBER}}},
    {"pause", "pause rank I at T time T", take_pause, false, 3, {{"rank", INDEX}, {"at", TIME}, {"time", TIME}}},
    {"die", "die rank I at T", take_die, false, 2, {{"rank", INDEX}, {"at", TIME}}},
};

static bool is_word(const line *l, int i, const char *word) {
  return i < l->n_words && strlen(word) == (size_t)l->lengths[i] && !memcmp(l->words[i], word, (size_t)l->lengths[i]);
}

static ronde_status refuse_form(const line *l, size_t kind) {
  char what[64];
  snprintf(what, sizeof what, "the line is not `%s`", table[kind].usage);
  return refuse_line(l, what);
}

static ronde_status read_values(line *l, size_t kind) {
  int at = 1;
  for (int i = 0; i < table[kind].n_values; i++) {
    const value *v = &table[kind].values[i];
    if (v->before && !is_word(l, at++, v->before)) return refuse_form(l, kind);
    if (at >= l->n_words) return refuse_form(l, kind);
    RONDE_TRY(read_value(l, at++, v->kind, &l->values[i]));
  }
  return at == l->n_words ? RONDE_OK : refuse_form(l, kind);
}

static ronde_status take_line(line *l, bool *seen, ronde__sim_net *net) {
  for (size_t k = 0; k < RONDE__COUNT(table); k++) {
    if (!is_word(l, 0, table[k].keyword)) continue;
    if (seen[k] && table[k].once) return refuse(l, "it stands there twice", 0);
    seen[k] = true;
    RONDE_TRY(read_values(l, k));
    return table[k].take(l, net);
  }
  return refuse(l, "unknown word", 0);
}

/* Of [at, end), what stands behind # left out. */
static ronde_status split(line *l, const char *at, const char *end) {
  const char *comment = memchr(at, '#', (size_t)(end - at));
  if (comment) end = comment;
  l->n_words = 0;
  while (at < end) {
    if (strchr(" \t\r", *at)) {
      at++;
      continue;
    }
    if (l->n_words == MAX_WORDS) return refuse_line(l, "it has too many words");
    l->words[l->n_words] = at;
    while (at < end && !strchr(" \t\r", *at)) at++;
    l->lengths[l->n_words] = (int)(at - l->words[l->n_words]);
    l->n_words++;
  }
  return RONDE_OK;
}

static ronde_status parse(line *l, const char *text, ronde__sim_net *net) {
  bool seen[RONDE__COUNT(table)] = {false};
  for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
    end = strchr(at, '\n');
    if (!end) end = at + strlen(at);
    l->number++;
    RONDE_TRY(split(l, at, end));
    if (l->n_words) RONDE_TRY(take_line(l, seen, net));
  }
  return RONDE_OK;
}

ronde_status ronde__sim_net_parse(const char *name, const char *text, ronde__sim_net **net_out) {
  ronde__sim_net *net;
  line l = {.file = name};
  RONDE__ALLOC(net, sizeof *net, "--sim-net");
  net->name = name;
  net->within = ronde__within_host;
  net->between = ronde__between_hosts;
  ronde_status status = parse(&l, text, net);
  if (status == RONDE_OK) *net_out = net;
  else ronde__free(net);
  return status;
}

ronde_status ronde__sim_net_read(const char *path, ronde__sim_net **net_out) {
  FILE *file = fopen(path, "r");
  if (!file) return ronde__fail(RONDE_E_INPUT, "%s: %s", path, strerror(errno));
  char *text = malloc(MAX_FILE_BYTES + 1);
  size_t n = text ? fread(text, 1, MAX_FILE_BYTES + 1, file) : 0;
  bool failed = ferror(file) != 0;
  fclose(file);
  ronde_status status;
  if (!text) status = ronde__fail(RONDE_E_MEMORY, "%s: no memory to read it", path);
  else if (failed) status = ronde__fail(RONDE_E_INPUT, "%s: it cannot be read", path);
  else if (n > MAX_FILE_BYTES) status = ronde__fail(RONDE_E_INPUT, "%s: it is longer than 1 MiB", path);
  else if (memchr(text, 0, n)) status = ronde__fail(RONDE_E_INPUT, "%s: it is no text", path);
  else {
    text[n] = 0;
    status = ronde__sim_net_parse(path, text, net_out);
  }
  free(text);
  return status;
}

/* ---- its use ---- */

static ronde_status check_index(const ronde__sim_net *net, int line, const char *what, int index, int n) {
  return index < n ? RONDE_OK
                   : ronde__fail(RONDE_E_INPUT, "%s, line %d: there is no %s %d: they are 0 to %d", net->name, line,
                                 what, index, n - 1);
}

static int n_places(const ronde__sim_net *net) {
  int64_t n = 0;
  for (int i = 0; i < net->n_hosts; i++) n += (int64_t)net->hosts[i].n * net->hosts[i].ranks;
  return (int)ronde__min(n, INT32_MAX);
}

ronde_status ronde__sim_net_place(ronde__sim_net *net, int n_ranks, int *host_of) {
  int rank = 0, host = 0, n_hosts = 0;
  if (net->n_hosts && n_places(net) < n_ranks)
    return ronde__fail(RONDE_E_INPUT, "%s: its hosts have room for %d ranks, and there are %d", net->name,
                       n_places(net), n_ranks);
  for (int i = 0; i < net->n_hosts; i++) {
    n_hosts += net->hosts[i].n;
    for (int h = 0; h < net->hosts[i].n; h++, host++)
      for (int k = 0; k < net->hosts[i].ranks && rank < n_ranks; k++) host_of[rank++] = host;
  }
  for (; rank < n_ranks; rank++, n_hosts++) host_of[rank] = rank;
  for (int i = 0; i < net->n_pairs; i++)
    RONDE_TRY(check_index(net, net->pairs[i].line, "host", (int)ronde__max(net->pairs[i].a, net->pairs[i].b), n_hosts));
  for (int i = 0; i < net->n_slow; i++)
    RONDE_TRY(check_index(net, net->slow[i].line, "rank", net->slow[i].rank, n_ranks));
  for (int i = 0; i < net->n_faults; i++)
    RONDE_TRY(check_index(net, net->fault_lines[i], "rank", net->faults[i].rank, n_ranks));
  net->host_of = host_of;
  return RONDE_OK;
}

static ronde__link_class link_between(const void *user, int from, int to) {
  const ronde__sim_net *net = user;
  int a = net->host_of[from], b = net->host_of[to];
  if (a == b) return net->within;
  for (int i = 0; i < net->n_pairs; i++) {
    const ronde__sim_pair *p = &net->pairs[i];
    if ((p->a == a && p->b == b) || (p->a == b && p->b == a)) return p->link;
  }
  return net->between;
}

ronde__sim_options ronde__sim_net_options(const ronde__sim_net *net, int n_ranks, uint64_t seed) {
  return (ronde__sim_options){.n = n_ranks,
                              .host_of = net->host_of,
                              .within = net->within,
                              .between = net->between,
                              .link = net->n_pairs ? link_between : NULL,
                              .user = net,
                              .half_duplex = net->half_duplex,
                              .switch_beta_s = net->switch_beta_s,
                              .jitter = net->jitter,
                              .delay_chance = net->delay_chance,
                              .delay_s = net->delay_s,
                              .seed = seed,
                              .faults = net->faults,
                              .n_faults = net->n_faults};
}

double ronde__sim_net_slowness(const ronde__sim_net *net, int rank) {
  for (int i = 0; i < net->n_slow; i++)
    if (net->slow[i].rank == rank) return net->slow[i].factor;
  return 1;
}

uint64_t ronde__sim_net_straggle_ns(const ronde__sim_net *net, uint64_t seed, int rank, int64_t step) {
  uint32_t lot[4];
  if (!(net->straggler_chance > 0)) return 0;
  ronde__philox(seed, RONDE__STREAM_STRAGGLERS | (uint32_t)rank, (uint64_t)step, lot);
  bool straggles = (double)lot[0] < net->straggler_chance * 4294967296.0;
  return straggles ? (uint64_t)llround(net->straggler_s * 1e9) : 0;
}

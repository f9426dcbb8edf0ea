/* Before a run of several processes: whether they are the same build, with the same options and data. Each tells the
 * others a card of itself; what differs from rank 0 is said by all in the same words. */
#include "config/option.h"
#include "io/checksum.h"
#include "state/checkpoint.h"
#include "setup/setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OPTIONS_TEXT = 8192 };

/* stages: where they begin; "": there is one. */
typedef struct card {
  char host[64], build[96], kernels[32], start[64], model[80], train[80], test[80], stages[64],
      options[MAX_OPTIONS_TEXT];
  uint32_t led; /* bit i: led_option(i) is given */
} card;

/* The i-th of what rank 0 does for all: given to another rank alone, it would not be done. */
static const ronde__option *led_option(int i) {
  const ronde__option *o;
  for (int at = 0; (o = ronde__option_at(RONDE__VERB_TRAIN, at)); at++)
    if (o->ranks == RONDE__RANKS_LED && i-- == 0) return o;
  return NULL;
}

static ronde_status fill(const ronde__job *job, card *c) {
  gethostname(c->host, sizeof c->host - 1);
  snprintf(c->build, sizeof c->build, "ronde %s", ronde__build());
  snprintf(c->kernels, sizeof c->kernels, "%s (%s), bfloat16 %s", job->compute.kernels->isa,
           ronde__gemm_name(job->compute.gemm), ronde__bf16_name(job->compute.bf16));
  const int64_t *n_examples = job->data->source.n_examples;
  snprintf(c->train, sizeof c->train, "%" PRId64 " examples %.16s", n_examples[RONDE_SPLIT_TRAIN], job->data->sha256);
  snprintf(c->test, sizeof c->test, "%" PRId64 " examples %.16s", n_examples[RONDE_SPLIT_TEST], job->data->test_sha256);
  if (job->file) snprintf(c->model, sizeof c->model, "%s", ronde__onnx_sha256(job->file));
  int begins[RONDE__SET_RANKS];
  for (int s = 0; s < job->n_stages && job->stages; s++) begins[s] = job->stages[s].begin;
  if (job->stages)
    snprintf(c->stages, sizeof c->stages, "%016" PRIx64,
             ronde__checksum(begins, (size_t)job->n_stages * sizeof *begins));
  const ronde__resume *r = job->resume;
  if (r)
    snprintf(c->start, sizeof c->start, "step %" PRId64 " of checkpoint %016" PRIx64, r->progress.step,
             ronde__checksum(r->file->header, r->file->header_bytes));
  else snprintf(c->start, sizeof c->start, "the first step");
  for (int i = 0; led_option(i); i++) c->led |= (uint32_t)ronde_config_is_given(job->config, led_option(i)->name) << i;
  json_t *options = ronde__config_common(job->config);
  size_t n = options ? json_dumpb(options, c->options, sizeof c->options - 1, JSON_COMPACT) : 0;
  json_decref(options);
  if (n == 0 || n >= sizeof c->options)
    return ronde__fail(RONDE_E_INTERNAL, "the options take %zu bytes as JSON, more than ranks can exchange", n);
  return RONDE_OK;
}

static void value_text(const json_t *value, char *text, size_t bytes) {
  if (json_is_string(value)) snprintf(text, bytes, "%s", json_string_value(value));
  else text[ronde__min(bytes - 1, json_dumpb(value, text, bytes - 1, JSON_ENCODE_ANY | JSON_COMPACT))] = 0;
}

bool ronde__options_differ(const char *one, const char *first, char name[32], char own[64], char theirs[64]) {
  json_t *a = json_loads(one, 0, NULL), *b = json_loads(first, 0, NULL), *value;
  const char *key;
  bool found = false;
  json_object_foreach(a, key, value) {
    const json_t *other = json_object_get(b, key);
    if (found || json_equal(value, other)) continue;
    found = true;
    snprintf(name, 32, "%s", key);
    value_text(value, own, 64);
    value_text(other, theirs, 64);
  }
  json_decref(a);
  json_decref(b);
  return found;
}

/* The first of a card's bits; NULL: none is set. */
static const ronde__option *led_option_of(uint32_t bits) { return bits ? led_option(__builtin_ctz(bits)) : NULL; }

/* Why rank `rank` cannot train with rank 0; false where it can. */
static bool differs(const card *cards, int rank, char why[512]) {
  const card *one = &cards[rank], *first = &cards[0];
  char name[32], own[64], theirs[64];
  const ronde__option *led = led_option_of(one->led & ~first->led);
  int n = snprintf(why, 512, "rank %d on host %s ", rank, one->host);
  why += n;
  size_t left = 512 - (size_t)n;
  if (strcmp(one->build, first->build))
    snprintf(why, left, "runs %s, but rank 0 on host %s runs %s: install the same build", one->build, first->host,
             first->build);
  else if (strcmp(one->kernels, first->kernels))
    snprintf(why, left, "computes with %s, but rank 0 on host %s with %s: set RONDE_ISA to the same on every host",
             one->kernels, first->host, first->kernels);
  else if (led)
    snprintf(why, left, "has --%s, but rank 0 on host %s does not: give it to rank 0, which does this for all ranks",
             led->name, first->host);
  else if (strcmp(one->start, first->start))
    snprintf(why, left, "starts from %s, but rank 0 on host %s starts from %s", one->start, first->host, first->start);
  else if (strcmp(one->model, first->model))
    snprintf(why, left, "has another file for --model (sha256 %.16s) than rank 0 on host %s (%.16s)", one->model,
             first->host, first->model);
  else if (strcmp(one->stages, first->stages))
    snprintf(why, left, "cuts the network into other stages than rank 0 on host %s: give all the same --stage-costs",
             first->host);
  else if (strcmp(one->train, first->train))
    snprintf(why, left, "has training data (%s...) that differ from those of rank 0 on host %s (%s...)", one->train,
             first->host, first->train);
  else if (strcmp(one->test, first->test))
    snprintf(why, left, "has test data (%s...) that differ from those of rank 0 on host %s (%s...)", one->test,
             first->host, first->test);
  else if (strcmp(one->options, first->options) &&
           ronde__options_differ(one->options, first->options, name, own, theirs))
    snprintf(why, left, "has --%s %s, but rank 0 on host %s has --%s %s", name, own, first->host, name, theirs);
  else return false;
  return true;
}

/* Whatever another process sent, each text has an end. */
static void close_texts(card *c) {
  c->host[sizeof c->host - 1] = c->build[sizeof c->build - 1] = c->kernels[sizeof c->kernels - 1] = 0;
  c->start[sizeof c->start - 1] = c->model[sizeof c->model - 1] = c->train[sizeof c->train - 1] =
      c->test[sizeof c->test - 1] = 0;
  c->stages[sizeof c->stages - 1] = c->options[sizeof c->options - 1] = 0;
}

ronde_status ronde__all_agree(ronde__transport *transport, bool own, bool *all_out) {
  bool *votes;
  RONDE__ALLOC(votes, (size_t)transport->size * sizeof *votes, "ranks");
  votes[transport->rank] = own;
  ronde_status status = ronde__allgather(transport, RONDE__TAG_CARDS, votes, sizeof *votes);
  for (int i = 0; i < transport->size && status == RONDE_OK; i++) own &= votes[i];
  ronde__free(votes);
  *all_out = own;
  return status;
}

void ronde__leave_together(ronde__transport *transport) {
  char *here = ronde__alloc((size_t)transport->size);
  ronde__log_demote(true);
  if (here) ronde__allgather(transport, RONDE__TAG_CARDS, here, 1);
  ronde__log_demote(false);
  ronde__free(here);
}

static ronde_status compare(ronde__transport *transport, card *cards) {
  char why[512] = "";
  bool differ = false;
  RONDE_TRY(ronde__allgather(transport, RONDE__TAG_CARDS, cards, sizeof *cards));
  for (int i = 0; i < transport->size; i++) close_texts(&cards[i]);
  for (int i = 1; i < transport->size && transport->rank == 0 && !differ; i++) differ = differs(cards, i, why);
  if (!differ) why[0] = 0;
  RONDE_TRY(ronde__broadcast_tree(transport, RONDE__TAG_WHY, 0, why, sizeof why));
  why[sizeof why - 1] = 0;
  if (!why[0]) return RONDE_OK;
  ronde__leave_together(transport);
  return ronde__fail(RONDE_E_USAGE, "%s", why);
}

ronde_status ronde__job_agree(const ronde__job *job) {
  ronde__transport *transport = job->mpi;
  card *cards;
  RONDE__ALLOC(cards, (size_t)transport->size * sizeof *cards, "ranks");
  ronde_status status = fill(job, &cards[transport->rank]);
  if (status == RONDE_OK) status = compare(transport, cards);
  transport->bytes_sent = transport->bytes_received = transport->messages = 0; /* those of the training are counted */
  ronde__free(cards);
  return status;
}

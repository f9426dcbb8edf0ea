/* The audit of cases that are to be ranked. A fact that was not varied on purpose must be the same in all: a study once ranked
 * 'same' padding against 'valid', wall time against processor time, and a cache against none. */
#include "audit.h"

#include "common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A field, and the axes besides the one of its own name that may change it, between bars; "*": any axis but those of which
 * all cases compute the same numbers. */
typedef struct audit_field {
  const char *name, *axes;
} audit_field;

#define OF_WORKERS "|workers|strategy|scaling|stages|servers|local-batch|"
#define OF_BATCH OF_WORKERS "batch|accumulate|"

static const audit_field fields[] = {
    {"model", ""},
    {"parameters", ""},
    {"trained_parameters", "|freeze|"},
    {"forward_flops_per_example", ""},
    {"train_flops_per_example", "|freeze|"},
    {"padding", ""},
    {"activation", ""},
    {"dropout", ""},
    {"batch_norm", OF_WORKERS "sync-bn|"},
    {"loss", ""},
    {"label-smoothing", ""},
    {"init", ""},
    {"freeze", ""},
    {"data_sha256", ""},
    {"data_examples", ""},
    {"seed", ""},
    {"shuffle", ""},
    {"repeat", ""},
    {"drop-last", ""},
    {"val-split", ""},
    {"train-examples", ""},
    {"augment", ""},
    {"normalize", ""},
    {"resize", ""},
    {"batch", OF_BATCH},
    {"accumulate", ""},
    {"steps", OF_BATCH "repeat|drop-last|epochs|"},
    {"examples", OF_BATCH "repeat|drop-last|epochs|steps|backup|"},
    {"optimizer", "|strategy|"},
    {"lr", OF_WORKERS},
    {"momentum", ""},
    {"nesterov", ""},
    {"betas", ""},
    {"eps", "|optimizer|strategy|"},
    {"alpha", ""},
    {"weight-decay", "|optimizer|strategy|"},
    {"clip", ""},
    {"lr-schedule", ""},
    {"lr-step", ""},
    {"lr-gamma", ""},
    {"warmup", ""},
    {"lr-scale-workers", ""},
    {"lr-divide-workers", OF_WORKERS},
    {"dtype", ""},
    {"wire", ""},
    {"cache", ""},
    {"shard", ""},
    {"exec", ""},
    {"clock", ""},
    {"warm_up", ""},
    {"threads", ""},
    {"threads_per_worker", "|threads|"},
    {"cores", "|hosts|"},
    {"hosts", OF_WORKERS "hosts|"},
    {"isa", "|system|"},
    {"simulated", "|transport|"},
    {"host_is_busy", ""},
    {"version", "|system|"},
    {"first_loss", "*"},
    {"second_loss", "*"},
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

/* ---- of a run ------------------------------------------------------------------------------------------------------ */

static json_t *real_or_null(double value) { return isfinite(value) ? json_real(value) : json_null(); }

/* Runs whose record tells no such layer have none. */
static const char *batch_norm_of(const json_t *run) {
  const json_t *ops = json_object_get(run, "ops"), *row;
  bool is_whole = json_is_true(json_object_get(json_object_get(run, "config"), "sync-bn"));
  size_t i;
  const char *said = tool_string(json_object_get(run, "model"), "batch_norm"); /* other systems have other rules */
  if (*said) return said;
  json_array_foreach((json_t *)ops, i, row) {
    if (!strstr(tool_string(row, "op"), "batch_norm")) continue;
    return is_whole ? "statistics of the whole batch, unbiased running variance"
                    : "statistics of a worker's part, unbiased running variance";
  }
  return "none";
}

/* Those of its workers, each once. */
static json_t *hosts_of(const json_t *run) {
  json_t *hosts = json_array(), *row;
  const char *last = "";
  size_t i, k;
  json_array_foreach(json_object_get(run, "workers"), i, row) {
    const char *host = tool_string(row, "host");
    bool is_new = *host && strcmp(host, last) != 0 && strcmp(tool_string(row, "role"), "worker") == 0;
    for (k = 0; is_new && k < json_array_size(hosts); k++)
      is_new = strcmp(json_string_value(json_array_get(hosts, k)), host) != 0;
    if (is_new) json_array_append_new(hosts, json_string(host));
    last = host;
  }
  return hosts;
}

static const char *asked_threads(const json_t *command) {
  static const char option[] = "--threads=";
  for (size_t i = 0; i < json_array_size(command); i++) {
    const char *word = json_string_value(json_array_get(command, i));
    if (word && strncmp(word, option, sizeof option - 1) == 0) return word + sizeof option - 1;
  }
  return "auto";
}

static void copy(json_t *audit, const char *field, const json_t *from, const char *key) {
  json_t *value = json_object_get(from, key);
  json_object_set_new(audit, field, value ? json_incref(value) : json_null());
}

json_t *tool_audit_of_run(const json_t *run, const json_t *command, const char *clock, const double *losses,
                          int64_t n) {
  static const struct {
    const char *field, *section, *key;
  } others[] = {{"model", "model", "name"},
                {"parameters", "model", "parameters"},
                {"trained_parameters", "model", "trained_parameters"},
                {"forward_flops_per_example", "model", "forward_flops_per_example"},
                {"train_flops_per_example", "model", "train_flops_per_example"},
                {"padding", "model", "padding"},
                {"data_sha256", "data", "sha256"},
                {"data_examples", "data", "train_examples"},
                {"steps", "totals", "steps"},
                {"examples", "totals", "examples"},
                {"threads_per_worker", "world", "threads_per_worker"},
                {"simulated", "world", "simulated"},
                {"cores", "machine", "cores"},
                {"isa", "machine", "isa"}};
  const json_t *config = json_object_get(run, "config");
  json_t *audit = json_object();
  for (int i = 0; i < N_FIELDS; i++)
    if (json_object_get(config, fields[i].name)) copy(audit, fields[i].name, config, fields[i].name);
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    copy(audit, others[i].field, json_object_get(run, others[i].section), others[i].key);
  copy(audit, "version", run, "version");
  json_object_set_new(audit, "hosts", hosts_of(run));
  json_object_set_new(audit, "batch_norm", json_string(batch_norm_of(run)));
  json_object_set_new(audit, "threads", json_string(asked_threads(command)));
  json_object_set_new(audit, "clock", json_string(clock));
  json_object_set_new(audit, "warm_up", json_string("the first step is left out"));
  json_object_set_new(audit, "first_loss", real_or_null(n > 0 ? losses[0] : NAN));
  json_object_set_new(audit, "second_loss", real_or_null(n > 1 ? losses[1] : NAN));
  json_object_set_new(audit, "last_loss", real_or_null(n > 0 ? losses[n - 1] : NAN));
  return audit;
}

/* ---- differences ----------------------------------------------------------------------------------------------------- */

/* In most rounds others kept more than a tenth of the cores busy. */
static json_t *is_busy(const json_t *one) {
  double others = tool_number(json_object_get(one, "others_cores"), "median");
  double cores = tool_number(json_object_get(one, "audit"), "cores");
  return isfinite(others) && isfinite(cores) ? json_boolean(others > 0.1 * cores) : NULL;
}

static json_t *value_of(const json_t *one, const char *field) {
  if (strcmp(field, "host_is_busy") == 0) return is_busy(one);
  const json_t *audit = json_object_get(one, "audit");
  return json_object_get(json_is_object(audit) ? audit : one, field);
}

/* Those whose cases compute the same numbers, but for rounding. */
static bool keeps_numbers(const char *axis) {
  static const char *const keeping[] = {"exec",    "cache",     "threads", "transport",
                                        "overlap", "bucket-mb", "shard",   "system"};
  for (size_t i = 0; i < sizeof keeping / sizeof keeping[0]; i++)
    if (strcmp(axis, keeping[i]) == 0) return true;
  return false;
}

static bool may_differ(const audit_field *field, const json_t *axes) {
  const char *axis;
  json_t *values;
  char barred[64];
  json_object_foreach((json_t *)axes, axis, values) {
    snprintf(barred, sizeof barred, "|%s|", axis);
    if (strcmp(axis, field->name) == 0 || strstr(field->axes, barred)) return true;
    if (*field->axes == '*' && !keeps_numbers(axis)) return true;
  }
  return false;
}

/* So many threads as there are cores for each: their number follows from that of the workers. */
static bool is_automatic(const json_t *a, const json_t *b, const json_t *axes) {
  static const audit_field by_workers = {"", OF_WORKERS};
  const char *of_a = tool_string(json_object_get(a, "audit"), "threads");
  return strcmp(of_a, "auto") == 0 && strcmp(tool_string(json_object_get(b, "audit"), "threads"), "auto") == 0 &&
         may_differ(&by_workers, axes);
}

/* Losses agree but for rounding, which is another one in other systems and in bfloat16. */
static bool is_equal(const char *field, const json_t *a, const json_t *b) {
  const double LOSS_TOLERANCE = 1e-3;
  if (!json_is_number(a) || !json_is_number(b)) return json_equal(a, b);
  double x = json_number_value(a), y = json_number_value(b);
  size_t length = strlen(field);
  if (length > 5 && strcmp(field + length - 5, "_loss") == 0) return fabs(x - y) <= LOSS_TOLERANCE * fmax(1, fabs(x));
  return x == y;
}

static json_t *text_of(const json_t *value) {
  char *text = json_is_string(value) ? strdup(json_string_value(value))
                                     : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
  json_t *json = json_string(text ? text : "?");
  free(text);
  return json;
}

static json_t *difference_of(const audit_field *field, const json_t *first, const json_t *one, const json_t *a,
                             const json_t *b) {
  json_t *text_a = text_of(a), *text_b = text_of(b);
  json_t *difference =
      json_pack("{s:s, s:o}", "field", field->name, "text",
                json_sprintf("%s is %s with %s, %s with %s", field->name, json_string_value(text_a),
                             tool_string(first, "name"), json_string_value(text_b), tool_string(one, "name")));
  json_decref(text_a);
  json_decref(text_b);
  return difference;
}

json_t *tool_audit_differences(const json_t *cases, const json_t *axes) {
  json_t *differences = json_array(), *one;
  const json_t *first = json_array_get(cases, 0);
  size_t k;
  for (int i = 0; i < N_FIELDS; i++) {
    if (may_differ(&fields[i], axes)) continue;
    json_array_foreach((json_t *)cases, k, one) {
      const json_t *a = value_of(first, fields[i].name), *b = value_of(one, fields[i].name);
      if (!a || !b || is_equal(fields[i].name, a, b)) continue;
      if (strcmp(fields[i].name, "threads_per_worker") == 0 && is_automatic(first, one, axes)) continue;
      json_array_append_new(differences, difference_of(&fields[i], first, one, a, b));
      break;
    }
  }
  return differences;
}

json_t *tool_audit_table(const json_t *cases) {
  json_t *rows = json_array(), *one;
  size_t k;
  for (int i = 0; i < N_FIELDS; i++) {
    const json_t *value = NULL;
    bool differs = false;
    json_array_foreach((json_t *)cases, k, one) {
      const json_t *of_one = value_of(one, fields[i].name);
      if (value && of_one) differs |= !is_equal(fields[i].name, value, of_one);
      if (!value) value = of_one;
    }
    if (value)
      json_array_append_new(rows, json_pack("{s:s, s:o}", "field", fields[i].name, "value",
                                            differs ? json_string("(differs)") : text_of(value)));
  }
  return rows;
}

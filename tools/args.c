/* The words of the command line, read into a configuration. */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The flags of the command line itself: the library knows nothing of them. */
static const char *const own_flags[] = {"json", "quiet", "help", "verbose"};
enum { OWN_JSON, OWN_QUIET, OWN_HELP, OWN_VERBOSE, N_OWN_FLAGS };

typedef struct parser {
  const tool_verb *verb;
  tool_call *call;
  char **words;
  int n_words, at; /* at: the word being read */
  char *list;      /* of many words: the lines so far, */
  FILE *lines;     /* and what gathers them */
  size_t list_bytes;
  bool help;
} parser;

ronde_status tool_fail_word(const char *called, const char *word, const char *const *names, int n) {
  int nearest = ronde_nearest_word(word, names, n);
  char shown[TOOL_SHOWN], list[256] = "";
  for (int i = 0; i < n; i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", names[i]);
  }
  tool_shown(word, shown);
  if (nearest < 0) return tool_fail(RONDE_E_USAGE, "%s %s: unknown word; choose from %s", called, shown, list);
  return tool_fail(RONDE_E_USAGE, "%s %s: unknown word; the nearest is %s (of %s)", called, shown, names[nearest],
                   list);
}

static bool find_option(const tool_verb *verb, const char *name, ronde_option *option_out) {
  for (int i = 0; verb->has_config && ronde_config_option(verb->name, i, option_out); i++) {
    if (strcmp(option_out->name, name) == 0) return true;
  }
  return false;
}

/* Of a verb: the last one only where it has more to say. */
static int n_own_flags(const tool_verb *verb) { return verb->has_verbose ? N_OWN_FLAGS : OWN_VERBOSE; }

static int own_flag(const tool_verb *verb, const char *name) {
  for (int i = 0; i < n_own_flags(verb); i++) {
    if (strcmp(own_flags[i], name) == 0) return i;
  }
  return -1;
}

/* The library names the nearest of its options, or the verb that has this one; here the flags of our own compete. */
static ronde_status fail_unknown(const parser *p, const char *name) {
  enum { MOST = 256 };
  const char *names[MOST];
  int n = 0;
  ronde_option option;
  for (; n < n_own_flags(p->verb); n++) names[n] = own_flags[n];
  for (int i = 0; n < MOST && p->verb->has_config && ronde_config_option(p->verb->name, i, &option); i++)
    names[n++] = option.name;
  int nearest = ronde_nearest_word(name, names, n);
  if (nearest >= 0 && nearest < n_own_flags(p->verb))
    return tool_fail(RONDE_E_USAGE, "unknown option --%s; the nearest is --%s", name, names[nearest]);
  if (p->verb->has_config) return ronde_config_set(p->call->config, name, "");
  return tool_fail(RONDE_E_USAGE, "unknown option --%s; `ronde %s --help` lists them", name, p->verb->name);
}

/* The word behind the present one, where it is the value of a flag; flags may also stand alone. */
static const char *flag_value(parser *p) {
  if (p->at + 1 >= p->n_words) return NULL;
  const char *next = p->words[p->at + 1];
  bool is_list = p->verb->has_axes && (strcmp(next, "on,off") == 0 || strcmp(next, "off,on") == 0);
  if (strcmp(next, "on") != 0 && strcmp(next, "off") != 0 && !is_list) return NULL;
  p->at++;
  return next;
}

static ronde_status read_format(parser *p, const char *value) {
  static const char *const formats[] = {"text", "json", "jsonl", "csv"};
  if (!value && p->at + 1 < p->n_words) value = p->words[++p->at];
  for (size_t i = 0; value && i < sizeof formats / sizeof *formats; i++) {
    if (strcmp(value, formats[i]) != 0) continue;
    p->call->format = (tool_format)i;
    p->call->json = p->call->format == TOOL_JSON;
    return RONDE_OK;
  }
  char shown[TOOL_SHOWN];
  return tool_fail(RONDE_E_USAGE, "--format: '%s' is not text, json, jsonl or csv",
                   tool_shown(value ? value : "", shown));
}

static ronde_status read_own_flag(parser *p, int flag, const char *value) {
  if (!value) value = flag_value(p);
  bool on = !value || strcmp(value, "on") == 0;
  if (!on && strcmp(value, "off") != 0) {
    char shown[TOOL_SHOWN];
    return tool_fail(RONDE_E_USAGE, "--%s: '%s' is not on or off", own_flags[flag], tool_shown(value, shown));
  }
  if (flag == OWN_JSON) p->call->json = on;
  if (flag == OWN_JSON) p->call->format = on ? TOOL_JSON : TOOL_TEXT;
  if (flag == OWN_QUIET) p->call->quiet = on;
  if (flag == OWN_VERBOSE) p->call->verbose = on;
  if (flag == OWN_HELP) p->help = on;
  return RONDE_OK;
}

/* Whether the option takes the text as it is, without a word about it where it does not. */
static bool is_accepted(parser *p, const char *name, const char *text) {
  ronde_log_set(NULL, NULL);
  ronde_status status = ronde_config_set(p->call->config, name, text);
  tool_log_start();
  return status == RONDE_OK;
}

const tool_axis *tool_axis_of(const tool_call *call, const char *option) {
  for (int i = 0; i < call->n_axes; i++)
    if (strcmp(call->axes[i].name, option) == 0) return &call->axes[i];
  return NULL;
}

static ronde_status add_axis(parser *p, const ronde_option *option, const char *list) {
  tool_call *call = p->call;
  if (call->n_axes == TOOL_MAX_AXES)
    return tool_fail(RONDE_E_USAGE, "--%s: at most %d options can have a list of values", option->name, TOOL_MAX_AXES);
  if (tool_axis_of(call, option->name))
    return tool_fail(RONDE_E_USAGE, "--%s has a list of values already", option->name);
  tool_axis *axis = &call->axes[call->n_axes++];
  *axis = (tool_axis){.name = option->name, .text = strdup(list)};
  if (!axis->text) return tool_fail(RONDE_E_MEMORY, "--%s: no memory", option->name);
  for (char *rest = axis->text, *value; (value = strsep(&rest, ","));) {
    if (axis->n_values == TOOL_MAX_VALUES)
      return tool_fail(RONDE_E_USAGE, "--%s: a list can have at most %d values", option->name, TOOL_MAX_VALUES);
    axis->values[axis->n_values++] = value;
    ronde_status status = ronde_config_set(call->config, option->name, value);
    if (status) return status;
  }
  return RONDE_OK;
}

static ronde_status set_option(parser *p, const ronde_option *option, const char *value) {
  bool is_list = p->verb->has_axes && strchr(value, ',') && !is_accepted(p, option->name, value);
  return is_list ? add_axis(p, option, value) : ronde_config_set(p->call->config, option->name, value);
}

static ronde_status read_valued(parser *p, const ronde_option *option, const char *value) {
  if (!value) {
    if (p->at + 1 >= p->n_words)
      return tool_fail(RONDE_E_USAGE, "--%s needs a value: %s", option->name, option->value_name);
    value = p->words[++p->at];
    if (strncmp(value, "--", 2) == 0) {
      char shown[TOOL_SHOWN];
      return tool_fail(RONDE_E_USAGE, "--%s needs a value (%s), but %s follows it", option->name, option->value_name,
                       tool_shown(value, shown));
    }
  }
  return set_option(p, option, value);
}

/* Whether "off" is among the values that it takes: "auto|on|off". */
static bool has_off(const ronde_option *option) {
  const char *off = strstr(option->value_name, "off");
  return off && (off == option->value_name || off[-1] == '|') && (!off[3] || off[3] == '|');
}

/* A word with dashes, without them. */
static ronde_status read_option(parser *p, const char *text) {
  char name[80];
  const char *equals = strchr(text, '='), *value = equals ? equals + 1 : NULL;
  snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - text : (long)strlen(text)), text);
  int own = own_flag(p->verb, name);
  if (own >= 0) return read_own_flag(p, own, value);
  if (p->verb->has_formats && strcmp(name, "format") == 0) return read_format(p, value);
  ronde_option option;
  if (find_option(p->verb, name, &option)) {
    if (option.value_name) return read_valued(p, &option, value);
    if (!value) value = flag_value(p);
    return set_option(p, &option, value ? value : "on");
  }
  if (strncmp(name, "no-", 3) != 0 || !find_option(p->verb, name + 3, &option)) return fail_unknown(p, name);
  if (option.value_name && !has_off(&option))
    return tool_fail(RONDE_E_USAGE, "--%s: --%s takes a value and cannot be negated", name, name + 3);
  if (value) return tool_fail(RONDE_E_USAGE, "--%s takes no value", name);
  return ronde_config_set(p->call->config, name + 3, "off");
}

/* A further word of the last option. */
static ronde_status add_line(parser *p, const char *word) {
  const char *option = p->verb->word_options[p->verb->max_words - 1];
  if (!p->lines && (p->lines = open_memstream(&p->list, &p->list_bytes)))
    fputs(ronde_config_get(p->call->config, option), p->lines);
  if (!p->lines || fprintf(p->lines, "\n%s", word) < 0) return tool_fail(RONDE_E_MEMORY, "%s: no memory", word);
  return RONDE_OK;
}

static ronde_status set_lines(parser *p) {
  bool whole = fclose(p->lines) == 0;
  ronde_status status = whole
                            ? ronde_config_set(p->call->config, p->verb->word_options[p->verb->max_words - 1], p->list)
                            : tool_fail(RONDE_E_MEMORY, "no memory for the words of the command line");
  free(p->list);
  p->lines = NULL;
  return status;
}

static ronde_status read_word(parser *p, const char *word) {
  int n = p->call->n_words;
  if (n >= p->verb->max_words && p->verb->many_words) return add_line(p, word);
  if (n >= p->verb->max_words) {
    const char *words = p->verb->words;
    char shown[TOOL_SHOWN];
    return tool_fail(RONDE_E_USAGE, "unexpected word '%s': ronde %s%s%s", tool_shown(word, shown), p->verb->name,
                     *words ? " " : "", words);
  }
  p->call->words[p->call->n_words++] = word;
  const char *option = p->verb->word_options[n];
  return option ? ronde_config_set(p->call->config, option, word) : RONDE_OK;
}

static ronde_status read_all(parser *p) {
  bool only_words = false;
  for (p->at = 0; p->at < p->n_words; p->at++) {
    const char *word = p->words[p->at];
    ronde_status status;
    if (only_words || word[0] != '-' || !word[1]) {
      status = read_word(p, word);
    } else if (strcmp(word, "--") == 0) {
      only_words = true;
      continue;
    } else if (strcmp(word, "-h") == 0) {
      status = read_option(p, "help");
    } else if (strcmp(word, "-v") == 0 && p->verb->has_verbose) {
      status = read_option(p, "verbose");
    } else if (strcmp(word, "-o") == 0) {
      status = read_option(p, "output");
    } else if (strncmp(word, "--", 2) == 0) {
      status = read_option(p, word + 2);
    } else {
      char shown[TOOL_SHOWN];
      return tool_fail(RONDE_E_USAGE, "unknown option %s: options begin with two dashes", tool_shown(word, shown));
    }
    if (status || p->help) return status;
  }
  return RONDE_OK;
}

/* Of an option that makes lists of others; "" where the verb has none. */
static const char *list_of(const parser *p, const char *name) {
  const char *list = p->verb->has_axes ? ronde_config_get(p->call->config, name) : NULL;
  return list ? list : "";
}

static ronde_status expand_strategies(parser *p) {
  const char *list = list_of(p, "strategies");
  ronde_option option;
  return *list && find_option(p->verb, "strategy", &option) ? add_axis(p, &option, list) : RONDE_OK;
}

/* The list, ascending from one worker. */
static ronde_status check_scaling(const char *list, int64_t *most_out) {
  char *end, shown[TOOL_SHOWN];
  int64_t before = 0;
  for (const char *at = list;; at = end + 1) {
    int64_t n = strtoll(at, &end, 10);
    if (end == at || (*end && *end != ',') || n <= before || (before == 0 && n != 1))
      return tool_fail(RONDE_E_USAGE, "--scaling %s: not ascending numbers of workers that begin with 1, such as 1,2,4",
                       tool_shown(list, shown));
    before = n;
    if (!*end) break;
  }
  *most_out = before;
  return before > 1 ? RONDE_OK : tool_fail(RONDE_E_USAGE, "--scaling 1: one worker has nothing to be compared with");
}

/* Cases of so many workers, at the same batch and at the same batch of each. Without --threads each worker has as many
 * as it has among the most. */
static ronde_status expand_scaling(parser *p) {
  tool_call *call = p->call;
  const char *list = list_of(p, "scaling");
  ronde_option workers, scaling;
  int64_t most = 0;
  if (!*list) return RONDE_OK;
  ronde_status status = check_scaling(list, &most);
  if (status) return status;
  if (strcmp(ronde_config_get(call->config, "local-batch"), "0") ||
      strcmp(ronde_config_get(call->config, "workers"), "1"))
    return tool_fail(RONDE_E_USAGE,
                     "--scaling says how many workers there are, and --batch is that of one: --workers and "
                     "--local-batch can have no effect beside it");
  call->scaling.batch = strtoll(ronde_config_get(call->config, "batch"), NULL, 10);
  snprintf(call->scaling.strategy, sizeof call->scaling.strategy, "%s", ronde_config_get(call->config, "strategy"));
  if (!find_option(p->verb, "workers", &workers) || !find_option(p->verb, "scaling", &scaling)) return RONDE_E_INTERNAL;
  if (strcmp(ronde_config_get(call->config, "threads"), "0") == 0) {
    int64_t each = ronde_host_load_since(NULL).cores / most;
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)(each > 1 ? each : 1));
    status = ronde_config_set(call->config, "threads", text);
  }
  if (!status) status = add_axis(p, &workers, list);
  return status ? status : add_axis(p, &scaling, "strong,weak");
}

/* An ONNX file has weights of its own. */
static bool has_weights(const parser *p) {
  const char *model = ronde_config_get(p->call->config, "model"), *end = model ? strrchr(model, '.') : NULL;
  return end && strcmp(end, ".onnx") == 0;
}

static ronde_status require_words(const parser *p) {
  for (int i = 0; i < p->verb->max_words && p->verb->word_options[i]; i++) {
    const char *name = p->verb->word_options[i], *value = ronde_config_get(p->call->config, name);
    if ((value && *value) || (strcmp(name, "init") == 0 && has_weights(p))) continue;
    if (strcmp(name, "input") == 0 && ronde_config_is_given(p->call->config, "prompt")) continue; /* a text goes on */
    return tool_fail(RONDE_E_USAGE, "a file is missing: ronde %s %s", p->verb->name, p->verb->words);
  }
  return RONDE_OK;
}

ronde_status tool_parse(const tool_verb *verb, int argc, char **argv, tool_call *call_out, bool *help_out) {
  tool_call call = {.verb = verb->name};
  parser p = {.verb = verb, .call = &call, .words = argv, .n_words = argc};
  ronde_status status = verb->has_config ? ronde_config_create(verb->name, &call.config) : RONDE_OK;
  if (call.config && (getenv(TOOL_RESTARTS) || getenv(TOOL_PREPARED))) ronde_config_allow_idle(call.config);
  if (!status) status = read_all(&p);
  if (p.lines) {
    ronde_status set = set_lines(&p);
    if (!status) status = set;
  }
  if (!status && call.quiet && call.verbose)
    status = tool_fail(RONDE_E_USAGE, "--quiet and --verbose contradict each other: take one of them");
  if (call.quiet) tool_log_quiet();
  if (!status && !p.help && verb->has_config) {
    tool_log_warnings(!tool_is_follower()); /* one process of a run says what all would */
    if (!tool_is_ours()) status = ronde_config_set_environment(call.config);
    tool_log_warnings(true);
    if (!status) status = expand_strategies(&p);
    if (!status) status = expand_scaling(&p);
    if (!status) status = require_words(&p);
  }
  if (status) {
    tool_call_end(&call);
    return status;
  }
  *call_out = call;
  *help_out = p.help;
  return RONDE_OK;
}

void tool_call_end(tool_call *call) {
  for (int i = 0; i < call->n_axes; i++) free(call->axes[i].text);
  ronde_config_destroy(call->config);
}

double tool_seconds(const tool_call *call, const char *option) {
  const char *value = ronde_config_get(call->config, option);
  return value ? strtod(value, NULL) : 0;
}

bool tool_is_listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; *at; at += strcspn(at, ","), at += strspn(at, ", "))
    if (strcspn(at, ",") == length && !strncmp(at, name, length)) return true;
  return false;
}

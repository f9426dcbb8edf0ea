/* `ronde manual man|bash|zsh|fish`: the manual page, and completions for shells, from the tables of verbs and options.
 * `make install` installs what this prints. Sources: man-pages(7), man(7); bash(1), Programmable Completion;
 * zshcompsys(1), _arguments; fish, complete. */
#include "common.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What can stand behind an option: one of several words, a path, or any text. */
typedef enum value_kind { VALUE_NONE, VALUE_WORDS, VALUE_FOLDER, VALUE_FILE, VALUE_MODEL, VALUE_TEXT } value_kind;

static value_kind kind_of(const ronde_option *option) {
  const char *value = option->value_name;
  if (!value) return VALUE_NONE;
  if (strcmp(option->name, "model") == 0) return VALUE_MODEL;
  if (strchr(value, '|')) return VALUE_WORDS;
  if (strstr(value, "DIR") == value) return VALUE_FOLDER;
  return strstr(value, "FILE") == value ? VALUE_FILE : VALUE_TEXT;
}

/* The i-th option of a verb, with those of the command line; false past the end. */
static bool option_at(const tool_verb *verb, int i, ronde_option *option_out) {
  int n = 0;
  if (verb->has_config) {
    while (n <= i && ronde_config_option(verb->name, n, option_out)) n++;
    if (n > i) return true;
  }
  const tool_general *general = tool_general_at(verb, i - n);
  if (general) *option_out = general->option;
  return general;
}

static void each_verb(FILE *out, const tool_verb *verbs, void (*print)(FILE *out, const tool_verb *verb)) {
  const tool_verb *part;
  for (const tool_verb *verb = verbs; verb->name; verb++)
    if (!verb->part) print(out, verb);
    else
      for (int j = 0; (part = verb->part(j)); j++) print(out, part);
}

/* "a|b|c" with blanks. */
static void put_words(FILE *out, const char *words) {
  for (; *words; words++) fputc(*words == '|' ? ' ' : *words, out);
}

/* What can stand behind a verb, where that is one of several words. */
static void put_behind(FILE *out, const tool_verb *verb) {
  const tool_verb *part;
  if (verb->actions) put_words(out, verb->actions);
  for (int i = 0; verb->part && (part = verb->part(i)); i++)
    fprintf(out, "%s%s", i ? " " : "", part->name + strlen(verb->name) + 1);
}

static void put_models(FILE *out) {
  char *text = NULL;
  if (ronde_models(NULL, &text) != RONDE_OK) return;
  json_t *models = json_loads(text, 0, NULL), *model;
  size_t i;
  json_array_foreach(json_object_get(models, "models"), i, model)
      fprintf(out, "%s%s", i ? " " : "", tool_string(model, "name"));
  json_decref(models);
  free(text);
}

/* ---- man --------------------------------------------------------------------------------------------------------- */

/* A backslash and a dash mean themselves, and so do a dot and a quote at the beginning of a line. */
static void put_roff(FILE *out, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text; text++)
    if (*text == '\\') fputs("\\e", out);
    else if (*text == '-') fputs("\\-", out);
    else fputc(*text, out);
}

static void man_option(FILE *out, const ronde_option *option) {
  fprintf(out, ".TP\n.BR ");
  put_roff(out, option->value_name || !option->group ? "--" : "--[no-]");
  put_roff(out, option->name);
  if (option->value_name) {
    fprintf(out, " \" \\fI");
    put_roff(out, option->value_name);
    fprintf(out, "\\fR\"");
  }
  fputc('\n', out);
  put_roff(out, option->help);
  if (option->default_text) {
    fprintf(out, " [");
    put_roff(out, option->default_text);
    fputc(']', out);
  }
  fputc('\n', out);
}

static void man_verb(FILE *out, const tool_verb *verb) {
  ronde_option option;
  const char *group = "";
  fprintf(out, ".SS ");
  put_roff(out, verb->name);
  fprintf(out, " %s\n", verb->words);
  put_roff(out, verb->about);
  fprintf(out, ".\n.PP\n.RS\n");
  put_roff(out, verb->example);
  fprintf(out, "\n.RE\n");
  for (int i = 0; verb->has_config && ronde_config_option(verb->name, i, &option); i++) {
    if (strcmp(group, option.group)) fprintf(out, ".PP\n.I %c%s\n", toupper(option.group[0]), option.group + 1);
    group = option.group;
    man_option(out, &option);
  }
  for (int i = 0; tool_general_at(verb, i); i++)
    if (tool_general_at(verb, i)->is_for) man_option(out, &tool_general_at(verb, i)->option);
}

static void man_names(FILE *out, const tool_verb *verb) {
  fprintf(out, ".TP\n.B ");
  put_roff(out, verb->name);
  fputc('\n', out);
  put_roff(out, verb->about);
  fprintf(out, ".\n");
}

static void print_man(FILE *out, const tool_verb *verbs) {
  fprintf(out,
          ".TH RONDE 1 \"\" \"Ronde %s\" \"User Commands\"\n"
          ".SH NAME\nronde \\- train neural networks on CPUs, on one machine or on several\n"
          ".SH SYNOPSIS\n.B ronde\n.I VERB\n[\\fIOPTIONS\\fR]\n"
          ".SH DESCRIPTION\nRonde trains neural networks on CPUs without a GPU and without Python. Workers share the\n"
          "training by one of several strategies, and each run ends with a record of where its time went.\n"
          ".PP\nDefaults are in brackets. On/off options may be followed by on or off.\n",
          ronde_version());
  each_verb(out, verbs, man_names);
  fprintf(out, ".SH OPTIONS OF EVERY VERB\n");
  for (int i = 0; tool_general_at(NULL, i); i++) man_option(out, &tool_general_at(NULL, i)->option);
  fprintf(out, ".SH VERBS AND THEIR OPTIONS\n");
  each_verb(out, verbs, man_verb);
  fprintf(out,
          ".SH ENVIRONMENT\nEvery option except \\-\\-data can also be set there: RONDE_VAL_SPLIT for\n"
          "\\-\\-val\\-split. An option on the command line counts before its variable. Also read:\n");
  const char *variable;
  for (int i = 0; (variable = ronde_config_variable(i)); i++) fprintf(out, "%s%s", i ? ", " : "", variable);
  fprintf(out, ".\n.SH EXIT STATUS\n");
  for (int i = 0; tool_exit_code(i); i++)
    fprintf(out, ".TP\n.B %.*s\n%s\n", (int)strcspn(tool_exit_code(i), " "), tool_exit_code(i),
            strchr(tool_exit_code(i), ' ') + 1);
}

/* ---- bash -------------------------------------------------------------------------------------------------------- */

static void bash_options(FILE *out, const tool_verb *verb) {
  ronde_option option;
  fprintf(out, "    '%s') options='", verb->name);
  for (int i = 0; option_at(verb, i, &option); i++) {
    fprintf(out, "%s--%s", i ? " " : "", option.name);
    if (!option.value_name && option.group) fprintf(out, " --no-%s", option.name);
  }
  fprintf(out, "' ;;\n");
}

static void bash_values(FILE *out, const tool_verb *verb) {
  ronde_option option;
  for (int i = 0; option_at(verb, i, &option); i++) {
    value_kind kind = kind_of(&option);
    if (kind == VALUE_NONE) continue;
    fprintf(out, "    '%s --%s') ", verb->name, option.name);
    if (kind == VALUE_WORDS || kind == VALUE_MODEL) fprintf(out, "words='");
    if (kind == VALUE_WORDS) put_words(out, option.value_name);
    if (kind == VALUE_MODEL) put_models(out);
    if (kind == VALUE_WORDS || kind == VALUE_MODEL) fputc('\'', out);
    if (kind == VALUE_FOLDER) fprintf(out, "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$word\"))");
    if (kind == VALUE_FILE) fprintf(out, "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\"))");
    if (kind == VALUE_TEXT) fprintf(out, "return");
    fprintf(out, " ;;\n");
  }
}

/* The verbs, and the words behind those that have such. */
static void bash_words(FILE *out, const tool_verb *verbs) {
  fprintf(out, "  case $verb in\n    '') words='");
  for (const tool_verb *verb = verbs; verb->name; verb++) fprintf(out, "%s ", verb->name);
  fprintf(out, "help' ;;\n");
  for (const tool_verb *verb = verbs; verb->name; verb++) {
    if (!verb->part && !verb->actions) continue;
    fprintf(out, "    %s) words='", verb->name);
    put_behind(out, verb);
    fprintf(out, "' ;;\n");
  }
  fprintf(out, "  esac\n");
}

static void print_bash(FILE *out, const tool_verb *verbs) {
  fprintf(out,
          "# bash completion for ronde; written by `ronde manual bash`.\n_ronde() {\n"
          "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb= options= words=\n"
          "  ((COMP_CWORD > 1)) && verb=${COMP_WORDS[1]}\n"
          "  [[ $verb == bench ]] && ((COMP_CWORD > 2)) && verb+=\" ${COMP_WORDS[2]}\"\n"
          "  case \"$verb $before\" in\n");
  each_verb(out, verbs, bash_values);
  fprintf(out,
          "  esac\n  if [[ $words ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); return; fi\n"
          "  ((${#COMPREPLY[@]})) && return\n  case $verb in\n");
  each_verb(out, verbs, bash_options);
  fprintf(out,
          "  esac\n"
          "  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); return; fi\n");
  bash_words(out, verbs);
  fprintf(out,
          "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "  [[ $verb ]] && compopt -o filenames && COMPREPLY+=($(compgen -f -- \"$word\"))\n}\n"
          "complete -F _ronde ronde\n");
}

/* ---- zsh --------------------------------------------------------------------------------------------------------- */

/* Within '...[...]': what ends them is left out or turned. */
static void put_quoted(FILE *out, const char *text, const char *special) {
  for (; *text; text++)
    if (*text == '\'') fputs("'\\''", out);
    else if (strchr(special, *text)) fprintf(out, "\\%c", *text);
    else fputc(*text, out);
}

static void zsh_verb(FILE *out, const tool_verb *verb) {
  ronde_option option;
  fprintf(out, "    '%s') _arguments", verb->name);
  for (int i = 0; option_at(verb, i, &option); i++) {
    value_kind kind = kind_of(&option);
    fprintf(out, " \\\n      '--%s[", option.name);
    put_quoted(out, option.help, "[]:\\");
    fputc(']', out);
    if (kind != VALUE_NONE) fprintf(out, ":%s:", option.name);
    if (kind == VALUE_WORDS || kind == VALUE_MODEL) fputc('(', out);
    if (kind == VALUE_WORDS) put_words(out, option.value_name);
    if (kind == VALUE_MODEL) put_models(out);
    if (kind == VALUE_WORDS || kind == VALUE_MODEL) fputc(')', out);
    if (kind == VALUE_FOLDER) fprintf(out, "_files -/");
    if (kind == VALUE_FILE) fprintf(out, "_files");
    fputc('\'', out);
  }
  fprintf(out, " \\\n      '*:file:_files' ;;\n");
}

static void print_zsh(FILE *out, const tool_verb *verbs) {
  fprintf(out,
          "#compdef ronde\n# zsh completion for ronde; written by `ronde manual zsh`.\n_ronde() {\n"
          "  local verb=$words[2]\n  if ((CURRENT == 2)); then\n    local -a verbs=(");
  for (const tool_verb *verb = verbs; verb->name; verb++) {
    fprintf(out, "\n      '%s:", verb->name);
    put_quoted(out, verb->about, ":\\");
    fputc('\'', out);
  }
  fprintf(out, ")\n    _describe verb verbs\n    return\n  fi\n");
  for (const tool_verb *verb = verbs; verb->name; verb++) {
    if (!verb->part && !verb->actions) continue;
    fprintf(out, "  if [[ $verb == %s ]] && ((CURRENT == 3)); then compadd ", verb->name);
    put_behind(out, verb);
    fprintf(out, "; return; fi\n");
  }
  fprintf(out, "  [[ $verb == bench ]] && verb+=\" $words[3]\"\n  case $verb in\n");
  each_verb(out, verbs, zsh_verb);
  fprintf(out, "  esac\n}\n_ronde \"$@\"\n");
}

/* ---- fish -------------------------------------------------------------------------------------------------------- */

static void fish_verb(FILE *out, const tool_verb *verb) {
  ronde_option option;
  const char *suite = strchr(verb->name, ' ');
  for (int i = 0; option_at(verb, i, &option); i++) {
    value_kind kind = kind_of(&option);
    fprintf(out, "complete -c ronde -n '__fish_seen_subcommand_from %s' -l %s -d '", suite ? suite + 1 : verb->name,
            option.name);
    put_quoted(out, option.help, "");
    fputc('\'', out);
    if (kind == VALUE_WORDS || kind == VALUE_MODEL || kind == VALUE_TEXT) fprintf(out, " -x");
    if (kind == VALUE_FOLDER || kind == VALUE_FILE) fprintf(out, " -r -F");
    if (kind == VALUE_WORDS || kind == VALUE_MODEL) fprintf(out, " -a '");
    if (kind == VALUE_WORDS) put_words(out, option.value_name);
    if (kind == VALUE_MODEL) put_models(out);
    if (kind == VALUE_WORDS || kind == VALUE_MODEL) fputc('\'', out);
    fputc('\n', out);
  }
}

static void print_fish(FILE *out, const tool_verb *verbs) {
  fprintf(out, "# fish completion for ronde; written by `ronde manual fish`.\n");
  for (const tool_verb *verb = verbs; verb->name; verb++) {
    fprintf(out, "complete -c ronde -f -n '__fish_use_subcommand' -a %s -d '", verb->name);
    put_quoted(out, verb->about, "");
    fprintf(out, "'\n");
    if (!verb->part && !verb->actions) continue;
    fprintf(out, "complete -c ronde -f -n '__fish_seen_subcommand_from %s' -a '", verb->name);
    put_behind(out, verb);
    fprintf(out, "'\n");
  }
  each_verb(out, verbs, fish_verb);
}

/* ---- the verb ---------------------------------------------------------------------------------------------------- */

ronde_status tool_manual(const tool_call *call) {
  static const struct {
    const char *name;
    void (*print)(FILE *out, const tool_verb *verbs);
  } forms[] = {{"man", print_man}, {"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
  enum { N = sizeof forms / sizeof forms[0] };
  const char *names[N];
  for (int i = 0; i < N; i++) {
    names[i] = forms[i].name;
    if (call->n_words && strcmp(call->words[0], names[i]) == 0) {
      forms[i].print(stdout, call->verbs);
      return RONDE_OK;
    }
  }
  if (call->n_words) return tool_fail_word("ronde manual", call->words[0], names, N);
  return tool_fail(RONDE_E_USAGE, "a word is missing: ronde manual man, bash, zsh or fish");
}

/* `ronde --help`: the verbs, and the options of each, from the tables. */
#include "common.h"

#include <stdio.h>
#include <string.h>

#define INDENT 30

static const char *const exit_codes[] = {"0 done",
                                         "1 internal error",
                                         "2 wrong usage",
                                         "3 bad input",
                                         "4 a worker was lost",
                                         "5 NaN or Inf in the numbers",
                                         "6 cannot write, or out of memory",
                                         "7 a check found a difference",
                                         "130 interrupted by Ctrl-C",
                                         "143 interrupted by SIGTERM"};
enum { N_EXIT_CODES = sizeof exit_codes / sizeof exit_codes[0] };

const char *tool_exit_code(int i) { return i < N_EXIT_CODES ? exit_codes[i] : NULL; }

void tool_help(FILE *file, const tool_verb *verbs) {
  fprintf(file, "Ronde %s trains neural networks on CPUs.\n\n", ronde_version());
  fprintf(file, "  ronde VERB [OPTIONS]\n\nVerbs\n");
  for (const tool_verb *verb = verbs; verb->name; verb++) {
    char left[80];
    snprintf(left, sizeof left, "%s %s", verb->name, verb->words);
    fprintf(file, "  %-22s %s\n", left, verb->about);
  }
  fprintf(file, "\n`ronde VERB --help` lists the options of a verb. A first run:\n\n");
  fprintf(file, "  ronde train --model lenet5 --data fashion-mnist --workers 2 --epochs 5\n\n");
  fprintf(file, "Exit codes\n");
  for (int i = 0; i < N_EXIT_CODES; i++) {
    int digits = (int)strcspn(exit_codes[i], " ");
    fprintf(file, "  %3.*s %s\n", digits, exit_codes[i], exit_codes[i] + digits + 1);
  }
}

void tool_help_parts(FILE *file, const tool_verb *verb) {
  fprintf(file, "ronde %s %s [OPTIONS]\n\n%s.\n\n", verb->name, verb->words, verb->about);
  for (int i = 0; verb->part(i); i++) fprintf(file, "  %-22s %s\n", verb->part(i)->name, verb->part(i)->about);
  fprintf(file, "\n`ronde %s %s --help` lists the options.\n", verb->name, verb->words);
}

static void print_option(FILE *file, const ronde_option *option) {
  char left[160];
  snprintf(left, sizeof left, "%s%s%s%s", option->value_name ? "--" : "--[no-]", option->name,
           option->value_name ? " " : "", option->value_name ? option->value_name : "");
  if (strlen(left) > INDENT - 4) {
    fprintf(file, "  %s\n%*s", left, INDENT, "");
  } else {
    fprintf(file, "  %-*s", INDENT - 2, left);
  }
  fputs(option->help, file);
  if (option->default_text) fprintf(file, " [%s]", option->default_text);
  fputc('\n', file);
}

static void print_options(FILE *file, const tool_verb *verb) {
  const char *group = "";
  ronde_option option;
  for (int i = 0; ronde_config_option(verb->name, i, &option); i++) {
    if (strcmp(group, option.group) != 0) {
      group = option.group;
      fprintf(file, "\n%c%s\n", group[0] - 'a' + 'A', group + 1);
    }
    print_option(file, &option);
  }
}

static bool has_formats(const tool_verb *verb) { return verb->has_formats; }
static bool has_verbose(const tool_verb *verb) { return verb->has_verbose; }

static const tool_general general_options[] = {
    {"--format text|json|jsonl|csv",
     {.name = "format",
      .value_name = "text|json|jsonl|csv",
      .help = "how results are printed on standard output",
      .default_text = "text"},
     has_formats},
    {"--json", {.name = "json", .help = "print the result as JSON on standard output"}, NULL},
    {"-v, --verbose",
     {.name = "verbose", .help = "also print the tables of phases, workers and operators"},
     has_verbose},
    {"--quiet", {.name = "quiet", .help = "print errors only"}, NULL},
    {"--help", {.name = "help", .help = "print this text"}, NULL},
};

const tool_general *tool_general_at(const tool_verb *verb, int i) {
  const tool_general *end = general_options + sizeof general_options / sizeof general_options[0];
  for (const tool_general *one = general_options; one < end; one++)
    if (!one->is_for || (verb && one->is_for(verb)))
      if (i-- == 0) return one;
  return NULL;
}

void tool_help_verb(FILE *file, const tool_verb *verb) {
  fprintf(file, "ronde %s %s%s[OPTIONS]\n\n%s.\n\n  %s\n", verb->name, verb->words, *verb->words ? " " : "",
          verb->about, verb->example);
  if (verb->has_config) {
    fprintf(
        file,
        "\nDefaults are in brackets. On/off options may be followed by on or off. Every option except --data can\n");
    fprintf(
        file,
        "also be set in the environment: RONDE_VAL_SPLIT for --val-split. RONDE_DATA is the folder of data sets.\n");
    print_options(file, verb);
  }
  fprintf(file, "\nGeneral\n");
  for (int i = 0; tool_general_at(verb, i); i++) {
    const tool_general *general = tool_general_at(verb, i);
    const char *value = general->option.default_text;
    fprintf(file, "  %-26s  %s%s%s%s\n", general->shown, general->option.help, value ? " [" : "", value ? value : "",
            value ? "]" : "");
  }
}

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
  if (verb->has_formats)
    fprintf(file, "  --format text|json|jsonl|csv  how results are printed on standard output [text]\n");
  fprintf(file, "  --json                      print the result as JSON on standard output\n");
  if (verb->has_verbose)
    fprintf(file, "  -v, --verbose               also print the tables of phases, workers and operators\n");
  fprintf(file, "  --quiet                     print errors only\n");
  fprintf(file, "  --help                      print this text\n");
}

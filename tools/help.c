/* `ronde --help`: the verbs, and the options of each, from the tables. */
#include "common.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 30, VERBS_INDENT = 25, HELP_COLUMNS = 80 };

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

/* A text whose first line begins in column `at`, its further ones below `indent`; each ends before HELP_COLUMNS, at a blank. */
static void print_wrapped(FILE *file, int at, int indent, const char *text) {
  while (*text) {
    size_t n = strcspn(text, " ");
    bool begins = at <= indent;
    if (!begins && at + 1 + (int)n > HELP_COLUMNS) {
      fprintf(file, "\n%*s", indent, "");
      at = indent;
      begins = true;
    }
    at += fprintf(file, "%s%.*s", begins ? "" : " ", (int)n, text);
    text += n;
    text += strspn(text, " ");
  }
  fputc('\n', file);
}

/* In lines that end before HELP_COLUMNS, each behind a "|" of a choice. */
static void print_left(FILE *file, const char *left) {
  size_t room = HELP_COLUMNS - 2, n;
  for (; (n = strlen(left)) > room; left += n, room = HELP_COLUMNS - 6) {
    for (n = room; n > 0 && left[n - 1] != '|';) n--;
    if (n == 0) break;
    fprintf(file, "%.*s\n      ", (int)n, left);
  }
  fputs(left, file);
}

/* "  LEFT", then the text from column `indent` on, on a line of its own where LEFT is long. */
static void print_item(FILE *file, const char *left, int indent, const char *text) {
  int blanks = indent - 2 - (int)strlen(left);
  fputs("  ", file);
  print_left(file, left);
  if (blanks > 0) fprintf(file, "%*s", blanks, "");
  else fprintf(file, "\n%*s", indent, "");
  print_wrapped(file, indent, indent, text);
}

void tool_help(FILE *file, const tool_verb *verbs) {
  fprintf(file, "Ronde %s trains neural networks on CPUs.\n\n", ronde_version());
  fprintf(file, "  ronde VERB [OPTIONS]\n\nVerbs\n");
  for (const tool_verb *verb = verbs; verb->name; verb++) {
    char left[80];
    snprintf(left, sizeof left, "%s %s", verb->name, verb->words);
    print_item(file, left, VERBS_INDENT, verb->about);
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
  for (int i = 0; verb->part(i); i++) print_item(file, verb->part(i)->name, VERBS_INDENT, verb->part(i)->about);
  fprintf(file, "\n`ronde %s %s --help` lists the options.\n", verb->name, verb->words);
}

static void print_option(FILE *file, const char *left, const ronde_option *option) {
  const char *value = option->default_text;
  char text[512];
  snprintf(text, sizeof text, "%s%s%s%s", option->help, value ? " [" : "", value ? value : "", value ? "]" : "");
  print_item(file, left, INDENT, text);
}

static void print_config_option(FILE *file, const ronde_option *option) {
  char left[160];
  snprintf(left, sizeof left, "%s%s%s%s", option->value_name ? "--" : "--[no-]", option->name,
           option->value_name ? " " : "", option->value_name ? option->value_name : "");
  print_option(file, left, option);
}

static void print_options(FILE *file, const tool_verb *verb) {
  const char *group = "";
  ronde_option option;
  for (int i = 0; ronde_config_option(verb->name, i, &option); i++) {
    if (strcmp(group, option.group) != 0) {
      group = option.group;
      fprintf(file, "\n%c%s\n", group[0] - 'a' + 'A', group + 1);
    }
    print_config_option(file, &option);
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
  char about[256];
  fprintf(file, "ronde %s %s%s[OPTIONS]\n\n", verb->name, verb->words, *verb->words ? " " : "");
  snprintf(about, sizeof about, "%s.", verb->about);
  print_wrapped(file, 0, 0, about);
  fprintf(file, "\n  %s\n", verb->example);
  if (verb->has_config) {
    fputc('\n', file);
    print_wrapped(
        file, 0, 0,
        "Defaults are in brackets. On/off options may be followed by on or off. Every option except --data can "
        "also be set in the environment: RONDE_VAL_SPLIT for --val-split. RONDE_DATA is the folder of data sets.");
    print_options(file, verb);
  }
  fprintf(file, "\nGeneral\n");
  const tool_general *general;
  for (int i = 0; (general = tool_general_at(verb, i)); i++) print_option(file, general->shown, &general->option);
}

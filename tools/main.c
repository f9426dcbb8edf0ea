/* The command line: its verbs, and from the first words to one of them. */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tool_verb verbs[] = {
    {.name = "train",
     .words = "",
     .about = "Trains a network on data, with one or several workers",
     .has_config = true,
     .has_verbose = true,
     .example = "ronde train --model lenet5 --data fashion-mnist --epochs 5 --out runs/1",
     .run = tool_train},
    {.name = "compare",
     .words = "",
     .about = "Trains the cases of a list (such as --exec graph,eager) in alternating rounds and compares them",
     .has_config = true,
     .has_axes = true,
     .example = "ronde compare --model resnet18 --data cifar10 --exec graph,eager --steps 20",
     .run = tool_compare},
    {.name = "advise",
     .words = "",
     .about = "Measures for a minute or two, and says which strategy, workers, threads and batch to take, and what "
              "limits it",
     .has_config = true,
     .example = "ronde advise --model resnet18 --data cifar10 --minutes 2",
     .run = tool_advise},
    {.name = "eval",
     .words = "CKPT",
     .about = "Measures loss and accuracy of trained weights (a file, or a run's folder)",
     .has_config = true,
     .max_words = 1,
     .word_options = {"init"},
     .example = "ronde eval lenet5.safetensors --data fashion-mnist",
     .run = tool_eval},
    {.name = "predict",
     .words = "CKPT INPUT...",
     .about = "Names the likeliest classes of images or rows: files, folders, patterns, npy, csv; continues a --prompt",
     .has_config = true,
     .has_formats = true,
     .many_words = true,
     .max_words = 2,
     .word_options = {"init", "input"},
     .example = "ronde predict runs/1 shoe.png photos --format csv",
     .run = tool_predict},
    {.name = "init",
     .words = "",
     .about = "Writes freshly initialised weights",
     .has_config = true,
     .example = "ronde init --model lenet5 --shape 1x28x28 --classes 10 -o lenet5.safetensors",
     .run = tool_init},
    {.name = "models",
     .words = "[NAME]",
     .about = "Lists the built-in networks, or the tensors of one (or of FILE.onnx)",
     .max_words = 1,
     .example = "ronde models lenet5",
     .run = tool_models},
    {.name = "data",
     .words = "ACTION [NAME]",
     .about = "Lists, describes (info), downloads (get) or converts (to npy) data sets; learns a vocabulary (tokenize)",
     .has_config = true,
     .max_words = 2,
     .actions = "list|info|get|convert|tokenize",
     .word_options = {NULL, "data"},
     .example = "ronde data get cifar10",
     .run = tool_data},
    {.name = "ckpt",
     .words = "ACTION A [B]",
     .about = "Describes (info), checks (verify) or compares (diff) checkpoints",
     .max_words = 3,
     .actions = "info|verify|diff",
     .example = "ronde ckpt verify runs/1",
     .run = tool_ckpt},
    {.name = "export",
     .words = "CKPT",
     .about =
         "Writes the weights of a checkpoint, or of a run's folder, as a file that PyTorch can read; or all as ONNX",
     .has_config = true,
     .max_words = 1,
     .word_options = {"init"},
     .example = "ronde export runs/1 -o net.safetensors",
     .run = tool_export},
    {.name = "bench",
     .words = "SUITE",
     .about = "Measures a training step, its kernels, or the exchange between workers",
     .part = tool_bench_suite},
    {.name = "report",
     .words = "DIR...",
     .about = "Makes a page of pictures (.html, or tables as .md) of runs, comparisons and suites",
     .has_config = true,
     .many_words = true,
     .max_words = 1,
     .word_options = {"folders"},
     .example = "ronde report runs/1 runs/2 -o report.html",
     .run = tool_report},
    {.name = "doctor",
     .words = "",
     .about = "Checks hosts, cores, data and links, and says what to change before training",
     .has_config = true,
     .example = "ronde doctor --hosts a,b,c --data cifar10",
     .run = tool_doctor},
    {.name = "version",
     .words = "",
     .about = "Shows what this build and this machine offer",
     .example = "ronde version --json",
     .run = tool_version},
    {.name = "manual",
     .words = "FORM",
     .about = "Prints the manual page (man), or completions for a shell (bash, zsh, fish)",
     .max_words = 1,
     .actions = "man|bash|zsh|fish",
     .example = "ronde manual bash > ~/.local/share/bash-completion/completions/ronde",
     .run = tool_manual},
    {0},
};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] - 1 };

/* Where stdin, stdout or stderr is closed, the next file that is opened would take its place, and be printed into. */
static void keep_standard_files(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) _exit(1);
  }
}

static const tool_verb *find_verb(const char *name) {
  for (int i = 0; i < N_VERBS; i++) {
    if (strcmp(verbs[i].name, name) == 0) return &verbs[i];
  }
  return NULL;
}

static ronde_status fail_unknown_verb(const char *name) {
  const char *names[N_VERBS];
  for (int i = 0; i < N_VERBS; i++) names[i] = verbs[i].name;
  int nearest = ronde_nearest_word(name, names, N_VERBS);
  char shown[TOOL_SHOWN];
  tool_shown(name, shown);
  if (nearest < 0) return tool_fail(RONDE_E_USAGE, "unknown verb '%s' (ronde --help lists them)", shown);
  return tool_fail(RONDE_E_USAGE, "unknown verb '%s'; the nearest is %s (ronde --help lists them)", shown,
                   names[nearest]);
}

static bool is_help(const char *word) {
  return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* The verb behind a verb that has several. */
static ronde_status find_part(const tool_verb *verb, const char *name, const tool_verb **part_out) {
  enum { MOST = 16 };
  const char *names[MOST];
  int n = 0;
  size_t skip = strlen(verb->name) + 1; /* a part's name begins with the verb's */
  for (const tool_verb *part; n < MOST && (part = verb->part(n)); n++) {
    names[n] = part->name + skip;
    if (name && strcmp(names[n], name) == 0) *part_out = part;
  }
  if (*part_out) return RONDE_OK;
  if (!name || name[0] == '-')
    return tool_fail(RONDE_E_USAGE, "a word is missing: ronde %s %s (ronde %s --help lists them)", verb->name,
                     verb->words, verb->name);
  char called[40];
  snprintf(called, sizeof called, "ronde %s", verb->name);
  return tool_fail_word(called, name, names, n);
}

/* words [n]: those behind the verb's name. */
static ronde_status run_verb(const tool_verb *verb, int n, char **words, char **argv) {
  tool_call call;
  bool help;
  if (verb->part) {
    const tool_verb *part = NULL;
    if (n > 0 && is_help(words[0])) {
      tool_help_parts(stdout, verb);
      return RONDE_OK;
    }
    ronde_status found = find_part(verb, n > 0 ? words[0] : NULL, &part);
    return found ? found : run_verb(part, n - 1, words + 1, argv);
  }
  ronde_status status = tool_parse(verb, n, words, &call, &help);
  if (status) return status;
  call.argv = argv;
  call.verbs = verbs;
  if (help) tool_help_verb(stdout, verb);
  else status = verb->run(&call);
  tool_call_end(&call);
  return status;
}

static ronde_status run_words(int argc, char **argv) {
  if (argc < 2) {
    tool_help(stderr, verbs);
    return tool_fail(RONDE_E_USAGE, "a verb is missing");
  }
  const char *first = argv[1];
  char shown[TOOL_SHOWN];
  bool help = is_help(first);
  if (help && argc == 2) {
    tool_help(stdout, verbs);
    return RONDE_OK;
  }
  if (strcmp(first, "--version") == 0 || strcmp(first, "-V") == 0) first = "version";
  const char *name = help ? argv[2] : first;
  const tool_verb *verb = find_verb(name);
  if (!verb && name[0] == '-')
    return tool_fail(RONDE_E_USAGE, "unknown option %s in front of the verb (ronde --help)", tool_shown(name, shown));
  if (!verb) return fail_unknown_verb(name);
  if (!help) return run_verb(verb, argc - 2, argv + 2, argv);
  int n_names = 3;
  if (verb->part && argc > n_names) {
    const tool_verb *part = NULL;
    ronde_status status = find_part(verb, argv[n_names++], &part);
    if (status) return status;
    verb = part;
  }
  if (argc > n_names)
    return tool_fail(RONDE_E_USAGE, "unexpected word '%s': ronde help VERB", tool_shown(argv[n_names], shown));
  if (verb->part) tool_help_parts(stdout, verb);
  else tool_help_verb(stdout, verb);
  return RONDE_OK;
}

int main(int argc, char **argv) {
  keep_standard_files();
  if (tool_is_agent(argc, argv)) return tool_agent(argc, argv);
  if (tool_is_daemon(argc, argv)) return tool_daemon(argv);
  signal(SIGPIPE, SIG_IGN); /* a reader that went away is an error like a full disk, */
  signal(SIGXFSZ, SIG_IGN); /* and so is a file above the process's limit */
  tool_log_start();
  ronde_status status = run_words(argc, argv);
  if (!status) status = tool_flush();
  /* A rank that ends because another is lost leaves it to those that know which. */
  bool others_know = tool_is_follower() || (tool_is_launched() && status == RONDE_E_LOST) ||
                     (tool_is_compared() && status == RONDE_E_CANCELLED);
  if (status && !tool_error_logged() && !others_know) tool_fail(status, "%s", ronde_status_text(status));
  int code = status == RONDE_E_CANCELLED && tool_signal() ? 128 + tool_signal() : ronde_status_exit_code(status);
  tool_mark_end(code);
  /* The launcher knows it from that mark. Of any other exit code Open MPI's daemons make a failure, and then look for a second
   * each, twice, whether the ranks have ended. */
  return tool_is_ours() && code >= 128 ? 0 : code;
}

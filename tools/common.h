/* What the verbs of the command line share. Human text goes to stderr, results to stdout. */
#ifndef TOOL_COMMON_H
#define TOOL_COMMON_H

#include <jansson.h>
#include <ronde/measure.h>
#include <ronde/ronde.h>

enum { TOOL_MAX_WORDS = 3, TOOL_MAX_AXES = 4, TOOL_MAX_VALUES = 16, TOOL_LINE = 1024, TOOL_SHOWN = 84 };

/* Hands on what is not RONDE_OK. */
#define TOOL_TRY(expr)                           \
  do {                                           \
    ronde_status tool_try_status = (expr);       \
    if (tool_try_status) return tool_try_status; \
  } while (0)

/* An option that was given several values: each makes a case. */
typedef struct tool_axis {
  const char *name; /* owned by the library */
  char *text;       /* the values, each with its end; owned */
  const char *values[TOOL_MAX_VALUES];
  int n_values;
} tool_axis;

/* How a verb that tells many results prints them. */
typedef enum tool_format { TOOL_TEXT, TOOL_JSON, TOOL_JSONL, TOOL_CSV } tool_format;

/* A call of a verb, parsed. */
typedef struct tool_call {
  ronde_config *config; /* NULL where the verb has no options of the library's table */
  bool json, quiet, verbose;
  tool_format format;                /* of verbs that have formats */
  const char *words[TOOL_MAX_WORDS]; /* without dashes, where the verb has no config that takes them */
  int n_words;
  const char *verb;
  const struct tool_verb *verbs; /* all, up to one without a name */
  char **argv;                   /* of the process, whole */
  tool_axis axes[TOOL_MAX_AXES]; /* where the verb has them */
  int n_axes;
  /* compare --scaling, which sets batch and strategy of each case: what the user gave. batch 0: without it. */
  struct {
    int64_t batch;
    char strategy[40];
  } scaling;
} tool_call;

typedef struct tool_verb {
  const char *name, *words, *about; /* words: what stands behind the name in the usage line, "" for none */
  bool has_config;                  /* the library has options of this name */
  bool has_formats;                 /* --format */
  bool has_verbose;                 /* -v, --verbose */
  bool many_words;                  /* of the last option: further words are further lines of its value */
  bool has_axes;                    /* a list of values of an option that takes one makes cases */
  int max_words;
  const char *actions;                      /* "info|get": the words of which the first is one; NULL: any */
  const char *word_options[TOOL_MAX_WORDS]; /* options that words set, in order; all required. NULL: kept in words */
  const char *example;
  ronde_status (*run)(const tool_call *call);
  /* Where the word behind the verb is a verb of its own ("bench collectives"): the i-th of them, NULL past the end. */
  const struct tool_verb *(*part)(int i);
} tool_verb;

ronde_status tool_train(const tool_call *call);
ronde_status tool_eval(const tool_call *call);
ronde_status tool_predict(const tool_call *call);
ronde_status tool_init(const tool_call *call);
ronde_status tool_models(const tool_call *call);
ronde_status tool_data(const tool_call *call);
ronde_status tool_compare(const tool_call *call);
ronde_status tool_advise(const tool_call *call);
ronde_status tool_ckpt(const tool_call *call);
ronde_status tool_export(const tool_call *call);
ronde_status tool_doctor(const tool_call *call);
ronde_status tool_version(const tool_call *call);
ronde_status tool_manual(const tool_call *call);
ronde_status tool_bench_collectives(const tool_call *call);
ronde_status tool_bench_step(const tool_call *call);
ronde_status tool_bench_kernels(const tool_call *call);
ronde_status tool_bench_batches(const tool_call *call);
ronde_status tool_bench_study(const tool_call *call);
ronde_status tool_report(const tool_call *call);

/* bench_suites.c: the suites of `ronde bench`. */
const tool_verb *tool_bench_suite(int i);

/* ---- args.c, help.c -------------------------------------------------------------------------------------------- */

/* Reads the words behind the verb; `--help` only sets help_out. On success the call's config is the caller's. */
ronde_status tool_parse(const tool_verb *verb, int argc, char **argv, tool_call *call_out, bool *help_out);
void tool_call_end(tool_call *call);
/* The list of values that an option was given; NULL: it was given none. */
const tool_axis *tool_axis_of(const tool_call *call, const char *option);
/* Whether it is among words between commas. */
bool tool_is_listed(const char *list, const char *name);
/* Seconds that an option says; 0 where the verb has no such option. */
double tool_seconds(const tool_call *call, const char *option);
void tool_help(FILE *file, const tool_verb *verbs);
void tool_help_parts(FILE *file, const tool_verb *verb);
void tool_help_verb(FILE *file, const tool_verb *verb);
/* An option of the command line itself. */
typedef struct tool_general {
  const char *shown; /* in --help: "-v, --verbose" */
  ronde_option option;
  bool (*is_for)(const tool_verb *verb); /* NULL: every verb has it */
} tool_general;
/* The i-th of a verb, or, NULL, of those that every verb has; NULL past the end. */
const tool_general *tool_general_at(const tool_verb *verb, int i);
/* "2 wrong usage": the i-th exit code and what it says; NULL past the end. */
const char *tool_exit_code(int i);
/* Says that there is no such word behind what was called ("ronde data"), and which is near or which there are. */
ronde_status tool_fail_word(const char *called, const char *word, const char *const *names, int n);

/* ---- printable.c ----------------------------------------------------------------------------------------------- */

/* Text with its control characters, and what is no UTF-8, as "\\x1b"; cut where the buffer ends. */
void tool_printable(const char *text, char *buffer, size_t size);
/* A user's word as messages show it: at most 80 bytes of it, with an ellipsis. */
const char *tool_shown(const char *text, char buffer[TOOL_SHOWN]);

/* ---- log.c: stderr --------------------------------------------------------------------------------------------- */

/* Shows the library's log lines; errors as `ronde: error: ...`. */
void tool_log_start(void);
void tool_log_quiet(void);
/* Whether the library's warnings are shown. */
void tool_log_warnings(bool on);
/* Prints an error line and returns status. */
ronde_status tool_fail(ronde_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In the environment of ranks whose run was restarted: run.json's `restarts`. */
#define TOOL_RESTARTS "RONDE_RESTARTS"
bool tool_error_logged(void);
/* An error line of another process has gone to stderr: it counts as one of ours. */
void tool_error_shown(void);
/* What was said so far is not the end: the job goes on. */
void tool_error_overcome(void);
/* The status that a process of ours ended with. */
ronde_status tool_status_of_exit(int code);
/* A line of human text; nothing under --quiet. */
void tool_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Keeps a line at the foot of the terminal, redrawn behind every other line; NULL or "" removes it. */
void tool_foot(const char *text);
/* Columns of the terminal at stderr; 0: it is none, or cannot redraw a line. */
int tool_columns(void);

/* ---- hooks.c: signals and progress ----------------------------------------------------------------------------- */

/* From now on Ctrl-C and SIGTERM only ask the job to end; the second request ends the process at once. In a rank that
 * mpirun started, SIGUSR1 and SIGUSR2 stand for them: those are what mpirun hands on. One request may come by both ways,
 * and several times at once. The end of mpirun is a request too. grace_s: a rank that has not ended so long after a
 * request ends itself (0: it does not). */
void tool_signals_start(double grace_s);
/* For who has others to end: the second request, too, is only noted. */
void tool_signals_watch(void);
/* The signal of the first request, or 0; and how many requests there were. */
int tool_signal(void);
int tool_signal_requests(void);
/* Hooks of a job: cancelled by signals; with progress: shown on stderr, a line every log_every steps (0: one an
 * epoch). */
ronde_hooks tool_hooks(bool progress, int64_t log_every);

/* ---- rank.c: this process as one of several -------------------------------------------------------------------- */

/* Whether mpirun or srun started this process. */
bool tool_is_launched(void);
/* Whether another rank of those reports: rank 0. */
bool tool_is_follower(void);
/* Whether tool_launch of another process has started this one, and read the environment for it. */
bool tool_is_ours(void);
/* Whether this is a training of a comparison, which says itself how it goes on: the variable is in the environment. */
#define TOOL_COMPARED "RONDE_COMPARED"
bool tool_is_compared(void);
/* The first and the last word of a rank that tool_launch started. */
void tool_mark_begin(void);
void tool_mark_joined(void *user);
void tool_mark_trains(void);
/* Of a start that was prepared while another is under way (TOOL_PREPARED in the environment): it waits for the launcher's word. */
#define TOOL_PREPARED "RONDE_PREPARED"
void tool_mark_ready(void);
void tool_mark_lost(void *user, int64_t resumed_step, int64_t step);
void tool_mark_without(void *user, int rank);
void tool_mark_end(int code);

/* ---- launch.c: training by several processes ------------------------------------------------------------------- */

/* Whether the call asks for processes that are not there yet. */
bool tool_must_launch(const tool_call *call);
/* Runs the same command under mpirun and returns as it would have; blocks. */
ronde_status tool_launch(const tool_call *call);

/* ---- system.c --------------------------------------------------------------------------------------------------- */

/* Says so where other programs keep this host too busy for a measurement to count. Watches for 0.3 s. */
void tool_warn_of_load(void);
double tool_now_s(void); /* monotonic */
/* The file of this program, by its whole path. */
bool tool_self_path(char *buffer, size_t size);
/* A descriptor that is readable once that process has ended (pidfd); -1: there is none. */
int tool_process_open(int pid);
/* Unsets the variables that set options of training: what they said is in the call's options. */
void tool_environment_forget(void);
/* Words [] as JSON. */
json_t *tool_words_json(char **words);
/* Removes a folder with all that is in it, as far as that is possible. */
void tool_folder_remove(const char *path);

/* ---- table.c: tables for people --------------------------------------------------------------------------------- */

enum { TOOL_MAX_COLUMNS = 32, TOOL_CELL_SIZE = 512 };

typedef enum tool_cell {
  TOOL_CELL_TEXT,
  TOOL_CELL_NUMBER,
  TOOL_CELL_COUNT,   /* "1,234" */
  TOOL_CELL_BYTES,   /* "1.2 MiB" */
  TOOL_CELL_SHAPE,   /* "1x28x28" */
  TOOL_CELL_INTERVAL /* "[1.2, 1.4]", of a figure of bench.json */
} tool_cell;

typedef struct tool_column {
  const char *title;
  tool_cell cell;
  const char *field; /* of a row; "step_s.median": of an object in it */
  int digits;   /* behind the point, or as many significant ones if negative; of a text: bytes at most, 0 for all */
  double scale; /* of numbers and intervals */
} tool_column;

/* Prints a table on stdout: a line of titles, then one for each row. "-" stands for what is absent. On a terminal that it does
 * not fit, the columns go on below, behind the first one again. */
void tool_table(const json_t *rows, const tool_column *columns, int n);
/* What a cell of it says; into buffer, or a constant. */
const char *tool_cell_text(const tool_column *column, const json_t *row, char buffer[TOOL_CELL_SIZE]);
/* Characters of a text in UTF-8. */
int tool_width(const char *text);
/* Whether a column's cells end at the right. */
bool tool_cell_is_number(const tool_column *column);

/* ---- bench.c: what the suites share ----------------------------------------------------------------------------- */

/* Runs a measurement of the library and shows its result. */
ronde_status tool_bench_run(const tool_call *call,
                            ronde_status (*measure)(const ronde_config *config, const ronde_hooks *hooks,
                                                    char **json_out),
                            void (*print)(const json_t *bench));
/* Shows a record: as JSON where the call asks for it, else by `print`. */
ronde_status tool_bench_show(const tool_call *call, const ronde_measurement *record,
                             void (*print)(const json_t *bench));
/* A fact of a record; the value is taken over. */
ronde_status tool_bench_set(ronde_measurement *record, int of, const char *name, json_t *value);
/* Warns where others worked on this host while a record was made. */
void tool_bench_warn(const json_t *bench);

/* ---- text.c: JSON of the library as text ----------------------------------------------------------------------- */

/* For people: its strings are printable. NULL (and an error line) where the text is no JSON object. */
json_t *tool_json(const char *text);
double tool_number(const json_t *object, const char *key);      /* NAN: null or absent */
const char *tool_string(const json_t *object, const char *key); /* "": null or absent */
/* "1,234,567"; "-" for NAN. Buffers of 32. */
const char *tool_count(double value, char buffer[32]);
const char *tool_bytes(double bytes, char buffer[32]);        /* "12.3 MiB" */
const char *tool_duration(double seconds, char buffer[32]);   /* "1:02:03", "2:03", "4.2 s" */
const char *tool_shape(const json_t *shape, char buffer[64]); /* "1x28x28" */
/* Prints the text on stdout as it is, with a newline behind. */
void tool_print_json(const char *text);
/* Prints a result on stdout: as JSON where the call asks for it, else by `print`. Takes over text. */
ronde_status tool_print_result(const tool_call *call, char *text, void (*print)(const json_t *json));
/* RONDE_E_WRITE where something that was printed on stdout did not arrive. */
ronde_status tool_flush(void);

/* mlperf.c: run.json as MLPerf's log lines. began_ms: when the run began, since 1970. */
ronde_status tool_mlperf_write(const char *path, const json_t *run, double began_ms);

/* The sum of a phase over a run's epochs: "load_s", ... */
double tool_epochs_sum(const json_t *run, const char *field);
/* The tables at the end of a training (stderr): whole ones of one that completed, a few lines of one that was broken
 * off, nothing of one that failed; and the plan of a dry run (stdout). */
void tool_summary(const json_t *run, const char *folder, bool verbose);
void tool_plan(const json_t *plan);

#endif

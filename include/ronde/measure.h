/* Ronde: measuring and launching. The second public header, for programs that measure training or do what the command
 * line does: statistics, the record of a measurement, benchmarks, the doctor, and what a launcher of several processes
 * must know. A program that only trains, evaluates or predicts does not need it. The rules of ronde.h hold here too. */
#ifndef RONDE_MEASURE_H
#define RONDE_MEASURE_H

#include <ronde/ronde.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statistics ------------------------------------------------------------------------------------------------ */

/* Summarises measurements: the median, the median absolute deviation from it (mad), and an interval (low, high) that holds
 * the true median with a probability of 95 %. */
typedef struct ronde_statistics {
  double median, mad, low, high;
} ronde_statistics;

/* The statistics of independent samples [n]. The interval is a bootstrap; the same samples give the same interval.
 * Errors: RONDE_E_USAGE if n < 1, RONDE_E_NUMERIC if a sample is NaN or Inf. */
RONDE_API ronde_status ronde_statistics_of(const double *samples, int64_t n, ronde_statistics *statistics_out);
/* The statistics of rounds [n], with one value per round, because samples of a single round do not show how much rounds
 * differ. The interval is Student's t on the logarithms (on the values, if one of them is not above 0) and contains the
 * median of the rounds. One round has no interval: low and high are NAN. Errors as above. */
RONDE_API ronde_status ronde_statistics_of_rounds(const double *rounds, int64_t n, ronde_statistics *statistics_out);

/* ---- other work on this host ------------------------------------------------------------------------------------ */

/* The CPU time that was used on this host up to a moment. */
typedef struct ronde_host_look {
  double at_s;   /* the moment, by a monotonic clock */
  double busy_s; /* of all processes, on the cores that this one may use; NAN: the system does not say */
  double own_s;  /* of this process and of its children that have ended */
} ronde_host_look;
RONDE_API void ronde_host_look_now(ronde_host_look *look_out);

typedef struct ronde_host_load {
  int cores;     /* that this process may use */
  double others; /* cores that others kept busy, on average */
  bool is_busy;  /* too much for a measurement to count */
} ronde_host_load;
/* The load since that moment. NULL: the load of the last minute. */
RONDE_API ronde_host_load ronde_host_load_since(const ronde_host_look *look);

/* The largest resident memory of this process so far, in bytes. */
RONDE_API int64_t ronde_peak_rss_bytes(void);

/* ---- the record of a measurement -------------------------------------------------------------------------------- */

/* Cases that were measured in rounds, and the results computed from them: the bench.json ("ronde.bench.v1") of `ronde compare` and of every
 * `ronde bench`. docs/record.md describes the file. Cases are numbered from 0 as they are added; case 0 is the one that
 * the others are compared with. */
typedef struct ronde_measurement ronde_measurement;

/* Stands for the measurement as a whole in place of the number of a case. */
#define RONDE_WHOLE (-1)

/* verb: "compare", "bench step", ... */
RONDE_API ronde_status ronde_measurement_create(const char *verb, ronde_measurement **measurement_out);
RONDE_API void ronde_measurement_destroy(ronde_measurement *measurement);
/* From begin to end, what others do on this host is watched ("host_load"; null where that was too short to tell). Children
 * of this process count as others until they have been waited for. */
RONDE_API void ronde_measurement_begin(ronde_measurement *measurement);
RONDE_API void ronde_measurement_end(ronde_measurement *measurement);

/* Something that is varied, and the n values that it takes. All axes are added before the first case. */
RONDE_API ronde_status ronde_measurement_add_axis(ronde_measurement *measurement, const char *name,
                                                  const char *const *values, int n);
/* system: whose work is measured ("ronde", "pytorch"). values [axes]: the case's value on each axis, NULL where it has
 * none. */
RONDE_API ronde_status ronde_measurement_add_case(ronde_measurement *measurement, const char *name, const char *system,
                                                  const char *const *values, int *case_out);
/* A fact of a case or of RONDE_WHOLE: `json` is any JSON value, as text. Replaces an earlier one of this name. Errors:
 * RONDE_E_USAGE where it is no JSON. */
RONDE_API ronde_status ronde_measurement_set(ronde_measurement *measurement, int of, const char *name,
                                             const char *json);

/* What one unit of a case's work is. NAN: not known. */
typedef struct ronde_work {
  const char *unit;              /* "step", "call" */
  double examples, bytes, flops; /* of one unit */
} ronde_work;
RONDE_API ronde_status ronde_measurement_set_work(ronde_measurement *measurement, int of, const ronde_work *work);

/* Adds what was measured of a figure ("step_s") in a round, from 0: samples [n], copied. The figure of the round is their
 * median. A sample that is not finite was not measured, and its figure gets no statistics. of: a case or RONDE_WHOLE. */
RONDE_API ronde_status ronde_measurement_add_samples(ronde_measurement *measurement, int of, const char *figure,
                                                     int round, const double *samples, int64_t n);
/* The figure of the last round; NAN: there is none. */
RONDE_API double ronde_measurement_last(const ronde_measurement *measurement, int of, const char *figure);
/* The statistics of a figure so far: median and interval are those of its rounds, mad is that of all samples. A value
 * that needs more samples or rounds than there are is NAN. */
RONDE_API ronde_statistics ronde_measurement_statistics(const ronde_measurement *measurement, int of,
                                                        const char *figure);
/* A figure of each round: `amount` divided by another figure ("examples_per_s" from seconds). */
RONDE_API ronde_status ronde_measurement_add_rate(ronde_measurement *measurement, int of, const char *name,
                                                  const char *figure, double amount);
/* A figure of each round that both cases have: that of `numerator` divided by that of `denominator`. */
RONDE_API ronde_status ronde_measurement_add_ratio(ronde_measurement *measurement, int of, const char *name,
                                                   const char *figure, int numerator, int denominator);

/* Notes that the work of two cases differs: then nothing is ranked, and the text says why. */
RONDE_API ronde_status ronde_measurement_differ(ronde_measurement *measurement, const char *field, const char *text);
/* Compares a fact of two cases: numbers by value, all else as JSON. Notes a difference, and says whether there is one. */
RONDE_API bool ronde_measurement_differs(ronde_measurement *measurement, const char *field, int reference, int other);
/* The text of the first difference; NULL: there is none. Owned by the measurement, until the next call. */
RONDE_API const char *ronde_measurement_difference(const ronde_measurement *measurement);
/* Forgets all differences, to find them again when more is known. */
RONDE_API void ronde_measurement_forget_differences(ronde_measurement *measurement);

/* Compares all cases with case 0 by this figure, round by round ("times_as_fast", "verdict"). is_rate: more of it is
 * faster. Has no effect where the work of the cases differs. */
RONDE_API ronde_status ronde_measurement_rank(ronde_measurement *measurement, const char *figure, bool is_rate);
/* Says why the cases are not ranked. One that is neither ranked nor given a reason was broken off. */
RONDE_API ronde_status ronde_measurement_leave_unranked(ronde_measurement *measurement, const char *reason);

/* The record so far as text, owned by the caller (free). */
RONDE_API ronde_status ronde_measurement_json(const ronde_measurement *measurement, char **json_out);
/* Writes it to FOLDER/bench.json, whole or not at all. Makes the folder where it is missing. Errors: RONDE_E_WRITE. */
RONDE_API ronde_status ronde_measurement_write(const ronde_measurement *measurement, const char *folder);

/* ---- benchmarks ------------------------------------------------------------------------------------------------- */

/* Times collectives by size between --workers. config: of "bench collectives"; of hooks, cancel. json_out receives
 * bench.json, owned by the caller (free), which is also written to --out. Blocks until all ranks have ended; under MPI
 * json_out is set on rank 0 only. Errors: RONDE_E_DIFFERENCE where a collective gave a wrong result. */
RONDE_API ronde_status ronde_bench_collectives(const ronde_config *config, const ronde_hooks *hooks, char **json_out);
/* Times each layer's kernels in --rounds rounds of steps, beside the arithmetic and memory peaks of this machine, which
 * are measured by the way. config: of "bench kernels"; of hooks, cancel. json_out as above. Blocks. */
RONDE_API ronde_status ronde_bench_kernels(const ronde_config *config, const ronde_hooks *hooks, char **json_out);

/* The training step of a built-in network by itself: forward, loss, backward and update on one batch of random examples
 * in memory. Weights and examples are functions of --seed; the learning rate is fixed and dropout is off. */
typedef struct ronde_stepper ronde_stepper;

/* config: of "bench step" or "bench kernels". */
RONDE_API ronde_status ronde_stepper_create(const ronde_config *config, ronde_stepper **stepper_out);
RONDE_API void ronde_stepper_destroy(ronde_stepper *stepper);
/* Makes n steps. seconds_out [n]: their wall times; loss_out: the batch's mean loss before the last update. Blocks. */
RONDE_API ronde_status ronde_stepper_run(ronde_stepper *stepper, int64_t n, double *seconds_out, double *loss_out);
/* The work, as a JSON object owned by the caller (free): model, shape, batch, parameters, FLOPs, optimizer, ... */
RONDE_API ronde_status ronde_stepper_describe(const ronde_stepper *stepper, char **json_out);
/* Writes the present parameters, the inputs ("ronde.x") and the labels ("ronde.labels") as a safetensors file, so that
 * another system can start from the same. */
RONDE_API ronde_status ronde_stepper_save(const ronde_stepper *stepper, const char *path);

/* ---- doctor ----------------------------------------------------------------------------------------------------- */

/* What a training between --hosts would meet. config: of "doctor". json_out ("ronde.doctor.v1"), owned by the caller
 * (free), has each rank's host, build, cores, memory and data, the links of each pair (about a tenth of a second a pair)
 * and what to change. Blocks; under MPI json_out is set on rank 0 only. Errors: RONDE_E_DIFFERENCE, with json_out set,
 * where the hosts cannot train together. */
RONDE_API ronde_status ronde_doctor(const ronde_config *config, char **json_out);

/* ---- launching --------------------------------------------------------------------------------------------------
 * What a program needs to know of a configuration before it starts a run as several processes, or in several variants. */

/* For "train" with --resume: sets each option that was not set to its value in the resumed run, as ronde_train does, so
 * that a launcher knows workers, transport and hosts. Without --resume, or if no checkpoint can be read here, it changes
 * nothing: ronde_train reports the problem on the host of rank 0. Reads the checkpoint once. Errors: RONDE_E_USAGE if the
 * configuration contradicts the checkpoint. */
RONDE_API ronde_status ronde_config_resume(ronde_config *config);
/* For "train": how many ranks a run needs in addition to its workers, for servers that have ranks of their own. */
RONDE_API int ronde_config_server_ranks(const ronde_config *config);
/* For "train": whether the others go on without a worker that is lost, unless it is one that they need, such as rank 0. */
RONDE_API bool ronde_config_goes_on(const ronde_config *config);
/* Whether a training that a loss has ended goes on from its --out, once its ranks are started again: --on-loss restart, or
 * continue where it is made anew among those that are left, and rank 0 was not. */
RONDE_API bool ronde_config_restarts(const ronde_config *config);
/* Options that can have no effect are not refused: of a run that is started again with fewer ranks than they were meant for. */
RONDE_API void ronde_config_allow_idle(ronde_config *config);
/* For "train": whether a strategy understands an option; true for options that do not depend on the strategy. strategy: a
 * value of --strategy; "auto" stands for the one that these workers and hosts would get. */
RONDE_API bool ronde_config_understands(const ronde_config *config, const char *strategy, const char *option);
/* In the error line of a rank that finds another one lost: its process has ended, while its host is there. */
#define RONDE_LOST_PROCESS "the process has gone"
/* The i-th environment variable that the library reads besides those of options ("RONDE_DATA", ...); NULL past the end.
 * Ranks that are started on other hosts need them too. */
RONDE_API const char *ronde_config_variable(int i);

/* What a launcher and its ranks write to each other carries a seal: the first 16 bytes of HMAC-SHA-256, in hexadecimal. */
enum { RONDE_SEAL_DIGITS = 32 };
/* The seal on a text by a key, which is a text too. False where libcrypto fails. */
RONDE_API bool ronde_seal(const char *key, const char *text, char seal_out[RONDE_SEAL_DIGITS + 1]);
/* Whether that is the text's seal; false for anything else, whatever its length. */
RONDE_API bool ronde_seal_holds(const char *key, const char *text, const char *seal);

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* The index of the word among words [n] that `word` is likely to be a misspelling of; -1: none is near. */
RONDE_API int ronde_nearest_word(const char *word, const char *const *words, int n);

#ifdef __cplusplus
}
#endif
#endif

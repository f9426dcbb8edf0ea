/* What every call of Ronde answers, who receives its log, and what this build offers. Included by ronde.h, whose rules hold
 * here too. */
#ifndef RONDE_RONDE_STATUS_H
#define RONDE_RONDE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RONDE_API __attribute__((visibility("default")))

/* X(enum name, text, exit code of the command line) */
#define RONDE_STATUS_LIST(X)                                   \
  X(OK, "success", 0)                                          \
  X(E_INTERNAL, "internal error", 1)                           \
  X(E_USAGE, "wrong or impossible option, network or call", 2) \
  X(E_INPUT, "bad or missing input", 3)                        \
  X(E_LOST, "a worker or a link was lost", 4)                  \
  X(E_NUMERIC, "the numbers broke (NaN or Inf)", 5)            \
  X(E_WRITE, "cannot write", 6)                                \
  X(E_MEMORY, "out of memory", 6)                              \
  X(E_DIFFERENCE, "a check found a difference", 7)             \
  X(E_CANCELLED, "cancelled", 130)

typedef enum ronde_status {
#define RONDE_X(name, text, code) RONDE_##name,
  RONDE_STATUS_LIST(RONDE_X)
#undef RONDE_X
} ronde_status;

/* The text of a status; never NULL. */
RONDE_API const char *ronde_status_text(ronde_status status);
/* The exit code that the command line ends with for a status (0 to 7, 130). */
RONDE_API int ronde_status_exit_code(ronde_status status);

typedef enum ronde_log_level { RONDE_LOG_ERROR, RONDE_LOG_WARNING, RONDE_LOG_INFO, RONDE_LOG_DEBUG } ronde_log_level;

/* Receives one line, without its newline, that is valid during the call only. Called from any thread, but never from two
 * at once. */
typedef void (*ronde_log_fn)(void *user, ronde_log_level level, const char *line);

/* Sets who receives all log lines of the process. NULL, the default: nobody. Must not be called while a job runs. */
RONDE_API void ronde_log_set(ronde_log_fn fn, void *user);

/* "0.1.0" */
RONDE_API const char *ronde_version(void);
/* What this build and this machine offer, as a JSON object: version, git, features{}, isa, isas[], gemm[],
 * bf16, bf16s[]. */
RONDE_API ronde_status ronde_version_json(char **json_out);

#ifdef __cplusplus
}
#endif
#endif

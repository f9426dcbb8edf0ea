/* What goes to the terminal: lines of people's text and errors, and a line at the foot. Whatever a file name or an
 * option's value holds, no control character passes from here. */
#include "common.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Of a terminal: bold red, yellow, and none. */
#define RED "\033[1;31m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool quiet, error_logged, warnings = true;
static char foot[512], clean[4 * TOOL_LINE]; /* clean: under the mutex */

static void clear_foot(void) {
  if (*foot) fputs("\r\033[K", stderr);
}

static void draw_foot(void) {
  if (*foot) fputs(foot, stderr);
}

/* A line that is too long, by values that it names, loses its middle: the reason stands at its end. */
static void format_line(char line[TOOL_LINE], const char *format, va_list args) {
  static const char ellipsis[] = " ... ";
  enum { TAIL = TOOL_LINE / 2, HEAD = TOOL_LINE - TAIL - sizeof ellipsis };
  va_list again;
  va_copy(again, args);
  size_t n = (size_t)vsnprintf(line, TOOL_LINE, format, args);
  char *whole = n >= TOOL_LINE ? malloc(n + 1) : NULL;
  if (whole) {
    vsnprintf(whole, n + 1, format, again);
    snprintf(line + HEAD, TOOL_LINE - HEAD, "%s%s", ellipsis, whole + n - TAIL);
    free(whole);
  }
  va_end(again);
}

/* Escapes that a terminal shows as a colour; "" where it is none, or the user wants none (no-color.org). */
static const char *colour(const char *escape) {
  const char *none = getenv("NO_COLOR");
  return (none && *none) || tool_columns() == 0 ? "" : escape;
}

/* Behind an error nothing else is said: it must be the last line. People's text may begin with an empty line. */
static void print_line(const char *prefix, const char *shade, const char *line, bool is_error) {
  pthread_mutex_lock(&mutex);
  if (is_error || (!quiet && !error_logged)) {
    clear_foot();
    if (is_error) *foot = '\0';
    size_t empty = is_error ? 0 : strspn(line, "\n");
    tool_printable(line + empty, clean, sizeof clean);
    const char *begin = colour(shade);
    fprintf(stderr, "%.*s%s%s%s%s\n", (int)empty, line, begin, prefix, *begin ? PLAIN : "", clean);
    draw_foot();
  }
  error_logged = error_logged || is_error;
  pthread_mutex_unlock(&mutex);
}

static void show_log_line(void *user, ronde_log_level level, const char *line) {
  (void)user;
  if (level == RONDE_LOG_WARNING && !warnings) return;
  if (level == RONDE_LOG_ERROR) print_line("ronde: error: ", RED, line, true);
  if (level == RONDE_LOG_WARNING) print_line("ronde: warning: ", YELLOW, line, false);
  if (level == RONDE_LOG_INFO && !tool_is_follower()) print_line("", "", line, false); /* all ranks say the same */
}

void tool_log_start(void) { ronde_log_set(show_log_line, NULL); }
void tool_log_quiet(void) { quiet = true; }
void tool_log_warnings(bool on) { warnings = on; }

ronde_status tool_fail(ronde_status status, const char *format, ...) {
  char line[TOOL_LINE];
  va_list args;
  va_start(args, format);
  format_line(line, format, args);
  va_end(args);
  print_line("ronde: error: ", RED, line, true);
  return status;
}

bool tool_error_logged(void) {
  pthread_mutex_lock(&mutex);
  bool logged = error_logged;
  pthread_mutex_unlock(&mutex);
  return logged;
}

void tool_error_shown(void) {
  pthread_mutex_lock(&mutex);
  error_logged = true;
  pthread_mutex_unlock(&mutex);
}

void tool_error_overcome(void) {
  pthread_mutex_lock(&mutex);
  error_logged = false;
  pthread_mutex_unlock(&mutex);
}

void tool_say(const char *format, ...) {
  char line[TOOL_LINE];
  va_list args;
  va_start(args, format);
  format_line(line, format, args);
  va_end(args);
  print_line("", "", line, false);
}

void tool_foot(const char *text) {
  pthread_mutex_lock(&mutex);
  if (!quiet && !error_logged) {
    clear_foot();
    snprintf(foot, sizeof foot, "%s", text ? text : "");
    draw_foot();
    fflush(stderr);
  }
  pthread_mutex_unlock(&mutex);
}

int tool_columns(void) {
  const char *terminal = getenv("TERM");
  if (!isatty(STDERR_FILENO) || !terminal || !*terminal || strcmp(terminal, "dumb") == 0) return 0;
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

ronde_status tool_status_of_exit(int code) {
  for (int s = RONDE_OK; s <= RONDE_E_CANCELLED; s++)
    if (ronde_status_exit_code((ronde_status)s) == code) return (ronde_status)s;
  return code == 143 ? RONDE_E_CANCELLED : RONDE_E_INTERNAL;
}

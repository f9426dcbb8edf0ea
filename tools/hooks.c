/* What a job of the library calls back: signals ask it to end, progress is shown. */
#include "common.h"
#include "limits.h"
#include "mark.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_S 0.1

enum { LOOK_MS = 100, PIECE = 4096 };

/* ---- signals --------------------------------------------------------------------------------------------------- */

/* Read by the thread of rank 0. */
static _Atomic int caught, n_requests;
/* Of the handler, which nothing interrupts. */
static int n_told, n_direct;
static int64_t direct_ms;
static double grace_s;
static bool only_noted;

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What the launcher tells a rank is one request each time. Whoever signals all processes of a job reaches the rank by
 * that way too, and perhaps more than once. */
static void on_signal(int number) {
  bool told = number == SIGUSR1 || number == SIGUSR2;
  if (number == SIGUSR1) number = SIGINT;
  if (number == SIGUSR2) number = SIGTERM;
  if (told) {
    n_told++;
  } else if (n_direct == 0 || now_ms() - direct_ms >= TOOL_ONE_REQUEST_MS) {
    n_direct++;
    direct_ms = now_ms();
  }
  n_requests = n_told > n_direct ? n_told : n_direct;
  if (n_requests > 1 && !only_noted) _exit(128 + number);
  if (!caught && grace_s > 0) alarm((unsigned)grace_s);
  if (!caught) caught = number;
}

/* A rank that could not end; its parent may be gone, so that nobody else ends it. */
static void on_alarm(int number) {
  static const char line[] = "ronde: error: interrupted: --grace is over, the state could not be saved in time\n";
  (void)number;
  if (write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(128 + caught);
  _exit(128 + caught);
}

static void handle_signals(const int *numbers, int n) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  static const int all[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) sigaddset(&action.sa_mask, all[i]);
  for (int i = 0; i < n; i++) sigaction(numbers[i], &action, NULL);
}

void tool_signals_watch(void) {
  only_noted = true;
  handle_signals((const int[]){SIGINT, SIGTERM}, 2);
}

void tool_signals_start(double grace) {
  handle_signals((const int[]){SIGINT, SIGTERM}, 2);
  if (!tool_is_launched()) return;
  grace_s = grace;
  signal(SIGALRM, on_alarm);
  handle_signals((const int[]){SIGUSR1, SIGUSR2}, 2);
  if (getenv("OMPI_COMM_WORLD_SIZE")) prctl(PR_SET_PDEATHSIG, SIGTERM);
  tool_mark_begin();
}

int tool_signal(void) { return caught; }
int tool_signal_requests(void) { return n_requests; }

/* Asked in front of each step. */
static bool is_job_cancelled(void *user) {
  static bool asked;
  (void)user;
  if (!asked) tool_mark_trains();
  asked = true;
  return caught != 0;
}

/* ---- progress -------------------------------------------------------------------------------------------------- */

/* Called from one thread only. */
static struct {
  int64_t log_every;
  double redrawn_s;
  bool has_head; /* of the table of epochs */
} shown;

/* NAN: there is none, in a replayed run. */
static const char *loss_text(double loss, char text[32]) {
  if (isnan(loss)) return "-";
  snprintf(text, 32, "%.5g", loss);
  return text;
}

/* A figure of the table, or a dash where it was not measured. */
static const char *cell(double value, bool is_known, char text[32]) {
  snprintf(text, 32, is_known ? "%.4f" : "-", value);
  return text;
}

/* A row of a table whose head is said before the first. */
static void say_epoch(const ronde_progress *progress) {
  char texts[4][32], rate[32], elapsed[32];
  bool has_test = progress->tested_on && isfinite(progress->test_loss) && progress->test_loss > 0;
  if (!shown.has_head) {
    bool validates = progress->tested_on && strcmp(progress->tested_on, "validation") == 0;
    tool_say("%5s %11s %9s %11s %9s %12s %9s", "epoch", "train loss", "accuracy", validates ? "val. loss" : "test loss",
             "accuracy", "examples/s", "time");
  }
  shown.has_head = true;
  tool_say("%5lld %11s %9s %11s %9s %12s %9s", (long long)progress->epoch,
           cell(progress->loss, isfinite(progress->loss), texts[0]),
           cell(progress->train_accuracy, progress->train_accuracy >= 0, texts[1]),
           cell(progress->test_loss, has_test, texts[2]),
           cell(progress->test_accuracy, progress->test_accuracy >= 0, texts[3]),
           tool_count(progress->examples_per_s, rate), tool_duration(progress->elapsed_s, elapsed));
}

static void draw_bar(const ronde_progress *progress, int columns) {
  char loss[32], rate[32], left[32], text[256], bar[64] = "", line[512];
  double done = progress->steps > 0 ? (double)progress->step / (double)progress->steps : 0;
  snprintf(text, sizeof text, "%3.0f %%  step %lld/%lld  epoch %lld  loss %s  %s/s  left %s", 100 * done,
           (long long)progress->step, (long long)progress->steps, (long long)progress->epoch,
           loss_text(progress->loss, loss), tool_count(progress->examples_per_s, rate),
           tool_duration(progress->left_s, left));
  int room = columns - 1 - (int)strlen(text) - 3;
  if (room > 30) room = 30;
  if (room >= 8) {
    int filled = (int)(done * room);
    snprintf(bar, sizeof bar, "[%.*s%.*s] ", filled, "##############################", room - filled,
             "..............................");
  }
  /* One column is left free: a full line would wrap, and could not be taken back. */
  snprintf(line, sizeof line, "%s%s", bar, text);
  if (columns <= (int)sizeof line) line[columns - 1] = '\0';
  tool_foot(line);
}

static void show_progress(void *user, const ronde_progress *progress) {
  (void)user;
  if (progress->epoch_end) {
    say_epoch(progress);
  } else if (shown.log_every > 0 && progress->step % shown.log_every == 0) {
    char rate[32];
    tool_say("step %lld/%lld  epoch %lld  loss %.6g  lr %.6g  %s examples/s", (long long)progress->step,
             (long long)progress->steps, (long long)progress->epoch, progress->loss, progress->lr,
             tool_count(progress->examples_per_s, rate));
  }
  double now = tool_now_s();
  if (now - shown.redrawn_s < REDRAW_S && progress->step < progress->steps) return;
  shown.redrawn_s = now;
  int columns = tool_columns();
  if (columns > 0) draw_bar(progress, columns);
}

/* ---- a start that was prepared ---------------------------------------------------------------------------------- */

/* Of what mpirun hands on to rank 0; 0: there is nothing yet, -1: nothing comes any more. */
static ssize_t take_some(char *to, size_t room) {
  struct pollfd file = {.fd = STDIN_FILENO, .events = POLLIN};
  if (poll(&file, 1, LOOK_MS) <= 0) return 0;
  ssize_t got = read(STDIN_FILENO, to, room);
  return got > 0 ? got : got < 0 && errno == EINTR ? 0 : -1;
}

/* The one line that comes, without its end, owned by the caller; NULL: none is to come, or there is no memory. */
static char *await_line(ronde_status *status_out) {
  char *line = NULL;
  size_t n = 0, room = 0;
  *status_out = RONDE_E_CANCELLED;
  for (ssize_t got = 0; got >= 0 && !tool_signal();) {
    char *longer = n == room ? realloc(line, room += PIECE) : line;
    if (!longer) {
      *status_out = tool_fail(RONDE_E_MEMORY, "no memory for what the launcher tells");
      break;
    }
    line = longer;
    got = take_some(line + n, room - n);
    n += got > 0 ? (size_t)got : 0;
    if (got <= 0 || line[n - 1] != '\n') continue;
    line[n - 1] = 0;
    return line;
  }
  free(line);
  return NULL;
}

static ronde_status await(void *user, const char **restarts_out) {
  (void)user;
  ronde_status status;
  tool_mark_ready();
  char *line = await_line(&status); /* kept to the end of the process */
  if (!line) return status;
  *restarts_out = tool_begin_read(getenv(TOOL_LAUNCHED), line);
  if (*restarts_out) return RONDE_OK;
  free(line);
  return tool_fail(RONDE_E_LOST, "what the launcher told has not this launch's key, or was changed on its way");
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void end_stuck(void *user) {
  (void)user;
  _exit(ronde_status_exit_code(RONDE_E_LOST));
}

ronde_hooks tool_hooks(bool progress, int64_t log_every) {
  shown.log_every = log_every;
  return (ronde_hooks){.progress = progress ? show_progress : NULL,
                       .cancel = is_job_cancelled,
                       .joined = tool_mark_joined,
                       .lost = tool_mark_lost,
                       .left_out = tool_mark_without,
                       .stuck = end_stuck,
                       .restarts = getenv(TOOL_RESTARTS),
                       .await = getenv(TOOL_PREPARED) && tool_is_ours() ? await : NULL};
}

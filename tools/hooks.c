/* Hooks of a job: signals that cancel it, progress that is shown. */
#include "common.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_S 0.1

/* ---- signals --------------------------------------------------------------------------------------------------- */

static _Atomic int caught; /* read by the thread of rank 0 */

static void on_signal(int number) {
  if (number == SIGUSR1) number = SIGINT;
  if (number == SIGUSR2) number = SIGTERM;
  if (caught) _exit(128 + number);
  caught = number;
}

void tool_signals_start(void) {
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  if (!tool_is_launched()) return;
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGUSR2, &action, NULL);
}

int tool_signal(void) { return caught; }

static bool is_cancelled(void *user) {
  (void)user;
  return caught != 0;
}

/* ---- progress -------------------------------------------------------------------------------------------------- */

/* Called from one thread only. */
static struct {
  int64_t log_every;
  double redrawn_s;
} shown;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void say_epoch(const ronde_progress *progress) {
  char rate[32], elapsed[32], test[64] = "";
  if (progress->test_accuracy >= 0) {
    snprintf(test, sizeof test, "  %s loss %.5g  accuracy %.4f", progress->tested_on, progress->test_loss,
             progress->test_accuracy);
  } else if (isfinite(progress->test_loss) && progress->test_loss > 0) {
    snprintf(test, sizeof test, "  %s loss %.5g", progress->tested_on, progress->test_loss);
  }
  tool_say("epoch %lld  loss %.5g%s  %s examples/s  %s", (long long)progress->epoch, progress->loss, test,
           tool_count(progress->examples_per_s, rate), tool_duration(progress->elapsed_s, elapsed));
}

static void draw_bar(const ronde_progress *progress, int columns) {
  char rate[32], left[32], text[256], bar[64] = "", line[512];
  double done = progress->steps > 0 ? (double)progress->step / (double)progress->steps : 0;
  snprintf(text, sizeof text, "%3.0f %%  step %lld/%lld  epoch %lld  loss %.5g  %s/s  left %s", 100 * done,
           (long long)progress->step, (long long)progress->steps, (long long)progress->epoch, progress->loss,
           tool_count(progress->examples_per_s, rate), tool_duration(progress->left_s, left));
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

static void show(void *user, const ronde_progress *progress) {
  (void)user;
  if (progress->epoch_end) {
    say_epoch(progress);
  } else if (shown.log_every > 0 && progress->step % shown.log_every == 0) {
    char rate[32];
    tool_say("step %lld/%lld  epoch %lld  loss %.6g  lr %.6g  %s examples/s", (long long)progress->step,
             (long long)progress->steps, (long long)progress->epoch, progress->loss, progress->lr,
             tool_count(progress->examples_per_s, rate));
  }
  double now = now_s();
  if (now - shown.redrawn_s < REDRAW_S && progress->step < progress->steps) return;
  shown.redrawn_s = now;
  int columns = tool_columns();
  if (columns > 0) draw_bar(progress, columns);
}

ronde_hooks tool_hooks(bool progress, int64_t log_every) {
  shown.log_every = log_every;
  return (ronde_hooks){.progress = progress ? show : NULL, .cancel = is_cancelled};
}

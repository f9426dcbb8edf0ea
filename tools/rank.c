/* What a process knows of itself where mpirun or srun started it: its rank, and the marks by which it tells the launcher
 * that it has begun and how it has ended. */
#include "launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *rank_mark(void) {
  static const char *const marks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  const char *rank = NULL;
  for (size_t i = 0; i < sizeof marks / sizeof *marks && !rank; i++) rank = getenv(marks[i]);
  return rank ? rank : "0";
}

bool tool_is_launched(void) {
  static const char *const marks[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (getenv(marks[i])) return true;
  return false;
}

bool tool_is_follower(void) { return tool_is_launched() && strcmp(rank_mark(), "0") != 0; }

bool tool_is_ours(void) { return getenv(TOOL_LAUNCHED) && tool_is_launched(); }

bool tool_is_compared(void) { return getenv(TOOL_COMPARED); }

bool tool_mark_send(const tool_mark *mark) {
  const char *key = getenv(TOOL_LAUNCHED);
  char line[TOOL_MARK_BYTES];
  if (!key || strlen(key) != TOOL_KEY_DIGITS || !tool_mark_write(key, mark, line)) return false;
  fprintf(stderr, "%s\n", line);
  fflush(stderr);
  return true;
}

static void send_own(tool_mark mark) {
  if (!tool_is_ours()) return;
  mark.number = (int)strtol(rank_mark(), NULL, 10);
  tool_mark_send(&mark);
}

void tool_mark_begin(void) {
  tool_mark mark = {.kind = TOOL_MARK_BEGIN, .a = getpid()};
  gethostname(mark.name, sizeof mark.name - 1);
  send_own(mark);
}

void tool_mark_joined(void *user) {
  (void)user;
  if (!tool_is_follower()) send_own((tool_mark){.kind = TOOL_MARK_JOINED});
}

void tool_mark_trains(void) {
  if (!tool_is_follower()) send_own((tool_mark){.kind = TOOL_MARK_TRAINS});
}

void tool_mark_ready(void) { send_own((tool_mark){.kind = TOOL_MARK_READY}); }

void tool_mark_lost(void *user, int64_t resumed_step, int64_t step) {
  (void)user;
  send_own((tool_mark){.kind = TOOL_MARK_LOST, .a = resumed_step, .b = step});
}

void tool_mark_without(void *user, int rank) {
  (void)user;
  tool_mark mark = {.kind = TOOL_MARK_WITHOUT, .number = rank};
  if (tool_is_ours()) tool_mark_send(&mark);
}

void tool_mark_end(int code) {
  fflush(stdout);
  send_own((tool_mark){.kind = TOOL_MARK_END, .a = code});
}

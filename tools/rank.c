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

void tool_mark_begin(void) {
  char host[64] = "";
  if (!tool_is_ours()) return;
  gethostname(host, sizeof host - 1);
  fprintf(stderr, TOOL_MARK TOOL_MARK_BEGIN "%s %d %s\n", rank_mark(), (int)getpid(), host);
  fflush(stderr);
}

void tool_mark_joined(void *user) {
  (void)user;
  if (!tool_is_ours() || tool_is_follower()) return;
  fprintf(stderr, TOOL_MARK TOOL_MARK_JOINED "\n");
  fflush(stderr);
}

void tool_mark_lost(void *user, int64_t resumed_step, int64_t step) {
  (void)user;
  if (!tool_is_ours()) return;
  fprintf(stderr, TOOL_MARK TOOL_MARK_LOST "%s %lld %lld\n", rank_mark(), (long long)resumed_step, (long long)step);
  fflush(stderr);
}

void tool_mark_without(void *user, int rank) {
  (void)user;
  if (!tool_is_ours()) return;
  fprintf(stderr, TOOL_MARK TOOL_MARK_WITHOUT "%d\n", rank);
  fflush(stderr);
}

void tool_mark_end(int code) {
  if (!tool_is_ours()) return;
  fflush(stdout);
  fprintf(stderr, TOOL_MARK TOOL_MARK_END "%s %d\n", rank_mark(), code);
  fflush(stderr);
}

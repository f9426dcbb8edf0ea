/* Runs the built program where something is wrong, and looks at how it ends. */
#include "bad_testing.h"

pid_t start(const char *words, const char *out_path) {
  char copy[1024], *argv[64] = {(char *)"ronde"};
  int argc = 1;
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child) return child;
  if (chdir(folder)) _exit(126);
  int out = open(out_path && *out_path ? out_path : "/dev/null", O_WRONLY);
  int err = open("err", O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (out < 0 || err < 0) _exit(125);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (out_path && !*out_path) close(STDOUT_FILENO);
  execv(RONDE_BINARY_DIR "/ronde", argv);
  _exit(127);
}

void pause_ms(long ms) { nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL); }

int finish(pid_t child, const char *words) {
  int status;
  uint64_t limit = ronde__now_ns() + TIME_LIMIT_NS;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (ronde__now_ns() > limit) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      fail_msg("ronde %s: did not end", words);
    }
    pause_ms(2);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

char *read_text(const char *name) {
  char *path = ronde__format("%s/%s", folder, name), *text = NULL;
  FILE *file = fopen(path, "r");
  free(path);
  if (!file) return NULL;
  size_t capacity = 0;
  if (getdelim(&text, &capacity, '\0', file) < 0) {
    free(text);
    text = strdup("");
  }
  fclose(file);
  return text;
}

static char temporary_found[4096];

static int note_temporary(const char *path, const struct stat *st, int type, struct FTW *at) {
  const char *name = path + at->base, *cache = strstr(name, ".cache");
  bool temporary = strncmp(name, ".ronde-", 7) == 0 || strstr(name, ".part") || (cache && strcmp(cache, ".cache"));
  if (temporary) snprintf(temporary_found, sizeof temporary_found, "%s", path);
  return 0;
}

void check_nothing_half_written(const char *words) {
  temporary_found[0] = '\0';
  nftw(folder, note_temporary, 8, FTW_PHYS);
  if (*temporary_found) fail_msg("ronde %s: left %s", words, temporary_found);
  char *old = read_text(OLD);
  assert_non_null(old);
  if (strcmp(old, OLD_TEXT)) fail_msg("ronde %s: " OLD " was changed", words);
  free(old);
  if (!file_exists(folder, "run/run.json")) return;
  json_t *run = json_file(folder, "run/run.json");
  if (!strcmp(text_at(run, "status"), "completed")) fail_msg("ronde %s: run.json says completed", words);
  json_decref(run);
}

void check_error_line(const char *words, const char *a, const char *b) {
  static const char prefix[] = "ronde: error: ";
  char *err = read_text("err"), *last = err, *newline;
  int n = 0;
  for (char *at = err; (at = strstr(at, prefix)); at += sizeof prefix - 1) ++n;
  size_t length = strlen(err);
  if (length && err[length - 1] == '\n') err[length - 1] = '\0';
  if ((newline = strrchr(err, '\n'))) last = newline + 1;
  if (n != 1 || strncmp(last, prefix, sizeof prefix - 1)) fail_msg("ronde %s: %d error lines:\n%s", words, n, err);
  if (!strstr(last, a)) fail_msg("ronde %s: does not say %s: %s", words, a, last);
  if (!strstr(last, b)) fail_msg("ronde %s: does not say %s: %s", words, b, last);
  free(err);
}

char *set_folder(const char *name) {
  char *path = ronde__format("%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0777), 0);
  return path;
}

void start_folder(void) {
  folder = test_folder_create();
  char *cache = ronde__format("%s/cache", folder);
  setenv("RONDE_CACHE_DIR", cache, 1);
  free(cache);
  test_write(folder, OLD, OLD_TEXT, strlen(OLD_TEXT));
}

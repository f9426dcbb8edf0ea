/* Runs shell commands and looks at what they print and how they end. */
#include "command_testing.h"

char said[65536];

int run(const char *format, ...) {
  char words[4096], command[5000];
  va_list args;
  va_start(args, format);
  vsnprintf(words, sizeof words, format, args);
  va_end(args);
  snprintf(command, sizeof command, "exec 2>&1; %s", words);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  size_t n = fread(said, 1, sizeof said - 1, pipe);
  said[n] = 0;
  while (fread(words, 1, sizeof words, pipe) > 0) { /* a closed pipe would be another error */
  }
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void check_run(int expected, int code) {
  if (code == expected) return;
  fprintf(stderr, "%s\n", said); /* whole: fail_msg() cuts it off */
  fail_msg("exit %d instead of %d", code, expected);
}

void check_says(const char *text) {
  if (!strstr(said, text)) fail_msg("no '%s' in:\n%s", text, said);
}

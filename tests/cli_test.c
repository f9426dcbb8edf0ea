/* The built program, as a user meets it: exit codes, which stream, the last line of an error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct outcome {
  int exit_code; /* -1: ended by a signal */
  char out[16384], err[16384];
} outcome;

static void read_back(int fd, char *text, size_t bytes) {
  lseek(fd, 0, SEEK_SET);
  size_t used = 0;
  ssize_t n;
  while (used < bytes - 1 && (n = read(fd, text + used, bytes - 1 - used)) > 0) used += (size_t)n;
  text[used] = '\0';
  close(fd);
}

static int unnamed_file(void) {
  char path[] = "/tmp/ronde-cli-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  unlink(path);
  return fd;
}

/* Runs `ronde` with words that blanks separate; stdout goes to out_path, or is caught where that is NULL. */
static void run(const char *words, const char *out_path, outcome *outcome) {
  char copy[1024], *argv[64] = {(char *)"ronde"};
  int argc = 1;
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
  int out = out_path ? open(out_path, O_WRONLY) : unnamed_file(), err = unnamed_file();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(RONDE_BINARY_DIR "/ronde", argv);
    _exit(127);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  outcome->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome->out[0] = '\0';
  if (out_path) {
    close(out);
  } else {
    read_back(out, outcome->out, sizeof outcome->out);
  }
  read_back(err, outcome->err, sizeof outcome->err);
}

/* The last line, without its newline. */
static const char *last_line(char *text) {
  size_t n = strlen(text);
  if (n && text[n - 1] == '\n') text[n - 1] = '\0';
  char *newline = strrchr(text, '\n');
  return newline ? newline + 1 : text;
}

static void test_help_goes_to_stdout(void **state) {
  (void)state;
  static const char *const cases[][3] = {
      {"--help", "ronde VERB --help", "Exit codes"},
      {"help", "predict CKPT INPUT", "version"},
      {"-h", "Verbs", "init"},
      {"train --help", "--optimizer sgd|adam|adamw|adagrad", "--[no-]shuffle"},
      {"help train", "[auto]", "--json"},
      {"train --batch 3 --help", "--batch N", "[128]"},
      {"help eval", "ronde eval CKPT [OPTIONS]", "--data NAME[:DIR]"},
      {"predict --help", "ronde predict CKPT INPUT [OPTIONS]", "--top K"},
      {"init --help", "-o FILE", "--shape CxHxW"},
      {"models --help", "ronde models [NAME]", "--quiet"},
      {"help version", "ronde version", "--json"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    outcome outcome;
    run(cases[i][0], NULL, &outcome);
    assert_int_equal(outcome.exit_code, 0);
    assert_string_equal(outcome.err, "");
    for (int j = 1; j < 3; j++) {
      if (!strstr(outcome.out, cases[i][j])) fail_msg("ronde %s does not say %s", cases[i][0], cases[i][j]);
    }
  }
}

static void test_wrong_usage_ends_with_2_and_one_line(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"", "a verb is missing"},
      {"trian", "unknown verb 'trian'; the nearest is train (ronde --help lists them)"},
      {"help evil", "unknown verb 'evil'; the nearest is eval (ronde --help lists them)"},
      {"--quiet train", "unknown option --quiet in front of the verb (ronde --help)"},
      {"help train eval", "unexpected word 'eval': ronde help VERB"},
      {"train --bacth 3", "unknown option --bacth; the nearest is --batch"},
      {"train --no-shufle", "unknown option --no-shufle; the nearest is --shuffle"},
      {"train --quite", "unknown option --quite; the nearest is --quiet"},
      {"train --top 3", "--top is not an option of train, but of predict"},
      {"models --jsom", "unknown option --jsom; the nearest is --json"},
      {"train -x", "unknown option -x: options begin with two dashes"},
      {"train --batch", "--batch needs a value: N"},
      {"train --out --json", "--out needs a value (DIR) in front of --json"},
      {"train --batch=", "--batch: '' is not a whole number from 1 to 16777216"},
      {"train --batch 0", "--batch: '0' is not a whole number from 1 to 16777216"},
      {"train --lr=fast", "--lr: 'fast' is not a number from 0 to 1e+09"},
      {"train --optimizer sdg", "--optimizer: 'sdg' is not sgd, adam, adamw or adagrad"},
      {"train --no-batch", "--no-batch: --batch takes a value, it cannot be negated"},
      {"train --no-shuffle=on", "--no-shuffle takes no value"},
      {"train --shuffle=perhaps", "--shuffle: 'perhaps' is not on or off"},
      {"train --json=perhaps", "--json: 'perhaps' is not on or off"},
      {"train lenet5", "unexpected word 'lenet5': ronde train"},
      {"eval --data mnist", "a file is missing: ronde eval CKPT"},
      {"predict a.safetensors", "a file is missing: ronde predict CKPT INPUT"},
      {"eval a b", "unexpected word 'b': ronde eval CKPT"},
      {"version -- --json", "unexpected word '--json': ronde version"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    outcome outcome;
    char wanted[256];
    snprintf(wanted, sizeof wanted, "ronde: error: %s", cases[i][1]);
    run(cases[i][0], NULL, &outcome);
    assert_int_equal(outcome.exit_code, 2);
    assert_string_equal(outcome.out, "");
    assert_string_equal(last_line(outcome.err), wanted);
    if (cases[i][0][0]) assert_ptr_equal(last_line(outcome.err), outcome.err);
  }
}

/* The environment is read for what the command line does not say, and checked alike. */
static void test_environment_is_read(void **state) {
  (void)state;
  outcome outcome;
  setenv("RONDE_BATCH", "many", 1);
  run("train", NULL, &outcome);
  assert_int_equal(outcome.exit_code, 2);
  assert_string_equal(last_line(outcome.err),
                      "ronde: error: RONDE_BATCH: 'many' is not a whole number from 1 to 16777216");
  run("train --batch 42 --help", NULL, &outcome);
  unsetenv("RONDE_BATCH");
  assert_int_equal(outcome.exit_code, 0);
}

static void test_version_and_models_print_results(void **state) {
  (void)state;
  static const char *const human[][2] = {{"version", "ronde "},
                                         {"--version", "ronde "},
                                         {"models", "lenet5"},
                                         {"models lenet5", "conv1.weight"}};
  outcome outcome;
  for (size_t i = 0; i < COUNT(human); i++) {
    run(human[i][0], NULL, &outcome);
    assert_int_equal(outcome.exit_code, 0);
    assert_non_null(strstr(outcome.out, human[i][1]));
    assert_string_equal(outcome.err, "");
  }
  static const char *const json[][2] = {{"version --json", "isa"},
                                        {"models --json", "models"},
                                        {"models lenet5 --json --quiet", "tensors"}};
  for (size_t i = 0; i < COUNT(json); i++) {
    run(json[i][0], NULL, &outcome);
    assert_int_equal(outcome.exit_code, 0);
    json_t *object = json_loads(outcome.out, 0, NULL);
    assert_non_null(json_object_get(object, json[i][1]));
    json_decref(object);
  }
  run("models nosuchnet", NULL, &outcome);
  assert_int_equal(outcome.exit_code, 2);
  assert_string_equal(outcome.out, "");
  assert_memory_equal(last_line(outcome.err), "ronde: error: ", 14);
}

static void test_output_that_is_lost_is_an_error(void **state) {
  (void)state;
  outcome outcome;
  run("version", "/dev/full", &outcome);
  assert_int_equal(outcome.exit_code, 6);
  assert_string_equal(last_line(outcome.err), "ronde: error: standard output: cannot write: No space left on device");
  run("--help", "/dev/full", &outcome);
  assert_int_equal(outcome.exit_code, 6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help_goes_to_stdout),
      cmocka_unit_test(test_wrong_usage_ends_with_2_and_one_line),
      cmocka_unit_test(test_environment_is_read),
      cmocka_unit_test(test_version_and_models_print_results),
      cmocka_unit_test(test_output_that_is_lost_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

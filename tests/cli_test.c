/* The built program, as a user meets it: exit codes, which stream, the last line of an error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct outcome {
  int exit_code;               /* -1: ended by a signal */
  char out[32768], err[16384]; /* --help of train is the longest */
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
      {"train --help", "--optimizer sgd|adam|adamw|adagrad|rmsprop|lbfgs", "--[no-]shuffle"},
      {"help train", "[auto]", "--json"},
      {"train --batch 3 --help", "--batch N", "[128]"},
      {"help eval", "ronde eval CKPT [OPTIONS]", "--data NAME[:DIR]"},
      {"predict --help", "ronde predict CKPT INPUT... [OPTIONS]", "--top K"},
      {"init --help", "-o FILE", "--shape CxHxW"},
      {"models --help", "ronde models [NAME]", "--quiet"},
      {"help data", "ronde data ACTION [NAME] [OPTIONS]", "--from URL"},
      {"help ckpt", "ronde ckpt ACTION A [B]", "--json"},
      {"export --help", "ronde export CKPT", "--output FILE"},
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
      {"train --no-shufle", "unknown option --no-shufle; the nearest is --no-shuffle"},
      {"train --quite", "unknown option --quite; the nearest is --quiet"},
      {"train --learning-rate 0.1", "unknown option --learning-rate; here it is --lr"},
      {"train --device cuda", "unknown option --device: Ronde computes on the CPU; there is no device to choose"},
      {"train --frobnicate 3", "unknown option --frobnicate; `ronde train --help` lists them"},
      {"models --frobnicate", "unknown option --frobnicate; `ronde models --help` lists them"},
      {"frobnicate", "unknown verb 'frobnicate' (ronde --help lists them)"},
      {"data frobnicate", "ronde data frobnicate: unknown word; choose from list, info, get, convert, tokenize"},
      {"train --top 3", "--top is not an option of train, but of predict"},
      {"models --jsom", "unknown option --jsom; the nearest is --json"},
      {"train -x", "unknown option -x: options begin with two dashes"},
      {"train --batch", "--batch needs a value: N"},
      {"train --out --json", "--out needs a value (DIR), but --json follows it"},
      {"train --batch=", "--batch: '' is not a whole number from 1 to 16777216"},
      {"train --batch 0", "--batch: '0' is not a whole number from 1 to 16777216"},
      {"train --lr=fast", "--lr: 'fast' is not a number from 0 to 1e+09"},
      {"train --optimizer sdg", "--optimizer: 'sdg' is not sgd, adam, adamw, adagrad, rmsprop or lbfgs"},
      {"train --no-normalise", "unknown option --no-normalise; the nearest is --normalize"},
      {"train --no-batch", "--no-batch: --batch takes a value and cannot be negated"},
      {"train --no-shuffle=on", "--no-shuffle takes no value"},
      {"train --shuffle=perhaps", "--shuffle: 'perhaps' is not on or off"},
      {"train --json=perhaps", "--json: 'perhaps' is not on or off"},
      {"train lenet5", "unexpected word 'lenet5': ronde train"},
      {"eval --data mnist", "a file is missing: ronde eval CKPT"},
      {"predict a.safetensors", "a file is missing: ronde predict CKPT INPUT..."},
      {"eval a b", "unexpected word 'b': ronde eval CKPT"},
      {"data", "what to do is missing: ronde data list, info, get, convert or tokenize"},
      {"bench", "a word is missing: ronde bench SUITE (ronde bench --help lists them)"},
      {"bench colectives",
       "ronde bench colectives: unknown word; the nearest is collectives (of collectives, step, kernels, batches, "
       "replicas, "
       "techniques, execution, clusters)"},
      {"help bench collectives more", "unexpected word 'more': ronde help VERB"},
      {"data gett mnist", "ronde data gett: unknown word; the nearest is get (of list, info, get, convert, tokenize)"},
      {"data info", "a data set is missing: ronde data info NAME"},
      {"data list mnist", "unexpected word 'mnist': ronde data list"},
      {"data list -o x", "ronde data list: --output can have no effect"},
      {"data list --layout nhwc", "ronde data list: --layout can have no effect"},
      {"data get npy:x", "data set npy:x cannot be downloaded; there are fashion-mnist, mnist, cifar10, cifar100"},
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

/* Once, in front of everything else, and the run goes on. */
static void test_misspelt_variables_are_said(void **state) {
  (void)state;
  outcome outcome;
  setenv("RONDE_EPOCS", "3", 1);
  run("data list", NULL, &outcome);
  assert_int_equal(outcome.exit_code, 0);
  assert_string_equal(outcome.err,
                      "ronde: warning: the environment variable RONDE_EPOCS is ignored; the nearest is RONDE_EPOCHS\n");
  run("data list --quiet", NULL, &outcome);
  unsetenv("RONDE_EPOCS");
  assert_string_equal(outcome.err, "");
}

/* Whatever a value holds: what clears a screen, sets its title or types into it. U+009B is one of them. */
static void test_control_characters_do_not_reach_the_terminal(void **state) {
  (void)state;
  static const char *const words[] = {"train --model \x1b[2Jx --data mnist",
                                      "train --data \x1b]0;title\a",
                                      "train --\x1b[2J 3",
                                      "train --batch \x1b[31m7",
                                      "eval \x1b[2J --data mnist",
                                      "\x1b[2J",
                                      "data info npy:\x9b"
                                      "2J",
                                      "data info npy:\xc2\x9b"
                                      "2J",
                                      "data \x1b[2J",
                                      "models \x1b[2J",
                                      "ckpt info \x7f\b\r",
                                      "train --lr=\x1b[2J",
                                      "train --model lenet5 --data mnist --hostfile \x1b[2J",
                                      "train x\x1b[2J"};
  for (size_t i = 0; i < COUNT(words); i++) {
    outcome outcome;
    run(words[i], NULL, &outcome);
    assert_true(outcome.exit_code == 2 || outcome.exit_code == 3);
    assert_string_equal(outcome.out, "");
    size_t n = strlen(outcome.err);
    assert_true(n > 0 && outcome.err[n - 1] == '\n');
    for (size_t c = 0; c + 1 < n; c++) {
      unsigned char byte = (unsigned char)outcome.err[c];
      if (byte < 0x20 || byte > 0x7e) fail_msg("ronde %s: byte %02x in %s", words[i], byte, outcome.err);
    }
  }
}

/* The line holds the start of the value, an ellipsis, and the reason. */
static void test_long_values_are_cut(void **state) {
  (void)state;
  enum { LONG = 900 }; /* what `run` takes */
  static const char *const cases[][2] = {{"train --model lenet5 --data npy:", "File name too long"},
                                         {"train --model ", "no such network"},
                                         {"train --batch ", "is not a whole number"},
                                         {"train --model lenet5 --data ", "is unknown: there are"},
                                         {"train --drill ", "expected load:"},
                                         {"", "unknown verb"},
                                         {"train --", "`ronde train --help` lists them"},
                                         {"data ", "unknown word; "},
                                         {"help train ", "ronde help VERB"}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    char words[1024];
    outcome outcome;
    int used = snprintf(words, sizeof words, "%s", cases[i][0]);
    memset(words + used, 'q', LONG);
    snprintf(words + used + LONG, sizeof words - (size_t)used - LONG, "%s",
             strstr(cases[i][0], "--drill") ? " --model lenet5 --data synthetic:1x28x28:2:256" : "");
    run(words, NULL, &outcome);
    const char *line = last_line(outcome.err);
    if (!strstr(line, cases[i][1]) && i > 0) fail_msg("no '%s' in %s", cases[i][1], line);
    if (i > 0 && strlen(line) > 320) fail_msg("%zu bytes: %s", strlen(line), line);
    assert_memory_equal(line, "ronde: error: ", 14);
  }
}

static void test_version_and_models_print_results(void **state) {
  (void)state;
  static const char *const human[][2] = {
      {"version", "ronde "}, {"--version", "ronde "}, {"models", "lenet5"}, {"models lenet5", "conv1.weight"}};
  outcome outcome;
  for (size_t i = 0; i < COUNT(human); i++) {
    run(human[i][0], NULL, &outcome);
    assert_int_equal(outcome.exit_code, 0);
    assert_non_null(strstr(outcome.out, human[i][1]));
    assert_string_equal(outcome.err, "");
  }
  static const char *const json[][2] = {
      {"version --json", "isa"}, {"models --json", "models"}, {"models lenet5 --json --quiet", "tensors"}};
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
  run("train --model lenet5 --batch 20 --json --data synthetic:1x28x28:10:60", "/dev/full", &outcome);
  assert_int_equal(outcome.exit_code, 6);
  assert_null(strstr(outcome.err, "completed"));
  assert_null(strstr(outcome.err, "phase"));
  assert_string_equal(last_line(outcome.err), "ronde: error: standard output: cannot write: No space left on device");
  run("--help", "/dev/full", &outcome);
  assert_int_equal(outcome.exit_code, 6);
}

/* A new folder, which is entered; leave_folder removes it. */
static int enter_folder(void **state) {
  static char path[64];
  snprintf(path, sizeof path, "/tmp/ronde-cli-XXXXXX");
  if (!mkdtemp(path) || chdir(path)) return -1;
  *state = path;
  return setenv("RONDE_CACHE_DIR", path, 1);
}

static int leave_folder(void **state) {
  char command[96];
  snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
  unsetenv("RONDE_CACHE_DIR");
  return chdir("/") || system(command);
}

/* Runs, wants success, and every one of the texts (ended by NULL) in the stream. */
static void check_says(const char *words, bool on_stdout, const char *const texts[]) {
  outcome outcome;
  run(words, NULL, &outcome);
  if (outcome.exit_code != 0) fail_msg("ronde %s: exit code %d: %s", words, outcome.exit_code, outcome.err);
  const char *said = on_stdout ? outcome.out : outcome.err;
  for (int i = 0; texts[i]; i++) {
    if (!strstr(said, texts[i])) fail_msg("ronde %s: does not say %s:\n%s", words, texts[i], said);
  }
  assert_string_equal(on_stdout ? "" : outcome.out, "");
}

#define SET "--data synthetic:1x28x28:10:60 "

static void test_training_is_told_on_stderr(void **state) {
  static const char *const epochs[] = {"epoch  train loss  accuracy   test loss  accuracy   examples/s      time\n",
                                       "\n    1 ",
                                       "\n    2 ",
                                       "completed: lenet5",
                                       "2 workers",
                                       "6 steps",
                                       "120 examples",
                                       "  test        accuracy 0.",
                                       "  training    accuracy 0.",
                                       "  time, %     ",
                                       "run/run.json (-v prints its tables)",
                                       NULL};
  static const char *const steps[] = {"step 2/3  epoch 1", "lr 0.05", NULL};
  check_says("train --model lenet5 --batch 20 --epochs 2 --workers 2 --out run " SET, false, epochs);
  check_says("train --model lenet5 --batch 20 --log-every 2 --lr 0.05 " SET, false, steps);
  static const char *const late[] = {"last to come", "mostly by", "  compute\n", NULL};
  check_says("train --model lenet5 --batch 20 --workers 2 --drill slow:1:40 -v " SET, false, late);
  static const char *const tables[] = {"phase", "rank", "convolution", "evaluation", NULL};
  check_says("train --model lenet5 --batch 20 --no-shuffle --cache on --drop-last --verbose " SET, false, tables);
}

/* Without -v: a table of epochs, at most ten lines behind it, none longer than a terminal; with it no longer ones either. */
static void test_what_is_told_fits_a_terminal(void **state) {
  static const char *const levels[] = {"", "-v"};
  for (int v = 0; v < 2; v++) {
    char words[200];
    outcome outcome;
    snprintf(words, sizeof words, "train --model lenet5 --batch 20 --epochs 3 --workers 3 --out told%d %s " SET, v,
             levels[v]);
    run(words, NULL, &outcome);
    const char *end = strstr(outcome.err, "\ncompleted");
    assert_non_null(end);
    int n_lines = 0;
    for (const char *line = outcome.err, *next; *line; line = next) {
      size_t bytes = strcspn(line, "\n");
      next = line + bytes + (line[bytes] != 0);
      if (bytes > 80) fail_msg("%zu columns: %.*s", bytes, (int)bytes, line);
      n_lines += line > end;
    }
    assert_int_equal(n_lines <= 10, v == 0);
  }
  outcome outcome;
  run("train --model lenet5 -v --quiet " SET, NULL, &outcome);
  assert_int_equal(outcome.exit_code, 2);
  assert_non_null(strstr(outcome.err, "--quiet and --verbose contradict each other"));
  run("models -v", NULL, &outcome);
  assert_int_equal(outcome.exit_code, 2);
}

/* What a run will keep, and where it begins, is said; a complete one says so and ends. */
static void test_what_is_kept_is_told(void **state) {
#define TRAIN "train --model lenet5 --batch 20 "
  static const char *const nothing[] = {"nothing from this training will be kept: --out DIR keeps", NULL};
  check_says(TRAIN SET, false, nothing);
  static const char *const first[] = {"completed: ", NULL};
  check_says(TRAIN "--out kept " SET, false, first);
  outcome outcome;
  run(TRAIN "--out kept " SET, NULL, &outcome);
  assert_int_equal(outcome.exit_code, 2);
  assert_string_equal(last_line(outcome.err),
                      "ronde: error: --out kept holds another run (run.json): --resume kept "
                      "continues it, --overwrite removes it");
  static const char *const complete[] = {
      "the run is complete at step 3 (kept/checkpoints/step-3.safetensors): give more --epochs", NULL};
  check_says("train --resume kept", false, complete);
  static const char *const longer[] = {"resuming from step 3 (kept/checkpoints/step-3.safetensors)", "\n    2 ", NULL};
  check_says("train --resume kept --epochs 2", false, longer);
  check_says(TRAIN "--out kept --overwrite " SET, false, first);
  run(TRAIN "--dry-run " SET, NULL, &outcome);
  assert_null(strstr(outcome.err, "nothing from this"));
#undef TRAIN
}

static void test_quiet_and_json(void **state) {
  outcome outcome;
  run("train --model lenet5 --batch 20 --quiet " SET, NULL, &outcome);
  assert_int_equal(outcome.exit_code, 0);
  assert_string_equal(outcome.out, "");
  assert_string_equal(outcome.err, "");
  run("train --model lenet5 --batch 20 --quiet --json " SET, NULL, &outcome);
  json_t *run_json = json_loads(outcome.out, 0, NULL);
  assert_string_equal(json_string_value(json_object_get(run_json, "schema")), "ronde.run.v1");
  json_t *command = json_object_get(run_json, "command");
  assert_string_equal(json_string_value(json_array_get(command, 1)), "train");
  assert_string_equal(json_string_value(json_array_get(command, 3)), "lenet5");
  assert_string_equal(outcome.err, "");
  json_decref(run_json);
}

static void test_a_plan_is_a_result(void **state) {
  static const char *const plan[] = {"parameters     61,706", "batch          20", "steps          30", "memory", NULL};
  outcome outcome;
  run("train --model lenet5 --batch 20 --epochs 10 --dry-run " SET, NULL, &outcome);
  assert_int_equal(outcome.exit_code, 0);
  for (int i = 0; plan[i]; i++) {
    if (!strstr(outcome.out, plan[i])) fail_msg("the plan does not say %s:\n%s", plan[i], outcome.out);
  }
  run("train --model lenet5 --batch 20 --dry-run --json --quiet " SET, NULL, &outcome);
  json_t *json = json_loads(outcome.out, 0, NULL);
  assert_int_equal(json_integer_value(json_object_get(json, "parameters")), 61706);
  json_decref(json);
}

/* From init to predict, each named as a user would. */
static void test_weights_go_from_verb_to_verb(void **state) {
  static const char *const wrote[] = {"wrote fresh.safetensors", NULL};
  static const char *const completed[] = {"completed", NULL};
  static const char *const figures[] = {"loss      ", "accuracy  ", "examples  12", "sha256 ", NULL};
  check_says("init --model lenet5 --shape 1x28x28 --classes 10 --seed 3 -o fresh.safetensors", false, wrote);
  check_says("train --init fresh.safetensors --batch 20 --save net.safetensors " SET, false, completed);
  check_says("eval net.safetensors --batch=12 " SET, true, figures);
  static const unsigned char image[28 * 28];
  static const char dict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 28, 28), }";
  char header[128] = "\x93NUMPY\1\0";
  header[8] = 118;
  memset(header + 10, ' ', sizeof header - 10);
  memcpy(header + 10, dict, sizeof dict - 1);
  header[127] = '\n';
  FILE *file = fopen("image.npy", "wb");
  assert_non_null(file);
  fwrite(header, 1, sizeof header, file);
  fwrite(image, 1, sizeof image, file);
  assert_int_equal(fclose(file), 0);
  static const char *const classes[] = {"class", NULL};
  check_says("predict net.safetensors image.npy --top 3", true, classes);
  outcome outcome;
  run("predict net.safetensors image.npy --top 3 --format json", NULL, &outcome);
  json_t *by_format = json_loads(outcome.out, 0, NULL);
  assert_non_null(json_object_get(by_format, "examples"));
  json_decref(by_format);
  run("predict net.safetensors image.npy --top 3 --json", NULL, &outcome);
  json_t *json = json_loads(outcome.out, 0, NULL);
  json_t *example = json_array_get(json_object_get(json, "examples"), 0);
  assert_int_equal(json_array_size(json_object_get(example, "classes")), 3);
  json_decref(json);
}

static void check_same(const json_t *a, const json_t *b, const char *key) {
  const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
  assert_true((!x && !y) || json_equal(x, y));
}

/* Classes by name, of which some have none, or values: each line is what --json says of its example. */
static void check_lines(const char *words, const char *key, size_t n) {
  char text[512];
  static outcome lines, whole;
  snprintf(text, sizeof text, "predict %s --format jsonl", words);
  run(text, NULL, &lines);
  assert_int_equal(lines.exit_code, 0);
  snprintf(text, sizeof text, "predict %s --json", words);
  run(text, NULL, &whole);
  json_t *json = json_loads(whole.out, 0, NULL), *examples = json_object_get(json, "examples");
  assert_int_equal(json_array_size(examples), n);
  char *line = strtok(lines.out, "\n");
  for (size_t i = 0; i < n; i++, line = strtok(NULL, "\n")) {
    json_t *told = json_loads(line, 0, NULL), *wanted = json_array_get(examples, i);
    assert_non_null(told);
    assert_int_equal(json_integer_value(json_object_get(told, "index")), i);
    check_same(told, wanted, "file");
    json_t *rows = json_object_get(told, key), *wanted_rows = json_object_get(wanted, key);
    assert_int_equal(json_array_size(rows), json_array_size(wanted_rows));
    for (size_t k = 0; k < json_array_size(rows); k++) {
      json_t *row = json_array_get(rows, k), *other = json_array_get(wanted_rows, k);
      bool is_class = json_is_object(row);
      check_same(row, other, "class");
      check_same(row, other, "name");
      if (is_class) row = json_object_get(row, "probability"), other = json_object_get(other, "probability");
      assert_float_equal(json_real_value(row), json_real_value(other), 1e-5);
    }
    json_decref(told);
  }
  assert_null(line);
  json_decref(json);
}

static void write_table(const char *path, const char *targets[3]) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file, "a,b,c\n");
  for (int i = 0; i < 24; i++) fprintf(file, "%d,%d,%s\n", i % 7, i % 5 * i % 3, targets[i % 3]);
  assert_int_equal(fclose(file), 0);
}

static void test_predictions_as_lines(void **state) {
  static const char *const completed[] = {"completed", NULL};
  write_table("names.csv", (const char *[3]){"ant", "\"a \"\"bee\"\"\"", "cat"});
  write_table("values.csv", (const char *[3]){"0.5", "-1.25", "2.75"});
  check_says("train --model mlp:8 --data csv:names.csv --target c --batch 8 --save names", false, completed);
  check_says("train --model mlp:8 --data csv:values.csv --target c --batch 8 --loss mse --save values", false,
             completed);
  check_lines("names names.csv --top 2", "classes", 24);
  check_lines("values values.csv", "values", 24);
  static outcome outcome;
  assert_int_equal(rename("values.csv", "\xff.csv"), 0);
  run("predict values \xff.csv --format jsonl", NULL, &outcome);
  char *line = strtok(outcome.out, "\n");
  for (int i = 0; i < 24; i++, line = strtok(NULL, "\n")) {
    json_t *told = json_loads(line, 0, NULL);
    assert_true(json_is_null(json_object_get(told, "file")));
    json_decref(told);
  }
}

/* What is kept out of training is validated, not tested. */
/* The prompt, the bytes that are drawn behind it, and a line end; or a line for each of them. */
static void test_a_text_goes_on(void **state) {
  static outcome text, lines;
  static const char *const completed[] = {"completed", NULL};
  FILE *to = fopen("numbers.txt", "w");
  for (int i = 0; i < 200; i++) fprintf(to, "%d\n", i);
  assert_int_equal(fclose(to), 0);
  check_says("train --model gpt-tiny --data text:numbers.txt --window 16 --batch 8 --steps 2 --save text", false,
             completed);
  run("predict text --prompt 17 --tokens 5 --temperature 0", NULL, &text);
  assert_int_equal(text.exit_code, 0);
  assert_int_equal(strlen(text.out), 2 + 5 + 1);
  assert_true(!strncmp(text.out, "17", 2) && text.out[7] == '\n');
  run("predict text --prompt 17 --tokens 5 --temperature 0 --format jsonl", NULL, &lines);
  assert_int_equal(lines.exit_code, 0);
  char *line = strtok(lines.out, "\n");
  for (int i = 0; i < 5; i++, line = strtok(NULL, "\n")) {
    json_t *told = json_loads(line, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(told, "token")), (unsigned char)text.out[2 + i]);
    json_decref(told);
  }
  run("predict text", NULL, &text);
  assert_int_equal(text.exit_code, 2);
}

static void test_validation_is_called_so(void **state) {
  static const char *const tested[] = {"  test loss ", "\n  test        accuracy 0.", NULL};
  static const char *const validated[] = {"  val. loss ", "\n  validation  accuracy 0.", NULL};
  static const char *const evaluated[] = {"examples  12 (val)", NULL};
  outcome outcome;
  check_says("train --model lenet5 --batch 20 " SET, false, tested);
  check_says("train --model lenet5 --batch 20 --val-split 0.2 --save net.safetensors " SET, false, validated);
  run("train --model lenet5 --batch 20 --val-split 0.2 " SET, NULL, &outcome);
  assert_null(strstr(outcome.err, "test "));
  check_says("eval net.safetensors --split val " SET, true, evaluated);
}

/* A value of the environment counts where the command line says nothing. */
static void test_environment_reaches_the_run(void **state) {
  outcome outcome;
  setenv("RONDE_BATCH", "30", 1);
  setenv("RONDE_MODEL", "lenet5", 1);
  run("train --json --quiet --lr 0.02 " SET, NULL, &outcome);
  unsetenv("RONDE_BATCH");
  unsetenv("RONDE_MODEL");
  assert_int_equal(outcome.exit_code, 0);
  json_t *json = json_loads(outcome.out, 0, NULL), *config = json_object_get(json, "config");
  assert_int_equal(json_integer_value(json_object_get(config, "batch")), 30);
  assert_true(json_real_value(json_object_get(config, "lr")) == 0.02);
  json_decref(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help_goes_to_stdout),
      cmocka_unit_test(test_wrong_usage_ends_with_2_and_one_line),
      cmocka_unit_test(test_environment_is_read),
      cmocka_unit_test(test_misspelt_variables_are_said),
      cmocka_unit_test(test_control_characters_do_not_reach_the_terminal),
      cmocka_unit_test(test_long_values_are_cut),
      cmocka_unit_test(test_version_and_models_print_results),
      cmocka_unit_test(test_output_that_is_lost_is_an_error),
      cmocka_unit_test_setup_teardown(test_training_is_told_on_stderr, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_what_is_told_fits_a_terminal, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_what_is_kept_is_told, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_quiet_and_json, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_a_plan_is_a_result, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_weights_go_from_verb_to_verb, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_predictions_as_lines, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_a_text_goes_on, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_validation_is_called_so, enter_folder, leave_folder),
      cmocka_unit_test_setup_teardown(test_environment_reaches_the_run, enter_folder, leave_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

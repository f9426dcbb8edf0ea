/* What a user is told who got something slightly wrong, or looks at a result on a terminal. */
#include "command_testing.h"

#include <unistd.h>

#define ONE "--batch 10 --steps 1 --threads 1 --quiet "

static void not_said(const char *text) {
  if (strstr(said, text)) fail_msg("\"%s\" is said:\n%s", text, said);
}

/* Inputs of other channels or columns than the weights know are refused by both shapes; images of another size are told,
 * because a network may take any. */
static void other_inputs_than_in_training(void **state) {
  (void)state;
  check_run(0, run(RONDE " train --model lenet5 --data synthetic:1x32x32:4:40 " ONE "--save of32"));
  check_run(0, run(RONDE " data convert synthetic:3x32x32:4:10 -o colour --quiet"));
  check_run(3, run(RONDE " predict of32 colour/train_x.npy"));
  check_says("of32 was trained on inputs of 1x32x32, but these are 3x32x32");
  check_run(3, run(RONDE " eval of32 --data npy:colour"));
  check_says("of32 was trained on inputs of 1x32x32, but these are 3x32x32");
  check_run(0, run(RONDE " data convert synthetic:1x28x28:4:10 -o small --quiet"));
  check_run(0, run(RONDE " predict of32 small/train_x.npy"));
  check_says("warning: of32 was trained on images of 1x32x32, but these are 1x28x28: --resize 32x32 brings");
  check_run(0, run(RONDE " eval of32 --data npy:small"));
  check_says("--resize 32x32 brings them to that size");
  check_run(0, run(RONDE " predict of32 small/train_x.npy --resize 32x32"));
  not_said("was trained on");
  check_run(0, run(RONDE " eval of32 --data synthetic:1x32x32:4:40"));
  not_said("was trained on");
}

static void near_names(void **state) {
  (void)state;
  static const struct {
    int exit_code;
    const char *words, *hint;
  } cases[] = {
      {2, "--model resnet-18", "--model resnet-18: no such network; the nearest is resnet18;"},
      {2, "--model efficientnet", "--model efficientnet: no such network; `ronde models` lists them"},
      {2, "--model lenet5 --lerning-rate 1", "the nearest is --lr"},
      {2, "--model lenet5 --bacthsize 1", "the nearest is --batch"},
      {2, "--model lenet5 --l2 1", "here it is --weight-decay"},
      {2, "--model lenet5 --hidden 1", "--model mlp:256,64 has these hidden layers"},
      {2, "--model lenet5 --amp", "with --dtype bf16 large layers multiply in bfloat16"},
      {3, "--model lenet5 --data no/where", "no/where: no such file or folder"},
      {3, "--model lenet5 --data synthetic:1x28x28:4:40 --init text", "text: offset 0: not a safetensors file"},
  };
  check_run(0, run("echo 'this is a text, not weights' >text"));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check_run(cases[i].exit_code, run(RONDE " train %s", cases[i].words));
    check_says(cases[i].hint);
  }
}

/* A table of one column in which the values have a name, row by row. */
static void values_by_row_and_name(void **state) {
  (void)state;
  check_run(0, run("{ echo a,price; for i in 1 2 3 4 5 6 7 8 9 10; do echo $i,$i.25; done; } >t.csv"));
  check_run(0, run(RONDE " train --model mlp:4 --data csv:t.csv --target price " ONE "--save values"));
  check_run(0, run(RONDE " predict values t.csv"));
  check_says("t.csv [0]\n  value    0");
  check_says("  price\nt.csv [1]\n");
  check_run(0, run(RONDE " predict values t.csv --format csv 2>/dev/null | tr -d '\\r' >told.csv; head -n 1 told.csv"));
  check_says("file,index,price\n");
  check_run(0, run(RONDE " predict values t.csv --format jsonl 2>/dev/null | sed 's/.*\\[//; s/\\].*//' >told.json; "
                         "cut -d, -f3 told.csv | sed 1d | paste - told.json | awk '$1 != $2 { print; exit 1 }'"));
}

static void help_fits_80_columns(void **state) {
  (void)state;
  check_run(
      0, run("for verb in '' train compare advise eval predict init models data ckpt export 'bench step' doctor report "
             "version manual; do " RONDE " $verb --help || exit 1; done | "
             "awk '{ if (length($0) > 80) { print length($0) \": \" $0; bad = 1 } } END { exit bad }'"));
}

/* Elsewhere a line is a row. */
static void a_wide_table_goes_on_below(void **state) {
  (void)state;
#define COMPARE \
  RONDE " compare --model lenet5 --data synthetic:1x28x28:4:20 --batch 10 --exec graph,eager --rounds 1 --threads 1 "
  check_run(0, run(COMPARE "2>/dev/null | grep '^exec=eager '"));
  check_says("MiB");
  check_run(
      0, run("TERM=xterm script -qec 'stty cols 80; " COMPARE "2>/dev/null' /dev/null </dev/null | tr -d '\\r' >told; "
             "awk '/^case / { n++ } /^case/,/^$/ { if (length($0) > 80) { print; bad = 1 } } END { exit bad || n < 4 "
             "}' told"));
}

static void errors_are_coloured_on_a_terminal_alone(void **state) {
  (void)state;
  check_run(2, run(RONDE " train --model nothing"));
  not_said("\033[");
  check_run(2, run("TERM=xterm script -qec '" RONDE " train --model nothing' /dev/null </dev/null"));
  check_says("\033[");
  check_run(2, run("NO_COLOR=1 TERM=xterm script -qec '" RONDE " train --model nothing' /dev/null </dev/null"));
  not_said("\033[");
}

static int enter_new_folder(void **state) {
  (void)state;
  char path[] = "/tmp/ronde-hints-XXXXXX";
  if (!mkdtemp(path) || chdir(path)) return -1;
  return setenv("RONDE_CACHE_DIR", path, 1);
}

static int leave_and_remove(void **state) {
  (void)state;
  return run("rm -rf \"$RONDE_CACHE_DIR\"") || unsetenv("RONDE_CACHE_DIR") || chdir("/");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_inputs_than_in_training), cmocka_unit_test(near_names),
      cmocka_unit_test(values_by_row_and_name),        cmocka_unit_test(help_fits_80_columns),
      cmocka_unit_test(a_wide_table_goes_on_below),    cmocka_unit_test(errors_are_coloured_on_a_terminal_alone),
  };
  return cmocka_run_group_tests(tests, enter_new_folder, leave_and_remove);
}

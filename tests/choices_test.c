/* `ronde train --choices`: what one run chose is chosen again, or the run is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <unistd.h>

#include "command_testing.h"

#define TRAIN \
  "timeout 100 " RONDE " train --model lenet5 --data synthetic:1x28x28:10:200 --batch 50 --threads 1 --quiet "

static char folder[] = "/tmp/ronde-choices-XXXXXX";
static int make_folder(void **state) { return mkdtemp(folder) ? chdir(folder) : 1; }
static int remove_folder(void **state) { return chdir("/") ? 1 : run("rm -r %s", folder); }

static json_t *record(const char *name) {
  char path[64];
  snprintf(path, sizeof path, "%s/run.json", name);
  json_t *json = json_load_file(path, 0, NULL);
  assert_non_null(json);
  return json;
}

static json_t *choice(const json_t *run, const char *name) {
  json_t *row;
  size_t i;
  json_array_foreach(json_object_get(run, "choices"), i,
                     row) if (!strcmp(json_string_value(json_object_get(row, "choice")), name)) return row;
  return NULL;
}

static void check_choice(const char *name, const char *value, const char *reason) {
  json_t *run = record(name), *row = choice(run, "collective");
  assert_non_null(row);
  assert_string_equal(json_string_value(json_object_get(row, "value")), value);
  const char *why = json_string_value(json_object_get(row, "reason"));
  assert_non_null(why);
  if (!strstr(why, reason)) fail_msg("'%s' has no '%s'", why, reason);
  json_decref(run);
}

static char *hash_of(const char *name) {
  json_t *run = record(name);
  char *hash = strdup(json_string_value(json_object_get(json_object_get(run, "result"), "weights_sha256")));
  json_decref(run);
  return hash;
}

static void write_choices(const char *text) {
  FILE *file = fopen("choices.json", "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void a_record_is_chosen_again(void **state) {
  check_run(0, run(TRAIN "--workers 3 --out auto"));
  check_choice("auto", "ring", "modelled for 3 ranks on 1 host, vectors of ");
  check_run(0, run(TRAIN "--workers 3 --collective tree --out tree"));
  check_choice("tree", "tree", "named by --collective");
  check_run(0, run(TRAIN "--workers 3 --choices tree/run.json --out again"));
  check_choice("again", "tree", "named by --choices");
  char *chosen = hash_of("auto"), *tree = hash_of("tree"), *again = hash_of("again");
  assert_string_equal(again, tree);
  assert_string_not_equal(chosen, tree);
  free(chosen);
  free(tree);
  free(again);
  check_run(0, run(TRAIN "--workers 1 --out one"));
  check_run(0, run(TRAIN "--workers 1 --choices one/run.json")); /* every choice of any record is known */
}

static void a_file_may_name_one_choice(void **state) {
  write_choices("{\"collective\": \"halving-doubling\"}");
  check_run(0, run(TRAIN "--workers 3 --choices choices.json --out half"));
  check_choice("half", "halving-doubling", "named by --choices");
  check_run(0, run(TRAIN "--workers 3 --choices choices.json --collective halving-doubling"));
  check_run(2, run(TRAIN "--workers 3 --choices choices.json --collective ring"));
  check_says(
      "ronde: error: --collective ring, but --choices choices.json has halving-doubling: give only one of the two");
  check_run(2, run(TRAIN "--workers 3 --choices choices.json --wire bf16"));
  check_says("--wire bf16 needs the ring collective, and --choices: halving-doubling is another one");
  check_run(0,
            run("timeout 100 " RONDE " compare --model lenet5 --data synthetic:1x28x28:10:200 --batch 50 --threads 1 "
                "--steps 2 --rounds 1 --workers 2 --strategies allreduce,ps-sync --choices choices.json"));
  check_run(2, run(TRAIN "--workers 1 --choices choices.json"));
  check_says("--choices can have no effect: this run makes none of the file's choices");
  check_run(2, run(TRAIN "--workers 2 --strategy ps-sync --choices choices.json"));
  check_says("--choices can have no effect");
}

static void what_cannot_be_chosen_again_is_refused(void **state) {
  static const struct {
    const char *text;
    int code;
    const char *says;
  } cases[] = {
      {"{\"collective\": \"star\"}", 3, "--choices choices.json: there is no collective 'star'"},
      {"{\"collective\": 3}", 3,
       "--choices choices.json: collective: each choice needs a name and a text as its value"},
      {"{\"colective\": \"ring\"}", 3,
       "--choices choices.json: this version of Ronde does not know the choice 'colective'"},
      {"{\"choices\": [{\"value\": \"ring\"}]}", 3, "each choice needs a name and a text as its value"},
      {"{\"choices\": \"ring\"}", 3, "neither a run.json nor a JSON object of choices"},
      {"[]", 3, "neither a run.json nor a JSON object of choices"},
      {"{\n\"collective\": ring}", 3, "--choices choices.json: line 2: "},
      {"", 3, "--choices choices.json: line 1: "},
      {"{\"isa\": \"abacus\"}", 2, "set RONDE_ISA=abacus to compute as that run did"},
      {"{\"collective\": \"mpi\"}", 2, "--choices: mpi: only --transport mpi has this collective"},
      {"{}", 2, "--choices can have no effect"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_choices(cases[i].text);
    check_run(cases[i].code, run(TRAIN "--workers 3 --choices choices.json"));
    check_says(cases[i].says);
  }
  check_run(3, run(TRAIN "--workers 3 --choices nowhere.json"));
  check_says("ronde: error: --choices nowhere.json: ");
}

/* The checkpoint's goes on, unless the file of choices has another. */
static void a_resumed_run_keeps_its_choice(void **state) {
  check_run(0, run(TRAIN "--workers 3 --collective tree --steps 2 --checkpoint-every 2 --out kept"));
  check_run(0, run(TRAIN "--steps 3 --resume kept"));
  check_choice("kept", "tree", "named by --collective or by the checkpoint");
  write_choices("{\"collective\": \"halving-doubling\"}");
  check_run(0, run(TRAIN "--steps 4 --resume kept --choices choices.json"));
  check_choice("kept", "halving-doubling", "named by --choices");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_record_is_chosen_again),
      cmocka_unit_test(a_file_may_name_one_choice),
      cmocka_unit_test(what_cannot_be_chosen_again_is_refused),
      cmocka_unit_test(a_resumed_run_keeps_its_choice),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

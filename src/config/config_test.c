/* The option parser, the values of options, and their texts. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "config/option.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char last_error[2048];
static int n_errors;

static void catch_error(void *user, ronde_log_level level, const char *line) {
  if (level != RONDE_LOG_ERROR) return;
  snprintf(last_error, sizeof last_error, "%s", line);
  n_errors++;
}

static int setup(void **state) {
  n_errors = 0;
  last_error[0] = '\0';
  ronde_config *config = NULL;
  if (ronde_config_create("train", &config)) return 1;
  *state = config;
  return 0;
}

static int teardown(void **state) {
  ronde_config_destroy(*state);
  return 0;
}

static void test_defaults_are_what_the_table_says(void **state) {
  static const char *const verbs[] = {"train", "eval", "predict", "init", "data", "export"};
  for (size_t v = 0; v < RONDE__COUNT(verbs); v++) {
    ronde_config *config;
    assert_int_equal(ronde_config_create(verbs[v], &config), RONDE_OK);
    json_t *json = ronde__config_json(config);
    ronde_option option;
    int n = 0;
    for (; ronde_config_option(verbs[v], n, &option); n++) {
      assert_string_equal(ronde_config_get(config, option.name), option.default_text ? option.default_text : "");
      assert_non_null(json_object_get(json, option.name));
      assert_false(ronde__config_is_set(config, option.name));
      assert_true(strlen(option.help) > 0 && strlen(option.group) > 0);
    }
    assert_true(n >= 2);
    assert_int_equal(json_object_size(json), n);
    json_decref(json);
    ronde_config_destroy(config);
  }
  ronde_option option;
  assert_false(ronde_config_option("dance", 0, &option));
  ronde_config *none = NULL;
  assert_int_equal(ronde_config_create("dance", &none), RONDE_E_USAGE);
  assert_null(none);
}

static void test_values_are_read(void **state) {
  ronde_config *config = *state;
  static const struct {
    const char *name, *value, *got;
  } cases[] = {
      {"batch", "42", "42"},
      {"batch", "010", "10"}, /* ten, not eight */
      {"batch", "+7", "7"},
      {"batch", "16777216", "16777216"},
      {"seed", "9223372036854775807", "9223372036854775807"},
      {"lr", "1e-3", "0.001"},
      {"lr", ".5", "0.5"},
      {"lr", "1000000000", "1000000000"},
      {"lr", "1e-300", "1e-300"},
      {"eps", "0", "0"},
      {"eps", "1e-8", "1e-08"},
      {"eps", "auto", "auto"},
      {"weight-decay", "0.0005", "0.0005"},
      {"betas", "0.8,0.95", "0.8,0.95"},
      {"betas", "0,0", "0,0"},
      {"nesterov", "on", "on"},
      {"nesterov", "off", "off"},
      {"shuffle", "off", "off"},
      {"optimizer", "adagrad", "adagrad"},
      {"lr-schedule", "cosine", "cosine"},
      {"model", "lenet5", "lenet5"},
      {"model", "mnist-small", "mnist-small"},
      {"out", "runs/ä b", "runs/ä b"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    assert_int_equal(ronde_config_set(config, cases[i].name, cases[i].value), RONDE_OK);
    assert_string_equal(ronde_config_get(config, cases[i].name), cases[i].got);
  }
  const ronde__options *options = ronde__config_options(config);
  assert_int_equal(options->batch, 16777216);
  assert_true(options->betas[0] == 0 && options->betas[1] == 0);
  assert_true(options->weight_decay == 0.0005);
  assert_int_equal(options->optimizer, 3);
  assert_false(options->shuffle);
  assert_int_equal(n_errors, 0);
}

static void test_bad_values_are_named(void **state) {
  ronde_config *config = *state;
#define NOT_A_BATCH(value) "--batch: '" value "' is not a whole number from 1 to 16777216"
#define NOT_A_RATE(value) "--lr: '" value "' is not a number from 0 to 1e+09"
#define NOT_A_NORMALISATION(value) "--normalize: '" value "' is not auto, on, off, imagenet or MEAN;STD"
#define NOT_BETAS(value) "--betas: '" value "' is not two numbers B1,B2 from 0 to below 1"
  static const struct {
    const char *name, *value, *error;
  } cases[] = {
      {"batch", "0", NOT_A_BATCH("0")},
      {"batch", "-1", NOT_A_BATCH("-1")},
      {"batch", "16777217", NOT_A_BATCH("16777217")},
      {"batch", "99999999999999999999", NOT_A_BATCH("99999999999999999999")},
      {"batch", "12x", NOT_A_BATCH("12x")},
      {"batch", " 12", NOT_A_BATCH(" 12")},
      {"batch", "12 ", NOT_A_BATCH("12 ")},
      {"batch", "1e3", NOT_A_BATCH("1e3")},
      {"batch", "0x10", NOT_A_BATCH("0x10")},
      {"batch", "", NOT_A_BATCH("")},
      {"batch", "-", NOT_A_BATCH("-")},
      {"lr", "nan", NOT_A_RATE("nan")},
      {"lr", "inf", NOT_A_RATE("inf")},
      {"lr", "1e999", NOT_A_RATE("1e999")},
      {"lr", "-0.1", NOT_A_RATE("-0.1")},
      {"lr", "0x1p-3", NOT_A_RATE("0x1p-3")},
      {"lr", "0,1", NOT_A_RATE("0,1")},
      {"lr", "0.1.2", NOT_A_RATE("0.1.2")},
      {"lr", " 0.1", NOT_A_RATE(" 0.1")},
      {"lr", "", NOT_A_RATE("")},
      {"lr", "auto", NOT_A_RATE("auto")},
      {"momentum", "1.5", "--momentum: '1.5' is not a number from 0 to 1"},
      {"eps", "-1", "--eps: '-1' is not a number from 0 to 1, nor auto"},
      {"weight-decay", "-1", "--weight-decay: '-1' is not a number from 0 to 1e+09, nor auto"},
      {"betas", "0.9", NOT_BETAS("0.9")},
      {"betas", "0.9,1", NOT_BETAS("0.9,1")},
      {"betas", "-0.1,0.9", NOT_BETAS("-0.1,0.9")},
      {"betas", "0.9,0.99,0.999", NOT_BETAS("0.9,0.99,0.999")},
      {"betas", ",0.9", NOT_BETAS(",0.9")},
      {"nesterov", "yes", "--nesterov: 'yes' is not on or off"},
      {"normalize", "auto,off", NOT_A_NORMALISATION("auto,off")},
      {"normalize", "0.5", NOT_A_NORMALISATION("0.5")},
      {"normalize", "0.5;0", NOT_A_NORMALISATION("0.5;0")},
      {"normalize", "0.5;-1", NOT_A_NORMALISATION("0.5;-1")},
      {"normalize", "0.5;nan", NOT_A_NORMALISATION("0.5;nan")},
      {"normalize", "0.5,0.5;1,2,3", NOT_A_NORMALISATION("0.5,0.5;1,2,3")},
      {"normalize", "0.5,;1", NOT_A_NORMALISATION("0.5,;1")},
      {"normalize", ";1", NOT_A_NORMALISATION(";1")},
      {"normalize", "0.5;1;2", NOT_A_NORMALISATION("0.5;1;2")},
      {"optimizer", "sdg", "--optimizer: 'sdg' is not sgd, adam, adamw, adagrad, rmsprop or lbfgs"},
      {"optimizer", "sgd|adam", "--optimizer: 'sgd|adam' is not sgd, adam, adamw, adagrad, rmsprop or lbfgs"},
      {"optimizer", "", "--optimizer: '' is not sgd, adam, adamw, adagrad, rmsprop or lbfgs"},
      {"shard", "whol", "--shard: 'whol' is not static or whole"},
      {"dtype", "f16", "--dtype: 'f16' is not f32, bf16 or auto"},
      {"save", "", "--save: needs a value"},
      {"bacth", "1", "unknown option --bacth; the nearest is --batch"},
      {"batch-size", "1", "unknown option --batch-size; here it is --batch"},
      {"", "1", "unknown option --; `ronde train --help` lists them"},
      {"shape", "1x28x28",
       "--shape is not an option of train, but of predict, init, export, bench step, bench kernels"},
      {"input", "x.png", "--input is not an option of train, but of predict"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    assert_int_equal(ronde_config_set(config, cases[i].name, cases[i].value), RONDE_E_USAGE);
    assert_string_equal(last_error, cases[i].error);
    assert_int_equal(n_errors, i + 1);
  }
  assert_string_equal(ronde_config_get(config, "batch"), "128");
  assert_string_equal(ronde_config_get(config, "betas"), "0.9,0.999");
  assert_string_equal(ronde_config_get(config, "save"), "");
  const char *batch = ronde_config_get(config, "batch"), *epochs = ronde_config_get(config, "epochs");
  assert_ptr_equal(batch, ronde_config_get(config, "batch"));
  assert_string_equal(batch, "128");
  assert_string_equal(epochs, "1");
  assert_null(ronde_config_get(config, "bacth"));
  assert_null(ronde_config_get(config, "shape"));
}

static void test_command_line_goes_before_environment(void **state) {
  ronde_config *config = *state;
  setenv("RONDE_BATCH", "64", 1);
  setenv("RONDE_LR_SCHEDULE", "cosine", 1);
  setenv("RONDE_SAVE", "", 1);      /* empty: as if it were not there */
  setenv("RONDE_DATA", "/data", 1); /* the folder of the data sets, not --data */
  setenv("RONDE_SHAPE", "?", 1);    /* of another verb */
  assert_int_equal(ronde_config_set(config, "batch", "32"), RONDE_OK);
  ronde_status status = ronde_config_set_environment(config);
  static const char *const names[] = {"RONDE_BATCH", "RONDE_LR_SCHEDULE", "RONDE_SAVE", "RONDE_DATA", "RONDE_SHAPE"};
  for (size_t i = 0; i < RONDE__COUNT(names); i++) unsetenv(names[i]);
  assert_int_equal(status, RONDE_OK);
  assert_string_equal(ronde_config_get(config, "batch"), "32");
  assert_string_equal(ronde_config_get(config, "lr-schedule"), "cosine");
  assert_string_equal(ronde_config_get(config, "epochs"), "1");
  assert_string_equal(ronde_config_get(config, "data"), "");
  assert_string_equal(ronde_config_get(config, "save"), "");
  assert_true(ronde__config_is_set(config, "lr-schedule"));
}

static void test_environment_is_checked(void **state) {
  setenv("RONDE_LR_SCHEDULE", "slow", 1);
  ronde_status status = ronde_config_set_environment(*state);
  unsetenv("RONDE_LR_SCHEDULE");
  assert_int_equal(status, RONDE_E_USAGE);
  assert_string_equal(last_error, "RONDE_LR_SCHEDULE: 'slow' is not constant, step, cosine, one-cycle or plateau");
}

static void test_neutral_values_are_not_set(void **state) {
  ronde_config *config = *state;
  static const char *const neutral[][2] = {
      {"augment", "off"},   {"dropout", "0"},      {"clip", "0"},        {"nesterov", "off"},    {"shuffle", "off"},
      {"shuffle", "on"},    {"weight-decay", "0"}, {"eps", "auto"},      {"betas", "0.9,0.999"}, {"padding", "same"},
      {"strategy", "auto"}, {"lr", "1e-2"},        {"local-batch", "0"}, {"bucket-mb", "4.0"}};
  for (size_t i = 0; i < RONDE__COUNT(neutral); i++) {
    assert_int_equal(ronde_config_set(config, neutral[i][0], neutral[i][1]), RONDE_OK);
    assert_false(ronde__config_is_set(config, neutral[i][0]));
    assert_int_equal(ronde__config_no_effect(config, neutral[i][0], "never"), RONDE_OK);
  }
  static const char *const set[][2] = {{"nesterov", "on"},    {"dropout", "0.5"},    {"padding", "valid"},
                                       {"eps", "1e-8"},       {"betas", "0.9,0.99"}, {"save", "x"},
                                       {"strategy", "single"}};
  for (size_t i = 0; i < RONDE__COUNT(set); i++) {
    assert_int_equal(ronde_config_set(config, set[i][0], set[i][1]), RONDE_OK);
    assert_true(ronde__config_is_set(config, set[i][0]));
  }
  assert_int_equal(n_errors, 0);
}

static void test_no_effect_names_the_source(void **state) {
  ronde_config *config = *state;
  assert_int_equal(ronde_config_set(config, "dropout", "0.5"), RONDE_OK);
  assert_int_equal(ronde__config_no_effect(config, "dropout", "lenet5 has no dropout"), RONDE_E_USAGE);
  assert_string_equal(last_error, "--dropout can have no effect: lenet5 has no dropout");
  setenv("RONDE_NESTEROV", "on", 1);
  ronde_status status = ronde_config_set_environment(config);
  unsetenv("RONDE_NESTEROV");
  assert_int_equal(status, RONDE_OK);
  assert_int_equal(ronde__config_no_effect(config, "nesterov", "the optimizer is adam"), RONDE_E_USAGE);
  assert_string_equal(last_error, "RONDE_NESTEROV can have no effect: the optimizer is adam");
}

static void test_record_holds_typed_and_resolved_values(void **state) {
  ronde_config *config = *state, *copy;
  assert_int_equal(ronde_config_set(config, "model", "lenet5"), RONDE_OK);
  assert_int_equal(ronde_config_set(config, "out", "runs/\xff"), RONDE_OK);
  assert_int_equal(ronde__config_copy(config, &copy), RONDE_OK);
  copy->options.weight_decay = 0.25;
  copy->options.threads = 2;
  json_t *json = ronde__config_json(copy);
  assert_int_equal(json_integer_value(json_object_get(json, "batch")), 128);
  assert_int_equal(json_integer_value(json_object_get(json, "threads")), 2);
  assert_true(json_real_value(json_object_get(json, "lr")) == 0.01);
  assert_true(json_real_value(json_object_get(json, "weight-decay")) == 0.25);
  assert_string_equal(json_string_value(json_object_get(json, "eps")), "auto");
  assert_string_equal(json_string_value(json_object_get(json, "model")), "lenet5");
  assert_string_equal(json_string_value(json_object_get(json, "optimizer")), "sgd");
  assert_string_equal(json_string_value(json_object_get(json, "out")), "runs/?");
  assert_true(json_is_null(json_object_get(json, "save")));
  assert_true(json_is_true(json_object_get(json, "shuffle")));
  assert_true(json_real_value(json_array_get(json_object_get(json, "betas"), 1)) == 0.999);
  json_decref(json);
  assert_string_equal(ronde_config_get(config, "weight-decay"), "auto");
  assert_string_equal(ronde_config_get(copy, "model"), "lenet5");
  assert_ptr_not_equal(copy->options.model, config->options.model);
  ronde_config_destroy(copy);
}

static void test_numbers_do_not_depend_on_the_locale(void **state) {
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
    print_message("SKIP: no locale with a decimal comma is installed\n");
    skip();
  }
  ronde_status status = ronde_config_set(*state, "lr", "0.25");
  char text[32];
  snprintf(text, sizeof text, "%s", ronde_config_get(*state, "lr"));
  setlocale(LC_NUMERIC, "C");
  assert_int_equal(status, RONDE_OK);
  assert_string_equal(text, "0.25");
}

/* Other systems' names lead to ours; a name is only taken for a misspelling where it is near. */
static void test_unknown_names_are_answered(void **state) {
  static const char *const cases[][2] = {
      {"learning-rate", "unknown option --learning-rate; here it is --lr"},
      {"learning_rate", "unknown option --learning_rate; here it is --lr"},
      {"num-epochs", "here it is --epochs"},
      {"val_split", "unknown option --val_split; the nearest is --val-split"},
      {"Epochs", "the nearest is --epochs"},
      {"num-workers", "one thread of each worker loads data ahead of time; --workers sets"},
      {"device", "unknown option --device: Ronde computes on the CPU"},
      {"epohcs", "the nearest is --epochs"},
      {"no-shufle", "the nearest is --no-shuffle"},
      {"frobnicate", "unknown option --frobnicate; `ronde train --help` lists them"},
      {"zzz", "`ronde train --help` lists them"},
  };
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    assert_int_equal(ronde_config_set(*state, cases[i][0], "1"), RONDE_E_USAGE);
    if (!strstr(last_error, cases[i][1])) fail_msg("--%s: %s", cases[i][0], last_error);
  }
  char name[9000];
  memset(name, 'x', sizeof name);
  name[sizeof name - 1] = '\0';
  assert_int_equal(ronde_config_set(*state, name, "1"), RONDE_E_USAGE);
  assert_true(strlen(last_error) < 200 && strstr(last_error, "xxx...; `ronde"));
}

/* Each leads to an option that is there, and is none itself. */
static void test_aliases_are_sound(void **state) {
  static const char *const all[] = {"train", "eval", "predict", "init", "compare"};
  const char *theirs;
  for (size_t i = 0; (theirs = ronde__option_alias_at(i)); i++) {
    char spelt[80];
    ronde__option_spell(theirs, spelt, sizeof spelt);
    assert_string_equal(spelt, theirs);
    bool found = false, taken = false;
    for (size_t v = 0; v < RONDE__COUNT(all); v++) {
      ronde_option option;
      for (int o = 0; ronde_config_option(all[v], o, &option); o++) {
        found |= strcmp(option.name, ronde__option_alias(theirs)) == 0;
        taken |= strcmp(option.name, theirs) == 0;
      }
    }
    if (!found || taken) fail_msg("%s", theirs);
  }
}

static void test_long_values_are_cut(void **state) {
  size_t n = 100000;
  char *value = malloc(n + 1);
  memset(value, 'y', n);
  value[n] = '\0';
  static const char *const names[] = {"batch", "lr", "eps", "betas", "shuffle", "optimizer"};
  for (size_t i = 0; i < RONDE__COUNT(names); i++) {
    assert_int_equal(ronde_config_set(*state, names[i], value), RONDE_E_USAGE);
    assert_true(strlen(last_error) < 300);
    assert_non_null(strstr(last_error, "yyy...' is not "));
  }
  free(value);
}

static char last_warning[2048];
static int n_warnings;

static void catch_warning(void *user, ronde_log_level level, const char *line) {
  if (level != RONDE_LOG_WARNING) return;
  snprintf(last_warning, sizeof last_warning, "%s", line);
  n_warnings++;
}

static void test_misspelt_variables_are_said(void **state) {
  static const char *const cases[][2] = {
      {"RONDE_EPOCS", "the environment variable RONDE_EPOCS is ignored; the nearest is RONDE_EPOCHS"},
      {"RONDE_LEARNING_RATE", "the environment variable RONDE_LEARNING_RATE is ignored; here it is RONDE_LR"},
      {"RONDE_TOP", NULL}, /* of another verb */
      {"RONDE_DATA", NULL},
      {"RONDE_DATASET", NULL}, /* RONDE_DATA is something else */
      {"RONDE_ISA", NULL},
      {"RONDE_SOMETHING_ELSE", NULL},
      {"RONDE_", NULL},
  };
  ronde_log_set(catch_warning, NULL);
  for (size_t i = 0; i < RONDE__COUNT(cases); i++) {
    n_warnings = 0;
    setenv(cases[i][0], "7", 1);
    assert_int_equal(ronde_config_set_environment(*state), RONDE_OK);
    unsetenv(cases[i][0]);
    if (n_warnings != (cases[i][1] != NULL)) fail_msg("%s: %d warnings: %s", cases[i][0], n_warnings, last_warning);
    if (cases[i][1]) assert_string_equal(last_warning, cases[i][1]);
  }
  ronde_log_set(catch_error, NULL);
}

int main(void) {
  ronde_log_set(catch_error, NULL);
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_defaults_are_what_the_table_says),
      CASE(test_values_are_read),
      CASE(test_bad_values_are_named),
      CASE(test_command_line_goes_before_environment),
      CASE(test_environment_is_checked),
      CASE(test_neutral_values_are_not_set),
      CASE(test_no_effect_names_the_source),
      CASE(test_record_holds_typed_and_resolved_values),
      CASE(test_numbers_do_not_depend_on_the_locale),
      CASE(test_unknown_names_are_answered),
      CASE(test_aliases_are_sound),
      CASE(test_long_values_are_cut),
      CASE(test_misspelt_variables_are_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

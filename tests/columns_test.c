/* csv files through the public API: trained on, and evaluated and predicted from other files, whose columns are found by
 * their names. */
#include "train_testing.h"

#include "lib/folder.h"

#include "data/testing.h"

enum { N_ROWS = 240 };

/* ---- files ---- */

static const char *const towns[] = {"Aachen", "Bonn, \"\"West\"\"", "K\xc3\xb6ln"};
static const char *const kinds[] = {"flat", "house", "hut"};

typedef struct house {
  int rooms, town, kind;
  double area, price;
} house;

static house house_at(int i) {
  house h = {.rooms = 1 + i % 7, .town = i * 5 % 3, .kind = i % 7 < 2 ? 2 : i % 7 < 4 ? 0 : 1};
  h.area = 20 * h.rooms + 10 * (double)small_noise(i, 3);
  h.price = 0.2 * h.rooms + 0.01 * h.area + 0.5 * h.town;
  return h;
}

/* Columns in the order of letters: r rooms, t town, a area, p price, k kind, i a number of no use. */
static void write_houses(const char *name, int first, int n, const char *columns) {
  static const char letters[] = "rtapki";
  static const char *const names[] = {"rooms", "town", "area", "price", "kind", "id"};
  char *path = ronde__format("%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  for (const char *c = columns; *c; c++)
    fprintf(file, "%s%s", c > columns ? "," : "", names[strchr(letters, *c) - letters]);
  for (int i = first; i < first + n; i++) {
    house h = house_at(i);
    fprintf(file, "\r\n");
    for (const char *c = columns; *c; c++) {
      if (c > columns) putc(',', file);
      if (*c == 'r') fprintf(file, "%d", h.rooms);
      else if (*c == 't') fprintf(file, "\"%s\"", towns[h.town]);
      else if (*c == 'a') fprintf(file, "%.4f", h.area);
      else if (*c == 'p') fprintf(file, "%.5f", h.price);
      else if (*c == 'k') fprintf(file, "%s", kinds[h.kind]);
      else fprintf(file, "\"no %d\"", i);
    }
  }
  fclose(file);
  free(path);
}

static void write_text(const char *name, const char *text) { test_write(folder, name, text, strlen(text)); }

/* ---- jobs: options hold the test's folder at every %s ---- */

static json_t *run(const char *verb, const char *options) {
  char *text = ronde__format(options, folder, folder, folder);
  json_t *json = job_run(verb, text, NULL);
  free(text);
  return json;
}

static void check_refused(const char *verb, const char *options, const char *words) {
  char *text = ronde__format(options, folder, folder, folder), *result = NULL;
  ronde_config *config = config_make(verb, text);
  test_log_start(&lines);
  ronde_status status = !strcmp(verb, "train")  ? ronde_train(config, NULL, &result)
                        : !strcmp(verb, "eval") ? ronde_eval(config, NULL, &result)
                                                : ronde_predict(config, NULL, &result);
  ronde_config_destroy(config);
  if (status == RONDE_OK) fail_msg("not refused: %s", text);
  if (!strstr(lines.error, words)) fail_msg("'%s' is not in: %s", words, lines.error);
  free(text);
  free(result);
}

#define MLP "model=mlp:24,8 batch=24 epochs=60 optimizer=adam lr=0.02 lr-schedule=cosine "
#define PRICE MLP "data=csv:%s/houses.csv target=price ignore-columns=kind save=%s/w "
#define KIND MLP "data=csv:%s/houses.csv target=kind save=%s/w "

/* ---- tests ---- */

static void test_values_are_learnt(void **state) {
  write_houses("houses.csv", 0, N_ROWS, "rtakp");
  write_houses("other.csv", N_ROWS, 60, "iptar"); /* another order, and a column without a use */
  write_houses("new.csv", N_ROWS, 60, "atr");
  json_t *trained = run("train", PRICE "val-split=0.25"), *eval = run("eval", "init=%s/w data=csv:%s/other.csv");
  assert_string_equal(text_at(trained, "config.loss"), "mse");
  assert_string_equal(text_at(eval, "split"), "all");
  if (real_at(eval, "r2") < 0.95) fail_msg("R2 is %g", real_at(eval, "r2"));
  json_t *predicted = run("predict", "init=%s/w input=%s/new.csv");
  double squares = 0;
  for (int i = 0; i < 60; i++) {
    char path[48];
    snprintf(path, sizeof path, "examples.%d.values.0", i);
    double d = real_at(predicted, path) - house_at(N_ROWS + i).price;
    squares += d * d / 60;
  }
  assert_float_equal(sqrt(squares), real_at(eval, "rmse"), 1e-5);
  assert_int_equal((int)json_array_size(json_at(predicted, "examples")), 60);
  json_decref(trained);
  json_decref(predicted);
  json_decref(eval);
  /* The validation part of the run, and a target of another name. */
  json_t *val = run("eval", "init=%s/w data=csv:%s/houses.csv split=val");
  assert_int_equal((int)real_at(val, "examples"), N_ROWS / 4);
  json_decref(val);
  write_text("renamed.csv", "town,cost,area,rooms\nAachen,1.2,60,3\nAachen,1.6,80,4\n");
  json_decref(run("eval", "init=%s/w data=csv:%s/renamed.csv target=cost"));
  check_refused("eval", "init=%s/w data=csv:%s/renamed.csv", "line 1: there is no column price");
}

static void test_classes_go_by_name(void **state) {
  write_houses("houses.csv", 0, N_ROWS, "rtak");
  json_decref(run("train", KIND));
  write_text("part.csv",
             "kind,area,rooms,town\nhut,20,1,Aachen\nhouse,140,7,Aachen\nhut,40,2,Aachen\nhouse,130,6,Aachen\n");
  json_t *eval = run("eval", "init=%s/w data=csv:%s/part.csv"),
         *predicted = run("predict", "init=%s/w input=%s/part.csv");
  assert_float_equal(real_at(eval, "accuracy"), 1, 1e-9);
  assert_string_equal(text_at(predicted, "examples.0.classes.0.name"), "hut");
  assert_string_equal(text_at(predicted, "examples.1.classes.0.name"), "house");
  json_decref(eval);
  json_decref(predicted);
  write_text("part.csv", "kind,area,rooms,town\nhut,20,1,Aachen\nfort,140,7,Aachen\n");
  check_refused("eval", "init=%s/w data=csv:%s/part.csv", "does not know the class fort");
}

static void test_integers_are_classes_unless_a_loss_says_otherwise(void **state) {
  write_text("digits.csv", "x,y\n1,10\n2,9\n3,10\n4,9\n");
  test_log_start(&lines);
  json_t *classes = run("train", "model=mlp:4 data=csv:%s/digits.csv target=y batch=4 save=%s/w");
  json_t *values = run("train", "model=mlp:4 data=csv:%s/digits.csv target=y batch=4 loss=l1");
  assert_int_equal((int)real_at(classes, "config.classes"), 2);
  assert_string_equal(text_at(values, "config.loss"), "l1");
  json_t *predicted = run("predict", "init=%s/w input=%s/digits.csv top=2");
  const char *name = text_at(predicted, "examples.0.classes.0.name");
  assert_true(!strcmp(name, "9") || !strcmp(name, "10"));
  json_decref(classes);
  json_decref(values);
  json_decref(predicted);
}

static void test_other_files_are_refused_by_line(void **state) {
  write_houses("houses.csv", 0, N_ROWS, "rtakp");
  json_decref(run("train", PRICE));
  write_text("bad.csv", "rooms,town,area,price\n3,Berlin,60,1\n");
  check_refused("eval", "init=%s/w data=csv:%s/bad.csv",
                "bad.csv: line 2, column 2 (town): 'Berlin' is not one of the 3");
  check_refused("predict", "init=%s/w input=%s/bad.csv", "bad.csv: line 2, column 2 (town): 'Berlin'");
  write_text("bad.csv", "rooms,town,area,price\n3,Aachen,60,1\n3,Aachen,,1\n");
  check_refused("eval", "init=%s/w data=csv:%s/bad.csv", "bad.csv: line 3, column 3 (area): the value is missing");
  check_refused("predict", "init=%s/w input=%s/bad.csv", "bad.csv: line 3, column 3 (area): the value is missing");
  write_text("bad.csv", "town,area\nAachen,60\n");
  check_refused("predict", "init=%s/w input=%s/bad.csv", "line 1: there is no column rooms");
  write_text("bad.csv", "rooms,town,area\n");
  check_refused("predict", "init=%s/w input=%s/bad.csv", "no rows");
  check_refused("train", "model=mlp:4 data=mnist target=x", "--target can have no effect");
  check_refused("train", "model=mlp:4 data=csv:%s/houses.csv", "Give --target COLUMN");
  check_refused("train", "model=lenet5 data=csv:%s/houses.csv target=price", "lenet5 takes images");
  float x[2 * 3] = {0};
  test_write_bytes(folder, "train_x.npy",
                   test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", x, sizeof x));
  test_write_bytes(folder, "train_y.npy", test_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", x, 8));
  json_decref(run("train", "model=mlp:4 data=npy:%s batch=2 save=%s/w"));
  check_refused("predict", "init=%s/w input=%s/houses.csv", "do not name the columns");
}

static void test_runs_go_on(void **state) {
#define SHORT "model=mlp:6 data=csv:%s/houses.csv target=kind ignore-columns=price batch=24 optimizer=adam out=%s/"
  write_houses("houses.csv", 0, N_ROWS, "rtakp");
  json_t *whole = run("train", SHORT "a epochs=4"), *half = run("train", SHORT "b epochs=2");
  json_t *rest = run("train", "epochs=4 out=%s/b resume=auto");
  assert_string_equal(text_at(whole, "result.weights_sha256"), text_at(rest, "result.weights_sha256"));
  write_houses("turned.csv", 0, N_ROWS, "pkatr");
  json_t *started = run("train", "init=%s/a data=csv:%s/turned.csv epochs=1 batch=24 lr=0"); /* its inputs, by name */
  json_t *again = run("train", "init=%s/a data=csv:%s/houses.csv epochs=1 batch=24 lr=0 cache=off");
  assert_float_equal(real_at(started, "epochs.0.train_loss"), real_at(again, "epochs.0.train_loss"), 1e-6);
  json_decref(whole);
  json_decref(half);
  json_decref(rest);
  json_decref(started);
  json_decref(again);
}

static void test_a_set_is_described(void **state) {
  write_houses("houses.csv", 0, N_ROWS, "rtakp");
  char *text = ronde__format("data=csv:%s/houses.csv target=price,area output=%s/npy", folder, folder), *result = NULL;
  ronde_config *config = config_make("data", text);
  assert_int_equal(ronde_data_convert(config, &result), RONDE_OK);
  ronde_config_destroy(config);
  json_t *info = json_of(result);
  assert_int_equal((int)real_at(info, "target_values"), 2);
  assert_int_equal((int)real_at(info, "shape.0"), 1 + 3 + 3);
  assert_string_equal(text_at(info, "columns.inputs.1.categories.1"), "Bonn, \"West\"");
  assert_string_equal(text_at(info, "columns.targets.0"), "price");
  json_decref(info);
  free(text);
  json_decref(run("train", "model=mlp:4 data=npy:%s/npy batch=24"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder_with_cache, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_values_are_learnt),
      TEST(test_classes_go_by_name),
      TEST(test_integers_are_classes_unless_a_loss_says_otherwise),
      TEST(test_other_files_are_refused_by_line),
      TEST(test_runs_go_on),
      TEST(test_a_set_is_described),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

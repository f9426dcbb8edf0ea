/* What an evaluation tells of each class: against counts made here example by example. */
#include "tree_testing.h"

#include "verbs/verdicts.h"

enum { N = 500, CLASSES = 7 };

/* ---- the sums, on verdicts of no network ---- */

static ronde_status read_nothing(void *user, ronde_split split, const int64_t *ids, int64_t n, float *x,
                                 int64_t *labels, float *targets) {
  return RONDE_OK;
}

/* Class 5 is never a label, class 6 neither label nor prediction. */
static ronde__data *make_verdicts(ronde__verdict *at, ronde__verdicts *verdicts) {
  const ronde_source source = {.rank = 1, .dims = {1}, .classes = CLASSES, .n_examples = {N, 0}, .read = read_nothing};
  ronde__data *data;
  assert_int_equal(ronde__data_wrap(&source, &data), RONDE_OK);
  for (int i = 0; i < N; ++i) {
    int label = (int)(fabsf(small_noise(i, 1)) * 2 * 5) % 5, other = (int)(fabsf(small_noise(i, 2)) * 2 * 6) % 6;
    bool right = small_noise(i, 3) > -.2f;
    at[i] = (ronde__verdict){label, right ? label : other, .5f + small_noise(i, 4) * .999f, right || i % 3};
  }
  *verdicts = (ronde__verdicts){.data = data, .n = N, .at = at};
  return data;
}

static void check_class(const ronde__verdict *at, int k, json_t *row) {
  double right = 0, labels = 0, predictions = 0;
  for (int i = 0; i < N; ++i) {
    labels += at[i].label == k;
    predictions += at[i].predicted == k;
    right += at[i].label == k && at[i].predicted == k;
  }
  assert_float_equal(real_at(row, "examples"), labels, 0);
  assert_float_equal(real_at(row, "predicted"), predictions, 0);
  if (predictions > 0) assert_float_equal(real_at(row, "precision"), right / predictions, 1e-12);
  else assert_true(json_is_null(json_at(row, "precision")));
  if (labels > 0) assert_float_equal(real_at(row, "recall"), right / labels, 1e-12);
  else assert_true(json_is_null(json_at(row, "recall")));
  if (labels + predictions > 0) assert_float_equal(real_at(row, "f1"), 2 * right / (labels + predictions), 1e-12);
  else assert_true(json_is_null(json_at(row, "f1")));
}

static void test_sums(void **state) {
  static ronde__verdict at[N];
  ronde__verdicts verdicts;
  ronde__data *data = make_verdicts(at, &verdicts);
  json_t *json = json_object(), *row, *cell;
  assert_int_equal(ronde__verdicts_tell(&verdicts, NULL, json), RONDE_OK);
  size_t k, p;
  json_array_foreach(json_at(json, "classes"), k, row) check_class(at, (int)k, row);
  assert_int_equal(k, CLASSES);
  double total = 0, top5 = 0, recall = 0;
  json_array_foreach(json_at(json, "confusion"), k, row) {
    json_array_foreach(row, p, cell) {
      int n = 0;
      for (int i = 0; i < N; ++i) n += at[i].label == (int)k && at[i].predicted == (int)p;
      assert_int_equal(json_integer_value(cell), n);
      total += n;
    }
  }
  assert_float_equal(total, N, 0);
  for (int i = 0; i < N; ++i) top5 += at[i].in_top5;
  assert_float_equal(real_at(json, "top5_accuracy"), top5 / N, 1e-12);
  /* Of six classes that occur one is never a label: its recall counts as 0. */
  for (int i = 0; i < 5; ++i) recall += real_at(json_array_get(json_at(json, "classes"), (size_t)i), "recall");
  assert_float_equal(real_at(json, "macro.recall"), recall / 6, 1e-12);
  json_decref(json);
  ronde__data_close(data);
}

static void test_calibration(void **state) {
  static ronde__verdict at[N];
  ronde__verdicts verdicts;
  ronde__data *data = make_verdicts(at, &verdicts);
  at[0].confidence = 1;
  at[1].confidence = 0;
  json_t *json = json_object(), *bin;
  assert_int_equal(ronde__verdicts_tell(&verdicts, NULL, json), RONDE_OK);
  double error = 0, all = 0;
  size_t b;
  json_array_foreach(json_at(json, "calibration.bins"), b, bin) {
    double n = 0, right = 0, confidence = 0;
    for (int i = 0; i < N; ++i) {
      double c = (double)at[i].confidence * 15;
      bool within = c >= (double)b && (c < (double)b + 1 || b == 14);
      n += within;
      right += within && at[i].label == at[i].predicted;
      confidence += within ? (double)at[i].confidence : 0;
    }
    assert_float_equal(real_at(bin, "examples"), n, 0);
    if (n > 0) error += n / N * fabs(right / n - confidence / n);
    all += n;
  }
  assert_float_equal(all, N, 0);
  assert_float_equal(real_at(json, "calibration.error"), error, 1e-9);
  json_decref(json);
  ronde__data_close(data);
}

static void test_mistakes_and_confusions_in_order(void **state) {
  static ronde__verdict at[N];
  ronde__verdicts verdicts;
  ronde__data *data = make_verdicts(at, &verdicts);
  for (int i = 0; i < N; i += 7) at[i].confidence = .9375f; /* equals: the first example comes first */
  json_t *json = json_object(), *row;
  assert_int_equal(ronde__verdicts_tell(&verdicts, NULL, json), RONDE_OK);
  bool taken[N] = {false};
  size_t r;
  json_array_foreach(json_at(json, "mistakes"), r, row) {
    int best = -1;
    for (int i = 0; i < N; ++i)
      if (!taken[i] && at[i].label != at[i].predicted && (best < 0 || at[i].confidence > at[best].confidence)) best = i;
    assert_int_equal((int)real_at(row, "example"), best);
    assert_int_equal((int)real_at(row, "predicted"), at[best].predicted);
    taken[best] = true;
  }
  assert_int_equal(r, 10);
  double last = N;
  json_array_foreach(json_at(json, "confused"), r, row) {
    assert_true(real_at(row, "examples") <= last);
    assert_true(real_at(row, "class") != real_at(row, "predicted"));
    last = real_at(row, "examples");
  }
  assert_int_equal(r, 10);
  json_decref(json);
  ronde__data_close(data);
}

/* ---- of a network, by files ---- */

#define TRAIN "model=mnist-small data=folder:%s/tree batch=8 epochs=2 optimizer=adam lr=0.01 threads=1 save=%s/w"

static void write_all(void) {
  for (int k = 0; k < TREE_CLASSES; ++k) {
    put_class("tree/train", k, 12, 0);
    put_class("tree/test", k, 2 + k, 50);
  }
  rename_class("tree/train", "dog", "d\"o,g");
  rename_class("tree/test", "dog", "d\"o,g");
  json_decref(run_job("train", TRAIN));
}

static char *read_text(const char *name) {
  char *path = ronde__format("%s/%s", folder, name), *text = NULL;
  size_t room = 0;
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_true(getdelim(&text, &room, 0, file) > 0);
  fclose(file);
  free(path);
  return text;
}

/* One image alone gives the class that predictions.csv has in its row. */
static void check_against_predict(const char *row) {
  int example, label, predicted;
  char file[512], options[1024];
  double confidence;
  const char *start = strchr(row, ',') + 1, *end = strstr(start, ".png") + 4;
  bool quoted = *start == '"';
  assert_int_equal(sscanf(row, "%d,", &example), 1);
  assert_int_equal(sscanf(end + quoted, ",%d,%d,%lf", &label, &predicted, &confidence), 3);
  size_t n = 0;
  for (const char *p = start + quoted; p < end; ++p) {
    file[n++] = *p;
    p += quoted && *p == '"';
  }
  file[n] = '\0';
  snprintf(options, sizeof options, "init=%s/w top=1", folder);
  ronde_config *config = config_make("predict", options);
  assert_int_equal(ronde_config_set(config, "input", file), RONDE_OK);
  char *text;
  assert_int_equal(ronde_predict(config, NULL, &text), RONDE_OK);
  ronde_config_destroy(config);
  json_t *json = json_of(text),
         *best = json_array_get(json_at(json_array_get(json_at(json, "examples"), 0), "classes"), 0);
  assert_int_equal((int)real_at(best, "class"), predicted);
  assert_float_equal(real_at(best, "probability"), confidence, 1e-4);
  json_decref(json);
}

static void check_measure(const char *text, const char *name, double wanted) {
  char *row = ronde__format("\n%s,", name);
  const char *at = strstr(text, row);
  assert_non_null(at);
  assert_true(fabs(strtod(at + strlen(row), NULL) - wanted) < 1e-8);
  free(row);
}

/* bin,from,to,examples,... */
static void check_bins(const char *text, const json_t *bins) {
  const json_t *bin;
  size_t i;
  json_array_foreach(bins, i, bin) {
    text = strchr(text, '\n') + 1;
    long long number, examples;
    assert_int_equal(sscanf(text, "%lld,%*[^,],%*[^,],%lld", &number, &examples), 2);
    assert_int_equal(number, (long long)i);
    assert_int_equal(examples, json_integer_value(json_object_get(bin, "examples")));
  }
  assert_int_equal(i, 15);
}

static void test_files(void **state) {
  write_all();
  json_t *eval = run_job("eval", "init=%s/w data=folder:%s/tree csv=%s/tables workers=2 batch=6");
  char *predictions = read_text("tables/predictions.csv"), *classes = read_text("tables/classes.csv");
  char *confusion = read_text("tables/confusion.csv");
  int n = 0;
  for (char *row = strchr(predictions, '\n') + 1; *row; row = strchr(row, '\n') + 1, ++n) check_against_predict(row);
  assert_int_equal(n, (int)real_at(eval, "examples"));
  assert_non_null(strstr(classes, "class,name,examples,predicted,precision,recall,f1\r\n0,ant,2,"));
  assert_non_null(strstr(classes, "\r\n3,\"d\"\"o,g\",5,"));
  assert_non_null(strstr(confusion, "class,predicted,name,predicted_name,examples\r\n"));
  char *measures = read_text("tables/measures.csv"), *calibration = read_text("tables/calibration.csv");
  check_measure(measures, "accuracy", real_at(eval, "accuracy"));
  check_measure(measures, "macro_f1", real_at(json_object_get(eval, "macro"), "f1"));
  check_measure(measures, "calibration_error", real_at(json_object_get(eval, "calibration"), "error"));
  check_bins(calibration, json_object_get(json_object_get(eval, "calibration"), "bins"));
  free(measures);
  free(calibration);
  free(predictions);
  free(classes);
  free(confusion);
  json_decref(eval);
}

/* Whoever shares the work, and however the network is executed. */
static void test_the_same_for_all(void **state) {
  static const char *const options[] = {"init=%s/w data=folder:%s/tree workers=3 batch=5",
                                        "init=%s/w data=folder:%s/tree exec=eager batch=1",
                                        "init=%s/w data=folder:%s/tree cache=off"};
  static const char *const fields[] = {"classes", "confusion", "macro", "confused"};
  write_all();
  json_t *one = run_job("eval", "init=%s/w data=folder:%s/tree");
  assert_true(real_at(one, "accuracy") > .3);
  for (size_t i = 0; i < sizeof options / sizeof *options; ++i) {
    json_t *other = run_job("eval", options[i]);
    for (size_t f = 0; f < sizeof fields / sizeof *fields; ++f)
      assert_true(json_equal(json_at(one, fields[f]), json_at(other, fields[f])));
    json_decref(other);
  }
  json_decref(one);
}

static void test_values_have_no_classes(void **state) {
  ronde_source source = small_values(24, 12);
  const ronde_hooks hooks = {.source = &source, .model = small_regression};
  char *options = ronde__format("steps=2 batch=8 save=%s/w", folder);
  json_decref(job_run("train", options, &hooks));
  free(options);
  options = ronde__format("init=%s/w", folder);
  json_t *eval = job_run("eval", options, &hooks);
  assert_null(json_object_get(eval, "classes"));
  assert_true(json_is_null(json_at(eval, "accuracy")));
  json_decref(eval);
  free(options);
  options = ronde__format("init=%s/w csv=%s/tables", folder, folder);
  ronde_config *config = config_make("eval", options);
  start_log();
  check_failed(&lines, ronde_eval(config, &hooks, NULL), RONDE_E_USAGE, "--csv", "the targets are values");
  start_log();
  ronde_config_destroy(config);
  free(options);
}

static void test_a_folder_that_cannot_be_written(void **state) {
  write_all();
  refused("eval", "init=%s/w data=folder:%s/tree csv=/proc/nowhere", RONDE_E_WRITE, "/proc/nowhere", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_calibration),
      cmocka_unit_test(test_mistakes_and_confusions_in_order),
      cmocka_unit_test_setup_teardown(test_files, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_the_same_for_all, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_values_have_no_classes, make_folder, remove_folder),
      cmocka_unit_test_setup_teardown(test_a_folder_that_cannot_be_written, make_folder, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Classes by name: what a file of weights calls its classes, beside what the data call theirs. */
#include "tree_testing.h"

#include "io/safetensors.h"

#include <sys/stat.h>

#define TRAIN "model=mnist-small data=folder:%s/tree batch=8 epochs=10 optimizer=adam lr=0.01 threads=1 "

/* Four classes, and weights of a run on them. */
static void write_all(void) {
  for (int k = 0; k < TREE_CLASSES; ++k) {
    put_class("tree/train", k, 12, 0);
    put_class("tree/test", k, 2 + k, 50);
  }
  json_decref(run_job("train", TRAIN "save=%s/w"));
}

/* An evaluation's sums, so that those of parts can be added. */
typedef struct sums {
  double loss, correct, n;
} sums;

static sums evaluate(const char *options) {
  json_t *json = run_job("eval", options);
  double n = real_at(json, "examples");
  sums s = {n * real_at(json, "loss"), n * real_at(json, "accuracy"), n};
  json_decref(json);
  return s;
}

static void check_same(sums a, sums b) {
  assert_float_equal(a.n, b.n, 0);
  assert_float_equal(a.correct, b.correct, 1e-6);
  assert_float_equal(a.loss, b.loss, 1e-4);
}

static void test_some_of_the_classes(void **state) {
  write_all();
  sums all = evaluate("init=%s/w data=folder:%s/tree"), parts = {0};
  assert_true(all.correct > .8 * all.n);
  for (int part = 0; part < 2; ++part) {
    char options[96];
    snprintf(options, sizeof options, "init=%%s/w data=folder:%%s/part%d", part);
    for (int k = part; k < TREE_CLASSES; k += 2) {
      put_class(part ? "part1/train" : "part0/train", k, 2, 0);
      put_class(part ? "part1/test" : "part0/test", k, 2 + k, 50);
    }
    told[0] = '\0';
    sums one = evaluate(options);
    assert_non_null(strstr(told, "2 classes are matched by name with the 4 of "));
    parts = (sums){parts.loss + one.loss, parts.correct + one.correct, parts.n + one.n};
  }
  check_same(parts, all);
}

/* The same network with its outputs, and the names of them, the other way round. */
static void reverse_outputs(void) {
  static float turned[2][TREE_CLASSES * 4096];
  ronde__safetensors *file = open_weights("w");
  ronde__file_tensor tensors[16];
  ronde__file_meta meta[16];
  for (int i = 0, head = 0; i < file->n_tensors; ++i) {
    tensors[i] = file->tensors[i];
    if (strncmp(tensors[i].name, "fc2.", 4)) continue;
    int64_t row = ronde__shape_elems(&tensors[i].shape) / TREE_CLASSES;
    assert_true(tensors[i].shape.dim[0] == TREE_CLASSES && row <= 4096 && head < 2);
    for (int k = 0; k < TREE_CLASSES; ++k)
      memcpy(turned[head] + k * row, (const float *)tensors[i].data + (TREE_CLASSES - 1 - k) * row,
             (size_t)row * sizeof(float));
    tensors[i].data = turned[head++];
  }
  for (int i = 0; i < file->n_meta; ++i) {
    meta[i] = file->meta[i];
    if (!strcmp(meta[i].key, "ronde.classes")) meta[i].value = "[\"dog\",\"cat\",\"bee\",\"ant\"]";
  }
  write_weights("turned", tensors, file->n_tensors, meta, file->n_meta);
  ronde__safetensors_close(file);
}

static void test_another_order(void **state) {
  write_all();
  reverse_outputs();
  sums all = evaluate("init=%s/w data=folder:%s/tree");
  check_same(evaluate("init=%s/turned data=folder:%s/tree"), all);
  check_same(evaluate("init=%s/turned data=folder:%s/tree cache=off workers=2"), all);
}

static void test_classes_that_the_weights_do_not_know(void **state) {
  write_all();
  rename_class("tree/train", "ant", "wasp");
  rename_class("tree/test", "ant", "wasp");
  refused("eval", "init=%s/w data=folder:%s/tree", RONDE_E_INPUT, "does not know the class wasp",
          "(it knows ant, bee, cat, dog): rename the data's classes to match");
  refused("train", TRAIN "init=%s/w", RONDE_E_INPUT, "does not know the class wasp",
          "--classes 4 starts a new output layer");
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

/* The head goes on as it is, and its classes keep their names and places. */
static void test_training_on_some_of_the_classes(void **state) {
  write_all();
  for (int k = 1; k < TREE_CLASSES; k += 2) {
    put_class("part/train", k, 4, 0);
    put_class("part/test", k, 3, 50);
  }
  json_t *run =
      run_job("train", "data=folder:%s/part init=%s/w batch=4 steps=1 optimizer=sgd lr=0 threads=1 save=%s/again");
  assert_true(json_is_null(json_at(run, "model.new_head")));
  assert_int_equal((int)real_at(run, "data.classes"), TREE_CLASSES);
  json_t *eval = run_job("eval", "init=%s/w data=folder:%s/part");
  assert_float_equal(real_at(run, "result.test_loss"), real_at(eval, "loss"), 1e-5);
  ronde__safetensors *file = open_weights("again");
  assert_string_equal(ronde__safetensors_meta(file, "ronde.classes"), "[\"ant\",\"bee\",\"cat\",\"dog\"]");
  ronde__safetensors_close(file);
  json_decref(run);
  json_decref(eval);
}

/* As many classes, but others: the old outputs mean nothing for them. */
static void test_training_on_other_classes(void **state) {
  write_all();
  rename_class("tree/train", "ant", "wasp");
  rename_class("tree/test", "ant", "wasp");
  json_t *run = run_job("train",
                        "data=folder:%s/tree init=%s/w classes=4 batch=8 steps=1 lr=0 seed=7 threads=1 "
                        "save=%s/other");
  assert_string_equal(text_at(run, "model.new_head"), "fc2");
  assert_non_null(strstr(told, "the output layer fc2 is initialised anew: its 4 classes are not those of "));
  json_decref(run);
  put_class("tree/train", 0, 3, 0); /* "ant" beside "wasp": five */
  refused("train", TRAIN "init=%s/w classes=4", RONDE_E_INPUT,
          "--classes 4 is too few: folder:", "/tree has 5 classes");
  rename_class(".", "tree/train/ant", "ant");
  ronde__safetensors *before = open_weights("w"), *after = open_weights("other");
  assert_string_equal(ronde__safetensors_meta(after, "ronde.classes"), "[\"bee\",\"cat\",\"dog\",\"wasp\"]");
  for (int i = 0; i < before->n_tensors; ++i) {
    const ronde__file_tensor *a = &before->tensors[i], *b = ronde__safetensors_find(after, a->name);
    bool same = !memcmp(a->data, b->data, (size_t)ronde__shape_elems(&a->shape) * sizeof(float));
    assert_int_equal(same, strncmp(a->name, "fc2.", 4) != 0);
  }
  ronde__safetensors_close(before);
  ronde__safetensors_close(after);
}

/* The hash is of images and labels, and does not see a name. */
static void test_resuming_with_a_renamed_class(void **state) {
  for (int k = 0; k < TREE_CLASSES; ++k) put_class("tree/train", k, 4, 0);
#define RESUMED "model=mnist-small data=folder:%s/tree batch=4 threads=1 out=%s/run checkpoint-every=1 "
  json_decref(run_job("train", RESUMED "epochs=1"));
  rename_class("tree/train", "dog", "doe");
  refused("train", RESUMED "epochs=2 resume=%s/run", RONDE_E_INPUT, "does not know the class doe",
          "a resumed run keeps the classes it started with");
  rename_class("tree/train", "doe", "dog");
  json_decref(run_job("train", RESUMED "epochs=2 resume=%s/run"));
#undef RESUMED
}

/* ---- names on one side ------------------------------------------------------------------------------------------- */

static void write_unnamed(const char *name, const char *classes) {
  ronde__safetensors *file = open_weights("w");
  ronde__file_meta meta[16];
  int n = 0;
  for (int i = 0; i < file->n_meta; ++i)
    if (strcmp(file->meta[i].key, "ronde.classes")) meta[n++] = file->meta[i];
  for (int i = 0; i < n; ++i)
    if (!strcmp(meta[i].key, "classes")) meta[i].value = classes;
  write_weights(name, file->tensors, file->n_tensors, meta, n);
  ronde__safetensors_close(file);
}

static void test_names_on_one_side(void **state) {
  write_all();
  write_unnamed("unnamed", "4");
  write_unnamed("six", "6");
  sums all = evaluate("init=%s/w data=folder:%s/tree");
  assert_string_equal(told, ""); /* by name, and all of them in their places */
  check_same(evaluate("init=%s/unnamed data=folder:%s/tree"), all);
  assert_non_null(strstr(told, "classes are compared by their index: folder:"));
  told[0] = '\0';
  evaluate("init=%s/w data=synthetic:1x8x8:4:20");
  assert_non_null(strstr(told, "/w has names for them, synthetic:1x8x8:4:20 has none"));
  told[0] = '\0';
  evaluate("init=%s/unnamed data=synthetic:1x8x8:4:20");
  assert_string_equal(told, "");
  refused("eval", "init=%s/six data=folder:%s/tree", RONDE_E_INPUT, "/tree has 4 classes", "has 6");
  refused("eval", "init=%s/w data=synthetic:1x8x8:5:20", RONDE_E_INPUT, "label 4", "beyond the 4 classes");
  refused("train", TRAIN "classes=3", RONDE_E_INPUT, "--classes 3 is too few: folder:", "/tree has 4 classes");
}

static void test_names_that_are_none(void **state) {
  static const struct {
    const char *names, *words;
  } cases[] = {{"{\"a\": 1}", "not a list of strings"},
               {"[\"ant\", 2]", "not a list of strings"},
               {"[", "not a list of strings"},
               {"[\"ant\",\"bee\",\"cat\",\"dog\",\"eel\"]", "it names 5 classes, but says that it has 4"},
               {"[\"ant\",\"bee\",\"bee\",\"dog\"]", "two of its classes are called bee"}};
  write_all();
  ronde__safetensors *file = open_weights("w");
  for (size_t i = 0; i < RONDE__COUNT(cases); ++i) {
    for (int m = 0; m < file->n_meta; ++m)
      if (!strcmp(file->meta[m].key, "ronde.classes")) file->meta[m].value = cases[i].names;
    write_weights("bad", file->tensors, file->n_tensors, file->meta, file->n_meta);
    refused("eval", "init=%s/bad data=folder:%s/tree", RONDE_E_INPUT, "/bad: ", cases[i].words);
  }
  ronde__safetensors_close(file);
}

int main(void) {
  if (!ronde__image_supported()) return 0;
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
  const struct CMUnitTest tests[] = {
      TEST(test_some_of_the_classes),
      TEST(test_another_order),
      TEST(test_classes_that_the_weights_do_not_know),
      TEST(test_training_on_some_of_the_classes),
      TEST(test_training_on_other_classes),
      TEST(test_resuming_with_a_renamed_class),
      TEST(test_names_on_one_side),
      TEST(test_names_that_are_none),
  };
#undef TEST
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Names of data sets: which are known, where their files are looked for, what is said of those that are missing. */
#include "data/testing.h"

#include <sys/stat.h>

#include "data/catalog.h"

static test_log lines;

static ronde_status find_set(const char *spec) {
  ronde__set set;
  ronde_status status = ronde__set_find(spec, 1, &set);
  if (status == RONDE_OK) ronde__set_release(&set);
  return status;
}

static void test_unknown_names_are_usage(void **state) {
  test_log_start(&lines);
  check_failed(&lines, find_set("fashion-mnits"), RONDE_E_USAGE, "fashion-mnits", "did you mean fashion-mnist?");
  check_failed(&lines, find_set("minst:/tmp"), RONDE_E_USAGE, "minst", "did you mean mnist?");
  check_failed(&lines, find_set("syntetic:1x2x3:4:5"), RONDE_E_USAGE, "syntetic", "did you mean synthetic?");
  check_failed(&lines, find_set(""), RONDE_E_USAGE, "no data set", "named");
  check_failed(&lines, find_set(NULL), RONDE_E_USAGE, "no data set", "named");
  check_failed(&lines, find_set("npy"), RONDE_E_USAGE, "npy:DIR", "no folder is given");
  check_failed(&lines, find_set("npy:"), RONDE_E_USAGE, "npy:DIR", "no folder is given");
}

/* A name that is far from all others is not a misspelling. */
static void test_paths_in_place_of_names(void **state) {
  test_log_start(&lines);
  check_failed(&lines, find_set("frobnicate"), RONDE_E_USAGE, "data set frobnicate is unknown: there are fashion-mnist",
               "");
  check_failed(&lines, find_set("FashionMNIST"), RONDE_E_USAGE, "did you mean fashion-mnist?", "");
  char *folder = test_folder_create(), *file = ronde__format("%s/train_x.npy", folder);
  check_failed(&lines, find_set(folder), RONDE_E_USAGE, "it is a folder: write --data folder:/", "or npy:/");
  test_write(folder, "train-images-idx3-ubyte", "", 0);
  check_failed(&lines, find_set(folder), RONDE_E_USAGE, "it is a folder with IDX files: write --data mnist:/", "");
  test_write(folder, "train_x.npy", "", 0);
  check_failed(&lines, find_set(folder), RONDE_E_USAGE, "it is a folder with train_x.npy: write --data npy:/", folder);
  check_failed(&lines, find_set(file), RONDE_E_USAGE, file, "it is a file, but a data set is needed");
  free(file);
  test_folder_destroy(folder);
  const char *home = getenv("HOME");
  char *kept = home ? strdup(home) : NULL;
  setenv("HOME", "/nowhere", 1);
  check_failed(&lines, find_set("cifar10"), RONDE_E_INPUT, "download them by `ronde data get cifar10`",
               "data_batch_1.bin");
  if (kept) setenv("HOME", kept, 1);
  free(kept);
}

static void test_synthetic_specs(void **state) {
  test_log_start(&lines);
  static const char *const bad[] = {"synthetic",
                                    "synthetic:",
                                    "synthetic:3x32:10:100",
                                    "synthetic:3x32x32:10",
                                    "synthetic:3x32x32::",
                                    "synthetic:0x32x32:1:1",
                                    "synthetic:3x32x32:10:100x",
                                    "synthetic:3x32x32:10:99999999999999999999",
                                    "synthetic:3x32x-2:10:1",
                                    "synthetic:3x32x32:0:1",
                                    "synthetic:3x32x32:9999999:1",
                                    "synthetic:3x99999x32:9:1",
                                    "synthetic: 3x3x3:9:1"};
  for (size_t i = 0; i < RONDE__COUNT(bad); ++i)
    check_failed(&lines, find_set(bad[i]), RONDE_E_USAGE, bad[i], "expected synthetic:CxHxW:classes:n");
  ronde__set set;
  assert_int_equal(ronde__set_find("synthetic:3x32x16:10:100", 9, &set), RONDE_OK);
  assert_string_equal(set.name, "synthetic:3x32x16:10:100");
  assert_true(set.dims[0] == 3 && set.dims[1] == 32 && set.dims[2] == 16);
  assert_true(set.classes == 10 && set.n[0] == 100 && set.n[1] == 20 && set.seed == 9);
  ronde__set_release(&set);
}

static void test_files_are_found_in_both_spellings(void **state) {
  static const char *const names[][4] = {
      {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
      {"train-images.idx3-ubyte", "train-labels.idx1-ubyte", "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"},
  };
  for (int spelling = 0; spelling < 2; ++spelling)
    for (int gzip = 0; gzip < 2; ++gzip) {
      char *folder = test_folder_create(), *spec = ronde__format("mnist:%s", folder), *paths[4];
      for (int i = 0; i < 4; ++i) {
        char *name = ronde__format("%s%s", names[spelling][i], gzip ? ".gz" : "");
        test_write(folder, name, "", 0);
        paths[i] = ronde__format("%s/%s", folder, name);
        free(name);
      }
      ronde__set set;
      assert_int_equal(ronde__set_find(spec, 1, &set), RONDE_OK);
      assert_string_equal(set.name, "mnist");
      assert_string_equal(set.x_path[0], paths[0]);
      assert_string_equal(set.y_path[0], paths[1]);
      assert_string_equal(set.x_path[1], paths[2]);
      assert_string_equal(set.y_path[1], paths[3]);
      ronde__set_release(&set);
      for (int i = 0; i < 4; ++i) free(paths[i]);
      free(spec);
      test_folder_destroy(folder);
    }
}

static void test_missing_files_are_named(void **state) {
  test_log_start(&lines);
  char *folder = test_folder_create(), *mnist = ronde__format("mnist:%s", folder),
       *npy = ronde__format("npy:%s", folder);
  check_failed(&lines, find_set(mnist), RONDE_E_INPUT, folder, "/train-images-idx3-ubyte: not found");
  test_write(folder, "train-images-idx3-ubyte", "", 0);
  check_failed(&lines, find_set(mnist), RONDE_E_INPUT, folder, "/train-labels-idx1-ubyte: not found");
  test_write(folder, "train-labels-idx1-ubyte.gz", "", 0);
  assert_int_equal(find_set(mnist), RONDE_OK);
  assert_non_null(strstr(lines.warning, "no test examples"));
  test_write(folder, "t10k-images.idx3-ubyte", "", 0);
  check_failed(&lines, find_set(mnist), RONDE_E_INPUT, folder, "/t10k-labels-idx1-ubyte: not found");
  check_failed(&lines, find_set(npy), RONDE_E_INPUT, folder, "/train_x.npy: not found");
  test_write(folder, "train_x.npy", "", 0);
  check_failed(&lines, find_set(npy), RONDE_E_INPUT, folder, "/train_y.npy: not found");
  test_write(folder, "train_y.npy", "", 0);
  assert_int_equal(find_set(npy), RONDE_OK);
  test_write(folder, "test_y.npy", "", 0);
  check_failed(&lines, find_set(npy), RONDE_E_INPUT, folder, "/test_x.npy: not found");
  free(mnist);
  free(npy);
  test_folder_destroy(folder);
}

/* Puts the training pair into root/below. */
static void place_set(const char *root, const char *below) {
  char *path = ronde__format("%s/", root);
  for (const char *part = below; *part;) {
    size_t length = strcspn(part, "/");
    char *longer = ronde__format("%s%.*s/", path, (int)length, part);
    free(path);
    path = longer;
    mkdir(path, 0700);
    part += length + (part[length] == '/');
  }
  test_write(path, "train-images-idx3-ubyte", "", 0);
  test_write(path, "train-labels-idx1-ubyte", "", 0);
  free(path);
}

static void check_found(const char *name, const char *root, const char *below) {
  ronde__set set;
  char *path = ronde__format("%s/%s/train-images-idx3-ubyte", root, below);
  assert_int_equal(ronde__set_find(name, 1, &set), RONDE_OK);
  assert_string_equal(set.x_path[0], path);
  ronde__set_release(&set);
  free(path);
}

static void test_folders_are_searched_in_order(void **state) {
  test_log_start(&lines);
  char *root = test_folder_create(), *own = ronde__format("%s/own", root), *xdg = ronde__format("%s/xdg", root);
  unsetenv("RONDE_DATA");
  unsetenv("XDG_DATA_HOME");
  setenv("HOME", root, 1);
  bool packaged = !access("/usr/share/datasets/mnist", F_OK); /* then nothing is missing */
  if (!packaged)
    check_failed(&lines, find_set("mnist"), RONDE_E_INPUT, "/.local/share/ronde/mnist, /usr/share/datasets/mnist",
                 "train-images-idx3-ubyte[.gz]");
  place_set(root, ".local/share/ronde/mnist");
  check_found("mnist", root, ".local/share/ronde/mnist");
  setenv("XDG_DATA_HOME", xdg, 1);
  if (!packaged) check_failed(&lines, find_set("mnist"), RONDE_E_INPUT, xdg, "/ronde/mnist");
  place_set(root, "xdg/ronde/mnist");
  check_found("mnist", root, "xdg/ronde/mnist");
  setenv("RONDE_DATA", own, 1);
  check_found("mnist", root, "xdg/ronde/mnist");
  place_set(root, "own");
  check_found("mnist", root, "own");
  place_set(root, "own/mnist");
  check_found("mnist", root, "own/mnist");
  unsetenv("RONDE_DATA");
  unsetenv("XDG_DATA_HOME");
  free(own);
  free(xdg);
  test_folder_destroy(root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unknown_names_are_usage), cmocka_unit_test(test_paths_in_place_of_names),
      cmocka_unit_test(test_synthetic_specs),         cmocka_unit_test(test_files_are_found_in_both_spellings),
      cmocka_unit_test(test_missing_files_are_named), cmocka_unit_test(test_folders_are_searched_in_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

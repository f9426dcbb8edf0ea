/* `ronde eval`: how good trained weights are, over all and class by class. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ALL_CLASSES = 20, WORST_CLASSES = 10, NAME_COLUMNS = 24, MATRIX_NAME = 14 };

/* "name", or "class 3" where it has none. */
static const char *eval_class(const json_t *row, const char *number, const char *name, char buffer[64]) {
  const char *text = tool_string(row, name);
  if (*text) snprintf(buffer, 64, "%.60s", text);
  else snprintf(buffer, 64, "class %.0f", tool_number(row, number));
  return buffer;
}

/* As many characters of a text as fit, and blanks behind them. */
static void eval_print_text(const char *text, int columns) {
  int width = 0;
  for (; *text && (width < columns || ((unsigned char)*text & 0xc0) == 0x80); text++) {
    width += ((unsigned char)*text & 0xc0) != 0x80;
    putchar(*text);
  }
  printf("%*s", columns - width, "");
}

static void eval_print_share(double x) {
  if (isnan(x)) printf("  %9s", "-");
  else printf("  %9.4f", x);
}

static void eval_print_class(const json_t *row) {
  char name[64], examples[32];
  eval_print_text(eval_class(row, "class", "name", name), NAME_COLUMNS);
  printf("  %8s", tool_count(tool_number(row, "examples"), examples));
  eval_print_share(tool_number(row, "precision"));
  eval_print_share(tool_number(row, "recall"));
  eval_print_share(tool_number(row, "f1"));
  printf("\n");
}

/* The worst first; classes without examples last. */
static int eval_by_f1(const void *a, const void *b) {
  double x = tool_number(*(json_t *const *)a, "f1"), y = tool_number(*(json_t *const *)b, "f1");
  if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
  return (x > y) - (x < y);
}

static void eval_print_classes(const json_t *classes) {
  size_t n = json_array_size(classes);
  const json_t **rows = malloc((n + 1) * sizeof *rows);
  if (!rows) return;
  for (size_t i = 0; i < n; i++) rows[i] = json_array_get(classes, i);
  printf("\n%-*s  %8s  %9s  %9s  %9s\n", NAME_COLUMNS, n > ALL_CLASSES ? "the worst classes" : "class", "examples",
         "precision", "recall", "f1");
  if (n > ALL_CLASSES) qsort(rows, n, sizeof *rows, eval_by_f1);
  for (size_t i = 0; i < (n > ALL_CLASSES ? WORST_CLASSES : n); i++) eval_print_class(rows[i]);
  free(rows);
}

/* Where it fits 80 columns; `confusion` in the JSON has it up to more classes. */
static void eval_print_matrix(const json_t *matrix, const json_t *classes) {
  const json_t *row, *cell;
  size_t i, k, n = json_array_size(classes);
  int widest = 2;
  char text[64];
  json_array_foreach(matrix, i, row) {
    json_array_foreach(row, k, cell) {
      int width = tool_width(tool_count(json_number_value(cell), text));
      if (width > widest) widest = width;
    }
  }
  if (n < 2 || !json_is_array(matrix) || 4 + MATRIX_NAME + (int)n * (widest + 1) > 80) return;
  printf("\nconfusion: a row for each class, a column for what it was taken for\n%*s", 4 + MATRIX_NAME, "");
  for (k = 0; k < n; k++) printf(" %*zu", widest, k);
  json_array_foreach(matrix, i, row) {
    printf("\n%3zu ", i);
    eval_print_text(eval_class(json_array_get(classes, i), "class", "name", text), MATRIX_NAME);
    json_array_foreach(row, k, cell) {
      char count[32];
      printf(" %*s", widest, tool_count(json_number_value(cell), count));
    }
  }
  printf("\n");
}

static void eval_print_confused(const json_t *confused) {
  const json_t *row;
  size_t i;
  char from[64], to[64], examples[32];
  if (json_array_size(confused)) printf("\nmost often taken for another\n");
  json_array_foreach(confused, i, row) {
    printf("%8s  %s as %s\n", tool_count(tool_number(row, "examples"), examples),
           eval_class(row, "class", "name", from), eval_class(row, "predicted", "predicted_name", to));
  }
}

static void eval_print_mistakes(const json_t *mistakes) {
  const json_t *row;
  size_t i;
  char from[64], to[64];
  if (json_array_size(mistakes)) printf("\nthe most confident mistakes\n");
  json_array_foreach(mistakes, i, row) {
    const char *file = tool_string(row, "file");
    printf("%8.4f  %s as %s: ", tool_number(row, "confidence"), eval_class(row, "class", "name", from),
           eval_class(row, "predicted", "predicted_name", to));
    if (*file) printf("%s\n", file);
    else printf("example %.0f\n", tool_number(row, "example"));
  }
}

static void eval_print_verdicts(const json_t *json) {
  const json_t *macro = json_object_get(json, "macro"), *calibration = json_object_get(json, "calibration");
  double top5 = tool_number(json, "top5_accuracy");
  if (isfinite(top5)) printf("top-5     %.4f\n", top5);
  printf("macro     precision %.4f, recall %.4f, F1 %.4f\n", tool_number(macro, "precision"),
         tool_number(macro, "recall"), tool_number(macro, "f1"));
  printf("confident %.4f on average; calibration error %.4f\n", tool_number(calibration, "mean_confidence"),
         tool_number(calibration, "error"));
}

/* One line for each measure that there is. */
static void eval_print_values(const json_t *json) {
  static const struct {
    const char *key, *shown;
  } measures[] = {{"mae", "MAE"},
                  {"rmse", "RMSE"},
                  {"r2", "R2"},
                  {"label_accuracy", "labels"},
                  {"perplexity", "perplexity"},
                  {"bits_per_token", "bits/token"},
                  {"bits_per_byte", "bits/byte"},
                  {"wer", "WER"},
                  {"cer", "CER"}};
  for (size_t i = 0; i < sizeof measures / sizeof measures[0]; i++) {
    double value = tool_number(json, measures[i].key);
    if (isfinite(value)) printf("%-9s %.6g\n", measures[i].shown, value);
  }
}

static void eval_print_bleu(const json_t *bleu) {
  const json_t *precision;
  size_t n;
  printf("BLEU      %.2f (%s, beam %.0f:", tool_number(bleu, "score"), tool_string(bleu, "tokens"),
         tool_number(bleu, "beam"));
  json_array_foreach(json_object_get(bleu, "precisions"), n, precision) {
    printf("%s%.1f", n ? "/" : " ", json_number_value(precision));
  }
  printf(", brevity %.3f)\n", tool_number(bleu, "brevity_penalty"));
  printf("exact     %.4f\n", tool_number(bleu, "exact"));
}

static void eval_print(const json_t *json) {
  char examples[32];
  double accuracy = tool_number(json, "accuracy");
  const json_t *classes = json_object_get(json, "classes");
  printf("loss      %.9g\n", tool_number(json, "loss"));
  if (isfinite(accuracy)) printf("accuracy  %.4f\n", accuracy);
  if (classes) eval_print_verdicts(json);
  eval_print_values(json);
  if (json_object_get(json, "bleu")) eval_print_bleu(json_object_get(json, "bleu"));
  printf("examples  %s (%s)\n", tool_count(tool_number(json, "examples"), examples), tool_string(json, "split"));
  printf("data      %s\n", tool_string(json, "data"));
  printf("weights   sha256 %s\n", tool_string(json, "weights_sha256"));
  if (!classes) return;
  eval_print_classes(classes);
  eval_print_matrix(json_object_get(json, "confusion"), classes);
  eval_print_confused(json_object_get(json, "confused"));
  eval_print_mistakes(json_object_get(json, "mistakes"));
}

ronde_status tool_eval(const tool_call *call) {
  tool_signals_start(0);
  ronde_hooks hooks = tool_hooks(false, 0);
  char *text;
  ronde_status status = ronde_eval(call->config, &hooks, &text);
  return status ? status : tool_print_result(call, text, eval_print);
}

/* Sums over a classifier's verdicts, as JSON and as CSV (RFC 4180).
 * Precision, recall and F1 are those of scikit-learn: macro averages are over the classes that occur, as labels or as
 * predictions, and what cannot be computed counts as 0 there. The calibration error is that of Guo et al., "On
 * calibration of modern neural networks" (2017): 15 bins of confidence, weighted by their examples. */
#include "verbs/verdicts.h"

#include "base/json.h"
#include "io/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_BINS = 15, N_CONFUSED = 10, N_MISTAKES = 10, DENSE_CLASSES = 200 };

typedef struct class_count {
  int64_t labels, predictions, right;
} class_count;

/* How often a label was taken for another class. */
typedef struct confusion {
  int32_t label, predicted;
  int64_t n;
} confusion;

typedef struct bin {
  int64_t n, right;
  double confidence; /* sum */
} bin;

typedef struct sums {
  int64_t classes, in_top5;
  class_count *of; /* [classes] */
  confusion *confused;
  int64_t n_confused; /* different pairs, the most frequent first */
  bin bins[N_BINS];
} sums;

static void sums_release(sums *s) {
  ronde__free(s->of);
  ronde__free(s->confused);
}

static int by_pair(const void *a, const void *b) {
  const confusion *x = a, *y = b;
  if (x->label != y->label) return x->label < y->label ? -1 : 1;
  return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

static int by_count(const void *a, const void *b) {
  const confusion *x = a, *y = b;
  if (x->n != y->n) return x->n > y->n ? -1 : 1;
  return by_pair(a, b);
}

static ronde_status find_confusions(const ronde__verdicts *v, int64_t n_wrong, sums *s) {
  RONDE__ALLOC(s->confused, (size_t)ronde__max(n_wrong, 1) * sizeof *s->confused, "evaluation");
  int64_t n = 0, n_pairs = 0;
  for (int64_t i = 0; i < v->n; i++)
    if (v->at[i].label != v->at[i].predicted) s->confused[n++] = (confusion){v->at[i].label, v->at[i].predicted, 1};
  qsort(s->confused, (size_t)n, sizeof *s->confused, by_pair);
  for (int64_t i = 0; i < n; i++) {
    if (n_pairs && by_pair(&s->confused[n_pairs - 1], &s->confused[i]) == 0) s->confused[n_pairs - 1].n++;
    else s->confused[n_pairs++] = s->confused[i];
  }
  qsort(s->confused, (size_t)n_pairs, sizeof *s->confused, by_count);
  s->n_confused = n_pairs;
  return RONDE_OK;
}

static ronde_status sum_up(const ronde__verdicts *v, sums *s) {
  int64_t n_wrong = 0;
  *s = (sums){.classes = v->data->source.classes};
  RONDE__ALLOC(s->of, (size_t)s->classes * sizeof *s->of, "evaluation");
  for (int64_t i = 0; i < v->n; i++) {
    const ronde__verdict *verdict = &v->at[i];
    bool right = verdict->label == verdict->predicted;
    s->of[verdict->label].labels++;
    s->of[verdict->predicted].predictions++;
    s->of[verdict->label].right += right;
    s->in_top5 += verdict->in_top5;
    n_wrong += !right;
    bin *bin = &s->bins[ronde__min((int64_t)(verdict->confidence * N_BINS), N_BINS - 1)];
    bin->n++;
    bin->right += right;
    bin->confidence += verdict->confidence;
  }
  ronde_status status = find_confusions(v, n_wrong, s);
  if (status != RONDE_OK) sums_release(s);
  return status;
}

/* NAN where there is nothing to divide by. */
static double ratio(int64_t a, int64_t b) { return b ? (double)a / (double)b : NAN; }
static double f1_of(const class_count *c) { return ratio(2 * c->right, c->labels + c->predictions); }
static double top5_of(const ronde__verdicts *v, const sums *s) {
  return s->classes > 5 ? ratio(s->in_top5, v->n) : NAN;
}

/* ---- JSON ---- */

static json_t *figure(double x) { return isnan(x) ? json_null() : json_real(x); }
static json_t *name_of(const ronde__verdicts *v, int64_t k) {
  return ronde__json_text(ronde__data_class_name(v->data, k));
}

static json_t *classes_json(const ronde__verdicts *v, const sums *s) {
  json_t *rows = json_array();
  for (int64_t k = 0; k < s->classes; k++) {
    const class_count *c = &s->of[k];
    json_array_append_new(
        rows, json_pack("{s:I, s:o, s:I, s:I, s:o, s:o, s:o}", "class", (json_int_t)k, "name", name_of(v, k),
                        "examples", (json_int_t)c->labels, "predicted", (json_int_t)c->predictions, "precision",
                        figure(ratio(c->right, c->predictions)), "recall", figure(ratio(c->right, c->labels)), "f1",
                        figure(f1_of(c))));
  }
  return rows;
}

static json_t *macro_json(const sums *s) {
  double precision = 0, recall = 0, f1 = 0;
  int64_t n = 0;
  for (int64_t k = 0; k < s->classes; k++) {
    const class_count *c = &s->of[k];
    if (c->labels + c->predictions == 0) continue;
    precision += c->predictions ? ratio(c->right, c->predictions) : 0;
    recall += c->labels ? ratio(c->right, c->labels) : 0;
    f1 += f1_of(c);
    n++;
  }
  double all = (double)n;
  return json_pack("{s:f, s:f, s:f}", "precision", precision / all, "recall", recall / all, "f1", f1 / all);
}

static json_t *calibration_json(const ronde__verdicts *v, const sums *s) {
  double error = 0, confidence = 0;
  json_t *rows = json_array();
  for (int b = 0; b < N_BINS; b++) {
    const bin *bin = &s->bins[b];
    confidence += bin->confidence;
    error += fabs((double)bin->right - bin->confidence);
    json_array_append_new(rows, json_pack("{s:f, s:f, s:I, s:o, s:o}", "from", (double)b / N_BINS, "to",
                                          (double)(b + 1) / N_BINS, "examples", (json_int_t)bin->n, "confidence",
                                          figure(bin->n ? bin->confidence / (double)bin->n : NAN), "accuracy",
                                          figure(ratio(bin->right, bin->n))));
  }
  return json_pack("{s:f, s:f, s:o}", "error", error / (double)v->n, "mean_confidence", confidence / (double)v->n,
                   "bins", rows);
}

/* [label][prediction]; null where there are too many classes to read it. */
static json_t *confusion_json(const sums *s) {
  if (s->classes > DENSE_CLASSES) return json_null();
  json_t *rows = json_array();
  for (int64_t i = 0; i < s->classes; i++) {
    json_t *row = json_array();
    for (int64_t k = 0; k < s->classes; k++) json_array_append_new(row, json_integer(i == k ? s->of[i].right : 0));
    json_array_append_new(rows, row);
  }
  for (int64_t i = 0; i < s->n_confused; i++)
    json_array_set_new(json_array_get(rows, (size_t)s->confused[i].label), (size_t)s->confused[i].predicted,
                       json_integer(s->confused[i].n));
  return rows;
}

static json_t *confused_json(const ronde__verdicts *v, const sums *s) {
  json_t *rows = json_array();
  for (int64_t i = 0; i < ronde__min(s->n_confused, N_CONFUSED); i++) {
    const confusion *c = &s->confused[i];
    json_array_append_new(
        rows, json_pack("{s:i, s:o, s:i, s:o, s:I}", "class", c->label, "name", name_of(v, c->label), "predicted",
                        c->predicted, "predicted_name", name_of(v, c->predicted), "examples", (json_int_t)c->n));
  }
  return rows;
}

static int64_t id_of(const ronde__verdicts *v, int64_t i) { return v->ids ? v->ids[i] : i; }

static json_t *mistake_json(const ronde__verdicts *v, int64_t i) {
  const ronde__verdict *verdict = &v->at[i];
  int64_t id = id_of(v, i);
  return json_pack("{s:I, s:o, s:i, s:o, s:i, s:o, s:f}", "example", (json_int_t)id, "file",
                   ronde__json_text(ronde__data_example_file(v->data, v->split, id)), "class", verdict->label, "name",
                   name_of(v, verdict->label), "predicted", verdict->predicted, "predicted_name",
                   name_of(v, verdict->predicted), "confidence", (double)verdict->confidence);
}

/* The most confident first; of equals the first example. */
static json_t *mistakes_json(const ronde__verdicts *v) {
  int64_t top[N_MISTAKES];
  int n = 0;
  for (int64_t i = 0; i < v->n; i++) {
    if (v->at[i].label == v->at[i].predicted) continue;
    int at = n;
    while (at > 0 && v->at[top[at - 1]].confidence < v->at[i].confidence) at--;
    if (at == N_MISTAKES) continue;
    n = (int)ronde__min(n + 1, N_MISTAKES);
    memmove(top + at + 1, top + at, (size_t)(n - 1 - at) * sizeof *top);
    top[at] = i;
  }
  json_t *rows = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(rows, mistake_json(v, top[i]));
  return rows;
}

/* ---- CSV ---- */

/* In quotes, where the text needs them. */
static void put_text(FILE *file, const char *text) {
  if (!text || !text[strcspn(text, ",\"\r\n")]) {
    fprintf(file, "%s", text ? text : "");
    return;
  }
  putc('"', file);
  for (; *text; text++) {
    if (*text == '"') putc('"', file);
    putc(*text, file);
  }
  putc('"', file);
}

/* As many digits as tell floats apart, with a point whatever the locale; nothing for NAN. */
static void put_figure(FILE *file, double x) {
  json_t *number = isnan(x) ? NULL : json_real(x);
  char *text = number ? json_dumps(number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
  fprintf(file, ",%s", text ? text : "");
  free(text);
  json_decref(number);
}

static void put_classes(FILE *file, const ronde__verdicts *v, const sums *s) {
  fprintf(file, "class,name,examples,predicted,precision,recall,f1\r\n");
  for (int64_t k = 0; k < s->classes; k++) {
    const class_count *c = &s->of[k];
    fprintf(file, "%" PRId64 ",", k);
    put_text(file, ronde__data_class_name(v->data, k));
    fprintf(file, ",%" PRId64 ",%" PRId64, c->labels, c->predictions);
    put_figure(file, ratio(c->right, c->predictions));
    put_figure(file, ratio(c->right, c->labels));
    put_figure(file, f1_of(c));
    fprintf(file, "\r\n");
  }
}

/* A line for each pair that occurs, right ones too. */
static void put_confusion(FILE *file, const ronde__verdicts *v, const sums *s) {
  fprintf(file, "class,predicted,name,predicted_name,examples\r\n");
  for (int64_t k = 0; k < s->classes; k++) {
    if (!s->of[k].right) continue;
    fprintf(file, "%" PRId64 ",%" PRId64 ",", k, k);
    put_text(file, ronde__data_class_name(v->data, k));
    putc(',', file);
    put_text(file, ronde__data_class_name(v->data, k));
    fprintf(file, ",%" PRId64 "\r\n", s->of[k].right);
  }
  for (int64_t i = 0; i < s->n_confused; i++) {
    const confusion *c = &s->confused[i];
    fprintf(file, "%d,%d,", c->label, c->predicted);
    put_text(file, ronde__data_class_name(v->data, c->label));
    putc(',', file);
    put_text(file, ronde__data_class_name(v->data, c->predicted));
    fprintf(file, ",%" PRId64 "\r\n", c->n);
  }
}

static void put_calibration(FILE *file, const ronde__verdicts *v, const sums *s) {
  (void)v;
  fprintf(file, "bin,from,to,examples,confidence,accuracy\r\n");
  for (int b = 0; b < N_BINS; b++) {
    const bin *bin = &s->bins[b];
    fprintf(file, "%d", b);
    put_figure(file, (double)b / N_BINS);
    put_figure(file, (double)(b + 1) / N_BINS);
    fprintf(file, ",%" PRId64, bin->n);
    put_figure(file, bin->n ? bin->confidence / (double)bin->n : NAN);
    put_figure(file, ratio(bin->right, bin->n));
    fprintf(file, "\r\n");
  }
}

static void put_measure(FILE *file, const char *name, double value) {
  fprintf(file, "%s", name);
  put_figure(file, value);
  fprintf(file, "\r\n");
}

static double number_of(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

static void put_measures(FILE *file, const ronde__verdicts *v, const sums *s) {
  json_t *macro = macro_json(s), *calibration = calibration_json(v, s);
  int64_t n_right = 0;
  for (int64_t k = 0; k < s->classes; k++) n_right += s->of[k].right;
  fprintf(file, "measure,value\r\nexamples,%" PRId64 "\r\n", v->n);
  put_measure(file, "accuracy", ratio(n_right, v->n));
  put_measure(file, "top5_accuracy", top5_of(v, s));
  put_measure(file, "macro_precision", number_of(macro, "precision"));
  put_measure(file, "macro_recall", number_of(macro, "recall"));
  put_measure(file, "macro_f1", number_of(macro, "f1"));
  put_measure(file, "mean_confidence", number_of(calibration, "mean_confidence"));
  put_measure(file, "calibration_error", number_of(calibration, "error"));
  json_decref(macro);
  json_decref(calibration);
}

static void put_predictions(FILE *file, const ronde__verdicts *v, const sums *s) {
  fprintf(file, "example,file,class,predicted,confidence\r\n");
  for (int64_t i = 0; i < v->n; i++) {
    fprintf(file, "%" PRId64 ",", id_of(v, i));
    put_text(file, ronde__data_example_file(v->data, v->split, id_of(v, i)));
    fprintf(file, ",%d,%d", v->at[i].label, v->at[i].predicted);
    put_figure(file, (double)v->at[i].confidence);
    fprintf(file, "\r\n");
  }
}

typedef void table_writer(FILE *file, const ronde__verdicts *v, const sums *s);

static ronde_status write_table(const ronde__verdicts *v, const sums *s, const char *folder, const char *name,
                                table_writer *put) {
  char *text = NULL, *path = ronde__format("%s/%s", folder, name);
  size_t bytes;
  FILE *file = path ? open_memstream(&text, &bytes) : NULL;
  ronde_status status = RONDE_OK;
  if (file) put(file, v, s);
  if (!file || fclose(file)) status = ronde__fail(RONDE_E_MEMORY, "%s/%s: no memory", folder, name);
  if (status == RONDE_OK) status = ronde__file_replace(path, text, bytes);
  free(text);
  free(path);
  return status;
}

static ronde_status write_tables(const ronde__verdicts *v, const sums *s, const char *folder) {
  RONDE_TRY(ronde__folder_make(folder));
  RONDE_TRY(write_table(v, s, folder, "classes.csv", put_classes));
  RONDE_TRY(write_table(v, s, folder, "confusion.csv", put_confusion));
  RONDE_TRY(write_table(v, s, folder, "calibration.csv", put_calibration));
  RONDE_TRY(write_table(v, s, folder, "measures.csv", put_measures));
  return write_table(v, s, folder, "predictions.csv", put_predictions);
}

/* ---- both ---- */

static ronde_status add_json(const ronde__verdicts *v, const sums *s, json_t *result) {
  json_t *told =
      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "top5_accuracy", figure(top5_of(v, s)), "macro", macro_json(s),
                "calibration", calibration_json(v, s), "classes", classes_json(v, s), "confusion", confusion_json(s),
                "confused", confused_json(v, s), "mistakes", mistakes_json(v));
  bool added = told && json_object_update(result, told) == 0;
  json_decref(told);
  return added ? RONDE_OK : ronde__fail(RONDE_E_MEMORY, "evaluation: no memory for the result");
}

ronde_status ronde__verdicts_tell(const ronde__verdicts *v, const char *folder, json_t *result) {
  sums s;
  RONDE_TRY(sum_up(v, &s));
  ronde_status status = add_json(v, &s, result);
  if (status == RONDE_OK && folder) status = write_tables(v, &s, folder);
  sums_release(&s);
  return status;
}

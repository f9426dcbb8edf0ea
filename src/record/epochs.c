/* epochs.csv: one row an epoch, for spreadsheets; what a run goes on from keeps the rows of the epochs before. */
#include "record/record.h"

#include "base/disk.h"
#include "io/file.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ronde_status epochs_failed(const char *path, const char *what) {
  return ronde__fail(RONDE_E_WRITE, "%s: cannot %s: %s", path, what, strerror(errno));
}

static void put_head(FILE *file) {
  fputs("epoch,last_step,examples,lr,train_loss,train_accuracy,test_loss,test_accuracy,wall_s", file);
  for (int p = 0; p < RONDE__N_PHASES; p++) fprintf(file, ",%s_s", ronde__phase_name((ronde__phase)p));
  fputs("\r\n", file);
}

/* The epoch of a whole row, or 0: the head, or what a killed process has left of a row. */
static int64_t row_epoch(const char *row) {
  char *end;
  long long epoch = row[0] >= '1' && row[0] <= '9' ? strtoll(row, &end, 10) : 0;
  return epoch > 0 && *end == ',' && row[strlen(row) - 1] == '\n' ? epoch : 0;
}

/* The head and the rows of epochs before `first`, each once. */
static ronde_status copy_rows(FILE *file, const char *path, int64_t first) {
  char *row = NULL, *kept = NULL;
  size_t row_bytes = 0, kept_bytes;
  FILE *out = open_memstream(&kept, &kept_bytes);
  ronde_status status = RONDE_OK;
  if (out) {
    put_head(out);
    for (int64_t last = 0; getline(&row, &row_bytes, file) > 0;) {
      int64_t epoch = row_epoch(row);
      if (epoch <= last || epoch >= first) continue;
      fputs(row, out);
      last = epoch;
    }
  }
  if (!out || fclose(out)) status = ronde__fail(RONDE_E_MEMORY, "%s: no memory for its rows", path);
  if (status == RONDE_OK) status = ronde__file_replace(path, kept, kept_bytes);
  free(row);
  free(kept);
  return status;
}

static ronde_status cut(const char *path, int64_t first) {
  if (first <= 1) return unlink(path) && errno != ENOENT ? epochs_failed(path, "replace it") : RONDE_OK;
  FILE *file = fopen(path, "re");
  if (!file) return errno == ENOENT ? RONDE_OK : epochs_failed(path, "continue it");
  ronde_status status = copy_rows(file, path, first);
  fclose(file);
  return status;
}

ronde_status ronde__epochs_cut(const char *folder, int64_t first) {
  char *path = ronde__format("%s/epochs.csv", folder);
  ronde_status status = path ? cut(path, first) : ronde__fail(RONDE_E_MEMORY, "%s/epochs.csv: no memory", folder);
  free(path);
  return status;
}

/* Empty where nothing was measured. */
static void put_real(FILE *file, double value, int digits) {
  if (isfinite(value)) fprintf(file, ",%.*g", digits, value);
  else putc(',', file);
}

static void put_row(FILE *file, const ronde__record_epoch *e, int64_t last_step) {
  fprintf(file, "%" PRId64 ",%" PRId64 ",%" PRId64, e->epoch, last_step, e->examples);
  put_real(file, e->lr, 15);
  put_real(file, e->train_loss, 9);
  put_real(file, e->train_accuracy, 9);
  put_real(file, e->test_loss, 9);
  put_real(file, e->test_accuracy, 9);
  put_real(file, e->wall_s, 9);
  for (int p = 0; p < RONDE__N_PHASES; p++) put_real(file, e->phase_s[p], 9);
  fputs("\r\n", file);
}

static ronde_status add_row(const char *path, const ronde__record_epoch *epoch, int64_t last_step) {
  FILE *file = ronde__disk_fails() ? NULL : fopen(path, "ae");
  if (!file) return epochs_failed(path, "write");
  locale_t before = uselocale(ronde__c_locale());
  if (ftell(file) == 0) put_head(file);
  put_row(file, epoch, last_step);
  uselocale(before);
  bool failed = ferror(file);
  return fclose(file) || failed ? epochs_failed(path, "write") : RONDE_OK;
}

ronde_status ronde__epochs_add(const char *folder, const ronde__record_epoch *epoch, int64_t last_step) {
  char *path = ronde__format("%s/epochs.csv", folder);
  ronde_status status =
      path ? add_row(path, epoch, last_step) : ronde__fail(RONDE_E_MEMORY, "%s/epochs.csv: no memory", folder);
  free(path);
  return status;
}

/* What the tests of this folder share: folders that vanish, files of every format, and the line that an error logged.
 */
#ifndef RONDE_DATA_TESTING_H
#define RONDE_DATA_TESTING_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/base.h"

/* ---- logged lines ------------------------------------------------------------------------------------------------ */

typedef struct test_log {
  char error[2048], warning[2048];
  int n_errors, n_warnings;
} test_log;

void test_log_line(void *user, ronde_log_level level, const char *line);

void test_log_start(test_log *log);

/* The status is the wanted one, and exactly one line was logged, which holds each of the texts. */
void check_failed(test_log *log, ronde_status status, ronde_status wanted, const char *a, const char *b);

/* ---- folders and files ------------------------------------------------------------------------------------------- */

char *test_folder_create(void);

void test_folder_destroy(char *path);

void test_write(const char *folder, const char *name, const void *data, size_t bytes);

typedef struct test_bytes {
  uint8_t *data;
  size_t n;
} test_bytes;

test_bytes test_bytes_make(const void *data, size_t n);

test_bytes test_bytes_join(test_bytes a, test_bytes b);

test_bytes test_gzip(const void *data, size_t n);

/* ---- formats ----------------------------------------------------------------------------------------------------- */

/* dims of any rank; the payload as given, whatever the dims say. */
test_bytes test_idx(int rank, const uint32_t *dims, const void *payload, size_t payload_bytes);

/* Version 1.0; dict as given, padded like NumPy does. */
test_bytes test_npy(const char *dict, const void *payload, size_t payload_bytes);

void test_put_be(uint8_t *at, uint32_t value);

test_bytes test_png_chunk(test_bytes file, const char *type, const void *data, size_t n);

/* channels 1 or 3, interleaved; depth 8 or 16 (big-endian). */
test_bytes test_png(int64_t h, int64_t w, int channels, int depth, const uint8_t *pixels);

void test_write_bytes(const char *folder, const char *name, test_bytes b);

/* A pixel of test image i, of a set whose images differ. */
uint8_t test_pixel(int64_t i, int64_t p);

/* An IDX set of h x w images with labels i mod classes. */
void test_write_idx_pair(const char *folder, const char *prefix, int64_t n, int64_t h, int64_t w, int64_t classes,
                         bool gzip);

#endif

/* Results of the library, as JSON, on their way to people's eyes. */
#include "common.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_printable(json_t *json) {
  const char *key, *text = json_string_value(json);
  json_t *value;
  size_t i;
  json_object_foreach(json, key, value) make_printable(value);
  json_array_foreach(json, i, value) make_printable(value);
  size_t size = text ? 4 * strlen(text) + 5 : 0;
  char *printable = text ? malloc(size) : NULL;
  if (!printable) return;
  tool_printable(text, printable, size);
  json_string_set(json, printable);
  free(printable);
}

json_t *tool_json(const char *text) {
  json_error_t error;
  json_t *json = json_loads(text, 0, &error);
  make_printable(json);
  if (!json) tool_fail(RONDE_E_INTERNAL, "the result is not valid JSON: line %d: %s", error.line, error.text);
  return json;
}

double tool_number(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *tool_string(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

const char *tool_count(double value, char buffer[32]) {
  if (!isfinite(value) || fabs(value) >= 1e18) return "-";
  char digits[32];
  int n = snprintf(digits, sizeof digits, "%.0f", fabs(value)), used = 0;
  if (value <= -0.5) buffer[used++] = '-';
  for (int i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) buffer[used++] = ',';
    buffer[used++] = digits[i];
  }
  buffer[used] = '\0';
  return buffer;
}

const char *tool_bytes(double bytes, char buffer[32]) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (!isfinite(bytes)) return "not measured";
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    unit++;
  }
  snprintf(buffer, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return buffer;
}

const char *tool_duration(double seconds, char buffer[32]) {
  if (!isfinite(seconds) || seconds < 0 || seconds > 1e12) return "-";
  long long whole = (long long)(seconds + 0.5);
  if (seconds < 59.5) {
    snprintf(buffer, 32, "%.1f s", seconds);
  } else if (whole < 3600) {
    snprintf(buffer, 32, "%lld:%02lld", whole / 60, whole % 60);
  } else {
    snprintf(buffer, 32, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return buffer;
}

const char *tool_shape(const json_t *shape, char buffer[64]) {
  size_t used = 0;
  buffer[0] = '\0';
  for (size_t i = 0; i < json_array_size(shape) && used < 63; i++) {
    used += (size_t)snprintf(buffer + used, 64 - used, "%s%lld", i ? "x" : "",
                             (long long)json_integer_value(json_array_get(shape, i)));
  }
  return buffer;
}

void tool_print_json(const char *text) {
  fputs(text, stdout);
  size_t length = strlen(text);
  if (length == 0 || text[length - 1] != '\n') fputc('\n', stdout);
}

ronde_status tool_print_result(const tool_call *call, char *text, void (*print)(const json_t *json)) {
  ronde_status status = RONDE_OK;
  json_t *json = NULL;
  if (call->json) {
    tool_print_json(text);
  } else if ((json = tool_json(text))) {
    print(json);
  } else {
    status = RONDE_E_INTERNAL;
  }
  json_decref(json);
  free(text);
  return status;
}

ronde_status tool_flush(void) {
  errno = 0;
  bool failed = fflush(stdout) != 0;
  if (!failed && !ferror(stdout)) return RONDE_OK;
  return tool_fail(RONDE_E_WRITE, "standard output: cannot write: %s",
                   errno ? strerror(errno) : "an earlier write failed");
}

/* What a folder holds for the report: bench.json, run.json, suite.json. What is broken, foreign or of another version is
 * refused by its name. */
#include "report.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ronde_status fail_type(const char *path, const char *field, const char *kind) {
  return tool_fail(RONDE_E_INPUT, "%s: '%s' is not %s: this is no record of Ronde, or a broken one", path, field, kind);
}

static bool is_list_of_objects(const json_t *list) {
  const json_t *one;
  size_t i;
  if (!json_is_array(list)) return false;
  json_array_foreach((json_t *)list, i, one) {
    if (!json_is_object(one)) return false;
  }
  return true;
}

static ronde_status check_lists(const char *path, const json_t *record, const char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (!is_list_of_objects(json_object_get(record, names[i]))) return fail_type(path, names[i], "a list of objects");
  return RONDE_OK;
}

static ronde_status check_bench(const char *path, const json_t *bench) {
  static const char *const lists[] = {"cases", "differences"};
  const json_t *one;
  size_t i;
  ronde_status status = check_lists(path, bench, lists, 2);
  if (!status && !json_is_object(json_object_get(bench, "axes"))) status = fail_type(path, "axes", "an object");
  if (!status && !json_is_boolean(json_object_get(bench, "ranked")))
    status = fail_type(path, "ranked", "true or false");
  if (!status && !json_is_string(json_object_get(bench, "verb"))) status = fail_type(path, "verb", "a text");
  json_array_foreach(json_object_get(bench, "cases"), i, one) {
    if (!status && !json_is_string(json_object_get(one, "name"))) status = fail_type(path, "cases[].name", "a text");
  }
  return status;
}

static ronde_status check_run(const char *path, const json_t *run) {
  static const char *const objects[] = {"model", "data", "config", "world", "totals", "result", "machine"};
  static const char *const lists[] = {"epochs", "workers", "ops"};
  for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++)
    if (!json_is_object(json_object_get(run, objects[i]))) return fail_type(path, objects[i], "an object");
  return check_lists(path, run, lists, 3);
}

static ronde_status check_suite(const char *path, const json_t *suite) {
  static const char *const lists[] = {"groups"};
  return check_lists(path, suite, lists, 1);
}

/* schema: "ronde.bench.v1". Another number behind the v is another version, anything else is foreign. */
static ronde_status check_schema(const char *path, const json_t *record, const char *schema) {
  const char *found = tool_string(record, "schema");
  size_t family = (size_t)(strrchr(schema, '.') - schema) + 2;
  char shown[TOOL_SHOWN];
  if (strcmp(found, schema) == 0) return RONDE_OK;
  if (strncmp(found, schema, family) == 0)
    return tool_fail(RONDE_E_INPUT, "%s: its schema is %s, of another version of Ronde; this one reads %s", path,
                     tool_shown(found, shown), schema);
  return tool_fail(RONDE_E_INPUT, "%s: no record of Ronde: its schema is '%s', not %s", path, tool_shown(found, shown),
                   schema);
}

static ronde_status read_record(const char *folder, const char *name, const char *schema,
                                ronde_status (*check)(const char *path, const json_t *record), json_t **record_out) {
  char path[4500];
  json_error_t error;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (access(path, F_OK)) return RONDE_OK;
  json_t *record = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  ronde_status status = RONDE_OK;
  if (!json_is_object(record))
    status = record ? tool_fail(RONDE_E_INPUT, "%s: not a JSON object", path)
                    : tool_fail(RONDE_E_INPUT, "%s: not valid JSON: line %d: %s", path, error.line, error.text);
  if (!status) status = check_schema(path, record, schema);
  if (!status) status = check(path, record);
  if (status) json_decref(record);
  else *record_out = record;
  return status;
}

/* The last part of a path: "runs/1/" is 1. */
static void name_of(const char *folder, char *name, size_t bytes) {
  size_t end = strlen(folder), begin;
  while (end > 1 && folder[end - 1] == '/') end--;
  for (begin = end; begin > 0 && folder[begin - 1] != '/'; begin--) {
  }
  char raw[256];
  snprintf(raw, sizeof raw, "%.*s", (int)(end - begin), folder + begin);
  tool_printable(raw, name, bytes);
}

ronde_status report_read(const char *folder, report_source *source_out) {
  report_source source = {.folder = folder};
  struct stat info;
  char shown[TOOL_SHOWN];
  if (stat(folder, &info))
    return tool_fail(RONDE_E_INPUT, "%s: cannot read: %s", tool_shown(folder, shown), strerror(errno));
  if (!S_ISDIR(info.st_mode))
    return tool_fail(RONDE_E_INPUT, "%s: not a folder: name the folder of --out", tool_shown(folder, shown));
  name_of(folder, source.name, sizeof source.name);
  ronde_status status = read_record(folder, "suite.json", "ronde.suite.v1", check_suite, &source.suite);
  if (!status) status = read_record(folder, "bench.json", "ronde.bench.v1", check_bench, &source.bench);
  if (!status) status = read_record(folder, "run.json", "ronde.run.v1", check_run, &source.run);
  if (!status && !source.suite && !source.bench && !source.run)
    status = tool_fail(RONDE_E_INPUT, "%s: nothing to report there: neither bench.json nor run.json nor suite.json",
                       tool_shown(folder, shown));
  if (status) report_source_end(&source);
  else *source_out = source;
  return status;
}

void report_source_end(report_source *source) {
  json_decref(source->bench);
  json_decref(source->run);
  json_decref(source->suite);
  *source = (report_source){0};
}

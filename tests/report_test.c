/* `ronde report`, as a user meets it: what stands on a page, what is refused, what the audit catches, and what a browser makes
 * of the page. The browser's tests are skipped where chromium is missing. */
#include "command_testing.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL "--model lenet5 --data synthetic:1x28x28:10:80 --batch 20 --threads 1 --quiet"

static char folder[64];

static char *read_all(const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file) fail_msg("no %s", path);
  fseek(file, 0, SEEK_END);
  size_t bytes = (size_t)ftell(file);
  char *text = malloc(bytes + 1);
  assert_non_null(text);
  rewind(file);
  text[fread(text, 1, bytes, file)] = '\0';
  fclose(file);
  return text;
}

static json_t *load(const char *name) {
  char *text = read_all(name);
  json_t *json = json_loads(text, 0, NULL);
  free(text);
  assert_non_null(json);
  return json;
}

/* As the bench.json or run.json of a folder of its own. */
static void save(const json_t *json, const char *in, const char *name) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, in);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%s/%s", folder, in, name);
  assert_int_equal(json_dump_file(json, path, 0), 0);
}

static int make_results(void **state) {
  snprintf(folder, sizeof folder, "/tmp/ronde-report-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  int code = run("cd %s && " RONDE " compare " SMALL " --exec graph,eager --rounds 3 --epochs 2 --out compare", folder);
  if (!code) code = run("cd %s && " RONDE " train " SMALL " --workers 2 --epochs 2 --trace --out run", folder);
  if (!code) code = run("cd %s && " RONDE " train " SMALL " --epochs 2 --lr 0.02 --out other", folder);
  if (!code)
    code = run("cd %s && " RONDE " eval run --data synthetic:1x28x28:10:80 --csv run --quiet >/dev/null", folder);
  if (code) print_message("%s\n", said);
  return code;
}

static int remove_results(void **state) { return run("rm -rf %s", folder); }

static void report(int expected, const char *words) {
  check_run(expected, run("cd %s && " RONDE " report %s", folder, words));
}

static void holds(const char *page, const char *text) {
  if (!strstr(page, text)) fail_msg("not on the page: %s", text);
}

/* ---- what stands there ---- */

static void numbers_are_those_of_the_record(void **state) {
  report(0, "compare -o compare.html");
  report(0, "compare -o compare.md");
  char *page = read_all("compare.html"), *markdown = read_all("compare.md"), text[64];
  json_t *bench = load("compare/bench.json"), *one;
  static const struct {
    const char *figure, *format;
    double scale;
  } figures[] = {{"step_s", "%.3f", 1e3},
                 {"times_as_fast", "%.3f", 1},
                 {"load_s", "%.3f", 1e3},
                 {"backward_s", "%.3f", 1e3},
                 {"kernel_s", "%.3f", 1e3},
                 {"second_epoch_s", "%.3f", 1},
                 {"peak_rss_bytes", "%.1f MiB", 1.0 / 1048576}};
  size_t i;
  json_array_foreach(json_object_get(bench, "cases"), i, one) {
    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
      const json_t *median = json_object_get(json_object_get(one, figures[k].figure), "median");
      assert_true(json_is_number(median));
      snprintf(text, sizeof text, figures[k].format, figures[k].scale * json_number_value(median));
      holds(page, text);
      holds(markdown, text);
    }
  }
  holds(page, "id=\"charts\"");
  holds(page, "data-chart=\"speed\"");
  holds(page, "data-chart=\"distribution\"");
  holds(page, "ronde compare"); /* the command */
  assert_true(strlen(page) < 5000000);
  json_decref(bench);
  free(page);
  free(markdown);
}

static void nothing_is_loaded(void **state) {
  report(0, "compare -o compare.html");
  char *page = read_all("compare.html");
  holds(page, "content=\"default-src 'none'; script-src 'nonce-");
  assert_null(strstr(page, "sourceMappingURL=vega"));
  assert_null(strstr(page, " src=\"http"));
  assert_null(strstr(page, "<link rel=\"stylesheet"));
  free(page);
}

static void a_run_has_its_pictures(void **state) {
  report(0, "run -o run.html");
  static const char *const charts[] = {"loss_steps",   "loss_time", "accuracy_epochs", "accuracy_time",
                                       "phases",       "operators", "timeline",        "late",
                                       "distribution", "confusion"};
  char *page = read_all("run.html"), text[64];
  for (size_t i = 0; i < sizeof charts / sizeof charts[0]; i++) {
    snprintf(text, sizeof text, "data-chart=\"%s\"", charts[i]);
    holds(page, text);
  }
  holds(page, "lenet5 on synthetic:1x28x28:10:80 ended after 8 steps");
  holds(page, "A step took ");
  free(page);
  report(0, "run"); /* beside the record */
  free(read_all("run/report.html"));
}

static void several_runs_stand_beside_each_other(void **state) {
  report(0, "run other -o runs.html");
  char *page = read_all("runs.html");
  holds(page, "2 runs beside each other");
  holds(page, "lr is 0.01 with run, 0.02 with other");
  free(page);
  report(2, "run other");
  check_says("of several folders the report needs a file");
}

/* ---- what is refused ---- */

static void refused(const char *file, const char *text, const char *why) {
  char path[256];
  run("rm -rf %s/bad; mkdir %s/bad", folder, folder);
  snprintf(path, sizeof path, "%s/bad/%s", folder, file);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  fputs(text, out);
  fclose(out);
  report(3, "bad -o bad.html");
  check_says("bad");
  check_says(why);
  if (!strstr(why, "nothing")) check_says(file);
  snprintf(path, sizeof path, "%s/bad.html", folder);
  assert_int_not_equal(access(path, F_OK), 0);
}

static void what_is_no_record_is_refused_by_name(void **state) {
  refused("bench.json", "{\"schema\": \"ronde.bench.v1\", ", "not valid JSON: line 1");
  refused("bench.json", "[1, 2]", "not a JSON object");
  refused("bench.json", "{\"benchmarks\": []}", "no record of Ronde");
  refused("bench.json", "{\"schema\": \"ronde.run.v1\"}", "no record of Ronde");
  refused("bench.json", "{\"schema\": \"ronde.bench.v2\"}",
          "of another version of Ronde; this one reads ronde.bench.v1");
  refused("bench.json", "{\"schema\": \"ronde.bench.v1\", \"cases\": 7, \"differences\": []}",
          "'cases' is not a list of objects");
  refused("bench.json",
          "{\"schema\": \"ronde.bench.v1\", \"cases\": [{}], \"differences\": [], \"axes\": {}, \"ranked\": true, "
          "\"verb\": \"x\"}",
          "'cases[].name' is not a text");
  refused("bench.json", "{\"schema\": \"ronde.bench.v1\", \"schema\": \"ronde.bench.v1\"}", "duplicate");
  refused("run.json", "{\"schema\": \"ronde.run.v1\", \"model\": {}}", "'data' is not an object");
  refused("run.json", "{\"schema\": \"ronde.run.v9\"}", "another version");
  refused("suite.json", "{\"schema\": \"ronde.suite.v1\"}", "'groups' is not a list of objects");
  refused("notes.json", "{}", "nothing to report there");
  report(3, "nowhere -o bad.html");
  check_says("nowhere: cannot read");
  report(2, "run -o page.pdf");
  check_says("a page (.html) or Markdown (.md)");
  report(6, "run -o no/such/folder.html");
}

/* Numbers of other kinds are not read as numbers. */
static void odd_values_are_not_misread(void **state) {
  json_t *bench = load("compare/bench.json"), *one = json_array_get(json_object_get(bench, "cases"), 1);
  json_object_set_new(one, "step_s", json_string("fast"));
  json_object_set_new(json_object_get(one, "load_s"), "median", json_string("1e3"));
  json_object_set_new(one, "communication", json_array());
  json_object_set_new(one, "command", json_integer(3));
  save(bench, "odd", "bench.json");
  report(0, "odd -o odd.html");
  json_decref(bench);
}

/* ---- hostile names ---- */

#define ATTACK "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"

static void make_hostile(void) {
  json_t *bench = load("compare/bench.json"), *one = json_array_get(json_object_get(bench, "cases"), 1);
  json_object_set_new(one, "name", json_string(ATTACK));
  json_object_set_new(one, "model", json_string("a' onload='x\"" ATTACK));
  json_object_set_new(bench, "verb", json_string(ATTACK));
  json_object_set_new(bench, "advice", json_string(ATTACK));
  json_object_set_new(json_object_get(bench, "machine"), "cpu", json_string(ATTACK));
  json_array_append_new(json_object_get(bench, "command"), json_string(ATTACK));
  save(bench, "hostile", "bench.json");
  json_decref(bench);
  report(0, "hostile -o hostile.html");
}

static void names_do_not_become_markup(void **state) {
  make_hostile();
  char *page = read_all("hostile.html");
  holds(page, "&lt;img src=x"); /* it is there, as text */
  assert_null(strstr(page, "<img src=x"));
  assert_null(strstr(page, "<script>document"));
  assert_null(strstr(page, "onload='x\""));
  free(page);
}

/* ---- the audit ---- */

typedef struct plant {
  const char *field, *value; /* JSON */
} plant;

static const plant plants[] = {{"padding", "\"valid\""},
                               {"clock", "\"processor time\""},
                               {"cache", "false"},
                               {"eps", "1e-7"},
                               {"batch_norm", "\"statistics of a worker's part, biased running variance\""},
                               {"drop-last", "true"},
                               {"seed", "2"},
                               {"threads_per_worker", "2"},
                               {"parameters", "61707"},
                               {"forward_flops_per_example", "94000000"},
                               {"batch", "21"},
                               {"data_sha256", "\"00\""},
                               {"augment", "\"flip\""},
                               {"dtype", "\"bf16\""},
                               {"optimizer", "\"adam\""},
                               {"lr", "0.1"},
                               {"momentum", "0.9"},
                               {"weight-decay", "0.0005"},
                               {"betas", "[0.9, 0.99]"},
                               {"shuffle", "false"},
                               {"first_loss", "2.5"},
                               {"second_loss", "2.6"},
                               {"warm_up", "\"none\""},
                               {"cores", "64"},
                               {"version", "{\"ronde\": \"0.0.9\", \"git\": \"\"}"},
                               {"repeat", "4"},
                               {"steps", "9"},
                               {"normalize", "\"on\""},
                               {"label-smoothing", "0.1"},
                               {"train-examples", "40"},
                               {"val-split", "0.5"},
                               {"data_examples", "60000"},
                               {"model", "\"alexnet\""},
                               {"hosts", "[\"a\", \"b\"]"},
                               {"isa", "\"vsx\""},
                               {"simulated", "true"},
                               {"dropout", "0.5"},
                               {"clip", "1"},
                               {"accumulate", "2"},
                               {"nesterov", "true"},
                               {"lr-schedule", "\"cosine\""},
                               {"warmup", "5"},
                               {"resize", "\"32x32\""},
                               {"wire", "\"bf16\""},
                               {"shard", "\"whole\""},
                               {"examples", "79"},
                               {"host_is_busy", NULL}};
enum { N_PLANTS = sizeof plants / sizeof plants[0] };

/* host_is_busy follows from the load of the rounds. */
static void plant_in(json_t *one, const plant *p) {
  json_t *audit = json_object_get(one, "audit");
  assert_true(json_is_object(audit));
  if (p->value) {
    json_t *value = json_loads(p->value, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    assert_false(json_equal(value, json_object_get(audit, p->field)));
    json_object_set_new(audit, p->field, value);
  } else {
    json_object_set_new(json_object_get(one, "others_cores"), "median",
                        json_real(json_number_value(json_object_get(audit, "cores"))));
  }
}

static json_t *clean_bench(void) {
  json_t *bench = load("compare/bench.json"), *one;
  size_t i;
  json_array_foreach(json_object_get(bench, "cases"), i, one) {
    json_object_set_new(json_object_get(one, "others_cores"), "median", json_real(0));
  }
  return bench;
}

static void every_difference_is_caught(void **state) {
  assert_true(N_PLANTS >= 15);
  json_t *bench = clean_bench();
  save(bench, "planted", "bench.json");
  report(0, "planted -o planted.md");
  char *page = read_all("planted.md"), text[128];
  assert_null(strstr(page, "not ranked")); /* as it was measured, it is */
  holds(page, "Compared with exec=graph");
  free(page);
  json_decref(bench);
  for (int i = 0; i < N_PLANTS; i++) {
    bench = clean_bench();
    plant_in(json_array_get(json_object_get(bench, "cases"), 1), &plants[i]);
    save(bench, "planted", "bench.json");
    json_decref(bench);
    report(0, "planted -o planted.md");
    page = read_all("planted.md");
    size_t used = (size_t)snprintf(text, sizeof text, "not the same work: ");
    for (const char *at = plants[i].field; *at; at++) { /* as Markdown has it */
      if (*at == '_') text[used++] = '\\';
      text[used++] = *at;
    }
    snprintf(text + used, sizeof text - used, " is ");
    if (!strstr(page, text)) fail_msg("%s was not caught:\n%.600s", plants[i].field, page);
    assert_null(strstr(page, "| faster |"));
    assert_null(strstr(page, "| slower |"));
    assert_null(strstr(page, "| cannot be told apart |"));
    free(page);
  }
}

/* What was varied on purpose is no difference. */
static void what_is_varied_may_differ(void **state) {
  json_t *bench = clean_bench();
  plant_in(json_array_get(json_object_get(bench, "cases"), 1), &(plant){"cache", "false"});
  json_object_set_new(json_object_get(bench, "axes"), "cache", json_pack("[s, s]", "on", "off"));
  save(bench, "planted", "bench.json");
  json_decref(bench);
  report(0, "planted -o planted.md");
  char *page = read_all("planted.md");
  assert_null(strstr(page, "not ranked"));
  free(page);
}

/* ---- the browser ---- */

static const char *browser(void) {
  static const char *const names[] = {"chromium", "chromium-browser", "google-chrome"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (run("command -v %s", names[i]) == 0) return names[i];
  return NULL;
}

static int count(const char *text, const char *part) {
  int n = 0;
  for (; (text = strstr(text, part)); text += strlen(part)) n++;
  return n;
}

/* The page as the browser has it when all scripts have ended, and what it said meanwhile. */
static void open_page(const char *program, const char *page) {
  int code =
      run("cd %s && timeout 120 %s --headless=new --no-sandbox --disable-gpu --disable-background-networking "
          "--disable-component-update --disable-sync --no-first-run --user-data-dir=%s/profile "
          "--virtual-time-budget=30000 --enable-logging=stderr --log-net-log=%s/net.json --dump-dom file://%s/%s "
          ">dom.html 2>console.txt",
          folder, program, folder, folder, folder, page);
  check_run(0, code);
}

/* Every chart is drawn, nothing stands on the console, and the page asks for nothing: its policy would refuse that, and the
 * console tell it. Chromium itself asks its maker for updates. */
static void check_in_browser(const char *program, const char *page, int least_charts) {
  open_page(program, page);
  char *dom = read_all("dom.html"), *console = read_all("console.txt");
  int charts = count(dom, " data-chart="), drawn = count(dom, "data-drawn=\"yes\"");
  if (charts < least_charts) fail_msg("%d charts on %s", charts, page);
  assert_int_equal(charts, drawn);
  assert_true(count(dom, "<svg") >= drawn);
  holds(dom, "data-charts=\"done\"");
  assert_null(strstr(dom, "could not be drawn. Its"));
  assert_null(strstr(dom, "<title>hacked"));
  if (strstr(console, "CONSOLE")) fail_msg("%s: on the console: %.600s", page, strstr(console, "CONSOLE"));
  free(dom);
  free(console);
  run("grep -o '\"url\":\"https\\?://[^/]*' %s/net.json | grep -vE '(google|googleapis|gstatic).com$' | wc -l", folder);
  check_says("0\n");
}

/* A page into which something was planted does not pass. */
static void check_is_found(const char *program, const char *what) {
  check_run(0,
            run("cd %s && sed 's|</main>|%s</main>|' compare.html >planted.html && ! cmp -s compare.html planted.html",
                folder, what));
  open_page(program, "planted.html");
  char *dom = read_all("dom.html"), *console = read_all("console.txt");
  bool is_found = strstr(console, "CONSOLE") || count(dom, " data-chart=") != count(dom, "data-drawn=\"yes\"");
  if (!is_found) fail_msg("not found: %s", what);
  assert_null(strstr(dom, "<title>hacked"));
  free(dom);
  free(console);
}

static void a_browser_draws_every_chart(void **state) {
  const char *program = browser();
  if (!program) {
    print_message("SKIP: no chromium here: pages are not tried in a browser\n");
    skip();
  }
  report(0, "compare -o compare.html");
  check_in_browser(program, "compare.html", 6);
  report(0, "run -o run.html");
  check_in_browser(program, "run.html", 10);
  report(0, "compare run other -o all.html");
  check_in_browser(program, "all.html", 20);
  make_hostile();
  check_in_browser(program, "hostile.html", 4);
  check_is_found(program, "<img src=\"http://ronde.invalid/x.png\">");
  check_is_found(program, "<script>document.title=\"hacked\"<\\/script>");
  check_is_found(program, "<div class=\"chart\" data-chart=\"none\" data-rows=\"p1-1-rows\"><\\/div>");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_those_of_the_record),
      cmocka_unit_test(nothing_is_loaded),
      cmocka_unit_test(a_run_has_its_pictures),
      cmocka_unit_test(several_runs_stand_beside_each_other),
      cmocka_unit_test(what_is_no_record_is_refused_by_name),
      cmocka_unit_test(odd_values_are_not_misread),
      cmocka_unit_test(names_do_not_become_markup),
      cmocka_unit_test(every_difference_is_caught),
      cmocka_unit_test(what_is_varied_may_differ),
      cmocka_unit_test(a_browser_draws_every_chart),
  };
  return cmocka_run_group_tests(tests, make_results, remove_results);
}

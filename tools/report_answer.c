/* The answer of a bench.json: up to two sentences of what was the fastest, by how much, and how certain that is. */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double figure(const json_t *one, const char *name, const char *of) {
  return tool_number(json_object_get(one, name), of);
}

static void put_interval(FILE *out, const json_t *figure) {
  double low = tool_number(figure, "low"), high = tool_number(figure, "high");
  fprintf(out, "%.2f", tool_number(figure, "median"));
  if (isfinite(low)) fprintf(out, " [%.2f, %.2f]", low, high);
}

static void put_where(FILE *out, const json_t *bench) {
  const json_t *machine = json_object_get(bench, "machine");
  size_t hosts = json_array_size(json_object_get(machine, "hosts"));
  if (hosts > 1) fprintf(out, "On these %zu hosts", hosts);
  else if (isfinite(tool_number(machine, "cores")))
    fprintf(out, "On %.0f core%s of %s", tool_number(machine, "cores"), tool_number(machine, "cores") == 1 ? "" : "s",
            *tool_string(machine, "cpu") ? tool_string(machine, "cpu") : "this machine");
  else fprintf(out, "On this machine");
}

/* The case that is furthest ahead of the first one for certain; the first one itself where none is. */
static const json_t *find_fastest(const json_t *cases) {
  const json_t *one, *best = json_array_get(cases, 0);
  size_t i;
  double most = 1;
  json_array_foreach((json_t *)cases, i, one) {
    if (strcmp(tool_string(one, "verdict"), "faster") == 0 && report_median(one, "times_as_fast") > most) {
      most = report_median(one, "times_as_fast");
      best = one;
    }
  }
  return best;
}

/* "a 0.91 [0.90, 0.93] times, b ...": those of a verdict. */
static int put_verdict(FILE *out, const json_t *cases, const char *verdict, const char *lead) {
  enum { MOST = 6 };
  const json_t *one, *fastest = find_fastest(cases);
  size_t i;
  int n = 0;
  json_array_foreach((json_t *)cases, i, one) {
    if (i == 0 || one == fastest || strcmp(tool_string(one, "verdict"), verdict) != 0) continue;
    if (n < MOST) {
      fprintf(out, "%s%s ", n ? ", " : lead, tool_string(one, "name"));
      put_interval(out, json_object_get(one, "times_as_fast"));
      fprintf(out, " times");
    }
    n++;
  }
  if (n > MOST) fprintf(out, " and %d more", n - MOST);
  return n;
}

static void put_ranking(FILE *out, const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *first = json_array_get(cases, 0), *best = find_fastest(cases);
  const char *model = tool_string(first, "model"), *name = tool_string(first, "name");
  put_where(out, bench);
  if (best != first) {
    fprintf(out, ", %s is ", tool_string(best, "name"));
    put_interval(out, json_object_get(best, "times_as_fast"));
    fprintf(out, " times as fast as %s", name);
  } else fprintf(out, ", no case can be told to be faster than %s", name);
  if (*model) fprintf(out, " on %s", model);
  fprintf(out, ".");
  if (!isfinite(figure(json_array_get(cases, 1), "times_as_fast", "low")))
    fprintf(out, " There is one round, which has no interval: whether that is more than chance cannot be told.");
  else {
    char *text = NULL;
    size_t bytes;
    FILE *rest = open_memstream(&text, &bytes);
    if (!rest) return;
    int n = put_verdict(rest, cases, "slower", " Slower than it: ");
    n += put_verdict(rest, cases, "faster", n ? "; also faster: " : " Also faster: ");
    n += put_verdict(rest, cases, "cannot be told apart",
                     n ? "; cannot be told apart from it: " : " Cannot be told apart from it: ");
    fclose(rest);
    if (n) fprintf(out, "%s.", text);
    free(text);
  }
}

static void put_kernels(FILE *out, const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *one, *most = NULL;
  size_t i;
  json_array_foreach((json_t *)cases, i, one) {
    if (!most || tool_number(one, "of_step") > tool_number(most, "of_step")) most = one;
  }
  put_where(out, bench);
  fprintf(out, ", a step of %s takes %.3f ms [%.3f, %.3f].", tool_string(bench, "model"),
          1e3 * report_median(bench, "step_s"), 1e3 * figure(bench, "step_s", "low"),
          1e3 * figure(bench, "step_s", "high"));
  if (most)
    fprintf(out, " The largest part, %.0f %%, is %s %s, which reaches %.0f %% of its limit (%s).",
            100 * tool_number(most, "of_step"), tool_string(most, "op"), tool_string(most, "phase"),
            100 * tool_number(most, "of_limit"), tool_string(most, "bound"));
}

static void put_collectives(FILE *out, const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *one, *best = NULL;
  size_t i;
  double largest = 0;
  const char *first =
      tool_string(json_array_get(cases, 0), "collective"); /* the others are its parts, or for comparison */
  json_array_foreach((json_t *)cases, i, one) { largest = fmax(largest, tool_number(one, "bytes")); }
  json_array_foreach((json_t *)cases, i, one) {
    if (tool_number(one, "bytes") != largest || !isfinite(tool_number(one, "busbw_bytes_per_s")) ||
        strcmp(tool_string(one, "collective"), first) != 0)
      continue;
    if (!best || tool_number(one, "busbw_bytes_per_s") > tool_number(best, "busbw_bytes_per_s")) best = one;
  }
  fprintf(out, "Collectives between %.0f workers on %.0f host%s.", tool_number(bench, "workers"),
          tool_number(bench, "hosts"), tool_number(bench, "hosts") == 1 ? "" : "s");
  if (best)
    fprintf(out, " At %.0f bytes the fastest %s is %s: %.3f ms [%.3f, %.3f].", largest, first,
            tool_string(best, "name"), 1e3 * report_median(best, "time_s"), 1e3 * figure(best, "time_s", "low"),
            1e3 * figure(best, "time_s", "high"));
}

char *report_answer(const json_t *bench) {
  const json_t *cases = json_object_get(bench, "cases"), *differences = json_object_get(bench, "differences");
  char *text = NULL;
  size_t bytes;
  FILE *out = open_memstream(&text, &bytes);
  if (!out) return NULL;
  if (json_array_size(differences))
    fprintf(out, "These cases are not ranked, because they are not the same work: %s.",
            tool_string(json_array_get(differences, 0), "text"));
  else if (json_is_true(json_object_get(bench, "ranked")) && json_array_size(cases) > 1) put_ranking(out, bench);
  else if (json_object_get(bench, "regimes")) fputs(tool_string(json_object_get(bench, "regimes"), "text"), out);
  else if (report_median(bench, "step_s") > 0) put_kernels(out, bench);
  else if (report_has(cases, "time_s")) put_collectives(out, bench);
  else if (json_array_size(cases) == 1) {
    put_where(out, bench);
    fprintf(out, ", %s takes %.3f ms a step", tool_string(json_array_get(cases, 0), "name"),
            1e3 * report_median(json_array_get(cases, 0), "step_s"));
    if (isfinite(figure(json_array_get(cases, 0), "step_s", "low")))
      fprintf(out, " [%.3f, %.3f]", 1e3 * figure(json_array_get(cases, 0), "step_s", "low"),
              1e3 * figure(json_array_get(cases, 0), "step_s", "high"));
    fprintf(out, ".");
  } else
    fprintf(out, "These cases are not ranked: %s.",
            *tool_string(bench, "not_ranked") ? tool_string(bench, "not_ranked") : "the measurement was broken off");
  fclose(out);
  return text;
}

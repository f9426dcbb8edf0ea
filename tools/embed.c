/* Files that the program carries inside: the report's page and its charts, the library that draws them, the suites. The
 * assembler puts them where constants lie; RONDE_TREE is the folder of the sources. */
#include "embed.h"

#include <string.h>

#define FILES(X)                                      \
  X(page_css, "tools/report/page.css")                \
  X(page_js, "tools/report/page.js")                  \
  X(charts, "tools/report/charts.json")               \
  X(vega, "third_party/vega/vega.min.js")             \
  X(vega_lite, "third_party/vega/vega-lite.min.js")   \
  X(vega_embed, "third_party/vega/vega-embed.min.js") \
  X(suite_replicas, "tools/suites/replicas.json")     \
  X(suite_techniques, "tools/suites/techniques.json") \
  X(suite_execution, "tools/suites/execution.json")   \
  X(suite_clusters, "tools/suites/clusters.json")

#define PLACE(name, path)                                       \
  extern const char embedded_##name[], embedded_##name##_end[]; \
  __asm__(                                                      \
      ".section .rodata\n.balign 16\n"                          \
      ".hidden embedded_" #name "\n.globl embedded_" #name      \
      "\n"                                                      \
      "embedded_" #name ":\n.incbin \"" RONDE_TREE "/" path     \
      "\"\n"                                                    \
      ".hidden embedded_" #name "_end\n.globl embedded_" #name "_end\nembedded_" #name "_end:\n.byte 0\n.previous\n");
FILES(PLACE)

bool tool_embedded(const char *path, const char **text_out, size_t *bytes_out) {
#define ROW(name, file) {file, embedded_##name, embedded_##name##_end},
  static const struct { const char *path, *begin, *end; } files[] = {FILES(ROW)};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    if (strcmp(files[i].path, path) != 0) continue;
    *text_out = files[i].begin;
    *bytes_out = (size_t)(files[i].end - files[i].begin);
    return true;
  }
  return false;
}

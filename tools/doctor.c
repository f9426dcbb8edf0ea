/* ronde doctor: first whether the hosts are reached and have this program, then what the ranks there find. */
#include "doctor_drill.h"
#include "hosts.h"
#include "reach.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the result ---- */

static void print_doctor(const json_t *doctor) {
  static const tool_column of_ranks[] = {
      {"rank", TOOL_CELL_NUMBER, "rank", 0, 1},       {"host", TOOL_CELL_TEXT, "host", 0, 1},
      {"kernels", TOOL_CELL_TEXT, "kernels", 0, 1},   {"cores", TOOL_CELL_NUMBER, "cores", 0, 1},
      {"threads", TOOL_CELL_NUMBER, "threads", 0, 1}, {"memory", TOOL_CELL_BYTES, "memory_bytes", 0, 1},
      {"load", TOOL_CELL_NUMBER, "load", 1, 1},       {"clock ahead s", TOOL_CELL_NUMBER, "clock_ahead_s", 3, 1},
  };
  static const tool_column of_links[] = {
      {"from rank", TOOL_CELL_NUMBER, "from", 0, 1},
      {"to rank", TOOL_CELL_NUMBER, "to", 0, 1},
      {"latency us", TOOL_CELL_NUMBER, "latency_s", 1, 1e6},
      {"there MB/s", TOOL_CELL_NUMBER, "to_bytes_per_s", 1, 1e-6},
      {"back MB/s", TOOL_CELL_NUMBER, "from_bytes_per_s", 1, 1e-6},
  };
  const json_t *links = json_object_get(doctor, "links"), *advice = json_object_get(doctor, "advice"), *one;
  size_t i;
  tool_table(json_object_get(doctor, "ranks"), of_ranks, sizeof of_ranks / sizeof of_ranks[0]);
  if (json_array_size(links)) {
    printf("\n");
    tool_table(links, of_links, sizeof of_links / sizeof of_links[0]);
  }
  printf("\n");
  json_array_foreach(advice, i, one) printf("%s: %s\n", tool_string(one, "level"), tool_string(one, "text"));
  if (!json_array_size(advice)) printf("nothing to change\n");
}

static ronde_status reach_all(const tool_call *call) {
  tool_hosts hosts;
  ronde_status reached = tool_hosts_get(call, &hosts);
  if (reached == RONDE_OK) reached = tool_reach_hosts(&hosts);
  tool_hosts_free(&hosts);
  return reached;
}

ronde_status tool_doctor(const tool_call *call) {
  bool drills = !strcmp(ronde_config_get(call->config, "drill"), "on");
  ronde_status reached = tool_must_launch(call) ? reach_all(call) : RONDE_OK;
  if (reached) return reached;
  if (drills) return tool_doctor_drill(call);
  if (tool_must_launch(call)) return tool_launch(call);
  char *text = NULL;
  tool_signals_start(0);
  ronde_status status = ronde_doctor(call->config, &text);
  ronde_status shown = text ? tool_print_result(call, text, print_doctor) : RONDE_OK;
  if (status == RONDE_E_DIFFERENCE) tool_fail(status, "these hosts cannot train together as they are");
  return status ? status : shown;
}

/* Hosts that go silent while the ranks start, when no rank watches over another yet: where that takes long they are asked, each
 * by a process, so that the launcher waits for none. */
#include "launch.h"
#include "reach.h"

enum { ASK_S = 2, MOST_ASKED = 64 }; /* how often; at once */

void tool_silent_end(tool_launched *l) {
  for (int i = 0; l->asks && i < l->n_daemons; i++) {
    if (l->asks[i].asking) tool_host_ask_end(l->asks[i].asking);
    l->asks[i].asking = 0;
  }
}

static bool is_late(const tool_launched *l, const tool_ask *ask) {
  return ask->heard_s > 0 && tool_now_s() - ask->heard_s > l->timeout_s;
}

/* One that cannot run this program has answered: that it cannot start its ranks is told by others. */
static bool is_answer(int code) { return code == 0 || code == 126 || code == 127; }

static void take_answer(tool_launched *l, int daemon) {
  tool_ask *ask = &l->asks[daemon];
  int code;
  if (!tool_host_asked(ask->asking, &code)) return;
  ask->asking = 0;
  if (is_answer(code)) ask->heard_s = tool_now_s();
  ask->silent = is_late(l, ask);
}

static int n_asked(const tool_launched *l) {
  int n = 0;
  for (int i = 0; i < l->n_daemons; i++) n += l->asks[i].asking != 0;
  return n;
}

/* It was heard when ssh to it was started. */
static void look_at_host(tool_launched *l, int daemon) {
  tool_ask *ask = &l->asks[daemon];
  double now = tool_now_s();
  if (ask->heard_s == 0) ask->heard_s = now;
  if (ask->asking) take_answer(l, daemon);
  bool due = now - ask->heard_s > l->timeout_s / 2 && now - ask->asked_s > ASK_S;
  if (ask->asking || !due || n_asked(l) == MOST_ASKED) return;
  ask->asked_s = now;
  ask->asking = tool_host_ask(l->daemon_hosts[daemon]);
}

/* Those that were lost together are left out together: once one is silent, what others that are late will say is waited for. */
static void note_silent(tool_launched *l) {
  bool any = false;
  for (int i = 0; i < l->n_daemons; i++) {
    if (is_late(l, &l->asks[i]) && !l->asks[i].silent) return;
    any |= l->asks[i].silent;
  }
  for (int i = 0; any && i < l->n_daemons; i++)
    if (l->asks[i].silent) tool_note_silent(l, i);
}

void tool_silent_look(tool_launched *l) {
  bool starts = l->n_begun < l->n_ranks || (l->trains && !l->joined);
  if (!starts || l->stage != TOOL_RUNS || l->n_silent) {
    tool_silent_end(l);
    return;
  }
  for (int i = 0; i < l->n_daemons; i++)
    if (*l->daemon_hosts[i]) look_at_host(l, i);
  note_silent(l);
}

/* Sockets and addresses of signs of life. */
#include "comm/life_net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/pkt_sched.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_excluded(const char *name) {
  return !strcmp(name, "lo") || !strcmp(name, "docker0") || !strcmp(name, "virbr0");
}

/* "eth0", or "10.0.0.0/24". */
static bool matches(const char *word, size_t length, const char *name, uint32_t address) {
  char text[64];
  struct in_addr network;
  if (length == strlen(name) && !strncmp(word, name, length)) return true;
  if (length >= sizeof text) return false;
  memcpy(text, word, length);
  text[length] = 0;
  char *slash = strchr(text, '/');
  if (!slash) return false;
  *slash = 0;
  long bits = strtol(slash + 1, NULL, 10);
  if (bits < 1 || bits > 32 || inet_pton(AF_INET, text, &network) != 1) return false;
  uint32_t mask = htonl(UINT32_MAX << (32 - bits));
  return (network.s_addr & mask) == (address & mask);
}

static bool is_wanted(const char *iface, const struct ifaddrs *one, uint32_t address) {
  if (ronde__is_empty(iface)) return !(one->ifa_flags & IFF_LOOPBACK) && !is_excluded(one->ifa_name);
  for (const char *at = iface; *at; at += at[strcspn(at, ",")] ? strcspn(at, ",") + 1 : strcspn(at, ","))
    if (matches(at, strcspn(at, ","), one->ifa_name, address)) return true;
  return false;
}

int ronde__life_addresses(const char *iface, uint32_t *addresses_out) {
  struct ifaddrs *all = NULL;
  int n = 0;
  if (getifaddrs(&all)) return 0;
  for (const struct ifaddrs *one = all; one && n < RONDE__LIFE_ADDRESSES; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP)) continue;
    uint32_t address = ((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr.s_addr;
    if (is_wanted(iface, one, address)) addresses_out[n++] = address;
  }
  freeifaddrs(all);
  return n;
}

/* They are few and short, and go in front of data that wait: in Linux's own queue, unless it has no bands, and where the
 * network looks at what a packet says of itself. */
static void go_first(int s) {
  static const int expedited = IPTOS_DSCP_EF, interactive = TC_PRIO_INTERACTIVE;
  setsockopt(s, IPPROTO_IP, IP_TOS, &expedited, sizeof expedited);
  setsockopt(s, SOL_SOCKET, SO_PRIORITY, &interactive, sizeof interactive);
}

static int open_at(int type, uint32_t address, uint16_t *port_out) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = address};
  socklen_t size = sizeof at;
  int s = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  bool good = s >= 0 && !bind(s, (struct sockaddr *)&at, sizeof at) && !getsockname(s, (struct sockaddr *)&at, &size) &&
              (type != SOCK_STREAM || !listen(s, SOMAXCONN));
  if (!good && s >= 0) close(s);
  *port_out = ntohs(at.sin_port);
  if (good) go_first(s);
  return good ? s : -1;
}

bool ronde__life_listen(const char *iface, ronde__life_net *net) {
  *net = (ronde__life_net){.datagrams = -1, .connections = -1};
  net->place.n_addresses = ronde__life_addresses(iface, net->place.addresses);
  if (net->place.n_addresses == 0) return false;
  uint32_t at = htonl(INADDR_ANY);
  if (!ronde__is_empty(iface)) {
    at = net->place.addresses[0];
    net->place.n_addresses = 1;
  }
  net->datagrams = open_at(SOCK_DGRAM, at, &net->place.datagrams);
  net->connections = open_at(SOCK_STREAM, at, &net->place.connections);
  if (net->datagrams >= 0 && net->connections >= 0) return true;
  ronde__life_close(net);
  return false;
}

void ronde__life_close(ronde__life_net *net) {
  if (net->datagrams >= 0) close(net->datagrams);
  if (net->connections >= 0) close(net->connections);
  *net = (ronde__life_net){.datagrams = -1, .connections = -1};
}

void ronde__life_greet(const ronde__life_net *net, const uint8_t hello[RONDE__LIFE_HELLO]) {
  for (int s; (s = accept4(net->connections, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0; close(s))
    if (send(s, hello, RONDE__LIFE_HELLO, MSG_NOSIGNAL) < 0) continue;
}

int ronde__life_probe(uint32_t address, uint16_t port, ronde__life_answer *answer_out) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = address, .sin_port = htons(port)};
  /* A host that goes away while the process is stopped is noticed by its system's silence. */
  static const struct {
    int level, name, value;
  } wanted[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                {IPPROTO_TCP, TCP_KEEPIDLE, 1},
                {IPPROTO_TCP, TCP_KEEPINTVL, 1},
                {IPPROTO_TCP, TCP_KEEPCNT, 2}};
  int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  *answer_out = RONDE__ANSWER_NONE;
  if (s < 0) return -1;
  go_first(s);
  for (size_t i = 0; i < RONDE__COUNT(wanted); i++)
    setsockopt(s, wanted[i].level, wanted[i].name, &wanted[i].value, sizeof wanted[i].value);
  if (!connect(s, (struct sockaddr *)&to, sizeof to) || errno == EINPROGRESS) return s;
  if (errno == ECONNREFUSED) *answer_out = RONDE__ANSWER_GONE;
  close(s);
  return -1;
}

/* A process that dies resets what it has not accepted; one that lives says a word before it closes. */
ronde__life_answer ronde__life_probed(int s, const uint8_t hello[RONDE__LIFE_HELLO]) {
  struct pollfd file = {.fd = s, .events = POLLIN | POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  uint8_t word[RONDE__LIFE_HELLO];
  if (poll(&file, 1, 0) <= 0) return RONDE__ANSWER_NONE;
  if (getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &size)) return RONDE__ANSWER_FAILED;
  if (error) return error == ECONNREFUSED || error == ECONNRESET ? RONDE__ANSWER_GONE : RONDE__ANSWER_FAILED;
  ssize_t got = recv(s, word, sizeof word, MSG_PEEK);
  if (got > 0 && memcmp(word, hello, (size_t)got) != 0) return RONDE__ANSWER_GONE;
  if (got == RONDE__LIFE_HELLO) return RONDE__ANSWER_LIVES;
  if (got > 0) return RONDE__ANSWER_HOST;
  if (got == 0) return RONDE__ANSWER_GONE;
  if (errno == EAGAIN) return file.revents & POLLOUT ? RONDE__ANSWER_HOST : RONDE__ANSWER_NONE;
  return errno == ECONNREFUSED || errno == ECONNRESET ? RONDE__ANSWER_GONE : RONDE__ANSWER_FAILED;
}

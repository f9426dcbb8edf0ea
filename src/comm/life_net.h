/* The sockets of signs of life between hosts: datagrams, and connections that the system of a host answers although the
 * process does not run. Addresses are IPv4's, in the network's byte order. */
#ifndef RONDE_LIFE_NET_H
#define RONDE_LIFE_NET_H

#include "base/base.h"

enum {
  RONDE__LIFE_ADDRESSES = 4,
  RONDE__LIFE_HELLO = 16 /* bytes, by which a rank answers who connects to it */
};

/* Where a rank is to be reached. */
typedef struct ronde__life_place {
  uint32_t addresses[RONDE__LIFE_ADDRESSES];
  int32_t n_addresses;             /* 0: nowhere */
  uint16_t datagrams, connections; /* ports */
} ronde__life_place;

typedef struct ronde__life_net {
  int datagrams, connections; /* sockets; -1: none */
  ronde__life_place place;
} ronde__life_net;

/* What a connection tells of a process that is not heard. */
typedef enum ronde__life_answer {
  RONDE__ANSWER_NONE,  /* nothing so far */
  RONDE__ANSWER_HOST,  /* its host has it, so it is there; it does not run, or is late */
  RONDE__ANSWER_LIVES, /* it has answered itself */
  RONDE__ANSWER_GONE,  /* its host says that there is no such process */
  RONDE__ANSWER_FAILED /* the connection is of no use any more */
} ronde__life_answer;

/* This host's addresses, at most RONDE__LIFE_ADDRESSES; iface: names of interfaces or NETWORK/BITS, separated by commas;
 * NULL or "": all that are up but lo, docker0 and virbr0. */
int ronde__life_addresses(const char *iface, uint32_t *addresses_out);
/* Listens: with an iface there alone. False, with no socket open, where that cannot be; nothing is logged, because ranks
 * have another way to miss each other. */
bool ronde__life_listen(const char *iface, ronde__life_net *net_out);
void ronde__life_close(ronde__life_net *net); /* sockets may be -1 */
/* Answers whoever has connected, and reads nothing of them. */
void ronde__life_greet(const ronde__life_net *net, const uint8_t hello[RONDE__LIFE_HELLO]);

/* Begins to connect; -1: it cannot, or has its answer already. */
int ronde__life_probe(uint32_t address, uint16_t port, ronde__life_answer *answer_out);
/* What has come of it, where that rank would answer with this; who answers otherwise has got its port, so the rank is gone. The
 * socket remains the caller's. */
ronde__life_answer ronde__life_probed(int socket, const uint8_t hello[RONDE__LIFE_HELLO]);

#endif

/* A small HTTP server on 127.0.0.1 for tests: files from memory, and the ways in which servers let one down. */
#ifndef RONDE_SERVER_TESTING_H
#define RONDE_SERVER_TESTING_H

#include "data/testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <strings.h>
#include <sys/socket.h>

typedef struct test_page {
  const char *name; /* "file.gz" */
  const void *data;
  size_t n;
} test_page;

typedef struct test_server {
  const test_page *pages;
  int n_pages;
  bool no_ranges, no_length; /* answers with the whole file; says not how long it is */
  size_t cut_after;          /* bytes of content an answer has at most; 0: no limit */
  int status;                /* instead of 200; 0: none */
  /* What it saw; to be read when it has stopped, or between requests. */
  int n_requests;
  long last_range; /* -1: none asked for */
  int listener, port;
  pthread_t thread;
} test_server;

void server_start(test_server *s);

void server_stop(test_server *s);

#endif

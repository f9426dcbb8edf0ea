/* A server of HTTP on loopback, for tests of downloads. */
#include "io/server_testing.h"

static void server_send(int fd, const void *data, size_t n) {
  const char *at = data;
  while (n > 0) {
    ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
    if (sent <= 0) return;
    at += sent;
    n -= (size_t)sent;
  }
}

static void server_answer(test_server *s, int fd, const char *request) {
  char path[256] = "", head[512], range[128] = "", length[64] = "";
  const char *asked = strcasestr(request, "\r\nRange: bytes=");
  const test_page *page = NULL;
  sscanf(request, "GET /%255s", path);
  ++s->n_requests;
  s->last_range = asked ? strtol(asked + 15, NULL, 10) : -1;
  for (int i = 0; i < s->n_pages; ++i)
    if (!strcmp(s->pages[i].name, path)) page = &s->pages[i];
  int status = s->status ? s->status : page ? 200 : 404;
  size_t begin = 0;
  if (status == 200 && asked && !s->no_ranges) {
    begin = (size_t)s->last_range;
    status = begin < page->n ? 206 : 416;
    snprintf(range, sizeof range, "Content-Range: bytes %zu-%zu/%zu\r\n", begin, page->n - 1, page->n);
  }
  size_t n = status == 200 || status == 206 ? page->n - begin : 0;
  if (!s->no_length) snprintf(length, sizeof length, "Content-Length: %zu\r\n", n);
  snprintf(head, sizeof head, "HTTP/1.1 %d X\r\n%s%sConnection: close\r\n\r\n", status, length, range);
  server_send(fd, head, strlen(head));
  if (s->cut_after && n > s->cut_after) n = s->cut_after;
  if (n) server_send(fd, (const char *)page->data + begin, n);
}

static void *server_main(void *arg) {
  test_server *s = arg;
  int fd;
  while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
    char request[4096];
    size_t used = 0;
    ssize_t n;
    while (used < sizeof request - 1 && (n = recv(fd, request + used, sizeof request - 1 - used, 0)) > 0) {
      request[used += (size_t)n] = '\0';
      if (strstr(request, "\r\n\r\n")) break;
    }
    if (used) server_answer(s, fd, request);
    shutdown(fd, SHUT_RDWR);
    close(fd);
  }
  return NULL;
}

void server_start(test_server *s) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t bytes = sizeof address;
  s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(s->listener >= 0);
  assert_int_equal(bind(s->listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(s->listener, 8), 0);
  assert_int_equal(getsockname(s->listener, (struct sockaddr *)&address, &bytes), 0);
  s->port = ntohs(address.sin_port);
  assert_int_equal(pthread_create(&s->thread, NULL, server_main, s), 0);
}

void server_stop(test_server *s) {
  shutdown(s->listener, SHUT_RDWR);
  pthread_join(s->thread, NULL);
  close(s->listener);
}

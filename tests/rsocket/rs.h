/* SPDX-License-Identifier: BSD-2-Clause */
/* rs.h - what the test programs of rsockets have in common. */
#ifndef TESTS_RS_H
#define TESTS_RS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__,    \
				#cond, errno);                                           \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

enum { WAIT_MS = 20000 };

struct sockaddr_storage rs_address(const char *ip, unsigned port);
socklen_t rs_len(const struct sockaddr_storage *a);
int rs_listen(const char *ip, unsigned port, int backlog);
int rs_connect(const char *ip, unsigned port);
/* Makes a connection within this process. */
void rs_pair(const char *ip, unsigned port, int ends[2]);
/* Polls until one of the events is there; returns all that are there. */
short rs_poll(int fd, short events, int ms);

int bad(const char *ip, unsigned port);
int rules(const char *ip, unsigned port);
int datagrams(const char *ip, unsigned port);
int strangers(const char *ip, unsigned port);
int cancel(const char *ip, unsigned port);
int lives(const char *ip, unsigned port);
int deaths_serve(const char *ip, unsigned port, const char *how);
int deaths_ask(const char *ip, unsigned port);

#endif

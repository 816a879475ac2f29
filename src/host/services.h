/* SPDX-License-Identifier: BSD-2-Clause */
/* services.h - the service names of one struct host; inside host/ only. */
#ifndef HOST_SERVICES_H
#define HOST_SERVICES_H

#include <stddef.h>
#include <sys/types.h>

#include "sys/list.h"

struct host;
struct msg_proof;

struct services {
	struct list list;
	int epfd;  /* -1: no name was bound yet */
	int tx_fd; /* -1: nothing was sent yet */
};

void services_init(struct services *s);
/* Closes all descriptors: at the end, and in the child of a fork. */
void services_forked(struct services *s);
/* Releases the names, at the end. */
void services_let_go(struct services *s);
/* Handles datagrams that have come in, a bounded number in one call. */
void services_run(struct host *h);

/* Defined in host.c: */
struct services *host_services(struct host *h);
int host_watch(struct host *h, int fd); /* makes host_fd() readable when fd is */
const struct msg_proof *host_proof(const struct host *h);
/* Defined in later.c: handles a message of a proof and a datagram, sent by process pid
 * of uid. */
void host_take_dgram(struct host *h, uid_t uid, pid_t pid, void *buf, size_t len);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* send.c - sends messages to other processes: see host.h. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "host/fds.h"
#include "host/host.h"
#include "host/host_own.h"
#include "sys/cancel.h"
#include "sys/log.h"

static int send_dgram(struct host_conn *c, const struct dgram *d)
{
	struct msg_dgram head;
	struct iovec iov[DGRAM_IOV_MAX + 1] = { { &head, sizeof(head) } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = d->iovcnt + 1 };

	msg_put_dgram(&head, d, 0);
	memcpy(iov + 1, d->iov, d->iovcnt * sizeof(struct iovec));
	if (sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -ESRCH;
}

int host_forward(struct host *h, uint16_t slot, const struct dgram *d)
{
	struct host_conn *c;
	int rc;

	if (d->iovcnt > DGRAM_IOV_MAX || d->len > MSG_PAYLOAD_MAX || d->len == 0)
		return -EMSGSIZE;
	rc = host_conn_get(h, slot, &c);
	if (!rc)
		rc = send_dgram(c, d);
	switch (rc) {
	case 0:
		h->stats.forwarded++;
		break;
	case -EAGAIN:
		h->stats.dropped_full++;
		if (log_level >= LOG_INFO && log_allowed(&h->said_full))
			log_info(
				"the process in slot %u does not take the datagrams that "
				"are forwarded to it: %llu dropped so far",
				slot, (unsigned long long)h->stats.dropped_full);
		break;
	default: /* host_run() closes it, after reading its last messages */
		h->stats.dropped_gone++;
	}
	return rc;
}

int host_say(struct host *h, uint16_t slot, const void *buf, size_t len, const int *fds,
	     unsigned nfds)
{
	struct msg_local head = { .version = MSG_VERSION, .type = MSG_LOCAL };
	struct iovec iov[2] = { { &head, sizeof(head) },
				{ (void *)(uintptr_t)buf, len } };
	struct host_conn *c;
	int was = cancel_hold();
	int rc = host_conn_get(h, slot, &c);

	assert(len <= HOST_SAY_MAX && nfds <= HOST_FDS);
	if (!rc)
		rc = fds_send(c->fd, iov, 2, fds, nfds);
	cancel_let(was);
	return rc;
}

int host_pass(struct host *h, uint16_t slot, const struct iovec *part, unsigned n)
{
	struct msg_local head = { .version = MSG_VERSION, .type = MSG_PASSED };
	struct iovec iov[HOST_PASS_PARTS + 1] = { { &head, sizeof(head) } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = n + 1 };
	struct host_conn *c;
	int was = cancel_hold();
	int rc = host_conn_get(h, slot, &c);

	assert(n <= HOST_PASS_PARTS);
	memcpy(iov + 1, part, n * sizeof(*part));
	if (!rc && c->foreign)
		rc = -ESRCH;
	if (!rc && sendmsg(c->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		rc = errno == EFAULT ? -EFAULT
		     : errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM
			     ? -EAGAIN
			     : -ESRCH; /* host_run() closes it */
	cancel_let(was);
	return rc;
}

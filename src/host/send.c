/* SPDX-License-Identifier: BSD-2-Clause */
/* send.c - sends messages to other processes: see host.h. */
#include <errno.h>
#include <string.h>

#include "host/host.h"
#include "host/host_own.h"
#include "sys/cancel.h"
#include "sys/log.h"

static int send_to(struct host_conn *c, enum host_type type, const struct iovec *part,
		   unsigned n, const int *fds, unsigned nfds)
{
	int rc = msg_send(c->fd, &host_table, type, part, n, fds, nfds, false);

	return rc == -EIO ? -ESRCH : rc; /* host_run() closes it */
}

static int send_dgram(struct host_conn *c, const struct dgram *d)
{
	struct msg_dgram head;
	struct iovec part[DGRAM_IOV_MAX + 1] = { { &head, sizeof(head) } };

	msg_put_dgram(&head, d);
	memcpy(part + 1, d->iov, d->iovcnt * sizeof(struct iovec));
	return send_to(c, HOST_DGRAM, part, d->iovcnt + 1, NULL, 0);
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

int host_say(struct host *h, uint16_t slot, enum host_type type, const struct iovec *part,
	     unsigned n, const int *fds, unsigned nfds)
{
	struct host_conn *c;
	int was = cancel_hold();
	int rc = host_conn_get(h, slot, &c);

	if (!rc && type == HOST_XRC && c->foreign)
		rc = -ESRCH;
	if (!rc)
		rc = send_to(c, type, part, n, fds, nfds);
	cancel_let(was);
	return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* asked.c - see asked.h. */
#include "driver/asked.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "driver/asker.h"
#include "driver/captures.h"
#include "driver/faults.h"
#include "driver/nic_own.h"
#include "sys/cancel.h"

/* The bytes that the kind takes. */
struct asked_for {
	const uint8_t *bytes; /* not aligned */
	size_t len;
	/* A descriptor that came along, or -1. Who takes it over sets it to -1. */
	int *fd;
};

static int for_dump(struct nic *nic, const struct asker *by, const struct asked_for *what,
		    uint64_t now)
{
	struct ask_dump d = { .kinds = (1u << DUMP_KINDS) - 1 };

	if (what->len && what->len != sizeof(d))
		return -EINVAL;
	memcpy(&d, what->bytes, what->len);
	return dump_ask(&nic->dumper, by, d.kinds, now);
}

static int for_fault(struct nic *nic, const struct asker *by,
		     const struct asked_for *what, uint64_t now)
{
	return faults_ask(nic, by, what->bytes, what->len, now);
}

static int for_capture(struct nic *nic, const struct asker *by,
		       const struct asked_for *what, uint64_t now)
{
	return captures_ask(nic, by, what->bytes, what->len, what->fd, now);
}

/* Returns 0: it answers, or has answered; or -errno, which is the answer. */
static int (*const kinds[ASK_KINDS])(struct nic *nic, const struct asker *by,
				     const struct asked_for *what, uint64_t now) = {
	[ASK_DUMP] = for_dump,
	[ASK_FAULT] = for_fault,
	[ASK_CAPTURE] = for_capture,
};

static int ask_driver(struct nic *nic, uint32_t kind, const struct asker *by,
		      const struct asked_for *what, uint64_t now)
{
	/* Answers have keys and addresses, and some kinds change what the process does,
	 * so both are refused where /proc would not show them either. */
	if (prctl(PR_GET_DUMPABLE) != 1)
		return -EPERM;
	return kind < ASK_KINDS ? kinds[kind](nic, by, what, now) : -EOPNOTSUPP;
}

void asked(struct nic *nic, struct host_said *s, uint64_t now)
{
	const size_t head = sizeof(struct host_ask);
	struct asked_for what = { .fd = &s->fd[0] };
	struct asker by = { .host = nic->host, .slot = s->slot };
	struct host_ask h;
	int was, rc;

	/* A sender that has changed its user gets no answer either. */
	if (msg_get_ask(s->msg, &h) || !host_is_ours_now(nic->host, s->slot))
		return;
	by.serial = h.serial;
	what.bytes = (const uint8_t *)s->buf + head;
	what.len = s->len - head;
	was = cancel_hold();
	rc = ask_driver(nic, h.kind, &by, &what, now);
	if (rc)
		asker_tell(&by, rc, NULL, 0);
	cancel_let(was);
}

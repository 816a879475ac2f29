/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c - see xrc.h.
 *
 * A process that has a domain of an inode owns a name (host/service.h) that says so, with
 * its user and slot.  Nothing is sent there: whether it exists is what others look at.
 */
#include "nic/xrc.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/xrc.h"
#include "host/host.h"
#include "host/service.h"
#include "ib/ib.h"
#include "nic/nic_own.h"
#include "sys/cancel.h"
#include "sys/clock.h"

enum { NAME_LEN = 108 };

static void put_name(char buf[static NAME_LEN], const struct host *h, unsigned slot,
		     const struct xrc_name *n)
{
	snprintf(buf, NAME_LEN, "urnic/xrcd/%u/%u/%016" PRIx64 "%x/%" PRIx64 ":%" PRIx64,
		 (unsigned)host_uid(h), slot, n->guid, n->number, n->fs, n->inode);
}

static int claim(struct core *core, const struct xrc_name *n, void **out)
{
	struct nic *nic = container_of(core, struct nic, core);
	struct service *s = NULL;
	char name[NAME_LEN];
	int was = cancel_hold(), rc;

	put_name(name, nic->host, host_slot(nic->host), n);
	rc = service_bind(nic->host, name, &s);
	cancel_let(was);
	*out = s;
	return rc;
}

static void unclaim(void *claim)
{
	int was = cancel_hold();

	service_close(claim);
	cancel_let(was);
}

static bool elsewhere(struct core *core, const struct xrc_name *n)
{
	const struct nic *nic = container_of(core, struct nic, core);
	int was = cancel_hold();
	char name[NAME_LEN];
	bool found = false;

	for (unsigned slot = SLOT_FIRST; slot <= SLOT_LAST && !found; slot++) {
		put_name(name, nic->host, slot, n);
		found = slot != core->slot && service_exists(name);
	}
	cancel_let(was);
	return found;
}

static int pass(void *arg, uint16_t slot, const struct iovec *part, unsigned n)
{
	struct nic *nic = arg;
	int rc = host_pass(nic->host, slot, part, n);

	/* The turn may be a verb's: the thread looks for what waits now. */
	if (rc == -EAGAIN)
		engine_settle(&nic->engine, clock_ns(), 0);
	return rc;
}

void xrc_open(struct nic *nic)
{
	ib_xrc_open(&nic->core, pass, nic);
	nic->core.xrc_claim = claim;
	nic->core.xrc_unclaim = unclaim;
	nic->core.xrc_elsewhere = elsewhere;
	nic->xrc = true;
}

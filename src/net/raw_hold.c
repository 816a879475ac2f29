/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_hold.c - see raw_hold.h. */
#include "net/raw_hold.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>

#include "net/ip_addr.h"
#include "net/parcel.h"
#include "net/raw_tx.h"
#include "sys/alloc.h"
#include "sys/log.h"

/* ns between looks: the kernel does not report when a neighbour answers */
enum { LOOK_NS = 1000000 };
/* ns; as long as the kernel itself waits for a neighbour */
static const uint64_t GIVE_UP_NS = 3000000000;

void raw_hold_init(struct raw_hold *h)
{
	*h = (struct raw_hold){ 0 };
	list_init(&h->held);
}

static void lose(struct raw_hold *h, const struct dgram *d, const char *why)
{
	char gid[INET6_ADDRSTRLEN];

	h->lost++;
	if (log_level < LOG_INFO || !log_allowed(&h->said))
		return;
	inet_ntop(AF_INET6, ip_of(d)->to.ip, gid, sizeof(gid));
	log_info("RoCE v1 cannot reach %s: %s; %llu packets lost so far", gid, why,
		 (unsigned long long)h->lost);
}

void raw_hold_put(struct raw_hold *h, const struct dgram *d, uint64_t now)
{
	struct parcel *p = h->n < RAW_HELD ? parcel_make(d) : NULL;

	if (!p) {
		lose(h, d, "too many packets wait for their neighbours");
		return;
	}
	p->due = now + GIVE_UP_NS; /* it is lost after this */
	list_add_tail(&h->held, &p->node);
	h->n++;
	h->look_at = now + LOOK_NS;
}

static void forget_parcel(struct raw_hold *h, struct parcel *p)
{
	list_del(&p->node);
	turn_free(p);
	h->n--;
}

int raw_hold_release(struct raw_hold *h, struct raw_tx *tx, uint64_t now)
{
	int sent = 0;

	if (h->n == 0)
		return 0;
	h->look_at = now + LOOK_NS;
	list_for_safe(n, &h->held)
	{
		struct parcel *p = container_of(n, struct parcel, node);
		bool no_way;
		int rc = raw_tx_send(tx, &p->d, 1, now, &no_way);

		if (rc < 0)
			return rc;
		if (rc == 0 && now < p->due)
			continue;
		if (rc == 0)
			lose(h, &p->d, "no neighbour has answered");
		sent += rc;
		forget_parcel(h, p);
	}
	return sent;
}

uint64_t raw_hold_deadline(const struct raw_hold *h)
{
	return h->n ? h->look_at : UINT64_MAX;
}

void raw_hold_free(struct raw_hold *h)
{
	parcels_free(&h->held);
	h->n = 0;
}

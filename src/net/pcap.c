/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/pcap.h"

#include <errno.h>

#include "sys/alloc.h"
#include "sys/list.h"

struct pcap {
	struct link link;
	struct link *inner;
	struct captures *to;
	bool ib;
};

static struct pcap *pcap_of(struct link *link)
{
	return container_of(link, struct pcap, link);
}

bool pcap_records(const struct link *link)
{
	return captures_any(container_of(link, const struct pcap, link)->to);
}

static void record(const struct pcap *p, const struct dgram *v, int n,
		   enum pcapng_dir dir, const char *note, uint64_t now)
{
	const struct capture_mark mark = { .dir = dir, .ib = p->ib, .note = note };

	if (captures_any(p->to))
		captures_put(p->to, v, n > 0 ? (unsigned)n : 0, &mark, now);
}

static int send_and_record(struct pcap *p, struct dgram *v, unsigned n, const char *note,
			   uint64_t now)
{
	int rc = p->inner->ops->send(p->inner, v, n, now);

	p->link.run_max = p->inner->run_max;
	record(p, v, rc, PCAPNG_OUT, note, now);
	return rc;
}

static int pcap_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	return send_and_record(pcap_of(link), v, n, NULL, now);
}

int pcap_send_noted(struct link *link, struct dgram *d, const char *note, uint64_t now)
{
	return send_and_record(pcap_of(link), d, 1, note, now);
}

static int pcap_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct pcap *p = pcap_of(link);
	int rc = p->inner->ops->recv(p->inner, v, n, now);

	record(p, v, rc, PCAPNG_IN, NULL, now);
	return rc;
}

int pcap_recv_quiet(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct pcap *p = pcap_of(link);
	int rc = p->inner->ops->recv(p->inner, v, n, now);

	record(p, v, 0, PCAPNG_IN, NULL, now);
	return rc;
}

void pcap_note(struct link *link, const struct dgram *d, enum pcapng_dir dir,
	       const char *note, uint64_t now)
{
	record(pcap_of(link), d, 1, dir, note, now);
}

static uint64_t pcap_deadline(struct link *link)
{
	const struct pcap *p = pcap_of(link);
	uint64_t due = p->inner->ops->deadline(p->inner);
	uint64_t own = captures_deadline(p->to);

	return own < due ? own : due;
}

static void pcap_close(struct link *link)
{
	struct pcap *p = pcap_of(link);

	captures_leave(p->to);
	p->inner->ops->close(p->inner);
	turn_free(p);
}

static const struct link_ops pcap_ops = {
	.send = pcap_send,
	.recv = pcap_recv,
	.deadline = pcap_deadline,
	.close = pcap_close,
};

int pcap_wrap(struct link **out, struct link *inner, struct captures *to, bool ib)
{
	struct pcap *p = turn_alloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct pcap){ .inner = inner, .to = to, .ib = ib };
	p->link = (struct link){ .ops = &pcap_ops,
				 .run_max = inner->run_max,
				 .mtu = inner->mtu };
	captures_join(to);
	*out = &p->link;
	return 0;
}

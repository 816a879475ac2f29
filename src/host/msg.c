/* SPDX-License-Identifier: BSD-2-Clause */
/* msg.c - see msg.h. */
#include "host/msg.h"

#include <errno.h>
#include <string.h>

#include "host/name.h"
#include "net/ip_addr.h"

enum {
	HELLO = sizeof(struct msg_hello),
	DGRAM = sizeof(struct msg_dgram),
	ASK = sizeof(struct host_ask),
	ANSWER = sizeof(struct host_answer),
};

/* clang-format off */
static const struct msg_row rows[HOST_TYPES] = {
	/* type             name         least              most                        at once                     descriptors */
	[HOST_HELLO]     = { "HELLO",     HELLO,             HELLO,                      HELLO,                      0 },
	[HOST_DGRAM]     = { "DGRAM",     DGRAM + 1,         DGRAM + MSG_PAYLOAD_MAX,    DGRAM + MSG_PAYLOAD_MAX,    0 },
	[HOST_SERVICE]   = { "SERVICE",   HELLO + DGRAM + 1, MSG_SERVICE_MAX,            MSG_SERVICE_MAX,            0 },
	[HOST_PIPE]      = { "PIPE",      HOST_PIPE_LEN,     HOST_PIPE_LEN,              HOST_PIPE_LEN,              2 },
	[HOST_MAP]       = { "MAP",       HOST_MAP_LEN,      HOST_MAP_LEN,               HOST_MAP_LEN,               1 },
	[HOST_ASK]       = { "ASK",       ASK,               ASK + HOST_ASK_MAX,         ASK + HOST_ASK_MAX,         1 },
	[HOST_ANSWER]    = { "ANSWER",    ANSWER,            ANSWER + HOST_ANSWER_MAX,   ANSWER + HOST_ANSWER_AT_ONCE, 0 },
	[HOST_XRC]       = { "XRC",       1,                 HOST_XRC_MAX,               HOST_XRC_MAX,               0 },
};
/* clang-format on */

static_assert(DGRAM + MSG_PAYLOAD_MAX <= MSG_AT_ONCE_MAX, "at once");

const struct msg_table host_table = { 'h', MSG_VERSION, HOST_TYPES, rows };

void msg_put_hello(struct msg_hello *m, uint16_t slot, const struct msg_proof *proof)
{
	*m = (struct msg_hello){ slot, { 0 }, *proof };
}

int msg_get_hello(const void *buf, size_t len, uint16_t *slot, struct msg_proof *proof)
{
	struct msg_hello m;

	if (len < sizeof(m))
		return -EPROTO;
	memcpy(&m, buf, sizeof(m));
	if (m.slot < SLOT_FIRST || m.slot > SLOT_LAST)
		return -EPROTO;
	*slot = m.slot;
	*proof = m.proof;
	return 0;
}

void msg_put_dgram(struct msg_dgram *m, const struct dgram *d)
{
	*m = (struct msg_dgram){
		.tclass = ip_of(d)->tclass,
		.ttl = ip_of(d)->ttl,
		.from_port = ip_of(d)->from.port,
		.to_port = ip_of(d)->to.port,
		.ifindex = ip_of(d)->ifindex,
		.ip_id = d->ip_id,
		.ip_id_exact = d->ip_id_exact,
		.mad = d->mad,
	};
	memcpy(m->from, ip_of(d)->from.ip, sizeof(m->from));
	memcpy(m->to, ip_of(d)->to.ip, sizeof(m->to));
}

int msg_get_dgram(void *buf, size_t len, struct dgram *d)
{
	struct msg_dgram m;

	if (len <= sizeof(m) || len - sizeof(m) > MSG_PAYLOAD_MAX)
		return -EPROTO;
	memcpy(&m, buf, sizeof(m));
	if (m.ip_id < -1 || m.ip_id > 0xffff || m.ip_id_exact > 1 || m.mad > 1 ||
	    addr_is_v4(m.from) != addr_is_v4(m.to))
		return -EPROTO;
	memset(d, 0, sizeof(*d));
	memcpy(ip_of(d)->from.ip, m.from, sizeof(m.from));
	memcpy(ip_of(d)->to.ip, m.to, sizeof(m.to));
	ip_of(d)->from.port = m.from_port;
	ip_of(d)->to.port = m.to_port;
	ip_of(d)->ifindex = m.ifindex;
	ip_of(d)->tclass = m.tclass;
	ip_of(d)->ttl = m.ttl;
	d->ip_id = m.ip_id;
	d->ip_id_exact = m.ip_id_exact;
	d->mad = m.mad;
	d->len = (uint32_t)(len - sizeof(m));
	d->one = (struct iovec){ (uint8_t *)buf + sizeof(m), d->len };
	d->iov = &d->one;
	d->iovcnt = 1;
	return 0;
}

int msg_get_ask(const struct msg *m, struct host_ask *ask)
{
	return msg_read(m, 0, ask, sizeof(*ask));
}

int msg_get_answer(const struct msg *m, struct host_answer *answer)
{
	int rc = msg_read(m, 0, answer, sizeof(*answer));

	return rc || answer->error > 0 ? -EPROTO : 0;
}

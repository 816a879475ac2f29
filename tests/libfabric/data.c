/* SPDX-License-Identifier: BSD-2-Clause */
/* Data transfer: with immediate data, to and from the peer's memory, by many endpoints,
 * and more requests than the queues hold. */
#include "fabric.h"

enum { LEN = 5000, ROUNDS = 50, MANY = 4, LOTS = 3000, AT_ONCE = 16 };

static const struct wants plain;

static bool is_iwarp(const struct side *s)
{
	return s->info->ep_attr->protocol == FI_PROTO_IWARP;
}

static unsigned drain(struct fid_cq *cq)
{
	struct fi_cq_data_entry e;
	ssize_t n = fi_cq_read(cq, &e, 1);

	if (n == -FI_EAVAIL)
		cq_wait(cq, &e); /* the entry says which error */
	MUST(n == 1 || n == -FI_EAGAIN);
	return n == 1;
}

/* The server has received everything; then both may end. */
static void finish(struct side *s)
{
	if (s->serves) {
		say(s, 0, 1);
		side_event(s, FI_SHUTDOWN, NULL);
	} else {
		hear(s, 1);
		OK(fi_shutdown(s->ep[0], 0));
	}
	side_close(s);
}

void test_cq_data(const char *ip, const char *port, bool serves)
{
	struct fi_cq_data_entry e;
	struct side s;

	side_open(&s, serves, ip, port, &plain);
	side_connect(&s, &plain);
	/* RFC 7306 has no SEND with immediate, so the provider offers none there. */
	MUST(s.info->domain_attr->cq_data_size >= 4 || is_iwarp(&s));
	for (uint32_t i = 0; i < ROUNDS && !is_iwarp(&s); i++) {
		if (serves) {
			cq_wait(s.rx, &e);
			MUST(e.flags & FI_REMOTE_CQ_DATA && e.data == 0xfeed0000 + i);
			MUST(e.flags & FI_RECV && e.len == LEN);
			continue;
		}
		OK(fi_senddata(s.ep[0], s.buf, LEN, fi_mr_desc(s.mr), 0xfeed0000 + i, 0,
			       NULL));
		cq_expect(s.tx, FI_SEND);
	}
	finish(&s);
}

/* --- memory -------------------------------------------------------------- */

struct place {
	uint64_t addr, key;
};

static struct place exchange(struct side *s)
{
	struct place mine = { (uintptr_t)s->buf, fi_mr_key(s->mr) }, theirs;

	memcpy(s->buf, &mine, sizeof(mine));
	if (!s->serves)
		say(s, 0, sizeof(mine));
	hear(s, sizeof(theirs));
	if (s->serves)
		say(s, 0, sizeof(mine));
	memcpy(&theirs, s->buf + BUF / 2, sizeof(theirs));
	return theirs;
}

/* The client writes, writes with an immediate, and reads the data back. */
static void reach(struct side *s, const struct place *to)
{
	void *desc = fi_mr_desc(s->mr);
	uint8_t *back = s->buf + LEN;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		memset(s->buf, (int)i, LEN);
		OK(fi_write(s->ep[0], s->buf, LEN, desc, 0, to->addr, to->key, NULL));
		cq_expect(s->tx, FI_WRITE);
		OK(fi_writedata(s->ep[0], s->buf, LEN, desc, i << 16, 0, to->addr + LEN,
				to->key, NULL));
		cq_expect(s->tx, FI_WRITE);
		memset(back, 0xff, 2 * LEN);
		OK(fi_read(s->ep[0], back, 2 * LEN, desc, 0, to->addr, to->key, NULL));
		cq_expect(s->tx, FI_READ);
		MUST(!memcmp(back, s->buf, LEN) && !memcmp(back + LEN, s->buf, LEN));
	}
}

void test_rma(const char *ip, const char *port, bool serves)
{
	struct fi_cq_data_entry e;
	struct place to;
	struct side s;

	side_open(&s, serves, ip, port, &plain);
	side_connect(&s, &plain);
	to = exchange(&s);
	for (uint32_t i = 0; serves && i < ROUNDS; i++) {
		cq_wait(s.rx, &e);
		MUST(e.flags & FI_REMOTE_CQ_DATA && e.data == i << 16);
		MUST(e.flags & FI_RMA && e.flags & FI_REMOTE_WRITE);
	}
	if (!serves)
		reach(&s, &to);
	finish(&s);
}

/* --- small messages ------------------------------------------------------ */

/* The buffer of an injected message is free at once, and no completion tells of the
 * message. */
void test_inject(const char *ip, const char *port, bool serves)
{
	struct place to;
	struct side s;
	size_t len;

	side_open(&s, serves, ip, port, &plain);
	side_connect(&s, &plain);
	to = exchange(&s);
	len = s.info->tx_attr->inject_size;
	MUST(len > 0);
	for (unsigned i = 0; serves && i < ROUNDS; i++)
		hear(&s, len);
	for (unsigned i = 0; !serves && i < ROUNDS; i++) {
		while (fi_inject(s.ep[0], s.buf, len, 0) == -FI_EAGAIN)
			(void)drain(s.tx);
		memset(s.buf, (int)i, len);
		while (fi_inject_write(s.ep[0], s.buf, len, 0, to.addr + LEN, to.key) ==
		       -FI_EAGAIN)
			(void)drain(s.tx);
	}
	if (!serves) {
		OK(fi_read(s.ep[0], s.buf + LEN, len, fi_mr_desc(s.mr), 0, to.addr + LEN,
			   to.key, NULL));
		cq_expect(s.tx, FI_READ);
		MUST(!memcmp(s.buf, s.buf + LEN, len));
	}
	finish(&s);
}

/* --- many endpoints ------------------------------------------------------ */

static void many(const char *ip, const char *port, bool serves, const struct wants *w)
{
	struct side s;

	side_open(&s, serves, ip, port, w);
	for (int i = 0; i < MANY; i++)
		side_connect(&s, w);
	for (unsigned i = 0; i < RECVS / 2; i++) {
		unsigned at = i % MANY;

		if (!serves)
			say(&s, at, LEN);
		hear(&s, LEN);
		post_recv(&s, at);
		if (serves)
			say(&s, at, LEN);
	}
	/* One endpoint ends; the others go on. */
	if (serves) {
		side_event(&s, FI_SHUTDOWN, &s.ep[MANY - 1]->fid);
		OK(fi_close(&s.ep[--s.n]->fid));
	} else {
		OK(fi_close(&s.ep[--s.n]->fid));
		say(&s, 1, LEN);
	}
	if (serves)
		hear(&s, LEN);
	finish(&s);
}

void test_many(const char *ip, const char *port, bool serves)
{
	many(ip, port, serves, &plain);
}

void test_shared(const char *ip, const char *port, bool serves)
{
	const struct wants shared = { .shared_rx = true };

	many(ip, port, serves, &shared);
}

/* --- more than there is room for ----------------------------------------- */

/* Posts as fast as possible: a request that does not fit is refused, and fits when
 * others have completed. Where there is no RNR NAK the server's receives must
 * suffice. */
void test_resources(const char *ip, const char *port, bool serves)
{
	const struct wants few = { .tx_size = AT_ONCE };
	unsigned sent = 0, done = 0, full = 0, lots;
	struct side s;

	side_open(&s, serves, ip, port, &few);
	side_connect(&s, &few);
	lots = is_iwarp(&s) ? RECVS : LOTS;
	for (unsigned i = 0; serves && i < lots; i++) {
		hear(&s, LEN);
		post_recv(&s, 0);
	}
	while (!serves && done < lots) {
		ssize_t rc = sent == lots ? -FI_EAGAIN
					  : fi_send(s.ep[0], s.buf, LEN, fi_mr_desc(s.mr),
						    0, NULL);

		MUST(rc == 0 || rc == -FI_EAGAIN);
		sent += rc == 0;
		full += rc != 0 && sent < lots;
		if (rc)
			done += drain(s.tx);
	}
	MUST(serves || full || is_iwarp(&s));
	finish(&s);
}

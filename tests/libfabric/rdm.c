/* SPDX-License-Identifier: BSD-2-Clause */
/* Connectionless endpoints (verbs;ofi_rxm): tagged messages of every length, the peer's
 * memory, and many peers. */
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <unistd.h>

#include "fabric.h"

enum { PEERS = 8, TURNS = 9, ROOM = 4 << 20, BIG = 32 << 20, DEADLINE_S = 35 };

/* 16 KiB is the longest message that rxm sends by itself; longer ones are READ by the
 * receiver. */
static const size_t lengths[] = { 0,	 1,	64,	 1000,	   4096, 16384,
				  16385, 65536, 1000003, ROOM / 2, ROOM };
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

struct op {
	struct fi_context2 ctx; /* must be first: it is the operation's context */
	bool done;
	size_t len;
	uint64_t tag;
};

struct rdm {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	uint8_t *buf;
	size_t size;
	fi_addr_t peer;
};

/* The address of a side, and a key of its memory. */
struct card {
	char name[64];
	uint64_t addr, key;
};

static void open_rdm(struct rdm *r, const char *ip, const char *port, bool serves,
		     size_t size)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	memset(r, 0, sizeof(*r));
	MUST(hints);
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
	OK(fi_getinfo(FI_VERSION(1, 17), ip, port, serves ? FI_SOURCE : 0, hints,
		      &r->info));
	fi_freeinfo(hints);
	OK(fi_fabric(r->info->fabric_attr, &r->fabric, NULL));
	OK(fi_domain(r->fabric, r->info, &r->domain, NULL));
	OK(fi_av_open(r->domain, &av, &r->av, NULL));
	OK(fi_cq_open(r->domain, &cq, &r->cq, NULL));
	OK(fi_endpoint(r->domain, r->info, &r->ep, NULL));
	OK(fi_ep_bind(r->ep, &r->av->fid, 0));
	OK(fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(r->ep));
	r->size = size;
	r->buf = calloc(1, size);
	MUST(r->buf);
	OK(fi_mr_reg(r->domain, r->buf, size,
		     FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
			     FI_REMOTE_WRITE,
		     0, 0, 0, &r->mr, NULL));
	if (serves) {
		puts("listening");
		fflush(stdout);
	} else {
		GIVES(1, fi_av_insert(r->av, r->info->dest_addr, 1, &r->peer, 0, NULL));
	}
}

static void close_rdm(struct rdm *r)
{
	OK(fi_close(&r->ep->fid));
	OK(fi_close(&r->mr->fid));
	OK(fi_close(&r->cq->fid));
	OK(fi_close(&r->av->fid));
	OK(fi_close(&r->domain->fid));
	OK(fi_close(&r->fabric->fid));
	fi_freeinfo(r->info);
	free(r->buf);
}

/* --- one operation --------------------------------------------------------------- */

static void progress(struct rdm *r)
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(r->cq, &e, 1);
	struct op *op = e.op_context;

	if (n == -FI_EAVAIL) {
		MUST(fi_cq_readerr(r->cq, &err, 0) == 1);
		fprintf(stderr, "completion: %s (%d)\n", fi_strerror(err.err),
			err.prov_errno);
		exit(1);
	}
	if (n == -FI_EAGAIN) {
		sched_yield();
		return;
	}
	GIVES(1, n);
	op->done = true;
	op->len = e.len;
	op->tag = e.tag;
}

static void await(struct rdm *r, struct op *op)
{
	while (!op->done)
		progress(r);
}

/* Begins an operation; one that finds no room is tried again when another has ended. */
#define BEGIN(r, op, call)                                                               \
	do {                                                                             \
		long begun_;                                                             \
		(op)->done = false;                                                      \
		while ((begun_ = (long)(call)) == -FI_EAGAIN)                            \
			progress(r);                                                     \
		GIVES(0, begun_);                                                        \
	} while (0)

static void send_tagged(struct rdm *r, fi_addr_t to, struct op *op, size_t at, size_t len,
			uint64_t tag)
{
	BEGIN(r, op,
	      fi_tsend(r->ep, r->buf + at, len, fi_mr_desc(r->mr), to, tag, &op->ctx));
}

static void recv_tagged(struct rdm *r, struct op *op, size_t at, size_t len, uint64_t tag,
			uint64_t ignore)
{
	BEGIN(r, op,
	      fi_trecv(r->ep, r->buf + at, len, fi_mr_desc(r->mr), FI_ADDR_UNSPEC, tag,
		       ignore, &op->ctx));
}

static void say_tagged(struct rdm *r, fi_addr_t to, size_t len, uint64_t tag)
{
	struct op op;

	send_tagged(r, to, &op, 0, len, tag);
	await(r, &op);
}

static void hear_tagged(struct rdm *r, size_t at, size_t len, uint64_t tag)
{
	struct op op;

	recv_tagged(r, &op, at, r->size - at, tag, 0);
	await(r, &op);
	MUST(op.len == len && op.tag == tag);
}

/* --- who is who ------------------------------------------------------------------- */

enum { CARD_TAG = 1000, END_TAG, GO_TAG };

static void send_card(struct rdm *r, fi_addr_t to)
{
	struct card c = { .addr = (uintptr_t)r->buf, .key = fi_mr_key(r->mr) };
	size_t len = sizeof(c.name);

	OK(fi_getname(&r->ep->fid, c.name, &len));
	memcpy(r->buf, &c, sizeof(c));
	say_tagged(r, to, sizeof(c), CARD_TAG);
}

static struct card take_card(struct rdm *r)
{
	struct card c;

	hear_tagged(r, 0, sizeof(c), CARD_TAG);
	memcpy(&c, r->buf, sizeof(c));
	return c;
}

/* The server learns the client's address, and each side the other's memory. */
static struct card meet(struct rdm *r, bool serves)
{
	struct card c;

	if (!serves)
		send_card(r, r->peer);
	c = take_card(r);
	if (!serves)
		return c;
	GIVES(1, fi_av_insert(r->av, c.name, 1, &r->peer, 0, NULL));
	send_card(r, r->peer);
	return c;
}

/* The server has received everything; then both may end. */
static void part(struct rdm *r, bool serves)
{
	if (serves)
		say_tagged(r, r->peer, 1, END_TAG);
	else
		hear_tagged(r, 0, 1, END_TAG);
	close_rdm(r);
}

/* --- the tests -------------------------------------------------------------------- */

static uint8_t byte_of(uint64_t tag, size_t i)
{
	return (uint8_t)(tag * 31 + i * 7 + i / 251);
}

static void fill(uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i++)
		p[i] = byte_of(tag, i);
}

static void check(const uint8_t *p, size_t len, uint64_t tag)
{
	for (size_t i = 0; i < len; i++)
		MUST(p[i] == byte_of(tag, i));
}

static size_t place_of(int i)
{
	size_t at = 0;

	while (i-- > 0)
		at += (lengths[i] + 63) & ~(size_t)63;
	return at;
}

static void recv_all(struct rdm *r, struct op *ops)
{
	for (int i = 0; i < LENGTHS; i++)
		recv_tagged(r, &ops[i], place_of(i), lengths[i], (uint64_t)i, 0);
}

static void check_all(struct rdm *r)
{
	for (int i = 0; i < LENGTHS; i++)
		check(r->buf + place_of(i), lengths[i], (uint64_t)i);
	memset(r->buf, 0, r->size);
}

/* Messages of every length. A message that comes before its receive waits; receives are
 * posted in any order. */
void test_rdm_tagged(const char *ip, const char *port, bool serves)
{
	struct op ops[LENGTHS];
	struct rdm r;

	alarm(DEADLINE_S);
	open_rdm(&r, ip, port, serves, place_of(LENGTHS) + (1 << 16));
	(void)meet(&r, serves);
	for (int i = 0; !serves && i < LENGTHS; i++)
		fill(r.buf + place_of(i), lengths[i], (uint64_t)i);
	for (int turn = 0; turn < TURNS; turn++) {
		bool asks_first = turn % 3 == 2;

		if (asks_first && serves) {
			recv_all(&r, ops);
			say_tagged(&r, r.peer, 1, GO_TAG);
		} else if (asks_first) {
			hear_tagged(&r, place_of(LENGTHS), 1, GO_TAG);
		}
		for (int i = 0; i < LENGTHS; i++) {
			int n = turn % 3 == 1 ? LENGTHS - 1 - i : i;

			if (!serves)
				send_tagged(&r, r.peer, &ops[i], place_of(i), lengths[i],
					    (uint64_t)i);
			else if (!asks_first)
				recv_tagged(&r, &ops[n], place_of(n), lengths[n],
					    (uint64_t)n, 0);
			if (serves && !asks_first)
				await(&r, &ops[n]);
		}
		for (int i = 0; i < LENGTHS; i++) {
			await(&r, &ops[i]);
			MUST(!serves || ops[i].len == lengths[i]);
		}
		if (serves)
			check_all(&r);
	}
	part(&r, serves);
}

/* The client writes to the server's memory and reads it back. */
void test_rdm_rma(const char *ip, const char *port, bool serves)
{
	struct card c;
	struct rdm r;
	struct op op;

	alarm(DEADLINE_S);
	open_rdm(&r, ip, port, serves, 2 * ROOM);
	c = meet(&r, serves);
	for (unsigned i = 0; !serves && i < TURNS; i++) {
		size_t len = lengths[i % (LENGTHS - 1) + 1];

		fill(r.buf, len, i);
		memset(r.buf + ROOM, 0, len);
		BEGIN(&r, &op,
		      fi_write(r.ep, r.buf, len, fi_mr_desc(r.mr), r.peer, c.addr + ROOM,
			       c.key, &op.ctx));
		await(&r, &op);
		BEGIN(&r, &op,
		      fi_read(r.ep, r.buf + ROOM, len, fi_mr_desc(r.mr), r.peer,
			      c.addr + ROOM, c.key, &op.ctx));
		await(&r, &op);
		check(r.buf + ROOM, len, i);
	}
	if (serves)
		hear_tagged(&r, 0, 1, GO_TAG);
	else
		say_tagged(&r, r.peer, 1, GO_TAG);
	part(&r, serves);
}

/* The server's single endpoint serves all clients. */
void test_rdm_peers(const char *ip, const char *port, bool serves)
{
	struct rdm r[PEERS];
	fi_addr_t peer[PEERS];
	struct op op;

	alarm(DEADLINE_S);
	for (unsigned i = 0; i < PEERS; i++) {
		if (i == 0 || !serves)
			open_rdm(&r[i], ip, port, serves, 1 << 17);
		(void)meet(&r[serves ? 0 : i], serves);
		peer[i] = r[0].peer;
	}
	for (unsigned turn = 0; turn < TURNS; turn++) {
		for (unsigned i = 0; i < PEERS; i++) {
			size_t len = turn % 2 ? 300 : 40000;

			if (!serves) {
				fill(r[i].buf, len, i);
				say_tagged(&r[i], r[i].peer, len, i);
				continue;
			}
			recv_tagged(&r[0], &op, 0, r[0].size, 0, PEERS - 1);
			await(&r[0], &op);
			MUST(op.tag < PEERS && op.len == len);
			check(r[0].buf, len, op.tag);
			say_tagged(&r[0], peer[op.tag], 100, 100 + op.tag);
		}
		for (unsigned i = 0; !serves && i < PEERS; i++) {
			hear_tagged(&r[i], 0, 100, 100 + i);
			check(r[i].buf, 100, i);
		}
	}
	for (unsigned i = 0; i < PEERS; i++) {
		r[0].peer = serves ? peer[i] : r[0].peer;
		if (!serves)
			part(&r[i], false);
		else
			say_tagged(&r[0], peer[i], 1, END_TAG);
	}
	if (serves)
		close_rdm(&r[0]);
}

void test_rdm_big(const char *ip, const char *port, bool serves)
{
	struct rdm r;

	alarm(DEADLINE_S);
	open_rdm(&r, ip, port, serves, BIG);
	(void)meet(&r, serves);
	for (unsigned i = 0; i < 4; i++) {
		if (serves == i % 2) {
			fill(r.buf, BIG, i);
			say_tagged(&r, r.peer, BIG, i);
		} else {
			memset(r.buf, 0, BIG);
			hear_tagged(&r, 0, BIG, i);
			check(r.buf, BIG, i);
		}
	}
	part(&r, serves);
}

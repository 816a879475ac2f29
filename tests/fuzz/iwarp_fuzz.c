/* SPDX-License-Identifier: BSD-2-Clause */
/* A TCP peer that sends anything: to an iWARP QP in RTS, between work requests
 * and the passing of time; or before that, as MPA's request or reply.
 *
 * The input: a byte (enum mode, or-ed), then a list of steps: a byte that says
 * what (enum step, modulo), and what that takes (STEP below).  Bytes that are
 * missing are 0.
 *
 * Beside crashes it looks for: memory written that no peer may write, more
 * completions than requests, FPDUs sent that are not well formed, and what
 * depends on how the stream is cut. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "iwarp/sim.h"
#include "must.h"
#include "sys/log.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum mode { SETUP = 1, INITIATOR = 2, CRC = 4, MARKERS = 8, CUT = 16, RTR = 32 };

enum step {
	SEGMENT, /* how (enum how), length (1), bytes: sent as an FPDU */
	BYTES,	 /* length (1), bytes: sent as they are */
	RECV,	 /* SGE length in units of 16 */
	SEND,	 /* kind, then length in units of 16 */
	RUN,	 /* bits 0-4: 2^n microseconds */
	FIN,
	STEPS
};

/* flags of a SEGMENT */
enum how {
	HOW_KEY = 1,	 /* tagged, or a READ's source: the region's key */
	HOW_TO = 2,	 /* ... and its offset is added to the base */
	HOW_FOREIGN = 4, /* ... the key of another PD's region */
	HOW_MSN = 8,	 /* the expected one */
	HOW_BAD_CRC = 16,
	HOW_SINK = 32, /* tagged: as the READ asked for */
};

enum {
	REGION = 4096,
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

struct world {
	struct sim *s;
	struct sim_pair p;
	struct stream *raw;
	struct pd *other_pd;
	uint8_t *open, *read_only, *foreign;
	struct mr *mr, *read_only_mr, *foreign_mr;
	unsigned posted, ended, mode;
	uint32_t msn[4], pos;
	uint8_t got[1 << 16];
	size_t ngot;
	uint32_t got_pos;
};

/* --- what B sends -------------------------------------------------------- */

static void check_fpdu(struct world *w, const uint8_t *at, size_t n)
{
	size_t ulpdu = (size_t)at[0] << 8 | at[1];
	const struct rdmap_op *op;
	struct ddp d;

	MUST(mpa_fpdu_len(ulpdu) == n);
	if (w->mode & CRC)
		MUST(mpa_crc_is(mpa_crc(MPA_CRC_START, at, n - 4), at + n - 4));
	MUST(ddp_parse(&d, at + 2, ulpdu) > 0);
	MUST(d.version == DDP_VERSION && rdmap_version(d.ulp) == RDMAP_VERSION);
	op = rdmap_op(rdmap_opcode(d.ulp));
	MUST(op && op->tagged == d.tagged);
	MUST(d.tagged || op->queue == d.qn);
}

static void check_sent(struct world *w)
{
	struct iovec v = { w->got + w->ngot, sizeof(w->got) - w->ngot };
	ssize_t n = w->raw->ops->recv(w->raw, &v, 1, w->s->now);
	size_t at = 0;

	if (n > 0)
		w->ngot += (size_t)n;
	while (w->ngot - at >= 2) {
		size_t len = mpa_fpdu_len((size_t)w->got[at] << 8 | w->got[at + 1]);

		if (len > w->ngot - at)
			break;
		check_fpdu(w, w->got + at, len);
		at += len;
	}
	memmove(w->got, w->got + at, w->ngot - at);
	w->ngot -= at;
}

/* --- steps --------------------------------------------------------------- */

static void send_raw(struct world *w, const uint8_t *p, size_t n)
{
	while (n > 0) {
		struct iovec v = { (void *)(uintptr_t)p, n };
		ssize_t took = w->raw->ops->send(w->raw, &v, 1, w->s->now);

		if (took <= 0)
			return;
		p += took;
		n -= (size_t)took;
	}
}

static void put32(uint8_t *at, uint32_t v)
{
	for (int i = 3; i >= 0; i--, v >>= 8)
		at[i] = (uint8_t)v;
}

static void add64(uint8_t *at, uint64_t v)
{
	uint64_t old = 0;

	for (int i = 0; i < 8; i++)
		old = old << 8 | at[i];
	old += v;
	put32(at, (uint32_t)(old >> 32));
	put32(at + 4, (uint32_t)old);
}

/* Makes it more likely that a segment is valid. */
static void dress(struct world *w, uint8_t *u, size_t n, unsigned how)
{
	const struct mkey *mk = &w->mr->mkey;
	bool tagged = u[0] & 0x80;
	uint32_t qn;

	if (tagged && n >= 14) {
		if (how & (HOW_KEY | HOW_SINK))
			put32(u + 2, mk->key);
		if (how & HOW_FOREIGN)
			put32(u + 2, w->foreign_mr->mkey.key);
		if (how & HOW_TO)
			add64(u + 6, mk->base);
	}
	if (tagged || n < 18)
		return;
	qn = u[9] & 3;
	if (how & HOW_MSN) {
		memset(u + 6, 0, 3);
		u[9] = (uint8_t)qn;
		put32(u + 10, w->msn[qn]);
		w->msn[qn] += (u[0] & 0x40) != 0;
	}
	if (qn == 1 && (u[1] & 15) == RDMAP_READ_REQUEST && n >= 18 + 28) {
		if (how & HOW_KEY)
			put32(u + 18 + 16,
			      how & HOW_FOREIGN ? w->foreign_mr->mkey.key : mk->key);
		if (how & HOW_TO)
			add64(u + 18 + 20, mk->base);
	}
	if (qn == 1 && (u[1] & 15) == RDMAP_ATOMIC_REQUEST && n >= 18 + 52) {
		if (how & HOW_KEY)
			put32(u + 18 + 8,
			      how & HOW_FOREIGN ? w->foreign_mr->mkey.key : mk->key);
		if (how & HOW_TO)
			add64(u + 18 + 12, mk->base);
	}
}

static void segment(struct world *w, struct input *in)
{
	unsigned how = take(in, 1);
	uint8_t fpdu[300] = { 0 }, marked[400];
	size_t n = take(in, 1), len;

	for (size_t i = 0; i < n; i++)
		fpdu[2 + i] = (uint8_t)take(in, 1);
	fpdu[1] = (uint8_t)n;
	dress(w, fpdu + 2, n, how);
	len = mpa_fpdu_len(n);
	if (w->mode & MARKERS) {
		size_t all = mpa_mark(marked, fpdu, len, w->pos);

		if (w->mode & CRC)
			mpa_crc_put(mpa_crc(MPA_CRC_START, marked, all - 4),
				    marked + all - 4);
		w->pos += (uint32_t)all;
		send_raw(w, marked, all);
		return;
	}
	if (w->mode & CRC)
		mpa_crc_put(mpa_crc(MPA_CRC_START, fpdu, len - 4), fpdu + len - 4);
	if (how & HOW_BAD_CRC)
		fpdu[len - 1] ^= 1;
	send_raw(w, fpdu, len);
}

static void bytes(struct world *w, struct input *in)
{
	uint8_t p[256];
	size_t n = take(in, 1);

	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)take(in, 1);
	w->pos += (uint32_t)n;
	send_raw(w, p, n);
}

static void post(struct world *w, struct input *in)
{
	/* clang-format off */
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_SEND_WITH_INV, IBV_WR_LOCAL_INV,
	};
	/* clang-format on */
	unsigned op = ops[take(in, 1) % 7];
	struct ibv_sge sge = { w->mr->mkey.base, take(in, 1) * 16 % REGION,
			       w->mr->mkey.key };
	struct ibv_send_wr *bad, wr = {
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		sge.length = 8;
	if (qp_post_send(w->p.qp[1], &wr, &bad) == 0)
		w->posted++;
}

static void post_recv(struct world *w, struct input *in)
{
	struct ibv_sge sge = { w->mr->mkey.base + 1024, take(in, 1) * 16 % 2048,
			       w->mr->mkey.key };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (qp_post_recv(w->p.qp[1], &wr, &bad) >= 0)
		w->posted++;
}

static void poll(struct world *w)
{
	struct ibv_wc wc;

	while (cq_poll(w->p.cq[1], 1, &wc) == 1)
		w->ended++;
	MUST(w->ended <= w->posted);
	while (sim_event(w->s, 1) >= 0)
		;
}

static void one_step(struct world *w, struct input *in)
{
	switch ((enum step)(take(in, 1) % STEPS)) {
	case SEGMENT:
		segment(w, in);
		break;
	case BYTES:
		bytes(w, in);
		break;
	case RECV:
		post_recv(w, in);
		break;
	case SEND:
		post(w, in);
		break;
	case RUN:
		sim_run(w->s, 1000ull << take(in, 1) % 24);
		check_sent(w);
		poll(w);
		break;
	case FIN:
		w->raw->ops->fin(w->raw);
		break;
	case STEPS:
		break;
	}
}

/* --- worlds -------------------------------------------------------------- */

static uint8_t *page(uint8_t fill)
{
	uint8_t *p = aligned_alloc(4096, REGION);

	MUST(p);
	memset(p, fill, REGION);
	return p;
}

static struct world *make(unsigned mode)
{
	struct world *w = calloc(1, sizeof(*w));
	struct sim_conf c = {
		.crc = mode & CRC,
		.markers = { false, mode & MARKERS },
		.rtr = mode & RTR ? MPA_RTR_SEND : 0,
		.ird = { 0, 4 },
		.ord = { 0, 4 },
		.stream = { .seed = mode & CUT ? 7 : 0, .latency = 500 },
	};

	MUST(w);
	w->mode = mode;
	w->s = sim_open();
	w->p = sim_pair(w->s, NULL);
	w->open = page(1);
	w->read_only = page(2);
	w->foreign = page(3);
	w->mr = sim_mr(w->s, 1, w->open, REGION, ALL);
	w->read_only_mr = sim_mr(w->s, 1, w->read_only, REGION, IBV_ACCESS_REMOTE_READ);
	MUST(pd_alloc(&w->s->node[1].core, &w->s->node[1].ibv, &w->other_pd) == 0);
	MUST(mr_reg(w->other_pd, w->foreign, REGION, (uintptr_t)w->foreign, ALL,
		    &w->foreign_mr) == 0);
	for (int i = 0; i < 4; i++)
		w->msn[i] = 1;
	w->raw = sim_connect_raw(w->s, &w->p, &c, mode & INITIATOR);
	return w;
}

static void check_memory(const uint8_t *p, uint8_t want)
{
	for (size_t i = 0; i < REGION; i++)
		MUST(p[i] == want);
}

static void done(struct world *w)
{
	sim_run(w->s, 20 * SEC);
	check_sent(w);
	poll(w);
	check_memory(w->read_only, 2);
	check_memory(w->foreign, 3);
	sim_unpair(&w->p);
	w->raw->ops->close(w->raw);
	MUST(mr_dereg(w->mr) == 0 && mr_dereg(w->read_only_mr) == 0 &&
	     mr_dereg(w->foreign_mr) == 0 && pd_free(w->other_pd) == 0);
	free(w->open);
	free(w->read_only);
	free(w->foreign);
	sim_close(w->s);
	free(w);
}

/* --- MPA ----------------------------------------------------------------- */

static void setup(const uint8_t *p, size_t n, unsigned mode)
{
	const struct iw_offer o = { .revision = 2,
				    .ird = 4,
				    .ord = 4,
				    .crc = mode & CRC,
				    .markers = mode & MARKERS,
				    .rtr = mode & RTR ? 7 : 0 };
	struct iw_setup *s = calloc(1, sizeof(*s));
	struct iw_offer mine = o;
	size_t at = 0;

	if (mode & INITIATOR)
		MUST(iw_setup_start(s, &o) == 0);
	else
		iw_setup_listen(s);
	while (at < n && s->state == IW_MORE) {
		struct iovec v = iw_setup_room(s);
		size_t step = mode & CUT ? 1 : v.iov_len;

		MUST(v.iov_len > 0 &&
		     (uint8_t *)v.iov_base + v.iov_len <= s->in + sizeof(s->in));
		if (step > n - at)
			step = n - at;
		memcpy(v.iov_base, p + at, step);
		iw_setup_received(s, step);
		at += step;
	}
	if (s->state == IW_REQUEST) {
		mine.revision = s->peer.revision;
		mine.rtr = 0;
		MUST(iw_setup_accept(s, &mine) == 0);
	}
	if (s->state == IW_DONE)
		MUST(s->agreed.ird <= IW_DEPTH_MAX && s->agreed.ord <= 4);
	MUST(iw_setup_out(s).iov_len <= MPA_HELLO_MAX);
	free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned mode = take(&in, 1);
	struct world *w;

	if (mode & SETUP) {
		setup(in.at, (size_t)(in.end - in.at), mode);
		return 0;
	}
	log_set_level("error");
	w = make(mode);
	for (int i = 0; i < 200 && in.at < in.end; i++)
		one_step(w, &in);
	done(w);
	return 0;
}

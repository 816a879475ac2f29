/* SPDX-License-Identifier: BSD-2-Clause */
/* datagrams.c - two processes send each other datagrams (UD) over a wire that loses,
 * doubles and spoils them, until each has received ENOUGH.  What is received is whole and
 * has been sent: the first word is a seed, from which length and contents follow.
 */
#include <string.h>
#include <sys/socket.h>

#include "pattern.h"
#include "peer.h"
#include "rig.h"

enum { ENOUGH = 2000, GRH = 40, ROOM = 1024, RECVS = RIG_DEPTH, QKEY = 0x1234 };
enum { OUT = 0, IN = 64 << 10 }; /* in rig.buf */

struct hello {
	uint32_t qpn, salt;
	union ibv_gid gid;
};

static struct {
	struct rig rig;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	struct hello mine, theirs;
	unsigned sent, received;
	unsigned busy; /* a bit for each slot of OUT */
} d;

static size_t length(uint64_t seed)
{
	return 8 + mix(seed) % (ROOM - 7);
}

static void post_recv(uint64_t i)
{
	struct ibv_sge sge = {
		(uintptr_t)d.rig.buf + IN + i * (GRH + ROOM),
		GRH + ROOM,
		d.rig.mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	memset(d.rig.buf + IN + i * (GRH + ROOM), 0, GRH + ROOM);
	CHECK(!ibv_post_recv(d.qp, &wr, &bad));
}

static void send_one(uint64_t i)
{
	uint64_t seed = mix(d.mine.salt) ^ d.sent++;
	uint8_t *at = d.rig.buf + OUT + i * ROOM;
	struct ibv_sge sge = {
		(uintptr_t)at,
		(uint32_t)length(seed),
		d.rig.mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = RECVS + i, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { d.ah, d.theirs.qpn, QKEY },
	}, *bad;

	memcpy(at, &seed, 8);
	pattern_fill(at + 8, sge.length - 8, seed);
	CHECK(!ibv_post_send(d.qp, &wr, &bad));
	d.busy |= 1u << i;
}

static void received(const struct ibv_wc *wc)
{
	const uint8_t *at = d.rig.buf + IN + wc->wr_id * (GRH + ROOM) + GRH;
	uint64_t seed;
	size_t len;

	CHECK(wc->byte_len >= GRH + 8 && wc->src_qp == d.theirs.qpn);
	memcpy(&seed, at, 8);
	len = length(seed);
	/* A seed that nobody has sent would be of high numbers. */
	CHECK((seed ^ mix(d.theirs.salt)) < 1u << 30);
	CHECK(wc->byte_len == GRH + len);
	CHECK(pattern_check(at + 8, len - 8, seed) == len - 8);
	d.received++;
	post_recv(wc->wr_id);
}

static void turn(void)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(d.rig.cq, 1, &wc)) > 0) {
		CHECK(wc.status == IBV_WC_SUCCESS);
		if (wc.wr_id < RECVS)
			received(&wc);
		else
			d.busy &= ~(1u << (wc.wr_id - RECVS));
	}
	CHECK(!n);
}

/* Sends until the peer, too, has received enough, and no faster than who stands between
 * the two can pass on. */
static void exchange(int sock)
{
	double next = now_s();
	ssize_t heard = -1;
	bool told = false;
	char over;

	while (!told || heard < 0) {
		turn();
		if (now_s() >= next && d.busy != 3) {
			send_one(d.busy & 1);
			next = now_s() + 0.0002;
		}
		if (!told && d.received >= ENOUGH)
			told = send(sock, "o", 1, MSG_NOSIGNAL) == 1;
		if (heard < 0)
			heard = recv(sock, &over, 1, MSG_DONTWAIT);
		CHECK(heard); /* 0: the peer has ended */
	}
	while (d.busy)
		turn();
}

int datagrams(void)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1 };
	int sock;

	rig_open(&d.rig);
	d.qp = rig_ud(&d.rig, RECVS, QKEY);
	d.mine = (struct hello){ d.qp->qp_num, opt.host ? 1 : 2, d.rig.gid };
	for (uint64_t i = 0; i < RECVS; i++)
		post_recv(i);
	sock = peer_meet(opt.host, opt.port);
	peer_swap(sock, &d.mine, &d.theirs, sizeof(d.mine));
	to.grh.dgid = d.theirs.gid;
	to.grh.sgid_index = (uint8_t)opt.gid;
	to.grh.hop_limit = 64;
	d.ah = ibv_create_ah(d.rig.pd, &to);
	CHECK(d.ah);
	exchange(sock);
	say("%u datagrams sent, %u received, all right", d.sent, d.received);
	CHECK(!ibv_destroy_ah(d.ah) && !ibv_destroy_qp(d.qp));
	rig_close(&d.rig);
	return 0;
}

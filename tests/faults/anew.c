/* SPDX-License-Identifier: BSD-2-Clause */
/* anew.c - two processes connect new QPs again and again, every --pause ms or 100, write
 * into each other's memory in between, and read it back; all of it verified.
 *
 * Ends well after --time, or when either has got SIGTERM.  After an error the program
 * says which, and exits with status 2.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pattern.h"
#include "peer.h"
#include "rig.h"

enum { THEIRS = 4096, OUT = 64 << 10, BACK = 128 << 10, AREA = 32 << 10 };

struct hello {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static void one_round(struct rig *r, struct ibv_qp *qp, const struct hello *to,
		      uint64_t seed)
{
	size_t len = 1 + seed % AREA;

	pattern_fill(r->buf + OUT, len, seed);
	rig_post(r, qp, IBV_WR_RDMA_WRITE, OUT, len, to->addr + THEIRS, to->rkey, 0);
	rig_post(r, qp, IBV_WR_RDMA_READ, BACK, len, to->addr + THEIRS, to->rkey, 0);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = rig_wait(r);

		if (wc.status == IBV_WC_SUCCESS)
			continue;
		say("%s", ibv_wc_status_str(wc.status));
		exit(2);
	}
	CHECK(pattern_check(r->buf + BACK, len, seed) == len);
}

/* One connection. */
static void connect_once(struct rig *r, int sock, unsigned n)
{
	const double end = now_s() + (opt.pause ? opt.pause : 100) / 1000.0;
	struct ibv_qp *qp = rig_qp(r);
	struct hello theirs, mine = {
		.qpn = qp->qp_num,
		.rkey = r->mr->rkey,
		.addr = (uintptr_t)r->buf,
		.gid = r->gid,
	};
	uint64_t done = 0, other;

	peer_swap(sock, &mine, &theirs, sizeof(mine));
	rig_join(r, qp, theirs.qpn, n * 1000, &theirs.gid);
	peer_swap(sock, &done, &other, sizeof(done));
	while (now_s() < end)
		one_round(r, qp, &theirs,
			  mix(++done << 20 ^ n ^ (uint64_t)getpid() << 32));
	peer_swap(sock, &done, &other, sizeof(done));
	CHECK(!ibv_destroy_qp(qp));
}

int anew(void)
{
	const double end = now_s() + opt.seconds;
	uint64_t mine = 0, theirs = 0;
	struct rig r;
	unsigned n = 0;
	int sock;

	signal(SIGTERM, on_term);
	rig_open(&r);
	sock = peer_meet(opt.host, opt.port);
	while (!mine && !theirs) {
		connect_once(&r, sock, ++n);
		if (n == 1)
			say("works");
		mine = stop || now_s() > end;
		peer_swap(sock, &mine, &theirs, sizeof(mine));
	}
	say("%u connections, all right", n);
	rig_close(&r);
	return 0;
}

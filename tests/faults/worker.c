/* SPDX-License-Identifier: BSD-2-Clause */
/* worker.c - two processes write into each other's memory, read it back and
 * count; all of it verified.
 *
 * Both do the same at once until --time is over or SIGTERM comes, and then a few
 * rounds more.  After an error the program says which, and how long after the
 * last success, and exits with status 2.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pattern.h"
#include "peer.h"
#include "rig.h"

enum {
	COUNT = 0,
	THEIRS = 4096,
	OUT = 64 << 10,
	BACK = 128 << 10,
	AREA = 32 << 10,
	OLD = 64,
	MORE = 10
};

struct hello {
	uint32_t qpn, psn, rkey, pad;
	uint64_t addr;
	union ibv_gid gid;
};

static struct {
	struct rig rig;
	struct ibv_qp *qp;
	struct hello mine, theirs;
	uint64_t rounds, bytes;
	double last; /* time of the last success */
} w;

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

/* Makes QPs until one has the number asked for; destroys the others. */
static struct ibv_qp *find_qp(void)
{
	for (int i = 0; i < 1 << 14; i++) {
		struct ibv_qp *qp = rig_qp(&w.rig);

		if (!opt.qpn || qp->qp_num == opt.qpn)
			return qp;
		CHECK(!ibv_destroy_qp(qp));
	}
	failed("the QP number cannot be had", __FILE__, __LINE__);
}

static void expect_success(void)
{
	struct ibv_wc wc = rig_wait(&w.rig);

	if (wc.status != IBV_WC_SUCCESS) {
		say("%s after %.3f s and %llu rounds", ibv_wc_status_str(wc.status),
		    now_s() - w.last, (unsigned long long)w.rounds);
		exit(2);
	}
	w.last = now_s();
}

static void one_round(void)
{
	uint64_t seed = mix(w.rounds ^ (uint64_t)getpid() << 32), old;
	/* The first WRITE has many packets: a test names one of them by its number. */
	size_t len = w.rounds ? 1 + seed % AREA : AREA;
	struct rig *r = &w.rig;

	pattern_fill(r->buf + OUT, len, seed);
	rig_post(r, w.qp, IBV_WR_RDMA_WRITE, OUT, len, w.theirs.addr + THEIRS,
		 w.theirs.rkey, 0);
	rig_post(r, w.qp, IBV_WR_RDMA_READ, BACK, len, w.theirs.addr + THEIRS,
		 w.theirs.rkey, 0);
	rig_post(r, w.qp, IBV_WR_ATOMIC_FETCH_AND_ADD, OLD, 8, w.theirs.addr + COUNT,
		 w.theirs.rkey, 1);
	for (int i = 0; i < 3; i++)
		expect_success();
	CHECK(pattern_check(r->buf + BACK, len, seed) == len);
	memcpy(&old, r->buf + OLD, 8);
	CHECK(old == w.rounds);
	if (!w.rounds++)
		say("works");
	w.bytes += 2 * len;
}

int worker(void)
{
	struct rig *r = &w.rig;
	uint64_t mine = 0, theirs, count;
	double end;
	int sock, more = MORE;

	signal(SIGTERM, on_term);

	rig_open(r);
	w.qp = find_qp();
	w.mine = (struct hello){
		.qpn = w.qp->qp_num,
		.psn = (uint32_t)mix((uint64_t)getpid()) & 0xffffff,
		.rkey = r->mr->rkey,
		.addr = (uintptr_t)r->buf,
		.gid = r->gid,
	};
	sock = peer_meet(opt.host, opt.port);
	peer_swap(sock, &w.mine, &w.theirs, sizeof(w.mine));
	/* Both directions use one first PSN, the server's. */
	rig_join(r, w.qp, w.theirs.qpn, opt.host ? w.theirs.psn : w.mine.psn,
		 &w.theirs.gid);
	peer_swap(sock, &mine, &theirs, 1);
	say("joined, qpn %#x", w.qp->qp_num);
	w.last = now_s();
	end = w.last + opt.seconds;
	while (more > 0) {
		one_round();
		more -= stop || now_s() > end;
		if (opt.pause)
			sleep_ms(opt.pause);
	}
	/* The engine serves the peer until the peer has finished, too. */
	mine = w.rounds;
	peer_swap(sock, &mine, &theirs, sizeof(mine));
	memcpy(&count, r->buf + COUNT, 8);
	CHECK(count == theirs);
	say("%llu rounds, %llu KiB, all right", (unsigned long long)w.rounds,
	    (unsigned long long)w.bytes >> 10);
	peer_swap(sock, &mine, &theirs, 1);
	CHECK(!ibv_destroy_qp(w.qp));
	rig_close(r);
	return 0;
}

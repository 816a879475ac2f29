/* SPDX-License-Identifier: BSD-2-Clause */
/* huge.c - a WRITE and a READ of one message of almost 2 GiB. */
#include <err.h>
#include <string.h>
#include <sys/mman.h>

#include "pattern.h"
#include "peer.h"
#include "stress.h"

void huge(void)
{
	const uint64_t len = opt.huge;
	uint8_t *out = memory(len), *in = memory(len);
	const int all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_mr *mo = ibv_reg_mr(s.pd, out, len, all),
		      *mi = ibv_reg_mr(s.pd, in, len, all);
	struct {
		uint64_t addr;
		uint32_t rkey, pad;
	} mine, theirs;
	static const enum ibv_wr_opcode ops[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	char go = 'h';

	if (!mo || !mi)
		err(1, "huge regions");
	mine.addr = (uintptr_t)in;
	mine.rkey = mi->rkey;
	mine.pad = 0;
	peer_swap(s.sock, &mine, &theirs, sizeof(mine));
	for (int k = 0; k < 2; k++) {
		struct ibv_sge sge = { (uintptr_t)out, (uint32_t)len, mo->lkey };
		struct ibv_send_wr wr = {
			.wr_id = 0, .opcode = ops[k], .sg_list = &sge, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { theirs.addr, theirs.rkey },
		}, *bad;
		struct ibv_wc wc;
		int n;

		if (k == 0)
			pattern_fill(out, len, 42);
		else
			memset(out, 0, len);
		if (ibv_post_send(s.conn[0].qp, &wr, &bad))
			err(1, "huge post_send");
		while ((n = ibv_poll_cq(s.cq, 1, &wc)) == 0)
			;
		if (n < 0 || wc.status)
			errx(1, "huge: %s",
			     n < 0 ? "poll" : ibv_wc_status_str(wc.status));
		peer_swap(s.sock, &go, &go, 1);
		if (pattern_check(k ? out : in, len, 42) != len)
			wrong(k ? "huge READ" : "huge WRITE", 0, 42, len, 0);
	}
	ibv_dereg_mr(mo);
	ibv_dereg_mr(mi);
	munmap(out, len);
	munmap(in, len);
	s.bytes += 2 * len;
}

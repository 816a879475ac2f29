/* SPDX-License-Identifier: BSD-2-Clause */
/* stress.c - random verbs traffic between two processes, all of it verified.
 *
 * Both sides do the same at once.  Each QP keeps up to SLOTS operations under
 * way, each in a slot of its own: a piece of local memory, a piece to read
 * back into, and a piece of the peer's arena.  An operation is
 *
 *   WRITE then READ    what was read must be what was written
 *   WRITE with imm     the peer checks the slot's arena when the imm arrives
 *   SEND, with imm     the peer checks the bytes against the seed they carry
 *   FETCH_ADD          of 1 on a word of the QP's own: the old value is known;
 *                      and on one shared by all QPs: the sum is checked at the end
 *   CMP_SWAP           on a word of the QP's own, half of them must fail
 *
 * Lengths go from 0 to --max, evenly in their logarithm; SGE lists have 1 to 4
 * entries cut at random.  The exit status is 0 only if all was right.
 */
#include "stress.h"

#include <stdio.h>

#include "pattern.h"
#include "peer.h"

struct stress s;

uint64_t rnd(uint64_t below)
{
	s.rng++;
	return mix(s.rng) % below;
}

void wrong(const char *what, int q, uint64_t seed, uint64_t len, uint64_t at)
{
	fprintf(stderr, "WRONG %s: qp %d seed %#llx length %llu, first at %llu\n", what,
		q, (unsigned long long)seed, (unsigned long long)len,
		(unsigned long long)at);
	s.errors++;
}

int main(int argc, char **argv)
{
	/* clang-format off */
	static const char *const names[OP_KINDS] = {
		"write+read", "write_imm", "send", "send_imm", "fetch_add",
		"shared fetch_add", "cmp_swap",
	};
	/* clang-format on */

	read_options(argc, argv);
	s.rng = mix(opt.seed * 2 + !opt.host);
	lay_out();
	open_device();
	make_objects();
	s.sock = peer_meet(opt.host, opt.port);
	join_all();
	if (opt.huge)
		huge();
	traffic();
	if (!s.errors) {
		answer_until_both_are_done();
		compare_sums();
	}
	for (int k = 0; k < OP_KINDS; k++)
		printf("%s %llu  ", names[k], (unsigned long long)s.ops[k]);
	printf("\n%llu MiB sent, %llu received, %d wrong\n",
	       (unsigned long long)(s.bytes >> 20), (unsigned long long)s.received,
	       s.errors);
	return s.errors != 0;
}

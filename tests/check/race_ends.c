/* SPDX-License-Identifier: BSD-2-Clause */
/* race_ends.c - two processes set up the ends of a connection differently: ends-differ.
 */
#include "race_rig.h"

enum { LEN = 64 };

static void tell(struct side *s)
{
	post(s, 0, (struct post){ IBV_WR_SEND, LEN, LEN, IBV_SEND_SIGNALED, 0 });
}

/* Both sides take queue pair 1 back, then this one sets it up again, then the other. */
static void differ(struct side *s, struct end_how how)
{
	for (int i = 0; i < 2; i++)
		post_recv(s, 0, 0, LEN);
	reset(s, 1);
	tell(s);
	for (int i = 0; i < 2; i++)
		reap(s, 0); /* the other has done so, too */
	connect_again(s, 1, how);
	tell(s);
	for (int i = 0; i < 2; i++)
		reap(s, 0);
}

static void answers(struct side *s)
{
	for (int i = 0; i < 2; i++)
		post_recv(s, 0, 0, LEN);
	reap(s, 0);
	reset(s, 1);
	tell(s);
	for (int i = 0; i < 2; i++)
		reap(s, 0);
	connect_again(s, 1, (struct end_how){ .reads = 8 });
	tell(s);
	reap(s, 0);
}

static void mtu(struct side *s, bool repaired)
{
	differ(s, (struct end_how){ .mtu = repaired ? 0 : IBV_MTU_256, .reads = 8 });
}

static void first_number(struct side *s, bool repaired)
{
	differ(s, (struct end_how){ .rq_psn = repaired ? 0 : 77, .reads = 8 });
}

static void reads(struct side *s, bool repaired)
{
	differ(s, (struct end_how){ .reads = repaired ? 8 : 4 });
}

const struct race_case race_ends[] = {
	{ "ends-differ/mtu", mtu, answers },
	{ "ends-differ/first-number", first_number, answers },
	{ "ends-differ/reads", reads, answers },
	{ 0 },
};

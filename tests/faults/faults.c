/* SPDX-License-Identifier: BSD-2-Clause */
/* faults.c - the main program of the fault tests: runs one of the commands of rig.h. */
#include <stdlib.h>

#include "command.h"
#include "rig.h"

struct options opt = {
	.port = "18600",
	.gid = 1,
	.timeout = 16,
	.retries = 7,
	.seconds = 60,
};

static const struct command commands[] = {
	{ "worker", worker },	    /* verified traffic with a peer */
	{ "target", target },	    /* written to while it calls no verbs; -m */
	{ "fork", forks },	    /* -m */
	{ "storm", storm },	    /* forks while many threads work */
	{ "close", closes },	    /* closes all descriptors; -m */
	{ "heap", heap },	    /* registers blocks of the heap */
	{ "memory", memory },	    /* faults and handlers of them; -m */
	{ "watch", watch },	    /* prints events and what they changed */
	{ "datagrams", datagrams }, /* verified datagrams with a peer */
	{ "anew", anew },	    /* verified traffic over ever new QPs */
	{ "calls", calls },	    /* says which calls fail */
	{ "extended", extended },   /* the same of ibv_wr_*() and ibv_start_poll() */
	{ "renamed", renamed },	    /* works on one interface, and says so */
	{ 0 },
};

/* clang-format off */
static const struct argp_option options[] = {
	{ "timeout", 'T', "0..31", 0, "of the QPs (16: 268 ms)", 0 },
	{ "retries", 'r', "0..7", 0, "of the QPs (7)", 0 },
	{ "qpn",     'q', "NUMBER", 0, "take no other QP number", 0 },
	{ "pause",   'z', "MS", 0, "between two rounds (0)", 0 },
	{ "time",    't', "SECONDS", 0, "how long at most (60)", 0 },
	{ 0 },
};
/* clang-format on */

static void take(int key, const char *arg)
{
	switch (key) {
	case 'T':
		opt.timeout = atoi(arg);
		break;
	case 'r':
		opt.retries = atoi(arg);
		break;
	case 'q':
		opt.qpn = (uint32_t)strtoul(arg, NULL, 0);
		break;
	case 'z':
		opt.pause = (unsigned)atoi(arg);
		break;
	case 't':
		opt.seconds = atof(arg);
		break;
	}
}

int main(int argc, char **argv)
{
	return command_main(argc, argv, commands, options, take, 120);
}

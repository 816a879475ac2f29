/* SPDX-License-Identifier: BSD-2-Clause */
/* local.c - programs of several processes on one host. */
#include <malloc.h>
#include <stdlib.h>

#include "command.h"
#include "crew.h"

struct options opt = { .port = "18600", .gid = 1, .timeout = 16, .retries = 7 };
struct crew_options lopt = { .count = 100, .first = 1, .step = 1, .seed = 1 };

static const struct command commands[] = {
	{ "stopped", stopped },		  /* a target that is stopped; -m */
	{ "early", stopped_early },	  /* ... before the two have agreed */
	{ "deaths", deaths },		  /* a peer is killed or stopped; -m */
	{ "crowd", crowd },		  /* -n processes, each talks to all */
	{ "qps", many_qps },		  /* -n QPs between two processes */
	{ "churn", churn },		  /* -n QPs come and go */
	{ "clients", clients },		  /* -n processes come and go */
	{ "mixed", mixed },		  /* one CQ, SRQ, counter for both ways */
	{ "unmapped", unmapped },	  /* registered memory goes, elsewhere; -m */
	{ "protected", protect },	  /* ... or may not be written to; -m */
	{ "deregistered", deregistered }, /* -n times, in mid-traffic */
	{ "victim", victim },		  /* honest traffic with a hostile peer */
	{ "hostile", hostile },		  /* that peer, -n times */
	{ "forked", forked },		  /* forks, closes, becomes another; -m */
	{ "executed", executed },	  /* what it becomes */
	{ "held", held },		  /* stopped in the middle of a WRITE; -m */
	{ "midcopy", midcopy },		  /* ... of memory that is mapped; -m */
	{ "noticed", noticed },		  /* what private memory takes otherwise; -m */
	{ "before", beforehand },	  /* what it did before its first device; -m */
	{ "beside", beside },	     /* -n threads, which store to memory meanwhile */
	{ "storm", storm },	     /* -n rounds of registering beside -k threads; -m */
	{ "loads", loads },	     /* a library, while others go on */
	{ "model", model },	     /* -n random steps with memory; -s */
	{ "late", afterwards },	     /* ... and only after it has registered memory; -m */
	{ "truncated", truncated },  /* files of regions, in mid-traffic; -n rounds */
	{ "regions", many_regions }, /* -n regions of one process */
	{ "dropped", dropped },	     /* root, that becomes another user; -m */
	{ 0 },
};

/* clang-format off */
static const struct argp_option options[] = {
	{ "shared",  'S', 0, 0, "registered memory is a file's, shared", 0 },
	{ "count",   'n', "N", 0, "how many (100)", 0 },
	{ "first",   'f', "N", 0, "the first point (1)", 0 },
	{ "step",    'k', "N", 0, "... and from there to the next (1)", 0 },
	{ "seed",    's', "N", 0, "of the random choices (1)", 0 },
	{ "threads", 't', "N", 0, "how many store to memory meanwhile (0)", 0 },
	{ 0 },
};
/* clang-format on */

static void take(int key, const char *arg)
{
	switch (key) {
	case 'S':
		opt.shared = true;
		break;
	case 'n':
		lopt.count = (unsigned)atoi(arg);
		break;
	case 'f':
		lopt.first = (unsigned)atoi(arg);
		break;
	case 'k':
		lopt.step = (unsigned)atoi(arg);
		break;
	case 't':
		lopt.threads = (unsigned)atoi(arg);
		break;
	case 's':
		lopt.seed = strtoull(arg, NULL, 0);
		break;
	}
}

int main(int argc, char **argv)
{
	/* The engine thread would get a malloc arena of its own at its first allocation,
	 * whenever that is; the test counts mappings. */
	mallopt(M_ARENA_MAX, 1);
	return command_main(argc, argv, commands, options, take, 1200);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* options.c - the command line. */
#include <argp.h>
#include <stdlib.h>

#include "stress.h"

struct options opt = {
	.port = "18600",
	.gid = -1,
	.qps = 4,
	.mtu = 0,
	.seconds = 10,
	.seed = 1,
	.max = 16 << 20,
	.max_send = 256 << 10,
};

/* clang-format off */
static const struct argp_option options[] = {
	{ "device",   'd', "NAME", 0, "device (default: the first)", 0 },
	{ "gid",      'g', "INDEX", 0, "GID index (default 1)", 0 },
	{ "port",     'p', "PORT", 0, "TCP port of the control connection (18600)", 0 },
	{ "qps",      'q', "N", 0, "queue pairs (4)", 0 },
	{ "time",     't', "SECONDS", 0, "how long (10)", 0 },
	{ "seed",     's', "N", 0, "of the random choices (1)", 0 },
	{ "max",      'm', "BYTES", 0, "longest WRITE and READ (16 MiB)", 0 },
	{ "max-send", 'M', "BYTES", 0, "longest SEND (256 KiB)", 0 },
	{ "mtu",      'u', "1..5", 0, "path MTU as enum ibv_mtu (the port's)", 0 },
	{ "huge",     'H', "BYTES", 0, "first a WRITE and a READ of so many bytes", 0 },
	{ 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'd':
		opt.dev = arg;
		break;
	case 'g':
		opt.gid = atoi(arg);
		break;
	case 'p':
		opt.port = arg;
		break;
	case 'q':
		opt.qps = atoi(arg);
		break;
	case 't':
		opt.seconds = atof(arg);
		break;
	case 's':
		opt.seed = strtoull(arg, NULL, 0);
		break;
	case 'm':
		opt.max = strtoull(arg, NULL, 0);
		break;
	case 'M':
		opt.max_send = strtoull(arg, NULL, 0);
		break;
	case 'u':
		opt.mtu = atoi(arg);
		break;
	case 'H':
		opt.huge = strtoull(arg, NULL, 0);
		break;
	case ARGP_KEY_ARG:
		opt.host = arg;
		break;
	case ARGP_KEY_END:
		if (opt.qps < 1 || opt.qps > QPS_MAX || opt.max < 64 || opt.max_send < 64)
			argp_error(state, "--qps is 1 to %d, lengths at least 64",
				   QPS_MAX);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

void read_options(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[SERVER]",
		.doc = "Random verbs traffic between two processes, all of it verified.",
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
}

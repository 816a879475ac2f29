/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_cmd.c - urnic sysfs: writes the devices as files like those of /sys, for programs
 * that no preloaded library can serve. */
#include "sysfs_cmd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver/nic.h"
#include "options.h"
#include "sys/conf.h"
#include "urnic.h"

static const char who[] = "urnic sysfs";

static const struct argp_option options[] = {
	{ "follow", 'f', "SECONDS", OPTION_ARG_OPTIONAL,
	  "write the files anew every so many seconds (default: 1), until interrupted",
	  0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct sysfs_job *job = state->input;
	char *end;

	switch (opt) {
	case 'f':
		job->every = arg ? strtol(arg, &end, 10) : 1;
		if ((arg && *end) || job->every < 1 || job->every > 86400)
			argp_error(state, "expected a number of seconds, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (job->dir)
			argp_error(state, "one directory is enough: '%s'", arg);
		job->dir = arg;
		return 0;
	case ARGP_KEY_END:
		if (!job->dir || !*job->dir)
			argp_error(state, "no directory is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp sysfs_argp = { .options = options, .parser = parse_option };

void sysfs_tell(const char *name, const char *dir, const char *where, int rc)
{
	if (rc == -ENOTEMPTY)
		fprintf(stderr,
			"%s: %s has files that are not urnic's; name an empty directory, or "
			"one that does not exist\n",
			name, dir);
	else if (rc == -EPERM && !strcmp(where, dir))
		fprintf(stderr,
			"%s: %s is another user's, or everybody may write there; name a "
			"directory of your own, or one that does not exist\n",
			name, dir);
	else
		fprintf(stderr,
			"%s: %s cannot be written: %s; name a directory in a folder "
			"that is there and that you may write\n",
			name, *where ? where : dir, strerror(-rc));
}

int sysfs_follow(const struct sysfs_job *job, int (*render)(void *arg), void *arg)
{
	const struct timespec pause = { .tv_sec = job->every };
	sigset_t stop;
	int rc;

	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	if (job->every)
		sigprocmask(SIG_BLOCK, &stop, NULL);
	do {
		rc = render(arg);
	} while (job->every && !rc && sigtimedwait(&stop, NULL, &pause) < 0);
	return rc;
}

static int render_tree(void *arg)
{
	const struct sysfs_job *job = arg;
	char where[PATH_MAX];
	int rc = sysfs_write(job->dir, SYSFS_TREE | SYSFS_COUNTERS, where);

	if (rc)
		sysfs_tell(who, job->dir, where, rc);
	return rc ? 1 : 0;
}

/* Has the library say why there is no device, which sysfs_write() does not. */
static void tell_missing(void)
{
	struct device **dev;
	int n;

	if (nic_devices(&dev, &n) == 0)
		free(dev);
}

int cmd_sysfs(int argc, char **argv)
{
	static const struct argp_child children[] = { { &sysfs_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.children = children,
		.args_doc = "DIR",
		.doc = "Write into DIR what Linux would show of the devices in /sys: "
		       "DIR/class/infiniband and what belongs to it.  Programs under urnic "
		       "run see these files in /sys itself; DIR is for those that use no C "
		       "library (Go), run as another user, or in another container.\vTell "
		       "DIR to a program that can be told where sysfs is: "
		       "prometheus-node-exporter --path.sysfs=DIR.",
	};
	struct sysfs_job job = { 0 };

	/* argp gives a child of a parser without options of its own the parser's input */
	options_parse(&argp, argc, argv, 0, &job);
	if (!conf_get())
		return EXIT_USAGE;
	tell_missing();
	return sysfs_follow(&job, render_tree, &job);
}

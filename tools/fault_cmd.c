/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_cmd.c - urnic fault: faults of the packets of running processes. */
#include <argp.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "driver/upset.h"
#include "fault_keys.h"
#include "net/fault_spec.h"
#include "options.h"
#include "sys/near.h"
#include "urnic.h"

struct options {
	bool all;
	pid_t pid;
	char what[FAULT_TEXT_MAX + 8]; /* as driver/faults.h takes it */
};

static pid_t pid_of(struct argp_state *state, const char *arg)
{
	const pid_t pid = ask_pid_of(arg);

	if (!pid)
		argp_error(state, "'%s' is neither a process id nor all", arg);
	return pid;
}

static const char *other_word(unsigned i)
{
	static const char *const words[] = { "show", "clear", NULL };

	return words[i];
}

/* What is wrong is said here already, without disturbing a process. */
static void take_what(struct argp_state *state, struct options *o, const char *arg)
{
	struct fault_spec *spec = malloc(sizeof(*spec));
	char why[768], wire[sizeof(o->what)];
	struct upset_spec verbs;
	int rc = -ENOMEM;

	if (strcmp(arg, "show") == 0 || strcmp(arg, "clear") == 0) {
		snprintf(o->what, sizeof(o->what), "%s", arg);
		free(spec);
		return;
	}
	snprintf(why, sizeof(why), "out of memory");
	strcpy(o->what, "set ");
	if (spec)
		rc = fault_rewrite(o->what + 4, sizeof(o->what) - 4, arg, FAULT_FILES_IN,
				   why, sizeof(why));
	if (!rc)
		rc = upset_parse(&verbs, wire, o->what + 4, why, sizeof(why));
	if (!rc)
		rc = fault_parse_closed(spec, wire, why, sizeof(why));
	if (!rc && !fault_is_any(spec) && !verbs.n) {
		snprintf(why, sizeof(why), "'%.200s' has no fault", arg);
		rc = -EINVAL;
	}
	free(spec);
	if (rc && near_find(arg, other_word))
		argp_error(state, "there is no fault '%s'; did you mean %s?", arg,
			   near_find(arg, other_word));
	if (rc)
		argp_error(state, "%s", why);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num == 0) {
			o->all = strcmp(arg, "all") == 0;
			o->pid = o->all ? 0 : pid_of(state, arg);
		} else if (state->arg_num == 1) {
			take_what(state, o, arg);
		} else {
			argp_error(state, "'%s' is one too many", arg);
		}
		return 0;
	case ARGP_KEY_END:
		if (state->arg_num < 2)
			argp_error(state, state->arg_num ? "which faults?"
							 : "no process is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static struct ask_question question(const struct options *o)
{
	return (struct ask_question){ .kind = ASK_FAULT,
				      .what = o->what,
				      .size = strlen(o->what) };
}

static int ask_one(struct ask *a, const struct options *o)
{
	struct ask_question q = question(o);
	int rc = ask_pid(a, o->pid, &q);

	if (!rc && q.bytes) {
		ask_as_text(&q);
		fputs(q.bytes, stdout);
	}
	ask_close_question(&q);
	return rc;
}

/* Prints each line with the process in front. */
static void print_of(pid_t pid, char *text)
{
	for (char *line; (line = strsep(&text, "\n"));)
		if (*line)
			printf("process %d: %s\n", (int)pid, line);
}

/* Says why a process was not asked. */
static void say_left_out(const struct ask_process *p)
{
	if (p->pid)
		fprintf(stderr,
			"urnic fault: process %d is not reached: it opened its device as "
			"user %u, and answers that user only\n",
			(int)p->pid, (unsigned)p->uid);
	else
		fprintf(stderr,
			"urnic fault: a process of user %u in another pid namespace is "
			"not reached, as it answers its own user there only\n",
			(unsigned)p->uid);
}

/* Asks those that are ours, and says which are not.  Returns how many there are, and sets
 * *rc if one failed. */
static size_t ask_ours(struct ask *a, const struct options *o,
		       const struct ask_process *list, size_t n, struct ask_question *q,
		       int *rc)
{
	size_t ours = 0;

	for (size_t i = 0; i < n; i++) {
		if (!list[i].ours) {
			say_left_out(&list[i]);
			continue;
		}
		q[ours] = question(o);
		q[ours++].to = list[i];
	}
	ask_all(a, q, ours, ASK_PATIENCE_MS);
	for (size_t i = 0; i < ours; i++) {
		/* One that ended meanwhile is no failure. */
		if (q[i].error == -ESRCH)
			continue;
		*rc |= ask_report(a, &q[i]);
		if (!q[i].error && q[i].bytes) {
			ask_as_text(&q[i]);
			print_of(q[i].to.pid, q[i].bytes);
		}
		ask_close_question(&q[i]);
	}
	return ours;
}

static int ask_each(struct ask *a, const struct options *o)
{
	struct ask_process *list;
	size_t n = ask_list(a, &list);
	struct ask_question *q = calloc(n + 1, sizeof(*q));
	int rc = q ? 0 : 1;

	if (q && !ask_ours(a, o, list, n, q, &rc)) {
		fprintf(stderr, "urnic fault: no process of this user has a device open "
				"in this network namespace\n");
		rc = 1;
	}
	free(q);
	free(list);
	return rc;
}

static char *add_help(int key, const char *text, void *input)
{
	(void)input;
	return key == ARGP_KEY_HELP_EXTRA ? fault_keys_text() : (char *)(uintptr_t)text;
}

int cmd_fault(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_option,
		.args_doc = "PID|all SPEC|show|clear",
		.doc = "Inject faults into the packets of a running process, or of all of"
		       " this user; show those that act; or end them.\vSPEC replaces the"
		       " faults that acted before. Queue pairs that use shared memory"
		       " are hit when they are connected anew; the answer counts them."
		       " Only the process's own user can ask.",
		.help_filter = add_help,
	};
	static struct options o;
	struct ask *a;
	int rc;

	options_parse(&argp, argc, argv, 0, &o);
	a = ask_open("urnic fault");
	rc = !a ? 1 : o.all ? ask_each(a, &o) : ask_one(a, &o);
	ask_close(a);
	return rc;
}

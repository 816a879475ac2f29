/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.c - urnic dump: prints the objects of a process that uses urnic. */
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "host/host.h"
#include "host/name.h"
#include "nic/dump.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/user.h"
#include "urnic.h"

#define PATIENCE_NS 5000000000ull

struct asker {
	struct host *host;
	uint16_t slot; /* of the process that was asked */
	bool answered;
	int error;
	char *text;
	size_t len;
};

static void on_datagram(void *arg, const struct dgram *d)
{
	(void)arg, (void)d;
}

static void on_gone(void *arg, uint16_t slot)
{
	struct asker *a = arg;

	if (slot != a->slot || a->answered)
		return;
	a->answered = true;
	a->error = -ESRCH;
}

static void on_said(void *arg, struct host_said *s)
{
	struct asker *a = arg;
	struct dump_msg m;

	if (s->slot != a->slot || a->answered || !dump_is(s, &m) || m.what != DUMP_TEXT)
		return;
	a->answered = true;
	a->text = dump_read(s->fd[0], &a->len);
	a->error = m.error ? m.error : a->text ? 0 : -EPROTO;
}

/* Does process pid own the slot?  Opens a connection only to ask.  Whether a slot of the
 * reserve has an owner is known only from the kernel's list of sockets. */
static bool is_of(struct host *host, uint16_t slot, pid_t pid, uid_t *uid)
{
	const uint64_t end = clock_ns() + PATIENCE_NS / 5;
	pid_t its = 0;
	int fd, rc;

	if (slot <= SLOT_NAMED) {
		fd = name_connect(slot);
		if (fd < 0)
			return false;
		rc = user_of_peer(fd, uid, &its);
		closer_hang_up(fd);
		return rc == 0 && its == pid;
	}
	if (host_is_free(host, slot))
		return false;
	while ((rc = host_cred(host, slot, uid, &its)) == -EAGAIN && clock_ns() < end) {
		poll(&(struct pollfd){ .fd = host_fd(host), .events = POLLIN }, 1, 1);
		(void)host_run(host);
	}
	return rc == 0 && its == pid;
}

/* The slot of process pid, or 0; *uid is the process's user. */
static uint16_t slot_of(struct host *host, pid_t pid, uid_t *uid)
{
	for (uint16_t slot = SLOT_FIRST; slot <= SLOT_LAST; slot++)
		if (slot != host_slot(host) && is_of(host, slot, pid, uid))
			return slot;
	return 0;
}

static void await(struct asker *a)
{
	struct pollfd p = { .fd = host_fd(a->host), .events = POLLIN };
	uint64_t end = clock_ns() + PATIENCE_NS;
	struct dump_msg m;
	int rc = -EAGAIN;

	dump_put(&m, DUMP_ASK, 0);
	while (!a->answered && clock_ns() < end) {
		if (rc == -EAGAIN)
			rc = host_say(a->host, a->slot, &m, sizeof(m), NULL, 0);
		if (rc && rc != -EAGAIN) {
			a->answered = true;
			a->error = rc;
			return;
		}
		poll(&p, 1, rc ? 1 : 100);
		(void)host_run(a->host);
	}
}

static bool is_ours(uid_t uid, pid_t pid)
{
	struct user self;

	user_open(&self);
	return user_is_ours(&self, uid, pid);
}

static int ask(struct asker *a, pid_t pid)
{
	uid_t uid;

	a->slot = slot_of(a->host, pid, &uid);
	if (!a->slot) {
		fprintf(stderr,
			"urnic dump: process %d has no device open in this network "
			"namespace (ip netns exec, nsenter -n), or there is no such "
			"process\n",
			(int)pid);
		return 1;
	}
	if (!is_ours(uid, pid)) {
		fprintf(stderr,
			"urnic dump: process %d opened its device as user %u, and "
			"answers that user only; urnic dump runs as user %u\n",
			(int)pid, (unsigned)uid, (unsigned)geteuid());
		return 1;
	}
	await(a);
	if (!a->answered)
		fprintf(stderr,
			"urnic dump: process %d does not answer: is it stopped?\n",
			(int)pid);
	else if (a->error)
		fprintf(stderr, "urnic dump: process %d: %s\n", (int)pid,
			strerror(-a->error));
	else
		fwrite(a->text, 1, a->len, stdout);
	return !a->answered || a->error;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	pid_t *pid = state->input;
	char *end;
	long n;

	switch (key) {
	case ARGP_KEY_ARG:
		n = strtol(arg, &end, 10);
		if (*pid)
			argp_error(state, "one process at a time: '%s' is one too many",
				   arg);
		if (end == arg || *end || n <= 0 || n > INT32_MAX)
			argp_error(state, "'%s' is no process id", arg);
		*pid = (pid_t)n;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no process is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_dump(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse,
		.args_doc = "PID",
		.doc = "Show the protection domains, regions, windows, address handles,"
		       " queues, queue pairs and connections of a running process, which"
		       " goes on meanwhile.\vOnly its own user can ask.",
	};
	static const struct host_ops ops = { on_datagram, on_gone, on_said, NULL };
	struct asker a = { .slot = 0 };
	pid_t pid = 0;
	int rc;

	argp_parse(&argp, argc, argv, 0, NULL, &pid);
	rc = host_open(&a.host, &ops, &a);
	if (rc) {
		fprintf(stderr, "urnic dump: %s\n", strerror(-rc));
		return 1;
	}
	rc = ask(&a, pid);
	host_close(a.host);
	free(a.text);
	return rc;
}

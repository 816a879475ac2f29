/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.c - urnic dump: prints the objects of a process that uses urnic, as text or as
 * JSON. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver/dump.h"
#include "host/host.h"
#include "host/name.h"
#include "show.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/mark.h"
#include "sys/user.h"
#include "urnic.h"

#define PATIENCE_NS 5000000000ull

struct asker {
	struct host *host;
	uint16_t slot; /* of the process that was asked */
	bool answered;
	int error;
	char *text;
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
	size_t len;

	if (s->slot != a->slot || a->answered || s->type != HOST_DUMP_TEXT)
		return;
	a->answered = true;
	a->text = dump_read(s, &a->error, &len);
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

static void await_answer(struct asker *a)
{
	struct pollfd p = { .fd = host_fd(a->host), .events = POLLIN };
	uint64_t end = clock_ns() + PATIENCE_NS;
	int rc = -EAGAIN;

	while (!a->answered && clock_ns() < end) {
		if (rc == -EAGAIN)
			rc = host_say(a->host, a->slot, HOST_DUMP_ASK, NULL, 0, NULL, 0);
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

/* --- what it answers -------------------------------------------------------- */

static void print_dump(char *text)
{
	fwrite(text, 1, mark_drop(text), stdout);
}

/* A number if it is decimal; keys and addresses are strings. */
static json_t *json_value(const char *text)
{
	size_t n = strspn(text, "0123456789");

	if (!text[n] && n && n < 19)
		return json_integer(strtoll(text, NULL, 10));
	return json_string(text);
}

/* Adds an object to the array of its kind. */
static json_t *json_object_of(json_t *all, const char *kind)
{
	json_t *array = json_object_get(all, kind), *object = json_object();

	if (!json_is_array(array)) {
		array = json_array();
		json_object_set_new(all, kind, array);
	}
	json_array_append_new(array, object);
	return object;
}

/* The first word of a line is an object's kind; lines that begin with a space go on with
 * the object.  The first line has the slot. */
static void print_json(char *text)
{
	json_t *all = json_object(), *object = NULL;
	const char *name, *value;

	for (char *line; (line = strsep(&text, "\n"));) {
		char kind[16];

		snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(line, " :"), line);
		if (*kind)
			object = object ? json_object_of(all, kind) : all;
		while (mark_next(&line, &name, &value))
			json_object_set_new(object, name, json_value(value));
	}
	show_json(all);
}

static int ask_process(struct asker *a, pid_t pid, bool json)
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
	await_answer(a);
	if (!a->answered)
		fprintf(stderr,
			"urnic dump: process %d does not answer: is it stopped?\n",
			(int)pid);
	else if (a->error)
		fprintf(stderr, "urnic dump: process %d: %s\n", (int)pid,
			strerror(-a->error));
	else
		(json ? print_json : print_dump)(a->text);
	return !a->answered || a->error;
}

struct options {
	pid_t pid;
	bool json;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;
	long n;

	switch (key) {
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		n = strtol(arg, &end, 10);
		if (o->pid)
			argp_error(state, "one process at a time: '%s' is one too many",
				   arg);
		if (end == arg || *end || n <= 0 || n > INT32_MAX)
			argp_error(state, "'%s' is no process id", arg);
		o->pid = (pid_t)n;
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
		.options = show_options,
		.parser = parse_option,
		.args_doc = "PID",
		.doc = "Show the protection domains, regions, windows, address handles,"
		       " queues, queue pairs and connections of a running process, which"
		       " goes on meanwhile.\vOnly its own user can ask.",
	};
	static const struct host_ops ops = { on_datagram, on_gone, on_said };
	struct asker a = { .slot = 0 };
	struct options o = { .pid = 0 };
	int rc;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	rc = host_open(&a.host, &ops, &a);
	if (rc) {
		fprintf(stderr, "urnic dump: %s\n", strerror(-rc));
		return 1;
	}
	rc = ask_process(&a, o.pid, o.json);
	host_close(a.host);
	free(a.text);
	return rc;
}

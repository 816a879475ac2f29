/* SPDX-License-Identifier: BSD-2-Clause */
/* ask.c - see ask.h. */
#include "ask.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/host.h"
#include "host/name.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/user.h"
#include "urnic.h"

enum { MS = 1000000, RESERVE_MS = 1000 };

struct ask {
	struct host *host;
	const char *command;
	struct user user;
	struct ask_question *open; /* the questions of ask_all() */
	size_t n;
	uint32_t serial; /* of the last question */
};

pid_t ask_pid_of(const char *word)
{
	char *end;
	long n = strtol(word, &end, 10);

	return end == word || *end || n <= 0 || n > INT32_MAX ? 0 : (pid_t)n;
}

/* The name that the kernel shows; a process may give itself any. */
void ask_name(pid_t pid, char name[16])
{
	char path[64];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	n = f ? fread(name, 1, 15, f) : 0;
	if (f)
		fclose(f);
	name[n] = '\0';
	name[strcspn(name, "\n")] = '\0';
	for (char *c = name; *c; c++)
		if (!isprint((unsigned char)*c) || (unsigned char)*c > 126)
			*c = '?';
}

/* --- what comes in ------------------------------------------------------------ */

static void on_datagram(void *arg, const struct dgram *d)
{
	(void)arg, (void)d;
}

static void close_with(struct ask_question *q, int error)
{
	q->answered = true;
	q->error = error;
}

static void on_gone(void *arg, uint16_t slot)
{
	struct ask *a = arg;

	for (size_t i = 0; i < a->n; i++)
		if (a->open[i].to.slot == slot && !a->open[i].answered)
			close_with(&a->open[i], -ESRCH);
}

/* Takes the bytes of an answer. Returns 0 or -errno. */
static int take_bytes(struct ask_question *q, const struct host_said *s)
{
	const size_t head = sizeof(struct host_answer);

	q->len = s->len - head;
	q->bytes = q->len ? malloc(q->len + 1) : NULL;
	if (!q->len)
		return 0;
	if (!q->bytes)
		return -ENOMEM;
	q->bytes[q->len] = '\0';
	return msg_read(s->msg, head, q->bytes, q->len);
}

static void on_said(void *arg, struct host_said *s)
{
	struct ask *a = arg;
	struct host_answer head;
	int rc;

	if (s->type != HOST_ANSWER || msg_get_answer(s->msg, &head))
		return;
	for (size_t i = 0; i < a->n; i++) {
		struct ask_question *q = &a->open[i];

		if (q->to.slot != s->slot || q->serial != head.serial || q->answered)
			continue;
		if (head.error == -EBUSY) { /* for a moment */
			q->said = false;
			continue;
		}
		rc = take_bytes(q, s);
		if (rc)
			ask_close_question(q);
		else if (head.error)
			ask_as_text(q);
		close_with(q, rc ? rc : head.error);
	}
}

/* --- opening ------------------------------------------------------------------ */

struct ask *ask_open(const char *command)
{
	static const struct host_ops ops = { on_datagram, on_gone, on_said };
	struct ask *a = calloc(1, sizeof(*a));
	int rc = a ? host_open(&a->host, &ops, a) : -ENOMEM;

	if (rc) {
		fprintf(stderr, "%s: %s\n", command, strerror(-rc));
		free(a);
		return NULL;
	}
	a->command = command;
	user_open(&a->user);
	return a;
}

void ask_close(struct ask *a)
{
	if (!a)
		return;
	host_close(a->host);
	free(a);
}

/* --- finding processes --------------------------------------------------------- */

/* The process of a slot that has a name. Opens a connection only to ask the kernel. */
static bool named_owner(struct ask_process *p)
{
	int fd = name_connect(p->slot), rc;

	if (fd < 0)
		return false;
	rc = user_of_peer(fd, &p->uid, &p->pid);
	closer_hang_up(fd);
	return rc == 0;
}

/* The process of a slot of the reserve. Whether there is one is known only from the
 * kernel's list of sockets, which is read now and then. */
static bool reserve_owner(struct ask *a, struct ask_process *p)
{
	const uint64_t end = clock_ns() + (uint64_t)RESERVE_MS * MS;
	int rc;

	if (host_is_free(a->host, p->slot))
		return false;
	while ((rc = host_cred(a->host, p->slot, &p->uid, &p->pid)) == -EAGAIN &&
	       clock_ns() < end) {
		poll(&(struct pollfd){ .fd = host_fd(a->host), .events = POLLIN }, 1, 1);
		(void)host_run(a->host);
	}
	return rc == 0;
}

/* Is it this program, which may have been replaced since it was started? */
static bool is_program(const char *exe)
{
	const char *name = strrchr(exe, '/');

	return name && (!strcmp(name, "/urnic") || !strcmp(name, "/urnic (deleted)"));
}

/* Is process pid a command of urnic's, such as this one? They have slots, too, but
 * nothing to be asked for. Of another user's process only the name can be read. */
static bool is_command(pid_t pid)
{
	char path[64], exe[4096], name[16];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n >= 0) {
		exe[n] = '\0';
		return is_program(exe);
	}
	ask_name(pid, name);
	return !strcmp(name, "urnic") || !strcmp(name, EXTCAP_NAME);
}

static bool has_owner(struct ask *a, uint16_t slot, struct ask_process *p)
{
	*p = (struct ask_process){ .slot = slot };
	if (slot == host_slot(a->host))
		return false;
	if (!(slot <= SLOT_NAMED ? named_owner(p) : reserve_owner(a, p)))
		return false;
	if (p->pid && is_command(p->pid))
		return false;
	p->ours = user_is_ours(&a->user, p->uid, p->pid);
	return true;
}

size_t ask_list(struct ask *a, struct ask_process **list)
{
	struct ask_process *all = calloc(SLOT_LAST, sizeof(*all));
	size_t n = 0;

	for (uint16_t slot = SLOT_FIRST; all && slot <= SLOT_LAST; slot++)
		n += has_owner(a, slot, &all[n]);
	*list = all;
	return n;
}

/* Sets q->to. Returns false if no process pid has a device open. */
static bool find_process(struct ask *a, pid_t pid, struct ask_process *p)
{
	for (uint16_t slot = SLOT_FIRST; slot <= SLOT_LAST; slot++)
		if (has_owner(a, slot, p) && p->pid == pid)
			return true;
	return false;
}

/* --- asking -------------------------------------------------------------------- */

static void say_question(struct ask *a, struct ask_question *q)
{
	struct host_ask head = { .kind = q->kind, .serial = q->serial };
	const struct iovec part[2] = {
		{ &head, sizeof(head) },
		{ (void *)(uintptr_t)q->what, q->size },
	};
	int rc = host_say(a->host, q->to.slot, HOST_ASK, part, 2, &q->fd, q->with_fd);

	q->said = rc == 0;
	if (rc && rc != -EAGAIN)
		close_with(q, rc);
}

static void begin_question(struct ask *a, struct ask_question *q, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		q[i].serial = ++a->serial;
		q[i].said = q[i].answered = false;
		q[i].error = -ETIMEDOUT;
		q[i].bytes = NULL;
		q[i].len = 0;
		if (q[i].size > HOST_ASK_MAX)
			close_with(&q[i], -EMSGSIZE);
	}
	a->open = q;
	a->n = n;
}

/* Says what could not be said yet. Returns how many ms to wait at most; 0: all have been
 * answered. */
static int step(struct ask *a)
{
	int wait = 0;

	for (size_t i = 0; i < a->n; i++) {
		struct ask_question *q = &a->open[i];

		if (!q->answered && !q->said)
			say_question(a, q);
		if (!q->answered)
			wait = !q->said || wait == 1 ? 1 : 100;
	}
	return wait;
}

void ask_all(struct ask *a, struct ask_question *q, size_t n, unsigned patience_ms)
{
	const uint64_t end = clock_ns() + (uint64_t)patience_ms * MS;
	struct pollfd p = { .fd = host_fd(a->host), .events = POLLIN };

	begin_question(a, q, n);
	for (int wait; (wait = step(a)) != 0;) {
		const uint64_t now = clock_ns();
		const uint64_t left = now < end ? (end - now) / MS + 1 : 0;

		if (!left)
			break;
		poll(&p, 1, left < (uint64_t)wait ? (int)left : wait);
		(void)host_run(a->host);
	}
	a->open = NULL;
	a->n = 0;
}

int ask_locate(struct ask *a, pid_t pid, struct ask_process *out)
{
	if (!find_process(a, pid, out)) {
		fprintf(stderr,
			"%s: process %d has no device open in this network namespace "
			"(ip netns exec, nsenter -n), or there is no such process\n",
			a->command, (int)pid);
		return 1;
	}
	if (!out->ours) {
		fprintf(stderr,
			"%s: process %d opened its device as user %u, and answers that "
			"user only; %s runs as user %u\n",
			a->command, (int)pid, (unsigned)out->uid, a->command,
			(unsigned)geteuid());
		return 1;
	}
	return 0;
}

int ask_pid(struct ask *a, pid_t pid, struct ask_question *q)
{
	if (ask_locate(a, pid, &q->to))
		return 1;
	ask_all(a, q, 1, ASK_PATIENCE_MS);
	return ask_report(a, q);
}

/* --- the answer ----------------------------------------------------------------- */

int ask_report(const struct ask *a, const struct ask_question *q)
{
	const int pid = (int)q->to.pid;

	if (!q->error)
		return 0;
	if (q->error == -ETIMEDOUT)
		fprintf(stderr, "%s: process %d does not answer: is it stopped?\n",
			a->command, pid);
	else if (q->error == -ESRCH)
		fprintf(stderr, "%s: process %d has %s\n", a->command, pid,
			kill(q->to.pid, 0) && errno == ESRCH
				? "ended"
				: "closed its device, or runs another release of urnic");
	else if (q->error == -EOPNOTSUPP)
		fprintf(stderr,
			"%s: process %d runs another release of urnic, which does not "
			"know the question\n",
			a->command, pid);
	else
		fprintf(stderr, "%s: process %d: %s\n", a->command, pid,
			q->bytes ? q->bytes : strerror(-q->error));
	return 1;
}

void ask_as_text(struct ask_question *q)
{
	for (size_t i = 0; i < q->len; i++)
		if (q->bytes[i] != '\n' && (q->bytes[i] < ' ' || q->bytes[i] > '~'))
			q->bytes[i] = '?';
}

void ask_close_question(struct ask_question *q)
{
	free(q->bytes);
	q->bytes = NULL;
	q->len = 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* extcap_live.c - takes packets of running processes: see extcap.h.
 *
 * Each process gets one end of a stream socket, and writes its packets there as long as
 * they find room (net/capture.h).  It never waits for this command, which may wait for
 * Wireshark. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ask.h"
#include "extcap.h"
#include "fabric_cmd.h"
#include "net/pcapng.h"
#include "sys/clock.h"

enum { SOURCES = 256, LOOK_MS = 1000, END_MS = 500, MS = 1000000 };

struct source {
	struct ask_process of;
	int fd; /* -1: it has ended */
	struct feed *feed;
};

struct live {
	struct ask *a;
	FILE *to;
	int stop; /* a signal has come when it is readable */
	bool all, said_full;
	struct source source[SOURCES];
	unsigned n, open;
	uint32_t interfaces;
};

/* --- processes ---------------------------------------------------------------------- */

static struct ask_question question(const struct ask_process *p, const char *word, int fd)
{
	return (struct ask_question){ .to = *p,
				      .kind = ASK_CAPTURE,
				      .what = word,
				      .size = strlen(word),
				      .with_fd = fd >= 0,
				      .fd = fd };
}

/* Is it one from which packets come, or have come? */
static bool is_known(const struct live *l, const struct ask_process *p)
{
	for (unsigned i = 0; i < l->n; i++)
		if (l->source[i].of.slot == p->slot && l->source[i].of.pid == p->pid)
			return true;
	return false;
}

/* Makes what is needed to ask a process for its packets.  Returns 0; or 1, and has said
 * why not. */
static int make_source(struct source *s, const struct ask_process *p,
		       struct ask_question *q)
{
	struct feed *feed = calloc(1, sizeof(*feed));
	int fd[2];

	if (!feed || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
		fprintf(stderr, EXTCAP_WHO ": %s\n", strerror(errno));
		free(feed);
		return 1;
	}
	*s = (struct source){ *p, fd[0], feed };
	*q = question(p, "begin", fd[1]);
	return 0;
}

/* Returns 0; or 1, and has said why no packets come. */
static int begin_source(struct live *l, struct source *s, struct ask_question *q)
{
	int rc = ask_report(l->a, q);

	close(q->fd);
	ask_close_question(q);
	l->open += !rc;
	if (!rc)
		return 0;
	close(s->fd);
	s->fd = -1;
	free(s->feed);
	s->feed = NULL;
	return rc;
}

/* Asks n processes, for which there is room, at once: one that is stopped delays no
 * other.  Returns 0; or 1 if one gives no packets, and has said why not. */
static int add_sources(struct live *l, const struct ask_process *p, unsigned n,
		       unsigned patience_ms)
{
	struct source *const first = &l->source[l->n];
	struct ask_question q[SOURCES];
	unsigned made = 0;
	int rc = 0;

	for (unsigned i = 0; i < n; i++)
		if (make_source(&first[made], &p[i], &q[made]))
			rc = 1;
		else
			made++;
	l->n += made;
	ask_all(l->a, q, made, patience_ms);
	for (unsigned i = 0; i < made; i++)
		rc |= begin_source(l, &first[i], &q[i]);
	return rc;
}

static bool is_listed(const struct ask_process *list, size_t n,
		      const struct ask_process *p)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].slot == p->slot && list[i].pid == p->pid)
			return true;
	return false;
}

/* Leaves room for others. */
static void forget_ended(struct live *l, const struct ask_process *list, size_t n)
{
	unsigned left = 0;

	for (unsigned i = 0; i < l->n; i++)
		if (l->source[i].fd >= 0 || is_listed(list, n, &l->source[i].of))
			l->source[left++] = l->source[i];
	l->n = left;
}

static void say_full(struct live *l)
{
	if (!l->said_full)
		fprintf(stderr,
			EXTCAP_WHO ": of more than %d processes at a time packets are "
				   "not shown\n",
			SOURCES);
	l->said_full = true;
}

/* Those that have begun since the last look.  One that cannot be asked is asked once. */
static void find_sources(struct live *l)
{
	struct ask_process *list;
	size_t n = ask_list(l->a, &list);
	unsigned begun = 0;

	forget_ended(l, list, n);
	for (size_t i = 0; i < n; i++) {
		if (!list[i].ours || !list[i].pid || is_known(l, &list[i]))
			continue;
		if (l->n + begun < SOURCES)
			list[begun++] = list[i]; /* begun <= i */
		else
			say_full(l);
	}
	(void)add_sources(l, list, begun, LOOK_MS);
	free(list);
}

/* Says what the capture lacks.  Wireshark shows what is on stderr as an error, so there
 * is nothing if it lacks nothing. */
static void say_result(const struct source *s)
{
	if (*s->feed->note)
		fprintf(stderr, EXTCAP_WHO ": process %d: %lu packets; %s\n",
			(int)s->of.pid, s->feed->packets, s->feed->note);
}

static void end_source(struct live *l, struct source *s)
{
	say_result(s);
	close(s->fd);
	s->fd = -1;
	free(s->feed);
	s->feed = NULL;
	l->open--;
}

/* --- packets ------------------------------------------------------------------------ */

static int write_head(struct live *l)
{
	uint8_t head[PCAPNG_SECTION_MAX];
	size_t len = pcapng_section(head);

	return fwrite(head, 1, len, l->to) == len && !fflush(l->to) ? 0 : -errno;
}

/* Takes what a process has sent.  Returns 0 or -errno of the file. */
static int take_packets(struct live *l, struct source *s)
{
	size_t room;
	uint8_t *at = feed_room(s->feed, &room);
	ssize_t n = recv(s->fd, at, room, MSG_DONTWAIT);
	int rc;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	rc = n > 0 ? feed_came(s->feed, (size_t)n, &l->interfaces, l->to) : 0;
	if (rc == -EPROTO)
		fprintf(stderr, EXTCAP_WHO ": process %d sends what is no capture\n",
			(int)s->of.pid);
	if (n <= 0 || rc == -EPROTO)
		end_source(l, s);
	return rc == -EPROTO ? 0 : rc;
}

static int take_all(struct live *l)
{
	int rc = 0;

	for (unsigned i = 0; i < l->n && !rc; i++)
		if (l->source[i].fd >= 0)
			rc = take_packets(l, &l->source[i]);
	return rc ? rc : fflush(l->to) ? -errno : 0;
}

enum { AT_STOP, AT_FILE, AT_SOURCES };

/* Waits for packets, the end of the reader, or a signal.  Returns true at the end. */
static bool await(struct live *l, int wait_ms)
{
	struct pollfd p[AT_SOURCES + SOURCES] = {
		[AT_STOP] = { .fd = l->stop, .events = POLLIN },
		[AT_FILE] = { .fd = fileno(l->to) }, /* POLLERR: nobody reads */
	};
	nfds_t n = AT_SOURCES;

	for (unsigned i = 0; i < l->n; i++)
		if (l->source[i].fd >= 0)
			p[n++] = (struct pollfd){ .fd = l->source[i].fd,
						  .events = POLLIN };
	if (poll(p, n, wait_ms) < 0)
		return errno != EINTR;
	return p[AT_STOP].revents || p[AT_FILE].revents & (POLLERR | POLLHUP);
}

/* Returns 0 or -errno of the file. */
static int go_on(struct live *l)
{
	uint64_t look_at = clock_ns() + (uint64_t)LOOK_MS * MS;
	int rc = 0;

	while (!rc && (l->open || l->all) && !await(l, l->all ? LOOK_MS : -1)) {
		rc = take_all(l);
		if (l->all && clock_ns() >= look_at) {
			find_sources(l);
			look_at = clock_ns() + (uint64_t)LOOK_MS * MS;
		}
	}
	return rc;
}

/* The processes send their last counts; what they have sent is still taken. */
static void end_all(struct live *l)
{
	struct ask_question q[SOURCES];
	size_t n = 0;

	for (unsigned i = 0; i < l->n; i++)
		if (l->source[i].fd >= 0)
			q[n++] = question(&l->source[i].of, "end", -1);
	ask_all(l->a, q, n, END_MS);
	for (size_t i = 0; i < n; i++)
		ask_close_question(&q[i]);
	for (unsigned i = 0; i < l->n; i++) {
		struct source *s = &l->source[i];

		/* The file may be gone, but the last counts are for people, too. */
		for (ssize_t was = -1; s->fd >= 0 && was != (ssize_t)s->feed->packets;) {
			was = (ssize_t)s->feed->packets;
			(void)take_packets(l, s);
		}
		if (s->fd >= 0)
			end_source(l, s);
	}
}

static int capture(struct live *l)
{
	int rc = write_head(l);

	if (!rc)
		rc = go_on(l);
	end_all(l);
	if (fclose(l->to) && !rc)
		rc = -errno;
	return rc == -EPIPE ? 0 : rc; /* the reader has left */
}

/* --- all of it ------------------------------------------------------------------------
 */

static int begin_live(struct live *l, const struct extcap_interface *of)
{
	struct ask_process p;

	l->all = of->kind == EXTCAP_ALL;
	if (l->all) {
		find_sources(l);
		return 0;
	}
	return ask_locate(l->a, of->pid, &p) || add_sources(l, &p, 1, ASK_PATIENCE_MS);
}

int extcap_live(const struct extcap_interface *of, const char *file)
{
	struct live *l = calloc(1, sizeof(*l));
	int rc = 1, failed;

	if (!l)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	l->to = fopen(file, "we"); /* waits for a reader, and a signal ends it */
	if (!l->to)
		fprintf(stderr, EXTCAP_WHO ": %s: %s\n", file, strerror(errno));
	l->stop = fabric_stop_signals();
	l->a = l->to ? ask_open(EXTCAP_WHO) : NULL;
	if (l->a && !begin_live(l, of)) {
		failed = capture(l);
		if (failed)
			fprintf(stderr, EXTCAP_WHO ": %s: %s\n", file, strerror(-failed));
		rc = failed ? 1 : 0;
	} else if (l->to) {
		fclose(l->to);
	}
	ask_close(l->a);
	free(l);
	return rc;
}

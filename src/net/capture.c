/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "sys/alloc.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/log.h"

enum {
	BUFFER = 1 << 20,
	PIECE = 1 << 16, /* bytes for which a reader is not left waiting */
	PATH_LEN = 512,
	FLUSH_NS = 100000000,
	FULL_NS = 1000000, /* a reader that had no room is not tried again before */
	TELL_NS = 1000000000,
};

/* The open descriptors. After a fork the child clears them, so that it writes nothing. */
static struct opened {
	_Atomic int fd;	 /* descriptor + 1; 0: the entry is free */
	struct fd_id id; /* detects that the program closed fd */
} opened[CAPTURES_MAX];

static atomic_bool leaving;

struct capture {
	struct list node;
	struct opened *file; /* NULL: another capture may use the entry by now */
	bool live;	     /* for a reader */
	struct capture_reader by;
	uint64_t unseen_before;
	bool started;	      /* wall_offset is set */
	uint64_t wall_offset; /* wall clock minus the engine's clock, ns */
	uint32_t interfaces;  /* number of interfaces in the file: */
	uint32_t interface[PCAPNG_KINDS];
	uint64_t flush_due; /* ns; NEVER: the buffer is empty */
	uint64_t full_until, tell_due;
	uint64_t seen, lost;		 /* packets */
	uint64_t told_lost, told_unseen; /* by the last counts */
	off_t written;
	size_t used;
	char name[PCAPNG_TEXT_MAX + 1];
	uint8_t buf[BUFFER];
};

struct captures {
	unsigned users;
	struct list all;
};

/* --- writing ------------------------------------------------------------------------ */

static void stop(struct capture *c, bool ours)
{
	int fd = c->file ? atomic_exchange(&c->file->fd, 0) - 1 : -1;

	if (fd >= 0 && ours)
		close(fd);
	c->file = NULL;
	c->used = 0;
	c->flush_due = c->tell_due = NEVER;
}

/* Returns the descriptor to write to, or -1 if the capture has ended. */
static int writable(struct capture *c)
{
	int fd = c->file ? atomic_load(&c->file->fd) - 1 : -1;

	if (fd < 0 || fd_is(fd, &c->file->id))
		return fd;
	log_error("capture stopped after %lld bytes: the program closed its "
		  "descriptor",
		  (long long)c->written);
	stop(c, false);
	return -1;
}

static void end_badly(struct capture *c, int fd, int err)
{
	if (c->live) {
		log_info("a capture ends after %lld bytes: its reader has left (%s)",
			 (long long)c->written, strerror(err));
	} else {
		log_error("capture stopped after %lld bytes: write: %s",
			  (long long)c->written, strerror(err));
		if (ftruncate(fd, c->written))
			log_error("the last packet of the capture is cut short");
	}
	stop(c, true);
}

static ssize_t write_some(const struct capture *c, int fd, size_t at)
{
	return c->live ? send(fd, c->buf + at, c->used - at, MSG_DONTWAIT | MSG_NOSIGNAL)
		       : write(fd, c->buf + at, c->used - at);
}

/* Writes the buffer, or as much as a reader has room for. After an error nothing more is
 * written, and an incomplete block is cut off a file. */
static void flush_capture(struct capture *c, uint64_t now)
{
	int fd = writable(c);
	size_t at = 0;
	ssize_t n = 0;

	if (fd < 0)
		return;
	while (at < c->used) {
		n = write_some(c, fd, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		at += (size_t)n;
	}
	if (n < 0 && !(c->live && errno == EAGAIN)) {
		end_badly(c, fd, errno);
		return;
	}
	c->written += (off_t)at;
	c->used -= at;
	memmove(c->buf, c->buf + at, c->used);
	c->full_until = c->used ? now + FULL_NS : 0;
	c->flush_due = c->used ? now + FLUSH_NS : NEVER;
}

static bool has_room(struct capture *c, size_t need, uint64_t now)
{
	if (need > BUFFER - c->used && now >= c->full_until)
		flush_capture(c, now);
	return need <= BUFFER - c->used;
}

static void start_clock(struct capture *c, uint64_t now)
{
	c->wall_offset = clock_read(CLOCK_REALTIME) - now;
	c->started = true;
}

static void put_interface(struct capture *c, enum pcapng_kind kind)
{
	c->used += pcapng_interface(c->buf + c->used, kind, *c->name ? c->name : NULL);
	c->interface[kind] = c->interfaces++;
}

static void put_packet(struct capture *c, const struct dgram *d, enum pcapng_kind kind,
		       const struct capture_mark *mark, uint64_t now)
{
	size_t need = d->len + (size_t)PCAPNG_EPB_MORE + PCAPNG_INTERFACE_MAX;

	if (!c->started)
		start_clock(c, now);
	c->seen++;
	if (!has_room(c, need, now)) {
		c->lost++;
		return;
	}
	if (kind != PCAPNG_IP && !c->interface[kind])
		put_interface(c, kind);
	c->used += pcapng_epb(c->buf + c->used, d, kind, c->interface[kind], mark->dir,
			      now + c->wall_offset, mark->note);
}

/* Tells a reader what it does not get, if that has changed. */
static void tell_counts(struct capture *c, uint64_t now)
{
	uint64_t unseen = c->by.unseen(c->by.arg) - c->unseen_before;
	char note[PCAPNG_TEXT_MAX + 1];

	c->tell_due = now + TELL_NS;
	if ((unseen == c->told_unseen && c->lost == c->told_lost) ||
	    !has_room(c, PCAPNG_STATS_MAX, now))
		return;
	snprintf(
		note, sizeof(note),
		"%" PRIu64 " packets dropped because the reader was slow, %" PRIu64
		" requests to processes of this host not shown: they went through memory",
		c->lost, unseen);
	c->used += pcapng_stats(c->buf + c->used, 0, now + c->wall_offset, c->seen,
				c->lost, note);
	c->told_lost = c->lost;
	c->told_unseen = unseen;
}

static void run_capture(struct capture *c, uint64_t now)
{
	bool due = c->live && c->used >= PIECE;

	if (now >= c->tell_due) {
		tell_counts(c, now);
		due |= c->used > 0;
	}
	if (c->used > 0 && c->flush_due == NEVER)
		c->flush_due = now + FLUSH_NS;
	if (c->used > 0 && (due || now >= c->flush_due || atomic_load(&leaving)) &&
	    now >= c->full_until)
		flush_capture(c, now);
}

/* --- opening ------------------------------------------------------------------------ */

/* Claims a free entry for fd. Returns NULL if there is none. */
static struct opened *claim_file(int fd)
{
	for (int i = 0; i < CAPTURES_MAX; i++) {
		struct opened *o = &opened[i];
		int none = 0;

		if (!atomic_compare_exchange_strong(&o->fd, &none, fd + 1))
			continue;
		if (fd_identify(fd, &o->id) == 0)
			return o;
		atomic_store(&o->fd, 0);
		break;
	}
	return NULL;
}

/* Begins a capture into fd. Returns 0 or -errno, and then fd is still the caller's. */
static int begin_capture(struct captures *set, int fd, const struct capture_reader *by,
			 uint64_t now)
{
	struct capture *c = turn_alloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->file = claim_file(fd);
	if (!c->file) {
		turn_free(c);
		return -EMFILE;
	}
	c->flush_due = c->tell_due = NEVER;
	if (by) {
		start_clock(c, now);
		c->live = true;
		c->by = *by;
		snprintf(c->name, sizeof(c->name), "%s", by->of);
		c->unseen_before = by->unseen(by->arg);
		c->tell_due = now + TELL_NS;
	}
	c->used = pcapng_section(c->buf);
	put_interface(c, PCAPNG_IP);
	flush_capture(c, now);
	list_add_tail(&set->all, &c->node);
	return 0;
}

/* Copies path with every %p replaced by the process id. */
static int expand(char *to, size_t room, const char *path)
{
	size_t at = 0;

	while (*path && at < room) {
		if (path[0] == '%' && path[1] == 'p') {
			at += (size_t)snprintf(to + at, room - at, "%ld", (long)getpid());
			path += 2;
		} else {
			to[at++] = *path++;
		}
	}
	if (at >= room)
		return -ENAMETOOLONG;
	to[at] = '\0';
	return 0;
}

/* Opens and truncates the file and locks it against captures of other processes. Returns
 * the descriptor, or -errno: -EBUSY if another process has it open. */
static int open_alone(const char *name)
{
	int fd = fd_raise(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), rc;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return fd;
	rc = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK ? -EBUSY
	     : ftruncate(fd, 0)					  ? -errno
								  : fd;
	if (rc < 0)
		close(fd);
	return rc;
}

int captures_file(struct captures *set, const char *path)
{
	char name[PATH_LEN];
	int rc = expand(name, sizeof(name), path), fd;

	if (rc)
		return rc;
	fd = open_alone(name);
	if (fd < 0)
		return fd;
	rc = begin_capture(set, fd, NULL, clock_ns());
	if (rc)
		close(fd);
	return rc;
}

static bool is_stream(int fd)
{
	int type = 0, domain = 0;
	socklen_t len = sizeof(type);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 &&
	       type == SOCK_STREAM && domain == AF_UNIX;
}

static struct capture *read_by(const struct captures *set, uint16_t slot)
{
	list_for(n, &set->all)
	{
		struct capture *c = container_of(n, struct capture, node);

		if (c->live && c->file && c->by.slot == slot)
			return c;
	}
	return NULL;
}

int captures_read(struct captures *set, int fd, const struct capture_reader *by,
		  uint64_t now)
{
	if (!is_stream(fd))
		return -ENOTSOCK;
	if (read_by(set, by->slot))
		return -EALREADY;
	return begin_capture(set, fd, by, now);
}

/* --- the set -------------------------------------------------------------------------
 */

static void drop_capture(struct capture *c)
{
	stop(c, true);
	list_del(&c->node);
	turn_free(c);
}

/* Those whose reader has left, or whose file is full. */
static void drop_ended(struct captures *set)
{
	list_for_safe(n, &set->all)
	{
		struct capture *c = container_of(n, struct capture, node);

		if (!c->file)
			drop_capture(c);
	}
}

struct captures *captures_new(void)
{
	struct captures *set = turn_alloc(sizeof(*set));

	if (set)
		list_init(&set->all);
	return set;
}

void captures_join(struct captures *set)
{
	set->users++;
}

void captures_leave(struct captures *set)
{
	if (set->users && --set->users)
		return;
	list_for_safe(n, &set->all)
	{
		struct capture *c = container_of(n, struct capture, node);

		if (c->live)
			tell_counts(c, clock_ns());
		flush_capture(c, 0);
		drop_capture(c);
	}
	turn_free(set);
}

bool captures_end(struct captures *set, uint16_t slot, uint64_t now)
{
	struct capture *c = read_by(set, slot);

	if (!c)
		return false;
	tell_counts(c, now);
	flush_capture(c, now);
	drop_capture(c);
	return true;
}

bool captures_any(const struct captures *set)
{
	return !list_empty(&set->all);
}

/* Returns the kind of d. */
static enum pcapng_kind kind_of(const struct dgram *d, bool ib)
{
	return ib ? PCAPNG_IB : ip_of(d)->v1 ? PCAPNG_V1 : PCAPNG_IP;
}

void captures_put(struct captures *set, const struct dgram *v, unsigned n,
		  const struct capture_mark *mark, uint64_t now)
{
	list_for(at, &set->all)
	{
		struct capture *c = container_of(at, struct capture, node);

		for (unsigned i = 0; i < n; i++)
			put_packet(c, &v[i], kind_of(&v[i], mark->ib), mark, now);
	}
	captures_run(set, now);
}

void captures_run(struct captures *set, uint64_t now)
{
	bool ended = false;

	list_for(at, &set->all)
	{
		struct capture *c = container_of(at, struct capture, node);

		run_capture(c, now);
		ended |= !c->file;
	}
	if (ended)
		drop_ended(set);
}

uint64_t captures_deadline(const struct captures *set)
{
	uint64_t due = NEVER;

	list_for(n, &set->all)
	{
		const struct capture *c = container_of(n, struct capture, node);

		due = c->flush_due < due ? c->flush_due : due;
		due = c->tell_due < due ? c->tell_due : due;
	}
	return due;
}

void capture_leave(void)
{
	atomic_store(&leaving, true);
}

void capture_forked(void)
{
	for (int i = 0; i < CAPTURES_MAX; i++) {
		int fd = atomic_exchange(&opened[i].fd, 0) - 1;

		if (fd >= 0 && fd_is(fd, &opened[i].id))
			close(fd);
	}
}

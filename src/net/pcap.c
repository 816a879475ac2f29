/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/ip_addr.h"
#include "net/pcapng.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "sys/log.h"

enum { BUFFER = 1 << 20, FLUSH_NS = 100000000, PATH_LEN = 512, OPEN_MAX_ = 8 };

/* The open captures. After a fork the child clears them, so that it writes nothing. */
static struct capture {
	_Atomic int fd;	 /* descriptor + 1; 0: the entry is free */
	struct fd_id id; /* detects that the program closed fd */
} captures[OPEN_MAX_];

static atomic_bool leaving;

struct pcap {
	struct link link;
	struct link *inner;
	struct pcap
		/* whose file is used: this one's own, or another's, and then the fields
		 * below are unused */
		*to;
	struct capture *file;
	uint64_t wall_offset; /* wall clock minus the engine's clock, ns */
	uint32_t interfaces;  /* number of interfaces in the file: */
	uint32_t interface[PCAPNG_KINDS];
	bool started; /* wall_offset is set */
	/* by an error: another capture may use the entry `file` by now */
	bool stopped;
	uint64_t flush_due; /* ns; NEVER: the buffer is empty */
	off_t written;
	size_t used;
	uint8_t buf[]; /* [BUFFER] */
};

static struct pcap *pcap_of(struct link *link)
{
	return container_of(link, struct pcap, link);
}

/* Returns the descriptor to write to, or -1 if the capture has ended. */
static int writable(struct pcap *p)
{
	int fd = p->stopped ? -1 : atomic_load(&p->file->fd) - 1;

	if (fd < 0 || fd_is(fd, &p->file->id))
		return fd;
	log_error("capture stopped after %lld bytes: the program closed its "
		  "descriptor",
		  (long long)p->written);
	atomic_store(&p->file->fd, 0);
	p->stopped = true;
	return -1;
}

/* Writes the buffer. After an error nothing more is written, and an incomplete block is
 * cut off. */
static void flush(struct pcap *p)
{
	int fd = writable(p);
	size_t at = 0;

	while (fd >= 0 && at < p->used) {
		ssize_t n = write(fd, p->buf + at, p->used - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			log_error("capture stopped after %lld bytes: write: %s",
				  (long long)p->written, strerror(errno));
			if (ftruncate(fd, p->written))
				log_error("the last packet of the capture is cut short");
			atomic_store(&p->file->fd, 0);
			close(fd);
			p->stopped = true;
			break;
		}
		at += (size_t)n;
	}
	p->written += (off_t)p->used;
	p->used = 0;
	p->flush_due = NEVER;
}

/* Returns the kind of d; a joined link carries InfiniBand only. */
static enum pcapng_kind kind_of(const struct pcap *by, const struct dgram *d)
{
	return by->to != by ? PCAPNG_IB : ip_of(d)->v1 ? PCAPNG_V1 : PCAPNG_IP;
}

static void put(struct pcap *p, const struct dgram *d, enum pcapng_kind kind,
		enum pcapng_dir dir, uint64_t now)
{
	size_t need = d->len + (size_t)PCAPNG_EPB_MORE + PCAPNG_INTERFACE_MAX;

	if (need > BUFFER - p->used)
		flush(p);
	if (need > BUFFER - p->used)
		return;
	if (kind != PCAPNG_IP && !p->interface[kind]) {
		p->used += pcapng_interface(p->buf + p->used, kind);
		p->interface[kind] = p->interfaces++;
	}
	p->used += pcapng_epb(p->buf + p->used, d, kind, p->interface[kind], dir,
			      now + p->wall_offset);
}

static void record(const struct pcap *by, const struct dgram *v, unsigned n,
		   enum pcapng_dir dir, uint64_t now)
{
	struct pcap *p = by->to;

	if (!p->started) {
		p->wall_offset = clock_read(CLOCK_REALTIME) - now;
		p->started = true;
	}
	for (unsigned i = 0; i < n; i++)
		put(p, &v[i], kind_of(by, &v[i]), dir, now);
	if (p->used > 0 && p->flush_due == NEVER)
		p->flush_due = now + FLUSH_NS;
	if (now >= p->flush_due || (p->used > 0 && atomic_load(&leaving)))
		flush(p);
}

static int pcap_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct pcap *p = pcap_of(link);
	int rc = p->inner->ops->send(p->inner, v, n, now);

	record(p, v, rc > 0 ? (unsigned)rc : 0, PCAPNG_OUT, now);
	return rc;
}

static int pcap_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct pcap *p = pcap_of(link);
	int rc = p->inner->ops->recv(p->inner, v, n, now);

	record(p, v, rc > 0 ? (unsigned)rc : 0, PCAPNG_IN, now);
	return rc;
}

static uint64_t pcap_deadline(struct link *link)
{
	struct pcap *p = pcap_of(link);
	uint64_t due = p->inner->ops->deadline(p->inner);

	return p->to->flush_due < due ? p->to->flush_due : due;
}

static void shared_close(struct link *link)
{
	struct pcap *p = pcap_of(link);

	p->inner->ops->close(p->inner);
	free(p);
}

static void pcap_close(struct link *link)
{
	struct pcap *p = pcap_of(link);
	int fd;

	flush(p);
	fd = p->stopped ? -1 : atomic_exchange(&p->file->fd, 0) - 1;
	if (fd >= 0)
		close(fd);
	p->inner->ops->close(p->inner);
	free(p);
}

static const struct link_ops pcap_ops = {
	.send = pcap_send,
	.recv = pcap_recv,
	.deadline = pcap_deadline,
	.close = pcap_close,
};

static const struct link_ops shared_ops = {
	.send = pcap_send,
	.recv = pcap_recv,
	.deadline = pcap_deadline,
	.close = shared_close,
};

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

/* Claims a free entry for fd. Returns NULL if there is none. */
static struct capture *claim(int fd)
{
	for (int i = 0; i < OPEN_MAX_; i++) {
		struct capture *c = &captures[i];
		int none = 0;

		if (!atomic_compare_exchange_strong(&c->fd, &none, fd + 1))
			continue;
		if (fd_identify(fd, &c->id) == 0)
			return c;
		atomic_store(&c->fd, 0);
		break;
	}
	return NULL;
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

int pcap_wrap(struct link **out, struct link *inner, const char *path)
{
	char name[PATH_LEN];
	struct pcap *p;
	int rc = expand(name, sizeof(name), path), fd;

	if (rc)
		return rc;
	fd = open_alone(name);
	if (fd < 0)
		return fd;
	p = calloc(1, sizeof(*p) + BUFFER);
	if (!p) {
		close(fd);
		return -ENOMEM;
	}
	p->file = claim(fd);
	if (!p->file) {
		free(p);
		close(fd);
		return -EMFILE;
	}
	p->inner = inner;
	p->to = p;
	p->link = (struct link){ .ops = &pcap_ops,
				 .run_max = inner->run_max,
				 .mtu = inner->mtu };
	p->used = pcapng_head(p->buf);
	p->interfaces = 1;
	flush(p);
	*out = &p->link;
	return 0;
}

int pcap_join(struct link **out, struct link *inner, struct link *pcap)
{
	struct pcap *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->inner = inner;
	p->to = pcap_of(pcap);
	p->link = (struct link){ .ops = &shared_ops,
				 .run_max = inner->run_max,
				 .mtu = inner->mtu };
	*out = &p->link;
	return 0;
}

void pcap_leave(void)
{
	atomic_store(&leaving, true);
}

void pcap_forked(void)
{
	for (int i = 0; i < OPEN_MAX_; i++) {
		int fd = atomic_exchange(&captures[i].fd, 0) - 1;

		if (fd >= 0 && fd_is(fd, &captures[i].id))
			close(fd);
	}
}

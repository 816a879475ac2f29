/* SPDX-License-Identifier: BSD-2-Clause */
/* msg.c - see msg.h. */
#include "sys/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/closer.h"
#include "sys/fd.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

/* --- out ------------------------------------------------------------------------ */

void msg_put_fds(struct msghdr *h, struct cmsghdr *at, const int *fds, unsigned n)
{
	memset(at, 0, CMSG_SPACE(n * sizeof(int)));
	h->msg_control = at;
	h->msg_controllen = CMSG_SPACE(n * sizeof(int));
	at->cmsg_level = SOL_SOCKET;
	at->cmsg_type = SCM_RIGHTS;
	at->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(at), fds, n * sizeof(int));
}

/* Errors that pass: the socket or the kernel has no room, or the receiver refuses
 * descriptors (EPERM). */
static int send_failure(int error, unsigned nfds)
{
	switch (error) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	case ETOOMANYREFS:
		return -EAGAIN;
	case EPERM:
		return nfds ? -EAGAIN : -EIO;
	case EFAULT:
		return -EFAULT;
	default:
		return -EIO;
	}
}

static int send_parts(int fd, struct iovec *iov, unsigned n, const int *fds,
		      unsigned nfds, bool wait)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = n };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[MSG_FDS]))];
	} u;
	ssize_t sent;

	if (nfds)
		msg_put_fds(&m, &u.head, fds, nfds);
	do
		sent = sendmsg(fd, &m, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));
	while (sent < 0 && errno == EINTR);
	return sent < 0 ? send_failure(errno, nfds) : 0;
}

/* Makes sealed memory of the parts. Returns its descriptor, or -errno. */
static int store_parts(const struct iovec *part, unsigned n, size_t len)
{
	int fd = fd_memory("urnic-message", len), rc = fd < 0 ? fd : 0;
	off_t at = 0;

	for (unsigned i = 0; i < n && !rc; i++)
		for (size_t done = 0; done < part[i].iov_len && !rc;) {
			ssize_t k = pwrite(fd, (char *)part[i].iov_base + done,
					   part[i].iov_len - done, at);

			if (k > 0) {
				done += (size_t)k;
				at += k;
			} else if (k == 0 || errno != EINTR) {
				rc = k ? -errno : -EIO;
			}
		}
	if (!rc && fcntl(fd, F_ADD_SEALS, SEALS))
		rc = -errno;
	if (!rc)
		return fd;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Cuts the n parts off behind len bytes. Returns how many are left. */
static unsigned cut_parts(struct iovec *part, unsigned n, size_t len)
{
	unsigned i;

	for (i = 0; i < n && len; i++) {
		if (part[i].iov_len > len)
			part[i].iov_len = len;
		len -= part[i].iov_len;
	}
	return i;
}

int msg_send(int fd, const struct msg_table *t, unsigned type, const struct iovec *part,
	     unsigned n, const int *fds, unsigned nfds, bool wait)
{
	const struct msg_row *row = &t->row[type];
	struct msg_head head = msg_head(t, type);
	struct iovec iov[MSG_PARTS + 1] = { { &head, sizeof(head) } };
	size_t len = 0;
	int memory, rc;

	assert(type < t->types && n <= MSG_PARTS && nfds <= row->fds);
	for (unsigned i = 0; i < n; i++) {
		iov[i + 1] = part[i];
		len += part[i].iov_len;
	}
	assert(len >= row->least && len <= row->most);
	if (len <= row->at_once)
		return send_parts(fd, iov, n + 1, fds, nfds, wait);
	assert(!nfds);
	memory = store_parts(part, n, len);
	if (memory < 0)
		return memory;
	head.in_memory = 1;
	n = cut_parts(iov + 1, n, row->at_once < MSG_LEAD ? row->at_once : MSG_LEAD);
	rc = send_parts(fd, iov, n + 1, &memory, 1, wait);
	close(memory);
	return rc;
}

/* --- in ------------------------------------------------------------------------- */

int msg_check(const struct msg_table *t, const struct msg_head *h, size_t n, unsigned fds)
{
	const struct msg_head want = msg_head(t, h->type);
	const struct msg_row *row;

	if (memcmp(h->magic, want.magic, sizeof(h->magic)) || h->table != t->table)
		return -EPROTO;
	if (h->version != t->version)
		return -EPROTONOSUPPORT;
	if (h->type >= t->types || h->in_memory > 1 ||
	    memcmp(h->zero, want.zero, sizeof(h->zero)))
		return -EPROTO;
	row = &t->row[h->type];
	if (!row->name || n > row->at_once)
		return -EPROTO;
	if (h->in_memory)
		return fds == 1 && row->most > row->at_once ? 0 : -EPROTO;
	return n >= row->least && fds <= row->fds ? 0 : -EPROTO;
}

/* Takes descriptors; those that m has no place for go to closer_put(). */
static void take_fds(const struct cmsghdr *c, struct msg *m)
{
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		if (m->fds < MSG_FDS)
			m->fd[m->fds] = fd;
		else
			closer_put(m->uid, fd);
		m->fds++;
	}
}

/* Takes what came beside the bytes: the sender, then descriptors. */
static void take_control(struct msghdr *h, struct msg *m)
{
	struct ucred by;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&by, CMSG_DATA(c), sizeof(by));
		m->uid = by.uid;
		m->pid = by.pid;
	}
	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			take_fds(c, m);
}

/* Takes the memory that the body lies in, if its sender can change it no more. A
 * descriptor that is not sealed memory is asked nothing else: its file system may be the
 * sender's, and never answer. */
static int take_memory(struct msg *m, const struct msg_row *row)
{
	struct stat st;

	if (!fd_has_seals(m->fd[0], F_SEAL_SHRINK | F_SEAL_WRITE) ||
	    fstat(m->fd[0], &st) || st.st_size < (off_t)row->least ||
	    st.st_size > (off_t)row->most)
		return -EPROTO;
	m->memory = m->fd[0];
	m->fd[0] = -1;
	m->len = (size_t)st.st_size;
	return 0;
}

/* A connection tells once that the other end has closed with something unread
 * (ECONNRESET); what that sent before follows. */
static ssize_t recv_parts(int fd, struct msghdr *h, int flags)
{
	ssize_t n;

	do
		n = recvmsg(fd, h, flags | MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	return n;
}

int msg_recv(int fd, const struct msg_table *t, uid_t uid, void *buf, size_t size,
	     struct msg *m, bool peek)
{
	struct msg_head head = { .type = 0 };
	struct iovec iov[2] = { { &head, sizeof(head) }, { buf, size } };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[MSG_FDS_SENT])) +
			  CMSG_SPACE(sizeof(struct ucred))];
	} u;
	struct msghdr h = { .msg_iov = iov,
			    .msg_iovlen = 2,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t n = recv_parts(fd, &h, peek ? MSG_PEEK : 0);
	const bool none = n < 0 && errno == EAGAIN;
	bool ended;
	int rc;

	if (n < 0)
		h.msg_controllen = 0;
	/* An empty message brings its sender's credentials, the end nothing. */
	ended = n < 0 || (n == 0 && h.msg_controllen == 0);
	*m = (struct msg){ .body = buf, .memory = -1, .fd = { -1, -1 }, .uid = uid };
	take_control(&h, m);
	if (ended)
		return none ? -EAGAIN : -EIO;
	if (n < (ssize_t)sizeof(head))
		return -EPROTO;
	m->type = head.type;
	m->len = (size_t)n - sizeof(head);
	m->here = m->len < size ? m->len : size;
	rc = msg_check(t, &head, m->len, m->fds);
	return !rc && head.in_memory ? take_memory(m, &t->row[head.type]) : rc;
}

int msg_read(const struct msg *m, size_t at, void *to, size_t n)
{
	size_t done = 0;

	if (at > m->len || n > m->len - at)
		return -EPROTO;
	if (m->memory < 0) {
		if (n > m->here || at > m->here - n)
			return -EPROTO;
		memcpy(to, (const char *)m->body + at, n);
		return 0;
	}
	while (done < n) {
		ssize_t k =
			pread(m->memory, (char *)to + done, n - done, (off_t)(at + done));

		if (k == 0 || (k < 0 && errno != EINTR))
			return -EPROTO;
		done += k > 0 ? (size_t)k : 0;
	}
	return 0;
}

void msg_drop(struct msg *m, bool foreign)
{
	int *all[] = { &m->fd[0], &m->fd[1], &m->memory };

	static_assert(MSG_FDS == 2, "all of them");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (foreign)
			closer_put(m->uid, *all[i]);
		else if (*all[i] >= 0)
			close(*all[i]);
		*all[i] = -1;
	}
}

static bool set_passing(int fd, int on)
{
	return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on)) == 0;
}

bool msg_refuse_fds(int fd)
{
	return set_passing(fd, 0);
}

void msg_allow_fds(int fd)
{
	set_passing(fd, 1);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* message.c - see message.h. */
#include "fabric/port/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/rights.h"

int message_send(int fd, const void *head, size_t head_len, const void *body,
		 size_t body_len, int pass, bool dont_wait)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)head, head_len },
				{ (void *)(uintptr_t)body, body_len } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 2 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u;
	ssize_t n;

	if (pass >= 0)
		rights_put(&m, &u.head, &pass, 1);
	do {
		n = sendmsg(fd, &m, MSG_NOSIGNAL | (dont_wait ? MSG_DONTWAIT : 0));
	} while (n < 0 && errno == EINTR);
	if (n >= 0)
		return 0;
	return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ||
			       (errno == EPERM && pass >= 0)
		       ? -EAGAIN
		       : -EIO;
}

long message_recv(int fd, uid_t uid, void *msg, size_t size, int *passed, int flags)
{
	struct iovec iov = { msg, size };
	union {
		struct cmsghdr head;
		char room[RIGHTS_ROOM];
	} u;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &u,
			    .msg_controllen = sizeof(u) };
	ssize_t n;

	do {
		n = recvmsg(fd, &m, flags | MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0) {
		n = errno == EAGAIN ? -EWOULDBLOCK : -EIO;
		m.msg_controllen = 0;
	}
	rights_take(&m, uid, passed, passed ? 1 : 0);
	if (n < 0)
		return n;
	return n ? n : -EIO;
}

static int write_all(int fd, const char *from, size_t len)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = pwrite(fd, from + at, len - at, (off_t)at);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

int message_send_any(int fd, const void *head, size_t head_len, const void *body,
		     size_t body_len, bool dont_wait)
{
	int mem, rc;

	if (body_len <= MESSAGE_LONG)
		return message_send(fd, head, head_len, body, body_len, -1, dont_wait);
	mem = fd_memory("urnic-mad", body_len);
	if (mem < 0)
		return mem;
	rc = write_all(mem, body, body_len);
	if (!rc && fcntl(mem, F_ADD_SEALS, SEALS))
		rc = -errno;
	if (!rc)
		rc = message_send(fd, head, head_len, body, MESSAGE_HEAD, mem, dont_wait);
	close(mem);
	return rc;
}

long message_length(int passed)
{
	struct stat st;

	if (fstat(passed, &st) || st.st_size <= 0 ||
	    !fd_is_sealed(passed, (size_t)st.st_size, F_SEAL_SHRINK | F_SEAL_WRITE))
		return -EPROTO;
	return (long)st.st_size;
}

int message_read(int passed, void *to, size_t len)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = pread(passed, (char *)to + at, len - at, (off_t)at);

		if (n == 0 || (n < 0 && errno != EINTR))
			return -EPROTO;
		at += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

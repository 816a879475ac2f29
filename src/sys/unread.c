/* SPDX-License-Identifier: BSD-2-Clause */
/* unread.c - discards unread messages; see unread.h. */
#include "sys/unread.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

enum looked { NOTHING, MESSAGE, DESCRIPTORS };

/* What is the next unread message at fd?  The control buffer has room for the sender's
 * credentials, which the kernel adds to every message, even an empty one, but not at the
 * end of the stream.  Descriptors find no room and set MSG_CTRUNC. */
static enum looked peek_message(int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} u;
	struct msghdr m = { .msg_control = &u, .msg_controllen = sizeof(u) };
	ssize_t n;

	do /* ECONNRESET comes once, if the other end closed with unread messages */
		n = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	while (n < 0 && (errno == ECONNRESET || errno == EINTR));
	if (n == 0 && m.msg_controllen == 0)
		return NOTHING;
	return n < 0 || m.msg_flags & MSG_CTRUNC ? DESCRIPTORS : MESSAGE;
}

bool unread_drop(int fd)
{
	enum { MAX = 4096 }; /* SO_SNDBUF bounds their number */
	enum looked what = DESCRIPTORS;
	int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return false;
	for (int i = 0; i < MAX && (what = peek_message(fd)) == MESSAGE; i++)
		recv(fd, NULL, 0, MSG_DONTWAIT);
	return what == NOTHING;
}

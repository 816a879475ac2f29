/* SPDX-License-Identifier: BSD-2-Clause */
/* msg.h - messages between two processes of a host, over a unix socket that keeps their
 * bounds (SOCK_SEQPACKET).
 *
 * A message has a type, a body and descriptors. What types there are, how long their
 * bodies may be and how many descriptors may go along says a table; both ends have the
 * same. msg_recv() gives out only what the table allows, so a user of it checks values
 * alone. A body that is longer than its type's `at_once` lies in sealed memory, whose
 * descriptor goes along.
 *
 *   who                              table                   fuzzer
 *   the processes of a host          host/msg.c              tests/fuzz/msg_fuzz.c
 *   a program and its fabric         fabric/port/message.c   tests/fuzz/msg_fuzz.c
 *
 * Integers are in the machine's byte order. The sender may be hostile. No call blocks but
 * msg_send() with `wait`.
 */
#ifndef SYS_MSG_H
#define SYS_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
	MSG_FDS = 2,
	/* What the kernel lets anybody send (SCM_MAX_FD). It closes descriptors itself
	 * that find no room at the receiver, and that may take long. */
	MSG_FDS_SENT = 253,
	MSG_PARTS = 37,
	/* No body is longer in its message: a datagram of UDP and what is known of it. */
	MSG_AT_ONCE_MAX = 65600,
	/* Of a body that lies in memory, so many bytes are in the message as well. */
	MSG_LEAD = 320,
};

/* Precedes the body. */
struct msg_head {
	uint8_t magic[2], table, version;
	uint8_t type, in_memory, zero[2];
};

static_assert(sizeof(struct msg_head) == 8, "what follows is aligned");

struct msg_row {
	const char *name;     /* NULL: there is no such type */
	uint32_t least, most; /* bytes of the body */
	uint32_t at_once;     /* of these, in the message itself at most */
	unsigned fds;	      /* descriptors that go along at most */
};

struct msg_table {
	uint8_t table, version; /* the table's own letter; of all types in it */
	unsigned types;
	const struct msg_row *row;
};

static inline struct msg_head msg_head(const struct msg_table *t, unsigned type)
{
	return (struct msg_head){ { 'u', 'r' },	 t->table, t->version,
				  (uint8_t)type, 0,	   { 0 } };
}

/* Sends a message whose body is n <= MSG_PARTS parts, with nfds <= MSG_FDS descriptors.
 * Returns 0; -EAGAIN: there is no room, or the receiver takes no descriptors now; -EIO:
 * there is no receiver; -EFAULT: a part is not mapped; of a body that lies in memory also
 * the errors of making that, such as -ENOMEM. */
int msg_send(int fd, const struct msg_table *t, unsigned type, const struct iovec *part,
	     unsigned n, const int *fds, unsigned nfds, bool wait);

/* A message that has come in. */
struct msg {
	unsigned type;
	size_t len;	  /* of the body */
	const void *body; /* the first bytes of it: all, unless they lie in memory */
	size_t here;	  /* how many those are */
	int memory;	  /* -1: the body does not lie in memory */
	/* To be closed by msg_drop(); who takes one over sets it to -1. */
	int fd[MSG_FDS];
	unsigned fds; /* so many came; fd has the first of them, or -1 */
	uid_t uid;    /* the sender: as the kernel says if the socket has SO_PASSCRED, */
	pid_t pid;    /* otherwise the user that the caller named, and 0 */
};

/* Takes a message in, the body into buf. Returns 0; -EAGAIN: there is none; -EIO: the
 * connection has ended; -EPROTO: it is none of the table; -EPROTONOSUPPORT: another
 * version's. In all cases *m is to be dropped. peek: the message stays. */
int msg_recv(int fd, const struct msg_table *t, uid_t uid, void *buf, size_t size,
	     struct msg *m, bool peek);

/* Copies n bytes of the body from offset `at`. Returns 0, or -EPROTO: it has fewer, or
 * its sender has changed it. */
int msg_read(const struct msg *m, size_t at, void *to, size_t n);

/* Closes the descriptors. Those of another user (`foreign`) are closed at some later
 * time by a thread (sys/closer.h), because that may block; those of this user at once,
 * since this user's processes can do us any harm anyway. */
void msg_drop(struct msg *m, bool foreign);

/* From now on the kernel lets nobody send descriptors to this unix socket (-EAGAIN), nor
 * to those accepted from it. Returns false if the kernel cannot do that (before Linux
 * 6.16). */
bool msg_refuse_fds(int fd);
void msg_allow_fds(int fd);

/* --- for msg_recv(), and tests --------------------------------------------------- */

/* May a message begin with this head, have n bytes behind it and bring fds descriptors?
 * Returns as msg_recv() does. A body that lies in memory is checked by its length. */
int msg_check(const struct msg_table *t, const struct msg_head *h, size_t n,
	      unsigned fds);

/* Makes h carry n descriptors; at is the room for the control message. */
void msg_put_fds(struct msghdr *h, struct cmsghdr *at, const int *fds, unsigned n);

#endif

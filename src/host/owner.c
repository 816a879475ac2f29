/* SPDX-License-Identifier: BSD-2-Clause */
/* owner.c - which process has a slot, as the kernel says.
 *
 * Of a slot the kernel tells the user that its owner was when it took the slot, of
 * a connection the user that made it.  They differ after setuid(), and the first is
 * the one that counts.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/fds.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/clock.h"

int host_reach(struct host *h, uint16_t slot)
{
	return slot > SLOT_NAMED ? reserve_connect(&h->reserve, slot, clock_ns())
				 : name_connect(slot);
}

/* Who listens on the name says it to all who connect. */
static int ask_name(uint16_t slot, uid_t *uid, pid_t *pid)
{
	int fd = name_connect(slot), rc;

	if (fd < 0)
		return fd == -EAGAIN ? fd : -ESRCH;
	rc = name_cred(fd, uid, pid);
	fds_hang_up(fd);
	return rc ? -ESRCH : 0;
}

static int owner_since(struct host *h, uint16_t slot, uint64_t since, uid_t *uid,
		       pid_t *pid)
{
	const struct conn *c;

	if (slot < SLOT_FIRST || slot > SLOT_LAST)
		return -ESRCH;
	c = h->by_slot[slot];
	/* An owner that has ended is none, but what it said last comes first. */
	if (c && host_conn_has_ended(c))
		return -EAGAIN;
	if (c) {
		*uid = c->uid;
		*pid = c->pid;
		return 0;
	}
	return slot > SLOT_NAMED ? reserve_owner(&h->reserve, slot, since, uid, pid)
				 : ask_name(slot, uid, pid);
}

int host_cred(struct host *h, uint16_t slot, uid_t *uid, pid_t *pid)
{
	struct conn *c;
	int rc = host_conn_get(h, slot, &c);

	if (rc)
		return rc;
	*uid = c->uid;
	*pid = c->pid;
	return 0;
}

bool host_is_free(struct host *h, uint16_t slot)
{
	uid_t uid;
	pid_t pid;

	if (slot >= SLOT_FIRST && slot <= SLOT_NAMED)
		return ask_name(slot, &uid, &pid) == -ESRCH;
	return slot < SLOT_FIRST || slot > SLOT_LAST ||
	       reserve_owner(&h->reserve, slot, clock_ns(), &uid, &pid) == -ESRCH;
}

bool host_is_ours(struct host *h, uint16_t slot)
{
	uid_t uid;
	pid_t pid;

	return host_cred(h, slot, &uid, &pid) == 0 && user_is_ours(&h->user, uid, pid);
}

/* --- after setuid() -------------------------------------------------------------- */

int host_proof(const struct host *h)
{
	return geteuid() != h->user.uid ? h->proof_fd : -1;
}

static bool is_unnamed(int fd, int (*name_of)(int, struct sockaddr *, socklen_t *))
{
	struct sockaddr_un a;
	socklen_t len = sizeof(a);

	return name_of(fd, (struct sockaddr *)&a, &len) == 0 && a.sun_family == AF_UNIX &&
	       len == offsetof(struct sockaddr_un, sun_path);
}

/* Is fd one of a pair that process pid made when it was this user?  A socket that
 * was connected, or accepted, shows the process at its other end; but then one of
 * its ends has a name. */
static bool is_proof(int fd, uid_t uid, pid_t pid)
{
	uid_t its;
	pid_t by;

	return fd >= 0 && pid && name_cred(fd, &its, &by) == 0 && its == uid &&
	       by == pid && is_unnamed(fd, getsockname) && is_unnamed(fd, getpeername);
}

int host_owns(struct host *h, uint16_t slot, uint64_t since, uid_t *uid, pid_t pid,
	      int proof)
{
	uid_t owner;
	pid_t its;
	int rc = owner_since(h, slot, since, &owner, &its);

	if (rc)
		return rc;
	/* A number of 0 is of another pid namespace, as many are. */
	if (its != pid || !(user_is_same(&h->user, owner, *uid) ||
			    (pid && owner == *uid) || is_proof(proof, owner, its)))
		return -EPERM;
	*uid = owner;
	return 0;
}

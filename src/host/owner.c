/* SPDX-License-Identifier: BSD-2-Clause */
/* owner.c - finds the process that has a slot, as the kernel tells.
 *
 * For a slot the kernel tells its owner's user when it took the slot; for a connection,
 * the user that made it. They differ after setuid(), and the first counts.
 */
#include <errno.h>
#include <string.h>

#include "host/host.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/user.h"

static int reach_since(struct host *h, uint16_t slot, uint64_t since)
{
	return slot > SLOT_NAMED ? reserve_connect(&h->reserve, slot, since)
				 : name_connect(slot);
}

int host_reach(struct host *h, uint16_t slot)
{
	return reach_since(h, slot, clock_ns());
}

/* Asks the kernel who listens for slot, by connecting to it. */
static int ask_kernel(struct host *h, uint16_t slot, uint64_t since, uid_t *uid,
		      pid_t *pid)
{
	int fd, rc;

	if (slot < SLOT_FIRST || slot > SLOT_LAST)
		return -ESRCH;
	fd = reach_since(h, slot, since);
	if (fd < 0)
		return fd == -EAGAIN ? fd : -ESRCH;
	rc = user_of_peer(fd, uid, pid);
	closer_hang_up(fd);
	return rc ? -ESRCH : 0;
}

static int owner_since(struct host *h, uint16_t slot, uint64_t since, uid_t *uid,
		       pid_t *pid)
{
	const struct host_conn *c = slot <= SLOT_LAST ? h->by_slot[slot] : NULL;

	/* An owner that has ended does not count, but what it sent last must be read
	 * first. */
	if (c && host_conn_has_ended(c))
		return -EAGAIN;
	if (c) {
		*uid = c->uid;
		*pid = c->pid;
		return 0;
	}
	return ask_kernel(h, slot, since, uid, pid);
}

int host_cred(struct host *h, uint16_t slot, uid_t *uid, pid_t *pid)
{
	struct host_conn *c;
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

	return ask_kernel(h, slot, clock_ns(), &uid, &pid) == -ESRCH;
}

static bool is_ours(struct host *h, uint16_t slot, pid_t *pid)
{
	uid_t uid;

	return host_cred(h, slot, &uid, pid) == 0 && user_is_ours(&h->user, uid, *pid);
}

bool host_is_ours(struct host *h, uint16_t slot)
{
	pid_t pid;

	return is_ours(h, slot, &pid);
}

bool host_is_ours_now(struct host *h, uint16_t slot)
{
	pid_t pid;

	return is_ours(h, slot, &pid) && user_of_now(pid) == h->user.uid;
}

/* --- after setuid() -------------------------------------------------------------- */

/* Compares `said` with what the owner of slot sends on a connection that leads to it. */
static int compare_proof(struct host *h, uint16_t slot, const struct msg_proof *said)
{
	struct host_conn *c;

	if (host_conn_get(h, slot, &c) || !c->answered)
		return -EAGAIN;
	return memcmp(&c->proof, said, sizeof(*said)) ? -EPERM : 0;
}

int host_owns(struct host *h, uint16_t slot, uint64_t since, uid_t *uid, pid_t pid,
	      const struct msg_proof *said)
{
	uid_t owner;
	pid_t its;
	int rc = owner_since(h, slot, since, &owner, &its);

	if (rc)
		return rc;
	/* pid 0 is a process of another pid namespace, as many may be. */
	if (its != pid)
		return -EPERM;
	if (!user_is_same(&h->user, owner, *uid) && (!pid || owner != *uid))
		rc = pid && said ? compare_proof(h, slot, said) : -EPERM;
	if (!rc)
		*uid = owner;
	return rc;
}

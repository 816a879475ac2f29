/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_port.c - checks whether the UDP port is free, or which process has it. */
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver/holder.h"
#include "host/host.h"
#include "host/name.h"
#include "host/reserve.h"
#include "probe.h"
#include "sys/user.h"

static const char lost[] = "nothing from other hosts arrives";
static const char stop_it[] = "stop that program, set URNIC_UDP_PORT here and"
			      " at all peers, or use a network namespace of your own";

static int bind_port(int family, bool share)
{
	uint16_t port = htons(probe_udp_port());
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = port };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = port };
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1, rc;

	if (fd < 0)
		return -errno;
	if (share)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (family == AF_INET6) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
		rc = bind(fd, (struct sockaddr *)&a6, sizeof(a6));
	} else {
		rc = bind(fd, (struct sockaddr *)&a4, sizeof(a4));
	}
	rc = rc ? -errno : 0;
	close(fd);
	return rc;
}

static void name_process(struct holder *h, pid_t pid)
{
	char path[32];
	FILE *f;

	h->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (f && fgets(h->comm, sizeof(h->comm), f))
		h->comm[strcspn(h->comm, "\n")] = '\0';
	if (f)
		fclose(f);
}

/* Does the holder of the port use urnic?  Every such process has a slot.  If /proc does
 * not show the holder's sockets, it is taken to use urnic if its user has a slot, and to
 * be the first process of that user, since a user's processes share the port. */
static bool is_urnic(struct holder *h)
{
	struct reserve reserve;
	uint16_t slot;
	int fd;

	for (slot = SLOT_FIRST; slot <= SLOT_NAMED; slot++) {
		int rc;
		uid_t uid;
		pid_t pid;

		fd = name_connect(slot);
		if (fd < 0)
			continue;
		rc = user_of_peer(fd, &uid, &pid);
		close(fd);
		if (rc || uid != h->uid || (h->pid && pid != h->pid))
			continue;
		if (!h->pid && pid)
			name_process(h, pid);
		return true;
	}
	reserve_init(&reserve, geteuid());
	fd = reserve_connect_user(&reserve, h->uid, &slot);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Finds the first process with the port that does not use urnic, or else any process with
 * the port.  Returns false if the port is free. */
static bool find_holder(int family, struct holder *h, bool *urnic)
{
	char who[128];
	unsigned i;

	*urnic = true;
	for (i = 0; *urnic && holder_nth(family, probe_udp_port(), i, h) == 0; i++) {
		holder_text(h, who, sizeof(who)); /* finds the process */
		*urnic = h->inode && is_urnic(h);
	}
	return i > 0;
}

/* Reports a port that another user's urnic has; it can forward datagrams (driver/port.c).
 */
static void port_of_another(struct finding *f, const struct holder *h, const char *who)
{
	enum conf_share share = probe_share();
	unsigned port = probe_udp_port();

	if (share == CONF_SHARE_USER || (share == CONF_SHARE_AUTO && geteuid() == 0))
		finding(f, MISSING,
			"no queue pair to another host, and no UD, gets to"
			" RTR, and rdma_cm does not connect over RoCE, not even"
			" within this host (EADDRINUSE): that user could read and"
			" change the packets",
			"end that process, use a network namespace of"
			" your own, or permit it (URNIC_SHARE=host)",
			"%u: held by %s, an urnic of user %u", port, who,
			(unsigned)h->uid);
	else
		finding(f, LIMITED,
			"that process forwards the packets of this user's programs, "
			"which takes time, and can read and change them",
			"run as that user, or in"
			" a network namespace of your own; URNIC_SHARE=user refuses"
			" it",
			"%u: held by %s, an urnic of user %u", port, who,
			(unsigned)h->uid);
}

static void port_held(struct finding *f, int family)
{
	unsigned port = probe_udp_port();
	bool urnic, share = bind_port(family, true) == 0;
	struct holder h;
	char who[128];

	if (!find_holder(family, &h, &urnic)) {
		finding(f, MISSING, lost, stop_it, "%u: held by somebody", port);
		return;
	}
	if (h.inode == 0) {
		finding(f, MISSING, lost,
			"unload rdma_rxe, or use a network"
			" namespace of your own",
			"%u: held by the kernel"
			" (rdma_rxe?)",
			port);
		return;
	}
	if (h.pid)
		snprintf(who, sizeof(who), "%s (process %d)", h.comm, (int)h.pid);
	else
		snprintf(who, sizeof(who), "a process that cannot be seen from here");
	if (share && urnic)
		finding(f, OK, "", "", "%u: shared with %s", port, who);
	else if (urnic)
		port_of_another(f, &h, who);
	else if (share)
		finding(f, LIMITED,
			"packets that the kernel gives to that program are lost: "
			"messages are sent again, or time out",
			stop_it, "%u: shared with %s, which is no urnic", port, who);
	else
		finding(f, MISSING,
			"no queue pair to another host, and no UD, gets to"
			" RTR (EADDRINUSE)",
			stop_it, "%u: held by %s of user %u, which is no urnic", port,
			who, (unsigned)h.uid);
}

static void probe_port(struct finding *f, int family)
{
	unsigned port = probe_udp_port();
	int rc = bind_port(family, false);

	if (rc == 0)
		finding(f, OK, "", "", "%u is free", port);
	else if (rc == -EADDRINUSE)
		port_held(f, family);
	else
		finding(f, MISSING, lost,
			rc == -EACCES
				? "a port below 1024"
				  " wants a privilege: set URNIC_UDP_PORT to another"
				: "",
			"%u: %s", port, strerror(-rc));
}

void probe_port4(struct finding *f)
{
	probe_port(f, AF_INET);
}

void probe_port6(struct finding *f)
{
	int rc = bind_port(AF_INET6, false);

	if (rc == -EAFNOSUPPORT || rc == -EADDRNOTAVAIL)
		finding(f, MISSING, "IPv4 only", "boot without ipv6.disable=1",
			"there is no IPv6: %s", strerror(-rc));
	else
		probe_port(f, AF_INET6);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* forwarder.c - see forwarder.h. */
#include "driver/forwarder.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "driver/holder.h"
#include "host/host.h"
#include "sys/log.h"

enum { WHO = 112 };

const char *forwarder_family(int family)
{
	return family == AF_INET ? "IPv4" : "IPv6";
}

/* Writes "user 1000, process 4711". */
static const char *name_of(const struct forwarding *g, const struct forwarder *f,
			   char text[WHO])
{
	char user[80];
	uid_t uid;
	pid_t pid;

	if (host_cred(g->host, f->slot, &uid, &pid))
		pid = 0;
	holder_user_text(f->uid, pid, user, sizeof(user));
	snprintf(text, WHO, "%s, process %d", user, (int)pid);
	return text;
}

/* May f carry our traffic? */
static int trust(const struct forwarding *g, int family, struct forwarder *f)
{
	char who[WHO];

	if (g->share == CONF_SHARE_HOST ||
	    (g->share == CONF_SHARE_AUTO && host_uid(g->host) != 0))
		return 0;
	log_error("UDP port %u (%s) is held by the urnic of %s, which could "
		  "read and change all that comes for this process: end that "
		  "process, use a network namespace of your own, or permit "
		  "it (URNIC_SHARE=host)",
		  g->udp_port, forwarder_family(family), name_of(g, f, who));
	f->slot = 0;
	return -EADDRINUSE;
}

void forwarder_warn(struct forwarding *g, int family, const struct forwarder *f)
{
	char who[WHO];

	if (g->share == CONF_SHARE_AUTO && !(g->warned && g->warned_of == f->uid))
		log_warn("UDP port %u (%s) is held by the urnic of %s: it forwards "
			 "what comes for this process, and can read and change it "
			 "(URNIC_SHARE=user refuses that, host permits it)",
			 g->udp_port, forwarder_family(family), name_of(g, f, who));
	g->warned = true;
	g->warned_of = f->uid;
}

static void say_none(const struct forwarding *g, int family, int rc, struct holder *h)
{
	char who[96] = "a process that cannot be found";

	if (!rc && host_hides(g->host, h->uid)) {
		log_error("UDP port %u (%s) is held by a user who has no number in "
			  "this user namespace, so that user's urnic cannot be told "
			  "from those of others: use a network namespace of your own",
			  g->udp_port, forwarder_family(family));
		return;
	}
	if (!rc)
		holder_text(h, who, sizeof(who));
	log_error("UDP port %u (%s) is held by %s, which is no urnic: urnic "
		  "doctor says what can be done",
		  g->udp_port, forwarder_family(family), who);
}

/* The holder is another user's: this user's processes would have shared the port. */
int forwarder_find(const struct forwarding *g, int family, bool again,
		   struct forwarder *f)
{
	struct holder h;
	int rc = holder_find(family, g->udp_port, &h);

	f->slot = 0;
	if (!rc && h.uid != host_uid(g->host))
		f->slot = host_connect_user(g->host, h.uid);
	if (f->slot) {
		f->uid = h.uid;
		return trust(g, family, f);
	}
	if (!again || !f->said)
		say_none(g, family, rc, &h);
	f->said = true;
	return -EADDRINUSE;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* refused.c - see refused.h. */
#include "rdmacm/refused.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sys/addr.h"
#include "sys/log.h"
#include "sys/sockaddr.h"

/* Why the thread's call is refused; NULL: only errno says it. */
static __thread const char *reason;

int cma_refuse(const char *why)
{
	reason = why;
	return -EINVAL;
}

int cma_not_now(const struct cma_id *id)
{
	static const char *const state[] = {
		[CMA_NEW] = "the id is new: rdma_bind_addr, or rdma_resolve_addr and its "
			    "event, come first",
		[CMA_BOUND] = "the id is bound, and its peer's address not resolved",
		[CMA_ADDR] = "the id's address is resolved: rdma_resolve_route and its "
			     "event come next",
		[CMA_QUERY] = "the id waits for the event of rdma_resolve_route",
		[CMA_ROUTE] = "the id's route is resolved: rdma_connect comes next",
		[CMA_CONNECT] = "the id is connected, or about to be",
		[CMA_REQUEST] =
			"the id is a request: rdma_accept or rdma_reject answers it",
		[CMA_LISTEN] = "the id listens",
	};

	return cma_refuse(state[id->state]);
}

static const char *why(int rc)
{
	switch (-rc) {
	case EADDRINUSE:
		return "another id, of this or another process, has that port: end it, "
		       "choose another port, or set RDMA_OPTION_ID_REUSEADDR";
	case EADDRNOTAVAIL:
		return "this host has no such address: ip addr shows those that it has";
	case ENODEV:
		return "no RDMA device has that address, or there is none: urnic devices "
		       "lists them";
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "no route leads to that address: ip route get shows it; is an "
		       "interface down?";
	case EACCES:
		return "the kernel forbids it, as for a broadcast address";
	case EAFNOSUPPORT:
		return "the address is neither of IPv4 or IPv6 nor AF_IB, or the host has "
		       "not that family";
	case EPROTONOSUPPORT:
		return "the service ID is of another port space than the id's";
	case ENOSYS:
		return "urnic has no such option, or another libibverbs has opened the "
		       "devices: start the program by urnic run";
	case EIO:
		return "the device is lost, or a parent process opened it: open it again";
	case EINVAL:
		return "an argument is invalid, or the id is in no state for this call";
	default:
		return NULL;
	}
}

void cma_say_refused(const struct cma_id *id, const char *call, const struct sockaddr *a,
		     int rc)
{
	const char *what = reason ? reason : why(rc);
	char ip[INET6_ADDRSTRLEN], where[INET6_ADDRSTRLEN + 40] = "";
	uint8_t addr[16];

	reason = NULL;
	if (log_level < LOG_INFO)
		return;
	if (!a && id && id->id.route.addr.dst_addr.sa_family)
		a = &id->id.route.addr.dst_addr;
	else if (!a && id)
		a = &id->id.route.addr.src_addr;
	if (a && sockaddr_len(a)) {
		sockaddr_ip(a, addr);
		snprintf(where, sizeof(where), " (%s, port %u)", addr_text(addr, ip),
			 sockaddr_port(a));
	}
	log_info("rdma_cm: %s%s refused: %s%s%s", call, where, strerror(-rc),
		 what ? ": " : "", what ? what : "");
}

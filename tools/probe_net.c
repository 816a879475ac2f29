/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_net.c - checks sockets: steering, offloads, buffers. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loopback.h"
#include "probe.h"

enum { WANT_BUFFER = 4 << 20 };

static int udp(int family)
{
	return socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

void probe_ipv6(struct finding *f)
{
	static const char off[] = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
	struct ifaddrs *all = NULL, *a;
	int n = 0;

	if (getifaddrs(&all) == 0) {
		for (a = all; a; a = a->ifa_next)
			n += a->ifa_addr && a->ifa_addr->sa_family == AF_INET6;
		freeifaddrs(all);
	}
	if (n)
		finding(f, OK, "", "", "IPv6 addresses: %d", n);
	else
		finding(f, LIMITED,
			"GID 0 is made from the MAC address and works"
			" on this host only; GID 1 (IPv4) works everywhere",
			"sysctl net.ipv6.conf.all.disable_ipv6=0",
			"no interface has an IPv6 address%s",
			probe_number(off) == 1 ? " (disable_ipv6 is 1)" : "");
}

/* Tries to attach a classic BPF program of n instructions that picks socket 0. */
static int try_program(unsigned n)
{
	struct sock_filter *code = calloc(n, sizeof(*code));
	struct sock_fprog prog = { (unsigned short)n, code };
	int fd = udp(AF_INET), on = 1, rc;

	if (fd < 0 || !code) {
		free(code);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < n; i++)
		code[i] = (struct sock_filter){ BPF_LD | BPF_IMM, 0, 0, 0 };
	code[n - 1] = (struct sock_filter){ BPF_RET | BPF_A, 0, 0, 0 };
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	rc = setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog));
	rc = rc ? -errno : 0;
	close(fd);
	free(code);
	return rc;
}

void probe_steering(struct finding *f)
{
	int rc = try_program(4);

	if (rc)
		finding(f, LIMITED,
			"with several processes on the port most"
			" packets are forwarded between them",
			"", "no SO_REUSEPORT with a BPF program: %s", strerror(-rc));
	else
		finding(f, OK, "", "", "SO_REUSEPORT, steered by a BPF program");
}

/* A program for every one of 1022 slots has some 2050 instructions. */
void probe_optmem(struct finding *f)
{
	long max = probe_number("/proc/sys/net/core/optmem_max");
	char size[32] = "not shown here";
	unsigned n = 2050;

	if (max >= 0)
		snprintf(size, sizeof(size), "%ld bytes", max);
	while (n > 2 && try_program(n) == -ENOMEM)
		n -= n / 8 + 1;
	if (n == 2050)
		finding(f, OK, "", "", "%s: room to steer every slot", size);
	else
		finding(f, LIMITED,
			"with more processes than that, packets of"
			" the least busy ones are forwarded",
			"sysctl net.core.optmem_max=131072",
			"%s: room to steer about %u processes", size, n / 2);
}

static void probe_offload(struct finding *f, int opt, const char *cost)
{
	int fd = udp(AF_INET), v = opt == UDP_GRO ? 1 : 1000;

	if (fd >= 0 && setsockopt(fd, IPPROTO_UDP, opt, &v, sizeof(v)) == 0)
		finding(f, OK, "", "", "available");
	else
		finding(f, MISSING, cost, "use Linux 5.0 or newer", "%s",
			strerror(errno));
	if (fd >= 0)
		close(fd);
}

void probe_gso(struct finding *f)
{
	probe_offload(f, UDP_SEGMENT,
		      "one system call for each packet sent:"
		      " a tenth of the throughput");
}

void probe_gro(struct finding *f)
{
	probe_offload(f, UDP_GRO,
		      "one packet at a time is received: a fraction"
		      " of the throughput");
}

static void probe_buffer(struct finding *f, int opt, const char *sysctl, const char *cost,
			 const char *todo)
{
	int fd = udp(AF_INET), v = WANT_BUFFER, got = 0;
	socklen_t len = sizeof(got);

	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, opt, &v, sizeof(v));
		getsockopt(fd, SOL_SOCKET, opt, &got, &len);
		close(fd);
	}
	got /= 2; /* the kernel doubles the value for its own needs */
	if (got >= WANT_BUFFER)
		finding(f, OK, "", "", "%d KiB", got / 1024);
	else
		finding(f, LIMITED, cost, todo, "%d KiB at most (%s)", got / 1024,
			sysctl);
}

void probe_rcvbuf(struct finding *f)
{
	probe_buffer(f, SO_RCVBUF, "net.core.rmem_max",
		     "fewer packets in flight"
		     " from all peers together: less throughput where many send to"
		     " one",
		     "sysctl net.core.rmem_max=4194304");
}

void probe_sndbuf(struct finding *f)
{
	probe_buffer(f, SO_SNDBUF, "net.core.wmem_max",
		     "fewer packets queued:"
		     " less throughput with many peers",
		     "sysctl net.core.wmem_max=4194304");
}

void probe_raw(struct finding *f)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));

	if (fd < 0) {
		finding(f, LIMITED,
			"URNIC_LINK=raw opens no device, and programs that send Ethernet"
			" frames (IBV_QPT_RAW_PACKET, perftest's raw_ethernet_*) get EPERM",
			"nothing: RoCE v2 and iWARP need no privilege; else CAP_NET_RAW,"
			" as root, in `unshare -Urn' or in a container that has it",
			"no packet sockets: %s", strerror(errno));
		return;
	}
	close(fd);
	finding(f, OK, "", "",
		"packet sockets work (URNIC_LINK=raw, IBV_QPT_RAW_PACKET)");
}

void probe_interfaces(struct finding *f)
{
	char lo[IF_NAMESIZE], other[IF_NAMESIZE];
	struct ifaddrs *all = NULL, *a;
	int up = 0, loop = 0;

	if (getifaddrs(&all) == 0) {
		for (a = all; a; a = a->ifa_next) {
			int family = a->ifa_addr ? a->ifa_addr->sa_family : 0;

			if ((family != AF_INET && family != AF_INET6) ||
			    !(a->ifa_flags & IFF_UP))
				continue;
			if (a->ifa_flags & IFF_LOOPBACK)
				loop++;
			else
				up++;
		}
		freeifaddrs(all);
	}
	if (up && loopback_left_out(lo, other))
		finding(f, OK, "", "",
			"addresses: %d, of loopback: %d; the device of %s is left out,"
			" URNIC_DEVICES=%s,%s lists it, too",
			up + loop, loop, lo, other, lo);
	else if (up)
		finding(f, OK, "", "", "addresses: %d, of loopback: %d", up + loop, loop);
	else if (loop)
		finding(f, LIMITED, "only programs of this host reach each other",
			"give an interface an address", "loopback only");
	else
		finding(f, MISSING, "there is no device", "ip link set lo up",
			"no interface is up and has an address");
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* netns_testing.h - for unit tests: a network namespace of the test's own, with lo up.
 * Root makes it directly, any other user inside a user namespace. */
#ifndef SYS_NETNS_TESTING_H
#define SYS_NETNS_TESTING_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline bool netns_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static inline bool netns_lo_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	ok = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &ifr) == 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Gives lo one more IPv4 address; n tells several apart. */
static inline bool netns_lo_address(const char *ip, unsigned n)
{
	struct ifreq ifr = { 0 };
	struct sockaddr_in a = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "lo:%u", n);
	inet_pton(AF_INET, ip, &a.sin_addr);
	memcpy(&ifr.ifr_addr, &a, sizeof(a));
	ok = fd >= 0 && ioctl(fd, SIOCSIFADDR, &ifr) == 0;
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Makes an Ethernet interface that leads nowhere; IPv6 addresses on it skip duplicate
 * detection if /proc allows that.  It exists as long as the descriptor.  Returns -1 after
 * printing the reason, if there is no /dev/net/tun. */
static inline int netns_tap(const char *name)
{
	struct ifreq ifr = { 0 };
	int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	netns_write("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	ifr.ifr_flags = IFF_TAP | IFF_NO_PI;
	if (tap >= 0 && fd >= 0 && ioctl(tap, TUNSETIFF, &ifr) == 0) {
		ifr.ifr_flags = IFF_UP | IFF_RUNNING | IFF_MULTICAST | IFF_BROADCAST;
		if (ioctl(fd, SIOCSIFFLAGS, &ifr) == 0) {
			close(fd);
			return tap;
		}
	}
	fprintf(stderr, "SKIPPED: no tap interface here: %s\n", strerror(errno));
	if (tap >= 0)
		close(tap);
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Reads the next frame that leaves by the tap.  Returns its length; 0: none within
 * wait_ms. */
static inline size_t netns_tap_read(int tap, void *frame, size_t size, int wait_ms)
{
	struct pollfd p = { .fd = tap, .events = POLLIN };
	ssize_t n = poll(&p, 1, wait_ms) == 1 ? read(tap, frame, size) : 0;

	return n > 0 ? (size_t)n : 0;
}

/* Pins the thread to its present processor.  A processor takes in the packets that it
 * sends over lo itself, in order. */
static inline bool netns_stay(void)
{
	cpu_set_t here;
	unsigned cpu = (unsigned)sched_getcpu();

	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	return sched_setaffinity(0, sizeof(here), &here) == 0;
}

/* After netns_stay(): when this returns true, everything sent over lo before has arrived,
 * since a datagram sent behind it has. */
static inline bool netns_arrived(void)
{
	static int fd = -1;
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);
	char byte = 0;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0) {
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (bind(fd, (struct sockaddr *)&a, len) ||
		    getsockname(fd, (struct sockaddr *)&a, &len) ||
		    connect(fd, (struct sockaddr *)&a, len))
			return false;
	}
	return send(fd, &byte, 1, 0) == 1 && recv(fd, &byte, 1, 0) == 1;
}

/* Returns false after printing the reason, if the system refuses: skip the test. */
static inline bool netns_enter(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWNET) == 0)
		return netns_lo_up();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
		fprintf(stderr, "SKIPPED: no network namespace of one's own here: %s\n",
			strerror(errno));
		return false;
	}
	netns_write("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	netns_write("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	netns_write("/proc/self/gid_map", map);
	return netns_lo_up();
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Which device belongs to an interface when names and indices change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "driver/nic.h"
#include "driver/registry.h"
#include "sys/netns_testing.h"
#include "verbs/netport.h"

static bool have_netns;

static uint32_t set(const char *name, unsigned long request, struct ifreq *ifr)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "%s", name);
	assert_int_equal(ioctl(fd, request, ifr), 0);
	close(fd);
	return if_nametoindex(name);
}

/* Makes an interface with an address. It exists until the returned descriptor is
 * closed. */
static int make(const char *name, const char *ip)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct ifreq ifr = { 0 };
	int tap = have_netns ? netns_tap(name) : -1;

	if (tap < 0)
		skip();
	inet_pton(AF_INET, ip, &a.sin_addr);
	memcpy(&ifr.ifr_addr, &a, sizeof(a));
	set(name, SIOCSIFADDR, &ifr);
	return tap;
}

static void rename_to(const char *from, const char *to)
{
	struct ifreq ifr = { .ifr_flags = 0 };

	/* Older kernels rename an interface only while it is down. */
	set(from, SIOCSIFFLAGS, &ifr);
	snprintf(ifr.ifr_newname, sizeof(ifr.ifr_newname), "%s", to);
	set(from, SIOCSIFNAME, &ifr);
	ifr.ifr_flags = IFF_UP | IFF_RUNNING;
	set(to, SIOCSIFFLAGS, &ifr);
}

/* Returns the name of the device that is listed for an interface, or how many there are
 * ("none", "several"). */
static const char *device_of_netdev(const char *netdev)
{
	static char name[IBV_SYSFS_NAME_MAX];
	struct device **v;
	int n, found = 0;

	assert_int_equal(nic_devices(&v, &n), 0);
	for (int i = 0; i < n; i++) {
		if (strcmp(net_device_of(v[i])->net.name, netdev))
			continue;
		found++;
		assert_int_equal(net_device_of(v[i])->net.ifindex,
				 if_nametoindex(netdev));
		snprintf(name, sizeof(name), "%s", v[i]->ibv.name);
	}
	free(v);
	return found == 1 ? name : found ? "several" : "none";
}

static void a_renamed_one_keeps_its_device(void **state)
{
	int tap = make("ra0", "10.9.1.1");

	(void)state;
	assert_string_equal(device_of_netdev("ra0"), "roce_ra0");
	rename_to("ra0", "rb0");
	assert_string_equal(device_of_netdev("rb0"), "roce_ra0");
	assert_string_equal(device_of_netdev("ra0"), "none");
	close(tap);
	assert_string_equal(device_of_netdev("rb0"), "none");
}

static void who_gets_its_name_is_another_device(void **state)
{
	int one = make("sa0", "10.9.2.1"), two;
	char name[64];

	(void)state;
	assert_string_equal(device_of_netdev("sa0"), "roce_sa0");
	rename_to("sa0", "sb0");
	two = make("sa0", "10.9.2.2");
	snprintf(name, sizeof(name), "roce_sa0_%u", if_nametoindex("sa0"));
	assert_string_equal(device_of_netdev("sa0"), name);
	assert_string_equal(device_of_netdev("sb0"), "roce_sa0");
	/* The same when several renamings happened between two looks. */
	rename_to("sb0", "sc0");
	rename_to("sa0", "sb0");
	rename_to("sc0", "sa0");
	assert_string_equal(device_of_netdev("sa0"), "roce_sa0");
	assert_string_equal(device_of_netdev("sb0"), name);
	close(one);
	close(two);
}

static void one_that_is_made_anew_gets_its_device(void **state)
{
	int tap = make("ta0", "10.9.3.1");

	(void)state;
	assert_string_equal(device_of_netdev("ta0"), "roce_ta0");
	close(tap);
	tap = make("ta0", "10.9.3.1"); /* the registry has not looked in between */
	assert_string_equal(device_of_netdev("ta0"), "roce_ta0");
	close(tap);
	assert_string_equal(device_of_netdev("ta0"), "none");
	tap = make("ta0", "10.9.3.1");
	assert_string_equal(device_of_netdev("ta0"), "roce_ta0");
	close(tap);
}

/* Loopback's device is listed while there is no other. One that a program may have opened
 * stays the same. */
static void loopback_has_one_while_it_is_alone(void **state)
{
	char first[64];
	int tap;

	(void)state;
	if (!have_netns)
		skip();
	snprintf(first, sizeof(first), "%s", device_of_netdev("lo"));
	assert_string_equal(first, "roce_lo");
	tap = make("ua0", "10.9.4.1");
	assert_string_equal(device_of_netdev("ua0"), "roce_ua0");
	assert_string_equal(device_of_netdev("lo"), "none");
	close(tap);
	assert_string_equal(device_of_netdev("lo"), first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_renamed_one_keeps_its_device),
		cmocka_unit_test(who_gets_its_name_is_another_device),
		cmocka_unit_test(one_that_is_made_anew_gets_its_device),
		cmocka_unit_test(loopback_has_one_while_it_is_alone),
	};

	have_netns = netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

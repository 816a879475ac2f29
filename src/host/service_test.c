/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "host/msg.h"
#include "host/service.h"
#include "net/ip_addr.h"

static unsigned taken;
static struct dgram last;
static uint8_t bytes[512];

static void on_datagram(void *arg, const struct dgram *d)
{
	(void)arg;
	taken++;
	last = *d;
	memcpy(bytes, d->iov[0].iov_base, d->len);
}

static void on_gone(void *arg, uint16_t slot)
{
	(void)arg;
	(void)slot;
}

static const struct host_ops ops = { .datagram = on_datagram, .gone = on_gone };

static void make_name(char name[64], const char *what)
{
	snprintf(name, 64, "urnic/test/%d/%s", (int)getpid(), what);
}

static void make_dgram(struct dgram *d, void *payload, uint32_t len)
{
	*d = (struct dgram){ .len = len, .iovcnt = 1, .ip_id = -1 };
	ip_of(d)->tclass = 3;
	d->one = (struct iovec){ payload, len };
	d->iov = &d->one;
	ip_of(d)->from.port = 77;
}

static void a_datagram_finds_the_name(void **state)
{
	char name[64], what[] = "abcdefgh";
	struct host *a, *b;
	struct service *s;
	struct dgram d;

	(void)state;
	make_name(name, "finds");
	assert_int_equal(host_open(&a, &ops, NULL), 0);
	assert_int_equal(host_open(&b, &ops, NULL), 0);
	make_dgram(&d, what, 8);
	assert_int_equal(service_send(b, name, &d), -ESRCH);
	assert_false(service_exists(name));
	assert_int_equal(service_bind(a, name, &s), 0);
	assert_true(service_exists(name));
	taken = 0;
	assert_int_equal(service_send(b, name, &d), 0);
	host_run(a);
	assert_int_equal(taken, 1);
	assert_int_equal(last.len, 8);
	assert_int_equal(ip_of(&last)->from.port, 77);
	assert_false(last.mad);
	assert_memory_equal(bytes, what, 8);
	service_close(s);
	assert_int_equal(service_send(b, name, &d), -ESRCH);
	assert_false(service_exists(name));
	host_close(a);
	host_close(b);
}

static void a_name_has_one_owner(void **state)
{
	struct service *s, *t, *u;
	struct host *a, *b;
	char name[64], other[64];

	(void)state;
	make_name(name, "one");
	make_name(other, "two");
	assert_int_equal(host_open(&a, &ops, NULL), 0);
	assert_int_equal(host_open(&b, &ops, NULL), 0);
	assert_int_equal(service_bind(a, name, &s), 0);
	assert_int_equal(service_bind(b, name, &t), -EADDRINUSE);
	assert_int_equal(service_bind(a, name, &t), -EADDRINUSE);
	assert_int_equal(service_bind(b, other, &u), 0);
	service_close(s);
	assert_int_equal(service_bind(b, name, &t), 0);
	service_close(t);
	service_close(u);
	host_close(a);
	host_close(b);
}

static void send_raw(const char *name, const void *buf, size_t len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	memcpy(a.sun_path + 1, name, n);
	assert_true(sendto(fd, buf, len, 0, (struct sockaddr *)&a,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) >=
		    0);
	close(fd);
}

static void garbage_is_refused(void **state)
{
	static uint8_t big[4096];
	struct service *s;
	struct host *a;
	char name[64];

	(void)state;
	make_name(name, "garbage");
	assert_int_equal(host_open(&a, &ops, NULL), 0);
	assert_int_equal(service_bind(a, name, &s), 0);
	taken = 0;
	send_raw(name, "x", 1);
	send_raw(name, "", 0);
	memset(big, 0xff, sizeof(big));
	send_raw(name, big, sizeof(big));
	send_raw(name, big, 100);
	host_run(a);
	assert_int_equal(taken, 0);
	assert_int_equal(host_stats(a)->refused, 4);
	service_close(s);
	host_close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_datagram_finds_the_name),
		cmocka_unit_test(a_name_has_one_owner),
		cmocka_unit_test(garbage_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

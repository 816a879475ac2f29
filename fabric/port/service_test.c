/* SPDX-License-Identifier: BSD-2-Clause */
/* Services of connection management, and addresses, in the fabric's directory. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "fabric/port/serving_testing.h"

static const char topology[] =
	"Switch 4 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[1]\n\nCa 1 \"H-a\"\n\nCa 1 "
	"\"H-b\"\n";

enum { SERVICE = 0x01061c36, SLOT = 5 };

static int start(void **state)
{
	(void)state;
	begin_to_serve(topology, NULL);
	return 0;
}

static int serve_it(const char *hca, uint32_t slot, uint64_t service)
{
	return plug_service(name, hca, 1, slot, service);
}

static void a_service_is_one_programs(void **state)
{
	int fd = serve_it("a", SLOT, SERVICE), other;

	(void)state;
	assert_true(fd > 2);
	assert_int_equal(serve_it("a", SLOT + 1, SERVICE), -EADDRINUSE);
	other = serve_it("a", SLOT + 1, SERVICE + 1);
	assert_true(other >= 0);
	close(other);
	other = serve_it("b", SLOT + 1, SERVICE); /* at another adapter */
	assert_true(other >= 0);
	close(other);
	other = serve_it("a", SLOT, SERVICE); /* of the same program */
	assert_true(other >= 0);
	close(fd);
	assert_int_equal(serve_it("a", SLOT + 1, SERVICE), -EADDRINUSE);
	close(other);
	/* The fabric sees the end of the first connection before the next one begins. */
	fd = serve_it("a", SLOT + 1, SERVICE);
	assert_true(fd >= 0);
	close(fd);
}

static void wrong_ones(void **state)
{
	struct pollfd p = { .events = POLLIN };
	char byte = 0;

	(void)state;
	assert_int_equal(serve_it("a", 0, SERVICE), -EINVAL);
	assert_int_equal(serve_it("a", 1024, SERVICE), -EINVAL);
	assert_int_equal(serve_it("c", SLOT, SERVICE), -ENODEV);
	p.fd = serve_it("a", SLOT, SERVICE);
	assert_true(p.fd >= 0);
	assert_int_equal(send(p.fd, &byte, 1, 0), 1); /* no message is valid here */
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(recv(p.fd, &byte, 1, 0), 0);
	close(p.fd);
}

static int find(const char *text, uint8_t gid[16])
{
	uint8_t ip[16];

	assert_int_equal(inet_pton(AF_INET6, text, ip), 1);
	return plug_find(name, "a", 1, ip, gid);
}

static void addresses(void **state)
{
	struct plug_port port;
	uint8_t gid[16], same[16];
	char text[INET6_ADDRSTRLEN];

	(void)state;
	assert_int_equal(plug_port(name, "b", 1, &port), 0);
	assert_int_equal(port.address & 0xff00ffff, 0x7f000002);
	snprintf(text, sizeof(text), "::ffff:%u.%u.0.2", port.address >> 24,
		 port.address >> 16 & 255);
	assert_int_equal(find(text, gid), 0);
	assert_int_equal(gid[0], 0xfe);
	assert_int_equal(gid[15], port.guid & 0xff);
	inet_ntop(AF_INET6, gid, text, sizeof(text));
	assert_int_equal(find(text, same), 0);
	assert_memory_equal(gid, same, 16);
	assert_int_equal(find("::ffff:192.0.2.1", gid), -EHOSTUNREACH);
	assert_int_equal(find("::ffff:0.0.0.0", gid), -EHOSTUNREACH);
	assert_int_equal(find("fe80::", gid), -EHOSTUNREACH);
	assert_int_equal(find("::", gid), -EHOSTUNREACH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_service_is_one_programs, start, end),
		cmocka_unit_test_setup_teardown(wrong_ones, start, end),
		cmocka_unit_test_setup_teardown(addresses, start, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

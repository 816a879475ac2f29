/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <string.h>
#include <cmocka.h>

#include "sys/addr.h"
#include "sys/sockaddr.h"

struct row {
	const char *text;
	int family;
	socklen_t len;
	uint32_t scope;
};

static const struct row rows[] = {
	{ "192.0.2.7", AF_INET, sizeof(struct sockaddr_in), 0 },
	{ "2001:db8::7", AF_INET6, sizeof(struct sockaddr_in6), 0 },
	{ "fe80::7", AF_INET6, sizeof(struct sockaddr_in6), 3 },
	{ "febf::7", AF_INET6, sizeof(struct sockaddr_in6), 3 },
	{ "fec0::7", AF_INET6, sizeof(struct sockaddr_in6), 0 },
};

/* Converted there and back, and as the C library reads them. */
static void every_address(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i];
		uint8_t raw[16], ip[16], back[16];
		struct sockaddr_storage a;
		struct sockaddr *sa = (struct sockaddr *)&a;

		assert_int_equal(inet_pton(r->family, r->text, raw), 1);
		if (r->family == AF_INET)
			addr_map_v4(ip, raw);
		else
			memcpy(ip, raw, 16);
		assert_int_equal(addr_is_v4(ip), r->family == AF_INET);
		assert_int_equal(sockaddr_set(&a, ip, 4791, 3), r->len);
		assert_int_equal(sa->sa_family, r->family);
		assert_int_equal(sockaddr_len(sa), r->len);
		assert_int_equal(sockaddr_port(sa), 4791);
		assert_int_equal(sockaddr_scope(sa), r->scope);
		sockaddr_ip(sa, back);
		assert_memory_equal(back, ip, 16);
		sockaddr_set_port(sa, 7);
		assert_int_equal(sockaddr_port(sa), 7);
	}
	assert_int_equal(sockaddr_len(&(struct sockaddr){ .sa_family = AF_UNIX }), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_address) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

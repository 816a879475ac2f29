/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "net/ip_addr.h"
#include "net/link_testing.h"
#include "net/parcel.h"
#include "sys/guard.h"

static void pieces_become_one(void **state)
{
	struct test_dgram t;
	struct parcel *p = parcel_make(test_dgram(&t, "urnic", 5));
	struct dgram v;

	(void)state;
	assert_non_null(p);
	memset(t.bytes, 0, sizeof(t.bytes));
	parcel_show(p, &v);
	assert_int_equal(v.iovcnt, 1);
	assert_ptr_equal(v.iov, &v.one);
	assert_int_equal(v.one.iov_len, 5);
	assert_memory_equal(v.one.iov_base, "urnic", 5);
	assert_int_equal(ip_of(&v)->to.port, 4791);
	free(p);
}

static void unmapped_payload_is_an_error(void **state)
{
	struct test_dgram t;
	struct dgram d = *test_dgram(&t, "urnic", 5);
	uint8_t to[8];
	void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(hole, MAP_FAILED);
	guard_arm();
	t.iov[1].iov_base = hole;
	assert_int_equal(dgram_flatten(to, &d), -EFAULT);
	assert_null(parcel_make(&d));
	munmap(hole, 4096);
}

static void no_more_than_len_bytes_are_touched(void **state)
{
	struct test_dgram t;
	struct dgram d = *test_dgram(&t, "urnic", 5);
	uint8_t to[8] = { 0 };

	(void)state;
	d.len = 3; /* pieces are longer */
	assert_int_equal(dgram_flatten(to, &d), 0);
	assert_memory_equal(to, "urn\0\0\0\0", 8);
	d.len = 7; /* pieces are shorter */
	memset(to, 0xee, sizeof(to));
	assert_int_equal(dgram_flatten(to, &d), 0);
	assert_memory_equal(to, "urnic\0\0\xee", 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_become_one),
		cmocka_unit_test(unmapped_payload_is_an_error),
		cmocka_unit_test(no_more_than_len_bytes_are_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

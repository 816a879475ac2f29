/* SPDX-License-Identifier: BSD-2-Clause */
/* A value without a file has its default; a value out of bounds is clamped. */
#include "rsocket/defaults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/urnic-defaults-XXXXXX";

/* clang-format off */
static const char *const names[] = {
	"mem_default", "wmem_default", "sqsize_default", "rqsize_default",
	"inline_default", "iomap_size", "polling_time",
};
/* clang-format on */

enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void write_all(const char *text)
{
	for (int i = 0; i < NAMES; i++) {
		char path[100];
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		f = fopen(path, "w");
		assert_non_null(f);
		fputs(text, f);
		fclose(f);
	}
}

static int begin(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	for (int i = 0; i < NAMES; i++) {
		char path[100];

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

static void without_files(void **state)
{
	struct rsock_defaults d;

	(void)state;
	rsock_defaults_read("/nonexistent", &d);
	assert_int_equal(d.sizes.rcvbuf, 1 << 17);
	assert_int_equal(d.sizes.sndbuf, 1 << 17);
	assert_int_equal(d.sizes.sq, 384);
	assert_int_equal(d.sizes.rq, 384);
	assert_int_equal(d.sizes.inline_size, 64);
	assert_int_equal(d.sizes.iomaps, 0);
	assert_int_equal(d.polling_us, 10);
	assert_non_null(rsock_defaults());
	assert_ptr_equal(rsock_defaults(), rsock_defaults());
}

static void with_files(void **state)
{
	struct rsock_defaults d;

	(void)state;
	write_all("200\n");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, 200);
	assert_int_equal(d.sizes.sndbuf, 200);
	assert_int_equal(d.sizes.sq, 200);
	assert_int_equal(d.sizes.rq, 200);
	assert_int_equal(d.sizes.inline_size, 200);
	assert_int_equal(d.sizes.iomaps, 200);
	assert_int_equal(d.polling_us, 200);
}

static void out_of_bounds(void **state)
{
	struct rsock_defaults d;

	(void)state;
	write_all("0");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, 2);
	assert_int_equal(d.sizes.sndbuf, 1);
	assert_int_equal(d.sizes.sq, 2);
	assert_int_equal(d.sizes.rq, 2);
	write_all("4294967295");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, RSOCK_BUFFER_MAX);
	assert_int_equal(d.sizes.sq, RSOCK_QUEUE_MAX);
	assert_int_equal(d.sizes.inline_size, RSOCK_INLINE_MAX);
	assert_int_equal(d.sizes.iomaps, RSOCK_IOMAPS_MAX);
	assert_int_equal(d.polling_us, 1000000);
}

static void no_number(void **state)
{
	struct rsock_defaults d;

	(void)state;
	write_all("much");
	rsock_defaults_read(folder, &d);
	assert_int_equal(d.sizes.rcvbuf, 1 << 17);
	assert_int_equal(d.polling_us, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_files),
		cmocka_unit_test(with_files),
		cmocka_unit_test(out_of_bounds),
		cmocka_unit_test(no_number),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

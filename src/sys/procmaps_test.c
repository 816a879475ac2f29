/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sys/fd.h"
#include "sys/procmaps.h"

enum { PAGE = 4096 };

static const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;

static bool all(const uint8_t *p, size_t pages)
{
	return mapped_all((uintptr_t)p, (uintptr_t)p + pages * PAGE);
}

/* ... if the list of mappings cannot be opened. */
static bool all_blind(const uint8_t *p, size_t pages)
{
	struct rlimit was, none;
	bool is;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	is = all(p, pages);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	return is;
}

static void put(uint8_t *at, size_t pages, int prot)
{
	assert_ptr_equal(mmap(at, pages * PAGE, prot, anonymous | MAP_FIXED, -1, 0), at);
}

/* A hole in each place, in ranges of as many pages as each way of looking takes. */
static void no_page_may_lack(void **state)
{
	const size_t lengths[] = { 3, 4, 1024, 1025, 2050, 5000 };

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const size_t n = lengths[i], places[] = { 1, n / 2, n - 2 };
		uint8_t *p = mmap(NULL, n * PAGE, PROT_READ, anonymous, -1, 0);

		assert_ptr_not_equal(p, MAP_FAILED);
		for (size_t j = 0; j < 3; j++) {
			uint8_t *at = p + places[j] * PAGE;

			assert_true(all(p, n));
			assert_true(all_blind(p, n));
			munmap(at, PAGE);
			assert_false(all(p, n));
			assert_false(all_blind(p, n));
			put(at, 1, PROT_READ);
		}
		munmap(p, n * PAGE);
	}
}

/* Several mappings, of any protection, and of files with holes. */
static void what_is_mapped_may_be_of_any_kind(void **state)
{
	const size_t n = 3000;
	uint8_t *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, anonymous, -1, 0);
	int fd = fd_memory("procmaps_test", (uint64_t)n * PAGE);

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_true(fd >= 0);
	put(p + PAGE, 500, PROT_NONE);
	put(p + 600 * PAGE, 1, PROT_READ);
	assert_ptr_equal(mmap(p + 700 * PAGE, 2000 * PAGE, PROT_READ,
			      MAP_SHARED | MAP_FIXED, fd, 0),
			 p + 700 * PAGE);
	close(fd);
	assert_true(all(p, n));
	assert_true(all_blind(p, n));
	assert_true(all(p + PAGE, 3));
	assert_true(all(p + 700 * PAGE, 1000));
	munmap(p, n * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_page_may_lack),
		cmocka_unit_test(what_is_mapped_may_be_of_any_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

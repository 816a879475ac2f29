/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/guard.h"
#include "sys/pinned.h"

enum { PAGE = 4096, RW = PROT_READ | PROT_WRITE };

static volatile unsigned faults; /* that the program's handler saw */
static uint8_t data[4 * PAGE];

static void on_fault(int sig)
{
	faults++;
	signal(sig, SIG_DFL);
}

static void begin(void) /* in each test, since cmocka installs its handler there */
{
	signal(SIGSEGV, on_fault);
	guard_arm();
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 13 + i / 256);
}

static uint8_t *map(unsigned n, int flags, int fd)
{
	void *p = mmap(NULL, n * PAGE, RW, flags, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static uint8_t *anonymous(unsigned n)
{
	return map(n, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static int file(unsigned n)
{
	int fd = memfd_create("pinned", 0);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, n * PAGE), 0);
	return fd;
}

static void protect(uint8_t *p, unsigned n, int prot)
{
	assert_int_equal(mprotect(p, n * PAGE, prot), 0);
}

/* pinned_write() succeeds: nothing around changes, nor does the protection, and the
 * program's handler is not called. */
static void takes(uint8_t *p, unsigned n)
{
	static const size_t lens[] = { 1, 8, 63, 64, 65, 1000, PAGE, 2 * PAGE - 200 };

	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		size_t len = lens[i], off = 100 + i;
		uint8_t before = p[off - 1], after = p[off + len];

		if (off + len >= n * PAGE)
			continue;
		assert_int_equal(guard_copy(p + off, data + i, len), -EFAULT);
		assert_int_equal(pinned_write(p + off, data + i, len), 0);
		assert_memory_equal(p + off, data + i, len);
		assert_int_equal(p[off - 1], before);
		assert_int_equal(p[off + len], after);
	}
	assert_int_equal(guard_copy(p + 200, data, 8), -EFAULT);
	assert_int_equal(faults, 0);
}

static void refuses(uint8_t *p, size_t n)
{
	assert_int_equal(pinned_write(p, data, n), -EFAULT);
	assert_int_equal(faults, 0);
}

static void private_memory_takes_it(void **state)
{
	uint8_t *p = anonymous(3);

	(void)state;
	begin();
	memset(p, 1, 2 * PAGE); /* the third page has no memory yet */
	protect(p, 3, PROT_READ);
	takes(p, 3);
	assert_int_equal(pinned_write(p + 2 * PAGE, data, PAGE), 0);
	assert_memory_equal(p + 2 * PAGE, data, PAGE);
	munmap(p, 3 * PAGE);
}

/* The second mapping of the memory shows the write, too. */
static void shared_memory_takes_it(void **state)
{
	int fd = file(3);
	uint8_t *p = map(3, MAP_SHARED, fd), *other = map(3, MAP_SHARED, fd);

	(void)state;
	begin();
	protect(p, 3, PROT_READ);
	takes(p, 3);
	assert_memory_equal(p, other, 3 * PAGE);
	munmap(p, 3 * PAGE);
	munmap(other, 3 * PAGE);
	close(fd);
	p = map(3, MAP_SHARED | MAP_ANONYMOUS, -1);
	protect(p, 3, PROT_READ);
	takes(p, 3);
	munmap(p, 3 * PAGE);
}

static void what_is_read_only_stays_so(void **state)
{
	int fd = file(2), ro;
	char path[64];
	uint8_t *p;

	(void)state;
	begin();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	assert_true(ro >= 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, ro, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	refuses(p, 8);
	munmap(p, 2 * PAGE);
	p = map(2, MAP_PRIVATE, ro); /* as a library is mapped */
	protect(p, 2, PROT_READ);
	refuses(p, 8);
	munmap(p, 2 * PAGE);
	close(ro);
	close(fd);
	refuses((uint8_t *)(uintptr_t)what_is_read_only_stays_so, 8);
}

static void what_is_not_there_takes_nothing(void **state)
{
	uint8_t *p = anonymous(3);

	(void)state;
	begin();
	protect(p, 1, PROT_NONE);
	refuses(p, 8);
	protect(p, 1, PROT_READ);
	protect(p + PAGE, 1, PROT_NONE);
	refuses(p + PAGE - 8, 16);
	munmap(p + PAGE, PAGE);
	refuses(p + PAGE, 8);
	refuses(p + PAGE - 8, 16);
	refuses(p + PAGE, 2 * PAGE);
	refuses((uint8_t *)(uintptr_t)(0xdeadull << 48), 8);
	munmap(p, 3 * PAGE);
}

static void across_mappings(void **state)
{
	int fd = file(1);
	uint8_t *p = anonymous(4);

	(void)state;
	begin();
	protect(p, 1, PROT_READ);
	assert_ptr_equal(mmap(p + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_FIXED, fd, 0),
			 p + 2 * PAGE);
	protect(p + 2 * PAGE, 1, PROT_READ);
	assert_int_equal(pinned_write(p + 10, data, 4 * PAGE - 20), 0);
	assert_memory_equal(p + 10, data, 4 * PAGE - 20);
	assert_int_equal(faults, 0);
	munmap(p, 4 * PAGE);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(private_memory_takes_it),
		cmocka_unit_test(shared_memory_takes_it),
		cmocka_unit_test(what_is_read_only_stays_so),
		cmocka_unit_test(what_is_not_there_takes_nothing),
		cmocka_unit_test(across_mappings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* memory_testing.h - for unit tests: memory that gives faults. */
#ifndef SYS_MEMORY_TESTING_H
#define SYS_MEMORY_TESTING_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#define TSAN __has_feature(thread_sanitizer)
#else
#define TSAN 0
#endif

enum { PAGE = 4096 };

static inline uint8_t *pages(int n, int prot)
{
	void *p = mmap(NULL, (size_t)n * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static inline uint8_t *hole(void)
{
	uint8_t *p = pages(1, PROT_READ);

	munmap(p, PAGE);
	return p;
}

/* This thread's handlers get a stack as large as programs have: ASan gives them a small
 * one. Returns that one. */
static inline stack_t large_stack(void)
{
	static uint8_t room[256 << 10];
	const stack_t large = { .ss_sp = room, .ss_size = sizeof(room) };
	stack_t was;

	assert_int_equal(sigaltstack(&large, &was), 0);
	return was;
}

/* A file of one page mapped as two: the second gives SIGBUS. */
static inline uint8_t *short_file(void)
{
	int fd = memfd_create("short", 0);
	void *p;

	assert_int_equal(ftruncate(fd, PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	return (uint8_t *)p + PAGE;
}

#endif

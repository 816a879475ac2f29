/* SPDX-License-Identifier: BSD-2-Clause */
/* ward_test.c - pages that are protected, and what opens them. */
#include "check/ward.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "sys/guard.h"
#include "sys/inside.h"
#include "sys/memory_testing.h"

static uint8_t *at;
static struct ward_touch touch;
static unsigned touches;
static const struct ward_note one = { .wr_id = 1 }, two = { .wr_id = 2 };

static void note_touch(const struct ward_touch *t)
{
	touch = *t;
	touches++;
}

static int setup(void **state)
{
	(void)state;
	at = pages(8, PROT_READ | PROT_WRITE);
	touches = 0;
	memset(&touch, 0, sizeof(touch));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return munmap(at, 8 * PAGE);
}

static void write_to(unsigned offset)
{
	*(volatile uint8_t *)(at + offset) = 7;
	atomic_signal_fence(memory_order_seq_cst);
}

static uint8_t read_from(unsigned offset)
{
	const uint8_t byte = *(volatile uint8_t *)(at + offset);

	atomic_signal_fence(memory_order_seq_cst);
	return byte;
}

static struct ward *begin(unsigned from, unsigned len, bool reads,
			  const struct ward_note *note)
{
	return ward_begin((uintptr_t)at + from, len, reads, note, NULL);
}

/* Is the page shut to the kernel, which tells nobody? */
static bool is_shut(unsigned page, bool to_reads)
{
	int fd[2];
	uint8_t byte = 0;
	bool shut;

	assert_int_equal(pipe(fd), 0);
	assert_int_equal(write(fd[1], &byte, 1), 1);
	shut = to_reads ? write(fd[1], at + page * PAGE, 1) < 0
			: read(fd[0], at + page * PAGE, 1) < 0;
	close(fd[0]);
	close(fd[1]);
	return shut;
}

static void a_touch_is_told_of(void **state)
{
	struct ward *w = begin(0, 2 * PAGE, true, &one);

	(void)state;
	assert_non_null(w);
	assert_int_equal(read_from(PAGE + 5), 0);
	assert_int_equal(touches, 1);
	assert_int_equal(touch.note.wr_id, 1);
	assert_int_equal(touch.at, (uintptr_t)at + PAGE + 5);
	assert_false(touch.wrote);
	write_to(0); /* all of it is open now */
	assert_int_equal(touches, 1);
	ward_end(w);
	w = begin(0, 2 * PAGE, true, &two);
	write_to(0);
	assert_int_equal(touches, 2);
	assert_int_equal(touch.note.wr_id, 2);
#if defined(__x86_64__)
	assert_true(touch.wrote);
#endif
	ward_end(w);
	assert_false(is_shut(0, false));
}

static void what_is_sent_may_be_read(void **state)
{
	struct ward *w = begin(0, PAGE, false, &one);

	(void)state;
	assert_int_equal(read_from(0), 0);
	assert_int_equal(touches, 0);
	assert_false(is_shut(0, true));
	assert_true(is_shut(0, false));
	write_to(0);
	assert_int_equal(touches, 1);
	assert_true(touch.wrote);
	ward_end(w);
}

/* A page that the buffer has a part of has neighbours, which are the program's. */
static void whole_pages(void **state)
{
	struct ward *w = begin(PAGE / 2, 2 * PAGE, true, &one);

	(void)state;
	write_to(0);
	write_to(PAGE - 1);
	write_to(2 * PAGE);
	assert_int_equal(touches, 0);
	assert_true(is_shut(1, true));
	ward_end(w);
	assert_null(begin(1, PAGE, true, &one));
	assert_null(begin(0, PAGE - 1, true, &one));
	assert_null(begin(0, 0, true, &one));
}

static void two_requests(void **state)
{
	struct ward *a = begin(0, 2 * PAGE, true, &one), *b;

	(void)state;
	b = begin(PAGE, 2 * PAGE, true, &two);
	assert_true(is_shut(0, true));
	assert_false(is_shut(1, true)); /* which of them fills it? */
	assert_true(is_shut(2, true));
	ward_end(a);
	assert_false(is_shut(0, true));
	assert_false(is_shut(1, true));
	ward_end(b);
	a = begin(0, PAGE, false, &one);
	b = begin(0, PAGE, false, &two);
	assert_true(is_shut(0, false)); /* both only send it */
	ward_end(b);
	assert_true(is_shut(0, false));
	b = begin(0, PAGE, true, &two);
	assert_false(is_shut(0, false)); /* a READ fills it */
	ward_end(a);
	ward_end(b);
	assert_int_equal(touches, 0);
}

static void what_opens(void **state)
{
	struct ward *r = begin(0, PAGE, true, &one), *s = begin(PAGE, PAGE, false, &two);

	(void)state;
	ward_open_sends();
	assert_true(is_shut(0, false));
	assert_false(is_shut(1, false));
	ward_open((uintptr_t)at + PAGE, PAGE);
	assert_true(is_shut(0, false));
	ward_open((uintptr_t)at + PAGE - 1, 1);
	assert_false(is_shut(0, false));
	ward_end(r);
	ward_end(s);
}

/* urnic touches it: nothing is told, and its copies succeed. */
static void urnic_itself(void **state)
{
	struct ward *w = begin(0, PAGE, true, &one);
	uint8_t bytes[64] = { 3 };
	uint64_t orig;

	(void)state;
	assert_int_equal(guard_copy(at, bytes, sizeof(bytes)), 0);
	assert_int_equal(read_from(0), 3);
	ward_end(w);
	w = begin(0, PAGE, true, &one);
	assert_int_equal(guard_fetch_add((uint64_t *)(void *)(at + 64), 1, &orig), 0);
	ward_end(w);
	w = begin(0, PAGE, true, &one);
	inside_begin();
	write_to(0);
	inside_end();
	ward_end(w);
	assert_int_equal(touches, 0);
}

static void a_child_may_touch(void **state)
{
	struct ward *w = begin(0, PAGE, true, &one);
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		const bool open = !is_shut(0, true);

		write_to(0);
		_exit(open && !touches ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(is_shut(0, true));
	ward_end(w);
}

static void lie_down(int sig)
{
	(void)sig;
	_exit(5);
}

/* Memory that the program itself has protected is not ours to open. */
static void faults_of_the_program(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGSEGV, lie_down);
		guard_arm();
		mprotect(at, PAGE, PROT_NONE);
		write_to(0);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 5);
}

static void many_more_than_there_is_room_for(void **state)
{
	enum { WARDS = 8192, MORE = 100 };
	static struct ward *w[WARDS + MORE];
	unsigned n = 0;
	uint8_t *all = pages(2 * (WARDS + MORE), PROT_READ | PROT_WRITE);

	(void)state;
	for (unsigned i = 0; i < WARDS + MORE; i++) {
		w[i] = ward_begin((uintptr_t)all + 2ull * i * PAGE, PAGE, true, &one,
				  NULL);
		n += w[i] != NULL;
	}
	assert_int_equal(n, WARDS);
	for (unsigned i = 0; i < WARDS + MORE; i++)
		if (w[i])
			ward_end(w[i]);
	memset(all, 1, 2ul * (WARDS + MORE) * PAGE);
	assert_int_equal(touches, 0);
	munmap(all, 2ul * (WARDS + MORE) * PAGE);
}

static void after_the_stop(void **state)
{
	struct ward *w = begin(0, PAGE, true, &one);

	(void)state;
	ward_stop();
	assert_false(is_shut(0, true));
	ward_end(w);
	assert_null(begin(0, PAGE, true, &one));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_touch_is_told_of),
		TEST(what_is_sent_may_be_read),
		TEST(whole_pages),
		TEST(two_requests),
		TEST(what_opens),
		TEST(urnic_itself),
		TEST(a_child_may_touch),
		TEST(faults_of_the_program),
		TEST(many_more_than_there_is_room_for),
		TEST(after_the_stop), /* the last */
	};

	const stack_t was = large_stack();
	int failed;

	ward_start(note_touch);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	sigaltstack(&was, NULL);
	return failed;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* tally_test.c - counters of several processes add up by device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/tally.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/fd.h"
#include "verbs/core.h"

/* A name that no device of another test has. */
static char device[40], other[40];

struct end {
	struct core core;
	struct tally *tally;
};

static void open_end(struct end *e)
{
	*e = (struct end){ 0 };
	assert_int_equal(core_init(&e->core, 1), 0);
	assert_int_equal(ib_open(&e->core, 1), 0);
	e->tally = tally_open(&e->core);
	assert_non_null(e->tally);
}

static void close_end(struct end *e)
{
	ib_close(&e->core);
	tally_close(e->tally);
	core_fini(&e->core);
}

static uint64_t sum_of(const char *name, enum ib_counter c)
{
	struct tally_sum sums[2] = { { .device = "another" }, { .device = name } };

	tally_add_up(sums, 2);
	assert_int_equal(sums[0].sum[c], 0);
	return sums[1].sum[c];
}

static void devices_are_told_apart(void **state)
{
	struct end e;

	(void)state;
	open_end(&e);
	ib_counter_of(ib_of(&e.core), device)[IB_TX] += 5;
	ib_counter_of(ib_of(&e.core), other)[IB_TX] += 7;
	ib_counter_of(ib_of(&e.core), "")[IB_TX] += 11;
	assert_int_equal(sum_of(device, IB_TX), 5);
	assert_int_equal(sum_of(other, IB_TX), 7);
	assert_int_equal(ib_counter(&e.core, IB_TX), 23);
	close_end(&e);
	assert_int_equal(sum_of(device, IB_TX), 0);
}

/* A child that was forked has the parent's descriptors and counts nothing twice; one that
 * counts for itself adds to the sum until it ends. */
static void processes_add_up(void **state)
{
	int ready[2], go[2], status;
	struct end e;
	char c;
	pid_t pid;

	(void)state;
	open_end(&e);
	ib_counter_of(ib_of(&e.core), device)[IB_RX] += 3;
	assert_int_equal(pipe(ready) | pipe(go), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct end mine;

		open_end(&mine);
		ib_counter_of(ib_of(&mine.core), device)[IB_RX] += 4;
		_exit(write(ready[1], "x", 1) != 1 || read(go[0], &c, 1) != 1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(sum_of(device, IB_RX), 7);
	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(sum_of(device, IB_RX), 3);
	close_end(&e);
}

/* What calls itself so but is something else is not read. */
static void other_files_count_nothing(void **state)
{
	static const size_t sizes[] = { 1, 4096, 65536 };
	int fd[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		char *text = malloc(sizes[i]);

		assert_non_null(text);
		memset(text, 0xff, sizes[i]);
		fd[i] = fd_memory("urnic-counters", sizes[i]);
		assert_true(fd[i] >= 0);
		assert_int_equal(write(fd[i], text, sizes[i]), sizes[i]);
		free(text);
	}
	for (int c = 0; c < IB_COUNTERS; c++)
		assert_int_equal(sum_of(device, (enum ib_counter)c), 0);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

/* More devices than there is room for count as none's. */
static void there_is_an_end_of_devices(void **state)
{
	struct end e;
	char name[20];

	(void)state;
	open_end(&e);
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "many%d", i);
		ib_counter_of(ib_of(&e.core), name)[IB_TX]++;
	}
	assert_int_equal(ib_counter(&e.core, IB_TX), 40);
	close_end(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_are_told_apart),
		cmocka_unit_test(processes_add_up),
		cmocka_unit_test(other_files_count_nothing),
		cmocka_unit_test(there_is_an_end_of_devices),
	};

	snprintf(device, sizeof(device), "one%d", (int)getpid());
	snprintf(other, sizeof(other), "two%d", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}

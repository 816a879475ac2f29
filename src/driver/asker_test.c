/* SPDX-License-Identifier: BSD-2-Clause */
/* asker_test.c - answers that cannot be sent as they are. */
#include "driver/asker_fix.h"

#include <sys/resource.h>

/* The process has no descriptor for the memory that the text is to lie in: the asker is
 * told so. */
static void there_is_no_descriptor(void **state)
{
	static const char text[2 * HOST_ANSWER_AT_ONCE] = "text";
	struct asker by = { .serial = 77 };
	struct rlimit was, none;
	pid_t pid;

	(void)state;
	pid = start_reader((struct expected){ by.serial, -EMFILE }, &by.slot);
	by.host = host_with(by.slot);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	asker_tell(&by, 0, text, sizeof(text));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(users_wait(pid), 0);
	host_close(by.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_is_no_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

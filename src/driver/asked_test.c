/* SPDX-License-Identifier: BSD-2-Clause */
/* asked_test.c - which process may ask, and for what. */
#include "driver/asker_fix.h"

#include "driver/asked.h"
#include "driver/nic_own.h"
#include "verbs/core.h"

enum { NOBODY = 65534 };

/* A process that writes its slot, and becomes another user when it reads a byte. */
static void asker(int in, int out)
{
	struct host *host;
	uint16_t slot;
	char byte;

	if (host_open(&host, &deaf, NULL))
		_exit(USERS_CANNOT);
	slot = host_slot(host);
	(void)!write(out, &slot, sizeof(slot));
	(void)!read(in, &byte, 1);
	users_become(NOBODY);
	(void)!write(out, "", 1);
	(void)!read(in, &byte, 1);
	_exit(0);
}

static void hear(struct nic *nic, uint16_t slot, const void *body, size_t len)
{
	struct msg m = { .body = body, .len = len, .here = len, .memory = -1 };
	struct host_said said = { .type = HOST_ASK,
				  .slot = slot,
				  .buf = body,
				  .len = len,
				  .fd = { -1, -1 },
				  .msg = &m };

	asked(nic, &said, 0);
}

static void nic_with(struct nic *nic, struct host *host)
{
	memset(nic, 0, sizeof(*nic));
	nic->host = host;
	dumper_init(&nic->dumper, &nic->core, NULL);
}

/* How many processes wait for a dump after one of slot has asked for it? */
static unsigned askers(struct host *host, uint16_t slot)
{
	static struct nic nic;
	struct host_ask ask = { .kind = ASK_DUMP };
	unsigned n;

	nic_with(&nic, host);
	hear(&nic, slot, &ask, sizeof(ask));
	n = nic.dumper.askers;
	dumper_fini(&nic.dumper);
	return n;
}

/* The asking process has the user that it has now: a daemon that opened its device as
 * root and gave root up gets no dump of root's keys. */
static void who_asks_is_of_this_user_now(void **state)
{
	int in[2], out[2];
	struct host *host;
	uint16_t slot;
	char byte;
	pid_t pid;

	(void)state;
	if (geteuid() || !netns_enter()) {
		fprintf(stderr, "SKIPPED: cannot become another user\n");
		skip();
	}
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		close(in[1]);
		asker(in[0], out[1]);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &slot, sizeof(slot)), sizeof(slot));
	assert_int_equal(host_open(&host, &deaf, NULL), 0);
	assert_int_equal(askers(host, slot), 1);
	assert_int_equal(write(in[1], "", 1), 1);
	assert_int_equal(read(out[0], &byte, 1), 1);
	assert_int_equal(askers(host, slot), 0);
	host_close(host);
	close(in[1]);
	assert_int_equal(users_wait(pid), 0);
}

static void expect_refusal(const void *body, size_t len, int error)
{
	static struct nic nic;
	struct host_ask ask;
	uint16_t slot;
	pid_t pid;

	memcpy(&ask, body, sizeof(ask));
	pid = start_reader((struct expected){ ask.serial, error }, &slot);
	nic_with(&nic, host_with(slot));
	hear(&nic, slot, body, len);
	assert_int_equal(users_wait(pid), 0);
	assert_int_equal(nic.dumper.askers, 0);
	host_close(nic.host);
}

static void what_is_not_known_is_refused(void **state)
{
	struct {
		struct host_ask head;
		char more[8];
	} ask = { { .kind = ASK_KINDS, .serial = 5 }, "more" };

	(void)state;
	expect_refusal(&ask.head, sizeof(ask.head), -EOPNOTSUPP);
	ask.head.kind = UINT32_MAX;
	expect_refusal(&ask, sizeof(ask), -EOPNOTSUPP);
	ask.head.kind = ASK_DUMP;
	expect_refusal(&ask, sizeof(ask), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_asks_is_of_this_user_now),
		cmocka_unit_test(what_is_not_known_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

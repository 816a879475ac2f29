/* SPDX-License-Identifier: BSD-2-Clause */
/* ask_test.c - asking a process that answers, errs, lies, says nothing, or ends. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ask.h"
#include "host/host.h"

/* The first byte of a question tells the process what to do with it. */
enum how { ECHO, LONG, FAIL, LIE, SILENT, END, BUSY_ONCE };
enum { LONG_LEN = 1 << 20 };

static void on_datagram(void *arg, const struct dgram *d)
{
	(void)arg, (void)d;
}

static void on_gone(void *arg, uint16_t slot)
{
	(void)arg, (void)slot;
}

static struct host *answering;

static void tell(uint16_t slot, uint32_t serial, int error, const void *bytes, size_t len)
{
	struct host_answer head = { .serial = serial, .error = error };
	const struct iovec part[2] = {
		{ &head, sizeof(head) },
		{ (void *)(uintptr_t)bytes, len },
	};

	(void)host_say(answering, slot, HOST_ANSWER, part, 2, NULL, 0);
}

static void on_ask(void *arg, struct host_said *s)
{
	static char text[LONG_LEN];
	const char *what = (const char *)s->buf + sizeof(struct host_ask);
	static bool was_busy;
	struct host_ask ask;

	(void)arg;
	if (s->type != HOST_ASK || msg_get_ask(s->msg, &ask))
		_exit(3);
	memset(text, 'x', sizeof(text));
	switch ((enum how) * what) {
	case ECHO:
		if (s->fd[0] >= 0)
			(void)!write(s->fd[0], "written", 7);
		tell(s->slot, ask.serial, 0, what, s->len - sizeof(ask));
		break;
	case LONG:
		tell(s->slot, ask.serial, 0, text, sizeof(text));
		break;
	case FAIL:
		tell(s->slot, ask.serial, -EINVAL, "not\033[2J so", 10);
		break;
	case LIE:
		tell(s->slot, ask.serial + 1, 0, "later", 5);
		tell(s->slot, ask.serial, 0, "1", 1);
		tell(s->slot, ask.serial, 0, "2", 1);
		break;
	case SILENT:
		break;
	case END:
		_exit(0);
	case BUSY_ONCE:
		tell(s->slot, ask.serial, was_busy ? 0 : -EBUSY, NULL, 0);
		was_busy = true;
		break;
	}
}

/* A process that answers, until `in' closes. */
static void answer(int in, int out)
{
	static const struct host_ops ops = { on_datagram, on_gone, on_ask };
	struct pollfd p[2] = { { .fd = in, .events = POLLIN }, { .events = POLLIN } };

	if (host_open(&answering, &ops, NULL))
		_exit(2);
	p[1].fd = host_fd(answering);
	(void)!write(out, "", 1);
	for (;;) {
		poll(p, 2, -1);
		if (p[0].revents)
			_exit(0);
		host_run(answering);
	}
}

struct fix {
	struct ask *a;
	pid_t pid;
	int in;
};

static int open_fix(void **state)
{
	static struct fix f;
	int in[2], out[2];
	char byte;

	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	f.pid = fork();
	if (f.pid == 0) {
		close(in[1]);
		answer(in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	assert_int_equal(read(out[0], &byte, 1), 1);
	close(out[0]);
	f.in = in[1];
	f.a = ask_open("ask_test");
	assert_non_null(f.a);
	*state = &f;
	return 0;
}

static int close_fix(void **state)
{
	struct fix *f = *state;

	ask_close(f->a);
	close(f->in);
	assert_int_equal(waitpid(f->pid, NULL, 0), f->pid);
	return 0;
}

static struct ask_question question(enum how how)
{
	static const char bytes[][4] = {
		{ ECHO, 'a', '\n', '\x9b' },
		{ LONG },
		{ FAIL },
		{ LIE },
		{ SILENT },
		{ END },
		{ BUSY_ONCE },
	};

	return (struct ask_question){ .kind = ASK_DUMP, .what = bytes[how], .size = 4 };
}

static void it_is_among_those_listed(void **state)
{
	struct fix *f = *state;
	struct ask_process *list;
	size_t n = ask_list(f->a, &list);
	unsigned found = 0;

	for (size_t i = 0; i < n; i++) {
		found += list[i].pid == f->pid && list[i].ours && list[i].slot > 0 &&
			 list[i].uid == geteuid();
		assert_int_not_equal(list[i].pid, getpid());
	}
	assert_int_equal(found, 1);
	free(list);
}

static void it_answers(void **state)
{
	struct fix *f = *state;
	struct ask_question q = question(ECHO);

	assert_int_equal(ask_pid(f->a, f->pid, &q), 0);
	assert_int_equal(q.len, 4);
	assert_memory_equal(q.bytes, q.what, 4);
	ask_as_text(&q);
	assert_memory_equal(q.bytes, "?a\n?", 5);
	ask_close_question(&q);
	q = question(LONG);
	assert_int_equal(ask_pid(f->a, f->pid, &q), 0);
	assert_int_equal(q.len, LONG_LEN);
	assert_int_equal(q.bytes[q.len - 1], 'x');
	assert_int_equal(q.bytes[q.len], 0);
	ask_close_question(&q);
	q = question(BUSY_ONCE);
	assert_int_equal(ask_pid(f->a, f->pid, &q), 0);
	assert_null(q.bytes);
}

static void it_gets_a_descriptor(void **state)
{
	struct fix *f = *state;
	struct ask_question q = question(ECHO);
	char got[8] = "";
	int p[2];

	assert_int_equal(pipe(p), 0);
	q.with_fd = true;
	q.fd = p[1];
	assert_int_equal(ask_pid(f->a, f->pid, &q), 0);
	assert_int_equal(read(p[0], got, sizeof(got)), 7);
	assert_string_equal(got, "written");
	close(p[0]);
	close(p[1]);
	ask_close_question(&q);
}

/* An answer to another question does not count, nor a second one. */
static void it_answers_too_often(void **state)
{
	struct fix *f = *state;
	struct ask_question q = question(LIE), later = question(ECHO);

	assert_int_equal(ask_pid(f->a, f->pid, &q), 0);
	assert_string_equal(q.bytes, "1");
	ask_close_question(&q);
	assert_int_equal(ask_pid(f->a, f->pid, &later), 0);
	assert_int_equal(later.len, 4);
	ask_close_question(&later);
}

static void it_does_not_answer(void **state)
{
	struct fix *f = *state;
	struct ask_question q[3] = { question(FAIL), question(SILENT), question(ECHO) };
	struct ask_process *list;
	size_t n = ask_list(f->a, &list);

	for (size_t i = 0; i < n; i++)
		if (list[i].pid == f->pid)
			q[0].to = q[1].to = q[2].to = list[i];
	free(list);
	ask_all(f->a, q, 3, 50);
	assert_int_equal(q[0].error, -EINVAL);
	assert_string_equal(q[0].bytes, "not?[2J so");
	assert_int_equal(q[1].error, -ETIMEDOUT);
	assert_int_equal(q[2].error, 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask_report(f->a, &q[i]), i < 2);
		ask_close_question(&q[i]);
	}
}

static void it_ends(void **state)
{
	struct fix *f = *state;
	struct ask_question q = question(END);

	assert_int_equal(ask_pid(f->a, f->pid, &q), 1);
	assert_int_equal(q.error, -ESRCH);
	assert_int_equal(ask_pid(f->a, f->pid, &q), 1); /* and it is found no more */
	q.size = HOST_ASK_MAX + 1;
	q.what = NULL;
	ask_all(f->a, &q, 1, 1000);
	assert_int_equal(q.error, -EMSGSIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_among_those_listed, open_fix,
						close_fix),
		cmocka_unit_test_setup_teardown(it_answers, open_fix, close_fix),
		cmocka_unit_test_setup_teardown(it_gets_a_descriptor, open_fix,
						close_fix),
		cmocka_unit_test_setup_teardown(it_answers_too_often, open_fix,
						close_fix),
		cmocka_unit_test_setup_teardown(it_does_not_answer, open_fix, close_fix),
		cmocka_unit_test_setup_teardown(it_ends, open_fix, close_fix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

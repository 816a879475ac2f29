/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/waiter_testing.h"
#include "verbs/cq.h"
#include "verbs/test_ctx.h"

static struct test_ctx t;
static struct channel *ch;

static void begin(void)
{
	test_open(&t);
	assert_int_equal(channel_create(&t.ctx, &ch), 0);
}

static void end(void)
{
	assert_int_equal(channel_destroy(ch), 0);
	test_close(&t);
}

static struct cq *create(void)
{
	struct cq *cq = NULL;

	assert_int_equal(cq_create(&t.ctx, 64, ch, NULL, &cq), 0);
	return cq;
}

static bool readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

static void nonblock(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void events_come_in_order(void **state)
{
	struct cq *a, *b, *got;

	(void)state;
	begin();
	a = create();
	b = create();
	assert_int_equal(ch->ibv.refcnt, 2);
	assert_int_equal(channel_destroy(ch), -EBUSY);
	assert_int_equal(ch->ibv.fd, ch->queue.fd);
	assert_true(fcntl(ch->ibv.fd, F_GETFD) & FD_CLOEXEC);
	nonblock(ch->ibv.fd);
	assert_false(readable(ch->ibv.fd));
	assert_int_equal(channel_get(ch, &got), -EAGAIN);
	channel_raise(ch, b);
	channel_raise(ch, a);
	channel_raise(ch, b);
	assert_true(readable(ch->ibv.fd));
	assert_int_equal(channel_get(ch, &got), 0);
	assert_ptr_equal(got, b);
	assert_int_equal(channel_get(ch, &got), 0);
	assert_ptr_equal(got, a);
	assert_true(readable(ch->ibv.fd));
	assert_int_equal(channel_get(ch, &got), 0);
	assert_ptr_equal(got, b);
	assert_false(readable(ch->ibv.fd));
	assert_int_equal(channel_get(ch, &got), -EAGAIN);
	cq_ack_events(a, 1);
	cq_ack_events(b, 2);
	assert_int_equal(b->ex.comp_events_completed, 2);
	assert_int_equal(cq_destroy(a), 0);
	assert_int_equal(cq_destroy(b), 0);
	end();
}

static void a_destroyed_cq_takes_its_events_along(void **state)
{
	struct cq *a, *b, *got;

	(void)state;
	begin();
	a = create();
	b = create();
	nonblock(ch->ibv.fd);
	channel_raise(ch, a);
	channel_raise(ch, a);
	assert_int_equal(cq_destroy(a), 0);
	assert_false(readable(ch->ibv.fd));
	channel_raise(ch, b);
	/* One wakeup more than there are events. */
	assert_int_equal(event_queue_post(&ch->queue), 0);
	assert_int_equal(channel_get(ch, &got), 0);
	assert_ptr_equal(got, b);
	assert_int_equal(channel_get(ch, &got), -EAGAIN);
	cq_ack_events(b, 1);
	assert_int_equal(cq_destroy(b), 0);
	end();
}

static void *destroyer(void *arg)
{
	assert_int_equal(cq_destroy(arg), 0);
	return NULL;
}

static void destroy_waits_for_acks(void **state)
{
	struct waiter thread;
	struct cq *cq, *got;

	(void)state;
	begin();
	cq = create();
	channel_raise(ch, cq);
	channel_raise(ch, cq);
	channel_raise(ch, cq);
	assert_int_equal(channel_get(ch, &got), 0);
	assert_int_equal(channel_get(ch, &got), 0);
	waiter_start(&thread, destroyer, cq);
	assert_true(waiter_sleeps(&thread));
	cq_ack_events(cq, 1);
	assert_true(waiter_sleeps(&thread));
	cq_ack_events(cq, 1);
	waiter_join(&thread);
	end();
}

/* Exits with 0 if no CQ is about to be destroyed. */
static pid_t fork_looker(struct cq *cq)
{
	pid_t child = fork();

	if (child == 0) {
		cq_forked();
		_exit(cq_ack_leaving(cq, 1));
	}
	assert_true(child > 0);
	return child;
}

/* A thread of the parent destroys a CQ meanwhile: its stack is not the child's. */
static void no_cq_leaves_in_a_child(void **state)
{
	struct waiter thread;
	struct cq *cq, *got;
	int status;

	(void)state;
	begin();
	cq = create();
	channel_raise(ch, cq);
	assert_int_equal(channel_get(ch, &got), 0);
	waiter_start(&thread, destroyer, cq);
	assert_true(waiter_sleeps(&thread));
	assert_true(waitpid(fork_looker(cq), &status, 0) > 0);
	assert_int_equal(status, 0);
	assert_true(cq_ack_leaving(cq, 1));
	waiter_join(&thread);
	assert_false(cq_ack_leaving(cq, 1));
	end();
}

static void *getter(void *arg)
{
	struct cq **got = arg;

	assert_int_equal(channel_get(ch, got), 0);
	return NULL;
}

static void get_sleeps_until_there_is_one(void **state)
{
	struct cq *cq, *got = NULL;
	struct waiter thread;

	(void)state;
	begin();
	cq = create();
	waiter_start(&thread, getter, &got);
	assert_true(waiter_sleeps(&thread));
	assert_int_equal(event_queue_post(&ch->queue), 0); /* for nothing */
	assert_true(waiter_sleeps(&thread));
	channel_raise(ch, cq);
	waiter_join(&thread);
	assert_ptr_equal(got, cq);
	cq_ack_events(cq, 1);
	assert_int_equal(cq_destroy(cq), 0);
	end();
}

static void on_signal(int sig)
{
	(void)sig;
}

static void *interrupted(void *arg)
{
	struct cq *got;

	assert_int_equal(channel_get(arg, &got), -EINTR);
	return NULL;
}

static void a_signal_interrupts_get(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct waiter thread;

	(void)state;
	begin();
	sigaction(SIGUSR1, &sa, NULL);
	waiter_start(&thread, interrupted, ch);
	assert_true(waiter_sleeps(&thread));
	assert_int_equal(pthread_kill(thread.thread, SIGUSR1), 0);
	waiter_join(&thread);
	end();
}

/* The program has closed urnic's descriptor, and a file of its own has that number
 * now. */
static void a_stranger_s_file_is_never_touched(void **state)
{
	struct ibv_async_event event;
	int fd, file = memfd_create("strange", 0);
	struct cq *cq, *got;

	(void)state;
	begin();
	cq = create();
	fd = ch->ibv.fd;
	assert_int_equal(dup2(file, fd), fd);
	channel_raise(ch, cq);
	assert_int_equal(lseek(file, 0, SEEK_END), 0);
	assert_true(t.ctx.dead);
	assert_int_equal(channel_get(ch, &got), -EBADF);
	assert_int_equal(async_get(&t.ctx, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
	channel_raise(ch, cq); /* the loss is reported once */
	assert_true(list_empty(&t.ctx.async.waiting));
	assert_int_equal(cq_destroy(cq), 0);
	end();
	assert_int_equal(fcntl(fd, F_GETFD), 0); /* the program's file was not closed */
	close(fd);
	close(file);
}

static void closed_descriptors_are_survived(void **state)
{
	struct cq *cq, *got;

	(void)state;
	begin();
	cq = create();
	close(ch->ibv.fd);
	close(t.ctx.async.fd);
	channel_raise(ch, cq);
	async_raise(&t.ctx, IBV_EVENT_PORT_ERR, NULL);
	assert_true(t.ctx.dead);
	assert_int_equal(channel_get(ch, &got), -EBADF);
	assert_int_equal(cq_destroy(cq), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_in_order),
		cmocka_unit_test(a_destroyed_cq_takes_its_events_along),
		cmocka_unit_test(destroy_waits_for_acks),
		cmocka_unit_test(no_cq_leaves_in_a_child),
		cmocka_unit_test(get_sleeps_until_there_is_one),
		cmocka_unit_test(a_signal_interrupts_get),
		cmocka_unit_test(a_stranger_s_file_is_never_touched),
		cmocka_unit_test(closed_descriptors_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

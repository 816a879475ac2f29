/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's NIC: its users share it, a child of a fork has none, and a program that
 * closes descriptors it does not own loses it. */
#include "driver/nic.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/dump.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "host/host.h"
#include "raw/packet.h"
#include "sys/lock.h"
#include "sys/netns_testing.h"
#include "sys/turn.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/netport.h"

enum { PORT = 4791 };

static const uint8_t here[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

static struct device *roce_of_lo(void)
{
	struct device **v, *dev = NULL;
	int n;

	assert_int_equal(nic_devices(&v, &n), 0);
	for (int i = 0; i < n; i++)
		if (v[i]->kind == &device_roce && net_device_of(v[i])->net.loopback)
			dev = v[i];
	free(v);
	assert_non_null(dev);
	return dev;
}

/* Can a socket that shares with nobody have the port? */
static bool port_is_free(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	bool is = bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;

	close(fd);
	return is;
}

static void its_users_share_it(void **state)
{
	struct nic *one, *two;

	(void)state;
	assert_int_equal(nic_open(&one), 0);
	assert_int_equal(nic_open(&two), 0);
	assert_ptr_equal(one, two);
	assert_true(port_is_free()); /* until it is needed */
	assert_int_equal(nic_listen(one, roce_of_lo(), here), 0);
	assert_false(port_is_free());
	nic_close(one);
	assert_false(port_is_free());
	nic_close(two);
	assert_true(port_is_free());
	assert_int_equal(nic_open(&one), 0); /* a new one */
	assert_true(port_is_free());
	nic_close(one);
}

static void each_device_has_its_transport(void **state)
{
	struct device *dev = roce_of_lo();
	struct nic *nic;

	(void)state;
	assert_int_equal(nic_open(&nic), 0);
	assert_string_equal(nic_transport(nic, dev)->name, "ib");
	assert_ptr_equal(nic_packets(nic), &packet_transport);
	assert_non_null(nic_link(nic, dev));
	assert_true(nic_same_host(nic, dev, here));
	nic_close(nic);
}

static void a_group_is_joined_and_left(void **state)
{
	const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct device *dev = roce_of_lo();
	struct nic *nic;

	(void)state;
	assert_int_equal(nic_open(&nic), 0);
	assert_int_equal(nic_listen(nic, dev, NULL), 0);
	assert_int_equal(nic_join(nic, dev, &group, true), 0);
	assert_int_equal(nic_join(nic, dev, &group, false), 0);
	assert_int_equal(nic_open_port(nic_core(nic), NULL), 0);
	nic_close(nic);
}

/* This program has no adapter of a fabric. */
static void there_is_no_fabric(void **state)
{
	uint8_t gid[16];
	struct nic *nic;

	(void)state;
	assert_int_equal(nic_open(&nic), 0);
	assert_int_equal(nic_find(nic_core(nic), here, gid), -ENODEV);
	assert_int_equal(nic_serve(nic_core(nic), 1), -ENODEV);
	assert_null(registry_hca());
	nic_close(nic);
}

NO_TSA static void a_call_of_connection_management_has_the_turn(void **state)
{
	struct nic *nic;

	(void)state;
	assert_int_equal(nic_open(&nic), 0);
	turn_take(&nic_core(nic)->turn);
	assert_false(turn_try(&nic_core(nic)->turn));
	nic_leave(nic_core(nic));
	turn_take(&nic_core(nic)->turn); /* it has been given back */
	turn_give(&nic_core(nic)->turn);
	assert_int_equal(nic_fence(nic, 0x123456), 0); /* no peer writes for it */
	nic_armed(nic, NULL);
	nic_close(nic);
}

/* --- forks ----------------------------------------------------------------- */

static int status_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* In a child: exit statuses tell the first thing that is wrong. */
static int look_as_child(struct nic *nic, const struct context *ctx, uint16_t slot)
{
	struct nic *own;

	if (!ctx->dead || !nic_core(nic)->dead)
		return 1;
	nic_close(nic);
	if (nic_open(&own))
		return 2;
	if (own == nic || nic_core(own)->dead || nic_core(own)->slot == slot)
		return 3;
	if (nic_listen(own, roce_of_lo(), here) || port_is_free())
		return 4;
	nic_close(own);
	return 0;
}

__attribute__((unused)) static void a_child_makes_its_own(void **state)
{
	struct context ctx = { .dead = false };
	struct nic *nic;
	pid_t pid;

	(void)state;
	assert_int_equal(nic_open(&nic), 0);
	assert_int_equal(nic_listen(nic, roce_of_lo(), here), 0);
	list_add_tail(&nic_core(nic)->contexts, &ctx.node);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		exit(look_as_child(nic, &ctx, nic_core(nic)->slot));
	assert_int_equal(status_of(pid), 0);
	assert_false(ctx.dead);
	assert_false(nic_core(nic)->dead);
	list_del(&ctx.node);
	nic_close(nic);
	assert_true(port_is_free());
}

/* The parent's port is free when the parent has gone, though a child lives. */
__attribute__((unused)) static void a_child_holds_nothing(void **state)
{
	int lives[2], ends[2];
	struct nic *nic;
	pid_t pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(lives), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(nic_open(&nic), 0);
	assert_int_equal(nic_listen(nic, roce_of_lo(), here), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(write(lives[1], "", 1) == 1 && read(ends[0], &byte, 1) == 1 ? 0
										  : 1);
	assert_int_equal(read(lives[0], &byte, 1), 1);
	nic_close(nic);
	assert_true(port_is_free());
	assert_int_equal(write(ends[1], "", 1), 1);
	assert_int_equal(status_of(pid), 0);
	for (int i = 0; i < 2; i++) {
		close(lives[i]);
		close(ends[i]);
	}
}

/* A program that ends without closing its devices. */
__attribute__((unused)) static void an_end_without_a_close(void **state)
{
	struct nic *nic;
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (nic_open(&nic) || nic_listen(nic, roce_of_lo(), here))
			_exit(1);
		exit(0);
	}
	assert_int_equal(status_of(pid), 0);
	assert_true(port_is_free());
}

static struct nic *ends; /* in a child that is to say goodbye */

/* Runs after the library's own. */
__attribute__((destructor(101))) static void has_said_goodbye(void)
{
	if (ends)
		_exit(nic_core(ends)->leaving ? 0 : 2);
}

/* Gives the turn when the thread that ends waits for it. */
NO_TSA static void *has_the_turn(void *arg)
{
	struct turn *t = &nic_core(ends)->turn;

	turn_take(t);
	atomic_store((atomic_bool *)arg, true);
	while (!lock_is_awaited(&t->lock))
		lock_pause();
	turn_give(t);
	return NULL;
}

/* Another thread has the turn when the program ends. */
__attribute__((unused)) static void an_end_waits_for_the_turn(void **state)
{
	atomic_bool taken = false;
	pthread_t thread;
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (nic_open(&ends) ||
		    pthread_create(&thread, NULL, has_the_turn, &taken))
			_exit(1);
		while (!atomic_load(&taken))
			lock_pause();
		exit(0);
	}
	assert_int_equal(status_of(pid), 0);
}

/* The thread that ends has it itself. */
NO_TSA __attribute__((unused)) static void an_end_inside_the_turn(void **state)
{
	pid_t pid;

	(void)state;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		if (nic_open(&ends))
			_exit(1);
		turn_take(&nic_core(ends)->turn);
		exit(0);
	}
	assert_int_equal(WEXITSTATUS(status_of(pid)), 2);
}

/* --- dumps ----------------------------------------------------------------- */

struct answered {
	char *text; /* NULL: no answer yet */
	int error;
};

static void on_text(void *arg, struct host_said *s)
{
	struct answered *a = arg;
	const size_t head = sizeof(struct host_answer);
	struct host_answer h;

	if (s->type != HOST_ANSWER)
		return;
	a->error = msg_get_answer(s->msg, &h);
	if (!a->error)
		a->error = h.error;
	a->text = calloc(1, s->len - head + 1);
	if (a->text && !a->error)
		a->error = msg_read(s->msg, head, a->text, s->len - head);
}

static void ignore(void *arg, const struct dgram *d)
{
	(void)arg, (void)d;
}

static void ignore_end(void *arg, uint16_t slot)
{
	(void)arg, (void)slot;
}

/* In a process of its own: asks the NIC of slot twice, for one dump.  Its exit status is
 * 0 if the text is a dump of that NIC. */
static int ask_for_a_dump(uint16_t slot)
{
	static const struct host_ops ops = { ignore, ignore_end, on_text };
	struct host_ask ask = { .kind = ASK_DUMP, .serial = 7 };
	const struct iovec body = { &ask, sizeof(ask) };
	struct answered a = { .text = NULL };
	struct host *host;
	char want[32];
	int rc;

	if (host_open(&host, &ops, &a))
		return 2;
	for (int i = 0; i < 2; i++)
		while ((rc = host_say(host, slot, HOST_ASK, &body, 1, NULL, 0)) ==
		       -EAGAIN)
			host_run(host);
	while (!rc && !a.text && !a.error) {
		poll(&(struct pollfd){ .fd = host_fd(host), .events = POLLIN }, 1, -1);
		host_run(host);
	}
	host_close(host);
	snprintf(want, sizeof(want), "slot {slot=%u}\n", slot);
	rc = rc || a.error || !a.text || !strstr(a.text, want);
	free(a.text);
	return rc;
}

__attribute__((unused)) static void another_process_asks_for_a_dump(void **state)
{
	struct nic *nic;
	pid_t pid;

	(void)state;
	assert_int_equal(nic_open(&nic), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		nic_close(nic);
		exit(ask_for_a_dump(nic_core(nic)->slot));
	}
	assert_int_equal(status_of(pid), 0);
	nic_close(nic);
}

/* --- a program that closes all descriptors --------------------------------- */

enum { FDS = 4096 };

static void note_open(bool *open)
{
	for (int fd = 0; fd < FDS; fd++)
		open[fd] = fcntl(fd, F_GETFD) >= 0;
}

__attribute__((unused)) static void a_lost_one_is_replaced(void **state)
{
	static bool before[FDS], after[FDS];
	static struct nic *lost; /* it is never taken apart, on purpose */
	struct nic *next;

	(void)state;
	note_open(before);
	assert_int_equal(nic_open(&lost), 0);
	note_open(after);
	for (int fd = 0; fd < FDS; fd++)
		if (after[fd] && !before[fd])
			close(fd);
	assert_int_equal(nic_open(&next), 0);
	assert_ptr_not_equal(next, lost);
	assert_int_equal(nic_listen(next, roce_of_lo(), here), 0);
	nic_close(lost);
	assert_false(port_is_free());
	nic_close(next);
	assert_true(port_is_free());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_users_share_it),
		cmocka_unit_test(each_device_has_its_transport),
		cmocka_unit_test(a_group_is_joined_and_left),
		cmocka_unit_test(there_is_no_fabric),
		cmocka_unit_test(a_call_of_connection_management_has_the_turn),
#ifndef __SANITIZE_THREAD__
		/* It takes fork handlers for signal handlers, and a lost NIC's thread for
		 * a leak. */
		cmocka_unit_test(a_child_makes_its_own),
		cmocka_unit_test(a_child_holds_nothing),
		cmocka_unit_test(an_end_without_a_close),
		cmocka_unit_test(an_end_waits_for_the_turn),
		cmocka_unit_test(an_end_inside_the_turn),
		cmocka_unit_test(another_process_asks_for_a_dump),
		cmocka_unit_test(a_lost_one_is_replaced),
#endif
	};

	if (!netns_enter()) {
		fprintf(stderr, "SKIPPED: no network namespace here\n");
		return 77;
	}
	netns_lo_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

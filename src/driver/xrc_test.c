/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains of several processes: which of them see that another has a domain, and what
 * a process that says nonsense does. */
#include "driver/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/nic.h"
#include "driver/nic_own.h"
#include "sys/clock.h"
#include "sys/netns_testing.h"
#include "sys/users_testing.h"
#include "verbs/netport.h"
#include "verbs/test_ctx.h"
#include "verbs/xrc.h"

/* A program with a NIC and a context of it. */
static struct program {
	struct nic *nic;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
} p;

static char file[] = "/tmp/urnic-xrc-XXXXXX", other[] = "/tmp/urnic-xrc-XXXXXX";

/* Returns 0 or -errno. */
static int start(struct program *q)
{
	struct netdev net = test_netdev();
	int rc = nic_open(&q->nic);

	if (rc)
		return rc;
	memset(&q->ctx, 0, sizeof(q->ctx));
	rc = device_create(&device_roce, &net, NULL, &q->dev);
	q->ctx.core = nic_core(q->nic);
	q->ctx.dev = q->dev;
	q->ctx.ibv = &q->ibv;
	list_init(&q->ctx.node);
	return rc;
}

static void stop_program(struct program *q)
{
	nic_close(q->nic);
	free(q->dev);
}

static int set_up(void **state)
{
	(void)state;
	return start(&p);
}

static int tear_down(void **state)
{
	(void)state;
	stop_program(&p);
	return 0;
}

static int open_domain(struct program *q, const char *path, int oflags, struct xrcd **x)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;
	const struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	rc = xrcd_open(&q->ctx, &attr, x);
	close(fd);
	return rc;
}

/* --- another process ------------------------------------------------------- */

static struct {
	int ask[2], answer[2];
	pid_t pid;
} another;

struct question {
	bool of_other; /* file */
	int oflags;
};

/* Opens a domain with a NIC of its own; 0, or an errno. */
static int answer_to(const struct question *q)
{
	struct program its;
	struct xrcd *x;
	int rc = start(&its);

	if (rc)
		return -rc;
	rc = open_domain(&its, q->of_other ? other : file, q->oflags, &x);
	if (!rc)
		rc = xrcd_close(x);
	stop_program(&its);
	return -rc;
}

/* Forks the process before this one has a NIC. */
static void fork_another(void)
{
	struct question q;
	int rc;

	assert_int_equal(pipe(another.ask), 0);
	assert_int_equal(pipe(another.answer), 0);
	another.pid = users_fork();
	if (another.pid)
		return;
	close(another.ask[1]);
	while (read(another.ask[0], &q, sizeof(q)) == sizeof(q)) {
		rc = answer_to(&q);
		if (write(another.answer[1], &rc, sizeof(rc)) != sizeof(rc))
			break;
	}
	exit(0);
}

static int try_in_another(const char *path, int oflags)
{
	const struct question q = { path == other, oflags };
	int rc;

	assert_int_equal(write(another.ask[1], &q, sizeof(q)), sizeof(q));
	assert_int_equal(read(another.answer[0], &rc, sizeof(rc)), sizeof(rc));
	return rc;
}

static void another_process_sees_a_domain(void **state)
{
	struct xrcd *x;

	(void)state;
	assert_int_equal(try_in_another(file, 0), EAGAIN); /* there is none */
	assert_int_equal(open_domain(&p, file, O_CREAT, &x), 0);
	assert_int_equal(try_in_another(file, 0), 0);
	assert_int_equal(try_in_another(file, O_CREAT), 0);
	assert_int_equal(try_in_another(file, O_CREAT | O_EXCL), EINVAL);
	assert_int_equal(try_in_another(other, 0), EAGAIN);
	assert_int_equal(try_in_another(other, O_CREAT | O_EXCL), 0);
	assert_int_equal(xrcd_close(x), 0);
	assert_int_equal(try_in_another(file, 0), EAGAIN);
	assert_int_equal(try_in_another(file, O_CREAT | O_EXCL), 0);
}

/* A process's own handles do not count as another's. */
static void a_process_opens_it_twice(void **state)
{
	struct xrcd *one, *two;

	(void)state;
	assert_int_equal(open_domain(&p, file, O_CREAT, &one), 0);
	assert_int_equal(open_domain(&p, file, 0, &two), 0);
	assert_int_equal(xrcd_close(one), 0);
	assert_int_equal(try_in_another(file, O_CREAT | O_EXCL), EINVAL);
	assert_int_equal(xrcd_close(two), 0);
	assert_int_equal(open_domain(&p, file, 0, &one), -EAGAIN);
}

/* Messages from another process of this user that mean nothing, of every length. */
static void nonsense_is_dropped(void **state)
{
	struct source *s = &p.nic->guest.source;
	uint8_t buf[256];
	struct xrcd *x;

	(void)state;
	assert_int_equal(open_domain(&p, file, O_CREAT, &x), 0);
	turn_take(&p.nic->core.turn);
	for (int fill = 0; fill < 256; fill++) {
		memset(buf, fill, sizeof(buf));
		for (size_t n = 0; n <= sizeof(buf); n++)
			p.nic->guest.heard(p.nic, 9, buf, n);
	}
	p.nic->guest.gone(p.nic, 9);
	assert_int_equal(source_at(s), 0);
	s->ops->run(s, nic_now());
	assert_int_equal(source_at(s), NEVER);
	turn_give(&p.nic->core.turn);
	assert_int_equal(xrcd_close(x), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(another_process_sees_a_domain, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_process_opens_it_twice, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(nonsense_is_dropped, set_up, tear_down),
	};
	int failed;

	if (!netns_enter()) {
		fprintf(stderr, "SKIPPED: no network namespace here\n");
		return 77;
	}
	netns_lo_up();
	close(mkstemp(file));
	close(mkstemp(other));
	fork_another();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	close(another.ask[1]);
	failed += users_wait(another.pid);
	unlink(file);
	unlink(other);
	return failed;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* A NIC with two links, RoCE's and InfiniBand's. Each is a cable in virtual time, whose
 * other end the test holds. The tests check what the engine takes in from both, when,
 * and which link it asks. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm/cm.h"
#include "driver/conn.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/sources.h"
#include "ib/ib.h"
#include "net/ip_addr.h"
#include "net/lid.h"
#include "net/loop.h"
#include "net/roce.h"
#include "shm/peers.h"
#include "sys/clock.h"
#include "verbs/device.h"

enum { LINKS = 2, US = 1000, LATENCY = 100 * US, DEPTH = 1000 };

static struct {
	struct nic *nic;
	struct one {
		struct nic_link nl;
		struct link *far; /* the far end of the cable */
		struct device dev;
		int pipe[2];
		unsigned joins, listens, forwards;
	} one[LINKS];
} t;

static struct one *one_of(const struct nic_link *l)
{
	return container_of(l, struct one, nl);
}

static bool carries(const struct nic_link *l, const struct device *dev)
{
	return dev == &one_of(l)->dev;
}

static int listens(struct nic_link *l, const struct device *dev, const uint8_t *gid)
{
	(void)dev;
	(void)gid;
	one_of(l)->listens++;
	return 0;
}

static int joins(struct nic_link *l, const struct device *dev, const uint8_t gid[16],
		 bool join)
{
	(void)dev;
	(void)gid;
	one_of(l)->joins += join;
	return 0;
}

static unsigned fds(struct source *s, struct source_fd *fd)
{
	*fd = (struct source_fd){ .fd = container_of(s, struct one, nl.source)->pipe[0] };
	return 1;
}

static void forwards(struct nic_link *l, struct dgram *v, unsigned n, uint64_t now)
{
	assert_ptr_equal(v, t.nic->links.in);
	assert_int_equal(n, LINK_RX);
	assert_true(now > 0);
	one_of(l)->forwards++;
}

static const struct nic_link_ops with_all = {
	.carries = carries, .listen = listens, .join = joins, .forward = forwards
};
static const struct nic_link_ops with_least = { .carries = carries };
static const struct source_ops source_ops = { .input = links_input, .fds = fds };

static void make_link(struct one *o, int (*wrap)(struct link **, struct link *))
{
	const struct loop_conf conf = { .latency = LATENCY, .depth = DEPTH };
	struct link *near;

	assert_int_equal(loop_pair(&near, &o->far, &conf), 0);
	assert_int_equal(wrap(&o->nl.link, near), 0);
	o->nl.ops = &with_all;
	assert_int_equal(pipe(o->pipe), 0);
	links_add(&t.nic->links, &o->nl, &source_ops);
}

static int wrap_roce(struct link **out, struct link *inner)
{
	return roce_wrap(out, inner, 4791);
}

NO_TSA static int begin(void **state)
{
	struct engine *e;

	(void)state;
	memset(&t, 0, sizeof(t));
	t.nic = calloc(1, sizeof(*t.nic));
	e = &t.nic->engine;
	assert_int_equal(core_init(&t.nic->core, 1), 0);
	heap_init(&e->timers);
	t.nic->core.timers = &e->timers;
	assert_int_equal(ib_open(&t.nic->core, 0), 0);
	assert_int_equal(peers_open(&t.nic->core, NULL, LOCAL_OFF, "so", NULL, NULL), 0);
	assert_int_equal(conns_open(&t.nic->conns, &t.nic->core, NULL, NULL), 0);
	assert_int_equal(cm_open(&t.nic->cm, &t.nic->core, NULL, NULL, 1), 0);
	e->core = &t.nic->core;
	links_init(&t.nic->links, &t.nic->core);
	make_link(&t.one[0], wrap_roce);
	make_link(&t.one[1], lid_wrap);
	sources_open(t.nic);
	/* So the engine sets deadlines for the thread. */
	e->thread.sleeping = e->thread.watching = true;
	turn_take(&t.nic->core.turn);
	return 0;
}

NO_TSA static int end(void **state)
{
	(void)state;
	turn_give(&t.nic->core.turn);
	heap_fini(&t.nic->engine.timers);
	cm_close(t.nic->cm);
	for (int i = 0; i < LINKS; i++) {
		t.one[i].nl.link->ops->close(t.one[i].nl.link);
		t.one[i].far->ops->close(t.one[i].far);
		close(t.one[i].pipe[0]);
		close(t.one[i].pipe[1]);
	}
	conns_close(t.nic->conns);
	peers_close(&t.nic->core);
	ib_close(&t.nic->core);
	core_fini(&t.nic->core);
	free(t.nic);
	return 0;
}

/* Sends n packets to a QP that does not exist, by link i; they arrive LATENCY after
 * now. */
static void comes(int i, unsigned n, uint64_t now)
{
	uint8_t bytes[64] = { 0 };
	struct iovec iov = { bytes, sizeof(bytes) };
	struct dgram d = { .len = sizeof(bytes), .iov = &iov, .iovcnt = 1 };

	ip_of(&d)->to.ip[15] = ip_of(&d)->from.ip[15] = 1;
	while (n--)
		assert_int_equal(t.one[i].far->ops->send(t.one[i].far, &d, 1, now), 1);
}

/* Returns how many packets have arrived by link i and were not taken in. */
static unsigned waiting(int i, uint64_t now)
{
	struct link *link = t.one[i].nl.link;
	struct dgram d;
	unsigned n = 0;

	while (link->ops->recv(link, &d, 1, now) > 0)
		n++;
	return n;
}

static void a_turn_takes_in_from_all(void **state)
{
	struct engine_did did;

	(void)state;
	turn_is_held(t.nic->engine.core);
	comes(0, 3, 0);
	comes(1, 5, 0);
	assert_false(engine_turn(&t.nic->engine, LATENCY - 1, false).socket);
	did = engine_turn(&t.nic->engine, LATENCY, false);
	assert_true(did.socket);
	assert_int_equal(waiting(0, LATENCY), 0);
	assert_int_equal(waiting(1, LATENCY), 0);
}

/* However much arrives by one link, the next turn takes in the other link's packets. */
static void one_cannot_use_up_the_other_s_share(void **state)
{
	(void)state;
	turn_is_held(t.nic->engine.core);
	for (int flood = 0; flood < LINKS; flood++) {
		uint64_t now = (uint64_t)(flood + 1) * 10 * LATENCY;

		comes(flood, 3 * LINK_RX, now - LATENCY);
		comes(!flood, LINK_RX, now - LATENCY);
		engine_turn(&t.nic->engine, now, flood);
		assert_int_equal(waiting(!flood, now), 0);
		assert_int_equal(waiting(flood, now), 2 * LINK_RX);
	}
}

static void the_earlier_deadline_counts(void **state)
{
	(void)state;
	turn_is_held(t.nic->engine.core);
	assert_int_equal(engine_deadline(&t.nic->engine), NEVER);
	for (int first = 0; first < LINKS; first++) {
		uint64_t now = (uint64_t)(first + 1) * 10 * LATENCY;

		comes(first, 1, now);
		comes(!first, 1, now + US);
		assert_int_equal(engine_turn(&t.nic->engine, now + 2 * US, false).next,
				 now + LATENCY);
		assert_int_equal(engine_turn(&t.nic->engine, now + LATENCY, false).next,
				 now + US + LATENCY);
		assert_int_equal(
			engine_turn(&t.nic->engine, now + US + LATENCY, false).next,
			NEVER);
	}
}

/* The engine thread sleeps on both links without a deadline, and takes in the input that
 * wakes it. begin() has taken the turn. */
NO_TSA static void either_wakes_the_thread(void **state)
{
	(void)state;
	turn_give(&t.nic->core.turn);
	assert_int_equal(engine_thread_start(&t.nic->engine), 0);
	for (int i = 0; i < LINKS; i++) {
		bool left;
		char byte;

		turn_take(&t.nic->core.turn);
		comes(i, 1, clock_ns() - LATENCY);
		turn_give(&t.nic->core.turn);
		assert_int_equal(write(t.one[i].pipe[1], "", 1), 1);
		do {
			sched_yield();
			turn_take(&t.nic->core.turn);
			left = t.one[i].nl.link->ops->deadline(t.one[i].nl.link) != NEVER;
			turn_give(&t.nic->core.turn);
		} while (left);
		assert_int_equal(read(t.one[i].pipe[0], &byte, 1), 1);
	}
	engine_thread_stop(&t.nic->engine);
	turn_take(&t.nic->core.turn);
}

static void a_device_s_own_link_is_asked(void **state)
{
	const uint8_t gid[16] = { 0xff, 0x0e };
	struct links *links = &t.nic->links;
	struct device stranger = { .kind = &device_iwarp };

	(void)state;
	assert_ptr_equal(links_of(links, &t.one[1].dev), &t.one[1].nl);
	assert_null(links_of(links, &stranger));
	assert_int_equal(links_join(links, &t.one[1].dev, gid, true), 0);
	assert_int_equal(links_join(links, &t.one[1].dev, gid, false), 0);
	assert_int_equal(links_join(links, &stranger, gid, true), -EOPNOTSUPP);
	assert_int_equal(t.one[0].joins, 0);
	assert_int_equal(t.one[1].joins, 1);
	assert_int_equal(links_listen(links, &t.one[0].dev, gid), 0);
	assert_int_equal(links_listen(links, &stranger, gid), 0);
	assert_int_equal(t.one[0].listens, 1);
	assert_int_equal(t.one[1].listens, 0);
	assert_int_equal(links_listen(links, NULL, NULL), 0);
	assert_int_equal(t.one[0].listens, 2);
	assert_int_equal(t.one[1].listens, 1);
}

static void an_owner_needs_little(void **state)
{
	struct links *links = &t.nic->links;

	(void)state;
	turn_is_held(t.nic->engine.core);
	t.one[1].nl.ops = &with_least;
	assert_int_equal(links_listen(links, NULL, NULL), 0);
	assert_int_equal(links_join(links, &t.one[1].dev, (uint8_t[16]){ 0 }, true),
			 -EOPNOTSUPP);
	links_ask(links);
	comes(1, 2, 0);
	engine_turn(&t.nic->engine, LATENCY, false);
	assert_int_equal(waiting(1, LATENCY), 0);
}

static void a_full_one_is_found(void **state)
{
	struct links *links = &t.nic->links;

	(void)state;
	assert_false(links_full(links, 0));
	t.one[1].nl.link->full_until = 5;
	assert_true(links_full(links, 4));
	assert_false(links_full(links, 5));
}

static void each_link_forwards_if_it_can(void **state)
{
	(void)state;
	links_forward(&t.nic->links);
	t.one[1].nl.ops = &with_least;
	links_forward(&t.nic->links);
	assert_int_equal(t.one[0].forwards, 2);
	assert_int_equal(t.one[1].forwards, 1);
}

/* --- a thread that waits ------------------------------------------------------- */

static struct {
	unsigned looks, enough; /* looks for an event, and the look that finds one */
	unsigned sleeps;	/* calls of ppoll() */
	unsigned own, links;	/* of those, the ones on OWN, and on both links */
	int rc;			/* of ppoll() */
	uint64_t now;		/* ns; 0: time is real */
} sleeper;

enum { OWN = 1000 };

/* In place of libc's. A reading of the clock takes 5 us, a sleep 100 us. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (!sleeper.now)
		return (int)syscall(SYS_clock_gettime, clock, ts);
	sleeper.now += 5000;
	*ts = (struct timespec){ .tv_nsec = (long)sleeper.now };
	return 0;
}

int ppoll(struct pollfd *p, nfds_t n, const struct timespec *most, const sigset_t *mask)
{
	bool own = false, link[LINKS] = { false };

	(void)most;
	assert_null(mask);
	for (nfds_t i = 0; i < n; i++) {
		own |= p[i].fd == OWN && p[i].events == POLLIN;
		for (int l = 0; l < LINKS; l++)
			link[l] |= p[i].fd == t.one[l].pipe[0] && p[i].events == POLLIN;
	}
	sleeper.sleeps++;
	sleeper.own += own;
	sleeper.links += link[0] && link[1];
	if (sleeper.now)
		sleeper.now += 100000;
	errno = EINTR;
	return sleeper.rc;
}

static bool has_enough(void *arg)
{
	assert_ptr_equal(arg, &sleeper);
	return ++sleeper.looks == sleeper.enough;
}

static int awaits(unsigned enough, int rc)
{
	memset(&sleeper, 0, sizeof(sleeper));
	sleeper.enough = enough;
	sleeper.rc = rc;
	sleeper.now = 1;
	t.nic->engine.pollers.last = 0;
	rc = nic_await(&t.nic->core, OWN, has_enough, &sleeper);
	sleeper.now = 0;
	return rc;
}

NO_TSA static int waits(unsigned enough, int rc)
{
	turn_give(&t.nic->core.turn);
	rc = awaits(enough, rc);
	turn_take(&t.nic->core.turn);
	assert_true(t.nic->engine.pollers.last > 0);
	return rc;
}

/* It looks for input for 50 us, and again each time that it wakes. It sleeps on its own
 * descriptor and on those of all links. After a while it leaves the links to the engine's
 * thread. */
static void a_thread_that_waits_sleeps_on_the_links(void **state)
{
	atomic_bool *armed = &t.nic->engine.thread.armed;
	unsigned looks;

	(void)state;
	assert_int_equal(waits(2, 1), 1); /* an answer that comes soon */
	assert_int_equal(sleeper.sleeps, 0);
	assert_int_equal(waits(0, -1), -EINTR);
	assert_int_equal(sleeper.sleeps, 1);
	looks = sleeper.looks / 2; /* before the sleep, and after it */
	assert_in_range(looks, 4, 10);
	*armed = false;
	assert_int_equal(waits(looks + 1, -1), 1);
	assert_int_equal(waits(looks, 1), 1);
	assert_int_equal(sleeper.sleeps, 0);
	assert_int_equal(waits(looks + 1, 1), 1);
	assert_int_equal(sleeper.sleeps, 1);
	assert_int_equal(sleeper.own, 1);
	assert_int_equal(sleeper.links, 1);
	assert_false(*armed);
	assert_int_equal(waits(0, 0), 0);
	assert_in_range(sleeper.sleeps, 5, 9);
	assert_true(*armed);
}

/* Here the test has the turn. A thread that waits neither spins for it nor counts as one
 * that takes input in, but it has polled. */
static void a_thread_that_waits_leaves_the_turn_to_others(void **state)
{
	atomic_bool *polled = &t.nic->engine.pollers.polled;

	(void)state;
	*polled = false;
	assert_int_equal(awaits(0, -1), -EINTR);
	assert_int_equal(sleeper.looks, 2); /* before the sleep, and after it */
	assert_int_equal(sleeper.sleeps, 1);
	assert_int_equal(t.nic->engine.pollers.last, 0);
	assert_true(*polled);
	assert_int_equal(awaits(1, -1), 1);
	assert_int_equal(sleeper.sleeps, 0);
}

/* The engine would wait in vain for the input of rings that cannot be marked. */
static void rings_that_cannot_be_marked_are_not_added(void **state)
{
	static const struct source_ops half = { SOURCE_RINGS, .input = links_input };
	struct source source;
	int status;
	pid_t pid;

	(void)state;
	source_init(&source, &half);
	pid = fork();
	if (!pid) {
		close(STDERR_FILENO);
		engine_add(&t.nic->engine, &source);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_turn_takes_in_from_all),
		TEST(one_cannot_use_up_the_other_s_share),
		TEST(the_earlier_deadline_counts),
		TEST(either_wakes_the_thread),
		TEST(a_device_s_own_link_is_asked),
		TEST(an_owner_needs_little),
		TEST(a_full_one_is_found),
		TEST(each_link_forwards_if_it_can),
		TEST(a_thread_that_waits_sleeps_on_the_links),
		TEST(a_thread_that_waits_leaves_the_turn_to_others),
		TEST(rings_that_cannot_be_marked_are_not_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Polls and events (poll.c, cq_ex.c, event.c), and cancellation (abi_hold()). */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/fix.h"
#include "verbs/cq.h"

/* --- polls ------------------------------------------------------------------- */

static struct ibv_qp *sender;

static void send_n(struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_send_wr wr = { .wr_id = wr_id, .opcode = IBV_WR_SEND }, *bad;

	assert_int_equal(abi_post_send(qp, &wr, &bad), 0);
}

static void complete_one(void)
{
	if (qp_of(sender)->sq.tail != qp_of(sender)->sq.head)
		fix_complete(sender, IBV_WC_SUCCESS);
}

/* A poll of an empty CQ drives the NIC once. */
static void polls(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	sender = fix_rts(IBV_QPT_RC);
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 0);
	assert_string_equal(fix_said(), "poll");
	assert_int_equal(abi_poll_cq(fix.cq, 0, wc), 0);
	assert_string_equal(fix_said(), "");
	send_n(sender, 1);
	send_n(sender, 2);
	send_n(sender, 3);
	fix_said();
	fix.polled = complete_one;
	assert_int_equal(abi_poll_cq(fix.cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 1);
	assert_string_equal(fix_said(), "poll polled");
	complete_one();
	complete_one();
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 1);
	assert_string_equal(fix_said(), "polled");
	inside_begin(); /* as in a signal handler */
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 0);
	abi_end();
	assert_string_equal(fix_said(), "");
	assert_int_equal(abi_poll_cq(fix.cq, 1, wc), 1);
	assert_int_equal(wc[0].wr_id, 3);
	assert_int_equal(ibv_destroy_qp(sender), 0);
}

static void arms(void **state)
{
	(void)state;
	assert_int_equal(abi_req_notify_cq(fix.cq, 7), 0);
	assert_int_equal(cq_of(fix.cq)->armed, CQ_SOLICITED);
	assert_int_equal(abi_req_notify_cq(fix.cq, 0), 0);
	assert_int_equal(cq_of(fix.cq)->armed, CQ_ANY);
	assert_string_equal(fix_said(), "armed armed");
}

/* --- reading a completion ---------------------------------------------------- */

static struct ibv_cq_ex *make_cq_ex(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
	};
	struct ibv_cq_ex *ex = abi_create_cq_ex(fix.ibv, &attr);

	assert_non_null(ex);
	return ex;
}

static struct cq *inside(struct ibv_cq_ex *ex)
{
	return cq_of((struct ibv_cq *)ex);
}

static void push(struct ibv_cq_ex *ex, uint64_t wr_id)
{
	const struct cqe e = {
		.wr_id = wr_id,
		.now = 500,
		.byte_len = 1,
		.imm = 2,
		.qp_num = 3,
		.src_qp = 4,
		.vendor_err = 5,
		.status = 6,
		.opcode = 7,
		.flags = 8,
		.sl = 9,
		.dlid_path_bits = 10,
		.slid = 11,
	};

	assert_true(cq_push(inside(ex), &e, false));
}

enum { MS = 1000000 };

static uint64_t day = 1700000000000000000; /* the time of day, ns */
static uint64_t delay;			   /* the thread's, while it reads it */

/* Stands in for libc's function. */
int clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_REALTIME)
		return (int)syscall(SYS_clock_gettime, clock, ts);
	ts->tv_sec = (time_t)(day / 1000000000);
	ts->tv_nsec = (long)(day % 1000000000);
	day += delay;
	fix.now += delay;
	delay = 0;
	return 0;
}

static void reads_each_field(void **state)
{
	struct ibv_cq_ex *ex = make_cq_ex();
	struct ibv_poll_cq_attr attr = { 0 };
	(void)state;
	push(ex, 4711);
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_string_equal(fix_said(), "polled");
	assert_int_equal(ex->wr_id, 4711);
	assert_int_equal(ex->status, 6);
	assert_int_equal(ibv_wc_read_byte_len(ex), 1);
	assert_int_equal(ibv_wc_read_imm_data(ex), 2);
	assert_int_equal(ibv_wc_read_qp_num(ex), 3);
	assert_int_equal(ibv_wc_read_src_qp(ex), 4);
	assert_int_equal(ibv_wc_read_vendor_err(ex), 5);
	assert_int_equal(ibv_wc_read_opcode(ex), 7);
	assert_int_equal(ibv_wc_read_wc_flags(ex), 8);
	assert_int_equal(ibv_wc_read_sl(ex), 9);
	assert_int_equal(ibv_wc_read_dlid_path_bits(ex), 10);
	assert_int_equal(ibv_wc_read_slid(ex), 11);
	assert_int_equal(ibv_wc_read_completion_ts(ex), 500);
	fix.now = 500 + 3600000000000; /* the completion is an hour old */
	assert_int_equal(ibv_wc_read_completion_wallclock_ns(ex), day - 3600000000000);
	ibv_end_poll(ex);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)ex), 0);
}

/* All completions are told with one difference of the two clocks, whatever lies between
 * the readings of the clocks, until somebody sets the clock. */
static void tells_the_time_of_day_in_order(void **state)
{
	struct ibv_cq_ex *ex = make_cq_ex();
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t told;

	(void)state;
	push(ex, 1);
	fix.now = 500;
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	delay = 20 * MS;
	told = ibv_wc_read_completion_wallclock_ns(ex);
	assert_int_equal(told, day - 20 * MS);
	for (int i = 0; i < 9; i++) {
		fix.now += 100;
		day += i % 2 ? 90 : 110;
		delay = i % 3 ? 20 * MS : 400000;
		assert_int_equal(ibv_wc_read_completion_wallclock_ns(ex), told);
	}
	day -= 2 * MS;
	assert_in_range(told - ibv_wc_read_completion_wallclock_ns(ex), 2 * MS - 1000,
			2 * MS + 1000);
	day += 3600000000000;
	assert_in_range(ibv_wc_read_completion_wallclock_ns(ex) - told,
			3600000000000 - 3 * MS, 3600000000000);
	ibv_end_poll(ex);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)ex), 0);
}

static void push_two(void)
{
	push((struct ibv_cq_ex *)fix.cq, 1);
	push((struct ibv_cq_ex *)fix.cq, 2);
}

/* Only start_poll drives the NIC; next_poll does not. */
static void reads_one_after_another(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq *plain = fix.cq;
	struct ibv_cq_ex *ex = make_cq_ex();
	struct lock *l = &inside(ex)->reader;

	(void)state;
	fix.cq = (struct ibv_cq *)ex;
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	assert_string_equal(fix_said(), "poll");
	lock_take(l); /* the lock is free again */
	lock_give(l);
	fix.polled = push_two;
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_int_equal(ex->wr_id, 1);
	assert_string_equal(fix_said(), "poll polled");
	assert_int_equal(ibv_next_poll(ex), 0);
	assert_int_equal(ex->wr_id, 2);
	assert_int_equal(ibv_next_poll(ex), ENOENT);
	assert_string_equal(fix_said(), "");
	/* The same thread again, as in a signal handler: it would wait for itself. */
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	ibv_end_poll(ex);
	fix.polled = NULL;
	attr.comp_mask = 1;
	assert_int_equal(ibv_start_poll(ex, &attr), EINVAL);
	attr.comp_mask = 0;
	inside_begin();
	push(ex, 3);
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	abi_end();
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	assert_int_equal(ex->wr_id, 3);
	abi_of(fix.ibv)->ctx.dead = true;
	assert_int_equal(ibv_next_poll(ex), EIO);
	ibv_end_poll(ex);
	fix_errno(ibv_start_poll(ex, &attr), EIO);
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(ibv_destroy_cq(fix.cq), 0);
	fix.cq = plain;
}

/* A thread may read one CQ while it reads another, unless another thread reads that. */
static void reads_two(void **state)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *a = make_cq_ex(), *b = make_cq_ex();
	struct lock *l = &inside(b)->reader;

	(void)state;
	push(a, 1);
	push(b, 2);
	assert_int_equal(ibv_start_poll(a, &attr), 0);
	assert_int_equal(ibv_start_poll(b, &attr), 0);
	assert_int_equal(b->wr_id, 2);
	ibv_end_poll(b);
	push(b, 3);
	lock_take(l);
	assert_int_equal(ibv_start_poll(b, &attr), ENOENT);
	lock_give(l);
	ibv_end_poll(a);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)a), 0);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)b), 0);
}

static pthread_barrier_t both;

/* Reads twice, once in vain, and then again while the other thread reads. */
static void *reader(void *arg)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *ex = arg;

	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	ibv_end_poll(ex);
	assert_int_equal(ibv_start_poll(ex, &attr), ENOENT);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both); /* the other thread has the lock */
	assert_int_equal(ibv_start_poll(ex, &attr), 0);
	ibv_end_poll(ex);
	return NULL;
}

/* A thread that reads no other CQ waits for the reader. */
static void waits_for_another_reader(void **state)
{
	struct ibv_cq_ex *ex = make_cq_ex();
	struct lock *l = &inside(ex)->reader;
	pthread_t t;

	(void)state;
	pthread_barrier_init(&both, NULL, 2);
	push(ex, 1);
	assert_int_equal(pthread_create(&t, NULL, reader, ex), 0);
	pthread_barrier_wait(&both);
	lock_take(l);
	push(ex, 2);
	pthread_barrier_wait(&both);
	while (lock_look(l) != LOCK_AWAITED)
		sched_yield();
	lock_give(l);
	assert_int_equal(pthread_join(t, NULL), 0);
	pthread_barrier_destroy(&both);
	assert_int_equal(ibv_destroy_cq((struct ibv_cq *)ex), 0);
}

/* --- events ------------------------------------------------------------------ */

static void completion_events(void **state)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(fix.ibv);
	struct ibv_cq *cq, *got = NULL;
	const struct cqe e = { 0 };
	void *arg = NULL;
	int mark;

	(void)state;
	assert_ptr_equal(ch->context, fix.ibv);
	cq = ibv_create_cq(fix.ibv, 4, &mark, ch, 0);
	assert_ptr_equal(cq->channel, ch);
	assert_int_equal(fcntl(ch->fd, F_SETFL, O_NONBLOCK), 0);
	fix_minus(ibv_get_cq_event(ch, &got, &arg), EAGAIN);
	fix_minus(ibv_get_cq_event(NULL, &got, &arg), EBADF);
	assert_int_equal(abi_req_notify_cq(cq, 0), 0);
	assert_true(cq_push(cq_of(cq), &e, false));
	assert_int_equal(ibv_get_cq_event(ch, &got, &arg), 0);
	assert_ptr_equal(got, cq);
	assert_ptr_equal(arg, &mark);
	assert_int_equal(cq->comp_events_completed, 0);
	ibv_ack_cq_events(cq, 0);
	ibv_ack_cq_events(NULL, 1);
	assert_int_equal(cq->comp_events_completed, 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(cq->comp_events_completed, 1);
	fix_errno(ibv_destroy_comp_channel(ch), EBUSY);
	abi_of(fix.ibv)->ctx.dead = true;
	fix_minus(ibv_get_cq_event(ch, &got, &arg), EIO);
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
}

static void asynchronous_events(void **state)
{
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);
	struct ibv_async_event ev;

	(void)state;
	assert_int_equal(fcntl(fix.ibv->async_fd, F_SETFL, O_NONBLOCK), 0);
	fix_minus(ibv_get_async_event(fix.ibv, &ev), EAGAIN);
	async_raise(&abi_of(fix.ibv)->ctx, IBV_EVENT_QP_FATAL, qp);
	abi_of(fix.ibv)->ctx.dead = true; /* the event says why */
	assert_int_equal(ibv_get_async_event(fix.ibv, &ev), 0);
	abi_of(fix.ibv)->ctx.dead = false;
	assert_int_equal(ev.event_type, IBV_EVENT_QP_FATAL);
	assert_ptr_equal(ev.element.qp, qp);
	assert_int_equal(qp->events_completed, 0);
	ibv_ack_async_event(&ev);
	assert_int_equal(qp->events_completed, 1);
	abi_of(fix.ibv)->ctx.pid++; /* as if it were the parent's */
	fix_minus(ibv_get_async_event(fix.ibv, &ev), EIO);
	abi_of(fix.ibv)->ctx.pid--;
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* --- cancellation ------------------------------------------------------------ */

/* A control call cannot be cancelled, nor a call inside of it. Afterwards the thread's
 * state is as before. */
static void cancellation(void **state)
{
	int was;

	(void)state;
	inside_begin();
	abi_hold();
	abi_hold();
	inside_begin();
	abi_hold();
	abi_end();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_DISABLE);
	abi_end();
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_ENABLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_open, fix_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(polls),
		TEST(arms),
		TEST(reads_each_field),
		TEST(tells_the_time_of_day_in_order),
		TEST(reads_one_after_another),
		TEST(reads_two),
		TEST(waits_for_another_reader),
		TEST(completion_events),
		TEST(asynchronous_events),
		TEST(cancellation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* regions_test.c - regions that end too early. */
#include <pthread.h>
#include <sys/mman.h>

#include "check/fix.h"
#include "check/queue.h"
#include "verbs/mr.h"
#include "verbs/rq.h"
#include "verbs/verr.h"

static struct mr mr;
static uint8_t *memory;

static void make_region(void)
{
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	memory[0] = 1;	 /* registration touches it */
	mr.ibv.lkey = 1; /* fix_send()'s */
	mr.mkey = (struct mkey){ .host = memory, .length = 4096 };
	object_made(&mr.live, LIVE_MR);
}

static void test_in_use(void **state)
{
	(void)state;
	make_region();
	FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
	fix_recv(1);
	FIX_FINDS("region-in-use", checks->destroys(&mr.live, LIVE_MR));
	fix.qp.state = IBV_QPS_ERR; /* it was flushed, and waits to be polled */
	FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
	fix.qp.state = IBV_QPS_RTS;
	fix_reap(1, IBV_WC_RECV, IBV_WC_SUCCESS);
	fix_send(1, IBV_SEND_INLINE);
	FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
	check_queue_clear(&fix_qp()->sq);
	object_gone(&mr.live, LIVE_MR);
	munmap(memory, 4096);
}

static struct srq srq;

static void post_to_srq(void)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, 1 };
	struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 }, *bad;

	srq.ibv.context = &fix.v.context;
	srq.rq.cap = 4;
	srq.rq.max_sge = 1;
	object_made(&srq.live, LIVE_SRQ);
	assert_int_equal(ibv_post_srq_recv(&srq.ibv, &wr, &bad), 0);
}

/* The QP takes n receives of the SRQ, and ends. */
static void end_qp(uint32_t n)
{
	static struct qp qp[2];
	struct qp *own = &qp[n];

	own->qpn = FIX_QPN + 1 + n;
	own->type = IBV_QPT_RC;
	own->srq = &srq;
	object_made(&own->live, LIVE_QP);
	own->recv.srqs = n;
	object_gone(&own->live, LIVE_QP);
}

/* A completion that the program did not get went with its QP, and so did the receive. */
static void test_srq_outlives_a_qp(void **state)
{
	(void)state;
	make_region();
	post_to_srq();
	end_qp(0);
	FIX_FINDS("region-in-use", checks->destroys(&mr.live, LIVE_MR));
	end_qp(1);
	FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
	object_gone(&srq.live, LIVE_SRQ);
	object_gone(&mr.live, LIVE_MR);
	munmap(memory, 4096);
}

/* XRC's, whose completions name QPs without an SRQ. */
static void test_srq_of_a_rare_kind(void **state)
{
	(void)state;
	make_region();
	srq.hooks = (const void *)&srq; /* not called */
	post_to_srq();
	FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
	object_gone(&srq.live, LIVE_SRQ);
	object_gone(&mr.live, LIVE_MR);
	munmap(memory, 4096);
}

static void reap_fault(void)
{
	struct ibv_wc wc;

	fix.wc[0] = (struct ibv_wc){ .wr_id = 1,
				     .status = IBV_WC_LOC_PROT_ERR,
				     .vendor_err = VERR_LOCAL_FAULT,
				     .qp_num = FIX_QPN };
	fix.n = 1;
	ibv_poll_cq((struct ibv_cq *)&fix.cq.ex, 1, &wc);
}

static void test_unmapped(void **state)
{
	(void)state;
	make_region();
	munmap(memory, 4096);
	fix_send(1, 0);
	FIX_FINDS("region-unmapped", reap_fault());
	FIX_FINDS("unmapped-first", checks->destroys(&mr.live, LIVE_MR));
}

/* Its pages are others, which nobody has touched. */
static void test_given_back(void **state)
{
	(void)state;
	make_region();
	FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
	madvise(memory, 4096, MADV_DONTNEED);
	FIX_FINDS("unmapped-first", checks->destroys(&mr.live, LIVE_MR));
	object_gone(&mr.live, LIVE_MR);
	munmap(memory, 4096);
}

/* Shared memory is the file's, whatever is in the table of pages. */
static void test_shared_memory(void **state)
{
	(void)state;
	make_region();
	assert_ptr_equal(mmap(memory, 4096, PROT_READ,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 memory);
	FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
	object_gone(&mr.live, LIVE_MR);
	munmap(memory, 4096);
}

/* All queues are looked at. */
static void test_many_queues(void **state)
{
	enum { MANY = 700 };
	static struct qp qp[MANY];

	(void)state;
	make_region();
	for (unsigned i = 0; i < MANY; i++) {
		qp[i] = fix.qp;
		qp[i].qpn = qp[i].ex.qp_base.qp_num = FIX_QPN + 10 + i;
		object_made(&qp[i].live, LIVE_QP);
	}
	for (unsigned i = 0; i < MANY; i += 233) {
		struct ibv_sge sge = { 0x1000, 64, 1 };
		struct ibv_recv_wr *bad,
			wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		FIX_FINDS_NOTHING(checks->destroys(&mr.live, LIVE_MR));
		assert_int_equal(ibv_post_recv(&qp[i].ex.qp_base, &wr, &bad), 0);
		FIX_FINDS("region-in-use", checks->destroys(&mr.live, LIVE_MR));
		object_gone(&qp[i].live, LIVE_QP);
	}
	object_gone(&mr.live, LIVE_MR);
	munmap(memory, 4096);
}

static void *reap_cancelled(void *arg)
{
	bool *goes_on = arg;

	pthread_cancel(pthread_self());
	reap_fault();
	*goes_on = true;
	return NULL;
}

/* A poll is no cancellation point, and holds the lock of the queue meanwhile. */
static void test_no_thread_ends_in_a_poll(void **state)
{
	bool goes_on = false;
	pthread_t thread;

	(void)state;
	make_region();
	fix_send(1, 0);
	assert_int_equal(pthread_create(&thread, NULL, reap_cancelled, &goes_on), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(goes_on);
	object_gone(&mr.live, LIVE_MR);
	munmap(memory, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_use),
		cmocka_unit_test(test_srq_outlives_a_qp),
		cmocka_unit_test(test_srq_of_a_rare_kind),
		cmocka_unit_test(test_unmapped),
		cmocka_unit_test(test_given_back),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_many_queues),
		cmocka_unit_test(test_no_thread_ends_in_a_poll), /* last */
	};

	fix_open("region-in-use,region-unmapped,unmapped-first");
	return cmocka_run_group_tests(tests, NULL, NULL);
}

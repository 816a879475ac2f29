/* SPDX-License-Identifier: BSD-2-Clause */
/* dump_test.c - what a dump says of each object. */
#include "verbs/qp_fixture.h"

#include <stdio.h>
#include <sys/mman.h>

#include "driver/dump.h"
#include "sys/mark.h"
#include "verbs/rq.h"

static void expect_line(const char *text, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void expect_line(const char *text, const char *fmt, ...)
{
	char want[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	if (!strstr(text, want))
		fail_msg("no '%s' in:\n%s", want, text);
}

static char *dump_of(struct fix *f)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct dump_text d;

	dump_begin(&d, &f->core, NULL, UINT32_MAX, out);
	while (dump_go_on(&d))
		;
	assert_int_equal(fclose(out), 0);
	mark_drop(text);
	return text;
}

static void every_object_is_there(void **state)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct fix *f = fix_open(8);
	static uint8_t memory[4096];
	struct mr *mr;
	struct srq *srq;
	struct qp *qp;
	char *text;

	(void)state;
	assert_int_equal(mr_reg(f->pd, memory, sizeof(memory), (uintptr_t)memory,
				IBV_ACCESS_LOCAL_WRITE, &mr),
			 0);
	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), 0);
	qp = fix_qp(f, IBV_QPT_RC);
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(fix_recv(qp, 1), 0);
	assert_int_equal(fix_send(qp, 2, 0), 0);

	text = dump_of(f);
	expect_line(text, "slot %u\n", FIX_SLOT);
	expect_line(text, "pd %u: used by 3 objects\n", f->pd->ibv.handle);
	expect_line(text, "mr key 0x%08x: 4096 bytes at 0x%llx", mr->mkey.key,
		    (unsigned long long)(uintptr_t)memory);
	expect_line(text, "cq %u: entries 0 of 8, armed no, used by 1 work",
		    f->scq->ex.handle);
	expect_line(text, "srq 0x%06x: receives 0 of 16, limit 0", srq->num);
	expect_line(text,
		    "qp 0x%06x: RC RTS on roce_veth0, fake to QP 0x001234 at 10.0.0.2\n",
		    qp->qpn);
	expect_line(text,
		    "send queue: 1 of 8; receive queue: 1 of 8; pd %u, cq %u and %u\n",
		    f->pd->ibv.handle, f->scq->ex.handle, f->rcq->ex.handle);
	free(text);

	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(mr_dereg(mr), 0);
	text = dump_of(f);
	assert_null(strstr(text, "qp 0x"));
	assert_null(strstr(text, "mr key"));
	assert_null(strstr(text, "srq"));
	free(text);
	fix_close(f);
}

static void windows_paths_and_types(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		const char *name;
	} row[] = { { IBV_QPT_UC, "UC" }, { IBV_QPT_UD, "UD" } };
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_ah_attr path = fix_attr(IBV_QPS_RTR).ah_attr;
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex init = fix_init(f, IBV_QPT_RC);
	struct qp *qp[2], *with_srq;
	struct srq *srq;
	struct mw *mw;
	struct ah *ah;
	char *text;

	(void)state;
	assert_int_equal(mw_alloc(f->pd, IBV_MW_TYPE_2, &mw), 0);
	assert_int_equal(ah_create(f->pd, &f->ctx, &path, &ah), 0);
	assert_int_equal(srq_create(&f->ctx, f->pd, &a, &srq), 0);
	init.srq = &srq->ibv;
	assert_int_equal(qp_create(&f->ctx, &init, &fake_transport, &with_srq), 0);
	for (int i = 0; i < 2; i++)
		qp[i] = fix_qp(f, row[i].type);
	text = dump_of(f);
	expect_line(text, "mw key 0x%08x: type 2, not bound\n", mw->mkey.key);
	expect_line(text, "ah %u: to 10.0.0.2, sgid_index 1, pd %u\n", ah->ibv.handle,
		    f->pd->ibv.handle);
	expect_line(text, "send queue: 0 of 8; receives: srq 0x%06x; pd", srq->num);
	for (int i = 0; i < 2; i++)
		expect_line(text, "qp 0x%06x: %s RESET on roce_veth0, fake\n", qp[i]->qpn,
			    row[i].name);
	free(text);
	mw->mkey.length = 100;
	mw->mkey.base = 0x1000;
	mw->mkey.qpn = 0x77;
	mw->mkey.valid = true;
	text = dump_of(f);
	expect_line(text, "mw key 0x%08x: type 2, 100 bytes at 0x1000, access 0x",
		    mw->mkey.key);
	expect_line(text, ", QP 0x000077\n");
	free(text);
	mw->mkey.valid = false;
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp_destroy(qp[i]), 0);
	assert_int_equal(qp_destroy(with_srq), 0);
	assert_int_equal(srq_destroy(srq), 0);
	ah_destroy(ah);
	assert_int_equal(mw_dealloc(mw), 0);
	fix_close(f);
}

static unsigned occurs(const char *text, const char *fmt, uint32_t key)
{
	unsigned n = 0;
	char want[64];

	snprintf(want, sizeof(want), fmt, key);
	for (const char *at = text; (at = strstr(at, want)); at++)
		n++;
	return n;
}

enum { REGIONS = 1000, QPS = 100, PIECE_BYTES = 20000 };

/* A dump is written in pieces, and the turn is free between them. An object that is
 * destroyed meanwhile is left out or was written before; every other object is written
 * once. */
static void it_is_written_in_pieces(void **state)
{
	static struct mr *mr[REGIONS];
	static uint8_t memory[64];
	struct fix *f = fix_open(8);
	uint32_t last = 0;
	struct qp *qp[QPS];
	char *text = NULL;
	size_t len = 0, was = 0;
	FILE *out = open_memstream(&text, &len);
	struct dump_text d;

	(void)state;
	for (unsigned i = 0; i < REGIONS; i++)
		assert_int_equal(mr_reg(f->pd, memory, sizeof(memory), i, 0, &mr[i]), 0);
	for (unsigned i = 0; i < QPS; i++)
		qp[i] = fix_qp(f, IBV_QPT_UD);
	dump_begin(&d, &f->core, NULL, UINT32_MAX, out);
	while (dump_go_on(&d)) {
		fflush(out);
		assert_in_range(len - was, 0, PIECE_BYTES);
		was = len;
		if (d.kind && !last) { /* at the first region: destroy one, and a QP */
			last = mr[0]->ibv.lkey;
			assert_int_equal(mr_dereg(mr[0]), 0);
			assert_int_equal(qp_destroy(qp[0]), 0);
		}
	}
	assert_int_equal(fclose(out), 0);
	mark_drop(text);
	assert_in_range(occurs(text, "mr key 0x%08x:", last), 0, 1);
	for (unsigned i = 1; i < REGIONS; i++)
		assert_int_equal(occurs(text, "mr key 0x%08x:", mr[i]->ibv.lkey), 1);
	assert_int_equal(occurs(text, "\nqp 0x", 0), QPS - 1);
	free(text);
	for (unsigned i = 1; i < REGIONS; i++)
		assert_int_equal(mr_dereg(mr[i]), 0);
	for (unsigned i = 1; i < QPS; i++)
		assert_int_equal(qp_destroy(qp[i]), 0);
	fix_close(f);
}

/* Each piece wakes the process: kinds that nobody wants make none. */
static void few_pieces_for_one_kind(void **state)
{
	struct fix *f = fix_open(8);
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct qp *qp = fix_qp(f, IBV_QPT_UD);
	enum { MOST = 6 }; /* QPs are looked for in four */
	unsigned pieces = 1;
	struct dump_text d;

	(void)state;
	dump_begin(&d, &f->core, NULL, 1u << DUMP_QP, out);
	while (dump_go_on(&d))
		pieces++;
	assert_int_equal(fclose(out), 0);
	assert_in_range(pieces, 1, MOST);
	assert_int_equal(occurs(text, "\nqp ", 0), 1);
	assert_null(strstr(text, "\npd "));
	assert_int_equal(qp_destroy(qp), 0);
	free(text);
	fix_close(f);
}

/* A dump passes over an object whose lock stays taken, since the lock's holder may wait
 * for a lock or turn that the dump holds. */
static void what_is_locked_is_passed_over(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_UD);
	char *text;

	(void)state;
	lock_take(&qp->lock);
	brief_take(&f->scq->lock);
	text = dump_of(f);
	brief_give(&f->scq->lock);
	lock_give(&qp->lock);
	expect_line(text, "qp 0x%06x: busy\n", qp->qpn);
	expect_line(text, "cq %u: busy\n", f->scq->ex.handle);
	expect_line(text, "cq %u: entries 0 of 8", f->rcq->ex.handle);
	free(text);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

/* A thread may be preempted while it holds a lock: what is free later is shown, once. */
static void what_is_free_later_is_shown(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_UD), *other = fix_qp(f, IBV_QPT_UD);
	FILE *out;
	char *text = NULL;
	struct dump_text d;
	size_t len = 0;

	(void)state;
	out = open_memstream(&text, &len);
	lock_take(&qp->lock);
	brief_take(&f->scq->lock);
	dump_begin(&d, &f->core, NULL, 1 << DUMP_QP | 1 << DUMP_CQ, out);
	while (d.kind != DUMP_CQ || d.again < 3)
		assert_true(dump_go_on(&d));
	brief_give(&f->scq->lock);
	while (d.kind != DUMP_QP || d.again < 3)
		assert_true(dump_go_on(&d));
	lock_give(&qp->lock);
	while (dump_go_on(&d))
		;
	assert_int_equal(fclose(out), 0);
	mark_drop(text);
	assert_null(strstr(text, "busy"));
	assert_null(strstr(text, "pd 0")); /* only what was asked for */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(occurs(text, "cq %u:", (i ? f->rcq : f->scq)->ex.handle),
				 1);
		assert_int_equal(occurs(text, "qp 0x%06x:", (i ? qp : other)->qpn), 1);
	}
	free(text);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(other), 0);
	fix_close(f);
}

/* Queues' indices have 32 bits, and pass 0. */
static void counts_have_64_bits(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	char *text;

	(void)state;
	qp->tp.traffic.done = 3;
	qp->past.traffic.done = 1ull << 33;
	qp->sq.head = qp->sq.tail = UINT32_MAX;
	free(dump_of(f));
	qp->sq.head += 5;
	qp->sq.tail += 3;
	qp->rq.head = qp->rq.tail = 7;
	text = dump_of(f);
	expect_line(text,
		    "requests: posted 4294967300, completed 4294967298; received 7; by");
	expect_line(text, "mapped 8589934595 of 0 bytes");
	free(text);
	qp->sq.tail = qp->sq.head;
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

/* A pause is only for who has a lock. */
static void pieces_follow_at_once(void **state)
{
	struct fix *f = fix_open(8);
	const struct asker by = { 0 };
	struct dumper d;

	(void)state;
	dumper_init(&d, &f->core, NULL);
	assert_int_equal(dump_ask(&d, &by, UINT32_MAX, 1000), 0);
	d.source.ops->run(&d.source, 1000);
	assert_true(source_at(&d.source) == 1000);
	brief_take(&f->scq->lock);
	while (!d.text.again) {
		assert_true(source_at(&d.source) == 1000);
		d.source.ops->run(&d.source, 1000);
	}
	brief_give(&f->scq->lock);
	assert_true(source_at(&d.source) > 1000);
	dumper_fini(&d);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_object_is_there),
		cmocka_unit_test(pieces_follow_at_once),
		cmocka_unit_test(windows_paths_and_types),
		cmocka_unit_test(it_is_written_in_pieces),
		cmocka_unit_test(few_pieces_for_one_kind),
		cmocka_unit_test(what_is_locked_is_passed_over),
		cmocka_unit_test(what_is_free_later_is_shown),
		cmocka_unit_test(counts_have_64_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

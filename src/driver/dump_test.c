/* SPDX-License-Identifier: BSD-2-Clause */
/* dump_test.c - what a dump says of each object, and what the asker accepts as a
 * dump. */
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

	dump_begin(&d, &f->core, NULL, out);
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

enum { REGIONS = 1000, QPS = 100 };

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
	dump_begin(&d, &f->core, NULL, out);
	while (dump_go_on(&d)) {
		fflush(out);
		assert_in_range(len - was, 0, 150 * 2 * 64);
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

/* A dump passes over an object whose lock is taken, since the lock's holder may wait for
 * a lock or turn that the dump holds. */
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

static char *answer_of(int32_t error, const char *text, size_t here, int *why)
{
	char body[64];
	const size_t len = sizeof(error) + strlen(text);
	struct msg m = { .body = body, .len = len, .here = here, .memory = -1 };
	struct host_said s = { .type = HOST_DUMP_TEXT, .len = len, .msg = &m };
	size_t n = 0;
	char *got;

	memcpy(body, &error, sizeof(error));
	memcpy(body + sizeof(error), text, strlen(text));
	got = dump_read(&s, why, &n);
	assert_int_equal(n, got ? strlen(text) : 0);
	return got;
}

/* The process that answers may be hostile: its answer must not send escape sequences to
 * the terminal. (That it does not block the asker, nor change while it is read, is
 * sys/msg's business.) */
static void answers_are_checked(void **state)
{
	int why;
	char *text = answer_of(0, "qp\n\033[2J\x80", 64, &why);

	(void)state;
	assert_string_equal(text, "qp\n?[2J?");
	assert_int_equal(why, 0);
	free(text);
	text = answer_of(0, "", 64, &why);
	assert_string_equal(text, "");
	free(text);
	assert_null(answer_of(-EPERM, "", 64, &why));
	assert_int_equal(why, -EPERM);
	assert_null(answer_of(0, "not all of it", 7, &why)); /* it was changed */
	assert_int_equal(why, -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_object_is_there),
		cmocka_unit_test(windows_paths_and_types),
		cmocka_unit_test(it_is_written_in_pieces),
		cmocka_unit_test(what_is_locked_is_passed_over),
		cmocka_unit_test(answers_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

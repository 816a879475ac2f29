/* SPDX-License-Identifier: BSD-2-Clause */
/* attach.c - begins and ends the checks, and hands what other rooms tell to the parts. */
#include "check/attach.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check/check.h"
#include "check/object.h"
#include "check/ops.h"
#include "check/parts.h"
#include "check/queue.h"
#include "check/report.h"
#include "check/tell.h"
#include "sys/conf.h"
#include "sys/log.h"
#include "verbs/wr_op.h"

enum { STATUS_FOUND = 86 };

uint64_t checks_on;
bool check_is_child;
struct tell tell;

static const struct check_part *const parts[] = {
#define PART(name) &name##_part,
#include "check/parts.def"
#undef PART
};

static bool exit_status; /* URNIC_CHECK_EXIT */
static bool wrong;	 /* URNIC_CHECK_SUPPRESS */

const char *check_opcode(unsigned opcode)
{
	const struct wr_op *op = opcode == CHECK_RECV ? NULL : wr_op(opcode);

	return opcode == CHECK_RECV ? "receive" : op ? op->name : "request";
}

/* --- what other rooms tell -------------------------------------------------- */

static void made(struct live *l, enum live_kind kind)
{
	if (!ops_begin_told())
		return;
	object_made(l, kind);
	ops_end();
}

static void gone(const struct live *l, enum live_kind kind)
{
	if (!ops_begin_told())
		return;
	object_gone(l, kind);
	ops_end();
}

static void changed(const struct live *mr)
{
	if (!ops_begin_told())
		return;
	object_changed(mr);
	ops_end();
}

static void keep(void *memory)
{
	if (check_is_child)
		free(memory);
	if (!ops_begin_told())
		return;
	object_keep(memory);
	ops_end();
}

static void ready(struct live *l, enum live_kind kind)
{
	if (kind == LIVE_QP)
		ops_of_qp(container_of(l, struct qp, live));
	else if (kind == LIVE_CQ)
		ops_of_cq(container_of(l, struct cq, live));
}

static void destroys(struct live *l, enum live_kind kind)
{
	struct check_object *o;

	if (!ops_begin_told())
		return;
	o = check_find(l, kind);
	if (o)
		TELL(destroys, o);
	ops_end();
}

static void missing(const struct live *l, enum live_kind kind, bool destroyed)
{
	struct check_object *o;

	if (!ops_begin())
		return;
	o = check_find(l, kind);
	if (o && o->gone)
		TELL(stale, o, kind, destroyed);
	ops_end();
}

static void note_state(struct check_qp *qp, enum ibv_qp_state to)
{
	const enum ibv_qp_state from = qp->state;

	qp->state = to;
	qp->state_trace = check_here();
	qp->state_at = check_now();
	if (to == IBV_QPS_RTR)
		qp->rtr_at = qp->state_at;
	if (to == IBV_QPS_RTS) /* from SQE, maybe */
		qp->failed = qp->sq.failed = false;
	if (to != IBV_QPS_RESET)
		return;
	qp->reset_at = qp->state_at;
	check_queue_clear(&qp->sq);
	check_queue_clear(&qp->rq);
	object_leaves_srq(qp, from == IBV_QPS_RTR || from == IBV_QPS_RTS);
	qp->failed = false;
}

static void modified(struct live *l, const struct ibv_qp_attr *attr, int mask)
{
	struct check_qp *qp;

	if (!ops_begin_told())
		return;
	qp = (struct check_qp *)check_find(l, LIVE_QP);
	if (qp) {
		brief_take(&qp->lock);
		if (mask & IBV_QP_STATE)
			note_state(qp, attr->qp_state);
		TELL(modified, qp, attr, mask);
		brief_give(&qp->lock);
	}
	ops_end();
}

static void waits(struct live *l)
{
	if (!ops_begin())
		return;
	TELL(waits, &container_of(l, struct channel, live)->ibv);
	ops_end();
}

/* Of the queue itself, which is found without a lock. */
static void got(struct live *l)
{
	struct check_cq *cq =
		object_cq((struct ibv_cq *)&container_of(l, struct cq, live)->ex);

	if (cq)
		atomic_fetch_add(&cq->events_got, 1);
}

static void acked(struct live *l, unsigned n)
{
	struct check_cq *cq =
		object_cq((struct ibv_cq *)&container_of(l, struct cq, live)->ex);

	if (cq)
		atomic_fetch_add(&cq->events_acked, n);
}

static void wrote(const void *host, uint64_t len, bool done)
{
	if (!ops_begin_told())
		return;
	TELL(wrote, host, len, done);
	ops_end();
}

static void reaches(const struct check_access *a)
{
	if (!ops_begin_told())
		return;
	TELL(reaches, a);
	ops_end();
}

static void denied(uint32_t qpn, bool remote, uint32_t key, uint64_t va, uint64_t len,
		   int access, int why)
{
	const struct check_denied d = { remote, key, va, len, access, why };
	struct check_qp *qp = check_qp_of_number(qpn);

	if (!qp || !ops_begin_told())
		return;
	brief_take(&qp->lock);
	qp->denied = d;
	brief_give(&qp->lock);
	if (remote)
		TELL(denied, qp, &d);
	ops_end();
}

static bool end(uint32_t qpn, struct check_end *its)
{
	const struct check_qp *qp = check_qp_of_number(qpn);

	if (qp)
		*its = check_end_of(qp);
	return qp;
}

static void meets(uint32_t qpn, uint32_t peer, const struct check_end *its)
{
	struct check_qp *qp = check_qp_of_number(qpn);

	if (!qp || !ops_begin_told())
		return;
	brief_take(&qp->lock);
	TELL(meets, qp, peer, its);
	brief_give(&qp->lock);
	ops_end();
}

static void starves(uint32_t qpn)
{
	struct check_qp *qp = check_qp_of_number(qpn);

	if (qp && !qp->rq.posted)
		atomic_store(&qp->starved, true);
}

static const struct check_hooks hooks = {
	.made = made,
	.gone = gone,
	.changed = changed,
	.ready = ready,
	.destroys = destroys,
	.missing = missing,
	.modified = modified,
	.waits = waits,
	.got = got,
	.acked = acked,
	.wrote = wrote,
	.reaches = reaches,
	.end = end,
	.meets = meets,
	.denied = denied,
	.starves = starves,
	.keep = keep,
};

/* --- begin and end ---------------------------------------------------------- */

static void forked(void)
{
	check_is_child = true; /* the context is dead; traces are the parent's */
}

/* After the program's own handlers and those of libraries that use this one. */
__attribute__((destructor)) static void ends(void)
{
	unsigned long found;

	if (!checks || check_is_child)
		return;
	TELL(exits);
	found = report_totals();
	if (found && exit_status) {
		fflush(NULL);
		_exit(STATUS_FOUND);
	}
}

static bool is_used(const struct check_part *p)
{
	for (int i = (int)p->first; i <= (int)p->last; i++)
		if (check_is_on((enum check)i))
			return true;
	return false;
}

static void use_part(const struct check_part *p)
{
	unsigned n;

#define USE(event)                                                                       \
	for (n = 0; tell.event[n]; n++)                                                  \
		;                                                                        \
	if (p->event)                                                                    \
		tell.event[n] = p->event;
	TELL_EVENTS(USE)
#undef USE
	if (p->start)
		p->start();
}

_Static_assert(sizeof(parts) / sizeof(parts[0]) <= TELL_PARTS, "each part has a place");

static void begin_checks(void)
{
	const struct conf *conf = conf_get();
	char word[CHECK_WORD];
	unsigned n = 0;

	if (!conf || checks_parse(conf->check, &checks_on, word) || !checks_on)
		return;
	wrong = report_start(conf->check_suppress, conf->check_abort) != 0;
	if (wrong)
		return;
	exit_status = conf->check_exit;
	trace_start();
	pthread_atfork(NULL, NULL, forked);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!is_used(parts[i]))
			continue;
		use_part(parts[i]);
		n++;
	}
	log_info("checks: %u parts look for misuse of verbs (URNIC_CHECK=%s)", n,
		 conf->check);
	checks = &hooks;
}

int check_attach(struct verbs_context *v)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, begin_checks);
	if (wrong)
		return -EINVAL;
	if (checks)
		ops_of_context(v);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* seen.c - records what each end has seen; see seen.h. */
#include "seen.h"

#include <poll.h>

enum { MOST = 32 };
unsigned patience_ms = 5000;

struct queue {
	enum ibv_wc_status status[MOST];
	uint64_t last;
	unsigned n;
	bool disorder;
};

static struct seen {
	struct queue send, recv;
	char events[128];
} seen[2];
static bool some, waited;
static int refused;

void seen_begin(bool chance)
{
	memset(seen, 0, sizeof(seen));
	some = chance;
	waited = false;
	refused = 0;
}

void seen_refused(int rc)
{
	refused = rc;
}

/* --- collecting ---------------------------------------------------------- */

static void collect_from(struct ibv_cq *cq, struct queue *q)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 1) {
		CHECK(q->n < MOST);
		q->status[q->n++] = wc.status;
		q->disorder |= wc.wr_id <= q->last;
		q->last = wc.wr_id;
	}
	CHECK(n == 0);
}

static bool about_a_queue(enum ibv_event_type type)
{
	return type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED ||
	       type == IBV_EVENT_CQ_ERR;
}

static bool about_a_port(enum ibv_event_type type)
{
	return type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_PORT_ACTIVE ||
	       type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_LID_CHANGE ||
	       type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE ||
	       type == IBV_EVENT_CLIENT_REREGISTER;
}

static const char *name_of(enum ibv_event_type type)
{
	static const char *const names[] = {
		[IBV_EVENT_CQ_ERR] = "CQ_ERR",
		[IBV_EVENT_QP_FATAL] = "QP_FATAL",
		[IBV_EVENT_QP_REQ_ERR] = "QP_REQ_ERR",
		[IBV_EVENT_QP_ACCESS_ERR] = "QP_ACCESS_ERR",
		[IBV_EVENT_COMM_EST] = "COMM_EST",
		[IBV_EVENT_SQ_DRAINED] = "SQ_DRAINED",
		[IBV_EVENT_SRQ_ERR] = "SRQ_ERR",
		[IBV_EVENT_SRQ_LIMIT_REACHED] = "SRQ_LIMIT_REACHED",
		[IBV_EVENT_QP_LAST_WQE_REACHED] = "QP_LAST_WQE_REACHED",
	};

	return type < COUNT(names) && names[type] ? names[type] : "EVENT";
}

/* Events of one context may be of both ends' QPs. Two events of a QP come in any order,
 * so they are reported in alphabetical order. */
static void add_event(bool b, const char *name)
{
	char *events = seen[b].events, old[sizeof(seen[b].events)];

	CHECK(strlen(events) + strlen(name) + 2 < sizeof(seen[b].events));
	snprintf(old, sizeof(old), "%s", events);
	if (*old && strcmp(name, old + 1) < 0)
		snprintf(events, sizeof(old), " %.40s%.80s", name, old);
	else
		snprintf(events, sizeof(old), "%.80s %.40s", old, name);
}

static void collect_events(struct side *s)
{
	struct pollfd p = { s->ctx->async_fd, POLLIN, 0 };
	struct ibv_async_event e;

	while (poll(&p, 1, 0) == 1) {
		bool b = s->is_b;

		CHECK(!ibv_get_async_event(s->ctx, &e));
		ibv_ack_async_event(&e);
		if (about_a_port(e.event_type))
			continue;
		if (about_a_queue(e.event_type)) {
			b = true;
		} else {
			CHECK(e.element.qp != s->by_qp);
			for (int i = 0; i < 2; i++)
				if (plays(i) && e.element.qp == side(i)->qp)
					b = i;
		}
		add_event(b, name_of(e.event_type));
	}
}

static void collect(struct side *s)
{
	collect_from(s->scq, &seen[s->is_b].send);
	collect_from(s->rcq, &seen[s->is_b].recv);
	collect_events(s);
}

/* --- the line ------------------------------------------------------------ */

static const char *status_of(enum ibv_wc_status status)
{
	static const char *const names[] = {
		[IBV_WC_SUCCESS] = "OK",
		[IBV_WC_LOC_LEN_ERR] = "LOC_LEN",
		[IBV_WC_LOC_QP_OP_ERR] = "LOC_QP_OP",
		[IBV_WC_LOC_PROT_ERR] = "LOC_PROT",
		[IBV_WC_WR_FLUSH_ERR] = "FLUSH",
		[IBV_WC_MW_BIND_ERR] = "MW_BIND",
		[IBV_WC_BAD_RESP_ERR] = "BAD_RESP",
		[IBV_WC_LOC_ACCESS_ERR] = "LOC_ACCESS",
		[IBV_WC_REM_INV_REQ_ERR] = "REM_INV_REQ",
		[IBV_WC_REM_ACCESS_ERR] = "REM_ACCESS",
		[IBV_WC_REM_OP_ERR] = "REM_OP",
		[IBV_WC_RETRY_EXC_ERR] = "RETRY_EXC",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC",
		[IBV_WC_FATAL_ERR] = "FATAL",
		[IBV_WC_GENERAL_ERR] = "GENERAL",
	};

	return status < COUNT(names) && names[status] ? names[status] : "STATUS";
}

static void put_queue(FILE *f, const struct queue *q)
{
	unsigned n;

	if (q->n == 0)
		fputc('-', f);
	for (unsigned i = 0; i < q->n; i += n) {
		for (n = 1; i + n < q->n && q->status[i + n] == q->status[i]; n++)
			;
		fprintf(f, "%s%s", i ? " " : "", status_of(q->status[i]));
		if (some && (q->status[i] == IBV_WC_SUCCESS ||
			     q->status[i] == IBV_WC_WR_FLUSH_ERR))
			fputs("..", f);
		else if (n > 1)
			fprintf(f, "*%u", n);
	}
	if (q->disorder)
		fputs(" DISORDER", f);
}

static const char *state_name(struct side *s)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS",
					     "SQD",   "SQE",  "ERR" };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	if (!s->qp)
		return "gone";
	CHECK(!ibv_query_qp(s->qp, &a, IBV_QP_STATE, &init));
	return (size_t)a.qp_state < COUNT(names) ? names[a.qp_state] : "STATE";
}

static void put_line(struct side *s, bool (*changed)(const struct side *), char line[256])
{
	struct seen *now = &seen[s->is_b];
	FILE *f = fmemopen(line, 256, "w");

	CHECK(f);
	if (!s->is_b && waited)
		fputs("WAITS ", f);
	if (!s->is_b && refused)
		fprintf(f, "%s ",
			refused == EINVAL ? "EINVAL" : strerrorname_np(refused));
	put_queue(f, &now->send);
	fputs(", ", f);
	put_queue(f, &now->recv);
	fprintf(f, ", %s%s%s", state_name(s), now->events, changed(s) ? " changed" : "");
	CHECK(!fclose(f));
}

/* --- waiting ------------------------------------------------------------- */

void seen_nothing_for(struct side *a, unsigned ms)
{
	uint64_t end = now_ms() + ms;

	while (now_ms() < end && seen[0].send.n == 0)
		collect(a);
	waited = seen[0].send.n == 0;
}

void seen_until_err(struct side *a)
{
	uint64_t end = now_ms() + patience_ms;
	struct side *b = side(true);

	do {
		collect(a);
		collect(b);
	} while ((strcmp(state_name(a), "ERR") || strcmp(state_name(b), "ERR")) &&
		 now_ms() < end);
}

void seen_until(struct side *s, const char *want, bool (*changed)(const struct side *))
{
	uint64_t end = now_ms() + patience_ms;
	char line[256];

	do {
		collect(s);
		put_line(s, changed, line);
	} while (strcmp(line, want) && now_ms() < end);
}

void seen_say(struct side *s, const char *name, bool (*changed)(const struct side *))
{
	char line[256];

	collect(s);
	put_line(s, changed, line);
	printf("%s\t%c\t%s\n", name, s->is_b ? 'B' : 'A', line);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* faults.c - see faults.h. */
#include "driver/faults.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/asker.h"
#include "driver/nic_own.h"
#include "driver/upset.h"
#include "ib/ib.h"
#include "net/fault.h"
#include "shm/peers.h"
#include "shm/shm.h"
#include "sys/log.h"
#include "verbs/numbers.h"
#include "verbs/qp.h"
#include "verbs/transport.h"
#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"

enum { WHY = 768, SHOWN = 8 };

/* Does our QP number qpn send d?  Of a QP that is connected the destination tells, of
 * others the DETH. */
static bool qp_sends(void *arg, uint32_t qpn, const struct dgram *d)
{
	const struct bth *bth = d->iov[0].iov_base;
	const struct deth *deth = (const void *)(bth + 1);
	struct nic *nic = arg;
	struct link_dest to, its;
	struct qp *qp;

	turn_is_held(&nic->core);
	qp = qp_find(&nic->core, qpn);
	if (!qp || !qp->path.link)
		return false;
	if (qp->type == IBV_QPT_UD)
		return ib_service(bth->opcode) == IB_UD &&
		       d->iov[0].iov_len >= sizeof(*bth) + sizeof(*deth) &&
		       get_be24(deth->src_qp) == qpn;
	qp->path.link->ops->dest(&d->addr, &to);
	qp->path.link->ops->dest(&qp->path.addr, &its);
	return get_be24(bth->dest_qp) == qp->attr.dest_qp_num && to.lid == its.lid &&
	       memcmp(to.gid, its.gid, sizeof(to.gid)) == 0;
}

static void tell_apart(struct nic *nic, struct link *fault)
{
	fault_describe(fault, ib_describe);
	fault_knows(fault, qp_sends, nic);
}

/* --- from the start ----------------------------------------------------------- */

int faults_put(struct nic *nic, const char *spec, struct link **link, bool ordered,
	       bool captured)
{
	struct link *capture = captured ? *link : NULL;
	char why[WHY], wire[WHY];
	struct upset_spec verbs;
	int rc = upset_parse(&verbs, wire, spec, why, sizeof(why));

	if (!rc && *wire)
		rc = (ordered ? fault_wrap_ordered : fault_wrap)(link, *link, wire, why,
								 sizeof(why));
	if (!rc && !nic->faults)
		upset_start(nic, &verbs);
	if (rc)
		log_error("URNIC_FAULT: %s", why);
	if (rc || !*wire)
		return rc;
	tell_apart(nic, *link);
	if (capture)
		fault_capture(*link, capture);
	return 0;
}

bool faults_need_wire(const char *spec)
{
	char why[WHY], wire[WHY];
	struct upset_spec verbs;

	return *spec && (upset_parse(&verbs, wire, spec, why, sizeof(why)) || *wire);
}

void faults_know(struct nic *nic, struct link *outer, struct link **inner, bool ordered,
		 const char *spec, bool captured)
{
	struct faults *f = nic->faults;
	struct link *fault = faults_need_wire(spec) ? *inner : NULL;

	if (!f)
		f = nic->faults = calloc(1, sizeof(*f));
	if (!f || f->n == FAULT_LINKS)
		return;
	f->at[f->n++] = (struct fault_place){
		.outer = outer,
		.inner = inner,
		.fault = fault,
		.capture = !captured ? NULL
			   : fault   ? fault_inner(fault)
				     : *inner,
		.ordered = ordered,
	};
	if (*spec && !f->text)
		f->text = strdup(spec);
}

void faults_close(struct nic *nic)
{
	upset_end();
	if (nic->faults)
		free(nic->faults->text);
	free(nic->faults);
	nic->faults = NULL;
}

/* --- whom they hit -------------------------------------------------------------- */

struct tally_of {
	unsigned hit, later, never;
	char numbers[SHOWN * 10 + 8]; /* of those hit later */
};

static bool leads_somewhere(const struct qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
	       qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
}

/* The state is only looked at: whoever changes it has the turn. */
static void count_qps(struct nic *nic, struct tally_of *t)
{
	size_t n = 0;

	*t = (struct tally_of){ 0 };
	for (uint32_t i = 0; i < QPN_INDICES; i++) {
		const struct qp *qp = numbers_at(&nic->core.qps, i);

		if (!qp || !leads_somewhere(qp))
			continue;
		if (qp->transport == &ib_transport)
			t->hit++;
		else if (qp->transport != &shm_transport)
			t->never++;
		else if (t->later++ < SHOWN)
			n += (size_t)snprintf(t->numbers + n, sizeof(t->numbers) - n,
					      " 0x%06x", qp->qpn);
	}
	if (t->later > SHOWN)
		snprintf(t->numbers + n, sizeof(t->numbers) - n, " ...");
}

static void say_whom(FILE *out, struct nic *nic)
{
	struct tally_of t;

	count_qps(nic, &t);
	fprintf(out, "%u %s hit from now on, and all that are made from now on\n", t.hit,
		t.hit == 1 ? "QP is" : "QPs are");
	if (t.later == 1)
		fprintf(out,
			"1 QP uses shared memory, and is hit only when it is made anew "
			"or has been in RESET:%s\n",
			t.numbers);
	else if (t.later)
		fprintf(out,
			"%u QPs use shared memory, and are hit only when they are made "
			"anew or have been in RESET:%s\n",
			t.later, t.numbers);
	if (t.never)
		fprintf(out,
			"%u %s never hit: iWARP's, whose packets are the kernel's TCP "
			"(use tc netem), or raw\n",
			t.never, t.never == 1 ? "QP is" : "QPs are");
}

/* --- while it runs ---------------------------------------------------------------- */

static int check_spec(struct nic *nic, const struct fault_spec *spec, const char *text,
		      char *why)
{
	for (unsigned i = 0; i < nic->faults->n; i++)
		if (nic->faults->at[i].ordered &&
		    fault_check_ordered(spec, text, why, WHY))
			return -EINVAL;
	return 0;
}

static int put_missing(struct nic *nic)
{
	for (unsigned i = 0; i < nic->faults->n; i++) {
		struct fault_place *p = &nic->faults->at[i];

		if (p->fault)
			continue;
		if (fault_put(&p->fault, *p->inner, p->ordered))
			return -ENOMEM;
		*p->inner = p->fault;
		tell_apart(nic, p->fault);
		if (p->capture)
			fault_capture(p->fault, p->capture);
	}
	return 0;
}

/* A link that had something to wait for goes on with it at once. */
static void set_all(struct nic *nic, const struct fault_spec *spec, uint64_t now)
{
	for (unsigned i = 0; i < nic->faults->n; i++) {
		struct fault_place *p = &nic->faults->at[i];

		if (!p->fault)
			continue;
		fault_set(p->fault, spec, now);
		p->outer->run_max = p->fault->run_max;
		link_sent(p->outer);
	}
}

static int begin_faults(struct nic *nic, const char *text, uint64_t now, char *why)
{
	struct fault_spec *spec = malloc(sizeof(*spec));
	char *copy = strdup(text), *wire = strdup(text);
	int rc = spec && copy && wire ? 0 : -ENOMEM;
	struct upset_spec verbs;

	if (!rc)
		rc = upset_parse(&verbs, wire, text, why, WHY);
	if (!rc)
		rc = fault_parse_closed(spec, wire, why, WHY);
	if (!rc)
		rc = check_spec(nic, spec, wire, why);
	if (!rc)
		rc = upset_check(nic, &verbs, why, WHY);
	if (!rc && fault_is_any(spec))
		rc = put_missing(nic);
	if (!rc)
		rc = peers_avoid(peers_of(&nic->core), fault_is_any(spec));
	if (!rc) {
		set_all(nic, spec, now);
		upset_set(nic, &verbs, now);
		free(nic->faults->text);
		nic->faults->text = copy;
		copy = NULL;
		log_info("faults act from now on, as urnic fault has asked: %s", text);
	}
	free(copy);
	free(wire);
	free(spec);
	return rc;
}

static void end_faults(struct nic *nic, uint64_t now)
{
	static const struct fault_spec none = { .groups = 1, .seed = 1 };
	static const struct upset_spec calm;

	set_all(nic, &none, now);
	upset_set(nic, &calm, now);
	(void)peers_avoid(peers_of(&nic->core), false);
	if (nic->faults->text)
		log_info("faults act no more, as urnic fault has asked");
	free(nic->faults->text);
	nic->faults->text = NULL;
}

static void show_way(FILE *out, const struct fault_place *p, bool rx)
{
	const struct fault_stats *s = fault_stats(p->fault, rx);

	fprintf(out,
		"%s: of %" PRIu64 " packets %" PRIu64 " dropped (%" PRIu64
		" beyond a rate's queue), %" PRIu64 " duplicated, %" PRIu64
		" reordered, %" PRIu64 " delayed, %" PRIu64 " held by a rate, %" PRIu64
		" corrupted, %" PRIu64 " marked\n",
		rx ? "rx" : "tx", s->seen, s->dropped, s->beyond, s->duplicated,
		s->reordered, s->delayed, s->slowed, s->corrupted, s->marked);
}

static bool wire_acts(const struct faults *f)
{
	for (unsigned i = 0; i < f->n; i++)
		if (f->at[i].fault && fault_acts(f->at[i].fault))
			return true;
	return false;
}

static void show_faults(FILE *out, struct nic *nic)
{
	const struct faults *f = nic->faults;

	fprintf(out, "faults: %s\n", f->text ? f->text : "none");
	for (unsigned i = 0; i < f->n; i++) {
		if (!f->at[i].fault)
			continue;
		if (f->n > 1)
			fprintf(out, "%s\n", f->at[i].ordered ? "fabric" : "network");
		show_way(out, &f->at[i], false);
		show_way(out, &f->at[i], true);
	}
	upset_show(out);
	if (wire_acts(f))
		say_whom(out, nic);
}

/* Does what text asks, and writes the answer to out, or why not to `why'. */
static int obey(struct nic *nic, const char *text, FILE *out, uint64_t now, char *why)
{
	int rc;

	if (!nic->faults)
		return -ENOMEM;
	if (strcmp(text, "show") == 0) {
		show_faults(out, nic);
		return 0;
	}
	if (strcmp(text, "clear") == 0) {
		end_faults(nic, now);
		return 0;
	}
	if (strncmp(text, "set ", 4) != 0)
		return -EOPNOTSUPP;
	rc = begin_faults(nic, text + 4, now, why);
	if (!rc && wire_acts(nic->faults))
		say_whom(out, nic);
	return rc;
}

int faults_ask(struct nic *nic, const struct asker *by, const uint8_t *text, size_t len,
	       uint64_t now)
{
	char *copy = strndup((const char *)text, len), *answer = NULL, why[WHY] = "";
	size_t size = 0;
	FILE *out = open_memstream(&answer, &size);
	int rc = copy && out ? obey(nic, copy, out, now, why) : -ENOMEM;

	if (out && fclose(out) && !rc)
		rc = -ENOMEM;
	if (!rc || *why)
		asker_tell(by, rc, rc ? why : answer, rc ? strlen(why) : size);
	free(answer);
	free(copy);
	return *why ? 0 : rc;
}

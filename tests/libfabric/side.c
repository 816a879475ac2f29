/* SPDX-License-Identifier: BSD-2-Clause */
/* A domain, its queues, and endpoints that connect. */
#include "fabric.h"

static struct fi_info *find(const char *ip, const char *port, bool serves)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	MUST(hints);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_RX_CQ_DATA;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode =
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup("verbs");
	OK(fi_getinfo(FI_VERSION(1, 17), ip, port, serves ? FI_SOURCE : 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}

void side_open(struct side *s, bool serves, const char *ip, const char *port,
	       const struct wants *w)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	memset(s, 0, sizeof(*s));
	s->serves = serves;
	s->info = find(ip, port, serves);
	s->buf = calloc(1, BUF);
	MUST(s->buf);
	if (w->tx_size)
		s->info->tx_attr->size = w->tx_size;
	OK(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	OK(fi_eq_open(s->fabric, &attr, &s->eq, NULL));
	if (!serves) {
		side_domain(s, s->info, w);
		return;
	}
	OK(fi_passive_ep(s->fabric, s->info, &s->pep, NULL));
	OK(fi_pep_bind(s->pep, &s->eq->fid, 0));
	OK(fi_listen(s->pep));
	puts("listening");
	fflush(stdout);
}

void side_domain(struct side *s, struct fi_info *info, const struct wants *w)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA,
				   .size = w->tx_size,
				   .wait_obj = FI_WAIT_UNSPEC };
	struct fi_rx_attr rx = *info->rx_attr;

	OK(fi_domain(s->fabric, info, &s->domain, NULL));
	OK(fi_cq_open(s->domain, &attr, &s->tx, NULL));
	attr.size = 0;
	OK(fi_cq_open(s->domain, &attr, &s->rx, NULL));
	OK(fi_mr_reg(s->domain, s->buf, BUF,
		     FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
			     FI_REMOTE_WRITE,
		     0, 0, 0, &s->mr, NULL));
	if (!w->shared_rx)
		return;
	OK(fi_srx_context(s->domain, &rx, &s->srx, NULL));
	for (int i = 0; i < RECVS; i++)
		post_recv(s, 0);
}

struct fid_ep *side_endpoint(struct side *s, struct fi_info *info)
{
	struct fid_ep *ep;

	if (s->srx)
		info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	OK(fi_endpoint(s->domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &s->eq->fid, 0));
	OK(fi_ep_bind(ep, &s->tx->fid, FI_TRANSMIT));
	OK(fi_ep_bind(ep, &s->rx->fid, FI_RECV));
	if (s->srx)
		OK(fi_ep_bind(ep, &s->srx->fid, 0));
	OK(fi_enable(ep));
	s->ep[s->n++] = ep;
	for (int i = 0; i < RECVS && !s->srx; i++)
		post_recv(s, s->n - 1);
	return ep;
}

static size_t event(struct side *s, uint32_t *what, struct fi_eq_cm_entry *e, size_t size)
{
	ssize_t n = fi_eq_sread(s->eq, what, e, size, WAIT_MS, 0);
	struct fi_eq_err_entry err = { 0 };

	if (n == -FI_EAVAIL) {
		MUST(fi_eq_readerr(s->eq, &err, 0) == sizeof(err));
		fprintf(stderr, "event: %s (%d)\n", fi_strerror(err.err), err.prov_errno);
		exit(1);
	}
	MUST(n >= (ssize_t)sizeof(*e));
	return (size_t)n - sizeof(*e);
}

struct fi_info *side_request(struct side *s, void *data, size_t *len)
{
	char room[sizeof(struct fi_eq_cm_entry) + 256] __attribute__((aligned(8)));
	struct fi_eq_cm_entry *e = (void *)room;
	uint32_t what;
	size_t n;

	if (s->early) {
		struct fi_info *info = s->early;

		s->early = NULL;
		return info;
	}
	n = event(s, &what, e, sizeof(room));
	MUST(what == FI_CONNREQ && e->fid == &s->pep->fid);
	if (len) {
		MUST(n >= *len);
		memcpy(data, e->data, *len);
	}
	return e->info;
}

void side_event(struct side *s, uint32_t want, fid_t fid)
{
	char room[sizeof(struct fi_eq_cm_entry) + 256] __attribute__((aligned(8)));
	struct fi_eq_cm_entry *e = (void *)room;
	uint32_t what;

	(void)event(s, &what, e, sizeof(room));
	/* Events of two connections have no order. */
	if (what == FI_CONNREQ && !s->early) {
		s->early = e->info;
		(void)event(s, &what, e, sizeof(room));
	}
	if (what != want)
		fprintf(stderr, "wanted event %u: got %u\n", want, what);
	MUST(what == want && (!fid || e->fid == fid));
}

void side_refused(struct side *s, int err, void *data, size_t *len)
{
	char room[sizeof(struct fi_eq_cm_entry) + 256] __attribute__((aligned(8)));
	struct fi_eq_err_entry e = { .err_data = data, .err_data_size = len ? *len : 0 };
	uint32_t what;

	GIVES(-FI_EAVAIL, fi_eq_sread(s->eq, &what, room, sizeof(room), WAIT_MS, 0));
	MUST(fi_eq_readerr(s->eq, &e, 0) == sizeof(e));
	if (e.err != err)
		fprintf(stderr, "wanted %s: got %s (%d)\n", fi_strerror(err),
			fi_strerror(e.err), e.prov_errno);
	MUST(e.err == err);
	if (len)
		*len = e.err_data_size;
}

void side_connect(struct side *s, const struct wants *w)
{
	struct fi_info *info = s->info;
	struct fid_ep *ep;

	if (s->serves) {
		info = side_request(s, NULL, NULL);
		if (w->tx_size)
			info->tx_attr->size = w->tx_size;
		if (!s->domain)
			side_domain(s, info, w);
	}
	ep = side_endpoint(s, info);
	if (s->serves) {
		fi_freeinfo(info);
		OK(fi_accept(ep, NULL, 0));
	} else {
		OK(fi_connect(ep, s->info->dest_addr, NULL, 0));
	}
	side_event(s, FI_CONNECTED, &ep->fid);
}

void side_close(struct side *s)
{
	for (unsigned i = 0; i < s->n; i++)
		OK(fi_close(&s->ep[i]->fid));
	if (s->srx)
		OK(fi_close(&s->srx->fid));
	if (s->domain) {
		OK(fi_close(&s->mr->fid));
		OK(fi_close(&s->tx->fid));
		OK(fi_close(&s->rx->fid));
		OK(fi_close(&s->domain->fid));
	}
	if (s->pep)
		OK(fi_close(&s->pep->fid));
	OK(fi_close(&s->eq->fid));
	OK(fi_close(&s->fabric->fid));
	fi_freeinfo(s->info);
	free(s->buf);
}

/* --- messages ------------------------------------------------------------ */

static int cq_error(struct fid_cq *cq)
{
	struct fi_cq_err_entry err = { 0 };

	MUST(fi_cq_readerr(cq, &err, 0) == 1);
	if (err.err != FI_ECANCELED)
		fprintf(stderr, "completion: %s (%d)\n", fi_strerror(err.err),
			err.prov_errno);
	return err.err;
}

/* Completions of an endpoint that has ended are skipped. */
void cq_wait(struct fid_cq *cq, struct fi_cq_data_entry *e)
{
	ssize_t n;

	do {
		n = fi_cq_sread(cq, e, 1, NULL, WAIT_MS);
	} while (n == -FI_EAVAIL && cq_error(cq) == FI_ECANCELED);
	GIVES(1, n);
}

void cq_canceled(struct fid_cq *cq)
{
	struct fi_cq_data_entry e;

	GIVES(-FI_EAVAIL, fi_cq_sread(cq, &e, 1, NULL, WAIT_MS));
	MUST(cq_error(cq) == FI_ECANCELED);
}

void cq_expect(struct fid_cq *cq, uint64_t flags)
{
	struct fi_cq_data_entry e;

	cq_wait(cq, &e);
	MUST((e.flags & flags) == flags);
}

void post_recv(struct side *s, unsigned i)
{
	struct fid_ep *ep = s->srx ? s->srx : s->ep[i];

	OK(fi_recv(ep, s->buf + BUF / 2, BUF / 2, fi_mr_desc(s->mr), 0, NULL));
}

void say(struct side *s, unsigned i, size_t len)
{
	OK(fi_send(s->ep[i], s->buf, len, fi_mr_desc(s->mr), 0, NULL));
	cq_expect(s->tx, FI_SEND);
}

void hear(struct side *s, size_t len)
{
	struct fi_cq_data_entry e;

	cq_wait(s->rx, &e);
	MUST(e.flags & FI_RECV && e.len == len);
}

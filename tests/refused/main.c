/* SPDX-License-Identifier: BSD-2-Clause */
/* Every call of libibverbs and librdmacm with every bad argument.  Prints each row that
 * answered what it must, and fails if one did not. */
#include "refused.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct set own, foreign, gone;
struct ibv_device *device;
union ibv_gid gid;
char memory[4096] __attribute__((aligned(4096)));

static const char *volatile the_call = "?", *volatile the_argument = "?";
static unsigned wrong;

int of_errno(int rc)
{
	return rc == errno ? rc : -1000 - rc;
}

int of_minus(long rc)
{
	return rc == -1 ? errno : -1000 - (int)rc;
}

int of_negative(long rc)
{
	return rc == -errno ? errno : -1000 - (int)rc;
}

int of_pointer(const void *made)
{
	return made ? -1000 : errno;
}

void row_begin(const char *call, const char *argument)
{
	the_call = call;
	the_argument = argument;
	errno = 0;
}

void row_end(int got, int want)
{
	if (got == want) {
		printf("%s\t%s\n", the_call, the_argument);
		return;
	}
	wrong++;
	fprintf(stderr, "%s, %s: %d (%s), not %d (%s)\n", the_call, the_argument, got,
		got < 0 ? "no errno" : strerror(got), want, strerror(want));
}

static void crashed(int number)
{
	char line[200];
	int n = snprintf(line, sizeof(line), "%s, %s: signal %d\n", the_call,
			 the_argument, number);

	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(3);
	_exit(2);
}

/* --- objects --------------------------------------------------------------- */

#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond))                                                             \
			err(1, "%s:%d: %s", __FILE__, __LINE__, #cond);                  \
	} while (0)

static struct ibv_qp *make_qp(struct set *o, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = { .send_cq = o->cq,
				      .recv_cq = o->cq,
				      .cap = { 4, 4, 1, 1, 0 },
				      .qp_type = type };

	return ibv_create_qp(o->pd, &a);
}

static void make(struct set *o)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_td_init_attr td = { 0 };
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = 0100, /* 0100 is O_CREAT */
	};
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1 };

	MUST((o->ctx = ibv_open_device(device)));
	MUST(!ibv_query_gid(o->ctx, 1, 1, &gid));
	ah.grh.dgid = gid;
	ah.grh.sgid_index = 1;
	MUST((o->pd = ibv_alloc_pd(o->ctx)));
	MUST((o->channel = ibv_create_comp_channel(o->ctx)));
	MUST((o->cq = ibv_create_cq(o->ctx, 16, NULL, o->channel, 0)));
	MUST((o->srq = ibv_create_srq(o->pd, &srq)));
	MUST((o->qp = make_qp(o, IBV_QPT_UD)) && (o->rc = make_qp(o, IBV_QPT_RC)));
	MUST((o->ah = ibv_create_ah(o->pd, &ah)));
	MUST((o->mr = ibv_reg_mr(o->pd, memory, sizeof(memory),
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)));
	MUST((o->mw = ibv_alloc_mw(o->pd, IBV_MW_TYPE_1)));
	MUST((o->dm = ibv_alloc_dm(o->ctx, &dm)));
	MUST((o->td = ibv_alloc_td(o->ctx, &td)));
	MUST((o->xrcd = ibv_open_xrcd(o->ctx, &xrcd)));
	MUST((o->events = rdma_create_event_channel()));
	MUST(!rdma_create_id(o->events, &o->id, NULL, RDMA_PS_TCP));
}

static void drop(struct set *o)
{
	MUST(!rdma_destroy_id(o->id));
	rdma_destroy_event_channel(o->events);
	MUST(!ibv_close_xrcd(o->xrcd) && !ibv_dealloc_td(o->td));
	MUST(!ibv_free_dm(o->dm) && !ibv_dealloc_mw(o->mw) && !ibv_dereg_mr(o->mr));
	MUST(!ibv_destroy_ah(o->ah) && !ibv_destroy_qp(o->qp) && !ibv_destroy_qp(o->rc));
	MUST(!ibv_destroy_srq(o->srq) && !ibv_destroy_cq(o->cq));
	MUST(!ibv_destroy_comp_channel(o->channel) && !ibv_dealloc_pd(o->pd));
	MUST(!ibv_close_device(o->ctx));
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			device = list[i];
	ibv_free_device_list(list);
	if (!device)
		errx(1, "no device %s", name);
}

int main(int argc, char **argv)
{
	static void (*const parts[])(void) = {
		device_rows,	object_rows, memory_rows, qp_rows,   order_rows,
		operation_rows, cm_rows,     socket_rows, stub_rows,
	};

	signal(SIGSEGV, crashed);
	signal(SIGBUS, crashed);
	signal(SIGABRT, crashed);
	setvbuf(stdout, NULL, _IOLBF, 0);
	open_device(argc > 1 ? argv[1] : "roce_lo");
	make(&own);
	make(&foreign);
	make(&gone);
	drop(&gone);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		parts[i]();
	/* The refused calls have harmed nothing. */
	drop(&own);
	drop(&foreign);
	if (wrong)
		errx(1, "%u rows are wrong", wrong);
	return 0;
}

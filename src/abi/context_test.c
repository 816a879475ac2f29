/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts (devices.c, context.c, fork.c), the file behind a command descriptor (file.c),
 * and imports (import.c). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "abi/fix.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/mr.h"

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void devices(void **state)
{
	struct ibv_device **list;
	int n = 7;

	(void)state;
	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 2);
	assert_ptr_equal(list[0], fix.dev[0]);
	assert_ptr_equal(list[1], fix.dev[1]);
	assert_null(list[2]);
	assert_string_equal(ibv_get_device_name(list[0]), "roce_eth0");
	assert_int_equal(ibv_get_device_index(list[0]), 7);
	assert_int_equal(ibv_get_device_guid(list[0]), device_of(list[0])->guid);
	assert_int_not_equal(ibv_get_device_guid(list[0]), 0);
	ibv_free_device_list(list);
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	ibv_free_device_list(list);
	fix.devices_rc = -EMFILE;
	fix_null(ibv_get_device_list(&n), EMFILE);
	assert_int_equal(n, 0);
}

static void opens_and_closes(void **state)
{
	struct ibv_context *a, *b;
	int fd, async;

	(void)state;
	a = ibv_open_device(fix.dev[FIX_ROCE]);
	b = ibv_open_device(fix.dev[FIX_IWARP]);
	assert_int_equal(fix.users, 2);
	assert_ptr_equal(a->device, fix.dev[FIX_ROCE]);
	assert_int_equal(a->num_comp_vectors, 1);
	assert_ptr_equal(a->abi_compat, (void *)UINTPTR_MAX);
	assert_int_equal(abi_of(a)->ctx.verbs.sz, sizeof(struct verbs_context));
	assert_int_equal(abi_of(a)->ctx.pid, getpid());
	assert_string_equal((const char *)*(void *const *)abi_of(a)->transport, "ib");
	assert_string_equal((const char *)*(void *const *)abi_of(b)->transport, "iwarp");
	assert_non_null(abi_of(a)->ctx.link);
	assert_null(abi_of(b)->ctx.link);
	assert_ptr_equal(device_of(a->device)->core, &fix.core);
	assert_int_not_equal(a->cmd_fd, b->cmd_fd);
	fd = a->cmd_fd;
	async = a->async_fd;
	assert_true(is_open(fd) && is_open(async));
	assert_int_equal(ibv_close_device(a), 0);
	assert_false(is_open(fd) || is_open(async));
	assert_string_equal(fix_said(), "flush");
	assert_int_equal(fix.users, 1);
	fix_errno(ibv_close_device(a), EBADF);
	assert_int_equal(ibv_close_device(b), 0);
	assert_int_equal(fix.users, 0);
}

static void opens_nothing(void **state)
{
	(void)state;
	fix_null(ibv_open_device(NULL), EINVAL);
	fix.open_rc = -EADDRNOTAVAIL;
	fix_null(ibv_open_device(fix.dev[0]), EADDRNOTAVAIL);
}

/* Lowers the limit so that only `room` descriptors can be opened. */
static struct rlimit leave_room(int room, int *lowest)
{
	struct rlimit was, none;

	*lowest = open("/", O_PATH);
	close(*lowest);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ (rlim_t)(*lowest + room), was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return was;
}

/* Opening takes two descriptors. */
static void has_no_descriptors(void **state)
{
	struct rlimit was;
	int lowest, fd;

	(void)state;
	for (int room = 0; room < 2; room++) {
		was = leave_room(room, &lowest);
		fix_null(ibv_open_device(fix.dev[0]), EMFILE);
		assert_int_equal(fix.users, 0);
		setrlimit(RLIMIT_NOFILE, &was);
		fd = open("/", O_PATH);
		assert_int_equal(fd, lowest); /* no descriptor stays open */
		close(fd);
	}
}

static void what_is_no_context(void **state)
{
	struct ibv_context *ibv = ibv_open_device(fix.dev[0]);
	struct ibv_device_attr attr;

	(void)state;
	ibv_close_device(ibv);
	fix_errno(ibv_close_device(ibv), EBADF);
	fix_errno(ibv_close_device(NULL), EBADF);
	fix_errno(ibv_query_device(ibv, &attr), EBADF);
	fix_null(ibv_alloc_pd(ibv), EBADF);
	fix_null(ibv_alloc_pd(NULL), EBADF);
}

/* A descriptor that the program has opened meanwhile with the same number stays open. */
static void closes_what_is_its_own(void **state)
{
	struct ibv_context *ibv = ibv_open_device(fix.dev[0]);
	int cmd = ibv->cmd_fd, async = ibv->async_fd, other = open("/", O_PATH);

	(void)state;
	assert_int_equal(dup2(other, cmd), cmd);
	assert_int_equal(dup2(other, async), async);
	assert_int_equal(ibv_close_device(ibv), 0);
	assert_true(is_open(cmd) && is_open(async));
	close(cmd);
	close(async);
	close(other);
}

/* In a forked child the parent's context is dead, but device memory can be allocated. */
static int in_child(struct ibv_context *ibv)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_async_event ev;
	struct ibv_device_attr d;
	struct ibv_dm *dm;

	if (!abi_forked(ibv) || ibv_close_device(ibv) != EIO ||
	    ibv_get_async_event(ibv, &ev) != -1 || errno != EIO)
		return 1;
	abi_of(ibv)->ctx.dead = true;
	dm = abi_alloc_dm(ibv, &attr);
	if (!dm || abi_free_dm(dm) || ibv_query_device(ibv, &d))
		return 2;
	return ibv_alloc_pd(ibv) || errno != EIO ? 3 : 0;
}

static void a_child(void **state)
{
	struct ibv_context *ibv = ibv_open_device(fix.dev[0]);
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(in_child(ibv));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_close_device(ibv), 0);
}

static void forks_need_nothing(void **state)
{
	(void)state;
	assert_int_equal(ibv_fork_init(), 0);
	assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
	assert_int_equal(ibv_dontfork_range(fix.memory, 1), 0);
	assert_int_equal(ibv_dofork_range(fix.memory, 1), 0);
}

/* --- objects that a program leaves --------------------------------------- */

/* Frees the memory of queues and their context. file.c leaves it, since posts and polls
 * look nothing up. */
static void forget(struct ibv_context *ibv, struct ibv_qp *qp, struct ibv_cq *cq,
		   struct ibv_srq *srq, struct ibv_comp_channel *ch)
{
	free(qp_of(qp));
	free(cq_of(cq));
	if (srq)
		free(srq_of(srq));
	if (ch)
		free(channel_of(ch));
	pthread_mutex_destroy(&ibv->mutex);
	free(abi_of(ibv));
	fix.users--;
}

static void closed_with_all_that_there_is(void **state)
{
	struct ibv_parent_domain_init_attr how = { .pd = fix.pd };
	struct ibv_td_init_attr none = { 0 };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_ah_attr path = fix_path();
	struct ibv_comp_channel *ch = ibv_create_comp_channel(fix.ibv);
	struct ibv_cq *cq = ibv_create_cq(fix.ibv, 4, NULL, ch, 0);
	struct ibv_qp *qp = fix_qp(IBV_QPT_UD);
	struct ibv_srq *srq = fix_srq();
	union ibv_gid group = { .raw = { [10] = 255, 255, 239, 1, 2, 3 } };
	struct ibv_wc wc;

	(void)state;
	ibv_destroy_cq(cq);
	how.td = abi_alloc_td(fix.ibv, &none);
	assert_non_null(how.td);
	assert_non_null(abi_alloc_parent_domain(fix.ibv, &how));
	assert_non_null(ibv_create_ah(fix.pd, &path));
	assert_non_null(fix_mr(IBV_ACCESS_LOCAL_WRITE));
	assert_non_null(abi_alloc_mw(fix.pd, IBV_MW_TYPE_2));
	assert_non_null(abi_alloc_dm(fix.ibv, &dm));
	assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
	fix_said();
	assert_int_equal(ibv_close_device(fix.ibv), 0);
	assert_string_equal(fix_said(), "flush leave fence");
	assert_memory_equal(fix.told, &group, 16);
	assert_int_equal(fix.core.qps.count, 0);
	assert_int_equal(fix.core.counts.cqs, 0);
	assert_int_equal(fix.core.srqs.count, 0);
	assert_int_equal(fix.core.counts.mrs, 0);
	assert_int_equal(fix.core.counts.mws, 0);
	assert_int_equal(fix.core.counts.pds, 0);
	assert_int_equal(fix.core.counts.ahs, 0);
	assert_int_equal(fix.core.counts.dm_bytes, 0);
	assert_int_equal(fix.users, 1); /* the NIC stays for late calls */
	assert_int_equal(abi_poll_cq(fix.cq, 1, &wc), -EIO);
	forget(fix.ibv, qp, fix.cq, srq, ch);
	fix_end(state);
}

/* A peer is in the middle of a copy by way of the QP and does not finish: the QP stays,
 * in RESET, with the objects that it uses. */
static void closed_while_a_peer_is_inside(void **state)
{
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);

	qp_of(qp)->same_host = true;
	fix.fence_rc = -EBUSY;
	fix_said();
	assert_int_equal(ibv_close_device(fix.ibv), 0);
	assert_string_equal(fix_said(), "flush fence");
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(fix.core.qps.count, 1);
	assert_int_equal(fix.core.counts.cqs, 1);
	assert_int_equal(qp_destroy(qp_of(qp)), 0);
	assert_int_equal(cq_destroy(cq_of(fix.cq)), 0);
	assert_int_equal(pd_free(pd_of(fix.pd)), 0);
	free(abi_of(fix.ibv)->file);
	forget(fix.ibv, qp, fix.cq, NULL, NULL);
	fix_end(state);
}

/* Keys, the memory behind them and domains end, as no call can reach them any more. */
static void closed_with_keys(void **state)
{
	struct ibv_parent_domain_init_attr how = { .pd = fix.pd };
	struct ibv_xrcd_init_attr xrc = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_context *two = ibv_import_device(dup(fix.ibv->cmd_fd));
	struct ibv_td_init_attr none = { 0 };
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_ah_attr path = fix_path();
	struct ibv_pd *pd2 = ibv_import_pd(two, fix.pd->handle);
	struct ibv_dm *dm = abi_alloc_dm(fix.ibv, &attr);

	(void)state;
	how.td = abi_alloc_td(fix.ibv, &none);
	assert_non_null(abi_alloc_parent_domain(fix.ibv, &how));
	assert_non_null(abi_open_xrcd(fix.ibv, &xrc));
	assert_non_null(ibv_create_ah(fix.pd, &path));
	assert_non_null(abi_alloc_mw(fix.pd, IBV_MW_TYPE_2));
	assert_non_null(ibv_import_mr(pd2, fix_mr(IBV_ACCESS_LOCAL_WRITE)->handle));
	assert_non_null(ibv_import_dm(two, dm->handle));
	assert_non_null(abi_reg_dm_mr(fix.pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED));
	assert_int_equal(ibv_destroy_cq(fix.cq), 0);
	assert_int_equal(ibv_close_device(two), 0);
	assert_int_equal(fix.users, 2);
	assert_int_equal(ibv_close_device(fix.ibv), 0);
	assert_int_equal(fix.users, 0);
	assert_int_equal(fix.core.counts.pds, 0);
	assert_int_equal(fix.core.counts.mrs, 0);
	assert_int_equal(fix.core.counts.dm_bytes, 0);
	assert_true(list_empty(&fix.core.xrc.domains));
	fix_end(state);
}

/* A single queue of any kind is enough to keep the context's memory. */
static void closed_with_a_queue(void **state)
{
	(void)state;
	for (int kind = 0; kind < 3; kind++) {
		struct ibv_context *ibv = ibv_open_device(fix.dev[FIX_ROCE]);
		struct ibv_srq_init_attr attr = { .attr = { 4, 1, 0 } };
		struct ibv_comp_channel *ch = NULL;
		struct ibv_srq *srq = NULL;
		struct ibv_cq *cq = NULL;

		if (kind == 0)
			ch = ibv_create_comp_channel(ibv);
		else if (kind == 1)
			cq = ibv_create_cq(ibv, 4, NULL, NULL, 0);
		else
			srq = ibv_create_srq(ibv_alloc_pd(ibv), &attr);
		assert_int_equal(ibv_close_device(ibv), 0);
		assert_int_equal(fix.users, 1);
		assert_true(abi_of(ibv)->ctx.stays);
		if (ch)
			free(channel_of(ch));
		if (cq)
			free(cq_of(cq));
		if (srq)
			free(srq_of(srq));
		pthread_mutex_destroy(&ibv->mutex);
		free(abi_of(ibv));
		fix.users = 0;
	}
}

static unsigned freed;

static void *ring_alloc(struct ibv_pd *pd, void *arg, size_t size, size_t alignment,
			uint64_t type)
{
	(void)pd, (void)type;
	*(void **)arg =
		aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
	return *(void **)arg;
}

static void ring_free(struct ibv_pd *pd, void *arg, void *ring, uint64_t type)
{
	(void)pd, (void)arg, (void)ring, (void)type;
	freed++;
}

/* Closing waits for no acknowledgement, and calls no function of the program. */
static void closed_in_the_middle(void **state)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(fix.ibv);
	void *ring = NULL;
	struct ibv_parent_domain_init_attr how = {
		.pd = fix.pd,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = ring_alloc,
		.free = ring_free,
		.pd_context = &ring,
	};
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 4,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
		.channel = ch,
		.parent_domain = abi_alloc_parent_domain(fix.ibv, &how),
	};
	struct ibv_cq_ex *cq = abi_create_cq_ex(fix.ibv, &attr);
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);
	struct ibv_srq *srq = fix_srq();
	const struct cqe e = { 0 };
	struct ibv_async_event ev;
	struct ibv_cq *got;
	void *arg;

	(void)state;
	assert_non_null(cq);
	assert_non_null(ring);
	assert_int_equal(abi_req_notify_cq((struct ibv_cq *)cq, 0), 0);
	assert_true(cq_push(cq_of((struct ibv_cq *)cq), &e, false));
	assert_int_equal(ibv_get_cq_event(ch, &got, &arg), 0);
	async_raise(&abi_of(fix.ibv)->ctx, IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(ibv_get_async_event(fix.ibv, &ev), 0);
	alarm(30);
	assert_int_equal(ibv_close_device(fix.ibv), 0);
	alarm(0);
	assert_int_equal(freed, 0);
	free(ring);
	free(cq_of((struct ibv_cq *)cq));
	forget(fix.ibv, qp, fix.cq, srq, ch);
	fix_end(state);
}

/* --- imports --------------------------------------------------------------- */

static void imports_a_device(void **state)
{
	struct ibv_context *two = ibv_import_device(fix.ibv->cmd_fd);
	int fd = fix.ibv->cmd_fd, other = open("/", O_PATH), lowest;
	struct rlimit was;

	(void)state;
	assert_non_null(two);
	assert_int_equal(fix.users, 2);
	assert_ptr_equal(two->device, fix.ibv->device);
	assert_int_equal(two->cmd_fd, fd);
	fix_null(ibv_import_device(-1), EBADF);
	fix_null(ibv_import_device(other), EOPNOTSUPP);
	assert_int_equal(fix.users, 2);
	fix.open_rc = -ENOMEM;
	fix_null(ibv_import_device(fd), ENOMEM);
	fix.open_rc = 0;
	close(other);
	was = leave_room(0, &lowest);
	fix_null(ibv_import_device(fd), EMFILE);
	setrlimit(RLIMIT_NOFILE, &was);
	assert_int_equal(abi_of(two)->file->contexts, 2);
	assert_int_equal(ibv_close_device(two), 0);
	assert_false(is_open(fd));	/* the descriptor belonged to both */
	assert_int_equal(fix.users, 2); /* until the last context of the file closes */
}

/* A region outlives the context that made it while another context of its file is
 * open. */
static void imports_objects(void **state)
{
	int fd = dup(fix.ibv->cmd_fd);
	struct ibv_context *two = ibv_import_device(fd);
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE), *mr2;
	struct ibv_dm *dm = abi_alloc_dm(fix.ibv, &attr), *dm2;
	struct ibv_pd *pd2;

	(void)state;
	pd2 = ibv_import_pd(two, fix.pd->handle);
	assert_non_null(pd2);
	mr2 = ibv_import_mr(pd2, mr->handle);
	dm2 = ibv_import_dm(two, dm->handle);
	assert_non_null(mr2);
	assert_non_null(dm2);
	assert_int_equal(mr2->lkey, mr->lkey);
	fix_null(ibv_import_pd(two, 4711), ENOENT);
	fix_null(ibv_import_mr(pd2, 4711), ENOENT);
	fix_null(ibv_import_dm(two, 4711), ENOENT);
	/* Objects that were not imported are not affected. */
	ibv_unimport_pd(fix.pd);
	ibv_unimport_mr(mr);
	ibv_unimport_dm(dm);
	fix_errno(abi_free_dm(dm), EBUSY);
	fix_errno(ibv_dealloc_pd(fix.pd), EBUSY);
	fix_errno(ibv_dealloc_pd(pd2), EINVAL); /* already unimported */
	assert_int_equal(ibv_dereg_mr(mr), 0);	/* the other name of the region */
	errno = 0;
	ibv_unimport_mr(mr2);
	ibv_unimport_dm(dm2);
	assert_int_equal(errno, 0);
	ibv_unimport_mr(mr2); /* no object any more */
	assert_int_equal(errno, ENOENT);
	errno = 0;
	ibv_unimport_dm(dm2);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(abi_free_dm(dm), 0);
	ibv_unimport_pd(pd2);
	errno = 0;
	ibv_unimport_pd(pd2);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_close_device(two), 0);
}

/* Only objects of the context's own file can be imported. */
static void imports_nothing_of_another_file(void **state)
{
	struct ibv_context *two = ibv_open_device(fix.dev[FIX_ROCE]);
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE);
	struct ibv_dm *dm = abi_alloc_dm(fix.ibv, &attr);
	struct ibv_pd *pd = ibv_alloc_pd(two);

	(void)state;
	fix_null(ibv_import_pd(two, fix.pd->handle), ENOENT);
	fix_null(ibv_import_mr(pd, mr->handle), ENOENT);
	fix_null(ibv_import_dm(two, dm->handle), ENOENT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(abi_free_dm(dm), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(two), 0);
}

/* The context that made the objects closes first: the objects stay with the file. */
static void the_file_keeps_what_was_left(void **state)
{
	int fd = dup(fix.ibv->cmd_fd);
	struct ibv_context *two = ibv_import_device(fd);
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE), *mr2;
	const uint32_t handle = mr->handle;
	struct ibv_pd *pd2 = ibv_import_pd(two, fix.pd->handle);

	(void)state;
	assert_int_equal(ibv_destroy_cq(fix.cq), 0);
	assert_int_equal(ibv_close_device(fix.ibv), 0);
	assert_int_equal(fix.users, 2);
	assert_int_equal(fix.core.counts.mrs, 1);
	mr2 = ibv_import_mr(pd2, handle);
	assert_non_null(mr2); /* this import is left, too */
	assert_int_equal(ibv_close_device(two), 0);
	assert_int_equal(fix.core.counts.mrs, 0);
	assert_int_equal(fix.core.counts.pds, 0);
	fix_end(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(devices, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(opens_and_closes, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(opens_nothing, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(has_no_descriptors, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(what_is_no_context, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(closes_what_is_its_own, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(a_child, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(forks_need_nothing, fix_begin, fix_end),
		cmocka_unit_test_setup(closed_with_all_that_there_is, fix_open),
		cmocka_unit_test_setup(closed_while_a_peer_is_inside, fix_open),
		cmocka_unit_test_setup(closed_with_keys, fix_open),
		cmocka_unit_test_setup_teardown(closed_with_a_queue, fix_begin, fix_end),
		cmocka_unit_test_setup(closed_in_the_middle, fix_open),
		cmocka_unit_test_setup_teardown(imports_a_device, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(imports_objects, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(imports_nothing_of_another_file, fix_open,
						fix_close),
		cmocka_unit_test_setup(the_file_keeps_what_was_left, fix_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

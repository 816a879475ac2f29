/* SPDX-License-Identifier: BSD-2-Clause */
/* How control calls treat their arguments: ah.c, dm.c, domain.c, mr.c, mw.c. For objects
 * that are gone or another context's see object_test.c. */
#include <string.h>

#include "abi/fix.h"
#include "verbs/device.h"
#include "verbs/dm.h"
#include "verbs/mr.h"
#include "verbs/path.h"
#include "verbs/pd.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, fix_open, fix_close)

/* --- address handles ------------------------------------------------------ */

static void handles(void **state)
{
	struct ibv_ah_attr path = fix_path();
	struct ibv_ah *ah = ibv_create_ah(fix.pd, &path);

	(void)state;
	assert_memory_equal(fix.told, path.grh.dgid.raw, 16);
	assert_false(ah_of(ah)->path.same_host);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	fix.same_host = true;
	ah = ibv_create_ah(fix.pd, &path);
	assert_true(ah_of(ah)->path.same_host);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	path.is_global = 0;
	fix_null(ibv_create_ah(fix.pd, &path), EINVAL);
}

/* Fills in the GRH area of a datagram from 192.0.2.7 to 192.0.2.ours. */
static void fill_grh(struct ibv_grh *grh, uint8_t ours)
{
	const uint8_t ip[20] = { 0x45, 0x0c, 0,	  60, 0, 0, 0x40, 0, 64, 17,
				 0,    0,    192, 0,  2, 7, 192,  0, 2,	 ours };
	uint8_t *at = (uint8_t *)grh + 20;
	uint32_t sum = 0;

	memset(grh, 0, 40);
	memcpy(at, ip, 20);
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(at[i] << 8 | at[i + 1]);
	sum = ~((sum & 0xffff) + (sum >> 16));
	at[10] = (uint8_t)(sum >> 8);
	at[11] = (uint8_t)sum;
}

/* An address handle that leads back to the sender of a datagram. */
static void back_from_a_datagram(void **state)
{
	static const uint8_t from[16] = { [10] = 0xff, 0xff, 192, 0, 2, 7 };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .sl = 3, .dlid_path_bits = 5 };
	struct ibv_ah_attr attr;
	struct ibv_grh grh;
	struct ibv_ah *ah;

	(void)state;
	fill_grh(&grh, 1);
	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(ibv_init_ah_from_wc(fix.ibv, 1, &wc, &grh, &attr), 0);
	assert_memory_equal(attr.grh.dgid.raw, from, 16);
	assert_int_equal(attr.grh.sgid_index, 1);
	assert_int_equal(attr.grh.hop_limit, 255);
	assert_int_equal(attr.grh.traffic_class, 0x0c);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.sl, 3);
	assert_int_equal(attr.src_path_bits, 5);
	ah = ibv_create_ah_from_wc(fix.pd, &wc, &grh, 1);
	assert_non_null(ah);
	assert_memory_equal(ah_of(ah)->attr.grh.dgid.raw, from, 16);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	fix_errno(ibv_init_ah_from_wc(fix.ibv, 2, &wc, &grh, &attr), ENODEV);
	fill_grh(&grh, 9); /* not for our address */
	fix_errno(ibv_init_ah_from_wc(fix.ibv, 1, &wc, &grh, &attr), ENODEV);
	fix_null(ibv_create_ah_from_wc(fix.pd, &wc, &grh, 1), ENODEV);
	((uint8_t *)&grh)[30] ^= 1;
	fix_errno(ibv_init_ah_from_wc(fix.ibv, 1, &wc, &grh, &attr), EPROTONOSUPPORT);
	wc.wc_flags = 0; /* on RoCE each datagram has one */
	fix_errno(ibv_init_ah_from_wc(fix.ibv, 1, &wc, &grh, &attr), EINVAL);
}

static void back_by_lid(void **state)
{
	struct ibv_wc wc = { .slid = 7, .sl = 3, .dlid_path_bits = 5 };
	struct ibv_ah_attr attr;

	(void)state;
	abi_of(fix.ibv)->ctx.dev->link_layer = IBV_LINK_LAYER_INFINIBAND;
	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(ibv_init_ah_from_wc(fix.ibv, 1, &wc, NULL, &attr), 0);
	assert_int_equal(attr.dlid, 7);
	assert_int_equal(attr.sl, 3);
	assert_int_equal(attr.src_path_bits, 5);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.is_global, 0);
	abi_of(fix.ibv)->ctx.dev->link_layer = IBV_LINK_LAYER_ETHERNET;
}

static void ethernet_addresses(void **state)
{
	struct ibv_ah_attr attr = fix_path();
	uint8_t mac[6] = { 0 };
	uint16_t vid = 7;

	(void)state;
	fix_errno(ibv_resolve_eth_l2_from_gid(fix.ibv, &attr, mac, &vid), EOPNOTSUPP);
	assert_int_equal(vid, 7);
	attr.grh.dgid = (union ibv_gid){ .raw = { [10] = 255, 255, 239, 1, 2, 3 } };
	assert_int_equal(ibv_resolve_eth_l2_from_gid(fix.ibv, &attr, mac, &vid), 0);
	assert_int_equal(vid, 0xffff);
	assert_int_equal(mac[5], 3);
	assert_int_equal(ibv_resolve_eth_l2_from_gid(fix.ibv, &attr, mac, NULL), 0);
}

/* --- memory --------------------------------------------------------------- */

static void regions(void **state)
{
	const int write = IBV_ACCESS_LOCAL_WRITE, zero = write | IBV_ACCESS_ZERO_BASED;
	const uint64_t at = (uintptr_t)fix.memory;
	struct ibv_mr *mr;

	(void)state;
	mr = (ibv_reg_mr)(fix.pd, fix.memory, 8, write);
	assert_int_equal(mr_of(mr)->mkey.base, at);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = (ibv_reg_mr)(fix.pd, fix.memory, 8, zero);
	assert_int_equal(mr_of(mr)->mkey.base, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = (ibv_reg_mr_iova)(fix.pd, fix.memory, 8, 0x1000, write);
	assert_int_equal(mr_of(mr)->mkey.base, 0x1000);
	assert_int_equal(mr_of(mr)->mkey.length, 8);
	assert_int_equal(mr_of(mr)->mkey.access & write, write);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	fix_null(ibv_reg_mr_iova2(fix.pd, fix.memory, 8, 0, IBV_ACCESS_REMOTE_WRITE),
		 EINVAL);
	mr = abi_alloc_null_mr(fix.pd);
	assert_true(mr_of(mr)->mkey.is_null);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static int rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *at, size_t n,
		 int access)
{
	errno = 0;
	return ibv_rereg_mr(mr, flags, pd, at, n, access);
}

static void registers_again(void **state)
{
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE), *none = NULL;
	struct ibv_pd *other = ibv_alloc_pd(fix.ibv);
	struct ibv_qp *qp = fix_qp(IBV_QPT_RC);

	(void)state;
	/* Without IBV_REREG_MR_CHANGE_PD the PD is ignored and may be anything. */
	assert_int_equal(rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, (struct ibv_pd *)qp, NULL,
			       0, 0),
			 0);
	assert_int_equal(mr_of(mr)->mkey.access & IBV_ACCESS_LOCAL_WRITE, 0);
	assert_int_equal(rereg(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
	assert_ptr_equal(mr_of(mr)->mkey.pd, pd_of(other));
	assert_int_equal(rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, fix.memory + 8,
			       16, 0),
			 0);
	assert_int_equal(mr_of(mr)->mkey.length, 16);
	assert_int_equal(rereg(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rereg(none, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void advice(void **state)
{
	struct ibv_mr *mr = fix_mr(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = { (uintptr_t)fix.memory, 8, mr->lkey };

	(void)state;
	assert_int_equal(abi_advise_mr(fix.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1),
			 0);
	sge.lkey++;
	fix_errno(abi_advise_mr(fix.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
		  ENOENT);
	fix_errno(abi_advise_mr(fix.pd, 99, 0, &sge, 1), EOPNOTSUPP);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void windows(void **state)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	struct ibv_qp *qp = fix_rts(IBV_QPT_RC);
	struct ibv_mr *mr = fix_mr(access), *foreign;
	struct ibv_pd *other = ibv_alloc_pd(fix.ibv);
	struct ibv_mw *mw = abi_alloc_mw(fix.pd, IBV_MW_TYPE_1),
		      *two = abi_alloc_mw(fix.pd, IBV_MW_TYPE_2),
		      *elsewhere = abi_alloc_mw(other, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = { .wr_id = 7,
				    .send_flags = IBV_SEND_SIGNALED,
				    .bind_info = { mr, (uintptr_t)fix.memory, 8,
						   IBV_ACCESS_REMOTE_READ } };
	const uint32_t rkey = mw->rkey;
	const struct swqe *w;

	(void)state;
	fix_null(abi_alloc_mw(fix.pd, 0), EINVAL);
	foreign = ibv_reg_mr_iova2(other, fix.memory, 8, 0, (unsigned)access);
	assert_int_equal(abi_bind_mw(qp, mw, &bind), 0);
	assert_int_equal(mw->rkey, ibv_inc_rkey(rkey));
	assert_string_equal(fix_said(), "post");
	w = sq_at(&qp_of(qp)->sq, 0);
	assert_int_equal(w->opcode, IBV_WR_BIND_MW);
	assert_int_equal(w->wr_id, 7);
	assert_int_equal(w->imm, mw->rkey);
	assert_int_equal(w->bind.info.length, 8);
	/* A window of type 2 is bound by a work request instead; QP, window and region
	 * must be of one PD. */
	assert_int_equal(abi_bind_mw(qp, two, &bind), EINVAL);
	fix_errno(abi_bind_mw(qp, elsewhere, &bind), EPERM);
	bind.bind_info.mr = foreign;
	fix_errno(abi_bind_mw(qp, mw, &bind), EPERM);
	bind.bind_info.mr = NULL;
	fix_errno(abi_bind_mw(qp, mw, &bind), EINVAL);
	bind.bind_info.length = 0;
	fix_errno(abi_bind_mw(qp, mw, &bind), EINVAL);
	bind.bind_info.addr = 0; /* unbinds the window */
	assert_int_equal(abi_bind_mw(qp, mw, &bind), 0);
	assert_int_equal(mw->rkey, ibv_inc_rkey(ibv_inc_rkey(rkey)));
	bind.send_flags = IBV_SEND_INLINE;
	fix_errno(abi_bind_mw(qp, mw, &bind), EINVAL);
	assert_int_equal(mw->rkey, ibv_inc_rkey(ibv_inc_rkey(rkey)));
	qp_of(qp)->sq.tail = qp_of(qp)->sq.head;
	assert_int_equal(abi_dealloc_mw(elsewhere), 0);
	assert_int_equal(abi_dealloc_mw(two), 0);
	assert_int_equal(abi_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(foreign), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(other), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void device_memory(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = abi_alloc_dm(fix.ibv, &attr);
	char text[4] = "abc", back[4];
	struct ibv_mr *mr;

	(void)state;
	assert_int_equal(ibv_memcpy_to_dm(dm, 60, text, 4), 0);
	assert_int_equal(ibv_memcpy_from_dm(back, dm, 60, 4), 0);
	assert_string_equal(back, "abc");
	fix_errno(ibv_memcpy_to_dm(dm, 64, text, 4), EFAULT);
	fix_errno(ibv_memcpy_from_dm(back, dm, 2, 4), EINVAL);
	fix_null(abi_reg_dm_mr(fix.pd, NULL, 0, 8, IBV_ACCESS_ZERO_BASED), EINVAL);
	fix_null(abi_reg_dm_mr(fix.pd, dm, 0, 8, 0), EINVAL);
	mr = abi_reg_dm_mr(fix.pd, dm, 8, 16,
			   IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(mr_of(mr)->mkey.length, 16);
	assert_ptr_equal(mr_of(mr)->of, dm_of(dm));
	fix_errno(abi_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* A handler that has interrupted a call of its thread: see abi.h. */
	inside_begin();
	fix_errno(ibv_memcpy_to_dm(dm, 60, text, 4), EDEADLK);
	fix_errno(ibv_memcpy_from_dm(back, dm, 60, 4), EDEADLK);
	abi_end();
	/* Programs call through a pointer in an object that may be freed; the table of
	 * objects tells. */
	live_del(&dm_of(dm)->live);
	fix_errno(ibv_memcpy_to_dm(dm, 60, text, 4), EINVAL);
	fix_errno(ibv_memcpy_from_dm(back, dm, 60, 4), EINVAL);
	live_add(&dm_of(dm)->live, LIVE_DM, fix.ibv);
	assert_int_equal(abi_free_dm(dm), 0);
	attr.length = 0;
	fix_null(abi_alloc_dm(fix.ibv, &attr), EINVAL);
	/* A dead context that is not a forked child's gives no device memory. */
	abi_of(fix.ibv)->ctx.dead = true;
	attr.length = 64;
	fix_null(abi_alloc_dm(fix.ibv, &attr), EIO);
	abi_of(fix.ibv)->ctx.dead = false;
}

static void domains(void **state)
{
	struct ibv_td_init_attr td_init = { 0 };
	struct ibv_td *td = abi_alloc_td(fix.ibv, &td_init);
	struct ibv_parent_domain_init_attr how = { .pd = fix.pd, .td = td };
	struct ibv_pd *parent = abi_alloc_parent_domain(fix.ibv, &how);

	(void)state;
	assert_ptr_equal(pd_of(parent)->of, pd_of(fix.pd));
	fix_errno(abi_dealloc_td(td), EBUSY);
	fix_errno(ibv_dealloc_pd(fix.pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(abi_dealloc_td(td), 0);
	how.pd = NULL;
	how.td = NULL;
	fix_null(abi_alloc_parent_domain(fix.ibv, &how), EINVAL);
	td_init.comp_mask = 1;
	fix_null(abi_alloc_td(fix.ibv, &td_init), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(handles),	     TEST(back_from_a_datagram),
		TEST(back_by_lid),   TEST(ethernet_addresses),
		TEST(regions),	     TEST(registers_again),
		TEST(advice),	     TEST(windows),
		TEST(device_memory), TEST(domains),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

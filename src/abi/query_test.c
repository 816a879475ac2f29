/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions about a device (query.c, gid.c), and copies for programs (kern.c,
 * sysfs.c). */
#include <endian.h>
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/fix.h"
#include "verbs/device.h"
#include "verbs/netport.h"

enum sysfs_type { TYPE_IB, TYPE_ROCE_V2 };

int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned index,
		       enum sysfs_type *type);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst,
				 struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

static const uint8_t v4[16] = { [10] = 0xff, 0xff, 192, 0, 2, 1 };

static void a_device(void **state)
{
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;

	(void)state;
	assert_int_equal(ibv_query_device(fix.ibv, &attr), 0);
	assert_int_equal(attr.max_qp, caps.max_qp);
	memset(&ex, 0xff, sizeof(ex));
	assert_int_equal(abi_query_device_ex(fix.ibv, NULL, &ex, sizeof(ex)), 0);
	assert_memory_equal(&ex.orig_attr, &attr, sizeof(attr));
	assert_int_equal(ex.hca_core_clock, 1000000);
	fix_errno(abi_query_device_ex(fix.ibv, &input, &ex, sizeof(ex)), EINVAL);
	input.comp_mask = 0;
	assert_int_equal(abi_query_device_ex(fix.ibv, &input, &ex, sizeof(ex)), 0);
	memset(&ex, 0xff, sizeof(ex));
	assert_int_equal(abi_query_device_ex(fix.ibv, NULL, &ex, sizeof(attr)), 0);
	assert_int_equal(ex.comp_mask, UINT32_MAX); /* beyond the old struct */
}

/* An old program passes a shorter struct. */
static void a_port(void **state)
{
	struct ibv_port_attr attr, old;

	(void)state;
	memset(&old, 0xff, sizeof(old));
	assert_int_equal(abi_query_port(fix.ibv, 1, &attr, sizeof(attr)), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.gid_tbl_len, device_gids(device_of(fix.dev[0])));
	assert_int_equal((ibv_query_port)(fix.ibv, 1, (void *)&old), 0);
	assert_memory_equal(&old, &attr, offsetof(struct ibv_port_attr, flags));
	assert_int_equal(old.flags, 0xff);
	fix_errno(abi_query_port(fix.ibv, 2, &attr, sizeof(attr)), EINVAL);
	memset(&old, 0xff, sizeof(old));
	fix_errno((ibv_query_port)(fix.ibv, 0, (void *)&old), EINVAL);
	assert_int_equal(old.lid, 0xffff);
}

static void the_clock(void **state)
{
	struct ibv_values_ex values = { .comp_mask = ~0u, .raw_clock = { 7, 7 } };

	(void)state;
	fix.now = 4711000000123;
	assert_int_equal(abi_query_rt_values(fix.ibv, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_int_equal(values.raw_clock.tv_sec, 0);
	assert_int_equal(values.raw_clock.tv_nsec, 4711000000123);
	values = (struct ibv_values_ex){ .raw_clock = { 7, 7 } };
	assert_int_equal(abi_query_rt_values(fix.ibv, &values), 0);
	assert_int_equal(values.comp_mask, 0);
	assert_int_equal(values.raw_clock.tv_sec, 7);
}

static void pkeys(void **state)
{
	__be16 pkey = 0;

	(void)state;
	device_of(fix.dev[FIX_ROCE])->port.pkeys = 2;
	device_of(fix.dev[FIX_ROCE])->pkey[1] = 0x1234;
	assert_int_equal(ibv_query_pkey(fix.ibv, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(fix.ibv, 1, 1, &pkey), 0);
	assert_int_equal(pkey, htobe16(0x1234));
	fix_minus(ibv_query_pkey(fix.ibv, 1, 2, &pkey), EINVAL);
	fix_minus(ibv_query_pkey(fix.ibv, 1, -1, &pkey), EINVAL);
	fix_minus(ibv_query_pkey(fix.ibv, 2, 0, &pkey), EINVAL);
	assert_int_equal(pkey, htobe16(0x1234));
	assert_int_equal(ibv_get_pkey_index(fix.ibv, 1, 0xffff), 0);
	assert_int_equal(ibv_get_pkey_index(fix.ibv, 1, htobe16(0x1234)), 1);
	assert_int_equal(ibv_get_pkey_index(fix.ibv, 1, htobe16(0x1235)), -1);
}

/* --- GIDs -------------------------------------------------------------------- */

/* GID 0 is the link-local address, 1 the IPv4 address; the others are free. */
static void gids(void **state)
{
	static const union ibv_gid none;
	union ibv_gid gid;
	enum sysfs_type type = 7;

	(void)state;
	assert_int_equal(ibv_query_gid(fix.ibv, 1, 1, &gid), 0);
	assert_memory_equal(&gid, v4, 16);
	assert_int_equal(ibv_query_gid(fix.ibv, 1, 5, &gid), 0);
	assert_memory_equal(&gid, &none, 16);
	fix_minus(ibv_query_gid(fix.ibv, 1, -1, &gid), EINVAL);
	fix_minus(ibv_query_gid(fix.ibv, 1, GID_TABLE, &gid), EINVAL);
	fix_minus(ibv_query_gid(fix.ibv, 2, 0, &gid), EINVAL);
	assert_int_equal(ibv_query_gid_type(fix.ibv, 1, 0, &type), 0);
	assert_int_equal(type, TYPE_ROCE_V2);
	fix_minus(ibv_query_gid_type(fix.ibv, 1, GID_TABLE, &type), EINVAL);
	fix_minus(ibv_query_gid_type(fix.ibv, 1, UINT32_MAX, &type), EINVAL);
}

static void types(void **state)
{
	struct gid_entry *gid = device_of(fix.dev[FIX_ROCE])->port.gid;
	struct ibv_ah_attr attr;
	struct ibv_grh grh = { .next_hdr = 0x1b };
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_gid_entry e;
	enum sysfs_type type;

	(void)state;
	gid[5] = gid[1];
	gid[5].v1 = true;
	assert_int_equal(_ibv_query_gid_ex(fix.ibv, 1, 5, &e, 0, sizeof(e)), 0);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V1);
	assert_int_equal(ibv_query_gid_type(fix.ibv, 1, 5, &type), 0);
	assert_int_equal(type, TYPE_IB);
	/* An answer uses the GID type of the message. */
	grh.version_tclass_flow = htobe32(6u << 28);
	grh.dgid = gid[1].gid;
	assert_int_equal(ibv_init_ah_from_wc(fix.ibv, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 5);
	grh.next_hdr = 17;
	assert_int_equal(ibv_init_ah_from_wc(fix.ibv, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 1);
	gid[5].used = false;
	grh.next_hdr = 0x1b;
	assert_int_equal(ibv_init_ah_from_wc(fix.ibv, 1, &wc, &grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 1);
	memset(&gid[5], 0, sizeof(gid[5]));
}

static void entries(void **state)
{
	struct ibv_gid_entry e;
	uint8_t big[sizeof(e) + 8];

	(void)state;
	memset(&e, 0xff, sizeof(e));
	assert_int_equal(_ibv_query_gid_ex(fix.ibv, 1, 1, &e, 0, sizeof(e)), 0);
	assert_memory_equal(&e.gid, v4, 16);
	assert_int_equal(e.gid_index, 1);
	assert_int_equal(e.port_num, 1);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(e.ndev_ifindex, 7);
	fix_errno(_ibv_query_gid_ex(fix.ibv, 1, 1, &e, 1, sizeof(e)), EOPNOTSUPP);
	fix_errno(_ibv_query_gid_ex(fix.ibv, 1, 5, &e, 0, sizeof(e)), ENODATA);
	fix_errno(_ibv_query_gid_ex(fix.ibv, 1, GID_TABLE, &e, 0, sizeof(e)), EINVAL);
	fix_errno(_ibv_query_gid_ex(fix.ibv, 0x101, 1, &e, 0, sizeof(e)), EINVAL);
	fix_errno(_ibv_query_gid_ex(fix.ibv, 1, UINT32_MAX, &e, 0, sizeof(e)), EINVAL);
	/* An older program's struct is shorter, a newer one's longer. */
	memset(big, 0xff, sizeof(big));
	assert_int_equal(_ibv_query_gid_ex(fix.ibv, 1, 1, (void *)big, 0, 16), 0);
	assert_memory_equal(big, v4, 16);
	assert_int_equal(big[16], 0xff);
	assert_int_equal(_ibv_query_gid_ex(fix.ibv, 1, 1, (void *)big, 0, sizeof(big)),
			 0);
	assert_memory_equal(big, &e, sizeof(e));
	assert_int_equal(big[sizeof(e)], 0);
	assert_int_equal(big[sizeof(big) - 1], 0);
}

static ssize_t table(struct ibv_gid_entry *e, size_t max, uint32_t flags)
{
	return _ibv_query_gid_table(fix.ibv, e, max, flags, sizeof(*e));
}

static void the_table(void **state)
{
	struct ibv_gid_entry e[3];

	(void)state;
	memset(e, 0xff, sizeof(e));
	assert_int_equal(table(e, 3, 0), 2);
	assert_int_equal(e[0].gid_index, 0);
	assert_int_equal(e[1].gid_index, 1);
	assert_memory_equal(&e[1].gid, v4, 16);
	assert_int_equal(e[2].gid_index, UINT32_MAX);
	assert_int_equal(table(e, 2, 0), 2);
	assert_int_equal(table(e, 1, 0), -EINVAL); /* too many for the table */
	assert_int_equal(table(e, 3, 1), -EOPNOTSUPP);
}

static void gids_of_iwarp(void **state)
{
	struct ibv_context *ibv = ibv_open_device(fix.dev[FIX_IWARP]);
	struct ibv_gid_entry e;
	enum sysfs_type type;

	(void)state;
	assert_int_equal(_ibv_query_gid_ex(ibv, 1, 0, &e, 0, sizeof(e)), 0);
	assert_int_equal(e.gid_type, IBV_GID_TYPE_IB);
	assert_int_equal(ibv_query_gid_type(ibv, 1, 0, &type), 0);
	assert_int_equal(type, TYPE_IB);
	assert_int_equal(ibv_close_device(ibv), 0);
}

/* --- the kernel's structs ------------------------------------------------ */

/* Gives every byte another value, except bools. */
static void number(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)(i + 1);
}

static void path_records(void **state)
{
	struct ib_user_path_rec from, back;
	struct ibv_sa_path_rec rec;

	(void)state;
	number(&from, sizeof(from));
	from.mtu = 0x44;
	memset(&rec, 0, sizeof(rec));
	ibv_copy_path_rec_from_kern(&rec, &from);
	assert_memory_equal(&rec.dgid, from.dgid, 16);
	assert_memory_equal(&rec.sgid, from.sgid, 16);
	assert_int_equal(rec.dlid, from.dlid);
	assert_int_equal(rec.slid, from.slid);
	assert_int_equal(rec.mtu, 0x44);
	memset(&back, 0, sizeof(back));
	ibv_copy_path_rec_to_kern(&back, &rec);
#define SAME(field)                                                                      \
	assert_memory_equal(&back.field, &from.field, sizeof(from.field));               \
	assert_int_not_equal(*(uint8_t *)&back.field, 0)
	SAME(dgid);
	SAME(sgid);
	SAME(dlid);
	SAME(slid);
	SAME(raw_traffic);
	SAME(flow_label);
	SAME(reversible);
	SAME(mtu);
	SAME(pkey);
	SAME(hop_limit);
	SAME(traffic_class);
	SAME(numb_path);
	SAME(sl);
	SAME(mtu_selector);
	SAME(rate_selector);
	SAME(rate);
	SAME(packet_life_time_selector);
	SAME(packet_life_time);
	SAME(preference);
#undef SAME
}

static void qp_attributes(void **state)
{
	struct ib_uverbs_qp_attr from;
	struct ibv_qp_attr to;

	(void)state;
	number(&from, sizeof(from));
	memset(&to, 0, sizeof(to));
	ibv_copy_qp_attr_from_kern(&to, &from);
#define SAME(field) assert_int_equal(to.field, from.field)
#define CAP(field)  assert_int_equal(to.cap.field, from.field)
#define AH(ah, field, of)                                                                \
	assert_int_equal(to.ah.field, from.ah.of);                                       \
	assert_int_equal(to.alt_##ah.field, from.alt_##ah.of)
	SAME(qp_state);
	SAME(cur_qp_state);
	SAME(path_mtu);
	SAME(path_mig_state);
	SAME(qkey);
	SAME(rq_psn);
	SAME(sq_psn);
	SAME(dest_qp_num);
	SAME(qp_access_flags);
	CAP(max_send_wr);
	CAP(max_recv_wr);
	CAP(max_send_sge);
	CAP(max_recv_sge);
	CAP(max_inline_data);
	SAME(pkey_index);
	SAME(alt_pkey_index);
	SAME(en_sqd_async_notify);
	SAME(sq_draining);
	SAME(max_rd_atomic);
	SAME(max_dest_rd_atomic);
	SAME(min_rnr_timer);
	SAME(port_num);
	SAME(timeout);
	SAME(retry_cnt);
	SAME(rnr_retry);
	SAME(alt_port_num);
	SAME(alt_timeout);
	AH(ah_attr, grh.flow_label, grh.flow_label);
	AH(ah_attr, grh.sgid_index, grh.sgid_index);
	AH(ah_attr, grh.hop_limit, grh.hop_limit);
	AH(ah_attr, grh.traffic_class, grh.traffic_class);
	AH(ah_attr, dlid, dlid);
	AH(ah_attr, sl, sl);
	AH(ah_attr, src_path_bits, src_path_bits);
	AH(ah_attr, static_rate, static_rate);
	AH(ah_attr, is_global, is_global);
	AH(ah_attr, port_num, port_num);
	assert_memory_equal(&to.ah_attr.grh.dgid, from.ah_attr.grh.dgid, 16);
	assert_memory_equal(&to.alt_ah_attr.grh.dgid, from.alt_ah_attr.grh.dgid, 16);
#undef SAME
#undef CAP
#undef AH
}

/* --- sysfs --------------------------------------------------------------------- */

static void put(const char *dir, const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/file", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void files(void **state)
{
	char dir[] = "/tmp/urnic_query_test.XXXXXX", path[64], buf[8], *longest;

	(void)state;
	assert_non_null(mkdtemp(dir));
	put(dir, "abc\n");
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, sizeof(buf)), 3);
	assert_string_equal(buf, "abc");
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, 4), 3);
	fix_minus(ibv_read_sysfs_file(dir, "file", buf, 3), EOVERFLOW);
	put(dir, "abc");
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, 4), 3);
	assert_string_equal(buf, "abc");
	put(dir, "");
	assert_int_equal(ibv_read_sysfs_file(dir, "file", buf, sizeof(buf)), 0);
	assert_string_equal(buf, "");
	fix_minus(ibv_read_sysfs_file(dir, "other", buf, sizeof(buf)), ENOENT);
	fix_minus(ibv_read_sysfs_file("/", "tmp", buf, sizeof(buf)), EISDIR);
	longest = test_malloc(4097);
	memset(longest, 'x', 4096);
	longest[4096] = '\0';
	fix_minus(ibv_read_sysfs_file(longest, "file", buf, sizeof(buf)), ENAMETOOLONG);
	test_free(longest);
	snprintf(path, sizeof(path), "%s/file", dir);
	remove(path);
	remove(dir);
}

static void where_sysfs_is(void **state)
{
	(void)state;
	unsetenv("SYSFS_PATH");
	assert_string_equal(ibv_get_sysfs_path(), "/sys");
	setenv("SYSFS_PATH", "", 1);
	assert_string_equal(ibv_get_sysfs_path(), "/sys");
	setenv("SYSFS_PATH", "/elsewhere", 1);
	assert_string_equal(ibv_get_sysfs_path(), "/elsewhere");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_device, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(a_port, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(the_clock, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(pkeys, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(gids, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(entries, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(types, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(the_table, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(gids_of_iwarp, fix_open, fix_close),
		cmocka_unit_test(path_records),
		cmocka_unit_test(qp_attributes),
		cmocka_unit_test(files),
		cmocka_unit_test(where_sysfs_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

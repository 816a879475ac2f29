/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "sys/like.h"

static struct like like;
static char err[256];

static void good(const char *text)
{
	assert_int_equal(like_parse(text, &like, err, sizeof(err)), 0);
}

static void t_none(void **state)
{
	(void)state;
	good("");
	assert_int_equal(like.devices, 0);
	assert_int_equal(like.lacks, 0);
	for (int i = 0; i < LIKE_LIMITS; i++)
		assert_true(like.limit[i].most == UINT64_MAX);
}

static void t_one_has_its_own_values(void **state)
{
	(void)state;
	for (unsigned d = 0; d < LIKE_DEVICES; d++) {
		good(like_device_name(d));
		assert_int_equal(like.devices, 1u << d);
		for (unsigned i = 0; i < LIKE_LIMITS; i++)
			assert_true(like.limit[i].most == like_limit_of(d, i));
	}
	assert_null(like_device_name(LIKE_DEVICES));
}

static void t_several_are_the_lowest(void **state)
{
	(void)state;
	good("mlx5,irdma");
	assert_int_equal(like.limit[LIKE_max_sge].most, 13);
	assert_int_equal(like.limit[LIKE_max_sge].of, LIKE_DEVICE_irdma);
	assert_int_equal(like.limit[LIKE_max_qp_rd_atom].most, 16);
	assert_int_equal(like.limit[LIKE_max_qp_rd_atom].of, LIKE_DEVICE_mlx5);
	assert_true(like.lacks & 1u << LIKE_SRQ);
	assert_int_equal(like.lacking[LIKE_SRQ], LIKE_DEVICE_irdma);
	assert_false(like.lacks & 1u << LIKE_UD);
}

static void t_all_must_have_what_urnic_has_not(void **state)
{
	(void)state;
	good("mlx5");
	assert_true(like.also & 1u << LIKE_V1_GIDS);
	good("mlx5,bnxt");
	assert_true(like.also & 1u << LIKE_V1_GIDS);
	good("rxe,mlx5");
	assert_false(like.also & 1u << LIKE_V1_GIDS);
	good("mlx5,rxe");
	assert_false(like.also & 1u << LIKE_V1_GIDS);
	good("strict");
	assert_false(like.also & 1u << LIKE_V1_GIDS);
}

static void t_strict_is_all(void **state)
{
	(void)state;
	good("strict");
	assert_int_equal(like.devices, (1u << LIKE_DEVICES) - 1);
	for (unsigned i = 0; i < LIKE_LIMITS; i++) {
		uint64_t least = UINT64_MAX;

		for (unsigned d = 0; d < LIKE_DEVICES; d++)
			if (like_limit_of(d, i) < least)
				least = like_limit_of(d, i);
		assert_true(like.limit[i].most == least);
	}
}

static void t_depths(void **state)
{
	(void)state;
	assert_int_equal(like_depth_of(LIKE_DEVICE_mlx5, LIKE_DEPTH_cqe, 64), 127);
	assert_int_equal(like_depth_of(LIKE_DEVICE_mlx5, LIKE_DEPTH_cqe, 63), 63);
	assert_int_equal(like_depth_of(LIKE_DEVICE_mlx5, LIKE_DEPTH_cqe, 1), 1);
	assert_int_equal(like_depth_of(LIKE_DEVICE_siw, LIKE_DEPTH_cqe, 65), 128);
	assert_int_equal(like_depth_of(LIKE_DEVICE_siw, LIKE_DEPTH_cqe, 64), 64);
	assert_int_equal(like_depth_of(LIKE_DEVICE_irdma, LIKE_DEPTH_cqe, 65), 65);
	for (unsigned d = 0; d < LIKE_DEVICES; d++)
		for (unsigned i = 0; i < LIKE_DEPTHS; i++) {
			const uint64_t most = like_depth_of(d, i, UINT32_MAX);

			assert_int_equal(like_depth_of(d, i, 0), 0);
			assert_true(most >= UINT32_MAX);
			assert_true(
				like_depth_of(d, i, 1000) ==
				like_depth_of(d, i, (uint32_t)like_depth_of(d, i, 1000)));
		}
}

static void t_vendors(void **state)
{
	(void)state;
	assert_int_equal(like_vendor_of(LIKE_DEVICE_mlx5, LIKE_VENDOR_RETRY_EXC_ERR),
			 0x81);
	assert_true(like_vendor_of(LIKE_DEVICE_mlx5, LIKE_VENDOR_LOC_LEN_ERR) ==
		    UINT64_MAX);
	assert_int_equal(like_vendor_of(LIKE_DEVICE_rxe, LIKE_VENDOR_LOC_LEN_ERR), 0);
	assert_string_equal(like_vendor_status(LIKE_VENDOR_LOC_LEN_ERR), "LOC_LEN_ERR");
}

static void t_wrong_names(void **state)
{
	static const char *const wrong[] = { "mlx4", "mlx5,",	",mlx5", "mlx5,,rxe",
					     "MLX5", "strict ", "mlx",	 "," };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(like_parse(wrong[i], &like, err, sizeof(err)), -EINVAL);
		assert_non_null(strstr(err, "is not strict, mlx5, rxe, siw, irdma, bnxt "
					    "or ionic"));
	}
	assert_int_equal(like_parse("mlx4", &like, err, 8), -EINVAL);
	assert_int_equal(strlen(err), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_none),
		cmocka_unit_test(t_one_has_its_own_values),
		cmocka_unit_test(t_several_are_the_lowest),
		cmocka_unit_test(t_all_must_have_what_urnic_has_not),
		cmocka_unit_test(t_strict_is_all),
		cmocka_unit_test(t_depths),
		cmocka_unit_test(t_vendors),
		cmocka_unit_test(t_wrong_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

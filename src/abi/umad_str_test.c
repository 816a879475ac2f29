/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/umad_str.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BE(x) __builtin_bswap16(x)

static void a_class_is_the_first_that_fits(void **state)
{
	(void)state;
	assert_string_equal(umad_class_str(0x01), "Subn");
	assert_string_equal(umad_class_str(0x81), "Subn");
	assert_string_equal(umad_class_str(0x08), "SNMP");
	assert_string_equal(umad_class_str(0x09), "Vendor");
	assert_string_equal(umad_class_str(0x0f), "Vendor");
	/* Not Application, which has this number, too. */
	assert_string_equal(umad_class_str(0x10), "DevAdm");
	assert_string_equal(umad_class_str(0x13), "Application");
	assert_string_equal(umad_class_str(0x2f), "Application");
	assert_string_equal(umad_class_str(0x4f), "Vendor");
	assert_string_equal(umad_class_str(0x50), "<unknown>");
	assert_string_equal(umad_class_str(0x00), "<unknown>");
}

/* The same number has different meanings in different classes. */
static void a_number_means_what_its_class_says(void **state)
{
	(void)state;
	assert_string_equal(umad_method_str(0x03, 0x14), "GetMulti");
	assert_string_equal(umad_method_str(0x03, 0x01), "Get");
	/* As rdma-core spells it. */
	assert_string_equal(umad_method_str(0x01, 0x14), "<unknown");
	assert_string_equal(umad_attribute_str(0x01, BE(0x0011)), "NodeInfo");
	assert_string_equal(umad_attribute_str(0x81, BE(0x0011)), "NodeInfo");
	assert_string_equal(umad_attribute_str(0x03, BE(0x0011)), "NodeRecord");
	assert_string_equal(umad_attribute_str(0x07, BE(0x0011)), "MsgRcptAck");
	assert_string_equal(umad_attribute_str(0x04, BE(0x0001)), "Class Port Info");
	assert_string_equal(umad_attribute_str(0x04, BE(0x0011)), "<unknown>");
	assert_string_equal(umad_attribute_str(0x01, 0x0011), "<unknown>");
}

static void a_status(void **state)
{
	(void)state;
	assert_string_equal(umad_common_mad_status_str(0), "Success");
	assert_string_equal(umad_common_mad_status_str(BE(0x07)), "Busy");
	assert_string_equal(umad_common_mad_status_str(BE(0x06)), "Redirection required");
	assert_string_equal(umad_common_mad_status_str(BE(0x08)), "Method not supported");
	assert_string_equal(umad_common_mad_status_str(BE(0x1c)),
			    "Invalid attribute/modifier field");
	assert_string_equal(umad_common_mad_status_str(BE(0x10)), "Success");
	assert_string_equal(umad_sa_mad_status_str(BE(0x0300)), "No Records");
	assert_string_equal(umad_sa_mad_status_str(BE(0x0800)), "Priority Suggested");
	assert_string_equal(umad_sa_mad_status_str(BE(0x0900)), "Undefined Error");
	assert_string_equal(umad_sa_mad_status_str(BE(0x00ff)), "Success");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_class_is_the_first_that_fits),
		cmocka_unit_test(a_number_means_what_its_class_says),
		cmocka_unit_test(a_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

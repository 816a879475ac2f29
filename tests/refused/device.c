/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, ports, GIDs and P_Keys; the words for numbers. */
#include "refused.h"

#include <limits.h>

enum { NUL = 0, BIG = 77 };

static void devices(void)
{
	ANY(ibv_get_device_list, "num_devices NULL: the list ends with NULL");
	VOID(ibv_free_device_list, "list NULL", (NULL));
	ROW(ibv_get_device_name, "device NULL", EINVAL, of_pointer, (NULL));
	VOID(ibv_get_device_guid, "device NULL", (NULL));
	ROW(ibv_get_device_index, "device NULL", EINVAL, of_minus, (NULL));
	ROW(ibv_open_device, "device NULL", EINVAL, of_pointer, (NULL));
	OBJECT(ibv_close_device, "context", ctx, EBADF, of_errno, (o));
	ROW(ibv_import_device, "cmd_fd -1", EBADF, of_pointer, (-1));
	ROW(ibv_import_device, "cmd_fd of something else", EOPNOTSUPP, of_pointer, (0));
	ROW(ibv_import_device, "cmd_fd that no process can have", EBADF, of_pointer,
	    (INT_MAX));
	ANY(ibv_fork_init, "no argument");
	ANY(ibv_is_fork_initialized, "no argument");
}

static void ports(void)
{
	struct ibv_device_attr attr;
	struct _compat_ibv_port_attr *port = (void *)memory;
	struct ibv_gid_entry entry;
	union ibv_gid at;
	__be16 pkey;

	OBJECT(ibv_query_device, "context", ctx, EBADF, of_errno, (o, &attr));
	ROW(ibv_query_device, "device_attr NULL", EINVAL, of_errno, (own.ctx, NULL));
	OBJECT(ibv_query_port, "context", ctx, EBADF, of_errno, (o, 1, port));
	ROW(ibv_query_port, "port_num 0", EINVAL, of_errno, (own.ctx, 0, port));
	ROW(ibv_query_port, "port_num 2", EINVAL, of_errno, (own.ctx, 2, port));
	ROW(ibv_query_port, "port_attr NULL", EINVAL, of_errno, (own.ctx, 1, NULL));
	OBJECT(ibv_query_gid, "context", ctx, EBADF, of_minus, (o, 1, 0, &at));
	ROW(ibv_query_gid, "port_num 0", EINVAL, of_minus, (own.ctx, 0, 0, &at));
	ROW(ibv_query_gid, "index -1", EINVAL, of_minus, (own.ctx, 1, -1, &at));
	ROW(ibv_query_gid, "index above", EINVAL, of_minus, (own.ctx, 1, 9999, &at));
	ROW(ibv_query_gid, "gid NULL", EINVAL, of_minus, (own.ctx, 1, 0, NULL));
	OBJECT(ibv_query_pkey, "context", ctx, EBADF, of_minus, (o, 1, 0, &pkey));
	ROW(ibv_query_pkey, "port_num 2", EINVAL, of_minus, (own.ctx, 2, 0, &pkey));
	ROW(ibv_query_pkey, "index -1", EINVAL, of_minus, (own.ctx, 1, -1, &pkey));
	ROW(ibv_query_pkey, "index above", EINVAL, of_minus, (own.ctx, 1, 1, &pkey));
	ROW(ibv_query_pkey, "pkey NULL", EINVAL, of_minus, (own.ctx, 1, 0, NULL));
	OBJECT(ibv_get_pkey_index, "context", ctx, EBADF, of_minus, (o, 1, 0xffff));
	ROW(ibv_get_pkey_index, "port_num 2", EINVAL, of_minus, (own.ctx, 2, 0xffff));
	ROW(ibv_get_pkey_index, "pkey unknown", EINVAL, of_minus, (own.ctx, 1, 0x1234));

	OBJECT(_ibv_query_gid_ex, "context", ctx, EBADF, of_errno,
	       (o, 1, 0, &entry, 0, sizeof(entry)));
	ROW(_ibv_query_gid_ex, "port_num 2", EINVAL, of_errno,
	    (own.ctx, 2, 0, &entry, 0, sizeof(entry)));
	ROW(_ibv_query_gid_ex, "gid_index above", EINVAL, of_errno,
	    (own.ctx, 1, 9999, &entry, 0, sizeof(entry)));
	ROW(_ibv_query_gid_ex, "entry NULL", EINVAL, of_errno,
	    (own.ctx, 1, 0, NULL, 0, sizeof(entry)));
	ROW(_ibv_query_gid_ex, "flags unknown", EOPNOTSUPP, of_errno,
	    (own.ctx, 1, 0, &entry, 1, sizeof(entry)));
	ANY(_ibv_query_gid_ex, "entry_size: of older and newer programs");
	OBJECT(_ibv_query_gid_table, "context", ctx, EBADF, of_negative,
	       (o, &entry, 1, 0, sizeof(entry)));
	ROW(_ibv_query_gid_table, "entries NULL", EINVAL, of_negative,
	    (own.ctx, NULL, 1, 0, sizeof(entry)));
	ROW(_ibv_query_gid_table, "max_entries 0", EINVAL, of_negative,
	    (own.ctx, &entry, 0, 0, sizeof(entry)));
	ROW(_ibv_query_gid_table, "flags unknown", EOPNOTSUPP, of_negative,
	    (own.ctx, &entry, 1, 1, sizeof(entry)));
	ANY(_ibv_query_gid_table, "entry_size: of older and newer programs");
}

/* Each number has a name, or is the value for "none". */
static int of_word(const char *word)
{
	return word && *word ? 0 : -1;
}

static int of_unknown(int number)
{
	return number == -1 ? 0 : -1;
}

static int of_max(enum ibv_rate rate)
{
	return rate == IBV_RATE_MAX ? 0 : -1;
}

static void words(void)
{
	static const int garbage[] = { -1, BIG, INT_MAX, INT_MIN };

	for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		const int n = garbage[i];

		ROW(ibv_event_type_str, "event unknown", 0, of_word, ((unsigned)n));
		ROW(ibv_node_type_str, "node_type unknown", 0, of_word, (n));
		ROW(ibv_port_state_str, "port_state unknown", 0, of_word, ((unsigned)n));
		ROW(ibv_wc_status_str, "status unknown", 0, of_word, ((unsigned)n));
		ROW(rdma_event_str, "event unknown", 0, of_word, ((unsigned)n));
		ROW(ibv_rate_to_mbps, "rate unknown", 0, of_unknown, ((unsigned)n));
		ROW(ibv_rate_to_mult, "rate unknown", 0, of_unknown, ((unsigned)n));
		ROW(mbps_to_ibv_rate, "mbps unknown", 0, of_max, (n));
		ROW(mult_to_ibv_rate, "mult unknown", 0, of_max, (n));
	}
}

void device_rows(void)
{
	devices();
	ports();
	words();
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* opcode_str.c - the names of work requests, word for word as in rdma-core. It is apart
 * from str.c, since libibverbs exports this call in its private nodes alone. */
#include "abi/abi.h"
#include "abi/symver.h"

const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

EXPORT const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode)
{
	/* By number, since older headers lack names. */
	static const char *const str[] = {
		"rdma-write",
		"rdma-write-with-imm",
		"send",
		"send-with-imm",
		"rdma-read",
		"atomic-cmp-and-swp",
		"atomic-fetch-and-add",
		"local-inv",
		"bind-mw",
		"send-with-inv",
		"tso",
		"driver1",
		[14] = "flush",
		"atomic-write",
	};
	const size_t n = (size_t)opcode;

	return n < sizeof(str) / sizeof(str[0]) && str[n] ? str[n] : "unknown";
}

PRIVATE_SYMBOL(ibv_wr_opcode_str, ibv_wr_opcode_str)

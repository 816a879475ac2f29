/* SPDX-License-Identifier: BSD-2-Clause */
/* freed.c - a program under AddressSanitizer that frees memory before it deregisters it:
 * legal, and nothing that the sanitizer may report. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "rig.h"

struct options opt = { .port = "18600", .gid = 1, .timeout = 16, .retries = 7 };

static int freed(void)
{
	enum { SIZE = 1 << 20 };
	static struct rig r;
	struct ibv_mr *mr;
	uint8_t *at;

	rig_open(&r);
	for (int i = 0; i < 3; i++) {
		at = malloc(SIZE);
		CHECK(at);
		memset(at, 1, SIZE);
		mr = ibv_reg_mr(r.pd, at, SIZE, RIG_ACCESS);
		CHECK(mr);
		free(at);
		CHECK(!ibv_dereg_mr(mr));
	}
	rig_close(&r);
	say("all right");
	return 0;
}

static const struct command commands[] = { { "freed", freed }, { 0 } };
int main(int argc, char **argv)
{
	return command_main(argc, argv, commands, NULL, NULL, 120);
}

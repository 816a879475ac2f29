/* SPDX-License-Identifier: BSD-2-Clause */
/* heap.c - registers blocks of the heap, which share their pages with what is not the
 * program's, and of which the program has written nothing.  To be run under valgrind. */
#include <stdlib.h>

#include "rig.h"

int heap(void)
{
	static const size_t sizes[] = { 1, 100, 5000, 20000, 300000, 5000000 };
	struct rig r;

	rig_open(&r);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint8_t *block = malloc(sizes[i]);
		struct ibv_mr *mr;

		CHECK(block);
		for (unsigned access = 0; access <= RIG_ACCESS; access += RIG_ACCESS) {
			mr = ibv_reg_mr(r.pd, block, sizes[i], access);
			CHECK(mr && !ibv_dereg_mr(mr));
		}
		free(block);
	}
	rig_close(&r);
	say("all right");
	return 0;
}

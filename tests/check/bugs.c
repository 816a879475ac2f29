/* SPDX-License-Identifier: BSD-2-Clause */
/* bugs NAME [repaired] - does what is wrong, or the same as it should be done. */
#include "bugs.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	static const struct bug *const files[] = { bugs_queues, bugs_ends, bugs_memory };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		for (const struct bug *b = files[i]; b->name; b++) {
			if (argc < 2)
				(void)puts(b->name);
			else if (strcmp(b->name, argv[1]) == 0) {
				b->run(argc > 2);
				puts("done");
				return 0;
			}
		}
	return argc < 2 ? 0 : 2;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* procmaps.c - see procmaps.h. */
#include "sys/procmaps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void procmaps_open(struct procmaps *m)
{
	*m = (struct procmaps){ .file = fopen("/proc/self/maps", "re") };
}

static bool parse(const char *line, struct procmap *m)
{
	int name = 0;

	if (sscanf(line, "%63s %4s %" SCNx64 " %x:%x %lu %n", m->range, m->perms,
		   &m->offset, &m->major, &m->minor, &m->inode, &name) != 6 ||
	    sscanf(m->range, "%" SCNx64 "-%" SCNx64, &m->lo, &m->hi) != 2)
		return false;
	snprintf(m->name, sizeof(m->name), "%.*s", (int)strcspn(line + name, "\n"),
		 line + name);
	return true;
}

bool procmaps_next(struct procmaps *m, struct procmap *out)
{
	while (m->file && getline(&m->line, &m->size, m->file) > 0)
		if (parse(m->line, out))
			return true;
	return false;
}

void procmaps_close(struct procmaps *m)
{
	free(m->line);
	if (m->file)
		fclose(m->file);
}

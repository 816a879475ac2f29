/* SPDX-License-Identifier: BSD-2-Clause */
/* counter.c - counts what happens to datagrams; counter.def is the table. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/log.h"
#include "verbs/gsi.h"

static const char *const names[IB_COUNTERS] = {
#define COUNT(value, name, what) [value] = #name,
#include "verbs/counter.def"
#undef COUNT
};

/* Returns what connection management has sent by QP1, which is no QP of ours. */
static uint64_t mads_sent(const struct core *core, enum ib_counter c)
{
	uint64_t sum = 0;

	list_for(n, &core->gsis)
	{
		const struct gsi *g = container_of(n, struct gsi, node);

		sum += c == IB_TX ? g->packets : c == IB_TX_BYTES ? g->bytes : 0;
	}
	return sum;
}

uint64_t ib_counter(struct core *core, enum ib_counter c)
{
	const struct ib *ib = ib_of(core);
	uint64_t sum = c < IB_COUNTERS ? ib->counter[c] : 0;

	for (unsigned i = 0; c < IB_COUNTERS && i < ib->n_by_device; i++)
		sum += ib->by_device[i].n[c];
	return sum + mads_sent(core, c);
}

void ib_count_by_device(struct core *core, struct ib_counts *rows, unsigned n)
{
	ib_of(core)->by_device = rows;
	ib_of(core)->n_by_device = rows ? n : 0;
}

uint64_t *ib_counter_of(struct ib *ib, const char *device)
{
	for (unsigned i = 0; *device && i < ib->n_by_device; i++) {
		struct ib_counts *row = &ib->by_device[i];

		if (!*row->device)
			snprintf(row->device, sizeof(row->device), "%s", device);
		if (!strcmp(row->device, device))
			return row->n;
	}
	return ib->counter;
}

const char *ib_counter_name(enum ib_counter c)
{
	return c < IB_COUNTERS ? names[c] : NULL;
}

bool ib_may_tell(struct ib *ib, struct ib_qp *q, enum ib_counter why)
{
	static_assert(IB_COUNTERS <= 32, "a bit each");
	const uint32_t bit = 1u << why;

	if (log_level < LOG_INFO || (q && q->told & bit) || !log_allowed(&ib->told_at))
		return false;
	if (q)
		q->told |= bit;
	return true;
}

bool ib_tells_drop(struct ib_qp *q, enum refusal why)
{
	static_assert(REFUSALS <= 16, "a bit each");
	const uint16_t bit = (uint16_t)(1u << why);

	if (log_level < LOG_INFO ||
	    (q->told_drop & bit && !log_allowed(&q->ib->told_drop_at)))
		return false;
	q->told_drop |= bit;
	return true;
}

void ib_log_counters(struct core *core)
{
	char line[IB_COUNTERS * 40] = "";
	size_t n = 0;

	if (log_level < LOG_INFO)
		return;
	for (enum ib_counter c = 0; c < IB_COUNTERS; c++) {
		if (ib_counter(core, c))
			n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%s %" PRIu64,
					      n ? ", " : "", names[c],
					      ib_counter(core, c));
	}
	if (n)
		log_info("counters: %s", line);
}

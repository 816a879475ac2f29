/* SPDX-License-Identifier: BSD-2-Clause */
/* share.c - see share.h. */
#include "verbs/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "verbs/opened.h"
#include "verbs/share_own.h"
#include "verbs/shared.h"

static void hear(struct core *core, uint16_t slot, const struct share_msg *m)
{
	turn_is_held(core);
	switch (m->what) {
	case SHARE_ASK:
		shared_asked(core, slot, m);
		break;
	case SHARE_ANSWER:
		opened_answered(core, slot, m);
		break;
	case SHARE_TELL:
		opened_told(core, slot, m);
		break;
	}
}

int share_open(struct core *core, const struct share_ops *ops, void *arg)
{
	struct share *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->ops = ops;
	s->arg = arg;
	s->at = NEVER;
	s->hear = hear;
	list_init(&s->openers);
	list_init(&s->opened);
	core->xrc.share = s;
	return 0;
}

void share_close(struct core *core)
{
	shared_close(core);
	opened_close_all(core);
	free(core->xrc.share);
	core->xrc.share = NULL;
}

bool share_heard(struct core *core, uint16_t slot, const void *buf, size_t len)
{
	struct share_msg m;

	if (!core->xrc.share || len < 1 || *(const uint8_t *)buf < SHARE_ASK)
		return false;
	if (len == sizeof(m) && slot != core->slot) {
		memcpy(&m, buf, sizeof(m));
		hear(core, slot, &m);
	}
	return true;
}

void share_gone(struct core *core, uint16_t slot)
{
	if (!core->xrc.share)
		return;
	turn_is_held(core);
	shared_gone(core, slot);
	opened_gone(core, slot);
}

uint64_t share_deadline(const struct core *core)
{
	return core->xrc.share ? core->xrc.share->at : NEVER;
}

void share_run(struct core *core, uint64_t now)
{
	if (!core->xrc.share || core->xrc.share->at > now)
		return;
	turn_is_held(core);
	core->xrc.share->at = NEVER;
	shared_again(core);
	opened_again(core);
}

void share_break(struct core *core)
{
	if (core->xrc.share)
		lock_changed(&core->xrc.share->answered);
}

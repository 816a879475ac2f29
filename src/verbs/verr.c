/* SPDX-License-Identifier: BSD-2-Clause */
/* verr.c - see verr.h. */
#include "verbs/verr.h"

#include <stddef.h>

static const struct verr_text texts[] = {
#define VERR(code, name, what, todo) [code] = { #name, what, todo },
#include "verbs/verr.def"
#undef VERR
};

const struct verr_text *verr_text(unsigned code)
{
	if (code >= sizeof(texts) / sizeof(texts[0]) || !texts[code].name)
		return NULL;
	return &texts[code];
}

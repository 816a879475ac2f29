/* SPDX-License-Identifier: BSD-2-Clause */
/* verr.h - ibv_wc.vendor_err values: verr.def is the table. */
#ifndef VERBS_VERR_H
#define VERBS_VERR_H

enum verr {
#define VERR(code, name, what, todo) VERR_##name = code,
#include "verbs/verr.def"
#undef VERR
};

struct verr_text {
	const char *name, *what, *todo;
};

/* NULL for a code that is not in the table. */
const struct verr_text *verr_text(unsigned code);

#endif

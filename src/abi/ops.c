/* SPDX-License-Identifier: BSD-2-Clause */
/* ops.c - the operations that are not supported. */
#include <stddef.h>
#include <string.h>

#include "abi/abi.h"
#include "abi/layout.h"

typedef void (*abi_fn)(void);

static int none_int(void)
{
	return abi_result(-EOPNOTSUPP);
}

static int none_neg(void)
{
	return -abi_result(-EOPNOTSUPP);
}

static void *none_ptr(void)
{
	abi_result(-EOPNOTSUPP);
	return NULL;
}

/* The functions are called with arguments that they do not read, which the calling
 * conventions of every Linux platform allow. */
static const struct none {
	size_t at;
	abi_fn fn;
} table[] = {
#define INT(op) { offsetof(struct verbs_context, op), (abi_fn)none_int },
#define NEG(op) { offsetof(struct verbs_context, op), (abi_fn)none_neg },
#define PTR(op) { offsetof(struct verbs_context, op), (abi_fn)none_ptr },
#include "abi/ops.def"
#undef INT
#undef NEG
#undef PTR
};

void abi_ops_none(struct verbs_context *v)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		memcpy((char *)v + table[i].at, &table[i].fn, sizeof(abi_fn));
}

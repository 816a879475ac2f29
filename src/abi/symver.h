/* SPDX-License-Identifier: BSD-2-Clause */
/* symver.h - defines symbols by hand where ibverbs.map cannot: several versions of one
 * name, and names without a function of their own. fn has to be defined in the same file
 * and must not be optimised away. */
#ifndef ABI_SYMVER_H
#define ABI_SYMVER_H

/* Makes fn the symbol `at`, which is name@NODE (hidden) or name@@NODE (default). */
#define SYMBOL(label, at, fn)                                                            \
	__asm__(".globl " label "\n\t"                                                   \
		".set " label ", " #fn "\n\t"                                            \
		".symver " label ", " at);

/* The releases whose private symbols differ each have a node IBVERBS_PRIVATE_<release>.
 * Here all of them contain the same stubs. */
#define PRIVATE_NODES "57, 59, 64, 65" /* and 34 */

/* Makes fn the symbol `name` in every private node; the first one's is the default. */
#define PRIVATE_SYMBOL(name, fn)                                                         \
	SYMBOL(#name "_in_34", #name "@@IBVERBS_PRIVATE_34", fn)                         \
	__asm__(".irp node, " PRIVATE_NODES "\n\t"                                       \
		".globl " #name "_in_\\node\n\t"                                         \
		".set " #name "_in_\\node, " #fn "\n\t"                                  \
		".symver " #name "_in_\\node, " #name "@IBVERBS_PRIVATE_\\node\n\t"      \
		".endr");

#endif

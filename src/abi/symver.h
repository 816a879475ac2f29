/* SPDX-License-Identifier: BSD-2-Clause */
/* symver.h - symbols by hand, where ibverbs.map is not enough: several
 * versions of a name, and names without a function of their own.  fn is
 * defined in the same file and is not optimised away. */
#ifndef ABI_SYMVER_H
#define ABI_SYMVER_H

/* The name@NODE (hidden) or name@@NODE (default) that at says is fn. */
#define SYMBOL(label, at, fn)                                                            \
	__asm__(".globl " label "\n\t"                                                   \
		".set " label ", " #fn "\n\t"                                            \
		".symver " label ", " at);

/* The private node's number says with which release its symbols came last;
 * all of them are the same stubs here. */
#define PRIVATE_NODES "57, 59, 64, 65" /* and 34 */

/* name in every private node; the first one's is the default. */
#define PRIVATE_SYMBOL(name, fn)                                                         \
	SYMBOL(#name "_in_34", #name "@@IBVERBS_PRIVATE_34", fn)                         \
	__asm__(".irp node, " PRIVATE_NODES "\n\t"                                       \
		".globl " #name "_in_\\node\n\t"                                         \
		".set " #name "_in_\\node, " #fn "\n\t"                                  \
		".symver " #name "_in_\\node, " #name "@IBVERBS_PRIVATE_\\node\n\t"      \
		".endr");

#endif

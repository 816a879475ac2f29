/* SPDX-License-Identifier: BSD-2-Clause */
/* list.h - intrusive circular doubly linked list. */
#ifndef SYS_LIST_H
#define SYS_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The attribute is for gcc 12, which at -O2 took the first node of a list in a struct for
 * the same after it was deleted by way of the node. */
struct __attribute__((may_alias)) list {
	struct list *prev, *next;
};

#define container_of(ptr, type, member)                                                  \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define list_for(pos, head)                                                              \
	for (struct list *pos = (head)->next; pos != (head); pos = pos->next)

/* pos may be deleted in the body. */
#define list_for_safe(pos, head)                                                         \
	for (struct list *pos = (head)->next, *next_ = pos->next; pos != (head);         \
	     pos = next_, next_ = pos->next)

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_tail(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* All that is in `from` goes to `to`, which is made by this. */
static inline void list_take(struct list *to, struct list *from)
{
	list_init(to);
	if (list_empty(from))
		return;
	*to = *from;
	to->next->prev = to->prev->next = to;
	list_init(from);
}

/* Leaves node as an empty list, so deleting it again does no harm. */
static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_tree.h - writes a tree of small files into a folder, again and again.  A reader
 * sees of each file the old text or the new one; what a round does not write is removed
 * when it ends.
 *
 *	tree_begin(&t, "/tmp/x", false);
 *	was = tree_enter(&t, "class");
 *	tree_file(&t, "version", "%u", 6);
 *	tree_leave(&t, was);
 *	rc = tree_end(&t);
 */
#ifndef DRIVER_SYSFS_TREE_H
#define DRIVER_SYSFS_TREE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct tree {
	char path[PATH_MAX]; /* of the folder that is being filled; after an error: of
			      * what could not be written */
	size_t len, root;    /* of path, and of the path of the whole tree */
	int rc;		     /* the first error; all calls after it do nothing */
	bool live;	     /* write only what changes with every packet */
	bool made, fresh;    /* the folder is new; it was empty */
	struct stat mark;    /* the file that was written first in this round */
};

/* Begins a round in the folder root, which is made if only its last part is missing.
 * -ENOTEMPTY: the folder has files that are no tree's; -EPERM: others may write there.
 * live: a tree is there already;
 * only what the caller writes while t->live is set is written. */
void tree_begin(struct tree *t, const char *root, bool live);
/* Enters a subfolder; returns what tree_leave() needs. */
size_t tree_enter(struct tree *t, const char *name);
/* Enters a path of several folders. */
size_t tree_enter_path(struct tree *t, const char *path);
void tree_leave(struct tree *t, size_t was);
/* Writes a file with one line.  -EBADMSG: the name is none for a file. */
void tree_file(struct tree *t, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Writes a file with this text. */
void tree_text(struct tree *t, const char *name, const char *text);
void tree_link(struct tree *t, const char *name, const char *target);
/* Removes what earlier rounds have left.  Returns 0, or the first error: then what is
 * in a folder that was empty has been removed. */
int tree_end(struct tree *t);
/* Removes a tree. */
void tree_remove(const char *root);

#endif

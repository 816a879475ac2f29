/* SPDX-License-Identifier: BSD-2-Clause */
/* extcap_install.c - puts a link to this program into a folder where Wireshark looks. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extcap.h"
#include "urnic.h"

struct folders {
	char personal[PATH_MAX], global[PATH_MAX]; /* "": Wireshark does not name it */
};

static void take_folder(char to[PATH_MAX], const char *line, const char *label)
{
	const size_t n = strlen(label);

	if (strncmp(line, label, n) != 0)
		return;
	line += n + strspn(line + n, ": \t");
	snprintf(to, PATH_MAX, "%.*s", (int)strcspn(line, "\n"), line);
}

/* Asks tshark, or Wireshark, where it looks. */
static void ask_wireshark(struct folders *f)
{
	FILE *in = popen("(tshark -G folders || wireshark -G folders) 2>/dev/null", "re");
	char line[PATH_MAX + 64];

	*f = (struct folders){ "", "" };
	while (in && fgets(line, sizeof(line), in)) {
		take_folder(f->personal, line, "Personal Extcap path");
		take_folder(f->global, line, "Extcap path");
		take_folder(f->global, line, "Global Extcap path");
	}
	if (in)
		pclose(in);
}

/* Makes a folder and those above it. */
static int make_folder(char *path)
{
	for (char *c = path + 1; *c; c++) {
		if (*c != '/')
			continue;
		*c = '\0';
		(void)mkdir(path, 0755);
		*c = '/';
	}
	return mkdir(path, 0755) && errno != EEXIST ? -errno : 0;
}

/* Replaces a link, but no other file. */
static int put_link(const char *path)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	struct stat st;

	if (n < 0)
		return -errno;
	exe[n] = '\0';
	if (lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
		return -EEXIST;
	(void)unlink(path);
	return symlink(exe, path) ? -errno : 0;
}

static void say_where(const struct folders *f, const char *folder)
{
	printf("%s/%s leads Wireshark to urnic.\n", folder, EXTCAP_NAME);
	if (strcmp(folder, f->global) != 0 && strcmp(folder, f->personal) != 0)
		printf("This Wireshark is older than 4.2, or absent, and does not look "
		       "there by itself: set WIRESHARK_EXTCAP_DIR=%s, which root's "
		       "Wireshark ignores, or run this as root%s%s.\n",
		       folder, *f->global ? " for " : "", f->global);
}

int extcap_install(void)
{
	const char *home = getenv("HOME");
	char folder[PATH_MAX], path[PATH_MAX + sizeof(EXTCAP_NAME) + 1];
	struct folders f;
	int rc;

	ask_wireshark(&f);
	if (geteuid() == 0 && *f.global)
		strcpy(folder, f.global);
	else if (*f.personal)
		strcpy(folder, f.personal);
	else if (home && *home == '/')
		snprintf(folder, sizeof(folder), "%s/.local/lib/wireshark/extcap", home);
	else
		return fprintf(stderr, EXTCAP_WHO ": HOME is not set\n"), 1;
	rc = make_folder(folder);
	snprintf(path, sizeof(path), "%s/%s", folder, EXTCAP_NAME);
	if (!rc)
		rc = put_link(path);
	if (rc) {
		fprintf(stderr, EXTCAP_WHO ": %s: %s\n", path,
			rc == -EEXIST ? "there is a file of that name that is no link"
				      : strerror(-rc));
		return 1;
	}
	say_where(&f, folder);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* top_print.c - see top.h: text, JSON, Prometheus, and files. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "top.h"

/* --- text -------------------------------------------------------------------------- */

enum { WIDE = 160, WIDTH_MAX = 400 };

/* As wide as the terminal; a file gets all columns. */
static size_t width_of(FILE *out)
{
	struct winsize w;

	if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &w) || !w.ws_col)
		return WIDE;
	return w.ws_col < WIDTH_MAX ? w.ws_col : WIDTH_MAX;
}

/* Prints a line without the spaces at its end. */
static void print_line(FILE *out, char *text)
{
	size_t n = strlen(text);

	while (n > 0 && text[n - 1] == ' ')
		n--;
	fprintf(out, "%.*s\n", (int)n, text);
}

void top_print_text(FILE *out, const struct seen *now, const struct seen *before)
{
	const struct top_view view = { .key = before ? TOP_RATE : TOP_PID };
	char text[WIDTH_MAX + 1];
	const size_t width = width_of(out);
	struct top_row *rows;
	size_t n = top_rows(now, before, &view, &rows);

	for (unsigned i = 0; !now->processes && top_nothing(text, width, i); i++)
		print_line(out, text);
	if (n) {
		top_head(text, width);
		print_line(out, text);
	}
	for (size_t i = 0; i < n; i++) {
		top_line(text, width, &rows[i]);
		print_line(out, text);
	}
	for (size_t i = 0; i < now->processes; i++) {
		top_excuse(text, width, &now->process[i]);
		if (*text)
			print_line(out, text);
	}
	free(rows);
}

/* --- JSON -------------------------------------------------------------------------- */

static const char *why(const struct seen_process *p)
{
	return !p->ours			? "of another user"
	       : p->error == -ETIMEDOUT ? "does not answer"
	       : p->error == -ESRCH	? "has ended"
					: strerror(-p->error);
}

static json_t *json_of_process(const struct seen_process *p)
{
	json_t *j = json_pack("{s:i, s:s, s:I}", "pid", (int)p->pid, "command", p->name,
			      "uid", (json_int_t)p->uid);

	if (p->error)
		json_object_set_new(j, "error", json_string(why(p)));
	return j;
}

static json_t *json_of_qp(const struct top_row *r)
{
	const struct seen_qp *q = r->qp;
	json_t *j = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s}", "pid", (int)q->pid,
			      "number", q->number, "type", q->type, "state", q->state,
			      "device", q->device, "by", q->by);
	json_t *rates = json_object();

	if (*q->peer) {
		json_object_set_new(j, "peer", json_string(q->peer));
		json_object_set_new(j, "peer_qp", json_string(q->peer_qp));
	}
	for (int i = 0; i < SEEN_NUMBERS; i++) {
		if (!q->has[i])
			continue;
		json_object_set_new(j, seen_names[i].name,
				    json_integer((json_int_t)q->n[i]));
		if (seen_names[i].counter && !r->fresh)
			json_object_set_new(rates, seen_names[i].name,
					    json_real(r->per_s[i]));
	}
	if (!r->fresh)
		json_object_set(j, "per_second", rates);
	json_decref(rates);
	return j;
}

void top_print_json(FILE *out, const struct seen *now, const struct seen *before)
{
	const struct top_view view = { .key = TOP_PID };
	json_t *all = json_object(), *processes = json_array(), *qps = json_array();
	struct top_row *rows;
	size_t n = top_rows(now, before, &view, &rows);

	for (size_t i = 0; i < now->processes; i++)
		json_array_append_new(processes, json_of_process(&now->process[i]));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(qps, json_of_qp(&rows[i]));
	json_object_set_new(all, "processes", processes);
	json_object_set_new(all, "qps", qps);
	json_dumpf(all, out, JSON_INDENT(2));
	fputc('\n', out);
	json_decref(all);
	free(rows);
}

/* --- Prometheus -----------------------------------------------------------------------
 */

/* A label's value: \ " and newline are escaped. */
static void put_label(FILE *out, const char *before, const char *name, const char *value)
{
	fprintf(out, "%s%s=\"", before, name);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fputc('\\', out);
		if (*value == '\n')
			fputs("\\n", out);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

static void put_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_processes(FILE *out, const struct seen *l)
{
	char number[16];

	put_family(out, "urnic_process_up", "gauge",
		   "Processes that have a device open: 1 if it answers.");
	for (size_t i = 0; i < l->processes; i++) {
		const struct seen_process *p = &l->process[i];

		snprintf(number, sizeof(number), "%d", (int)p->pid);
		put_label(out, "urnic_process_up{", "pid", number);
		put_label(out, ",", "command", p->name);
		snprintf(number, sizeof(number), "%u", (unsigned)p->uid);
		put_label(out, ",", "uid", number);
		/* Those of other pid namespaces differ in nothing else. */
		snprintf(number, sizeof(number), "%u", (unsigned)p->slot);
		put_label(out, ",", "slot", number);
		fprintf(out, "} %d\n", !p->error);
	}
}

/* What names a QP's series. */
static void put_name(FILE *out, const char *family, const struct seen_qp *q)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)q->pid);
	fputs(family, out);
	put_label(out, "{", "pid", pid);
	put_label(out, ",", "qp", q->number);
}

static void put_infos(FILE *out, const struct seen *l)
{
	put_family(out, "urnic_qp_info", "gauge", "What does not count of a QP.");
	for (size_t i = 0; i < l->qps; i++) {
		const struct seen_qp *q = &l->qp[i];

		if (q->busy)
			continue;
		put_name(out, "urnic_qp_info", q);
		put_label(out, ",", "device", q->device);
		put_label(out, ",", "type", q->type);
		put_label(out, ",", "state", q->state);
		put_label(out, ",", "by", q->by);
		put_label(out, ",", "peer", q->peer);
		put_label(out, ",", "peer_qp", q->peer_qp);
		fputs("} 1\n", out);
	}
}

void top_print_prometheus(FILE *out, const struct seen *now, const struct seen *before)
{
	char family[64];

	(void)before;
	put_processes(out, now);
	put_infos(out, now);
	for (int k = 0; k < SEEN_NUMBERS; k++) {
		const struct seen_name *n = &seen_names[k];

		snprintf(family, sizeof(family), "urnic_qp_%s%s", n->name,
			 n->counter ? "_total" : "");
		put_family(out, family, n->counter ? "counter" : "gauge", n->what);
		for (size_t i = 0; i < now->qps; i++) {
			if (!now->qp[i].has[k])
				continue;
			put_name(out, family, &now->qp[i]);
			fprintf(out, "} %llu\n", (unsigned long long)now->qp[i].n[k]);
		}
	}
}

/* --- a file
 * ------------------------------------------------------------------------------ */

/* Prints to the open file and closes it. Returns 0 or -errno. */
static int print_to(FILE *out,
		    void (*print)(FILE *out, const struct seen *now,
				  const struct seen *before),
		    const struct seen *now, const struct seen *before, bool sync)
{
	int rc = 0;

	errno = 0;
	print(out, now, before);
	if (fflush(out) || ferror(out) || (sync && fsync(fileno(out))))
		rc = errno ? -errno : -EIO;
	if (fclose(out) && !rc)
		rc = -errno;
	return rc;
}

static bool is_special(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 && !S_ISREG(st.st_mode);
}

int top_write(const char *file,
	      void (*print)(FILE *out, const struct seen *now, const struct seen *before),
	      const struct seen *now, const struct seen *before)
{
	char beside[PATH_MAX];
	FILE *out;
	int fd, rc;

	if (is_special(file)) {
		out = fopen(file, "we");
		return out ? print_to(out, print, now, before, false) : -errno;
	}
	if (snprintf(beside, sizeof(beside), "%s.XXXXXX", file) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	fd = mkostemp(beside, O_CLOEXEC);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out)
		return -errno;
	rc = print_to(out, print, now, before, true);
	/* Who collects it may be another user. */
	if (!rc && (chmod(beside, 0644) || rename(beside, file)))
		rc = -errno;
	if (rc)
		unlink(beside);
	return rc;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* top_screen.c - the terminal view of `urnic top': draws what top_model.h says, and takes
 * keys. */
#include <ctype.h>
#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sys/clock.h"
#include "top.h"

enum { WIDTH_MAX = 400, MS = 1000000, ESCAPE = 27 };

enum mode { TABLE, DETAIL, HELP, FILTER };

struct screen {
	struct seen_watch *watch;
	unsigned interval_ms;
	struct seen now, before;
	bool has_before;
	struct top_view view;
	enum mode mode;
	size_t chosen;	 /* row of the table */
	pid_t pid;	 /* of the QP that is chosen, */
	char number[16]; /* and its number */
	unsigned skip;	 /* lines of a QP or of the help that are above */
	size_t rows;
	size_t top; /* the first row on the screen */
};

static const char *const help[] = {
	"r b a n d p u   order by requests, bytes,",
	"                sent again, RNR, depth,",
	"                process, QP; again: reverse",
	"up down         choose a QP",
	"Enter           show all of that QP",
	"Esc, left       back",
	"/               filter: Enter ends, Esc clears",
	"+ -             look less or more often",
	"q               quit",
};

/* --- drawing ----------------------------------------------------------------------- */

static size_t width(void)
{
	return COLS < WIDTH_MAX ? (size_t)COLS : WIDTH_MAX;
}

static void put_line(int y, const char *text, attr_t how)
{
	if (y < 0 || y >= LINES)
		return;
	attrset((int)how);
	mvaddnstr(y, 0, text, COLS);
	attrset((int)A_NORMAL);
}

static void draw_keys(const struct screen *s)
{
	char text[WIDTH_MAX + 1];

	if (s->mode == FILTER || *s->view.filter)
		snprintf(text, sizeof(text), "/%s%s", s->view.filter,
			 s->mode == FILTER ? "_" : "");
	else
		snprintf(text, sizeof(text), "q quit  h help  %s%s  %.1f s",
			 top_keys[s->view.key], s->view.reverse ? " reversed" : "",
			 s->interval_ms / 1000.0);
	put_line(LINES - 1, text, A_REVERSE);
}

static struct top_row *find_row(struct top_row *rows, size_t n, const struct screen *s)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].qp->pid == s->pid && !strcmp(rows[i].qp->number, s->number))
			return &rows[i];
	return NULL;
}

/* The choice stays with its QP while that lives, else with its line. */
static void follow_choice(struct screen *s, struct top_row *rows, size_t n)
{
	struct top_row *r = find_row(rows, n, s);

	if (r)
		s->chosen = (size_t)(r - rows);
	if (s->chosen >= n)
		s->chosen = n ? n - 1 : 0;
	s->rows = n;
}

static int draw_rows(struct screen *s, struct top_row *rows, size_t n, int y)
{
	const size_t room = LINES - 1 > y ? (size_t)(LINES - 1 - y) : 0;
	char text[WIDTH_MAX + 1];

	if (s->chosen < s->top)
		s->top = s->chosen;
	if (room && s->chosen >= s->top + room)
		s->top = s->chosen - room + 1;
	for (size_t i = s->top; i < n && i < s->top + room; i++) {
		top_line(text, width(), &rows[i]);
		put_line(y++, text, i == s->chosen ? A_STANDOUT : A_NORMAL);
	}
	return y;
}

static void draw_table(struct screen *s, struct top_row *rows, size_t n)
{
	char text[WIDTH_MAX + 1];
	int y = 0;

	for (unsigned i = 0; !s->now.processes && top_nothing(text, width(), i); i++)
		put_line(y++, text, A_NORMAL);
	if (!s->now.processes)
		return;
	top_summary(text, width(), &s->now, rows, n);
	put_line(y++, text, A_NORMAL);
	top_head(text, width());
	put_line(y++, text, A_BOLD);
	y = draw_rows(s, rows, n, y);
	for (size_t i = 0; i < s->now.processes && y < LINES - 1; i++) {
		top_excuse(text, width(), &s->now.process[i]);
		if (*text)
			put_line(y++, text, A_DIM);
	}
}

static void draw_detail(const struct screen *s, struct top_row *rows, size_t n)
{
	const struct top_row *r = find_row(rows, n, s);
	char text[WIDTH_MAX + 1];

	if (!r) {
		snprintf(text, sizeof(text), "QP %s of process %d is gone", s->number,
			 (int)s->pid);
		put_line(0, text, A_NORMAL);
		return;
	}
	for (int y = 0; y < LINES - 1; y++)
		if (top_detail(text, width(), r, s->skip + (unsigned)y))
			put_line(y, text, A_NORMAL);
}

static void draw_help(const struct screen *s)
{
	for (unsigned i = s->skip; i < sizeof(help) / sizeof(*help); i++)
		if ((int)(i - s->skip) < LINES - 1)
			put_line((int)(i - s->skip), help[i], A_NORMAL);
}

static void draw_screen(struct screen *s)
{
	/* Of one QP all is shown, whatever the filter. */
	const struct top_view all = { .key = TOP_PID };
	struct top_row *rows;
	size_t n = top_rows(&s->now, s->has_before ? &s->before : NULL,
			    s->mode == DETAIL ? &all : &s->view, &rows);

	erase();
	if (s->mode != DETAIL)
		follow_choice(s, rows, n);
	if (s->mode == HELP)
		draw_help(s);
	else if (s->mode == DETAIL)
		draw_detail(s, rows, n);
	else
		draw_table(s, rows, n);
	if (s->mode != DETAIL && n) {
		s->pid = rows[s->chosen].qp->pid;
		snprintf(s->number, sizeof(s->number), "%s", rows[s->chosen].qp->number);
	}
	draw_keys(s);
	refresh();
	free(rows);
}

/* --- keys ----------------------------------------------------------------------------
 */

static void order_by(struct screen *s, enum top_key key)
{
	s->view.reverse = s->view.key == key && !s->view.reverse;
	s->view.key = key;
}

static void choose_line(struct screen *s, size_t to)
{
	s->chosen = to < s->rows ? to : s->rows ? s->rows - 1 : 0;
	*s->number = '\0'; /* draw_screen() takes the QP of that line */
}

static void key_of_filter(struct screen *s, int key)
{
	size_t n = strlen(s->view.filter);

	if (key == ESCAPE)
		*s->view.filter = '\0';
	if (key == ESCAPE || key == '\n' || key == KEY_ENTER)
		s->mode = TABLE;
	else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && n)
		s->view.filter[n - 1] = '\0';
	else if (key < 127 && isprint(key) && n + 1 < sizeof(s->view.filter))
		s->view.filter[n] = (char)key;
	if (key < 127 && isprint(key) && n + 1 < sizeof(s->view.filter))
		s->view.filter[n + 1] = '\0';
}

static void set_interval(struct screen *s, bool longer)
{
	enum { LEAST = 100, MOST = 60000 };
	unsigned ms = longer ? s->interval_ms * 2 : s->interval_ms / 2;

	s->interval_ms = ms < LEAST ? LEAST : ms > MOST ? MOST : ms;
}

static void back(struct screen *s)
{
	s->mode = TABLE;
	s->skip = 0;
}

static void key_of_table(struct screen *s, int key)
{
	static const char orders[TOP_KEYS + 1] = "rbandpu";
	const char *order = key < 127 && key > 0 ? strchr(orders, key) : NULL;

	if (order)
		order_by(s, (enum top_key)(order - orders));
	else if (key == KEY_UP)
		choose_line(s, s->chosen ? s->chosen - 1 : 0);
	else if (key == KEY_DOWN)
		choose_line(s, s->chosen + 1);
	else if (key == KEY_HOME)
		choose_line(s, 0);
	else if (key == KEY_END)
		choose_line(s, s->rows);
	else if ((key == '\n' || key == KEY_ENTER || key == KEY_RIGHT) && s->rows)
		s->mode = DETAIL;
	else if (key == '/')
		s->mode = FILTER;
}

static void key_of_lines(struct screen *s, int key)
{
	if (key == KEY_DOWN)
		s->skip++;
	else if (key == KEY_UP && s->skip)
		s->skip--;
	else if (key == ESCAPE || key == KEY_LEFT || key == KEY_BACKSPACE || key == '\n')
		back(s);
}

/* Returns false if the user quits. */
static bool take_key(struct screen *s, int key)
{
	if (s->mode == FILTER) {
		key_of_filter(s, key);
		return true;
	}
	if (key == 'q')
		return false;
	if (key == 'h' || key == '?') {
		s->mode = s->mode == HELP ? TABLE : HELP;
		s->skip = 0;
	} else if (key == '+' || key == '-') {
		set_interval(s, key == '+');
	} else if (s->mode == TABLE) {
		key_of_table(s, key);
	} else {
		key_of_lines(s, key);
	}
	return true;
}

/* --- looking --------------------------------------------------------------------------
 */

/* Returns as seen_look() does. */
static int look_again(struct screen *s)
{
	struct seen next;
	int rc = seen_look(s->watch, &next);

	if (rc)
		return rc;
	seen_free(&s->before);
	s->before = s->now;
	s->has_before = s->now.at != 0;
	s->now = next;
	return 0;
}

/* Takes keys until the next look. Returns false if the user quits. */
static bool wait_for_keys(struct screen *s)
{
	for (;;) {
		const uint64_t end = s->now.at + (uint64_t)s->interval_ms * MS;
		const uint64_t now = clock_ns();
		int key;

		if (now >= end)
			return true;
		timeout((int)((end - now) / MS + 1));
		key = getch();
		if (key == ERR) {
			if (clock_ns() < end && clock_ns() - now < MS)
				return false; /* the terminal is gone */
			return true;
		}
		if (!take_key(s, key))
			return false;
		draw_screen(s);
	}
}

static void open_screen(void)
{
	setlocale(LC_ALL, "");
	set_escdelay(25);
	initscr();
	cbreak();
	noecho();
	keypad(stdscr, true);
	curs_set(0);
}

int top_screen(struct seen_watch *w, unsigned interval_ms)
{
	struct screen s = { .watch = w, .interval_ms = interval_ms };
	int rc = look_again(&s);

	if (rc)
		return 1;
	open_screen();
	do {
		draw_screen(&s);
		if (!wait_for_keys(&s))
			break;
		rc = look_again(&s);
	} while (!rc);
	endwin();
	seen_free(&s.now);
	seen_free(&s.before);
	if (rc < 0)
		fprintf(stderr, "urnic top: %s\n", strerror(-rc));
	return rc != 0;
}

# SPDX-License-Identifier: BSD-2-Clause
# Completion of urnic(1) for bash: commands, options and values are those that --help lists.

# The commands that the help in standard input lists.
_urnic_commands() {
	sed -n '/^ *Commands:/,/^$/s/^  \([a-z]\{2,\}\).*/\1/p'
}

# The options that it lists, a line each: "-c --conf FILE read the configuration ...", where
# "-" stands for a short name or an argument that is not there, or may be missing.
_urnic_options() {
	sed -nE -e 's/^ +--/ -, --/' -e 's/^ +(-.?), --([a-z-]+)=([^ ]+) +/\1 --\2 \3 /p' \
		-e 's/^ +(-.?), --([a-z-]+)(\[=[^ ]+)? +/\1 --\2 - /p'
}

# The words of a text like "off, pipe, vm, auto or map"
_urnic_values() {
	grep -oE '([a-z]+, )+[a-z]+ or [a-z]+' | sed 's/,//g; s/ or / /'
}

_urnic_help() {
	ARGP_HELP_FMT=rmargin=1000 "$@" --help 2>/dev/null
}

_urnic_reply() { # _urnic_reply COMPGEN'S WORDS...
	mapfile -t COMPREPLY < <(compgen "$@" -- "$cur")
}

# Offers files, whose names bash then quotes.
_urnic_files() {
	compopt -o filenames 2>/dev/null # fails where no completion is under way
	_urnic_reply -f
}

# Completes the value of an option.
_urnic_value() { # _urnic_value ARGUMENT TEXT
	case $1 in
	*FILE | DIR | TOPOLOGY) _urnic_files ;;
	*) _urnic_reply -W "$(_urnic_values <<<"$2")" ;;
	esac
}

# Is the word an option whose argument is the next word?
_urnic_takes() { # _urnic_takes WORD; sets argument and text
	local short long
	[[ $1 == -* ]] || return
	while read -r short long argument text; do
		[[ $1 != "$short" && $1 != "$long" ]] || {
			[ "$argument" != - ]
			return
		}
	done <<<"$options"
	return 1
}

_urnic() {
	local cur=${COMP_WORDS[COMP_CWORD]} help options argument text at=1 word names
	local command=("${COMP_WORDS[0]/#\~\//$HOME/}")

	COMPREPLY=()
	help=$(_urnic_help "${command[@]}")
	# a command, and one of its own
	while names=$(_urnic_commands <<<"$help") && [ -n "$names" ]; do
		if ((at == COMP_CWORD)) && [[ $cur != -* ]]; then
			_urnic_reply -W "$names"
			return
		fi
		((at < COMP_CWORD)) || break
		[[ " $names " == *[[:space:]]"${COMP_WORDS[at]}"[[:space:]]* ]] || break
		command+=("${COMP_WORDS[at]}")
		((at++))
		help=$(_urnic_help "${command[@]}")
	done
	options=$(_urnic_options <<<"$help")

	# options, up to the word that is completed; bash breaks --log=info at the sign
	for (( ; at < COMP_CWORD; at++)); do
		word=${COMP_WORDS[at]}
		[[ $word != -- ]] || {
			((at++))
			break
		}
		[[ $word == -* ]] || break
		_urnic_takes "$word" || continue
		[[ ${COMP_WORDS[at + 1]} != = ]] || ((at++))
		if ((at + 1 >= COMP_CWORD)); then
			[[ $cur != = ]] || cur=
			_urnic_value "$argument" "$text"
			return
		fi
		((at++))
	done
	if ((at == COMP_CWORD)) && [[ $cur == -* ]]; then
		_urnic_reply -W "$(cut -d ' ' -f 2 <<<"$options")"
	elif [[ "${command[*]:1}" == run || "${command[*]:1}" == 'fabric exec' ]]; then
		if ((at == COMP_CWORD)) && [ "${command[1]}" = run ]; then
			_urnic_reply -c
		else
			_urnic_files
		fi
	else
		_urnic_files
	fi
}
complete -F _urnic urnic

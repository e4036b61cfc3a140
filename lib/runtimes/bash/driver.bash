# SPDX-License-Identifier: Apache-2.0
#
# The bash driver: cells of a kernel, evaluated one after the other in this shell,
# so that variables, functions, folder, options and traps stay. lib/languages.js
# has it evaluated by `bash -c`, and after it $__glovebox_loop; the frames are docs/protocol.md's,
# but a cell's body is the code itself, since bash reads no JSON.
#
# Its names begin with __glovebox_, and it calls builtins as builtins: what cells
# call theirs is up to them. The channel is closed while a cell runs. A cell that
# does not parse is an error of eval, which ends the cell alone. `exit` ends the
# shell, and with it the kernel.
#
# An interrupt has to leave loops and functions of the cell without leaving the
# shell, for which bash has no statement. So SIGINT, which its children get too,
# sets a DEBUG trap under extdebug that breaks all loops, returns from all
# functions and skips all commands up to the end of the cell. One of the loops is
# the driver's own: what follows it begins it anew.

exec 203<&3 204>&4 3<&- 4>&-

# Reads a number of four bytes. NUL is a delimiter that was found at once.
__glovebox_number() {
  local LC_ALL=C IFS= TMOUT= byte shift code
  __glovebox_value=0
  for shift in 0 8 16 24; do
    builtin read -r -d '' -n 1 -u 203 byte || return
    builtin printf -v code %d "'$byte"
    __glovebox_value=$((__glovebox_value | (code & 255) << shift))
  done
}

# Reads the next frame; fails at the end of the input.
__glovebox_frame() {
  local LC_ALL=C IFS= TMOUT= size
  __glovebox_number || return
  size=$__glovebox_value
  __glovebox_number || return
  __glovebox_code=
  [[ $size == 0 ]] ||
    builtin read -r -d '' -N "$size" -u 203 __glovebox_code
}

# Answers with an exit code.
__glovebox_answer() {
  local body="{\"exitCode\":$1,\"error\":null}" LC_ALL=C size
  builtin printf -v size '\\x%x' "${#body}"
  builtin printf "$size\0\0\0\3\0\0\0%s" "$body" >&204
}

# Waits for a cell. Commands are answered: "sync" is the only one that comes.
__glovebox_wait() {
  while __glovebox_frame; do
    case $__glovebox_value in
      1) return 0 ;;
      4) __glovebox_answer 0 ;;
    esac
  done
  builtin exit 1
}

__glovebox_status_is() {
  return "$1"
}

# What SIGINT does. Between cells nothing.
__glovebox_interrupt() {
  [[ -n $__glovebox_running ]] || return
  __glovebox_running=interrupted
  builtin shopt -s extdebug
  builtin set -T
  builtin trap '{
    [[ $BASH_COMMAND${FUNCNAME-} == *__glovebox_* ]] ||
      ! builtin break 999 || __glovebox_status_is 2
  } 2>/dev/null' DEBUG
}

# The end of a cell. Options that would act on the driver, or trace it, are off
# until the next one.
__glovebox_end() {
  local flags=$-
  builtin set +exuv
  flags=${flags//[!exuv]/}
  __glovebox_options=${flags:+"builtin set -$flags; "}
  # In one command, between whose parts no signal is handled: one that came after a
  # look at it would leave its trap for the next cell.
  __glovebox_ended=$__glovebox_running __glovebox_running=
  if [[ $__glovebox_ended == interrupted ]]; then
    builtin trap - DEBUG
    builtin shopt -u extdebug
    builtin set +T
    __glovebox_status=130
  fi
  __glovebox_answer "$__glovebox_status"
}

trap '{
  __glovebox_interrupt; [[ -z $__glovebox_running ]] || builtin break 999
} 2>/dev/null' INT
# For cells that unset all functions.
readonly -f __glovebox_answer __glovebox_end __glovebox_frame \
  __glovebox_interrupt __glovebox_number __glovebox_status_is __glovebox_wait
__glovebox_running= __glovebox_options= __glovebox_status=0

# On one line in the end: lines of a cell count from that of its eval. `read -t 0`
# finds an interrupt that came before the cell had begun.
__glovebox_loop='
while __glovebox_wait; do
  __glovebox_running=yes;
  if builtin read -t 0 -u 203; then __glovebox_status_is 130;
  else builtin eval -- "$__glovebox_options$__glovebox_code" 203<&- 204>&-; fi;
  { __glovebox_status=$?; __glovebox_end; } 2>/dev/null;
done;
{ __glovebox_end; } 2>/dev/null;
builtin eval "$__glovebox_loop"
'
__glovebox_loop=${__glovebox_loop//$'\n'/ }
builtin shift

// The shells' halves of completion. They hand the words to `attnlab completion complete` and show
// what it answers: first "words", "files" or "folders" (what may stand there beside the
// candidates), then one candidate per line, with a tab and a few words about it where there are
// some. A candidate that ends with '=', '.' or '/' wants more, so no space follows it.
#pragma once

namespace attnlab {

// Bash splits words at '=' and ':'. They are put together again for the program; what readline then
// replaces is the piece after the last of these signs.
inline constexpr const char* kBashCompletion = R"bash(# Completion of attnlab for bash:
#   source <(attnlab completion bash)
_attnlab() {
  local program=${COMP_WORDS[0]/#\~/$HOME} current=${COMP_WORDS[COMP_CWORD]}
  local -a words=() lines=()
  local i word glue=
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]//[\'\"]/}
    if [[ -n $glue && -z $word && ${COMP_LINE:COMP_POINT-1:1} == ' ' ]]; then
      glue=
    fi
    if ((${#words[@]} > 0)) && [[ -n $glue || $word =~ ^[=:]+$ ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    [[ $word =~ ^[=:]+$ ]] && glue=1 || glue=
  done
  mapfile -t lines < <("$program" completion complete "${words[@]}" 2>/dev/null)
  [[ $current =~ ^[=:]+$ ]] && current=
  current=${current//[\'\"]/}
  local prefix=${words[-1]%"$current"} line
  COMPREPLY=()
  for line in "${lines[@]:1}"; do
    line=${line%%$'\t'*}
    COMPREPLY+=("${line#"$prefix"}")
  done
  if [[ ${lines[0]} == files ]]; then
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  elif [[ ${lines[0]} == folders ]]; then
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current")
    compopt -o filenames 2>/dev/null
  fi
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=./] ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _attnlab attnlab
)bash";

inline constexpr const char* kZshCompletion = R"zsh(#compdef attnlab
# Completion of attnlab for zsh: write this to a file _attnlab in a folder of $fpath, or
#   source <(attnlab completion zsh)
_attnlab() {
  local -a lines closed closed_shown open open_shown
  local line value shown
  lines=("${(@f)$(${(Q)~words[1]} completion complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  for line in "${(@)lines[2,-1]}"; do
    [[ -z $line ]] && continue
    value=${line%%$'\t'*}
    shown=$value
    [[ $line == *$'\t'* ]] && shown="$value  -- ${line#*$'\t'}"
    if [[ $value == *[=./] ]]; then
      open+=("$value")
      open_shown+=("$shown")
    else
      closed+=("$value")
      closed_shown+=("$shown")
    fi
  done
  (($#closed)) && compadd -l -d closed_shown -a closed
  (($#open)) && compadd -l -S '' -d open_shown -a open
  [[ $lines[1] == files ]] && _files
  [[ $lines[1] == folders ]] && _files -/
  return 0
}
if [[ $funcstack[1] == _attnlab ]]; then
  _attnlab "$@"
else
  compdef _attnlab attnlab
fi
)zsh";

inline constexpr const char* kFishCompletion = R"fish(# Completion of attnlab for fish:
#   attnlab completion fish > ~/.config/fish/completions/attnlab.fish
function __attnlab_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] completion complete $words[2..-1] "$current" 2>/dev/null)
    test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
    switch "$lines[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
    end
end
complete -c attnlab -f -a '(__attnlab_complete)'
)fish";

}  // namespace attnlab

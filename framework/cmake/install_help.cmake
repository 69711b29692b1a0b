# Run at installation: asks the installed program for its completions and, by help2man, its manual pages.
# Given: _program, _data (share/ of the installation).
function(attnlab_ask out)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE _text RESULT_VARIABLE _status)
  if(NOT _status EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed: no ${out}")
  endif()
  file(WRITE "${out}" "${_text}")
  message(STATUS "Installing: ${out}")
endfunction()

attnlab_ask("${_data}/bash-completion/completions/attnlab" ${_program} completion bash)
attnlab_ask("${_data}/zsh/vendor-completions/_attnlab" ${_program} completion zsh)
attnlab_ask("${_data}/fish/vendor_completions.d/attnlab.fish" ${_program} completion fish)

find_program(HELP2MAN help2man)
if(NOT HELP2MAN)
  message(STATUS "Manual pages are left out: they need help2man")
  return()
endif()
# Each command of the general help is a line "  run EXPERIMENT   train and evaluate".
execute_process(COMMAND ${_program} help OUTPUT_VARIABLE _help)
string(REGEX MATCHALL "\n  [a-z]+( [a-z]+)?( [^\n]*)?   +[a-z][^\n]*" _lines "${_help}")
set(_man "${_data}/man/man1")
attnlab_ask("${_man}/attnlab.1" ${HELP2MAN} --no-info --no-discard-stderr
  --name "compare attention mechanisms across domains" ${_program})
set(_known "")
foreach(_line ${_lines})
  string(REGEX MATCH "^\n  ([a-z]+( [a-z]+)?) " _ "${_line}")
  set(_command "${CMAKE_MATCH_1}")
  string(REGEX REPLACE "^.*   +" "" _what "${_line}")
  string(REPLACE " " "-" _page "${_command}")
  if(_page IN_LIST _known)
    continue()
  endif()
  list(APPEND _known ${_page})
  attnlab_ask("${_man}/attnlab-${_page}.1" ${HELP2MAN} --no-info --name "${_what}"
    "${_program} ${_command}")
endforeach()

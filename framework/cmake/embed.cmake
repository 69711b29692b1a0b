# cmake -DOUT=FILE.cpp -DFILES=name=path,name=path -P embed.cmake
# Writes a source that defines, for each name, attnlab::name(): the file's bytes as a string_view.
string(REPLACE "," ";" FILES "${FILES}")
set(source "// Made by framework/cmake/embed.cmake; do not edit.\n")
string(APPEND source "#include \"framework/report/assets.h\"\n\nnamespace attnlab {\n")
foreach(entry IN LISTS FILES)
  string(FIND "${entry}" "=" at)
  string(SUBSTRING "${entry}" 0 ${at} name)
  math(EXPR at "${at} + 1")
  string(SUBSTRING "${entry}" ${at} -1 path)
  file(READ "${path}" bytes HEX)
  # A comment at the end that names a source map would make browsers ask for one.
  file(STRINGS "${path}" map REGEX "^//# sourceMappingURL=" LIMIT_COUNT 1)
  if(map)
    string(HEX "${map}" map)
    string(REPLACE "${map}" "" bytes "${bytes}")
  endif()
  # "</script" in a string of a script would end the page's element: "<\/script" means the same.
  string(REPLACE "3c2f736372697074" "3c5c2f736372697074" bytes "${bytes}")
  if(path MATCHES "page\\.html$")
    string(REPLACE "3c5c2f736372697074" "3c2f736372697074" bytes "${bytes}")
  endif()
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  string(REGEX REPLACE "((\\\\x..){24})" "\\1\"\n    \"" bytes "${bytes}")
  string(APPEND source "\nstd::string_view ${name}() {\n  static constexpr char kBytes[] =\n"
    "    \"${bytes}\";\n  return {kBytes, sizeof kBytes - 1};\n}\n")
endforeach()
file(WRITE "${OUT}" "${source}\n}  // namespace attnlab\n")

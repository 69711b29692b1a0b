# The report's page carries its style, its script and Chart.js; the build makes one source of them.
# Chart.js is Debian's libjs-chart.js: its classic script, which defines `Chart`; 3 and 4 are known.
#   ATTNLAB_CHART_JS   the file; -DATTNLAB_CHART_JS=PATH takes another than Debian's
set(_report ${CMAKE_CURRENT_LIST_DIR}/../report)

find_file(ATTNLAB_CHART_JS
  NAMES chart.umd.min.js chart.umd.js chart.min.js Chart.min.js
  PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist
  NO_DEFAULT_PATH DOC "Chart.js, a classic (UMD) script")
if(NOT ATTNLAB_CHART_JS OR NOT EXISTS "${ATTNLAB_CHART_JS}")
  message(FATAL_ERROR "Chart.js, which `attnlab report` puts into its pages, was not found.\n"
    "Debian: scripts/setup.sh, or apt-get install libjs-chart.js\n"
    "Else: -DATTNLAB_CHART_JS=PATH of chart.umd.min.js or chart.min.js, version 3 or 4")
endif()
file(STRINGS "${ATTNLAB_CHART_JS}" _banner REGEX "Chart\\.js v[0-9]" LIMIT_COUNT 1)
string(REGEX MATCH "Chart\\.js v([0-9]+)" _banner "${_banner}")
if(NOT CMAKE_MATCH_1 MATCHES "^[34]$")
  message(FATAL_ERROR "${ATTNLAB_CHART_JS} is not a Chart.js of version 3 or 4 (\"${_banner}\").\n"
    "Debian: apt-get install libjs-chart.js; else -DATTNLAB_CHART_JS=PATH")
endif()

set(ATTNLAB_REPORT_ASSETS ${CMAKE_BINARY_DIR}/report_assets.cpp)
set(_files ${_report}/page.html ${_report}/page.css ${_report}/page.js ${_report}/page_curves.js
  ${_report}/page_grid.js ${_report}/page_start.js ${ATTNLAB_CHART_JS})
add_custom_command(OUTPUT ${ATTNLAB_REPORT_ASSETS}
  COMMAND ${CMAKE_COMMAND} -DOUT=${ATTNLAB_REPORT_ASSETS}
    "-DFILES=report_page_html=${_report}/page.html,report_page_css=${_report}/page.css,report_page_js=${_report}/page.js,report_curves_js=${_report}/page_curves.js,report_grid_js=${_report}/page_grid.js,report_start_js=${_report}/page_start.js,report_chart_js=${ATTNLAB_CHART_JS}"
    -P ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  DEPENDS ${_files} ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  COMMENT "Embedding the report's page and ${ATTNLAB_CHART_JS}" VERBATIM)

#include "runner/domain_page.h"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"

namespace attnlab {

std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

std::vector<std::string> write_domain_page(const DomainPage& page, const std::string& folder,
                                           const std::string& command) {
  const PageStamp stamp{command, now_in_utc()};
  std::vector<std::string> written;
  const auto write = [&](const char* name, const std::string& text) {
    written.push_back(folder + "/" + name);
    write_file(written.back(), text);
  };
  write("page.html", domain_html(page, stamp));
  write("page.md", printable(domain_markdown(page, stamp)));
  write("page.json", domain_json(page, stamp));
  write("page.tex", domain_latex(page, stamp));
  write("page.svg", domain_figure(page));
  if (page.ranking) {
    write("ranks.svg", domain_ranks_figure(page));
  } else {  // one of an earlier page would pass for this one's
    const std::string older = folder + "/ranks.svg";
    std::error_code error;
    std::filesystem::remove(older, error);
    if (error) throw FileError(fmt::format("{}: cannot remove it: {}", older, error.message()));
  }
  return written;
}

}  // namespace attnlab

#include "runner/domain_page.h"

#include <fmt/format.h>

#include <ctime>
#include <filesystem>

#include "framework/base/error.h"
#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/base/links.h"
#include "framework/base/parsed_json.h"

namespace attnlab {
namespace {

/// The files of a page, that which says who made it last.
constexpr const char* kFiles[] = {"page.html", "page.md",   "page.tex",
                                  "page.svg",  "ranks.svg", "page.json"};

}  // namespace

std::string now_in_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts)};
}

void remove_older(const std::string& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) throw FileError(fmt::format("{}: cannot remove it: {}", path, error.message()));
}

std::vector<std::string> write_domain_page(const DomainPage& page, const std::string& folder,
                                           const std::string& command) {
  const PageStamp stamp{command, now_in_utc()};
  std::vector<std::string> written;
  const auto write = [&](const char* name, const std::string& text) {
    written.push_back(folder + "/" + name);
    refuse_link(written.back());
    write_file(written.back(), text);
  };
  write("page.html", domain_html(page, stamp));
  write("page.md", printable(domain_markdown(page, stamp)));
  write("page.json", domain_json(page, stamp));
  write("page.tex", domain_latex(page, stamp));
  write("page.svg", domain_figure(page));
  if (page.ranking) {
    write("ranks.svg", domain_ranks_figure(page));
  } else {
    remove_older(folder + "/ranks.svg");
  }
  return written;
}

void remove_suite_page(const std::string& folder) {
  const std::string record = folder + "/page.json";
  if (!is_there(record)) return;
  std::string command;
  try {
    command = parsed_json_file(record).at("command").get<std::string>();
  } catch (const nlohmann::json::exception&) {  // not ours
    return;
  }
  if (!command.starts_with("attnlab suite ") && !command.starts_with("attnlab sweep ")) return;
  for (const char* name : kFiles) remove_older(folder + "/" + name);
}

}  // namespace attnlab

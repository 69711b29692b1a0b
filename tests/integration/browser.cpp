#include "tests/integration/browser.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "framework/base/base64.h"
#include "tests/support/program.h"

namespace attnlab::testing {
namespace {

constexpr const char* kTrap = R"(
window.problems = [];
addEventListener('error', (event) => problems.push('error: ' + event.message));
addEventListener('securitypolicyviolation', (event) => problems.push('policy: ' + event.blockedURI));
const complain = console.error;
console.error = (...words) => { problems.push('console: ' + words.join(' ')); complain(...words); };
)";

// Where --dump-dom finds it; a page around this one is told, too.
constexpr const char* kTell = R"(
seen.problems = problems;
const text = btoa(unescape(encodeURIComponent(JSON.stringify(seen))));
document.body.appendChild(document.createElement('pre')).id = 'seen';
document.getElementById('seen').textContent = text;
parent.postMessage(text, '*');
)";

}  // namespace

std::string browser() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      if (std::filesystem::exists(folder + "/" + name)) return folder + "/" + name;
    }
  }
  return "";
}

std::string watched(std::string page, const std::string& look) {
  const std::size_t nonce = page.find("'nonce-");
  std::string open = "<script>";
  if (nonce != std::string::npos) {
    const std::size_t begin = nonce + 7;
    open = "<script nonce=\"" + page.substr(begin, page.find('\'', begin) - begin) + "\">";
  } else if (const std::size_t meta = page.find("<meta http-equiv"); meta != std::string::npos) {
    page.erase(meta, page.find('>', meta) + 1 - meta);
  }
  page.replace(page.find("<title>"), 0, open + kTrap + "</script>");
  page.replace(page.rfind("</body>"), 0, open + look + kTell + "</script>");
  return page;
}

nlohmann::json seen_in_browser(const std::string& folder, const std::string& address,
                               const std::vector<std::string>& flags) {
  std::vector<std::string> words = {browser(),
                                    "--headless=new",
                                    "--no-sandbox",
                                    "--disable-dev-shm-usage",
                                    "--no-first-run",
                                    "--user-data-dir=" + folder + "/profile",
                                    "--window-size=1280,900",
                                    "--virtual-time-budget=5000",
                                    "--dump-dom"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back("file://" + folder + "/" + address);
  const Ended ended = run({.words = words, .folder = folder, .environment = {{"HOME", folder}}});
  const std::string mark = "<pre id=\"seen\">";
  const std::size_t found = ended.out.find(mark);
  const std::size_t end = ended.out.find('<', found + mark.size());
  if (found == std::string::npos || end == found + mark.size()) {
    throw std::runtime_error("the page's scripts did not get to their end\n" + ended.err);
  }
  const std::size_t begin = found + mark.size();
  return nlohmann::json::parse(base64_bytes(ended.out.substr(begin, end - begin)));
}

}  // namespace attnlab::testing

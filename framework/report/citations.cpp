#include "framework/report/citations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "framework/report/markup.h"

namespace attnlab {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

bool is_bibtex(const std::string& text) {
  return text.size() > 1 && text[0] == '@' && text.find('{') != std::string::npos;
}

/// Letters and digits in lower case: what makes two ways to write a work the same.
std::string fold(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (is_letter_or_digit(c) || (static_cast<unsigned char>(c) & 0x80) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

/// "attnlab-quest" from "attnlab/quest"; a number behind it where that is taken.
std::string new_key(const std::string& id, std::set<std::string>& taken) {
  std::string base;
  for (const char c : id) base += is_letter_or_digit(c) || c == '_' ? c : '-';
  std::string key = base;
  for (int n = 2; !taken.insert(key).second; ++n) key = fmt::format("{}-{}", base, n);
  return key;
}

/// The key that a BibTeX entry has.
std::string own_key(const std::string& entry) {
  const std::size_t open = entry.find('{'), comma = entry.find(',', open);
  return comma == std::string::npos
             ? ""
             : std::string(trimmed(entry.substr(open + 1, comma - open - 1)));
}

/// The last number from 1900 to 2099 that stands alone, not as in arXiv:2006.11239; empty without
/// one.
std::string year_of(const std::string& text) {
  std::string year;
  for (std::size_t i = 0; i + 4 <= text.size(); ++i) {
    const std::string four = text.substr(i, 4);
    const bool begins = i == 0 || (!is_letter_or_digit(text[i - 1]) && text[i - 1] != ':');
    const bool ends = i + 4 == text.size() || !is_letter_or_digit(text[i + 4]);
    const bool is_number = i + 5 < text.size() && text[i + 4] == '.' && is_digit(text[i + 5]);
    if (!begins || !ends || is_number || !std::all_of(four.begin(), four.end(), is_digit)) continue;
    if (four.rfind("19", 0) == 0 || four.rfind("20", 0) == 0) year = four;
  }
  return year;
}

/// Every plugin that some run names: kind and name, once.
std::set<std::pair<Kind, std::string>> used_plugins(const std::vector<RunRecord>& runs) {
  std::set<std::pair<Kind, std::string>> used;
  for (const RunRecord& run : runs) {
    for (const Kind kind : {Kind::attention, Kind::model, Kind::task, Kind::dataset}) {
      const Node* part = run.config.find(name_of(kind));
      const Node* name = part == nullptr ? nullptr : part->find("use");
      if (name != nullptr) used.emplace(kind, name->text());
    }
  }
  return used;
}

}  // namespace

std::vector<std::string> works_of(const std::string& citation) {
  const std::string whole(trimmed(citation));
  if (whole.empty()) return {};
  if (is_bibtex(whole)) return {whole};
  std::vector<std::string> works;
  std::size_t begin = 0;
  while (begin <= whole.size()) {
    const std::size_t end = std::min(whole.find("; ", begin), whole.size());
    const std::string work(trimmed(whole.substr(begin, end - begin)));
    if (!work.empty()) works.push_back(work);
    begin = end + 2;
  }
  return works;
}

std::vector<Citation> citations_of(const std::vector<RunRecord>& runs, const Catalogue& catalogue,
                                   std::vector<std::string>& absent) {
  std::vector<Citation> citations;
  std::map<std::string, std::size_t> known;
  std::set<std::string> keys;
  for (const auto& [kind, name] : used_plugins(runs)) {
    try {
      const Manifest& manifest = *catalogue.find(kind, name).manifest;
      for (const std::string& work : works_of(manifest.citation)) {
        const auto [found, is_new] = known.emplace(fold(work), citations.size());
        if (is_new) {
          const std::string own = is_bibtex(work) ? own_key(work) : "";
          const bool usable = !own.empty() && keys.insert(own).second;
          citations.push_back({usable ? own : new_key(manifest.id, keys), work, {}});
        }
        citations[found->second].plugins.push_back(manifest.id);
      }
    } catch (const PluginError&) {
      absent.push_back(fmt::format("{}/{}", name_of(kind), name));
    }
  }
  return citations;
}

std::string bibtex_of(const std::vector<Citation>& citations) {
  std::string out;
  for (const Citation& citation : citations) {
    if (is_bibtex(citation.text)) {
      out += citation.text + "\n\n";
      continue;
    }
    out += "@misc{" + citation.key + ",\n  title = {{" + latex_text(citation.text) + "}},\n";
    out += "  key = {" + citation.key + "},\n";  // what styles sort by without an author
    const std::string year = year_of(citation.text);
    if (!year.empty()) out += "  year = {" + year + "},\n";
    out += "  note = {As cited by the attnlab plugin " + latex_text(join(citation.plugins, ", ")) +
           "}\n}\n\n";
  }
  if (!out.empty()) out.pop_back();
  return out;
}

}  // namespace attnlab

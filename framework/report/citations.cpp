#include "framework/report/citations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/document/markup.h"
#include "framework/manifest/attention_section.h"
#include "framework/manifest/python_file.h"

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

constexpr Kind kKinds[] = {Kind::attention, Kind::model, Kind::task, Kind::dataset};

using Used = std::set<std::pair<Kind, std::string>>;

/// A part is a map with `use`, or a name alone; an attention may name several.
/// @param run  the folder of the run that names it
void add_part(Kind kind, const Node* part, const std::string& run, Used& used) {
  if (kind == Kind::attention && part != nullptr) {
    for (const NamedMechanism& one : mechanisms_in(*part)) {
      used.emplace(kind, name_in_run(one.name, run));
    }
    return;
  }
  const std::string name = part == nullptr ? "" : named_plugin(*part);
  if (!name.empty()) used.emplace(kind, name_in_run(name, run));
}

void add_parts(const Node* composition, const std::string& run, Used& used) {
  if (composition == nullptr || !composition->is_map()) return;
  for (const Kind kind : kKinds) add_part(kind, composition->find(name_of(kind)), run, used);
}

/// The lists of values of an entry of `evaluate:`, as {task.use: [a, b]} or {attention: [a, b]}.
void add_values(const Node* over, const std::string& run, Used& used) {
  if (over == nullptr || !over->is_map()) return;
  for (const Kind kind : kKinds) {
    const std::string part(name_of(kind));
    for (const std::string& key : {part, part + ".use"}) {
      const Node* const values = over->find(key);
      if (values == nullptr || !values->is_list()) continue;
      for (const Node& value : values->items()) add_part(kind, &value, run, used);
    }
  }
}

/// What the entries of `evaluate:` name.
void add_entries(const Node& evaluate, const std::string& run, Used& used) {
  for (const auto& [name, entry] : evaluate.entries()) {
    if (!entry.is_map()) continue;
    add_parts(entry.find("set"), run, used);
    add_values(entry.find("over"), run, used);
  }
}

/// Every plugin that runs name, their evaluations included: kind and name, once. What runs share is
/// looked through once.
class UsedPlugins {
 public:
  /// @param unknown  gets entries whose settings cannot be read
  explicit UsedPlugins(std::vector<std::string>& unknown) : unknown_(unknown) {}

  void add(const RunRecord& run) {
    for (const auto& section : run.config.sections()) {
      if (sections_.insert(section.get()).second) add_section(*section, run.folder);
    }
    for (const EvaluationRecord& record : run.evaluations) {
      if (!add_settings(record.set, run.folder)) {
        unknown_.push_back(
            fmt::format("plugins of evaluation '{}' of {} (its settings cannot be read)",
                        record.entry, run.folder));
      }
    }
  }
  const Used& all() const { return used_; }

 private:
  void add_section(const ConfigSection& section, const std::string& run) {
    if (section.key() == "evaluate") add_entries(section.value(), run, used_);
    for (const Kind kind : kKinds) {
      if (section.key() == name_of(kind)) add_part(kind, &section.value(), run, used_);
    }
  }

  /// Those that an evaluation was made with. @returns whether they can be read
  bool add_settings(const std::string& text, const std::string& run) {
    if (settings_.count(text) > 0) return true;
    try {
      const Node set = parse_yaml(text, "settings");
      add_parts(&set, run, used_);
    } catch (const ConfigError&) {  // more or deeper than settings are
      return false;
    }
    settings_.insert(text);
    return true;
  }

  std::vector<std::string>& unknown_;
  Used used_;
  std::set<const ConfigSection*> sections_;
  std::set<std::string> settings_;
};

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
  UsedPlugins used(absent);
  for (const RunRecord& run : runs) used.add(run);
  for (const auto& [kind, name] : used.all()) {
    try {
      const Manifest& manifest = *catalogue.find(kind, name).manifest;
      for (const std::string& work : works_of(manifest.citation)) {
        const auto [found, is_new] = known.emplace(fold(work), citations.size());
        if (is_new) {
          const std::string own = is_bibtex(work) ? own_key(work) : "";
          const bool usable = !own.empty() && keys.insert(own).second;
          citations.push_back({usable ? own : new_key(manifest.id, keys), work, {}});
        }
        std::vector<std::string>& plugins = citations[found->second].plugins;
        // One plugin may be named in two ways: "quest" and "attnlab/quest".
        if (std::find(plugins.begin(), plugins.end(), manifest.id) == plugins.end()) {
          plugins.push_back(manifest.id);
        }
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

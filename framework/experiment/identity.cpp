#include "framework/experiment/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "framework/base/files.h"
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "framework/base/revision.h"
#include "framework/base/text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"
#include "framework/experiment/canonical.h"
#include "framework/manifest/python_file.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct KnownFile {
  fs::file_time_type time;
  std::uintmax_t size = 0;
  std::string hash;
};

std::string canonical_scalar(const Node& node) {
  if (const auto truth = node.as_bool()) return *truth ? "true" : "false";
  const auto whole = node.as_int();
  constexpr std::int64_t kExact = std::int64_t{1} << 53;  // a double holds integers up to here
  if (whole && (*whole > kExact || *whole < -kExact)) return std::to_string(*whole);
  if (const auto number = node.as_double()) {
    // The text is read as JSON, too, which has no word for infinity.
    if (!std::isfinite(*number)) return json_quote(shortest(*number));
    return *number == 0 ? "0" : shortest(*number);
  }
  return json_quote(node.text());
}

using Without = std::function<bool(const KeyPath&, const Node&)>;

/// @param path     to the node
/// @param without  null: all entries are taken
void append_canonical(const Node& node, KeyPath& path, const Without* without, std::string& text) {
  if (node.is_null() || node.is_scalar()) {
    text += node.is_null() ? "null" : canonical_scalar(node);
    return;
  }
  text += node.is_list() ? '[' : '{';
  const std::size_t begin = text.size();
  const auto part = [&] {
    if (text.size() > begin) text += ',';
  };
  for (const Node& item : node.items()) {
    part();
    append_canonical(item, path, nullptr, text);
  }
  for (const auto& [key, value] : node.entries()) {
    path.emplace_back(key);
    if (without == nullptr || !(*without)(path, value)) {
      part();
      text += json_quote(key);
      text += ':';
      append_canonical(value, path, without, text);
    }
    path.pop_back();
  }
  text += node.is_list() ? ']' : '}';
}

/// `init.from` of an experiment that begins with a file, which must be there.
const std::string& file_of_init(const Experiment& experiment) {
  const std::string& from = experiment.init->from;
  if (is_there(from)) return from;
  Problems problems;
  const Node* const key = find_key(experiment.resolved, "init.from");
  add_problem(problems, key == nullptr ? Place() : key->place(),
              fmt::format("init.from: there is no file '{}', as seen from the folder that attnlab "
                          "is called in; make it (the composition may say how), or give the path "
                          "of another",
                          from));
  throw ConfigError(problems);
}

}  // namespace

std::string canonical_text(const Node& node) {
  std::string text;
  KeyPath path;
  append_canonical(node, path, nullptr, text);
  return text;
}

std::string canonical_text(const Node& node, const Without& without) {
  std::string text;
  KeyPath path;
  append_canonical(node, path, &without, text);
  return text;
}

std::string file_hash(const std::string& path) {
  if (is_python_name(path)) return python_file(parse_python_name(path)).identity();
  static std::mutex guard;
  static std::map<std::string, KnownFile> known;
  std::error_code error;
  KnownFile now{fs::last_write_time(path, error), 0, ""};
  if (!error) now.size = fs::file_size(path, error);
  const std::lock_guard<std::mutex> lock(guard);
  const auto found = known.find(path);
  if (!error && found != known.end() && found->second.time == now.time &&
      found->second.size == now.size) {
    return found->second.hash;
  }
  now.hash = hex(*file_fingerprint(path));
  return (known[path] = now).hash;
}

std::map<std::string, std::string> versions_behind(const std::string& path) {
  if (!is_python_name(path)) return {};
  return python_file(parse_python_name(path)).versions;
}

std::string Identity::hash() const {
  std::string all = configuration;
  for (const auto& [kind, file] : plugins) all += fmt::format(";{}={}", kind, file.hash);
  return hex(fingerprint(fmt::format("{};data={};framework={}", all, data, framework)));
}

Identity identity_of(const Experiment& experiment, const std::string& data) {
  Identity identity{experiment.hash(), {}, data, framework_revision(), {}};
  for (const Part* part : experiment.parts()) {
    identity.plugins[section_key(*part)] = {part->name, file_hash(part->path)};
  }
  for (const Part& judge : experiment.judges) {
    const std::string key = "judging " + std::string(name_of(judge.kind));
    PluginFile& file = identity.plugins[key];
    file.name += (file.name.empty() ? "" : ", ") + judge.name;
    file.hash = hex(fingerprint(file.hash + file_hash(judge.path)));
  }
  if (experiment.init && !experiment.init->from.empty()) {
    const std::string& from = file_of_init(experiment);
    identity.plugins["init.from"] = {from, file_hash(from)};
  }
  return identity;
}

std::string framework_change(const Identity& before, const Identity& now) {
  const auto& accepted = before.accepted;
  if (before.framework == now.framework ||
      std::find(accepted.begin(), accepted.end(), now.framework) != accepted.end()) {
    return "";
  }
  return fmt::format("the framework changed (revision {} -> {})",
                     before.framework.empty() ? "unknown" : before.framework.substr(0, 8),
                     now.framework.substr(0, 8));
}

std::vector<std::string> changes_between(const Identity& before, const Identity& now) {
  std::vector<std::string> changes;
  if (before.configuration != now.configuration) changes.emplace_back("the configuration changed");
  for (const auto& [kind, file] : now.plugins) {
    const auto found = before.plugins.find(kind);
    if (found == before.plugins.end() || found->second.hash == file.hash) continue;
    changes.push_back(fmt::format("the file of {} '{}' changed", kind, file.name));
  }
  const auto dataset = now.plugins.find("dataset");
  if (!before.data.empty() && !now.data.empty() && before.data != now.data) {
    changes.push_back(fmt::format("the data of dataset '{}' changed",
                                  dataset == now.plugins.end() ? "" : dataset->second.name));
  }
  const std::string framework = framework_change(before, now);
  if (!framework.empty()) changes.push_back(framework);
  return changes;
}

std::string identity_json(const Identity& identity) {
  json plugins = json::object();
  for (const auto& [kind, file] : identity.plugins) {
    plugins[kind] = {{"name", file.name}, {"hash", file.hash}};
  }
  json out = {{"configuration", identity.configuration},
              {"plugins", plugins},
              {"data", identity.data},
              {"framework", identity.framework}};
  if (!identity.accepted.empty()) out["accepted"] = identity.accepted;
  return json_text(out);
}

std::optional<Identity> read_identity(const std::string& run_folder) {
  const std::string path = run_folder + "/identity.json";
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    const json in = parsed_json_file(path);
    Identity identity{in.at("configuration").get<std::string>(),
                      {},
                      in.at("data"),
                      in.value("framework", ""),
                      in.value("accepted", std::vector<std::string>{})};
    for (const auto& [kind, file] : in.at("plugins").items()) {
      identity.plugins[kind] = {file.at("name"), file.at("hash")};
    }
    return identity;
  } catch (const json::exception& damage) {
    throw DataError(fmt::format("{}: damaged: {}; remove the run's folder to run it again", path,
                                damage.what()));
  }
}

void accept_revision(const std::string& run_folder, const std::string& revision) {
  std::optional<Identity> identity = read_identity(run_folder);
  if (!identity || identity->framework == revision) return;
  auto& accepted = identity->accepted;
  if (std::find(accepted.begin(), accepted.end(), revision) != accepted.end()) return;
  accepted.push_back(revision);
  write_file(run_folder + "/identity.json", identity_json(*identity));
}

}  // namespace attnlab

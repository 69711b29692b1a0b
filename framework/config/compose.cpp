#include "framework/config/compose.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "framework/base/files.h"
#include "framework/base/installation.h"
#include "framework/base/text.h"
#include "framework/config/frozen.h"
#include "framework/config/merge.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr int kLongestPath = 100;  ///< parts of a key on the command line

// Most of a composition. A file is read for each way that leads to it, and ways double with each
// file that names the next one twice.
constexpr std::size_t kMostFiles = 1000;
constexpr std::size_t kMostMebibytes = 64;
constexpr std::size_t kMostValues = 1'000'000;  ///< as of one file; aliases multiply them
constexpr std::size_t kDeepest = 100;           ///< files and maps around a file

std::size_t values_in(const Node& node) {
  std::size_t values = 1;
  for (const Node& item : node.items()) values += values_in(item);
  for (const auto& [key, value] : node.entries()) values += values_in(value);
  return values;
}

/// Reads files and follows `extends`. Problems of what is extended are noted, and it goes on.
class FileLoader {
 public:
  explicit FileLoader(Composition& out) : out_(out), merger_(out.edits, out.problems) {}

  /// The file's map; `key+` and `key-` outside of maps that extend wait for the map they will meet.
  /// @param from  where it is extended; no file for the first
  /// @param at    the key, from the top, of the map that it becomes part of
  Node load(const std::string& path, const Place& from, const std::string& at) {
    std::error_code error;
    const fs::path canonical = fs::weakly_canonical(path, error);
    const std::string identity = error ? path : canonical.string();
    if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {
      throw ConfigError(from, fmt::format("extends itself: {} -> {}", join(shown_, " -> "), path));
    }
    count_file(path, from, at);
    Node root = parse_yaml(read(path, from), path);
    if (is_frozen(path)) refuse_composing(root);
    values_ += values_in(root);
    if (values_ > kMostValues) stop(path, from, fmt::format("{} values", kMostValues));
    if (!root.is_map()) {
      throw ConfigError({path, 1, 1}, "expected a map at the top, found " + to_flow(root));
    }
    open_.push_back(identity);
    shown_.push_back(path);
    Node expanded = expand(root, fs::path(path).parent_path(), at);
    open_.pop_back();
    shown_.pop_back();
    return expanded;
  }

  /// Applies `extends` in this map and in what it holds.
  Node expand(const Node& map, const fs::path& folder, const std::string& at) {
    Node result = Node::map(map.place());
    const Node* extends = map.find("extends");
    if (extends != nullptr) extend(result, *extends, folder, at);
    Node own = Node::map(map.place());
    for (const auto& [key, value] : map.entries()) {
      if (key == "extends") continue;
      own.set(key, expand_value(value, folder, key_below(at, key)));
      own.set_key_place(key, map.key_place(key));
    }
    if (extends == nullptr) return own;
    merger_.merge(result, own, at);
    return result;
  }

 private:
  Node expand_value(const Node& value, const fs::path& folder, const std::string& at) {
    if (value.is_map()) return expand(value, folder, at);
    if (!value.is_list()) return value;
    Node list = value;
    for (std::size_t i = 0; i < list.items().size(); ++i) {
      list.items()[i] = expand_value(value.items()[i], folder, key_below(at, std::to_string(i)));
    }
    return list;
  }

  void extend(Node& result, const Node& extends, const fs::path& folder, const std::string& at) {
    try {
      for (const Node& file : files_of(extends)) add_file(result, file, folder, at);
    } catch (const ConfigError& error) {
      note(error);
    }
  }

  void add_file(Node& result, const Node& file, const fs::path& folder, const std::string& at) {
    if (stopped_) return;  // that was noted
    try {
      const std::string path = found_file(file, folder);
      merger_.merge(result, load(path, file.place(), at), at);
    } catch (const ConfigError& error) {
      note(error);
    }
  }

  /// A path from the folder of the file that extends, else one from a folder of configurations:
  /// "base/vision.yaml", "configs/base/vision.yaml", or a name alone, "vision".
  static std::string found_file(const Node& file, const fs::path& folder) {
    const std::string name = name_of_file(file);
    std::string near = (folder / name).lexically_normal().string();
    std::error_code error;
    if (fs::path(name).is_absolute() || fs::exists(near, error)) return near;
    constexpr std::string_view kConfigs = "configs/";
    const std::string below = name.starts_with(kConfigs) ? name.substr(kConfigs.size()) : name;
    const bool is_name = name.find('/') == std::string::npos && fs::path(name).extension().empty();
    for (const std::string& configs : config_folders()) {
      if (!is_name && fs::is_regular_file(configs + "/" + below, error))
        return configs + "/" + below;
      if (!is_name) continue;
      std::set<std::string> files;  // sorted: the same on each machine
      for (const auto& entry : fs::recursive_directory_iterator(configs, error)) {
        if (entry.path().filename() == name + ".yaml") files.insert(entry.path().string());
      }
      if (files.size() > 1) {
        throw ConfigError(file.place(),
                          fmt::format("extends: {} stands for several files: {}; give the path",
                                      name, join({files.begin(), files.end()}, ", ")));
      }
      if (!files.empty()) return *files.begin();
    }
    return near;
  }

  void note(const ConfigError& error) {
    out_.problems.push_back(error.what());
    out_.whole = false;
  }

  /// Reads nothing more.
  [[noreturn]] void stop(const std::string& path, const Place& from, const std::string& bound) {
    stopped_ = true;
    const std::string what =
        fmt::format("there are more than {}, the most of a composition; make it smaller", bound);
    if (from.file.empty()) throw ConfigError({path, 0, 0}, what);
    throw ConfigError(from, fmt::format("{}: with it {}", path, what));
  }

  void count_file(const std::string& path, const Place& from, const std::string& at) {
    const auto maps = static_cast<std::size_t>(std::count(at.begin(), at.end(), '.'));
    if (++files_ > kMostFiles) stop(path, from, fmt::format("{} files", kMostFiles));
    if (open_.size() + maps > kDeepest) {
      stop(path, from, fmt::format("{} files and maps around each other", kDeepest));
    }
  }

  std::string read(const std::string& path, const Place& from) {
    // Its size is asked first: a file may be larger than all memory.
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    if (!error && size > (kMostMebibytes << 20) - bytes_) {
      stop(path, from, fmt::format("{} MiB of text", kMostMebibytes));
    }
    if (!error) bytes_ += size;
    try {
      return read_text(path);
    } catch (const FileError& error) {
      if (from.file.empty()) throw;
      throw ConfigError(from, error.what());
    }
  }

  static std::vector<Node> files_of(const Node& extends) {
    if (extends.is_scalar()) return {extends};
    if (extends.is_list() && std::all_of(extends.items().begin(), extends.items().end(),
                                         [](const Node& item) { return item.is_scalar(); })) {
      return extends.items();
    }
    throw ConfigError(extends.place(),
                      "extends: expected a file or a list of files, found " + to_flow(extends));
  }

  /// The environment is known before the tree is.
  static std::string name_of_file(const Node& file) {
    const std::string& text = file.text();
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
      if (text.compare(at, 6, "${env:") == 0) continue;
      throw ConfigError(file.place(), fmt::format("extends: {}: only ${{env:NAME}} can stand here, "
                                                  "since files are read before references are",
                                                  text));
    }
    Node name = file;
    interpolate(name);
    return name.text();
  }

  Composition& out_;
  Merger merger_;
  std::vector<std::string> open_;   // canonical
  std::vector<std::string> shown_;  // as written
  std::size_t files_ = 0, bytes_ = 0, values_ = 0;
  bool stopped_ = false;  // a bound was reached
};

constexpr const char* kArgument = "argument '";

/// The first value in a tree that an argument set; null: there is none.
const Node* set_by_argument(const Node& node) {
  if (node.is_map()) {
    for (const auto& [key, value] : node.entries()) {
      if (const Node* found = set_by_argument(value)) return found;
    }
    return nullptr;
  }
  return node.place().file.starts_with(kArgument) ? &node : nullptr;
}

/// @throws ConfigError where an argument dropped what an earlier one had set.
void check_arguments_stay(const std::vector<Edit>& edits, std::size_t first,
                          const std::string& argument) {
  for (std::size_t i = first; i < edits.size(); ++i) {
    const Node* lost =
        edits[i].kind == Edit::Kind::drop ? set_by_argument(edits[i].before) : nullptr;
    if (lost == nullptr) continue;
    throw ConfigError(
        Place{fmt::format("{}{}'", kArgument, argument), 0, 0},
        fmt::format("drops what {} set; write that one behind it", lost->place().file.text()));
  }
}

void apply_override(Composition& out, const std::string& argument) {
  try {
    const std::size_t edits = out.edits.size();
    const Node over = FileLoader(out).expand(parse_override(argument), "", "");
    Merger(out.edits, out.problems).merge(out.root, over, "");
    check_arguments_stay(out.edits, edits, argument);
  } catch (const ConfigError& error) {
    out.problems.push_back(error.what());
  }
}

Node sound(Composition composition) {
  if (!composition.problems.empty()) throw ConfigError(composition.problems);
  return std::move(composition.root);
}

}  // namespace

Node parse_override(const std::string& argument, const Place& given) {
  const Place place =
      given.file.empty() ? Place{fmt::format("{}{}'", kArgument, argument), 0, 0} : given;
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError(place, "expected key=value");
  }
  std::string path = argument.substr(0, equals);
  Node value = parse_value(argument.substr(equals + 1), place);
  if (std::count(path.begin(), path.end(), '.') >= kLongestPath) {
    throw ConfigError(place, "the key has too many parts");
  }
  while (true) {
    const std::size_t dot = path.rfind('.');
    const std::string key = dot == std::string::npos ? path : path.substr(dot + 1);
    if (key.empty()) throw ConfigError(place, "the key has an empty part");
    Node map = Node::map(place);
    map.set(key, std::move(value));
    map.set_key_place(key, place);
    value = std::move(map);
    if (dot == std::string::npos) return value;
    path.resize(dot);
  }
}

Composition load_composition(const std::string& path) {
  Composition out;
  out.root = Node::map({path, 1, 1});
  try {
    const Node file = FileLoader(out).load(path, {}, "");
    Merger(out.edits, out.problems).merge(out.root, file, "");
  } catch (const ConfigError& error) {
    out.problems.push_back(error.what());
    out.whole = false;
  }
  return out;
}

Composition compose(Composition loaded, const std::vector<std::string>& overrides) {
  Composition& out = loaded;
  for (const std::string& argument : overrides) apply_override(out, argument);
  Problems unresolved;
  interpolate(out.root, unresolved);
  // Where a file is missing, what it holds is too: nobody needs to read that.
  if (out.whole) out.problems.insert(out.problems.end(), unresolved.begin(), unresolved.end());
  return out;
}

Composition compose(const std::string& path, const std::vector<std::string>& overrides) {
  return compose(load_composition(path), overrides);
}

Node compose_file(const std::string& path, const std::vector<std::string>& overrides) {
  return sound(compose(path, overrides));
}

Node compose_file(const Composition& loaded, const std::vector<std::string>& overrides) {
  return sound(compose(loaded, overrides));
}

Node load_file(const std::string& path) { return sound(load_composition(path)); }

}  // namespace attnlab

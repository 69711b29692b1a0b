#include "framework/config/frozen.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/base/files.h"
#include "framework/base/foreign_text.h"
#include "framework/config/compose.h"
#include "framework/config/problems.h"

namespace attnlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRemedy =
    "a run's frozen configuration holds values alone; run it again, or fetch it again from the "
    "person who ran it (a composition of your own stands outside of run folders)";

void find_composing(const Node& node, Problems& problems) {
  if (has_reference(node.text())) {
    add_problem(problems, node.place(), fmt::format("{}: {}", one_line(node.text()), kRemedy));
  }
  for (const Node& item : node.items()) find_composing(item, problems);
  for (const auto& [key, value] : node.entries()) {
    if (key == "extends") {
      add_problem(problems, node.key_place(key), fmt::format("extends: {}", kRemedy));
    }
    find_composing(value, problems);
  }
}

}  // namespace

void refuse_composing(const Node& root) {
  Problems problems;
  find_composing(root, problems);
  if (!problems.empty()) throw ConfigError(problems);
}

bool is_frozen(const std::string& path) {
  const fs::path file(path);
  std::error_code error;
  return file.filename() == "config.yaml" &&
         fs::exists(file.parent_path() / "identity.json", error);
}

Node frozen_tree(const std::string& text, const std::string& file) {
  Node root = parse_yaml(text, file);
  if (!root.is_map()) {
    throw ConfigError({file, 1, 1}, "expected a map at the top, found " + to_flow(root));
  }
  refuse_composing(root);
  interpolate(root);  // `$${` is all that is left
  return root;
}

Node frozen_file(const std::string& path) {
  return frozen_tree(read_text(path, kLargestRecord), path);
}

}  // namespace attnlab

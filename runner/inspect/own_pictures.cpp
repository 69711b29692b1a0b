#include "runner/inspect/own_pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace attnlab {
namespace {

/// Longer side of the largest picture that is drawn on as it is.
constexpr std::int64_t kLongestSide = 8192;

/// One picture as a dataset, in levels from 0 to 1. @param longer_side  that it is resized to
std::shared_ptr<Dataset> one_picture(const std::string& path, std::int64_t longer_side,
                                     Registry& registry) {
  Node options = Node::map();
  options.set("files", list_of({path}));
  options.set("size", Node::scalar(std::to_string(longer_side)));
  for (const auto& [name, value] : {std::pair{"mean", "0"}, {"std", "1"}}) {
    options.set(name, Node::list()).items().assign(3, Node::scalar(value));
  }
  return registry.dataset(part_of(Kind::dataset, "pictures", options, registry.catalogue()),
                          DatasetSetup{});
}

}  // namespace

Node list_of(const Words& words) {
  Node list = Node::list();
  for (const std::string& word : words) list.items().push_back(Node::scalar(word, {}, true));
  return list;
}

Pixels stored_picture(const std::string& path, std::int64_t longer_side, Registry& registry) {
  const auto dataset =
      one_picture(path, std::clamp<std::int64_t>(longer_side, 8, kLongestSide), registry);
  const Tensor levels = dataset->example(Split::test, 0, nullptr).at("image").mul(255).round();
  const Tensor bytes = levels.permute({1, 2, 0}).to(at::kByte).contiguous();
  Pixels pixels(bytes.size(0), bytes.size(1), 3);
  std::copy_n(bytes.data_ptr<std::uint8_t>(), bytes.numel(), pixels.bytes.data());
  return pixels;
}

Pixels stored_picture(const std::string& path, Registry& registry) {
  const NamedTensors small = one_picture(path, 8, registry)->example(Split::test, 0, nullptr);
  return stored_picture(path, small.at("size").max().item<std::int64_t>(), registry);
}

void check_writes_over_none(const std::string& given, const OutputPath& drawing,
                            const Words& pictures, const char* remedy) {
  for (const std::string& picture : pictures) {
    std::error_code missing;  // what is not there yet is not an input
    if (!std::filesystem::equivalent(drawing.whole, picture, missing)) continue;
    throw ConfigError(fmt::format("--out {}: would write over {}; {}", given, picture, remedy));
  }
}

}  // namespace attnlab

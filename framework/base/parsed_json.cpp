#include "framework/base/parsed_json.h"

#include <algorithm>

#include "framework/base/byte_order_mark.h"
#include "framework/base/json_walk.h"

namespace attnlab {
namespace {

constexpr int kDeepestJson = 100;

class NestingCheck final : public JsonWalk {
  bool opened(int depth) override {
    if (depth <= kDeepestJson) return true;
    throw nlohmann::json::other_error::create(501, "nested more than 100 levels deep",
                                              static_cast<const nlohmann::json*>(nullptr));
  }
};

}  // namespace

nlohmann::json parsed_json(std::string_view text) {
  const std::string wrong = wrong_encoding(text);
  if (!wrong.empty()) {
    throw nlohmann::json::other_error::create(501, wrong,
                                              static_cast<const nlohmann::json*>(nullptr));
  }
  // Most texts have too few brackets for that, and are read once.
  if (std::count_if(text.begin(), text.end(), [](char c) { return c == '{' || c == '['; }) >
      kDeepestJson) {
    NestingCheck check;
    nlohmann::json::sax_parse(text, &check);
  }
  return nlohmann::json::parse(text);
}

nlohmann::json parsed_json_file(const std::string& path, std::uint64_t most) {
  return parsed_json(read_text(path, most));
}

}  // namespace attnlab

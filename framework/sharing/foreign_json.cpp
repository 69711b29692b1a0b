#include "framework/sharing/foreign_json.h"

#include <fmt/format.h>

#include "framework/base/json_walk.h"
#include "framework/sharing/lines.h"

namespace attnlab::sharing {
namespace {

using nlohmann::json;

/// Counts what a text holds before it is kept.
class Count final : public JsonWalk {
  bool event() override {
    constexpr std::size_t kMost = 3'000'000;  // a list of 100,000 files has a third of them
    if (++events_ > kMost) throw BundleError("JSON holds more values than it may");
    return true;
  }
  bool opened(int depth) override {
    constexpr int kDeepest = 32;
    if (depth > kDeepest) throw BundleError("JSON is nested more than 32 levels deep");
    return true;
  }

  std::size_t events_ = 0;  ///< values, keys, begins and ends
};

}  // namespace

json parse_json(std::string_view text, std::size_t largest) {
  if (text.size() > largest) {
    throw BundleError(
        fmt::format("JSON of {} bytes, which may have {} here", text.size(), largest));
  }
  unmarked(text);  // refuses UTF-16; the parser passes over a mark of UTF-8
  Count count;
  json::sax_parse(text, &count);
  return json::parse(text);
}

}  // namespace attnlab::sharing

#include "framework/sharing/foreign_json.h"

#include <fmt/format.h>

#include <string>

namespace attnlab::sharing {
namespace {

using nlohmann::json;

/// Counts what a text holds without keeping it. (A callback of the parser's would see the same, but
/// with one it looks at all elements of a list behind each of them.)
class Count final : public json::json_sax_t {
 public:
  bool null() override { return one(); }
  bool boolean(bool) override { return one(); }
  bool number_integer(number_integer_t) override { return one(); }
  bool number_unsigned(number_unsigned_t) override { return one(); }
  bool number_float(number_float_t, const string_t&) override { return one(); }
  bool string(string_t&) override { return one(); }
  bool binary(binary_t&) override { return one(); }
  bool key(string_t&) override { return one(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  /// The parser that keeps what it reads says it better.
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    return false;
  }

 private:
  bool one() {
    constexpr std::size_t kMost = 3'000'000;  // a list of 100,000 files has a third of them
    if (++events_ > kMost) throw BundleError("JSON holds more values than it may");
    return true;
  }
  bool open() {
    constexpr int kDeepest = 32;
    if (++depth_ > kDeepest) throw BundleError("JSON is nested more than 32 levels deep");
    return one();
  }
  bool close() {
    --depth_;
    return one();
  }

  std::size_t events_ = 0;  ///< values, keys, begins and ends
  int depth_ = 0;
};

}  // namespace

json parse_json(std::string_view text, std::size_t largest) {
  if (text.size() > largest) {
    throw BundleError(
        fmt::format("JSON of {} bytes, which may have {} here", text.size(), largest));
  }
  Count count;
  json::sax_parse(text, &count);
  return json::parse(text);
}

}  // namespace attnlab::sharing

// Looking through a JSON text before anything is built of it.
#pragma once

#include <cstddef>
#include <string>

#include "framework/base/json.h"

namespace attnlab {

/// What json::sax_parse calls for a text, keeping nothing of it. (A callback of json::parse sees
/// the same, but behind each map it looks at all that the parent holds so far: quadratic time.)
class JsonWalk : public nlohmann::json::json_sax_t {
 public:
  bool null() override { return event(); }
  bool boolean(bool) override { return event(); }
  bool number_integer(number_integer_t) override { return event(); }
  bool number_unsigned(number_unsigned_t) override { return event(); }
  bool number_float(number_float_t, const string_t&) override { return event(); }
  bool string(string_t&) override { return event(); }
  bool binary(binary_t&) override { return event(); }
  bool key(string_t&) override { return event(); }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  /// The parser that keeps what it reads says it better.
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 protected:
  int depth() const { return depth_; }
  /// Of each value, key, begin and end. @returns false to walk no further
  virtual bool event() { return true; }
  /// Of each begin. @param depth  how many maps and lists are open now
  virtual bool opened(int /*depth*/) { return true; }

 private:
  bool open() { return opened(++depth_) && event(); }
  bool close() {
    --depth_;
    return event();
  }

  int depth_ = 0;
};

}  // namespace attnlab

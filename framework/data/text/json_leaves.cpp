#include "framework/data/text/json_leaves.h"

#include <fmt/format.h>

#include <iterator>

#include "framework/base/foreign_text.h"
#include "framework/data/formats/encoding.h"

namespace attnlab {
namespace {

constexpr std::size_t kDeepest = 100;

/// Letters of a text; how many were read is counted.
class Counted {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Counted(const char* at, std::size_t* count) : at_(at), count_(count) {}
  reference operator*() const { return *at_; }
  Counted& operator++() {
    ++at_;
    ++*count_;
    return *this;
  }
  bool operator==(const Counted& other) const { return at_ == other.at_; }
  bool operator!=(const Counted& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* count_;
};

class LeafWalk final : public nlohmann::json::json_sax_t {
 public:
  LeafWalk(const TextPiece& file, const std::function<void(const JsonLeaf&)>& use)
      : file_(file), use_(use) {}

  void walk() {
    const std::string_view text = file_.text;
    without_mark(text, file_.path);  // refuses UTF-16
    nlohmann::json::sax_parse(Counted(text.data(), &read_),
                              Counted(text.data() + text.size(), &read_), this);
  }

  bool null() override { return leaf(nullptr); }
  bool boolean(bool value) override { return leaf(value); }
  bool number_integer(number_integer_t value) override { return leaf(value); }
  bool number_unsigned(number_unsigned_t value) override { return leaf(value); }
  bool number_float(number_float_t value, const string_t&) override { return leaf(value); }
  bool string(string_t& value) override { return leaf(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool key(string_t& name) override {
    path_.back() = std::move(name);
    return true;
  }
  bool start_object(std::size_t) override { return open(/*list=*/false); }
  bool start_array(std::size_t) override { return open(/*list=*/true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::json::exception& error) override {
    throw DataError(fmt::format("{}: is not sound JSON ({}); fetch the file again", place(),
                                one_line(error.what())));
  }

 private:
  /// The lexer has looked at the letter behind a number.
  std::size_t at() const { return read_ == 0 ? 0 : read_ - 1; }
  std::string place() const { return file_.place(at()); }

  bool leaf(const nlohmann::json& value) {
    name_place();
    use_({path_, value, at()});
    return true;
  }
  bool open(bool list) {
    name_place();
    if (path_.size() == kDeepest) {
      throw DataError(place() + ": is nested more than 100 levels deep; fetch the file again");
    }
    path_.emplace_back();
    next_.push_back(list ? 0 : kMap);
    return true;
  }
  bool close() {
    path_.pop_back();
    next_.pop_back();
    return true;
  }
  /// In a list, a value's place is its name.
  void name_place() {
    if (!next_.empty() && next_.back() != kMap) path_.back() = std::to_string(next_.back()++);
  }

  static constexpr std::size_t kMap = static_cast<std::size_t>(-1);

  const TextPiece& file_;
  const std::function<void(const JsonLeaf&)>& use_;
  std::size_t read_ = 0;
  std::vector<std::string> path_;
  std::vector<std::size_t> next_;  ///< of each open list; kMap: of a map
};

}  // namespace

void each_leaf(const TextPiece& file, const std::function<void(const JsonLeaf&)>& use) {
  LeafWalk(file, use).walk();
}

}  // namespace attnlab

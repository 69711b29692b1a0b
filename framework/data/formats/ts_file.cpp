// The .ts format: see the header.
#include "framework/data/formats/ts_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/data/formats/encoding.h"
#include "framework/data/formats/files.h"

namespace attnlab {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
const std::vector<std::string> kDirectives = {
    "@problemname", "@timestamps",   "@missing",    "@univariate",  "@dimensions", "@dimension",
    "@equallength", "@serieslength", "@classlabel", "@targetlabel", "@data"};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return out;
}

/// What the header says; absent where it does not.
struct TsHeader {
  std::set<std::string> seen;
  std::optional<bool> univariate, equal_length;
  std::optional<std::int64_t> dimensions, length;
};

class Parser {
 public:
  Parser(std::string_view text, const std::string& path)
      : text_(without_mark(text, path)), path_(path) {}

  TsFile parse() {
    bool in_data = false;
    while (next_line()) {
      if (line_.empty() || line_.front() == '#' || line_.front() == '%') continue;
      if (line_.front() == '@') {
        if (in_data) fail(line_.data(), "a directive below @data; move it above");
        in_data = read_directive();
      } else if (!in_data) {
        fail(
            line_.data(),
            fmt::format("found {} before @data; the header has comments and directives (@...) only",
                        excerpt(line_)));
      } else {
        read_case();
      }
    }
    if (!in_data) fail_at_end("the file ends before @data; fetch it again");
    if (file_.cases() == 0) fail_at_end("there are no cases below @data; fetch the file again");
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(const char* where, const std::string& what) const {
    throw DataError(fmt::format("{}:{}:{}: {}", path_, number_, where - begin_ + 1, what));
  }
  [[noreturn]] void fail_at_end(const std::string& what) const {
    throw DataError(fmt::format("{}:{}: {}", path_, std::max<std::int64_t>(number_, 1), what));
  }

  /// Moves on to the next line. Its blanks at both ends are left out.
  bool next_line() {
    if (text_.empty()) return false;
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    begin_ = text_.data();
    line_ = trimmed(text_.substr(0, end));
    if (line_.empty()) line_ = {begin_, 0};
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++number_;
    return true;
  }

  /// @returns whether it was @data.
  bool read_directive() {
    std::vector<std::string_view> words;
    for (std::string_view rest = line_; !rest.empty(); rest = trimmed(rest)) {
      const std::size_t end = std::min(rest.find_first_of(" \t\r\f\v"), rest.size());
      words.push_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    const std::string name = lower(words[0]);
    if (std::find(kDirectives.begin(), kDirectives.end(), name) == kDirectives.end()) {
      fail(line_.data(),
           fmt::format("unknown directive {}{}", excerpt(words[0]), suggestion(name, kDirectives)));
    }
    if (!header_.seen.insert(name == "@dimension" ? "@dimensions" : name).second) {
      fail(line_.data(), std::string(words[0]) + " stands twice; remove one");
    }
    if (name == "@data") {
      check_header();
      return true;
    }
    if (words.size() < 2 && name != "@problemname") {
      fail(line_.data() + line_.size(), std::string(words[0]) + ": a value must follow");
    }
    take(name, words);
    return false;
  }

  void take(const std::string& name, const std::vector<std::string_view>& words) {
    if (name == "@problemname") {
      file_.problem = trimmed(line_.substr(words[0].size()));
    } else if (name == "@classlabel") {
      take_classes(words);
    } else if (name == "@timestamps") {
      if (truth(words[1])) {
        fail(words[1].data(),
             "the cases have time stamps, which are not supported: series must be evenly sampled; "
             "resample them and write values alone (@timeStamps false)");
      }
    } else if (name == "@targetlabel") {
      file_.has_targets = truth(words[1]);
    } else if (name == "@univariate") {
      header_.univariate = truth(words[1]);
    } else if (name == "@equallength") {
      header_.equal_length = truth(words[1]);
    } else if (name == "@missing") {
      truth(words[1]);  // what is missing shows in the data
    } else if (name == "@serieslength") {
      header_.length = count(words[1]);
    } else {
      header_.dimensions = count(words[1]);
    }
    if (words.size() > 2 && name != "@classlabel" && name != "@problemname") {
      fail(words[2].data(),
           fmt::format("found {} after the value of {}; remove it", excerpt(words[2]), words[0]));
    }
  }

  void take_classes(const std::vector<std::string_view>& words) {
    if (!truth(words[1])) {
      if (words.size() == 2) return;
      fail(words[2].data(), "@classLabel false, yet labels follow; write true, or no labels");
    }
    if (words.size() == 2) {
      fail(line_.data() + line_.size(), "@classLabel true: the labels must follow it");
    }
    for (std::size_t i = 2; i < words.size(); ++i) {
      const auto index = static_cast<std::int64_t>(file_.classes.size());
      if (!class_index_.emplace(words[i], index).second) {
        fail(words[i].data(),
             fmt::format("the label {} stands twice; remove one", excerpt(words[i])));
      }
      class_by_lower_.emplace(lower(words[i]), index);
      file_.classes.emplace_back(words[i]);
    }
  }

  bool truth(std::string_view word) const {
    const std::string value = lower(word);
    if (value != "true" && value != "false") {
      fail(word.data(), "expected true or false, found " + excerpt(word));
    }
    return value == "true";
  }

  std::int64_t count(std::string_view word) const {
    const auto value = parsed_number<std::int64_t>(word);
    if (!value || *value < 1) {
      fail(word.data(), "expected a whole number from 1 on, found " + excerpt(word));
    }
    return *value;
  }

  void check_header() {
    if (header_.seen.count("@classlabel") + header_.seen.count("@targetlabel") == 0) {
      fail(line_.data(),
           "the header has neither @classLabel nor @targetLabel; add @classLabel true with the "
           "labels, or false where there are none");
    }
    if (!file_.classes.empty() && file_.has_targets) {
      fail(line_.data(), "@classLabel true and @targetLabel true; a case has one or the other");
    }
    if (header_.univariate == true && header_.dimensions.value_or(1) != 1) {
      fail(line_.data(), fmt::format("@univariate true, yet @dimensions {}; correct one of them",
                                     *header_.dimensions));
    }
    file_.channels = header_.univariate == true ? 1 : header_.dimensions.value_or(0);
    file_.offsets.push_back(0);
    file_.values.reserve(text_.size() / 8);  // a guess at how many characters a number takes
  }

  bool labelled() const { return !file_.classes.empty() || file_.has_targets; }

  void read_case() {
    const char* const end = line_.data() + line_.size();
    if (file_.channels == 0) {  // the first case of a file without @dimensions decides
      file_.channels = std::count(line_.begin(), line_.end(), ':') + (labelled() ? 0 : 1);
      if (file_.channels == 0) fail(end, no_label());
    }
    const char* p = line_.data();
    for (std::int64_t channel = 0; channel < file_.channels; ++channel) {
      if (channel > 0) ++p;  // the colon
      p = read_channel(p, end);
      const bool more = channel + 1 < file_.channels || labelled();
      if (more && p == end) {
        fail(end, channel + 1 == file_.channels ? no_label() : wrong_channels(channel + 1));
      }
      check_length(channel);
    }
    if (labelled()) {
      read_label({p + 1, end});
    } else if (p != end) {
      fail(p, wrong_channels(file_.channels + 1) + ", or say in the header what the labels are");
    }
    if (file_.length(file_.cases() - 1) == 0) {
      fail(line_.data(), "the case has no values in any channel; remove it");
    }
  }

  std::string no_label() const {
    return "the line ends where ':' and the label should follow; it is cut off, or the header "
           "should say that there are no labels";
  }
  std::string wrong_channels(std::int64_t found) const {
    return fmt::format(
        "expected {} channels (@dimensions, or the first case), found {}; the line is damaged, or "
        "the header is wrong",
        file_.channels, found > file_.channels ? "more" : std::to_string(found));
  }

  void check_length(std::int64_t channel) {
    const auto length = static_cast<std::int64_t>(file_.values.size()) - file_.offsets.back();
    file_.offsets.push_back(static_cast<std::int64_t>(file_.values.size()));
    if (header_.equal_length != true) return;
    if (!header_.length) header_.length = length;
    if (length == *header_.length) return;
    fail(line_.data(), fmt::format("channel {} has {} values, and @equalLength is true with {}; "
                                   "the line is damaged, or the header is wrong",
                                   channel + 1, length, *header_.length));
  }

  static const char* skip_blanks(const char* p, const char* end) {
    while (p != end && is_blank(*p)) ++p;
    return p;
  }

  /// Numbers up to a colon or the line's end. @returns where it stopped.
  const char* read_channel(const char* p, const char* end) {
    p = skip_blanks(p, end);
    if (p == end || *p == ':') return p;
    while (true) {
      p = read_number(p, end);
      if (p == end || *p == ':') return p;
      if (*p != ',') fail(p, "expected ',' or ':' after a number, found " + excerpt({p, end}));
      p = skip_blanks(p + 1, end);
      if (p == end || *p == ':' || *p == ',') {
        fail(p, "a number is missing after ','; a missing value is written '?'");
      }
    }
  }

  const char* read_number(const char* p, const char* end) {
    float value = kMissing;
    if (*p == '?') {
      ++p;
    } else {
      if (*p == '+' && p + 1 != end && p[1] != '-') ++p;
      const auto [after, error] = std::from_chars(p, end, value);
      if (error == std::errc::invalid_argument) refuse_number(p, end);
      if (error == std::errc::result_out_of_range) value = far_number(p, after);
      if (std::isinf(value)) fail(p, "infinity is not a value; a missing value is written '?'");
      p = after;
    }
    file_.values.push_back(value);
    return p != end && is_blank(*p) ? skip_blanks(p, end) : p;
  }

  [[noreturn]] void refuse_number(const char* p, const char* end) const {
    if (*p == '(') {
      fail(p,
           "found '(': time stamps, which are not supported; resample the series to even steps "
           "and write values alone");
    }
    fail(p, "expected a number, '?' or ':', found " + excerpt({p, end}));
  }

  /// A number that is not a float: too large is an error, too small is zero.
  float far_number(const char* p, const char* after) const {
    double value = 0;
    const auto error = std::from_chars(p, after, value).ec;
    if (error == std::errc() && std::abs(value) < 1) return 0;
    const std::string_view digits(p, after);
    const std::size_t exponent = digits.find_first_of("eE");
    if (error != std::errc() && exponent != std::string_view::npos &&
        digits.substr(exponent + 1, 1) == "-") {
      return 0;
    }
    fail(p, excerpt(digits) + " is too large for a 32-bit number; rescale the channel");
  }

  void read_label(std::string_view text) {
    const std::string_view word = trimmed(text);
    if (file_.has_targets) {
      const auto value = parsed_number<double>(word);
      if (!value || !std::isfinite(*value)) {
        fail(text.data(), "expected a number as the target, found " + excerpt(word));
      }
      if (std::abs(*value) > FLT_MAX) {
        fail(text.data(), excerpt(word) + " does not fit in float32; rescale the targets");
      }
      file_.targets.push_back(*value);
      return;
    }
    auto found = class_index_.find(std::string(word));
    if (found == class_index_.end()) {
      found = class_by_lower_.find(lower(word));
      if (found == class_by_lower_.end()) refuse_label(text, word);
    }
    file_.labels.push_back(found->second);
  }

  [[noreturn]] void refuse_label(std::string_view text, std::string_view word) const {
    if (word.find(':') != std::string_view::npos) {
      fail(text.data(), wrong_channels(file_.channels + 1));
    }
    fail(text.data(), fmt::format("the label {} is not one of @classLabel's{}; the line is "
                                  "damaged, or the header is wrong",
                                  excerpt(word), suggestion(std::string(word), file_.classes)));
  }

  std::string_view text_;  ///< what is still to be read
  const std::string& path_;
  std::string_view line_;
  const char* begin_ = nullptr;  ///< of the line, blanks included
  std::int64_t number_ = 0;      ///< of the line
  TsHeader header_;
  std::unordered_map<std::string, std::int64_t> class_index_, class_by_lower_;
  TsFile file_;
};

}  // namespace

std::int64_t TsFile::cases() const {
  if (channels == 0 || offsets.empty()) return 0;
  return (static_cast<std::int64_t>(offsets.size()) - 1) / channels;
}

std::int64_t TsFile::length(std::int64_t index, std::int64_t channel) const {
  const auto at = static_cast<std::size_t>(index * channels + channel);
  return offsets[at + 1] - offsets[at];
}

std::int64_t TsFile::length(std::int64_t index) const {
  std::int64_t longest = 0;
  for (std::int64_t c = 0; c < channels; ++c) longest = std::max(longest, length(index, c));
  return longest;
}

TsFile parse_ts(std::string_view text, const std::string& path) {
  return Parser(text, path).parse();
}

TsFile read_ts(const std::string& path) { return parse_ts(read_data_file(path), path); }

}  // namespace attnlab

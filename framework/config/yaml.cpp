// Reading YAML into nodes through yaml-cpp's events: its own nodes lose places.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "framework/base/byte_order_mark.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "framework/base/unicode.h"
#include "framework/config/compose.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostNodes = 1'000'000;  // stops nested aliases from filling the memory
constexpr std::size_t kTextOfANode = 64;       // bytes
constexpr std::size_t kMostProblems = 20;      // of one file; more would hide the first
constexpr std::size_t kMostKeys = 2'000;       // of one map, which is searched from end to end
constexpr std::size_t kDeepest = 100;          // maps and lists around a value
constexpr std::string_view kMustBeGiven = "???";

/// Anchors and tags.
enum class Marks { work, are_refused };

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

/// yaml-cpp would guess at another encoding, or keep what is not UTF-8; and a zero byte confuses
/// it.
/// @param place  where the text begins; without a line: what all of it carries
void check_text(std::string_view text, Place place) {
  const bool counts = place.line > 0;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    if (size == 0) {
      throw ConfigError(place, fmt::format("this is not UTF-8; {} in that encoding",
                                           counts ? "save the file" : "give it"));
    }
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x20 && first != '\t' && first != '\n' && first != '\r') {
      throw ConfigError(place, "a control character; YAML has none");
    }
    if (counts) place.column += static_cast<int>(size);
    if (counts && text[0] == '\n') place = {place.file, place.line + 1, 1};
    text.remove_prefix(size);
  }
}

/// yaml-cpp takes the `?` of `{x: ???}` for the sign of a key. So it reads one character of
/// Unicode's private range in its place, as many bytes long that columns stay right.
/// @returns one that the text does not hold; empty when it holds all that were tried.
std::string stand_in_for_must_be_given(const std::string& text) {
  for (int i = 0; i < 64; ++i) {
    std::string candidate = {'\xEE', '\x80', static_cast<char>(0x80 + i)};
    if (text.find(candidate) == std::string::npos) return candidate;
  }
  return "";
}

class TreeBuilder : public YAML::EventHandler {
 public:
  /// @param stand_in  what stands for `???` in the text; empty: nothing does
  TreeBuilder(std::string file, std::string stand_in, Marks marks)
      : file_(std::move(file)), stand_in_(std::move(stand_in)), marks_(marks) {
    root_.set_place({file_, 1, 1});  // of an empty document
  }

  /// @throws ConfigError with every problem that did not keep the text from being read.
  Node take() {
    if (!problems_.empty()) throw ConfigError(problems_);
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.set_place(place(mark));
    add(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) {
      throw ConfigError(place(mark), "an alias cannot stand inside what it names");
    }
    add(target->second, 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_marks(mark, tag, anchor);
    std::string text = value;
    // yaml-cpp makes bytes of `\N` and `\_` that are not UTF-8.
    if (!is_utf8(text)) {
      problem(place(mark), "the escapes \\N and \\_ cannot be read; write \\u0085 and \\u00a0");
      text.clear();
    }
    if (!stand_in_.empty()) replace_all(text, stand_in_, kMustBeGiven);
    const bool quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    add(Node::scalar(std::move(text), place(mark), quoted), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    check_marks(mark, tag, anchor);
    open({Node::list(place(mark)), anchor, {}, {}});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check_marks(mark, tag, anchor);
    open({Node::map(place(mark)), anchor, {}, {}});
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor;
    std::string key;
    bool has_key = false;
  };

  /// @param tag  "?" of a value that has none, "!" of one in quotes
  void check_marks(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    const bool tagged = !tag.empty() && tag != "?" && tag != "!";
    if (marks_ == Marks::work || (anchor == 0 && !tagged)) return;
    throw ConfigError(place(mark), anchor != 0 ? "'&' begins an anchor" : "'!' begins a tag");
  }

  void open(Open inner) {
    if (open_.size() == kDeepest) {
      throw ConfigError(
          inner.node.place(),
          fmt::format("nested deeper than {} maps and lists; make it flatter", kDeepest));
    }
    open_.push_back(std::move(inner));
  }

  Place place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  /// A long text counts as several: an alias copies it, too.
  static std::size_t count(const Node& node) {
    std::size_t nodes = 1 + node.text().size() / kTextOfANode;
    for (const Node& item : node.items()) nodes += count(item);
    for (const auto& [key, value] : node.entries()) nodes += count(value);
    return nodes;
  }

  void add(Node node, YAML::anchor_t anchor) {
    nodes_ += anchors_.empty() ? 1 : count(node);
    if (nodes_ > kMostNodes) throw ConfigError(node.place(), "too many values (nested aliases?)");
    if (anchor != 0) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.is_list()) {
      parent.node.items().push_back(std::move(node));
    } else if (!parent.has_key) {
      take_key(parent, node);
    } else {
      parent.node.set(parent.key, std::move(node));
      parent.has_key = false;
    }
  }

  void problem(const Place& place, const std::string& what) {
    if (problems_.size() < kMostProblems)
      problems_.push_back(fmt::format("{}: {}", place.str(), what));
  }

  void take_key(Open& parent, const Node& key) {
    parent.key = key.text();
    parent.has_key = true;
    if (!key.is_scalar()) {
      problem(key.place(), "a key must be a plain word");
      return;
    }
    if (parent.node.entries().size() == kMostKeys) {
      throw ConfigError(key.place(), fmt::format("a map has at most {} keys; split it", kMostKeys));
    }
    if (parent.node.find(key.text()) != nullptr) {
      problem(key.place(), fmt::format("the key '{}' stands here twice; the first is {}",
                                       key.text(), parent.node.key_place(key.text()).str()));
      return;
    }
    if (key.text() == "<<" && !key.quoted()) {
      problem(key.place(), "the merge key '<<' is not of YAML 1.2; use extends: FILE");
    }
    parent.node.set_key_place(key.text(), key.place());
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  FileName file_;
  std::string stand_in_;
  Marks marks_;
  Node root_;
  std::vector<std::string> problems_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0;
};

Node parse_document(std::string text, const std::string& file, Marks marks = Marks::work) {
  std::string stand_in;
  if (text.find(kMustBeGiven) != std::string::npos) stand_in = stand_in_for_must_be_given(text);
  if (!stand_in.empty()) replace_all(text, kMustBeGiven, stand_in);
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  TreeBuilder builder(file, stand_in, marks);
  parser.HandleNextDocument(builder);
  TreeBuilder more(file, stand_in, marks);
  if (parser.HandleNextDocument(more)) {
    throw ConfigError({file, 0, 0}, "holds more than one YAML document; keep one");
  }
  return builder.take();
}

/// yaml-cpp takes a newline at the end of a file for a closing quote, so a forgotten quote would
/// swallow the rest of the file. Without the newline it notices.
void refuse_open_quote(const std::string& text, const std::string& file) {
  if (text.find_first_of("'\"") == std::string::npos) return;
  try {
    parse_document(text.substr(0, text.find_last_not_of(" \t\r\n") + 1), file);
  } catch (const YAML::Exception& error) {
    if (error.msg == YAML::ErrorMsg::EOF_IN_SCALAR) throw;
  }
}

void set_places(Node& node, const Place& place) {
  node.set_place(place);
  for (Node& item : node.items()) set_places(item, place);
  for (auto& [key, value] : node.entries()) {
    set_places(value, place);
    node.set_key_place(key, place);
  }
}

/// A list, a map, or a text in quotes. It is read as the only item of a list, so that what stands
/// behind it, and a comment, which would hide the end of that list, are errors.
Node parse_delimited(std::string_view text) {
  try {
    Node list = parse_document(fmt::format("[{}]", text), "", Marks::are_refused);
    if (list.items().size() != 1) throw ConfigError("more stands behind it");
    return std::move(list.items()[0]);
  } catch (const YAML::Exception& error) {
    const bool ends = error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW ||
                      error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW ||
                      error.msg == YAML::ErrorMsg::FLOW_END ||
                      error.msg == YAML::ErrorMsg::EOF_IN_SCALAR;
    throw ConfigError(ends ? "a bracket, a brace or a quote is not closed" : error.msg);
  }
}

/// A word, a number, nothing, or a text. A text keeps its blanks.
Node parse_plain(std::string_view text) {
  const std::string_view word = trimmed(text);
  if (word.empty() || word == "null" || word == "Null" || word == "NULL" || word == "~") return {};
  Node node = Node::scalar(std::string(word));
  return node.as_bool() || node.as_double() ? node : Node::scalar(std::string(text));
}

}  // namespace

Node parse_value(const std::string& text, const Place& place) {
  check_text(text, place);
  const std::string_view bare = trimmed(text);
  Node value;
  if (!bare.empty() && std::string_view("[{'\"").find(bare.front()) != std::string_view::npos) {
    try {
      value = parse_delimited(bare);
    } catch (const ConfigError& error) {
      throw ConfigError(place,
                        fmt::format("{}: {}; put a text that holds signs such as # [ {{ & in "
                                    "quotes",
                                    one_line(bare, 100), error.what()));
    }
  } else {
    value = parse_plain(text);
  }
  set_places(value, place);
  return value;
}

Node parse_yaml(const std::string& given, const std::string& file) {
  const std::string wrong = wrong_encoding(given);
  if (!wrong.empty()) throw ConfigError({file, 1, 1}, wrong);
  const std::string text(without_mark(given));
  check_text(text, {file, 1, 1});
  try {
    Node root = parse_document(text, file);
    refuse_open_quote(text, file);
    return root;
  } catch (const YAML::Exception& error) {
    throw ConfigError({file, error.mark.line + 1, error.mark.column + 1}, error.msg);
  }
}

}  // namespace attnlab

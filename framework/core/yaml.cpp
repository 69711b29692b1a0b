// Reading YAML into nodes through yaml-cpp's events: its own nodes lose places.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <set>
#include <sstream>

#include "framework/core/compose.h"

namespace attnlab {
namespace {

constexpr std::size_t kMostNodes = 1'000'000;  // stops nested aliases from filling the memory

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  Node take() { return std::move(root_); }

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
    add(Node::scalar(value, place(mark), tag == "!" || tag == "tag:yaml.org,2002:str"), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back({Node::list(place(mark)), anchor, {}, {}});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back({Node::map(place(mark)), anchor, {}, {}});
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor;
    std::string key;
    bool has_key = false;
  };

  Place place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  static std::size_t count(const Node& node) {
    std::size_t nodes = 1;
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

  static void take_key(Open& parent, const Node& key) {
    if (!key.is_scalar()) throw ConfigError(key.place(), "a key must be a plain word");
    if (parent.node.find(key.text()) != nullptr) {
      throw ConfigError(key.place(), "the key '" + key.text() +
                                         "' stands here twice; the first is " +
                                         parent.node.key_place(key.text()).str());
    }
    parent.key = key.text();
    parent.has_key = true;
    parent.node.set_key_place(key.text(), key.place());
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  std::string file_;
  Node root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0;
};

Node parse_document(const std::string& text, const std::string& file) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  TreeBuilder builder(file);
  parser.HandleNextDocument(builder);
  TreeBuilder more(file);
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

}  // namespace

Node parse_yaml(const std::string& text, const std::string& file) {
  try {
    Node root = parse_document(text, file);
    refuse_open_quote(text, file);
    return root;
  } catch (const YAML::Exception& error) {
    throw ConfigError({file, error.mark.line + 1, error.mark.column + 1}, error.msg);
  }
}

}  // namespace attnlab

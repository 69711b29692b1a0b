// Laws of merging, on random trees. Cases come in rising size, so that the first one that breaks a
// law is about as small as one that does; it is printed with its number.
#include <functional>
#include <map>
#include <set>

#include "framework/base/random.h"
#include "tests/support/compositions.h"

namespace attnlab::merge_laws_test {
namespace {

using namespace testing;

constexpr int kLargest = 8;
constexpr int kCasesOfASize = 150;

/// Random trees in which a key is always a map, always a list or never either, as with a schema:
/// m* hold maps, l* lists, the others single values.
class Trees {
 public:
  Trees(std::uint64_t seed, int size) : random_(seed), size_(size) {}

  Node map(int depth = 0) {
    Node map = Node::map();
    for (int i = below(size_); i >= 0; --i) {
      const char kind = "mls"[depth < 3 ? below(3) : 1 + below(2)];
      const std::string key = kind + std::to_string(below(3));
      map.set(key, kind == 'm' ? this->map(depth + 1) : kind == 'l' ? list() : single());
    }
    return map;
  }
  Node list() {
    Node list = Node::list();
    for (int i = below(4); i > 0; --i) list.items().push_back(single());
    return list;
  }
  Node single() { return Node::scalar(std::to_string(below(5))); }
  int below(int bound) { return static_cast<int>(random_.below(bound)); }

 private:
  Random random_;
  int size_;
};

/// Calls a law with each case until one breaks it.
void for_all(const std::function<void(Trees&)>& law) {
  for (int size = 1; size <= kLargest; ++size) {
    for (int number = 0; number < kCasesOfASize; ++number) {
      SCOPED_TRACE("size " + std::to_string(size) + ", case " + std::to_string(number));
      Trees trees(static_cast<std::uint64_t>(size * kCasesOfASize + number), size);
      law(trees);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

/// A tree as a file would give it, so that every value has its place.
Node in_file(const Node& tree, const std::string& file) { return parse_yaml(to_yaml(tree), file); }

Node merged(Node base, const Node& over) {
  merge(base, over);
  return base;
}

Node map_of(const std::string& key, Node value) {
  Node map = Node::map();
  map.set(key, std::move(value));
  return map;
}

/// Equal texts for equal values, whatever the order of keys.
std::string canonical(const Node& node) {
  if (!node.is_map()) return to_flow(node);
  std::map<std::string, std::string> entries;
  for (const auto& [key, value] : node.entries()) entries[key] = canonical(value);
  std::string text = "{";
  for (const auto& [key, value] : entries) text += key + ": " + value + "; ";
  return text + "}";
}

using Visit = std::function<void(const std::string& key, const Node& value)>;

void for_each_value(const Node& node, const Visit& visit, const std::string& key = "") {
  if (!node.is_map()) return visit(key, node);
  for (const auto& [name, value] : node.entries()) {
    for_each_value(value, visit, key.empty() ? name : key + "." + name);
  }
}

TEST(MergeLaws, AnEmptyMapChangesNothingOnEitherSide) {
  for_all([](Trees& trees) {
    const Node tree = trees.map();
    EXPECT_EQ(to_flow(merged(tree, Node::map())), to_flow(tree));
    EXPECT_EQ(to_flow(merged(Node::map(), tree)), to_flow(tree));
  });
}

TEST(MergeLaws, TheLastValueWinsAndNothingElseIsLost) {
  for_all([](Trees& trees) {
    const Node base = trees.map(), over = trees.map();
    const Node both = merged(base, over);
    for_each_value(over, [&](const std::string& key, const Node& value) {
      ASSERT_NE(find_key(both, key), nullptr) << key;
      EXPECT_EQ(to_flow(*find_key(both, key)), to_flow(value)) << key;
    });
    for_each_value(base, [&](const std::string& key, const Node& value) {
      if (find_key(over, key) != nullptr) return;
      ASSERT_NE(find_key(both, key), nullptr) << key;
      EXPECT_EQ(to_flow(*find_key(both, key)), to_flow(value)) << key;
    });
    for_each_value(both, [&](const std::string& key, const Node&) {
      EXPECT_TRUE(find_key(base, key) != nullptr || find_key(over, key) != nullptr) << key;
    });
  });
}

TEST(MergeLaws, GroupingDoesNotMatterAndRepeatingNeither) {
  for_all([](Trees& trees) {
    const Node a = trees.map(), b = trees.map(), c = trees.map();
    EXPECT_EQ(canonical(merged(merged(a, b), c)), canonical(merged(a, merged(b, c))))
        << to_flow(a) << "\n"
        << to_flow(b) << "\n"
        << to_flow(c);
    EXPECT_EQ(to_flow(merged(merged(a, b), b)), to_flow(merged(a, b)));
  });
}

TEST(MergeLaws, AppendingTwiceIsAppendingBoth) {
  for_all([](Trees& trees) {
    const Node base = map_of("l", trees.list());
    const Node first = trees.list(), second = trees.list();
    Node both = first;
    both.items().insert(both.items().end(), second.items().begin(), second.items().end());
    EXPECT_EQ(to_flow(merged(merged(base, map_of("l+", first)), map_of("l+", second))),
              to_flow(merged(base, map_of("l+", both))));
    EXPECT_EQ(to_flow(merged(Node::map(), map_of("l+", first))), to_flow(map_of("l", first)));
  });
}

TEST(MergeLaws, RemovingUndoesAppendingOfWhatWasNotThere) {
  for_all([](Trees& trees) {
    const Node base = map_of("l", trees.list());
    Node added = trees.list();
    for (Node& item : added.items()) item = Node::scalar("new" + item.text());
    std::set<std::string> seen;
    std::erase_if(added.items(),
                  [&](const Node& item) { return !seen.insert(item.text()).second; });
    const Node longer = merged(base, map_of("l+", added));
    EXPECT_EQ(longer.at("l").items().size(), base.at("l").items().size() + added.items().size());
    EXPECT_EQ(to_flow(merged(longer, map_of("l-", added))), to_flow(base));
  });
}

TEST(MergeLaws, RemovingAKeyLeavesEverythingElse) {
  for_all([](Trees& trees) {
    const Node base = trees.map();
    const int chosen = trees.below(static_cast<int>(base.entries().size()));
    const std::string key = base.entries()[static_cast<std::size_t>(chosen)].first;
    Node rest = base;
    rest.erase(key);
    EXPECT_EQ(to_flow(merged(base, map_of(key + "-", Node()))), to_flow(rest));
    EXPECT_EQ(canonical(merged(merged(base, map_of(key + "-", Node())), map_of(key, base.at(key)))),
              canonical(base));
  });
}

TEST(MergeLaws, AnotherPluginKeepsNoOptionAndTheSameOneKeepsAll) {
  for_all([](Trees& trees) {
    Node base = trees.map(), over = trees.map();
    base.set("use", Node::scalar("p" + std::to_string(trees.below(2))));
    over.set("use", Node::scalar("p" + std::to_string(trees.below(2))));
    Node expected = over;
    if (base.at("use").text() == over.at("use").text()) {
      Node options = base;
      options.erase("use");
      expected = merged(options, over);
    }
    EXPECT_EQ(canonical(merged(base, over)), canonical(expected));
  });
}

/// What stands in a text from a place on.
std::string text_at(const std::string& text, const Place& place) {
  std::size_t start = 0;
  for (int line = 1; line < place.line; ++line) start = text.find('\n', start) + 1;
  return text.substr(start + static_cast<std::size_t>(place.column) - 1);
}

TEST(MergeLaws, EveryOriginIsWhereItsValueStands) {
  for_all([](Trees& trees) {
    std::map<std::string, std::string> files;
    std::map<std::string, Node> parsed;
    Node all = Node::map();
    for (const char* file : {"a.yaml", "b.yaml", "c.yaml"}) {
      const Node tree = trees.map();
      files[file] = to_yaml(tree);
      parsed[file] = in_file(tree, file);
      merge(all, parsed[file]);
    }
    for_each_value(all, [&](const std::string& key, const Node& value) {
      std::vector<Origin> lives = value.history();
      lives.push_back({value.place(), to_flow(value)});
      std::vector<std::string> expected, found;
      for (const auto& [file, tree] : parsed) {
        if (find_key(tree, key) != nullptr) expected.push_back(file);
      }
      for (const Origin& origin : lives) {
        found.push_back(origin.place.file);
        ASSERT_EQ(files.count(origin.place.file), 1u) << key;
        EXPECT_THAT(text_at(files[origin.place.file], origin.place), StartsWith(origin.value))
            << key;
      }
      EXPECT_EQ(found, expected) << key << ": every file that sets it, in their order";
    });
  });
}

TEST(MergeLaws, ATreeOutlivesBeingWrittenAndComposedAgain) {
  for_all([](Trees& trees) {
    const Node both = merged(trees.map(), trees.map());
    Node again = merged(Node::map(), in_file(both, "t.yaml"));
    interpolate(again);
    EXPECT_EQ(to_flow(again), to_flow(both));
  });
}

}  // namespace
}  // namespace attnlab::merge_laws_test

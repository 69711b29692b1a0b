// Merging: maps, lists, plugins that are replaced, and the values that stood there before.
#include "tests/unit/config/composed.h"

namespace attnlab::merge_test {
namespace {

using namespace testing;

TEST(Merge, MergesMapsAndReplacesListsAndScalars) {
  EXPECT_EQ(merged("{a: {x: 1, y: 2}, l: [1, 2], s: 1}", "{a: {y: 3, z: 4}, l: [9], s: t}"),
            "{a: {x: 1, y: 3, z: 4}, l: [9], s: t}");
  EXPECT_EQ(merged("{a: {x: 1}}", "{a: null}"), "{a: null}");
}

TEST(Merge, AppendsAndRemovesItemsOfLists) {
  EXPECT_EQ(merged("{l: [a, b]}", "{l+: [c, {d: 1}]}"), "{l: [a, b, c, {d: 1}]}");
  EXPECT_EQ(merged("{l: [a, b, 1, a]}", "{l-: [a, 1]}"), "{l: [b]}");
  EXPECT_EQ(merged("{l: [a, {d: 1}]}", "{l-: [{d: 1}], l+: [b]}"), "{l: [a, b]}");
  EXPECT_EQ(merged("{}", "{l+: [c]}"), "{l: [c]}");
  EXPECT_EQ(merged("{l: null}", "{l+: [c]}"), "{l: [c]}");
}

TEST(Merge, RemovesManyItemsOfALongListInItsOrder) {
  std::string all = "list: [a, b", most = "list-: [b";  // pair by pair it would take hours
  for (int i = 0; i < 100'000; ++i) {
    all += ", " + std::to_string(i);
    most += ", " + std::to_string(99'999 - i);
  }
  EXPECT_EQ(merged(all + ", c, a]", most + "]"), "{list: [a, c, a]}");
}

TEST(Merge, RemovesAKeyThatIsGivenNothing) {
  EXPECT_EQ(merged("{a: 1, b: {c: 1, d: 2}}", "{a-: , b: {c-: }}"), "{b: {d: 2}}");
}

TEST(Merge, AppliesAppendingAndRemovingAcrossFilesAndInNestedMaps) {
  EXPECT_EQ(composed({{"main.yaml", "extends: a.yaml\ntrace: {record+: [z], record-: [x]}\n"},
                      {"a.yaml", "extends: b.yaml\ntrace: {record+: [y]}\nold-:\n"},
                      {"b.yaml", "trace: {record: [x]}\nold: 1\n"}}),
            "{trace: {record: [y, z]}}");
  EXPECT_EQ(
      composed({{"main.yaml", "new: {deep: {list+: [1]}}\nother: {list+: [2], list-: [2]}\n"}}),
      "{new: {deep: {list: [1]}}, other: {list: []}}");
  EXPECT_EQ(merged("{a: 1}", "{a: null}"), "{a: null}");
  EXPECT_EQ(merged("{a: null}", "{a: {l+: [1]}}"), "{a: {l: [1]}}");
}

TEST(Merge, ExplainsWhyAppendingIsRefused) {
  const auto refused = [](const std::string& base, const std::string& over) {
    return message_of<ConfigError>([&] { merged(base, over); });
  };
  EXPECT_THAT(refused("{l: [a]}", "{l+: b}"), says({"over.yaml:1:6:", "'l+'", "[b]"}));
  EXPECT_THAT(refused("{l: 5}", "{l+: [b]}"),
              says({"over.yaml:1:6:", "'l+'", "'l' is 5", "base.yaml:1:5"}));
}

TEST(Merge, ExplainsWhyRemovingIsRefused) {
  const auto refused = [](const std::string& base, const std::string& over) {
    return message_of<ConfigError>([&] { merged(base, over); });
  };
  EXPECT_THAT(refused("{list: [a]}", "{lst-: [a]}"),
              says({"over.yaml:1:2:", "'lst-'", "'lst'", "'list'"}));
  EXPECT_THAT(refused("{l: [a, b]}", "{l-: [c]}"),
              says({"over.yaml:1:7:", "'l'", "no item c", "[a, b]"}));
  EXPECT_THAT(refused("{l: [a, a]}", "{l-: [a, a]}"),
              says({"over.yaml:1:10:", "'l'", "no item a", "[a, a]"}));
  EXPECT_THAT(refused("{l: [a]}", "{l-: a}"),
              says({"over.yaml:1:6:", "'l-'", "removes items", "without a value"}));
}

TEST(Merge, DropsTheOptionsOfThePluginThatIsReplaced) {
  EXPECT_EQ(merged("{model: {use: vit, dim: 128, depth: 6}}", "{model: {use: cnn, width: 2}}"),
            "{model: {use: cnn, width: 2}}");
  EXPECT_EQ(merged("{model: {use: vit, dim: 128}}", "{model: {use: vit, depth: 2}}"),
            "{model: {use: vit, dim: 128, depth: 2}}");
  EXPECT_EQ(merged("{model: {use: vit, dim: 128}}", "{model: {depth: 2}}"),
            "{model: {use: vit, dim: 128, depth: 2}}");
}

TEST(Merge, KeepsTheHistoryOfAReplacedPlugin) {
  Node tree = parse_yaml("model: {use: vit, dim: 128}", "base.yaml");
  merge(tree, parse_yaml("model: {use: cnn}", "over.yaml"));
  const Node& model = tree.at("model");
  ASSERT_EQ(model.history().size(), 1u);
  EXPECT_EQ(model.history()[0].value, "{use: vit, dim: 128}");
  ASSERT_EQ(model.at("use").history().size(), 1u);
  EXPECT_EQ(model.at("use").history()[0].place.str(), "base.yaml:1:14");
  EXPECT_EQ(model.at("use").history()[0].value, "vit");
}

TEST(Merge, TakesAPlainNameForAMapWithUse) {
  EXPECT_EQ(merged("{attention: {use: standard, x: 1}}", "{attention: quest}"),
            "{attention: {use: quest}}");
  EXPECT_EQ(merged("{attention: {use: quest, eps: 1}}", "{attention: quest}"),
            "{attention: {use: quest, eps: 1}}");
  EXPECT_EQ(merged("{attention: quest}", "{attention: {eps: 0.1}}"),
            "{attention: {use: quest, eps: 0.1}}");
  EXPECT_EQ(merged("{attention: quest}", "{attention: {use: other, a: 1}}"),
            "{attention: {use: other, a: 1}}");
  EXPECT_EQ(merged("{attention: quest}", "{attention: standard}"), "{attention: standard}");
}

TEST(Merge, TakesNeitherNumbersNorTruthsForNamesOfPlugins) {
  EXPECT_EQ(merged("{x: 5}", "{x: {a: 1}}"), "{x: {a: 1}}");
  EXPECT_EQ(merged("{x: {use: vit}}", "{x: true}"), "{x: true}");
  EXPECT_EQ(merged("{x: ???}", "{x: {a: 1}}"), "{x: {use: ???, a: 1}}");
  EXPECT_EQ(merged("{x: {use: vit, a: 1}}", "{x: '${y}'}"), "{x: \"${y}\"}");
}

TEST(Merge, KeepsEditsInsideASuitesChangesForTheExperiment) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"main.yaml", "extends: a.yaml\nset: {t: {l+: [3], m+: [4]}, k: 1, d-: }\n"},
      {"a.yaml", "set: {t: {l+: [2], m: [0]}, k-: , j: 5, d: 6}\n"}};
  EXPECT_EQ(composed(files), "{set: {t: {l+: [2, 3], m: [0, 4]}, j: 5, k: 1}}");
  EXPECT_EQ(composed(files, {"set.t.l+=[7]", "set.t.m=[8]", "set.j-="}),
            "{set: {t: {l+: [2, 3, 7], m: [8]}, k: 1}}");
  EXPECT_EQ(composed({{"main.yaml", "set: {model: {use: vit, dim: 3}}\n"}},
                     {"set.model={use: cnn, width: 1}"}),
            "{set: {model: {use: cnn, width: 1}}}");
  Node experiment = parse_yaml("t: {l: [1]}\nk: 9\n", "e.yaml");
  merge(experiment, parse_yaml("set: {t: {l+: [2]}, k-: }", "s.yaml").at("set"));
  EXPECT_EQ(to_flow(experiment), "{t: {l: [1, 2]}}");
}

TEST(Merge, ReportsEveryProblemAndMergesTheRest) {
  Node tree = parse_yaml("{l: [1], s: 2}", "a.yaml");
  const std::string message = message_of<ConfigError>(
      [&] { merge(tree, parse_yaml("{s+: [1], l-: [3], m: {k-: }, s: 4}", "b.yaml")); });
  EXPECT_THAT(message, says_lines({{"b.yaml:1:6:", "'s+'", "'s' is 2", "a.yaml:1:13"},
                                   {"b.yaml:1:16:", "'l'", "item 3", "[1]"},
                                   {"b.yaml:1:24:", "'k-'", "'k'"}}));
  EXPECT_EQ(tree.at("s").text(), "4");
}

TEST(Compose, RecordsWhatTheTreeDoesNotShowAnyMore) {
  const TempFolder folder;
  folder.write("a.yaml", "l: [1]\nm: {use: vit, x: 1}\nk: 5\n");
  folder.write("main.yaml", "extends: a.yaml\nl+: [2]\nm: {use: cnn}\nk-:\n");
  const Composition out = compose(folder / "main.yaml", {"l-=[1]", "m=3"});
  std::string edits;
  for (const Edit& edit : out.edits) {
    edits += std::to_string(static_cast<int>(edit.kind)) + " " + edit.key + " " +
             std::to_string(edit.place.line) + " " + to_flow(edit.before) + "\n";
  }
  EXPECT_EQ(edits, "0 l 2 [1]\n3 m.x 3 1\n2 k 4 5\n1 l 0 [1, 2]\n3 m 0 {use: cnn}\n");
  EXPECT_TRUE(out.whole);
  EXPECT_THAT(out.problems, IsEmpty());
}

TEST(Merge, RemembersEveryEarlierValueOldestFirst) {
  Node tree = parse_yaml("lr: 1", "a.yaml");
  merge(tree, parse_yaml("lr: 2", "b.yaml"));
  merge(tree, parse_override("lr=3"));
  const Node& lr = tree.at("lr");
  EXPECT_EQ(lr.place().str(), "argument 'lr=3'");
  ASSERT_EQ(lr.history().size(), 2u);
  EXPECT_EQ(lr.history()[0].place.str() + " " + lr.history()[0].value, "a.yaml:1:5 1");
  EXPECT_EQ(lr.history()[1].place.str() + " " + lr.history()[1].value, "b.yaml:1:5 2");
}

}  // namespace
}  // namespace attnlab::merge_test

#include "framework/config/compose.h"

#include "tests/support/compositions.h"

namespace attnlab::compose_test {
namespace {

using namespace testing;

/// Composes files given as (name, text); the first is the one that is composed.
std::string composed(const std::vector<std::pair<std::string, std::string>>& files,
                     const std::vector<std::string>& overrides = {}) {
  const TempFolder folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  return to_flow(compose_file(folder / files.front().first, overrides));
}

/// Why composing is refused, with the temporary folder's name removed.
std::string refusal(const std::vector<std::pair<std::string, std::string>>& files,
                    const std::vector<std::string>& overrides = {}) {
  const TempFolder folder;
  for (const auto& [name, text] : files) folder.write(name, text);
  std::string message =
      message_of<ConfigError>([&] { compose_file(folder / files.front().first, overrides); });
  const std::string prefix = folder.path() + "/";
  for (std::size_t at = message.find(prefix); at != std::string::npos; at = message.find(prefix)) {
    message.erase(at, prefix.size());
  }
  return message;
}

std::string merged(const std::string& base, const std::string& over) {
  Node tree = parse_yaml(base, "base.yaml");
  merge(tree, parse_yaml(over, "over.yaml"));
  return to_flow(tree);
}

std::string interpolated(const std::string& text) {
  Node tree = parse_yaml(text, "f.yaml");
  interpolate(tree);
  return to_flow(tree);
}

std::string interpolation_refusal(const std::string& text) {
  return message_of<ConfigError>([&] { interpolated(text); });
}

// ---- extends

TEST(Extends, AppliesFilesLeftToRightAndThenTheFileItself) {
  EXPECT_EQ(composed({{"main.yaml", "extends: [a.yaml, b.yaml]\nz: main\n"},
                      {"a.yaml", "x: a\ny: a\nz: a\n"},
                      {"b.yaml", "y: b\nz: b\n"}}),
            "{x: a, y: b, z: main}");
}

TEST(Extends, FollowsFilesRelativeToTheFileThatNamesThem) {
  EXPECT_EQ(composed({{"main.yaml", "extends: sub/a.yaml\n"},
                      {"sub/a.yaml", "extends: ../other/b.yaml\nx: a\n"},
                      {"other/b.yaml", "x: b\ny: b\n"}}),
            "{x: a, y: b}");
}

TEST(Extends, WorksInsideNestedMaps) {
  EXPECT_EQ(composed({{"main.yaml", "train: {extends: t.yaml, lr: 2}\n"},
                      {"t.yaml", "lr: 1\nepochs: 5\noptimizer: {extends: o.yaml}\n"},
                      {"o.yaml", "use: adamw\n"}}),
            "{train: {lr: 2, epochs: 5, optimizer: {use: adamw}}}");
}

TEST(Extends, TakesTheSameFileByTwoWays) {
  EXPECT_EQ(composed({{"main.yaml", "extends: [a.yaml, b.yaml]\n"},
                      {"a.yaml", "extends: c.yaml\na: 1\n"},
                      {"b.yaml", "extends: c.yaml\nb: 1\n"},
                      {"c.yaml", "c: 1\n"}}),
            "{c: 1, a: 1, b: 1}");
}

TEST(Extends, ShowsTheWholeChainOfACycle) {
  EXPECT_EQ(refusal({{"main.yaml", "extends: a.yaml\n"},
                     {"a.yaml", "x: 1\nextends: [./sub/../b.yaml]\n"},
                     {"b.yaml", "extends: a.yaml\n"}}),
            "b.yaml:1:10: extends itself: main.yaml -> a.yaml -> b.yaml -> a.yaml");
  EXPECT_EQ(refusal({{"main.yaml", "extends: main.yaml\n"}}),
            "main.yaml:1:10: extends itself: main.yaml -> main.yaml");
}

TEST(Extends, NamesThePlaceThatExtendsAMissingFile) {
  EXPECT_EQ(refusal({{"main.yaml", "x: 1\nextends:\n  - gone.yaml\n"}}),
            "main.yaml:3:5: gone.yaml: cannot read: No such file or directory");
}

TEST(Extends, RefusesAnythingButFilesAndFilesWithoutAMap) {
  EXPECT_EQ(refusal({{"main.yaml", "extends: {a: 1}\n"}}),
            "main.yaml:1:10: extends: expected a file or a list of files, found {a: 1}");
  EXPECT_EQ(refusal({{"main.yaml", "extends: a.yaml\n"}, {"a.yaml", "[1, 2]\n"}}),
            "a.yaml:1:1: expected a map at the top, found [1, 2]");
  EXPECT_EQ(refusal({{"main.yaml", ""}}), "main.yaml:1:1: expected a map at the top, found null");
}

TEST(Extends, WorksInItemsOfLists) {
  EXPECT_EQ(
      composed({{"main.yaml", "l: [{extends: a.yaml, y: 2}, 3]\n"}, {"a.yaml", "x: 1\ny: 1\n"}}),
      "{l: [{x: 1, y: 2}, 3]}");
}

TEST(Extends, ReadsTheEnvironmentInPathsAndNothingElse) {
  const Environment set("ATTNLAB_TEST_SET", "sub");
  EXPECT_EQ(composed({{"main.yaml", "extends: \"${env:ATTNLAB_TEST_SET}/a.yaml\"\n"},
                      {"sub/a.yaml", "x: 1\n"}}),
            "{x: 1}");
  EXPECT_EQ(
      refusal({{"main.yaml", "extends: ${where}/a.yaml\nwhere: sub\n"}}),
      "main.yaml:1:10: extends: ${where}/a.yaml: only ${env:NAME} can stand here, since files "
      "are read before references are");
}

TEST(Extends, ReportsEveryFileThatIsMissingOrDamaged) {
  EXPECT_EQ(refusal({{"main.yaml", "extends: [gone.yaml, a.yaml]\nm: {extends: lost.yaml}\n"},
                     {"a.yaml", "x: 1\nx: 2\ny: 1\ny: 2\n"}}),
            "main.yaml:1:11: gone.yaml: cannot read: No such file or directory\n"
            "a.yaml:2:1: the key 'x' stands here twice; the first is a.yaml:1:1\n"
            "a.yaml:4:1: the key 'y' stands here twice; the first is a.yaml:3:1\n"
            "main.yaml:2:14: lost.yaml: cannot read: No such file or directory");
}

/// A file that extends another one so many times.
std::string extending(const std::string& file, int times) {
  std::string text = "extends: [";
  for (int i = 0; i < times; ++i) text += (i == 0 ? "" : ", ") + file;
  return text + "]\n";
}

TEST(Extends, ReadsAThousandFilesAtMost) {
  EXPECT_EQ(composed({{"main.yaml", extending("a.yaml", 999)}, {"a.yaml", "x: 1\n"}}), "{x: 1}");
  EXPECT_THAT(refusal({{"main.yaml", extending("a.yaml", 5000)}, {"a.yaml", "x: 1\n"}}),
              AllOf(StartsWith("main.yaml:1:"),
                    EndsWith(": a.yaml: with it there are more than 1000 files, the most of a "
                             "composition; make it smaller")));
}

TEST(Extends, ReadsNothingMoreWhereWaysToAFileDoubleWithEachOfMany) {
  const TempFolder folder;
  constexpr int kFiles = 40;
  for (int i = 0; i < kFiles; ++i) {
    folder.write("f" + std::to_string(i) + ".yaml",
                 extending("f" + std::to_string(i + 1) + ".yaml", 2));
  }
  folder.write("f" + std::to_string(kFiles) + ".yaml", "x: 1\n");
  const Composition composition = compose(folder / "f0.yaml");
  EXPECT_THAT(composition.problems, ElementsAre(HasSubstr("more than 1000 files")));
  EXPECT_FALSE(composition.whole);
}

TEST(Extends, RefusesAListThatIsChangedSoOftenThatWhatItWasFillsTheMemory) {
  std::string items = "l+: [0";
  for (int i = 1; i < 100; ++i) items += ", " + std::to_string(i);
  EXPECT_THAT(refusal({{"main.yaml", extending("a.yaml", 990)}, {"a.yaml", items + "]\n"}}),
              HasSubstr("a.yaml:1:5: 'l+': lists were changed so often, or are so long, that what "
                        "they were takes more than 256 MiB; write the list out"));
}

TEST(Extends, RefusesAChainThatTheStackHasNoRoomFor) {
  std::vector<std::pair<std::string, std::string>> files = {{"f0.yaml", "x: 1\n"}};
  const auto chain = [&](int length) {
    for (int i = static_cast<int>(files.size()); i < length; ++i) {
      files.insert(files.begin(), {"f" + std::to_string(i) + ".yaml",
                                   "extends: f" + std::to_string(i - 1) + ".yaml\n"});
    }
  };
  chain(101);
  EXPECT_EQ(composed(files), "{x: 1}");
  chain(2000);
  EXPECT_THAT(refusal(files), HasSubstr("more than 100 files and maps around each other"));
}

TEST(Extends, RefusesMoreTextAndMoreValuesThanACompositionMayHave) {
  const TempFolder folder;
  const std::string large = folder.write("large.yaml", "x: 1\n");
  std::filesystem::resize_file(large, 65 << 20);
  EXPECT_EQ(message_of<ConfigError>([&] { compose_file(large); }),
            large +
                ": there are more than 64 MiB of text, the most of a composition; make it "
                "smaller");
  EXPECT_THAT(message_of<ConfigError>(
                  [&] { compose_file(folder.write("main.yaml", "extends: large.yaml\n")); }),
              AllOf(HasSubstr("main.yaml:1:10: "), HasSubstr("more than 64 MiB of text")));
  std::string zeros = "x: &a [0", copies = "y: [*a";
  for (int i = 1; i < 1000; ++i) zeros += ", 0";
  for (int i = 1; i < 100; ++i) copies += ", *a";
  EXPECT_THAT(
      refusal({{"main.yaml", extending("a.yaml", 10)}, {"a.yaml", zeros + "]\n" + copies + "]\n"}}),
      HasSubstr("more than 1000000 values"));
}

TEST(ComposeFile, RefusesAFileThatCannotBeRead) {
  const TempFolder folder;
  EXPECT_EQ(message_of<FileError>([&] { compose_file(folder / "gone.yaml"); }),
            folder / "gone.yaml" + ": cannot read: No such file or directory");
  EXPECT_EQ(message_of<FileError>([&] { compose_file(folder.path()); }),
            folder.path() + ": cannot read: it is a folder");
}

// ---- merging

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
  EXPECT_EQ(refused("{l: [a]}", "{l+: b}"), "over.yaml:1:6: 'l+' appends to a list; write [b]");
  EXPECT_EQ(refused("{l: 5}", "{l+: [b]}"),
            "over.yaml:1:6: 'l+' appends to a list, but 'l' is 5 (base.yaml:1:5)");
}

TEST(Merge, ExplainsWhyRemovingIsRefused) {
  const auto refused = [](const std::string& base, const std::string& over) {
    return message_of<ConfigError>([&] { merged(base, over); });
  };
  EXPECT_EQ(refused("{list: [a]}", "{lst-: [a]}"),
            "over.yaml:1:2: 'lst-' removes 'lst', which is not there; did you mean 'list'?");
  EXPECT_EQ(refused("{l: [a, b]}", "{l-: [c]}"),
            "over.yaml:1:7: 'l' has no item c to remove; it is [a, b]");
  EXPECT_EQ(refused("{l: [a, a]}", "{l-: [a, a]}"),
            "over.yaml:1:10: 'l' has no item a to remove; it is [a, a]");
  EXPECT_EQ(refused("{l: [a]}", "{l-: a}"),
            "over.yaml:1:6: 'l-' removes items of a list (or, without a value, the key)");
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
  EXPECT_EQ(message,
            "b.yaml:1:6: 's+' appends to a list, but 's' is 2 (a.yaml:1:13)\n"
            "b.yaml:1:16: 'l' has no item 3 to remove; it is [1]\n"
            "b.yaml:1:24: 'k-' removes 'k', which is not there");
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

// ---- the command line

TEST(Override, ReadsItsValueAsYaml) {
  EXPECT_EQ(to_flow(parse_override("train.lr=1e-3")), "{train: {lr: 1e-3}}");
  EXPECT_EQ(to_flow(parse_override("a.b.c=[1, x]")), "{a: {b: {c: [1, x]}}}");
  EXPECT_EQ(to_flow(parse_override("a={b: 1}")), "{a: {b: 1}}");
  EXPECT_EQ(to_flow(parse_override("a='5'")), "{a: \"5\"}");
  EXPECT_EQ(to_flow(parse_override("a=x=y")), "{a: \"x=y\"}");
  EXPECT_TRUE(parse_override("a=").at("a").is_null());
  for (const char* nothing : {"a=null", "a=NULL", "a=~", "a= null", "a= "}) {
    EXPECT_TRUE(parse_override(nothing).at("a").is_null()) << nothing;
  }
}

TEST(Override, AppendsRemovesAndReplacesLikeAFile) {
  const std::vector<std::pair<std::string, std::string>> file = {
      {"main.yaml", "t: {l: [a, b], k: 1}\nattention: {use: standard, x: 1}\n"}};
  EXPECT_EQ(composed(file, {"t.l+=[c]", "t.l-=[a]", "t.k-=", "attention=quest", "t.n=2"}),
            "{t: {l: [b, c], n: 2}, attention: {use: quest}}");
}

TEST(Override, WinsOverFilesAndLaterOnesOverEarlier) {
  EXPECT_EQ(composed({{"main.yaml", "a: 1\nb: ${a}\n"}}, {"a=2", "a=3"}), "{a: 3, b: 3}");
}

TEST(Override, IsNotDroppedByALaterOne) {
  const std::vector<std::pair<std::string, std::string>> file = {
      {"main.yaml", "attention: {use: standard, x: 1}\n"}};
  EXPECT_EQ(composed(file, {"attention=quest", "attention.y=2"}),
            "{attention: {use: quest, y: 2}}");
  for (const char* other : {"attention=quest", "attention={use: quest}"}) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  composed(file, {"attention.x=2", other});
                }),
                AllOf(HasSubstr(std::string("argument '") + other),
                      HasSubstr("drops what argument 'attention.x=2' set; write that one behind")));
  }
}

TEST(Override, ExtendsFilesRelativeToTheWorkingFolder) {
  const TempFolder folder;
  folder.write("main.yaml", "m: {x: 1, y: 1}\n");
  const std::string other = folder.write("other.yaml", "x: 2\nz+: [3]\n");
  EXPECT_EQ(to_flow(compose_file(folder / "main.yaml", {"m.extends=" + other, "m.x=4"})),
            "{m: {x: 4, y: 1, z: [3]}}");
  EXPECT_EQ(message_of<ConfigError>([&] { compose_file(folder / "main.yaml", {"extends=gone"}); }),
            "argument 'extends=gone': gone: cannot read: No such file or directory");
}

TEST(Override, RefersToOtherValuesAndLeavesValuesOpen) {
  EXPECT_EQ(composed({{"main.yaml", "a: 1\nm: {k: 2}\n"}}, {"b=${a}", "m.j=${.k}", "c=???"}),
            "{a: 1, m: {k: 2, j: 2}, b: 1, c: ???}");
}

TEST(Override, NamesTheArgumentThatIsWrong) {
  const auto refused = [](const std::string& argument) {
    return message_of<ConfigError>([&] { parse_override(argument); });
  };
  EXPECT_EQ(refused("foo"), "argument 'foo': expected key=value");
  EXPECT_EQ(refused("=1"), "argument '=1': expected key=value");
  EXPECT_EQ(refused("a..b=1"), "argument 'a..b=1': the key has an empty part");
  EXPECT_EQ(refused(".a=1"), "argument '.a=1': the key has an empty part");
  EXPECT_THAT(refused("a=[1"),
              StartsWith("argument 'a=[1': [1: a bracket, a brace or a quote is not closed"));
  EXPECT_THAT(refused("a={b: 1, b: 2}"), HasSubstr("the key 'b' stands here twice"));
}

TEST(Override, ReportsAllWrongArgumentsAtOnce) {
  EXPECT_EQ(refusal({{"main.yaml", "a: 1\n"}}, {"x", "a=2", "b-="}),
            "argument 'x': expected key=value\n"
            "argument 'b-=': 'b-' removes 'b', which is not there; there is a");
}

TEST(Override, RefusesAKeyOfAbsurdDepth) {
  std::string deep = "a";
  for (int i = 0; i < 50000; ++i) deep += ".a";
  EXPECT_THAT(message_of<ConfigError>([&] { parse_override(deep + "=1"); }),
              EndsWith("the key has too many parts"));
}

// ---- interpolation

TEST(Interpolation, CopiesAValueWithItsType) {
  EXPECT_EQ(interpolated("{a: 5, b: '${a}', c: {d: '${a}'}, l: [1, x], m: '${l}'}"),
            "{a: 5, b: 5, c: {d: 5}, l: [1, x], m: [1, x]}");
}

TEST(Interpolation, FindsSiblingsAndTheirParents) {
  EXPECT_EQ(
      interpolated("{m: {dim: 64, hidden: '${.dim}', mlp: {in: '${..dim}'}}, n: '${m.mlp.in}'}"),
      "{m: {dim: 64, hidden: 64, mlp: {in: 64}}, n: 64}");
  EXPECT_EQ(interpolated("{dim: 3, l: ['${..dim}', '${dim}']}"), "{dim: 3, l: [3, 3]}");
}

TEST(Interpolation, FindsItemsOfListsByTheirNumber) {
  EXPECT_EQ(interpolated("{l: [5, {k: 6}], a: '${l.0}', b: '${l.1.k}'}"),
            "{l: [5, {k: 6}], a: 5, b: 6}");
  EXPECT_EQ(interpolation_refusal("{l: [5], a: '${l.1}', b: '${l.x}'}"),
            "f.yaml:1:13: ${l.1}: there is no '1' in 'l', a list of 1; items count from 0\n"
            "f.yaml:1:26: ${l.x}: there is no 'x' in 'l', a list of 1; items count from 0");
}

TEST(Interpolation, KeepsTheLifeThatTheValueHadBefore) {
  Node tree = parse_yaml("a: 1\nb: 2\n", "a.yaml");
  merge(tree, parse_yaml("a: 3\nb: ${a}\n", "b.yaml"));
  interpolate(tree);
  std::string life;
  for (const Origin& origin : tree.at("b").history()) {
    life += origin.place.str() + " " + origin.value + "\n";
  }
  EXPECT_EQ(life, "a.yaml:2:4 2\nb.yaml:2:4 ${a}\n");
  EXPECT_EQ(tree.at("b").text(), "3");
}

TEST(Interpolation, StandsInsideTexts) {
  EXPECT_EQ(interpolated("{a: vit, n: 4, b: '${a}-p${n}.bin'}"), "{a: vit, n: 4, b: vit-p4.bin}");
  EXPECT_EQ(interpolation_refusal("{l: [1], b: 'x${l}'}"),
            "f.yaml:1:13: ${l} is not a single value and cannot stand inside a text");
}

TEST(Interpolation, FollowsChainsInWhateverOrder) {
  EXPECT_EQ(interpolated("{a: '${b}', b: '${c}', c: 1}"), "{a: 1, b: 1, c: 1}");
  EXPECT_EQ(interpolated("{c: 1, b: '${c}', a: '${b}'}"), "{c: 1, b: 1, a: 1}");
  EXPECT_EQ(interpolated("{x: '${a.k}', a: '${m}', m: {k: '${n}'}, n: 2}"),
            "{x: 2, a: {k: 2}, m: {k: 2}, n: 2}");
}

TEST(Interpolation, ReadsTheEnvironmentWithAndWithoutADefault) {
  const Environment set("ATTNLAB_TEST_SET", "0.5");
  const Environment unset("ATTNLAB_TEST_UNSET", nullptr);
  EXPECT_EQ(interpolated("{a: '${env:ATTNLAB_TEST_SET}', b: '${env:ATTNLAB_TEST_UNSET,7}'}"),
            "{a: 0.5, b: 7}");
  EXPECT_EQ(interpolated("{a: '${env:ATTNLAB_TEST_UNSET,}x'}"), "{a: x}");
  EXPECT_EQ(interpolation_refusal("{a: '${env:ATTNLAB_TEST_UNSET}'}"),
            "f.yaml:1:5: ${env:ATTNLAB_TEST_UNSET}: the environment has no ATTNLAB_TEST_UNSET; "
            "set it or give a default: ${env:ATTNLAB_TEST_UNSET,VALUE}");
}

TEST(Composing, LeavesWhatAnEvaluationAppendsForTheRun) {
  EXPECT_EQ(
      composed({{"a.yaml",
                 "{extends: b.yaml, evaluate: {fog: {set: {model: {rates+: [2]}}, when: each}}}"},
                {"b.yaml", "{evaluate: {fog: {set: {model: {rates+: [1], dim: 3}}}}}"}}),
      "{evaluate: {fog: {set: {model: {rates+: [1, 2], dim: 3}}, when: each}}}");
  EXPECT_EQ(merged("{model: {set: {}}}", "{model: {set: {x+: [1]}}}"), "{model: {set: {x: [1]}}}")
      << "there alone";
}

TEST(Interpolation, TakesAnEscapedReferenceForText) {
  EXPECT_EQ(interpolated("{a: '$${b}', c: 'x$${d}y', e: '$$${f}', g: '$5 $'}"),
            "{a: \"${b}\", c: \"x${d}y\", e: \"$${f}\", g: $5 $}");
}

TEST(Interpolation, NeverReadsAReferenceInWhatItPutIn) {
  const Environment set("ATTNLAB_TEST_SET", "${nobody}");
  EXPECT_EQ(interpolated("{a: '${b}', b: '$${x}', c: '${b}'}"),
            "{a: \"${x}\", b: \"${x}\", c: \"${x}\"}");
  EXPECT_EQ(interpolated("{b: '${a}', a: '${env:ATTNLAB_TEST_SET}', c: 'is ${a}'}"),
            "{b: \"${nobody}\", a: \"${nobody}\", c: \"is ${nobody}\"}");
  EXPECT_EQ(interpolated("{x: '${a.k}', a: '${m}', y: '${a.k}', m: {k: '$${z}'}}"),
            "{x: \"${z}\", a: {k: \"${z}\"}, y: \"${z}\", m: {k: \"${z}\"}}");
}

TEST(Interpolation, RefusesCycles) {
  EXPECT_EQ(interpolation_refusal("{a: '${a}'}"), "f.yaml:1:5: a: ${a} refers to itself");
  EXPECT_THAT(interpolation_refusal("{a: '${b}', b: 'x${c}', c: '${a}'}"),
              HasSubstr("a: ${b} refers to itself"));
  EXPECT_THAT(interpolation_refusal("{m: {x: '${m}'}}"), HasSubstr("m.x: ${m} refers to itself"));
  EXPECT_THAT(interpolation_refusal("{m: '${}'}"), HasSubstr("refers to itself"));
}

TEST(Interpolation, RefusesAChainThatTheStackHasNoRoomFor) {
  std::string text = "a: [";
  for (int i = 1; i < 20'000; ++i) text += "'${a." + std::to_string(i) + "}', ";
  EXPECT_THAT(interpolation_refusal(text + "3]"),
              HasSubstr("references follow each other more than 1000 times here"));
}

TEST(Interpolation, ReportsEveryUnknownReferenceWithASuggestion) {
  EXPECT_EQ(interpolation_refusal("model: {dim: 1}\na: ${model.dmi}\nb: ${modle.dim}\n"),
            "f.yaml:2:4: ${model.dmi}: there is no 'dmi' in 'model'; did you mean 'dim'?\n"
            "f.yaml:3:4: ${modle.dim}: there is no 'modle'; did you mean 'model'?");
  EXPECT_EQ(interpolation_refusal("{a: '${....b}'}"), "f.yaml:1:5: ${....b} leaves the tree");
  EXPECT_EQ(interpolation_refusal("{a: 'x${b'}"), "f.yaml:1:5: '${' without '}' in x${b");
  EXPECT_EQ(interpolation_refusal("{a: '${env:X,${b}}', b: 1}"),
            "f.yaml:1:5: a reference cannot stand inside another, as in ${env:X,${b}}");
}

TEST(Interpolation, StopsValuesThatGrowFromStepToStep) {
  std::string lists = "a0: [x, x, x, x, x, x, x, x]\n";
  std::string texts = "a0: xxxxxxxx\n";
  for (int i = 1; i < 30; ++i) {
    const std::string last = "${a" + std::to_string(i - 1) + "}";
    const std::string key = "a" + std::to_string(i) + ": ";
    lists += key + "['" + last + "', '" + last + "', '" + last + "', '" + last + "']\n";
    texts += key + last + last + last + last + "\n";
  }
  EXPECT_THAT(interpolation_refusal(lists), HasSubstr("grows too large"));
  EXPECT_THAT(interpolation_refusal(texts), HasSubstr("grows too large"));
}

TEST(Interpolation, StopsATextThatGrowsWithinItself) {
  std::string text = "a: " + std::string(1 << 20, 'x') + "\nb: ";
  for (int i = 0; i < 100'000; ++i) text += "${a}";  // 100 GiB
  const std::string refused = interpolation_refusal(text + "\nc: ${a}\n");
  EXPECT_THAT(refused, AllOf(StartsWith("f.yaml:2:4: ${a}${a}"),
                             HasSubstr("... grows too large\nf.yaml:3:4: ${a} grows too large")));
  EXPECT_LT(refused.size(), 1000U);
}

TEST(Interpolation, KeepsTheLinesOfATextThatRefersInOneLine) {
  Node tree = parse_yaml("a: 5\nb: \"${a}\\nforged\"\n", "f.yaml");
  interpolate(tree);
  EXPECT_EQ(tree.at("b").text(), "5\nforged");
  EXPECT_EQ(tree.at("b").history().at(0).value, "\"${a}\\nforged\"");
}

TEST(Interpolation, KeepsThePlaceAndTheTextThatReferred) {
  Node tree = parse_yaml("a: 5\nb: ${a}\n", "f.yaml");
  interpolate(tree);
  EXPECT_EQ(tree.at("b").place().str(), "f.yaml:2:4");
  ASSERT_EQ(tree.at("b").history().size(), 1u);
  EXPECT_EQ(tree.at("b").history()[0].value, "${a}");
}

TEST(Interpolation, LeavesAValueThatMustBeGivenToItsReader) {
  EXPECT_EQ(to_yaml(parse_yaml("a: ???\n", "f.yaml")), "a: ???\n");
  Node tree = parse_yaml("a: ???\nb: ${a}\n", "f.yaml");
  interpolate(tree);
  EXPECT_EQ(tree.at("b").text(), "???");
  EXPECT_FALSE(tree.at("b").quoted());
}

TEST(ReferredKey, CountsDotsFromWhereTheReferenceStands) {
  EXPECT_EQ(referred_key("a.b", "x.y"), "a.b");
  EXPECT_EQ(referred_key(".b", "x.y"), "x.b");
  EXPECT_EQ(referred_key("..b", "x.y"), "b");
  EXPECT_EQ(referred_key("...b", "x.y"), "");
}

}  // namespace
}  // namespace attnlab::compose_test

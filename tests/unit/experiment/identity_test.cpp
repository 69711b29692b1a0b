#include "framework/experiment/identity.h"

#include "framework/base/revision.h"
#include "framework/experiment/canonical.h"
#include "framework/runs/run_folder.h"
#include "tests/support/made_parts.h"

namespace attnlab::identity_test {
namespace {

using namespace testing;

class IdentityTest : public ::testing::Test {
 protected:
  Experiment experiment(const std::string& more = "") const {
    return parts_.resolve(kImages + more);
  }
  void change_file(const std::string& name) const {
    const std::string path = parts_.folder() / ("plugins/" + name + ".so");
    write_file(path, read_text(path) + '\0');
  }
  std::string canonical(const std::string& yaml) const {
    return canonical_text(parse_yaml(yaml, "f.yaml"));
  }

  const MadeParts parts_;
  const TempFolder temp_;
};

TEST_F(IdentityTest, NumbersHashAlikeHoweverTheyAreWritten) {
  const std::string same[] = {"1e-3", "0.001", "1.0e-3", "+1E-3", "0.0010"};
  for (const std::string& text : same) {
    EXPECT_EQ(experiment("train: {optimizer: {lr: " + text + "}}\n").hash(), experiment().hash())
        << text;
  }
  EXPECT_NE(experiment("train: {optimizer: {lr: 1.1e-3}}\n").hash(), experiment().hash());
  EXPECT_EQ(experiment("train: {clip_norm: 1}\n").hash(),
            experiment("train: {clip_norm: 1.0}\n").hash());
}

TEST_F(IdentityTest, EntriesOfMapsOutsideListsCanBeLeftOut) {
  const auto without = [](const KeyPath& path, const Node& value) {
    return path.back() == "b" && (path.size() == 2 || value.text() == "4");
  };
  const Node node = parse_yaml("a: {b: 1, c: 2}\nb: 3\nd: [{b: 4}]\ne: {b: {b: 5}}\n", "f.yaml");
  EXPECT_EQ(canonical_text(node, without), R"({"a":{"c":2},"b":3,"d":[{"b":4}],"e":{}})");
}

TEST_F(IdentityTest, TextsThatLookLikeNumbersAreNotNumbers) {
  const auto hash_of_note = [&](const std::string& note) {
    return parts_
        .resolve("schema: 1\nmodel: {use: vit, note: " + note +
                 "}\nattention: quest\ntask: sorting\ndataset: pictures\n")
        .hash();
  };
  EXPECT_NE(hash_of_note("1.0"), hash_of_note("1"));
  EXPECT_NE(hash_of_note("True"), hash_of_note("true"));
  EXPECT_EQ(hash_of_note("'1.0'"), hash_of_note("1.0"));
  EXPECT_EQ(hash_of_note("word"), hash_of_note("'word'"));
}

TEST_F(IdentityTest, CanonicalTextKeepsDifferentValuesApart) {
  EXPECT_EQ(canonical("{a: [1.0, 0x]}"), "{\"a\":[1,\"0x\"]}");
  EXPECT_EQ(canonical("9007199254740993"), "9007199254740993") << "no double holds it";
  EXPECT_EQ(canonical("-0.0"), canonical("0"));
  EXPECT_NE(canonical("[a, b]"), canonical("['a, b']"));
  EXPECT_NE(canonical("{a: b}"), canonical("'{a: b}'"));
  EXPECT_NE(canonical("null"), canonical("'null'"));
}

TEST_F(IdentityTest, CanonicalTextIsJsonWhateverTheNumbers) {
  const std::string text = canonical("{a: [.inf, -.inf, .nan, +.inf], b: -1.5e300}");
  EXPECT_EQ(text, R"({"a":[".inf","-.inf",".nan",".inf"],"b":-1.5e+300})");
  EXPECT_EQ(nlohmann::json::parse(text).at("a").at(1), "-.inf");
}

TEST_F(IdentityTest, DependsOnConfigurationEachPluginsFileAndData) {
  const Identity first = identity_of(experiment(), "d1");
  EXPECT_EQ(first.hash(), identity_of(experiment(), "d1").hash());
  std::set<std::string> hashes = {first.hash(), identity_of(experiment(), "d2").hash(),
                                  identity_of(experiment("train: {epochs: 3}\n"), "d1").hash()};
  for (const char* plugin : {"vit", "quest", "sorting", "pictures"}) {
    change_file(plugin);
    hashes.insert(identity_of(experiment(), "d1").hash());
  }
  EXPECT_EQ(hashes.size(), 7U);
}

TEST_F(IdentityTest, CoversTheFrameworkThatComputes) {
  Identity now = identity_of(experiment(), "d1");
  EXPECT_EQ(now.framework, framework_revision());
  Identity before = now;
  before.framework = "0123456789abcdef";
  EXPECT_NE(before.hash(), now.hash());
  now.framework = "fedcba9876543210";
  EXPECT_THAT(changes_between(before, now),
              ElementsAre("the framework changed (revision 01234567 -> fedcba98)"));
  before.framework = "";  // a record of an earlier attnlab
  EXPECT_THAT(framework_change(before, now), HasSubstr("(revision unknown -> fedcba98)"));
  before.accepted = {now.framework};
  EXPECT_THAT(changes_between(before, now), IsEmpty());
}

TEST_F(IdentityTest, RecordsThatARunCountsForAnotherRevision) {
  Identity made = identity_of(experiment(), "d1");
  made.framework = "0123456789abcdef";
  const RunFolder folder = RunFolder::of(temp_.path(), experiment(), 0, made);
  folder.freeze(experiment(), 0, made);
  accept_revision(folder.path(), "fedcba9876543210");
  accept_revision(folder.path(), "fedcba9876543210");
  accept_revision(folder.path(), made.framework);
  const auto read = read_identity(folder.path());
  ASSERT_TRUE(read);
  EXPECT_THAT(read->accepted, ElementsAre("fedcba9876543210"));
  EXPECT_EQ(read->hash(), made.hash()) << "the run stays what it is";
}

TEST_F(IdentityTest, CoversThePluginsThatChooseTheEpoch) {
  Experiment judged = experiment();
  judged.judges = {parts_.resolve(kImages + "name: x\n").task};
  const Identity before = identity_of(judged, "");
  EXPECT_NE(before.hash(), identity_of(experiment(), "").hash());
  change_file("sorting");
  judged.task.path = judged.model.path;  // the experiment's own stays the same
  EXPECT_THAT(
      changes_between(before, identity_of(judged, "")),
      ::testing::Contains(::testing::AllOf(HasSubstr("judging"), HasSubstr("'sorting' changed"))));
}

TEST_F(IdentityTest, CoversTheFileThatParametersBeginWith) {
  const std::string file = temp_ / "start.safetensors";
  write_file(file, "one");
  const Experiment begun = experiment("init: {from: " + file + "}\n");
  const Identity before = identity_of(begun, "");
  write_file(file, "other");
  EXPECT_NE(before.hash(), identity_of(begun, "").hash());
  EXPECT_THAT(changes_between(before, identity_of(begun, "")),
              ElementsAre("the file of init.from '" + file + "' changed"));
}

TEST_F(IdentityTest, NamesThePlaceOfAFileThatIsNotThere) {
  const std::string lost = temp_ / "lost.safetensors";
  const Experiment begun = experiment("init: {from: " + lost + "}\n");
  const Place place = begun.resolved.at("init").at("from").place();
  ASSERT_FALSE(place.str().empty());
  EXPECT_THAT(message_of<ConfigError>([&] { identity_of(begun, ""); }),
              AllOf(StartsWith(place.str() + ": init.from: "), HasSubstr("'" + lost + "'"),
                    HasSubstr("give the path of another")));
}

TEST_F(IdentityTest, SaysWhatChanged) {
  const Identity before = identity_of(experiment(), "d1");
  change_file("quest");
  change_file("vit");
  EXPECT_THAT(changes_between(before, identity_of(experiment(), "d2")),
              ElementsAre(HasSubstr("'quest' changed"), HasSubstr("'vit' changed"),
                          mentions("data", "'pictures' changed")));
  EXPECT_THAT(changes_between(before, before), IsEmpty());
  const Identity unknown = identity_of(experiment(), "");
  EXPECT_THAT(changes_between(before, unknown), Not(Contains(HasSubstr("data"))))
      << "what is not known is not said to have changed";
}

TEST_F(IdentityTest, IsKeptInTheRunsFolder) {
  const Identity made = identity_of(experiment(), "d1");
  const RunFolder folder = RunFolder::of(temp_.path(), experiment(), 0, made);
  EXPECT_FALSE(read_identity(folder.path()));
  folder.freeze(experiment(), 0, made);
  const auto read = read_identity(folder.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->hash(), made.hash());
  EXPECT_EQ(read->plugins.at("attention").name, "quest");
  EXPECT_EQ(read->data, "d1");
  EXPECT_THAT(folder.path(), EndsWith("/0-" + made.hash().substr(0, 8)));
}

TEST_F(IdentityTest, NamesADamagedRecordAndTheRemedy) {
  const std::string path = temp_.write("identity.json", "{\"configuration\": 3}");
  const std::string message = message_of<DataError>([&] { read_identity(temp_.path()); });
  EXPECT_THAT(message, AllOf(StartsWith(path + ": damaged"), HasSubstr("remove the run's folder")));
}

}  // namespace
}  // namespace attnlab::identity_test

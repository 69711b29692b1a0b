#include "framework/manifest/manifest.h"

#include "tests/support/compositions.h"

namespace attnlab::manifest_test {
namespace {

using namespace testing;
using nlohmann::json;

const std::string kRemedy = "; rebuild it with attnlab_add_plugin()";

/// What is wrong with a manifest, without path and remedy.
std::string refusal(const std::string& text) {
  const TempFolder folder;
  const std::string path = folder.write("x.so", library_with_section(kManifestSection, text));
  const std::string message = message_of<PluginError>([&] { read_manifest(path); });
  const std::string start = path + ": invalid manifest: ";
  EXPECT_THAT(message, AllOf(StartsWith(start), HasSubstr(kRemedy)));
  const std::size_t end = message.find(kRemedy);
  return end == std::string::npos ? message : message.substr(start.size(), end - start.size());
}

TEST(Manifest, HoldsEverythingThatAPluginDeclares) {
  json written = made_manifest(Kind::model, "net");
  written["takes"] = {"image"};
  written["gives"] = {"logits", "tokens"};
  written["needs"] = {"causal"};
  written["stacks"] = {"dim"};
  written["options"] =
      json::parse(R"([{"name": "dim", "type": "int", "default": 3, "help": "h"}])");
  const TempFolder folder;
  const Manifest read = read_manifest(write_plugin(folder, "net.so", written));
  EXPECT_EQ(read.id, "lab/net");
  EXPECT_EQ(read.name, "net");
  EXPECT_EQ(read.kind, Kind::model);
  EXPECT_EQ(read.version + read.summary + read.citation + read.licence, "1.2.3made upnobodyMIT");
  EXPECT_THAT(read.takes, ElementsAre("image"));
  EXPECT_THAT(read.gives, ElementsAre("logits", "tokens"));
  EXPECT_THAT(read.needs, ElementsAre("causal"));
  EXPECT_THAT(read.stacks, ElementsAre("dim"));
  ASSERT_EQ(read.options.size(), 1u);
  EXPECT_EQ(read.options[0].default_value.as_int(), 3);
  EXPECT_EQ(read.stamp, kMadeStamp);
  EXPECT_EQ(json::parse(read.json), written);
}

TEST(Manifest, HoldsTheTraitsOfAnAttention) {
  const TempFolder folder;
  const Manifest read =
      read_manifest(write_plugin(folder, "a.so", made_manifest(Kind::attention, "a")));
  EXPECT_EQ(read.traits, (std::map<std::string, bool>{{"causal", true}, {"bias", false}}));
}

// Reading values below values takes the stack: a small file ended the program.
TEST(Manifest, IsInvalidWhereItNestsTooDeeply) {
  constexpr std::size_t kLevels = 100'000;  // no larger than a manifest may be
  const auto nested = [](const std::string& field) {
    std::string text = made_manifest(Kind::attention, "a").dump();
    const std::string deep = std::string(kLevels, '[') + std::string(kLevels, ']');
    return text.replace(1, 0, "\"" + field + "\":" + deep + ",");
  };
  EXPECT_THAT(refusal(nested("unknown")), HasSubstr("nested more than 100 levels deep"));
  std::string option = made_manifest(Kind::attention, "a").dump();
  const std::string none = "\"options\":[]";
  option.replace(option.find(none), none.size(),
                 R"("options":[{"name":"a","type":"int","default":)" + std::string(kLevels, '[') +
                     std::string(kLevels, ']') + "}]");
  EXPECT_THAT(refusal(option), HasSubstr("nested more than 100 levels deep"));
}

TEST(Manifest, IsInvalidWithoutAnyOfItsMembers) {
  const json whole = made_manifest(Kind::attention, "a");
  for (const auto& [member, value] : whole.items()) {
    json part = whole;
    part.erase(member);
    EXPECT_THAT(refusal(part.dump()), HasSubstr("'" + member + "'"));
  }
}

TEST(Manifest, IsInvalidWithMembersOfAnotherType) {
  for (const auto& [member, wrong] : std::vector<std::pair<std::string, json>>{
           {"id", 5}, {"takes", "image"}, {"traits", {{"causal", "yes"}}}, {"options", "none"}}) {
    json manifest = made_manifest(Kind::attention, "a");
    manifest[member] = wrong;
    EXPECT_FALSE(refusal(manifest.dump()).empty()) << member;
  }
}

TEST(Manifest, IsInvalidWhenItIsNoJson) {
  EXPECT_THAT(refusal("{\"id\": "), HasSubstr("parse error"));
  EXPECT_THAT(refusal(""), HasSubstr("parse error"));
  EXPECT_FALSE(refusal("[]").empty());
}

TEST(Manifest, IsInvalidWithAnIdThatIsNotLabSlashName) {
  for (const char* id : {"quest", "/quest", "lab/", "a/b/c", "", "/"}) {
    json manifest = made_manifest(Kind::attention, "a");
    manifest["id"] = id;
    EXPECT_THAT(refusal(manifest.dump()), says({"id '" + std::string(id) + "'", "lab/name"}));
  }
}

TEST(Manifest, IsInvalidWithAnUnknownKind) {
  json manifest = made_manifest(Kind::attention, "a");
  manifest["kind"] = "atention";
  EXPECT_THAT(refusal(manifest.dump()), says({"'atention'", "'attention'"}));
}

TEST(Manifest, IsInvalidWithAnOptionOfUnknownType) {
  json manifest = made_manifest(Kind::attention, "a");
  manifest["options"] = json::parse(R"([{"name": "x", "type": "tensor"}])");
  EXPECT_THAT(refusal(manifest.dump()), says({"option 'x'", "'tensor'"}));
}

TEST(Manifest, IsInvalidWithNamesThatCannotBeShown) {
  json manifest = made_manifest(Kind::attention, "a");
  manifest["traits"] = {{"causal\x1b[2J\nforged", true}};
  EXPECT_THAT(refusal(manifest.dump()),
              says({"traits:", "'causal\\x1b[2J forged'", "cannot be a name"}));
  manifest["traits"] = {{std::string(1000, ' ') + "causal", true}};
  EXPECT_THAT(refusal(manifest.dump()), says({"traits:", "'causal'", "cannot be a name"}));
  manifest = made_manifest(Kind::attention, "a");
  manifest["options"] =
      json::parse(R"([{"name": "x", "type": "string", "choices": ["", "a\u009b2J"]}])");
  EXPECT_THAT(refusal(manifest.dump()), says({"'a\\u009b2J'", "choice", "option 'x'"}));
}

TEST(Manifest, IsMissingFromALibraryThatIsNoPlugin) {
  const TempFolder folder;
  const std::string path = folder.write("x.so", library_with_section(".other", "{}"));
  EXPECT_THAT(message_of<PluginError>([&] { read_manifest(path); }),
              AllOf(StartsWith(path + ": has no section .attnlab.manifest"), HasSubstr(kRemedy)));
}

TEST(Stamp, IsReadFromTheHostsLibrary) {
  const TempFolder folder;
  const std::string path = folder.write(
      "host.so", library_with_section(kStampSection, R"({"contract":1,"cuda":"","build":"asan"})"));
  EXPECT_EQ(read_stamp(path), (Stamp{{"contract", "1"}, {"cuda", ""}, {"build", "asan"}}));
  const std::string damaged = folder.write("bad.so", library_with_section(kStampSection, "{"));
  EXPECT_THAT(message_of<PluginError>([&] { read_stamp(damaged); }),
              StartsWith(damaged + ": invalid build stamp: "));
}

TEST(Stamp, DifferencesNameFieldExpectedAndFound) {
  EXPECT_THAT(stamp_differences({{"a", "1"}, {"b", ""}, {"c", "3"}, {"e", "5"}},
                                {{"a", "2"}, {"b", "x"}, {"d", "4"}, {"e", "5"}}),
              ElementsAre("a: expected 1, found 2", "b: expected none, found x",
                          "c: expected 3, found nothing", "d: expected nothing, found 4"));
  EXPECT_THAT(stamp_differences(kMadeStamp, kMadeStamp), IsEmpty());
}

TEST(Stamp, DifferencesStandOnOneLineOfASaneLengthAndCountWhereTheyAreCut) {
  const std::string large(10'000, 'x');
  const auto cut = std::string(500, 'x') + "...";
  EXPECT_THAT(
      stamp_differences({{"a", large}, {"b\nc", "1"}}, {{"a", large + "y"}, {"b\nc", "2\n3"}}),
      ElementsAre("a: expected " + cut + ", found " + cut, "b c: expected 1, found 2 3"));
}

TEST(Stamp, TellsNoValueFromNoField) {
  EXPECT_THAT(stamp_differences({{"cuda", ""}}, Stamp{}),
              ElementsAre("cuda: expected none, found nothing"));
}

}  // namespace
}  // namespace attnlab::manifest_test

#include "framework/manifest/presets.h"

#include "framework/experiment/experiment.h"
#include "framework/manifest/option_lookup.h"
#include "tests/support/compositions.h"

namespace attnlab::presets_test {
namespace {

using namespace testing;

/// A plugin with these presets.
std::string write_net(const TempFolder& folder, const std::string& presets) {
  nlohmann::json manifest = made_manifest(Kind::model, "net");
  manifest["options"] = nlohmann::json::parse(
      R"([{"name": "preset", "type": "string", "default": "", "help": ""},
          {"name": "dim", "type": "int", "low": 0, "default": 0, "help": ""},
          {"name": "ratio", "type": "float", "default": 0, "help": ""},
          {"name": "depths", "type": "int", "list": true, "default": [], "help": ""},
          {"name": "path", "type": "string", "required": true, "help": ""}])");
  return folder.write("net.so", library_with_sections({{kManifestSection, manifest.dump()},
                                                       {kPresetsSection, presets}}));
}

std::string refusal(const std::string& presets) {
  const TempFolder folder;
  return message_of<PluginError>([&] { read_manifest(write_net(folder, presets)); });
}

const std::string kSizes = "small: {dim: 3, ratio: 4, depths: [1, 2]}\n9: {dim: 5}\n";

TEST(Presets, AreTheChoicesOfTheOptionThatNamesThem) {
  const TempFolder folder;
  const Manifest manifest = read_manifest(write_net(folder, kSizes));
  EXPECT_THAT(find_option(manifest.options, "preset")->choices, ElementsAre("", "small", "9"));
  EXPECT_EQ(to_flow(read_presets(folder / "net.so").at("small")),
            "{dim: 3, ratio: 4, depths: [1, 2]}");
}

TEST(Presets, StandInThePlaceOfDefaultsInWhatThePluginGets) {
  const TempFolder folder;
  write_net(folder, kSizes);
  const Catalogue catalogue = catalogue_of(folder.path());
  const auto options = [&](const std::string& given) {
    return to_flow(part_of(Kind::model, "net", parse_yaml(given, "o"), catalogue).options);
  };
  EXPECT_EQ(options("{path: p}"), "{preset: \"\", dim: 0, ratio: 0, depths: [], path: p}");
  EXPECT_EQ(options("{path: p, preset: small, ratio: 0.0}"),
            "{preset: small, dim: 3, ratio: 4, depths: [1, 2], path: p}")
      << "0.0 is the default, too";
  EXPECT_EQ(options("{path: p, preset: small, dim: 8, depths: [6]}"),
            "{preset: small, dim: 8, ratio: 4, depths: [6], path: p}");
  EXPECT_EQ(options("{path: p, preset: 9}"),
            "{preset: \"9\", dim: 5, ratio: 0, depths: [], path: p}");
  EXPECT_THAT(message_of<ConfigError>([&] { options("{path: p, preset: smal}"); }),
              AllOf(StartsWith("o:1:19: model.preset: 'smal'"), EndsWith("did you mean 'small'?")));
}

TEST(Presets, LeaveAConfigurationAsItIs) {
  const TempFolder folder;
  write_net(folder, kSizes);
  for (const Kind kind : {Kind::attention, Kind::task, Kind::dataset}) {
    write_plugin(folder, std::string(name_of(kind)) + ".so",
                 made_manifest(kind, std::string(name_of(kind))));
  }
  const Experiment experiment = resolve_experiment(
      parse_yaml("{schema: 1, model: {use: net, path: p, preset: small}, attention: attention, "
                 "task: task, dataset: dataset}",
                 "f.yaml"),
      catalogue_of(folder.path()), "made");
  EXPECT_EQ(experiment.model.options.at("dim").text(), "3");
  EXPECT_EQ(experiment.resolved.at("model").at("dim").text(), "0")
      << "hashes of runs depend on what is recorded";
}

TEST(Presets, AreRefusedWhereThePluginCouldNotTakeThem) {
  EXPECT_THAT(refusal("small: {dmi: 3}"), mentions("preset 'small'", "unknown key 'dmi'", "'dim'"));
  EXPECT_THAT(refusal("small: {dim: -3}"),
              mentions("preset 'small'", "dim:", "-3 is out of range"));
  EXPECT_THAT(refusal("small: {preset: x}"), HasSubstr("unknown key 'preset'"));
  EXPECT_THAT(refusal("small: {path: x}"), HasSubstr("unknown key 'path'"));
  EXPECT_THAT(refusal("small: 3"), mentions("preset 'small'", "map of options"));
  EXPECT_THAT(refusal("[small]"), HasSubstr("presets: expected a map"));
  EXPECT_THAT(refusal("a: {}\na: {}"), HasSubstr("presets:2:1"));
}

TEST(Presets, OfInstalledModelsAreThoseOfTheirFiles) {
  const Catalogue catalogue = Catalogue::of_this_program();
  const Candidate& vit = catalogue.find(Kind::model, "vit");
  EXPECT_EQ(to_flow(read_presets(vit.path).at("Ti")),
            "{dim: 192, depth: 12, heads: 3, patch_size: 16}");
  EXPECT_THAT(find_option(vit.manifest->options, "preset")->choices,
              ElementsAre("", "Ti", "S", "B", "L", "H"));
  const Candidate& crossvit = catalogue.find(Kind::model, "crossvit");
  EXPECT_THAT(find_option(crossvit.manifest->options, "preset")->choices,
              ElementsAre("", "Ti", "S", "9", "9d", "18", "18d"));
}

}  // namespace
}  // namespace attnlab::presets_test

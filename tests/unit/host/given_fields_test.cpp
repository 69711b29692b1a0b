// What data and model really give, against their manifests.
#include "framework/host/given_fields.h"

#include "tests/support/made_parts.h"

namespace attnlab::given_fields_test {
namespace {

using namespace testing;

class GivenFields : public ::testing::Test {
 protected:
  GivenFields() {
    nlohmann::json data = made_manifest(Kind::dataset, "maybe");
    data["gives"] = {"image", "class?"};
    write_plugin(parts_.folder(), "plugins/maybe.so", data);
    catalogue_ = catalogue_of(parts_.folder() / "plugins");
  }
  void check(const std::string& dataset, const std::vector<FieldInfo>& fields,
             const std::vector<FieldInfo>& outputs = {}) const {
    DatasetInfo info;
    info.name = dataset;
    info.source = "made by rule";
    info.fields = fields;
    const Experiment experiment = resolve_experiment(
        parse_yaml(
            "{schema: 1, model: vit, attention: quest, task: sorting, dataset: " + dataset + "}",
            "f.yaml"),
        *catalogue_, "made");
    check_given(experiment, info, outputs, *catalogue_);
  }

  const MadeParts parts_;
  std::optional<Catalogue> catalogue_;
  const FieldInfo image_{"image", {1, 2, 2}}, class_{"class", {}, at::kLong};
};

TEST_F(GivenFields, ThatAreAsTheManifestsSayPass) {
  check("pictures", {image_, class_});
  check("pictures", {image_, class_}, {{"logits", {10}}});
  check("maybe", {image_, class_});
}

TEST_F(GivenFields, ThatTheManifestPromisesMustBeThere) {
  EXPECT_THAT(message_of<PluginError>([&] { check("pictures", {image_}); }),
              mentions("'pictures'", "gives 'class'", "'class?'"));
  EXPECT_THAT(message_of<PluginError>([&] {
                check("pictures", {image_, class_}, {{"tokens", {3}}});
              }),
              mentions("'vit'", "gives 'logits'", "manifest"));
}

TEST_F(GivenFields, ThatTheManifestDoesNotListAreRefused) {
  EXPECT_THAT(message_of<PluginError>([&] {
                check("pictures", {image_, class_, {"kind", {}}});
              }),
              mentions("gives 'kind'", "manifest", "image, class"));
}

TEST_F(GivenFields, ThatOnlySomeDataHaveAreAskedForWhenTheyAreOpen) {
  EXPECT_THAT(message_of<DataError>([&] { check("maybe", {image_}); }),
              mentions("'sorting'", "takes 'class'", "'maybe' (made by rule)"));
}

}  // namespace
}  // namespace attnlab::given_fields_test

// IA-DETR and the detection tasks keep their contracts, on data that the kit cannot make up.
#include "framework/experiment/experiment.h"
#include "tests/plugins/detection/small_sets.h"
#include "tests/support/data_files.h"
#include "tests/support/kept_contract.h"
#include "tests/support/plugins.h"

namespace attnlab::contracts_test {
namespace {

using attnlab::testing::mentions;
using ::testing::HasSubstr;

class DetectionContracts : public ::testing::Test {
 protected:
  DetectionContracts() { testing::write_small_fashion(folder_); }

  /// A small detector on small scenes.
  Experiment experiment(const std::string& model, const std::string& task, bool one_shot) const {
    const std::string file = folder_.write(
        "experiment.yaml",
        "schema: 1\nmodel: {use: ia_detr, swin: nano, window: 4, stride: 4, dim: 8, heads: 2, "
        "hidden: 8, depth: 2, queries: 4, many_queries: 4, bias_hidden: 4, " +
            model + "}\nattention: standard\ntask: " + task +
            "\ndataset: {use: fashion_scenes, root: " + folder_.path() +
            ", train: 8, test: 8, canvas: 32, size: 16, prompt_size: 16, largest_scale: 1, "
            "one_shot: " +
            (one_shot ? "true" : "false") + "}\ntrain: {batch_size: 4, workers: 0}\n");
    return load_experiment(file, {}, testing::registry().catalogue());
  }

  testing::TempFolder folder_;
};

TEST_F(DetectionContracts, OfTheModelsForms) {
  for (const std::string form : {"indirect, contrast: true", "misaligned, proposals: false",
                                 "double_cross, encoder_depth: 1"}) {
    SCOPED_TRACE(form);
    testing::expect_contract_kept(Kind::model,
                                  experiment("decoder: " + form, "one_shot_detection", true));
  }
}

TEST_F(DetectionContracts, RefuseATaskOfTheOtherKindBeforeAnythingRuns) {
  const auto refusal = [&](const std::string& model, const std::string& task, bool one_shot) {
    return testing::message_of<ConfigError>([&] { experiment(model, task, one_shot); });
  };
  EXPECT_THAT(refusal("decoder: indirect", "object_detection", true),
              mentions("'object_detection'", "'layer_logits'", "nothing gives"));
  EXPECT_THAT(refusal("decoder: plain", "one_shot_detection", true),
              HasSubstr("takes 'layer_prompt_logits', which nothing gives"));
  for (const std::string form : {"indirect", "misaligned", "double_cross"}) {
    EXPECT_THAT(refusal("decoder: " + form, "object_detection", false),
                mentions("'ia_detr'", "'prompt'", "nothing gives"));
  }
  EXPECT_NO_THROW(experiment("decoder: plain", "object_detection", true));
}

TEST_F(DetectionContracts, OfTheTasks) {
  testing::expect_contract_kept(Kind::task,
                                experiment("decoder: indirect", "one_shot_detection", true));
  testing::expect_contract_kept(Kind::task,
                                experiment("decoder: plain", "object_detection", false));
}

}  // namespace
}  // namespace attnlab::contracts_test

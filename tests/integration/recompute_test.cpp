// train.recompute in runs of the program: the same run, bit by bit.
#include "framework/base/json.h"
#include "framework/base/parsed_json.h"
#include "tests/integration/workspace.h"

namespace attnlab::testing::recompute_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RecomputedRun : public Workspace {
 protected:
  void expect_same(Words words, const std::string& name) const {
    words.insert(words.begin(), "run");
    for (const std::string& layers : Words{"none", "layers"}) {
      Words all = words;
      all.push_back("name=" + name + "-" + layers);
      all.push_back("train.recompute=" + layers);
      all.emplace_back("train.threads=1");
      must(all);
    }
    const std::string plain = run_folder(name + "-none/standard");
    const std::string again = run_folder(name + "-layers/standard");
    EXPECT_EQ(checkpoint_tensors(plain), checkpoint_tensors(again)) << name;
    EXPECT_EQ(metric_lines(plain), metric_lines(again)) << name;
    EXPECT_EQ(parsed_json_file(plain + "/identity.json").at("configuration"),
              parsed_json_file(again + "/identity.json").at("configuration"))
        << "it is the same run";
  }
};

TEST_F(RecomputedRun, OfAVisionModelHasTheSameBits) {
  const Words draws = {"tiny.yaml", "model.depth=3", "model.dropout=0.1", "model.drop_path=0.1",
                       "model.attention_dropout=0.1"};
  expect_same(draws, "whole");
  Words in_parts = draws;
  in_parts.emplace_back("train.parts=4");
  expect_same(in_parts, "parts");
}

TEST_F(RecomputedRun, OfALanguageModelWithMemoryHasTheSameBits) {
  expect_same({ATTNLAB_TEST_CONFIGS "/experiments/smoke/transformer_xl_synthetic.yaml",
               "train.steps=6", "train.schedule.warmup_steps=2", "dataset.train=20000",
               "dataset.validation=0", "dataset.test=700"},
              "text");
}

TEST_F(RecomputedRun, IsRefusedForAModelWithoutSuchLayers) {
  for (const Words& more : {Words{}, Words{"--dry-run"}}) {
    Words words = {"run", "tiny.yaml", "model=resnet", "train.recompute=layers"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = attnlab(words);
    EXPECT_EQ(ended.exit_code, 2) << ended.story();
    EXPECT_THAT(ended.err, AllOf(HasSubstr("argument 'train.recompute=layers'"),
                                 HasSubstr("model 'resnet' has no layers")));
  }
}

}  // namespace
}  // namespace attnlab::testing::recompute_test

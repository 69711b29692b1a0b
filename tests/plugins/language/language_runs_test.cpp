// Language models in runs: the sizes of compositions that are compared, and streams that are
// resumed.
#include "framework/config/compose.h"
#include "tests/plugins/language/text_streams.h"
#include "tests/support/tiny_run.h"

namespace attnlab::language_runs_test {
namespace {

using testing::make_dataset;
using testing::make_model;
using testing::make_task;

/// Of a composition of configs/experiments/accuracy, on a text of 65 characters.
std::int64_t parameters_of(const std::string& name, const std::string& text) {
  const std::string file = ATTNLAB_TEST_CONFIGS "/experiments/accuracy/" + name + ".yaml";
  const Experiment experiment =
      load_experiment(file,
                      {"dataset={use: text_stream, root: " + text +
                           ", unit: character, window: 64, split: [0.5, 0.5]}",
                       "train.threads=1"},
                      testing::registry().catalogue());
  return build_run(experiment, 0, testing::registry()).parameter_count();
}

TEST(ShakespeareModels, HaveEquallyManyParametersWithMemoryAndWithout) {
  const testing::TempFolder folder;
  std::string text;
  for (int i = 0; i < 1300; ++i) text += static_cast<char>('0' + i % 65);
  const std::string file = folder.write("text", text);
  EXPECT_EQ(parameters_of("shakespeare_lm", file), 865217);
  EXPECT_EQ(parameters_of("shakespeare_xl", file), 865217);
}

class LanguageRuns : public testing::TinyRuns {};

/// The memory of each layer stands in the checkpoint.
TEST_F(LanguageRuns, ResumeATransformerXlOnATextAnywhereBitForBit) {
  const std::shared_ptr<Dataset> data =
      make_dataset("synthetic_text", "{train: 330, validation: 0, test: 60, window: 8, words: 4}");
  testing::TinyParts parts;
  parts.dataset = data;
  parts.model = [data] {
    return make_model("transformer_xl", data->info(),
                      "{dim: 8, depth: 2, heads: 2, softmax: plain, memory: 12, dropout: 0.1}",
                      "quest");
  };
  parts.task = [data] { return make_task("language_modelling", data->info()); };
  TrainOptions options = testing::tiny_options();
  options.epochs = 2;
  options.batch_size = options.eval_batch_size = 4;
  options.optimizer.lr = 0.01;
  expect_resumes_anywhere(parts, options);
  std::int64_t memories = 0;
  for (const auto& [name, tensor] : checkpoint("whole").tensors) {
    if (name.rfind("carried.", 0) != 0 || tensor.dim() != 3) continue;
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef({4, 12, 8})) << name;
    ++memories;
  }
  EXPECT_EQ(memories, 2) << "one per layer";
}

}  // namespace
}  // namespace attnlab::language_runs_test

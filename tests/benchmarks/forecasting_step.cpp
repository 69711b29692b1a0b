// Our side of the forecasting benchmark: training steps of PatchTST on windows of ETT's sizes.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it. The batch is
// that of forecasting_step.py, random numbers; model, task and optimiser are those of `attnlab run`
// with the published sizes of all sets but ETTh and ILI.
#include <boost/program_options.hpp>

#include "tests/benchmarks/timed.h"
#include "tests/benchmarks/training_step.h"

namespace po = boost::program_options;

namespace {

constexpr std::int64_t kWindows = 32, kLookback = 336, kHorizon = 96, kChannels = 7;

attnlab::DatasetInfo windows() {
  attnlab::DatasetInfo info;
  info.name = "random";
  info.fields = {{.name = "series", .shape = {kLookback, kChannels}},
                 {.name = "future", .shape = {kHorizon, kChannels}}};
  return info;
}

attnlab::Batch batch_of_windows() {
  attnlab::Batch batch;
  batch.size = kWindows;
  batch.fields = {{"series", at::randn({kWindows, kLookback, kChannels})},
                  {"future", at::randn({kWindows, kHorizon, kChannels})}};
  return batch;
}

}  // namespace

int main(int argc, char** argv) {
  std::string attention = "standard", more;
  std::int64_t threads = 0;
  po::options_description all("attnlab_bench_forecasting_step");
  all.add_options()("help", "this text")("attention", po::value(&attention))(
      "threads", po::value(&threads), "0: all cores")(
      "more", po::value(&more), "options of the model, e.g. ', residual_logits: true'");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  attnlab::OptimizerOptions adam;
  adam.use = "adam";
  adam.lr = 1e-4;
  adam.weight_decay = 0;
  attnlab::bench::TrainingStep step(
      batch_of_windows(),
      attnlab::testing::make_model("patch_tst", windows(), "{dropout: 0.2" + more + "}", attention),
      attnlab::testing::make_task("forecasting", windows()), adam, 0);
  attnlab::bench::answer([&] { return step.seconds(); });
}

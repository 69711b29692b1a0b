// How fast the loader delivers a dataset with crops and flips: examples a second, as JSON lines.
//
//   attnlab_bench_loader [--dataset idx_images] [--options YAML] [--batch N] [--workers N]
#include <chrono>

#include "framework/data/loader.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

int main(int argc, char** argv) {
  std::string dataset = "idx_images";
  std::string yaml = "{name: fashion-mnist, augmentation: {crop_padding: 2, flip: true}}";
  std::int64_t epochs = 3;
  attnlab::LoaderSettings settings;
  attnlab::PlanRequest request;
  request.batch_size = 128;
  po::options_description all("attnlab_bench_loader");
  all.add_options()("help", "this text")("dataset", po::value(&dataset))(
      "options", po::value(&yaml), "of the dataset, YAML")("epochs", po::value(&epochs))(
      "batch", po::value(&request.batch_size))("workers", po::value(&settings.workers));
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(/*threads=*/0);
  const auto data = attnlab::testing::make_dataset(dataset, yaml);
  const attnlab::RandomStreams streams(0);
  settings.augment = true;
  request.training = true;
  request.drop_last = true;
  request.streams = streams;
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    settings.epoch = static_cast<std::uint64_t>(epoch);
    request.epoch = settings.epoch;
    const auto begin = std::chrono::steady_clock::now();
    attnlab::Loader loader(*data, streams, data->plan(request), settings);
    std::int64_t examples = 0;
    while (const auto batch = loader.next()) examples += batch->size;
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::cout << nlohmann::json({{"dataset", dataset},
                                 {"workers", settings.workers},
                                 {"examples", examples},
                                 {"examples_per_second", static_cast<double>(examples) / seconds}})
                     .dump()
              << std::endl;
  }
}

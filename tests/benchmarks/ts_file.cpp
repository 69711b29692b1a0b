// How fast .ts files are read: MB/s on one core, a JSON line for each round.
//
//   attnlab_bench_ts_file [--megabytes 100] [--rounds 3]
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "framework/base/json.h"
#include "framework/base/random.h"
#include "framework/data/formats/ts_file.h"

namespace po = boost::program_options;

namespace {

/// Cases of 6 channels and 100 time steps with six decimals, as in the archive.
std::string made_up(std::size_t bytes) {
  attnlab::Random random(1);
  std::string text =
      "@problemName Made\n@dimensions 6\n@equalLength true\n@seriesLength 100\n"
      "@classLabel true a b c d\n@data\n";
  text.reserve(bytes + 8192);
  char number[32];
  while (text.size() < bytes) {
    for (int c = 0; c < 6; ++c) {
      for (int t = 0; t < 100; ++t) {
        std::snprintf(number, sizeof number, "%.6f", random.normal());
        text += number;
        text += t < 99 ? ',' : ':';
      }
    }
    text += static_cast<char>('a' + random.below(4));
    text += '\n';
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t megabytes = 100;
  int rounds = 3;
  po::options_description all("attnlab_bench_ts_file");
  all.add_options()("help", "this text")("megabytes", po::value(&megabytes))("rounds",
                                                                             po::value(&rounds));
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, all), values);
  po::notify(values);
  if (values.count("help") > 0) {
    std::cout << all;
    return 0;
  }
  const std::string text = made_up(megabytes * 1'000'000);
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const attnlab::TsFile file = attnlab::parse_ts(text, "made-up");
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const nlohmann::json line = {{"megabytes", double(text.size()) / 1e6},
                                 {"cases", file.cases()},
                                 {"seconds", seconds},
                                 {"megabytes_per_second", double(text.size()) / 1e6 / seconds}};
    std::cout << line.dump() << std::endl;
  }
}

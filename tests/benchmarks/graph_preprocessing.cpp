// How long a dataset of graphs takes to open for the first time, everything that it is made of
// included: with nothing in the cache folder, a new one each time.
//
//   attnlab_bench_graph_preprocessing [--dataset molecules] [--options YAML] [--threads 0]
//                                     [--limit 60] [--check]
//
// By default all peptides with their features, LapPE-10 and RWSE-20, below $ATTNLAB_DATA/graphs.
// Progress goes to standard error. Prints JSON: the seconds of the first opening, graphs a second,
// and the seconds of a second opening, which finds everything kept. --check fails where the first
// took longer than the limit.
#include <stdlib.h>

#include <chrono>

#include "framework/data/long_work.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"
#include "tests/support/temp_folder.h"

namespace po = boost::program_options;

int main(int argc, char** argv) {
  std::string dataset = "molecules", yaml = "{name: peptides-func, laplacian: 10, rwse: 20}";
  std::int64_t threads = 0;
  double limit = 60;
  bool check = false;
  po::options_description all("attnlab_bench_graph_preprocessing");
  all.add_options()("help", "this text")("dataset", po::value(&dataset))(
      "options", po::value(&yaml), "of the dataset, YAML")(
      "threads", po::value(&threads), "0: all cores")("limit", po::value(&limit), "seconds")(
      "check", po::bool_switch(&check), "exit status 1 where it takes longer");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  attnlab::on_long_work([](const std::string& text) { std::cerr << text << std::endl; });
  const attnlab::testing::TempFolder cache;
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  std::int64_t graphs = 0;
  const auto opened = [&] {
    const auto begin = std::chrono::steady_clock::now();
    const auto data = attnlab::testing::make_dataset(dataset, yaml);
    const auto end = std::chrono::steady_clock::now();
    graphs = 0;
    for (const auto split :
         {attnlab::Split::train, attnlab::Split::validation, attnlab::Split::test}) {
      graphs += data->size(split);
    }
    return std::chrono::duration<double>(end - begin).count();
  };
  const double first = opened(), again = opened();
  std::cout << nlohmann::json({{"dataset", dataset},
                               {"graphs", graphs},
                               {"seconds", first},
                               {"graphs_per_second", double(graphs) / first},
                               {"seconds_again", again}})
                   .dump()
            << std::endl;
  return check && first > limit ? 1 : 0;
}

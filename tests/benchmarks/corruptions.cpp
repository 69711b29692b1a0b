// ImageNet-C's fifteen corruptions of small images: seconds for each kind and for all, as JSON.
//
//   attnlab_bench_corruptions [--images 10000] [--size 32] [--severity 3] [--threads 0] [--check]
//
// Images are made up; so are the five photos of frost. --check fails where all fifteen together
// take 60 s or more.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "framework/base/random.h"
#include "framework/data/image/corruption.h"
#include "tests/benchmarks/timed.h"

namespace po = boost::program_options;

namespace {

using attnlab::Pixels;
using attnlab::Random;

constexpr double kLimit = 60;

/// Smooth colours with noise, as photographs have both.
Pixels picture(std::int64_t size, Random& random) {
  Pixels image(size, size, 3);
  const std::int64_t down = random.below(7) + 1, right = random.below(7) + 1;
  for (std::int64_t y = 0; y < size; ++y) {
    for (std::int64_t x = 0; x < 3 * size; ++x) {
      image.row(y)[x] =
          static_cast<std::uint8_t>((y * down + x * right + random.below(24)) * 160 / size % 256);
    }
  }
  return image;
}

/// A folder of photos for frost, removed at the end.
class FrostFolder {
 public:
  explicit FrostFolder(Random& random)
      : path_(std::filesystem::temp_directory_path() /
              ("attnlab-frost-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    for (int i = 1; i <= 5; ++i) {
      const Pixels photo = picture(1280, random);
      std::ofstream file(path_ / ("frost" + std::to_string(i) + ".ppm"), std::ios::binary);
      file << "P6\n1280 1280\n255\n";
      file.write(reinterpret_cast<const char*>(photo.bytes.data()),
                 static_cast<std::streamsize>(photo.bytes.size()));
    }
  }
  ~FrostFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  FrostFolder(const FrostFolder&) = delete;
  FrostFolder& operator=(const FrostFolder&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

double seconds(const attnlab::Corruption& corruption, std::vector<Pixels> images) {
  const auto begin = std::chrono::steady_clock::now();
  at::parallel_for(0, std::int64_t(images.size()), 16, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) corruption.apply(images[static_cast<std::size_t>(i)]);
  });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t count = 10000, size = 32, severity = 3, threads = 0;
  bool check = false;
  po::options_description all("attnlab_bench_corruptions");
  all.add_options()("help", "this text")("images", po::value(&count))("size", po::value(&size),
                                                                      "of an image in pixels")(
      "severity", po::value(&severity), "1 to 5")("threads", po::value(&threads), "0: all cores")(
      "check", po::bool_switch(&check), "exit status 1 where all fifteen take 60 s or more");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(threads);
  Random random(0);
  const FrostFolder frost(random);
  std::vector<Pixels> images;
  for (std::int64_t i = 0; i < count; ++i) images.push_back(picture(size, random));
  nlohmann::json line = {{"images", count}, {"size", size}, {"severity", severity}};
  double sum = 0;
  for (const std::string& kind : attnlab::standard_corruptions()) {
    attnlab::CorruptionOptions options;
    options.corruption = kind;
    options.severity = severity;
    options.frost = frost.path();
    const double own = seconds(attnlab::Corruption(options, size, size), images);
    line["seconds"][kind] = own;
    sum += own;
  }
  line["all_seconds"] = sum;
  std::cout << line.dump() << std::endl;
  return check && sum >= kLimit ? 1 : 0;
}

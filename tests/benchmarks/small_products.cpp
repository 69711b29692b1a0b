// Products of small matrices on one thread: our own (nn/kernels/small_product.h), oneDNN's,
// OpenBLAS's through LibTorch, and libxsmm's where the build found it (libxsmm-dev), which compiles
// each size as it is asked for. A JSON line for each size: GFLOP/s of each, and the median over the
// rounds of its time over ours. All take turns in each round.
//
//   attnlab_bench_small_products [--rounds 15] [--size ROWS DEPTH COLUMNS]
#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#ifdef ATTNLAB_LIBXSMM
#include <libxsmm.h>
#endif

#include "framework/base/json.h"
#include "framework/nn/kernels/large_product.h"
#include "framework/nn/kernels/small_product.h"
#include "tests/benchmarks/timed.h"

namespace {

using namespace attnlab;

struct Size {
  std::int64_t rows, depth, columns;
};

/// Logits and outputs of heads, linear maps of small models, and what is small no more.
constexpr Size kSizes[] = {{10, 32, 10},   {10, 10, 32},   {30, 16, 30},   {30, 30, 16},
                           {32, 32, 32},   {320, 32, 32},  {64, 64, 64},   {464, 64, 64},
                           {197, 64, 197}, {197, 197, 64}, {320, 128, 512}};

/// C = A B.
struct Matrices {
  Tensor a, b, c;

  float* of(const Tensor& x) const { return x.data_ptr<float>(); }
};

using Product = std::function<void()>;

std::map<std::string, Product> products(const Size& s, const Matrices& m) {
  std::map<std::string, Product> all;
  all["attnlab"] = [s, m] {
    small_product({.rows = s.rows,
                   .depth = s.depth,
                   .columns = s.columns,
                   .a = {m.of(m.a), s.depth},
                   .b = m.of(m.b),
                   .c = m.of(m.c)});
  };
  all["openblas"] = [m] {
    Tensor c = m.c;
    at::mm_out(c, m.a, m.b);
  };
  if (has_large_products()) {
    all["onednn"] = [s, m] {
      large_product(dense_factor(m.a), dense_factor(m.b), m.of(m.c), s.rows, s.depth, s.columns);
    };
  }
#ifdef ATTNLAB_LIBXSMM
  // By columns there: its first factor is our second.
  const float none = 0, one = 1;
  const auto columns = static_cast<int>(s.columns), depth = static_cast<int>(s.depth);
  const libxsmm_smmfunction kernel =
      libxsmm_smmdispatch(columns, static_cast<int>(s.rows), depth, &columns, &depth, &columns,
                          &one, &none, nullptr, nullptr);
  if (kernel != nullptr) {
    all["libxsmm"] = [kernel, m] { kernel(m.of(m.b), m.of(m.a), m.of(m.c)); };
  }
#endif
  return all;
}

double seconds(const Product& product, std::int64_t times) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < times; ++i) product();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
         static_cast<double>(times);
}

double median(std::vector<double> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

void measure(const Size& s, int rounds) {
  const Matrices m = {at::randn({s.rows, s.depth}), at::randn({s.depth, s.columns}),
                      at::empty({s.rows, s.columns})};
  const double operations = 2.0 * static_cast<double>(s.rows * s.depth * s.columns);
  const auto times = std::max<std::int64_t>(1, std::llround(5e7 / operations));
  const Tensor right = at::mm(m.a, m.b);
  std::map<std::string, std::vector<double>> taken;
  const auto all = products(s, m);
  for (int round = -1; round < rounds; ++round) {  // the first does not count
    for (const auto& [name, product] : all) {
      m.c.zero_();
      const double time = seconds(product, times);
      if (!at::allclose(m.c, right, 1e-4, 1e-4)) throw std::runtime_error(name + " is wrong");
      if (round >= 0) taken[name].push_back(time);
    }
  }
  nlohmann::json line = {{"rows", s.rows}, {"depth", s.depth}, {"columns", s.columns}};
  for (const auto& [name, each] : taken) {
    std::vector<double> ratios;
    for (int i = 0; i < rounds; ++i) ratios.push_back(each[i] / taken["attnlab"][i]);
    line[name] = {{"gflops", std::round(operations / median(each) / 1e8) / 10},
                  {"over_attnlab", std::round(median(ratios) * 1000) / 1000}};
  }
  std::cout << line.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 15;
  std::vector<std::int64_t> size;
  boost::program_options::options_description all("attnlab_bench_small_products");
  all.add_options()("help", "this text")("rounds", boost::program_options::value(&rounds))(
      "size", boost::program_options::value(&size)->multitoken(),
      "rows, depth and columns: that size alone");
  bench::read_options(argc, argv, all);
  bench::prepare(1);
  const at::NoGradGuard no_gradients;
  if (size.size() == 3) {
    measure({size[0], size[1], size[2]}, rounds);
    return 0;
  }
  for (const Size& each : kSizes) measure(each, rounds);
}

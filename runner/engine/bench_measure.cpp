// Times of attention layers, in turn with standard attention's.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <new>

#include "framework/base/clock.h"
#include "framework/base/error_text.h"
#include "framework/base/foreign_text.h"
#include "framework/base/text.h"
#include "runner/engine/bench.h"
#include "runner/engine/bench_report.h"
#include "runner/engine/engine.h"

namespace attnlab {
namespace {

constexpr double kShortest = 2e-3;                // seconds that one sample takes at least
constexpr std::size_t kFewest = 3, kMost = 1000;  // rounds
constexpr double kReserve = 1.2;  // memory that must be free, over what is expected to be needed

/// Seconds of one call, over so many.
double seconds_of(const Work& work, std::int64_t calls) {
  const Clock::time_point begin = Clock::now();
  for (std::int64_t i = 0; i < calls; ++i) work();
  return seconds_since(begin) / static_cast<double>(calls);
}

std::int64_t calls_for(double seconds) {
  return std::clamp<std::int64_t>(std::llround(kShortest / std::max(seconds, 1e-9)), 1, 1000);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// How many of n sorted values lie below the 95 % interval of their median: as many of the smallest
/// as a fair coin's heads, of n throws, stay at or below with 2.5 % at most.
std::size_t below_interval(std::size_t n) {
  double probability = std::pow(0.5, static_cast<double>(n)), total = probability;
  std::size_t heads = 0;
  while (total <= 0.025) {
    probability *= static_cast<double>(n - heads) / static_cast<double>(heads + 1);
    total += probability;
    ++heads;
  }
  return heads == 0 ? 0 : heads - 1;
}

BenchCell absent(BenchCell cell, Absence absence, const std::string& reason) {
  cell.absence = absence;
  cell.reason = reason;
  return cell;
}

/// What a mechanism threw while it was measured, as an absence.
BenchCell failed(const BenchCell& cell) {
  try {
    throw;
  } catch (const TraitError& error) {
    return absent(cell, Absence::incompatible, one_line(without_backtrace(error.what())));
  } catch (const std::bad_alloc&) {
    return absent(cell, Absence::memory, "the system gave no more");
  } catch (const c10::Error& error) {
    const std::string what = error.what_without_backtrace();
    const bool memory = what.find("allocate") != std::string::npos;
    return absent(cell, memory ? Absence::memory : Absence::failed, one_line(what));
  } catch (const std::exception& error) {
    return absent(cell, Absence::failed, one_line(without_backtrace(error.what())));
  } catch (...) {
    return absent(cell, Absence::failed, kNoException);
  }
}

/// Why there is not enough memory; empty: there is.
std::string lacking_memory(Registry& registry, const Part& part, const BenchShape& shape,
                           bool causal) {
  const std::int64_t needed = estimated_peak(registry, part, shape, causal);
  const std::int64_t available = available_memory();
  if (kReserve * static_cast<double>(needed) <= static_cast<double>(available)) return "";
  return fmt::format("forward and backward would need about {}, {} are free", bytes_text(needed),
                     bytes_text(available));
}

/// What all others are compared with.
struct Baseline {
  BenchLayer layer;
  std::int64_t peak_bytes;
};

BenchCell measure_cell(Registry& registry, const BenchPlan& plan, const BenchSubject& subject,
                       const BenchShape& shape, Baseline& standard) {
  BenchCell cell;
  cell.attention = subject.part.label;
  if (!subject.problem.empty()) return absent(cell, Absence::options, one_line(subject.problem));
  try {
    const std::string lack = lacking_memory(registry, subject.part, shape, plan.causal);
    if (!lack.empty()) return absent(cell, Absence::memory, lack);
    BenchLayer layer(registry, subject.part, shape, plan.causal);
    cell.peak_bytes = layer.peak_bytes();
    cell.memory_ratio =
        static_cast<double>(cell.peak_bytes) / static_cast<double>(standard.peak_bytes);
    cell.kernel = layer.kernel();
    for (const Pass pass : kPasses) {
      cell.times[pass] =
          compare([&] { layer.run(pass); }, [&] { standard.layer.run(pass); }, plan.seconds);
    }
    return cell;
  } catch (...) {
    return failed(cell);
  }
}

/// The rate at which standard attention's products were done, over the machine's.
void note_share(BenchBlock& block, bool causal) {
  for (const Pass pass : kPasses) {
    std::vector<double> seconds;
    for (const BenchCell& cell : block.cells) {
      const auto times = cell.times.find(pass);
      if (times != cell.times.end()) seconds.push_back(times->second.reference_seconds);
    }
    if (seconds.empty()) continue;
    block.standard_share[pass] =
        attention_work(block.shape, pass, causal) / median(seconds) / block.matmul_rate;
  }
}

}  // namespace

const char* name_of(Pass pass) { return pass == Pass::forward ? "forward" : "forward + backward"; }

const char* name_of(Absence absence) {
  switch (absence) {
    case Absence::options:
      return "options";
    case Absence::incompatible:
      return "incompatible";
    case Absence::memory:
      return "memory";
    case Absence::failed:
      return "failed";
    default:
      return "none";
  }
}

std::vector<std::vector<double>> take_turns(const std::vector<Work>& works, double seconds) {
  // The first calls are not counted: they meet cold caches and memory that is not mapped yet.
  std::vector<std::int64_t> calls;
  for (const Work& work : works) calls.push_back(calls_for(seconds_of(work, 1)));
  std::vector<std::vector<double>> times(works.size());
  const Clock::time_point begin = Clock::now();
  for (std::size_t round = 0; round < kFewest || (seconds_since(begin) < seconds && round < kMost);
       ++round) {
    for (std::size_t turn = 0; turn < works.size(); ++turn) {
      const std::size_t i = round % 2 == 0 ? turn : works.size() - 1 - turn;
      times[i].push_back(seconds_of(works[i], calls[i]));
    }
  }
  return times;
}

Comparison spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t below = below_interval(values.size());
  Comparison result;
  result.ratio = median(values);
  result.low = values[below];
  result.high = values[values.size() - 1 - below];
  result.rounds = static_cast<std::int64_t>(values.size());
  return result;
}

Comparison compare(const Work& subject, const Work& reference, double seconds) {
  const auto times = take_turns({subject, reference}, seconds);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times[0].size(); ++i) ratios.push_back(times[0][i] / times[1][i]);
  Comparison result = spread_of(ratios);
  result.seconds = median(times[0]);
  result.reference_seconds = median(times[1]);
  return result;
}

double matmul_rate() {
  constexpr std::int64_t kSide = 1536;
  const Tensor a = at::randn({kSide, kSide}), b = at::randn({kSide, kSide});
  Tensor product = at::empty({kSide, kSide});
  const Work multiply = [&] { at::mm_out(product, a, b); };
  multiply();
  double best = seconds_of(multiply, 1);
  for (int i = 0; i < 3; ++i) best = std::min(best, seconds_of(multiply, 1));
  return 2.0 * kSide * kSide * kSide / best;
}

double attention_work(const BenchShape& shape, Pass pass, bool causal) {
  const auto n = static_cast<double>(shape.length);
  const double pairs = causal ? n * (n + 1) / 2 : n * n;
  const double products = pass == Pass::forward ? 2 : 6;
  return 2 * products * pairs * static_cast<double>(shape.batch * shape.heads * shape.dim);
}

BenchBlock measure_block(Registry& registry, const BenchPlan& plan, const BenchShape& shape) {
  BenchBlock block;
  block.shape = shape;
  block.matmul_rate = matmul_rate();
  const Part part = part_of(Kind::attention, "standard", Node(), registry.catalogue());
  const std::string lack = lacking_memory(registry, part, shape, plan.causal);
  if (!lack.empty()) {
    throw ConfigError(
        fmt::format("--shapes: {}: standard attention, which all are compared with: {}",
                    shape_text(shape), lack));
  }
  Baseline standard{BenchLayer(registry, part, shape, plan.causal), 0};
  standard.peak_bytes = standard.layer.peak_bytes();
  for (const BenchSubject& subject : plan.subjects) {
    if (stop_requested()) break;
    block.cells.push_back(measure_cell(registry, plan, subject, shape, standard));
  }
  note_share(block, plan.causal);
  return block;
}

}  // namespace attnlab

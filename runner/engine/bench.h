// attnlab bench attention: what is measured, and how. Reports are in bench_report.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/host/registry.h"

namespace attnlab {

/// The input of one layer: queries, keys and values [batch, heads, length, dim], float32.
struct BenchShape {
  std::int64_t batch = 1, heads = 4, length = 0, dim = 64;
};

/// A forward pass without gradients, as in evaluation; forward and backward, as in training.
enum class Pass { forward, training };
constexpr Pass kPasses[] = {Pass::forward, Pass::training};
const char* name_of(Pass pass);

/// A median of paired measurements.
struct Comparison {
  double seconds = 0;            ///< one call of the subject; median over rounds
  double reference_seconds = 0;  ///< of the reference
  double ratio = 0;              ///< median over rounds of subject / reference
  /// The 95 % interval of that median (sign test); the whole range with fewer than six rounds.
  double low = 0, high = 0;
  std::int64_t rounds = 0;
};

using Work = std::function<void()>;

/// Seconds of one call of each, round by round: result[work][round]. In a round they take turns,
/// in one order and the next time in the other, for about so many seconds and at least three
/// rounds, after one call of each that is not counted.
std::vector<std::vector<double>> take_turns(const std::vector<Work>& works, double seconds);
/// Median and interval of a round's values, as `ratio`, `low` and `high`.
Comparison spread_of(std::vector<double> values);
/// `take_turns` of two.
Comparison compare(const Work& subject, const Work& reference, double seconds);

/// One attention layer at work: the second of two, so that mechanisms that read what the layer
/// before it left behind do their work.
class BenchLayer {
 public:
  /// @throws PluginError, ConfigError.
  BenchLayer(Registry& registry, const Part& part, const BenchShape& shape, bool causal);

  void run(Pass pass);
  /// The kernel that is taken: framework/nn/attention/attention_kernel.h.
  std::string kernel();
  /// Bytes of one forward and backward pass at their peak, beyond the inputs: intermediate results,
  /// output, gradients; with one thread, since each further thread has scratch of its own.
  std::int64_t peak_bytes();

 private:
  Tensor attend() const;

  std::shared_ptr<Attention> attention_;
  AttentionInput input_;
  Tensor gradient_;      ///< of the output
  ForwardState before_;  ///< what the first layer left behind
};

/// What a training pass will need at this shape, from passes over two short sequences.
std::int64_t estimated_peak(Registry& registry, const Part& part, const BenchShape& shape,
                            bool causal);
/// Bytes that this process can still take, of the machine and of its control group.
std::int64_t available_memory();

/// Multiplications and additions a second of a large float32 matrix product: the best of a few.
double matmul_rate();
/// Those of standard attention's matrix products: two forward, six forward and backward.
double attention_work(const BenchShape& shape, Pass pass, bool causal);

/// Why there is no number.
enum class Absence { none, options, incompatible, memory, failed };
const char* name_of(Absence absence);

/// One mechanism at one shape.
struct BenchCell {
  std::string attention;  ///< its label
  Absence absence = Absence::none;
  std::string reason;  ///< of the absence
  std::string kernel;
  std::map<Pass, Comparison> times;  ///< against `standard`
  std::int64_t peak_bytes = 0;
  double memory_ratio = 0;  ///< against `standard`
};

/// All mechanisms at one shape.
struct BenchBlock {
  BenchShape shape;
  double matmul_rate = 0;
  std::map<Pass, double> standard_share;  ///< of that rate, reached by `standard`
  std::vector<BenchCell> cells;
};

enum class Verdict { holds, unclear, missed };
const char* name_of(Verdict verdict);

/// A limit that a mechanism promises to keep. `missed` where a whole interval lies above the limit,
/// `unclear` where only the median does.
struct BenchBar {
  std::string what;
  double limit = 0;
  Comparison worst;   ///< its ratio and interval are those that the limit is for
  std::string where;  ///< the shape of the worst
  Verdict verdict = Verdict::holds;

  /// Takes in one more measurement.
  void add(const Comparison& measured, const std::string& at);
};

/// A mechanism under measurement.
struct BenchSubject {
  Part part;
  std::string problem;  ///< why it cannot be built from its defaults; empty: it can
};

struct BenchPlan {
  std::vector<BenchSubject> subjects;
  std::vector<BenchShape> shapes;
  double seconds = 0;  ///< for each comparison
  bool causal = false;
};

BenchBlock measure_block(Registry& registry, const BenchPlan& plan, const BenchShape& shape);
/// The promises of those mechanisms that were measured.
std::vector<BenchBar> measure_bars(Registry& registry, const BenchPlan& plan,
                                   const std::vector<BenchBlock>& blocks);

}  // namespace attnlab

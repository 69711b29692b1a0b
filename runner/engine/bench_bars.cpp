// The promises that mechanisms make about their cost, and whether they keep them.
//
//   quest              time at most 1.05 of standard attention's, at every shape
//   linear cost        time at most 5 times that at a quarter of the length, one example both
//   doubly_stochastic  time at most max_iter softmax passes over the logits, beyond the matrix
//                      products that every attention has: two, six with gradients
#include <fmt/format.h>
#include <string>

#include "framework/base/text.h"
#include "runner/engine/bench.h"
#include "runner/engine/bench_report.h"
#include "runner/engine/engine.h"

namespace attnlab {
namespace {

constexpr double kQuestLimit = 1.05, kGrowthLimit = 5, kSinkhornLimit = 1;

/// One softmax over logits [batch, heads, length, length].
class SoftmaxPass {
 public:
  explicit SoftmaxPass(const BenchShape& s)
      : logits_(at::randn({s.batch, s.heads, s.length, s.length})),
        gradient_(at::randn_like(logits_)) {
    logits_.requires_grad_();
  }
  void run(Pass pass) const {
    const at::AutoGradMode gradients(pass == Pass::training);
    const Tensor weights = logits_.softmax(-1);
    if (pass == Pass::forward) return;
    weights.backward(gradient_);
    logits_.mutable_grad().reset();
  }

 private:
  Tensor logits_, gradient_;
};

/// What the explicit form of every attention does beside its normaliser: scaled queries, two matrix
/// products, inputs that lie by token as the layer's do.
class Products {
 public:
  explicit Products(const BenchShape& s) : gradient_(drawn(s)) {
    for (Tensor& x : inputs_) x = drawn(s).requires_grad_();
  }
  void run(Pass pass) const {
    const at::AutoGradMode gradients(pass == Pass::training);
    const Tensor logits = at::matmul(inputs_[0] * 0.125, inputs_[1].transpose(-2, -1));
    const Tensor out = at::matmul(logits, inputs_[2]);
    if (pass == Pass::forward) return;
    out.backward(gradient_);
    for (const Tensor& x : inputs_) x.mutable_grad().reset();
  }

 private:
  static Tensor drawn(const BenchShape& s) {
    return at::randn({s.batch, s.length, s.heads, s.dim}).transpose(1, 2);
  }
  Tensor inputs_[3];
  Tensor gradient_;
};

BenchBar bar_of(const std::string& what, double limit) {
  BenchBar bar;
  bar.what = what;
  bar.limit = limit;
  return bar;
}

/// The cell of a subject in a block; null where it has no times.
const BenchCell* cell_of(const BenchBlock& block, std::size_t subject) {
  if (subject >= block.cells.size()) return nullptr;  // interrupted
  const BenchCell& cell = block.cells[subject];
  return cell.absence == Absence::none ? &cell : nullptr;
}

void add_quest(const BenchPlan& plan, const std::vector<BenchBlock>& blocks, std::size_t index,
               std::vector<BenchBar>& bars) {
  for (const Pass pass : kPasses) {
    BenchBar bar = bar_of(
        fmt::format("{}: time over standard's, {}", plan.subjects[index].part.label, name_of(pass)),
        kQuestLimit);
    for (const BenchBlock& block : blocks) {
      const BenchCell* cell = cell_of(block, index);
      if (cell != nullptr) bar.add(cell->times.at(pass), shape_text(block.shape));
    }
    if (bar.worst.rounds > 0) bars.push_back(bar);
  }
}

void add_growth(Registry& registry, const BenchPlan& plan, const std::vector<BenchBlock>& blocks,
                std::size_t index, std::vector<BenchBar>& bars) {
  const BenchBlock* longest = nullptr;
  for (const BenchBlock& block : blocks) {
    if (cell_of(block, index) == nullptr || block.shape.length < 4) continue;
    if (longest == nullptr || block.shape.length > longest->shape.length) longest = &block;
  }
  if (longest == nullptr) return;
  BenchShape whole = longest->shape;
  whole.batch = 1;
  BenchShape quarter = whole;
  quarter.length = whole.length / 4;
  const Part& part = plan.subjects[index].part;
  BenchLayer large(registry, part, whole, plan.causal), small(registry, part, quarter, plan.causal);
  for (const Pass pass : kPasses) {
    BenchBar bar = bar_of(fmt::format("{}: time at n = {} over n = {}, {}", part.label,
                                      whole.length, quarter.length, name_of(pass)),
                          kGrowthLimit);
    bar.add(compare([&] { large.run(pass); }, [&] { small.run(pass); }, plan.seconds),
            shape_text(whole));
    bars.push_back(bar);
  }
}

void add_sinkhorn(Registry& registry, const BenchPlan& plan, const std::vector<BenchBlock>& blocks,
                  std::size_t index, std::vector<BenchBar>& bars) {
  const Part& part = plan.subjects[index].part;
  const std::string iterations = part.options.at("max_iter").text();
  const double count = std::stod(iterations);
  for (const Pass pass : kPasses) {
    BenchBar bar = bar_of(fmt::format("{}: time beyond matrix products over {} softmax passes', {}",
                                      part.label, iterations, name_of(pass)),
                          kSinkhornLimit);
    for (const BenchBlock& block : blocks) {
      if (cell_of(block, index) == nullptr || stop_requested()) continue;
      BenchLayer layer(registry, part, block.shape, plan.causal);
      const SoftmaxPass softmax(block.shape);
      const Products products(block.shape);
      const auto times = take_turns(
          {[&] { layer.run(pass); }, [&] { products.run(pass); }, [&] { softmax.run(pass); }},
          plan.seconds);
      std::vector<double> values;
      for (std::size_t i = 0; i < times[0].size(); ++i) {
        values.push_back((times[0][i] - times[1][i]) / (count * times[2][i]));
      }
      bar.add(spread_of(values), shape_text(block.shape));
    }
    if (bar.worst.rounds > 0) bars.push_back(bar);
  }
}

}  // namespace

const char* name_of(Verdict verdict) {
  return verdict == Verdict::holds ? "holds" : verdict == Verdict::missed ? "missed" : "unclear";
}

void BenchBar::add(const Comparison& measured, const std::string& at) {
  if (worst.rounds == 0 || measured.ratio > worst.ratio) {
    worst = measured;
    where = at;
  }
  if (measured.low > limit) {
    verdict = Verdict::missed;
  } else if (measured.ratio > limit && verdict == Verdict::holds) {
    verdict = Verdict::unclear;
  }
}

std::vector<BenchBar> measure_bars(Registry& registry, const BenchPlan& plan,
                                   const std::vector<BenchBlock>& blocks) {
  std::vector<BenchBar> bars;
  for (std::size_t i = 0; i < plan.subjects.size(); ++i) {
    if (stop_requested()) break;
    if (!plan.subjects[i].problem.empty()) continue;
    const Part& part = plan.subjects[i].part;
    const Manifest& manifest = *registry.catalogue().find(part.kind, lookup_name(part)).manifest;
    if (part.id == "attnlab/quest") add_quest(plan, blocks, i, bars);
    if (part.id == "attnlab/doubly_stochastic") add_sinkhorn(registry, plan, blocks, i, bars);
    const auto linear = manifest.traits.find("linear_cost");
    if (linear != manifest.traits.end() && linear->second) {
      add_growth(registry, plan, blocks, i, bars);
    }
  }
  return bars;
}

}  // namespace attnlab

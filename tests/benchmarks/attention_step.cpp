// Our side of the benchmark of attention alone: forward and backward on fixed random tensors, which
// lie by token as projections give them. attention_step.py says which.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it.
// --attention takes a plugin's name, a Python file or `explicit`.
#include <chrono>
#include <map>

#include "tests/benchmarks/named_attention.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

using at::Tensor;

constexpr std::int64_t kHeads = 4, kDim = 64;

struct Options {
  std::string model = "197", attention = "standard";
  std::int64_t threads = 0;

  bool causal() const { return model.find("_causal") != std::string::npos; }
  std::int64_t length() const { return std::stoll(model); }
  std::int64_t batch() const {
    static const std::map<std::int64_t, std::int64_t> batches = {
        {64, 64}, {197, 20}, {1024, 4}, {4096, 1}, {16384, 1}};
    return batches.at(length());
  }
};

class Step {
 public:
  explicit Step(const Options& options)
      : attention_(attnlab::testing::make_attention(
            attnlab::bench::named_attention(options.attention), {.heads = kHeads,
                                                                 .head_dim = kDim,
                                                                 .query_width = kHeads * kDim,
                                                                 .key_width = kHeads * kDim,
                                                                 .value_width = kHeads * kDim})) {
    for (Tensor* x : {&input_.queries, &input_.keys, &input_.values, &grad_}) {
      *x = at::randn({options.batch(), options.length(), kHeads, kDim}).transpose(1, 2);
      x->requires_grad_(x != &grad_);
    }
    input_.visible.causal = options.causal();
    if (attention_->traits().sources) {
      input_.query_source = at::randn({options.batch(), options.length(), kHeads * kDim});
      input_.key_source = input_.value_source = input_.query_source;
    }
  }

  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    attnlab::AttentionContext context;
    attention_->forward(input_, context).backward(grad_);
    const auto end = std::chrono::steady_clock::now();
    if (!input_.queries.grad().isfinite().all().item<bool>()) {
      throw attnlab::Error("a gradient is not finite: this times nothing");
    }
    for (const Tensor* x : {&input_.queries, &input_.keys, &input_.values}) {
      x->mutable_grad() = Tensor();
    }
    attention_->zero_grad();
    return std::chrono::duration<double>(end - begin).count();
  }

 private:
  std::shared_ptr<attnlab::Attention> attention_;
  attnlab::AttentionInput input_;
  Tensor grad_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_attention_step");
  all.add_options()("help", "this text")("model", po::value(&options.model),
                                         "a length, and behind it _causal or a mechanism's name, "
                                         "which are the rival's")(
      "attention", po::value(&options.attention), "a name, a Python file, or explicit")(
      "threads", po::value(&options.threads), "0: all cores");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(options.threads);
  Step step(options);
  attnlab::bench::answer([&] { return step.seconds(); });
}

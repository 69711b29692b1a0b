// Our side of the benchmark of attention alone: forward and backward on fixed random tensors, which
// lie by token as projections give them. attention_step.py says which.
//
// Reads "steps N" and answers with a JSON list of N times in seconds; "quit" ends it.
// --attention takes a plugin's name, a Python file or `explicit`.
// --one-query asks with the last query of one example, forward and without gradients, as a token is
// written behind others.
#include <chrono>
#include <map>

#include "tests/benchmarks/named_attention.h"
#include "tests/benchmarks/timed.h"
#include "tests/support/plugins.h"

namespace po = boost::program_options;

namespace {

using at::Tensor;

constexpr std::int64_t kDim = 64;

struct Options {
  std::string model = "197", attention = "standard";
  std::int64_t threads = 0, heads = 4;
  bool one_query = false;

  bool causal() const { return model.find("_causal") != std::string::npos; }
  std::int64_t length() const { return std::stoll(model); }
  std::int64_t queries() const { return one_query ? 1 : length(); }
  std::int64_t batch() const {
    if (one_query) return 1;
    static const std::map<std::int64_t, std::int64_t> batches = {
        {64, 64}, {197, 20}, {1024, 4}, {4096, 1}, {16384, 1}};
    return batches.at(length());
  }
};

class Step {
 public:
  explicit Step(const Options& options)
      : attention_(make(options, attnlab::bench::named_attention(options.attention))),
        alone_(options.one_query) {
    const std::int64_t batch = options.batch(), heads = options.heads;
    for (Tensor* x : {&input_.queries, &input_.keys, &input_.values, &grad_}) {
      const bool of_keys = x == &input_.keys || x == &input_.values;
      const std::int64_t length = of_keys ? options.length() : options.queries();
      *x = at::randn({batch, length, heads, kDim}).transpose(1, 2);
      x->requires_grad_(x != &grad_ && !alone_);
    }
    input_.visible.causal = options.causal();
    if (attention_->traits().sources) {
      input_.key_source = input_.value_source = at::randn({batch, options.length(), heads * kDim});
      input_.query_source = alone_ ? at::randn({batch, 1, heads * kDim}) : input_.key_source;
    }
  }

  double seconds() {
    const auto begin = std::chrono::steady_clock::now();
    attnlab::AttentionContext context;
    const Tensor y = attention_->forward(input_, context);
    if (!alone_) y.backward(grad_);
    const auto end = std::chrono::steady_clock::now();
    if (alone_) return std::chrono::duration<double>(end - begin).count();
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
  static std::shared_ptr<attnlab::Attention> make(const Options& options, const std::string& id) {
    const std::int64_t width = options.heads * kDim;
    return attnlab::testing::make_attention(id, {.heads = options.heads,
                                                 .head_dim = kDim,
                                                 .query_width = width,
                                                 .key_width = width,
                                                 .value_width = width});
  }

  std::shared_ptr<attnlab::Attention> attention_;
  attnlab::AttentionInput input_;
  Tensor grad_;
  bool alone_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  po::options_description all("attnlab_bench_attention_step");
  all.add_options()("help", "this text")("model", po::value(&options.model),
                                         "a length, and behind it _causal or a mechanism's name, "
                                         "which are the rival's")(
      "attention", po::value(&options.attention), "a name, a Python file, or explicit")(
      "threads", po::value(&options.threads), "0: all cores")("heads", po::value(&options.heads),
                                                              "of 64 channels")(
      "one-query", po::bool_switch(&options.one_query), "one query, forward alone");
  attnlab::bench::read_options(argc, argv, all);
  attnlab::bench::prepare(options.threads);
  Step step(options);
  attnlab::bench::answer([&] { return step.seconds(); });
}

// GPT-2's weights in Hugging Face's layout against its equations written out, and what such a model
// is asked.
#include <cmath>

#include "framework/config/compose.h"
#include "framework/data/formats/safetensors.h"
#include "framework/experiment/evaluations.h"
#include "framework/train/initialise.h"
#include "framework/train/overlay.h"
#include "tests/plugins/language/byte_pair_files.h"
#include "tests/plugins/language/language_models.h"
#include "tests/support/data_files.h"

namespace attnlab::gpt2_test {
namespace {

using attnlab::testing::mentions;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr std::int64_t kDim = 8, kLayers = 2, kHeads = 2, kHidden = 32, kContext = 12;

using Row = std::vector<double>;

/// Weights by Hugging Face's names, which have no prefix here.
class Weights {
 public:
  explicit Weights(std::int64_t vocabulary) {
    at::manual_seed(21);
    const auto add = [&](const std::string& name, at::IntArrayRef sizes, double mean = 0) {
      tensors.set(name, at::randn(sizes) * 0.4 + mean);
    };
    add("wte.weight", {vocabulary, kDim});
    add("wpe.weight", {kContext, kDim});
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string h = "h." + std::to_string(i) + ".";
      for (const char* norm : {"ln_1", "ln_2"}) {
        add(h + norm + ".weight", {kDim}, 1);
        add(h + norm + ".bias", {kDim});
      }
      for (const auto& [name, in, out] :
           {std::tuple{"attn.c_attn", kDim, 3 * kDim}, std::tuple{"attn.c_proj", kDim, kDim},
            std::tuple{"mlp.c_fc", kDim, kHidden}, std::tuple{"mlp.c_proj", kHidden, kDim}}) {
        add(h + name + ".weight", {in, out});
        add(h + name + ".bias", {out});
      }
      tensors.set(h + "attn.bias", at::ones({1, 1, kContext, kContext}).tril());
    }
    add("ln_f.weight", {kDim}, 1);
    add("ln_f.bias", {kDim});
  }

  /// Log-probabilities of what follows each token.
  std::vector<Row> log_probabilities(const std::vector<std::int64_t>& tokens) const {
    std::vector<Row> x;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      Row row;
      for (std::int64_t c = 0; c < kDim; ++c) {
        row.push_back(at("wte.weight", tokens[t], c) + at("wpe.weight", std::int64_t(t), c));
      }
      x.push_back(row);
    }
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string h = "h." + std::to_string(i) + ".";
      std::vector<Row> qkv, hidden;
      for (const Row& row : x) qkv.push_back(map(norm(row, h + "ln_1"), h + "attn.c_attn"));
      for (std::size_t t = 0; t < x.size(); ++t) {
        add(x[t], map(attention(qkv, t), h + "attn.c_proj"));
        Row wide = map(norm(x[t], h + "ln_2"), h + "mlp.c_fc");
        for (double& v : wide) {
          v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        }
        add(x[t], map(wide, h + "mlp.c_proj"));
      }
    }
    std::vector<Row> all;
    const std::int64_t vocabulary = tensors.at("wte.weight").size(0);
    for (const Row& row : x) {
      const Row out = norm(row, "ln_f");
      Row logits;
      double sum = 0;
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        double logit = 0;
        for (std::int64_t c = 0; c < kDim; ++c) {
          logit += out[std::size_t(c)] * at("wte.weight", v, c);
        }
        logits.push_back(logit);
        sum += std::exp(logit);
      }
      for (double& logit : logits) logit -= std::log(sum);
      all.push_back(logits);
    }
    return all;
  }

  NamedTensors tensors;

 private:
  double at(const std::string& name, std::int64_t i, std::int64_t j) const {
    const Tensor& matrix = tensors.at(name);
    return matrix.data_ptr<float>()[i * matrix.size(1) + j];
  }
  double at(const std::string& name, std::size_t i) const {
    return tensors.at(name).data_ptr<float>()[i];
  }
  static void add(Row& to, const Row& row) {
    for (std::size_t c = 0; c < to.size(); ++c) to[c] += row[c];
  }
  /// x W + b, as Conv1D has it.
  Row map(const Row& x, const std::string& name) const {
    Row y;
    const std::int64_t out = tensors.at(name + ".weight").size(1);
    for (std::int64_t j = 0; j < out; ++j) {
      double sum = at(name + ".bias", std::size_t(j));
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum += x[i] * at(name + ".weight", std::int64_t(i), j);
      }
      y.push_back(sum);
    }
    return y;
  }
  Row norm(Row x, const std::string& name) const {
    const auto n = static_cast<double>(x.size());
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / n;
    for (const double v : x) variance += (v - mean) * (v - mean) / n;
    for (std::size_t c = 0; c < x.size(); ++c) {
      x[c] = (x[c] - mean) / std::sqrt(variance + 1e-5) * at(name + ".weight", c) +
             at(name + ".bias", c);
    }
    return x;
  }
  /// Of the token at t, its heads side by side.
  static Row attention(const std::vector<Row>& qkv, std::size_t t) {
    constexpr std::size_t kWidth = kDim / kHeads;
    Row out(kDim, 0);
    for (std::size_t head = 0; head < kHeads; ++head) {
      const std::size_t q = head * kWidth, k = q + kDim, v = q + 2 * kDim;
      Row weights;
      double sum = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double logit = 0;
        for (std::size_t c = 0; c < kWidth; ++c) logit += qkv[t][q + c] * qkv[s][k + c];
        weights.push_back(std::exp(logit / std::sqrt(double(kWidth))));
        sum += weights.back();
      }
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t c = 0; c < kWidth; ++c) out[q + c] += weights[s] / sum * qkv[s][v + c];
      }
    }
    return out;
  }
};

std::string config(const std::string& name) { return std::string(ATTNLAB_TEST_CONFIGS) + name; }

class Gpt2 : public ::testing::Test {
 protected:
  Gpt2() : weights_(pairs_.special() + 1) {
    pairs_.write(folder_, "pairs");
    folder_.write("text/t", "ab ab ac\n cab ab<|endoftext|>abba ab\n");
    folder_.write("last.jsonl", "{\"text\": \"ab ca ab\"}\n{\"text\": \"abba abba ab\"}\n");
    folder_.write("choices.jsonl",
                  R"({"context": "ab ca", "choices": ["ab", "bcb", "cab"], "label": 2})"
                  "\n"
                  R"({"context": "c", "choices": ["abab", "a"], "label": 0})");
  }

  /// A run that begins with a file of these tensors.
  BuiltRun begun(const NamedTensors& tensors) const {
    const std::string file = folder_ / "model.safetensors";
    write_safetensors(file, {tensors, {}});
    const auto asked = [&](const char* form, const std::string& questions) {
      return "dataset: {form: " + std::string(form) + ", requests: " + folder_ / questions + "}";
    };
    const std::string path =
        folder_.write("experiment.yaml",
                      "schema: 1\nmodel: {use: transformer_lm, preset: gpt2, dim: 8, depth: 2, "
                      "heads: 2, context: 12}\nattention: standard\ntask: {use: "
                      "language_modelling, unit: byte_pair}\ndataset: {use: text_stream, unit: "
                      "byte_pair, tokenizer: " +
                          folder_ / "pairs" + ", root: " + folder_ / "text" +
                          ", train: t, test: t, window: 6, stride: 2}\ntrain: {steps: 1, "
                          "batch_size: 1, threads: 1, "
                          "workers: 0, eval_batch_size: 3}\ninit: {from: " +
                          file + ", map: " + config("/maps/gpt2.yaml") +
                          "}\nevaluate:\n  last: {set: {" + asked("lambada", "last.jsonl") +
                          ", model: {answers: true}, task: {requests: true, answers: true}}}\n  "
                          "choices: {set: {" +
                          asked("choices", "choices.jsonl") + ", task: {requests: true}}}\n");
    const Experiment experiment = load_experiment(path, {}, testing::registry().catalogue());
    BuiltRun run = build_run(experiment, 0, testing::registry());
    initialise(run, RunFolder(folder_ / "run"), testing::registry().catalogue());
    run.model->to(at::kDouble);
    return run;
  }

  /// -log p of the last of these tokens, and whether each is the most likely one.
  std::pair<double, bool> of_the_last(const std::vector<std::int64_t>& tokens,
                                      std::size_t count) const {
    const std::vector<Row> all = weights_.log_probabilities(tokens);
    double nll = 0;
    bool greedy = true;
    for (std::size_t i = tokens.size() - count; i < tokens.size(); ++i) {
      const Row& row = all[i - 1];
      nll -= row[std::size_t(tokens[i])];
      greedy &= std::max_element(row.begin(), row.end()) - row.begin() == tokens[i];
    }
    return {nll, greedy};
  }

  /// The metrics of an entry of `evaluate`.
  static Metrics asked(BuiltRun& run, const std::string& name) {
    for (const EvaluationEntry& entry :
         evaluations_of(run.experiment, testing::registry().catalogue())) {
      if (entry.name != name) continue;
      BuiltRun overlay = overlaid(run, entry, testing::registry());
      overlay.model->to(at::kDouble);
      take_weights(overlay, run, entry, live_weights(run), "the run");
      const std::atomic<bool> stop{false};
      return evaluate_overlay(overlay, entry, stop);
    }
    ADD_FAILURE() << "there is no entry " << name;
    return {};
  }

  const testing::TempFolder folder_;
  const testing::PairFiles pairs_{{{"a", "b"}, {" ", "ab"}, {" ", "c"}}};
  const Weights weights_;
};

TEST_F(Gpt2, ComputesItsEquationsFromPublishedWeights) {
  NamedTensors prefixed;
  for (const auto& [name, tensor] : weights_.tensors) prefixed.set("transformer." + name, tensor);
  prefixed.set("lm_head.weight", weights_.tensors.at("wte.weight"));
  for (const NamedTensors& tensors : {weights_.tensors, prefixed}) {
    const BuiltRun run = begun(tensors);
    EXPECT_TRUE(run.initial_random.empty());
    run.model->eval();
    const std::vector<std::int64_t> tokens = {97, 256, 3, 258, 259, 0, 257, 97, 98};
    Batch batch = testing::lines(at::tensor(tokens, at::kLong).unsqueeze(0));
    const Tensor nll = testing::output(*run.model, batch);
    const std::vector<Row> expected = weights_.log_probabilities(tokens);
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const std::int64_t next = tokens[(t + 1) % tokens.size()];
      EXPECT_NEAR(nll[0][std::int64_t(t)].item<double>(), -expected[t][std::size_t(next)], 1e-9);
    }
  }
}

TEST_F(Gpt2, RefusesWeightsOfAnotherShape) {
  const auto refusal = [&](const std::string& name, const Tensor& tensor) {
    NamedTensors tensors = weights_.tensors;
    tensors.set(name, tensor);
    return message_of<DataError>([&] { begun(tensors); });
  };
  EXPECT_THAT(refusal("h.1.attn.c_attn.weight", at::ones({kDim, 2 * kDim})),
              AllOf(HasSubstr("layer1.attention.qkv.weight is [16, 8] float32"),
                    HasSubstr("expected [24, 8] float32")));
  EXPECT_THAT(refusal("h.0.mlp.c_fc.weight", at::ones({kDim})),
              mentions("h.0.mlp.c_fc.weight", "[8] float32", "no matrix"));
  EXPECT_THAT(refusal("wte.weight", at::ones({50257, kDim})),
              HasSubstr("table.weight is [50257, 8] float32, expected [260, 8] float32"));
}

TEST_F(Gpt2, HasItsPerplexityOverWindowsThatOverlap) {
  BuiltRun run = begun(weights_.tensors);
  const std::vector<std::int64_t> text =
      run.dataset->codec()->encode("ab ab ac\n cab ab<|endoftext|>abba ab\n");
  const auto count = static_cast<std::int64_t>(text.size()), last = count - 1 - 6;
  ASSERT_GT(last, 4);
  // Windows of 6 tokens from 0, 2, 4, ... and the last place; a target counts in the first.
  double sum = 0;
  std::int64_t counted = 0;
  for (std::int64_t begin = 0, end = 1; end < count; begin = std::min(begin + 2, last)) {
    const std::vector<Row> rows =
        weights_.log_probabilities({text.begin() + begin, text.begin() + begin + 6});
    for (; end <= begin + 6; ++end, ++counted) {
      sum -= rows[std::size_t(end - 1 - begin)][std::size_t(text[std::size_t(end)])];
    }
  }
  ASSERT_EQ(counted, count - 1);
  const std::atomic<bool> stop{false};
  const Metrics metrics = evaluate_split(run, Split::test, stop);
  EXPECT_NEAR(metrics.at("perplexity"), std::exp(sum / double(counted)), 1e-7);
}

TEST_F(Gpt2, IsAskedForLastWords) {
  BuiltRun run = begun(weights_.tensors);
  const Metrics metrics = asked(run, "last");
  double nll = 0, right = 0;
  for (const char* text : {"ab ca ab", "abba abba ab"}) {
    const auto [own, greedy] = of_the_last(run.dataset->codec()->encode(text), 1);  // " ab"
    nll += own / 2;
    right += greedy / 2.0;
  }
  EXPECT_NEAR(metrics.at("nll"), nll, 1e-9);
  EXPECT_NEAR(metrics.at("perplexity"), std::exp(nll), 1e-7);
  EXPECT_EQ(metrics.at("accuracy"), right);
  EXPECT_EQ(metrics.at("cut"), 0);
}

TEST_F(Gpt2, IsAskedForTheLikeliestChoice) {
  BuiltRun run = begun(weights_.tensors);
  const Metrics metrics = asked(run, "choices");
  const auto tokens = [&](const std::string& text) { return run.dataset->codec()->encode(text); };
  double right = 0, normalised = 0;
  for (const auto& [context, choices, label] :
       {std::tuple{std::string("ab ca"), std::vector<std::string>{"ab", "bcb", "cab"}, 2},
        std::tuple{std::string("c"), std::vector<std::string>{"abab", "a"}, 0}}) {
    Row nll, per_character;
    for (const std::string& choice : choices) {
      const std::vector<std::int64_t> whole = tokens(context + " " + choice);
      nll.push_back(of_the_last(whole, whole.size() - tokens(context).size()).first);
      per_character.push_back(nll.back() / double(choice.size()));
    }
    const auto lowest = [](const Row& row) {
      return std::min_element(row.begin(), row.end()) - row.begin();
    };
    right += lowest(nll) == label ? 0.5 : 0;
    normalised += lowest(per_character) == label ? 0.5 : 0;
  }
  EXPECT_EQ(metrics.at("accuracy"), right);
  EXPECT_EQ(metrics.at("accuracy_normalised"), normalised);
}

TEST_F(Gpt2, IsShippedAsAnExperimentWithItsQuestions) {
  const Catalogue& catalogue = testing::registry().catalogue();
  const Experiment experiment =
      load_experiment(config("/experiments/accuracy/gpt2.yaml"), {}, catalogue);
  const auto entries = [&](const std::string& file) {
    return evaluations_of(with_evaluations(experiment, config("/evaluations/" + file), catalogue),
                          catalogue)
        .size();
  };
  EXPECT_EQ(entries("language_lambada.yaml"), 1U);
  EXPECT_EQ(entries("language_choices.yaml"), 4U);
}

}  // namespace
}  // namespace attnlab::gpt2_test

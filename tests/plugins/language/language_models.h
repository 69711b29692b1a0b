// What tests of language models begin with: data, batches, passes, and layers written out.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "tests/support/plugins.h"

namespace attnlab::testing {

constexpr std::int64_t kWords = 17;

inline DatasetInfo text_of(std::int64_t window, std::int64_t vocabulary = kWords,
                           bool padded = false) {
  DatasetInfo data;
  data.name = "text";
  data.vocabulary = vocabulary;
  data.fields = {{"tokens", {window}, at::kLong}, {"targets", {window}, at::kLong}};
  if (padded) data.fields.push_back({"tokens_valid", {window}, at::kBool});
  return data;
}

inline Tensor words(at::IntArrayRef sizes, std::uint64_t seed = 1) {
  at::manual_seed(seed);
  return at::randint(kWords, sizes, at::kLong);
}

/// Each token is to be followed by the next, the last one by the first.
inline Batch lines(const Tensor& tokens) {
  Batch batch;
  batch.size = tokens.size(0);
  batch.fields = {{"tokens", tokens}, {"targets", tokens.roll(-1, 1)}};
  return batch;
}

inline Batch prompt(const Tensor& tokens) {
  Batch batch;
  batch.size = tokens.size(0);
  batch.fields = {{"tokens", tokens}};
  return batch;
}

inline Tensor output(Model& model, const Batch& batch, NamedTensors* carried = nullptr) {
  const at::NoGradGuard no_gradients;
  ForwardPass pass;
  pass.carried = carried;
  const NamedTensors outputs = model.forward(batch, pass);
  EXPECT_EQ(outputs.size(), 1U);
  return outputs.begin()->second;
}

/// In float64 and evaluation, parameters off their starts: those of 0.02 hide what goes wrong.
inline std::shared_ptr<Model> settled(std::shared_ptr<Model> model) {
  model->to(at::kDouble);
  model->eval();
  const at::NoGradGuard no_gradients;
  at::manual_seed(11);
  for (Tensor& parameter : model->parameters()) {
    parameter.add_(at::randn(parameter.sizes(), parameter.options()), 0.3);
  }
  return model;
}

inline void expect_equal(const Tensor& found, const Tensor& expected, const std::string& what = "",
                         double tolerance = 1e-10) {
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_LE((found - expected).abs().max().item<double>(), tolerance) << what;
}

/// A token that changes changes nothing before it, and something at its own place.
/// @param nll  the model's, of one line
inline void expect_no_sight_of_the_future(const std::function<Tensor(const Batch&)>& nll,
                                          const Batch& line, const std::string& what) {
  const Tensor before = nll(line), tokens = line.fields.at("tokens");
  for (std::int64_t t = 1; t < tokens.size(1); ++t) {
    Batch other = line;
    const Tensor changed = tokens.clone();
    changed.narrow(1, t, 1).add_(1).remainder_(kWords);
    other.fields.set("tokens", changed);
    const Tensor after = nll(other);
    expect_equal(after.narrow(1, 0, t), before.narrow(1, 0, t), what, 1e-12);
    EXPECT_GT((after - before).narrow(1, t, 1).abs().max().item<double>(), 1e-6) << what;
  }
}

/// Lines of these lengths give the same alone and padded. @returns what they give padded.
inline Tensor expect_same_alone(Model& model, Batch batch, const Tensor& lengths,
                                const std::string& what) {
  const std::int64_t window = batch.fields.at("tokens").size(1);
  batch.fields.set("tokens_valid", at::arange(window) < lengths.unsqueeze(1));
  const Tensor nll = output(model, batch);
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const std::int64_t length = lengths[b].item<std::int64_t>();
    Batch alone;
    alone.size = 1;
    for (const char* name : {"tokens", "targets"}) {
      alone.fields.set(name, batch.fields.at(name).narrow(0, b, 1).narrow(1, 0, length));
    }
    expect_equal(nll.narrow(0, b, 1).narrow(1, 0, length), output(model, alone), what);
  }
  return nll;
}

/// A model's parameters by name, where a bias that is not there is 0.
class Parameters {
 public:
  explicit Parameters(const Model& model) {
    for (const auto& item : model.named_parameters()) all_[item.key()] = item.value().detach();
  }
  const Tensor& at(const std::string& name) const { return all_.at(name); }
  Tensor linear(const Tensor& x, const std::string& name) const {
    const Tensor y = at::matmul(x, at(name + ".weight").t());
    return all_.count(name + ".bias") > 0 ? y + at(name + ".bias") : y;
  }
  Tensor norm(const Tensor& x, const std::string& name) const {
    const Tensor away = x - x.mean(-1, true);
    const Tensor y = away / ((away * away).mean(-1, true) + 1e-5).sqrt() * at(name + ".weight");
    return all_.count(name + ".bias") > 0 ? y + at(name + ".bias") : y;
  }

 private:
  std::map<std::string, Tensor> all_;
};

/// The logit of query i for key j of one head; keys count from the first one of memory.
using NaiveLogit = std::function<double(std::int64_t head, const Tensor& query, const Tensor& key,
                                        std::int64_t i, std::int64_t j)>;

/// softmax over the keys 0 .. i + memory, one query and head after the other.
/// @param x, sources  [L, dim] and [memory + L, dim]
inline Tensor naive_attention(const Parameters& p, const std::string& name, const Tensor& x,
                              const Tensor& sources, std::int64_t heads, const NaiveLogit& logit) {
  const std::int64_t dim = x.size(1), width = dim / heads, memory = sources.size(0) - x.size(0);
  const Tensor q = p.linear(x, name + ".qkv").narrow(1, 0, dim);
  const Tensor kv = p.linear(sources, name + ".qkv").narrow(1, dim, 2 * dim);
  const Tensor out = at::zeros_like(x);
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto of_head = [&](const Tensor& y, std::int64_t first) {
      return y.narrow(1, first + h * width, width);
    };
    const Tensor queries = of_head(q, 0), keys = of_head(kv, 0), values = of_head(kv, dim);
    for (std::int64_t i = 0; i < x.size(0); ++i) {
      std::vector<double> weights;
      double sum = 0;
      for (std::int64_t j = 0; j <= i + memory; ++j) {
        weights.push_back(std::exp(logit(h, queries[i], keys[j], i, j)));
        sum += weights.back();
      }
      for (std::int64_t j = 0; j <= i + memory; ++j) {
        out[i].narrow(0, h * width, width).add_(values[j] * (weights[std::size_t(j)] / sum));
      }
    }
  }
  return p.linear(out, name + ".output");
}

/// -log softmax of the plain, tied table.
inline Tensor naive_nll(const Parameters& p, const Tensor& hidden, const Tensor& targets) {
  const Tensor logits = p.linear(hidden, "table");
  Tensor nll = at::zeros({hidden.size(0)}, hidden.options());
  for (std::int64_t i = 0; i < hidden.size(0); ++i) {
    nll[i] = logits[i].exp().sum().log() - logits[i][targets[i]];
  }
  return nll;
}

/// A language model whose layers are told of places, settled. @param kind  of attention.positions
inline std::shared_ptr<Model> model_at_places(const std::string& id, const DatasetInfo& data,
                                              const std::string& options,
                                              const std::string& attention,
                                              const std::string& kind) {
  at::manual_seed(3);
  Part part = make_part(Kind::attention, attention);
  part.positions.use = kind;
  const AttentionBuilder builder = registry().attention_builder(part, RandomStreams(0));
  return settled(registry().model(make_part(Kind::model, id, options), {data, builder}));
}

/// Installed attentions that have all of these traits; not those that couple queries.
inline std::vector<std::string> attentions_with_all(const std::vector<std::string>& traits) {
  std::vector<std::string> all = attentions_with(traits.front());
  for (const std::string& trait : traits) {
    const std::vector<std::string> having = attentions_with(trait);
    std::erase_if(all, [&](const std::string& name) {
      return std::find(having.begin(), having.end(), name) == having.end();
    });
  }
  EXPECT_GE(all.size(), 12U) << "a loop over too few shows nothing";
  return all;
}

}  // namespace attnlab::testing

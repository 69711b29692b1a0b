// Transformer-XL: its memory against the whole text and against loops over layers and pairs.
#include "tests/plugins/language/language_models.h"
#include "tests/support/data_files.h"

namespace attnlab::transformer_xl_test {
namespace {

using ::testing::HasSubstr;
using namespace testing;

constexpr std::int64_t kWindow = 4, kDim = 8, kHeads = 2, kWidth = kDim / kHeads;

std::string sizes(const std::string& more = "") {
  return "{dim: 8, depth: 2, heads: 2, hidden: 12, softmax: plain" + more + "}";
}

std::shared_ptr<Model> xl(const std::string& more = "", const std::string& attention = "standard",
                          const DatasetInfo& data = text_of(kWindow)) {
  at::manual_seed(3);
  return settled(make_model("transformer_xl", data, sizes(more), attention));
}

std::vector<std::string> usable() {
  return attentions_with_all({"causal", "different_lengths", "relative_positions"});
}

/// Segment after segment, each with what the ones before left. @returns [B, all tokens].
/// @param first  tokens of the first segment
Tensor in_segments(Model& model, const Batch& whole, std::int64_t length, std::int64_t first) {
  NamedTensors carried;
  std::vector<Tensor> parts;
  const std::int64_t all = whole.fields.at("tokens").size(1);
  for (std::int64_t begin = 0, n = first; begin < all; begin += n, n = length) {
    Batch part = whole;
    for (const auto& [name, tensor] : whole.fields) {
      part.fields.set(name, tensor.narrow(1, begin, std::min(n, all - begin)));
    }
    part.continues = begin > 0;
    parts.push_back(output(model, part, &carried));
  }
  return at::cat(parts, 1);
}
Tensor in_segments(Model& model, const Batch& whole, std::int64_t length = kWindow) {
  return in_segments(model, whole, length, length);
}

TEST(TransformerXl, HasThePublishedSize) {
  const auto model = make_model("transformer_xl", text_of(150, 267735), "{preset: standard}");
  EXPECT_EQ(parameter_count(*model), 151'107'538) << "151M";
}

TEST(TransformerXl, StartsAsPublished) {
  at::manual_seed(1);
  const auto model =
      make_model("transformer_xl", text_of(150, 500), "{preset: standard, depth: 2}");
  const Parameters p(*model);
  const auto deviation = [](const Tensor& x) { return x.std().item<double>(); };
  for (const char* name : {"table.weight", "layer0.places.weight", "layer1.layer.mlp.in.weight",
                           "layer1.layer.mlp.out.weight", "layer0.layer.attention.qkv.weight",
                           "layer0.layer.attention.output.weight"}) {
    EXPECT_NEAR(deviation(p.at(name)), 0.02, 3e-4) << name;
    EXPECT_NEAR(p.at(name).mean().item<double>(), 0, 3e-4) << name;
  }
  for (const char* name : {"content_bias", "position_bias"}) {
    EXPECT_NEAR(deviation(p.at(name)), 0.02, 3e-3) << name;
  }
  for (const char* name : {"layer0.layer.attention_norm.weight", "layer1.layer.mlp_norm.weight"}) {
    EXPECT_NEAR(p.at(name).mean().item<double>(), 1, 5e-3) << name;
    EXPECT_NEAR(deviation(p.at(name)), 0.02, 3e-3) << name;
  }
  for (const char* name : {"table.bias", "layer0.layer.mlp.in.bias", "layer1.layer.mlp.out.bias",
                           "layer1.layer.mlp_norm.bias"}) {
    EXPECT_TRUE(p.at(name).eq(0).all().item<bool>()) << name;
  }
  for (const auto& item : model->named_parameters()) {
    EXPECT_THAT(item.key(), ::testing::Not(HasSubstr("qkv.bias")));
    EXPECT_THAT(item.key(), ::testing::Not(HasSubstr("output.bias")));
    EXPECT_THAT(item.key(), ::testing::Not(HasSubstr("places.bias")));
  }
}

TEST(TransformerXl, SharesItsBiasesAmongLayersUnlessTold) {
  const auto count = [](const std::string& more) { return parameter_count(*xl(more)); };
  EXPECT_EQ(count("") - count(", biases: none"), 2 * kDim);
  EXPECT_EQ(count(", biases: layer") - count(", biases: none"), 2 * 2 * kDim);
}

TEST(TransformerXl, InSegmentsGivesWhatTheWholeTextGives) {
  const Batch two = lines(words({2, 2 * kWindow})), three = lines(words({2, 3 * kWindow}));
  for (const std::string& attention : usable()) {
    for (const std::string& more : {std::string(), std::string(", biases: layer, norm: first"),
                                    std::string(", position_term: plain, clamp_length: 2")}) {
      const auto model = xl(more, attention);
      expect_equal(in_segments(*model, two), output(*model, two), attention + more);
      const auto longer = xl(more + ", memory: 8", attention);
      expect_equal(in_segments(*longer, three), output(*longer, three), attention + more);
    }
  }
}

/// What the options change of the logits.
struct Naive {
  std::int64_t memory = kWindow, clamp = 0, window = 0;
  bool quest = false, plain = false;
};

/// S(d), [dim].
Tensor sinusoid(double distance) {
  Tensor row = at::zeros({kDim}, at::kDouble);
  for (std::int64_t c = 0; c < kDim; ++c) {
    const double rate = std::pow(10000.0, -2.0 * double(c % (kDim / 2)) / double(kDim));
    row[c] = c < kDim / 2 ? std::sin(distance * rate) : std::cos(distance * rate);
  }
  return row;
}

/// One line, segment after segment, written out. @param tokens, targets  [L]
Tensor naive(const Model& model, const Tensor& tokens, const Tensor& targets, const Naive& how) {
  const Parameters p(model);
  std::vector<Tensor> memory(2), parts;
  for (std::int64_t begin = 0; begin < tokens.size(0); begin += kWindow) {
    Tensor x = p.at("table.weight").index_select(0, tokens.narrow(0, begin, kWindow)) *
               std::sqrt(double(kDim));
    for (std::size_t l = 0; l < 2; ++l) {
      const std::string layer = "layer" + std::to_string(l) + ".";
      const Tensor sources = memory[l].defined() ? at::cat({memory[l], x}) : x;
      const std::int64_t before = sources.size(0) - x.size(0);
      const auto unit = [](const Tensor& y) { return y / y.norm(); };
      const double scale = how.quest ? 1 : 1 / std::sqrt(double(kWidth));
      const NaiveLogit logit = [&](std::int64_t h, const Tensor& q, const Tensor& k, std::int64_t i,
                                   std::int64_t j) {
        const std::int64_t distance = i + before - j;
        if (how.window > 0 && distance >= how.window)
          return -std::numeric_limits<double>::infinity();
        const Tensor sine =
            sinusoid(double(how.clamp > 0 ? std::min(distance, how.clamp) : distance));
        const Tensor r = p.linear(sine, layer + "places").narrow(0, h * kWidth, kWidth);
        const Tensor content = q + p.at("content_bias")[h], place = q + p.at("position_bias")[h];
        const Tensor key = how.quest ? unit(k) : k;
        const Tensor of_place = how.quest && !how.plain ? unit(r) : r;
        return content.dot(key).item<double>() * scale +
               place.dot(of_place).item<double>() *
                   (how.plain ? 1 / std::sqrt(double(kWidth)) : scale);
      };
      memory[l] = sources.narrow(0, std::max<std::int64_t>(0, sources.size(0) - how.memory),
                                 std::min(how.memory, sources.size(0)));
      const std::string inner = layer + "layer.";
      x = p.norm(x + naive_attention(p, inner + "attention", x, sources, kHeads, logit),
                 inner + "attention_norm");
      x = p.norm(x + p.linear(p.linear(x, inner + "mlp.in").clamp_min(0), inner + "mlp.out"),
                 inner + "mlp_norm");
    }
    parts.push_back(naive_nll(p, x, targets.narrow(0, begin, kWindow)));
  }
  return at::cat(parts);
}

TEST(TransformerXl, IsLoopsOverLayersAndPairs) {
  struct Case {
    std::string more;
    Naive how;
  };
  const Case cases[] = {
      {"", {}},
      {", memory: 3", {.memory = 3}},
      {", memory: 6, clamp_length: 5", {.memory = 6, .clamp = 5}},
      {", memory: 5, same_length: true", {.memory = 5, .window = 5}},
  };
  const Batch batch = lines(words({1, 3 * kWindow}));
  const auto line = [&](const char* name) { return batch.fields.at(name)[0]; };
  for (Case one : cases) {
    for (const bool quest : {false, true}) {
      for (const bool plain : {false, true}) {
        one.how.quest = quest, one.how.plain = plain;
        const auto model =
            xl(one.more + (plain ? ", position_term: plain" : ""), quest ? "quest" : "standard");
        expect_equal(in_segments(*model, batch)[0],
                     naive(*model, line("tokens"), line("targets"), one.how),
                     one.more + (quest ? " quest" : "") + (plain ? " plain" : ""));
      }
    }
  }
}

TEST(TransformerXl, NeverSeesTheFuture) {
  for (const std::string& attention : usable()) {
    const auto model = xl("", attention);
    expect_no_sight_of_the_future([&](const Batch& line) { return in_segments(*model, line); },
                                  lines(words({1, 3 * kWindow})), attention);
  }
}

TEST(TransformerXl, SeesAsFarAsItsMemory) {
  const Batch batch = lines(words({1, 3 * kWindow}));
  Batch other = batch;
  const Tensor tokens = batch.fields.at("tokens").clone();
  tokens[0][0].add_(1).remainder_(kWords);
  other.fields.set("tokens", tokens);
  const auto reached = [&](const std::string& memory) {
    const auto model = xl(", memory: " + memory);
    return (in_segments(*model, other) - in_segments(*model, batch)).abs()[0].gt(1e-9);
  };
  // Each layer reaches a memory further back: two layers, so two segments.
  EXPECT_FALSE(reached("0").narrow(0, kWindow, 2 * kWindow).any().item<bool>());
  EXPECT_TRUE(reached("4").narrow(0, kWindow, 2 * kWindow).any().item<bool>());
}

TEST(TransformerXl, LeavesNothingWhereNothingFollowsOrThereIsNoMemory) {
  NamedTensors carried;
  output(*xl(", memory: 0"), lines(words({2, kWindow})), &carried);
  EXPECT_EQ(carried.size(), 0U);
  output(*xl(), lines(words({2, kWindow})), nullptr);
}

TEST(TransformerXl, NoGradientFlowsIntoTheMemory) {
  const auto model = xl();
  const Batch first = lines(words({2, kWindow}));
  Batch second = lines(words({2, kWindow}, 2));
  second.continues = true;
  NamedTensors carried;
  ForwardPass pass;
  pass.carried = &carried;
  model->forward(first, pass);
  for (const auto& [name, tensor] : carried) EXPECT_FALSE(tensor.requires_grad()) << name;
  NamedTensors copies;  // numbers alone, which no gradient leads through
  for (const auto& [name, tensor] : carried) {
    copies.set(name, tensor.detach().clone().requires_grad_());
  }
  model->forward(second, pass).at("nll").sum().backward();
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : model->parameters()) {
    gradients.push_back(parameter.grad().clone());
    parameter.mutable_grad().zero_();
  }
  const NamedTensors memory = copies;
  pass.carried = &copies;
  model->forward(second, pass).at("nll").sum().backward();
  ASSERT_GT(memory.size(), 0U);
  for (const auto& [name, tensor] : memory) {
    EXPECT_GT(tensor.grad().abs().max().item<double>(), 1e-6) << name << " is what the loss sees";
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    expect_equal(model->parameters()[i].grad(), gradients[i], "", 1e-9);
  }
}

TEST(TransformerXl, GivesALineTheSameAloneAndPadded) {
  for (const std::string& attention : usable()) {
    const auto model = xl("", attention, text_of(kWindow, kWords, true));
    expect_same_alone(*model, lines(words({3, kWindow})), at::tensor({2, 4, 3}, at::kLong),
                      attention);
  }
}

TEST(TransformerXl, WritesFromCachedKeysWhatTheWholeTextGives) {
  const Tensor tokens = words({2, 2 * kWindow - 1});
  for (const std::string& attention : usable()) {
    for (const std::string& more :
         {std::string(), std::string(", clamp_length: 3, norm: first"),
          std::string(", position_term: plain"), std::string(", same_length: true")}) {
      const auto model = xl(more, attention);
      NamedTensors carried;
      output(*model, prompt(tokens.narrow(1, 0, 3)), &carried);
      for (std::int64_t t = 3; t < tokens.size(1); ++t) {
        expect_equal(output(*model, prompt(tokens.narrow(1, t, 1)), &carried),
                     output(*model, prompt(tokens.narrow(1, 0, t + 1))), attention + more);
      }
    }
  }
}

/// Without relative positions, with those of `attention.positions`.
std::shared_ptr<Model> placed(const std::string& more, const std::string& attention,
                              const std::string& kind) {
  return model_at_places("transformer_xl", text_of(kWindow), sizes(", positions: none" + more),
                         attention, kind);
}

TEST(TransformerXl, ReachesIntoItsMemoryByOtherPositionsToo) {
  const Batch batch = lines(words({2, 3 * kWindow}));
  const Tensor tokens = batch.fields.at("tokens");
  for (const char* kind : {"none", "rotary", "alibi", "t5"}) {
    for (const char* attention : {"standard", "quest"}) {
      const std::string what = std::string(kind) + ", " + attention;
      const auto longer = placed(", memory: 8", attention, kind);
      EXPECT_EQ(longer->named_parameters().find("content_bias"), nullptr);
      expect_equal(in_segments(*longer, batch), output(*longer, batch), what, 1e-9);
      // Written token by token it forgets the same tokens: places count anew, differences stay.
      const auto reader = placed(", memory: 7", attention, kind);
      const auto writer = placed("", attention, kind);
      const Tensor read = in_segments(*reader, batch, 1);
      NamedTensors carried;
      for (std::int64_t t = 0; t < 3 * kWindow; ++t) {
        const Tensor logits = output(*writer, prompt(tokens.narrow(1, t, 1)), &carried);
        expect_equal(-logits.gather(1, batch.fields.at("targets").narrow(1, t, 1)),
                     read.narrow(1, t, 1), what + ", token " + std::to_string(t), 1e-9);
      }
    }
  }
}

TEST(TransformerXl, RefusesPositionsThatItCannotCombine) {
  EXPECT_THAT(
      message_of<ConfigError>([] {
        output(*model_at_places("transformer_xl", text_of(kWindow), sizes(), "standard", "rotary"),
               lines(words({1, kWindow})));
      }),
      HasSubstr("set model.positions to none"));
  EXPECT_THAT(message_of<TraitError>([] { placed("", "linear", "rotary"); }),
              HasSubstr("choose another attention, or transformer_lm"));
}

TEST(TransformerXl, ReadsALongTextInWindowsAsAnEvaluationDoes) {
  for (const std::string& more :
       {std::string(), std::string(", memory: 0"), std::string(", memory: 3, clamp_length: 2"),
        std::string(", memory: 6, norm: first"), std::string(", same_length: true")}) {
    const auto model = xl(more);
    const std::int64_t longest = 6 + kWindow;  // the longest memory, and a window
    for (const std::int64_t length : {3, 4, 5, 8, 11, 30}) {
      const std::string what = more + ", " + std::to_string(length) + " tokens";
      const Batch batch = lines(words({2, length}));
      NamedTensors carried;
      const Tensor next = output(*model, prompt(batch.fields.at("tokens")), &carried);
      const Tensor last = batch.fields.at("targets").narrow(1, length - 1, 1);
      const std::int64_t first = length % kWindow == 0 ? kWindow : length % kWindow;
      const Tensor read = in_segments(*model, batch, kWindow, first);
      expect_equal(-next.gather(1, last), read.narrow(1, length - 1, 1), what);
      // What is kept, and what was mapped, do not grow with the text.
      EXPECT_LE(carried.at("keys0").size(2), longest) << what;
      EXPECT_LE(carried.at("places0").size(2), longest) << what;
    }
  }
}

TEST(TransformerXl, WritesAsItReadsWithAMemory) {
  const auto model = xl(", memory: 7");  // tokens one by one see 7 before them, as cached keys do
  const auto writer = xl();              // window 4 and memory 4: the last of a segment sees 7
  const Batch batch = lines(words({1, 20}));
  const Tensor read = in_segments(*model, batch, 1);
  NamedTensors carried;
  for (std::int64_t t = 0; t < 20; ++t) {
    const Tensor logits =
        output(*writer, prompt(batch.fields.at("tokens").narrow(1, t, 1)), &carried);
    expect_equal(-logits.gather(1, batch.fields.at("targets").narrow(1, t, 1)),
                 read.narrow(1, t, 1), "token " + std::to_string(t));
  }
}

TEST(TransformerXl, RefusesWhatDoesNotFit) {
  const auto message = [](const std::string& more) {
    return message_of<Error>([&] { make_model("transformer_xl", text_of(4), sizes(more)); });
  };
  EXPECT_THAT(message(", memory: 0, same_length: true"), HasSubstr("needs a memory"));
  EXPECT_THAT(message(", memory: 9223372036854775807, same_length: true"),
              HasSubstr("memory: 9223372036854775807 is out of range"));
  EXPECT_THAT(message_of<Error>([] { make_model("transformer_xl", text_of(4), "{}"); }),
              HasSubstr("set preset to standard"));
}

}  // namespace
}  // namespace attnlab::transformer_xl_test

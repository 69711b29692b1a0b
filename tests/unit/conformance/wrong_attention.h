// Attentions made wrong on purpose, each in one line of a test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "framework/conformance/conformance.h"
#include "framework/nn/attention/dot_product_attention.h"

namespace attnlab::conformance::testing {

/// Standard attention, with something done to its input or its output.
class Wrong : public DotProductAttention {
 public:
  using Attend = std::function<Tensor(Wrong&, AttentionInput, AttentionContext&)>;

  Wrong(const AttentionShape& shape, Attend attend,
        const AttentionTraits& traits = AttentionTraits::all_quadratic())
      : DotProductAttention(shape, {}, traits), attend_(std::move(attend)) {}

  /// Nothing is wrong with this part.
  Tensor sound(const AttentionInput& input, AttentionContext& context) {
    return DotProductAttention::attend(input, context);
  }

  Tensor kept;  ///< for those that keep what they must not

 protected:
  Tensor attend(const AttentionInput& input, AttentionContext& context) override {
    return attend_(*this, input, context);
  }

 private:
  Attend attend_;
};

inline Subject subject(const Wrong::Attend& attend,
                       const AttentionTraits& declared = AttentionTraits::all_quadratic()) {
  return {.build =
              [=](const AttentionShape& shape) {
                return std::make_shared<Wrong>(shape, attend, declared);
              },
          .declared = declared};
}

using In = AttentionInput;
using Context = AttentionContext;

inline Tensor sound(Wrong& self, const In& in, Context& context) { return self.sound(in, context); }

/// Softmax over -inf: NaN where a row sees nothing.
inline Tensor naive(Wrong&, const In& in, Context&) {
  Tensor logits = at::matmul(in.queries, in.keys.transpose(-2, -1)) / 2;
  const Tensor visible =
      visible_pairs(in.visible, in.query_count(), in.key_count(), in.keys.device());
  if (visible.defined()) logits = logits.masked_fill(visible.logical_not(), -INFINITY);
  return at::matmul(logits.softmax(-1), in.values);
}

/// The message of a check that must fail.
inline std::string failure(std::string_view check, const Subject& of) {
  const CheckResult result = run_check(check, of);
  EXPECT_EQ(result.outcome, Outcome::failed) << check << ": " << result.message;
  return result.message;
}
inline std::string failure(std::string_view check, const Wrong::Attend& attend,
                           const AttentionTraits& declared = AttentionTraits::all_quadratic()) {
  return failure(check, subject(attend, declared));
}

}  // namespace attnlab::conformance::testing

namespace attnlab::conformance {

// The words that tests of the checks are written in.
using ::testing::AllOf;
using testing::Context;
using testing::failure;
using ::testing::HasSubstr;
using testing::In;
using testing::naive;
using testing::sound;
using ::testing::StartsWith;
using testing::subject;
using testing::Wrong;

}  // namespace attnlab::conformance

// What the checks of member_checks.cpp find.
#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::member_checks_test {
namespace {

using attnlab::testing::mentions;
using attnlab::testing::says;

/// With one number that all heads share.
class OneScale final : public DotProductAttention {
 public:
  OneScale(const AttentionShape& shape, bool of_each_member)
      : DotProductAttention(shape),
        scale_(register_parameter("scale", at::ones({of_each_member ? shape.members : 1}))) {}

 protected:
  Tensor map_queries(const Tensor& q, AttentionContext&) const override { return q * scale_[0]; }

 private:
  Tensor scale_;
};

TEST(ConformanceKit, FindsWhatMembersShare) {
  const auto build = [](bool of_each_member) {
    return Subject{.build =
                       [=](const AttentionShape& shape) {
                         return std::make_shared<OneScale>(shape, of_each_member);
                       },
                   .declared = AttentionTraits::all_quadratic()};
  };
  EXPECT_THAT(
      failure("members", build(false)),
      says({"2 members", "layer 0", "parameter scale is [1] float64", "AttentionShape::members"}));
  EXPECT_THAT(failure("members", build(true)), HasSubstr("member 1 of 2, against it alone"));
}

TEST(ConformanceKit, FindsQueriesThatDependOnEachOther) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    const Tensor out = self.sound(in, context);
    return out + out.mean(2, true);
  };
  EXPECT_THAT(failure("queries", attend), mentions("query 0", "alone", "among 4"));
}

}  // namespace
}  // namespace attnlab::conformance::member_checks_test

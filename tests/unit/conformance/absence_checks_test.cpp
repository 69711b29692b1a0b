// What the checks of absence_checks.cpp find.
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::absence_checks_test {
namespace {

TEST(ConformanceKit, FindsPaddingThatIsSeen) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.visible.key_valid = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("padding", attend),
              StartsWith("no extras, both tails padded, example 0, against its real tokens alone: "
                         "output of layer 0 at ["));
}

TEST(ConformanceKit, FindsPaddingThatIsCounted) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) / static_cast<double>(in.key_count());
  };
  EXPECT_THAT(failure("padding", attend), HasSubstr("against its real tokens alone"));
}

TEST(ConformanceKit, FindsSequencesThatSeeEachOther) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.visible.query_offsets = in.visible.key_offsets = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("ragged", attend),
              StartsWith("no extras, ragged, B 1, Lq 7, Lk 7, against its sequences one by one: "
                         "output of layer 0 at ["));
}

TEST(ConformanceKit, FindsNanInRowsThatSeeNothing) {
  EXPECT_THAT(failure("empty_rows", naive),
              AllOf(StartsWith("all keys of example 1 are padding (float64): output of layer 0 at "
                               "[1, 0, 0, 0] is "),
                    HasSubstr("nan")));
}

TEST(ConformanceKit, FindsNanInGradientsBehindZeros) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return naive(self, in, context).nan_to_num(0);
  };
  EXPECT_THAT(failure("empty_rows", attend), HasSubstr("gradient of layer 0: "));
}

TEST(ConformanceKit, FindsRowsThatSeeNothingAndGiveSomething) {
  const auto attend = [](Wrong& self, const In& in, Context& context) {
    return self.sound(in, context) + 1;
  };
  EXPECT_THAT(failure("empty_rows", attend), HasSubstr("rows that see nothing, layer 0 at [1, 0"));
}

}  // namespace
}  // namespace attnlab::conformance::absence_checks_test

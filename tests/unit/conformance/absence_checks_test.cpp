// What the checks of absence_checks.cpp find.
#include "tests/support/message_of.h"
#include "tests/unit/conformance/wrong_attention.h"

namespace attnlab::conformance::absence_checks_test {
namespace {

using attnlab::testing::mentions;

TEST(ConformanceKit, FindsPaddingThatIsSeen) {
  const auto attend = [](Wrong& self, In in, Context& context) {
    in.visible.key_valid = Tensor();
    return self.sound(in, context);
  };
  EXPECT_THAT(failure("padding", attend),
              mentions("no extras", "padded", "example 0", "output of layer 0 at ["));
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
              mentions("ragged", "Lq 7, Lk 7", "one by one", "output of layer 0 at ["));
}

TEST(ConformanceKit, FindsNanInRowsThatSeeNothing) {
  EXPECT_THAT(failure("empty_rows", naive), mentions("example 1", "padding (float64)",
                                                     "output of layer 0 at [1, 0, 0, 0]", "nan"));
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
  EXPECT_THAT(failure("empty_rows", attend), mentions("see nothing", "layer 0 at [1, 0"));
}

}  // namespace
}  // namespace attnlab::conformance::absence_checks_test
